//! The workspace directories besides the project's: the model learns about added ones, and the
//! journal records them for a resumed session.

use parallax_protocol::store::{DirectoriesRecord, Record};

use crate::history::now;
use crate::session::Session;

impl Session {
    /// Adds a description of new directories to the next prompt.
    pub(crate) async fn describe_added_directories(&mut self) {
        let added = std::mem::take(&mut self.inbox.added);
        if added.is_empty() {
            return;
        }
        let describe = std::sync::Arc::clone(&self.environment.describe_directories);
        let describing = tokio::task::spawn_blocking(move || describe(&added));
        // A panic there is a bug; tools can access the directory anyway.
        let text = self.inbox.while_receiving(describing).await.unwrap_or_default();
        if !text.is_empty() {
            self.conversation.preface = Some(match self.conversation.preface.take() {
                Some(preface) => format!("{preface}\n\n{text}"),
                None => text,
            });
        }
    }

    /// Records the directories in the journal if they changed. A session without a prompt is not on
    /// disk yet, so this follows one.
    pub(crate) fn record_directories(&mut self) {
        if self.agents.role.is_some() {
            return;
        }
        let directories: Vec<_> = (self.environment.workspace)().into_iter().skip(1).collect();
        if directories != self.conversation.directories {
            self.conversation.directories.clone_from(&directories);
            self.conversation
                .history
                .record(&Record::Directories(DirectoriesRecord { time: now(), directories }));
        }
    }
}
