//! Connects to servers: starts a process or opens a network connection.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::mcp::{Endpoint, McpServer, McpSource, SandboxGrants};
use parallax_exec::environment::{Redaction, is_system_variable, pass};
use parallax_exec::{Processes, StartError, StdioProgram};
use parallax_http::error_chain;
use parallax_http::reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use parallax_http::reqwest::{self, Client};
use parallax_http::{ClientOptions, Redirects};
use parallax_protocol::code_text::code_text;
use rmcp::model::{InitializeResult, ServerResult};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{
    AuthClient, AuthorizationManager, DynamicTransportError, StreamableHttpClientTransport,
};
use rmcp::{RoleClient, ServiceExt};

use crate::error::McpError;
use crate::google::Google;
use crate::handler::Handler;
use crate::lines::LONGEST;
use crate::media::media_type;
use crate::messages::UNREADABLE;
use crate::oauth::{self, Bearer, TokenFiles};
use crate::readable::EventRepairClient;
use crate::sse::Sse;
use crate::stdio::Stdio;
use crate::tail::Tail;
use crate::wire::LoggedTransport;

/// The header that names the project to be billed.
const QUOTA_PROJECT: &str = "x-goog-user-project";

/// An open connection.
pub(crate) type Connection = RunningService<RoleClient, Handler>;

/// Wraps a program so that it runs in the sandbox of commands, or returns why that is impossible.
/// Blocking: accesses the disk.
pub type Confine =
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
    pub(crate) confine: Confine,
    /// Watches confined servers, if set.
    pub(crate) watch: Option<Watch>,
    /// The network options.
    pub(crate) http: ClientOptions,
    /// The tokens of sign-ins.
    pub(crate) tokens: TokenFiles,
}

