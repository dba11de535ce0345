//! The contents of a conversation in the Gemini wire shape.
//!
//! A [`Part`] is the JSON object *as received*: key order, signatures and fields
//! we do not know come back unchanged. What we need to understand of it is a
//! [`PartView`], computed on demand. Building a request never re-creates a part
//! that the model sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::Object;

/// Who speaks. The wire knows only these two in `contents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, and the results of tools.
    User,
    /// The model.
    Model,
}

/// The signature accepted by the service in place of one that is not there:
/// for calls that we made ourselves or whose signature is lost.
pub const SYNTHETIC_SIGNATURE: &str = "skip_thought_signature_validator";

/// One part of a content: a JSON object as received.
///
/// A part that came from the wire and is more than plain text keeps its bytes
/// (numbers, escapes and blanks as the model wrote them) and is sent back so.
#[derive(Debug, Clone)]
pub struct Part {
    object: Object,
    raw: Option<Box<RawValue>>,
    /// Data of the provider, which is not part of the JSON.
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
    /// Works from JSON text (not from a `serde_json::Value`: use `From<Object>`).
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let object = read_object(raw.get()).map_err(serde::de::Error::custom)?;
        let mut part = Self { object, raw: None, opaque: None };
        // Plain text is the bulk of a stream and is joined anyway.
        if !part.is_joinable_text() {
            part.raw = Some(raw);
        }
        Ok(part)
    }
}

/// Reads a part's object. What JSON allows and our reader does not (half a
/// surrogate pair, a number beyond any float) is replaced for the view; the
/// bytes stay as they are.
fn read_object(json: &str) -> Result<Object, serde_json::Error> {
    serde_json::from_str(json).or_else(|error| {
        let repaired = crate::lenient::repaired(json);
        if repaired == json { Err(error) } else { serde_json::from_str(&repaired) }
    })
}

/// A function call as the model wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall<'a> {
    /// The server's id; the Developer API often sends none.
    pub id: Option<&'a str>,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments; `None` when absent or not an object.
    pub args: Option<&'a Object>,
    /// Whether there is something in the place of arguments, object or not.
    pub has_args: bool,
}

/// A function response as it stands in a user content.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionResponse<'a> {
    /// The id, present exactly when the call had one on the wire.
    pub id: Option<&'a str>,
    /// The tool's name as the model used it.
    pub name: &'a str,
    /// The response object.
    pub response: Option<&'a Value>,
}

/// What a [`Part`] says, borrowed from it.
#[derive(Debug, Clone, PartialEq)]
pub enum PartView<'a> {
    /// Text of the answer (may be empty, with a signature beside it).
    Text(&'a str),
    /// A thought summary: shown and recorded, never sent back.
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
        /// Where the file is.
        uri: &'a str,
    },
    /// Code that the service ran itself.
    Code,
    /// The result of such code.
    CodeResult,
    /// Anything this version does not know.
    Unknown,
}

