//! Connects to servers: starts a process or opens a network connection.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::mcp::{Endpoint, McpServer, McpSource, SandboxGrants};
use parallax_exec::environment::{Redaction, is_system_variable, pass};
use parallax_exec::{Processes, StartError, StdioProgram};
use parallax_http::reqwest::Client;
use parallax_http::reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use parallax_http::{ClientOptions, Redirects};
use parallax_protocol::code_text::code_text;
use parallax_protocol::observer::Observer;
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{AuthClient, AuthorizationManager, StreamableHttpClientTransport};
use rmcp::{RoleClient, ServiceExt};

use crate::connection_errors::initialization_error;
use crate::error::McpError;
use crate::google::GoogleTokenProvider;
use crate::handler::Handler;
use crate::lines::MAX_BYTES;
use crate::oauth::{self, BearerTokens, TokenFiles};
use crate::readable::EventRepairClient;
use crate::sse::SseConnection;
use crate::stderr_tail::StderrTail;
use crate::stdio::StdioTransport;
use crate::wire::LoggedTransport;

/// The header that names the project to be billed.
const QUOTA_PROJECT: &str = "x-goog-user-project";

/// An open connection.
pub(crate) type Connection = RunningService<RoleClient, Handler>;

/// Wraps a program so that it runs in the sandbox of commands, or returns why that is impossible.
/// Blocking: accesses the disk.
pub type ConfineFn =
    Arc<dyn Fn(StdioProgram, &SandboxGrants) -> Result<StdioProgram, String> + Send + Sync>;

/// Starts watching files that a confined server must not change, before it does work. The returned
/// function restores such files and returns a message for the caller. Both functions block.
pub type Watch = Arc<dyn Fn(&McpServer) -> Option<EndWatch> + Send + Sync>;

/// See [`Watch`].
pub type EndWatch = Box<dyn FnOnce() -> Option<String> + Send>;

