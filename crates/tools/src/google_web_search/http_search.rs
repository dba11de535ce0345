//! A configured search service over HTTP (`tools.webSearch`), for models whose
//! provider has no search: SearXNG, Brave, Tavily, Google's Custom Search, or a
//! private service.

use std::sync::OnceLock;
use std::time::Duration;

use parallax_http::reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use parallax_http::reqwest::{Client, Response};
use parallax_http::url::{Url, form_urlencoded};
use parallax_http::{ClientOptions, Redirects, client, error_chain};
use parallax_protocol::secret::Secret;
use serde_json::Value;

use crate::web_fetch::html;

/// The placeholder of the query in the URL and in the strings of the body.
const QUERY: &str = "{query}";
/// Time limit of a search.
const DEADLINE: Duration = Duration::from_secs(20);
/// Maximum size of an answer in bytes.
const MAX_BODY: usize = 4 * 1024 * 1024;
/// Maximum number of results for the model.
const MAX_RESULTS: usize = 10;
/// Maximum number of characters of a result's text.
const MAX_SNIPPET: usize = 2_000;
/// Maximum number of characters of an answer without results that are recognized.
const MAX_TEXT: usize = 20_000;
/// Maximum number of characters of an error from the service.
const MAX_ERROR: usize = 300;
/// Maximum depth at which a list of results is searched for.
const MAX_DEPTH: usize = 6;

/// Shorter secrets are not redacted: they would occur in ordinary text.
const MIN_SECRET: usize = 8;

/// A configured search service.
pub struct HttpSearch {
    url: String,
    headers: HeaderMap,
    body: Option<Value>,
    options: ClientOptions,
    client: OnceLock<Result<Client, String>>,
    secrets: Vec<Secret>,
}

impl HttpSearch {
    /// Creates the service. `{query}` is replaced by the query in `url`, where it is percent-encoded,
    /// and in the strings of `body`, which is sent as JSON by POST.
    ///
    /// # Errors
    /// Returns what is wrong with the settings, with the key.
    pub fn new(
        url: &str,
        headers: &[(String, String)],
        body: Option<Value>,
        options: ClientOptions,
    ) -> Result<Self, String> {
        let with_query = with_query(url, "x");
        match Url::parse(&with_query) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {}
            _ => return Err(format!("`tools.webSearch.url` is not an HTTP address: `{url}`")),
        }
        let in_body = body.as_ref().is_some_and(|body| body.to_string().contains(QUERY));
        if with_query == url && !in_body {
            return Err(format!(
                "neither `tools.webSearch.url` nor `tools.webSearch.body` contains `{QUERY}`, \
                 which is replaced by the query"
            ));
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let pair = (name.parse::<HeaderName>(), HeaderValue::from_str(value));
            let (Ok(name), Ok(mut value)) = pair else {
                return Err(format!("`tools.webSearch.headers.{name}` is not an HTTP header"));
            };
            value.set_sensitive(true);
            map.insert(name, value);
        }
        let options =
            ClientOptions { redirects: Redirects::SameHost(5), timeout: Some(DEADLINE), ..options };
        Ok(Self {
            url: url.to_owned(),
            headers: map,
            body,
            options,
            client: OnceLock::new(),
            secrets: Vec::new(),
        })
    }

    /// Removes secrets, such as those in the headers, from what the service answers.
    #[must_use]
    pub fn with_redacted_secrets(mut self, mut secrets: Vec<Secret>) -> Self {
        secrets.retain(|secret| secret.expose().len() >= MIN_SECRET);
        self.secrets = secrets;
        self
    }

    /// Searches. Returns the numbered results and their number.
    ///
    /// # Errors
    /// Returns a one-line description that names the host.
    pub(super) async fn search(&self, query: &str) -> Result<(String, usize), String> {
        let client =
            self.client.get_or_init(|| client(&self.options).map_err(|error| error.to_string()));
        let client = client.as_ref().map_err(Clone::clone)?;
        let url = Url::parse(&with_query(&self.url, query)).map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let request = match &self.body {
            Some(body) => client
                .post(url)
                .header(CONTENT_TYPE, "application/json")
                .body(substitute_query(body, query).to_string()),
            None => client.get(url),
        };
        let request = request.header(ACCEPT, "application/json, text/html;q=0.8");
        let sent = request.headers(self.headers.clone()).send().await;
        let mut response = sent.map_err(|error| format!("{host}: {}", describe_error(error)))?;
        let status = response.status();
        let bytes = read(&mut response).await.map_err(|reason| format!("{host}: {reason}"))?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        for secret in &self.secrets {
            if text.contains(secret.expose()) {
                text = text.replace(secret.expose(), "[secret]");
            }
        }
        if !status.is_success() {
            let text: String = one_line(&text).chars().take(MAX_ERROR).collect();
            return Err(format!("{host} answered {status}: {text}"));
        }
        let read = tokio::task::spawn_blocking(move || readable_text(&text));
        read.await.map_err(|error| error.to_string())
    }
}

fn describe_error(error: parallax_http::reqwest::Error) -> String {
    // The URL may contain a key.
    error_chain(&error.without_url())
}

