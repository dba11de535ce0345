//! Diffs shown in the connected editor.

use std::path::Path;

use parallax_protocol::ids::ApprovalId;
use parallax_sdk::ide::{ClosedDiff, DiffDecision};

use super::TerminalFrontEnd;
use crate::app::App;
use crate::app::commands::editor;
use crate::app::effect::EditorTextContinuation;

impl TerminalFrontEnd {
    /// Opens a diff in the editor; the decision is sent to the app.
    pub(super) fn open_diff(&mut self, ask: ApprovalId, path: &Path, text: String) {
        let companion = self.options.companion.as_ref();
        let Some((diff, decision)) = companion.and_then(|it| it.open_diff(path, text)) else {
            let reason = "it is no longer connected".to_owned();
            return editor::handle_decision(
                &mut self.app,
                &ask,
                DiffDecision::Unavailable { reason },
            );
        };
        self.diffs.insert(ask.clone(), diff);
        let jobs = self.jobs.clone();
        tokio::spawn(async move {
            if let Ok(decision) = decision.await {
                // The front end may be gone.
                let then = move |app: &mut App| editor::handle_decision(app, &ask, decision);
                let _ = jobs.send(Box::new(then)).await;
            }
        });
    }

    /// Closes a diff and continues with the editor's text; the wait is short in any case.
    pub(super) fn take_diff(&mut self, ask: &ApprovalId, then: EditorTextContinuation) {
        let Some(diff) = self.diffs.remove(ask) else {
            return then(&mut self.app, ClosedDiff::NotOpen);
        };
        let jobs = self.jobs.clone();
        tokio::spawn(async move {
            let text = diff.take_text().await;
            let _ = jobs.send(Box::new(move |app: &mut App| then(app, text))).await;
        });
    }
}
