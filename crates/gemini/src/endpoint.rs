//! The URLs of requests.

use parallax_http::url::Url;

use crate::auth::Auth;

/// An invalid base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It does not parse, or is neither `http` nor `https`.
    #[error(
        "invalid custom base URL `{url}` in {source_name}: it must look like `https://host/path`"
    )]
    Base {
        /// The URL without user name and password.
        url: String,
        /// The setting or variable it comes from.
        source_name: &'static str,
    },
}

/// What determines the endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointParts<'a> {
    /// From the caller's configuration.
    pub(crate) explicit: Option<&'a str>,
    /// `GOOGLE_GEMINI_BASE_URL`.
    pub(crate) gemini_base: Option<&'a str>,
    /// `GOOGLE_VERTEX_BASE_URL`.
    pub(crate) vertex_base: Option<&'a str>,
    /// `GOOGLE_CLOUD_LOCATION`.
    pub(crate) location: Option<&'a str>,
    /// `GOOGLE_GENAI_API_VERSION`.
    pub(crate) version: Option<&'a str>,
}

/// The URL of the service.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    base: Url,
    version: String,
    vertex: bool,
    /// Project and location, unless the key determines them.
    location: Option<(String, String)>,
    /// Whether the URL is not Google's own.
    custom: bool,
}

/// The API method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Stream,
    Generate,
    CountTokens,
}

impl Endpoint {
    pub(crate) fn new(auth: &Auth, parts: &EndpointParts<'_>) -> Result<Self, EndpointError> {
        let vertex = matches!(auth, Auth::VertexExpress(_) | Auth::VertexProject { .. });
        let project_location = match auth {
            Auth::VertexProject { project, location } => Some((project.clone(), location.clone())),
            _ => None,
        };
        let description = |text: Option<&str>| {
            text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let from_env = if vertex {
            (description(parts.vertex_base), "`GOOGLE_VERTEX_BASE_URL`")
        } else {
            (description(parts.gemini_base), "`GOOGLE_GEMINI_BASE_URL`")
        };
        let (text, source_name) = match (description(parts.explicit), from_env) {
            (Some(text), _) => (text, "the configuration"),
            (None, (Some(text), name)) => (text, name),
            // Data of a multi-region must stay in it.
            (None, (None, name)) => match parts.location {
                Some(region @ ("us" | "eu")) if vertex => {
                    (format!("https://aiplatform.{region}.rep.googleapis.com"), name)
                }
                _ => match &project_location {
                    Some((_, region)) if matches!(region.as_str(), "us" | "eu") => {
                        (format!("https://aiplatform.{region}.rep.googleapis.com"), name)
                    }
                    Some((_, region)) if region != "global" => {
                        (format!("https://{region}-aiplatform.googleapis.com"), name)
                    }
                    _ if vertex => ("https://aiplatform.googleapis.com".to_owned(), name),
                    _ => ("https://generativelanguage.googleapis.com".to_owned(), name),
                },
            },
        };
        let bad = || EndpointError::Base { url: without_user(&text), source_name };
        let base = Url::parse(&text).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(bad());
        }
        let default = if vertex { "v1beta1" } else { "v1beta" };
        let version = description(parts.version).unwrap_or_else(|| default.to_owned());
        let custom = !base.host_str().is_some_and(|host| host.ends_with(".googleapis.com"));
        Ok(Self { base, version, vertex, location: project_location, custom })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Returns the URL of a request. It never contains a key.
    pub(crate) fn url(&self, model: &str, method: Method) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend(self.version.split('/'));
            if let Some((project, location)) = &self.location
                && !model.starts_with("projects/")
            {
                path.extend(["projects", project, "locations", location]);
            }
            let known: &[&str] = if self.vertex {
                &["publishers/", "projects/"]
            } else {
                &["models/", "tunedModels/"]
            };
            match (known.iter().any(|start| model.starts_with(start)), self.vertex) {
                (true, _) => {}
                (false, false) => {
                    path.push("models");
                }
                (false, true) => match model.split_once('/') {
                    Some((publisher, _)) => {
                        path.extend(["publishers", publisher, "models"]);
                    }
                    None => {
                        path.extend(["publishers", "google", "models"]);
                    }
                },
            }
            let model = match model.split_once('/') {
                Some((_, rest)) if self.vertex && !known.iter().any(|k| model.starts_with(k)) => {
                    rest
                }
                _ => model,
            };
            let call = match method {
                Method::Stream => "streamGenerateContent",
                Method::Generate => "generateContent",
                Method::CountTokens => "countTokens",
            };
            path.extend(format!("{model}:{call}").split('/'));
        }
        if method == Method::Stream {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }
}

impl Endpoint {
    /// Whether it is a gateway or the user's own server.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom
    }

    /// Returns the URL of the cheapest authenticated request, and whether it counts tokens
    /// (otherwise it lists models).
    pub(crate) fn check_url(&self, model: &str) -> (Url, bool) {
        if self.vertex {
            return (self.url(model, Method::CountTokens), true);
        }
        (self.list_url("1"), false)
    }

    /// Returns the URL of the list of models; `None`: the service has none.
    pub(crate) fn models_url(&self) -> Option<Url> {
        (!self.vertex).then(|| self.list_url("1000"))
    }

    fn list_url(&self, page_size: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend(self.version.split('/')).push("models");
        }
        url.query_pairs_mut().append_pair("pageSize", page_size);
        url
    }
}

/// Returns a URL without user info.
fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::secret::Secret;

    fn url(auth: &Auth, parts: EndpointParts<'_>, model: &str, method: Method) -> String {
        Endpoint::new(auth, &parts).expect("an endpoint").url(model, method).to_string()
    }

    #[test]
    fn every_backend_has_its_url_format() {
        let key = Auth::ApiKey(Secret::new("k"));
        let vertex = Auth::VertexExpress(Secret::new("k"));
        let none = EndpointParts::default;
        for (auth, parts, model, method, want) in [
            (
                &key,
                none(),
                "gemini-x",
                Method::Stream,
                "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
            ),
            (
                &vertex,
                none(),
                "gemini-x",
                Method::Generate,
                "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-x:generateContent",
            ),
            (
                &vertex,
                EndpointParts { location: Some("eu"), version: Some("v1"), ..none() },
                "acme/m",
                Method::Generate,
                "https://aiplatform.eu.rep.googleapis.com/v1/publishers/acme/models/m:generateContent",
            ),
            (
                &Auth::Gateway(None),
                EndpointParts { gemini_base: Some("http://gw:81/a/?t=1"), ..none() },
                "models/a b?c",
                Method::Stream,
                "http://gw:81/a/v1beta/models/a%20b%3Fc:streamGenerateContent?t=1&alt=sse",
            ),
            (
                &key,
                EndpointParts {
                    explicit: Some("http://e"),
                    gemini_base: Some("http://g"),
                    ..none()
                },
                "m",
                Method::Generate,
                "http://e/v1beta/models/m:generateContent",
            ),
        ] {
            assert_eq!(url(auth, parts, model, method), want);
        }
    }

    #[test]
    fn invalid_base_url_is_reported() {
        for text in ["not a url", "ftp://x", "http://", "http://u:hunter2@ho st/"] {
            let parts = EndpointParts { gemini_base: Some(text), ..Default::default() };
            let error = Endpoint::new(&Auth::Gateway(None), &parts).expect_err("bad").to_string();
            assert!(error.contains("invalid custom base URL"), "{error}");
            assert!(error.contains("GOOGLE_GEMINI_BASE_URL") && !error.contains("hunter2"));
        }
    }
}