impl ServerEnvironment {
    /// Opens the connection. Not limited in time.
    pub(crate) async fn connect(
        &self,
        server: &McpServer,
        handler: Handler,
        tail: &Tail,
    ) -> Result<Connection, McpError> {
        match &server.endpoint {
            Endpoint::Stdio { command, args, env, cwd } => {
                let foreign = matches!(server.source, McpSource::Extension(_));
                let mut program = self.program(command, args, env, cwd.as_ref());
                if foreign {
                    // Extensions receive only those user variables that the manifest names.
                    let own = |name: &OsString| env.iter().any(|(known, _)| *name == **known);
                    program.environment.retain(|(name, _)| {
                        own(name) || is_system_variable(&name.to_string_lossy())
                    });
                }
                if server.is_confined(self.sandboxed) {
                    program = self.confined(program, server.grants.clone()).await?;
                }
                let started = self.processes.start_stdio(program).await;
                let (process, streams) =
                    started.map_err(|error| McpError::Start { why: not_started(&error) })?;
                let stdio = Stdio::new(process, streams, tail.clone());
                handler
                    .serve(LoggedTransport::around(stdio, server))
                    .await
                    .map_err(|error| refused(&error))
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
        let own = [("GEMINI_CLI", "1"), ("PARALLAX", "1")];
        let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        for (name, value) in own.chain(env.iter().cloned()) {
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
    async fn confined(
        &self,
        program: StdioProgram,
        grants: SandboxGrants,
    ) -> Result<StdioProgram, McpError> {
        let failed =
            |why: String| McpError::Start { why: format!("cannot run in the sandbox: {why}") };
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
            .max_sse_event_size(LONGEST)
            .reinit_on_expired_session(true);
        let kind = credentials.as_ref().map(|(_, kind)| *kind);
        let opened = match credentials {
            Some((manager, _)) => {
                let client = EventRepairClient::new(AuthClient::new(client, manager));
                let transport = StreamableHttpClientTransport::with_client(client, config);
                handler.serve(LoggedTransport::around(transport, server)).await
            }
            None => {
                let client = EventRepairClient::new(client);
                let transport = StreamableHttpClientTransport::with_client(client, config);
                handler.serve(LoggedTransport::around(transport, server)).await
            }
        };
        opened.map_err(|error| self.reached(url, of_kind(kind, refused(&error))))
    }

    /// Adds the proxy to the error of a connection that used one.
    fn reached(&self, url: &str, error: McpError) -> McpError {
        match (error, parallax_http::proxy_of(&self.http, url)) {
            (McpError::Start { why }, Some(proxy)) => {
                McpError::Start { why: format!("through the proxy {proxy}: {why}") }
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
        let bearer = credentials.map(|(manager, _)| Bearer::new(manager, parameter));
        let opened = Sse::open(self.client()?, url, headers, bearer).await;
        let sse = opened.map_err(|error| self.reached(url, of_kind(kind, error)))?;
        handler
            .serve(LoggedTransport::around(sse, server))
            .await
            .map_err(|error| of_kind(kind, refused(&error)))
    }

    fn client(&self) -> Result<Client, McpError> {
        let options = ClientOptions { redirects: Redirects::SameHost(5), ..self.http.clone() };
        parallax_http::client(&options).map_err(|error| McpError::Start { why: error.to_string() })
    }

    /// Returns the headers for all requests, and the token source, unless the user configured an
    /// authorization header.
    async fn credentials(
        &self,
        server: &McpServer,
        url: &str,
        headers: &[(String, String)],
    ) -> Result<(HashMap<HeaderName, HeaderValue>, Option<Credentials>), McpError> {
        let mut custom = custom(headers)?;
        if custom.contains_key(&AUTHORIZATION) {
            return Ok((custom, None));
        }
        let scopes = &server.oauth.scopes;
        let Some(google) = Google::of(&server.provider, scopes, &self.variables, &self.http) else {
            let manager = oauth::stored(&self.tokens, server, url, &self.http).await;
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
        let mut manager = manager.map_err(|error| McpError::Start { why: error.to_string() })?;
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

fn custom(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, McpError> {
    let header = |(name, value): &(String, String)| {
        let bad = || McpError::Start { why: format!("invalid header `{name}`") };
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value))
    };
    headers.iter().map(header).collect()
}

/// Adjusts an error if tokens were used: they are no longer valid.
fn of_kind(kind: Option<CredentialKind>, error: McpError) -> McpError {
    let is_refusal = match &error {
        McpError::SignIn { .. } => true,
        // The library tried to refresh a token that cannot be refreshed.
        McpError::Start { why } => why.contains("OAuth client not configured"),
        _ => false,
    };
    match kind {
        Some(CredentialKind::SignIn) if matches!(error, McpError::SignIn { .. }) => {
            McpError::SignIn { again: true }
        }
        Some(CredentialKind::Google) if is_refusal => {
            McpError::Start { why: "it rejected the Google Cloud credentials".to_owned() }
        }
        _ => error,
    }
}

fn refused(error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::SignIn { again: false };
    }
    let why = error_chain(error);
    match renewal_failed(error) {
        // The token service could not be reached.
        Some(failed) if failed.starts_with("Request failed") => {
            let why = "its sign-in could not be renewed: the authorization server did not respond";
            return McpError::Start { why: why.to_owned() };
        }
        Some(_) => return McpError::SignIn { again: true },
        None => {}
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Lost,
        ClientInitializeError::JsonRpcError(error) if error.code.0 == UNREADABLE => {
            McpError::Protocol { message: error.message.to_string() }
        }
        ClientInitializeError::ExpectedInitResult(result) => McpError::Protocol {
            message: format!("the response to `initialize`: {}", wrong_result(result.as_ref())),
        },
        ClientInitializeError::ExpectedInitResponse(_) => McpError::Protocol {
            message: "there was another message instead of the response to `initialize`".to_owned(),
        },
        ClientInitializeError::ConflictInitResponseId(..) => McpError::Protocol {
            message: "the response to `initialize` has a different id".to_owned(),
        },
        _ if why.contains("401") => McpError::SignIn { again: false },
        _ => McpError::Start { why: plain(&cause(error)) },
    }
}

/// Describes what is wrong with the result of `initialize`. Its id is the right one.
fn wrong_result(result: Option<&ServerResult>) -> String {
    let value = result.and_then(|result| serde_json::to_value(result).ok()).unwrap_or_default();
    match serde_json::from_value::<InitializeResult>(value) {
        Err(wrong) => wrong.to_string(),
        Ok(_) => "it is the result of another request".to_owned(),
    }
}

/// Returns the underlying network error, which the library does not expose as a source.
fn cause(error: &ClientInitializeError) -> String {
    match streamable(error) {
        Some(StreamableHttpError::Client(client)) => error_chain(client),
        Some(StreamableHttpError::UnexpectedContentType(kind)) => no_message(kind.as_deref()),
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
            http_error(text).unwrap_or_else(|| error_chain(error))
        }
        _ => error_chain(error),
    }
}

/// Returns why a token refresh failed, if that is the error.
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
    innermost(transport.error.as_ref())
}

/// Whether a server that was signed in to requires a new sign-in.
pub(crate) fn wants_sign_in(error: &DynamicTransportError) -> bool {
    match innermost(error.error.as_ref()) {
        Some(StreamableHttpError::AuthRequired(_)) => true,
        Some(StreamableHttpError::Client(error)) => {
            error.status() == Some(reqwest::StatusCode::UNAUTHORIZED)
        }
        Some(StreamableHttpError::Auth(AuthError::TokenRefreshFailed(why))) => {
            // Otherwise the token service could not be reached.
            !why.starts_with("Request failed")
        }
        Some(StreamableHttpError::Auth(AuthError::AuthorizationRequired)) => true,
        _ => false,
    }
}

/// Describes why a message could not be sent.
pub(crate) fn not_sent(error: &DynamicTransportError) -> String {
    match innermost(error.error.as_ref()) {
        Some(StreamableHttpError::Client(client)) => plain(&error_chain(client)),
        Some(StreamableHttpError::UnexpectedContentType(kind)) => no_message(kind.as_deref()),
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
            http_error(text).unwrap_or_else(|| plain(&error_chain(error)))
        }
        Some(StreamableHttpError::InsufficientScope(error)) => {
            let wanted = match &error.required_scope {
                Some(scope) => format!("the scope `{scope}`"),
                None => "another scope".to_owned(),
            };
            format!(
                "your sign-in lacks permissions. It requires {wanted}: add it to `oauth.scopes` of \
                 the server and sign in again"
            )
        }
        _ => plain(&error_chain(error)),
    }
}

/// Whether a failed request was rejected by the server, so that retrying is useless.
pub(crate) fn is_refusal(error: &DynamicTransportError) -> bool {
    let is_no = |status: u16| (400..500).contains(&status) && status != 408 && status != 429;
    match innermost(error.error.as_ref()) {
        Some(StreamableHttpError::Client(error)) => {
            error.status().is_some_and(|status| is_no(status.as_u16()))
        }
        Some(StreamableHttpError::HttpStatus(error)) => is_no(error.status),
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
            let status = text.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok());
            status.is_some_and(is_no)
        }
        Some(
            StreamableHttpError::InsufficientScope(_)
            | StreamableHttpError::UnexpectedContentType(_)
            | StreamableHttpError::ResponseBodyTooLarge { .. },
        ) => true,
        _ => false,
    }
}

/// Extracts the message from an HTTP error: the message of a JSON body, otherwise its first line.
/// Web pages are ignored.
fn http_error(text: &str) -> Option<String> {
    const LONGEST: usize = 300;
    let (status, body) = text.split_once(": ").filter(|(status, _)| status.starts_with("HTTP "))?;
    let json = serde_json::from_str::<serde_json::Value>(body.trim()).ok();
    let message = json.as_ref().and_then(|json| {
        let places = ["/error/message", "/message", "/error_description", "/error", "/detail"];
        places.iter().find_map(|place| json.pointer(place)?.as_str())
    });
    let words = message.unwrap_or(body);
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.is_empty() || message.is_none() && line.starts_with('<') {
        return Some(status.to_owned());
    }
    let line: String = line.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    Some(format!("{status}: {line}"))
}

/// Describes an unexpected content type.
fn no_message(kind: Option<&str>) -> String {
    match kind.and_then(media_type) {
        Some(kind) => format!("it responded with `{kind}` instead of JSON or an event stream"),
        None => "its response has no content type".to_owned(),
    }
}

fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    let mut at = Some(error);
    while let Some(inner) = at {
        if let Some(found) = inner.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return Some(found);
        }
        at = inner.source();
    }
    None
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

/// Describes a network error for the user: known causes in plain words, otherwise the library's
/// message without type names.
pub(crate) fn plain(why: &str) -> String {
    let known = [
        ("connection refused", "connection refused"),
        ("dns error", "its host name cannot be resolved"),
        ("failed to lookup", "its host name cannot be resolved"),
        ("certificate", "its certificate is not trusted"),
        ("network is unreachable", "the network is unreachable"),
        ("no route to host", "the network is unreachable"),
        ("timed out", "connection timed out"),
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
    use super::{http_error, plain};

    #[test]
    fn http_error_shows_the_message_of_its_body() {
        for (text, expected) in [
            (r#"HTTP 403 Forbidden: {"error":{"message":"no access: ask"}}"#, "no access: ask"),
            (
                r#"HTTP 403 Forbidden: {"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
                "no",
            ),
            (r#"HTTP 403 Forbidden: {"error":"quota"}"#, "quota"),
            (r#"HTTP 403 Forbidden: {"detail":"a\u001b[31mb"}"#, "a[31mb"),
            ("HTTP 403 Forbidden: \nfirst\nsecond", "first"),
            ("HTTP 403 Forbidden: the certificate timed out", "the certificate timed out"),
        ] {
            let expected = format!("HTTP 403 Forbidden: {expected}");
            assert_eq!(http_error(text), Some(expected), "{text}");
        }
        let page = "HTTP 404 Not Found: <!doctype html><p>gone";
        assert_eq!(http_error(page).as_deref(), Some("HTTP 404 Not Found"));
        let long = format!("HTTP 400 Bad Request: {}", "x".repeat(10_000));
        assert!(http_error(&long).is_some_and(|text| text.len() < 400));
        assert_eq!(http_error("could not parse"), None);
    }

    #[test]
    fn network_failures_have_readable_messages() {
        let worker = "Send message error Transport [rmcp::transport::worker::WorkerTransport<rmcp::\
                      transport::StreamableHttpClientWorker<reqwest::Client>>] error: Client error: \
                      error sending request for url (http://x/y): client error (Connect): dns error: \
                      failed to lookup address information: Name or service not known";
        assert_eq!(plain(worker), "its host name cannot be resolved");
        let other = "Transport [rmcp::transport::worker::Worker] error";
        assert_eq!(plain(other), "the connection failed");
        assert_eq!(plain("a::b: HTTP 500: try later"), "HTTP 500: try later");
    }
}
