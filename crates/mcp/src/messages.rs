//! Parses the messages from servers as far as possible. An unreadable answer fails its request,
//! because no other answer will arrive.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage,
};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The error code for an answer that could not be read.
pub(crate) const UNREADABLE: i32 = i32::MIN;
/// The only key of an object that replaces an unreadable list entry; its value is the name of the
/// entry, if known.
pub(crate) const UNREADABLE_ENTRY: &str = "unreadable";
/// Maximum messages in one batch.
const MAX_IN_BATCH: usize = 1_000;
/// Maximum positions in a line at which an answer is searched for.
const MAX_STARTS: usize = 32;
/// The lists that servers return.
const LISTS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

/// The requests that are waiting for an answer. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenRequests {
    ids: Arc<Mutex<HashSet<RequestId>>>,
}

impl OpenRequests {
    /// Records a message that was sent.
    pub(crate) fn record_sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.ids().insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(given_up) = &notice.notification
                    && let Some(id) = &given_up.params.request_id
                {
                    self.ids().remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Parses the messages in text: one message, or those of a batch. Answers to requests that
    /// are not open are dropped. `posted` is the request whose HTTP response contained the text; an
    /// answer without an id belongs to it.
    pub(crate) fn read(&self, bytes: &[u8], posted: Option<&RequestId>) -> ParsedMessages {
        // An invalid byte affects a character, not the message.
        let text = String::from_utf8_lossy(bytes);
        // Some servers send a byte order mark, which is not valid JSON.
        let text = text.trim_start_matches('\u{feff}');
        if let Some(message) = parse_complete(text) {
            return ParsedMessages::from_messages([Some(self.match_answer(message, posted))]);
        }
        let text = replace_lone_surrogates(text);
        match serde_json::from_str::<Vec<&RawValue>>(&text) {
            Ok(items) if items.len() > MAX_IN_BATCH => ParsedMessages::default(),
            Ok(items) => ParsedMessages::from_messages(
                items.iter().map(|item| self.parse_message(item.get(), posted)),
            ),
            Err(_) => ParsedMessages::from_messages(
                objects(&text).into_iter().map(|object| self.parse_message(object, posted)),
            ),
        }
    }

    /// Returns the strings that replace the text of an event; `None` if it can be parsed unchanged.
    pub(crate) fn repair_event(
        &self,
        text: &str,
        posted: Option<&RequestId>,
    ) -> Option<Vec<String>> {
        if let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(text) {
            let named = answer_id(&message).cloned();
            let matched = self.match_answer(message, posted);
            if matched.as_ref().is_some_and(|message| answer_id(message) == named.as_ref()) {
                return None;
            }
            return Some(matched.iter().filter_map(|it| serde_json::to_string(it).ok()).collect());
        }
        let messages = self.read(text.as_bytes(), posted).messages;
        Some(messages.iter().filter_map(|it| serde_json::to_string(it).ok()).collect())
    }

    /// Parses one message, or creates the error for the request that it should have answered. The
    /// outer `None`: the text is not a message; the inner one: it belongs to no open request.
    fn parse_message(
        &self,
        text: &str,
        posted: Option<&RequestId>,
    ) -> Option<Option<ServerJsonRpcMessage>> {
        if let Some(message) = parse_complete(text).or_else(|| parse_without_id(text, posted?)) {
            return Some(self.match_answer(message, posted));
        }
        let remains = PartialAnswer::parse(text);
        if !remains.is_message() {
            return self.parse_after_text(text).map(Some);
        }
        if remains.is_call {
            return Some(None);
        }
        let id = match remains.id.or_else(|| find_id(text)) {
            Some(id) => serde_json::from_value(id).ok().and_then(|id| self.take(&id, posted)),
            None => posted.and_then(|id| self.take(id, posted)),
        };
        let Some(id) = id else {
            // A truncated line is not a message.
            return serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(None);
        };
        Some(match remains.result.and_then(readable_entries) {
            None => Some(failure(id, describe_error(text))),
            Some(result) => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                serde_json::from_value(answer).ok()
            }
        })
    }

