//! Conversation contents in the wire format of the Gemini API.
//!
//! A [`Part`] is the JSON object *as received*: key order, signatures, and unknown fields are
//! preserved. [`PartView`] is a typed view of a part, computed on demand. Building a request never
//! re-creates a part that the model sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::Object;

/// The author of a content. The wire format allows only these two values in `contents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user, including tool results.
    User,
    /// The model.
    Model,
}

/// The signature that the service accepts in place of a missing one: for calls that Parallax
/// created itself or whose signature was lost.
pub const SYNTHETIC_SIGNATURE: &str = "skip_thought_signature_validator";

/// One part of a content: a JSON object as received.
///
/// A part that came from the wire and is more than plain text keeps its exact bytes (numbers,
/// escapes, and whitespace as the model wrote them) and is sent back unchanged.
#[derive(Debug, Clone)]
pub struct Part {
    object: Object,
    raw: Option<Box<RawValue>>,
    /// Provider data that is not part of the JSON.
    opaque: Option<Box<RawValue>>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl From<Object> for Part {
    fn from(object: Object) -> Self {
        Self { object, raw: None, opaque: None }
    }
}

impl Serialize for Part {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.raw {
            Some(raw) => raw.serialize(serializer),
            None => self.object.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    /// Deserializes from JSON text only. To convert a `serde_json::Value`, use `From<Object>`.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let object = read_object(raw.get()).map_err(serde::de::Error::custom)?;
        let mut part = Self { object, raw: None, opaque: None };
        // Plain text makes up most of a stream and is joined with other text, so its bytes are not
        // kept.
        if !part.is_joinable_text() {
            part.raw = Some(raw);
        }
        Ok(part)
    }
}

/// Parses the object of a part. Valid JSON that `serde_json` rejects (a lone surrogate, a number
/// outside the range of `f64`) is replaced in the parsed view; the raw bytes stay unchanged.
fn read_object(json: &str) -> Result<Object, serde_json::Error> {
    serde_json::from_str(json).or_else(|error| {
        let repaired = crate::lenient::repair_json(json);
        if repaired == json { Err(error) } else { serde_json::from_str(&repaired) }
    })
}

/// A function call as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall<'a> {
    /// The call id assigned by the service; the Developer API often omits it.
    pub id: Option<&'a str>,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments; `None` when absent or not an object.
    pub args: Option<&'a Object>,
    /// `args` when it is neither absent, null, nor an object: the model's text if that was not
    /// valid JSON.
    pub malformed_args: Option<&'a Value>,
}

/// A function response in a user content.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionResponse<'a> {
    /// The id; present exactly when the call had one on the wire.
    pub id: Option<&'a str>,
    /// The tool's name as the model used it.
    pub name: &'a str,
    /// The response object.
    pub response: Option<&'a Value>,
}

