//! What servers send, read as far as it can be. An answer that cannot be read ends
//! the request that waits for it: no other answer will come.

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

/// The number of the error that stands for an answer that cannot be read.
pub(crate) const UNREADABLE: i32 = i32::MIN;
/// The only key of an entry of a list that stands for one that cannot be read; its
/// value is the name of that, where it is known.
pub(crate) const UNREADABLE_ENTRY: &str = "unreadable";
/// The messages in one batch.
const MOST_IN_BATCH: usize = 1_000;
/// The lists that servers give.
const LISTS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

/// The requests that a server has not answered. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Open {
    ids: Arc<Mutex<HashSet<RequestId>>>,
}

impl Open {
    /// Takes note of a message of ours.
    pub(crate) fn sent(&self, message: &ClientJsonRpcMessage) {
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

    /// The messages of a text: one, or those of a batch. Answers that belong to no
    /// open request are left out. `posted`: the request whose HTTP response the text
    /// came in; an answer there that names no request is for that one.
    pub(crate) fn read(&self, bytes: &[u8], posted: Option<&RequestId>) -> Received {
        // A wrong byte spoils a letter, not the message.
        let text = String::from_utf8_lossy(bytes);
        // Some write the mark of the order of bytes first, which is not JSON.
        let text = text.trim_start_matches('\u{feff}');
        if let Some(message) = whole(text) {
            return Received::of([Some(self.matched(message, posted))]);
        }
        let text = with_whole_letters(text);
        match serde_json::from_str::<Vec<&RawValue>>(&text) {
            Ok(items) if items.len() > MOST_IN_BATCH => Received::default(),
            Ok(items) => Received::of(items.iter().map(|item| self.one(item.get(), posted))),
            Err(_) => Received::of([self.one(&text, posted)]),
        }
    }

    /// The texts that stand for the text of an event; `None`: it can be read as it is.
    pub(crate) fn repaired(&self, text: &str, posted: Option<&RequestId>) -> Option<Vec<String>> {
        if let Ok(message) = serde_json::from_str::<ServerJsonRpcMessage>(text) {
            let named = answer_id(&message).cloned();
            let matched = self.matched(message, posted);
            if matched.as_ref().is_some_and(|message| answer_id(message) == named.as_ref()) {
                return None;
            }
            return Some(matched.iter().filter_map(|it| serde_json::to_string(it).ok()).collect());
        }
        let messages = self.read(text.as_bytes(), posted).messages;
        Some(messages.iter().filter_map(|it| serde_json::to_string(it).ok()).collect())
    }

    /// One message, or the end of the request that it should have answered. The outer
    /// `None`: it is not a message; the inner one: it belongs to no open request.
    fn one(&self, text: &str, posted: Option<&RequestId>) -> Option<Option<ServerJsonRpcMessage>> {
        if let Some(message) = whole(text).or_else(|| named_after(text, posted?)) {
            return Some(self.matched(message, posted));
        }
        let remains = Remains::of(text);
        if !remains.is_message() {
            return None;
        }
        if remains.is_call {
            return Some(None);
        }
        let id = match remains.id.or_else(|| shown_id(text)) {
            Some(id) => serde_json::from_value(id).ok().and_then(|id| self.take(&id, posted)),
            None => posted.and_then(|id| self.take(id, posted)),
        };
        let Some(id) = id else {
            // A truncated line is as little a message as any other text.
            return serde_json::from_str::<IgnoredAny>(text).is_ok().then_some(None);
        };
        Some(match remains.result.and_then(readable_entries) {
            None => Some(failure(id, why(text))),
            Some(result) => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                serde_json::from_value(answer).ok()
            }
        })
    }

    /// The end of an open request whose answer cannot be read.
    pub(crate) fn fail(&self, id: &RequestId, why: &str) -> Option<ServerJsonRpcMessage> {
        self.take(id, None).map(|id| failure(id, why.to_owned()))
    }