impl Part {
    /// A plain text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::single("text", Value::String(text.into()))
    }

    /// An inline-data part from a MIME type and base64 text.
    pub fn inline_data(mime_type: impl Into<String>, base64: impl Into<String>) -> Self {
        let mut data = Object::new();
        data.insert("mimeType".into(), Value::String(mime_type.into()));
        data.insert("data".into(), Value::String(base64.into()));
        Self::single("inlineData", Value::Object(data))
    }

    /// A function call made by us (history repair, scripts), not by the model.
    pub fn function_call(id: Option<&str>, name: &str, args: Object) -> Self {
        let mut call = Object::new();
        if let Some(id) = id {
            call.insert("id".into(), Value::String(id.into()));
        }
        call.insert("name".into(), Value::String(name.into()));
        call.insert("args".into(), Value::Object(args));
        Self::single("functionCall", Value::Object(call))
    }

    /// A function response. `id` must be given exactly when the call on the
    /// wire carried one. `nested` are media parts for models that take them
    /// inside the response.
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
        Self::single("functionResponse", Value::Object(object))
    }

    fn single(key: &str, value: Value) -> Self {
        let mut object = Object::new();
        object.insert(key.into(), value);
        Self::from(object)
    }

    /// The JSON object, read-only: a part is never edited in place.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// A copy without the named top-level key, for repairs that must drop one.
    pub fn without(&self, key: &str) -> Self {
        let mut object = self.object.clone();
        object.shift_remove(key);
        Self::from(object)
    }

    /// A copy with `thoughtSignature` set to the given text.
    pub fn with_signature(&self, signature: &str) -> Self {
        let mut object = self.object.clone();
        object.insert("thoughtSignature".into(), Value::String(signature.into()));
        Self::from(object)
    }

    /// A copy in which texts are changed, wherever they stand; `None` where `change`
    /// wants none changed. Names of fields stay.
    pub fn with_texts(&self, change: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        fn walk(value: &mut Value, change: &dyn Fn(&str) -> Option<String>) -> bool {
            match value {
                Value::String(text) => match change(text) {
                    Some(other) => {
                        *text = other;
                        true
                    }
                    None => false,
                },
                // Not `any`: all are to be changed.
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

    /// The text of a plain text part, without a copy.
    pub fn into_text(mut self) -> Option<String> {
        match self.object.get_mut("text") {
            Some(Value::String(text)) => Some(std::mem::take(text)),
            _ => None,
        }
    }

    /// Data that only the provider understands and that must be sent back to it unchanged. It is
    /// not part of the JSON: see [`Content::seal_for`].
    pub fn opaque(&self) -> Option<&RawValue> {
        self.opaque.as_deref()
    }

    /// The part with data of the provider.
    pub fn with_opaque(mut self, data: Option<Box<RawValue>>) -> Self {
        self.opaque = data;
        self
    }

    /// A thought whose text was sent before, with the provider's data about it.
    pub fn opaque_thought(data: Box<RawValue>) -> Self {
        let mut part = Self::text("");
        part.object.insert("thought".into(), Value::Bool(true));
        part.with_opaque(Some(data))
    }

    /// The thought signature that rides on this part, if any.
    pub fn signature(&self) -> Option<&str> {
        self.object.get("thoughtSignature").and_then(Value::as_str)
    }

    /// Whether this is a thought summary.
    pub fn is_thought(&self) -> bool {
        self.object.get("thought").and_then(Value::as_bool) == Some(true)
    }

    /// Reads the part. A part with several payloads is seen by the first of
    /// call, response, text, inline, file, code.
    pub fn view(&self) -> PartView<'_> {
        let object = &self.object;
        if let Some(call) = object.get("functionCall").and_then(Value::as_object) {
            return PartView::Call(FunctionCall {
                id: call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()),
                name: call.get("name").and_then(Value::as_str).unwrap_or(""),
                args: call.get("args").and_then(Value::as_object),
                has_args: call.get("args").is_some_and(|args| !args.is_null()),
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

    /// Whether the part is a plain text (or plain thought) with nothing else
    /// on it, so that the next chunk's plain text may be joined to it.
    pub fn is_joinable_text(&self) -> bool {
        self.object.get("text").is_some_and(Value::is_string)
            && self.object.keys().all(|key| key == "text" || key == "thought")
    }

    /// Joins the text of `next` to this part when neither carries a signature
    /// or another payload and both are thoughts or both are not. Gives `next`
    /// back when they must stay apart.
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

/// One content: a role and its parts, still open for reading and building.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Who speaks.
    pub role: Role,
    /// The parts, in arrival order.
    pub parts: Vec<Part>,
}

impl Content {
    /// A user content.
    pub fn user(parts: Vec<Part>) -> Self {
        Self { role: Role::User, parts }
    }
    /// A model content.
    pub fn model(parts: Vec<Part>) -> Self {
        Self { role: Role::Model, parts }
    }
    /// The visible text of all parts, thoughts left out.
    pub fn visible_text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            if let PartView::Text(piece) = part.view() {
                text.push_str(piece);
            }
        }
        text
    }
    /// The function calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = FunctionCall<'_>> {
        self.parts.iter().filter_map(|part| match part.view() {
            PartView::Call(call) => Some(call),
            _ => None,
        })
    }
    /// Fixes the bytes of this content for good.
    pub fn seal(&self) -> Sealed {
        // A map of strings and values cannot fail to serialise.
        let json =
            serde_json::value::to_raw_value(self).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Sealed::known(self.role, json)
    }
}

impl Content {
    /// Fixes the bytes of a model content, and keeps the provider's data beside them: thoughts
    /// that carry some leave the JSON. `model` is the model's full name.
    pub fn seal_for(mut self, model: &str) -> Sealed {
        let mut opaque = Vec::new();
        let mut at = 0;
        self.parts.retain_mut(|part| {
            let data = part.opaque.take();
            if part.is_thought() && part.object.get("functionCall").is_none() {
                opaque.extend(data.map(|data| OpaqueItem { before: Some(at), on: None, data }));
                return false;
            }
            opaque.extend(data.map(|data| OpaqueItem { before: None, on: Some(at), data }));
            at += 1;
            true
        });
        self.seal().with_origin(model, opaque)
    }
}

/// Data of a provider about one place of a content. The provider alone understands it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpaqueItem {
    /// It stands on its own, before the part of this index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// It belongs to the part of this index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<usize>,
    /// The data, as received.
    pub data: Box<RawValue>,
}

/// Where a model content comes from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The full name of the model: `provider:model`, or a plain name of the Gemini API.
    pub model: String,
    /// Data for the same provider and model.
    pub opaque: Vec<OpaqueItem>,
}

impl Origin {
    /// The data before the part of an index.
    pub fn before(&self, index: usize) -> impl Iterator<Item = &RawValue> {
        self.opaque.iter().filter(move |item| item.before == Some(index)).map(|item| &*item.data)
    }

