//! Protected files that a running command may change, saved before it starts. If the program is
//! killed before it can revert changes, the next session in the project reverts them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::command_snapshot::CommandSnapshot;
use super::confined_root::ConfinedPath;
use super::content_store::ContentHandling;
use super::crash_recovery::{is_older, open_if_abandoned};
use super::protected::{is_in_planted_repository, is_instruction, is_protected};
use super::state::{EncodedPath, PathState, StoredContent};
use super::{Changes, Checkpoints};
use crate::locked_file::LockedFile;
use crate::private_files::create_private_dir;

/// The file name extension, after the session ID and the start time of the command.
const ENDING: &str = "pending";

/// How long a command may have continued after the last sign of life of its program.
const MAX_ORPHAN_TIME: Duration = Duration::from_secs(2);

/// The saved protected files.
#[derive(Serialize, Deserialize)]
struct ProtectedFilesSnapshot {
    turn: u64,
    #[serde(rename = "began")]
    started_at: i64,
    roots: Vec<EncodedPath>,
    /// What the command was allowed to change, in a format defined by the caller.
    allowed: Value,
    files: Vec<(EncodedPath, PathState)>,
    /// Directories that the walk did not reach.
    #[serde(rename = "unseen")]
    unvisited: Vec<EncodedPath>,
    #[serde(rename = "cut")]
    is_truncated: bool,
}

/// The saved state of protected files. The file is removed on drop, after the changes were reverted
/// or if there was nothing to revert.
#[derive(Debug)]
pub struct PendingRestore {
    path: PathBuf,
    /// Locked while the program is running.
    _file: LockedFile,
}

impl Drop for PendingRestore {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Changes to protected files by a command whose program was killed.
#[derive(Debug)]
pub struct AbandonedChanges {
    /// The changes, for [`Checkpoints::restore`].
    pub changes: Changes,
    /// What the command was allowed to change, as passed to [`Checkpoints::save_protected`].
    pub allowed: Value,
    path: PathBuf,
}

impl AbandonedChanges {
    /// Removes the saved state after the changes were reverted.
    pub fn finish(self) {
        let _ = fs::remove_file(self.path);
    }
}

impl Checkpoints {
    /// Saves the protected files as they were before the command of this mark.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn save_protected(
        &self,
        mark: &CommandSnapshot,
        allowed: Value,
    ) -> io::Result<PendingRestore> {
        let path = self.journal_path().with_extension(format!("{}.{ENDING}", mark.started_at()));
        create_private_dir(path.parent().unwrap_or(Path::new(".")))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let pending = PendingRestore { path, _file: LockedFile(file.try_clone()?) };
        file.lock()?;
        let protected: HashSet<&Path> = mark.protected().iter().map(PathBuf::as_path).collect();
        let is_protected = |path: &EncodedPath| protected.contains(path.path().as_path());
        let texts =
            |paths: Vec<PathBuf>| paths.iter().map(|path| EncodedPath::from_path(path)).collect();
        let saved = ProtectedFilesSnapshot {
            turn: mark.turn(),
            started_at: mark.started_at(),
            roots: texts(self.root_paths()),
            allowed,
            files: mark.states().filter(|(path, _)| is_protected(path)).collect(),
            unvisited: texts(mark.walk_result.unvisited.iter().map(ConfinedPath::path).collect()),
            is_truncated: mark.walk_result.is_truncated && !mark.walk_result.unsearched.is_empty(),
        };
        let mut out = BufWriter::new(&file);
        serde_json::to_writer(&mut out, &saved)?;
        out.flush()?;
        Ok(pending)
    }

