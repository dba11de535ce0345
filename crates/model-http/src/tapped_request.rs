//! Passes a request on to a viewer, without its secrets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parallax_http::reqwest::Response;
use parallax_http::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use parallax_http::url::Url;
use parallax_protocol::model::{ModelError, Request, Retry};

use crate::client::Transport;
use crate::wire::HttpRequest;
use crate::wire_tap::{SentRequest, WireObservation, WireTap};

/// What is shown in place of a secret.
const REDACTED: &str = "[redacted]";

/// Shorter values are not redacted: they would occur in ordinary text.
const MIN_SECRET: usize = 8;

/// Maximum bytes of a body that are passed on.
const MAX_BODY: usize = 4 << 20;

/// Parts of the names of headers and parameters whose values may be secrets.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "passw", "secret", "signature", "token"];

/// Numbers the requests of a process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// One request for the tap, if there is one.
pub(crate) struct TappedRequest {
    tap: Option<Arc<dyn WireTap>>,
    id: u64,
    sent_requests: u32,
    is_observed: bool,
}

impl TappedRequest {
    pub(crate) fn new(tap: Option<Arc<dyn WireTap>>) -> Self {
        let id = if tap.is_some() { NEXT.fetch_add(1, Ordering::Relaxed) } else { 0 };
        Self { tap, id, sent_requests: 0, is_observed: false }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active().is_some()
    }

    /// Returns the tap if it is active.
    fn active(&self) -> Option<&Arc<dyn WireTap>> {
        self.tap.as_ref().filter(|tap| tap.is_active())
    }

    pub(crate) fn report_request(
        &mut self,
        request: &Request,
        sent: &HttpRequest,
        transport: &Transport,
    ) {
        self.sent_requests += 1;
        let Some(tap) = self.active() else { return };
        let redaction = Redaction::new(&sent.headers, transport);
        let text = String::from_utf8_lossy(&sent.body);
        let mut body = redaction.text(text.into_owned());
        let mut end = body.len().min(MAX_BODY);
        while !body.is_char_boundary(end) {
            end -= 1;
        }
        body.truncate(end);
        let observation = SentRequest {
            request,
            attempt: self.sent_requests,
            url: redaction.url(&sent.url),
            headers: redaction.headers(&sent.headers),
            body,
            body_bytes: sent.body.len(),
        };
        tap.observe(self.id, WireObservation::Sent(observation));
        self.is_observed = true;
    }

    /// `request`: the headers of the request.
    pub(crate) fn report_response(
        &self,
        response: &Response,
        request: &HeaderMap,
        transport: &Transport,
    ) {
        let Some(tap) = self.active() else { return };
        let headers = Redaction::new(request, transport).headers(response.headers());
        let status = response.status().as_u16();
        tap.observe(self.id, WireObservation::Responded { status, headers });
    }

    /// Returns a counter for the bytes of the response.
    pub(crate) fn chunks(&self) -> TappedChunks {
        TappedChunks { tap: self.tap.clone(), id: self.id }
    }

    pub(crate) fn retry(&self, retry: &Retry) {
        if let Some(tap) = self.active() {
            tap.observe(self.id, WireObservation::Retry(retry));
        }
    }

    /// Reports the end, once.
    pub(crate) fn report_end(&mut self, error: Option<&ModelError>, transport: &Transport) {
        if !std::mem::take(&mut self.is_observed) {
            return;
        }
        let Some(tap) = self.active() else { return };
        let error = error.map(|error| transport.redact(error.to_string()));
        tap.observe(self.id, WireObservation::Ended { error });
    }
}

/// The bytes of a response for the tap, if there is one.
pub(crate) struct TappedChunks {
    tap: Option<Arc<dyn WireTap>>,
    id: u64,
}

impl TappedChunks {
    pub(crate) fn record_bytes(&self, bytes: usize) {
        if let Some(tap) = self.tap.as_ref().filter(|tap| tap.is_active()) {
            tap.observe(self.id, WireObservation::Chunk { bytes });
        }
    }
}

/// The secrets that must not be passed on.
struct Redaction<'a> {
    transport: &'a Transport,
    /// Values of sensitive headers, which may occur elsewhere too.
    values: Vec<String>,
}

