//! Runs the user's hooks: at events of the session, of tool calls, and of model requests.

mod model_events;
mod session_events;
mod tool_events;
mod views;

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::event::EventBody;
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome, Hooks};
use parallax_protocol::observer::SpanSubject;
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::event_bus::EventBus;
use crate::inbox::Inbox;
use crate::notices::Notices;

pub(crate) use self::model_events::ResponseView;
pub(crate) use self::session_events::{BeforeAgentResult, Continuations};
pub(crate) use self::tool_events::{AfterToolInput, STOP_PREFIX};

/// Hooks that run longer than this are shown in the status.
const STATUS_DELAY: Duration = Duration::from_millis(300);

/// The user's hooks and what they did.
pub(crate) struct HookRunner {
    user: Option<Arc<dyn Hooks>>,
    bus: EventBus,
    notices: Notices,
    /// The running session-start hooks.
    starting: JoinSet<HookOutcome>,
    /// The running notification hooks.
    notified: JoinSet<()>,
    /// The context that session-start hooks add to the first prompt.
    context: Option<String>,
}

impl HookRunner {
    pub(crate) fn new(user: Option<Arc<dyn Hooks>>, bus: EventBus, notices: Notices) -> Self {
        Self {
            user,
            bus,
            notices,
            starting: JoinSet::new(),
            notified: JoinSet::new(),
            context: None,
        }
    }

    /// Whether any hook subscribes to the event.
    pub(crate) fn has_subscriber(&self, event: HookEvent, chunk: bool) -> bool {
        self.user.as_ref().is_some_and(|hooks| hooks.has_subscriber(event, chunk))
    }

    /// Runs the hooks of an event and shows their messages to the user.
    async fn run(
        &self,
        mut call: HookCall,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> HookOutcome {
        let Some(hooks) = &self.user else { return HookOutcome::default() };
        if !hooks.has_subscriber(call.event, call.chunk) {
            return HookOutcome::default();
        }
        call.trace = call.trace.or_else(|| self.bus.trace_headers(SpanSubject::Turn));
        let (names, event) = (hooks.titles(&call), call.event);
        let running = with_status(&self.bus, names, hooks.run(call, cancel.clone()));
        let outcome = inbox.while_receiving(running).await;
        self.emit_messages(event, &outcome);
        outcome
    }

    fn emit_messages(&self, event: HookEvent, outcome: &HookOutcome) {
        for message in &outcome.messages {
            self.notices.send(message.notice(event));
        }
        for text in &outcome.asides {
            self.bus.send(EventBody::Aside { text: text.clone() });
        }
    }

    /// Runs hooks in the background, without waiting for them.
    fn spawn(&mut self, call: HookCall) {
        let Some(hooks) = self.user.clone().filter(|hooks| hooks.has_subscriber(call.event, false))
        else {
            return;
        };
        // They may outlive the turn, but not their own time limit.
        while self.notified.try_join_next().is_some() {}
        let cancel = CancellationToken::new();
        let (bus, ids) = (self.bus.clone(), self.notices.reserve_ids());
        self.notified.spawn(async move {
            let event = call.event;
            let outcome = hooks.run(call, cancel).await;
            for (message, item) in outcome.messages.into_iter().zip(ids) {
                bus.send(EventBody::ItemDone { item, done: message.notice(event) });
            }
        });
    }
}

/// Shows slow hooks in the status while they run.
async fn with_status<F: Future>(bus: &EventBus, names: Vec<String>, running: F) -> F::Output {
    tokio::pin!(running);
    if names.is_empty() {
        return running.await;
    }
    tokio::select! {
        biased;
        outcome = &mut running => return outcome,
        () = tokio::time::sleep(STATUS_DELAY) => bus.send(EventBody::HooksRun { names }),
    }
    let outcome = running.await;
    bus.send(EventBody::HooksRun { names: Vec::new() });
    outcome
}

/// Returns the fields of an object literal.
fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
