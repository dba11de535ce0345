//! Approval requests for the shell commands of custom commands. The engine does not know them: they
//! are announced like its own, and their answers go to the preparation of the prompt.

use std::collections::HashMap;
use std::sync::Arc;

use parallax_protocol::event::{ApprovalRequest, Event, EventBody};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::typed_input::CommandApprover;
use tokio::sync::{mpsc, oneshot};

/// A request and where its answer goes.
type PendingApproval = (ApprovalRequest, oneshot::Sender<ApprovalResponse>);

/// The requests of the prompt that is being prepared.
pub(super) struct CommandApprovals {
    sender: mpsc::Sender<PendingApproval>,
    requested: mpsc::Receiver<PendingApproval>,
    open: HashMap<ApprovalId, PendingApproval>,
}

impl CommandApprovals {
    pub(super) fn new() -> Self {
        let (sender, requested) = mpsc::channel(1);
        Self { sender, requested, open: HashMap::new() }
    }

    /// Returns a function that requests approval on behalf of a prompt.
    pub(super) fn approver(&self) -> CommandApprover {
        let requests = self.sender.clone();
        Arc::new(move |request| {
            let requests = requests.clone();
            Box::pin(async move {
                let (reply, answer) = oneshot::channel();
                // Without an answer, the command is denied.
                if requests.send((request, reply)).await.is_err() {
                    return ApprovalResponse::Cancel;
                }
                answer.await.unwrap_or(ApprovalResponse::Cancel)
            })
        })
    }

    /// Waits for a request and returns the event that announces it.
    pub(super) async fn next(&mut self) -> Event {
        // The sender lives as long as this.
        let Some((request, reply)) = self.requested.recv().await else {
            return std::future::pending().await;
        };
        self.open.insert(request.id.clone(), (request.clone(), reply));
        event(EventBody::ApprovalRequested(Box::new(request)))
    }

    /// Whether a request is open.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns an open request.
    pub(super) fn find(&self, id: &str) -> Option<&ApprovalRequest> {
        self.open.get(&ApprovalId::new(id)).map(|(request, _)| request)
    }

    /// Answers a request. Returns the event that closes it; `None` if the request is unknown.
    pub(super) fn decide(&mut self, id: &str, outcome: ApprovalResponse) -> Option<Event> {
        let (request, reply) = self.open.remove(&ApprovalId::new(id))?;
        // Fails only if the preparation was abandoned.
        let _ = reply.send(outcome);
        Some(event(EventBody::ApprovalClosed { ask: request.id, outcome: Some(outcome) }))
    }

    /// Denies all open requests. Returns the events that close them.
    pub(super) fn deny_all(&mut self) -> Vec<Event> {
        let ids: Vec<ApprovalId> = self.open.keys().cloned().collect();
        let denied = ids.iter().map(|id| self.decide(id.as_str(), ApprovalResponse::Cancel));
        denied.flatten().collect()
    }
}

/// Wraps an event that is not one of the session.
fn event(body: EventBody) -> Event {
    Event { seq: 0, turn: 0, body }
}
