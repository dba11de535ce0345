//! Taking sessions to another project: after its folder was moved or renamed,
//! or because they belong there.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use parallax_protocol::ids::SessionId;
use parallax_protocol::store::Record;

use crate::cipher;
use crate::journal::{beside, record_line};
use crate::keys::Keys;
use crate::lines::opened;
use crate::list::{Origin, SessionEntry, files};
use crate::load::{head_of_file, read_line, read_record};
use crate::paths::{Homes, create_private_dir, project_folder};

/// A session that was not moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// It belongs to another program.
    #[error("the session `{id}` belongs to another program: import it instead")]
    Foreign {
        /// The session.
        id: String,
    },
    /// It is running.
    #[error("the session `{id}` is in use and was not moved")]
    InUse {
        /// The session.
        id: String,
    },
    /// There is one of its name in the other project.
    #[error("there is a session `{id}` in the other project already")]
    There {
        /// The session.
        id: String,
    },
    /// The disk refuses.
    #[error("cannot move `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Moves a session of ours, with its outputs and the old versions of files, to
/// another project. Gives its new file. What is cut off in the middle leaves
/// the session where it was, or in both places; never in none.
///
/// # Errors
/// When it is not ours, is in use, is there already, or the disk refuses.
pub fn move_session(homes: &Homes, entry: &SessionEntry, to: &Path) -> Result<PathBuf, MoveError> {
    if entry.origin != Origin::Parallax {
        return Err(MoveError::Foreign { id: entry.id.clone() });
    }
    let failed = |path: &Path, source| MoveError::Io { path: path.to_owned(), source };
    let mut old = File::open(&entry.path).map_err(|source| failed(&entry.path, source))?;
    if matches!(old.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(MoveError::InUse { id: entry.id.clone() });
    }
    let folder = homes.sessions(to);
    let name = entry.path.file_name().unwrap_or_default();
    let new = folder.join(name);
    if new == entry.path {
        return Ok(new);
    }
    if new.exists() {
        return Err(MoveError::There { id: entry.id.clone() });
    }
    create_private_dir(&folder).map_err(|source| failed(&folder, source))?;
    let beside = beside(&new);
    let written = rewrite(&mut old, &entry.path, &beside, to, &homes.keys)
        .and_then(|()| fs::rename(&beside, &new))
        .and_then(|()| fs::remove_file(&entry.path));
    if let Err(source) = written {
        let _ = fs::remove_file(&beside);
        return Err(failed(&new, source));
    }
    // What belongs to it is of use, not needed: what cannot be moved stays.
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
        bring(&homes.parallax.join(old), &homes.parallax.join(new));
    }
    Ok(new)
}

/// Where the old versions of a session's files are recorded, below our home.
pub(crate) fn changes(project: &Path, session: &SessionId) -> PathBuf {
    Path::new("checkpoints").join(project).join(format!("{}.jsonl", session.as_str()))
}

/// Moves the conversations that were saved under a name, and what was typed,
/// where the other project has none of the same name. Gives how many files.
pub fn move_belongings(homes: &Homes, from: &Path, to: &Path) -> usize {
    let (from, to) = (project_folder(from), project_folder(to));
    let chats = homes.parallax.join("chats");
    let mut moved = 0;
    for chat in files(&chats.join(&from)) {
        let name = chat.file_name().unwrap_or_default().to_owned();
        moved += usize::from(bring(&chat, &chats.join(&to).join(name)));
    }
    let inputs = homes.parallax.join("inputs");
    let name = |project: &str| inputs.join(format!("{project}.jsonl"));
    moved + usize::from(bring(&name(&from), &name(&to)))
}

/// Renames what is there, unless something is in its way.
fn bring(old: &Path, new: &Path) -> bool {
    if !old.exists() || new.exists() {
        return false;
    }
    let made = new.parent().map(create_private_dir);
    made.is_some_and(|made| made.is_ok()) && fs::rename(old, new).is_ok()
}

/// Copies a journal with another project in its head; all else byte for byte.
fn rewrite(old: &mut File, path: &Path, new: &Path, to: &Path, keys: &Keys) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(256 * 1024, &mut *old);
    let mut line = Vec::new();
    let mut read = read_line(&mut reader, &mut line)?;
    let mut opening = Vec::new();
    let cipher = match cipher::is_encrypted(&line) {
        true => {
            let cipher = opened(&line, path, keys).map_err(io::Error::other)?;
            std::mem::swap(&mut opening, &mut line);
            read += read_line(&mut reader, &mut line)?;
            if cipher.decrypted(&line).is_none() {
                opening.append(&mut line);
                read += read_line(&mut reader, &mut line)?;
            }
            let damaged = || io::Error::other("the beginning of this encrypted session is damaged");
            line = cipher.decrypted(&line).filter(|(n, _)| *n == 0).ok_or_else(damaged)?.1;
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
            let no_random = || io::Error::other("the system gives no random bytes");
            file.write_all(&opening)?;
            file.write_all(
                &cipher.encrypted(0, head.trim_end().as_bytes()).ok_or_else(no_random)?,
            )?;
        }
        None => file.write_all(head.as_bytes())?,
    }
    old.seek(SeekFrom::Start(skipped))?;
    io::copy(&mut old.take(u64::MAX), &mut file)?;
    file.sync_all()
}
