//! The file changes before which a session can be restored.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::OpenSession;
use serde_json::json;

use super::{CommandOutput, lines_or_none};

/// Lists the changes, newest first. Blocking.
///
/// # Errors
/// Returns an error if checkpoints are disabled or cannot be read.
pub(super) fn restore_points(session: &OpenSession) -> Result<CommandOutput, Failure> {
    let back = session.rewind_preview();
    if !back.checkpointing {
        let message = "To restore single changes, enable `general.checkpointing.enabled`.";
        return Err(Failure::new(FailureKind::Input, message.to_owned()));
    }
    let points =
        back.restore_points().map_err(|reason| Failure::new(FailureKind::Input, reason))?;
    let rows = points.iter().rev().map(|point| {
        let files: Vec<String> = point.files.iter().map(|it| it.display().to_string()).collect();
        format!("{} ({})", point.name, files.join(", "))
    });
    let data = points
        .iter()
        .rev()
        .map(|point| json!({"name": point.name, "tool": point.tool, "files": point.files}));
    let none = match session.launch().options().editor.files() {
        Some(_) => {
            "No changes to restore yet. Files that the editor writes for the agent have no \
             checkpoints: undo them in the editor."
        }
        None => "No changes to restore yet.",
    };
    Ok(CommandOutput { text: lines_or_none(rows.collect(), none), data: data.collect() })
}
