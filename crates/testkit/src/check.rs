//! Validates requests as strictly as the service does.
//!
//! Names for a script's `ignore` list: `structure`, `tools`, `prefix`, `reply`, `signatures`,
//! `secret`.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::recorded::RecordedRequest;
use crate::script::Method;

mod parts;
mod tools;

use parts::{Shape, compare_reply, shape_of};

/// Tracks the conversations and validates every request against them.
#[derive(Debug, Default)]
pub struct Checker {
    ignore: BTreeSet<String>,
    conversations: HashMap<u64, CheckedConversation>,
    /// The conversation of each validated request.
    request_conversations: HashMap<usize, u64>,
    shapes: HashMap<u64, Shape>,
    /// The last tool list, so that an equal one is not parsed again.
    tools: Option<(u64, Vec<String>)>,
}

/// All requests with the same first content.
#[derive(Debug, Default)]
struct CheckedConversation {
    /// Hashes of contents that the next request may extend: those of the last request, and of
    /// failed ones before it.
    bases: Vec<Vec<u64>>,
    /// Whether the last request has no valid response. Then its last content may be replaced (a
    /// nudge, or a withdrawn prompt).
    is_unanswered: bool,
    /// The parts of the last valid response without thoughts; `None` if the script sent raw bytes.
    reply: Option<Vec<String>>,
    /// All signed parts of valid responses, in order.
    signed: Vec<String>,
}

#[derive(Deserialize)]
struct RequestBody<'a> {
    #[serde(borrow, default)]
    contents: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "generationConfig")]
    generation: Option<&'a RawValue>,
}

const BODY_KEYS: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "cachedContent",
    "continuationToken",
    "generationConfig",
    "labels",
];

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl Checker {
    pub(crate) fn new(ignore: BTreeSet<String>) -> Self {
        Self { ignore, ..Self::default() }
    }

    fn is_enabled(&self, check: &str) -> bool {
        !self.ignore.contains(check)
    }

    /// Validates a request before it is answered.
    pub(crate) fn check(&mut self, request: &RecordedRequest) -> Vec<String> {
        let mut found = Vec::new();
        let Ok(text) = std::str::from_utf8(&request.body) else {
            return vec!["the body is not UTF-8".to_owned()];
        };
        if self.is_enabled("secret") {
            check_secret(request, text, &mut found);
        }
        if request.kind == Some(Method::CountTokens) {
            return found;
        }
        let body: RequestBody<'_> = match serde_json::from_str(text) {
            Ok(body) => body,
            Err(error) => {
                found.push(format!("the body is not a request: {error}"));
                return found;
            }
        };
        if self.is_enabled("structure") {
            check_keys(text, body.generation, &mut found);
        }
        if let Some(raw) = body.tools.filter(|_| self.is_enabled("tools")) {
            let key = hash(raw.get());
            if self.tools.as_ref().is_none_or(|(known, _)| *known != key) {
                self.tools = Some((key, tools::check(raw)));
            }
            found.extend(self.tools.iter().flat_map(|(_, problems)| problems.clone()));
        }
        let hashes: Vec<u64> = body.contents.iter().map(|raw| hash(raw.get())).collect();
        if self.is_enabled("structure") {
            self.check_structure(&body.contents, &hashes, &mut found);
        }
        if let Some(first) = hashes.first() {
            let key = first ^ u64::from(request.kind == Some(Method::GenerateContent));
            self.request_conversations.insert(request.index, key);
            self.check_history(key, &body.contents, hashes, &mut found);
        }
        found
    }

    fn check_structure(&mut self, raws: &[&RawValue], hashes: &[u64], found: &mut Vec<String>) {
        if raws.is_empty() {
            found.push("no contents".to_owned());
            return;
        }
        for (raw, hash) in raws.iter().zip(hashes) {
            self.shapes.entry(*hash).or_insert_with(|| shape_of(raw.get()));
        }
        let shapes: Vec<&Shape> = hashes.iter().filter_map(|key| self.shapes.get(key)).collect();
        if shapes.first().is_some_and(|shape| shape.role != "user") {
            found.push("contents do not start with user".to_owned());
        }
        if shapes.last().is_some_and(|shape| shape.role != "user") {
            found.push("contents do not end with user".to_owned());
        }
        let mut before: Option<&Shape> = None;
        for (index, shape) in shapes.iter().enumerate() {
            found.extend(shape.problems.iter().map(|text| format!("content {index}: {text}")));
            if before.is_some_and(|before| before.role == shape.role) {
                found.push(format!("contents {} and {index}: same role", index.saturating_sub(1)));
            }
            let calls: &[_] = before.map_or(&[], |before| &before.calls);
            if shape.role == "user" && shape.responses != calls {
                found.push(format!(
                    "content {index}: calls {calls:?} are answered by {:?}",
                    shape.responses
                ));
            }
            before = Some(shape);
        }
        if let Some(last) = shapes.last().filter(|last| last.role == "model")
            && !last.calls.is_empty()
        {
            found.push("the last calls are not answered".to_owned());
        }
    }

    fn check_history(
        &mut self,
        key: u64,
        raws: &[&RawValue],
        hashes: Vec<u64>,
        found: &mut Vec<String>,
    ) {
        let (prefix, reply, signatures) =
            (self.is_enabled("prefix"), self.is_enabled("reply"), self.is_enabled("signatures"));
        let conversation = self.conversations.entry(key).or_default();
        let base = conversation
            .bases
            .iter()
            .filter(|base| hashes.starts_with(base))
            .max_by_key(|base| base.len());
        let replaced = conversation.is_unanswered
            && conversation.bases.iter().any(|base| {
                let length = base.len().saturating_sub(1);
                base.get(..length).is_some_and(|kept| hashes.starts_with(kept))
            });
        match base {
            Some(base) if !conversation.is_unanswered => {
                if let (Some(sent), Some(raw)) = (&conversation.reply, raws.get(base.len()))
                    && reply
                    && let Err(problem) = compare_reply(sent, raw.get())
                {
                    found.push(format!("content {}: {problem}", base.len()));
                }
            }
            Some(_) => {}
            None if conversation.bases.is_empty() || replaced => {}
            None => {
                if prefix {
                    let same = conversation.bases.iter().map(|base| {
                        base.iter().zip(&hashes).take_while(|(one, two)| one == two).count()
                    });
                    let at = same.max().unwrap_or_default();
                    found.push(format!(
                        "content {at} is not what was sent before: {}",
                        raws.get(at).map_or("(gone)".into(), |raw| shorten(raw.get()))
                    ));
                }
                if signatures {
                    check_signed(&conversation.signed, raws, found);
                }
            }
        }
        if !conversation.is_unanswered {
            conversation.bases.clear();
        }
        conversation.bases.push(hashes);
        conversation.is_unanswered = true;
    }

    /// Records a response that was sent completely. `sent` holds its response documents; `None` if
    /// it contained raw bytes.
    pub(crate) fn record_response(&mut self, index: usize, sent: Option<&[String]>) {
        let Some(conversation) =
            self.request_conversations.get(&index).and_then(|key| self.conversations.get_mut(key))
        else {
            return;
        };
        match sent.map(parts::read_reply) {
            None => (conversation.is_unanswered, conversation.reply) = (false, None),
            Some(reply) if reply.is_valid => {
                conversation.signed.extend(reply.signed);
                (conversation.is_unanswered, conversation.reply) = (false, Some(reply.parts));
            }
            Some(_) => {}
        }
    }
}

