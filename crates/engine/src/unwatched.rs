//! A loop where a person is there: is it one? They may go on without the loop
//! guard.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Ask, EndReason, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::{Decision, Verdict};

use crate::session::Session;

/// Stands for a person's word where an answer was cut.
pub(crate) const GO_ON: &str =
    "[The answer was cut, since it repeated itself. The user wants you to go on.]";

impl Session {
    /// The loop guard wants to end the turn. A person who is there may switch it
    /// off for the session; then the turn goes on.
    ///
    /// # Errors
    /// The end of the turn.
    pub(crate) async fn stop_loop(
        &mut self,
        detail: String,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        if !self.interactive || !self.budget.asks || self.role.is_some() {
            return Err(EndReason::Loop { detail });
        }
        self.asks += 1;
        let ask = Ask::of_session(
            AskId::new(format!("ask-loop-{}", self.asks)),
            "loop",
            detail.clone(),
            Verdict::new(Decision::Ask, "model.disableLoopDetection", detail.clone()),
            Question::Loop,
            vec![AskOutcome::ProceedAlways, AskOutcome::Cancel],
        );
        match self.put_question(ask, cancel).await?.outcome {
            AskOutcome::ProceedAlways => {
                self.loop_detection = false;
                Ok(())
            }
            _ => Err(EndReason::Loop { detail }),
        }
    }
}