/// The environment in which servers run.
pub(crate) struct ServerEnvironment {
    /// Starts processes, and ends them with the session.
    pub(crate) processes: Processes,
    /// The environment variables of Parallax.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Which of these variables are passed to servers.
    pub(crate) redaction: Redaction,
    /// The default working directory.
    pub(crate) directory: PathBuf,
    /// Whether servers without their own setting run in the sandbox.
    pub(crate) sandboxed: bool,
    /// Puts a server into the sandbox.
    pub(crate) confine: ConfineFn,
    /// Watches confined servers, if set.
    pub(crate) watch: Option<Watch>,
    /// The network options.
    pub(crate) http: ClientOptions,
    /// The tokens of sign-ins.
    pub(crate) tokens: TokenFiles,
    /// Observes the messages to and from servers.
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl ServerEnvironment {
    /// Opens the connection. Not limited in time.
    pub(crate) async fn connect(
        &self,
        server: &McpServer,
        handler: Handler,
        tail: &StderrTail,
    ) -> Result<Connection, McpError> {
        match &server.endpoint {
            Endpoint::Stdio { command, args, env, cwd } => {
                let foreign = matches!(server.source, McpSource::Extension(_));
                let mut program = self.program(command, args, env, cwd.as_ref());
                if foreign {
                    // Extensions receive only those user variables that the manifest names.
                    let is_set = |name: &OsString| env.iter().any(|(known, _)| *name == **known);
                    program.environment.retain(|(name, _)| {
                        is_set(name) || is_system_variable(&name.to_string_lossy())
                    });
                }
                if server.is_confined(self.sandboxed) {
                    program = self.confine_program(program, server.grants.clone()).await?;
                }
                let started = self.processes.start_stdio(program).await;
                let (process, streams) =
                    started.map_err(|error| McpError::Start { reason: not_started(&error) })?;
                let stdio = StdioTransport::new(process, streams, tail.clone());
                handler
                    .serve(LoggedTransport::wrap(stdio, server, self.observer.as_ref()))
                    .await
                    .map_err(|error| initialization_error(&error))
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
    ) -> StdioProgram {
        let redaction = Redaction { enabled: true, ..self.redaction.clone() };
        let mut environment = pass(self.variables.iter().cloned(), &redaction).variables;
        let markers = [("GEMINI_CLI", "1"), ("PARALLAX", "1")];
        let markers = markers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        for (name, value) in markers.chain(env.iter().cloned()) {
            environment.retain(|(other, _)| *other != *name);
            environment.push((name.into(), value.into()));
        }
        StdioProgram {
            program: command.into(),
            arguments: args.iter().map(OsString::from).collect(),
            directory: cwd.map_or_else(|| self.directory.clone(), |cwd| self.directory.join(cwd)),
            environment,
            sandbox: None,
        }
    }

    /// Puts a program into the sandbox. If that fails, it is not started.
    async fn confine_program(
        &self,
        program: StdioProgram,
        grants: SandboxGrants,
    ) -> Result<StdioProgram, McpError> {
        let failed =
            |why: String| McpError::Start { reason: format!("cannot run in the sandbox: {why}") };
        let confine = Arc::clone(&self.confine);
        let confining = tokio::task::spawn_blocking(move || confine(program, &grants));
        let confined = confining.await.map_err(|error| failed(error.to_string()))?;
        match confined.map_err(failed)? {
            program if program.sandbox.is_some() => Ok(program),
            _ => Err(failed("no session was created".to_owned())),
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
        let (headers, credentials) = self.credentials(server, url, headers).await?;
        let config = StreamableHttpClientTransportConfig::with_uri(Arc::from(url))
            .custom_headers(headers)
            .max_sse_event_size(MAX_BYTES)
            .reinit_on_expired_session(true);
        let kind = credentials.as_ref().map(|(_, kind)| *kind);
        let opened = match credentials {
            Some((manager, _)) => {
                let client = EventRepairClient::new(AuthClient::new(client, manager));
                let transport = StreamableHttpClientTransport::with_client(client, config);
                handler
                    .serve(LoggedTransport::wrap(transport, server, self.observer.as_ref()))
                    .await
            }
            None => {
                let client = EventRepairClient::new(client);
                let transport = StreamableHttpClientTransport::with_client(client, config);
                handler
                    .serve(LoggedTransport::wrap(transport, server, self.observer.as_ref()))
                    .await
            }
        };
        opened.map_err(|error| {
            self.add_proxy(url, with_credential_kind(kind, initialization_error(&error)))
        })
    }

    /// Adds the proxy to the error of a connection that used one.
    fn add_proxy(&self, url: &str, error: McpError) -> McpError {
        match (error, parallax_http::proxy_of(&self.http, url)) {
            (McpError::Start { reason }, Some(proxy)) => {
                McpError::Start { reason: format!("through the proxy {proxy}: {reason}") }
            }
            (error, _) => error,
        }
    }

    async fn sse(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
        handler: Handler,
    ) -> Result<Connection, McpError> {
        let (headers, credentials) = self.credentials(server, url, headers).await?;
        let kind = credentials.as_ref().map(|(_, kind)| *kind);
        let parameter = server.oauth.token_param_name.clone();
        let bearer = credentials.map(|(manager, _)| BearerTokens::new(manager, parameter));
        let opened = SseConnection::open(self.client()?, url, headers, bearer).await;
        let sse = opened.map_err(|error| self.add_proxy(url, with_credential_kind(kind, error)))?;
        handler
            .serve(LoggedTransport::wrap(sse, server, self.observer.as_ref()))
            .await
            .map_err(|error| with_credential_kind(kind, initialization_error(&error)))
    }

    fn client(&self) -> Result<Client, McpError> {
        let options = ClientOptions { redirects: Redirects::SameHost(5), ..self.http.clone() };
        parallax_http::client(&options)
            .map_err(|error| McpError::Start { reason: error.to_string() })
    }

    /// Returns the headers for all requests, and the token source, unless the user configured an
    /// authorization header.
    async fn credentials(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
    ) -> Result<(HashMap<HeaderName, HeaderValue>, Option<Credentials>), McpError> {
        let mut custom = custom_headers(headers)?;
        if custom.contains_key(&AUTHORIZATION) {
            return Ok((custom, None));
        }
        let scopes = &server.oauth.scopes;
        let Some(google) = GoogleTokenProvider::from_provider(
            &server.provider,
            scopes,
            &self.variables,
            &self.http,
        ) else {
            let manager = oauth::stored_manager(&self.tokens, server, url, &self.http).await;
            return Ok((custom, manager.map(|manager| (manager, CredentialKind::SignIn))));
        };
        // Fetched here, where an error can be reported.
        google.token().await?;
        if let Some(project) = google.quota_project().await
            && let Ok(project) = HeaderValue::from_str(&project)
        {
            custom.entry(HeaderName::from_static(QUOTA_PROJECT)).or_insert(project);
        }
        let manager = oauth::manager(url, &self.http).await;
        let mut manager = manager.map_err(|error| McpError::Start { reason: error.to_string() })?;
        manager.set_credential_store(google);
        Ok((custom, Some((manager, CredentialKind::Google))))
    }
}

/// A source of tokens, and its kind.
type Credentials = (AuthorizationManager, CredentialKind);

/// The kind of a token source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CredentialKind {
    /// A sign-in of the user.
    SignIn,
    /// Google Cloud credentials.
    Google,
}

fn custom_headers(
    headers: &[(String, String)],
) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let header = |(name, value): &(String, String)| {
        let bad = || McpError::Start { reason: format!("invalid header `{name}`") };
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value))
    };
    headers.iter().map(header).collect()
}

/// Adjusts an error if tokens were used: they are no longer valid.
fn with_credential_kind(kind: Option<CredentialKind>, error: McpError) -> McpError {
    let is_refusal = match &error {
        McpError::SignIn { .. } => true,
        // The library tried to refresh a token that cannot be refreshed.
        McpError::Start { reason } => reason.contains("OAuth client not configured"),
        _ => false,
    };
    match kind {
        Some(CredentialKind::SignIn) if matches!(error, McpError::SignIn { .. }) => {
            McpError::SignIn { is_renewal: true }
        }
        Some(CredentialKind::Google) if is_refusal => {
            McpError::Start { reason: "it rejected the Google Cloud credentials".to_owned() }
        }
        _ => error,
    }
}

/// Describes why a program did not start.
fn not_started(error: &StartError) -> String {
    match error {
        StartError::Spawn { program, source } if source.kind() == io::ErrorKind::NotFound => {
            format!("program `{}` not found", code_text(program))
        }
        other => other.to_string(),
    }
}