    /// Parses the answer to an open request behind other text of the same line: a server may print
    /// a log text without a line ending. Requests and notifications are not searched for, because a
    /// log may quote them. For the same reason, an object that is complete holds no answer.
    fn parse_after_text(&self, text: &str) -> Option<ServerJsonRpcMessage> {
        if !text.contains("\"jsonrpc\"") || serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return None;
        }
        outer_braces(text).take(MAX_STARTS).find_map(|at| {
            let rest = text.get(at..)?;
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
            let object = values.next().and_then(Result::ok).map(RawValue::get);
            if let Some(message) = object.and_then(|object| serde_json::from_str(object).ok()) {
                answer_id(&message)?;
                return self.match_answer(message, None);
            }
            let remains = PartialAnswer::parse(rest);
            if !remains.is_message() || remains.is_call || !remains.is_answer {
                return None;
            }
            let id = serde_json::from_value(remains.id.or_else(|| find_id(rest))?).ok()?;
            Some(failure(self.take(&id, None)?, describe_error(rest)))
        })
    }

    /// Opens a request again whose answer turned out to be stray.
    pub(crate) fn reopen(&self, id: RequestId) {
        self.ids().insert(id);
    }

    /// Creates the error for an open request whose answer cannot be read.
    pub(crate) fn fail(&self, id: &RequestId, reason: &str) -> Option<ServerJsonRpcMessage> {
        self.take(id, None).map(|id| failure(id, reason.to_owned()))
    }

    /// Returns the message, with the id of an answer exactly as the request was sent; `None` for an
    /// answer to a request that is not open.
    fn match_answer(
        &self,
        mut message: ServerJsonRpcMessage,
        posted: Option<&RequestId>,
    ) -> Option<ServerJsonRpcMessage> {
        match &mut message {
            JsonRpcMessage::Response(answer) => answer.id = self.take(&answer.id, posted)?,
            JsonRpcMessage::Error(error) => {
                // Servers give errors ids of their own, such as `server-error`.
                let named = error.id.as_ref().and_then(|id| self.take(id, posted));
                error.id = Some(named.or_else(|| self.take(posted?, posted))?);
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        Some(message)
    }

    /// Assigns the only message of an HTTP response to the posted request, regardless of its id.
    pub(crate) fn assign_to_request(&self, message: &mut ServerJsonRpcMessage, id: &RequestId) {
        match message {
            JsonRpcMessage::Response(answer) => answer.id = id.clone(),
            JsonRpcMessage::Error(error) => error.id = Some(id.clone()),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return,
        }
        self.take(id, None);
    }

    /// Closes and returns the open request with this id. Some HTTP servers convert numeric ids to
    /// strings, which is resolved only if `posted` is set.
    fn take(&self, id: &RequestId, posted: Option<&RequestId>) -> Option<RequestId> {
        let number = match id {
            RequestId::String(text) if posted.is_some() => text.parse().ok().map(RequestId::Number),
            _ => None,
        };
        let mut ids = self.ids();
        ids.take(id).or_else(|| ids.take(&number?))
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages found in text.
#[derive(Debug, Default)]
pub(crate) struct ParsedMessages {
    pub(crate) messages: Vec<ServerJsonRpcMessage>,
    /// Whether the text contained any JSON-RPC message, including dropped ones.
    pub(crate) is_message: bool,
}

impl ParsedMessages {
    fn from_messages(
        found: impl IntoIterator<Item = Option<Option<ServerJsonRpcMessage>>>,
    ) -> Self {
        let mut received = Self::default();
        for found in found.into_iter().flatten() {
            received.is_message = true;
            received.messages.extend(found);
        }
        received
    }
}

/// Whether this is a field of JSON-RPC. An object with other fields counts as a message only if it
/// has `jsonrpc`, because log lines may also contain `error` or `id`.
fn is_rpc_field(name: &str) -> bool {
    matches!(name, "jsonrpc" | "id" | "method" | "params" | "result" | "error")
}

/// Splits a line into the JSON values at its start and the rest: a server may forget a line ending.
fn objects(text: &str) -> Vec<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut found = Vec::new();
    while let Some(Ok(value)) = values.next() {
        found.push(value.get());
        if found.len() == MAX_IN_BATCH {
            break;
        }
    }
    let rest = text.get(values.byte_offset()..).unwrap_or_default();
    if found.is_empty() || !rest.trim().is_empty() {
        found.push(rest);
    }
    found
}

fn answer_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(answer) => Some(&answer.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// Parses a complete message.
fn parse_complete(text: &str) -> Option<ServerJsonRpcMessage> {
    if let Ok(message) = serde_json::from_str(text) {
        return Some(message);
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    let fields = value.as_object_mut()?;
    // Some servers omit the constant `jsonrpc` field.
    if !fields.contains_key("jsonrpc") && fields.keys().all(|name| is_rpc_field(name)) {
        fields.insert("jsonrpc".to_owned(), "2.0".into());
    }
    // Other servers send both fields of an answer, one of them null.
    let is_null = |name: &str| fields.get(name).is_some_and(Value::is_null);
    match (is_null("result"), is_null("error")) {
        (false, true) if fields.contains_key("result") => drop(fields.remove("error")),
        (true, false) if fields.contains_key("error") => drop(fields.remove("result")),
        _ => {}
    }
    serde_json::from_value(value).ok()
}

/// Parses an answer without an id as the answer to `posted`.
fn parse_without_id(text: &str, posted: &RequestId) -> Option<ServerJsonRpcMessage> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let fields = value.as_object_mut()?;
    let is_answer = fields.contains_key("result") || fields.contains_key("error");
    if !is_answer || fields.get("id").is_some_and(|id| !id.is_null()) {
        return None;
    }
    fields.insert("id".to_owned(), serde_json::to_value(posted).ok()?);
    parse_complete(&value.to_string())
}

/// Returns the positions of the braces behind other text at which an object may begin, except those
/// of values within an object or list, such as `INFO {"body":{…}}`.
fn outer_braces(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    let mut before = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at).copied() {
            let start = at;
            at += 1;
            match byte {
                b'{' => {
                    let is_value = depth > 0 && matches!(before, b':' | b',' | b'[' | b'=');
                    depth += 1;
                    before = byte;
                    if start > 0 && !is_value {
                        return Some(start);
                    }
                    continue;
                }
                b'}' => depth = depth.saturating_sub(1),
                // Outside objects, quotation marks need not be in pairs.
                b'"' if depth > 0 => at = end_of_string(bytes, start).unwrap_or(bytes.len()),
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                before = byte;
            }
        }
        None
    })
}

