//! A command that runs in its own terminal: its keyboard focus, and the hint that it may be waiting
//! for input.

use parallax_protocol::ids::ItemId;
use parallax_protocol::op::{Op, ToolInput};
use parallax_screen::{Line, truncate};

use super::App;
use crate::effect::Effect;
use crate::keymap::KeyCommand;
use crate::status::Working;
use crate::title::State;

/// How long a command has no output before the hint about typing into it is shown, in milliseconds.
const SILENCE_MS: u64 = 5_000;
/// How long a command runs before its keys are shown, in milliseconds.
const HINT_MS: u64 = 1_000;
/// How long a command whose last row is unterminated (as that of a prompt) is silent before the
/// window title shows it, in milliseconds.
const ASKS_MS: u64 = 30_000;
/// The same for any other command, in milliseconds.
const SLOW_MS: u64 = 120_000;

impl App {
    /// Records that a command started.
    pub(super) fn shell_begins(&mut self, item: &ItemId, title: &str) {
        if self.shell.as_ref() != Some(item) {
            self.shell_spoke_at = self.now_ms;
            self.shell_since = self.now_ms;
        }
        self.shell = Some(item.clone());
        self.shell_asks = false;
        self.shell_title = crate::clean::one_row(title).into_owned();
    }

    /// Shows a command that runs outside a turn as work.
    pub(super) fn shell_work(&self) -> Option<Working> {
        self.shell.as_ref()?;
        let subject = self.shell_title.clone();
        Some(Working { since_ms: self.shell_since, subject, ..Working::default() })
    }

    /// Returns hints for keys while the agent works: those of the running command after a moment,
    /// and those for sending text.
    pub(super) fn working_keys(&self) -> Vec<String> {
        if self.shell_focus {
            return Vec::new();
        }
        let mut keys = self.shell_keys();
        let key = |command| self.keymap.key_of(command).to_lowercase();
        let steers = [(KeyCommand::Submit, "to steer"), (KeyCommand::QueueMessage, "to queue")];
        // Tab is for the command while the composer is empty.
        let counts = self.working.is_some() && (keys.is_empty() || !self.composer.is_empty());
        for (command, what) in steers.into_iter().filter(|_| counts) {
            let key = key(command);
            if !key.is_empty() {
                keys.push(format!("{key} {what}"));
            }
        }
        keys
    }

    fn shell_keys(&self) -> Vec<String> {
        let begun = self.now_ms >= self.shell_since + HINT_MS;
        if self.shell.is_none() || !begun {
            return Vec::new();
        }
        // Tab has another meaning in text, and silence has its own row.
        let types = self.composer.is_empty() && !self.is_shell_silent();
        let keys = [
            (KeyCommand::FocusShell, "to type into it", types),
            (KeyCommand::BackgroundToggle, "to run it in the background", true),
        ];
        let told = keys.into_iter().filter(|(.., counts)| *counts);
        let told = told.map(|(command, what, _)| (self.keymap.key_of(command), what));
        told.filter(|(key, _)| !key.is_empty())
            .map(|(key, what)| format!("{} {what}", key.to_lowercase()))
            .collect()
    }

    /// Resizes the command's terminal to the available space.
    pub(super) fn resize_shell(&mut self, item: &ItemId) {
        let input = ToolInput::Resize(self.shell_size());
        self.effect(Effect::Send(Op::ToolInput { item: item.clone(), input }));
    }

    /// Records output of the command.
    pub(super) fn shell_spoke(&mut self, item: &ItemId) {
        if self.shell.as_ref() == Some(item) {
            self.shell_spoke_at = self.now_ms;
        }
    }

    /// Moves the keyboard focus to the command or to the composer.
    pub(super) fn focus_shell(&mut self, focus: bool) {
        self.shell_focus = focus;
        self.shell_spoke_at = self.now_ms;
    }

    /// Whether the command has been silent for so long that it may be waiting for input.
    pub(super) fn is_shell_silent(&self) -> bool {
        self.can_be_silent() && self.now_ms >= self.shell_spoke_at + SILENCE_MS
    }

    /// Milliseconds until the silence hint or the title changes.
    pub(super) fn silent_in_ms(&self) -> Option<u64> {
        let told = if self.can_be_silent() { Some(SILENCE_MS) } else { None };
        let titled = if self.shell.is_some() && !self.shell_focus {
            [Some(ASKS_MS), Some(SLOW_MS)]
        } else {
            [None, None]
        };
        let due = told.into_iter().chain(titled.into_iter().flatten());
        due.map(|after| self.shell_spoke_at + after)
            .filter(|at| *at > self.now_ms)
            .map(|at| at - self.now_ms)
            .min()
    }

    /// Returns the window title of a command that has been silent for long.
    pub(super) fn silent_title(&self) -> Option<State> {
        if self.shell.is_none() || self.shell_focus {
            return None;
        }
        match self.now_ms.saturating_sub(self.shell_spoke_at) {
            silent if silent >= ASKS_MS && self.shell_asks => Some(State::Asking),
            silent if silent >= SLOW_MS => Some(State::Slow),
            _ => None,
        }
    }

    fn can_be_silent(&self) -> bool {
        self.shell.is_some() && !self.shell_focus && self.composer.is_empty()
    }

    /// Returns the row with the silence hint.
    pub(super) fn silence_row(&self, width: usize) -> Option<Line> {
        let text = self.is_shell_silent().then(|| self.silence_words())?;
        Some(Line::styled(truncate(&text, width).to_owned(), self.theme.warning))
    }

    /// Returns the row that replaces the composer while the command has the focus.
    pub(super) fn focus_row(&self, width: usize) -> Line {
        let text = format!("» {}", self.focus_words());
        Line::styled(truncate(&text, width).to_owned(), self.theme.accent.bold())
    }

    /// Announces changes of the command to a screen reader, each once.
    pub(super) fn tell_shell(&mut self, finished: &mut Vec<Line>) {
        let told = &self.announced.shell;
        let now = (self.shell.clone(), self.shell_focus, self.is_shell_silent());
        if *told == now {
            return;
        }
        if let (Some(_), true) = (&now.0, told.0 != now.0) {
            finished.push(Line::raw(format!("Running: {}", self.shell_title)));
        }
        if now.1 && !told.1 {
            finished.push(Line::raw(self.focus_words()));
        } else if told.1 && !now.1 {
            finished.push(Line::raw("Keys go to the input again."));
        }
        if now.2 && !told.2 {
            finished.push(Line::raw(self.silence_words()));
        }
        self.announced.shell = now;
    }

    fn silence_words(&self) -> String {
        let key = self.keymap.key_of(KeyCommand::FocusShell);
        format!("The command has had no output for a while; press {key} to type into it")
    }

    fn focus_words(&self) -> String {
        let key = self.keymap.key_of(KeyCommand::UnfocusShell);
        format!("Keys go to the command; press {key} to return to the input")
    }
}
