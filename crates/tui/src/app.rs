//! The application state and its transitions: input and engine events come in, effects go out.
//! Drawing is in [`view`]; this module does no I/O.

pub(crate) mod commands;
mod dialogs;
pub(crate) mod effect;
mod engine_events;
pub(crate) mod frame;
mod keys;
mod mouse;
pub(crate) mod opened_session;
pub(crate) mod pager;
mod plain;
mod run_command;
mod setup;
mod submit;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::time::Instant;

use parallax_protocol::event::Level;
use parallax_protocol::policy::ApprovalMode;
use parallax_screen::{InputEvent, Line, Span, wrap};
use parallax_sdk::{OpenSession, SessionConfig};
use parallax_sessions::SessionChoice;

pub(crate) use frame::{FullWindowView, Layout};
use parallax_sdk::settings::UiSettings;

use crate::app::effect::Effect;
use crate::completion::Completion;
use crate::components::clock::Clock;
use crate::components::command_catalog::CommandCatalog;
use crate::components::context_view::ContextView;
use crate::components::current_session::CurrentSession;
use crate::components::custom_status_line::CustomStatusLine;
use crate::components::dialog_stack::{DialogContext as DialogSurroundings, DialogStack};
use crate::components::editor_link::EditorLink;
use crate::components::hints::Hints;
use crate::components::prompt_queue::PromptQueue;
use crate::components::rewind_view::RewindView;
use crate::components::screen_reader::ScreenReader;
use crate::components::sent_prompts::SentPrompts;
use crate::components::session_browser::SessionBrowser;
use crate::components::settings_view::SettingsView;
use crate::components::shell_view::{ShellView, ShellViewContext as ShellSurroundings};
use crate::components::todo_tray::TodoTray;
use crate::components::transcript_pane::TranscriptPane;
use crate::components::turn_view::TurnView;
use crate::components::user_extensions::UserExtensions;
use crate::components::window::Window;
use crate::composer::Composer;
use crate::debug_console::DebugConsole;
use crate::keymap::Keymap;
use crate::layout::hanging_indent;
use crate::status::AgentActivity;
use crate::status_line::StatusLineData;
use crate::theme::Theme;
use crate::title;
use crate::transcript::{LocalItem, Transcript, ViewOptions};
use commands::plan;
use commands::sign_in;

/// The state of the terminal user interface.
pub(crate) struct App {
    pub(crate) theme: Theme,
    pub(crate) keymap: Arc<Keymap>,
    pub(crate) settings: UiSettings,
    pub(crate) transcript: Transcript,
    pub(crate) composer: Composer,
    pub(crate) completion: Completion,
    pub(crate) dialogs: DialogStack,
    /// Prompts on their way to the model.
    pub(crate) prompt_queue: PromptQueue,
    pub(crate) hints: Hints,
    pub(crate) todos: TodoTray,
    /// The commands that run.
    shell: ShellView,
    pub(crate) window: Window,
    /// The visible part of the transcript.
    pub(crate) pane: TranscriptPane,
    pub(crate) session: CurrentSession,
    turn: TurnView,
    pub(crate) sent_prompts: SentPrompts,
    browser: SessionBrowser,
    rewind: RewindView,
    context: ContextView,
    catalog: CommandCatalog,
    extensions: UserExtensions,
    pub(crate) editor: EditorLink,
    settings_view: SettingsView,
    screen_reader: ScreenReader,
    /// The status line printed by the user's own command.
    status_line_command: CustomStatusLine,
    pub(crate) status_data: StatusLineData,
    pub(crate) debug: DebugConsole,
    /// For queries about the project (sessions, models, rules, …).
    pub(crate) launch: Option<SessionConfig>,
    effects: Vec<Effect>,
    clock: Clock,
}

