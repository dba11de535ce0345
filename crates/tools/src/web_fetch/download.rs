//! Downloads one page with a size limit, a deadline, and retries where they may help.

use std::time::Duration;

use encoding_rs::{Encoding, UTF_8};
use parallax_http::reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use parallax_http::reqwest::{Method, Response, StatusCode};
use parallax_http::url::Url;
use parallax_http::{GuardedClient, blocked_address_error};

/// Maximum size of a body in bytes.
pub(super) const MAX_BODY: usize = 10 * 1024 * 1024;
/// Time limit of one attempt.
const DEADLINE: Duration = Duration::from_secs(10);
/// Delays before the second and the third attempt.
const BACKOFF: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1_200)];

/// A response with any status.
#[derive(Debug)]
pub(super) struct DownloadedPage {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The final URL after redirects.
    pub(super) url: Url,
    pub(super) body: Vec<u8>,
}

/// Why there is no response, and whether a retry may help.
#[derive(Debug)]
struct DownloadFailure {
    message: String,
    is_transient: bool,
}

/// Downloads `url`. Server errors and broken connections are retried.
///
/// # Errors
/// Returns a one-line description without the URL.
pub(super) async fn get(
    client: &GuardedClient,
    url: &Url,
    accept: &str,
) -> Result<DownloadedPage, String> {
    let mut waits = BACKOFF.into_iter();
    loop {
        let attempt = tokio::time::timeout(DEADLINE, download_once(client, url, accept)).await;
        let result = attempt.unwrap_or_else(|_| {
            Err(DownloadFailure {
                message: format!("no complete response within {} s", DEADLINE.as_secs()),
                is_transient: false,
            })
        });
        let passing = match &result {
            Ok(page) => {
                page.status.is_server_error() || page.status == StatusCode::TOO_MANY_REQUESTS
            }
            Err(failure) => failure.is_transient,
        };
        match waits.next() {
            Some(wait) if passing => tokio::time::sleep(wait).await,
            _ => return result.map_err(|failure| failure.message),
        }
    }
}

async fn download_once(
    client: &GuardedClient,
    url: &Url,
    accept: &str,
) -> Result<DownloadedPage, DownloadFailure> {
    let request = client
        .request(Method::GET, url)
        .map_err(|refused| DownloadFailure { message: refused.to_string(), is_transient: false })?;
    let accept = HeaderValue::from_str(accept).unwrap_or(HeaderValue::from_static("*/*"));
    let mut response =
        request.header(ACCEPT, accept).send().await.map_err(
            |error| match blocked_address_error(&error) {
                Some(refused) => {
                    DownloadFailure { message: refused.to_string(), is_transient: false }
                }
                None => failure(error),
            },
        )?;
    let body = read(&mut response).await?;
    Ok(DownloadedPage {
        status: response.status(),
        url: response.url().clone(),
        headers: std::mem::take(response.headers_mut()),
        body,
    })
}

async fn read(response: &mut Response) -> Result<Vec<u8>, DownloadFailure> {
    let too_large = || DownloadFailure {
        message: format!("the page is larger than {} MB", MAX_BODY / 1024 / 1024),
        is_transient: false,
    };
    if response.content_length().is_some_and(|length| length > MAX_BODY as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failure)? {
        if body.len() + piece.len() > MAX_BODY {
            return Err(too_large());
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Uses the innermost cause; the caller adds the URL.
fn failure(error: parallax_http::reqwest::Error) -> DownloadFailure {
    let is_transient = !error.is_redirect() && !error.is_builder();
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    DownloadFailure { message: cause.to_string(), is_transient }
}

impl DownloadedPage {
    /// Returns the lowercase MIME type without parameters; empty if none was sent.
    pub(super) fn mime(&self) -> String {
        let full = self.content_type().split(';').next().unwrap_or("");
        full.trim().to_ascii_lowercase()
    }

    fn content_type(&self) -> &str {
        self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// Whether it is HTML, by its MIME type or because none was sent.
    pub(super) fn is_html(&self) -> bool {
        matches!(self.mime().as_str(), "" | "text/html" | "application/xhtml+xml")
    }

    /// Whether the body is binary.
    pub(super) fn is_binary(&self) -> bool {
        let mime = self.mime();
        let texts =
            ["json", "xml", "javascript", "yaml", "toml", "x-sh", "csv", "x-www-form-urlencoded"];
        let named_text = mime.is_empty()
            || mime.starts_with("text/")
            || texts.iter().any(|text| mime.contains(text));
        !named_text && self.body.iter().take(8_192).any(|byte| *byte == 0)
            || ["image/", "audio/", "video/", "font/", "application/pdf", "application/zip"]
                .iter()
                .any(|kind| mime.starts_with(kind) && mime != "image/svg+xml")
    }

    /// Returns the body as text, in the encoding named by the header, a byte order mark, or the
    /// page itself.
    pub(super) fn text(&self) -> String {
        let named = label(self.content_type()).or_else(|| {
            let head = self.body.get(..self.body.len().min(1_024)).unwrap_or(&[]);
            self.is_html().then(|| label(&String::from_utf8_lossy(head))).flatten()
        });
        let (text, _, _) = named.unwrap_or(UTF_8).decode(&self.body);
        text.into_owned()
    }
}

/// Returns the encoding after the first `charset=` of a header or a `<meta>`.
fn label(text: &str) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let (_, after) = lower.split_once("charset=")?;
    let name = after.trim_start_matches(['"', '\'', ' ']);
    let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_:.".contains(letter));
    Encoding::for_label(name.get(..end.unwrap_or(name.len()))?.as_bytes())
}
