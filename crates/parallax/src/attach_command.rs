//! `parallax attach` in a terminal: shows a background session with the terminal interface.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_background::{
    BackgroundError, BackgroundSession, FeedLine, FeedReader, SessionRecord, SessionState,
    ViewerLine, ViewerWriter, attach_viewer,
};
use parallax_headless::ExitCode;
use parallax_protocol::event::{EventBody, Failure, FailureKind};
use parallax_protocol::ids::{SessionId, SteerId};
use parallax_protocol::op::Op;
use parallax_sdk::{EventBus, LaunchOptions, SessionConfig};
use parallax_tui::debug_console::LogBook;
use parallax_tui::{AttachedSession, AttachedUpdate, ExitReason, TerminalOptions};
use tokio::sync::mpsc;

use crate::background_arguments::{BackgroundAction, SessionArgument};
use crate::background_session::all;
use crate::devtools_pages::DevToolsServers;
use crate::session_flags::SessionFlags;
use crate::startup_info::StartupInfo;
use crate::{background_command, log, start};

/// Maximum number of operations, commands, and updates that wait.
const WAITING: usize = 64;
/// How long the process of a session may take to record its end.
const END_LIMIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Shows the session until the user detaches or it ends. Without a suitable terminal, a line-based
/// client is used instead.
///
/// # Errors
/// Returns an error if the session is unknown or not running.
pub(crate) async fn run(
    argument: SessionArgument,
    startup: &StartupInfo,
) -> Result<ExitCode, Failure> {
    if !(startup.stdin_is_terminal && startup.stdout_is_terminal) || is_dumb() {
        return use_lines(argument).await;
    }
    let id = argument.id.clone();
    let found = tokio::task::spawn_blocking(move || Ok((all()?.find(&id), id))).await;
    let (found, _) = found.map_err(|error| input_failure(error.to_string()))??;
    let (session, record) = found.map_err(|error| input_failure(error.to_string()))?;
    let launch = options(&record)?;
    let config = SessionConfig::prepare(launch.clone());
    if config.is_ok_and(|config| config.settings_manager().ui().screen_reader) {
        return use_lines(argument).await;
    }
    let (reader, writer) = match attach_viewer(&session, &record).await {
        Ok(connection) => connection,
        Err(error @ BackgroundError::OtherVersion(_)) => {
            eprintln_line(&format!("{error}; its log is shown instead."));
            return use_lines(argument).await;
        }
        Err(error) => return Err(input_failure(error.to_string())),
    };
    let book = LogBook::default();
    log::collect(&book, None);
    crate::crash::record_terminal_use();
    let options = TerminalOptions {
        launch,
        prompt: None,
        browse: false,
        screen_reader: false,
        warnings: Vec::new(),
        log: book,
        devtools: Arc::new(DevToolsServers::default()),
        attached: Some(connect(session, &record, reader, writer)),
        process_start: Instant::now(),
    };
    match parallax_tui::run(options).await? {
        ExitReason::Quit => Ok(ExitCode::SUCCESS),
        ExitReason::Signal(number) => Ok(ExitCode::signal(number)),
        ExitReason::NoTerminal => {
            Err(input_failure("Failed to initialize the terminal".to_owned()))
        }
    }
}

fn input_failure(message: String) -> Failure {
    Failure::new(FailureKind::Input, message)
}

