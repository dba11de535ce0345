//! Base URLs and model names.

use std::hash::{BuildHasher, RandomState};

use parallax_http::url::Url;

/// An invalid base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid base URL `{url}` in {source_name}: it must look like `https://host/path`")]
pub struct BaseUrlError {
    /// The URL without user name and password.
    pub url: String,
    /// The setting or variable it comes from.
    pub source_name: String,
}

/// Parses a base URL; `source_name` is the setting or variable it comes from.
///
/// # Errors
/// Returns an error if it does not parse, or is neither `http` nor `https`.
pub fn parse_base(text: &str, source_name: &str) -> Result<Url, BaseUrlError> {
    let invalid = || BaseUrlError {
        url: match text.rsplit_once('@') {
            Some((_, rest)) => format!("…@{rest}"),
            None => text.to_owned(),
        },
        source_name: source_name.to_owned(),
    };
    let url = Url::parse(text.trim()).map_err(|_| invalid())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    if is_http { Ok(url) } else { Err(invalid()) }
}

/// Returns the base URL with a path appended to its own.
pub fn url_with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path.split('/'));
    }
    url
}

/// Returns the id that the provider knows a model by: the name without the provider's prefix.
pub fn model_id(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, id)| id)
}

/// Returns an id for a call whose server sent none.
pub fn random_call_id() -> String {
    let bits = RandomState::new().hash_one(std::process::id());
    format!("call_{:012x}", bits & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_keeps_its_path() {
        for (base, url) in [
            ("http://h:1/v1", "http://h:1/v1/a/b"),
            ("http://h:1/v1/", "http://h:1/v1/a/b"),
            ("https://h", "https://h/a/b"),
        ] {
            let base = parse_base(base, "x").expect("valid");
            assert_eq!(url_with_path(&base, "a/b").as_str(), url);
        }
        for text in ["", "h", "ftp://h", "http://"] {
            assert!(parse_base(text, "x").is_err(), "{text}");
        }
        let error = parse_base("user:secret@h", "`V`").expect_err("invalid").to_string();
        assert!(error.contains("`V`") && !error.contains("secret"), "{error}");
    }
}
