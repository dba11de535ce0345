//! The event loop: keys, engine events, job results, and timers go into the app; frames come out.
//!
//! Everything here runs on the main thread, which is not one of the runtime's workers, so a slow
//! terminal delays nothing else.

mod attached;
mod editor_diffs;
mod open;
mod run_effects;
mod session;

pub use self::open::setting_problems;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::event::{Event, EventBody};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::op::Op;
use parallax_screen::{Input, InputEvent, Screen};
use parallax_sdk::ide::OpenDiff;
use parallax_sdk::trust::PreparedConfig;
use parallax_sdk::{LaunchOptions, SessionConfig};
use tokio::sync::mpsc;

use crate::app::effect::JobContinuation;
use crate::app::{App, FullWindowView, Layout};
use crate::attached::{AttachedSession, AttachedUpdate};
use crate::debug_console::LogBook;
use crate::devtools::DevToolsPages;
use session::Session;

/// Minimum time between two frames that no key caused: 30 per second look smooth and cost half of
/// what 60 do.
const FRAME: Duration = Duration::from_millis(33);
/// How many results of jobs are buffered.
const JOBS: usize = 64;

/// Command line options of the front end.
pub struct TerminalOptions {
    /// Options of the first session.
    pub launch: LaunchOptions,
    /// The prompt to send first.
    pub prompt: Option<String>,
    /// Whether to open the session browser first.
    pub browse: bool,
    /// Whether `--screen-reader` was given.
    pub screen_reader: bool,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
    /// Collects log lines for the debug console.
    pub log: LogBook,
    /// Shows sessions in a browser.
    pub devtools: Arc<dyn DevToolsPages>,
    /// A session of another process to show instead of an own one.
    pub attached: Option<AttachedSession>,
    /// When the process started.
    pub process_start: Instant,
}

/// Why the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The user exited.
    Quit,
    /// A signal terminated the program.
    Signal(u8),
    /// The terminal cannot be used.
    NoTerminal,
}

/// The front end: the app, its screen, and its session.
pub(crate) struct TerminalFrontEnd {
    pub(crate) app: App,
    pub(crate) screen: Screen,
    pub(crate) layout: Layout,
    pub(crate) session: Option<Session>,
    /// The session of another process that is shown.
    attached: Option<AttachedSession>,
    /// How the session of another process ended.
    session_end: Option<String>,
    devtools: Arc<dyn DevToolsPages>,
    /// Operations that changed the session's settings, repeated when it is reopened without a
    /// journal.
    pub(crate) session_changes: Vec<Op>,
    /// The options of the next session.
    pub(crate) options: LaunchOptions,
    pub(crate) trust: Option<Box<parallax_sdk::trust::TrustQuestion>>,
    /// Diffs open in the connected editor, by approval request.
    diffs: HashMap<ApprovalId, OpenDiff>,
    jobs: mpsc::Sender<JobContinuation>,
    /// The check of a key that the user typed, while it runs.
    key_check: Option<tokio::task::AbortHandle>,
    needs_draw: bool,
    last_frame: Option<Instant>,
    /// Whether the frame that announces paused painting was painted.
    frozen: bool,
    pub(crate) exit_reason: Option<ExitReason>,
    pub(crate) delete: bool,
    pub(crate) prompt: Option<String>,
    /// Whether to open the session browser with the first session.
    pub(crate) browse: bool,
}

enum WakeReason {
    Input(Option<InputEvent>),
    Event(Option<Event>),
    Job(Option<JobContinuation>),
    Update(Option<AttachedUpdate>),
    Signal(u8),
    Time,
}

/// Runs the interface until the user exits.
///
/// # Errors
/// Returns an error if no session is possible: invalid settings or an unusable terminal.
pub async fn run(
    options: TerminalOptions,
) -> Result<ExitReason, parallax_protocol::event::Failure> {
    let prepared = match options.attached {
        // The session has its own settings; nothing from an untrusted folder is used here.
        Some(_) => PreparedConfig::Ready(Box::new(SessionConfig::prepare(options.launch.clone())?)),
        None => SessionConfig::prepare_or_ask(options.launch.clone())?,
    };
    let (mut front_end, mut input, mut jobs) = TerminalFrontEnd::open(options, prepared)?;
    front_end.start();
    let mut signals = crate::signals::Signals::listen();
    let result = front_end.run_event_loop(&mut input, &mut jobs, &mut signals).await;
    front_end.close(result, &mut signals).await;
    Ok(result)
}

