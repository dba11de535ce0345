//! Commits the model's response, whole or interrupted.

use std::borrow::Cow;
use std::sync::Arc;

use parallax_protocol::event::{EventBody, ItemDone, Level, TRUNCATED};
use parallax_protocol::excerpt::one_line;
use parallax_protocol::image::Image;
use parallax_protocol::model::{Citation, Finish, FinishReason};

use super::attempt::{Attempt, text_of};
use super::{ModelReply, ResponseReceiver};
use crate::history::ContentMetadata;

impl ResponseReceiver<'_> {
    /// Commits a valid response: history and journal first, then the front ends.
    pub(crate) fn commit(&mut self, mut attempt: Attempt, model: &str) -> ModelReply {
        self.finish_thought(&mut attempt);
        let finish = attempt.answer.finish.as_ref();
        let cut = finish.and_then(incomplete_notice);
        let item = attempt.text.take();
        let mut answer = std::mem::take(&mut attempt.answer);
        let sources = sources(std::mem::take(&mut answer.citations));
        let remarks = ContentMetadata {
            model: Some(model.to_owned()),
            usage: answer.usage,
            thoughts: self.environment.redact_all(std::mem::take(&mut answer.thoughts)),
            ..ContentMetadata::default()
        };
        if answer.is_empty() {
            // An empty response after results ends the turn; the next prompt closes it.
            return ModelReply::Final;
        }
        let mut content = answer.into_content();
        self.environment.redact_parts(&mut content);
        self.conversation.history_mut().push(&content, remarks);
        let calls = self.conversation.calls_of(&content);
        let images = Image::from_parts(&content.parts, None);
        if let Some(item) = item {
            let text = Arc::new(attempt.strip_shown(text_of(content)));
            self.bus.send(EventBody::ItemDone {
                item,
                done: ItemDone::Text { text, is_dropped: false },
            });
        }
        for image in images {
            self.bus.send(EventBody::Image(image));
        }
        if let Some(notice) = cut {
            self.inbox.notice(Level::Warning, notice);
        }
        if !sources.is_empty() {
            self.bus.send(EventBody::Sources(sources));
        }
        if calls.is_empty() { ModelReply::Final } else { ModelReply::ToolCalls(calls) }
    }

    /// Commits the text of an interrupted response.
    pub(crate) fn commit_partial(&mut self, mut attempt: Attempt, model: &str) {
        self.finish_thought(&mut attempt);
        let item = attempt.text.take();
        let mut answer = std::mem::take(&mut attempt.answer);
        let remarks = ContentMetadata {
            model: Some(model.to_owned()),
            usage: answer.usage,
            thoughts: self.environment.redact_all(std::mem::take(&mut answer.thoughts)),
            partial: true,
            ..ContentMetadata::default()
        };
        let mut content = answer.into_partial();
        self.environment.redact_parts(&mut content);
        if !content.parts.is_empty() {
            self.conversation.history_mut().push(&content, remarks);
        }
        if let Some(item) = item {
            let text = Arc::new(attempt.strip_shown(text_of(content)));
            self.bus.send(EventBody::ItemDone {
                item,
                done: ItemDone::Text { text, is_dropped: false },
            });
        }
    }

    /// Ends the items of an interrupted response that another process can continue: it is in the
    /// journal.
    pub(crate) fn finish_resumable(&mut self, mut attempt: Attempt) {
        self.finish_thought(&mut attempt);
        let text = attempt.answer.text();
        let text = attempt.strip_shown(text);
        self.finish_text(&mut attempt, text);
    }

    /// Ends the text that an attempt shows.
    pub(super) fn finish_text(&mut self, attempt: &mut Attempt, text: String) {
        if let Some(item) = attempt.text.take() {
            let done = ItemDone::Text { text: Arc::new(text), is_dropped: false };
            self.bus.send(EventBody::ItemDone { item, done });
        }
    }
}

/// Returns the sources of a response, sorted and deduplicated.
fn sources(mut sources: Vec<Citation>) -> Vec<Citation> {
    sources.retain(|source| !source.uri.is_empty());
    sources.sort();
    sources.dedup();
    sources
}

/// Returns the notice for an answer that may be incomplete.
fn incomplete_notice(finish: &Finish) -> Option<Cow<'static, str>> {
    if finish.reason == FinishReason::MaxTokens {
        return Some(TRUNCATED.into());
    }
    // An unknown reason may be an ordinary end.
    let is_early = matches!(finish.reason, FinishReason::Other | FinishReason::Continue);
    let word = one_line(&finish.provider_reason);
    is_early.then(|| {
        format!("The service ended the answer early (`{word}`); it may be incomplete").into()
    })
}
