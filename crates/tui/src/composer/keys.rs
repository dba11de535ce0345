//! Key handling of the composer.

use std::time::{Duration, Instant};

use parallax_screen::Key;

use super::search::{Search, SearchAction};
use super::text::Position;
use super::{Composer, ComposerAction, InputMode, VimMode};
use crate::keymap::{Context, KeyCommand, Keymap};

/// The maximum time between two Esc presses that clear the input, in milliseconds.
pub(crate) const TWICE_MS: u64 = 2_000;
const TWICE: Duration = Duration::from_millis(TWICE_MS);

impl Composer {
    /// Handles a key pressed now.
    pub fn key(&mut self, key: Key, keymap: &Keymap) -> ComposerAction {
        self.key_at(key, keymap, Instant::now())
    }

    /// Like [`key`](Self::key), for a key pressed at `now`.
    pub fn key_at(&mut self, key: Key, keymap: &Keymap, now: Instant) -> ComposerAction {
        if self.search.is_some() {
            return self.search_key(key, keymap);
        }
        let escaped = self.escaped.take();
        if let Some(vim) = &mut self.vim {
            let idle = vim.mode() == VimMode::Normal && vim.pending().is_empty();
            let opens = matches!(key.typed(), Some('!' | '?')) && self.buffer.is_empty();
            if !(idle && opens) && vim.key(&mut self.buffer, key) {
                return ComposerAction::Changed;
            }
        }
        let action = self.plain_key(key, keymap, now, escaped);
        if let Some(vim) = &mut self.vim {
            vim.settle(&mut self.buffer);
        }
        action
    }

    /// Handles a key without vi modes.
    fn plain_key(
        &mut self,
        key: Key,
        keymap: &Keymap,
        now: Instant,
        escaped: Option<Instant>,
    ) -> ComposerAction {
        for command in keymap.commands_for(key, Context::COMPOSER) {
            if let Some(action) = self.run(command, now, escaped) {
                return action;
            }
        }
        match key.typed() {
            Some(char) if !char.is_control() => self.typed(char),
            _ => ComposerAction::Ignored,
        }
    }

    fn typed(&mut self, char: char) -> ComposerAction {
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
        command: KeyCommand,
        now: Instant,
        escaped: Option<Instant>,
    ) -> Option<ComposerAction> {
        use ComposerAction as Action;
        match command {
            KeyCommand::Submit => return Some(self.enter()),
            KeyCommand::QueueMessage => {
                let fits = self.surroundings.busy && self.mode == InputMode::Prompt;
                return (fits && !self.buffer.text().is_blank())
                    .then(|| Action::Queue(self.take()));
            }
            KeyCommand::Cancel => return Some(self.escape(now, escaped)),
            KeyCommand::Clear => {
                let cleared = !self.buffer.is_empty();
                if cleared {
                    self.clear();
                }
                return Some(Action::Interrupt { cleared });
            }
            KeyCommand::DeleteRight if self.buffer.is_empty() => return None,
            KeyCommand::Exit => return self.buffer.is_empty().then_some(Action::Exit),
            KeyCommand::DeleteLeft if self.buffer.is_empty() => {
                if self.mode == InputMode::Shell {
                    self.change_mode(InputMode::Prompt);
                }
            }
            KeyCommand::OpenExternalEditor => return Some(Action::OpenEditor),
            KeyCommand::DeprecatedOpenExternalEditor => return Some(Action::EditorHint),
            KeyCommand::Paste => return Some(Action::PasteClipboard),
            KeyCommand::SearchStart => self.start_search(),
            KeyCommand::CursorUp => return self.up(),
            KeyCommand::CursorDown => self.down(),
            KeyCommand::HistoryPrevious => {
                self.step(true);
            }
            KeyCommand::HistoryNext => {
                self.step(false);
            }
            KeyCommand::ExpandPaste => {
                return self.buffer.expand_paste().then_some(Action::Changed);
            }
            _ => return self.edit(command).then_some(Action::Changed),
        }
        Some(Action::Changed)
    }

    /// Runs an editing command. Returns `false` if it is not one, or if it has no effect and
    /// another command of the key may apply.
    fn edit(&mut self, command: KeyCommand) -> bool {
        let buffer = &mut self.buffer;
        match command {
            KeyCommand::Newline => buffer.newline(),
            KeyCommand::DeleteLeft => buffer.delete_left(),
            KeyCommand::DeleteRight => buffer.delete_right(),
            KeyCommand::DeleteWordLeft => buffer.delete_word_left(),
            KeyCommand::DeleteWordRight => buffer.delete_word_right(),
            KeyCommand::DeleteLeftAll => buffer.delete_left_all(),
            KeyCommand::DeleteRightAll => buffer.delete_right_all(),
            KeyCommand::Home => buffer.home(),
            KeyCommand::End => buffer.end(),
            KeyCommand::CursorLeft => buffer.left(),
            KeyCommand::CursorRight => buffer.right(),
            KeyCommand::WordLeft => buffer.word_left(),
            KeyCommand::WordRight => buffer.word_right(),
            KeyCommand::Yank => {
                self.yanked = buffer.yank();
                return self.yanked;
            }
            KeyCommand::YankPop => return buffer.yank_pop(),
            KeyCommand::Undo => return buffer.undo(),
            KeyCommand::Redo => return buffer.redo(),
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
            InputMode::Prompt if !self.surroundings.busy => Action::Submit(submission),
            InputMode::Prompt if self.surroundings.steering => Action::Steer(submission),
            InputMode::Prompt => Action::Queue(submission),
        }
    }

    fn escape(&mut self, now: Instant, escaped: Option<Instant>) -> ComposerAction {
        // While something runs, Esc cancels it.
        if self.surroundings.running {
            return ComposerAction::Escape;
        }
        if self.mode == InputMode::Shell {
            return self.change_mode(InputMode::Prompt);
        }
        if self.surroundings.busy {
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

    fn up(&mut self) -> Option<ComposerAction> {
        if self.buffer.is_empty() && self.surroundings.queued > 0 {
            return Some(ComposerAction::TakeQueue);
        }
        let stepped = self.history().just_stepped(&self.buffer);
        if !self.buffer.is_first_row() {
            self.buffer.up();
        } else if !stepped && self.buffer.cursor() != Position::START {
            self.buffer.text_start();
        } else {
            self.step(true);
        }
        Some(ComposerAction::Changed)
    }

    fn down(&mut self) {
        let stepped = self.history().just_stepped(&self.buffer);
        if !self.buffer.is_last_row() {
            self.buffer.down();
        } else if !stepped && self.buffer.cursor() != self.buffer.text().end() {
            self.buffer.text_end();
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
            self.text_exchanged();
        }
        stepped
    }

    fn start_search(&mut self) {
        self.search = Some(Search::new(self.history().entries()));
    }

    fn search_key(&mut self, key: Key, keymap: &Keymap) -> ComposerAction {
        let Some(mut search) = self.search.take() else { return ComposerAction::Ignored };
        let action = search.key(key, keymap, self.history().entries());
        match action {
            SearchAction::Going => self.search = Some(search),
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
