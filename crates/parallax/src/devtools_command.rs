//! `parallax devtools`: a session in the browser.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parallax_headless::{ExitCode, Signals};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::devtools::{PAGE, SCRIPT, STYLE, SessionSource};
use parallax_sdk::{Launch, SessionEntry};
use parallax_serve::{DevToolsFiles, DevToolsMessage, DevToolsServer, DevToolsSource};
use tokio::sync::mpsc;

use crate::extending::launch;
use crate::serve_command::new_token;

/// How often a journal is read for what was added.
const POLL: Duration = Duration::from_millis(50);
/// Messages that wait for a page; a slow one delays the reading.
const QUEUE: usize = 64;

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
    let source = Arc::new(Inspected { launch: Arc::new(launch), entry });
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

/// The session that is shown.
struct Inspected {
    launch: Arc<Launch>,
    entry: SessionEntry,
}

impl DevToolsSource for Inspected {
    fn open(&self) -> mpsc::Receiver<DevToolsMessage> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (launch, entry) = (Arc::clone(&self.launch), self.entry.clone());
        // Ends with the receiver.
        tokio::spawn(follow(launch, entry, sender));
        receiver
    }
}

/// Sends the records, and those that are added until the page is gone.
async fn follow(launch: Arc<Launch>, entry: SessionEntry, sender: mpsc::Sender<DevToolsMessage>) {
    let opened = tokio::task::spawn_blocking(move || SessionSource::open(&launch, &entry)).await;
    let mut source = match opened {
        Ok(Ok(source)) => source,
        Ok(Err(error)) => return report(&sender, &error.to_string()).await,
        Err(_) => return,
    };
    let mut event = "session";
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let more = source.more();
            (source, more)
        });
        let Ok((returned, more)) = read.await else { return };
        source = returned;
        match more {
            Ok(data) if data.is_empty() && event == "records" => {}
            Ok(data) => {
                if sender.send(DevToolsMessage { event, data }).await.is_err() {
                    return;
                }
                event = "records";
            }
            Err(error) => return report(&sender, &error.to_string()).await,
        }
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn report(sender: &mpsc::Sender<DevToolsMessage>, message: &str) {
    let data = serde_json::json!({ "message": message }).to_string();
    // The page may be gone.
    let _ = sender.send(DevToolsMessage { event: "problem", data }).await;
}
