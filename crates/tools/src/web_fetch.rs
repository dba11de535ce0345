//! `web_fetch`: reads public web pages.
//!
//! In standard mode, the provider's service reads the pages and follows the instruction; pages that
//! it cannot read are downloaded here and passed to a second model call. In direct mode, one page
//! is downloaded and its text is returned without a model.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use parallax_http::url::Url;
use parallax_http::{ClientOptions, GuardedClient, Redirects, guarded_client};
use parallax_protocol::model::Model;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, Preview, RunContext, Tool,
    ToolError, ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::MainModel;
use crate::arguments::Arguments;
use crate::failure::invalid_params;

mod direct;
mod download;
pub(crate) mod html;
mod limits;
mod standard;
mod urls;

/// Maximum number of characters of a result, all pages together.
const MAX_TEXT: usize = 250_000;
/// Maximum number of parallel downloads of one call.
const PARALLEL: usize = 6;
/// Maximum number of characters of a prompt.
const MAX_PROMPT: usize = 100_000;

/// The options of the tool.
#[derive(Debug, Clone)]
pub struct WebFetchOptions {
    /// Proxies, root certificates, and user agent. The tool sets `redirects`.
    pub client: ClientOptions,
    /// Non-public addresses that may be accessed. Empty, unless the user granted some.
    pub allowed: Vec<IpAddr>,
    /// Whether to offer direct mode (`url`) instead of standard mode (`prompt`): for providers
    /// without a page reader, or if the user prefers it.
    pub direct: bool,
}

/// The tool.
pub struct WebFetch {
    spec: ToolSpec,
    shared: Arc<FetchState>,
}

/// State shared by the calls of a session.
struct FetchState {
    model: Arc<dyn Model>,
    main: MainModel,
    options: WebFetchOptions,
    client: OnceLock<Result<GuardedClient, String>>,
    rate: limits::RateLimit,
    /// Limits parsing to one page at a time, because it takes memory and a core.
    parsing: Semaphore,
}

impl FetchState {
    /// Returns the client, which is built on the first call.
    fn client(&self) -> Result<&GuardedClient, ToolError> {
        let built = self.client.get_or_init(|| {
            let options =
                ClientOptions { redirects: Redirects::Any(10), ..self.options.client.clone() };
            guarded_client(&options, &self.options.allowed).map_err(|error| error.to_string())
        });
        built.as_ref().map_err(|message| {
            ToolError::new(ToolErrorKind::WebFetchProcessingError, message.clone())
        })
    }

    /// Returns the text of a downloaded page; `None` if it is not text.
    async fn page_text(&self, page: download::DownloadedPage, keep_links: bool) -> Option<String> {
        if page.is_binary() {
            return None;
        }
        if !page.is_html() {
            return Some(page.text());
        }
        let _permit = self.parsing.acquire().await.ok()?;
        let parse = move || html::to_text(&page.text(), keep_links.then_some(&page.url));
        tokio::task::spawn_blocking(parse).await.ok()
    }
}

impl WebFetch {
    /// Creates the tool. `main` returns the session's main model at the time of a call.
    pub fn new(model: Arc<dyn Model>, main: MainModel, options: WebFetchOptions) -> Self {
        let (property, description) = if options.direct {
            ("url", include_str!("web_fetch/direct.md"))
        } else {
            ("prompt", include_str!("web_fetch/description.md"))
        };
        let spec = ToolSpec {
            name: "web_fetch".into(),
            display_name: "WebFetch".into(),
            description: description.trim_end().into(),
            parameters: json!({
                "type": "object",
                "properties": {property: {"type": "string"}},
                "required": [property]
            }),
            kind: ToolKind::Fetch,
            concurrency: Concurrency::Shared,
            aliases: vec!["WebFetchTool".into()],
        };
        let shared = FetchState {
            model,
            main,
            options,
            client: OnceLock::new(),
            rate: limits::RateLimit::default(),
            parsing: Semaphore::new(1),
        };
        Self { spec, shared: Arc::new(shared) }
    }
}

