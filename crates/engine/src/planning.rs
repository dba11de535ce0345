//! Plan mode: entering and leaving it, and the approved plan.

use std::path::{Path, PathBuf};

use parallax_protocol::event::Level;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::{PlanRecord, Record};
use parallax_protocol::tool::SessionChange;

use crate::conversation::Conversation;
use crate::history::now;
use crate::inbox::Inbox;
use crate::session::Session;

/// A plan that the user or a rule approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedPlan {
    /// The absolute path of its file.
    pub path: PathBuf,
    /// The number of contents at approval: rewinding behind that discards the plan.
    pub at: usize,
}

impl ApprovedPlan {
    /// Returns the plan that is active after these records. `contents`: the number of contents of
    /// the session.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>, contents: usize) -> Option<Self> {
        let (mut plan, mut at) = (None, 0);
        for record in records {
            match record {
                Record::Content(_) | Record::Round(_) => at += 1,
                Record::Plan(PlanRecord { plan: path, approved: true, .. }) => {
                    plan = Some(Self { path: path.clone(), at });
                }
                _ => {}
            }
        }
        plan.filter(|plan| plan.at < contents)
    }
}

impl Session {
    /// Applies the session change that a finished call requests.
    pub(crate) fn change(&mut self, change: SessionChange) {
        let record =
            |plan, approved| PlanRecord { time: now(), plan, approved, mode: None, feedback: None };
        match change {
            SessionChange::Planning => self.inbox.set_mode(ApprovalMode::Plan),
            SessionChange::PlanApproved { plan, mode } => {
                let mode =
                    if self.environment.trusted { mode } else { mode.min(ApprovalMode::Default) };
                let record = PlanRecord { mode: Some(mode), ..record(plan.clone(), true) };
                self.conversation.history.record(&Record::Plan(record));
                self.notify_hooks_of_plan(&plan, mode);
                self.conversation.plan =
                    Some(ApprovedPlan { path: plan, at: self.conversation.history.len() });
                self.inbox.set_mode(mode);
                self.approval.yolo_by_rule =
                    !self.environment.interactive && !self.approval.began_in_yolo;
                if mode == ApprovalMode::Yolo {
                    let text = "A rule approved the plan because no user is present. YOLO mode: \
                        all actions are auto-approved from now on";
                    self.inbox.notice(Level::Warning, text);
                }
            }
            SessionChange::PlanRejected { plan, feedback } => {
                let record = PlanRecord { feedback, ..record(plan, false) };
                self.conversation.history.record(&Record::Plan(record));
            }
        }
    }
}

impl Conversation {
    /// Returns the approved plan that the work follows, if any.
    pub(crate) fn plan(&self) -> Option<&Path> {
        let plan = self.plan.as_ref().filter(|plan| plan.at < self.history.len());
        plan.map(|plan| plan.path.as_path())
    }
}

impl Inbox {
    pub(crate) fn set_mode(&mut self, mode: ApprovalMode) {
        self.mode = mode;
        self.emit_state();
    }
}
