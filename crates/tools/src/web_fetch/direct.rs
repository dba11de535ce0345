//! Direct mode: downloads one page and returns it, without a model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parallax_http::url::Url;
use parallax_protocol::content::Part;
use parallax_protocol::media::{HEAD, has_signature, media_type_of};
use parallax_protocol::tool::{Display, ToolError, ToolErrorKind, ToolResult};

use super::download::DownloadedPage;
use super::{FetchState, MAX_TEXT, download, filter_allowed, limits, urls};
use parallax_protocol::untrusted;

const ACCEPT: &str = "text/markdown,text/plain;q=0.9,application/json;q=0.9,text/html;q=0.8,\
    application/pdf;q=0.7,video/*;q=0.7,*/*;q=0.5";
/// Maximum number of characters of the body of an error page.
const MAX_ERROR_TEXT: usize = 10_000;
/// Maximum number of characters of the headers of an error page.
const MAX_HEADERS: usize = 4_000;

pub(super) async fn run(shared: &FetchState, requested: &[Url]) -> Result<ToolResult, ToolError> {
    let failure = |message| ToolError::new(ToolErrorKind::WebFetchProcessingError, message);
    let (admitted, skipped) = filter_allowed(shared, requested).await;
    let Some(url) = admitted.first() else {
        return Err(failure(format!("The URL was skipped:\n{}", skipped.join("\n"))));
    };
    let page = download::get(shared.client()?, &urls::raw_file_url(url), ACCEPT)
        .await
        .map_err(|message| failure(format!("Failed to fetch {url}: {message}")))?;
    let status = page.status;
    if status.is_client_error() || status.is_server_error() {
        let head = limits::truncate(&head(&page), MAX_HEADERS);
        let body = shared.page_text(page, true).await.unwrap_or_default();
        let text = format!(
            "Request failed with status {status}\n{head}\n{}",
            limits::truncate(&body, MAX_ERROR_TEXT)
        );
        return Ok(ToolResult::text(untrusted::wrap(&text))
            .with_display(Display::text(format!("{url} returned status {status}"))));
    }
    let (mime, size) = (page.mime(), page.body.len());
    let summary = Display::text(format!("Read {size} bytes from {url}"));
    let found = media_type_of(page.body.get(..HEAD).unwrap_or(&page.body));
    let is_media = mime != "image/svg+xml"
        && (has_signature(&mime) || ["video/", "audio/"].iter().any(|kind| mime.starts_with(kind)));
    if is_media && (found.is_some() || !has_signature(&mime)) {
        // The content decides, not the declared type.
        let mime = found.map_or(mime, str::to_owned);
        let mut outcome =
            ToolResult::text(format!("{mime}, {size} bytes from {url}")).with_display(summary);
        outcome.for_model.media.push(Part::inline_data(mime, STANDARD.encode(&page.body)));
        return Ok(outcome);
    }
    let text = shared
        .page_text(page, true)
        .await
        .ok_or_else(|| failure(format!("{url} is not text but `{mime}` ({size} bytes)")))?;
    Ok(ToolResult::text(untrusted::wrap(&limits::truncate(&text, MAX_TEXT))).with_display(summary))
}

fn head(page: &DownloadedPage) -> String {
    let line = |(name, value): (&_, &parallax_http::reqwest::header::HeaderValue)| {
        format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()))
    };
    page.headers.iter().map(line).collect()
}