/// Prints a line for the user. A closed stderr is not an error here.
fn eprintln_line(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether the terminal only shows lines.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

/// Follows the session line by line.
async fn use_lines(argument: SessionArgument) -> Result<ExitCode, Failure> {
    let action = BackgroundAction::Attach(argument);
    let result = tokio::task::spawn_blocking(move || background_command::run(action)).await;
    result.unwrap_or(Ok(ExitCode::GENERAL))
}

/// Returns the options for showing a session of its project. Nothing from an untrusted project is
/// read.
fn options(record: &SessionRecord) -> Result<LaunchOptions, Failure> {
    Ok(LaunchOptions {
        directory: PathBuf::from(&record.project),
        is_read_only: true,
        interactive: true,
        ..start::options(&SessionFlags::default())?
    })
}

/// Connects channels to the session.
fn connect(
    session: BackgroundSession,
    record: &SessionRecord,
    reader: FeedReader,
    writer: ViewerWriter,
) -> AttachedSession {
    let (ops, taken_ops) = mpsc::channel(WAITING);
    let (commands, taken_commands) = mpsc::channel(WAITING);
    let (updates, shown) = mpsc::channel(WAITING);
    let steering = SteerIdNamespace::new();
    tokio::spawn(send_lines(writer, taken_ops, taken_commands, steering.clone()));
    tokio::spawn(read_lines(session, reader, updates, steering));
    AttachedSession { id: SessionId::from(record.id.as_str()), ops, commands, updates: shown }
}

/// Prefix of the ids of steering messages, which distinguishes them from those of other front ends.
#[derive(Clone)]
struct SteerIdNamespace(String);

impl SteerIdNamespace {
    fn new() -> Self {
        Self(format!("{}:", uuid::Uuid::new_v4()))
    }

    fn session_id(&self, id: &SteerId) -> SteerId {
        SteerId::new(format!("{}{}", self.0, id.as_str()))
    }

    /// Returns the id that this front end gave the message, if it is one of its messages.
    fn local_id(&self, id: &SteerId) -> Option<SteerId> {
        id.as_str().strip_prefix(&self.0).map(SteerId::from)
    }
}

/// Sends operations and commands until the session is gone.
async fn send_lines(
    mut writer: ViewerWriter,
    mut ops: mpsc::Receiver<Op>,
    mut commands: mpsc::Receiver<String>,
    steering: SteerIdNamespace,
) {
    loop {
        let line = tokio::select! {
            Some(op) = ops.recv() => ViewerLine::Op(match op {
                Op::Steer(mut steer) => {
                    steer.id = steering.session_id(&steer.id);
                    Op::Steer(steer)
                }
                Op::Withdraw(id) => Op::Withdraw(steering.session_id(&id)),
                op => op,
            }),
            Some(command) = commands.recv() => ViewerLine::Command(command),
            else => return,
        };
        if !writer.send(&line).await {
            return;
        }
    }
}

/// Passes on what the session reports, until it ends.
async fn read_lines(
    session: BackgroundSession,
    mut reader: FeedReader,
    updates: mpsc::Sender<AttachedUpdate>,
    steering: SteerIdNamespace,
) {
    let mut bus: Option<EventBus> = None;
    while let Some(line) = reader.next().await {
        let update = match line {
            FeedLine::State(view) => {
                let next = EventBus::new();
                let events = next.subscribe();
                bus = Some(next);
                AttachedUpdate::State(*view, events)
            }
            FeedLine::Event(event) => {
                let mut body = event.body;
                if let EventBody::SteerEnded(ended) = &mut body {
                    match steering.local_id(&ended.id) {
                        Some(id) => ended.id = id,
                        // A message of another front end.
                        None => continue,
                    }
                }
                if let Some(bus) = &bus {
                    bus.set_turn(event.turn);
                    bus.send(body);
                }
                continue;
            }
            FeedLine::Output(text) => AttachedUpdate::Output(text),
            FeedLine::Notice(level, text) => AttachedUpdate::Notice(level, text),
        };
        if updates.send(update).await.is_err() {
            return;
        }
    }
    let ended = tokio::task::spawn_blocking(move || describe_end(&session)).await;
    // The front end may be gone.
    let _ = updates.send(AttachedUpdate::Ended(ended.unwrap_or_default())).await;
}

/// Describes how a session ended. Blocking: its process records it last.
fn describe_end(session: &BackgroundSession) -> String {
    let limit = Instant::now() + END_LIMIT;
    let state = loop {
        let state = session.record().map(|record| record.state);
        if state.is_none_or(|state| !state.is_running()) || Instant::now() > limit {
            break state;
        }
        std::thread::sleep(POLL);
    };
    match state {
        Some(SessionState::Failed) => "has ended; its last turn failed",
        Some(SessionState::Stopped) => "was stopped",
        Some(SessionState::Dead) => "ended unexpectedly",
        Some(SessionState::Working | SessionState::AwaitingApproval | SessionState::Idle) => {
            "closed the connection"
        }
        Some(SessionState::Done) | None => "has ended",
    }
    .to_owned()
}
