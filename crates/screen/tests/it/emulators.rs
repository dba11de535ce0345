//! Two terminal emulators that receive the same bytes.

use std::num::NonZeroU16;

use avt::Terminal;

/// What a terminal shows and keeps.
#[derive(Debug, PartialEq, Eq)]
pub struct ScreenRows {
    /// All rows starting with the scrollback, without trailing spaces and trailing empty rows.
    pub rows: Vec<String>,
    /// The cursor's column, and its row in `rows`.
    pub cursor: (usize, usize),
}

pub struct Emulators {
    vt100: vt100::Parser,
    avt: Terminal,
}

impl Emulators {
    pub fn new(columns: usize, rows: usize) -> Self {
        let short = |size: usize| NonZeroU16::new(u16::try_from(size).unwrap()).unwrap();
        Self {
            vt100: vt100::Parser::new(short(rows), short(columns), 100_000),
            avt: Terminal::with_scrollback(columns, rows, None).unwrap(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.vt100.process(bytes);
        self.avt.feed(std::str::from_utf8(bytes).unwrap());
    }

    pub fn resize(&mut self, columns: usize, rows: usize) {
        let short = |size: usize| NonZeroU16::new(u16::try_from(size).unwrap()).unwrap();
        self.vt100.set_size(short(rows), short(columns));
        self.avt.resize(columns, rows);
    }

    /// Returns what both show; the names are for failure messages.
    pub fn visible_rows(&mut self) -> [(&'static str, ScreenRows); 2] {
        [("vt100", self.by_vt100()), ("avt", self.by_avt())]
    }

    /// Returns the lines of the reflowing terminal, with wrapped rows joined.
    pub fn joined(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        for row in self.avt.screen().all_lines() {
            if let Some(line) = lines.last_mut() {
                line.push_str(&row.text());
            }
            if !row.is_wrapped() {
                lines.push(String::new());
            }
        }
        trimmed(lines)
    }

    fn by_vt100(&mut self) -> ScreenRows {
        let columns = self.vt100.screen().size().1.get();
        let back = self.vt100.screen().scrollback_len();
        let mut rows = Vec::new();
        for offset in (1..=back).rev() {
            self.vt100.screen_mut().set_scrollback(offset);
            rows.extend(self.vt100.screen().rows(0, columns).next());
        }
        self.vt100.screen_mut().set_scrollback(0);
        rows.extend(self.vt100.screen().rows(0, columns));
        let (row, column) = self.vt100.screen().cursor_position();
        ScreenRows { rows: trimmed(rows), cursor: (column.into(), back + usize::from(row)) }
    }

    fn by_avt(&self) -> ScreenRows {
        let screen = self.avt.screen();
        let rows: Vec<String> = screen.all_lines().map(avt::Line::text).collect();
        let above = rows.len() - screen.visible_lines().len();
        let (column, row) = self.avt.cursor().position().unwrap_or((usize::MAX, 0));
        ScreenRows { rows: trimmed(rows), cursor: (column, above + row) }
    }
}

fn trimmed(rows: Vec<String>) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| row.trim_end().to_owned()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}
