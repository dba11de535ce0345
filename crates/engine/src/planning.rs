//! Plan mode in a session: how it begins and ends, and the plan agreed to.

use std::path::{Path, PathBuf};

use parallax_protocol::event::Level;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::{PlanRecord, Record};
use parallax_protocol::tool::SessionChange;

use crate::history::now;
use crate::session::Session;

/// A plan that a person or a rule agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedPlan {
    /// Its file, absolute.
    pub path: PathBuf,
    /// How many contents the history had then: a history that goes back behind
    /// that has no plan.
    pub at: usize,
}

impl AgreedPlan {
    /// The plan that these records of a session end with. `contents`: how many
    /// contents the session has.
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
    /// Does what a finished call wants of the session.
    pub(crate) fn change(&mut self, change: SessionChange) {
        let record =
            |plan, approved| PlanRecord { time: now(), plan, approved, mode: None, feedback: None };
        match change {
            SessionChange::Planning => self.set_mode(ApprovalMode::Plan),
            SessionChange::PlanApproved { plan, mode } => {
                let mode = if self.trusted { mode } else { mode.min(ApprovalMode::Default) };
                let record = PlanRecord { mode: Some(mode), ..record(plan.clone(), true) };
                self.history.record(&Record::Plan(record));
                self.hook_plan(&plan, mode);
                self.plan = Some(AgreedPlan { path: plan, at: self.history.len() });
                self.set_mode(mode);
                self.yolo_by_rule = !self.interactive && !self.began_in_yolo;
                if mode == ApprovalMode::Yolo {
                    let text = "the plan is agreed to by a rule, since nobody can be asked: \
                                everything runs without a question from here on";
                    self.inbox.notice(Level::Warning, text);
                }
            }
            SessionChange::PlanRejected { plan, feedback } => {
                let record = PlanRecord { feedback, ..record(plan, false) };
                self.history.record(&Record::Plan(record));
            }
        }
    }

    /// The plan that the work follows, if one was agreed to.
    pub(crate) fn plan(&self) -> Option<&Path> {
        let plan = self.plan.as_ref().filter(|plan| plan.at < self.history.len());
        plan.map(|plan| plan.path.as_path())
    }

    fn set_mode(&mut self, mode: ApprovalMode) {
        self.inbox.mode = mode;
        self.inbox.tell_state();
    }
}
