//! Changes to the session that a finished call requests: entering and leaving plan mode.

use parallax_protocol::event::Level;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::{PlanRecord, Record};
use parallax_protocol::tool::SessionChange;

use super::ToolRunner;
use crate::history::now;

impl ToolRunner<'_> {
    /// Applies the session change that a finished call requests.
    pub(super) fn apply_change(&mut self, change: SessionChange) {
        let record =
            |plan, approved| PlanRecord { time: now(), plan, approved, mode: None, feedback: None };
        match change {
            SessionChange::Planning => self.inbox.set_mode(ApprovalMode::Plan),
            SessionChange::PlanApproved { plan, mode } => {
                let mode =
                    if self.environment.trusted { mode } else { mode.min(ApprovalMode::Default) };
                let record = PlanRecord { mode: Some(mode), ..record(plan.clone(), true) };
                self.conversation.history_mut().record(&Record::Plan(record));
                self.hooks.notify_of_plan(&plan, mode);
                self.conversation.approve_plan(plan);
                self.inbox.set_mode(mode);
                self.approvals.record_approved_plan();
                if mode == ApprovalMode::Yolo {
                    let text = "A rule approved the plan because no user is present. YOLO mode: \
                        all actions are auto-approved from now on";
                    self.inbox.notice(Level::Warning, text);
                }
            }
            SessionChange::PlanRejected { plan, feedback } => {
                let record = PlanRecord { feedback, ..record(plan, false) };
                self.conversation.history_mut().record(&Record::Plan(record));
            }
        }
    }
}
