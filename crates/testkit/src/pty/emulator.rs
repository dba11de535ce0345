//! What a terminal shows of the bytes that it gets, and what it keeps.

use std::collections::BTreeSet;
use std::io;

use super::answers::{Answers, Now};
use super::sequences::Sequences;

/// A terminal that wraps its rows anew when its window changes, as most do.
pub struct Emulator {
    terminal: avt::Terminal,
    sequences: Sequences,
    answers: Answers,
    output: Vec<u8>,
    modes: BTreeSet<u16>,
    keyboard: Vec<u16>,
    title: String,
}

impl Emulator {
    /// An empty window, with all the scrollback that is needed.
    ///
    /// # Errors
    /// The size is none.
    pub fn new(columns: usize, rows: usize, answers: Answers) -> io::Result<Self> {
        let terminal = avt::Terminal::with_scrollback(columns, rows, None);
        let terminal = terminal.map_err(|_| io::Error::other("no such window"))?;
        Ok(Self {
            terminal,
            sequences: Sequences::default(),
            answers,
            output: Vec::new(),
            // What is on when a window opens: wrapping, a cursor.
            modes: BTreeSet::from([7, 25]),
            keyboard: Vec::new(),
            title: String::new(),
        })
    }

    /// Takes what a program wrote; gives what the terminal answers.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.output.extend_from_slice(bytes);
        let mut answers = Vec::new();
        for piece in self.sequences.cut(bytes) {
            self.terminal.feed(piece.as_str());
            if piece.starts_with('\x1b') {
                self.note(&piece);
                let now = Now {
                    size: self.terminal.size(),
                    cursor: self.cursor(),
                    modes: &self.modes,
                    keyboard: self.keyboard.last().copied().unwrap_or_default(),
                };
                answers
                    .extend(self.answers.to(&piece, &now).into_iter().flat_map(String::into_bytes));
            }
        }
        answers
    }

    /// Takes another size.
    pub fn resize(&mut self, columns: usize, rows: usize) {
        self.terminal.resize(columns, rows);
    }

    /// Modes, keyboard and title, which the emulation leaves out.
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

    /// The rows of the window, without blanks at their ends.
    pub fn rows(&self) -> Vec<String> {
        self.terminal.screen().visible_lines().map(text).collect()
    }

    /// The window as one text, without empty rows at its end.
    pub fn window(&self) -> String {
        let rows = self.rows().join("\n");
        rows.trim_end_matches('\n').to_owned()
    }

    /// Lines of scrollback and window, the oldest first; rows that the terminal
    /// has wrapped are one line.
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

    /// How many rows have left the window at its top.
    pub fn scrolled(&self) -> usize {
        self.terminal.primary_screen().all_lines().count() - self.terminal.size().1
    }

    /// The cells of a row of the window.
    pub fn cells(&self, row: usize) -> &[avt::Cell] {
        self.terminal.screen().line(row).map(avt::Line::cells).unwrap_or_default()
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        self.terminal.size()
    }

    /// The cursor's column and row, from 0, also when it is hidden.
    pub fn cursor(&self) -> (usize, usize) {
        let at = self.terminal.cursor();
        (at.col.min(self.terminal.size().0 - 1), at.row)
    }

    /// Whether a private mode is on.
    pub fn has_mode(&self, mode: u16) -> bool {
        self.modes.contains(&mode)
    }

    /// The private modes that are on.
    pub fn modes(&self) -> &BTreeSet<u16> {
        &self.modes
    }

    /// Whether the kitty keyboard protocol is on.
    pub fn disambiguates(&self) -> bool {
        self.keyboard.last().is_some_and(|flags| flags & 1 == 1)
    }

    /// The window's title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// All that was written, as it came.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// How often a sequence was written.
    pub fn count(&self, sequence: &str) -> usize {
        self.output.windows(sequence.len()).filter(|window| *window == sequence.as_bytes()).count()
    }

    /// Scrollback and window, for a message.
    pub fn dump(&self) -> String {
        let (columns, rows) = self.size();
        let all: Vec<String> = self.terminal.screen().all_lines().map(text).collect();
        let above = all.len().saturating_sub(rows);
        let (back, window) = all.split_at_checked(above).unwrap_or((&all, &[]));
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