/// A typed view of a [`Part`], borrowed from it.
#[derive(Debug, Clone, PartialEq)]
pub enum PartView<'a> {
    /// Answer text; may be empty when the part carries a signature.
    Text(&'a str),
    /// A thought summary: shown and recorded, but never sent back to the model.
    Thought(&'a str),
    /// A function call.
    Call(FunctionCall<'a>),
    /// A function response.
    Response(FunctionResponse<'a>),
    /// Inline data: MIME type and base64.
    Inline {
        /// The MIME type.
        mime_type: &'a str,
        /// The bytes in base64.
        data: &'a str,
    },
    /// A reference to an uploaded file.
    File {
        /// The URI of the file.
        uri: &'a str,
    },
    /// Code that the service executed.
    Code,
    /// The result of code that the service executed.
    CodeResult,
    /// A part of a kind that this version does not recognize.
    Unknown,
}

impl Part {
    /// Creates a plain text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_entry("text", Value::String(text.into()))
    }

    /// Creates an inline-data part from a MIME type and base64 text.
    pub fn inline_data(mime_type: impl Into<String>, base64: impl Into<String>) -> Self {
        let mut data = Object::new();
        data.insert("mimeType".into(), Value::String(mime_type.into()));
        data.insert("data".into(), Value::String(base64.into()));
        Self::from_entry("inlineData", Value::Object(data))
    }

    /// Creates a function call that does not come from the model, for history repair and scripts.
    pub fn function_call(id: Option<&str>, name: &str, args: Object) -> Self {
        let mut call = Object::new();
        if let Some(id) = id {
            call.insert("id".into(), Value::String(id.into()));
        }
        call.insert("name".into(), Value::String(name.into()));
        call.insert("args".into(), Value::Object(args));
        Self::from_entry("functionCall", Value::Object(call))
    }

    /// Creates a function response. `id` must be given exactly when the call on the wire had one.
    /// `nested` contains media parts, for models that accept them inside the response.
    pub fn function_response(
        id: Option<&str>,
        name: &str,
        response: Object,
        nested: Vec<Part>,
    ) -> Self {
        let mut object = Object::new();
        if let Some(id) = id {
            object.insert("id".into(), Value::String(id.into()));
        }
        object.insert("name".into(), Value::String(name.into()));
        object.insert("response".into(), Value::Object(response));
        if !nested.is_empty() {
            let parts = nested.into_iter().map(|part| Value::Object(part.object));
            object.insert("parts".into(), Value::Array(parts.collect()));
        }
        Self::from_entry("functionResponse", Value::Object(object))
    }

    fn from_entry(key: &str, value: Value) -> Self {
        let mut object = Object::new();
        object.insert(key.into(), value);
        Self::from(object)
    }

    /// Returns the JSON object. It is read-only: a part is never edited in place.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Returns a copy without the given top-level key, for repairs.
    pub fn without_key(&self, key: &str) -> Self {
        let mut object = self.object.clone();
        object.shift_remove(key);
        Self::from(object)
    }

    /// Returns a copy with `thoughtSignature` set to `signature`.
    pub fn with_signature(&self, signature: &str) -> Self {
        let mut object = self.object.clone();
        object.insert("thoughtSignature".into(), Value::String(signature.into()));
        Self::from(object)
    }

    /// Returns a copy in which `change` has replaced string values at any depth, or `None` if it
    /// changed none. Field names are left unchanged.
    pub fn map_text(&self, change: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        fn walk(value: &mut Value, change: &dyn Fn(&str) -> Option<String>) -> bool {
            match value {
                Value::String(text) => match change(text) {
                    Some(other) => {
                        *text = other;
                        true
                    }
                    None => false,
                },
                // `fold` instead of `any`: every value must be visited.
                Value::Array(values) => {
                    values.iter_mut().fold(false, |changed, value| walk(value, change) | changed)
                }
                Value::Object(fields) => {
                    fields.values_mut().fold(false, |changed, value| walk(value, change) | changed)
                }
                _ => false,
            }
        }
        let mut whole = Value::Object(self.object.clone());
        match (walk(&mut whole, change), whole) {
            (true, Value::Object(object)) => Some(Self::from(object)),
            _ => None,
        }
    }

    /// Returns the text of a text part without copying it.
    pub fn into_text(mut self) -> Option<String> {
        match self.object.get_mut("text") {
            Some(Value::String(text)) => Some(std::mem::take(text)),
            _ => None,
        }
    }

    /// Returns data that only the provider understands and that must be sent back to it unchanged.
    /// It is not part of the JSON; see [`Content::seal_for`].
    pub fn opaque_data(&self) -> Option<&RawValue> {
        self.opaque.as_deref()
    }

    /// Returns the part with the given provider data.
    pub fn with_opaque(mut self, data: Option<Box<RawValue>>) -> Self {
        self.opaque = data;
        self
    }

    /// Creates a thought part with provider data and empty text, because the text was streamed
    /// before.
    pub fn opaque_thought(data: Box<RawValue>) -> Self {
        let mut part = Self::text("");
        part.object.insert("thought".into(), Value::Bool(true));
        part.with_opaque(Some(data))
    }

    /// Returns the thought signature of this part, if any.
    pub fn signature(&self) -> Option<&str> {
        self.object.get("thoughtSignature").and_then(Value::as_str)
    }

    /// Whether this part is a thought summary.
    pub fn is_thought(&self) -> bool {
        self.object.get("thought").and_then(Value::as_bool) == Some(true)
    }

    /// Returns the typed view. If a part has several payloads, the first of call, response, text,
    /// inline data, file, and code is used.
    pub fn view(&self) -> PartView<'_> {
        let object = &self.object;
        if let Some(call) = object.get("functionCall").and_then(Value::as_object) {
            return PartView::Call(FunctionCall {
                id: call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()),
                name: call.get("name").and_then(Value::as_str).unwrap_or(""),
                args: call.get("args").and_then(Value::as_object),
                malformed_args: call
                    .get("args")
                    .filter(|args| !args.is_null() && !args.is_object()),
            });
        }
        if let Some(response) = object.get("functionResponse").and_then(Value::as_object) {
            return PartView::Response(FunctionResponse {
                id: response.get("id").and_then(Value::as_str),
                name: response.get("name").and_then(Value::as_str).unwrap_or(""),
                response: response.get("response"),
            });
        }
        if let Some(text) = object.get("text").and_then(Value::as_str) {
            return if self.is_thought() { PartView::Thought(text) } else { PartView::Text(text) };
        }
        if let Some(data) = object.get("inlineData").and_then(Value::as_object) {
            return PartView::Inline {
                mime_type: data.get("mimeType").and_then(Value::as_str).unwrap_or(""),
                data: data.get("data").and_then(Value::as_str).unwrap_or(""),
            };
        }
        if let Some(file) = object.get("fileData").and_then(Value::as_object) {
            return PartView::File {
                uri: file.get("fileUri").and_then(Value::as_str).unwrap_or(""),
            };
        }
        if object.contains_key("executableCode") {
            return PartView::Code;
        }
        if object.contains_key("codeExecutionResult") {
            return PartView::CodeResult;
        }
        PartView::Unknown
    }

    /// Whether the part contains only plain text or a plain thought, so that the next plain text
    /// chunk may be joined to it.
    pub fn is_joinable_text(&self) -> bool {
        self.object.get("text").is_some_and(Value::is_string)
            && self.object.keys().all(|key| key == "text" || key == "thought")
    }

    /// Joins the text of `next` to this part if both contain only text and both or neither are
    /// thoughts.
    ///
    /// # Errors
    /// Returns `next` if the parts must stay separate.
    pub fn try_join(&mut self, next: Part) -> Result<(), Part> {
        if self.opaque.is_some()
            || !self.is_joinable_text()
            || !next.is_joinable_text()
            || self.is_thought() != next.is_thought()
        {
            return Err(next);
        }
        match (self.object.get_mut("text"), next.object.get("text")) {
            (Some(Value::String(text)), Some(Value::String(more))) => {
                text.push_str(more);
                self.opaque = next.opaque;
                Ok(())
            }
            _ => Err(next),
        }
    }
}

