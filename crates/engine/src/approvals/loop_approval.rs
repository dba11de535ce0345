//! Asks the user what to do about a detected loop: end the turn, or continue without loop
//! detection.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{ApprovalRequest, EndReason, Question};
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::{Decision, PolicyDecision};

use super::user_requests::UserRequests;
use crate::loop_detection::LoopDetector;

/// Ends the turn because of a loop, unless the user disables loop detection for the session.
///
/// # Errors
/// Returns the end reason if the turn ends.
pub(crate) async fn confirm_loop(
    detail: String,
    loops: &mut LoopDetector,
    users: &mut UserRequests<'_>,
    cancel: &CancellationToken,
) -> Result<(), EndReason> {
    let ask = ApprovalRequest::for_session(
        users.next_id("loop"),
        "loop",
        detail.clone(),
        PolicyDecision::new(Decision::Ask, "model.disableLoopDetection", detail.clone()),
        Question::Loop,
        vec![ApprovalResponse::ProceedAlways, ApprovalResponse::Cancel],
    );
    match users.request_decision(ask, cancel).await?.outcome {
        ApprovalResponse::ProceedAlways => {
            loops.disable();
            Ok(())
        }
        _ => Err(EndReason::Loop { detail }),
    }
}
