//! The hooks of a session as its sub-agents have them: calls and requests are
//! theirs too, but a sub-agent is no session of its own and has no prompts of
//! the person's.

use std::sync::Arc;

use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome, Hooks};
use parallax_protocol::{BoxFuture, CancellationToken};

pub(super) struct QuietHooks(pub(super) Arc<dyn Hooks>);

impl Hooks for QuietHooks {
    fn listens(&self, event: HookEvent, chunk: bool) -> bool {
        let is_of_sessions = matches!(
            event,
            HookEvent::SessionStart
                | HookEvent::SessionEnd
                | HookEvent::BeforeAgent
                | HookEvent::AfterAgent
        );
        !is_of_sessions && self.0.listens(event, chunk)
    }

    fn run(&self, call: HookCall, cancel: CancellationToken) -> BoxFuture<'static, HookOutcome> {
        self.0.run(call, cancel)
    }
}
