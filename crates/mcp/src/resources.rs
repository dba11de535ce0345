//! Reads resources of servers, for tools and for `@server:uri` in prompts.

use std::sync::Arc;

use parallax_protocol::CancellationToken;
use rmcp::model::{ReadResourceRequest, ReadResourceRequestParams};
use serde_json::Value;

use crate::blocks::clip;
use crate::call::RequestOptions;
use crate::error::McpError;
use crate::media::{UNKNOWN, media_type};
use crate::server::Server;
use crate::servers::Servers;
use parallax_protocol::untrusted::wrap;

/// Maximum number of contents read from one resource.
const MAX_CONTENTS: usize = 200;

/// Why a resource cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResourceError {
    /// No server offers it.
    Unknown,
    /// The server failed; contains a message for the model.
    Failed(String),
}

impl Servers {
    /// Splits `server:uri` into the server name and the URI; `None` if no server has this name.
    pub fn resource_address<'a>(&self, text: &'a str) -> Option<(String, &'a str)> {
        // The longest matching name, because a name may be a prefix of another.
        self.open()
            .filter_map(|server| {
                let rest = text.strip_prefix(server.config.name.as_str())?.strip_prefix(':')?;
                (!rest.is_empty()).then(|| (server.config.name.clone(), rest))
            })
            .max_by_key(|(name, _)| name.len())
    }

    /// Returns the text of a resource, marked as untrusted: all its text parts, and a line for each
    /// content that is not text.
    ///
    /// # Errors
    /// Returns a message for the user if the resource cannot be read.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<String, String> {
        let of = self.find(server).ok_or_else(|| format!("unknown MCP server `{server}`"))?;
        let read = read(of, uri, CancellationToken::new()).await;
        let longest = of.shared_servers.longest_text;
        let read = read.map(|text| wrap(&clip(&text, longest)));
        read.map_err(|error| format!("failed to read `{server}:{uri}`: {error}"))
    }

    /// Returns the server that offers a resource, and the URI on that server.
    pub(crate) fn owner<'a>(&self, uri: &'a str) -> Option<(Arc<Server>, &'a str)> {
        let lists = |uri: &str| {
            self.open()
                .find(|server| server.catalog().resources.iter().any(|entry| entry.uri == uri))
                .cloned()
        };
        if let Some(server) = lists(uri) {
            return Some((server, uri));
        }
        let named = self.resource_address(uri);
        if let Some((name, rest)) = named {
            return self.find(&name).cloned().map(|server| (server, rest));
        }
        // A template may match it; only the server can tell.
        let mut matching_servers = self.open().filter(|server| {
            server.catalog().templates.iter().any(|entry| template_matches(&entry.uri, uri))
        });
        matching_servers.next().cloned().map(|server| (server, uri))
    }
}

/// Whether a URI starts like a template.
fn template_matches(pattern: &str, uri: &str) -> bool {
    let fixed = pattern.split('{').next().unwrap_or_default();
    !fixed.is_empty() && uri.starts_with(fixed)
}

pub(crate) async fn read(
    server: &Arc<Server>,
    uri: &str,
    cancel: CancellationToken,
) -> Result<String, McpError> {
    let request = || ReadResourceRequest::new(ReadResourceRequestParams::new(uri)).into();
    let bounds = RequestOptions { cancel, ..RequestOptions::with_timeout(server.config.timeout) };
    let (result, _) = server.ask(request, bounds, true).await;
    let result = result?;
    let contents = result.get("contents").and_then(Value::as_array);
    let texts = contents.into_iter().flatten().take(MAX_CONTENTS).map(|content| {
        let field = |key: &str| content.get(key).and_then(Value::as_str);
        match field("text") {
            Some(text) => text.to_owned(),
            None => {
                let mime = field("mimeType").and_then(media_type).unwrap_or(UNKNOWN);
                let size = size_of_base64(field("blob").unwrap_or_default());
                format!("[Binary resource content {mime}, {size} bytes]")
            }
        }
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the number of bytes that a base64 text encodes.
fn size_of_base64(text: &str) -> usize {
    let letters = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    letters * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::{size_of_base64, template_matches};

    #[test]
    fn blob_size_is_its_decoded_length() {
        for (text, bytes) in [("", 0), ("QQ==", 1), ("QUI=", 2), ("QUJD", 3), ("QUJD\nQQ", 4)] {
            assert_eq!(size_of_base64(text), bytes, "{text}");
        }
    }

    #[test]
    fn uri_templates_match_uris() {
        assert!(template_matches("notes://{id}", "notes://3"));
        assert!(!template_matches("notes://{id}", "other://3"));
        assert!(!template_matches("{+any}", "other://3"));
    }
}
