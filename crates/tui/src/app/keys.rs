//! Routes keys: to the dialog, the approval request, the running command, the program, the
//! completion list, or the composer. The first that uses the key takes it.

use parallax_protocol::event::Question;
use parallax_protocol::op::{ApprovalResponse, Op};
use parallax_protocol::policy::ApprovalMode;
use parallax_screen::{Key, KeyCode, burst_text};

use super::App;
use super::submit::is_slash;
use crate::app::commands::completions;
use crate::app::commands::custom_commands;
use crate::app::commands::devtools;
use crate::app::commands::editor;
use crate::app::commands::lists;
use crate::app::commands::rewind;
use crate::app::commands::sign_in;
use crate::app::effect::Effect;
use crate::app::mouse;
use crate::app::pager;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::components::hints::{PendingSecondPress, SecondPressAction};
use crate::components::transcript_pane::ExpandedContent;
use crate::composer::{ComposerAction, ComposerContext};
use crate::dialog::{DialogKey, QuestionAnswer};
use crate::keymap::{KeyCommand, KeymapContext};
use crate::terminal_keys;

/// The placeholders of the empty input; they change after each prompt.
const PLACEHOLDERS: [&str; 6] = [
    "Type your message or @path/to/file",
    "Type your message or / for a command",
    "Type your message or ! to run a shell command",
    "Type your message or ? to see the keys",
    "Type your message or /undo to revert the last changes",
    "Type your message or /rewind to go back to an earlier one",
];
/// The placeholder while the agent is running.
const BUSY_PLACEHOLDER: &str = "Type your message to steer the agent";

