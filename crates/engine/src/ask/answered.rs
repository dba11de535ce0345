//! Keeping what the model said: a whole answer, or what came of one that was
//! interrupted.

use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::content::{Content, FunctionCall, PartView};
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::image::Image;
use parallax_protocol::model::Citation;

use super::Reply;
use super::stream::Attempt;
use crate::board::Call;
use crate::history::Remarks;
use crate::session::Session;
impl Session {
    /// Keeps a valid answer: history and journal first, then the faces.
    pub(super) fn keep(&mut self, mut attempt: Attempt, model: &str) -> Reply {
        self.end_thought(&mut attempt);
        let cut =
            attempt.answer.finish.as_ref().is_some_and(|reason| reason.as_str() == "MAX_TOKENS");
        let item = attempt.text.take();
        let mut answer = attempt.answer;
        let sources = sources(std::mem::take(&mut answer.citations));
        let remarks = Remarks {
            model: Some(model.to_owned()),
            usage: answer.usage,
            thoughts: self.without_keys(std::mem::take(&mut answer.thoughts)),
            ..Remarks::default()
        };
        if answer.is_empty() {
            // Silence after results is an end; the next prompt settles it.
            return Reply::Final;
        }
        let mut content = answer.into_content();
        self.black_out_parts(&mut content);
        self.history.push(&content, remarks);
        let calls: Vec<Call> = content
            .calls()
            .map(|call| (call.id.map(str::to_owned), call.name.to_owned(), args_of(&call)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(wire_id, name, args)| Call {
                id: self.call_id(wire_id.as_deref(), &name),
                wire_id,
                name,
                args,
                replaces: None,
            })
            .collect();
        let images = Image::among(&content.parts, None);
        if let Some(item) = item {
            let text = Arc::new(text_of(content));
            self.hub
                .send(EventBody::ItemDone { item, done: ItemDone::Text { text, dropped: false } });
        }
        for image in images {
            self.hub.send(EventBody::Image(image));
        }
        if cut {
            let text = "the answer was cut at the model's output limit (`MAX_TOKENS`)";
            self.inbox.notice(Level::Warning, text);
        }
        if !sources.is_empty() {
            self.hub.send(EventBody::Sources(sources));
        }
        if calls.is_empty() { Reply::Final } else { Reply::Calls(calls) }
    }

    fn without_keys(&self, mut thoughts: Vec<String>) -> Vec<String> {
        thoughts.iter_mut().for_each(|thought| self.black_out(thought));
        thoughts
    }

    /// Keeps the text of an interrupted answer.
    pub(super) fn keep_partial(&mut self, mut attempt: Attempt, model: &str) {
        self.end_thought(&mut attempt);
        let item = attempt.text.take();
        let mut answer = attempt.answer;
        let remarks = Remarks {
            model: Some(model.to_owned()),
            usage: answer.usage,
            thoughts: self.without_keys(std::mem::take(&mut answer.thoughts)),
            partial: true,
            ..Remarks::default()
        };
        let mut content = answer.into_partial();
        self.black_out_parts(&mut content);
        if !content.parts.is_empty() {
            self.history.push(&content, remarks);
        }
        if let Some(item) = item {
            let text = Arc::new(text_of(content));
            self.hub
                .send(EventBody::ItemDone { item, done: ItemDone::Text { text, dropped: false } });
        }
    }
}

/// The arguments of a call; a call without any has none to give.
fn args_of(call: &FunctionCall<'_>) -> Option<Object> {
    match call.args {
        Some(args) => Some(args.clone()),
        None if call.has_args => None,
        None => Some(Object::new()),
    }
}

/// The visible text, without a copy where it is one part.
pub(super) fn text_of(content: Content) -> String {
    let mut text = String::new();
    for part in content.parts {
        if !matches!(part.view(), PartView::Text(_)) {
            continue;
        }
        let piece = part.into_text().unwrap_or_default();
        if text.is_empty() {
            text = piece;
        } else {
            text.push_str(&piece);
        }
    }
    text
}

/// The sources of an answer, sorted and without repeats.
fn sources(mut sources: Vec<Citation>) -> Vec<Citation> {
    sources.retain(|source| !source.uri.is_empty());
    sources.sort();
    sources.dedup();
    sources
}
