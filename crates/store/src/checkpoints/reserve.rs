//! Copies of protected files on their own file systems, made before a command runs. If the command
//! fills the disk, they are put in place without needing space. They have no names, so that no
//! command can change them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::command_snapshot::CommandSnapshot;
use super::confined_root::{ConfinedPath, EntryHandle, Roots};
use super::content_store::{ContentStore, is_full};
use super::lock;
use super::objects::file_blob_id;
use super::state::{PathState, Stamp, StoredContent};

/// Maximum number of copies; each needs a file descriptor.
const MAX_FILES: usize = 128;
/// Maximum total size of the copies in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The copies by path, each with the stamp of the file that was copied.
#[derive(Debug, Default)]
pub(super) struct ReservedCopies(Mutex<HashMap<PathBuf, (Stamp, File)>>);

impl ReservedCopies {
    /// Copies the protected files of a snapshot; copies of unchanged files stay. File systems
    /// without unnamed files are skipped.
    ///
    /// # Errors
    /// Returns an error if the disk is too full for the copies.
    pub(super) fn fill(
        &self,
        mark: &CommandSnapshot,
        roots: &Roots,
        contents: &ContentStore,
    ) -> io::Result<()> {
        let mut previous = std::mem::take(&mut *lock(&self.0));
        let mut copies = HashMap::new();
        let mut bytes = 0_u64;
        let result = mark.protected_states().try_for_each(|(path, state)| {
            let PathState::File { content, stamp } = state else { return Ok(()) };
            bytes = bytes.saturating_add(stamp.size);
            if copies.len() >= MAX_FILES || bytes > MAX_BYTES {
                return Ok(());
            }
            let known = previous.remove(&path).filter(|(of, _)| *of == stamp);
            let copy = match known {
                Some((_, file)) => Some(file),
                None => copy_unnamed(contents, roots, &path, &content, &stamp)?,
            };
            copies.extend(copy.map(|file| (path, (stamp, file))));
            Ok(())
        });
        *lock(&self.0) = copies;
        result
    }

    /// Returns the copy of a file with this stamp.
    pub(super) fn take(&self, path: &ConfinedPath, stamp: &Stamp) -> Option<File> {
        let (of, file) = lock(&self.0).remove(&path.path())?;
        (of == *stamp).then_some(file)
    }
}

/// Returns a copy, or `None` if there cannot be one for another reason than missing space.
fn copy_unnamed(
    contents: &ContentStore,
    roots: &Roots,
    path: &Path,
    content: &StoredContent,
    stamp: &Stamp,
) -> io::Result<Option<File>> {
    let location = roots.locate(path);
    let Some(entry) = location.and_then(|location| EntryHandle::open(&location, false).ok()) else {
        return Ok(None);
    };
    let copied = entry.create_unnamed_file().and_then(|mut file| {
        let is_complete = match content {
            StoredContent::Stored(id) => contents.objects.copy_to(id, &mut file)?,
            StoredContent::Git { blob, .. } => {
                io::copy(&mut entry.file()?.0, &mut file)?;
                io::Seek::seek(&mut file, io::SeekFrom::Start(0))?;
                file_blob_id(&mut file, stamp.size)? == Some(*blob)
            }
            StoredContent::Hashed(_) | StoredContent::Unavailable(_) => false,
        };
        Ok(is_complete.then_some(file))
    });
    match copied {
        Err(error) if is_full(&error) => Err(error),
        other => Ok(other.ok().flatten()),
    }
}