impl App {
    pub(super) fn handle_key(&mut self, key: Key) {
        if self.window.is_frozen() {
            // Any key leaves copy mode.
            return mouse::toggle_copy_mode(self);
        }
        if self.is_paging() {
            pager::handle_key(self, key);
        } else if self.dialogs.is_too_early(key, &self.dialog_context()) {
            self.type_into_composer(key);
        } else if self.move_focus_to_dialog(key)
            || self.dialogs.repeats_answer(key, &self.dialog_context())
        {
            // The dialog was drawn too recently to be answered.
        } else if self.dialogs.is_open() {
            self.answer(key, Self::handle_overlay_key);
        } else if self.shell.has_focus() {
            self.send_key_to_shell(key);
        } else if self.dialogs.has_approvals() && !self.dialogs.is_writing(self.clock.now_ms()) {
            self.answer(key, Self::handle_question_key);
        } else {
            self.handle_composer_key(key);
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        if self.is_paging() {
            self.pane.pager_paste(text);
        } else if let Some(overlay) = self.dialogs.overlay_mut() {
            overlay.paste(text);
        } else if self.shell.has_focus() {
            // Terminals send the line endings of pasted text as the Enter key.
            self.type_to_shell(text.replace('\n', "\r").into_bytes());
        } else if self.dialogs.is_writing(self.clock.now_ms())
            || !self.dialogs.paste_into_approval(text)
        {
            self.composer.paste(text);
            completions::update(self);
        }
    }

    /// Handles several lines that arrived at once: pasted where text is typed, otherwise handled
    /// key by key.
    pub(super) fn handle_burst(&mut self, keys: &[Key]) {
        for (index, key) in keys.iter().enumerate() {
            let rest = keys.get(index..).unwrap_or_default();
            let text = rest.iter().position(|key| key.ends_line());
            let is_several = text.is_some_and(|end| rest.len() > end + 1);
            if is_several && self.is_typing_text() {
                return self.paste(&burst_text(rest));
            }
            self.handle_key(*key);
        }
    }

    /// Whether keys are typed into the composer or into the text of an answer.
    fn is_typing_text(&self) -> bool {
        let approval =
            self.dialogs.approval().filter(|_| !self.dialogs.is_writing(self.clock.now_ms()));
        !self.window.is_frozen()
            && !self.is_paging()
            && !self.dialogs.is_open()
            && !self.shell.has_focus()
            && approval.is_none_or(|question| question.is_typing())
    }

    /// Moves the focus to a dialog that opened by itself over text. Returns whether the key did
    /// only that.
    fn move_focus_to_dialog(&mut self, key: Key) -> bool {
        let context = self.dialog_context();
        let turns = self.dialogs.moves_focus_to_dialog(key, &context);
        if turns {
            self.hint_second_press(SecondPressAction::Answer, "press it again to answer");
        }
        turns
    }

    /// Gives the key to the composer; the dialog waits for a pause in typing.
    fn type_into_composer(&mut self, key: Key) {
        self.dialogs.hide_while_typing(self.clock.now_ms());
        if key.character().is_some() {
            self.handle_composer_key(key);
        }
    }

    /// Passes a key to the dialog and records the time if it answered a request.
    fn answer(&mut self, key: Key, answer: impl FnOnce(&mut Self, Key)) {
        let before = self.dialogs.state_before_answer();
        answer(self, key);
        self.dialogs.note_answer(&before, self.clock.now_ms());
    }

    fn handle_overlay_key(&mut self, key: Key) {
        let is_typing = self.dialogs.overlay().is_some_and(Overlay::is_typing);
        if key == Key::ctrl('c') && self.is_second(PendingSecondPress::Quit) {
            return self.queue_effect(Effect::Quit { delete: false });
        }
        let is_server = self.dialogs.purpose() == Some(&DialogPurpose::ServerQuestion);
        if is_server && is_text_key(key, "jk") {
            return self.type_into_composer(key);
        }
        let dialog_key = DialogKey::from_keymap(&self.keymap, key, is_typing);
        if let Some(overlay) = self.dialogs.overlay_mut() {
            let response = overlay.key(dialog_key, key);
            self.overlay_answer(response);
        }
    }

    fn handle_question_key(&mut self, key: Key) {
        if self.everywhere_key(key, KeymapContext::DIALOG) {
            return;
        }
        let is_typing = self.dialogs.is_typing_into_approval();
        if self.keymap.commands_for(key, KeymapContext::COMPOSER).any(|it| it == KeyCommand::Quit) {
            return self.quit_key(false);
        }
        // `y` moves to the yes choice and Enter takes it; if more letters follow, it was text.
        let yes = self.dialogs.take_pressed_yes();
        let says_yes = key.character() == Some('y') && !yes && self.dialogs.has_yes_choice();
        if !is_typing && (yes || !says_yes) && is_text_key(key, if yes { "" } else { "ejk" }) {
            self.dialogs.note_typing(self.clock.now_ms());
            if yes {
                self.composer.buffer_mut().insert("y");
            }
            return self.handle_composer_key(key);
        }
        if !is_typing && says_yes && self.dialogs.select_yes() {
            return;
        }
        let dialog_key = DialogKey::from_keymap(&self.keymap, key, is_typing);
        let Some(answer) = self.dialogs.approval_key(dialog_key, key) else { return };
        match answer {
            QuestionAnswer::Stay => {}
            QuestionAnswer::Decided(decide) => {
                let Some(approval) = self.dialogs.take_approval() else { return };
                let kind = approval.question;
                if matches!(kind, Question::Fallback | Question::Budget | Question::Loop) {
                    let is_cancelled = decide.outcome == ApprovalResponse::Cancel;
                    self.prompt_queue.note_stopped(is_cancelled);
                }
                self.set_waiting(self.dialogs.has_approvals());
                if let Some(prepared) = self.catalog.take_awaiting(&approval.id) {
                    let response = decide.outcome;
                    return custom_commands::handle_answer(self, prepared, &approval, response);
                }
                match self.editor.is_open(&approval.id)
                    && decide.outcome != ApprovalResponse::Cancel
                {
                    true => editor::take_text(self, approval, decide),
                    false => {
                        if decide.outcome.is_lasting() {
                            self.dialogs.hold_until_closed(approval.id);
                        }
                        self.queue_effect(Effect::Send(Op::Decide(decide)));
                    }
                }
            }
            QuestionAnswer::Edit => self.edit_change(),
            QuestionAnswer::Hunks(taken) => self.take_hunks(&taken),
        }
    }

    /// Records whether the agent waits for the user.
    pub(super) fn set_waiting(&mut self, waiting: bool) {
        self.turn.wait(waiting, self.clock.now_ms());
    }

    /// Handles keys that work everywhere, including in dialogs.
    pub(super) fn everywhere_key(&mut self, key: Key, context: KeymapContext) -> bool {
        for command in self.keymap.commands_for(key, context).collect::<Vec<_>>() {
            match command {
                KeyCommand::ShowErrorDetails => devtools::log_key(self),
                KeyCommand::ClearScreen => self.queue_effect(Effect::Redraw),
                KeyCommand::ShowFullTodos => self.todos.toggle(),
                KeyCommand::Suspend => self.suspend(),
                KeyCommand::ShowIdeContextDetail => editor::status(self),
                KeyCommand::ToggleCopyMode => mouse::toggle_copy_mode(self),
                KeyCommand::ToggleMouseMode => mouse::toggle_mouse(self),
                KeyCommand::ShowTranscript => pager::open(self),
                _ => continue,
            }
            return true;
        }
        false
    }

    /// Handles keys of the program that the composer does not use.
    fn handle_program_key(&mut self, key: Key) {
        for command in self.keymap.commands_for(key, KeymapContext::COMPOSER).collect::<Vec<_>>() {
            let done = match command {
                KeyCommand::Quit => {
                    self.quit_key(false);
                    true
                }
                KeyCommand::CycleApprovalMode => {
                    self.cycle_mode();
                    true
                }
                KeyCommand::SelectModel => {
                    sign_in::open_model_dialog(self);
                    true
                }
                KeyCommand::ToggleYolo => {
                    self.toggle_yolo();
                    true
                }
                KeyCommand::ToggleMarkdown => {
                    self.transcript.options.raw_markdown ^= true;
                    self.status_data.raw_markdown = self.transcript.options.raw_markdown;
                    self.toast(match self.status_data.raw_markdown {
                        true => "showing Markdown source, starting with the next answer",
                        false => "rendering Markdown",
                    });
                    true
                }
                KeyCommand::ShowMoreLines => {
                    self.show_more();
                    true
                }
                KeyCommand::BackgroundToggle => {
                    self.handle_background_key();
                    true
                }
                KeyCommand::FocusShell if self.shell.is_running() && self.composer.is_empty() => {
                    self.shell.focus(true, self.clock.now_ms());
                    true
                }
                _ => self.scroll_key(command),
            };
            if done {
                return;
            }
        }
    }

    /// Ctrl+O: switches running output between full and truncated. Rows in the scrollback cannot
    /// change, so the latest truncated content is printed again, and each further press prints the
    /// one before.
    fn show_more(&mut self) {
        let under_way = self.is_busy() || self.shell.is_running();
        if self.settings.alternate_buffer || under_way {
            self.transcript.options.expanded ^= true;
            let current = self.transcript.options.expanded;
            return self.toast(if current {
                "showing long content in full"
            } else {
                "truncating long content"
            });
        }
        match self.pane.expand_next(&self.transcript, self.window.width(), &self.theme) {
            Ok(ExpandedContent { rows, has_more }) => {
                self.show_rows(rows);
                if has_more {
                    let key = self.keymap.hint_key(KeyCommand::ShowMoreLines);
                    self.toast(format!("{key} again for earlier truncated content"));
                }
            }
            Err(reason) => self.toast(reason),
        }
    }

    /// Handles scroll keys in full screen.
    fn scroll_key(&mut self, command: KeyCommand) -> bool {
        if !self.settings.alternate_buffer {
            return false;
        }
        let page = isize::try_from(self.window.rows()).unwrap_or(20).saturating_sub(8).max(1);
        match command {
            KeyCommand::ScrollUp => self.scroll(-1),
            KeyCommand::ScrollDown => self.scroll(1),
            KeyCommand::ScrollPageUp => self.scroll(-page),
            KeyCommand::ScrollPageDown => self.scroll(page),
            KeyCommand::ScrollHome => self.pane.scroll_to_top(),
            KeyCommand::ScrollEnd => self.pane.scroll_to_bottom(),
            _ => return false,
        }
        true
    }

    /// Scrolls the transcript.
    pub(super) fn scroll(&mut self, rows: isize) {
        self.pane.scroll(rows, &mut self.transcript, &self.theme);
    }

    /// Whether this is the second press of a key. Records the first press otherwise.
    fn is_second(&mut self, what: PendingSecondPress) -> bool {
        self.hints.is_second(what, self.clock.now_ms())
    }

    /// Shows a hint that the key does more when pressed again.
    pub(super) fn hint_second_press(&mut self, second_press: SecondPressAction, text: &str) {
        self.hints.show_repeat_hint(second_press, text, self.clock.now_ms());
    }

    /// Ctrl+C: stops the agent; quits when pressed again. `cleared` is whether it cleared text.
    fn quit_key(&mut self, cleared: bool) {
        if !cleared && self.is_second(PendingSecondPress::Quit) {
            return self.queue_effect(Effect::Quit { delete: false });
        }
        if self.catalog.cancel_expansion() {
        } else if self.is_busy() || self.shell.is_running() {
            self.interrupt();
        }
        completions::update(self);
        if !cleared {
            let text = match self.session.is_attached() {
                true => "Press Ctrl+C again to detach",
                false => "Press Ctrl+C again to exit",
            };
            self.hint_second_press(SecondPressAction::Leave, text);
        }
    }

    /// Handles Escape when nothing was closed: stops the agent, or announces what a second Escape
    /// does.
    fn escape_key(&mut self) {
        if self.hints.hide_shortcuts() || self.catalog.cancel_expansion() {
        } else if self.is_busy() || self.shell.is_running() {
            self.interrupt();
        } else if !self.composer.is_empty() {
            self.hint_second_press(SecondPressAction::Escape, "press esc again to clear");
        } else if self.session.is_ready() && self.session.has_prompt() {
            let text = "press esc again to go back to an earlier prompt";
            self.hint_second_press(SecondPressAction::Escape, text);
        }
    }

    /// Interrupts the running turn; undelivered messages return to the queue or the composer.
    pub(super) fn interrupt(&mut self) {
        // Steering messages come before queued messages.
        for id in self.prompt_queue.requeue_steering() {
            self.queue_effect(Effect::Send(Op::Withdraw(id)));
        }
        // Messages queued for the cancelled turn return to the composer.
        if self.turn.is_compaction()
            && let Some(text) = self.prompt_queue.take_queued()
        {
            self.composer.insert_before(&text);
        }
        self.queue_effect(Effect::Send(Op::Interrupt));
        self.turn.record_stop();
    }

    /// Explains once to Gemini CLI users what the YOLO key of Gemini CLI does here.
    fn explain_yank(&mut self, key: Key) {
        let has_both = |it: &Self| {
            let mut both = it.keymap.commands_for(key, KeymapContext::COMPOSER);
            both.any(|command| command == KeyCommand::ToggleYolo)
        };
        if !self.composer.take_yanked() || self.hints.has_explained_yank() || !has_both(self) {
            return;
        }
        self.hints.record_yank_hint();
        let name = |command| self.keymap.hint_key(command);
        let (pasted, yolo) = (name(KeyCommand::Yank), name(KeyCommand::ToggleYolo));
        // Before that, the key inserts deleted text.
        self.toast(format!(
            "{pasted} inserted the deleted text; press another key before {yolo} to toggle YOLO"
        ));
    }

    fn toggle_yolo(&mut self) {
        match self.status_data.mode {
            ApprovalMode::Yolo => self.set_mode(ApprovalMode::Default),
            _ => self.request_yolo(),
        }
    }

    /// Ctrl+B: moves the running command to the background, or opens the list of background
    /// processes.
    fn handle_background_key(&mut self) {
        match self.shell.move_to_background() {
            Some(op) => self.queue_effect(Effect::Send(op)),
            None => lists::open_tasks_dialog(self),
        }
    }

    pub(super) fn suspend(&mut self) {
        let composing = !self.dialogs.has_open_dialog() && !self.is_paging();
        if self.is_second(PendingSecondPress::Suspend) {
            if composing && self.hints.take_undo() {
                // The first press was not meant as undo.
                self.composer.buffer_mut().redo();
            }
            self.hints.clear();
            self.queue_effect(Effect::Suspend);
        } else {
            // The first press does what it does elsewhere.
            let undone = composing && self.composer.buffer_mut().undo();
            self.hints.note_undone(undone);
            completions::update(self);
            self.hint_second_press(SecondPressAction::Leave, "press ctrl+z again to suspend");
        }
    }

    /// Sends a key to the process that has the keyboard focus.
    fn send_key_to_shell(&mut self, key: Key) {
        let commands: Vec<KeyCommand> =
            self.keymap.commands_for(key, KeymapContext::SHELL).collect();
        if commands.contains(&KeyCommand::UnfocusShell) {
            self.shell.focus(false, self.clock.now_ms());
            self.toast("keys go to the input again");
        } else if commands.contains(&KeyCommand::BackgroundToggle) {
            self.handle_background_key();
        } else {
            if commands.contains(&KeyCommand::ShellUnfocusWarning) {
                let key = self.keymap.hint_key(KeyCommand::UnfocusShell);
                self.toast(format!("{key} returns to the input"));
            }
            self.type_to_shell(terminal_keys::bytes(key, self.shell.application_cursor()));
        }
    }

    fn type_to_shell(&mut self, bytes: Vec<u8>) {
        if let Some(op) = self.shell.type_bytes(bytes) {
            self.queue_effect(Effect::Send(op));
        }
    }

    pub(super) fn handle_composer_key(&mut self, key: Key) {
        if self.everywhere_key(key, KeymapContext::COMPOSER) {
            return;
        }
        if self.protects_draft(key) || completions::key(self, key) {
            return;
        }
        if key.character().is_some() || key.code == KeyCode::Backspace {
            self.dialogs.note_typing(self.clock.now_ms());
        }
        self.update_composer_context();
        let action = self.composer.key_at(key, &*self.keymap, self.clock.input_at());
        self.handle_composer_action(action, key);
    }

    /// Whether this key would send text that was in the composer when a request arrived.
    fn protects_draft(&mut self, key: Key) -> bool {
        let context = self.dialog_context();
        self.dialogs.protects_draft(key, &context)
    }

    /// Passes the state around the composer to it.
    pub(super) fn update_composer_context(&mut self) {
        self.composer.set_context(ComposerContext {
            busy: self.is_busy(),
            running: self.is_busy() || self.shell.is_running(),
            steering: true,
            queued: self.prompt_queue.len(),
            shows_warning: self.status_data.mode == ApprovalMode::Yolo,
            placeholder: match self.is_busy() {
                true => BUSY_PLACEHOLDER,
                false => PLACEHOLDERS[self.session.stats().turns.len() % PLACEHOLDERS.len()],
            },
        });
    }

    /// Handles the result of a key in the composer.
    pub(super) fn handle_composer_action(&mut self, action: ComposerAction, key: Key) {
        match action {
            ComposerAction::Ignored => self.handle_program_key(key),
            ComposerAction::Changed => {
                self.hints.hide_shortcuts();
                self.explain_yank(key);
                completions::update(self);
            }
            ComposerAction::Submit(submission) => self.handle_submission(&submission),
            ComposerAction::Steer(submission) => self.submit_while_running(&submission),
            ComposerAction::Queue(submission) => {
                self.transcript.remember_typed(&submission.text, &submission.display_text);
                self.queue(submission.text);
            }
            ComposerAction::Shell(command) => self.run_shell(command),
            ComposerAction::TakeQueue => self.take_back_queue(),
            ComposerAction::Interrupt { cleared } => self.quit_key(cleared),
            // The session keeps running, so this needs no second press.
            ComposerAction::Exit if self.session.is_attached() => {
                self.queue_effect(Effect::Quit { delete: false });
            }
            ComposerAction::Exit => {
                if self.is_second(PendingSecondPress::Exit) {
                    self.queue_effect(Effect::Quit { delete: false });
                } else {
                    self.hint_second_press(SecondPressAction::Leave, "press ctrl+d again to exit");
                }
            }
            ComposerAction::Escape => self.escape_key(),
            ComposerAction::Rewind => rewind::request(self),
            ComposerAction::PasteClipboard => self.queue_effect(Effect::PasteClipboard),
            ComposerAction::OpenEditor => self.edit_prompt(),
            ComposerAction::EditorHint => {
                let key = self.keymap.hint_key(KeyCommand::OpenExternalEditor);
                self.toast(format!("{key} opens the external editor"));
            }
            ComposerAction::ToggleShortcuts => self.hints.toggle_shortcuts(),
        }
    }

    /// Up in an empty composer: takes back the pending message, or lists several.
    fn take_back_queue(&mut self) {
        if self.prompt_queue.len() > 1 {
            return lists::open_queue_dialog(self);
        }
        if let Some(removed) = self.prompt_queue.pop() {
            if let Some(id) = removed.steer_id {
                self.queue_effect(Effect::Send(Op::Withdraw(id)));
            }
            self.composer.set_text(&removed.text);
        }
    }

    /// Queues text for the end of the turn.
    fn queue(&mut self, text: String) {
        if is_slash(&text) {
            self.composer.set_text(&text);
            return self.toast("commands cannot be queued");
        }
        self.remember(&text);
        match self.is_busy() {
            true => self.prompt_queue.push(text),
            false => self.submit(text),
        }
    }

    /// Opens the prompt in the user's editor.
    fn edit_prompt(&mut self) {
        self.queue_effect(Effect::Edit {
            text: self.composer.editor_text(),
            name: "buffer.txt".to_owned(),
            then: Box::new(|app, edited| match edited {
                Ok(text) => app.composer.set_editor_text(&text),
                Err(reason) => app.toast(reason),
            }),
        });
    }
}

/// Whether a key starts text or a command. Keys in `answers` do not.
fn is_text_key(key: Key, answers: &str) -> bool {
    let starts = |char: &char| char.is_alphabetic() || "/!@".contains(*char);
    key.character().filter(starts).is_some_and(|char| !answers.contains(char))
}