impl App {
    pub(crate) fn new(
        size: (u16, u16),
        settings: UiSettings,
        theme: Theme,
        keymap: Keymap,
    ) -> Self {
        let mut transcript = Transcript::new();
        transcript.options = setup::view_options(&settings, ViewOptions::default());
        let mut composer = Composer::default();
        composer.set_highlights(|line| {
            let words = parallax_commands::at_paths::tokens(line);
            words.into_iter().map(|word| word.range).collect()
        });
        Self {
            theme,
            keymap: Arc::new(keymap),
            transcript,
            composer,
            completion: Completion::default(),
            dialogs: DialogStack::default(),
            prompt_queue: PromptQueue::default(),
            hints: Hints::default(),
            todos: TodoTray::default(),
            shell: ShellView::default(),
            window: Window::new(size),
            pane: TranscriptPane::default(),
            session: CurrentSession::default(),
            turn: TurnView::default(),
            sent_prompts: SentPrompts::default(),
            browser: SessionBrowser::default(),
            rewind: RewindView::default(),
            context: ContextView::default(),
            catalog: CommandCatalog::default(),
            extensions: UserExtensions::default(),
            editor: EditorLink::default(),
            settings_view: SettingsView::default(),
            screen_reader: ScreenReader::default(),
            status_line_command: CustomStatusLine::default(),
            status_data: StatusLineData::default(),
            debug: DebugConsole::default(),
            launch: None,
            effects: Vec::new(),
            clock: Clock::default(),
            settings,
        }
    }

    /// Takes the pending effects.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn queue_effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Reads the clock and ends everything that has expired.
    pub(crate) fn tick(&mut self) {
        self.clock.tick();
        self.hints.expire(self.clock.now_ms());
        self.turn.tick(self.clock.now_ms());
        if self.shell.is_running() {
            self.update_title();
        }
        self.next_server_request();
    }

    /// Returns the time until the next change without input, in milliseconds: the spinner, a hint
    /// that disappears, or a countdown. `None` while nothing moves.
    pub(crate) fn next_tick_ms(&self) -> Option<u64> {
        if self.window.is_frozen() {
            return None;
        }
        let spins = self.turn.is_animated() || self.transcript.is_animated();
        let spinner = spins.then_some(AgentActivity::tick_ms(self.settings.spinner));
        let toast = self.hints.remaining_ms(self.clock.now_ms());
        let pause = self.dialogs.writing_left_ms(self.clock.now_ms());
        let has_draft = !self.composer.is_empty();
        let silence = self.shell.next_silence_change(self.clock.now_ms(), has_draft);
        spinner.into_iter().chain(toast).chain(pause).chain(silence).min()
    }

    /// Handles an input event of the terminal that arrived at `came`.
    pub(crate) fn handle_input(&mut self, event: InputEvent, came: Instant) {
        self.tick();
        self.clock.note_input(came);
        match event {
            InputEvent::Key(key) => {
                self.dialogs.set_by_key(true);
                self.handle_with_hint(|app| app.handle_key(key));
                self.dialogs.set_by_key(false);
            }
            InputEvent::Paste(text) => self.handle_with_hint(|app| app.paste(&text)),
            InputEvent::Burst(keys) => {
                self.dialogs.set_by_key(true);
                self.handle_with_hint(|app| app.handle_burst(&keys));
                self.dialogs.set_by_key(false);
            }
            InputEvent::Mouse(mouse) => mouse::handle_event(self, mouse),
            InputEvent::Focus(focus) => self.window.set_focus(focus),
            InputEvent::Resize(columns, rows) => {
                self.window.resize((columns, rows));
                if let Some(item) = self.shell.item().cloned() {
                    self.resize_shell(&item);
                }
            }
            InputEvent::Background(red, green, blue) => {
                self.handle_background_color(red, green, blue)
            }
            // Ignores clipboard contents that were not requested.
            InputEvent::Clipboard(text) if self.window.take_clipboard_request() => {
                self.paste(&text);
            }
            InputEvent::Clipboard(_) => {}
            InputEvent::Resumed => self.queue_effect(Effect::Resume),
            InputEvent::Closed => self.queue_effect(Effect::Quit { delete: false }),
        }
        self.next_server_request();
    }

    /// Adds the output rows of a command to the transcript.
    pub(crate) fn show_rows(&mut self, rows: Vec<Line>) {
        self.transcript.push(LocalItem::Rows(rows));
    }

    /// Reports that a command needs the session, which is still opening or waits for a model.
    pub(crate) fn report_not_ready(&mut self) {
        self.toast("the session is not open yet; if no model is connected, use /auth");
    }