impl TerminalFrontEnd {
    async fn run_event_loop(
        &mut self,
        input: &mut Input,
        jobs: &mut mpsc::Receiver<JobContinuation>,
        signals: &mut crate::signals::Signals,
    ) -> ExitReason {
        loop {
            self.run_pending_effects().await;
            if let Some(left) = self.exit_reason {
                return left;
            }
            self.draw_if_due();
            match self.wake(input, jobs, signals).await {
                WakeReason::Input(Some(event)) => {
                    self.app.handle_input(event, input.event_time());
                    // Input that arrived together belongs to the same frame.
                    while let Some(event) = input.try_next() {
                        self.app.handle_input(event, input.event_time());
                    }
                    self.draw_now();
                }
                WakeReason::Input(None) => return ExitReason::Signal(1),
                WakeReason::Event(Some(event)) => {
                    let mut ends = self.handle_event(&event);
                    ends |= self.drain_events();
                    self.needs_draw = true;
                    if ends {
                        // Show at once that the composer accepts input again.
                        self.last_frame = None;
                    }
                }
                // The end of an attached session is reported by an update.
                WakeReason::Event(None) => {
                    self.session = None;
                    self.app.session.mark_not_ready();
                }
                WakeReason::Job(Some(then)) => {
                    then(&mut self.app);
                    self.needs_draw = true;
                }
                WakeReason::Job(None) => {}
                WakeReason::Update(update) => self.handle_update(update),
                WakeReason::Signal(number) => return ExitReason::Signal(number),
                WakeReason::Time => {
                    self.app.tick();
                    self.needs_draw = true;
                }
            }
        }
    }

    /// Waits for the first event. Without anything that moves, no timer runs.
    async fn wake(
        &mut self,
        input: &mut Input,
        jobs: &mut mpsc::Receiver<JobContinuation>,
        signals: &mut crate::signals::Signals,
    ) -> WakeReason {
        let deadline = self.next_time();
        let events = self.session.as_mut().map(|session| &mut session.events);
        let updates = self.attached.as_mut().map(|attached| &mut attached.updates);
        tokio::select! {
            biased;
            number = signals.next() => WakeReason::Signal(number),
            event = input.next() => WakeReason::Input(event),
            job = jobs.recv() => WakeReason::Job(job),
            event = async {
                match events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            } => WakeReason::Event(event),
            update = async {
                match updates {
                    Some(updates) => updates.recv().await,
                    None => std::future::pending().await,
                }
            } => WakeReason::Update(update),
            () = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            } => WakeReason::Time,
        }
    }

    /// Returns when to draw without input.
    fn next_time(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.needs_draw {
            return Some(self.last_frame.map_or(now, |last| last + FRAME));
        }
        self.app.next_tick_ms().map(|ms| now + Duration::from_millis(ms))
    }

    /// Handles further pending events, so that one frame shows them all. Returns whether a turn
    /// ended.
    fn drain_events(&mut self) -> bool {
        let mut ends = false;
        for _ in 0..1024 {
            let Some(session) = &mut self.session else { break };
            match session.events.try_next() {
                Some(event) => ends |= self.handle_event(&event),
                None => break,
            }
        }
        ends
    }

    /// Handles an event. Returns whether a turn ended.
    fn handle_event(&mut self, event: &Event) -> bool {
        self.app.handle_event(event);
        matches!(event.body, EventBody::TurnEnded(_))
    }

    fn draw_if_due(&mut self) {
        let due = self.last_frame.is_none_or(|last| last.elapsed() >= FRAME);
        if self.needs_draw && due {
            self.draw_now();
        }
    }

    fn draw_now(&mut self) {
        if self.app.window.is_frozen() && self.frozen {
            self.needs_draw = false;
            return;
        }
        self.frozen = self.app.window.is_frozen();
        let frame = self.app.frame(self.layout);
        let narrow = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let rows = parallax_screen::Frame {
            commit: &frame.finished,
            live: &frame.live,
            cursor: frame.cursor.map(|(column, row)| (narrow(column), narrow(row))),
        };
        let drawn = match frame.cover {
            Some(cover) => self.screen.view(rows, cover == FullWindowView::Pager),
            None => self.screen.frame(rows),
        };
        self.last_frame = Some(Instant::now());
        match drawn {
            // A frame held back while the window size is queried is drawn again a moment later.
            Ok(painted) => self.needs_draw = !painted,
            // The terminal is gone; a hang-up signal follows.
            Err(_) => {
                self.needs_draw = false;
                self.exit_reason.get_or_insert(ExitReason::Signal(1));
            }
        }
    }
}