    /// The data that belongs to the part of an index.
    pub fn on(&self, index: usize) -> Option<&RawValue> {
        self.opaque.iter().find(|item| item.on == Some(index)).map(|item| &*item.data)
    }
}

/// A content whose JSON bytes are final. History, requests and the journal
/// hold these, so that what was sent once is sent again byte for byte, and a
/// request is built by copying.
#[derive(Debug, Clone)]
pub struct Sealed {
    inner: Arc<Bytes>,
    /// `None`: the content has the dialect of the Gemini API and nothing beside it.
    origin: Option<Arc<Origin>>,
}

/// In a struct of its own, so that sharing a large content does not copy it.
#[derive(Debug)]
struct Bytes {
    role: Role,
    json: Box<RawValue>,
}

impl Sealed {
    /// Takes a content in JSON as it stands (from a journal or an import).
    ///
    /// # Errors
    /// When the text is not a content object with a known role.
    pub fn from_json(json: Box<RawValue>) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            role: Role,
        }
        let head: Head = serde_json::from_str(json.get())?;
        Ok(Self::known(head.role, json))
    }
    /// A content that is known to be one, with its role.
    pub(crate) fn known(role: Role, json: Box<RawValue>) -> Self {
        Self { inner: Arc::new(Bytes { role, json }), origin: None }
    }
    /// The content with its model and the provider's data. Nothing is kept for a model of the
    /// Gemini API without such data.
    pub fn with_origin(mut self, model: &str, opaque: Vec<OpaqueItem>) -> Self {
        if !opaque.is_empty() || model.contains(':') {
            self.origin = Some(Arc::new(Origin { model: model.to_owned(), opaque }));
        }
        self
    }
    /// The model and its provider's data, where they matter.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }
    /// Who speaks.
    pub fn role(&self) -> Role {
        self.inner.role
    }
    /// The JSON text.
    pub fn json(&self) -> &str {
        self.inner.json.get()
    }
    /// The JSON as a raw value, to be embedded in a larger document.
    pub fn raw(&self) -> &RawValue {
        &self.inner.json
    }
    /// Reads the content again.
    ///
    /// # Errors
    /// When an imported content has no parts array.
    pub fn open(&self) -> Result<Content, serde_json::Error> {
        serde_json::from_str(self.json())
    }
}

impl PartialEq for Sealed {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for Sealed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.inner.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sealed {
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
    fn unknown_fields_and_key_order_survive() {
        let json = r#"{"zeta":1,"thoughtSignature":"c2ln","functionCall":{"args":{"b":1.00, "a":123456789012345678901234567890},"name":"x"},"alpha":null}"#;
        let content = Content::model(vec![part(json)]);
        assert_eq!(content.seal().json(), format!(r#"{{"role":"model","parts":[{json}]}}"#));
    }

    #[test]
    fn texts_change_wherever_they_stand_and_other_parts_keep_their_bytes() {
        let call = part(
            r#"{"thoughtSignature":"s","functionCall":{"name":"x","args":{"a":["k","b k"],"n":1}}}"#,
        );
        let change = |text: &str| text.contains('k').then(|| text.replace('k', "-"));
        let changed = call.with_texts(&change).expect("changed");
        let expected = r#"{"thoughtSignature":"s","functionCall":{"name":"x","args":{"a":["-","b -"],"n":1}}}"#;
        assert_eq!(changed, part(expected));
        assert_eq!(part(r#"{"text":"t"}"#).with_texts(&change), None);
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
    fn data_of_a_provider_stays_beside_the_json() {
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
        assert_eq!(origin.before(0).map(RawValue::get).collect::<Vec<_>>(), [r#"{"sig": 1}"#]);
        assert_eq!(origin.on(1).map(RawValue::get), Some("7"));
        assert_eq!(origin.before(2).map(RawValue::get).collect::<Vec<_>>(), [r#""end""#]);
        assert!(Content::model(vec![Part::text("a")]).seal_for("gemini-3").origin().is_none());
    }

    #[test]
    fn a_part_that_a_strict_reader_refuses_is_kept() {
        let json = r#"{"functionCall":{"name":"x","args":{"n":1e400,"s":"\ud83d!"}}}"#;
        let call = part(json);
        assert_eq!(serde_json::to_string(&call).expect("json"), json);
        assert!(matches!(call.view(), PartView::Call(call) if call.args.is_some()));
        assert_eq!(part(r#"{"text":"a \ud83d b"}"#).view(), PartView::Text("a \u{fffd} b"));
    }

    #[test]
    fn sealed_contents_come_back_byte_equal() {
        let text = r#"{"parts":[{"text":"\u0041 \/"}],"role":"user","extra":[1, 2]}"#;
        let raw = RawValue::from_string(text.to_owned()).expect("json");
        let sealed = Sealed::from_json(raw).expect("content");
        assert_eq!(serde_json::to_string(&sealed).expect("json"), text);
    }
}
