//! Emulates a terminal: its screen, scrollback, and state.

use std::collections::BTreeSet;
use std::io;

use super::answers::{Answers, QueryState};
use super::sequences::SequenceSplitter;

/// A terminal that rewraps its rows when its window is resized, as most do.
pub struct Emulator {
    terminal: avt::Terminal,
    sequences: SequenceSplitter,
    answers: Answers,
    output: Vec<u8>,
    modes: BTreeSet<u16>,
    keyboard: Vec<u16>,
    title: String,
}

impl Emulator {
    /// Creates an empty window with unlimited scrollback.
    ///
    /// # Errors
    /// Returns an error if the size is zero.
    pub fn new(columns: usize, rows: usize, answers: Answers) -> io::Result<Self> {
        let terminal = avt::Terminal::with_scrollback(columns, rows, None);
        let terminal = terminal.map_err(|_| io::Error::other("no such window"))?;
        Ok(Self {
            terminal,
            sequences: SequenceSplitter::default(),
            answers,
            output: Vec::new(),
            // The modes that are initially on: autowrap and a visible cursor.
            modes: BTreeSet::from([7, 25]),
            keyboard: Vec::new(),
            title: String::new(),
        })
    }

    /// Processes output of the program; returns the terminal's answers to queries.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.output.extend_from_slice(bytes);
        let mut answers = Vec::new();
        for piece in self.sequences.split(bytes) {
            self.terminal.feed(piece.as_str());
            if piece.starts_with('\x1b') {
                self.note(&piece);
                let current = QueryState {
                    size: self.terminal.size(),
                    cursor: self.cursor(),
                    modes: &self.modes,
                    keyboard: self.keyboard.last().copied().unwrap_or_default(),
                };
                answers.extend(
                    self.answers
                        .answer_to(&piece, &current)
                        .into_iter()
                        .flat_map(String::into_bytes),
                );
            }
        }
        answers
    }

    /// Resizes the window.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        self.terminal.resize(columns, rows);
    }

    /// Tracks modes, keyboard flags, and the title, which the emulation library ignores.
    fn note(&mut self, sequence: &str) {
        if let Some(title) =
            sequence.strip_prefix("\x1b]0;").or_else(|| sequence.strip_prefix("\x1b]2;"))
        {
            self.title = title.trim_end_matches(['\x07', '\\', '\x1b']).to_owned();
            return;
        }
        let Some(body) = sequence.strip_prefix("\x1b[") else { return };
        let numbers = |text: &str| -> Vec<u16> {
            text.split(';').filter_map(|number| number.parse().ok()).collect()
        };
        if let Some(modes) = body.strip_prefix('?') {
            if let Some(on) = modes.strip_suffix('h') {
                self.modes.extend(numbers(on));
            } else if let Some(off) = modes.strip_suffix('l') {
                for mode in numbers(off) {
                    self.modes.remove(&mode);
                }
            }
        } else if let Some(flags) = body.strip_prefix('>').and_then(|rest| rest.strip_suffix('u')) {
            if self.answers.kitty_keyboard {
                self.keyboard.push(flags.parse().unwrap_or_default());
            }
        } else if body.starts_with('<') && body.ends_with('u') {
            self.keyboard.pop();
        }
    }

    // --- what is shown

    /// Returns the rows of the window without trailing spaces.
    pub fn rows(&self) -> Vec<String> {
        self.terminal.screen().visible_lines().map(text).collect()
    }

    /// Returns the window as one text without trailing empty rows.
    pub fn window(&self) -> String {
        let rows = self.rows().join("\n");
        rows.trim_end_matches('\n').to_owned()
    }

    /// Returns the lines of scrollback and window, oldest first; wrapped rows are joined into one
    /// line.
    pub fn lines(&self) -> Vec<String> {
        let (mut lines, mut open) = (Vec::new(), String::new());
        for line in self.terminal.screen().all_lines() {
            if line.is_wrapped() {
                open.push_str(&line.text());
            } else {
                open.push_str(&text(line));
                lines.push(std::mem::take(&mut open));
            }
        }
        lines.extend(Some(open).filter(|open| !open.is_empty()));
        lines
    }

    /// Returns the number of rows that scrolled off the top of the window.
    pub fn scrolled_rows(&self) -> usize {
        self.terminal.primary_screen().all_lines().count() - self.terminal.size().1
    }

    /// Returns the cells of a row of the window.
    pub fn cells(&self, row: usize) -> &[avt::Cell] {
        self.terminal.screen().line(row).map(avt::Line::cells).unwrap_or_default()
    }

    /// Returns the number of columns and rows.
    pub fn size(&self) -> (usize, usize) {
        self.terminal.size()
    }

    /// Returns the column and row of the cursor, from 0, even if it is hidden.
    pub fn cursor(&self) -> (usize, usize) {
        let at = self.terminal.cursor();
        (at.col.min(self.terminal.size().0 - 1), at.row)
    }

    /// Whether a private mode is on.
    pub fn has_mode(&self, mode: u16) -> bool {
        self.modes.contains(&mode)
    }

    /// Returns the private modes that are on.
    pub fn modes(&self) -> &BTreeSet<u16> {
        &self.modes
    }

    /// Whether the kitty keyboard protocol is on.
    pub fn disambiguates(&self) -> bool {
        self.keyboard.last().is_some_and(|flags| flags & 1 == 1)
    }

    /// Returns the title of the window.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns all output, unchanged.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Returns how often a sequence was written.
    pub fn count(&self, sequence: &str) -> usize {
        self.output.windows(sequence.len()).filter(|window| *window == sequence.as_bytes()).count()
    }

    /// Returns scrollback and window for a message.
    pub fn dump(&self) -> String {
        let (columns, rows) = self.size();
        let all: Vec<String> = self.terminal.screen().all_lines().map(text).collect();
        let rows_above = all.len().saturating_sub(rows);
        let (back, window) = all.split_at_checked(rows_above).unwrap_or((&all, &[]));
        let skipped = back.len().saturating_sub(60);
        let back = back.get(skipped..).unwrap_or_default().join("\n");
        format!(
            "({skipped} rows)\n{back}\n--- {columns}×{rows}, cursor {:?}\n{}\n---",
            self.cursor(),
            window.join("\n")
        )
    }
}

fn text(line: &avt::Line) -> String {
    line.text().trim_end().to_owned()
}