    /// Returns changes to protected files in these workspace directories by commands whose program
    /// was killed. Later changes are not included.
    pub fn abandoned_changes(&self) -> Vec<AbandonedChanges> {
        let Some(folder) = self.journal_path().parent().map(Path::to_path_buf) else {
            return Vec::new();
        };
        let names = fs::read_dir(&folder).into_iter().flatten().flatten();
        let paths = names.map(|entry| entry.path());
        let pending = paths.filter(|path| path.extension().is_some_and(|end| end == ENDING));
        let mut pending: Vec<PathBuf> = pending.collect();
        pending.sort();
        pending.into_iter().filter_map(|path| self.read_abandoned(path)).collect()
    }

    fn read_abandoned(&self, path: PathBuf) -> Option<AbandonedChanges> {
        let file = open_if_abandoned(&path)?;
        let Ok(saved) =
            serde_json::from_reader::<_, ProtectedFilesSnapshot>(BufReader::new(&*file))
        else {
            // The command had not started: it waits until this file is complete.
            let _ = fs::remove_file(&path);
            return None;
        };
        let own = self.root_paths();
        if saved.roots.iter().any(|root| !own.contains(&root.path())) {
            return None;
        }
        let modified_time =
            |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        // A longer command has a mark file that shows how long its program lived.
        let mark = path.with_extension("mark");
        let last = modified_time(&path).max(modified_time(&mark)).unwrap_or(SystemTime::UNIX_EPOCH);
        let until = last.duration_since(UNIX_EPOCH).unwrap_or_default() + MAX_ORPHAN_TIME;
        let until = i64::try_from(until.as_nanos()).unwrap_or(i64::MAX);
        let allowed = saved.allowed.clone();
        Some(AbandonedChanges { changes: self.protected_changes(saved, until), allowed, path })
    }

    fn protected_changes(&self, saved: ProtectedFilesSnapshot, until: i64) -> Changes {
        let mut changes =
            Changes { turn: saved.turn, started_at: saved.started_at, ..Changes::default() };
        let Some((roots, _)) = self.roots_and_workspace() else { return changes };
        let known: HashMap<PathBuf, PathState> =
            saved.files.into_iter().map(|(path, state)| (path.path(), state)).collect();
        let unseen: Vec<PathBuf> = saved.unvisited.iter().map(EncodedPath::path).collect();
        let mut compare = |location: &ConfinedPath, before: &PathState| {
            let blob = match before {
                PathState::File { content: StoredContent::Git { top, blob }, .. } => {
                    Some((top, *blob))
                }
                _ => None,
            };
            let Ok(after) = self.contents.snapshot(location, blob, ContentHandling::Hash) else {
                return;
            };
            if before.is_same(&after) || !is_older(location, &after, until) {
                return;
            }
            let path = location.path();
            match (before.is_absent(), after.is_absent()) {
                (true, _) => changes.created.push(path.clone()),
                (_, true) => changes.deleted.push(path.clone()),
                _ => changes.changed.push(path.clone()),
            }
            if is_instruction(&location.relative) {
                changes.instructions.push(path.clone());
            }
            changes.protected.push(path.clone());
            changes.before.insert(path, before.clone());
        };
        for (path, before) in &known {
            if let Some(location) = roots.locate(path).filter(|_| *before != PathState::Special) {
                compare(&location, before);
            }
        }
        let is_in_new_repository = |path: &Path| {
            let git = path.ancestors().find(|ancestor| ancestor.ends_with(".git"));
            git.is_some_and(|git| git != path && !known.contains_key(&git.join("config")))
        };
        let closed = unseen.iter().filter_map(|path| roots.locate(path)).collect();
        for entry in
            self.walk_after_command(&closed, None).entries.iter().filter(|_| !saved.is_truncated)
        {
            let path = entry.path.path();
            let protected =
                is_protected(&entry.path.relative) || is_in_planted_repository(&entry.path);
            let was_seen = !unseen.iter().any(|unseen| path.starts_with(unseen));
            if protected && was_seen && !known.contains_key(&path) && !is_in_new_repository(&path) {
                compare(&entry.path, &PathState::Absent);
            }
        }
        changes
    }
}
