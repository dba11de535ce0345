//! Lets the user decide about a detected loop: end the turn, or continue without loop
//! detection.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Ask, EndReason, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::{Decision, Verdict};

use crate::session::Session;

/// Replaces the user's message when a response was stopped.
pub(crate) const GO_ON: &str =
    "[The response was stopped because it repeated itself. The user wants you to continue.]";

impl Session {
    /// Ends the turn because of a loop, unless the user disables loop detection for the session.
    ///
    /// # Errors
    /// Returns the end reason if the turn ends.
    pub(crate) async fn confirm_loop(
        &mut self,
        detail: String,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if !self.environment.interactive || !self.budget.asks || self.agents.role.is_some() {
            return Err(EndReason::Loop { detail });
        }
        self.approval.asks += 1;
        let ask = Ask::of_session(
            AskId::new(format!("ask-loop-{}", self.approval.asks)),
            "loop",
            detail.clone(),
            Verdict::new(Decision::Ask, "model.disableLoopDetection", detail.clone()),
            Question::Loop,
            vec![AskOutcome::ProceedAlways, AskOutcome::Cancel],
        );
        match self.request_decision(ask, cancel).await?.outcome {
            AskOutcome::ProceedAlways => {
                self.current.loop_detection = false;
                Ok(())
            }
            _ => Err(EndReason::Loop { detail }),
        }
    }
}
