//! Parses the script file of the model server into replies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// A script that cannot be parsed.
#[derive(Debug)]
pub struct ScriptError(String);

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ScriptError {}

/// The API methods that can be scripted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Method {
    /// `:streamGenerateContent`.
    StreamGenerateContent,
    /// `:generateContent`.
    GenerateContent,
    /// `:countTokens`.
    CountTokens,
}

/// All replies of a server, and the checks that are disabled for it.
#[derive(Debug, Default)]
pub struct Script {
    pub(crate) replies: Vec<Reply>,
    pub(crate) ignore: BTreeSet<String>,
    /// JSON responses by path, for requests that are not addressed to a model.
    pub(crate) documents: BTreeMap<String, Value>,
}

/// One scripted reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) method: Option<Method>,
    pub(crate) matches: Match,
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: ReplyBody,
    /// How often it is used; 0 means without limit.
    pub(crate) repeat: u64,
    pub(crate) split: usize,
    pub(crate) coalesce: usize,
    pub(crate) eol: &'static str,
    pub(crate) is_used: bool,
    pub(crate) json_array: bool,
}

/// The conditions that a request must meet for a reply.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Match {
    /// A string in a function response of the last content contains this text.
    #[serde(default)]
    pub(crate) last_tool_result_contains: Option<String>,
    /// A text part of the last content contains this text.
    #[serde(default)]
    pub(crate) prompt_contains: Option<String>,
    /// A text of the system instruction contains this text.
    #[serde(default)]
    pub(crate) system_contains: Option<String>,
    /// The model name contains this text.
    #[serde(default)]
    pub(crate) model_contains: Option<String>,
}

/// The body of a reply.
#[derive(Debug)]
pub(crate) enum ReplyBody {
    /// Scripted pieces.
    Chunks(Vec<StreamElement>),
    /// A JSON error document.
    Error(Value),
    /// Generated text.
    Generate { chunks: u64, bytes: u64 },
    /// Calls until the count is reached, then a text.
    Loop(Loop),
}

impl Default for ReplyBody {
    fn default() -> Self {
        Self::Chunks(Vec::new())
    }
}

/// A series of steps with one call (or `parallel` calls) each. `{i}` in a string of `args` is the
/// number of the call from 0.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Loop {
    pub(crate) calls: u64,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) args: Map<String, Value>,
    #[serde(rename = "final", default)]
    pub(crate) final_text: String,
    #[serde(default = "one")]
    pub(crate) parallel: u64,
    /// Whether the first call of a step has a signature.
    #[serde(default)]
    pub(crate) signed: bool,
}

/// An element of a stream.
#[derive(Debug, Clone)]
pub(crate) enum StreamElement {
    /// A response document on one line, as written in the script.
    Response(String),
    /// Raw bytes without framing.
    Raw(Vec<u8>),
    /// A pause in milliseconds.
    Wait(u64),
    /// Waits until the test opens the gate.
    Gate(String),
    /// Ends the connection.
    Cut(ConnectionCut),
    /// Sends nothing more until the client disconnects.
    Hang,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionCut {
    /// By a reset.
    Reset,
    /// Closed without the end of the body.
    Close,
    /// Closed in the middle of an announced chunk.
    MidChunk,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    #[serde(default)]
    method: Option<Method>,
    #[serde(default, rename = "match")]
    matches: Match,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    chunks: Option<Vec<Box<RawValue>>>,
    /// A reply that consists of this text.
    #[serde(default)]
    text: Option<String>,
    /// A reply that consists of these calls.
    #[serde(default)]
    calls: Option<Vec<Value>>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    generate: Option<Generate>,
    #[serde(default, rename = "loop")]
    looped: Option<Loop>,
    #[serde(default = "one")]
    repeat: u64,
    #[serde(default)]
    split: usize,
    #[serde(default)]
    coalesce: usize,
    #[serde(default)]
    eol: Option<String>,
    #[serde(rename = "done", default)]
    is_used: bool,
    #[serde(default)]
    json_array: bool,
    /// A comment for readers of the script.
    #[serde(default, rename = "comment")]
    _comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Generate {
    chunks: u64,
    bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    replies: Vec<Box<RawValue>>,
    #[serde(default)]
    ignore: BTreeSet<String>,
    #[serde(default)]
    documents: BTreeMap<String, Value>,
    #[serde(default, rename = "comment")]
    _comment: Option<String>,
}

impl Script {
    /// Parses a script: a JSON array of replies, an object `{"replies": […], "ignore": ["prefix",
    /// …], "documents": {"/path": …}}`, or one reply per line.
    ///
    /// # Errors
    /// Returns an error if the text has another format; the message contains the number of the
    /// reply, from 1.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for document in serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>() {
            let document = document.map_err(|error| ScriptError(format!("script: {error}")))?;
            script.add_document(&document)?;
        }
        Ok(script)
    }

