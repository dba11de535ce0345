//! Carries out the effects requested by the app.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parallax_commands::expand::tokens_to_confirm;
use parallax_protocol::ids::{SessionId, SteerId};
use parallax_protocol::op::{Op, Prompt, SteeringMessage};
use parallax_protocol::policy::ApprovalMode;
use parallax_sdk::settings::InlineImages;
use parallax_sdk::trust::TrustAnswer;
use parallax_sessions::SessionChoice;
use parallax_sessions::recorded_items::read_names;

use parallax_screen::{
    Frame, GraphicsCapabilities, GraphicsProtocol, TaskbarProgress, TerminalKind,
};

use super::session::Session;
use super::{ExitReason, TerminalFrontEnd};
use crate::app::App;
use crate::app::commands::custom_commands;
use crate::app::commands::devtools;
use crate::app::commands::info;
use crate::app::commands::outside_files;
use crate::app::commands::sign_in;
use crate::app::effect::{Effect, Job, JobContinuation, ResultSender};
use crate::app::pager;
use crate::copied::CopyTarget;
use crate::signals::Signals;
use crate::transcript::DecodedImage;
use crate::{clipboard, edit_text, editors};

/// Time limit for closing a session while nothing can be drawn.
const SUSPENDED_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long closing a session may take before a message is shown.
const SILENCE: Duration = Duration::from_secs(1);

/// Returns an environment variable.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the operation for a prompt or a steering message.
fn prompt_operation(prompt: Prompt, steer: Option<SteerId>) -> Op {
    match steer {
        Some(id) => Op::Steer(SteeringMessage { id, prompt }),
        None => Op::Prompt(prompt),
    }
}

/// Puts the prompt back into the composer and shows the reason.
fn restore_prompt(reason: String, input: String) -> JobContinuation {
    Box::new(move |app| {
        app.show_error(&reason);
        app.composer.insert_before(&input);
    })
}

impl TerminalFrontEnd {
    /// Carries out all pending effects.
    pub(super) async fn run_pending_effects(&mut self) {
        loop {
            self.prepare_image();
            let effects = self.app.take_effects();
            if effects.is_empty() {
                return;
            }
            self.needs_draw = true;
            for effect in effects {
                self.run_effect(effect).await;
            }
        }
    }

