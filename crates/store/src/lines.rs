//! Reads and verifies the lines of a journal, encrypted or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::cipher::{self, Cipher};
use crate::keys::Keys;
use crate::load_error::LoadError;

/// Number of bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// A line of a journal.
pub(crate) struct JournalLine<'a> {
    /// The text without surrounding whitespace.
    pub(crate) text: &'a [u8],
    /// Length of the line in the file in bytes, including its line ending.
    pub(crate) bytes: u64,
    /// Whether the line has a line ending.
    pub(crate) has_line_end: bool,
    /// Whether the line is complete but was not written at this position by the writer of the
    /// journal.
    pub(crate) is_foreign: bool,
}

/// Reads a journal line by line.
pub(crate) struct JournalReader<'a, R> {
    reader: BufReader<R>,
    keys: &'a Keys,
    path: &'a Path,
    raw: Vec<u8>,
    plaintext: Vec<u8>,
    cipher: Option<Cipher>,
    /// The number of the next record.
    next: u64,
    /// The minimum number of records of an encrypted journal; `None` if its seal is missing or
    /// damaged, or has not been read yet.
    min_records: Option<u64>,
    has_started: bool,
}

/// What is wrong with the end of an encrypted journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalEndDamage {
    /// This many records are missing.
    Missing(u64),
    /// Its seal cannot be decrypted, so missing records cannot be detected.
    Undetectable,
}

impl<'a, R: Read> JournalReader<'a, R> {
    pub(crate) fn new(file: R, path: &'a Path, keys: &'a Keys) -> Self {
        let reader = BufReader::with_capacity(CHUNK, file);
        let (raw, plaintext) = (Vec::new(), Vec::new());
        Self {
            reader,
            keys,
            path,
            raw,
            plaintext,
            cipher: None,
            next: 0,
            min_records: None,
            has_started: false,
        }
    }

    /// Returns the next line, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or the key of an encrypted journal is not
    /// available.
    pub(crate) fn next(&mut self) -> Result<Option<JournalLine<'_>>, LoadError> {
        let failed = |source| LoadError::Io { path: self.path.to_owned(), source };
        let mut bytes = read_line(&mut self.reader, &mut self.raw).map_err(failed)? as u64;
        if !self.has_started {
            self.has_started = true;
            if cipher::is_encrypted(&self.raw) && self.raw.ends_with(b"\n") {
                let cipher = cipher_for_journal(&self.raw, self.path, self.keys)?;
                bytes += read_line(&mut self.reader, &mut self.raw).map_err(failed)? as u64;
                self.min_records = cipher.read_seal(&self.raw);
                // If the seal was removed, the first record is in its place.
                if self.min_records.is_some() || cipher.decrypt_line(&self.raw).is_none() {
                    bytes += read_line(&mut self.reader, &mut self.raw).map_err(failed)? as u64;
                }
                self.cipher = Some(cipher);
                if self.raw.is_empty() {
                    return Ok(None);
                }
            }
        }
        if bytes == 0 {
            return Ok(None);
        }
        let has_line_end = self.raw.last() == Some(&b'\n');
        let Some(cipher) = &self.cipher else {
            let text = self.raw.trim_ascii();
            return Ok(Some(JournalLine { text, bytes, has_line_end, is_foreign: false }));
        };
        match cipher.decrypt_line(&self.raw).filter(|(number, _)| *number == self.next) {
            Some((_, plain)) => {
                self.plaintext = plain;
                self.next += 1;
                Ok(Some(JournalLine {
                    text: self.plaintext.trim_ascii(),
                    bytes,
                    has_line_end,
                    is_foreign: false,
                }))
            }
            None => Ok(Some(JournalLine {
                text: self.raw.trim_ascii(),
                bytes,
                has_line_end,
                is_foreign: has_line_end,
            })),
        }
    }

    /// Returns what is wrong with the end, after all lines were read.
    pub(crate) fn end_damage(&self) -> Option<JournalEndDamage> {
        self.cipher.as_ref()?;
        match self.min_records {
            None => Some(JournalEndDamage::Undetectable),
            Some(sealed) => {
                let missing = sealed.saturating_sub(self.next);
                (missing > 0).then_some(JournalEndDamage::Missing(missing))
            }
        }
    }

    /// Returns what is needed to append to the journal: its cipher, if it is encrypted, and the
    /// number of the next record.
    pub(crate) fn into_cipher(self) -> Option<(Cipher, u64)> {
        self.cipher.map(|cipher| (cipher, self.next))
    }
}

/// Returns the cipher of a journal with this first line.
pub(crate) fn cipher_for_journal(
    first: &[u8],
    path: &Path,
    keys: &Keys,
) -> Result<Cipher, LoadError> {
    let to_error = |reason| LoadError::Encrypted { path: path.to_owned(), reason };
    Cipher::open(first, keys).map_err(to_error)
}

/// Whether a file is an encrypted journal.
pub(crate) fn is_encrypted(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut beginning));
    read.is_ok() && cipher::is_encrypted(&beginning)
}

/// Checks whether the key of an encrypted journal is available.
pub(crate) fn can_open(path: &Path, keys: &Keys) -> Result<(), LoadError> {
    let failed = |source| LoadError::Io { path: path.to_owned(), source };
    let mut first = Vec::new();
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    read_line(&mut file, &mut first).map_err(failed)?;
    cipher_for_journal(&first, path, keys).map(drop)
}

/// Follows a journal as it grows.
#[derive(Debug)]
pub struct JournalTail {
    path: PathBuf,
    keys: Keys,
    /// Number of bytes read so far.
    read: u64,
    cipher: Option<Cipher>,
}

impl JournalTail {
    /// Follows a journal from its beginning; it need not exist yet.
    pub fn new(path: PathBuf, keys: Keys) -> Self {
        Self { path, keys, read: 0, cipher: None }
    }

    /// Passes the new lines to `each`, as decrypted records. An incomplete line is returned by a
    /// later call; a line that cannot be decrypted is skipped. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, the key of an encrypted journal is not
    /// available, or `each` fails.
    pub fn lines(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // The file is created with the first prompt.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            if self.read == 0 && cipher::is_encrypted(&line) {
                let cipher =
                    cipher_for_journal(&line, &self.path, &self.keys).map_err(io::Error::other)?;
                self.cipher = Some(cipher);
            } else {
                match &self.cipher {
                    None => each(&line)?,
                    Some(cipher) => {
                        if let Some((_, plain)) = cipher.decrypt_line(&line) {
                            each(&plain)?;
                        }
                    }
                }
            }
            self.read += line.len() as u64;
            line.clear();
        }
        Ok(())
    }
}

/// Maximum length of a line in bytes; longer lines are skipped to bound memory use.
const MAX_LINE: usize = 256 * 1024 * 1024;

/// Reads one line with its line ending into `line`; a line that is too long is consumed and
/// returned as empty. Returns the number of bytes read, 0 at the end of the file.
pub(crate) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let mut total = 0;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = available.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(available.len(), |at| at + 1);
        if total + used <= MAX_LINE {
            line.extend_from_slice(available.get(..used).unwrap_or_default());
        } else {
            line.clear();
            if end.is_some() {
                line.push(b'\n');
            }
        }
        total += used;
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(total);
        }
    }
}
