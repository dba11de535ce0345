//! The connected editor: its state, and the diffs that it shows. Changes are reviewed in the
//! terminal or in the editor, and the first decision counts.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use crate::edit_arguments::ProposedChange;
use parallax_protocol::Object;
use parallax_protocol::event::{ApprovalRequest, Question};
use parallax_protocol::ids::{ApprovalId, CallId};
use parallax_protocol::op::{ApprovalResponse, RequestDecision};
use parallax_protocol::tool::{FileDiff, Preview};
use parallax_sdk::ide::{CompanionSnapshot, CompanionStatus};

use crate::sanitize::one_row;

/// A diff to open in the editor.
#[derive(Debug)]
pub(crate) struct EditorDiff {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// The name of the editor.
    pub(crate) editor: String,
}

/// The connection to the editor and the diffs that are open in it.
#[derive(Debug, Default)]
pub(crate) struct EditorLink {
    /// The state of the connection.
    companion: Option<CompanionSnapshot>,
    /// The approval requests of the open diffs.
    open: HashSet<ApprovalId>,
    /// Requests accepted in the terminal while waiting for the editor's text.
    accepted_requests: HashSet<ApprovalId>,
    /// Calls whose change was edited and accepted, with the text and the response. The engine asks
    /// again for the edited change.
    accepted: HashMap<CallId, (String, RequestDecision)>,
    /// Whether the user is waiting for the result of connecting to the editor.
    shows_status: bool,
    /// Whether the user was already asked in this run whether to connect.
    has_offered: bool,
}

impl EditorLink {
    /// Takes a new state of the connection. Returns whether the user waits to see it.
    pub(crate) fn update(&mut self, snapshot: CompanionSnapshot) -> bool {
        let is_settled = snapshot.status != CompanionStatus::Connecting;
        self.companion = Some(snapshot);
        is_settled && std::mem::take(&mut self.shows_status)
    }

    /// Returns the state of the connection.
    pub(crate) fn companion(&self) -> Option<&CompanionSnapshot> {
        self.companion.as_ref()
    }

    /// Whether the editor is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.companion.as_ref().is_some_and(CompanionSnapshot::is_connected)
    }

    /// Shows the result of connecting, once it is known.
    pub(crate) fn show_status(&mut self) {
        self.shows_status = true;
    }

    /// Whether the user was asked before whether to connect. Counts as asked from now on.
    pub(crate) fn was_offered(&mut self) -> bool {
        std::mem::replace(&mut self.has_offered, true)
    }

    /// Returns the diff of a request that the editor shows too.
    ///
    /// # Errors
    /// Returns why the change is not shown in a connected editor.
    pub(crate) fn open(&mut self, request: &ApprovalRequest) -> Result<Option<EditorDiff>, String> {
        let companion = self.companion.as_ref().filter(|companion| companion.can_diff);
        // The request must accept an edited text.
        let diff = diff_of(request)
            .filter(|_| request.outcomes.contains(&ApprovalResponse::ModifyWithEditor));
        let (Some(companion), Some(diff)) = (companion, diff) else { return Ok(None) };
        let editor = one_row(companion.editor_name()).into_owned();
        match ProposedChange::from_diff_or_file(diff) {
            Ok(change) => {
                self.open.insert(request.id.clone());
                Ok(Some(EditorDiff { path: diff.file_path.clone(), text: change.new, editor }))
            }
            Err(reason) => Err(format!("not shown in {editor}: {reason}")),
        }
    }

    /// Whether the editor shows the diff of a request.
    pub(crate) fn is_open(&self, ask: &ApprovalId) -> bool {
        self.open.contains(ask)
    }

    /// Forgets the diff of a request. Returns whether the editor shows it, so that it must be
    /// closed.
    pub(crate) fn close(&mut self, ask: &ApprovalId) -> bool {
        self.accepted_requests.remove(ask);
        self.open.remove(ask)
    }

    /// Forgets all diffs once no request is open. Returns those to close.
    pub(crate) fn close_all(&mut self) -> HashSet<ApprovalId> {
        self.accepted_requests.clear();
        self.accepted.clear();
        std::mem::take(&mut self.open)
    }

    /// Records that a change was accepted in the terminal and the editor's text is awaited.
    pub(crate) fn await_text(&mut self, ask: &ApprovalId) {
        self.open.remove(ask);
        self.accepted_requests.insert(ask.clone());
    }

    /// Whether the editor's text was awaited. The turn may have ended in the meantime.
    pub(crate) fn take_awaited(&mut self, ask: &ApprovalId) -> bool {
        self.accepted_requests.remove(ask)
    }

    /// Returns the response that applies the editor's text, or the given one if the text is
    /// unchanged. `arguments` are those of the call.
    ///
    /// # Errors
    /// Returns why the text cannot be applied.
    pub(crate) fn with_text(
        &mut self,
        request: &ApprovalRequest,
        arguments: &Object,
        decide: RequestDecision,
        text: Option<&str>,
    ) -> Result<RequestDecision, String> {
        let (Some(text), Some(diff)) = (text, diff_of(request)) else { return Ok(decide) };
        let change = ProposedChange::from_diff_or_file(diff)?;
        if is_same(text, &change.new) || decide.outcome == ApprovalResponse::ModifyWithEditor {
            return Ok(decide);
        }
        let arguments = change.arguments(&request.name, arguments, text)?;
        self.accepted.insert(request.call.clone(), (text.to_owned(), decide));
        let mut edited =
            RequestDecision::new(request.id.clone(), ApprovalResponse::ModifyWithEditor);
        edited.arguments = Some(arguments);
        Ok(edited)
    }

    /// Returns the response to a request for an edited change that was already accepted.
    pub(crate) fn accepted_response(
        &mut self,
        request: &ApprovalRequest,
    ) -> Option<RequestDecision> {
        let (text, decide) = self.accepted.remove(&request.call)?;
        let change = diff_of(request).and_then(|diff| ProposedChange::from_diff_or_file(diff).ok());
        if !change.is_some_and(|change| is_same(&change.new, &text)) {
            // The text to be written is not the text that was accepted.
            return None;
        }
        let is_offered = request.outcomes.contains(&decide.outcome);
        let outcome = if is_offered { decide.outcome } else { ApprovalResponse::ProceedOnce };
        Some(RequestDecision { ask: request.id.clone(), outcome, ..decide })
    }
}

/// Returns the diff of an approval request for an edit.
fn diff_of(request: &ApprovalRequest) -> Option<&FileDiff> {
    match &request.preview {
        Some(Preview::Diff(diff)) if request.question == Question::Edit => Some(diff),
        _ => None,
    }
}

/// Whether two strings are equal except for line endings, which editors may change.
fn is_same(one: &str, two: &str) -> bool {
    one == two || one.replace("\r\n", "\n") == two.replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awaited_text_is_taken_once_and_not_after_the_turn() {
        let (mut link, ask) = (EditorLink::default(), ApprovalId::from("a"));
        link.await_text(&ask);
        assert!(link.take_awaited(&ask) && !link.take_awaited(&ask));
        link.await_text(&ask);
        assert!(link.close_all().is_empty());
        assert!(!link.take_awaited(&ask) && !link.close(&ask));
    }

    #[test]
    fn editor_line_endings_are_ignored() {
        assert!(is_same("a\r\nb", "a\nb") && !is_same("a", "b"));
    }
}