    /// Whether the pager is open.
    pub(crate) fn is_paging(&self) -> bool {
        self.pane.is_paging()
    }

    /// Adds wrapped rows to the transcript.
    pub(crate) fn show_wrapped_rows(&mut self, rows: Vec<Line>) {
        let width = self.window.width();
        let rows = rows.iter().flat_map(|row| {
            let hang = [Span::raw(" ".repeat(hanging_indent(&row.text())))];
            wrap(row, width, &hang)
        });
        let rows = rows.collect();
        self.show_rows(rows);
    }

    /// Runs `work` with the configuration on a thread, then `then` with its result.
    pub(crate) fn run_with_config<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&SessionConfig) -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        let Some(launch) = self.launch.clone() else { return self.report_not_ready() };
        self.queue_effect(Effect::Run(Box::new(move || {
            let result = work(&launch);
            Box::new(move |app| then(app, result))
        })));
    }

    /// Runs `work` with the open session, then `then` with its result.
    pub(crate) fn run_with_session<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&OpenSession) -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        self.queue_effect(Effect::RunWithSession(Box::new(move |session| {
            let result = work(session);
            Box::new(move |app| then(app, result))
        })));
    }

    /// Reopens the session with the current context files, which are part of every request.
    pub(crate) fn reload(&mut self) {
        self.reload_and_then(|_| {});
    }

    /// Reopens the session, then runs `then`.
    pub(crate) fn reload_and_then(&mut self, then: impl FnOnce(&mut Self) + Send + 'static) {
        self.run_with_session(OpenSession::is_resumable, |app, is_kept| {
            app.session.set_shown(true);
            app.queue_effect(Effect::Open(match is_kept {
                true => SessionChoice::Resume(app.session.id().to_owned()),
                false => SessionChoice::New,
            }));
            app.run_with_session(|_| (), |app, ()| then(app));
        });
    }

    /// Shows a hint for a few seconds.
    pub(crate) fn toast(&mut self, text: impl Into<String>) {
        self.hints.show(text, self.clock.now_ms());
    }

    /// Handles an input and clears the hint about a second press: either the input was that second
    /// press, or it was something else.
    fn handle_with_hint(&mut self, input: impl FnOnce(&mut Self)) {
        let before = self.hints.before_input();
        input(self);
        self.hints.after_input(&before);
    }

    /// Clears pending second presses of Escape and of approval keys, because a dialog opened or
    /// closed by itself.
    fn clear_pending_presses(&mut self) {
        self.composer.forget_escape();
        self.hints.clear_second_press();
    }

    /// Returns the state around the dialogs that they depend on.
    fn dialog_context(&self) -> DialogSurroundings {
        DialogSurroundings {
            now_ms: self.clock.now_ms(),
            has_draft: !self.composer.is_empty(),
            shell_has_focus: self.shell.has_focus(),
            keymap: Arc::clone(&self.keymap),
        }
    }

    /// Returns the state around the running command that it depends on.
    fn shell_context(&self) -> ShellSurroundings {
        let has_draft = !self.composer.is_empty();
        ShellSurroundings {
            now_ms: self.clock.now_ms(),
            has_draft,
            keymap: Arc::clone(&self.keymap),
        }
    }

    fn notice(&mut self, level: Level, text: String) {
        self.transcript.push(LocalItem::Notice { level, text });
    }

    /// Shows an informational notice.
    pub(crate) fn info(&mut self, text: impl Into<String>) {
        self.notice(Level::Info, text.into());
    }

    /// Shows a warning.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.notice(Level::Warning, text.into());
    }

    /// Shows a warning unless the same warning was shown before.
    pub(crate) fn warn_once(&mut self, text: String) {
        if self.hints.is_new_warning(&text) {
            self.warn(text);
        }
    }

    /// Shows an error.
    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.notice(Level::Error, text.into());
    }

    /// Records how long the turn that begins next has been running.
    pub(crate) fn set_turn_age(&mut self, age_ms: u64) {
        self.turn.set_age(age_ms);
    }

    /// Whether the agent is running.
    pub(crate) fn is_busy(&self) -> bool {
        self.turn.is_busy()
    }

    /// Sends a prompt now, or when the session is open.
    pub(crate) fn submit(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if self.session.is_keyless() {
            // No model is available: ask for the API key first.
            self.composer.insert_before(&text);
            self.session.set_waiting_prompt(Some(self.composer.editor_text()));
            return sign_in::open(self, Some("The prompt will be sent once you choose a model."));
        }
        self.explain_yolo();
        if self.session.is_ready() {
            self.queue_effect(Effect::Prompt { text, steer: None, ask: true });
        } else {
            self.prompt_queue.enqueue(text);
        }
    }

    /// Sends the prompt that waited for a session, unless it was changed since.
    pub(crate) fn send_waiting_prompt(&mut self) {
        if let Some(prompt) = self.session.take_waiting_prompt()
            && prompt == self.composer.editor_text()
        {
            self.composer.clear();
            self.submit(prompt);
        }
    }

    /// Sends a steering message for the running turn.
    pub(crate) fn steer(&mut self, text: String) {
        if self.turn.is_compaction() {
            // There is no turn to steer.
            return self.prompt_queue.push(text);
        }
        let id = self.prompt_queue.steer(text.clone());
        self.queue_effect(Effect::Prompt { text, steer: Some(id), ask: true });
    }

    /// Switches to the next approval mode in the cycle, which does not include YOLO.
    fn cycle_mode(&mut self) {
        let next = match self.status_data.mode {
            // In an untrusted folder, edits require approval in every mode.
            ApprovalMode::Default if !self.status_data.trusted => match plan::has_plan_mode(self) {
                true if !self.is_busy() => ApprovalMode::Plan,
                _ => ApprovalMode::Default,
            },
            ApprovalMode::Default => ApprovalMode::AutoEdit,
            ApprovalMode::AutoEdit if !self.is_busy() && plan::has_plan_mode(self) => {
                ApprovalMode::Plan
            }
            ApprovalMode::AutoEdit | ApprovalMode::Plan | ApprovalMode::Yolo => {
                ApprovalMode::Default
            }
        };
        self.set_mode(next);
    }

    pub(crate) fn set_mode(&mut self, mode: ApprovalMode) {
        if mode == ApprovalMode::AutoEdit && !self.status_data.trusted {
            self.warn("The folder is not trusted, so edits require approval (see /permissions)");
            return;
        }
        self.queue_effect(Effect::Send(parallax_protocol::op::Op::SetMode(mode)));
        // Shown at once; the engine confirms the change.
        self.status_data.mode = mode;
        self.explain_yolo();
    }

    /// Explains once per session what YOLO mode does not approve: when it is switched on, or before
    /// the first prompt.
    fn explain_yolo(&mut self) {
        if self.status_data.mode == ApprovalMode::Yolo && self.session.explains_yolo() {
            let reasons = parallax_sdk::yolo_reasons();
            self.warn(format!("YOLO mode approves all actions, except {reasons}."));
        }
    }

    /// Sets the window title if it changed.
    fn update_title(&mut self) {
        use parallax_sdk::settings::TitleMode;
        let silent = self.shell.silence_title(self.clock.now_ms());
        let state = match (self.turn.activity(), self.dialogs.has_approvals()) {
            (_, true) => title::TitleState::Asking,
            _ if silent.is_some() => silent.unwrap_or(title::TitleState::Slow),
            (Some(working), _) => title::TitleState::Working(working.activity()),
            (None, _) => self.shell.title().unwrap_or(title::TitleState::Ready),
        };
        let workspace = &self.status_data.workspace;
        let title = match self.settings.title {
            TitleMode::Unchanged => return,
            TitleMode::Static => title::fixed_title(workspace),
            TitleMode::Dynamic => title::title(&state, workspace, false),
            TitleMode::DynamicWithThoughts => title::title(&state, workspace, true),
        };
        if self.window.set_title(&title) {
            self.queue_effect(Effect::Title(title));
        }
    }

    /// Notifies the user if the terminal is not focused and notifications are enabled.
    fn notify(&mut self, text: &str) {
        if !self.window.has_focus() && self.settings.notifications.is_some() {
            self.queue_effect(Effect::Notify { title: self.notifier(), text: text.to_owned() });
        }
    }
}
