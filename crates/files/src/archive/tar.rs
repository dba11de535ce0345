//! Unpacks tar archives: blocks of 512 bytes with a header before each file, including long names
//! of GNU and POSIX.

use std::io::{self, Read};

use super::{ArchiveError, UnpackTarget, shown};

const BLOCK: usize = 512;
/// Maximum bytes of an extended header.
const MAX_EXTENDED_HEADER: u64 = 1024 * 1024;

/// What extended headers define for the next entry.
#[derive(Default)]
struct ExtendedHeader {
    path: Option<String>,
    size: Option<u64>,
}

/// Unpacks a stream.
pub(super) fn unpack(
    mut from: impl Read,
    target: &mut UnpackTarget<'_>,
) -> Result<(), ArchiveError> {
    let mut said = ExtendedHeader::default();
    let mut headers = 0usize;
    let mut block = [0; BLOCK];
    loop {
        match read_block(&mut from, &mut block)? {
            // An archive may end without the two empty blocks.
            false if headers > 0 => return Ok(()),
            false => return Err(ArchiveError::Broken("it is empty")),
            true => {}
        }
        if block.iter().all(|byte| *byte == 0) {
            return match headers {
                0 => Err(ArchiveError::Broken("it is empty")),
                _ => Ok(()),
            };
        }
        if !checks(&block) {
            return Err(ArchiveError::Broken("it is neither a zip nor a tar archive"));
        }
        headers += 1;
        // Headers without files are limited as well.
        if headers > target.limits.entries.saturating_mul(4).saturating_add(16) {
            return Err(target.too_large());
        }
        let size = number(field(&block, 124, 12)).ok_or(ArchiveError::Broken("a size"))?;
        match field(&block, 156, 1).first() {
            Some(b'x') => extended(&text_of(&mut from, size)?, &mut said),
            Some(b'L') => {
                let name = text_of(&mut from, size)?;
                said.path = Some(name.trim_end_matches('\0').to_owned());
            }
            Some(b'g' | b'K') => drop(text_of(&mut from, size)?),
            kind => {
                let ExtendedHeader { path, size: long } = std::mem::take(&mut said);
                let name = path.unwrap_or_else(|| name_of(&block));
                let size = long.unwrap_or(size);
                entry(kind.copied(), &name, size, &block, &mut from, target)?;
            }
        }
    }
}

fn entry(
    kind: Option<u8>,
    name: &str,
    size: u64,
    block: &[u8; BLOCK],
    from: &mut impl Read,
    target: &mut UnpackTarget<'_>,
) -> Result<(), ArchiveError> {
    match kind {
        // Old archives mark a directory only by its name.
        Some(b'0' | b'\0') if name.ends_with('/') => target.folder(name),
        Some(b'0' | b'\0' | b'7') => {
            let mode = number(field(block, 100, 8)).unwrap_or(0);
            target.file(name, size, mode & 0o111 != 0, from)?;
            skip(from, padding(size))
        }
        Some(b'5') => {
            target.folder(name)?;
            skip(from, size.saturating_add(padding(size)).min(MAX_EXTENDED_HEADER))
        }
        Some(b'1' | b'2') => Err(ArchiveError::Link(shown(name))),
        _ => Err(ArchiveError::Entry { name: shown(name), why: "is not a file or directory" }),
    }
}

/// Reads a block. Returns `false` at the end of the stream.
fn read_block(from: &mut impl Read, block: &mut [u8; BLOCK]) -> io::Result<bool> {
    let mut filled = 0;
    while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn field(block: &[u8; BLOCK], start: usize, length: usize) -> &[u8] {
    block.get(start..start + length).unwrap_or_default()
}

/// Parses octal digits or a base-256 number.
fn number(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        let (first, rest) = field.split_first()?;
        let start = u64::from(first & 0x7f);
        return rest
            .iter()
            .try_fold(start, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(['\0', ' ']);
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// Verifies the checksum of a header, in which the checksum field counts as spaces.
fn checks(block: &[u8; BLOCK]) -> bool {
    let own = 148..156;
    let byte = |(at, byte): (usize, &u8)| if own.contains(&at) { 32 } else { u64::from(*byte) };
    let sum: u64 = block.iter().enumerate().map(byte).sum();
    number(field(block, 148, 8)) == Some(sum)
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned()
}

fn name_of(block: &[u8; BLOCK]) -> String {
    let (prefix, name) = (text(field(block, 345, 155)), text(field(block, 0, 100)));
    let is_posix = field(block, 257, 6) == b"ustar\0";
    if is_posix && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64) - size
}

fn skip(from: &mut impl Read, count: u64) -> Result<(), ArchiveError> {
    // An archive may end without its padding.
    io::copy(&mut from.take(count), &mut io::sink())?;
    Ok(())
}

fn text_of(from: &mut impl Read, size: u64) -> Result<String, ArchiveError> {
    if size > MAX_EXTENDED_HEADER {
        return Err(ArchiveError::Broken("a header is too long"));
    }
    let mut bytes = Vec::new();
    from.by_ref().take(size).read_to_end(&mut bytes)?;
    skip(from, padding(size))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses `LENGTH KEY=VALUE` lines; the last one of a key counts.
fn extended(lines: &str, said: &mut ExtendedHeader) {
    for line in lines.split('\n') {
        let Some((_, pair)) = line.split_once(' ') else { continue };
        match pair.split_once('=') {
            Some(("path", path)) => said.path = Some(path.to_owned()),
            Some(("size", size)) => said.size = size.parse().ok(),
            _ => {}
        }
    }
}
