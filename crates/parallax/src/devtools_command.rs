//! `parallax devtools`: a session in the browser.

use std::io::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use clap::Args;
use parallax_devtools::{PAGE, SCRIPT, STYLE, running_sessions};
use parallax_headless::{ExitCode, Signals};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::SessionConfig;
use parallax_serve::{DevToolsFiles, DevToolsServer};
use parallax_sessions::SessionEntry;

use crate::devtools_source::{InspectedSession, JournalLocation};
use crate::extension_commands::launch;
use crate::serve_command::new_token;

/// `parallax devtools`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct DevToolsArguments {
    /// Session id or its beginning; for this project also a number [default: the latest session]
    session: Option<String>,

    /// Print the link without opening a browser
    #[arg(long)]
    no_open: bool,

    /// Port to listen on; a free one by default
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
}

/// Serves until a signal arrives.
///
/// # Errors
/// Returns an error if the session is unknown, or the port cannot be used.
pub(crate) async fn run(arguments: DevToolsArguments) -> Result<ExitCode, Failure> {
    let launch = launch()?;
    let session = find_session(&launch, arguments.session.as_deref())?;
    // A session that cannot be read is reported here rather than on the page.
    session.source(&launch).map_err(|error| failure(error.to_string()))?;
    let mut signals = Signals::listen();
    let server = bind(arguments.port, launch, session).await.map_err(failure)?;
    let address = server.links().add(&random_token().map_err(failure)?);
    let mut stdout = std::io::stdout();
    let hint = "The link works once. Press Ctrl+C to stop.";
    writeln!(stdout, "DevTools: {address}\n{hint}")
        .and_then(|()| stdout.flush())
        .map_err(|error| failure(format!("Failed to print the link: {error}")))?;
    if !arguments.no_open {
        parallax_exec::program::open_address(&address);
    }
    server
        .run(async {
            // All signals end it in the same way.
            let _ = signals.next().await;
        })
        .await;
    Ok(ExitCode::SUCCESS)
}

/// Finds a session by its id, or else the latest session of this project. A session that runs may
/// not be saved yet, because it had no prompt.
fn find_session(launch: &SessionConfig, id: Option<&str>) -> Result<JournalLocation, Failure> {
    let saved = launch.session_library().any_session(id.unwrap_or("latest"));
    let mut running = running_sessions(&launch.dirs()).into_iter();
    let unsaved = match id {
        Some(_) if saved.is_ok() => None,
        Some(id) => running.find(|it| parallax_sessions::has_prefix(it.id.as_str(), id.trim())),
        None => running.find(|it| {
            let is_newer = |entry: &SessionEntry| {
                entry.id != it.id.as_str() && SystemTime::from(entry.last_used) < it.started
            };
            it.project == launch.directory() && saved.as_ref().map_or(true, is_newer)
        }),
    };
    match unsaved {
        Some(session) => Ok(JournalLocation::Running(session.project, session.id)),
        None => Ok(JournalLocation::Saved(Box::new(saved?))),
    }
}

/// Returns a server that shows a session.
///
/// # Errors
/// Returns a message if the port cannot be used.
pub(crate) async fn bind(
    port: u16,
    launch: SessionConfig,
    session: JournalLocation,
) -> Result<DevToolsServer, String> {
    let files = DevToolsFiles { document: PAGE, style: STYLE, script: SCRIPT };
    let source = Arc::new(InspectedSession::new(launch, session));
    let bound = DevToolsServer::bind(port, random_token()?, files, source).await;
    bound.map_err(|error| error.to_string())
}

/// Returns a token of a link or a cookie.
///
/// # Errors
/// Returns a message if the system has no random numbers.
pub(crate) fn random_token() -> Result<String, String> {
    new_token().map_err(|error| format!("Failed to create a token: {error}"))
}

fn failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
