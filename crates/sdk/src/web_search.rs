//! The web search of a session: the one of the model's provider, or the service in
//! `tools.webSearch`.

use parallax_protocol::model::Model;
use parallax_protocol::secret::SecretRecipient;
use parallax_tools::google_web_search::HttpSearch;
use serde_json::Value;

use crate::session_config::SessionConfig;

/// Returns the search service of the settings, if there is one.
///
/// # Errors
/// Returns what is wrong with the settings.
pub(crate) fn configured_search(launch: &SessionConfig) -> Result<Option<HttpSearch>, String> {
    let settings = &launch.config.settings;
    let Some(url) = settings.text("tools.webSearch.url").filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    let headers = settings.get("tools.webSearch.headers").and_then(Value::as_object);
    let headers = headers.into_iter().flatten();
    let headers: Option<Vec<_>> =
        headers.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    let headers =
        headers.ok_or("`tools.webSearch.headers` must be an object with string values")?;
    let body = settings.get("tools.webSearch.body").cloned();
    let secrets = launch.config.environment.secret_values(SecretRecipient::Provider);
    HttpSearch::new(&url, &headers, body, launch.client_options())
        .map(|search| Some(search.with_redacted_secrets(secrets)))
}

/// Returns what to tell the user about the search of a new session with a model.
pub(crate) fn start_notice(
    launch: &SessionConfig,
    model: &dyn Model,
    name: &str,
) -> Option<String> {
    match configured_search(launch) {
        Ok(Some(_)) => None,
        Ok(None) => missing_search_message(model, name),
        Err(error) => Some(error),
    }
}

/// Returns what to tell the user if the provider of a model, by any of its names, has no search.
pub(crate) fn missing_search_message(model: &dyn Model, name: &str) -> Option<String> {
    let catalog = model.catalog();
    let search_model = catalog.utility("web-search", &catalog.resolve(name));
    (!catalog.hosted_tools(&search_model).search).then(|| {
        format!(
            "the provider of `{name}` has no web search, so the model cannot search the web \
             (set `tools.webSearch.url`, or connect an MCP server that provides it)"
        )
    })
}
