//! Describes failed connections and requests for the user.

use parallax_http::error_chain;
use parallax_http::reqwest;
use rmcp::model::{InitializeResult, ServerResult};
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::error::McpError;
use crate::media::media_type;
use crate::messages::UNREADABLE;

/// Describes why a server did not initialize.
pub(crate) fn initialization_error(error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::SignIn { is_renewal: false };
    }
    let reason = error_chain(error);
    match renewal_failed(error) {
        // The token service could not be reached.
        Some(failed) if failed.starts_with("Request failed") => {
            let reason =
                "its sign-in could not be renewed: the authorization server did not respond";
            return McpError::Start { reason: reason.to_owned() };
        }
        Some(_) => return McpError::SignIn { is_renewal: true },
        None => {}
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Lost,
        ClientInitializeError::JsonRpcError(error) if error.code.0 == UNREADABLE => {
            McpError::Protocol { message: error.message.to_string() }
        }
        ClientInitializeError::ExpectedInitResult(result) => McpError::Protocol {
            message: format!(
                "its response to `initialize` is invalid: {}",
                wrong_result(result.as_ref())
            ),
        },
        ClientInitializeError::ExpectedInitResponse(_) => McpError::Protocol {
            message: "it sent another message instead of the `initialize` response".to_owned(),
        },
        ClientInitializeError::ConflictInitResponseId(..) => McpError::Protocol {
            message: "its response to `initialize` has a different id".to_owned(),
        },
        _ if reason.contains("401") => McpError::SignIn { is_renewal: false },
        _ => McpError::Start { reason: describe_network_error(&cause(error)) },
    }
}

/// Describes what is wrong with the result of `initialize`. Its id is the right one.
fn wrong_result(result: Option<&ServerResult>) -> String {
    let value = result.and_then(|result| serde_json::to_value(result).ok()).unwrap_or_default();
    match serde_json::from_value::<InitializeResult>(value) {
        Err(error) => error.to_string(),
        Ok(_) => "it is the result of another request".to_owned(),
    }
}

/// Returns the underlying network error, which the library does not expose as a source.
fn cause(error: &ClientInitializeError) -> String {
    match streamable_http_error(error) {
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
    match streamable_http_error(error) {
        Some(StreamableHttpError::Auth(AuthError::TokenRefreshFailed(reason))) => Some(reason),
        _ => None,
    }
}

fn streamable_http_error(
    error: &ClientInitializeError,
) -> Option<&StreamableHttpError<reqwest::Error>> {
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
        Some(StreamableHttpError::Auth(AuthError::TokenRefreshFailed(reason))) => {
            // Otherwise the token service could not be reached.
            !reason.starts_with("Request failed")
        }
        Some(StreamableHttpError::Auth(AuthError::AuthorizationRequired)) => true,
        _ => false,
    }
}

/// Describes why a request failed before the server answered it.
pub(crate) fn send_error(error: &DynamicTransportError) -> String {
    match innermost(error.error.as_ref()) {
        Some(StreamableHttpError::Client(client)) => describe_network_error(&error_chain(client)),
        Some(StreamableHttpError::UnexpectedContentType(kind)) => no_message(kind.as_deref()),
        // The library does not read the body of such responses.
        Some(StreamableHttpError::HttpStatus(error)) => http_status(error.status),
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
            http_error(text).unwrap_or_else(|| describe_network_error(&error_chain(error)))
        }
        Some(StreamableHttpError::InsufficientScope(error)) => {
            let missing_scope = match &error.required_scope {
                Some(scope) => format!("the scope `{scope}`"),
                None => "another scope".to_owned(),
            };
            format!(
                "your sign-in lacks permissions. It requires {missing_scope}: add it to `oauth.scopes` of \
                 the server and sign in again"
            )
        }
        _ => describe_network_error(&error_chain(error)),
    }
}

/// Whether a failed request was rejected by the server, so that retrying is useless.
pub(crate) fn is_rejection(error: &DynamicTransportError) -> bool {
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

fn http_status(status: u16) -> String {
    let code = reqwest::StatusCode::from_u16(status);
    let reason = code.ok().and_then(|code| code.canonical_reason()).unwrap_or_default();
    format!("HTTP {status} {reason}").trim_end().to_owned()
}

/// Extracts the message from an HTTP error: the message of a JSON body, otherwise its first line.
/// Web pages are ignored.
fn http_error(text: &str) -> Option<String> {
    const MAX_LENGTH: usize = 300;
    let (status, body) = text.split_once(": ").filter(|(status, _)| status.starts_with("HTTP "))?;
    // Some servers send their errors as events.
    let event = body.lines().find_map(|line| line.trim().strip_prefix("data:"));
    let body = event.unwrap_or(body).trim();
    let json = serde_json::from_str::<serde_json::Value>(body).ok();
    let message = json.as_ref().and_then(|json| {
        let pointers = ["/error/message", "/message", "/error_description", "/error", "/detail"];
        pointers.iter().find_map(|pointer| json.pointer(pointer)?.as_str())
    });
    let words = message.unwrap_or(body);
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.is_empty() || message.is_none() && line.starts_with('<') {
        return Some(status.to_owned());
    }
    let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_LENGTH).collect();
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

/// Describes a network error for the user: known causes in plain words, otherwise the library's
/// message without type names.
pub(crate) fn describe_network_error(reason: &str) -> String {
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
    let lower = reason.to_lowercase();
    if let Some((_, words)) = known.iter().find(|(mark, _)| lower.contains(mark)) {
        return (*words).to_owned();
    }
    let pieces = reason.split(": ").filter(|piece| !piece.contains("::"));
    let words = pieces.collect::<Vec<_>>().join(": ");
    let words = if words.trim().is_empty() { "the connection failed" } else { words.trim() };
    words.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::{describe_network_error, http_error, http_status};

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
        let event =
            "HTTP 400 Bad Request: event: message\ndata: {\"error\":{\"message\":\"no\"}}\n\n";
        assert_eq!(http_error(event).as_deref(), Some("HTTP 400 Bad Request: no"));
        let page = "HTTP 404 Not Found: <!doctype html><p>gone";
        assert_eq!(http_error(page).as_deref(), Some("HTTP 404 Not Found"));
        let long = format!("HTTP 400 Bad Request: {}", "x".repeat(10_000));
        assert!(http_error(&long).is_some_and(|text| text.len() < 400));
        assert_eq!(http_error("could not parse"), None);
        assert_eq!(http_status(429), "HTTP 429 Too Many Requests");
        assert_eq!(http_status(599), "HTTP 599");
    }

    #[test]
    fn network_failures_have_readable_messages() {
        let worker = "Send message error Transport [rmcp::transport::worker::WorkerTransport<rmcp::\
                      transport::StreamableHttpClientWorker<reqwest::Client>>] error: Client error: \
                      error sending request for url (http://x/y): client error (Connect): dns error: \
                      failed to lookup address information: Name or service not known";
        assert_eq!(describe_network_error(worker), "its host name cannot be resolved");
        let other = "Transport [rmcp::transport::worker::Worker] error";
        assert_eq!(describe_network_error(other), "the connection failed");
        assert_eq!(describe_network_error("a::b: HTTP 500: try later"), "HTTP 500: try later");
    }
}
