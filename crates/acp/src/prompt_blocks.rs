//! Converts the content blocks of a prompt to text and attachments.

use std::fmt::Write as _;

use parallax_protocol::content::Part;
use serde_json::Value;
use url::Url;

use crate::rpc::RpcError;

/// A converted prompt.
#[derive(Debug, Default)]
pub(crate) struct ConvertedPrompt {
    /// Text with files as `@path`.
    pub(crate) text: String,
    /// Embedded files, images, and audio, which must not be expanded as text.
    pub(crate) attachments: Vec<Part>,
}

/// Converts the blocks of a prompt.
///
/// # Errors
/// Returns an error if a block is malformed.
pub(crate) fn read(blocks: &[Value]) -> Result<ConvertedPrompt, RpcError> {
    let mut prompt = ConvertedPrompt::default();
    for block in blocks {
        let field = |name: &str| {
            let value = block.get(name).and_then(Value::as_str);
            value.ok_or_else(|| {
                RpcError::invalid_params(format!("a block of the prompt has no `{name}`"))
            })
        };
        match field("type")? {
            "text" => prompt.push(field("text")?, false),
            "image" | "audio" => {
                prompt.attachments.push(Part::inline_data(field("mimeType")?, field("data")?))
            }
            "resource_link" => prompt.push(&mention(field("uri")?), true),
            "resource" => prompt.embed(block.get("resource").unwrap_or(&Value::Null))?,
            other => {
                let message = format!("blocks of the type `{other}` are not supported");
                return Err(RpcError::invalid_params(message));
            }
        }
    }
    if prompt.text.trim().is_empty() && prompt.attachments.is_empty() {
        return Err(RpcError::invalid_params("the prompt is empty"));
    }
    Ok(prompt)
}

impl ConvertedPrompt {
    /// Appends text, separating a mention with a space.
    fn push(&mut self, text: &str, is_mention: bool) {
        let is_apart = self.text.is_empty() || self.text.ends_with(char::is_whitespace);
        if is_mention && !is_apart {
            self.text.push(' ');
        }
        self.text.push_str(text);
        if is_mention {
            self.text.push(' ');
        }
    }

    fn embed(&mut self, resource: &Value) -> Result<(), RpcError> {
        let field = |name: &str| resource.get(name).and_then(Value::as_str);
        let Some(uri) = field("uri") else {
            return Err(RpcError::invalid_params("an embedded resource has no `uri`"));
        };
        // The client sends the content, so the file itself is not read.
        self.push(&format!("`{}`", uri.replace('`', "'")), true);
        match (field("text"), field("blob")) {
            (Some(text), _) => {
                let mut part = format!("\n--- Content of {uri} ---\n");
                let _ = writeln!(part, "{text}");
                let _ = write!(part, "--- End of {uri} ---");
                self.attachments.push(Part::text(part));
            }
            (None, Some(blob)) => {
                let mime = field("mimeType").unwrap_or("application/octet-stream");
                self.attachments.push(Part::inline_data(mime, blob));
            }
            (None, None) => {
                let message = "an embedded resource has neither `text` nor `blob`";
                return Err(RpcError::invalid_params(message));
            }
        }
        Ok(())
    }
}

/// Returns the mention of a linked file or another resource.
fn mention(uri: &str) -> String {
    let file = Url::parse(uri).ok().filter(|it| it.scheme() == "file");
    let Some(path) = file.and_then(|it| it.to_file_path().ok()) else { return format!("@{uri}") };
    let mut mention = "@".to_owned();
    for character in path.to_string_lossy().chars() {
        if !character.is_alphanumeric() && !matches!(character, '/' | '.' | '-' | '_') {
            mention.push('\\');
        }
        mention.push(character);
    }
    mention
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_text_and_attachments() {
        let blocks = json!([{"type": "text", "text": "look at"},
            {"type": "resource_link", "name": "a", "uri": "file:///tmp/my%20file.rs"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "hello @c"}},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"}]);
        let prompt = read(blocks.as_array().expect("blocks")).expect("a prompt");
        assert_eq!(prompt.text, "look at @/tmp/my\\ file.rs `file:///b` ");
        assert_eq!(prompt.attachments.len(), 2);
        assert!(read(&[json!({"type": "text"})]).is_err());
        assert!(read(&[]).is_err());
    }
}
