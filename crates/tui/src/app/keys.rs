//! Routes keys: to the dialog, the approval request, the running command, the program, the
//! completion list, or the composer. The first that uses the key takes it.

use parallax_protocol::event::Question;
use parallax_protocol::op::{AskOutcome, Op, ToolInput};
use parallax_protocol::policy::ApprovalMode;
use parallax_screen::{Key, KeyCode, burst_text};

use super::App;
use super::hint::{Again, Armed};
use super::overlay::{Overlay, Purpose};
use super::submit::is_slash;
use crate::composer::{ComposerAction, Surroundings};
use crate::dialog::{DialogKey, QuestionAnswer};
use crate::effect::Effect;
use crate::keymap::{Context, KeyCommand};
use crate::terminal_keys;
use crate::transcript::Anchor;

impl App {
    pub(super) fn key(&mut self, key: Key) {
        if self.frozen {
            // Any key leaves copy mode.
            return self.toggle_copy_mode();
        }
        if self.is_paging() {
            self.pager_key(key);
        } else if self.is_too_early(key) {
            self.write_on(key);
        } else if self.turns_to_it(key) || self.follows_an_answer(key) {
            // The dialog was drawn too recently to be answered.
        } else if self.overlay.is_some() {
            self.answer(key, Self::overlay_key);
        } else if self.shell_focus {
            self.shell_key(key);
        } else if !self.questions.is_empty() && !self.is_writing() {
            self.answer(key, Self::question_key);
        } else {
            self.composer_key(key);
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        if self.is_paging() {
            self.pager_paste(text);
        } else if let Some(overlay) = &mut self.overlay {
            overlay.paste(text);
        } else if self.shell_focus {
            // Terminals send the line ends of pasted text as the Enter key.
            self.type_to_shell(text.replace('\n', "\r").into_bytes());
        } else if !self.is_writing()
            && let Some(question) = self.questions.front_mut().filter(|it| it.is_typing())
        {
            question.paste(text);
        } else {
            self.composer.paste(text);
            self.complete();
        }
    }

    /// Handles several lines that arrived at once: pasted where text is typed, otherwise handled
    /// key by key.
    pub(super) fn burst(&mut self, keys: &[Key]) {
        for (at, key) in keys.iter().enumerate() {
            let rest = keys.get(at..).unwrap_or_default();
            let text = rest.iter().position(|key| key.ends_line());
            let is_several = text.is_some_and(|end| rest.len() > end + 1);
            if is_several && self.writes_text() {
                return self.paste(&burst_text(rest));
            }
            self.key(*key);
        }
    }

    /// Whether keys are typed into the composer or into the text of an answer.
    fn writes_text(&self) -> bool {
        let asked = self.questions.front().filter(|_| !self.is_writing());
        !self.frozen
            && !self.is_paging()
            && self.overlay.is_none()
            && !self.shell_focus
            && asked.is_none_or(|question| question.is_typing())
    }

    /// Maps a key to its function in a dialog, using the key table first.
    pub(super) fn dialog_key(&self, key: Key, typing: bool) -> DialogKey {
        let command = self.keymap.command(key, Context::DIALOG);
        // Letters are text while the dialog has a text field.
        let is_text = typing && key.typed().is_some();
        match command {
            _ if is_text => DialogKey::Other(key),
            Some(KeyCommand::DialogUp) => DialogKey::Up,
            Some(KeyCommand::DialogDown) => DialogKey::Down,
            Some(KeyCommand::DialogNext) => DialogKey::Next,
            Some(KeyCommand::DialogPrevious) => DialogKey::Previous,
            Some(KeyCommand::Confirm) => DialogKey::Confirm,
            Some(KeyCommand::Cancel | KeyCommand::Quit) => DialogKey::Cancel,
            _ => DialogKey::of(key),
        }
    }

    fn overlay_key(&mut self, key: Key) {
        let typing = self.overlay.as_ref().is_some_and(|overlay| overlay.is_typing());
        if key == Key::ctrl('c') && self.again(Armed::Quit) {
            return self.effect(Effect::Quit { delete: false });
        }
        let is_server = |overlay: &Overlay| overlay.purpose == Purpose::ServerQuestion;
        if self.overlay.as_ref().is_some_and(is_server) && begins_text(key, "jk") {
            return self.write_on(key);
        }
        let dialog_key = self.dialog_key(key, typing);
        if let Some(overlay) = &mut self.overlay {
            let response = overlay.key(dialog_key, key);
            self.overlay_answer(response);
        }
    }

    fn question_key(&mut self, key: Key) {
        if self.everywhere_key(key, Context::DIALOG) {
            return;
        }
        let typing = self.questions.front().is_some_and(|question| question.is_typing());
        if self.keymap.commands_for(key, Context::COMPOSER).any(|it| it == KeyCommand::Quit) {
            return self.quit_key(false);
        }
        // `y` moves to the yes choice and Enter takes it; if more letters follow, it was text.
        let yes = std::mem::take(&mut self.yes);
        let says_yes = key.typed() == Some('y') && !yes && self.can_say_yes();
        if !typing && (yes || !says_yes) && begins_text(key, if yes { "" } else { "ejk" }) {
            self.writes();
            if yes {
                self.composer.buffer_mut().insert("y");
            }
            return self.composer_key(key);
        }
        if !typing && says_yes && self.questions.front_mut().is_some_and(|it| it.stand_on_yes()) {
            self.yes = true;
            return;
        }
        let dialog_key = self.dialog_key(key, typing);
        let Some(question) = self.questions.front_mut() else { return };
        match question.key(dialog_key, key) {
            QuestionAnswer::Stay => {}
            QuestionAnswer::Decided(decide) => {
                let Some(asked) = self.questions.pop_front() else { return };
                let kind = asked.ask.question;
                if matches!(kind, Question::Fallback | Question::Budget | Question::Loop) {
                    self.stopped = decide.outcome == AskOutcome::Cancel;
                }
                self.waiting(!self.questions.is_empty());
                match self.is_open_in_editor(&asked.ask.id) && decide.outcome != AskOutcome::Cancel
                {
                    true => self.take_editor_text(asked.ask, decide),
                    false => self.effect(Effect::Send(Op::Decide(decide))),
                }
            }
            QuestionAnswer::Edit => self.edit_change(),
            QuestionAnswer::Hunks(taken) => self.take_hunks(&taken),
        }
    }

    /// Records whether the agent waits for the user.
    pub(super) fn waiting(&mut self, waiting: bool) {
        let now = self.now_ms();
        if let Some(working) = &mut self.working {
            working.wait(waiting, now);
        }
    }

    /// Handles keys that work everywhere, including in dialogs.
    fn everywhere_key(&mut self, key: Key, context: Context) -> bool {
        for command in self.keymap.commands_for(key, context).collect::<Vec<_>>() {
            match command {
                KeyCommand::ShowErrorDetails => self.log_key(),
                KeyCommand::ClearScreen => self.effect(Effect::Redraw),
                KeyCommand::ShowFullTodos => self.show_todos = !self.show_todos,
                KeyCommand::Suspend => self.suspend(),
                KeyCommand::ShowIdeContextDetail => self.ide_status(),
                KeyCommand::ToggleCopyMode => self.toggle_copy_mode(),
                KeyCommand::ToggleMouseMode => self.toggle_mouse(),
                KeyCommand::ShowTranscript => self.open_pager(),
                _ => continue,
            }
            return true;
        }
        false
    }

    /// Handles keys of the program that the composer does not use.
    fn program_key(&mut self, key: Key) {
        for command in self.keymap.commands_for(key, Context::COMPOSER).collect::<Vec<_>>() {
            let done = match command {
                KeyCommand::Quit => {
                    self.quit_key(false);
                    true
                }
                KeyCommand::CycleApprovalMode => {
                    self.cycle_mode();
                    true
                }
                KeyCommand::ToggleYolo => {
                    self.toggle_yolo();
                    true
                }
                KeyCommand::ToggleMarkdown => {
                    self.transcript.options.raw_markdown ^= true;
                    self.facts.raw_markdown = self.transcript.options.raw_markdown;
                    self.toast(match self.facts.raw_markdown {
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
                    self.background_key();
                    true
                }
                KeyCommand::FocusShell if self.shell.is_some() && self.composer.is_empty() => {
                    self.focus_shell(true);
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
        let under_way = self.is_busy() || self.shell.is_some();
        if self.settings.alternate_buffer || under_way {
            self.transcript.options.expanded ^= true;
            let now = self.transcript.options.expanded;
            return self.toast(if now {
                "showing long content in full"
            } else {
                "truncating long content"
            });
        }
        let width = usize::from(self.size.0).saturating_sub(1).max(1);
        let folded = |app: &Self, before| app.transcript.folded_before(before, width, &app.theme);
        let Some((newest, rows)) = folded(self, usize::MAX) else {
            return self.toast("nothing was truncated");
        };
        // If something new was truncated since, start there again.
        let walk = self.unfolding.filter(|(began, _)| *began == newest);
        let (at, rows) = match walk {
            None => (newest, rows),
            Some((_, at)) => match folded(self, at) {
                Some(before) => before,
                None => {
                    self.unfolding = None;
                    return self.toast("no earlier truncated content");
                }
            },
        };
        self.unfolding = Some((newest, at));
        self.say(rows);
        if folded(self, at).is_some() {
            let key = self.keymap.key_of(KeyCommand::ShowMoreLines);
            self.toast(format!("{key} again for earlier truncated content"));
        }
    }

    /// Handles scroll keys in full screen.
    fn scroll_key(&mut self, command: KeyCommand) -> bool {
        if !self.settings.alternate_buffer {
            return false;
        }
        let page = isize::try_from(self.size.1).unwrap_or(20).saturating_sub(8).max(1);
        match command {
            KeyCommand::ScrollUp => self.scroll(-1),
            KeyCommand::ScrollDown => self.scroll(1),
            KeyCommand::ScrollPageUp => self.scroll(-page),
            KeyCommand::ScrollPageDown => self.scroll(page),
            KeyCommand::ScrollHome => self.anchor = Anchor::Top { item: 0, row: 0 },
            KeyCommand::ScrollEnd => self.anchor = Anchor::Bottom,
            _ => return false,
        }
        true
    }

    /// Scrolls the transcript.
    pub(super) fn scroll(&mut self, rows: isize) {
        let (width, height) = self.transcript_size;
        self.anchor = self.transcript.scroll(self.anchor, rows, width, height, &self.theme);
    }

    /// Ctrl+C: stops the agent; quits when pressed again. `cleared` is whether it cleared text.
    fn quit_key(&mut self, cleared: bool) {
        if !cleared && self.again(Armed::Quit) {
            return self.effect(Effect::Quit { delete: false });
        }
        if self.stop_custom() {
        } else if self.is_busy() || self.shell.is_some() {
            self.interrupt();
        }
        self.complete();
        if !cleared {
            self.hint_again(Again::Leave, "Press Ctrl+C again to exit");
        }
    }

    /// Handles Escape when nothing was closed: stops the agent, or announces what a second Escape
    /// does.
    fn escape_key(&mut self) {
        if std::mem::take(&mut self.show_shortcuts) || self.stop_custom() {
        } else if self.is_busy() || self.shell.is_some() {
            self.interrupt();
        } else if !self.composer.is_empty() {
            self.hint_again(Again::Escape, "press escape again to clear");
        } else if self.ready && self.prompted {
            let text = "press escape again to go back to an earlier prompt";
            self.hint_again(Again::Escape, text);
        }
    }

    /// Interrupts the running turn; undelivered messages return to the queue or the composer.
    pub(super) fn interrupt(&mut self) {
        // Steering messages come before queued messages.
        for steering in std::mem::take(&mut self.steering).into_iter().rev() {
            self.effect(Effect::Send(Op::Withdraw(steering.id)));
            self.queued.insert(0, steering.text);
        }
        if self.shortens && !self.queued.is_empty() {
            // Messages queued for the cancelled turn return to the composer.
            let text = std::mem::take(&mut self.queued).join("\n\n");
            self.composer.insert_before(&text);
        }
        self.effect(Effect::Send(Op::Interrupt));
        if let Some(working) = &mut self.working {
            "Stopping…".clone_into(&mut working.subject);
        }
    }

    /// Tells Gemini CLI users once what the Gemini CLI key for YOLO did here.
    fn tell_yank(&mut self, key: Key) {
        let has_both = |it: &Self| {
            let mut both = it.keymap.commands_for(key, Context::COMPOSER);
            both.any(|command| command == KeyCommand::ToggleYolo)
        };
        if !self.composer.take_yanked() || self.told_yank || !has_both(self) {
            return;
        }
        self.told_yank = true;
        let name = |command| self.keymap.key_of(command).to_lowercase();
        let (pasted, yolo) = (name(KeyCommand::Yank), name(KeyCommand::ToggleYolo));
        // Before that, the key inserts deleted text.
        self.toast(format!(
            "{pasted} inserted the deleted text; press another key before {yolo} to toggle YOLO"
        ));
    }

    fn toggle_yolo(&mut self) {
        match self.facts.mode {
            ApprovalMode::Yolo => self.set_mode(ApprovalMode::Default),
            _ => self.want_yolo(),
        }
    }

    /// Ctrl+B: moves the running command to the background, or opens the list of background
    /// processes.
    fn background_key(&mut self) {
        match &self.shell {
            Some(item) => {
                let op = Op::ToolInput { item: item.clone(), input: ToolInput::ToBackground };
                self.shell_focus = false;
                self.effect(Effect::Send(op));
            }
            None => self.tasks_dialog(),
        }
    }

    pub(super) fn suspend(&mut self) {
        let composing = self.overlay.is_none() && self.questions.is_empty() && !self.is_paging();
        if self.again(Armed::Suspend) {
            if composing && std::mem::take(&mut self.undone) {
                // The first press was not meant as undo.
                self.composer.buffer_mut().redo();
            }
            self.toast = None;
            self.effect(Effect::Suspend);
        } else {
            // The first press does what it does elsewhere.
            self.undone = composing && self.composer.buffer_mut().undo();
            self.complete();
            self.hint_again(Again::Leave, "press ctrl+z again to suspend");
        }
    }

    /// Sends a key to the process that has the keyboard focus.
    fn shell_key(&mut self, key: Key) {
        let commands: Vec<KeyCommand> = self.keymap.commands_for(key, Context::SHELL).collect();
        if commands.contains(&KeyCommand::UnfocusShell) {
            self.focus_shell(false);
            self.toast("keys go to the input again");
        } else if commands.contains(&KeyCommand::BackgroundToggle) {
            self.background_key();
        } else {
            if commands.contains(&KeyCommand::ShellUnfocusWarning) {
                let key = self.keymap.key_of(KeyCommand::UnfocusShell);
                self.toast(format!("{key} returns to the input"));
            }
            self.type_to_shell(terminal_keys::bytes(key, self.shell_application_cursor));
        }
    }

    fn type_to_shell(&mut self, bytes: Vec<u8>) {
        if let Some(item) = self.shell.clone()
            && !bytes.is_empty()
        {
            let op = Op::ToolInput { item, input: ToolInput::Bytes(bytes) };
            self.effect(Effect::Send(op));
        }
    }

    pub(super) fn composer_key(&mut self, key: Key) {
        if self.everywhere_key(key, Context::COMPOSER) {
            return;
        }
        if self.keeps_draft(key) || self.completion_key(key) {
            return;
        }
        if key.typed().is_some() || key.code == KeyCode::Backspace {
            self.writes();
        }
        self.surround();
        let action = self.composer.key_at(key, &self.keymap, self.came);
        self.composer_action(action, key);
    }

    /// Passes the state around the composer to it.
    pub(super) fn surround(&mut self) {
        self.composer.set_surroundings(Surroundings {
            busy: self.is_busy(),
            running: self.is_busy() || self.shell.is_some(),
            steering: true,
            queued: self.queued.len() + self.steering.len(),
            yolo: self.facts.mode == ApprovalMode::Yolo,
            prompts: self.stats.turns.len(),
        });
    }

    /// Handles the result of a key in the composer.
    pub(super) fn composer_action(&mut self, action: ComposerAction, key: Key) {
        match action {
            ComposerAction::Ignored => self.program_key(key),
            ComposerAction::Changed => {
                self.show_shortcuts = false;
                self.tell_yank(key);
                self.complete();
            }
            ComposerAction::Submit(submission) => self.submitted(&submission),
            ComposerAction::Steer(submission) => self.steered(&submission),
            ComposerAction::Queue(submission) => {
                self.transcript.note_typed(&submission.text, &submission.shown);
                self.queue(submission.text);
            }
            ComposerAction::Shell(command) => self.run_shell(command),
            ComposerAction::TakeQueue => self.take_back_queue(),
            ComposerAction::Interrupt { cleared } => self.quit_key(cleared),
            ComposerAction::Exit => {
                if self.again(Armed::Exit) {
                    self.effect(Effect::Quit { delete: false });
                } else {
                    self.hint_again(Again::Leave, "press ctrl+d again to exit");
                }
            }
            ComposerAction::Escape => self.escape_key(),
            ComposerAction::Rewind => self.rewind_dialog(),
            ComposerAction::PasteClipboard => self.effect(Effect::PasteClipboard),
            ComposerAction::OpenEditor => self.edit_prompt(),
            ComposerAction::EditorHint => {
                let key = self.keymap.key_of(KeyCommand::OpenExternalEditor);
                self.toast(format!("{key} opens the external editor"));
            }
            ComposerAction::ToggleShortcuts => self.show_shortcuts = !self.show_shortcuts,
        }
    }

    /// Up in an empty composer: takes back the pending message, or lists several.
    fn take_back_queue(&mut self) {
        if self.queued.len() + self.steering.len() > 1 {
            return self.queue_dialog();
        }
        if let Some(text) = self.queued.pop() {
            self.composer.set_text(&text);
        } else if let Some(steering) = self.steering.pop() {
            self.effect(Effect::Send(Op::Withdraw(steering.id)));
            self.composer.set_text(&steering.text);
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
            true => self.queued.push(text),
            false => self.submit(text),
        }
    }

    /// Opens the prompt in the user's editor.
    fn edit_prompt(&mut self) {
        self.effect(Effect::Edit {
            text: self.composer.editor_text(),
            name: "buffer.txt".to_owned(),
            then: Box::new(|app, edited| match edited {
                Ok(text) => app.composer.set_editor_text(&text),
                Err(why) => app.toast(why),
            }),
        });
    }
}

/// Whether a key starts a text or a command. Keys in `answers` do not.
fn begins_text(key: Key, answers: &str) -> bool {
    let begins = |char: &char| char.is_alphabetic() || "/!@".contains(*char);
    key.typed().filter(begins).is_some_and(|char| !answers.contains(char))
}
