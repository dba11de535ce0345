//! The application state and its transitions: input and engine events come in, effects go out.
//! Drawing is in [`view`]; this module does no I/O.

mod agents;
mod argument_names;
mod argument_words;
mod browser;
mod budget;
mod chats;
mod choosing;
mod complete;
mod context;
mod custom;
mod devtools;
mod dialogs;
mod engine_events;
mod extending;
mod extensions;
mod footer_choice;
mod gates;
mod going_back;
mod ide;
mod keys;
mod lists;
mod mcp;
mod model_why;
mod mouse;
mod outside;
mod pager;
mod plain;
mod plan;
mod run_command;
mod settings;
mod setup;
mod signing_in;
mod status_line;
mod submit;
mod telling;
#[cfg(test)]
mod tests;
mod theme_choice;
mod theme_sample;
mod view;
mod welcome;

pub(crate) use theme_choice::{TerminalColors, choose as choose_theme};

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parallax_protocol::CancellationToken;
use parallax_protocol::context::ContextBreakdown;
use parallax_protocol::event::Level;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::{Fallback, Route};
use parallax_screen::{ColorDepth, InputEvent, Line};
use parallax_sdk::Launch;
use parallax_sdk::agents::SessionAgents;
use parallax_sdk::custom_commands::{Commands, PromptCommand};
use parallax_sdk::session_stats::SessionStats;
use parallax_sdk::skills::SessionSkills;

use parallax_sdk::settings::{SettingScope, UiSettings};
pub(crate) use view::Layout;

use crate::completion::Completion;
use crate::components::clock::Clock;
use crate::components::dialog_stack::{DialogStack, Surroundings as DialogSurroundings};
use crate::components::hints::Hints;
use crate::components::prompt_queue::PromptQueue;
use crate::components::shell_view::{ShellView, Surroundings as ShellSurroundings};
use crate::components::todo_tray::TodoTray;
use crate::composer::Composer;
use crate::debug_console::DebugConsole;
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;
use crate::footer::Facts;
use crate::keymap::Keymap;
use crate::status::Working;
use crate::theme::Theme;
use crate::title;
use crate::transcript::{Anchor, LocalItem, Transcript, ViewOptions};
use custom::Waiting;
use extensions::Consent;

