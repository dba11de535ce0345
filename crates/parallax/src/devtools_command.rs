//! `parallax devtools`: a session in the browser.

use std::io::Write as _;
use std::sync::Arc;

use clap::Args;
use parallax_headless::{ExitCode, Signals};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::devtools::{PAGE, SCRIPT, STYLE, SessionSource};
use parallax_serve::{DevToolsFiles, DevToolsServer};

use crate::devtools_source::InspectedSession;
use crate::extending::launch;
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

/// Serves until a signal comes.
///
/// # Errors
/// When the session is unknown, or the port cannot be used.
pub(crate) async fn run(typed: DevToolsArguments) -> Result<ExitCode, Failure> {
    let launch = launch()?;
    let entry = launch.any_session(typed.session.as_deref().unwrap_or("latest"))?;
    // What cannot be read is said here rather than on the page.
    SessionSource::open(&launch, &entry).map_err(|error| failed(error.to_string()))?;
    let random =
        || new_token().map_err(|error| failed(format!("Failed to create a token: {error}")));
    let (link, cookie) = (random()?, random()?);
    let files = DevToolsFiles { page: PAGE, style: STYLE, script: SCRIPT };
    let source = Arc::new(InspectedSession::new(launch, entry));
    let mut signals = Signals::listen();
    let server = DevToolsServer::bind(typed.port, &link, cookie, files, source)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let address = format!("http://{}/?token={link}", server.address());
    let mut stdout = std::io::stdout();
    let hint = "The link works once. Press Ctrl+C to stop.";
    writeln!(stdout, "DevTools: {address}\n{hint}")
        .and_then(|()| stdout.flush())
        .map_err(|error| failed(format!("Failed to print the link: {error}")))?;
    if !typed.no_open {
        parallax_exec::program::open_address(&address);
    }
    server
        .run(async {
            // How it ends is the same for all of them.
            let _ = signals.next().await;
        })
        .await;
    Ok(ExitCode::SUCCESS)
}

fn failed(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