/// One content: a role and its parts, in readable and editable form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// The author.
    pub role: Role,
    /// The parts, in arrival order.
    pub parts: Vec<Part>,
}

impl Content {
    /// Creates a user content.
    pub fn user(parts: Vec<Part>) -> Self {
        Self { role: Role::User, parts }
    }
    /// Creates a model content.
    pub fn model(parts: Vec<Part>) -> Self {
        Self { role: Role::Model, parts }
    }
    /// Returns the text of all parts without thoughts.
    pub fn visible_text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if let PartView::Text(piece) = part.view() {
                text.push_str(piece);
            }
        }
        text
    }
    /// Returns the function calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = FunctionCall<'_>> {
        self.parts.iter().filter_map(|part| match part.view() {
            PartView::Call(call) => Some(call),
            _ => None,
        })
    }
    /// Serializes this content and fixes its bytes.
    pub fn seal(&self) -> SealedContent {
        // Serializing a map of strings and JSON values cannot fail.
        let json =
            serde_json::value::to_raw_value(self).unwrap_or_else(|_| RawValue::NULL.to_owned());
        SealedContent::from_valid_json(self.role, json)
    }
}

impl Content {
    /// Fixes the bytes of a model content and stores the provider data next to them. Thoughts are
    /// removed from the JSON; their data is kept. `model` is the full name of the model.
    pub fn seal_for(&self, model: &str) -> SealedContent {
        if !self.parts.iter().any(|part| part.opaque.is_some() || part.is_thought()) {
            return self.seal().with_origin(model, Vec::new());
        }
        let mut content = self.clone();
        let mut opaque = Vec::new();
        let mut at = 0;
        content.parts.retain_mut(|part| {
            let data = part.opaque.take();
            if part.is_thought() && part.object.get("functionCall").is_none() {
                opaque.extend(data.map(|data| OpaqueItem {
                    precedes_part: Some(at),
                    part_index: None,
                    data,
                }));
                return false;
            }
            opaque.extend(data.map(|data| OpaqueItem {
                precedes_part: None,
                part_index: Some(at),
                data,
            }));
            at += 1;
            true
        });
        content.seal().with_origin(model, opaque)
    }
}

