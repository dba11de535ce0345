//! The kill ring: text deleted by words and lines, which can be inserted again.

/// Maximum number of entries.
const MAX: usize = 60;

/// The position of the deleted text relative to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before the cursor.
    Left,
    /// After the cursor.
    Right,
}

/// The deleted strings, newest last.
#[derive(Debug, Clone, Default)]
pub struct KillRing {
    texts: Vec<String>,
}

impl KillRing {
    /// Adds deleted text. `joined` is whether it directly follows another deletion and is merged
    /// with its text.
    pub fn push(&mut self, text: String, side: Side, joined: bool) {
        if text.is_empty() {
            return;
        }
        match self.texts.last_mut().filter(|_| joined) {
            Some(last) if side == Side::Left => last.insert_str(0, &text),
            Some(last) => last.push_str(&text),
            None => {
                self.texts.push(text);
                if self.texts.len() > MAX {
                    self.texts.remove(0);
                }
            }
        }
    }

    /// Whether nothing was deleted yet.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Whether there are several entries.
    pub fn has_several(&self) -> bool {
        self.texts.len() > 1
    }

    /// Returns the text deleted `back` deletions ago, wrapping around.
    pub fn get(&self, back: usize) -> Option<&str> {
        let count = self.texts.len();
        let index = count.checked_sub(1)? - back % count;
        self.texts.get(index).map(String::as_str)
    }
}
