//! The ways to a server: starting it, or reaching it over the network.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::mcp::{Endpoint, McpServer};
use parallax_exec::environment::{Redaction, pass};
use parallax_exec::{Processes, ServedProgram};
use parallax_http::chain;
use parallax_http::reqwest::Client;
use parallax_http::reqwest::header::{HeaderName, HeaderValue};
use parallax_http::{ClientOptions, Redirects};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{AuthClient, AuthorizationManager, StreamableHttpClientTransport};
use rmcp::{RoleClient, ServiceExt};

use crate::error::McpError;
use crate::handler::Handler;
use crate::lines::LONGEST;
use crate::oauth::{self, Bearer, TokenFiles};
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
    ) -> Result<Connection, McpError> {
        match &server.endpoint {
            Endpoint::Stdio { command, args, env, cwd } => {
                let mut program = self.program(command, args, env, cwd.as_ref());
                if server.is_confined(self.sandboxed) {
                    program = self.confined(program).await?;
                }
                let started = self.processes.serve(program).await;
                let (process, streams) =
                    started.map_err(|error| McpError::Start { why: error.to_string() })?;
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
        let served = match self.tokens_for(server, url, headers).await {
            Some(manager) => {
                let client = AuthClient::new(client, manager);
                handler.serve(StreamableHttpClientTransport::with_client(client, config)).await
            }
            None => handler.serve(StreamableHttpClientTransport::with_client(client, config)).await,
        };
        served.map_err(|error| refused(&error))
    }

    async fn sse(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
        handler: Handler,
    ) -> Result<Connection, McpError> {
        let bearer = self.tokens_for(server, url, headers).await.map(Bearer::new);
        let sse = Sse::open(self.client()?, url, custom(headers)?, bearer).await?;
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
        oauth::stored(&self.tokens, &server.name, url).await
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

fn refused(error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::SignIn;
    }
    let why = chain(error);
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Lost,
        _ if why.contains("401") => McpError::SignIn,
        _ => McpError::Start { why: why.chars().take(1_000).collect() },
    }
}
