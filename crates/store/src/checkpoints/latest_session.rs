//! Finds the session of a project that an undo or a redo applies to.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use parallax_protocol::ids::SessionId;
use serde::Deserialize;

use super::crash_recovery::interrupted_session;
use super::journal::MAX_LINE;

/// A record of a change, without its files.
#[derive(Deserialize)]
struct ChangeTime {
    kind: String,
    ended: Option<u64>,
}

/// Returns the session of a project that changed files most recently. Undoing and redoing changes
/// does not count.
pub fn latest_session(directory: &Path, project: &str) -> Option<SessionId> {
    let mut latest: Option<(SystemTime, SessionId)> = None;
    for (modified, id, is_journal) in newest_first(directory, project) {
        // No record is newer than its file.
        if latest.as_ref().is_some_and(|(changed, _)| *changed >= modified) {
            break;
        }
        let changed = match is_journal {
            true => last_change(&directory.join(project).join(format!("{id}.jsonl"))),
            false => Some(modified),
        };
        let Some(changed) = changed else { continue };
        if latest.as_ref().is_none_or(|(latest, _)| *latest < changed) {
            latest = Some((changed, id));
        }
    }
    latest.map(|(_, id)| id)
}

/// Returns the session of a project whose files were changed, undone, or redone most recently.
pub fn latest_undo_session(directory: &Path, project: &str) -> Option<SessionId> {
    newest_first(directory, project).into_iter().next().map(|(_, id, _)| id)
}

/// Returns the sessions by the modification time of their files, and whether the file is a journal
/// or the snapshot of an interrupted command.
fn newest_first(directory: &Path, project: &str) -> Vec<(SystemTime, SessionId, bool)> {
    let files = fs::read_dir(directory.join(project)).into_iter().flatten().flatten();
    let sessions = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let id = name.strip_suffix(".jsonl").filter(|id| SessionId::is_valid(id));
        let (id, is_journal) = match id {
            Some(id) => (SessionId::from(id), true),
            None => (interrupted_session(&file.path())?, false),
        };
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((metadata.modified().ok()?, id, is_journal))
    });
    let mut sessions: Vec<_> = sessions.collect();
    sessions.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
    sessions
}

/// Returns when the last recorded change of a journal ended.
fn last_change(journal: &Path) -> Option<SystemTime> {
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(journal).ok()?);
    let (mut last, mut line) = (None, Vec::new());
    loop {
        line.clear();
        let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).ok()? as u64;
        if length == 0 {
            return last.map(|ended| SystemTime::UNIX_EPOCH + Duration::from_nanos(ended));
        }
        let is_change = |it: &ChangeTime| matches!(it.kind.as_str(), "changed" | "put_back");
        let record = serde_json::from_slice::<ChangeTime>(&line).ok().filter(is_change);
        last = last.max(record.and_then(|record| record.ended));
    }
}
