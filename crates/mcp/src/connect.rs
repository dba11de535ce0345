//! The ways to a server: starting it, or reaching it over the network.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::mcp::{Endpoint, McpServer, McpSource};
use parallax_exec::environment::{Redaction, is_of_system, pass};
use parallax_exec::{Processes, ServedProgram, StartError};
use parallax_http::chain;
use parallax_http::reqwest::header::{HeaderName, HeaderValue};
use parallax_http::reqwest::{self, Client};
use parallax_http::{ClientOptions, Redirects};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{AuthClient, AuthorizationManager, StreamableHttpClientTransport};
use rmcp::{RoleClient, ServiceExt};

use crate::error::McpError;
use crate::handler::Handler;
use crate::lines::LONGEST;
use crate::oauth::{self, Bearer, TokenFiles};
use crate::signs::Signs;
use crate::sse::Sse;
use crate::stdio::Stdio;
use crate::tail::Tail;

/// A connection that is open.
pub(crate) type Connection = RunningService<RoleClient, Handler>;

/// Puts a program into the sandbox of commands, or says why it cannot be put
/// there. Blocking: it looks at the disk.
pub type Confine = Arc<dyn Fn(ServedProgram) -> Result<ServedProgram, String> + Send + Sync>;

/// Where servers run and what they get.
pub(crate) struct Surroundings {
    /// Starts them, and ends them with the session.
    pub(crate) processes: Processes,
    /// The variables of this program.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Which of them children may have. Always on for servers.
    pub(crate) redaction: Redaction,
    /// Where they run when they say nothing.
    pub(crate) directory: PathBuf,
    /// Whether those are confined that say nothing of it.
    pub(crate) sandboxed: bool,
    /// Confines them.
    pub(crate) confine: Confine,
    /// How the network is reached.
    pub(crate) http: ClientOptions,
    /// The tokens of sign-ins.
    pub(crate) tokens: TokenFiles,
}

impl Surroundings {
    /// Opens the connection. Not bounded in time.
    pub(crate) async fn connect(
        &self,
        server: &McpServer,
        handler: Handler,
        tail: &Tail,
        signs: &Signs,
    ) -> Result<Connection, McpError> {
        match &server.endpoint {
            Endpoint::Stdio { command, args, env, cwd } => {
                let foreign = matches!(server.source, McpSource::Extension(_));
                let mut program = self.program(command, args, env, cwd.as_ref());
                if foreign {
                    // Of the person's variables only what the manifest names.
                    let own = |name: &OsString| env.iter().any(|(known, _)| *name == **known);
                    program
                        .environment
                        .retain(|(name, _)| own(name) || is_of_system(&name.to_string_lossy()));
                }
                if server.is_confined(self.sandboxed) {
                    program = self.confined(program).await?;
                }
                let started = self.processes.serve(program).await;
                let (process, streams) =
                    started.map_err(|error| McpError::Start { why: not_started(&error) })?;
                signs.started(process.id());
                let stdio = Stdio::new(process, streams, tail.clone());
                handler.serve(stdio).await.map_err(|error| refused(&error))
            }
            Endpoint::Http { url, headers } => self.http(server, url, headers, handler).await,
            Endpoint::Sse { url, headers } => self.sse(server, url, headers, handler).await,
            Endpoint::HttpThenSse { url, headers } => {
                match self.http(server, url, headers, handler.clone()).await {
                    Err(first @ McpError::Start { .. }) => {
                        self.sse(server, url, headers, handler).await.map_err(|_| first)
                    }
                    other => other,
                }
            }
        }
    }

    fn program(
        &self,
        command: &str,
        args: &[String],
        env: &[(String, String)],
        cwd: Option<&PathBuf>,
    ) -> ServedProgram {
        let redaction = Redaction { enabled: true, ..self.redaction.clone() };
        let mut environment = pass(self.variables.iter().cloned(), &redaction).variables;
        let own = [("GEMINI_CLI", "1"), ("PARALLAX", "1")];
        let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        for (name, value) in own.chain(env.iter().cloned()) {
            environment.retain(|(other, _)| *other != *name);
            environment.push((name.into(), value.into()));
        }
        ServedProgram {
            program: command.into(),
            arguments: args.iter().map(OsString::from).collect(),
            directory: cwd.map_or_else(|| self.directory.clone(), |cwd| self.directory.join(cwd)),
            environment,
            sandbox: None,
        }
    }

    /// The same program in its sandbox. Without one it is not started.
    async fn confined(&self, program: ServedProgram) -> Result<ServedProgram, McpError> {
        let failed = |why: String| McpError::Start { why: format!("it has no sandbox: {why}") };
        let confine = Arc::clone(&self.confine);
        let confining = tokio::task::spawn_blocking(move || confine(program));
        let confined = confining.await.map_err(|error| failed(error.to_string()))?;
        match confined.map_err(failed)? {
            program if program.sandbox.is_some() => Ok(program),
            _ => Err(failed("none was made".to_owned())),
        }
    }

