//! Commands: the one that runs in its own terminal, with its keyboard focus and the hint that it
//! may be waiting for input, and those in the background.

use std::sync::Arc;

use parallax_protocol::ids::ItemId;
use parallax_protocol::op::{Op, ToolInput};
use parallax_screen::Line;

use super::background_tasks::BackgroundTasks;
use crate::keymap::{KeyCommand, Keymap};
use crate::layout::truncate_text;
use crate::status::AgentActivity;
use crate::theme::Theme;
use crate::title::TitleState;

/// How long a command has no output before the hint about typing into it is shown, in milliseconds.
const SILENCE_MS: u64 = 5_000;
/// How long a command runs before its keys are shown, in milliseconds.
const HINT_MS: u64 = 1_000;
/// How long a command whose last row is unterminated (as that of a prompt) is silent before the
/// window title shows it, in milliseconds.
const ASKS_MS: u64 = 30_000;
/// The same for any other command, in milliseconds.
const SLOW_MS: u64 = 120_000;

/// The state around the view that it depends on.
#[derive(Debug)]
pub(crate) struct ShellViewContext {
    pub(crate) now_ms: u64,
    /// Whether the composer contains text.
    pub(crate) has_draft: bool,
    pub(crate) keymap: Arc<Keymap>,
}

/// The running command.
#[derive(Debug)]
struct ForegroundCommand {
    item: ItemId,
    /// The title, in one row.
    title: String,
    /// When it started, in milliseconds of the clock.
    started_ms: u64,
    /// When it last wrote output or was sent a key, in milliseconds of the clock.
    spoke_at: u64,
    /// Whether the last row of its output is unterminated, as that of a prompt for input.
    awaits_input: bool,
    /// Whether its program has enabled application cursor keys.
    application_cursor: bool,
    /// Whether keys go to it.
    has_focus: bool,
}

/// What was announced to a screen reader.
#[derive(Debug, Default, PartialEq, Eq)]
struct AnnouncedCommand {
    has_focus: bool,
    is_silent: bool,
}

/// The commands that run.
#[derive(Debug, Default)]
pub(crate) struct ShellView {
    running: Option<ForegroundCommand>,
    pub(crate) background: BackgroundTasks,
    announced: AnnouncedCommand,
}

impl ShellView {
    /// Records that a command started.
    pub(crate) fn begin(&mut self, item: &ItemId, title: &str, now_ms: u64) {
        let title = crate::sanitize::one_row(title).into_owned();
        match &mut self.running {
            Some(running) if running.item == *item => {
                (running.title, running.awaits_input) = (title, false);
            }
            running => {
                let has_focus = running.as_ref().is_some_and(|before| before.has_focus);
                *running = Some(ForegroundCommand {
                    item: item.clone(),
                    title,
                    started_ms: now_ms,
                    spoke_at: now_ms,
                    awaits_input: false,
                    application_cursor: false,
                    has_focus,
                });
            }
        }
    }

    /// Records that an item ended, which may be the command.
    pub(crate) fn item_done(&mut self, item: &ItemId) {
        self.running.take_if(|running| running.item == *item);
    }

    /// Forgets the commands, because another session begins.
    pub(crate) fn clear(&mut self) {
        self.running = None;
        self.background.clear();
    }

    /// Returns the running command.
    pub(crate) fn item(&self) -> Option<&ItemId> {
        self.running.as_ref().map(|running| &running.item)
    }

