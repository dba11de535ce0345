//! Conversations that the user saved under a name: journals of Parallax in a separate directory,
//! and Gemini CLI checkpoints, which are read-only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parallax_protocol::store::Store as _;

use crate::journal::Journal;
use crate::list::modified_time;
use crate::load::LoadedSession;
use crate::paths::{SessionDirs, project_folder};
use crate::private_files::create_private_dir;
use crate::session_files::files;
use crate::session_files::gemini_folders;
use crate::session_origin::SessionOrigin;

/// Maximum length in bytes; a file name is limited to 255 bytes, including prefix and extension.
const MAX_NAME_LENGTH: usize = 200;

/// A saved conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedChat {
    /// The name as entered by the user.
    pub tag: String,
    /// When the conversation was saved.
    pub saved: Timestamp,
    /// The file to import.
    pub path: PathBuf,
    /// The program that wrote the file.
    pub origin: SessionOrigin,
}

impl SavedChat {
    /// Returns how long ago the conversation was saved, for display.
    pub fn age(&self) -> String {
        crate::list::age(self.saved)
    }
}

/// Why a conversation could not be saved, found, or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The name is empty.
    #[error("the conversation requires a name")]
    NoTag,
    /// The name is too long for a file name.
    #[error("the name is too long")]
    LongTag,
    /// A conversation with this name exists.
    #[error("the conversation `{tag}` already exists")]
    Exists {
        /// The name.
        tag: String,
    },
    /// The conversation is empty.
    #[error("the conversation is empty: there is nothing to save")]
    Empty,
    /// No conversation has this name.
    #[error("unknown conversation `{tag}`")]
    Missing {
        /// The name.
        tag: String,
    },
    /// The conversation belongs to another program.
    #[error("the conversation `{tag}` belongs to Gemini CLI and was not deleted; its file is `{}`", .path.display())]
    Foreign {
        /// The name.
        tag: String,
        /// The file.
        path: PathBuf,
    },
    /// An I/O operation failed.
    #[error("failed to write `{}`: {reason}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Returns the conversations of a project, oldest first. If two have the same name, the one saved
/// by Parallax is returned.
pub fn saved_chats(dirs: &SessionDirs, project: &Path) -> Vec<SavedChat> {
    let mut chats: Vec<SavedChat> = Vec::new();
    let ours =
        files(&folder(dirs, project)).into_iter().map(|path| (path, SessionOrigin::Parallax));
    let theirs = gemini_folders(dirs, project).into_iter().flat_map(|directory| files(&directory));
    for (path, origin) in ours.chain(theirs.map(|path| (path, SessionOrigin::GeminiCli))) {
        let Some(tag) = tag_of(&path, origin) else { continue };
        let Some(saved) = modified_time(&path) else { continue };
        if !chats.iter().any(|known| known.tag == tag) {
            chats.push(SavedChat { tag, saved, path, origin });
        }
    }
    chats.sort_by(|one, two| (one.saved, &one.tag).cmp(&(two.saved, &two.tag)));
    chats
}

/// Returns the conversation with this name.
///
/// # Errors
/// Returns [`ChatError::Missing`] if there is none.
pub fn find_chat(dirs: &SessionDirs, project: &Path, tag: &str) -> Result<SavedChat, ChatError> {
    let found = saved_chats(dirs, project).into_iter().find(|chat| chat.tag == tag.trim());
    found.ok_or_else(|| ChatError::Missing { tag: tag.trim().to_owned() })
}

/// Saves a conversation under a name and returns its file.
///
/// # Errors
/// Returns an error if the name is empty, too long, or (unless `replace` is set) already used by a
/// conversation of Parallax, if the conversation is empty, or if the file cannot be written.
pub fn save_chat(
    dirs: &SessionDirs,
    project: &Path,
    tag: &str,
    session: &LoadedSession,
    replace: bool,
) -> Result<PathBuf, ChatError> {
    let tag = tag.trim();
    if tag.is_empty() {
        return Err(ChatError::NoTag);
    }
    let name = encode(tag);
    if name.len() > MAX_NAME_LENGTH {
        return Err(ChatError::LongTag);
    }
    if session.contents.is_empty() {
        return Err(ChatError::Empty);
    }
    let directory = folder(dirs, project);
    let path = directory.join(format!("{name}.jsonl"));
    if !replace && path.exists() {
        return Err(ChatError::Exists { tag: tag.to_owned() });
    }
    let failed = |reason: String| ChatError::Io { path: path.clone(), reason };
    create_private_dir(&directory).map_err(|error| failed(error.to_string()))?;
    // Write to a temporary file, so that a crash leaves the old file intact.
    let new = directory.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let journal = Journal::create(&new, session.head.clone()).with_keys(&dirs.keys);
    let written = journal.append_all(session).and_then(|()| journal.sync());
    drop(journal);
    let moved = written
        .map_err(|error| error.to_string())
        .and_then(|()| fs::rename(&new, &path).map_err(|error: io::Error| error.to_string()));
    moved.map_err(|why| {
        let _ = fs::remove_file(&new);
        failed(why)
    })?;
    Ok(path)
}

/// Deletes a conversation saved by Parallax.
///
/// # Errors
/// Returns an error if no conversation has this name, it belongs to another program, or the file
/// cannot be deleted.
pub fn delete_chat(dirs: &SessionDirs, project: &Path, tag: &str) -> Result<SavedChat, ChatError> {
    let chat = find_chat(dirs, project, tag)?;
    if chat.origin != SessionOrigin::Parallax {
        return Err(ChatError::Foreign { tag: chat.tag, path: chat.path });
    }
    fs::remove_file(&chat.path)
        .map_err(|error| ChatError::Io { path: chat.path.clone(), reason: error.to_string() })?;
    Ok(chat)
}

fn folder(dirs: &SessionDirs, project: &Path) -> PathBuf {
    dirs.parallax.join("chats").join(project_folder(project))
}

fn tag_of(path: &Path, origin: SessionOrigin) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let encoded = match origin {
        SessionOrigin::Parallax => {
            name.strip_suffix(".jsonl").filter(|name| !name.starts_with('.'))?
        }
        SessionOrigin::GeminiCli => name.strip_prefix("checkpoint-")?.strip_suffix(".json")?,
        SessionOrigin::ParallaxCli => return None,
    };
    (!encoded.is_empty()).then(|| decode(encoded))
}

/// Encodes a name as a file name: every byte other than letters, digits, `-`, `_`, and inner dots
/// becomes `%XX`.
fn encode(tag: &str) -> String {
    let mut name = String::new();
    for (index, byte) in tag.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_')
            || (byte == b'.' && index > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name
}

/// Decodes a name encoded by [`encode`] or by Gemini CLI. Names that were never encoded are
/// returned unchanged.
fn decode(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match tail {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                bytes.push(high * 16 + low);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_tag_round_trips_as_a_file_name(tag in "\\PC{1,30}") {
            let name = encode(&tag);
            prop_assert!(!name.starts_with('.') && !name.contains(['/', '\\', ':']));
            prop_assert_eq!(decode(&name), tag);
        }

        #[test]
        fn decoding_arbitrary_file_name_does_not_panic(name in "[%0-9A-Fa-fx.é]{0,20}") {
            let _ = decode(&name);
        }
    }
}
