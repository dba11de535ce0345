//! Vi registers.

use std::collections::HashMap;

/// The text in a register.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegisterText {
    pub text: String,
    /// Whether it consists of whole lines; the last line break is not in the text.
    pub lines: bool,
}

/// The registers: `"` (the last one used), `0` (the last yank), `a` to `z`, `_`.
#[derive(Debug, Clone, Default)]
pub struct Registers {
    texts: HashMap<char, RegisterText>,
}

impl Registers {
    /// Stores text. An uppercase name appends to the register; `_` discards.
    pub fn store(&mut self, name: Option<char>, kept: RegisterText, copied: bool) {
        match name {
            Some('_') => return,
            Some(name) if name.is_ascii_uppercase() => {
                let register = self.texts.entry(name.to_ascii_lowercase()).or_default();
                if register.lines || kept.lines {
                    register.text = match register.text.as_str() {
                        "" => kept.text,
                        text => format!("{text}\n{}", kept.text),
                    };
                    register.lines = true;
                } else {
                    register.text.push_str(&kept.text);
                }
                let all = register.clone();
                self.texts.insert('"', all);
                return;
            }
            Some(name) if name.is_ascii_lowercase() => {
                self.texts.insert(name, kept.clone());
            }
            _ if copied => {
                self.texts.insert('0', kept.clone());
            }
            _ => {}
        }
        self.texts.insert('"', kept);
    }

    /// Returns the contents of a register, by default of the last one used.
    pub fn get(&self, name: Option<char>) -> Option<&RegisterText> {
        let name = match name {
            Some(name @ ('a'..='z' | '0')) => name,
            Some(name @ 'A'..='Z') => name.to_ascii_lowercase(),
            Some('_') => return None,
            _ => '"',
        };
        self.texts.get(&name)
    }
}
