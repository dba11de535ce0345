//! Retention of sessions: old sessions are moved to a trash directory for a week, then deleted
//! permanently.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parallax_files::remove_tree;
use parallax_protocol::ids::SessionId;

use crate::journal::is_in_use;
use crate::keys::Keys;
use crate::list::SessionEntry;
use crate::list::read_entry;
use crate::moving::changes;
use crate::paths::{SessionDirs, project_folder};
use crate::private_files::create_private_dir;
use crate::session_files::{SessionFile, files, folders};
use crate::session_origin::SessionOrigin;

/// How long discarded sessions stay in the trash.
pub const TRASH_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long an empty journal is left alone because a process may be about to use it; a process that
/// is killed before its first prompt leaves one behind.
const UNUSED: Duration = Duration::from_secs(60);
/// Minimum time between automatic cleanups.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Which sessions are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Removes sessions that were last used longer ago than this.
    pub max_age: Option<Duration>,
    /// Removes the oldest sessions of a project beyond this number.
    pub max_count: Option<usize>,
    /// Never removes sessions that were used within this time.
    pub min_age: Duration,
}

/// Why a session is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalReason {
    /// It contains nothing that can be continued.
    Empty,
    /// It is too old.
    Old,
    /// There are too many sessions.
    Many,
}

impl RemovalReason {
    /// Returns the reason as a single word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Old => "old",
            Self::Many => "many",
        }
    }
}

/// A session that was or would be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedSession {
    /// The session ID.
    pub id: String,
    /// The title.
    pub title: String,
    /// The original path of its file.
    pub path: PathBuf,
    /// The reason.
    pub reason: RemovalReason,
    /// Length of its journal in bytes.
    pub bytes: u64,
}

/// Returns the session directories of all projects that have Parallax sessions.
pub fn session_folders(dirs: &SessionDirs) -> Vec<PathBuf> {
    let mut found = folders(&dirs.parallax.join("sessions"));
    found.sort();
    found
}

/// Returns the sessions of a directory ([`session_folders`]) that should be removed, oldest first.
/// Excludes sessions in use and the given session.
pub fn outdated(
    directory: &Path,
    rule: &Retention,
    current: Option<&SessionId>,
    keys: &Keys,
) -> Vec<DeletedSession> {
    let now = SystemTime::now();
    let mut retained = Vec::new();
    let mut found = Vec::new();
    for path in files(directory) {
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let Some(modified) = metadata.modified().ok() else { continue };
        let age = now.duration_since(modified).unwrap_or_default();
        let bytes = metadata.len();
        let min_age = if bytes == 0 { rule.min_age.min(UNUSED) } else { rule.min_age };
        let stays = age < min_age || current.is_some_and(|id| id.as_str() == stem);
        let file =
            SessionFile { path: path.clone(), origin: SessionOrigin::Parallax, project: None };
        let entry = if stays { None } else { read_entry(&file, keys) };
        match entry {
            _ if stays => retained.push((modified, None)),
            Some(entry) => {
                let title = entry.title;
                let one =
                    DeletedSession { id: stem, title, path, reason: RemovalReason::Many, bytes };
                retained.push((modified, Some((age, one))));
            }
            None => {
                let (id, title) = (stem, String::new());
                found.push((
                    modified,
                    DeletedSession { id, title, path, reason: RemovalReason::Empty, bytes },
                ));
            }
        }
    }
    retained.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    for (index, (modified, session)) in retained.into_iter().enumerate() {
        let Some((age, mut one)) = session else { continue };
        if rule.max_age.is_some_and(|max_age| age > max_age) {
            one.reason = RemovalReason::Old;
        } else if rule.max_count.is_none_or(|max_count| index < max_count) {
            continue;
        }
        found.push((modified, one));
    }
    found.sort_by_key(|(modified, _)| *modified);
    found.into_iter().map(|(_, one)| one).filter(|one| !is_in_use(&one.path)).collect()
}

