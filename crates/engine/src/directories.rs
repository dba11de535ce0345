//! The folders that a session works in beside the project's: the model is told of
//! those that were added, and the journal, so that they are there again when the
//! session is resumed.

use parallax_protocol::store::{DirectoriesRecord, Record};

use crate::history::now;
use crate::session::Session;

impl Session {
    /// Puts what the model should know of added folders before the next prompt.
    pub(crate) async fn describe_added(&mut self) {
        let added = std::mem::take(&mut self.inbox.added);
        if added.is_empty() {
            return;
        }
        let describe = std::sync::Arc::clone(&self.describe_directories);
        let describing = tokio::task::spawn_blocking(move || describe(&added));
        // A panic there is a defect; tools find the folder all the same.
        let text = self.inbox.during(describing).await.unwrap_or_default();
        if !text.is_empty() {
            self.preface = Some(match self.preface.take() {
                Some(preface) => format!("{preface}\n\n{text}"),
                None => text,
            });
        }
    }

    /// Journals the folders where they are others than it knows. A session without
    /// a prompt is not on the disk, so this comes behind one.
    pub(crate) fn record_directories(&mut self) {
        if self.role.is_some() {
            return;
        }
        let directories: Vec<_> = (self.workspace)().into_iter().skip(1).collect();
        if directories != self.directories {
            self.directories.clone_from(&directories);
            self.history
                .record(&Record::Directories(DirectoriesRecord { time: now(), directories }));
        }
    }
}