impl<'a> Redaction<'a> {
    fn new(request: &HeaderMap, transport: &'a Transport) -> Self {
        let sensitive = request.iter().filter(|(name, value)| is_secret(name, value));
        let mut values = Vec::new();
        for text in sensitive.filter_map(|(_, value)| value.to_str().ok()) {
            let text = text.split_once(' ').map_or(text, |(_, credentials)| credentials).trim();
            if text.len() >= MIN_SECRET {
                values.push(text.to_owned());
            }
        }
        Self { transport, values }
    }

    fn text(&self, text: String) -> String {
        let mut text = self.transport.redact(text);
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), REDACTED);
            }
        }
        text
    }

    fn url(&self, url: &Url) -> String {
        let mut url = url.clone();
        // Neither fails for an address with a host.
        let _ = url.set_password(None);
        let _ = url.set_username("");
        if url.query().is_some() {
            let pairs: Vec<(String, String)> = url
                .query_pairs()
                .map(|(name, value)| match is_secret_name(&name) {
                    true => (name.into_owned(), REDACTED.to_owned()),
                    false => (name.into_owned(), value.into_owned()),
                })
                .collect();
            url.query_pairs_mut().clear().extend_pairs(pairs);
        }
        self.text(url.to_string())
    }

    fn headers(&self, headers: &HeaderMap) -> BTreeMap<String, String> {
        let mut shown = BTreeMap::new();
        for (name, value) in headers {
            let text = match is_secret(name, value) {
                true => REDACTED.to_owned(),
                false => self.text(String::from_utf8_lossy(value.as_bytes()).into_owned()),
            };
            shown
                .entry(name.to_string())
                .and_modify(|earlier: &mut String| {
                    earlier.push_str(", ");
                    earlier.push_str(&text);
                })
                .or_insert(text);
        }
        shown
    }
}

fn is_secret(name: &HeaderName, value: &HeaderValue) -> bool {
    value.is_sensitive() || is_secret_name(name.as_str())
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Limits are counted in tokens.
    !name.contains("ratelimit") && SECRET_NAMES.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::TransportOptions;
    use parallax_protocol::secret::Secret;

    const KEY: &str = "AIzaSyD-real-looking-key-0123456789";

    fn transport() -> Transport {
        let options =
            TransportOptions { secrets: vec![Secret::new(KEY)], ..TransportOptions::default() };
        Transport::new(options, &Url::parse("https://a.example").expect("url"))
    }

    #[test]
    fn secrets_are_redacted_everywhere() {
        let mut headers = HeaderMap::new();
        let mut insert = |name: &'static str, value: &str, is_sensitive: bool| {
            let mut value: HeaderValue = value.parse().expect("value");
            value.set_sensitive(is_sensitive);
            headers.append(name, value);
        };
        insert("x-goog-api-key", KEY, false);
        insert("api-key", KEY, false);
        insert("authorization", "Bearer ya29.fetched-token", false);
        insert("cookie", "session=1", false);
        insert("set-cookie", "session=2", false);
        insert("x-team", "configured-value", true);
        insert("x-trace", &format!("of {KEY}"), false);
        insert("content-type", "application/json", false);
        let transport = transport();
        let redaction = Redaction::new(&headers, &transport);
        let shown = redaction.headers(&headers);
        for name in ["x-goog-api-key", "api-key", "authorization", "cookie", "set-cookie", "x-team"]
        {
            assert_eq!(shown[name], REDACTED, "{name}");
        }
        assert_eq!(shown["content-type"], "application/json");
        assert_eq!(shown["x-trace"], "of [secret]");
        let body =
            format!("{{\"a\":\"{KEY}\",\"b\":\"ya29.fetched-token\",\"c\":\"configured-value\"}}");
        assert_eq!(redaction.text(body), r#"{"a":"[secret]","b":"[redacted]","c":"[redacted]"}"#);
        let url = format!("https://me:{KEY}@a.example/{KEY}/x?key={KEY}&alt=sse&q={KEY}");
        let url = redaction.url(&Url::parse(&url).expect("url"));
        assert!(!url.contains(KEY) && !url.contains("me:") && url.contains("alt=sse"), "{url}");
    }
}
