//! A session that runs in another process, as shown by its files.

use std::sync::Arc;

use parallax_commands::{Expander, FileSearch};
use parallax_protocol::event::Failure;
use parallax_protocol::ids::SessionId;
use parallax_protocol::session_view::SessionView;
use parallax_protocol::store::Record;
use parallax_sessions::session_stats::SessionStats;

use crate::session_config::SessionConfig;
use crate::session_settings;

/// What the journal of a running session contains.
#[derive(Debug, Clone)]
pub struct RunningSessionRecords {
    /// The records before the running turn.
    pub records: Arc<[Record]>,
    /// The usage that these records report.
    pub stats: SessionStats,
}

impl SessionConfig {
    /// Reads the journal of a session that runs in another process, up to where its events begin.
    /// Without a journal, there are no records. Blocking.
    pub fn running_session(&self, id: &SessionId, view: &SessionView) -> RunningSessionRecords {
        let dirs = self.dirs();
        let path = dirs.journal(&self.options.directory, id);
        let loaded = parallax_store::load(&path, &dirs.keys).map(|loaded| loaded.records);
        let mut records = loaded.unwrap_or_default();
        records.truncate(view.journal.find(&records));
        let manager = self.provider_manager();
        let table = manager.model_table();
        // Scripted responses cost nothing.
        let price = |name: &str| table.price(name).filter(|_| !view.scripted);
        let stats = SessionStats::from_records(&records, price);
        RunningSessionRecords { records: records.into(), stats }
    }

    /// Returns the files of a session that runs in another process, for completion. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory of the session cannot be used.
    pub fn running_session_files(&self, id: &SessionId) -> Result<Expander, Failure> {
        let artifacts = self.dirs().artifacts(&self.options.directory, id);
        let workspace = session_settings::workspace(self, artifacts.root(), Vec::new())?;
        let files = Expander::new(&Arc::new(workspace), &Arc::default(), None);
        Ok(files.with_search(FileSearch {
            recursive: self.config.settings.flag("context.fileFiltering.enableRecursiveFileSearch"),
            is_fuzzy: self.config.settings.flag("context.fileFiltering.enableFuzzySearch"),
        }))
    }
}
