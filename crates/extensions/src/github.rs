//! Finds and downloads releases from GitHub repositories.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use parallax_http::{ClientOptions, Redirects, reqwest};
use serde_json::Value;

use crate::MAX_DOWNLOADED;

/// Timeout of an API request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a download.
const DOWNLOAD: Duration = Duration::from_secs(600);
/// Maximum bytes of an API response.
const ANSWER: usize = 8 * 1024 * 1024;
/// API base URL, unless `GITHUB_API_URL` overrides it.
const SERVICE: &str = "https://api.github.com";

/// Network options for GitHub.
pub(crate) struct GithubClient {
    pub(crate) options: ClientOptions,
    /// `GITHUB_TOKEN`.
    pub(crate) token: Option<String>,
    /// `GITHUB_API_URL`.
    pub(crate) service: Option<String>,
}

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) tag: String,
    /// URL of the archive for this platform.
    pub(crate) archive: String,
}

/// The repository and release to look for.
pub(crate) struct ReleaseQuery<'a> {
    pub(crate) owner: &'a str,
    pub(crate) name: &'a str,
    pub(crate) tag: Option<&'a str>,
    pub(crate) pre_release: bool,
}

impl GithubClient {
    fn client(&self) -> Result<reqwest::Client, String> {
        let options = ClientOptions { redirects: Redirects::Any(5), ..self.options.clone() };
        parallax_http::client(&options).map_err(|error| error.to_string())
    }

    /// Returns the requested release, or `None` if there is none. Blocking; must not be called on a
    /// runtime thread.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub(crate) fn release(&self, query: &ReleaseQuery<'_>) -> Result<Option<Release>, String> {
        let service = self.service.as_deref().unwrap_or(SERVICE).trim_end_matches('/');
        let base = format!("{service}/repos/{}/{}/releases", query.owner, query.name);
        let newest = || -> Result<Option<Value>, String> {
            let list = self.ask(&format!("{base}?per_page=20"))?;
            Ok(list.and_then(|list| list.as_array()?.first().cloned()))
        };
        let found = match (query.tag, query.pre_release) {
            (Some(tag), _) => self.ask(&format!("{base}/tags/{tag}"))?,
            (None, true) => newest()?,
            (None, false) => match self.ask(&format!("{base}/latest"))? {
                Some(found) => Some(found),
                None => newest()?,
            },
        };
        let Some(found) = found else { return Ok(None) };
        let tag = found.get("tag_name").and_then(Value::as_str).ok_or("the release has no tag")?;
        let archive = archive_of(&found).ok_or("the release has no archive")?;
        Ok(Some(Release { tag: tag.to_owned(), archive }))
    }

    fn ask(&self, address: &str) -> Result<Option<Value>, String> {
        let client = self.client()?;
        block(async {
            let mut request = client
                .get(address)
                .header("Accept", "application/vnd.github+json")
                .header("X-GitHub-Api-Version", "2022-11-28")
                .timeout(TIMEOUT);
            if let Some(token) = &self.token {
                request = request.bearer_auth(token);
            }
            let failed = |error: reqwest::Error| {
                format!("`{address}`: {}", innermost_cause(&error.without_url()))
            };
            let answer = request.send().await.map_err(failed)?;
            match answer.status().as_u16() {
                404 => return Ok(None),
                200..300 => {}
                401 => return Err(format!("`{address}`: `GITHUB_TOKEN` was rejected")),
                status => return Err(format!("`{address}`: status {status}")),
            }
            let mut bytes = Vec::new();
            let mut pieces = answer.bytes_stream();
            while let Some(piece) = pieces.next().await {
                bytes.extend_from_slice(&piece.map_err(failed)?);
                if bytes.len() > ANSWER {
                    return Err(format!("`{address}`: the response is too long"));
                }
            }
            let value = serde_json::from_slice(&bytes);
            value.map(Some).map_err(|error| format!("`{address}`: {error}"))
        })?
    }

    /// Downloads a file. Blocking; must not be called on a runtime thread.
    ///
    /// # Errors
    /// Returns an error if the download fails.
    pub(crate) fn download(&self, address: &str, file: &Path) -> Result<(), String> {
        let client = self.client()?;
        let is_github_url = ["https://github.com/", "https://api.github.com/"]
            .into_iter()
            .chain(self.service.as_deref())
            .any(|start| address.starts_with(start));
        block(async {
            let mut request =
                client.get(address).header("Accept", "application/octet-stream").timeout(DOWNLOAD);
            if let Some(token) = self.token.as_ref().filter(|_| is_github_url) {
                request = request.bearer_auth(token);
            }
            let failed = |error: reqwest::Error| {
                format!("`{address}`: {}", innermost_cause(&error.without_url()))
            };
            let answer = request.send().await.map_err(failed)?;
            if !answer.status().is_success() {
                return Err(format!("`{address}`: status {}", answer.status().as_u16()));
            }
            let error_text = |error: std::io::Error| format!("`{}`: {error}", file.display());
            let mut out = std::fs::File::create(file).map_err(error_text)?;
            let mut remaining = MAX_DOWNLOADED;
            let mut pieces = answer.bytes_stream();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(failed)?;
                remaining = remaining
                    .checked_sub(piece.len() as u64)
                    .ok_or_else(|| format!("`{address}`: more than {MAX_DOWNLOADED} bytes"))?;
                out.write_all(&piece).map_err(error_text)?;
            }
            out.flush().map_err(error_text)
        })?
    }
}

