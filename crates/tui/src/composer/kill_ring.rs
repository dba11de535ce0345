//! What was deleted by whole words and lines, to be inserted again.

/// Older ones are forgotten.
const MAX: usize = 60;

/// Where the deleted text stood as seen from the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before it.
    Left,
    /// Behind it.
    Right,
}

/// The deleted texts, the newest last.
#[derive(Debug, Clone, Default)]
pub struct KillRing {
    texts: Vec<String>,
}

impl KillRing {
    /// Takes in what was deleted. `joined`: right after another deletion, whose
    /// text it becomes part of.
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

    /// Whether there is more than one text.
    pub fn has_several(&self) -> bool {
        self.texts.len() > 1
    }

    /// The text deleted `back` deletions ago, round and round.
    pub fn get(&self, back: usize) -> Option<&str> {
        let count = self.texts.len();
        let index = count.checked_sub(1)? - back % count;
        self.texts.get(index).map(String::as_str)
    }
}
