//! Determines the state of a place including its contents: stored, hashed, or identical to a git
//! blob.

use std::io;

use super::Checkpoints;
use super::beneath::{EntryHandle, Place, look};
use super::objects::{Taken, file_blob_id, hash_of};
use super::state::{Content, GitId, PathText, State, human_size};

/// What to do with the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Store them.
    Keep,
    /// Only hash them.
    Hash,
}

impl Checkpoints {
    /// Returns the state of a place. `blob` is a git blob that the contents may be identical to.
    pub(super) fn observe(
        &self,
        place: &Place,
        blob: Option<(&PathText, GitId)>,
        bytes: Bytes,
    ) -> io::Result<State> {
        let mut state = look(place)?;
        let State::File { content, stamp } = &mut state else { return Ok(state) };
        let limit = self.options.file_bytes;
        if stamp.size > limit {
            *content = Content::Lost(too_large(stamp.size));
            return Ok(state);
        }
        let (file, opened) = match EntryHandle::open(place, false)?.file() {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                *content = Content::Lost("it could not be read".to_owned());
                return Ok(state);
            }
            Err(error) => return Err(error),
        };
        *stamp = opened;
        if let Some((top, blob)) = blob {
            if file_blob_id(&mut &file, stamp.size)? == Some(blob) {
                *content = Content::Git { top: top.clone(), blob };
                return Ok(state);
            }
            io::Seek::seek(&mut &file, io::SeekFrom::Start(0))?;
        }
        *content = match bytes {
            Bytes::Hash => match hash_of(&file, limit)? {
                Some(id) => Content::Hashed(id),
                None => Content::Lost(too_large(stamp.size)),
            },
            Bytes::Keep if !self.has_room(stamp.size) && !self.make_room(stamp.size) => {
                Content::Lost(store_full())
            }
            Bytes::Keep => match self.objects.take(&file, stamp.size, limit)? {
                Taken::Kept(id) => Content::Kept(id),
                Taken::TooLarge => Content::Lost(too_large(stamp.size)),
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
