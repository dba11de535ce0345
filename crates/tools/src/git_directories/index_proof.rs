//! Whether a repository belongs to a working tree, by the files that its index lists. Git records
//! the inode and the times of each file; a copy of the file has others, and the time of the last
//! change cannot be set.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use crate::small_files::bytes_of;

/// Maximum size in bytes of an index, and number of entries that are compared.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_COUNT: usize = 20_000;

/// Whether the index of the repository lists a file of the working tree as it is.
pub(super) fn lists_files_of(repository: &Path, top: Option<&Path>) -> bool {
    let Some(top) = top else { return false };
    let Some(bytes) = bytes_of(&repository.join("index"), MAX_BYTES) else { return false };
    let longest_hash = if uses_sha256(repository) { 32 } else { 20 };
    Entries::parse(&bytes, longest_hash)
        .is_some_and(|entries| entries.take(MAX_COUNT).any(|entry| entry.is_unchanged_in(top)))
}

fn uses_sha256(repository: &Path) -> bool {
    super::value(repository, "[extensions]", "objectformat").is_some_and(|value| value == "sha256")
}

/// An entry of an index.
struct IndexRecord {
    changed: u32,
    modified: u32,
    inode: u32,
    size: u32,
    path: Vec<u8>,
}

impl IndexRecord {
    fn is_unchanged_in(&self, top: &Path) -> bool {
        let path = Path::new(OsStr::from_bytes(&self.path));
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return false;
        }
        let Ok(data) = top.join(path).symlink_metadata() else { return false };
        // The index holds the lower half of each number.
        let low = |number: u64| (number & 0xffff_ffff) as u32;
        data.is_file()
            && self.inode != 0
            && self.changed != 0
            && self.inode == low(data.ino())
            && self.size == low(data.size())
            && self.changed == low(data.ctime().cast_unsigned())
            && self.modified == low(data.mtime().cast_unsigned())
    }
}

/// The entries of an index in one of git's formats 2, 3, and 4.
struct Entries<'a> {
    remaining_bytes: &'a [u8],
    version: u32,
    remaining: u32,
    hash: usize,
    /// The path of the last entry, of which format 4 repeats only the end.
    path: Vec<u8>,
}

impl<'a> Entries<'a> {
    fn parse(bytes: &'a [u8], hash: usize) -> Option<Self> {
        let rest = bytes.strip_prefix(b"DIRC")?;
        let (version, remaining) = (number(rest, 0)?, number(rest, 4)?);
        let remaining_bytes = rest.get(8..)?;
        (2..=4).contains(&version).then(|| Self {
            remaining_bytes,
            version,
            remaining,
            hash,
            path: Vec::new(),
        })
    }

    fn entry(&mut self) -> Option<IndexRecord> {
        const HAS_MORE_FLAGS: u8 = 0x40;
        /// The offset of the hash.
        const FACTS: usize = 40;
        let position = self.remaining_bytes;
        let flags = FACTS + self.hash;
        let more = self.version > 2 && position.get(flags)? & HAS_MORE_FLAGS != 0;
        let start = flags + if more { 4 } else { 2 };
        let mut at = start;
        if self.version == 4 {
            let (cut, length) = offset(position.get(start..)?)?;
            self.path.truncate(self.path.len().checked_sub(cut)?);
            at += length;
        } else {
            self.path.clear();
        }
        let name = position.get(at..)?;
        let length = memchr::memchr(0, name)?;
        self.path.extend_from_slice(name.get(..length)?);
        let end = at + length;
        // Padded with one to eight zeros, except in format 4.
        let next = if self.version == 4 { end + 1 } else { (end + 8) & !7 };
        self.remaining_bytes = position.get(next..)?;
        Some(IndexRecord {
            changed: number(position, 0)?,
            modified: number(position, 8)?,
            inode: number(position, 20)?,
            size: number(position, 36)?,
            path: self.path.clone(),
        })
    }
}

impl Iterator for Entries<'_> {
    type Item = IndexRecord;

    fn next(&mut self) -> Option<IndexRecord> {
        self.remaining = self.remaining.checked_sub(1)?;
        self.entry()
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Reads a number of git's variable length; returns it with its length.
fn offset(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value: usize = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value = value.checked_shl(7)? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
        value = value.checked_add(1)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_are_recognized_in_every_format_and_copies_are_not() {
        for (version, format) in [("2", "sha1"), ("3", "sha1"), ("4", "sha1"), ("4", "sha256")] {
            let directory = tempfile::tempdir().unwrap();
            let top = directory.path();
            let git = |line: &[&str]| {
                let time = Duration::from_secs(5);
                let set = ["-c", &format!("index.version={version}")];
                let line = set.iter().chain(line);
                let output =
                    parallax_exec::program::output("git", line.clone(), top, &[], 1 << 20, time);
                assert!(output.is_some(), "{line:?}");
            };
            git(&["init", "-q", &format!("--object-format={format}")]);
            fs::create_dir(top.join("a")).unwrap();
            for name in ["a/gone", "a/kept", "b"] {
                fs::write(top.join(name), name).unwrap();
            }
            git(&["add", "-A"]);
            fs::write(top.join("later"), "").unwrap();
            git(&["add", "-N", "later"]);
            for name in ["a/gone", "b"] {
                fs::remove_file(top.join(name)).unwrap();
            }
            let repository = top.join(".git");
            assert!(lists_files_of(&repository, Some(top)), "{version} {format}");
            fs::copy(top.join("a/kept"), top.join("copy")).unwrap();
            fs::rename(top.join("copy"), top.join("a/kept")).unwrap();
            fs::remove_file(top.join("later")).unwrap();
            assert!(!lists_files_of(&repository, Some(top)), "{version} {format}");
        }
    }

    #[test]
    fn damaged_index_proves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        for bytes in [
            b"".as_slice(),
            b"DIRC",
            b"DIRC\0\0\0\x02\xff\xff\xff\xff",
            b"DIRC\0\0\0\x04\0\0\0\x01xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
              \xff\xff\xff\xff\xff\xff\xff\xff\xff\xffabc\0",
        ] {
            fs::write(top.join("index"), bytes).unwrap();
            assert!(!lists_files_of(top, Some(top)));
        }
    }
}
