//! Whether the provider data of a content has the format of an API.
//!
//! A provider may be used through one API today and another one tomorrow (a gateway without
//! `/responses`, a changed `wire` in the settings). Each API rejects the data of the others, and
//! fields such as ids would replace those of the request.

use parallax_protocol::Object;
use parallax_protocol::content::Origin;
use serde_json::Value;
use serde_json::value::RawValue;

/// An API whose provider data returns with later requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpaqueFormat {
    /// Chat Completions: fields of an assistant message, and fields of a call.
    Chat,
    /// Responses: whole items, and the ids and phases of messages and calls.
    Responses,
    /// Messages: whole blocks.
    Messages,
    /// An API without provider data.
    None,
}

impl OpaqueFormat {
    /// Whether all data of a content has this format; a content is the answer of one API.
    pub(crate) fn is_format_of(self, origin: &Origin) -> bool {
        origin.opaque.iter().all(|item| match item.precedes_part {
            Some(_) => self.accepts_item(&item.data),
            None => self.accepts_fields(&item.data),
        })
    }

    /// Whether it has data like this, which stands on its own.
    fn accepts_item(self, data: &RawValue) -> bool {
        let Some(item) = fields(data) else { return false };
        let kind = item.get("type").and_then(Value::as_str);
        match (self, kind) {
            (Self::Chat, kind) => kind.is_none(),
            (Self::Responses, Some(kind)) => !is_block(kind, &item),
            (Self::Messages, Some(kind)) => !is_item(kind, &item),
            (Self::Responses | Self::Messages, None) | (Self::None, _) => false,
        }
    }

    /// Whether it has data like this, which belongs to text or a call.
    fn accepts_fields(self, data: &RawValue) -> bool {
        let Some(fields) = fields(data) else { return false };
        let is_responses = fields.keys().all(|key| matches!(key.as_str(), "id" | "phase"));
        match self {
            Self::Chat => !is_responses,
            Self::Responses => is_responses,
            Self::Messages | Self::None => false,
        }
    }
}

fn fields(data: &RawValue) -> Option<Object> {
    serde_json::from_str(data.get()).ok()
}

/// Whether a type is one of the Messages API only.
fn is_block(kind: &str, item: &Object) -> bool {
    matches!(kind, "thinking" | "redacted_thinking" | "container_upload")
        || kind.ends_with("_tool_use")
        || kind.ends_with("_tool_result")
        || kind == "compaction" && !item.contains_key("encrypted_content")
}

/// Whether a type is one of the Responses API only.
fn is_item(kind: &str, item: &Object) -> bool {
    matches!(kind, "reasoning" | "message" | "item_reference" | "mcp_list_tools")
        || kind.ends_with("_call")
        || kind.ends_with("_call_output")
        || kind.starts_with("mcp_approval_")
        || kind == "compaction" && item.contains_key("encrypted_content")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::content::OpaqueItem;

    fn origin(is_item: bool, json: &str) -> Origin {
        let position = Some(0);
        let item = OpaqueItem {
            precedes_part: position.filter(|_| is_item),
            part_index: position.filter(|_| !is_item),
            data: RawValue::from_string(json.to_owned()).expect("json"),
        };
        Origin { model: "p:m".into(), opaque: vec![item] }
    }

    #[test]
    fn opaque_data_belongs_to_one_api() {
        use OpaqueFormat::{Chat, Messages, None, Responses};
        for (is_item, json, expected) in [
            (true, r#"{"reasoning_details":[{"type":"x"}]}"#, Chat),
            (true, r#"{"reasoning":"r"}"#, Chat),
            (false, r#"{"extra_content":{"google":{}}}"#, Chat),
            (true, r#"{"type":"reasoning","encrypted_content":"e"}"#, Responses),
            (true, r#"{"type":"web_search_call","id":"ws_1"}"#, Responses),
            (true, r#"{"type":"mcp_list_tools","id":"m"}"#, Responses),
            (false, r#"{"id":"fc_2"}"#, Responses),
            (false, r#"{"id":"msg_2","phase":"commentary"}"#, Responses),
            (true, r#"{"type":"thinking","signature":"s"}"#, Messages),
            (true, r#"{"type":"redacted_thinking","data":"d"}"#, Messages),
            (true, r#"{"type":"server_tool_use","id":"srvtoolu_1"}"#, Messages),
            (true, r#"{"type":"web_search_tool_result"}"#, Messages),
        ] {
            for format in [Chat, Responses, Messages, None] {
                let is_format = format.is_format_of(&origin(is_item, json));
                assert_eq!(is_format, format == expected, "{format:?}: {json}");
            }
        }
        // Unknown data is sent back, unless it belongs to another API.
        let unknown = origin(true, r#"{"type":"novelty"}"#);
        assert!(Responses.is_format_of(&unknown) && Messages.is_format_of(&unknown));
        assert!(!Chat.is_format_of(&unknown));
    }
}
