//! The session's hooks as its subagents see them: they get tool and model events, but no
//! session or prompt events, since a subagent is not a session of the user.

use std::sync::Arc;

use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome, Hooks};
use parallax_protocol::{BoxFuture, CancellationToken};

pub(super) struct SubagentHooks(pub(super) Arc<dyn Hooks>);

impl Hooks for SubagentHooks {
    fn has_subscriber(&self, event: HookEvent, chunk: bool) -> bool {
        let is_of_sessions = matches!(
            event,
            HookEvent::SessionStart
                | HookEvent::SessionEnd
                | HookEvent::BeforeAgent
                | HookEvent::AfterAgent
        );
        !is_of_sessions && self.0.has_subscriber(event, chunk)
    }

    fn run(&self, call: HookCall, cancel: CancellationToken) -> BoxFuture<'static, HookOutcome> {
        self.0.run(call, cancel)
    }
}