    async fn http(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
        handler: Handler,
    ) -> Result<Connection, McpError> {
        let client = self.client()?;
        let config = StreamableHttpClientTransportConfig::with_uri(Arc::from(url))
            .custom_headers(custom(headers)?)
            .max_sse_event_size(LONGEST)
            .reinit_on_expired_session(true);
        match self.tokens_for(server, url, headers).await {
            Some(manager) => {
                let client = AuthClient::new(client, manager);
                let transport = StreamableHttpClientTransport::with_client(client, config);
                handler.serve(transport).await.map_err(|error| again(refused(&error)))
            }
            None => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                handler.serve(transport).await.map_err(|error| refused(&error))
            }
        }
    }

    async fn sse(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
        handler: Handler,
    ) -> Result<Connection, McpError> {
        let bearer = self.tokens_for(server, url, headers).await.map(Bearer::new);
        let signed = bearer.is_some();
        let opened = Sse::open(self.client()?, url, custom(headers)?, bearer).await;
        let sse = opened.map_err(|error| if signed { again(error) } else { error })?;
        handler.serve(sse).await.map_err(|error| refused(&error))
    }

    fn client(&self) -> Result<Client, McpError> {
        let options = ClientOptions { redirects: Redirects::SameHost(5), ..self.http.clone() };
        parallax_http::client(&options).map_err(|error| McpError::Start { why: error.to_string() })
    }

    /// Tokens of a sign-in, unless the user set a header for that.
    async fn tokens_for(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
    ) -> Option<AuthorizationManager> {
        let by_header = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if by_header {
            return None;
        }
        oauth::stored(&self.tokens, server, url).await
    }
}

fn custom(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let header = |(name, value): &(String, String)| {
        let bad = || McpError::Start { why: format!("the header `{name}` is not valid") };
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value))
    };
    headers.iter().map(header).collect()
}

/// The same failure where there was a sign-in: it does not count any more.
fn again(error: McpError) -> McpError {
    match error {
        McpError::SignIn { .. } => McpError::SignIn { again: true },
        other => other,
    }
}

fn refused(error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::SignIn { again: false };
    }
    let why = chain(error);
    match renewal_failed(error) {
        // Nobody was there to say so.
        Some(failed) if failed.starts_with("Request failed") => {
            let why = "its sign-in could not be renewed: nobody answers where that is done";
            return McpError::Start { why: why.to_owned() };
        }
        Some(_) => return McpError::SignIn { again: true },
        None => {}
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Lost,
        _ if why.contains("401") => McpError::SignIn { again: false },
        _ => McpError::Start { why: plain(&cause(error)) },
    }
}

/// What the network said, which its error does not give as its source.
fn cause(error: &ClientInitializeError) -> String {
    match streamable(error) {
        Some(StreamableHttpError::Client(client)) => chain(client),
        _ => chain(error),
    }
}

/// Why a token could not be renewed, when that is what failed.
fn renewal_failed(error: &ClientInitializeError) -> Option<&str> {
    match streamable(error) {
        Some(StreamableHttpError::Auth(AuthError::TokenRefreshFailed(why))) => Some(why),
        _ => None,
    }
}

fn streamable(error: &ClientInitializeError) -> Option<&StreamableHttpError<reqwest::Error>> {
    let ClientInitializeError::TransportError { error: transport, .. } = error else {
        return None;
    };
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(transport.error.as_ref());
    while let Some(inner) = at {
        if let Some(found) = inner.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return Some(found);
        }
        at = inner.source();
    }
    None
}

/// Why a program did not start.
fn not_started(error: &StartError) -> String {
    match error {
        StartError::Spawn { program, source } if source.kind() == io::ErrorKind::NotFound => {
            format!("there is no program `{program}`")
        }
        other => other.to_string(),
    }
}

/// What the network's libraries say, in words for people: known causes by name,
/// else their own words without the names of types.
pub(crate) fn plain(why: &str) -> String {
    let known = [
        ("connection refused", "the connection was refused: nothing listens there"),
        ("dns error", "the name of its host is not known"),
        ("failed to lookup", "the name of its host is not known"),
        ("certificate", "its certificate is not accepted"),
        ("network is unreachable", "there is no way to it over the network"),
        ("no route to host", "there is no way to it over the network"),
        ("timed out", "the connection to it timed out"),
        ("connection reset", "it closed the connection"),
    ];
    let lower = why.to_lowercase();
    if let Some((_, words)) = known.iter().find(|(mark, _)| lower.contains(mark)) {
        return (*words).to_owned();
    }
    let pieces = why.split(": ").filter(|piece| !piece.contains("::"));
    let words = pieces.collect::<Vec<_>>().join(": ");
    let words = if words.trim().is_empty() { "the connection failed" } else { words.trim() };
    words.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn failures_of_the_network_are_told_in_plain_words() {
        let worker = "Send message error Transport [rmcp::transport::worker::WorkerTransport<rmcp::\
                      transport::StreamableHttpClientWorker<reqwest::Client>>] error: Client error: \
                      error sending request for url (http://x/y): client error (Connect): dns error: \
                      failed to lookup address information: Name or service not known";
        assert_eq!(plain(worker), "the name of its host is not known");
        let other = "Transport [rmcp::transport::worker::Worker] error";
        assert_eq!(plain(other), "the connection failed");
        assert_eq!(plain("a::b: HTTP 500: try later"), "HTTP 500: try later");
    }
}
