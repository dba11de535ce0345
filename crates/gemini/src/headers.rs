//! Request headers.

use parallax_http::reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};

use crate::auth::Auth;

/// What the headers depend on besides the credentials.
pub(crate) struct HeaderParts<'a> {
    pub(crate) bearer: bool,
    pub(crate) custom: &'a [(String, String)],
    pub(crate) user_agent: &'a str,
    /// `billing.vertexAi.requestType` and `.sharedRequestType`.
    pub(crate) vertex_request_type: Option<&'a str>,
    pub(crate) vertex_shared_request_type: Option<&'a str>,
}

/// A key that cannot be sent.
#[derive(Debug)]
pub(crate) struct InvalidKey;

/// Returns the headers of a request. The user's headers override the credentials.
pub(crate) fn headers(auth: &Auth, parts: &HeaderParts<'_>) -> Result<HeaderMap, InvalidKey> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in parts.custom {
        match (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            (Ok(name), Ok(mut value)) => {
                // The values may be tokens.
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => tracing::warn!(%name, "a custom header cannot be sent"),
        }
    }
    if let Ok(agent) = parts.user_agent.parse() {
        headers.insert(USER_AGENT, agent);
    }
    let key = auth.key().map_or("", |key| key.expose());
    let (name, text) = if parts.bearer && !key.is_empty() {
        (AUTHORIZATION, format!("Bearer {key}"))
    } else {
        (HeaderName::from_static("x-goog-api-key"), key.to_owned())
    };
    // The token is fetched before each request.
    let needs_key = !matches!(auth, Auth::VertexProject { .. });
    if needs_key && !headers.contains_key(&name) {
        let mut value = HeaderValue::from_str(&text).map_err(|_| InvalidKey)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if matches!(auth, Auth::VertexExpress(_) | Auth::VertexProject { .. }) {
        for (name, value) in [
            ("x-vertex-ai-llm-request-type", parts.vertex_request_type),
            ("x-vertex-ai-llm-shared-request-type", parts.vertex_shared_request_type),
        ] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::secret::Secret;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn send(auth: &Auth, bearer: bool, custom: &[(String, String)]) -> HeaderMap {
        let parts = HeaderParts {
            bearer,
            custom,
            user_agent: "u",
            vertex_request_type: Some("dedicated"),
            vertex_shared_request_type: None,
        };
        headers(auth, &parts).unwrap_or_else(|_| unreachable!("a good key"))
    }

    #[test]
    fn api_key_is_sent_as_configured() {
        let auth = Auth::ApiKey(Secret::new("k"));
        let plain = send(&auth, false, &[]);
        assert_eq!(plain.get("x-goog-api-key").map(HeaderValue::as_bytes), Some(&b"k"[..]));
        assert!(!format!("{plain:?}").contains("\"k\""));
        let bearer = send(&auth, true, &[]);
        assert_eq!(bearer.get("authorization").map(HeaderValue::as_bytes), Some(&b"Bearer k"[..]));
        assert!(!bearer.contains_key("x-goog-api-key"));
        let gateway = send(&Auth::Gateway(None), true, &[]);
        assert_eq!(gateway.get("x-goog-api-key").map(HeaderValue::as_bytes), Some(&b""[..]));
        let own = send(&auth, false, &[pair("X-Goog-Api-Key", "mine"), pair("User-Agent", "no")]);
        assert_eq!(own.get("x-goog-api-key").map(HeaderValue::as_bytes), Some(&b"mine"[..]));
        assert_eq!(own.get("user-agent").map(HeaderValue::as_bytes), Some(&b"u"[..]));
        assert!(!own.contains_key("x-vertex-ai-llm-request-type"));
        let vertex = send(&Auth::VertexExpress(Secret::new("k")), false, &[]);
        assert!(vertex.contains_key("x-vertex-ai-llm-request-type"));
    }
}
