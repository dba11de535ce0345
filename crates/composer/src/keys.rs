//! Key handling of the composer.

use std::time::{Duration, Instant};

use parallax_screen::Key;

use super::search::{Search, SearchAction};
use super::text::Position;
use super::{Composer, ComposerAction, InputMode, VimMode};
use crate::edit_command::{EditCommand, KeyContext, KeyTable};

/// The maximum time between two Esc presses that clear the input, in milliseconds.
pub const TWICE_MS: u64 = 2_000;
const TWICE: Duration = Duration::from_millis(TWICE_MS);

impl Composer {
    /// Handles a key pressed now.
    pub fn key(&mut self, key: Key, keymap: &dyn KeyTable) -> ComposerAction {
        self.key_at(key, keymap, Instant::now())
    }

    /// Like [`key`](Self::key), for a key pressed at `now`.
    pub fn key_at(&mut self, key: Key, keymap: &dyn KeyTable, now: Instant) -> ComposerAction {
        if self.search.is_some() {
            return self.search_key(key, keymap);
        }
        let escaped = self.escaped.take();
        if let Some(vim) = &mut self.vim {
            let idle = vim.mode() == VimMode::Normal && vim.pending().is_empty();
            let opens = matches!(key.character(), Some('!' | '?')) && self.buffer.is_empty();
            if !(idle && opens) && vim.key(&mut self.buffer, key) {
                return ComposerAction::Changed;
            }
        }
        let action = self.plain_key(key, keymap, now, escaped);
        if let Some(vim) = &mut self.vim {
            vim.clamp_cursor(&mut self.buffer);
        }
        action
    }

    /// Handles a key without vi modes.
    fn plain_key(
        &mut self,
        key: Key,
        keymap: &dyn KeyTable,
        now: Instant,
        escaped: Option<Instant>,
    ) -> ComposerAction {
        for command in keymap.commands(key, KeyContext::Text) {
            if let Some(action) = self.run(command, now, escaped) {
                return action;
            }
        }
        match key.character() {
            Some(char) if !char.is_control() => self.insert_typed(char),
            _ => ComposerAction::Ignored,
        }
    }

    fn insert_typed(&mut self, char: char) -> ComposerAction {
        if self.buffer.is_empty() {
            match (char, self.mode) {
                ('!', InputMode::Prompt) => return self.change_mode(InputMode::Shell),
                ('!', InputMode::Shell) => return self.change_mode(InputMode::Prompt),
                ('?', InputMode::Prompt) => return ComposerAction::ToggleShortcuts,
                _ => {}
            }
        }
        let mut bytes = [0; 4];
        self.buffer.insert(char.encode_utf8(&mut bytes));
        ComposerAction::Changed
    }

    fn change_mode(&mut self, mode: InputMode) -> ComposerAction {
        self.history_mut().reset();
        self.mode = mode;
        ComposerAction::Changed
    }

    /// Runs a command. Returns `None` if it does not apply.
    fn run(
        &mut self,
        command: EditCommand,
        now: Instant,
        escaped: Option<Instant>,
    ) -> Option<ComposerAction> {
        use ComposerAction as Action;
        match command {
            EditCommand::Submit => return Some(self.enter()),
            EditCommand::QueueMessage => {
                let fits = self.context.busy && self.mode == InputMode::Prompt;
                return (fits && !self.buffer.text().is_blank())
                    .then(|| Action::Queue(self.take()));
            }
            EditCommand::Cancel => return Some(self.escape(now, escaped)),
            EditCommand::Clear => {
                let cleared = !self.buffer.is_empty();
                if cleared {
                    self.clear();
                }
                return Some(Action::Interrupt { cleared });
            }
            EditCommand::DeleteRight if self.buffer.is_empty() => return None,
            EditCommand::Exit => return self.buffer.is_empty().then_some(Action::Exit),
            EditCommand::DeleteLeft if self.buffer.is_empty() => {
                if self.mode == InputMode::Shell {
                    self.change_mode(InputMode::Prompt);
                }
            }
            EditCommand::OpenExternalEditor => return Some(Action::OpenEditor),
            EditCommand::DeprecatedOpenExternalEditor => return Some(Action::EditorHint),
            EditCommand::Paste => return Some(Action::PasteClipboard),
            EditCommand::SearchStart => self.start_search(),
            EditCommand::CursorUp => return self.handle_up(),
            EditCommand::CursorDown => self.move_down(),
            EditCommand::HistoryPrevious => {
                self.step(true);
            }
            EditCommand::HistoryNext => {
                self.step(false);
            }
            EditCommand::ExpandPaste => {
                return self.buffer.expand_paste().then_some(Action::Changed);
            }
            _ => return self.edit(command).then_some(Action::Changed),
        }
        Some(Action::Changed)
    }

