//! Probes how a server responds to an unauthenticated client.

use std::time::Duration;

use parallax_http::reqwest::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use parallax_http::reqwest::{Client, RequestBuilder, Response, StatusCode};
use parallax_http::{ClientOptions, client};
use serde_json::json;
use url::Url;

/// Timeout: servers reject unauthenticated requests immediately.
const TIMEOUT: Duration = Duration::from_secs(5);
const STREAM: &str = "text/event-stream";
const PROTOCOL: &str = "2025-06-18";

/// The response of a server to an unauthenticated client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnauthenticatedResponse {
    /// It rejects the client and states where to sign in.
    Refusal(String),
    /// It opens a stream that may never end.
    Stream {
        /// Scheme, host, and port of the server.
        root: String,
    },
    /// Anything else.
    Other,
}

/// Probes the server. Only the response headers are read.
pub(crate) async fn probe(url: &str, http: &ClientOptions) -> UnauthenticatedResponse {
    let options = ClientOptions { connect_timeout: TIMEOUT, ..http.clone() };
    let (Ok(client), Ok(url)) = (client(&options), url.parse::<Url>()) else {
        return UnauthenticatedResponse::Other;
    };
    let Some(first) = send_with_timeout(client.get(url.clone())).await else {
        return UnauthenticatedResponse::Other;
    };
    if let Some(challenge) = challenge(&first) {
        return UnauthenticatedResponse::Refusal(challenge);
    }
    if !first.status().is_success() || !streams(&first) {
        return UnauthenticatedResponse::Other;
    }
    drop(first);
    // The stream is open to everyone, but requests may not be.
    if let Some(challenge) =
        send_with_timeout(initialize_request(&client, &url)).await.as_ref().and_then(challenge)
    {
        return UnauthenticatedResponse::Refusal(challenge);
    }
    let document = "/.well-known/oauth-protected-resource";
    for path in [url.path().trim_end_matches('/'), ""] {
        let mut document_url = url.clone();
        document_url.set_path(&format!("{document}{path}"));
        document_url.set_query(None);
        let found = send_with_timeout(client.get(document_url.clone())).await;
        if found.is_some_and(|found| found.status() == StatusCode::OK && !streams(&found)) {
            return UnauthenticatedResponse::Refusal(format!(
                "Bearer resource_metadata=\"{document_url}\""
            ));
        }
    }
    UnauthenticatedResponse::Stream { root: url.origin().ascii_serialization() }
}

async fn send_with_timeout(request: RequestBuilder) -> Option<Response> {
    tokio::time::timeout(TIMEOUT, request.send()).await.ok()?.ok()
}

/// Builds the initialize request.
fn initialize_request(client: &Client, url: &Url) -> RequestBuilder {
    let params = json!({
        "protocolVersion": PROTOCOL, "capabilities": {},
        "clientInfo": {"name": "parallax", "version": "0"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let accepted = format!("application/json, {STREAM}");
    client
        .post(url.clone())
        .header(ACCEPT, accepted)
        .header(CONTENT_TYPE, "application/json")
        .body(body.to_string())
}

/// Returns the challenge of a rejection that states where to sign in.
fn challenge(answer: &Response) -> Option<String> {
    if answer.status() != StatusCode::UNAUTHORIZED {
        return None;
    }
    let challenges =
        answer.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok());
    let mut challenges =
        challenges.filter(|it| it.to_ascii_lowercase().contains("resource_metadata="));
    challenges.next().map(str::to_owned)
}

fn streams(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with(STREAM))
}
