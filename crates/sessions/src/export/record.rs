//! Exports a session as a JSON document in Gemini CLI's format: messages with the parts as sent,
//! and results with their tool calls.

use std::collections::BTreeMap;

use parallax_protocol::content::{Content, Part, PartView, Role};
use parallax_protocol::store::{ContentRecord, Record, ResultRecord, directories};
use parallax_store::LoadedSession;

use crate::gemini_record::{head as record_head, to_gemini_message};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Returns the document.
///
/// # Errors
/// Returns an error if something in it is not valid JSON, which would be a bug.
pub(super) fn document(session: &LoadedSession, title: &str) -> serde_json::Result<String> {
    let list = all(session)?;
    let last = list.last().and_then(|message| message.get("timestamp")).cloned();
    let head = &session.head;
    let project = std::path::PathBuf::from(&head.project);
    let folders: Vec<_> = std::iter::once(&project).chain(directories(&session.records)).collect();
    let document = json!({
        "sessionId": head.session_id,
        "projectHash": parallax_store::project_hash(std::path::Path::new(&head.project)),
        "startTime": head.start_time,
        "lastUpdated": last.unwrap_or_else(|| head.start_time.clone().into()),
        "kind": "main",
        "summary": title,
        "directories": folders,
        "messages": list,
    });
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

/// Returns the document as lines: the header, then each message.
///
/// # Errors
/// Returns an error if something in it is not valid JSON, which would be a bug.
pub(super) fn lines(session: &LoadedSession, title: &str) -> serde_json::Result<String> {
    let messages = all(session)?;
    let mut head = record_head(&session.head);
    head["summary"] = title.into();
    let last = messages.last().and_then(|message| message.get("timestamp")).cloned();
    if let Some(last) = last {
        head["lastUpdated"] = last;
    }
    let mut text = format!("{head}\n");
    for message in &messages {
        text.push_str(&format!("{}\n", to_gemini_message(message)));
    }
    Ok(text)
}

fn all(session: &LoadedSession) -> serde_json::Result<Vec<Value>> {
    let mut messages = Messages::default();
    session.head.session_id.as_str().clone_into(&mut messages.session);
    for record in &session.records {
        messages.record(record)?;
    }
    messages.close();
    Ok(messages.list.into_iter().flat_map(with_context_apart).collect())
}

/// Builds the messages of a session from its records.
#[derive(Default)]
pub(crate) struct Messages {
    pub(crate) list: Vec<Value>,
    /// The session id, part of the message ids. These are unique across sessions, because programs
    /// count the tokens of an id once.
    pub(crate) session: String,
    /// The model of the last answer.
    model: String,
    /// The message whose tool calls are pending, and those calls.
    open: Option<(usize, Vec<Value>)>,
    results: BTreeMap<usize, ResultRecord>,
}

impl Messages {
    /// Returns the index of the message whose tool calls are pending.
    pub(crate) fn pending_calls_index(&self) -> Option<usize> {
        self.open.as_ref().map(|(at, _)| *at)
    }

    pub(crate) fn record(&mut self, record: &Record) -> serde_json::Result<()> {
        match record {
            Record::Content(content) => {
                self.close();
                self.content(content)?;
            }
            Record::Result(result) => drop(self.results.insert(result.index, result.clone())),
            Record::Round(round) => {
                self.close();
                if let Some(tail) = &round.parts_after_results {
                    let message = self.message("user", "", parse(tail)?);
                    self.list.push(message.into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Builds a message with the common fields.
    fn message(&self, kind: &str, time: &str, content: Value) -> Map<String, Value> {
        let mut message = Map::new();
        message.insert("id".into(), format!("{}-{}", self.session, self.list.len() + 1).into());
        message.insert("timestamp".into(), time.into());
        message.insert("type".into(), kind.into());
        message.insert("content".into(), content);
        message
    }

    fn content(&mut self, record: &ContentRecord) -> serde_json::Result<()> {
        let wire: Value = serde_json::from_str(record.wire.json())?;
        let parts = wire.get("parts").cloned().unwrap_or_else(|| json!([]));
        if record.wire.role() == Role::User {
            let mut message = self.message("user", &record.time, parts);
            if let Some(display) = &record.display {
                message.insert("displayContent".into(), json!([{"text": display}]));
            }
            self.list.push(message.into());
            return Ok(());
        }
        let mut message = self.message("gemini", &record.time, parts);
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
        let calls = record.wire.open().map(|content| calls_of(&content, id)).unwrap_or_default();
        if !record.thoughts.is_empty() {
            let thoughts = record.thoughts.iter();
            let thoughts: Vec<Value> = thoughts.map(|text| thought(text, &record.time)).collect();
            message.insert("thoughts".into(), thoughts.into());
        }
        // Readers expect both fields in each answer.
        let usage = record.usage.unwrap_or_default();
        message.insert(
            "tokens".into(),
            json!({
                "input": usage.prompt,
                "output": usage.output,
                "cached": usage.cached,
                "thoughts": usage.thought,
                "tool": usage.tool_prompt,
                "total": usage.total,
            }),
        );
        if let Some(model) = &record.model {
            self.model.clone_from(model);
        }
        message.insert("model".into(), self.model.as_str().into());
        if !calls.is_empty() {
            self.open = Some((self.list.len(), calls));
        }
        self.list.push(message.into());
        Ok(())
    }

    /// Adds the results to their tool calls.
    fn close(&mut self) {
        let results = std::mem::take(&mut self.results);
        let Some((at, mut calls)) = self.open.take() else { return };
        for (index, call) in calls.iter_mut().enumerate() {
            let Some(call) = call.as_object_mut() else { continue };
            let Some(result) = results.get(&index) else {
                call.insert("status".into(), "cancelled".into());
                continue;
            };
            call.insert("result".into(), parse(&result.wire).unwrap_or_default());
            call.insert("status".into(), result.status.as_str().into());
            call.insert("timestamp".into(), result.time.as_str().into());
            let display = result.display.as_ref().and_then(|display| display.get("text"));
            if let Some(display) = display {
                call.insert("resultDisplay".into(), display.clone());
            }
        }
        if let Some(message) = self.list.get_mut(at).and_then(Value::as_object_mut) {
            message.insert("toolCalls".into(), calls.into());
        }
    }
}

/// Splits context before the typed text into its own message, because Gemini CLI ignores a message
/// that starts with context.
fn with_context_apart(mut message: Value) -> Vec<Value> {
    let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    let is_context = |part: &&Value| text(part).is_some_and(|it| parallax_store::is_context(&it));
    let parts = message.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let (context, rest) = parts.split_at(parts.iter().take_while(is_context).count());
    if context.is_empty() || rest.is_empty() || message["type"] != "user" {
        return vec![message];
    }
    let id = message["id"].as_str().unwrap_or_default();
    let apart = json!({
        "id": format!("{id}-context"),
        "timestamp": message["timestamp"],
        "type": "user",
        "content": context,
    });
    message["content"] = rest.into();
    vec![apart, message]
}

fn parse(raw: &RawValue) -> serde_json::Result<Value> {
    serde_json::from_str(raw.get())
}

/// Returns the calls of a message. The provider assigns ids to some calls only, and readers expect
/// one for each: the others get one that is unique across sessions.
fn calls_of(content: &Content, message: &str) -> Vec<Value> {
    let call = |(number, part): (usize, &Part)| match part.view() {
        PartView::Call(call) => {
            let mut output = Map::new();
            let id = call.id.filter(|id| !id.is_empty()).map(str::to_owned);
            let id = id.unwrap_or_else(|| format!("{}-{message}-{number}", call.name));
            output.insert("id".into(), id.into());
            output.insert("name".into(), call.name.into());
            output.insert("args".into(), call.args.cloned().unwrap_or_default().into());
            Some(Value::Object(output))
        }
        _ => None,
    };
    content.parts.iter().enumerate().filter_map(call).collect()
}

/// Builds a thought. Its first bold text is the subject.
fn thought(text: &str, time: &str) -> Value {
    let bold = text.split_once("**").and_then(|(before, rest)| {
        let (subject, after) = rest.split_once("**")?;
        Some((subject.trim(), format!("{}{}", before, after.trim_start())))
    });
    let (subject, description) = bold.unwrap_or(("", text.to_owned()));
    json!({"subject": subject, "description": description.trim(), "timestamp": time})
}

#[cfg(test)]
mod tests {
    use parallax_protocol::Object;

    use super::*;

    #[test]
    fn every_exported_call_has_a_unique_id() {
        let call = |id: Option<&str>| Part::function_call(id, "glob", Object::new());
        let parts = vec![Part::text("x"), call(None), call(Some("call_1")), call(None)];
        let content = Content::model(parts);
        let calls = calls_of(&content, "s-2");
        let ids: Vec<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        assert_eq!(ids, ["glob-s-2-1", "call_1", "glob-s-2-3"]);
        assert_eq!(calls_of(&content, "s-2"), calls, "the next export has the same ids");
    }
}
