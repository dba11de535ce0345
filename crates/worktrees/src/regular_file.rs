//! Opens files that commands may have replaced by links or pipes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a file unless it is a link or something else.
///
/// # Errors
/// Returns an error if it cannot be opened or is not a regular file.
pub fn open_regular(file: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    match opened.metadata()?.is_file() {
        true => Ok(opened),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Whether two files have the same bytes.
pub(super) fn have_equal_contents(one: File, other: File) -> io::Result<bool> {
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let count = left.len().min(right.len());
        if left.get(..count) != right.get(..count) {
            return Ok(false);
        }
        if count == 0 {
            return Ok(left.len() == right.len());
        }
        one.consume(count);
        other.consume(count);
    }
}