/// Finds the value of the top-level field `id` in an object that is not valid JSON.
fn find_id(text: &str) -> Option<Value> {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = end_of_string(bytes, at)?;
                let behind = text.get(end..)?.trim_start();
                if depth == 1
                    && text.get(at..end) == Some("\"id\"")
                    && let Some(value) = behind.strip_prefix(':')
                {
                    let mut values = serde_json::Deserializer::from_str(value).into_iter();
                    return values.next()?.ok().filter(|id: &Value| !id.is_null());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the position after the closing quotation mark of the string that starts at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn failure(id: RequestId, reason: String) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode(UNREADABLE), reason, None);
    JsonRpcMessage::Error(JsonRpcError::new(Some(id), error))
}

const NEITHER: &str = "it is neither a result nor an error";

/// Describes what is wrong with an answer.
fn describe_error(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(_) => NEITHER.to_owned(),
        Err(error) => no_json(&error.to_string()),
    }
}

/// The beginning of the library's error for JSON that is not a message.
const UNRECOGNIZED: &str = "unrecognized JSON-RPC message";

/// Describes an error of the JSON parser.
pub(crate) fn no_json(error: &str) -> String {
    match error.starts_with("recursion limit") {
        true => "it is nested too deeply".to_owned(),
        false if error.contains("did not match any variant") => NEITHER.to_owned(),
        // It is JSON, such as an array of messages.
        false if error.starts_with(UNRECOGNIZED) => {
            let body = error.trim_start_matches(UNRECOGNIZED).trim_start_matches(':').trim();
            format!("it is not a JSON-RPC message: {body}")
        }
        false => format!("it is not valid JSON: {error}"),
    }
}

