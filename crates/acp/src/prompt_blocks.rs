//! Converts the content blocks of a prompt to text and attachments.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use parallax_protocol::content::Part;
use parallax_protocol::media::sendable_type;
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
            kind @ ("image" | "audio") => {
                let (declared, bytes) = (field("mimeType")?, decode_base64(field("data")?)?);
                let Some(mime) = sendable_type(declared, &bytes) else {
                    let message = format!(
                        "the `data` of a block of the type `{kind}` is neither \
                        an image, a PDF, audio, nor video"
                    );
                    return Err(RpcError::invalid_params(message));
                };
                prompt.attachments.push(Part::inline_data(mime, STANDARD.encode(&bytes)));
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
                self.attachments.push(text_of(uri, text));
            }
            (None, Some(blob)) => {
                let declared = field("mimeType").unwrap_or_default();
                let bytes = decode_base64(blob)?;
                let part = match (sendable_type(declared, &bytes), std::str::from_utf8(&bytes)) {
                    (Some(mime), _) => Part::inline_data(mime, STANDARD.encode(&bytes)),
                    (None, Ok(text)) => text_of(uri, text),
                    (None, Err(_)) => {
                        let message = "the `blob` of an embedded resource is neither text, an \
                                       image, a PDF, audio, nor video";
                        return Err(RpcError::invalid_params(message));
                    }
                };
                self.attachments.push(part);
            }
            (None, None) => {
                let message = "an embedded resource has neither `text` nor `blob`";
                return Err(RpcError::invalid_params(message));
            }
        }
        Ok(())
    }
}

/// Returns the bytes of a value in Base64, whose lines may be wrapped.
fn decode_base64(data: &str) -> Result<Vec<u8>, RpcError> {
    let data: String = data.split_ascii_whitespace().collect();
    STANDARD
        .decode(data)
        .map_err(|_| RpcError::invalid_params("data of a block of the prompt is not Base64"))
}

fn text_of(uri: &str, text: &str) -> Part {
    Part::text(format!("\n--- Content of {uri} ---\n{text}\n--- End of {uri} ---"))
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
    fn prompt_blocks_are_converted_to_text_and_attachments() {
        let blocks = json!([{"type": "text", "text": "look at"},
            {"type": "resource_link", "name": "a", "uri": "file:///tmp/my%20file.rs"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "hello @c"}},
            {"type": "image", "mimeType": "image/jpeg",
                "data": "iVBORw0KGgo\nAAAA="}]);
        let prompt = read(blocks.as_array().expect("blocks")).expect("a prompt");
        assert_eq!(prompt.text, "look at @/tmp/my\\ file.rs `file:///b` ");
        assert_eq!(prompt.attachments.len(), 2);
        assert!(read(&[json!({"type": "text"})]).is_err());
        assert!(read(&[]).is_err());
    }
}
