//! The plan that the user approved.

use std::path::PathBuf;

use parallax_protocol::store::{PlanRecord, Record};

/// A plan that the user or a rule approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedPlan {
    /// The absolute path of its file.
    pub path: PathBuf,
    /// The number of contents at approval: rewinding to before it discards the plan.
    pub at: usize,
}

impl ApprovedPlan {
    /// Returns the plan that is active after these records. `contents`: the number of contents of
    /// the session.
    pub fn from_records<'a>(
        records: impl IntoIterator<Item = &'a Record>,
        contents: usize,
    ) -> Option<Self> {
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