    /// Reads a script file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a script.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ScriptError(format!("cannot read `{}`: {error}", path.display())))?;
        Self::parse(&text).map_err(|error| ScriptError(format!("`{}`: {error}", path.display())))
    }

    /// Creates a script with one text reply, used without limit.
    pub fn text(text: &str) -> Self {
        let mut script = Self::default();
        let pieces = vec![StreamElement::Response(text_response(text, true))];
        script.replies.push(Reply {
            body: ReplyBody::Chunks(pieces),
            eol: "\r\n",
            ..Reply::default()
        });
        script
    }

    fn add_document(&mut self, document: &RawValue) -> Result<(), ScriptError> {
        let text = document.get();
        if text.starts_with('[') {
            let items: Vec<Box<RawValue>> =
                serde_json::from_str(text).map_err(|error| ScriptError(error.to_string()))?;
            return items.iter().try_for_each(|item| self.add_reply(item.get()));
        }
        let keys: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| ScriptError(format!("script: not an object or array: {error}")))?;
        if keys.contains_key("replies") || keys.contains_key("ignore") {
            let document: Document = serde_json::from_str(text)
                .map_err(|error| ScriptError(format!("script: {error}")))?;
            self.ignore.extend(document.ignore);
            self.documents.extend(document.documents);
            return document.replies.iter().try_for_each(|item| self.add_reply(item.get()));
        }
        self.add_reply(text)
    }

    fn add_reply(&mut self, text: &str) -> Result<(), ScriptError> {
        let number = self.replies.len() + 1;
        let reply =
            read_reply(text).map_err(|error| ScriptError(format!("reply {number}: {error}")))?;
        self.replies.push(reply);
        Ok(())
    }
}

fn read_reply(text: &str) -> Result<Reply, String> {
    let raw: RawReply = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut bodies = Vec::new();
    if let Some(chunks) = raw.chunks {
        let pieces: Result<_, _> = chunks.iter().map(|chunk| read_piece(chunk.get())).collect();
        bodies.push(ReplyBody::Chunks(pieces?));
    }
    if let Some(text) = raw.text {
        bodies.push(ReplyBody::Chunks(vec![StreamElement::Response(text_response(&text, true))]));
    }
    if let Some(calls) = raw.calls {
        let parts: Vec<Value> =
            calls.into_iter().map(|call| json!({ "functionCall": call })).collect();
        bodies.push(ReplyBody::Chunks(vec![StreamElement::Response(response(&parts, true))]));
    }
    if let Some(error) = raw.error {
        bodies.push(ReplyBody::Error(error));
    }
    if let Some(generate) = raw.generate {
        bodies.push(ReplyBody::Generate { chunks: generate.chunks.max(1), bytes: generate.bytes });
    }
    if let Some(looped) = raw.looped {
        bodies.push(ReplyBody::Loop(looped));
    }
    if bodies.len() > 1 {
        return Err("more than one of chunks, text, calls, error, generate, loop".to_owned());
    }
    let body = bodies.pop().unwrap_or_default();
    // A loop is used until it has sent its final text once.
    let repeat = match &body {
        ReplyBody::Loop(looped) => looped.calls.saturating_add(1),
        _ => raw.repeat,
    };
    let headers = raw.headers.into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    });
    Ok(Reply {
        method: raw.method,
        matches: raw.matches,
        status: raw.status,
        headers: headers.collect(),
        body,
        repeat,
        split: raw.split,
        coalesce: raw.coalesce,
        eol: match raw.eol.as_deref() {
            None | Some("crlf") => "\r\n",
            Some("lf") => "\n",
            Some("cr") => "\r",
            Some(other) => return Err(format!("unknown eol `{other}`")),
        },
        is_used: raw.is_used,
        json_array: raw.json_array,
    })
}