/// The state of the terminal user interface.
pub(crate) struct App {
    pub(crate) theme: Theme,
    pub(crate) keymap: Arc<Keymap>,
    pub(crate) settings: UiSettings,
    pub(crate) transcript: Transcript,
    pub(crate) composer: Composer,
    pub(crate) completion: Completion,
    pub(crate) dialogs: DialogStack,
    /// How the model of the newest prompt was chosen.
    pub(crate) route: Option<Route>,
    /// The model fallbacks of the session.
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) working: Option<Working>,
    /// The status line printed by the user's own command.
    own_line: status_line::OwnStatusLine,
    /// The duration and cost of the last turn.
    end_facts: String,
    /// The cost of the session when the turn began, in US dollars.
    cost_before: f64,
    /// The item whose text the model is streaming.
    streams: Option<parallax_protocol::ids::ItemId>,
    /// Prompts on their way to the model.
    pub(crate) prompt_queue: PromptQueue,
    pub(crate) hints: Hints,
    pub(crate) todos: TodoTray,
    /// The running terminal command.
    shell: ShellView,
    pub(crate) facts: Facts,
    pub(crate) debug: DebugConsole,
    pub(crate) stats: SessionStats,
    /// Whether a compaction was requested and has not finished.
    compacting: bool,
    /// Whether the current work is a compaction and not a turn.
    shortens: bool,
    /// Whether a session is open and accepts operations.
    pub(crate) ready: bool,
    /// For queries about the project (sessions, models, rules, …).
    pub(crate) launch: Option<Launch>,
    pub(crate) last_answer: String,
    /// The names of the hooks that are running.
    hooks: Vec<String>,
    focused: bool,
    effects: Vec<Effect>,
    clock: Clock,
    pub(crate) size: (u16, u16),
    /// The scroll position of the transcript in full screen.
    pub(crate) anchor: Anchor,
    /// The columns and rows of the visible part of the transcript.
    transcript_size: (usize, usize),
    /// The positions of the elements in the last frame, for the mouse.
    places: mouse::Places,
    /// Whether mouse capture is off, so that the terminal can select text.
    mouse_off: bool,
    /// The pager, when the whole transcript is shown.
    pager: Option<pager::Pager>,
    /// Whether painting is paused so that a selection in the terminal stays (F9).
    pub(crate) frozen: bool,
    title: String,
    /// The session id as reported by the engine.
    pub(crate) session: String,
    /// The previous session, if it contained any messages.
    session_before: Option<String>,
    pub(crate) background: Vec<parallax_protocol::shell::BackgroundProcess>,
    /// Whether there is a prompt to rewind to.
    prompted: bool,
    /// Whether the prompts were requested for the rewind list.
    wants_prompts: bool,
    /// Whether a context breakdown was requested for display.
    wants_context: bool,
    /// The context breakdown that the dialog shows.
    context_picture: Option<Box<ContextBreakdown>>,
    /// The prompts to rewind to, as last reported by the engine.
    past_prompts: Vec<parallax_protocol::event::PromptEntry>,
    /// The sessions in the session browser.
    browsed: std::sync::Arc<[parallax_sdk::SessionEntry]>,
    session_order: browser::Order,
    searching: browser::Searching,
    /// The last summary shown of the sign-in method and the context files.
    summary_said: String,
    /// The scope that changed settings are written to.
    scope: SettingScope,
    /// The settings list while a dialog opened from it is shown.
    pub(crate) settings_list: Option<ListDialog>,
    /// The footer items in the order of the footer dialog, including hidden ones.
    footer_order: Vec<parallax_sdk::settings::FooterItem>,
    /// Ctrl+O: the newest truncated item when expanding began, and the item expanded last.
    unfolding: Option<(usize, usize)>,
    /// The colors of the terminal.
    pub(crate) terminal: TerminalColors,
    /// Custom commands: names and descriptions.
    pub(crate) custom: Vec<(String, String)>,
    /// Whether the custom commands were loaded for this session.
    custom_known: bool,
    /// Warnings about the names of custom commands.
    custom_notices: Vec<String>,
    /// Prompts of MCP servers, which are offered as commands.
    pub(crate) prompts: Vec<PromptCommand>,
    pub(crate) commands: Option<Commands>,
    /// Whether hooks were enabled or disabled in their dialog.
    changed_hooks: bool,
    /// Consent requests about extensions; the first one is open.
    waiting_consent: VecDeque<(String, Vec<Line>, Vec<ListItem>, Consent)>,
    looked_for_updates: bool,
    /// Whether the session being opened is the one that is already shown.
    pub(crate) again: bool,
    /// The subagents of the session.
    agents: Option<Arc<SessionAgents>>,
    skills: Option<Arc<SessionSkills>>,
    /// The version of the skills whose names are offered for completion.
    skills_version: Option<u64>,
    waiting_command: Option<Waiting>,
    /// Argument completions for the command being typed.
    names: argument_names::Names,
    /// Cancels the shell commands of the custom command being expanded.
    expanding: Option<CancellationToken>,
    /// What `@` completes besides files, with descriptions.
    mentioned_agents: Vec<(String, String)>,
    mentioned_resources: Vec<(String, String)>,
    /// Prompts in progress, with the files that were read for them.
    pub(crate) read_for: Vec<(String, Vec<String>)>,
    /// The command typed last; it is in the transcript already.
    pub(crate) echoed: Option<String>,
    /// The prompts that built-in commands expanded to, with what was typed.
    pub(crate) stood_for: Vec<(String, String)>,
    /// Whether no session can be opened because no API key is configured.
    pub(crate) keyless: bool,
    /// Whether the terminal was asked for the clipboard.
    pub(crate) clipboard_asked: bool,
    /// What was announced to the screen reader about the open dialog.
    announced: plain::Announced,
    /// The prompts typed in this session, so that they can be deleted on exit.
    pub(crate) typed: Vec<String>,
    /// Paths outside the workspace that the user does not allow to read.
    not_read: Vec<std::path::PathBuf>,
    /// The state of the connected editor.
    pub(crate) companion: Option<parallax_sdk::ide::CompanionSnapshot>,
    /// Diffs shown in the editor.
    editor_diffs: ide::EditorDiffs,
    /// Whether the user is waiting for the result of connecting to the editor.
    shows_ide_status: bool,
    /// Whether the user was already asked in this run whether to connect.
    has_offered_ide: bool,
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
        Self {
            theme,
            keymap: Arc::new(keymap),
            transcript,
            composer: Composer::default(),
            completion: Completion::default(),
            dialogs: DialogStack::default(),
            route: None,
            fallbacks: Vec::new(),
            working: None,
            own_line: status_line::OwnStatusLine::default(),
            end_facts: String::new(),
            cost_before: 0.0,
            streams: None,
            prompt_queue: PromptQueue::default(),
            hints: Hints::default(),
            todos: TodoTray::default(),
            shell: ShellView::default(),
            facts: Facts::default(),
            debug: DebugConsole::default(),
            stats: SessionStats::default(),
            compacting: false,
            shortens: false,
            ready: false,
            launch: None,
            last_answer: String::new(),
            hooks: Vec::new(),
            focused: true,
            effects: Vec::new(),
            clock: Clock::default(),
            size,
            anchor: Anchor::Bottom,
            transcript_size: (80, 10),
            places: mouse::Places::default(),
            mouse_off: false,
            pager: None,
            frozen: false,
            title: String::new(),
            session: String::new(),
            session_before: None,
            background: Vec::new(),
            prompted: false,
            wants_prompts: false,
            wants_context: false,
            context_picture: None,
            past_prompts: Vec::new(),
            browsed: std::sync::Arc::default(),
            session_order: browser::Order::default(),
            searching: browser::Searching::default(),
            summary_said: String::new(),
            scope: SettingScope::User,
            settings_list: None,
            footer_order: Vec::new(),
            unfolding: None,
            terminal: TerminalColors { background: None, depth: ColorDepth::True },
            custom: Vec::new(),
            custom_known: false,
            custom_notices: Vec::new(),
            prompts: Vec::new(),
            commands: None,
            changed_hooks: false,
            waiting_consent: VecDeque::new(),
            looked_for_updates: false,
            again: false,
            agents: None,
            skills: None,
            skills_version: None,
            waiting_command: None,
            names: argument_names::Names::default(),
            expanding: None,
            mentioned_agents: Vec::new(),
            mentioned_resources: Vec::new(),
            read_for: Vec::new(),
            echoed: None,
            stood_for: Vec::new(),
            not_read: Vec::new(),
            companion: None,
            editor_diffs: ide::EditorDiffs::default(),
            shows_ide_status: false,
            has_offered_ide: false,
            typed: Vec::new(),
            keyless: false,
            announced: plain::Announced::default(),
            clipboard_asked: false,
            settings,
        }
    }

    /// Takes the pending effects.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Reads the clock and ends everything that has expired.
    pub(crate) fn tick(&mut self) {
        self.clock.tick();
        self.hints.expire(self.clock.now_ms());
        if let Some(working) = &mut self.working {
            working.count(self.clock.now_ms());
        }
        if self.shell.is_running() {
            self.retitle();
        }
        self.completion.fill(self.clock.now_ms());
        self.next_server_request();
    }

    /// The time until the next change without input, in milliseconds: the spinner, a hint that
    /// disappears, or a countdown. `None` while nothing moves.
    pub(crate) fn next_tick_ms(&self) -> Option<u64> {
        if self.frozen {
            return None;
        }
        let spins = self.working.as_ref().is_some_and(|working| !working.waiting)
            || self.transcript.is_moving();
        let spinner = spins.then_some(Working::tick_ms(self.settings.spinner));
        let toast = self.hints.left_ms(self.clock.now_ms());
        let pause = self.dialogs.writing_left_ms(self.clock.now_ms());
        let has_draft = !self.composer.is_empty();
        let silence = self.shell.silent_in_ms(self.clock.now_ms(), has_draft);
        let list = self.completion.fills_in_ms(self.clock.now_ms());
        spinner.into_iter().chain(toast).chain(pause).chain(silence).chain(list).min()
    }

    /// Handles an input event of the terminal that arrived at `came`.
    pub(crate) fn input(&mut self, event: InputEvent, came: Instant) {
        self.tick();
        self.clock.note_input(came);
        match event {
            InputEvent::Key(key) => {
                self.dialogs.set_by_key(true);
                self.pass_hint(|app| app.key(key));
                self.dialogs.set_by_key(false);
            }
            InputEvent::Paste(text) => self.pass_hint(|app| app.paste(&text)),
            InputEvent::Burst(keys) => {
                self.dialogs.set_by_key(true);
                self.pass_hint(|app| app.burst(&keys));
                self.dialogs.set_by_key(false);
            }
            InputEvent::Mouse(mouse) => self.mouse(mouse),
            InputEvent::Focus(focused) => self.focused = focused,
            InputEvent::Resize(columns, rows) => {
                self.size = (columns, rows);
                if let Some(item) = self.shell.item().cloned() {
                    self.resize_shell(&item);
                }
            }
            InputEvent::Background(red, green, blue) => self.background_is(red, green, blue),
            // Ignores clipboard contents that were not requested.
            InputEvent::Clipboard(text) if std::mem::take(&mut self.clipboard_asked) => {
                self.paste(&text);
            }
            InputEvent::Clipboard(_) => {}
            InputEvent::Resumed => self.effect(Effect::Resume),
            InputEvent::Closed => self.effect(Effect::Quit { delete: false }),
        }
        self.next_server_request();
    }

    /// Adds the output rows of a command to the transcript.
    pub(crate) fn say(&mut self, rows: Vec<Line>) {
        self.transcript.push(LocalItem::Rows(rows));
    }

    /// Shows a hint for a few seconds.
    pub(crate) fn toast(&mut self, text: impl Into<String>) {
        self.hints.show(text, self.clock.now_ms());
    }

    /// Handles an input and clears the hint about a second press: either the input was that second
    /// press, or it was something else.
    fn pass_hint(&mut self, input: impl FnOnce(&mut Self)) {
        let before = self.hints.before_input();
        input(self);
        self.hints.after_input(&before);
    }

    /// Clears pending second presses of Escape and of approval keys, because a dialog opened or
    /// closed by itself.
    fn drop_hint(&mut self) {
        self.composer.forget_escape();
        self.hints.drop_second_press();
    }

    /// What the dialogs need to know of their surroundings.
    fn around_dialogs(&self) -> DialogSurroundings {
        DialogSurroundings {
            now_ms: self.clock.now_ms(),
            has_draft: !self.composer.is_empty(),
            shell_has_focus: self.shell.has_focus(),
            keymap: Arc::clone(&self.keymap),
        }
    }

    /// What the running command needs to know of its surroundings.
    fn around_shell(&self) -> ShellSurroundings {
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

    /// Whether the agent is running.
    pub(crate) fn is_busy(&self) -> bool {
        self.working.is_some()
    }

    /// Sends a prompt now, or when the session is open.
    pub(crate) fn submit(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if self.keyless {
            // No model is available: ask for the API key first.
            self.composer.insert_before(&text);
            return self.auth_dialog(Some("The prompt will be sent once you have an API key."));
        }
        if self.ready {
            self.effect(Effect::Prompt { text, steer: None, ask: true });
        } else {
            self.prompt_queue.hold(text);
        }
    }

    /// Sends a steering message for the running turn.
    pub(crate) fn steer(&mut self, text: String) {
        if self.shortens {
            // There is no turn to steer.
            return self.prompt_queue.push(text);
        }
        let id = self.prompt_queue.steer(text.clone());
        self.effect(Effect::Prompt { text, steer: Some(id), ask: true });
    }

    /// Switches to the next approval mode in the cycle, which does not include YOLO.
    fn cycle_mode(&mut self) {
        let next = match self.facts.mode {
            // In an untrusted folder, edits require approval in every mode.
            ApprovalMode::Default if !self.facts.trusted => match self.has_plan_mode() {
                true if !self.is_busy() => ApprovalMode::Plan,
                _ => ApprovalMode::Default,
            },
            ApprovalMode::Default => ApprovalMode::AutoEdit,
            ApprovalMode::AutoEdit if !self.is_busy() && self.has_plan_mode() => ApprovalMode::Plan,
            ApprovalMode::AutoEdit | ApprovalMode::Plan | ApprovalMode::Yolo => {
                ApprovalMode::Default
            }
        };
        self.set_mode(next);
    }

    pub(crate) fn set_mode(&mut self, mode: ApprovalMode) {
        if mode == ApprovalMode::AutoEdit && !self.facts.trusted {
            self.warn("The folder is not trusted, so edits require approval (see /permissions)");
            return;
        }
        self.effect(Effect::Send(parallax_protocol::op::Op::SetMode(mode)));
        // Shown at once; the engine confirms the change.
        self.facts.mode = mode;
    }

    /// Sets the window title if it changed.
    fn retitle(&mut self) {
        use parallax_sdk::settings::TitleMode;
        let silent = self.shell.silent_title(self.clock.now_ms());
        let state = match (&self.working, self.dialogs.has_approvals()) {
            (_, true) => title::State::Asking,
            _ if silent.is_some() => silent.unwrap_or(title::State::Slow),
            (Some(working), _) => title::State::Working(working.what()),
            (None, _) => self.shell.title().unwrap_or(title::State::Ready),
        };
        let place = &self.facts.workspace;
        let title = match self.settings.title {
            TitleMode::Untouched => return,
            TitleMode::Static => title::fixed(place),
            TitleMode::Dynamic => title::title(&state, place, false),
            TitleMode::DynamicWithThoughts => title::title(&state, place, true),
        };
        if title != self.title {
            self.title.clone_from(&title);
            self.effect(Effect::Title(title));
        }
    }

    /// Whether the application has set the window title.
    pub(crate) fn has_title(&self) -> bool {
        !self.title.is_empty()
    }

    /// Notifies the user if the terminal is not focused and notifications are enabled.
    fn notify(&mut self, text: &str) {
        if !self.focused && self.settings.notifications.is_some() {
            self.effect(Effect::Notify(text.to_owned()));
        }
    }
}