impl Tool for WebFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let direct = self.shared.options.direct;
        let name = if direct { "url" } else { "prompt" };
        let text = args.text(name).trim();
        if text.is_empty() {
            return Err(invalid_params(format!("The `{name}` parameter must not be empty")));
        }
        if text.chars().nth(MAX_PROMPT).is_some() {
            return Err(invalid_params(format!(
                "The `{name}` parameter is longer than {MAX_PROMPT} characters"
            )));
        }
        let urls = if direct { urls::parse(text).map(|url| vec![url]) } else { urls::find(text) };
        let urls = urls.map_err(invalid_params)?;
        let mut hosts: Vec<String> = Vec::new();
        for url in &urls {
            for url in [url.clone(), urls::raw_file_url(url)] {
                let host = url.host_str().unwrap_or("").to_owned();
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
        Ok(Box::new(WebFetchCall {
            shared: Arc::clone(&self.shared),
            prompt: text.to_owned(),
            urls,
            effects: Effects { hosts, ..Effects::default() },
        }))
    }
}

struct WebFetchCall {
    shared: Arc<FetchState>,
    prompt: String,
    urls: Vec<Url>,
    effects: Effects,
}

impl Invocation for WebFetchCall {
    fn title(&self) -> String {
        match self.urls.as_slice() {
            [url] => format!("Fetch {url}"),
            urls => format!("Fetch {} pages", urls.len()),
        }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        let urls = self.urls.iter().map(|url| urls::raw_file_url(url).into()).collect();
        Some(Preview::Urls { prompt: self.prompt.clone(), urls })
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let cancel = run.cancel.clone();
            let work = async {
                if self.shared.options.direct {
                    direct::run(&self.shared, &self.urls).await
                } else {
                    standard::run(&self.shared, &self.prompt, &self.urls, &run.cancel).await
                }
            };
            // Dropping the future closes its connections.
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return ToolResult::text("Web fetch was cancelled.")
                        .with_display(Display::text("Fetch cancelled."));
                }
                result = work => result,
            };
            result.unwrap_or_else(ToolResult::failure)
        })
    }
}

/// Returns the URLs that may be fetched, and an error line for each of the others.
async fn filter_allowed(shared: &FetchState, urls: &[Url]) -> (Vec<Url>, Vec<String>) {
    let checks = urls.iter().map(|url| is_reachable(shared, url));
    let reachable = futures_util::future::join_all(checks).await;
    let (mut admitted, mut skipped) = (Vec::new(), Vec::new());
    for (url, reachable) in urls.iter().zip(reachable) {
        if !reachable {
            skipped.push(format!("[Blocked Host] {url}"));
        } else if !shared.rate.try_acquire(url.host_str().unwrap_or(""), std::time::Instant::now())
        {
            skipped.push(format!("[Rate limit exceeded] {url}"));
        } else {
            admitted.push(url.clone());
        }
    }
    (admitted, skipped)
}

/// Whether a URL is public, as far as this can be determined: behind a proxy, only the proxy can
/// resolve names.
async fn is_reachable(shared: &FetchState, url: &Url) -> bool {
    use parallax_http::address::{check_url, is_public};
    let allowed = &shared.options.allowed;
    if check_url(url, allowed).is_err() {
        return false;
    }
    let (Some(host), Some(port)) = (url.domain(), url.port_or_known_default()) else {
        return true;
    };
    if uses_proxy(&shared.options.client) {
        return true;
    }
    let lookup = tokio::net::lookup_host((host, port));
    match tokio::time::timeout(std::time::Duration::from_secs(5), lookup).await {
        Ok(Ok(mut found)) => found.all(|at| is_public(at.ip()) || allowed.contains(&at.ip())),
        Ok(Err(_)) | Err(_) => false,
    }
}

fn uses_proxy(options: &ClientOptions) -> bool {
    let named = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    options.proxy.is_some()
        || options.system_proxy
            && ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
                .iter()
                .any(named)
}

/// Escapes text inside our own XML elements.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
