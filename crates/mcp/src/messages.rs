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

    /// The messages of a text: one, or those of a batch. None where it is no message.
    pub(crate) fn read(&self, bytes: &[u8]) -> Vec<ServerJsonRpcMessage> {
        // A wrong byte spoils a letter, not the message.
        let text = String::from_utf8_lossy(bytes);
        // Some write the mark of the order of bytes first, which is no JSON.
        let text = text.trim_start_matches('\u{feff}');
        if let Some(mut message) = whole(text) {
            self.answered(&mut message);
            return vec![message];
        }
        let text = with_whole_letters(text);
        match serde_json::from_str::<Vec<&RawValue>>(&text) {
            Ok(items) if items.len() > MOST_IN_BATCH => Vec::new(),
            Ok(items) => items.iter().filter_map(|item| self.one(item.get())).collect(),
            Err(_) => self.one(&text).into_iter().collect(),
        }
    }

    /// The texts that stand for one that cannot be read as it is; `None`: it can.
    pub(crate) fn mend(&self, text: &str) -> Option<Vec<String>> {
        let messages = match serde_json::from_str(text) {
            Ok(mut message) => match self.answered(&mut message) {
                true => vec![message],
                false => return None,
            },
            Err(_) => self.read(text.as_bytes()),
        };
        Some(messages.iter().filter_map(|it| serde_json::to_string(it).ok()).collect())
    }

    /// One message, or the end of the request that it should have answered.
    fn one(&self, text: &str) -> Option<ServerJsonRpcMessage> {
        if let Some(mut message) = whole(text) {
            self.answered(&mut message);
            return Some(message);
        }
        let remains = Remains::of(text);
        let id = match remains.is_answer().then_some(remains.id)? {
            Some(id) => self.take(&serde_json::from_value(id).ok()?)?,
            None => self.take_only()?,
        };
        let list = remains.result.and_then(readable_entries);
        match list {
            None => Some(failure(id, why(text))),
            Some(result) => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                serde_json::from_value(answer).ok()
            }
        }
    }

    /// The end of an open request whose answer cannot be read.
    pub(crate) fn fail(&self, id: &RequestId, why: &str) -> Option<ServerJsonRpcMessage> {
        self.take(id).map(|id| failure(id, why.to_owned()))
    }

    /// Takes note of an answer. `true` when it names its request otherwise than we did.
    pub(crate) fn answered(&self, message: &mut ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(answer) => Some(&mut answer.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let Some((id, known)) = id.and_then(|id| Some((self.take(id)?, id))) else { return false };
        let other = id != *known;
        *known = id;
        other
    }

    /// The open request of that id, which is open no longer. Some servers make texts
    /// of numbers.
    fn take(&self, id: &RequestId) -> Option<RequestId> {
        let number = match id {
            RequestId::String(text) => text.parse().ok().map(RequestId::Number),
            RequestId::Number(_) => None,
        };
        let mut ids = self.ids();
        ids.take(id).or_else(|| ids.take(&number?))
    }

    /// The open request, when there is only one.
    fn take_only(&self) -> Option<RequestId> {
        let mut ids = self.ids();
        let only = (ids.len() == 1).then(|| ids.iter().next().cloned())??;
        ids.take(&only)
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that can be read.
fn whole(text: &str) -> Option<ServerJsonRpcMessage> {
    if let Ok(message) = serde_json::from_str(text) {
        return Some(message);
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    // Some servers leave out what never changes.
    value.as_object_mut()?.entry("jsonrpc").or_insert_with(|| "2.0".into());
    serde_json::from_value(value).ok()
}

fn failure(id: RequestId, why: String) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode(UNREADABLE), why, None);
    JsonRpcMessage::Error(JsonRpcError::new(Some(id), error))
}

/// What is wrong with an answer.
fn why(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(_) => "it is neither a result nor an error".to_owned(),
        Err(error) => no_json(&error.to_string()),
    }
}

/// The same for what the reader of JSON said.
pub(crate) fn no_json(error: &str) -> String {
    match error.starts_with("recursion limit") {
        true => "it is nested too deeply".to_owned(),
        false => format!("it is not valid JSON: {error}"),
    }
}

/// What can be told of an answer that cannot be read: what stands before the place
/// where it breaks, and all of one that is only too deep.
#[derive(Default)]
struct Remains<'a> {
    /// It says what it is, or has what answers have.
    is_message: bool,
    is_call: bool,
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

    fn is_answer(&self) -> bool {
        self.is_message && !self.is_call
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
            self.0.is_message |= matches!(&*name, "jsonrpc" | "result" | "error");
            self.0.is_call |= name == "method";
            match &*name {
                "id" => self.0.id = Some(fields.next_value()?),
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
