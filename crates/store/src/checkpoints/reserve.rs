//! Copies of protected files on their own file systems, made before a command runs. If the command
//! fills the disk, they are put in place without needing space. They have no names, so that no
//! command can change them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::Checkpoints;
use super::command_snapshot::CommandSnapshot;
use super::confined_root::{ConfinedPath, EntryHandle, Roots};
use super::content_store::is_full;
use super::lock;
use super::objects::file_blob_id;
use super::state::{PathState, Stamp, StoredContent};

/// Maximum number of copies; each needs a file descriptor.
const MAX_FILES: usize = 128;
/// Maximum total size of the copies in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The copies by path, each with the stamp of the file that was copied.
pub(super) type Reserve = HashMap<PathBuf, (Stamp, File)>;

impl Checkpoints {
    /// Copies protected files so that they can be restored when the disk is full. File systems
    /// without unnamed files are skipped.
    ///
    /// # Errors
    /// Returns an error if there is no space for the copies.
    pub fn reserve_protected(&self, mark: &CommandSnapshot) -> io::Result<()> {
        let Some((roots, _)) = self.roots_and_workspace() else { return Ok(()) };
        let mut old = std::mem::take(&mut *lock(&self.reserve));
        let mut reserve = Reserve::new();
        let mut bytes = 0_u64;
        let result = mark.protected_states().try_for_each(|(path, state)| {
            let PathState::File { content, stamp } = state else { return Ok(()) };
            bytes = bytes.saturating_add(stamp.size);
            if reserve.len() >= MAX_FILES || bytes > MAX_BYTES {
                return Ok(());
            }
            let known = old.remove(&path).filter(|(of, _)| *of == stamp);
            let copy = match known {
                Some((_, file)) => Some(file),
                None => self.copy_unnamed(&roots, &path, &content, &stamp)?,
            };
            reserve.extend(copy.map(|file| (path, (stamp, file))));
            Ok(())
        });
        *lock(&self.reserve) = reserve;
        result
    }

    /// Returns a copy, or `None` if there cannot be one for another reason than missing space.
    fn copy_unnamed(
        &self,
        roots: &Roots,
        path: &Path,
        content: &StoredContent,
        stamp: &Stamp,
    ) -> io::Result<Option<File>> {
        let place = roots.locate(path);
        let Some(entry) = place.and_then(|place| EntryHandle::open(&place, false).ok()) else {
            return Ok(None);
        };
        let copied = entry.unnamed().and_then(|mut file| {
            let is_complete = match content {
                StoredContent::Stored(id) => self.contents.objects.copy_to(id, &mut file)?,
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

    /// Returns the copy of a file with this stamp.
    pub(super) fn take_reserved(&self, place: &ConfinedPath, stamp: &Stamp) -> Option<File> {
        let (of, file) = lock(&self.reserve).remove(&place.path())?;
        (of == *stamp).then_some(file)
    }
}
