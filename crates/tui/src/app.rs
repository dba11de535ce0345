//! The application state and its transitions: input and engine events come in, effects go out.
//! Drawing is in [`view`]; this module does no I/O.

mod agents;
mod argument_names;
mod argument_words;
mod arrival;
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
mod hint;
mod ide;
mod keys;
mod lists;
mod mcp;
mod model_why;
mod mouse;
mod outside;
mod overlay;
mod pager;
mod plain;
mod plan;
mod run_command;
mod running_shell;
mod server_form;
mod server_questions;
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
use parallax_protocol::ids::{ItemId, SteerId};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::{Fallback, Route};
use parallax_protocol::tool::Todo;
use parallax_screen::{ColorDepth, InputEvent, Line};
use parallax_sdk::Launch;
use parallax_sdk::agents::SessionAgents;
use parallax_sdk::custom_commands::{Commands, PromptCommand};
use parallax_sdk::session_stats::SessionStats;
use parallax_sdk::skills::SessionSkills;

pub(crate) use overlay::{Overlay, Purpose};
use parallax_sdk::settings::{SettingScope, UiSettings};
pub(crate) use view::{Layout, cut, cut_marked};

use crate::completion::Completion;
use crate::composer::Composer;
use crate::debug_console::DebugConsole;
use crate::dialog::{ListDialog, ListItem, QuestionDialog};
use crate::effect::Effect;
use crate::footer::Facts;
use crate::keymap::Keymap;
use crate::status::Working;
use crate::theme::Theme;
use crate::title;
use crate::transcript::{Anchor, LocalItem, Transcript, ViewOptions};
use custom::Waiting;
use extensions::Consent;
use server_questions::ServerQuestion;

/// How long the user must not have typed, in milliseconds, before keys answer a dialog that opened
/// while they were typing.
const PAUSE_MS: u64 = 700;

/// A steering message for the running turn that has not been delivered yet.
#[derive(Debug, Clone)]
pub(crate) struct Steering {
    pub(crate) id: SteerId,
    pub(crate) text: String,
}

