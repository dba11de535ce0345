//! A single-line text field for searches, keys, patterns, and feedback.

use parallax_screen::{Key, KeyCode, Line, Modifiers, Span, text_width};
use unicode_segmentation::UnicodeSegmentation;

use super::{DialogKey, DialogResponse, DialogView};
use crate::layout::hint_row;
use crate::theme::Theme;
use crate::tokens::{FAILED, SEARCH};

/// Maximum size of the text in bytes. Pasted text beyond it is dropped.
const LIMIT: usize = 16 * 1024;

/// Editable single-line text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    text: String,
    /// The cursor in bytes, always at a grapheme cluster boundary.
    cursor: usize,
    masked: bool,
}

impl Field {
    /// Creates a field with this text and the cursor at its end.
    pub(crate) fn with(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text, masked: false }
    }

    /// Creates a field that shows dots, for secrets.
    pub(crate) fn new_masked() -> Self {
        Self { masked: true, ..Self::default() }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Handles a key. Returns whether it was an editing key.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        if let Some(char) = key.character() {
            self.insert(char.encode_utf8(&mut [0; 4]));
            return true;
        }
        let ctrl = key.modifiers == Modifiers::CTRL;
        match key.code {
            KeyCode::Backspace if ctrl || key.modifiers == Modifiers::ALT => self.erase_word(),
            KeyCode::Char('w') if ctrl => self.erase_word(),
            KeyCode::Backspace => self.erase(self.previous_boundary()..self.cursor),
            KeyCode::Char('h') if ctrl => self.erase(self.previous_boundary()..self.cursor),
            KeyCode::Delete => self.erase(self.cursor..self.next_boundary()),
            KeyCode::Char('u') if ctrl => self.erase(0..self.cursor),
            KeyCode::Char('k') if ctrl => self.erase(self.cursor..self.text.len()),
            KeyCode::Left => self.cursor = self.previous_boundary(),
            KeyCode::Right => self.cursor = self.next_boundary(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::Char('a') if ctrl => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Char('e') if ctrl => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    /// Inserts text at the cursor; line breaks become spaces.
    pub(crate) fn insert(&mut self, text: &str) {
        let room = LIMIT.saturating_sub(self.text.len());
        let mut fitting: String = text
            .chars()
            .map(|char| if matches!(char, '\n' | '\r' | '\t') { ' ' } else { char })
            .filter(|char| !char.is_control())
            .collect();
        while fitting.len() > room {
            fitting.pop();
        }
        self.text.insert_str(self.cursor, &fitting);
        self.cursor += fitting.len();
    }

    fn erase(&mut self, range: std::ops::Range<usize>) {
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    fn erase_word(&mut self) {
        let head = self.text[..self.cursor].trim_end();
        let start = head
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
        self.erase(start..self.cursor);
    }

    fn previous_boundary(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(offset, _)| offset)
    }

    fn next_boundary(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    /// Returns the part that fits into `columns` and the column of the cursor.
    pub(crate) fn row(&self, columns: usize) -> (String, usize) {
        let columns = columns.max(2);
        let shown: String = match self.masked {
            true => self.text.graphemes(true).map(|_| '•').collect(),
            false => self.text.clone(),
        };
        let cursor = match self.masked {
            true => self.text[..self.cursor].graphemes(true).count(),
            false => text_width(&self.text[..self.cursor]),
        };
        if cursor < columns {
            return (parallax_screen::truncate(&shown, columns).to_owned(), cursor);
        }
        // The part that ends at the cursor.
        let mut skipped = 0;
        let mut start = 0;
        for (offset, cluster) in shown.grapheme_indices(true) {
            if cursor - skipped < columns {
                start = offset;
                break;
            }
            skipped += parallax_screen::grapheme_width(cluster);
            start = offset + cluster.len();
        }
        let tail = parallax_screen::truncate(&shown[start..], columns).to_owned();
        (tail, cursor - skipped)
    }
}

/// Returns the row of a search, which says what it is for while it is empty, and the column of the
/// cursor. The position in what was found is at its right end.
pub(super) fn search_row(
    search: &Field,
    position_text: &str,
    width: usize,
    theme: &Theme,
) -> (Line, usize) {
    let (text, column) = search.row(width.saturating_sub(3));
    let row = Line::styled(SEARCH, theme.secondary);
    let mut row = match text.is_empty() {
        true => row.with_span("Type to search", theme.secondary),
        false => row.with_span(text, theme.text),
    };
    let room = width.saturating_sub(row.width() + 1);
    if !position_text.is_empty() && text_width(position_text) < room {
        row.push(Span::styled(format!("{position_text:>room$}"), theme.secondary));
    }
    (row, column + text_width(SEARCH))
}

/// Returns the row of a search in words, for screen readers, and the column of the cursor.
pub(super) fn spoken_search_row(search: &Field, width: usize, theme: &Theme) -> (Line, usize) {
    const WORD: &str = "search: ";
    let (row, column) = search_row(search, "", width, theme);
    let text = row.text();
    let text = text.strip_prefix(SEARCH).unwrap_or(&text);
    let column = column.saturating_sub(text_width(SEARCH)) + text_width(WORD);
    (Line::raw(format!("{WORD}{text}")), column)
}

/// A dialog with a text field: an API key, a tag, feedback for the model.
#[derive(Debug, Clone)]
pub(crate) struct FieldDialog {
    title: String,
    intro: Vec<String>,
    field: Field,
    /// The problem with the last input.
    pub(crate) problem: Option<String>,
    /// The work in progress with the text; only Esc is handled meanwhile.
    pub(crate) busy: Option<String>,
}

impl FieldDialog {
    /// Creates a dialog with a title and explanatory lines.
    pub(crate) fn new(title: impl Into<String>, intro: Vec<String>, field: Field) -> Self {
        Self { title: title.into(), intro, field, problem: None, busy: None }
    }

    pub(crate) fn key(&mut self, key: DialogKey, raw: Key) -> DialogResponse {
        match key {
            DialogKey::Cancel => DialogResponse::Closed,
            _ if self.busy.is_some() => DialogResponse::KeyPressed(raw, String::new()),
            DialogKey::Confirm => DialogResponse::Chosen(self.field.text().to_owned()),
            _ if self.field.key(raw) => {
                self.problem = None;
                DialogResponse::Stay
            }
            _ => DialogResponse::KeyPressed(raw, String::new()),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if self.busy.is_none() {
            self.field.insert(text);
        }
    }

    /// Returns the rows; at most `height` of them if that is possible.
    pub(crate) fn view(&self, width: usize, height: usize, theme: &Theme) -> DialogView {
        let title = Line::styled(self.title.clone(), theme.accent.bold());
        let mut rows = parallax_screen::wrap(&title, width, &[]);
        let mut intro = Vec::new();
        for line in &self.intro {
            let line = Line::styled(line.clone(), theme.secondary);
            intro.extend(parallax_screen::wrap(&line, width, &[]));
        }
        // Empty rows around the field and below the title, if they fit.
        let problem = usize::from(self.problem.is_some());
        let is_airy = rows.len() + intro.len() + problem + 2 + 3 <= height;
        if is_airy && !intro.is_empty() {
            rows.push(Line::EMPTY);
        }
        rows.append(&mut intro);
        if is_airy {
            rows.push(Line::EMPTY);
        }
        let (text, column) = self.field.row(width.saturating_sub(3));
        let at = rows.len();
        rows.push(Line::styled("> ", theme.accent).with_span(text, theme.text));
        if let Some(problem) = &self.problem {
            let line = Line::styled(format!("{FAILED} {problem}"), theme.error);
            rows.extend(parallax_screen::wrap(&line, width, &[Span::raw("  ")]));
        }
        if is_airy {
            rows.push(Line::EMPTY);
        }
        let hint = self.busy.as_deref().unwrap_or("enter accept · esc back");
        rows.push(Line::styled(hint_row(hint, width), theme.secondary));
        DialogView { rows, cursor: Some((column + 2, at)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(field: &mut Field, text: &str) {
        for char in text.chars() {
            field.key(Key::plain(KeyCode::Char(char)));
        }
    }

    #[test]
    fn grapheme_clusters_are_erased_as_units() {
        let mut field = Field::with("añ👩‍👩‍👧");
        field.key(Key::plain(KeyCode::Backspace));
        assert_eq!(field.text(), "añ");
        field.key(Key::plain(KeyCode::Home));
        field.key(Key::plain(KeyCode::Delete));
        assert_eq!(field.text(), "ñ");
        typed(&mut field, "日 本");
        field.key(Key::ctrl('w'));
        assert_eq!(field.text(), "日 ñ");
    }

    #[test]
    fn secret_field_never_shows_its_text() {
        let mut field = Field::new_masked();
        field.insert("AIza-secret\n");
        let (row, cursor) = field.row(80);
        assert!(!row.contains("secret") && row.chars().all(|char| char == '•'));
        assert_eq!(cursor, 12);
    }

    #[test]
    fn cursor_stays_visible_in_a_narrow_field() {
        let field = Field::with("日本語のとても長い文");
        for columns in 2..30 {
            let (row, cursor) = field.row(columns);
            assert!(cursor < columns, "{columns}: {row} {cursor}");
        }
    }
}
