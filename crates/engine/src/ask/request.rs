//! Building a model request, and telling how full it makes the context.

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Content, Part, Sealed};
use parallax_protocol::event::{ContextUsed, EndReason, EventBody, Failure, FailureKind};
use parallax_protocol::model::{Request, ToolSet};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::FallbackPolicy;

use super::again::TOO_LONG;
use crate::coordinating;
use crate::registry::Declared;
use crate::session::Session;
use crate::tokens;
impl Session {
    pub(crate) fn request(
        &mut self,
        model: &str,
        nudged: bool,
        after_tool: bool,
        is_retry: bool,
    ) -> Result<Request, EndReason> {
        let mode = self.inbox.mode;
        let tools = self.declarations(mode);
        let system = (self.system)(mode, &tools.names);
        let ContextUsed { tokens: estimate, window: limit } = self.context(model);
        if estimate > limit {
            return Err(EndReason::Failed(Failure {
                kind: FailureKind::Overflow,
                message: format!(
                    "the conversation has about {estimate} tokens and `{model}` takes {limit}; \
                     {TOO_LONG}"
                ),
                status: None,
            }));
        }
        let mut contents = crate::view::contents_of(self.history.view());
        if nudged {
            nudge(&mut contents, after_tool);
        }
        debug_assert_eq!(crate::invariants::violation(&contents), None);
        Ok(Request {
            model: model.to_owned(),
            system,
            contents,
            tools: tools.json.map_or(ToolSet::None, ToolSet::Functions),
            generation: self.generation.clone(),
            role: self.role.as_ref().map_or("main", |role| &*role.name).to_owned(),
            alias: self.asked_alias(model),
            gives_way: self.gives_way(model),
            is_retry,
            taken: None,
            max_attempts: match self.models.one_attempt(model) {
                true => Some(1),
                false => self.max_attempts.or_else(|| self.model.attempts(model, self.chooses())),
            },
        })
    }

    /// The name that settings know the model by: the one that was asked for, unless
    /// another model is in its place.
    fn asked_alias(&self, model: &str) -> String {
        let asked = self.route.as_ref().map_or(&self.inbox.model, |route| &route.asked);
        let chosen = self.chooses() && *asked == self.inbox.model;
        match chosen || self.model.resolve(asked) == model {
            true => asked.clone(),
            false => model.to_owned(),
        }
    }

    /// Whether a person could be asked, or has said, to let another model answer.
    fn gives_way(&self, model: &str) -> bool {
        self.interactive
            && self.routing.fallback != FallbackPolicy::Off
            && self.substitute(model, None).is_some()
    }

    /// Waits, before the first prompt, for tools that it cannot do without, and
    /// says what the model should know of them.
    pub(crate) async fn await_tools(&mut self, cancel: &CancellationToken) {
        let Some(settled) = self.registry.settled() else { return };
        tokio::select! {
            biased;
            () = self.inbox.during(settled) => {}
            () = cancel.cancelled() => return,
        }
        if let (Some(preface), Some(context)) = (&mut self.preface, self.registry.context()) {
            preface.push_str("\n\n");
            preface.push_str(&context);
        }
    }

    /// Takes over tools that came or went since the last request.
    pub(super) fn take_tools(&mut self) {
        if self.registry.refresh() {
            self.declared = None;
        }
    }

    /// How full the context of a model would be with the next request.
    pub(crate) fn context(&mut self, model: &str) -> ContextUsed {
        let fixed = self.fixed_tokens();
        let window = self.model.limits(model).context;
        ContextUsed { tokens: self.history.estimate(fixed), window }
    }

    /// An estimate of what goes with every request: system prompt and tools.
    pub(crate) fn fixed_tokens(&mut self) -> u64 {
        let (system, tools) = self.fixed_parts();
        system + tools
    }

    /// The same, of the system prompt and of the tools.
    pub(crate) fn fixed_parts(&mut self) -> (u64, u64) {
        let mode = self.inbox.mode;
        let tools = self.declarations(mode);
        let system = tokens::of_text(&(self.system)(mode, &tools.names));
        (system, tools.json.map_or(0, |tools| tokens::of_text(tools.get())))
    }

    /// Tells how full the context is, where that is new.
    pub(crate) fn tell_context(&mut self) {
        let model = self.main_model();
        let used = self.context(&model);
        if self.told_context.replace(used) != Some(used) {
            self.hub.send(EventBody::ContextUsed(used));
        }
    }

    /// The declarations of the tools, made once for a mode.
    fn declarations(&mut self, mode: ApprovalMode) -> Declared {
        if let Some((known, declared)) = &self.declared
            && *known == mode
        {
            return declared.clone();
        }
        let declared =
            self.registry.declarations(self.judge.as_ref(), mode, self.interactive, |spec| {
                (!self.coordinating || coordinating::has(spec))
                    && self.is_wished(&spec.name)
                    && !self.rejected_tools.contains(&spec.name)
            });
        self.declared = Some((mode, declared.clone()));
        declared
    }
}

/// Asks for an answer, in this request only.
fn nudge(contents: &mut Vec<Sealed>, after_tool: bool) {
    let note = Part::text(
        "[System: the last response held no answer. Give the final answer now, or call a tool.]",
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