/// Moves a session and its other files to the trash.
///
/// # Errors
/// Returns an error if an I/O operation fails.
pub fn discard(dirs: &SessionDirs, session: &DeletedSession) -> io::Result<()> {
    let project = session.path.parent().and_then(Path::file_name).unwrap_or_default();
    let id = SessionId::from(session.id.as_str());
    if !SessionId::is_valid(id.as_str()) {
        return Err(io::Error::other("its name is not a session id"));
    }
    let now = jiff::Timestamp::now().as_millisecond();
    let directory = dirs.parallax.join("trash").join(project).join(format!("{id}-{now}"));
    create_private_dir(&directory)?;
    fs::rename(&session.path, directory.join(format!("{id}.jsonl")))?;
    // The other files are useless without the journal.
    let home = &dirs.parallax;
    let tmp = home.join("tmp").join(project).join(id.as_str());
    let _ = fs::rename(tmp, directory.join("tmp"));
    let record = home.join(changes(Path::new(project), &id));
    let _ = fs::rename(&record, directory.join("changes.jsonl"));
    let _ = fs::remove_file(record.with_extension("lock"));
    Ok(())
}

/// Moves a directory to the trash, whose removal takes too long now.
///
/// # Errors
/// Returns an error if it cannot be moved.
pub fn discard_directory(home: &Path, folder: &Path) -> io::Result<()> {
    let now = jiff::Timestamp::now().as_millisecond();
    let directory = home.join("trash").join("directories");
    create_private_dir(&directory)?;
    fs::rename(folder, directory.join(format!("{}-{now}", std::process::id())))
}

/// Deletes sessions that have been in the trash for longer than [`TRASH_AGE`]. Returns their
/// number.
pub fn empty_trash(dirs: &SessionDirs) -> usize {
    let now = SystemTime::now();
    let mut removed = 0;
    for project in folders(&dirs.parallax.join("trash")) {
        for session in folders(&project) {
            let modified = fs::metadata(&session).and_then(|metadata| metadata.modified());
            let old = modified
                .is_ok_and(|then| now.duration_since(then).is_ok_and(|age| age > TRASH_AGE));
            removed += usize::from(old && remove_tree(&session).is_ok());
        }
        // Succeeds only if the directory is empty.
        let _ = fs::remove_dir(project);
    }
    removed
}

/// Removes output directories whose session has been gone for longer than `age`. Returns their
/// number.
pub fn remove_stray_outputs(dirs: &SessionDirs, age: Duration) -> usize {
    let now = SystemTime::now();
    let mut removed = 0;
    for project in folders(&dirs.parallax.join("tmp")) {
        let name = project.file_name().unwrap_or_default();
        let journals = dirs.parallax.join("sessions").join(name);
        for outputs in folders(&project) {
            let id = outputs.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // The project stores other things next to them.
            if !SessionId::is_valid(&id) || id == "images" {
                continue;
            }
            let modified = fs::metadata(&outputs).and_then(|metadata| metadata.modified());
            let old = modified.is_ok_and(|then| now.duration_since(then).is_ok_and(|a| a > age));
            if old && !journals.join(format!("{id}.jsonl")).exists() {
                removed += usize::from(remove_tree(&outputs).is_ok());
            }
        }
        let _ = fs::remove_dir(project);
    }
    removed
}

/// Whether the cleanup of a project is due; if so, the next one is due a day later. Never due for a
/// project without sessions.
pub fn is_due(dirs: &SessionDirs, project: &Path) -> bool {
    let directory = dirs.sessions(project);
    if !directory.is_dir() {
        return false;
    }
    let stamp = directory.join(".cleaned");
    let last = fs::metadata(&stamp).and_then(|metadata| metadata.modified());
    let age = last.map(|then| SystemTime::now().duration_since(then).unwrap_or_default());
    if age.is_ok_and(|age| age < INTERVAL) {
        return false;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Opening an empty file does not change its modification time.
    options.open(&stamp).and_then(|file| file.set_modified(SystemTime::now())).is_ok()
}

/// Returns the paths that belong to a Parallax session besides its journal and its outputs, for
/// permanent deletion with [`crate::delete`].
pub fn associated_paths(dirs: &SessionDirs, project: &Path, entry: &SessionEntry) -> Vec<PathBuf> {
    let id = SessionId::from(entry.id.as_str());
    if !SessionId::is_valid(id.as_str()) {
        return Vec::new();
    }
    let record = dirs.parallax.join(changes(Path::new(&project_folder(project)), &id));
    vec![record.with_extension("lock"), record]
}
