//! Requests to the user that concern no tool call.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{ApprovalRequest, EndReason, EventBody, Level};
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::op::RequestDecision;

use super::ApprovalState;
use crate::hooks::HookRunner;
use crate::inbox::Inbox;

/// What a request to the user needs.
pub(crate) struct UserRequests<'a> {
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) hooks: &'a mut HookRunner,
    pub(crate) approvals: &'a mut ApprovalState,
}

impl UserRequests<'_> {
    /// Returns an id for a request; `subject` says what it is about.
    pub(crate) fn next_id(&mut self, subject: &str) -> ApprovalId {
        ApprovalId::new(format!("ask-{subject}-{}", self.approvals.next_request()))
    }

    /// Whether a user can respond.
    pub(crate) fn is_interactive(&self) -> bool {
        self.approvals.environment.interactive
    }

    /// Sends the request and waits for the response.
    ///
    /// # Errors
    /// Returns the end reason if the turn is interrupted while the user decides.
    pub(crate) async fn request_decision(
        &mut self,
        request: ApprovalRequest,
        cancel: &CancellationToken,
    ) -> Result<RequestDecision, EndReason> {
        let (id, offered) = (request.id.clone(), request.outcomes.clone());
        self.hooks.notify_of_approval(&request, &request.name);
        self.approvals.bus.send(EventBody::ApprovalRequested(Box::new(request)));
        loop {
            for decide in self.inbox.take_decisions() {
                if decide.ask == id && offered.contains(&decide.outcome) {
                    self.close(id, Some(&decide));
                    return Ok(decide);
                }
                let text = match decide.ask == id {
                    true => format!(
                        "request `{id}` is still pending: this response is not \
                        available"
                    ),
                    false => format!("No pending request `{}`", decide.ask),
                };
                self.inbox.notice(Level::Error, text);
            }
            tokio::select! {
                biased;
                () = self.inbox.receive() => {}
                () = cancel.cancelled() => {
                    self.close(id, None);
                    return Err(EndReason::Cancelled);
                }
            }
        }
    }

    /// Closes a request; without a response it was withdrawn.
    pub(crate) fn close(&self, ask: ApprovalId, response: Option<&RequestDecision>) {
        let outcome = response.map(|decide| decide.outcome);
        self.approvals.bus.send(EventBody::ApprovalClosed { ask, outcome });
    }
}