    /// Runs an editing command. Returns `false` if it is not one, or if it has no effect and
    /// another command of the key may apply.
    fn edit(&mut self, command: EditCommand) -> bool {
        let buffer = &mut self.buffer;
        match command {
            EditCommand::Newline => buffer.insert_newline(),
            EditCommand::DeleteLeft => buffer.delete_left(),
            EditCommand::DeleteRight => buffer.delete_right(),
            EditCommand::DeleteWordLeft => buffer.delete_word_left(),
            EditCommand::DeleteWordRight => buffer.delete_word_right(),
            EditCommand::DeleteLeftAll => buffer.delete_to_line_start(),
            EditCommand::DeleteRightAll => buffer.delete_to_line_end(),
            EditCommand::Home => buffer.move_home(),
            EditCommand::End => buffer.end(),
            EditCommand::CursorLeft => buffer.move_left(),
            EditCommand::CursorRight => buffer.move_right(),
            EditCommand::WordLeft => buffer.move_word_left(),
            EditCommand::WordRight => buffer.move_word_right(),
            EditCommand::Yank => {
                self.has_yanked = buffer.yank();
                return self.has_yanked;
            }
            EditCommand::YankPop => return buffer.yank_pop(),
            EditCommand::Undo => return buffer.undo(),
            EditCommand::Redo => return buffer.redo(),
            _ => return false,
        }
        true
    }

    fn enter(&mut self) -> ComposerAction {
        use ComposerAction as Action;
        let before = self.buffer.current_line().get(..self.buffer.cursor().byte).unwrap_or("");
        if before.ends_with('\\') {
            let cursor = self.buffer.cursor();
            self.buffer.replace(Position::new(cursor.line, cursor.byte - 1)..cursor, "\n");
            return Action::Changed;
        }
        self.send()
    }

    /// Sends the text, as Enter does by default.
    pub fn send(&mut self) -> ComposerAction {
        use ComposerAction as Action;
        if self.buffer.text().is_blank() {
            return Action::Ignored;
        }
        let submission = self.take();
        match self.mode {
            InputMode::Shell => Action::Shell(submission.text),
            InputMode::Prompt if !self.context.busy => Action::Submit(submission),
            InputMode::Prompt if self.context.steering => Action::Steer(submission),
            InputMode::Prompt => Action::Queue(submission),
        }
    }

    fn escape(&mut self, now: Instant, escaped: Option<Instant>) -> ComposerAction {
        // While something runs, Esc cancels it.
        if self.context.running {
            return ComposerAction::Escape;
        }
        if self.mode == InputMode::Shell {
            return self.change_mode(InputMode::Prompt);
        }
        if self.context.busy {
            return ComposerAction::Escape;
        }
        match escaped {
            Some(at) if now.saturating_duration_since(at) < TWICE => {
                if self.buffer.is_empty() {
                    return ComposerAction::Rewind;
                }
                self.clear();
                ComposerAction::Changed
            }
            _ => {
                self.escaped = Some(now);
                ComposerAction::Escape
            }
        }
    }

    fn handle_up(&mut self) -> Option<ComposerAction> {
        if self.buffer.is_empty() && self.context.queued > 0 {
            return Some(ComposerAction::TakeQueue);
        }
        let stepped = self.history().is_unchanged_since_step(&self.buffer);
        if !self.buffer.is_first_row() {
            self.buffer.move_up();
        } else if !stepped && self.buffer.cursor() != Position::START {
            self.buffer.move_to_text_start();
        } else {
            self.step(true);
        }
        Some(ComposerAction::Changed)
    }

    fn move_down(&mut self) {
        let stepped = self.history().is_unchanged_since_step(&self.buffer);
        if !self.buffer.is_last_row() {
            self.buffer.down();
        } else if !stepped && self.buffer.cursor() != self.buffer.text().end() {
            self.buffer.move_to_text_end();
        } else {
            self.step(false);
        }
    }

    fn step(&mut self, back: bool) -> bool {
        let history = match self.mode {
            InputMode::Prompt => &mut self.prompts,
            InputMode::Shell => &mut self.commands,
        };
        let stepped =
            if back { history.previous(&mut self.buffer) } else { history.next(&mut self.buffer) };
        if stepped {
            self.handle_replaced_text();
        }
        stepped
    }

    fn start_search(&mut self) {
        self.search = Some(Search::new(self.history().entries()));
    }

    fn search_key(&mut self, key: Key, keymap: &dyn KeyTable) -> ComposerAction {
        let Some(mut search) = self.search.take() else { return ComposerAction::Ignored };
        let action = search.key(key, keymap, self.history().entries());
        match action {
            SearchAction::Active => self.search = Some(search),
            SearchAction::Ignored => {
                self.search = Some(search);
                return ComposerAction::Ignored;
            }
            // The input is unchanged.
            SearchAction::Cancel => {}
            SearchAction::Accept(text) => self.set_text(&text),
            SearchAction::Submit(text) => {
                self.set_text(&text);
                return self.send();
            }
        }
        ComposerAction::Changed
    }
}
