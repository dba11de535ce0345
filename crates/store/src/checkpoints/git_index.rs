//! Parses the index of git: the tracked files, with the metadata by which git detects changes. The
//! file is untrusted; if anything is unexpected, the index is not used and file contents are copied
//! instead.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::state::{GitId, Stamp};

/// Size limit of an index in bytes.
const MAX_INDEX: u64 = 128 * 1024 * 1024;

/// A tracked file.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrackedEntry {
    name: (u32, u32),
    changed: (u32, u32),
    modified: (u32, u32),
    inode: u32,
    size: u32,
    mode: u32,
    /// Whether the metadata describes the file on disk.
    is_usable: bool,
    /// The blob with its contents when it was added.
    pub blob: GitId,
}

/// The tracked files of a working tree, sorted by name.
#[derive(Debug, Default)]
pub(super) struct Index {
    names: Vec<u8>,
    entries: Vec<TrackedEntry>,
    /// When the index was written, in nanoseconds since 1970.
    written_at: i64,
}

impl Index {
    /// Reads an index file. Returns `None` if it does not exist or is not understood.
    pub fn read(path: &Path) -> Option<Self> {
        // Opening a pipe would block.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let file = File::open(path).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let stamp = Stamp::from_stat(&stat);
        if stamp.size > MAX_INDEX || !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).ok()?);
        file.take(MAX_INDEX).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes, stamp.modified)
    }

    fn parse(bytes: &[u8], written_at: i64) -> Option<Self> {
        // The last twenty bytes are a checksum.
        let body = bytes.get(..bytes.len().checked_sub(20)?)?;
        let mut input = Input { bytes: body, at: 0 };
        if input.take(4)? != b"DIRC" {
            return None;
        }
        let version = input.number()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = input.number()?;
        let mut index = Self { names: Vec::new(), entries: Vec::new(), written_at };
        let mut name = Vec::new();
        for _ in 0..count {
            let entry = input.entry(version, &mut name, &mut index.names)?;
            index.entries.push(entry);
        }
        while input.at < body.len() {
            let kind = input.take(4)?;
            let length = input.number()?;
            // A split index: most entries are in another file.
            if kind == b"link" {
                return None;
            }
            input.take(usize::try_from(length).ok()?)?;
        }
        Some(index)
    }

    fn name(&self, entry: &TrackedEntry) -> &[u8] {
        let (start, end) = entry.name;
        self.names.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Returns the entry of a name relative to the root of the working tree.
    pub fn get(&self, name: &[u8]) -> Option<&TrackedEntry> {
        let index = self.entries.binary_search_by(|entry| self.name(entry).cmp(name)).ok()?;
        self.entries.get(index)
    }

    /// Whether a file below this directory (with a trailing slash) is tracked.
    pub fn tracks_below(&self, directory: &[u8]) -> bool {
        let at = self.entries.partition_point(|entry| self.name(entry) < directory);
        self.entries.get(at).is_some_and(|entry| self.name(entry).starts_with(directory))
    }

    /// Whether git would consider the file unchanged without reading it.
    pub fn is_clean(&self, entry: &TrackedEntry, stamp: &Stamp) -> bool {
        // The index stores the low 32 bits of each value.
        let low = |value: u64| (value & u64::from(u32::MAX)) as u32;
        let split = |time: i64| {
            let seconds = time.div_euclid(1_000_000_000) as u64;
            (low(seconds), low(time.rem_euclid(1_000_000_000) as u64))
        };
        let is_executable = stamp.mode & 0o100 != 0;
        entry.is_usable
            && entry.mode == if is_executable { 0o100_755 } else { 0o100_644 }
            && entry.size == low(stamp.size)
            && stamp.size <= u64::from(u32::MAX)
            && entry.inode == low(stamp.inode)
            && entry.modified == split(stamp.modified)
            && entry.changed == split(stamp.changed)
            // A file modified at the moment the index was written may have changed unnoticed.
            && stamp.modified < self.written_at
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Reads up to the next NUL, which is consumed.
    fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        self.at += length + 1;
        rest.get(..length)
    }

    /// Reads a number in groups of seven bits, the format of git offsets.
    fn varint(&mut self) -> Option<usize> {
        let mut value = 0usize;
        loop {
            let [byte] = *self.take(1)? else { return None };
            value = value.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
            if byte & 128 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
    }

    /// Reads one entry. `name` is the name of the previous entry and is replaced by the name of
    /// this one.
    fn entry(
        &mut self,
        version: u32,
        name: &mut Vec<u8>,
        names: &mut Vec<u8>,
    ) -> Option<TrackedEntry> {
        let start = self.at;
        let changed = (self.number()?, self.number()?);
        let modified = (self.number()?, self.number()?);
        let _device = self.number()?;
        let inode = self.number()?;
        let mode = self.number()?;
        let _owner = (self.number()?, self.number()?);
        let size = self.number()?;
        let blob = GitId(self.take(20)?.try_into().ok()?);
        let flags = self.short()?;
        let extended = flags & 0x4000 != 0;
        if extended && version < 3 {
            return None;
        }
        let more = if extended { self.short()? } else { 0 };
        if version == 4 {
            let strip = self.varint()?;
            name.truncate(name.len().checked_sub(strip)?);
            name.extend_from_slice(self.text()?);
        } else {
            name.clear();
            name.extend_from_slice(self.text()?);
            // Padded with one to eight NULs, of which one is already consumed.
            let length = self.at - start;
            self.take(length.next_multiple_of(8) - length)?;
        }
        let begin = u32::try_from(names.len()).ok()?;
        names.extend_from_slice(name);
        if names.len() as u64 > 4 * MAX_INDEX {
            return None;
        }
        let end = u32::try_from(names.len()).ok()?;
        // Excludes entries that are assumed unchanged, in conflict, not checked out, or marked as
        // intent-to-add.
        let is_usable = flags & 0x8000 == 0 && flags & 0x3000 == 0 && more & 0x6000 == 0;
        Some(TrackedEntry {
            name: (begin, end),
            changed,
            modified,
            inode,
            size,
            mode,
            is_usable,
            blob,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [9u32, 8, 7, 6, 0, 5, 0o100_644, 0, 0, 4] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend([1; 20]);
        bytes.extend((name.len() as u16).to_be_bytes());
        bytes.extend(name);
        bytes.resize((bytes.len() + 8) / 8 * 8, 0);
        bytes
    }

    fn index(names: &[&[u8]]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend((names.len() as u32).to_be_bytes());
        names.iter().for_each(|name| bytes.extend(entry(name)));
        bytes.extend([0; 20]);
        bytes
    }

    #[test]
    fn entries_are_found_and_compared() {
        let bytes = index(&[b"a/b", b"a/c-long-name", b"d"]);
        let index = Index::parse(&bytes, 8_000_000_000).expect("index");
        assert!(index.get(b"a/c-long-name").is_some() && index.get(b"a").is_none());
        assert!(index.tracks_below(b"a/") && !index.tracks_below(b"b/"));
        let stamp = Stamp {
            size: 4,
            mode: 0o640,
            inode: 5,
            modified: 7_000_000_006,
            changed: 9_000_000_008,
        };
        let found = index.get(b"d").expect("entry");
        assert!(index.is_clean(found, &stamp));
        assert!(!index.is_clean(found, &Stamp { mode: 0o755, ..stamp }));
        assert!(!index.is_clean(found, &Stamp { changed: 9_000_000_009, ..stamp }));
        assert!(!index.is_clean(found, &Stamp { size: 4 + (1 << 32), ..stamp }));
    }

    proptest! {
        #[test]
        fn arbitrary_index_bytes_do_not_panic(
            mut noise in proptest::collection::vec(any::<u8>(), 0..300),
            version in 0u8..6,
            cut in 0usize..300,
        ) {
            let _ = Index::parse(&noise, 0);
            let mut bytes = index(&[b"a/b", b"c"]);
            bytes[7] = version;
            bytes.truncate(cut);
            bytes.append(&mut noise);
            let _ = Index::parse(&bytes, 0);
        }
    }
}
