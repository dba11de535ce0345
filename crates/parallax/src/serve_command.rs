//! `parallax serve`: serves sessions over HTTP.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use clap::Args;
use parallax_acp::SharedSessions;
use parallax_headless::{ExitCode, Signals};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::{BoxFuture, CancellationToken};
use parallax_sdk::LaunchOptions;
use parallax_serve::{Backend, HttpServer, ServeOptions};
use tokio::io::{AsyncBufRead, AsyncWrite};

use crate::acp_command::AcpHost;
use crate::session_flags::SessionFlags;

/// The variable that holds the token.
const TOKEN_VARIABLE: &str = "PARALLAX_SERVE_TOKEN";
/// Minimum number of characters of a token.
const MIN_TOKEN: usize = 16;

/// `parallax serve`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct ServeArguments {
    /// Port to listen on; a free one by default
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,

    /// Address to listen on; addresses that other machines can reach require `PARALLAX_SERVE_TOKEN`
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) host: IpAddr,

    /// Model of new sessions
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

/// Serves until a signal arrives.
///
/// # Errors
/// Returns an error if the token is missing or too short, or if the address cannot be bound.
pub(crate) async fn run(arguments: ServeArguments) -> Result<ExitCode, Failure> {
    let provided = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
    if provided.is_none() && !arguments.host.is_loopback() {
        return Err(input_failure(format!(
            "`--host {}` can be reached by other machines: set `{TOKEN_VARIABLE}` to a token",
            arguments.host
        )));
    }
    if provided.as_ref().is_some_and(|token| token.chars().count() < MIN_TOKEN) {
        return Err(input_failure(format!(
            "`{TOKEN_VARIABLE}` must have at least {MIN_TOKEN} characters"
        )));
    }
    let is_generated = provided.is_none();
    let token = match provided {
        Some(token) => token,
        None => new_token().map_err(|error| Failure {
            kind: FailureKind::Internal,
            message: format!("Failed to generate a token: {error}"),
            status: None,
        })?,
    };
    let options =
        LaunchOptions { model: arguments.model, interactive: true, ..LaunchOptions::default() };
    let flags = SessionFlags { options, ..SessionFlags::default() };
    let backend = Arc::new(Sessions {
        editor: Arc::new(AcpHost { flags }),
        shared: SharedSessions::default(),
    });
    let options = ServeOptions {
        address: arguments.host,
        port: arguments.port,
        token: token.clone(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut signals = Signals::listen();
    let server = HttpServer::bind(options, backend)
        .await
        .map_err(|error| input_failure(error.to_string()))?;
    let mut text = format!("Listening on http://{}\n", server.address());
    if is_generated {
        text.push_str(&format!("Token: {token}\n"));
    }
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| Failure {
        kind: FailureKind::Internal,
        message: format!("Failed to print the address: {error}"),
        status: None,
    })?;
    server
        .run(async {
            // All signals end it in the same way.
            let _ = signals.next().await;
        })
        .await;
    Ok(ExitCode::SUCCESS)
}

/// Returns 256 random bits as hexadecimal digits.
pub(crate) fn new_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

/// The sessions of all clients.
struct Sessions {
    editor: Arc<AcpHost>,
    shared: SharedSessions,
}

impl Backend for Sessions {
    fn serve_acp(
        &self,
        input: Box<dyn AsyncBufRead + Send + Unpin>,
        output: Box<dyn AsyncWrite + Send + Unpin>,
        stopped: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let (host, shared) = (self.editor.clone(), self.shared.clone());
        Box::pin(async move {
            parallax_acp::serve_shared(host, &shared, input, output, stopped.cancelled()).await;
        })
    }

    fn commands(&self) -> Vec<(&'static str, &'static str)> {
        let commands = parallax_acp::Host::commands(self.editor.as_ref()).into_iter();
        commands.map(|(name, description, _)| (name, description)).collect()
    }
}
