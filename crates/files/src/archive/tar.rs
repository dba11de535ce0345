//! Unpacks tar archives, including long names of GNU and POSIX.

use std::io::{self, Read};

use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::{ArchiveError, UnpackTarget, display_name};

/// Maximum bytes of an extended header, or of a directory.
const MAX_EXTENDED_HEADER: u64 = 1024 * 1024;

/// What extended headers define for the next entry.
#[derive(Default)]
struct ExtendedHeader {
    path: Option<String>,
    size: Option<u64>,
}

/// Unpacks a stream.
pub(super) fn unpack(from: impl Read, target: &mut UnpackTarget<'_>) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(from);
    let mut extended = ExtendedHeader::default();
    let mut headers = 0usize;
    // Raw, because the library keeps extended headers of any size in memory.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry.map_err(header_error)?;
        headers += 1;
        // Headers without files are limited as well.
        if headers > target.limits.entries.saturating_mul(4).saturating_add(16) {
            return Err(target.too_large());
        }
        match entry.header().entry_type() {
            EntryType::XHeader => read_pax(&extended_header(&mut entry)?, &mut extended),
            EntryType::GNULongName => {
                let name = text(&extended_header(&mut entry)?);
                extended.path = Some(name.trim_end_matches('\0').to_owned());
            }
            EntryType::XGlobalHeader | EntryType::GNULongLink => {
                extended_header(&mut entry)?;
            }
            kind => unpack_entry(kind, &mut entry, std::mem::take(&mut extended), target)?,
        }
    }
    match headers {
        0 => Err(ArchiveError::Malformed("it is empty")),
        _ => Ok(()),
    }
}

fn unpack_entry(
    kind: EntryType,
    entry: &mut Entry<'_, impl Read>,
    extended: ExtendedHeader,
    target: &mut UnpackTarget<'_>,
) -> Result<(), ArchiveError> {
    let name = extended.path.unwrap_or_else(|| text(&entry.header().path_bytes()));
    let size = entry.size();
    // Only files of more than 8 GiB need one, and they exceed every limit.
    if extended.size.is_some_and(|more| more != size) {
        return Err(target.too_large());
    }
    match kind {
        // Old archives mark a directory only by its name.
        EntryType::Regular if name.ends_with('/') => target.directory(&name),
        EntryType::Regular | EntryType::Continuous => {
            let mode = entry.header().mode().unwrap_or(0);
            target.file(&name, size, mode & 0o111 != 0, entry)
        }
        EntryType::Directory if size > MAX_EXTENDED_HEADER => {
            Err(ArchiveError::Malformed("a directory has contents"))
        }
        EntryType::Directory => target.directory(&name),
        EntryType::Link | EntryType::Symlink => Err(ArchiveError::Link(display_name(&name))),
        _ => Err(ArchiveError::Entry {
            name: display_name(&name),
            reason: "is not a file or directory",
        }),
    }
}

/// Returns the error of a header that cannot be parsed.
fn header_error(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::Other => ArchiveError::Malformed("it is neither a zip nor a tar archive"),
        _ => error.into(),
    }
}

fn extended_header(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, ArchiveError> {
    if entry.size() > MAX_EXTENDED_HEADER {
        return Err(ArchiveError::Malformed("a header is too long"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses a PAX header. The last line of a key counts.
fn read_pax(bytes: &[u8], extended: &mut ExtendedHeader) {
    for line in PaxExtensions::new(bytes).flatten() {
        match line.key_bytes() {
            b"path" => extended.path = Some(text(line.value_bytes())),
            b"size" => extended.size = text(line.value_bytes()).parse().ok(),
            _ => {}
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