/// Provider data for one position in a content. Only the provider understands it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpaqueItem {
    /// Index of the part that this standalone item precedes.
    #[serde(rename = "before", default, skip_serializing_if = "Option::is_none")]
    pub precedes_part: Option<usize>,
    /// Index of the part that this item belongs to.
    #[serde(rename = "on", default, skip_serializing_if = "Option::is_none")]
    pub part_index: Option<usize>,
    /// The data, as received.
    pub data: Box<RawValue>,
}

/// The model that produced a content.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The full name of the model: `provider:model`, or a plain name of the Gemini API.
    pub model: String,
    /// Provider data, to be sent only to the same provider and model.
    pub opaque: Vec<OpaqueItem>,
}

impl Origin {
    /// Returns the standalone data that precedes the part at `index`.
    pub fn standalone_before(&self, index: usize) -> impl Iterator<Item = &RawValue> {
        self.opaque
            .iter()
            .filter(move |item| item.precedes_part == Some(index))
            .map(|item| &*item.data)
    }

    /// Returns the data that belongs to the part at `index`.
    pub fn part_data(&self, index: usize) -> Option<&RawValue> {
        self.opaque.iter().find(|item| item.part_index == Some(index)).map(|item| &*item.data)
    }
}

/// A content whose JSON bytes are final. The history, requests, and the journal hold sealed
/// contents, so that a content is always sent byte for byte as it was first sent, and a request is
/// built by copying.
#[derive(Debug, Clone)]
pub struct SealedContent {
    inner: Arc<ContentBytes>,
    /// `None` if the content was produced in the format of the Gemini API and has no provider data.
    origin: Option<Arc<Origin>>,
}

/// A separate struct, so that cloning a [`SealedContent`] shares the bytes.
#[derive(Debug)]
struct ContentBytes {
    role: Role,
    json: Box<RawValue>,
}

impl SealedContent {
    /// Creates a sealed content from the JSON of a journal or an import, keeping its bytes.
    ///
    /// # Errors
    /// Returns an error if the text is not a content object with a known role.
    pub fn from_json(json: Box<RawValue>) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            role: Role,
        }
        let head: Head = serde_json::from_str(json.get())?;
        Ok(Self::from_valid_json(head.role, json))
    }
    /// Creates a sealed content from JSON that is known to be a content with this role.
    pub(crate) fn from_valid_json(role: Role, json: Box<RawValue>) -> Self {
        Self { inner: Arc::new(ContentBytes { role, json }), origin: None }
    }
    /// Returns the content with its model and provider data. The origin is not stored for a model
    /// of the Gemini API without provider data.
    pub fn with_origin(mut self, model: &str, opaque: Vec<OpaqueItem>) -> Self {
        if !opaque.is_empty() || model.contains(':') {
            self.origin = Some(Arc::new(Origin { model: model.to_owned(), opaque }));
        }
        self
    }
    /// Returns the origin, if it is relevant for later requests.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }
    /// Returns the author.
    pub fn role(&self) -> Role {
        self.inner.role
    }
    /// Returns the JSON text.
    pub fn json(&self) -> &str {
        self.inner.json.get()
    }
    /// Returns the JSON as a raw value, for embedding in a larger document.
    pub fn raw_json(&self) -> &RawValue {
        &self.inner.json
    }
    /// Parses the content.
    ///
    /// # Errors
    /// Returns an error if an imported content has no `parts` array.
    pub fn open(&self) -> Result<Content, serde_json::Error> {
        serde_json::from_str(self.json())
    }
}

