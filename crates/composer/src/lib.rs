//! The composer: edits the input text. Independent of the agent. Takes keys and pasted text, returns [`ComposerAction`]s and
//! rows. Sending, completion lists, and files are handled elsewhere.

mod action;
mod boundary;
mod buffer;
#[cfg(test)]
mod buffer_tests;
#[cfg(test)]
mod composer_tests;
mod dropped;
mod edit;
mod edit_command;
mod history;
mod image;
mod keys;
mod kill_ring;
mod layout;
mod movement;
mod pastes;
mod render;
mod search;
#[cfg(test)]
mod test_keys;
mod text;
mod undo;
mod vim;
mod words;

use std::ops::Range;
use std::time::Instant;

pub use action::{ComposerAction, ComposerContext, InputMode, Submission};
pub use buffer::Buffer;
pub use dropped::escape as escape_path;
pub use edit_command::{EditCommand, KeyContext, KeyTable};
pub use history::History;
pub use keys::TWICE_MS;
use parallax_screen::Line;
pub use render::RenderedInput;
use search::Search;
pub use text::{Position, Text, sanitize};
use vim::Vim;
pub use vim::VimMode;

use parallax_screen::theme::Theme;

/// Finds the parts of a line that stand out, such as names of files.
pub type FindHighlights = fn(&str) -> Vec<Range<usize>>;

/// The input text and its modes.
#[derive(Debug, Default)]
pub struct Composer {
    buffer: Buffer,
    mode: InputMode,
    prompts: History,
    commands: History,
    search: Option<Search>,
    vim: Option<Vim>,
    context: ComposerContext,
    /// When Esc was last pressed without an effect.
    escaped: Option<Instant>,
    /// The buffer as it was sent, so that it can be restored.
    sent_buffer: Option<(Buffer, InputMode)>,
    /// The first visible row: its line, and the row within that line.
    top: (usize, usize),
    /// Whether pasted paths of existing files stay unchanged.
    keep_paths: bool,
    /// Whether `@` in pasted text is escaped so that it names no file.
    escapes_at: bool,
    /// Whether deleted text was inserted again since the last query.
    has_yanked: bool,
    /// Finds the parts of a line that stand out, such as names of files.
    highlights: Option<FindHighlights>,
}

impl Composer {
    /// Creates an empty composer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what finds the parts of a line that stand out, such as names of files.
    pub fn set_highlights(&mut self, find: FindHighlights) {
        self.highlights = Some(find);
    }

    /// Returns the text and the cursor.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Returns the text and the cursor for changes by the program (completion).
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Returns whether the text is a prompt or a shell command.
    pub fn mode(&self) -> InputMode {
        self.mode
    }

    /// Sets whether the text is a prompt or a shell command.
    pub fn set_mode(&mut self, mode: InputMode) {
        self.mode = mode;
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether the history search is open.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Whether the text is an unchanged entry of the history.
    pub fn is_from_history(&self) -> bool {
        self.history().is_unchanged_since_step(&self.buffer)
    }

    /// Whether keys are commands and not text (vi's normal and visual modes).
    pub fn is_command_mode(&self) -> bool {
        self.vim_mode().is_some_and(|mode| mode != VimMode::Insert)
    }

    /// Returns whether deleted text was inserted again since the last call.
    pub fn take_yanked(&mut self) -> bool {
        std::mem::take(&mut self.has_yanked)
    }

    /// Forgets the last Esc, so that the next one counts as the first.
    pub fn forget_escape(&mut self) {
        self.escaped = None;
    }

    /// Returns the rows of the open search; empty without one.
    pub fn search_rows(&self, columns: usize, theme: &Theme) -> Vec<Line> {
        self.search.as_ref().map_or_else(Vec::new, |search| search.rows(columns, theme))
    }

    /// Enables (in insert mode) or disables vi mode.
    pub fn set_vim(&mut self, on: bool) {
        if on != self.vim.is_some() {
            self.vim = on.then(Vim::default);
        }
    }

    /// Returns the vi mode, or `None` if vi mode is disabled.
    pub fn vim_mode(&self) -> Option<VimMode> {
        self.vim.as_ref().map(Vim::mode)
    }

    /// Returns the typed part of an unfinished vi command (`2d`, `/pattern`).
    pub fn vim_pending(&self) -> String {
        self.vim.as_ref().map_or_else(String::new, Vim::pending)
    }

    /// Sets the state around the composer.
    pub fn set_context(&mut self, surroundings: ComposerContext) {
        self.context = surroundings;
    }

    /// Sets whether pasted paths of existing files become `@path` (on by default).
    pub fn set_convert_pasted_paths(&mut self, become_words: bool) {
        self.keep_paths = !become_words;
    }

    /// Sets whether `@` in pasted text is escaped (`ui.escapePastedAtSymbols`).
    pub fn set_escape_at_signs(&mut self, escapes: bool) {
        self.escapes_at = escapes;
    }

    /// Sets the history of prompts and shell commands, oldest first.
    pub fn set_history(&mut self, prompts: Vec<String>, commands: Vec<String>) {
        self.prompts = History::new(prompts);
        self.commands = History::new(commands);
    }

    /// Replaces the text as one undoable step and moves the cursor to its end.
    pub fn set_text(&mut self, text: &str) {
        self.buffer.set_text(text);
        self.history_mut().reset();
        self.handle_replaced_text();
    }

    /// Cancels a pending vi command after the text was replaced.
    fn handle_replaced_text(&mut self) {
        if let Some(vim) = &mut self.vim {
            vim.cancel_pending_commands(&mut self.buffer);
        }
    }

    /// Inserts text (queued messages) before the current text.
    pub fn insert_before(&mut self, text: &str) {
        let gap = if self.buffer.text().is_blank() { "" } else { "\n\n" };
        let text = format!("{text}{gap}{}", self.buffer.text());
        self.set_text(&text);
    }

    /// Restores what was sent last, including cursor and pasted text, if nothing was typed since.
    /// Used when the program rejected it.
    pub fn restore_sent(&mut self) {
        if self.buffer.is_empty()
            && let Some((buffer, mode)) = self.sent_buffer.take()
        {
            self.buffer = buffer;
            self.mode = mode;
            self.handle_replaced_text();
        }
    }

    /// Returns the text for the external editor with pasted text expanded.
    pub fn editor_text(&self) -> String {
        self.buffer.expanded_text()
    }

    /// Sets the text from the external editor without its final line break.
    pub fn set_editor_text(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        self.set_text(text.strip_suffix('\r').unwrap_or(text));
    }

    /// Clears the input; undo and yank can restore it.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.history_mut().reset();
        self.handle_replaced_text();
    }

    /// Inserts pasted text. Paths of existing files (dragged in) become `@path`.
    pub fn paste(&mut self, text: &str) {
        self.take_pasted(text);
        if self.is_command_mode() {
            // The selection or pending command was for the previous text.
            self.handle_replaced_text();
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
            if let Some(words) = dropped::to_at_paths(text, home.as_deref(), &|path| path.exists())
            {
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

    /// Takes the text out of the composer.
    fn take(&mut self) -> Submission {
        let submission = Submission {
            text: self.buffer.expanded_text(),
            display_text: self.buffer.text().to_string(),
        };
        self.history_mut().add(&submission.text);
        let saved_text = self.buffer.clone();
        self.buffer.reset("");
        self.sent_buffer = Some((saved_text, self.mode));
        self.escaped = None;
        self.handle_replaced_text();
        submission
    }
}
