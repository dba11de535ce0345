//! Converts a tool outcome into the parts that answer its call on the wire.

use std::collections::BTreeMap;

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part, PartView, SYNTHETIC_SIGNATURE};
use parallax_protocol::tool::ToolResult;
use serde_json::Value;
use serde_json::value::RawValue;

/// The wire form of one result.
#[derive(Debug, Default)]
pub(crate) struct FunctionResponse {
    /// The function response and its sibling media parts.
    pub(crate) parts: Vec<Part>,
    /// Audio and video, which go into a separate user content.
    pub(crate) injected: Vec<Part>,
    /// The text that the model reads, for front ends and loop detection.
    pub(crate) text: String,
}

impl FunctionResponse {
    /// Returns the parts as JSON. Objects of strings and values cannot fail to serialize.
    pub(crate) fn to_raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(&self.parts).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// Results of calls that ran before, by call index.
pub(crate) type FinishedResults = BTreeMap<usize, FunctionResponse>;

/// The call being answered.
pub(crate) struct ResponseTarget<'a> {
    /// The id that the server sent, if any.
    pub(crate) wire_id: Option<&'a str>,
    /// The name that the model used.
    pub(crate) name: &'a str,
    /// Whether the model accepts media inside a function response.
    pub(crate) nested_media: bool,
    /// Whether the tool may inject audio and video (`read_file` and similar).
    pub(crate) allows_media: bool,
}

/// Builds the response of a call.
pub(crate) fn respond(call: &ResponseTarget<'_>, outcome: ToolResult) -> FunctionResponse {
    let mut response = Object::new();
    let mut placed = MediaPlacement::default();
    let mut output = outcome.for_model.output;
    for part in outcome.for_model.media {
        placed.add_part(part, call);
    }
    if !placed.dropped_media.is_empty() {
        let kinds = placed.dropped_media.join(", ");
        output = format!(
            "[SYSTEM: Binary content ({kinds}) stripped: it cannot be sent as a tool result]\n{output}"
        );
    }
    if !placed.injected.is_empty() {
        let note = "The content follows in the next message.";
        output = if output.is_empty() { note.to_owned() } else { format!("{output}\n{note}") };
    }
    let items = placed.nested_parts.len() + placed.siblings.len();
    if output.is_empty() && items > 0 {
        output = format!("Binary content provided ({items} item(s)).");
    }
    let text = match outcome.error {
        None => {
            response.insert("output".into(), Value::String(output.clone()));
            output
        }
        Some(error) => {
            // Include partial output only if there is any.
            if !output.is_empty() {
                response.insert("output".into(), Value::String(output));
            }
            response.insert("error".into(), Value::String(error.message.clone()));
            error.message
        }
    };
    let mut parts =
        vec![Part::function_response(call.wire_id, call.name, response, placed.nested_parts)];
    parts.append(&mut placed.siblings);
    FunctionResponse { parts, injected: placed.injected, text }
}

#[derive(Default)]
struct MediaPlacement {
    nested_parts: Vec<Part>,
    siblings: Vec<Part>,
    injected: Vec<Part>,
    dropped_media: Vec<String>,
}

impl MediaPlacement {
    fn add_part(&mut self, part: Part, call: &ResponseTarget<'_>) {
        let PartView::Inline { mime_type, .. } = part.view() else {
            // File references are always siblings of the response.
            self.siblings.push(part);
            return;
        };
        let is_av = mime_type.starts_with("audio/") || mime_type.starts_with("video/");
        match (is_av, call.allows_media, call.nested_media) {
            (true, true, _) => self.injected.push(part),
            (true, false, _) => self.dropped_media.push(mime_type.to_owned()),
            (false, _, true) => self.nested_parts.push(part),
            (false, _, false) => self.siblings.push(part),
        }
    }
}

/// Returns the two contents that add audio or video after a batch: a generated model content, which
/// therefore carries the synthetic signature, and a user content.
pub(crate) fn injection(media: Vec<Part>) -> [Content; 2] {
    let remark = Part::text("The requested media follow.").with_signature(SYNTHETIC_SIGNATURE);
    [Content::model(vec![remark]), Content::user(media)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::tool::{ToolError, ToolErrorKind};

    fn call(nested_media: bool, allows_media: bool) -> ResponseTarget<'static> {
        ResponseTarget { wire_id: None, name: "read_file", nested_media, allows_media }
    }

    fn with_media(mime: &str) -> ToolResult {
        let mut outcome = ToolResult::text("");
        outcome.for_model.media.push(Part::inline_data(mime, "AAAA"));
        outcome
    }

    #[test]
    fn images_are_nested_if_supported_and_siblings_otherwise() {
        let nested = respond(&call(true, true), with_media("image/png"));
        assert_eq!(nested.parts.len(), 1);
        assert_eq!(nested.text, "Binary content provided (1 item(s)).");
        let separate = respond(&call(false, true), with_media("image/png"));
        assert_eq!(separate.parts.len(), 2);
    }

    #[test]
    fn audio_is_injected_or_dropped_with_a_note() {
        let injected = respond(&call(true, true), with_media("audio/mpeg"));
        assert_eq!((injected.parts.len(), injected.injected.len()), (1, 1));
        let dropped = respond(&call(true, false), with_media("audio/mpeg"));
        assert!(dropped.injected.is_empty() && dropped.text.contains("audio/mpeg"));
    }

    #[test]
    fn failure_is_an_error_and_keeps_partial_output() {
        let mut outcome =
            ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, "went wrong"));
        outcome.for_model.output = "half".into();
        let response = respond(&call(true, true), outcome);
        let json = serde_json::to_string(&response.parts).expect("json");
        assert_eq!(
            json,
            r#"[{"functionResponse":{"name":"read_file","response":{"output":"half","error":"went wrong"}}}]"#
        );
    }
}
