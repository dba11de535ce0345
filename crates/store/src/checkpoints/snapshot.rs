//! Determines the state of a place including its contents: stored, hashed, or identical to a git
//! blob.

use std::io;

use super::Checkpoints;
use super::confined_root::{ConfinedPath, EntryHandle, read_state};
use super::objects::{StoreResult, file_blob_id, hash_of};
use super::state::{GitId, PathState, PathText, StoredContent, human_size};

/// What to do with the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentHandling {
    /// Store them.
    Keep,
    /// Only hash them.
    Hash,
}

impl Checkpoints {
    /// Returns the state of a place. `blob` is a git blob that the contents may be identical to.
    pub(super) fn observe(
        &self,
        place: &ConfinedPath,
        blob: Option<(&PathText, GitId)>,
        bytes: ContentHandling,
    ) -> io::Result<PathState> {
        let mut state = read_state(place)?;
        let PathState::File { content, stamp } = &mut state else { return Ok(state) };
        let limit = self.options.file_bytes;
        if stamp.size > limit {
            *content = StoredContent::Unavailable(too_large(stamp.size));
            return Ok(state);
        }
        let (file, opened) = match EntryHandle::open(place, false)?.file() {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                *content = StoredContent::Unavailable("it could not be read".to_owned());
                return Ok(state);
            }
            Err(error) => return Err(error),
        };
        *stamp = opened;
        if let Some((top, blob)) = blob {
            if file_blob_id(&mut &file, stamp.size)? == Some(blob) {
                *content = StoredContent::Git { top: top.clone(), blob };
                return Ok(state);
            }
            io::Seek::seek(&mut &file, io::SeekFrom::Start(0))?;
        }
        *content = match bytes {
            ContentHandling::Hash => match hash_of(&file, limit)? {
                Some(id) => StoredContent::Hashed(id),
                None => StoredContent::Unavailable(too_large(stamp.size)),
            },
            ContentHandling::Keep
                if !self.has_space_for(stamp.size) && !self.free_space(stamp.size) =>
            {
                StoredContent::Unavailable(store_full())
            }
            ContentHandling::Keep => match self.objects.store(&file, stamp.size, limit)? {
                StoreResult::Stored(id) => StoredContent::Stored(id),
                StoreResult::TooLarge => StoredContent::Unavailable(too_large(stamp.size)),
            },
        };
        Ok(state)
    }
}

pub(super) fn too_large(size: u64) -> String {
    format!("its previous content was not saved ({})", human_size(size))
}

pub(super) fn store_full() -> String {
    "its previous content was not saved (the checkpoint store is full)".to_owned()
}
