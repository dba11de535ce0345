//! Unpacks zip archives, whose directory at the end lists the position of each file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::{ArchiveError, UnpackTarget, shown};

/// Size of the end record of the directory, without its comment.
const END: usize = 22;
/// Maximum bytes of a comment.
const MAX_COMMENT: u64 = 65_535;
/// Size of a directory entry, without its name.
const ENTRY: usize = 46;
/// Size of the header before a file, without its name.
const LOCAL: usize = 30;
/// Maximum bytes of a directory.
const MAX_DIRECTORY: u64 = 64 * 1024 * 1024;

/// Unpacks a file.
pub(super) fn unpack(mut file: File, target: &mut UnpackTarget<'_>) -> Result<(), ArchiveError> {
    let directory = directory(&mut file)?;
    let mut rest = directory.as_slice();
    while let Some(entry) = rest.get(..ENTRY) {
        if entry.get(..4) != Some(b"PK\x01\x02") {
            return Err(ArchiveError::Broken("its directory"));
        }
        let lengths = [28, 30, 32].map(|at| usize::from(u16_at(entry, at)));
        let name = rest.get(ENTRY..ENTRY + lengths.first().copied().unwrap_or(0));
        let name = name.ok_or(ArchiveError::Broken("its directory"))?;
        let name = String::from_utf8_lossy(name).into_owned();
        take(&mut file, entry, &name, target)?;
        rest = rest.get(ENTRY + lengths.iter().sum::<usize>()..).unwrap_or_default();
    }
    match target.entries {
        0 => Err(ArchiveError::Broken("it is empty")),
        _ => Ok(()),
    }
}

fn directory(file: &mut File) -> Result<Vec<u8>, ArchiveError> {
    let length = file.seek(SeekFrom::End(0))?;
    let start = length.saturating_sub(END as u64 + MAX_COMMENT);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(length - start).read_to_end(&mut tail)?;
    let at = (0..=tail.len().saturating_sub(END)).rev().find(|at| {
        tail.get(*at..*at + 4) == Some(b"PK\x05\x06")
            && tail.len() >= at + END + usize::from(u16_at(&tail, at + 20))
    });
    let at = at.ok_or(ArchiveError::Broken("its directory is missing"))?;
    let (size, offset) = (u32_at(&tail, at + 12), u32_at(&tail, at + 16));
    if offset == u32::MAX || u64::from(size) > MAX_DIRECTORY {
        return Err(ArchiveError::Broken("it is too large"));
    }
    file.seek(SeekFrom::Start(u64::from(offset)))?;
    let mut directory = Vec::new();
    file.take(u64::from(size)).read_to_end(&mut directory)?;
    match directory.len() == size as usize {
        true => Ok(directory),
        false => Err(ArchiveError::Broken("its directory")),
    }
}

fn take(
    file: &mut File,
    entry: &[u8],
    name: &str,
    target: &mut UnpackTarget<'_>,
) -> Result<(), ArchiveError> {
    let wrong = |why| ArchiveError::Entry { name: shown(name), why };
    let (flags, method) = (u16_at(entry, 8), u16_at(entry, 10));
    let (crc, packed, size) = (u32_at(entry, 16), u32_at(entry, 20), u32_at(entry, 24));
    // The upper half is the Unix mode, if the writer set one.
    let mode = u32_at(entry, 38) >> 16;
    let offset = u32_at(entry, 42);
    match mode & 0o170_000 {
        0o120_000 => return Err(ArchiveError::Link(shown(name))),
        0 | 0o100_000 | 0o040_000 => {}
        _ => return Err(wrong("is not a file or directory")),
    }
    if name.ends_with('/') || name.ends_with('\\') || mode & 0o170_000 == 0o040_000 {
        return target.folder(name);
    }
    if flags & 1 != 0 {
        return Err(wrong("is encrypted"));
    }
    if [packed, size, offset].contains(&u32::MAX) {
        return Err(wrong("is too large"));
    }
    file.seek(SeekFrom::Start(u64::from(offset)))?;
    let mut header = [0; LOCAL];
    file.read_exact(&mut header)?;
    if header.get(..4) != Some(b"PK\x03\x04") {
        return Err(ArchiveError::Broken("a file in it"));
    }
    let behind = i64::from(u16_at(&header, 26)) + i64::from(u16_at(&header, 28));
    file.seek(SeekFrom::Current(behind))?;
    let data = BufReader::new(file.take(u64::from(packed)));
    let mut data: Box<dyn Read> = match method {
        0 => Box::new(data),
        8 => Box::new(DeflateDecoder::new(data)),
        _ => return Err(wrong("uses an unknown compression method")),
    };
    let mut checked = ChecksumReader { from: &mut *data, crc: Crc::new() };
    target.file(name, u64::from(size), mode & 0o111 != 0, &mut checked)?;
    // More data than declared was not checked.
    let more = checked.from.read(&mut [0; 1])? > 0;
    if more || checked.crc.sum() != crc {
        return Err(wrong("is damaged"));
    }
    Ok(())
}

/// Computes the checksum of what is read.
struct ChecksumReader<'a> {
    from: &'a mut dyn Read,
    crc: Crc,
}

impl Read for ChecksumReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.crc.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let pair = bytes.get(at..at + 2).and_then(|pair| pair.try_into().ok());
    u16::from_le_bytes(pair.unwrap_or_default())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_le_bytes(four.unwrap_or_default())
}