/// Runs a future to completion on a temporary runtime.
fn block<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| error.to_string())?.block_on(work))
}

/// Returns the innermost cause of an error.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

/// Returns the URL of the best archive of a release for this platform: `<platform>.<arch>.…`, then
/// `<platform>.…`, then the only archive for all platforms, then the sources.
fn archive_of(release: &Value) -> Option<String> {
    let (platform, arch) = parallax_model_http::node_platform();
    let assets = release.get("assets").and_then(Value::as_array);
    let assets: Vec<(&str, &str)> = assets
        .into_iter()
        .flatten()
        .filter_map(|asset| {
            let text = |key: &str| asset.get(key).and_then(Value::as_str);
            // The API URL accepts the token, which private repositories require.
            Some((text("name")?, text("url").or_else(|| text("browser_download_url"))?))
        })
        .filter(|(name, _)| {
            [".tar.gz", ".tgz", ".zip"].iter().any(|end| name.to_ascii_lowercase().ends_with(end))
        })
        .collect();
    let starts = |start: &str| {
        assets.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with(start)).copied()
    };
    let is_generic = |name: &str| {
        !["darwin", "linux", "win32"].iter().any(|it| name.to_ascii_lowercase().contains(it))
    };
    let mut generic = assets.iter().filter(|(name, _)| is_generic(name));
    let only = match (generic.next(), generic.next()) {
        (Some(only), None) => Some(*only),
        _ => None,
    };
    starts(&format!("{platform}.{arch}."))
        .or_else(|| starts(&format!("{platform}.")))
        .or(only)
        .map(|(_, address)| address.to_owned())
        .or_else(|| release.get("tarball_url").and_then(Value::as_str).map(str::to_owned))
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn best_matching_archive_is_chosen() {
        let release = |names: &[&str]| {
            let assets: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "url": name})).collect();
            json!({"tag_name": "v1", "assets": assets, "tarball_url": "sources"})
        };
        for (names, expected) in [
            (&["linux.tar.gz", "linux.x64.my.tar.gz", "darwin.zip"][..], "linux.x64.my.tar.gz"),
            (&["linux.my.zip", "my.tar.gz"], "linux.my.zip"),
            (&["darwin.tar.gz", "my.tar.gz", "notes.txt"], "my.tar.gz"),
            (&["one.tar.gz", "two.tar.gz"], "sources"),
            (&[], "sources"),
        ] {
            assert_eq!(archive_of(&release(names)).as_deref(), Some(expected), "{names:?}");
        }
    }
}
