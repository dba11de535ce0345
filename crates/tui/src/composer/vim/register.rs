//! Where deleted and copied text is kept.

use std::collections::HashMap;

/// Kept text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    pub text: String,
    /// Whole lines; the last break is not in the text.
    pub lines: bool,
}

/// The registers: `"` (the last one used), `0` (the last copy), `a` to `z`, `_`.
#[derive(Debug, Clone, Default)]
pub struct Registers {
    kept: HashMap<char, Kept>,
}

impl Registers {
    /// Keeps text. An upper-case name adds to the register; `_` forgets.
    pub fn put(&mut self, name: Option<char>, kept: Kept, copied: bool) {
        match name {
            Some('_') => return,
            Some(name) if name.is_ascii_uppercase() => {
                let own = self.kept.entry(name.to_ascii_lowercase()).or_default();
                if own.lines || kept.lines {
                    own.text = match own.text.as_str() {
                        "" => kept.text,
                        text => format!("{text}\n{}", kept.text),
                    };
                    own.lines = true;
                } else {
                    own.text.push_str(&kept.text);
                }
                let all = own.clone();
                self.kept.insert('"', all);
                return;
            }
            Some(name) if name.is_ascii_lowercase() => {
                self.kept.insert(name, kept.clone());
            }
            _ if copied => {
                self.kept.insert('0', kept.clone());
            }
            _ => {}
        }
        self.kept.insert('"', kept);
    }

    /// What a register keeps; without a name the last one used.
    pub fn get(&self, name: Option<char>) -> Option<&Kept> {
        let name = match name {
            Some(name @ ('a'..='z' | '0')) => name,
            Some(name @ 'A'..='Z') => name.to_ascii_lowercase(),
            Some('_') => return None,
            _ => '"',
        };
        self.kept.get(&name)
    }
}