impl PartialEq for SealedContent {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for SealedContent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.inner.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SealedContent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(raw).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(json: &str) -> Part {
        serde_json::from_str(json).expect("a part")
    }

    #[test]
    fn unknown_fields_and_key_order_are_kept() {
        let json = r#"{"zeta":1,"thoughtSignature":"c2ln","functionCall":{"args":{"b":1.00, "a":123456789012345678901234567890},"name":"x"},"alpha":null}"#;
        let content = Content::model(vec![part(json)]);
        assert_eq!(content.seal().json(), format!(r#"{{"role":"model","parts":[{json}]}}"#));
    }

    #[test]
    fn text_changes_keep_the_bytes_of_other_parts() {
        let call = part(
            r#"{"thoughtSignature":"s","functionCall":{"name":"x","args":{"a":["k","b k"],"n":1}}}"#,
        );
        let change = |text: &str| text.contains('k').then(|| text.replace('k', "-"));
        let changed = call.map_text(&change).expect("changed");
        let expected = r#"{"thoughtSignature":"s","functionCall":{"name":"x","args":{"a":["-","b -"],"n":1}}}"#;
        assert_eq!(changed, part(expected));
        assert_eq!(part(r#"{"text":"t"}"#).map_text(&change), None);
    }

    #[test]
    fn signed_text_is_never_joined() {
        let mut plain = part(r#"{"text":"a"}"#);
        assert!(plain.try_join(part(r#"{"text":"b"}"#)).is_ok());
        assert_eq!(plain, part(r#"{"text":"ab"}"#));
        assert!(plain.try_join(part(r#"{"text":"","thoughtSignature":"s"}"#)).is_err());
        assert!(plain.try_join(part(r#"{"text":"t","thought":true}"#)).is_err());
    }

    #[test]
    fn provider_data_is_stored_next_to_the_json() {
        let data = |text: &str| RawValue::from_string(text.to_owned()).expect("json");
        let content = Content::model(vec![
            Part::opaque_thought(data(r#"{"sig": 1}"#)),
            Part::text("a"),
            part(r#"{"functionCall":{"name":"x","args":{}}}"#).with_opaque(Some(data("7"))),
            Part::opaque_thought(data(r#""end""#)),
        ]);
        let sealed = content.seal_for("p:m");
        assert_eq!(
            sealed.json(),
            r#"{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"x","args":{}}}]}"#
        );
        let origin = sealed.origin().expect("an origin");
        assert_eq!(origin.model, "p:m");
        assert_eq!(
            origin.standalone_before(0).map(RawValue::get).collect::<Vec<_>>(),
            [r#"{"sig": 1}"#]
        );
        assert_eq!(origin.part_data(1).map(RawValue::get), Some("7"));
        assert_eq!(
            origin.standalone_before(2).map(RawValue::get).collect::<Vec<_>>(),
            [r#""end""#]
        );
        assert!(Content::model(vec![Part::text("a")]).seal_for("gemini-3").origin().is_none());
    }

    #[test]
    fn part_rejected_by_a_strict_parser_is_kept() {
        let json = r#"{"functionCall":{"name":"x","args":{"n":1e400,"s":"\ud83d!"}}}"#;
        let call = part(json);
        assert_eq!(serde_json::to_string(&call).expect("json"), json);
        assert!(matches!(call.view(), PartView::Call(call) if call.args.is_some()));
        assert_eq!(part(r#"{"text":"a \ud83d b"}"#).view(), PartView::Text("a \u{fffd} b"));
    }

    #[test]
    fn sealed_contents_round_trip_byte_for_byte() {
        let text = r#"{"parts":[{"text":"\u0041 \/"}],"role":"user","extra":[1, 2]}"#;
        let raw = RawValue::from_string(text.to_owned()).expect("json");
        let sealed = SealedContent::from_json(raw).expect("content");
        assert_eq!(serde_json::to_string(&sealed).expect("json"), text);
    }
}
