//! Text that a user typed, on its way to a prompt.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::BoxFuture;
use crate::event::{ApprovalRequest, Failure};
use crate::op::{ApprovalResponse, Prompt};
use crate::policy::ApprovalMode;

/// Asks the user whether a shell command of a custom command may run.
pub type CommandApprover =
    Arc<dyn Fn(ApprovalRequest) -> BoxFuture<'static, ApprovalResponse> + Send + Sync>;

/// Converts a typed text to a prompt: reads referenced files and expands custom commands.
pub type ExpandInput =
    Arc<dyn Fn(TypedInput) -> BoxFuture<'static, Result<Prompt, Failure>> + Send + Sync>;

/// Typed input, and what determines the approval of the shell commands of a custom command.
pub struct TypedInput {
    /// The text.
    pub text: String,
    /// The current mode of the session.
    pub mode: ApprovalMode,
    /// Asks the user; without it, commands that need approval are denied.
    pub approver: Option<CommandApprover>,
}

/// The approval mode of a session as its front end has to assume it: a change that the front end
/// requested applies as soon as it is requested, although the session confirms it later.
#[derive(Debug, Clone)]
pub struct CurrentMode {
    confirmed: ApprovalMode,
    requested: VecDeque<ApprovalMode>,
}

impl CurrentMode {
    /// Begins with the mode in which the session was opened.
    pub fn new(mode: ApprovalMode) -> Self {
        Self { confirmed: mode, requested: VecDeque::new() }
    }

    /// Records that the session was asked to change its mode.
    pub fn request(&mut self, mode: ApprovalMode) {
        self.requested.push_back(mode);
    }

    /// Records the mode that the session reports.
    pub fn confirm(&mut self, mode: ApprovalMode) {
        self.confirmed = mode;
        if self.requested.front() == Some(&mode) {
            self.requested.pop_front();
        }
    }

    /// Returns the mode.
    pub fn get(&self) -> ApprovalMode {
        self.requested.back().copied().unwrap_or(self.confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_mode_applies_until_the_session_reports_it() {
        let mut mode = CurrentMode::new(ApprovalMode::Yolo);
        mode.request(ApprovalMode::Default);
        // For example, the report of a model change.
        mode.confirm(ApprovalMode::Yolo);
        assert_eq!(mode.get(), ApprovalMode::Default);
        mode.confirm(ApprovalMode::Default);
        mode.confirm(ApprovalMode::Plan);
        assert_eq!(mode.get(), ApprovalMode::Plan);
    }
}