/// Information about an unreadable answer: the fields before the syntax error, or all fields if it
/// is only nested too deeply.
#[derive(Default)]
struct PartialAnswer<'a> {
    /// Whether it has the `jsonrpc` field.
    is_json_rpc: bool,
    is_call: bool,
    /// Whether it has a field of an answer.
    is_answer: bool,
    /// Whether it has fields that messages do not have.
    has_other_fields: bool,
    id: Option<Value>,
    result: Option<&'a RawValue>,
}

impl<'a> PartialAnswer<'a> {
    fn parse(text: &'a str) -> Self {
        let mut remains = Self::default();
        let mut reader = serde_json::Deserializer::from_str(text);
        // The error is expected: the text was already found to be invalid.
        let _ = reader.deserialize_map(AnswerVisitor(&mut remains));
        remains
    }

    fn is_message(&self) -> bool {
        self.is_json_rpc || ((self.is_answer || self.is_call) && !self.has_other_fields)
    }
}

struct AnswerVisitor<'r, 'a>(&'r mut PartialAnswer<'a>);

impl<'a> Visitor<'a> for AnswerVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'a, str>>()? {
            self.0.is_json_rpc |= name == "jsonrpc";
            self.0.is_answer |= matches!(&*name, "result" | "error");
            self.0.is_call |= name == "method";
            self.0.has_other_fields |= !is_rpc_field(&name);
            match &*name {
                "id" => self.0.id = fields.next_value::<Option<Value>>()?,
                "result" => self.0.result = Some(fields.next_value()?),
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Returns a list result without the unreadable entries; `None` if it is not a list.
fn readable_entries(result: &RawValue) -> Option<Value> {
    type Raw<'a> = &'a RawValue;
    let fields: std::collections::HashMap<Cow<'_, str>, Raw<'_>> =
        serde_json::from_str(result.get()).ok()?;
    let mut readable = Map::new();
    for (name, field) in fields {
        let entries =
            LISTS.contains(&&*name).then(|| serde_json::from_str::<Vec<Raw<'_>>>(field.get()));
        let value = match entries {
            Some(Ok(entries)) => {
                entries.into_iter().map(|entry| entry_or_its_name(entry.get())).collect()
            }
            _ => match serde_json::from_str(field.get()) {
                Ok(value) => value,
                Err(_) => continue,
            },
        };
        readable.insert(name.into_owned(), value);
    }
    LISTS.iter().any(|name| readable.contains_key(*name)).then(|| readable.into())
}

fn entry_or_its_name(entry: &str) -> Value {
    #[derive(serde::Deserialize)]
    struct EntryName {
        name: Option<String>,
    }
    serde_json::from_str(entry).unwrap_or_else(|_| {
        let named = serde_json::from_str(entry).unwrap_or(EntryName { name: None });
        json!({ UNREADABLE_ENTRY: named.name })
    })
}

/// Replaces each escaped lone surrogate with `�`. Some languages accept lone surrogates.
fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let half = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut repaired, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let here = at + found;
        at = match half(here) {
            None => here + 2,
            Some(0xD800..=0xDBFF) if matches!(half(here + 6), Some(0xDC00..=0xDFFF)) => here + 12,
            Some(0xD800..=0xDFFF) => {
                repaired.push_str(text.get(kept..here).unwrap_or_default());
                repaired.push_str("\\ufffd");
                kept = here + 6;
                kept
            }
            Some(_) => here + 6,
        };
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(repaired)
}

#[cfg(test)]
mod tests;
