//! Builds model requests and reports the context usage.

use parallax_protocol::content::{Content, Part, Sealed};
use parallax_protocol::event::{ContextUsed, EndReason, EventBody, Failure, FailureKind};
use parallax_protocol::model::{Request, ToolSet};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;
use parallax_protocol::{CancellationToken, Object};
use serde_json::json;

use super::retry_action::TOO_LONG;
use crate::coordinator_mode;
use crate::registry::ToolDeclarations;
use crate::session::Session;
use crate::tokens;
impl Session {
    pub(crate) fn request(
        &mut self,
        model: &str,
        has_nudged: bool,
        after_tool: bool,
        is_retry: bool,
    ) -> Result<Request, EndReason> {
        let mode = self.inbox.mode;
        let tools = self.declarations(mode);
        let system = (self.context.system)(mode, &tools.names);
        let ContextUsed { tokens: estimate, window: limit } = self.context(model);
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
        let mut contents = crate::view::contents_of(self.conversation.history.view());
        if has_nudged {
            nudge(&mut contents, after_tool);
        }
        debug_assert_eq!(crate::invariants::violation(&contents), None);
        Ok(Request {
            model: model.to_owned(),
            system,
            contents,
            tools: tools.json.map_or(ToolSet::None, ToolSet::Functions),
            generation: self.generation(),
            role: self.agents.role.as_ref().map_or("main", |role| &*role.name).to_owned(),
            alias: self.settings_alias(model),
            has_fallback: self.has_fallback(model),
            is_retry,
            continuation: None,
            max_attempts: match self.router.models.is_limited_to_one_attempt(model) {
                true => Some(1),
                false => self
                    .client
                    .max_attempts
                    .or_else(|| self.client.model.catalog().attempts(model, self.chooses())),
            },
        })
    }

    /// Returns the generation settings of the session, with the thinking level that the user chose.
    fn generation(&self) -> Object {
        let mut generation = self.client.generation.clone();
        if let Some(level) = &self.inbox.thinking_level {
            // A budget from the settings would contradict the level.
            let config = json!({"thinkingLevel": level, "thinkingBudget": null});
            generation.insert("thinkingConfig".to_owned(), config);
        }
        generation
    }

    /// Returns the name that settings use for the model: the requested one, unless another model
    /// replaces it.
    fn settings_alias(&self, model: &str) -> String {
        let asked = self.router.route.as_ref().map_or(&self.inbox.model, |route| &route.asked);
        let chosen = self.chooses() && *asked == self.inbox.model;
        match chosen || self.client.model.catalog().resolve(asked) == model {
            true => asked.clone(),
            false => model.to_owned(),
        }
    }

    /// Whether the user could be asked, or has agreed, to use a fallback model.
    fn has_fallback(&self, model: &str) -> bool {
        self.environment.interactive
            && self.router.routing.fallback != FallbackPolicy::Off
            && self.fallback_model(model, None).is_some()
    }

    /// Waits, before the first prompt, for tools that must be present, and adds their description
    /// to the prompt.
    pub(crate) async fn wait_for_tools(&mut self, cancel: &CancellationToken) {
        let Some(settled) = self.registry.settled() else { return };
        tokio::select! {
            biased;
            () = self.inbox.while_receiving(settled) => {}
            () = cancel.cancelled() => return,
        }
        if let (Some(preface), Some(context)) =
            (&mut self.conversation.preface, self.registry.context())
        {
            preface.push_str("\n\n");
            preface.push_str(&context);
        }
    }

    /// Updates the tools that were added or removed since the last request.
    pub(super) fn refresh_tools(&mut self) {
        if self.registry.refresh() {
            self.client.declared = None;
        }
    }

    /// Returns the context usage of the next request.
    pub(crate) fn context(&mut self, model: &str) -> ContextUsed {
        let fixed = self.fixed_tokens();
        let window = self.client.model.catalog().limits(model).context;
        ContextUsed { tokens: self.conversation.history.estimate(fixed), window }
    }

    /// Estimates the fixed tokens of every request: system prompt and tools.
    pub(crate) fn fixed_tokens(&mut self) -> u64 {
        let (system, tools) = self.fixed_token_parts();
        system + tools
    }

    /// Like [`Self::fixed_tokens`], but separate for the system prompt and the tools.
    pub(crate) fn fixed_token_parts(&mut self) -> (u64, u64) {
        let mode = self.inbox.mode;
        let tools = self.declarations(mode);
        let system = tokens::of_text(&(self.context.system)(mode, &tools.names));
        (system, tools.json.map_or(0, |tools| tokens::of_text(tools.get())))
    }

    /// Emits the context usage if it changed.
    pub(crate) fn emit_context_usage(&mut self) {
        let model = self.main_model();
        let used = self.context(&model);
        if self.context.reported_context.replace(used) != Some(used) {
            self.hub.send(EventBody::ContextUsed(used));
        }
    }

    /// Returns the tool declarations, cached per mode.
    fn declarations(&mut self, mode: ApprovalMode) -> ToolDeclarations {
        if let Some((known, declared)) = &self.client.declared
            && *known == mode
        {
            return declared.clone();
        }
        let declared = self.registry.declarations(
            self.approval.judge.as_ref(),
            mode,
            self.environment.interactive,
            |spec| {
                (!self.current.is_coordinator || coordinator_mode::has(spec))
                    && self.is_tool_enabled(&spec.name)
                    && !self.client.rejected_tools.contains(&spec.name)
            },
        );
        self.client.declared = Some((mode, declared.clone()));
        declared
    }
}

/// Adds a note that asks for a response, in this request only.
fn nudge(contents: &mut Vec<Sealed>, after_tool: bool) {
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
