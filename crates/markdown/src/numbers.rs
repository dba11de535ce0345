//! Numbering of ordered lists.

/// The current number of a list. Items use the number in the source; a repeated number (`1.` before
/// each) is incremented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The number written before the last item.
    last_number: Option<u64>,
    next: u64,
}

impl Numbers {
    /// Creates the numbering of a list that begins with this number.
    pub(super) fn from(start: u64) -> Self {
        Self { last_number: None, next: start }
    }

    /// Returns the marker of the item that begins at `at` in the source, with its number.
    pub(super) fn marker(&mut self, source: &str, at: usize) -> String {
        let text = source.get(at..).unwrap_or("").trim_start();
        let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        let written = text.get(..end).and_then(|digits| digits.parse().ok());
        let number = match written {
            Some(written) if self.last_number != Some(written) => written,
            _ => self.next,
        };
        self.last_number = written;
        self.next = number.saturating_add(1);
        let delimiter =
            if text.get(end..).is_some_and(|it| it.starts_with(')')) { ')' } else { '.' };
        format!("{number}{delimiter} ")
    }
}