fn check_keys(text: &str, generation: Option<&RawValue>, found: &mut Vec<String>) {
    if let Ok(keys) = serde_json::from_str::<HashMap<String, &RawValue>>(text) {
        let unknown = keys.keys().filter(|key| !BODY_KEYS.contains(&key.as_str()));
        found.extend(unknown.map(|key| format!("unknown key `{key}` in the body")));
    }
    let generation: Map<String, Value> =
        generation.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if let Some(thinking) = generation.get("thinkingConfig")
        && thinking.get("thinkingBudget").is_some()
        && thinking.get("thinkingLevel").is_some()
    {
        found.push("both thinkingBudget and thinkingLevel".to_owned());
    }
}

fn check_secret(request: &RecordedRequest, body: &str, found: &mut Vec<String>) {
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    for secret in request.header("x-goog-api-key").into_iter().chain(bearer) {
        if secret.len() < 6 {
            continue;
        }
        if request.path.contains(secret) {
            found.push("the API key is in the address".to_owned());
        }
        if body.contains(secret) {
            found.push("the API key is in the body".to_owned());
        }
    }
}

/// Checks that every signed part is present, unchanged and in order.
fn check_signed(signed: &[String], raws: &[&RawValue], found: &mut Vec<String>) {
    let mut rest = raws.iter().map(|raw| raw.get());
    let mut here = rest.next().unwrap_or("");
    for part in signed {
        loop {
            if let Some(offset) = here.find(part.as_str()) {
                here = here.get(offset + part.len()..).unwrap_or("");
                break;
            }
            match rest.next() {
                Some(next) => here = next,
                None => {
                    found.push(format!("a signed part is gone: {}", shorten(part)));
                    return;
                }
            }
        }
    }
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(200).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
