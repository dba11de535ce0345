//! Checkpoints around a tool that changes files it names.

use std::path::PathBuf;

use super::confined_root::{ConfinedPath, read_state};
use super::content_store::ContentHandling;
use super::record::{FileRecord, Record};
use super::state::{EncodedPath, PathState, StoredContent, human_size};
use super::{ChangeOrigin, CheckpointError, Checkpoints};

/// The state of the files of an edit before it.
#[derive(Debug)]
pub struct EditSnapshot {
    turn: u64,
    started_at: i64,
    files: Vec<(ConfinedPath, PathState)>,
    not_undoable: Vec<String>,
}

impl EditSnapshot {
    /// Returns which changes of the edit cannot be undone, for display.
    pub fn irreversible_changes(&self) -> &[String] {
        &self.not_undoable
    }
}

impl Checkpoints {
    /// Returns which changes of an edit of these files could not be undone, for display.
    pub fn unrestorable_changes(&self, paths: &[PathBuf]) -> Vec<String> {
        let Some((roots, _)) = self.roots_and_workspace() else { return Vec::new() };
        let locations = paths.iter().flat_map(|path| roots.affected_paths(path));
        let too_large = locations.filter_map(|location| match read_state(&location) {
            Ok(PathState::File { stamp, .. }) if stamp.size > self.options.file_bytes => {
                Some(unrestorable_message(&location, stamp.size))
            }
            _ => None,
        });
        too_large.collect()
    }

    /// Saves the files that an edit is about to change. Paths outside the workspace directories are
    /// skipped.
    ///
    /// # Errors
    /// Returns an error if the old contents cannot be read or saved.
    pub fn begin_edit(
        &self,
        turn: u64,
        paths: &[PathBuf],
    ) -> Result<EditSnapshot, CheckpointError> {
        self.recover_first();
        let started_at = self.next_timestamp();
        let mut mark =
            EditSnapshot { turn, started_at, files: Vec::new(), not_undoable: Vec::new() };
        let Some((roots, _)) = self.roots_and_workspace() else { return Ok(mark) };
        let mut locations: Vec<ConfinedPath> = Vec::new();
        for location in paths.iter().flat_map(|path| roots.affected_paths(path)) {
            // Also record the parent directories that the edit will create.
            for above in location.relative.ancestors().skip(1) {
                let parent =
                    ConfinedPath { root: location.root.clone(), relative: above.to_path_buf() };
                let is_new = !parent.relative.as_os_str().is_empty()
                    && read_state(&parent).is_ok_and(|state| state.is_absent());
                if !is_new {
                    break;
                }
                locations.push(parent);
            }
            locations.push(location);
        }
        locations.sort();
        locations.dedup();
        for location in locations {
            let path = location.path();
            let state = self
                .contents
                .snapshot(&location, None, ContentHandling::Store)
                .map_err(CheckpointError::io("save the previous content of", &path))?;
            if let PathState::File { content: StoredContent::Unavailable(_), stamp } = &state {
                mark.not_undoable.push(unrestorable_message(&location, stamp.size));
            }
            mark.files.push((location, state));
        }
        if !mark.files.is_empty() {
            let files = mark.files.iter().map(|(location, before)| FileRecord {
                path: EncodedPath::from_path(&location.path()),
                before: before.clone(),
                after: None,
            });
            let files = files.collect();
            self.append(&Record::Changed {
                turn,
                began: started_at,
                ended: started_at,
                by: ChangeOrigin::Edit,
                files,
            })?;
        }
        Ok(mark)
    }

    /// Records the state after the edit, so that later changes can be distinguished from it.
    ///
    /// # Errors
    /// Returns an error if the records cannot be written.
    pub fn end_edit(&self, mark: EditSnapshot) -> Result<(), CheckpointError> {
        if mark.files.is_empty() {
            return Ok(());
        }
        let files = mark.files.into_iter().map(|(location, before)| {
            let after = self.contents.snapshot(&location, None, ContentHandling::Hash).ok();
            FileRecord { path: EncodedPath::from_path(&location.path()), before, after }
        });
        let files = files.collect();
        let (began, ended) = (mark.started_at, self.next_timestamp());
        let by = ChangeOrigin::Edit;
        self.append(&Record::Changed { turn: mark.turn, began, ended, by, files })
    }
}

/// Returns the message about a file that cannot be restored.
pub(super) fn unrestorable_message(location: &ConfinedPath, size: u64) -> String {
    format!("{} ({}) is not saved", location.relative.display(), human_size(size))
}
