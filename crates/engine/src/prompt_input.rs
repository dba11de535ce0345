//! Appends user messages to the conversation: prompts, and steering messages of a running turn.

use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{EventBody, ItemDone, ItemStart, Level, SteerFate};
use parallax_protocol::image::Image;
use parallax_protocol::op::Prompt;

use crate::history::ContentMetadata;
use crate::session::Session;
use crate::turn::UNANSWERED;

impl Session {
    /// Records a prompt that hooks rejected.
    pub(crate) fn record_prompt(&mut self, prompt: Prompt) {
        self.conversation.close_open_calls(UNANSWERED);
        let preface = self.conversation.preface.take();
        self.push_prompt(prompt, preface.as_deref(), None);
    }

    /// Appends a prompt; `preface` and `editor` go before it.
    pub(crate) fn push_prompt(
        &mut self,
        mut prompt: Prompt,
        preface: Option<&str>,
        editor: Option<String>,
    ) {
        self.environment.redact(&mut prompt.text);
        for notice in std::mem::take(&mut prompt.notices) {
            self.inbox.notice(Level::Warning, notice);
        }
        let mut shown = prompt.typed.unwrap_or_else(|| prompt.text.clone());
        self.environment.redact(&mut shown);
        let item = self.conversation.ids.item("user");
        self.hub.send(EventBody::ItemStarted {
            item: item.clone(),
            start: ItemStart::User { text: shown.clone() },
        });
        let mut parts = Vec::new();
        parts.extend(preface.map(Part::text));
        parts.extend(editor.map(|mut text| {
            self.environment.redact(&mut text);
            Part::text(text)
        }));
        // The context of session-start hooks goes first, in one part with the prompt.
        parts.push(Part::text(match self.hooks.hook_context.take() {
            Some(context) => format!("{context}\n\n{}", prompt.text),
            None => prompt.text,
        }));
        self.emit_images(&prompt.attachments, None);
        parts.extend(prompt.attachments);
        self.conversation.prompts.add(
            self.conversation.turn,
            self.conversation.history.len(),
            &shown,
        );
        let (display, turn) = (Some(shown), Some(self.conversation.turn));
        let remarks = ContentMetadata { display, turn, ..ContentMetadata::default() };
        self.conversation.history.push(&Content::user(parts), remarks);
        self.record_directories();
        self.report_storage_error();
        self.hub.send(EventBody::ItemDone { item, done: ItemDone::User });
    }

    /// Adds steering messages to the parts of a batch; returns their texts.
    pub(crate) fn take_steering(&mut self, parts: &mut Vec<Part>) -> Vec<String> {
        let mut said = Vec::new();
        for steer in std::mem::take(&mut self.inbox.steers) {
            let Prompt { mut text, attachments, notices, .. } = steer.prompt;
            for notice in notices {
                self.inbox.notice(Level::Warning, notice);
            }
            self.environment.redact(&mut text);
            self.inbox.steer_ended(steer.id, text.clone(), SteerFate::Delivered);
            let item = self.conversation.ids.item("user");
            self.hub.send(EventBody::ItemStarted {
                item: item.clone(),
                start: ItemStart::User { text: text.clone() },
            });
            self.hub.send(EventBody::ItemDone { item, done: ItemDone::User });
            self.emit_images(&attachments, None);
            parts.push(Part::text(text.clone()));
            parts.extend(attachments);
            said.push(text);
        }
        said
    }

    /// Emits the images among parts; `name` is used for images without a name.
    pub(crate) fn emit_images(&self, parts: &[Part], name: Option<&str>) {
        for image in Image::among(parts, name) {
            self.hub.send(EventBody::Image(image));
        }
    }
}
