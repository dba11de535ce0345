//! Moves sessions to another project, for example after its directory was moved or renamed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use parallax_protocol::ids::SessionId;
use parallax_protocol::store::Record;

use crate::cipher;
use crate::journal::{record_line, temporary_path};
use crate::keys::Keys;
use crate::lines::cipher_for_journal;
use crate::lines::read_line;
use crate::list::SessionEntry;
use crate::load::{head_of_file, read_record};
use crate::paths::{SessionDirs, project_folder};
use crate::private_files::create_private_dir;
use crate::session_files::files;
use crate::session_origin::SessionOrigin;

/// Why a session was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The session belongs to another program.
    #[error("the session `{id}` belongs to another program: import it instead")]
    Foreign {
        /// The session.
        id: String,
    },
    /// The session is running.
    #[error("the session `{id}` is in use and was not moved")]
    InUse {
        /// The session.
        id: String,
    },
    /// The other project has a session with this ID.
    #[error("a session `{id}` already exists in the other project")]
    AlreadyExists {
        /// The session.
        id: String,
    },
    /// An I/O operation failed.
    #[error("failed to move `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Moves a Parallax session with its tool outputs and saved file contents to another project, and
/// returns its new file. If interrupted, the session is in the old place or in both, but never
/// lost.
///
/// # Errors
/// Returns an error if the session belongs to another program, is in use, already exists in the
/// other project, or an I/O operation fails.
pub fn move_session(
    dirs: &SessionDirs,
    entry: &SessionEntry,
    to: &Path,
) -> Result<PathBuf, MoveError> {
    if entry.origin != SessionOrigin::Parallax {
        return Err(MoveError::Foreign { id: entry.id.clone() });
    }
    let failed = |path: &Path, source| MoveError::Io { path: path.to_owned(), source };
    let mut old = File::open(&entry.path).map_err(|source| failed(&entry.path, source))?;
    if matches!(old.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(MoveError::InUse { id: entry.id.clone() });
    }
    let directory = dirs.sessions(to);
    let name = entry.path.file_name().unwrap_or_default();
    let new = directory.join(name);
    if new == entry.path {
        return Ok(new);
    }
    if new.exists() {
        return Err(MoveError::AlreadyExists { id: entry.id.clone() });
    }
    create_private_dir(&directory).map_err(|source| failed(&directory, source))?;
    let temporary = temporary_path(&new);
    let written = rewrite(&mut old, &entry.path, &temporary, to, &dirs.keys)
        .and_then(|()| fs::rename(&temporary, &new))
        .and_then(|()| fs::remove_file(&entry.path));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed(&new, source));
    }
    // The accompanying files are optional: those that cannot be moved stay.
    let from = entry.path.parent().and_then(Path::file_name).unwrap_or_default();
    let to = project_folder(to);
    let id = SessionId::from(entry.path.file_stem().unwrap_or_default().to_string_lossy().as_ref());
    let pairs = [
        (
            Path::new("tmp").join(from).join(id.as_str()),
            Path::new("tmp").join(&to).join(id.as_str()),
        ),
        (changes(Path::new(from), &id), changes(Path::new(&to), &id)),
    ];
    for (old, new) in pairs {
        move_if_absent(&dirs.parallax.join(old), &dirs.parallax.join(new));
    }
    Ok(new)
}

/// Returns the path of the record of a session's file changes, relative to the Parallax home
/// directory.
pub(crate) fn changes(project: &Path, session: &SessionId) -> PathBuf {
    Path::new("checkpoints").join(project).join(format!("{}.jsonl", session.as_str()))
}

/// Moves saved conversations and the input history to another project, except for files that exist
/// there. Returns the number of files moved.
pub fn move_project_files(dirs: &SessionDirs, from: &Path, to: &Path) -> usize {
    let (from, to) = (project_folder(from), project_folder(to));
    let chats = dirs.parallax.join("chats");
    let mut moved = 0;
    for chat in files(&chats.join(&from)) {
        let name = chat.file_name().unwrap_or_default().to_owned();
        moved += usize::from(move_if_absent(&chat, &chats.join(&to).join(name)));
    }
    let inputs = dirs.parallax.join("inputs");
    let name = |project: &str| inputs.join(format!("{project}.jsonl"));
    moved + usize::from(move_if_absent(&name(&from), &name(&to)))
}

/// Renames a path unless the target exists.
fn move_if_absent(old: &Path, new: &Path) -> bool {
    if !old.exists() || new.exists() {
        return false;
    }
    let created = new.parent().map(create_private_dir);
    created.is_some_and(|created| created.is_ok()) && fs::rename(old, new).is_ok()
}

/// Copies a journal with another project in its head; everything else is unchanged.
fn rewrite(old: &mut File, path: &Path, new: &Path, to: &Path, keys: &Keys) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 * 1024, &mut *old);
    let mut line = Vec::new();
    let mut read = read_line(&mut reader, &mut line)?;
    let mut opening = Vec::new();
    let cipher = match cipher::is_encrypted(&line) {
        true => {
            let cipher = cipher_for_journal(&line, path, keys).map_err(io::Error::other)?;
            std::mem::swap(&mut opening, &mut line);
            read += read_line(&mut reader, &mut line)?;
            if cipher.decrypt_line(&line).is_none() {
                opening.append(&mut line);
                read += read_line(&mut reader, &mut line)?;
            }
            let damaged = || io::Error::other("the beginning of this encrypted session is damaged");
            line = cipher.decrypt_line(&line).filter(|(n, _)| *n == 0).ok_or_else(damaged)?.1;
            Some(cipher)
        }
        false => None,
    };
    let first = std::str::from_utf8(&line).ok().and_then(|text| read_record(text.trim()));
    let (mut head, skipped) = match first {
        Some(Record::Session(head)) => (head, read as u64),
        _ => (head_of_file(path), 0),
    };
    drop(reader);
    head.project = to.to_string_lossy().into_owned();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(new)?;
    let head = record_line(&Record::Session(head))?;
    match cipher {
        Some(cipher) => {
            let no_random = || io::Error::other("no random data available");
            file.write_all(&opening)?;
            file.write_all(
                &cipher.encrypt_record(0, head.trim_end().as_bytes()).ok_or_else(no_random)?,
            )?;
        }
        None => file.write_all(head.as_bytes())?,
    }
    old.seek(SeekFrom::Start(skipped))?;
    io::copy(&mut old.take(u64::MAX), &mut file)?;
    file.sync_all()
}