    /// The message, an answer with the id of its request as we wrote it; `None`: an
    /// answer to no open request.
    fn matched(
        &self,
        mut message: ServerJsonRpcMessage,
        posted: Option<&RequestId>,
    ) -> Option<ServerJsonRpcMessage> {
        match &mut message {
            JsonRpcMessage::Response(answer) => answer.id = self.take(&answer.id, posted)?,
            JsonRpcMessage::Error(error) => {
                error.id = Some(self.take(error.id.as_ref().or(posted)?, posted)?);
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        Some(message)
    }

    /// The only message of an HTTP response: an answer there is for the request that
    /// was posted, whatever id it names.
    pub(crate) fn posted(&self, message: &mut ServerJsonRpcMessage, id: &RequestId) {
        match message {
            JsonRpcMessage::Response(answer) => answer.id = id.clone(),
            JsonRpcMessage::Error(error) => error.id = Some(id.clone()),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return,
        }
        self.take(id, None);
    }

    /// The open request of that id, which is open no longer. Some HTTP servers make
    /// strings of numbers: there the request that was posted shows what is meant.
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

/// What was found in a text of a server.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) messages: Vec<ServerJsonRpcMessage>,
    /// Whether there was a JSON-RPC message at all, be it one for nothing of ours.
    pub(crate) is_message: bool,
}

impl Received {
    fn of(found: impl IntoIterator<Item = Option<Option<ServerJsonRpcMessage>>>) -> Self {
        let mut received = Self::default();
        for found in found.into_iter().flatten() {
            received.is_message = true;
            received.messages.extend(found);
        }
        received
    }
}

/// The fields of JSON-RPC, and none else: an object with others is one only when it
/// says so. Lines of loggers have `error` or `id` too.
fn is_field(name: &str) -> bool {
    matches!(name, "jsonrpc" | "id" | "method" | "params" | "result" | "error")
}

fn answer_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(answer) => Some(&answer.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// A message that can be read.
fn whole(text: &str) -> Option<ServerJsonRpcMessage> {
    if let Ok(message) = serde_json::from_str(text) {
        return Some(message);
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    let fields = value.as_object_mut()?;
    // Some servers leave out what never changes.
    if !fields.contains_key("jsonrpc") && fields.keys().all(|name| is_field(name)) {
        fields.insert("jsonrpc".to_owned(), "2.0".into());
    }
    serde_json::from_value(value).ok()
}

/// An answer that names no request, as the one to `posted`.
fn named_after(text: &str, posted: &RequestId) -> Option<ServerJsonRpcMessage> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let fields = value.as_object_mut()?;
    let is_answer = fields.contains_key("result") || fields.contains_key("error");
    if !is_answer || fields.get("id").is_some_and(|id| !id.is_null()) {
        return None;
    }
    fields.insert("id".to_owned(), serde_json::to_value(posted).ok()?);
    whole(&value.to_string())
}

/// The value of the field `id` of an object that is not valid JSON.
fn shown_id(text: &str) -> Option<Value> {
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

/// Where the string that begins at `start` ends, behind its quotation mark.
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

fn failure(id: RequestId, why: String) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode(UNREADABLE), why, None);
    JsonRpcMessage::Error(JsonRpcError::new(Some(id), error))
}

const NEITHER: &str = "it is neither a result nor an error";

/// What is wrong with an answer.
fn why(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(_) => NEITHER.to_owned(),
        Err(error) => no_json(&error.to_string()),
    }
}

/// The same for what the reader of JSON said.
pub(crate) fn no_json(error: &str) -> String {
    match error.starts_with("recursion limit") {
        true => "it is nested too deeply".to_owned(),
        false if error.contains("did not match any variant") => NEITHER.to_owned(),
        false => format!("it is not valid JSON: {error}"),
    }
}

/// What can be told of an answer that cannot be read: what stands before the place
/// where it breaks, and all of one that is only too deep.
#[derive(Default)]
struct Remains<'a> {
    /// It says what it is.
    is_json_rpc: bool,
    is_call: bool,
    /// It has what answers have.
    is_answer: bool,
    /// It has fields that messages do not have.
    is_other: bool,
    id: Option<Value>,
    result: Option<&'a RawValue>,
}

impl<'a> Remains<'a> {
    fn of(text: &'a str) -> Self {
        let mut remains = Self::default();
        let mut reader = serde_json::Deserializer::from_str(text);
        // That it ends with an error is why we are here.
        let _ = reader.deserialize_map(Fields(&mut remains));
        remains
    }

    fn is_message(&self) -> bool {
        self.is_json_rpc || ((self.is_answer || self.is_call) && !self.is_other)
    }
}

struct Fields<'r, 'a>(&'r mut Remains<'a>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'a, str>>()? {
            self.0.is_json_rpc |= name == "jsonrpc";
            self.0.is_answer |= matches!(&*name, "result" | "error");
            self.0.is_call |= name == "method";
            self.0.is_other |= !is_field(&name);
            match &*name {
                "id" => self.0.id = fields.next_value::<Option<Value>>()?,
                "result" => self.0.result = Some(fields.next_value()?),
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A list without the entries that cannot be read; `None` when it is no list.
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
                entries.into_iter().map(|entry| readable_or_name(entry.get())).collect()
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

fn readable_or_name(entry: &str) -> Value {
    #[derive(serde::Deserialize)]
    struct Named {
        name: Option<String>,
    }
    serde_json::from_str(entry).unwrap_or_else(|_| {
        let named = serde_json::from_str(entry).unwrap_or(Named { name: None });
        json!({ UNREADABLE_ENTRY: named.name })
    })
}

/// The text with `�` for each escaped half of a letter that lacks the other half: not
/// all languages mind them.
fn with_whole_letters(text: &str) -> Cow<'_, str> {
    let half = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut mended, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        let here = at + found;
        at = match half(here) {
            None => here + 2,
            Some(0xD800..=0xDBFF) if matches!(half(here + 6), Some(0xDC00..=0xDFFF)) => here + 12,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(text.get(kept..here).unwrap_or_default());
                mended.push_str("\\ufffd");
                kept = here + 6;
                kept
            }
            Some(_) => here + 6,
        };
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(mended)
}

#[cfg(test)]
mod tests;
