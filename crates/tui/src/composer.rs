//! The input: text being written, and what is done with it. Takes keys and
//! pasted text, gives [`ComposerAction`]s and rows. Not responsible for what is
//! sent, for lists of completions, or for files.

mod action;
mod boundary;
mod buffer;
#[cfg(test)]
mod buffer_tests;
#[cfg(test)]
mod composer_tests;
mod dropped;
mod edit;
mod history;
mod image;
mod keys;
mod kill_ring;
mod layout;
mod movement;
mod pastes;
mod render;
mod search;
mod text;
mod undo;
mod vim;
mod words;

use std::time::Instant;

pub use action::{ComposerAction, InputMode, Submission, Surroundings};
pub use buffer::Buffer;
pub use dropped::escape as escape_path;
pub use history::History;
pub(crate) use keys::TWICE_MS;
use parallax_screen::Line;
pub use render::Rendered;
use search::Search;
pub use text::{Position, Text, clean};
use vim::Vim;
pub use vim::VimMode;

use crate::theme::Theme;

/// The input and its modes.
#[derive(Debug, Default)]
pub struct Composer {
    buffer: Buffer,
    mode: InputMode,
    prompts: History,
    commands: History,
    search: Option<Search>,
    vim: Option<Vim>,
    surroundings: Surroundings,
    /// When Esc was pressed to no effect.
    escaped: Option<Instant>,
    /// The buffer as it was sent, to be given back.
    sent: Option<(Buffer, InputMode)>,
    /// The first shown row: its line, and which row of it.
    top: (usize, usize),
    /// Whether pasted paths of existing files stay as they are.
    keep_paths: bool,
    /// Whether `@` in pasted text is made to name no file.
    escapes_at: bool,
    /// Whether what was deleted was inserted again since that was asked for.
    yanked: bool,
}

impl Composer {
    /// An empty input.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text and the cursor.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The text and the cursor, to be changed by the program (a completion).
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// What the text is meant for.
    pub fn mode(&self) -> InputMode {
        self.mode
    }

    /// Makes the text a shell command, or a prompt.
    pub fn set_mode(&mut self, mode: InputMode) {
        self.mode = mode;
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether the search in the history is open.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Whether the text is an earlier input, as stepping gave it.
    pub fn is_recalled(&self) -> bool {
        self.history().just_stepped(&self.buffer)
    }

    /// Whether characters are commands now (vi's normal and visual modes).
    pub fn takes_no_text(&self) -> bool {
        self.vim_mode().is_some_and(|mode| mode != VimMode::Insert)
    }

    /// Whether what was deleted was inserted again since this was last asked.
    pub fn take_yanked(&mut self) -> bool {
        std::mem::take(&mut self.yanked)
    }

    /// An Esc that was pressed means nothing for the next one.
    pub fn forget_escape(&mut self) {
        self.escaped = None;
    }

    /// The list of the open search; empty without one.
    pub fn search_rows(&self, columns: usize, theme: &Theme) -> Vec<Line> {
        self.search.as_ref().map_or_else(Vec::new, |search| search.rows(columns, theme))
    }

    /// Switches vi's modes on (in insert mode) or off.
    pub fn set_vim(&mut self, on: bool) {
        if on != self.vim.is_some() {
            self.vim = on.then(Vim::default);
        }
    }

    /// The mode of vi's editing; `None` when it is off.
    pub fn vim_mode(&self) -> Option<VimMode> {
        self.vim.as_ref().map(Vim::mode)
    }

    /// What is typed of an unfinished command of vi (`2d`, `/pattern`).
    pub fn vim_pending(&self) -> String {
        self.vim.as_ref().map_or_else(String::new, Vim::pending)
    }

    /// Tells what happens around the input.
    pub fn set_surroundings(&mut self, surroundings: Surroundings) {
        self.surroundings = surroundings;
    }

    /// Whether pasted paths of existing files become `@path` (they do).
    pub fn set_paths_become_words(&mut self, become_words: bool) {
        self.keep_paths = !become_words;
    }

    /// Whether `@` in pasted text names no file (`ui.escapePastedAtSymbols`).
    pub fn set_escapes_at(&mut self, escapes: bool) {
        self.escapes_at = escapes;
    }

    /// The earlier prompts and shell commands, the oldest first.
    pub fn set_history(&mut self, prompts: Vec<String>, commands: Vec<String>) {
        self.prompts = History::new(prompts);
        self.commands = History::new(commands);
    }

    /// Another text, as a step that can be undone; the cursor at its end.
    pub fn set_text(&mut self, text: &str) {
        self.buffer.set_text(text);
        self.history_mut().reset();
        self.text_exchanged();
    }

    /// The text is another one: half a command of vi is over.
    fn text_exchanged(&mut self) {
        if let Some(vim) = &mut self.vim {
            vim.text_changed(&mut self.buffer);
        }
    }

    /// Puts text (queued messages) before what is written.
    pub fn insert_before(&mut self, text: &str) {
        let gap = if self.buffer.text().is_blank() { "" } else { "\n\n" };
        let text = format!("{text}{gap}{}", self.buffer.text());
        self.set_text(&text);
    }

    /// Puts back what was sent last, cursor and pasted texts included, if
    /// nothing was written since: the program refused it.
    pub fn take_back(&mut self) {
        if self.buffer.is_empty()
            && let Some((buffer, mode)) = self.sent.take()
        {
            self.buffer = buffer;
            self.mode = mode;
            self.text_exchanged();
        }
    }

    /// The text for the external editor, pasted texts in it.
    pub fn editor_text(&self) -> String {
        self.buffer.expanded()
    }

    /// The text that the external editor left; a line break at its end is cut.
    pub fn set_editor_text(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        self.set_text(text.strip_suffix('\r').unwrap_or(text));
    }

    /// Empties the input; what was there can be had back by undo and yank.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.history_mut().reset();
        self.text_exchanged();
    }

    /// Takes pasted text. Paths of existing files (dragged in) become `@path`.
    pub fn paste(&mut self, text: &str) {
        self.take_pasted(text);
        if self.takes_no_text() {
            // What was selected or half typed was meant for another text.
            self.text_exchanged();
        }
    }

    fn take_pasted(&mut self, text: &str) {
        if let Some(mut search) = self.search.take() {
            search.paste(text, self.history().entries());
            self.search = Some(search);
            return;
        }
        if self.mode == InputMode::Prompt && !self.keep_paths {
            let home = std::env::home_dir();
            if let Some(words) = dropped::at_paths(text, home.as_deref(), &|path| path.exists()) {
                self.buffer.paste(&words);
                return;
            }
        }
        if self.escapes_at && self.mode == InputMode::Prompt && text.contains('@') {
            return self.buffer.paste(&text.replace('@', "\\@"));
        }
        self.buffer.paste(text);
    }

    fn history(&self) -> &History {
        match self.mode {
            InputMode::Prompt => &self.prompts,
            InputMode::Shell => &self.commands,
        }
    }

    fn history_mut(&mut self) -> &mut History {
        match self.mode {
            InputMode::Prompt => &mut self.prompts,
            InputMode::Shell => &mut self.commands,
        }
    }

    /// Takes the text out of the input.
    fn take(&mut self) -> Submission {
        let submission =
            Submission { text: self.buffer.expanded(), shown: self.buffer.text().to_string() };
        self.history_mut().add(&submission.text);
        let kept = self.buffer.clone();
        self.buffer.reset("");
        self.sent = Some((kept, self.mode));
        self.escaped = None;
        self.text_exchanged();
        submission
    }
}
