//! The recorded state of a path at one point in time.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The SHA-256 hash of an object, which is its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectId(pub [u8; 32]);

/// The SHA-1 hash that names a git blob.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct GitId(pub [u8; 20]);

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS.get(usize::from(value)).copied().unwrap_or(b'0'));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

macro_rules! hex_id {
    ($name:ident, $length:literal) => {
        impl $name {
            /// Returns the ID in hexadecimal.
            pub fn hex(&self) -> String {
                to_hex(&self.0)
            }
            /// Parses a hexadecimal ID.
            pub fn parse(text: &str) -> Option<Self> {
                Some(Self(<[u8; $length]>::try_from(from_hex(text)?).ok()?))
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.hex())
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.hex())
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| {
                    serde::de::Error::custom(
                        "not the name of an \
                    object",
                    )
                })
            }
        }
    };
}

hex_id!(ObjectId, 32);
hex_id!(GitId, 20);

/// A path or link target in a record, stored as text if it is UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum EncodedPath {
    /// UTF-8 text.
    Text(String),
    /// Other bytes, in hexadecimal.
    Bytes {
        /// The hexadecimal digits.
        bytes: String,
    },
}

impl EncodedPath {
    pub fn from_path(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes { bytes: to_hex(path.as_os_str().as_bytes()) },
        }
    }

    pub fn path(&self) -> PathBuf {
        match self {
            Self::Text(text) => PathBuf::from(text),
            Self::Bytes { bytes } => {
                PathBuf::from(OsString::from_vec(from_hex(bytes).unwrap_or_default()))
            }
        }
    }
}

/// Metadata of a file. Two equal stamps mean equal contents unless the file was changed within one
/// tick of the file system clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub size: u64,
    pub mode: u32,
    pub inode: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified: i64,
    /// Status change time in nanoseconds since 1970.
    pub changed: i64,
}

/// A change time more recent than this many nanoseconds may hide a second change, because of the
/// resolution of file system clocks.
const TICK: i64 = 20_000_000;
/// The same for file systems with times in whole seconds.
const COARSE_TICK: i64 = 2_100_000_000;

impl Stamp {
    // The widths of these fields differ between systems.
    #[expect(clippy::unnecessary_cast, reason = "the field types differ between systems")]
    pub fn from_stat(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
        Self {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode as u32 & 0o7777,
            inode: stat.st_ino as u64,
            modified: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether the file may change again without changing its stamp, if the stamp was taken at
    /// `now`.
    pub fn may_change_unnoticed(&self, now: i64) -> bool {
        let newest = self.changed.max(self.modified);
        let coarse = self.changed % 1_000_000_000 == 0;
        newest >= now - if coarse { COARSE_TICK } else { TICK }
    }
}

/// Returns the current time in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Where the contents of a file are available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredContent {
    /// In the store.
    #[serde(rename = "kept")]
    Stored(ObjectId),
    /// Not available; only the hash of what a change left is known.
    Hashed(ObjectId),
    /// In the object store of git.
    Git {
        /// The root directory of the working tree.
        top: EncodedPath,
        /// The blob.
        blob: GitId,
    },
    /// Not available, for this reason.
    #[serde(rename = "lost")]
    Unavailable(String),
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum PathState {
    /// Nothing exists.
    Absent,
    /// A regular file.
    File {
        /// The contents.
        content: StoredContent,
        /// The metadata.
        stamp: Stamp,
    },
    /// A symbolic link.
    Link {
        /// The target.
        target: EncodedPath,
    },
    /// A directory.
    Folder {
        /// Permission bits.
        mode: u32,
    },
    /// A named pipe, socket, or device: never written, never removed.
    Special,
}

impl PathState {
    /// Whether both are known to be the same. False for files about which too little is known.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { content: one, stamp: first },
                Self::File { content: two, stamp: second },
            ) => {
                let same_bytes = match (one.hash(), two.hash()) {
                    (Some(one), Some(two)) => one == two,
                    _ => match (one, two) {
                        (
                            StoredContent::Git { blob: one, .. },
                            StoredContent::Git { blob: two, .. },
                        ) => one == two,
                        _ => first == second,
                    },
                };
                same_bytes && first.mode == second.mode
            }
            _ => self == other,
        }
    }

    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Returns the object that restoring requires.
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::File { content: StoredContent::Stored(id), .. } => Some(*id),
            _ => None,
        }
    }

    /// Returns why the state cannot be restored, if it cannot.
    pub fn restore_problem(&self) -> Option<&str> {
        match self {
            Self::File { content: StoredContent::Unavailable(reason), .. } => Some(reason),
            Self::File { content: StoredContent::Hashed(_), .. } => Some(
                "its previous content was not \
                saved",
            ),
            Self::Special => Some("it was not a regular file"),
            _ => None,
        }
    }
}

impl StoredContent {
    /// Returns the hash of the contents, if known.
    pub fn hash(&self) -> Option<ObjectId> {
        match self {
            Self::Stored(id) | Self::Hashed(id) => Some(*id),
            Self::Git { .. } | Self::Unavailable(_) => None,
        }
    }
}

/// Formats a size for display.
pub(super) fn human_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    for (unit, size) in UNITS {
        if bytes >= size {
            let tenths = bytes / (size / 10);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_states_round_trip_through_records() {
        let odd = PathBuf::from(OsString::from_vec(b"a\xffb".to_vec()));
        let stamp = Stamp { size: 3, mode: 0o640, inode: u64::MAX, modified: -1, changed: 2 };
        let blob = GitId([7; 20]);
        for state in [
            PathState::Absent,
            PathState::Special,
            PathState::Folder { mode: 0o755 },
            PathState::Link { target: EncodedPath::from_path(&odd) },
            PathState::File { content: StoredContent::Stored(ObjectId([0xab; 32])), stamp },
            PathState::File {
                content: StoredContent::Git { top: EncodedPath::from_path(&odd), blob },
                stamp,
            },
            PathState::File { content: StoredContent::Unavailable("too large".into()), stamp },
        ] {
            let text = serde_json::to_string(&state).expect("json");
            assert_eq!(serde_json::from_str::<PathState>(&text).expect("state"), state, "{text}");
        }
        assert_eq!(EncodedPath::from_path(&odd).path(), odd);
        assert!(ObjectId::parse("abc").is_none() && ObjectId::parse("é").is_none());
    }

    #[test]
    fn sizes_are_human_readable() {
        assert_eq!(human_size(1_234_567_890), "1.2 GB");
        assert_eq!(human_size(20_971_520), "20.9 MB");
        assert_eq!(human_size(12), "12 bytes");
    }
}