    async fn run_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send(op) => self.send(op).await,
            Effect::RecordCommand(name) => {
                if let Some(session) = &self.session {
                    // A session that has ended records nothing.
                    let _ = session.send(Op::RecordCommand(name)).await;
                }
            }
            Effect::Prompt { text, steer, ask } => self.expand(text, steer, ask).await,
            Effect::AskPictures(then) => {
                let graphics = self.drawing();
                then(&mut self.app, graphics);
            }
            Effect::ConnectEditor(on) => {
                if let Some(companion) = &self.options.companion {
                    if on { companion.connect() } else { companion.disconnect() }
                }
            }
            Effect::OpenDiff { ask, path, text } => self.open_diff(ask, &path, text),
            Effect::CloseDiff(ask) => drop(self.diffs.remove(&ask)),
            Effect::TakeDiff(ask, then) => self.take_diff(&ask, then),
            Effect::AllowReading(paths) => {
                if let Some(own) = self.session.as_ref().and_then(Session::own) {
                    paths.iter().for_each(|path| own.expander.allow(path));
                }
            }
            Effect::RunWithSession(ask) => match self.session.as_ref().map(Session::own) {
                Some(Some(own)) => ask(&own.open)(&mut self.app),
                Some(None) => self.app.toast("not available in an attached session"),
                None => self.app.report_not_ready(),
            },
            Effect::AskOtherProcess(command) => self.ask_other_process(command),
            Effect::Run(job) => self.run(job),
            Effect::ReportProgress(job) => {
                let deliver = ResultSender(self.jobs.clone());
                tokio::task::spawn_blocking(move || job(deliver));
            }
            Effect::Expand(prepared, cancel) => {
                let jobs = self.jobs.clone();
                tokio::spawn(async move {
                    let expanded = prepared.run(&cancel).await;
                    // The front end may be gone.
                    let _ = jobs
                        .send(Box::new(move |app: &mut App| {
                            custom_commands::handle_expanded(app, expanded)
                        }))
                        .await;
                });
            }
            Effect::Trust(answer) => {
                if let Some(question) = self.trust.take() {
                    // Applies to any session opened next.
                    self.options.skip_trust |= answer == TrustAnswer::ByEditor;
                    match question.answer(answer) {
                        Ok(launch) => {
                            self.continue_opening(launch);
                            if !self.app.dialogs.is_open() {
                                self.open_session(self.options.session.clone());
                            }
                        }
                        Err(failure) => self.app.show_error(&failure.message),
                    }
                }
            }
            Effect::Open(_) | Effect::Reopen(..) if self.attached.is_some() => {
                self.app.toast("not available in an attached session");
            }
            Effect::Open(choice) => self.reopen(choice).await,
            Effect::Reopen(change, choice) => {
                change(&mut self.options);
                self.reopen(choice).await;
            }
            Effect::CheckKey(kind, key) => self.check_key(kind, key),
            Effect::CancelKeyCheck => {
                if let Some(check) = self.key_check.take() {
                    check.abort();
                }
            }
            Effect::AddProviderKey(provider, key) => self.add_provider_key(provider, key),
            Effect::OpenDevTools { browser } => self.open_devtools(browser),
            Effect::Edit { text, name, then } => {
                let launch = self.app.launch.as_ref();
                let command = launch.and_then(|it| {
                    Some((editors::command(it)?, it.session_library().editing_folder()))
                });
                let edited = match command {
                    // The editor owns the terminal; nothing else writes to it.
                    Some((command, place)) => self
                        .screen
                        .with_terminal_released(|| edit_text::edit(&command, &text, &name, &place))
                        .unwrap_or_else(|error| Err(error.to_string())),
                    None => Err("No editor is configured: set $EDITOR, or choose one with /editor"
                        .to_owned()),
                };
                then(&mut self.app, edited);
                self.app.window.resize(self.screen.size());
            }
            Effect::Copy(text) => self.copy(text),
            Effect::CopyByTerminal(text) => self.copy_by_terminal(&text),
            Effect::PasteClipboard => self.paste_clipboard(),
            // A terminal that does not allow it sends no answer.
            Effect::AskClipboard => {
                self.app.window.query_clipboard();
                drop(self.screen.query_clipboard());
            }
            // Failures of window decorations are ignored.
            Effect::Title(title) => drop(self.screen.set_title(&title)),
            Effect::Progress(working) => drop(self.screen.set_progress(if working {
                TaskbarProgress::Busy
            } else {
                TaskbarProgress::None
            })),
            Effect::Notify { title, text } => {
                let method = self.app.settings.notifications;
                drop(self.screen.notify(crate::notify::method(method), &title, &text));
            }
            Effect::Suspend => {
                if self.screen.suspend().is_ok() {
                    self.app.window.resize(self.screen.size());
                }
            }
            Effect::Resume => {
                if self.screen.resume().is_ok() {
                    self.app.window.resize(self.screen.size());
                }
            }
            Effect::Redraw => self.screen.redraw(),
            // A closed terminal is detected at the next frame.
            Effect::Mouse(on) => drop(self.screen.set_mouse(on)),
            Effect::Quit { delete } => {
                self.delete = delete;
                self.exit_reason = Some(ExitReason::Quit);
            }
        }
    }

    async fn send(&mut self, op: Op) {
        match &op {
            // Applies to any session opened next, including the same one reopened, as if it were a
            // command line option.
            Op::SetModel(model) => self.options.model = Some(model.clone()),
            Op::AddDirectory(_) | Op::SetBudget { .. } => self.session_changes.push(op.clone()),
            _ => {}
        }
        let sent = match &self.session {
            Some(session) => session.send(op).await,
            None => false,
        };
        if !sent {
            self.app.report_not_ready();
        }
    }

    /// Sends a prompt with the contents of its `@path` references, which are read on a thread.
    async fn expand(&mut self, text: String, steer: Option<SteerId>, ask: bool) {
        let Some(session) = &self.session else {
            return restore_prompt("The session is not open.".to_owned(), text)(&mut self.app);
        };
        let ops = session.ops.clone();
        // The process of an attached session reads the files itself.
        let expander = session.own().map(|own| own.expander.clone());
        let shown = self.app.command_for(&text);
        let labeled_text = self.app.labeled_text(&text);
        let Some(expander) = expander.filter(|_| text.contains('@')) else {
            let prompt = Prompt { text, typed_command: shown, labeled_text, ..Prompt::default() };
            return self.send(prompt_operation(prompt, steer)).await;
        };
        let jobs = self.jobs.clone();
        tokio::spawn(async move {
            let typed = text.clone();
            let read = tokio::task::spawn_blocking(move || {
                let outside =
                    if ask { expander.paths_outside_workspace(&text) } else { Vec::new() };
                if outside.is_empty() { Ok(expander.prompt(text)) } else { Err(outside) }
            });
            let then: JobContinuation = match read.await {
                Ok(Err(outside)) => {
                    Box::new(move |app| outside_files::ask(app, typed, steer, outside))
                }
                Ok(Ok(Ok(prompt))) if ask && tokens_to_confirm(&prompt).is_some() => {
                    let tokens = tokens_to_confirm(&prompt).unwrap_or_default();
                    Box::new(move |app| {
                        outside_files::confirm_large_files(
                            app,
                            typed,
                            steer,
                            tokens,
                            &prompt.notices,
                        )
                    })
                }
                Ok(Ok(Ok(mut prompt))) => {
                    prompt.typed_command = shown;
                    prompt.labeled_text = labeled_text;
                    let names = read_names(&prompt.attachments);
                    let shown = prompt.typed_command.as_ref().unwrap_or(&prompt.text).clone();
                    if !names.is_empty() {
                        // Before the prompt, because its event needs them.
                        let note: JobContinuation =
                            Box::new(move |app| app.sent_prompts.note_read(shown, names));
                        let _ = jobs.send(note).await;
                    }
                    match ops.send(prompt_operation(prompt, steer)).await {
                        Ok(()) => return,
                        Err(error) => restore_prompt(error.to_string(), typed),
                    }
                }
                Ok(Ok(Err(failure))) => restore_prompt(failure.message, typed),
                Err(error) => restore_prompt(error.to_string(), typed),
            };
            // The front end may be gone.
            let _ = jobs.send(then).await;
        });
    }

    fn run(&self, job: Job) {
        let jobs = self.jobs.clone();
        tokio::task::spawn_blocking(move || {
            // The front end may be gone.
            let _ = jobs.blocking_send(job());
        });
    }

    /// Starts the page of the session, and shows a link to it.
    pub(super) fn open_devtools(&mut self, browser: bool) {
        let Some(launch) = self.app.launch.clone().filter(|_| self.session.is_some()) else {
            return self.app.report_not_ready();
        };
        let id = SessionId::from(self.app.session.id());
        let (pages, jobs) = (Arc::clone(&self.devtools), self.jobs.clone());
        tokio::spawn(async move {
            let link = pages.link(launch, id, browser).await;
            // A front end that is gone needs no answer.
            let _ =
                jobs.send(Box::new(move |app: &mut App| devtools::handle_start(app, link))).await;
        });
    }

    fn check_key(
        &mut self,
        kind: parallax_sdk::credential::KeyKind,
        key: parallax_protocol::secret::Secret,
    ) {
        let Some(launch) = self.app.launch.clone() else { return };
        let jobs = self.jobs.clone();
        let check = tokio::spawn(async move {
            let checked = match launch.provider_manager().check_key(kind, &key).await {
                // The keychain may prompt the user.
                Ok(()) => tokio::task::spawn_blocking(move || {
                    launch.provider_manager().store_key(kind, &key)
                })
                .await
                .map_err(|error| error.to_string())
                .and_then(|stored| stored.map_err(|failure| failure.message)),
                Err(failure) => Err(failure.message),
            };
            let then: JobContinuation = Box::new(move |app| {
                let good = checked.is_ok();
                app.key_checked(checked);
                if good {
                    app.queue_effect(Effect::Open(SessionChoice::New));
                }
            });
            let _ = jobs.send(then).await;
        });
        self.key_check = Some(check.abort_handle());
    }

    fn add_provider_key(&mut self, provider: String, key: parallax_protocol::secret::Secret) {
        let Some(launch) = self.app.launch.clone() else { return };
        let jobs = self.jobs.clone();
        let check = tokio::spawn(async move {
            let added = launch.provider_manager().add_provider_key(&provider, &key).await;
            let added = added.map(|key| key.unchecked).map_err(|failure| failure.message);
            let then: JobContinuation =
                Box::new(move |app| sign_in::provider_key_added(app, &provider, added));
            let _ = jobs.send(then).await;
        });
        self.key_check = Some(check.abort_handle());
    }

    /// Closes the open session and opens another. On failure, reopens the previous one.
    async fn reopen(&mut self, choice: SessionChoice) {
        let (mut before, mut output) = (None, Vec::new());
        let (mode, mut reports_mode) = (self.app.status_data.mode, false);
        let set_here = std::mem::take(&mut self.session_changes);
        let is_same = self.app.session.is_shown() && matches!(choice, SessionChoice::New);
        let mut rules = Vec::new();
        let mut lock = None;
        if let Some(open) = self.session.take().and_then(Session::into_open) {
            lock = Some(open.begin_lock_handover());
            // The approval mode chosen by the user stays; a mode with more permissions is not
            // restored.
            if mode != open.mode {
                self.options.approval_mode = Some(mode);
            }
            // A reopened session keeps its mode; a fork is another session.
            let is_copy = matches!(
                &choice, SessionChoice::Resume(id) if *id != open.id.as_str()
            );
            rules = open.session_rules();
            // Approvals for a session do not apply to another.
            self.options.session_rules =
                if self.app.session.is_shown() && !is_copy { rules.clone() } else { Vec::new() };
            reports_mode = (is_copy || !self.app.session.is_shown())
                && (mode != open.mode || mode == ApprovalMode::Plan);
            before = Some(match open.is_resumable() {
                true => SessionChoice::Resume(open.id.as_str().to_owned()),
                false => SessionChoice::New,
            });
            // Nothing is drawn in the meantime.
            let hurry = tokio::time::sleep(SUSPENDED_CLOSE_TIMEOUT);
            let notices = match choice {
                SessionChoice::Clear => open.clear_until(hurry).await,
                _ => open.close_with_limit(hurry).await,
            };
            output = notices.into_iter().map(|notice| notice.text).collect();
        }
        self.app.clear_session();
        self.open_session(choice);
        if let Some(before) =
            before.filter(|_| self.session.is_none() && !self.app.session.is_keyless())
        {
            self.options.session_rules = rules;
            self.open_session(before);
        }
        drop(lock);
        self.options.session_rules.clear();
        self.app.session.set_shown(false);
        if is_same {
            // Without a prompt there is no journal that contains these settings.
            for op in set_here {
                self.send(op).await;
            }
        }
        let own = self.session.as_ref().and_then(Session::own);
        if let Some(own) = own.filter(|_| reports_mode) {
            let holds = crate::status_line::mode(own.open.mode, &self.app.theme).0;
            self.app
                .info(format!("The approval mode is also `{holds}` here; shift+tab changes it."));
        }
        output.into_iter().for_each(|text| self.app.warn(text));
    }

    fn copy(&mut self, text: String) {
        let terminal = self.screen.capabilities().terminal;
        let only_terminal = self.app.settings.osc52_copy
            || clipboard::uses_terminal_clipboard(&variable)
            || terminal == TerminalKind::Screen;
        if terminal != TerminalKind::Tmux && only_terminal {
            return self.copy_by_terminal(&text);
        }
        let is_asked = terminal != TerminalKind::Tmux && self.screen.copy(&text).unwrap_or(false);
        self.run(Box::new(move || {
            let in_tmux = clipboard::copy_in_tmux(&text, &variable);
            let by_program = !only_terminal && clipboard::copy(&text, &variable);
            let copied = match (by_program, in_tmux) {
                (true, true) => CopyTarget::ClipboardAndTmux,
                (true, false) => CopyTarget::Clipboard,
                (false, true) => CopyTarget::Tmux,
                (false, false) if is_asked => CopyTarget::Clipboard,
                (false, false) => {
                    return Box::new(|app| app.queue_effect(Effect::CopyByTerminal(text)));
                }
            };
            Box::new(move |app| app.report_copy(copied))
        }));
    }

    /// Copies with the terminal's escape sequence, which has no confirmation.
    fn copy_by_terminal(&mut self, text: &str) {
        let copied = match self.screen.copy(text) {
            Ok(true) => match self.screen.capabilities().terminal {
                TerminalKind::Tmux => CopyTarget::AskedTmux,
                TerminalKind::Screen => CopyTarget::AskedScreen,
                _ => CopyTarget::Clipboard,
            },
            Ok(false) => CopyTarget::TooLong,
            Err(_) => CopyTarget::Unavailable,
        };
        self.app.report_copy(copied);
    }

    /// Returns how images are drawn, as far as the terminal has answered.
    fn drawing(&self) -> Option<GraphicsCapabilities> {
        match self.app.settings.inline_images {
            _ if self.app.settings.screen_reader => None,
            InlineImages::Off => None,
            InlineImages::Auto => self.screen.drawing(None),
            InlineImages::Kitty => self.screen.drawing(Some(GraphicsProtocol::Kitty)),
            InlineImages::Iterm => self.screen.drawing(Some(GraphicsProtocol::Iterm)),
            InlineImages::Sixel => self.screen.drawing(Some(GraphicsProtocol::Sixel)),
        }
    }

    /// Prepares the next image on a thread, one at a time.
    fn prepare_image(&mut self) {
        let Some((id, image)) = self.app.transcript.next_image() else { return };
        let graphics = self.drawing();
        let window = self.screen.size();
        self.run(Box::new(move || {
            let prepared = DecodedImage::new(&image, graphics.as_ref(), window);
            Box::new(move |app| app.transcript.record_decoded(id, &image, prepared))
        }));
    }

    fn paste_clipboard(&mut self) {
        let Some(launch) = &self.app.launch else { return };
        let folder =
            launch.session_library().images_folder(&SessionId::from(self.app.session.id()));
        let Some(folder) = folder else {
            return self.app.toast(
                "sessions are encrypted, and this system has no memory-backed directory for an \
                 image; name one with `@`",
            );
        };
        let by_terminal = self.app.settings.osc52_paste;
        self.run(Box::new(move || {
            let image = clipboard::save_image(&folder, &variable);
            Box::new(move |app| match image {
                Some(path) => app.insert_path(&path),
                None if by_terminal => app.queue_effect(Effect::AskClipboard),
                None => app.toast(
                    "the clipboard has no image; to paste text, use the paste key of the terminal",
                ),
            })
        }));
    }

    /// Ends the running turn: its partial answer is shown, counted, and journaled like any
    /// other.
    async fn end_turn(&mut self) {
        if !self.app.is_busy() || self.attached.is_some() {
            return;
        }
        let Some(ops) = self.session.as_ref().map(|session| session.ops.clone()) else { return };
        // Nothing that is queued starts after it.
        if ops.send(Op::Shutdown).await.is_err() {
            return;
        }
        // A tool may take long to stop: closing the session waits for it, the screen does not.
        let _ = tokio::time::timeout(SILENCE, async {
            loop {
                let Some(session) = &mut self.session else { return };
                match session.events.next().await {
                    Some(event) if !self.handle_event(&event) => {}
                    _ => return,
                }
            }
        })
        .await;
    }

    /// Ends the session and restores the terminal.
    pub(super) async fn close(mut self, left: ExitReason, signals: &mut Signals) {
        self.end_turn().await;
        pager::close(&mut self.app);
        self.app.transcript.stop_waiting_for_images();
        self.app.transcript.stop_waiting_for_grammars();
        let last = match &self.attached {
            Some(_) => info::detach_summary(&self.app, self.session_end.as_deref()),
            None => info::exit_summary(&mut self.app, self.delete),
        };
        if self.app.window.has_title() {
            // The title belongs to a program that has ended.
            drop(self.screen.set_title(""));
        }
        // Remaining output goes into the scrollback first.
        let finished = self.app.frame(self.layout).finished;
        drop(self.screen.frame(Frame { commit: &finished, live: &[], cursor: None }));
        drop(self.screen.close(&last));
        let launch = self.app.launch.take();
        let id = self.app.session.id().to_owned();
        // An attached session continues.
        if let Some(open) = self.session.take().and_then(Session::into_open) {
            let has_hooks = open.has_end_hooks();
            let hurry = async {
                if matches!(left, ExitReason::Signal(_)) {
                    return tokio::time::sleep(SUSPENDED_CLOSE_TIMEOUT).await;
                }
                if tokio::time::timeout(SILENCE, signals.next()).await.is_ok() {
                    return;
                }
                if has_hooks {
                    let words =
                        "Waiting for session-end hooks. Press Ctrl+C to exit without waiting.";
                    let _ = writeln!(std::io::stderr(), "{words}");
                }
                signals.next().await;
            };
            for output in open.close_with_limit(hurry).await {
                // The terminal has been restored, so this may write to it.
                let _ = writeln!(std::io::stderr(), "{output}");
            }
        }
        if let (true, Some(launch)) = (self.delete, launch) {
            // The program is ending; what cannot be deleted now stays.
            drop(launch.session_library().delete_session(&id));
            drop(launch.session_library().forget_inputs(self.app.session.typed_prompts()));
        }
    }
}