    /// Whether a command runs.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether keys go to the command.
    pub(crate) fn has_focus(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.has_focus)
    }

    /// Records output of an item, which may be the command.
    pub(crate) fn record_output(&mut self, item: &ItemId, now_ms: u64) {
        if let Some(running) = self.running.as_mut().filter(|running| running.item == *item) {
            running.spoke_at = now_ms;
        }
    }

    /// Records the state of the command's terminal: its cursor keys, and whether its last row is
    /// unterminated.
    pub(crate) fn record_screen(
        &mut self,
        item: &ItemId,
        application_cursor: bool,
        asks: bool,
        now_ms: u64,
    ) {
        if let Some(running) = self.running.as_mut().filter(|running| running.item == *item) {
            running.application_cursor = application_cursor;
            running.awaits_input = asks;
            running.spoke_at = now_ms;
        }
    }

    /// Moves the keyboard focus to the command, or to the composer.
    pub(crate) fn focus(&mut self, focus: bool, now_ms: u64) {
        if let Some(running) = &mut self.running {
            (running.has_focus, running.spoke_at) = (focus, now_ms);
        }
    }

    /// Takes the keyboard focus from the command.
    pub(crate) fn release(&mut self) {
        if let Some(running) = &mut self.running {
            running.has_focus = false;
        }
    }

    /// Whether the program of the command has enabled application cursor keys.
    pub(crate) fn application_cursor(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.application_cursor)
    }

    /// Moves the command to the background. Returns `None` if none runs.
    pub(crate) fn move_to_background(&mut self) -> Option<Op> {
        self.release();
        let item = self.item()?.clone();
        Some(Op::ToolInput { item, input: ToolInput::ToBackground })
    }

    /// Types bytes into the command.
    pub(crate) fn type_bytes(&self, bytes: Vec<u8>) -> Option<Op> {
        let item = self.item().filter(|_| !bytes.is_empty())?.clone();
        Some(Op::ToolInput { item, input: ToolInput::Bytes(bytes) })
    }

    /// Returns the command as work outside a turn.
    pub(crate) fn work(&self) -> Option<AgentActivity> {
        let running = self.running.as_ref()?;
        let mut activity =
            AgentActivity { since_ms: running.started_ms, ..AgentActivity::default() };
        activity.runs(&running.item, &running.title, true);
        Some(activity)
    }

    /// Returns the state of the command for the window title.
    pub(crate) fn title(&self) -> Option<TitleState> {
        self.running.as_ref().map(|running| TitleState::Working(running.title.clone()))
    }

    /// Returns the window title of a command that has been silent for long.
    pub(crate) fn silence_title(&self, now_ms: u64) -> Option<TitleState> {
        let running = self.running.as_ref().filter(|running| !running.has_focus)?;
        match now_ms.saturating_sub(running.spoke_at) {
            silent if silent >= ASKS_MS && running.awaits_input => Some(TitleState::Asking),
            silent if silent >= SLOW_MS => Some(TitleState::Slow),
            _ => None,
        }
    }

    /// Whether the command has been silent for so long that it may be waiting for input.
    pub(crate) fn is_silent(&self, context: &ShellViewContext) -> bool {
        let running = self.running.as_ref().filter(|running| !running.has_focus);
        !context.has_draft
            && running.is_some_and(|running| context.now_ms >= running.spoke_at + SILENCE_MS)
    }

    /// Milliseconds until the silence hint or the title changes.
    pub(crate) fn next_silence_change(&self, now_ms: u64, has_draft: bool) -> Option<u64> {
        let running = self.running.as_ref().filter(|running| !running.has_focus)?;
        let silence = (!has_draft).then_some(SILENCE_MS);
        let due = silence.into_iter().chain([ASKS_MS, SLOW_MS]);
        due.map(|after| running.spoke_at + after)
            .filter(|at| *at > now_ms)
            .map(|at| at - now_ms)
            .min()
    }

    /// Hints for the keys of the command, once it has run for a moment.
    pub(crate) fn keys(&self, context: &ShellViewContext) -> Vec<String> {
        let is_running_long =
            |running: &ForegroundCommand| context.now_ms >= running.started_ms + HINT_MS;
        if !self.running.as_ref().is_some_and(is_running_long) {
            return Vec::new();
        }
        // Tab has another meaning in text, and silence has its own row.
        let types = !context.has_draft && !self.is_silent(context);
        let keys = [
            (KeyCommand::FocusShell, "to type into the command", types),
            (KeyCommand::BackgroundToggle, "to run it in the background", true),
        ];
        let hints = keys.into_iter().filter(|(.., counts)| *counts);
        let hints = hints.map(|(command, what, _)| (context.keymap.hint_key(command), what));
        hints
            .filter(|(key, _)| !key.is_empty())
            .map(|(key, what)| format!("{key} {what}"))
            .collect()
    }

    /// Returns the row with the silence hint.
    pub(crate) fn silence_hint_row(
        &self,
        context: &ShellViewContext,
        width: usize,
        theme: &Theme,
    ) -> Option<Line> {
        let text = self.is_silent(context).then(|| silence_hint(&context.keymap))?;
        Some(Line::styled(truncate_text(&text, width), theme.warning))
    }

    /// Announces changes in the state of the command to a screen reader, each once.
    pub(crate) fn announce(&mut self, context: &ShellViewContext) -> Vec<Line> {
        let current =
            AnnouncedCommand { has_focus: self.has_focus(), is_silent: self.is_silent(context) };
        let previous = std::mem::take(&mut self.announced);
        let mut rows = Vec::new();
        if current.has_focus && !previous.has_focus {
            rows.push(Line::raw(focus_notice(&context.keymap)));
        } else if previous.has_focus && !current.has_focus {
            rows.push(Line::raw("Keys go to the input again."));
        }
        if current.is_silent && !previous.is_silent {
            rows.push(Line::raw(silence_hint(&context.keymap)));
        }
        self.announced = current;
        rows
    }
}

/// Returns the row that replaces the composer while the command has focus.
pub(crate) fn focus_row(keymap: &Keymap, width: usize, theme: &Theme) -> Line {
    let text = format!("» {}", focus_notice(keymap));
    Line::styled(truncate_text(&text, width), theme.accent.bold())
}

fn silence_hint(keymap: &Keymap) -> String {
    let key = keymap.hint_key(KeyCommand::FocusShell);
    format!("The command has produced no output for a while; press {key} to type into it")
}

fn focus_notice(keymap: &Keymap) -> String {
    let key = keymap.hint_key(KeyCommand::UnfocusShell);
    format!("Keys go to the command; press {key} to return to the input")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keymap::Platform;

    #[test]
    fn silence_is_shown_until_the_next_output() {
        let keymap = Arc::new(Keymap::load(Platform::Linux, ""));
        let context_at =
            |now_ms| ShellViewContext { now_ms, has_draft: false, keymap: keymap.clone() };
        let (item, mut shell) = ("sh".into(), ShellView::default());
        assert!(!shell.is_silent(&context_at(9_000)));
        shell.begin(&item, "cat\nx", 1_000);
        assert_eq!(shell.next_silence_change(1_000, false), Some(SILENCE_MS));
        assert!(!shell.is_silent(&context_at(5_999)) && shell.is_silent(&context_at(6_000)));
        shell.record_output(&item, 6_000);
        assert!(!shell.is_silent(&context_at(6_000)));
        shell.record_screen(&item, false, true, 6_000);
        assert_eq!(shell.silence_title(6_000 + ASKS_MS), Some(TitleState::Asking));
        shell.focus(true, 7_000);
        assert!(shell.has_focus() && shell.silence_title(900_000).is_none());
        shell.item_done(&item);
        assert!(!shell.is_running() && !shell.has_focus());
    }
}
