//! Headers that all wires share.

use parallax_http::reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use parallax_protocol::secret::Secret;

/// Parses `GEMINI_CLI_CUSTOM_HEADERS`: `Name: value` pairs separated by commas. A comma belongs
/// to the value unless a header name and a colon follow it. Invalid pairs are skipped.
pub fn parse_custom_headers(text: &str) -> Vec<(String, String)> {
    let mut pieces: Vec<&str> = Vec::new();
    let mut start = 0;
    for (offset, _) in text.match_indices(',') {
        let rest = text.get(offset + 1..).unwrap_or_default();
        if header_name(rest).is_some() {
            pieces.push(text.get(start..offset).unwrap_or_default());
            start = offset + 1;
        }
    }
    pieces.push(text.get(start..).unwrap_or_default());
    pieces
        .into_iter()
        .filter_map(|piece| {
            let name = header_name(piece)?;
            let value = piece.split_once(':')?.1.trim();
            Some((name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Returns the header name at the start of a string, if a colon follows it.
fn header_name(text: &str) -> Option<&str> {
    let name = text.split_once(':')?.0.trim();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!name.is_empty() && name.bytes().all(token)).then_some(name)
}

/// Returns the values of headers that hold a secret by their names, without the scheme before it
/// (`Bearer`).
pub fn secret_values(headers: &[(String, String)]) -> impl Iterator<Item = Secret> {
    const WORDS: [&str; 6] = ["auth", "key", "token", "secret", "password", "cookie"];
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        WORDS.iter().any(|word| name.contains(word))
    };
    headers.iter().filter(move |(name, _)| is_secret(name)).map(|(_, value)| {
        let value = value.trim();
        Secret::new(value.split_once(' ').map_or(value, |(_, secret)| secret))
    })
}

/// A key that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderError;

/// The headers of a request with a JSON body.
#[derive(Debug)]
pub struct RequestHeaders<'a> {
    /// The user's headers, which override ours.
    pub custom: &'a [(String, String)],
    /// The version in `User-Agent`.
    pub version: &'a str,
    /// The model in `User-Agent`.
    pub model: &'a str,
    /// A key for `Authorization: Bearer`.
    pub bearer: Option<&'a Secret>,
    /// A key that is sent in a separate header.
    pub named_key: Option<(&'static str, &'a Secret)>,
}

impl RequestHeaders<'_> {
    /// Builds the headers. Keys are marked as sensitive.
    ///
    /// # Errors
    /// Returns an error if a key contains characters that are invalid in a header.
    pub fn build(&self) -> Result<HeaderMap, HeaderError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(agent) = user_agent(self.version, self.model, "terminal").parse() {
            headers.insert(USER_AGENT, agent);
        }
        let bearer = self.bearer.map(|key| (AUTHORIZATION, format!("Bearer {}", key.expose())));
        let named = self
            .named_key
            .map(|(name, key)| (HeaderName::from_static(name), key.expose().to_owned()));
        for (name, text) in bearer.into_iter().chain(named) {
            let mut value = HeaderValue::from_str(&text).map_err(|_| HeaderError)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        for (name, value) in self.custom {
            match (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
                (Ok(name), Ok(mut value)) => {
                    // Their values may be tokens.
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                _ => tracing::warn!(%name, "a custom header cannot be sent"),
            }
        }
        Ok(headers)
    }
}

/// Returns the platform and architecture of this machine as Node.js names them, for compatibility
/// with Gemini CLI.
pub fn node_platform() -> (&'static str, &'static str) {
    let platform = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    (platform, arch)
}

/// Returns our `User-Agent`: `Parallax/VERSION/MODEL (PLATFORM; ARCH; SURFACE)`, with the platform
/// and architecture names that servers know from the reference.
pub fn user_agent(version: &str, model: &str, surface: &str) -> String {
    let (platform, arch) = node_platform();
    format!("Parallax/{version}/{model} ({platform}; {arch}; {surface})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Vec<(String, String)> {
        parse_custom_headers(text)
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn commas_in_header_values_are_kept() {
        assert_eq!(
            parse("A: 1, X-B:two, three, and four,C : http://x:80/,q"),
            [pair("A", "1"), pair("X-B", "two, three, and four"), pair("C", "http://x:80/,q")]
        );
        assert_eq!(parse("junk, A: 1, : x"), [pair("A", "1, : x")]);
        assert_eq!(parse(""), []);
    }

    proptest! {
        #[test]
        fn parsed_header_names_are_valid(text in ".{0,60}") {
            for (name, _) in parse(&text) {
                prop_assert!(name.parse::<HeaderName>().is_ok());
            }
        }
    }
}