async fn read(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(describe_error)? {
        if body.len() + piece.len() > MAX_BODY {
            return Err(format!("the response is larger than {} MB", MAX_BODY / 1024 / 1024));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Returns text in one line, without the tags by which services mark the words of the query.
fn one_line(text: &str) -> String {
    const MARKS: [&str; 4] = ["strong", "b", "em", "mark"];
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for mark in MARKS {
        text = text.replace(&format!("<{mark}>"), "").replace(&format!("</{mark}>"), "");
    }
    text
}

/// Returns the URL with the query, percent-encoded for any part of it.
fn with_query(url: &str, query: &str) -> String {
    let encoded: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    url.replace(QUERY, &encoded.replace('+', "%20"))
}

/// Returns a body with the query in its strings.
fn substitute_query(body: &Value, query: &str) -> Value {
    match body {
        Value::String(text) => Value::String(text.replace(QUERY, query)),
        Value::Array(items) => items.iter().map(|item| substitute_query(item, query)).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, value)| (name.clone(), substitute_query(value, query)))
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Returns what the model reads of an answer, and the number of its results.
fn readable_text(text: &str) -> (String, usize) {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        let page = html::to_text(text, None);
        return (page.chars().take(MAX_TEXT).collect(), 0);
    };
    let mut lines = Vec::new();
    if let Some(answer) = value.get("answer").and_then(Value::as_str)
        && !answer.trim().is_empty()
    {
        lines.push(format!("{}\n", answer.trim()));
    }
    let results = results(&value, 0).unwrap_or_default();
    for (number, result) in results.iter().enumerate() {
        let snippet: String = result.snippet.chars().take(MAX_SNIPPET).collect();
        lines.push(format!("[{}] {}\n{}\n{snippet}\n", number + 1, result.title, result.url));
    }
    (lines.join("\n").trim_end().to_owned(), results.len())
}

#[derive(Debug, PartialEq)]
struct SearchResult {
    title: String,
    url: String,
    snippet: String,
}

/// Returns the first list of objects with web addresses. The services differ in the names and in
/// where the list is: `results` (SearXNG, Tavily), `web.results` (Brave), `items` (Google),
/// `organic` (Serper).
fn results(value: &Value, depth: usize) -> Option<Vec<SearchResult>> {
    if depth > MAX_DEPTH {
        return None;
    }
    match value {
        Value::Array(items) => {
            let found: Vec<_> = items.iter().filter_map(result).take(MAX_RESULTS).collect();
            (!found.is_empty()).then_some(found)
        }
        Value::Object(fields) => {
            let first = ["results", "web", "items", "organic", "data"];
            let named = first.iter().filter_map(|name| fields.get(*name));
            named.chain(fields.values()).find_map(|field| results(field, depth + 1))
        }
        _ => None,
    }
}

fn result(item: &Value) -> Option<SearchResult> {
    let text = |names: &[&str]| {
        let found = names.iter().find_map(|name| item.get(*name).and_then(Value::as_str));
        one_line(found.unwrap_or_default())
    };
    let url = text(&["url", "link", "href"]);
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    is_web.then(|| SearchResult {
        title: text(&["title", "name"]),
        url,
        snippet: text(&["content", "snippet", "description", "text", "body"]),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn http_search(url: &str, body: Option<Value>) -> Result<HttpSearch, String> {
        HttpSearch::new(url, &[], body, ClientOptions::default())
    }

    #[test]
    fn answers_of_common_services_are_read() {
        let url = "https://a.example/x";
        let read = (format!("[1] A\n{url}\na Vec<T>"), 1);
        for answer in [
            json!({"query": "q", "results": [{"title": "A", "url": url, "content": "a Vec<T>"}]}),
            json!({"web": {"results": [{"title": "A", "url": url, "description": "a <b>Vec</b><T>"}]}}),
            json!({"kind": "x", "items": [{"title": "A", "link": url, "snippet": "a\n Vec<T>"}]}),
            json!({"organic": [{"title": "A", "link": url, "snippet": "a\n Vec<T>"}], "credits": 1}),
            json!({"meta": [{"a": 1}], "data": {"list": [{"name": "A", "href": url, "text": "a Vec<T>"}]}}),
            json!([{"title": "A", "url": url, "content": "a Vec<T>"}, {"url": "javascript:x"}]),
        ] {
            assert_eq!(readable_text(&answer.to_string()), read, "{answer}");
        }
        let answered = json!({"answer": "It is 42.", "results": []});
        assert_eq!(readable_text(&answered.to_string()), ("It is 42.".to_owned(), 0));
        assert_eq!(readable_text("{\"results\":[]}"), (String::new(), 0));
        assert_eq!(readable_text("<p>no <b>JSON</b>").0, "no JSON");
    }

    #[test]
    fn query_is_encoded_in_place() {
        assert_eq!(with_query("http://h/?q={query}", "a b&c+ü"), "http://h/?q=a%20b%26c%2B%C3%BC");
        let body = json!({"q": "{query}", "n": 5, "in": ["x {query}"]});
        assert_eq!(substitute_query(&body, "a\"b"), json!({"q": "a\"b", "n": 5, "in": ["x a\"b"]}));
    }

    #[test]
    fn invalid_settings_name_the_key() {
        for (url, body, key) in [
            ("ftp://h/{query}", None, "webSearch.url"),
            ("{query}", None, "webSearch.url"),
            ("http://h/search", None, "contains `{query}`"),
            ("http://h/search", Some(json!({"q": 1})), "contains `{query}`"),
        ] {
            let error = http_search(url, body).err().expect("an error");
            assert!(error.contains(key), "{url}: {error}");
        }
        assert!(http_search("http://h/search", Some(json!({"q": "{query}"}))).is_ok());
        let headers = [("bad name".to_owned(), "x".to_owned())];
        let created = HttpSearch::new("http://h/{query}", &headers, None, ClientOptions::default());
        assert!(created.err().expect("an error").contains("webSearch.headers.bad name"));
    }
}