/// The state of the terminal user interface.
pub(crate) struct App {
    pub(crate) theme: Theme,
    pub(crate) keymap: Keymap,
    pub(crate) settings: UiSettings,
    pub(crate) transcript: Transcript,
    pub(crate) composer: Composer,
    pub(crate) completion: Completion,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) questions: VecDeque<QuestionDialog>,
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
    /// Prompts queued until the turn ends.
    pub(crate) queued: Vec<String>,
    pub(crate) steering: Vec<Steering>,
    steer_count: u64,
    toast: Option<hint::Toast>,
    pub(crate) facts: Facts,
    pub(crate) todos: Vec<Todo>,
    pub(crate) show_todos: bool,
    /// Whether the todo list belongs to the current work.
    todos_count: bool,
    pub(crate) show_shortcuts: bool,
    pub(crate) debug: DebugConsole,
    /// When the key of the log was pressed.
    log_key_ms: Option<u64>,
    pub(crate) stats: SessionStats,
    /// The running terminal command, which may have the keyboard focus.
    pub(crate) shell: Option<ItemId>,
    pub(crate) shell_focus: bool,
    /// The title of the running command, in one row.
    shell_title: String,
    /// When the running command started, in milliseconds of the app's clock.
    shell_since: u64,
    /// Whether the last row of its output is unterminated, as that of a prompt for input.
    shell_asks: bool,
    /// When the command last wrote output or was sent a key, in milliseconds of the app's clock.
    shell_spoke_at: u64,
    /// Whether a compaction was requested and has not finished.
    compacting: bool,
    /// Whether the current work is a compaction and not a turn.
    shortens: bool,
    /// Whether its program has enabled application cursor keys.
    shell_application_cursor: bool,
    /// Whether a session is open and accepts operations.
    pub(crate) ready: bool,
    /// Prompts entered before the session was open.
    pub(crate) early: Vec<String>,
    /// For queries about the project (sessions, models, rules, …).
    pub(crate) launch: Option<Launch>,
    pub(crate) last_answer: String,
    /// The prompt of the running turn as typed.
    pub(crate) turn_prompt: String,
    /// The same prompt until the engine has reported it as an item: hooks may run first.
    pub(crate) beginning: Option<String>,
    /// The names of the hooks that are running.
    hooks: Vec<String>,
    /// Whether the user stopped the running turn.
    pub(crate) stopped: bool,
    focused: bool,
    armed: Option<(hint::Armed, u64)>,
    /// Whether `y` was pressed in an approval dialog.
    yes: bool,
    /// Whether the key that is armed to suspend has undone an edit of the text.
    undone: bool,
    effects: Vec<Effect>,
    begun: Instant,
    /// When the current input event arrived.
    came: Instant,
    now_ms: u64,
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
    /// The action that runs if it is requested once more.
    confirm: Option<String>,
    /// The scope that changed settings are written to.
    scope: SettingScope,
    /// The settings list while a dialog opened from it is shown.
    pub(crate) settings_list: Option<ListDialog>,
    /// The footer items in the order of the footer dialog, including hidden ones.
    footer_order: Vec<parallax_sdk::settings::FooterItem>,
    /// Ctrl+O: the newest truncated item when expanding began, and the item expanded last.
    unfolding: Option<(usize, usize)>,
    /// Whether the user was told that the YOLO key inserts deleted text.
    told_yank: bool,
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
    /// Elicitation requests of MCP servers; the first one is open.
    server_questions: VecDeque<ServerQuestion>,
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
    /// Warnings that were already shown.
    warned: std::collections::HashSet<String>,
    /// Whether no session can be opened because no API key is configured.
    pub(crate) keyless: bool,
    /// Whether the terminal was asked for the clipboard.
    pub(crate) clipboard_asked: bool,
    /// Until when dialogs wait because the user is typing, in milliseconds of the app's clock.
    writing_until: u64,
    /// When text was last typed.
    wrote_at: u64,
    /// When the completion list starts to show more than names.
    keys_rest_at: u64,
    /// The state of the dialog that opened by itself.
    arrival: arrival::Arrival,
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
            keymap,
            transcript,
            composer: Composer::default(),
            completion: Completion::default(),
            overlay: None,
            questions: VecDeque::new(),
            route: None,
            fallbacks: Vec::new(),
            working: None,
            own_line: status_line::OwnStatusLine::default(),
            end_facts: String::new(),
            cost_before: 0.0,
            streams: None,
            queued: Vec::new(),
            steering: Vec::new(),
            steer_count: 0,
            toast: None,
            facts: Facts::default(),
            todos: Vec::new(),
            show_todos: false,
            todos_count: true,
            show_shortcuts: false,
            debug: DebugConsole::default(),
            log_key_ms: None,
            stats: SessionStats::default(),
            shell: None,
            shell_focus: false,
            shell_title: String::new(),
            shell_since: 0,
            shell_asks: false,
            shell_spoke_at: 0,
            compacting: false,
            shortens: false,
            shell_application_cursor: false,
            ready: false,
            early: Vec::new(),
            launch: None,
            last_answer: String::new(),
            turn_prompt: String::new(),
            beginning: None,
            hooks: Vec::new(),
            stopped: false,
            focused: true,
            armed: None,
            yes: false,
            undone: false,
            effects: Vec::new(),
            begun: Instant::now(),
            came: Instant::now(),
            now_ms: 0,
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
            confirm: None,
            scope: SettingScope::User,
            settings_list: None,
            footer_order: Vec::new(),
            unfolding: None,
            told_yank: false,
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
            server_questions: VecDeque::new(),
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
            warned: std::collections::HashSet::new(),
            keyless: false,
            announced: plain::Announced::default(),
            clipboard_asked: false,
            writing_until: 0,
            wrote_at: 0,
            keys_rest_at: 0,
            arrival: arrival::Arrival::default(),
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

    /// Milliseconds since the start. Constant during an update.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Reads the clock and ends everything that has expired.
    pub(crate) fn tick(&mut self) {
        self.now_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.end_toast();
        if let Some(working) = &mut self.working {
            working.count(self.now_ms);
        }
        if self.shell.is_some() {
            self.retitle();
        }
        self.fill_list();
        if !self.server_questions.is_empty() {
            self.next_server_question();
        }
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
        let toast = self.toast.as_ref().map(|toast| toast.left_ms(self.now_ms));
        let pause = self.is_writing().then(|| self.writing_until - self.now_ms);
        let silence = self.silent_in_ms();
        let list = self.list_fills_in_ms();
        spinner.into_iter().chain(toast).chain(pause).chain(silence).chain(list).min()
    }

    /// Handles an input event of the terminal that arrived at `came`.
    pub(crate) fn input(&mut self, event: InputEvent, came: Instant) {
        self.tick();
        self.came = came;
        match event {
            InputEvent::Key(key) => {
                self.arrival.by_key = true;
                self.pass_hint(|app| app.key(key));
                self.arrival.by_key = false;
            }
            InputEvent::Paste(text) => self.pass_hint(|app| app.paste(&text)),
            InputEvent::Burst(keys) => {
                self.arrival.by_key = true;
                self.pass_hint(|app| app.burst(&keys));
                self.arrival.by_key = false;
            }
            InputEvent::Mouse(mouse) => self.mouse(mouse),
            InputEvent::Focus(focused) => self.focused = focused,
            InputEvent::Resize(columns, rows) => {
                self.size = (columns, rows);
                if let Some(item) = self.shell.clone() {
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
        self.next_server_question();
    }

    /// Adds the output rows of a command to the transcript.
    pub(crate) fn say(&mut self, rows: Vec<Line>) {
        self.transcript.push(LocalItem::Rows(rows));
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
        if self.warned.insert(text.clone()) {
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
            self.early.push(text);
        }
    }

    /// Sends a steering message for the running turn.
    pub(crate) fn steer(&mut self, text: String) {
        if self.shortens {
            // There is no turn to steer.
            return self.queued.push(text);
        }
        self.steer_count += 1;
        let id = SteerId::new(format!("steer-{}", self.steer_count));
        self.steering.push(Steering { id: id.clone(), text: text.clone() });
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
        let silent = self.silent_title();
        let state = match (&self.working, self.questions.is_empty()) {
            (_, false) => title::State::Asking,
            _ if silent.is_some() => silent.unwrap_or(title::State::Slow),
            (Some(working), _) => title::State::Working(working.what()),
            (None, _) if self.shell.is_some() => title::State::Working(self.shell_title.clone()),
            (None, _) => title::State::Ready,
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
