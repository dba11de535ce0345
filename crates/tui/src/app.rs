//! The state of the face and how it changes: input and events in, effects out.
//! It draws nothing by itself ([`view`]) and does no I/O.

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

/// How long the user must not have typed before a key answers a dialog that opened while
/// they typed, in milliseconds.
const PAUSE_MS: u64 = 700;

/// A message for the running turn that was not delivered yet.
#[derive(Debug, Clone)]
pub(crate) struct Steering {
    pub(crate) id: SteerId,
    pub(crate) text: String,
}

/// The face's state.
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
    /// Models that took the place of others.
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) working: Option<Working>,
    /// The status line that a command of the user's prints.
    own_line: status_line::OwnStatusLine,
    /// How long the last turn took and what it cost.
    end_facts: String,
    /// What the session had cost when the turn began, in US dollars.
    cost_before: f64,
    /// The text that the model writes now.
    streams: Option<parallax_protocol::ids::ItemId>,
    /// Prompts that wait for the end of the turn.
    pub(crate) queued: Vec<String>,
    pub(crate) steering: Vec<Steering>,
    steer_count: u64,
    toast: Option<hint::Toast>,
    pub(crate) facts: Facts,
    pub(crate) todos: Vec<Todo>,
    pub(crate) show_todos: bool,
    /// The list is of the work that is going on.
    todos_count: bool,
    pub(crate) show_shortcuts: bool,
    pub(crate) debug: DebugConsole,
    pub(crate) stats: SessionStats,
    /// The command that runs in a terminal and may have the keys.
    pub(crate) shell: Option<ItemId>,
    pub(crate) shell_focus: bool,
    /// What it is, in a row.
    shell_title: String,
    /// When it began, in milliseconds of the app's clock.
    shell_since: u64,
    /// Its last row is not ended, as that of a question.
    shell_asks: bool,
    /// When it last wrote something or was given a key, in milliseconds of the
    /// app's clock.
    shell_spoke_at: u64,
    /// The history was ordered to be made shorter, and is not yet.
    compacting: bool,
    /// It is that which the agent is at, and no turn.
    shortens: bool,
    /// Its program wants the other form of the cursor keys.
    shell_application_cursor: bool,
    /// Whether a session takes orders.
    pub(crate) ready: bool,
    /// Typed before there was a session.
    pub(crate) early: Vec<String>,
    /// For questions about the project (sessions, models, rules, …).
    pub(crate) launch: Option<Launch>,
    pub(crate) last_answer: String,
    /// The prompt of the running turn, as typed.
    pub(crate) turn_prompt: String,
    /// The same, until the engine tells it as said: hooks may run before that.
    pub(crate) beginning: Option<String>,
    /// Hooks that run now, by what they are called.
    hooks: Vec<String>,
    /// The user stopped the running turn although it could have continued.
    pub(crate) stopped: bool,
    focused: bool,
    armed: Option<(hint::Armed, u64)>,
    /// `y` was pressed in a question.
    yes: bool,
    /// The key that is armed to suspend took a step of the text back.
    undone: bool,
    effects: Vec<Effect>,
    begun: Instant,
    /// When the input that is being handled came.
    came: Instant,
    now_ms: u64,
    pub(crate) size: (u16, u16),
    /// What is seen of the transcript, in full screen.
    pub(crate) anchor: Anchor,
    /// Columns and rows of what is seen of it.
    transcript_size: (usize, usize),
    /// Where things are in the frame that was drawn last.
    places: mouse::Places,
    /// The mouse is the terminal's, to select with.
    mouse_off: bool,
    /// The whole transcript is seen.
    pager: Option<pager::Pager>,
    /// Nothing is painted, so that what is selected stays (F9).
    pub(crate) frozen: bool,
    title: String,
    /// What the engine told of the session.
    pub(crate) session: String,
    /// The one before it, if anything was said in that.
    session_before: Option<String>,
    pub(crate) background: Vec<parallax_protocol::shell::BackgroundProcess>,
    /// There is a prompt that one can go back to.
    prompted: bool,
    /// The prompts are being asked for, for a list to go back to.
    wants_prompts: bool,
    /// Whether a picture of the context was asked for, to be shown.
    wants_context: bool,
    /// The picture that the dialog shows.
    context_picture: Option<Box<ContextBreakdown>>,
    /// The prompts that one can go back to, as last told.
    past_prompts: Vec<parallax_protocol::event::PromptEntry>,
    /// The sessions of the browser.
    browsed: std::sync::Arc<[parallax_sdk::SessionEntry]>,
    session_order: browser::Order,
    searching: browser::Searching,
    /// How one is signed in and what is read, as it was last said.
    summary_said: String,
    /// What takes effect when it is asked for once more.
    confirm: Option<String>,
    /// Where a setting that is changed is written.
    scope: SettingScope,
    /// The list of settings, while a dialog that it opened has its place.
    pub(crate) settings_list: Option<ListDialog>,
    /// The items of the footer in the order of its dialog, hidden ones among them.
    footer_order: Vec<parallax_sdk::settings::FooterItem>,
    /// Ctrl+O: the newest item that was cut when the walk back began, and the one
    /// shown last.
    unfolding: Option<(usize, usize)>,
    /// It was said that the key for YOLO inserts what was deleted.
    told_yank: bool,
    /// The colors that the terminal has.
    pub(crate) terminal: TerminalColors,
    /// Commands of people's own, by name, with what they are for.
    pub(crate) custom: Vec<(String, String)>,
    /// Whether these were read for the session.
    custom_known: bool,
    /// What was told of their names.
    custom_notices: Vec<String>,
    /// Prompts of MCP servers, which are commands too.
    pub(crate) prompts: Vec<PromptCommand>,
    pub(crate) commands: Option<Commands>,
    /// Hooks were switched in their panel.
    changed_hooks: bool,
    /// Questions about extensions, the first of them open.
    waiting_consent: VecDeque<(String, Vec<Line>, Vec<ListItem>, Consent)>,
    looked_for_updates: bool,
    /// The session that is being opened is the one that is shown.
    pub(crate) again: bool,
    /// The subagents of the session.
    agents: Option<Arc<SessionAgents>>,
    skills: Option<Arc<SessionSkills>>,
    /// The version of them whose names are offered.
    skills_version: Option<u64>,
    /// Questions of MCP servers, the first of them open.
    server_questions: VecDeque<ServerQuestion>,
    waiting_command: Option<Waiting>,
    /// Completions of arguments for the command that is being typed.
    names: argument_names::Names,
    /// Stops the commands of the one that is being prepared.
    expanding: Option<CancellationToken>,
    /// What `@` completes besides files, each with what it is.
    mentioned_agents: Vec<(String, String)>,
    mentioned_resources: Vec<(String, String)>,
    /// Prompts under way, with the files that were read for them.
    pub(crate) read_for: Vec<(String, Vec<String>)>,
    /// The command that was typed last: it is in the transcript already.
    pub(crate) echoed: Option<String>,
    /// What the program's own commands stood for, and what was typed.
    pub(crate) stood_for: Vec<(String, String)>,
    /// Warnings that were given.
    warned: std::collections::HashSet<String>,
    /// No session can be opened for want of a key.
    pub(crate) keyless: bool,
    /// The terminal was asked for the clipboard.
    pub(crate) clipboard_asked: bool,
    /// Until when a dialog waits because the user is typing, in milliseconds of the app's
    /// clock.
    writing_until: u64,
    /// When text was written last.
    wrote_at: u64,
    /// When the list of completions shows more than names.
    keys_rest_at: u64,
    /// What came up by itself, and since when it is seen.
    arrival: arrival::Arrival,
    /// What a screen reader was told of the open dialog.
    announced: plain::Announced,
    /// What was typed in this session, for leaving without a trace.
    pub(crate) typed: Vec<String>,
    /// Paths outside the workspace that are not to be read.
    not_read: Vec<std::path::PathBuf>,
    /// What is known of the connected editor.
    pub(crate) companion: Option<parallax_sdk::ide::CompanionSnapshot>,
    /// Changes that the editor shows.
    editor_diffs: ide::EditorDiffs,
    /// The user waits for the result of connecting.
    shows_ide_status: bool,
    /// The question whether to connect was put in this run.
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

    /// What is to be done now.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Milliseconds since the start; moves only between updates.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Reads the clock, and ends what has had its time.
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

    /// When something changes by itself next, in milliseconds from now: the
    /// spinner, a hint that goes, a countdown. `None` while nothing moves.
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

    /// Something came in from the terminal, at a time.
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
            // Only what was asked for.
            InputEvent::Clipboard(text) if std::mem::take(&mut self.clipboard_asked) => {
                self.paste(&text);
            }
            InputEvent::Clipboard(_) => {}
            InputEvent::Resumed => self.effect(Effect::Resume),
            InputEvent::Closed => self.effect(Effect::Quit { delete: false }),
        }
        self.next_server_question();
    }

    /// Rows of a command's answer, into the transcript.
    pub(crate) fn say(&mut self, rows: Vec<Line>) {
        self.transcript.push(LocalItem::Rows(rows));
    }

    fn notice(&mut self, level: Level, text: String) {
        self.transcript.push(LocalItem::Notice { level, text });
    }

    /// One line of good news.
    pub(crate) fn info(&mut self, text: impl Into<String>) {
        self.notice(Level::Info, text.into());
    }

    /// One line to mind.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.notice(Level::Warning, text.into());
    }

    /// The same, unless it was said since the program began.
    pub(crate) fn warn_once(&mut self, text: String) {
        if self.warned.insert(text.clone()) {
            self.warn(text);
        }
    }

    /// One line that something did not work.
    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.notice(Level::Error, text.into());
    }

    /// Whether the agent is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.working.is_some()
    }

    /// Sends what was typed: at once, or when there is a session.
    pub(crate) fn submit(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if self.keyless {
            // No model would answer: ask for the key first.
            self.composer.insert_before(&text);
            return self.auth_dialog(Some("The prompt will be sent once you have an API key."));
        }
        if self.ready {
            self.effect(Effect::Prompt { text, steer: None, ask: true });
        } else {
            self.early.push(text);
        }
    }

    /// A message for the running turn.
    pub(crate) fn steer(&mut self, text: String) {
        if self.shortens {
            // There is no turn that could hear it.
            return self.queued.push(text);
        }
        self.steer_count += 1;
        let id = SteerId::new(format!("steer-{}", self.steer_count));
        self.steering.push(Steering { id: id.clone(), text: text.clone() });
        self.effect(Effect::Prompt { text, steer: Some(id), ask: true });
    }

    /// The next mode, around; yolo is not among them.
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
        // Shown at once; the engine confirms it.
        self.facts.mode = mode;
    }

    /// The window's title, when it is another than before.
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

    /// Whether the window's title is ours.
    pub(crate) fn has_title(&self) -> bool {
        !self.title.is_empty()
    }

    /// Notifies a user who is not looking at the terminal, if enabled.
    fn notify(&mut self, text: &str) {
        if !self.focused && self.settings.notifications.is_some() {
            self.effect(Effect::Notify(text.to_owned()));
        }
    }
}
