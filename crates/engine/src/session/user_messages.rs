//! Appends user messages to the conversation: prompts, and steering messages of a running turn.

use parallax_protocol::content::Part;
use parallax_protocol::event::{EventBody, ItemDone, ItemStart, Level, SteeringOutcome};
use parallax_protocol::image::Image;
use parallax_protocol::op::Prompt;
use parallax_protocol::store::HookContinuation;

use crate::closing_notes::UNANSWERED;
use crate::conversation::Conversation;
use crate::environment::SessionEnvironment;
use crate::event_bus::EventBus;
use crate::hooks::HookRunner;
use crate::inbox::Inbox;

/// Appends what the user writes.
pub(crate) struct UserMessages<'a> {
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) hooks: &'a mut HookRunner,
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) environment: &'a SessionEnvironment,
    pub(crate) bus: &'a EventBus,
}

impl UserMessages<'_> {
    /// Records a prompt that hooks rejected.
    pub(crate) fn record_prompt(&mut self, prompt: Prompt, continuation: Option<HookContinuation>) {
        self.conversation.close_open_calls(UNANSWERED);
        let preface = self.conversation.take_preface();
        self.push_prompt(prompt, continuation, preface.as_deref(), None);
    }

    /// Appends a prompt, or the text of hooks that continues a turn; `preface` and `editor` go
    /// before it.
    pub(crate) fn push_prompt(
        &mut self,
        mut prompt: Prompt,
        continuation: Option<HookContinuation>,
        preface: Option<&str>,
        editor: Option<String>,
    ) {
        self.environment.redact(&mut prompt.text);
        for notice in std::mem::take(&mut prompt.notices) {
            self.inbox.notices().show_kind(Level::Warning, "prompt", notice);
        }
        let mut display_text = prompt.typed_command.unwrap_or_else(|| prompt.text.clone());
        self.environment.redact(&mut display_text);
        let mut labeled_text = prompt.labeled_text;
        if let Some(text) = &mut labeled_text {
            self.environment.redact(text);
        }
        let item = self.conversation.next_item("user");
        self.bus.send(EventBody::ItemStarted {
            item: item.clone(),
            start: ItemStart::User { text: display_text.clone() },
        });
        let mut parts = Vec::new();
        parts.extend(preface.map(Part::text));
        parts.extend(editor.map(|mut text| {
            self.environment.redact(&mut text);
            Part::text(text)
        }));
        // The context of session-start hooks goes first, in one part with the prompt.
        parts.push(Part::text(match self.hooks.take_context() {
            Some(context) => format!("{context}\n\n{}", prompt.text),
            None => prompt.text,
        }));
        self.emit_images(&prompt.attachments);
        parts.extend(prompt.attachments);
        match continuation {
            Some(HookContinuation { hooks, .. }) => {
                let continuation = HookContinuation { hooks, text: display_text };
                self.conversation.push_continuation(parts, continuation);
            }
            None => self.conversation.push_prompt(parts, display_text, labeled_text),
        }
        // A subagent's directories are those of the session.
        if self.environment.role.is_none() {
            let directories = (self.environment.workspace)().into_iter().skip(1).collect();
            self.conversation.record_directories(directories);
            self.conversation.record_model_of_prompt(self.inbox);
        }
        self.conversation.report_storage_error(self.inbox.notices());
        self.bus.send(EventBody::ItemDone { item, done: ItemDone::User });
    }

    /// Adds steering messages to the parts of a batch; returns their text.
    pub(crate) fn take_steering(&mut self, parts: &mut Vec<Part>) -> Vec<String> {
        let mut output = Vec::new();
        for steer in self.inbox.take_steering() {
            let Prompt { mut text, attachments, notices, .. } = steer.prompt;
            for notice in notices {
                self.inbox.notices().show_kind(Level::Warning, "prompt", notice);
            }
            self.environment.redact(&mut text);
            self.inbox.report_steering_outcome(steer.id, text.clone(), SteeringOutcome::Delivered);
            let item = self.conversation.next_item("user");
            self.bus.send(EventBody::ItemStarted {
                item: item.clone(),
                start: ItemStart::User { text: text.clone() },
            });
            self.bus.send(EventBody::ItemDone { item, done: ItemDone::User });
            self.emit_images(&attachments);
            parts.push(Part::text(text.clone()));
            parts.extend(attachments);
            output.push(text);
        }
        output
    }

    fn emit_images(&self, parts: &[Part]) {
        for image in Image::from_parts(parts, None) {
            self.bus.send(EventBody::Image(image));
        }
    }
}
