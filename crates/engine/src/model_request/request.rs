//! Builds model requests.

use std::sync::Arc;

use parallax_protocol::content::{Content, Part, SealedContent};
use parallax_protocol::event::{ContextUsed, EndReason, Failure, FailureKind};
use parallax_protocol::model::{Request, ToolSet};

use super::retry_action::TOO_LONG;
use crate::context::{RequestFrame, usage};
use crate::environment::SessionEnvironment;
use crate::history::History;
use crate::inbox::Inbox;
use crate::invariants;
use crate::model_client::ModelClient;
use crate::registry::ToolDeclarations;
use crate::routing::ModelRouter;
use crate::view::contents_of;

/// The inputs of a request.
pub(crate) struct RequestBuilder<'a> {
    pub(crate) client: &'a ModelClient,
    pub(crate) router: &'a ModelRouter,
    pub(crate) environment: &'a SessionEnvironment,
    pub(crate) inbox: &'a Inbox,
    pub(crate) history: &'a History,
    pub(crate) frame: RequestFrame,
    pub(crate) system: Arc<str>,
    pub(crate) tools: ToolDeclarations,
}

/// The attempt that a request is for.
pub(crate) struct AttemptKind {
    /// Whether a note asks for a response.
    pub(crate) is_nudge: bool,
    /// Whether the request carries tool results.
    pub(crate) after_tool: bool,
    pub(crate) is_retry: bool,
}

impl RequestBuilder<'_> {
    /// Builds the request.
    ///
    /// # Errors
    /// Returns the end reason if the conversation is larger than the context window.
    pub(crate) fn build(self, attempt: &AttemptKind) -> Result<Request, EndReason> {
        let model = self.frame.model.as_str();
        let ContextUsed { tokens: estimate, window: limit } = usage(&self.frame, self.history);
        if estimate > limit {
            return Err(EndReason::Failed(Failure {
                kind: FailureKind::Overflow,
                message: format!(
                    "the conversation has about {estimate} tokens, but the context window of \
                        `{model}` is {limit}; {TOO_LONG}"
                ),
                status: None,
            }));
        }
        let mut contents = contents_of(self.history.view());
        if attempt.is_nudge {
            add_empty_response_note(&mut contents, attempt.after_tool);
        }
        debug_assert_eq!(invariants::violation(&contents), None);
        let Self { client, router, environment, inbox, .. } = self;
        let configured = inbox.model();
        let chooses = router.is_active(configured);
        Ok(Request {
            model: model.to_owned(),
            system: self.system,
            contents,
            tools: self.tools.json.map_or(ToolSet::None, ToolSet::Functions),
            generation: client.generation(inbox.thinking_level()),
            role: environment.role.as_ref().map_or("main", |role| &*role.name).to_owned(),
            alias: router.settings_alias(model, configured),
            // The user could be asked, or has agreed, to use another model.
            has_fallback: environment.interactive && router.has_fallback(model, configured),
            is_retry: attempt.is_retry,
            continuation: None,
            max_attempts: match router.limits_to_one_attempt(model) {
                true => Some(1),
                false => {
                    client.max_attempts().or_else(|| client.catalog().attempts(model, chooses))
                }
            },
        })
    }
}

/// Adds a note that asks for a response, in this request only.
fn add_empty_response_note(contents: &mut Vec<SealedContent>, after_tool: bool) {
    let note = Part::text(
        "[System: The last response was empty. Give the final answer now, or call a tool.]",
    );
    if after_tool {
        contents.push(Content::model(vec![Part::text("[tool done]")]).seal());
        contents.push(Content::user(vec![note]).seal());
    } else if let Some(last) = contents.pop() {
        match last.open() {
            Ok(mut content) => {
                content.parts.push(note);
                contents.push(content.seal());
            }
            Err(_) => contents.push(last),
        }
    }
}