fn read_piece(text: &str) -> Result<StreamElement, String> {
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("chunk: {error}"))?;
    let mut keys = object.iter();
    let (Some((key, value)), None) = (keys.next(), keys.next()) else {
        return Ok(StreamElement::Response(one_line(text)));
    };
    let string = || value.as_str().map(str::to_owned).ok_or(format!("`{key}` wants a string"));
    Ok(match key.as_str() {
        "raw" => StreamElement::Raw(string()?.into_bytes()),
        "raw_base64" => StreamElement::Raw(
            base64::engine::general_purpose::STANDARD
                .decode(string()?)
                .map_err(|error| format!("`raw_base64`: {error}"))?,
        ),
        "wait_ms" => StreamElement::Wait(value.as_u64().ok_or("`wait_ms` wants a number")?),
        "gate" => StreamElement::Gate(string()?),
        "hang" => StreamElement::Hang,
        "cut" => StreamElement::Cut(match value.as_str() {
            None | Some("reset") => ConnectionCut::Reset,
            Some("close") => ConnectionCut::Close,
            Some("mid_chunk") => ConnectionCut::MidChunk,
            Some(other) => return Err(format!("unknown cut `{other}`")),
        }),
        "text" => StreamElement::Response(text_response(&string()?, false)),
        "parts" => {
            // Keeps the exact bytes of the parts.
            #[derive(Deserialize)]
            struct Parts<'a> {
                #[serde(borrow)]
                parts: &'a RawValue,
            }
            let parts: Parts<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
            let parts = one_line(parts.parts.get());
            StreamElement::Response(format!(
                r#"{{"candidates":[{{"content":{{"parts":{parts},"role":"model"}},"index":0}}]}}"#
            ))
        }
        "finish" => {
            let finish = string()?;
            StreamElement::Response(
                json!({"candidates":[{"finishReason":finish,"index":0}]}).to_string(),
            )
        }
        _ => StreamElement::Response(one_line(text)),
    })
}

/// Returns a response document with the given parts.
pub(crate) fn response(parts: &[Value], stop: bool) -> String {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if stop && let Some(candidate) = candidate.as_object_mut() {
        candidate.insert("finishReason".into(), "STOP".into());
    }
    json!({ "candidates": [candidate] }).to_string()
}

/// Returns a response document with one text part.
pub(crate) fn text_response(text: &str, stop: bool) -> String {
    response(&[json!({ "text": text })], stop)
}

/// Joins multi-line JSON into one line: removes line breaks and the whitespace around them, and
/// keeps everything else.
fn one_line(text: &str) -> String {
    if !text.contains(['\n', '\r']) {
        return text.to_owned();
    }
    // Line breaks in JSON strings are always escaped, so every line break is between tokens.
    text.lines().map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_script_forms_are_parsed() {
        let array = Script::parse(r#"[{"text":"a"},{"calls":[{"name":"x","args":{}}]}]"#);
        assert_eq!(array.expect("array").replies.len(), 2);
        let lines = Script::parse("{\"text\":\"a\"}\n{\"generate\":{\"chunks\":2,\"bytes\":9}}\n");
        assert_eq!(lines.expect("lines").replies.len(), 2);
        let object = Script::parse(r#"{"replies":[{"hang":1}],"ignore":["prefix"]}"#);
        assert!(object.expect_err("unknown key").to_string().contains("reply 1"));
    }

    #[test]
    fn multiline_chunk_keeps_all_bytes_except_line_endings() {
        let script = Script::parse(
            "[{\"chunks\":[{\n  \"candidates\": [ 1.0,\n \"a  \\n b\" ],\n  \"x\":1 }]}]",
        );
        let script = script.expect("script");
        let ReplyBody::Chunks(pieces) = &script.replies[0].body else { panic!("chunks") };
        let StreamElement::Response(text) = &pieces[0] else { panic!("response") };
        assert_eq!(text, r#"{"candidates": [ 1.0,"a  \n b" ],"x":1 }"#);
    }
}
