//! The lines of a journal as its writer meant them, whether it is encrypted or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::cipher::{self, Cipher};
use crate::keys::Keys;
use crate::load::{LoadError, read_line};

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// A line of a journal.
pub(crate) struct Line<'a> {
    /// Its text, without spaces and line ends around it.
    pub(crate) text: &'a [u8],
    /// Bytes of the file up to its end, from the end of the line before.
    pub(crate) bytes: u64,
    /// Whether it has its line end.
    pub(crate) ended: bool,
    /// Whether it does not belong here: it is whole, but its writer did not put it
    /// here.
    pub(crate) strange: bool,
}

/// Reads a journal line by line.
pub(crate) struct Lines<'a, R> {
    reader: BufReader<R>,
    keys: &'a Keys,
    path: &'a Path,
    raw: Vec<u8>,
    plain: Vec<u8>,
    cipher: Option<Cipher>,
    /// The number of the next record.
    next: u64,
    /// How many records an encrypted journal has at least; `None`: its seal is gone
    /// or damaged, or not read yet.
    sealed: Option<u64>,
    begun: bool,
}

/// What is wrong with the end of an encrypted journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongEnd {
    /// So many records are missing.
    Missing(u64),
    /// Its seal does not open: nobody can tell.
    Untold,
}

impl<'a, R: Read> Lines<'a, R> {
    pub(crate) fn new(file: R, path: &'a Path, keys: &'a Keys) -> Self {
        let reader = BufReader::with_capacity(CHUNK, file);
        let (raw, plain) = (Vec::new(), Vec::new());
        Self { reader, keys, path, raw, plain, cipher: None, next: 0, sealed: None, begun: false }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// What the disk says; an encrypted journal whose key is not to be had.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, LoadError> {
        let failed = |source| LoadError::Io { path: self.path.to_owned(), source };
        let mut bytes = read_line(&mut self.reader, &mut self.raw).map_err(failed)? as u64;
        if !self.begun {
            self.begun = true;
            if cipher::is_encrypted(&self.raw) && self.raw.ends_with(b"\n") {
                let cipher = opened(&self.raw, self.path, self.keys)?;
                bytes += read_line(&mut self.reader, &mut self.raw).map_err(failed)? as u64;
                self.sealed = cipher.sealed(&self.raw);
                // Where it was taken out, the first record stands in its place.
                if self.sealed.is_some() || cipher.decrypted(&self.raw).is_none() {
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
        let ended = self.raw.last() == Some(&b'\n');
        let Some(cipher) = &self.cipher else {
            let text = self.raw.trim_ascii();
            return Ok(Some(Line { text, bytes, ended, strange: false }));
        };
        match cipher.decrypted(&self.raw).filter(|(number, _)| *number == self.next) {
            Some((_, plain)) => {
                self.plain = plain;
                self.next += 1;
                Ok(Some(Line { text: self.plain.trim_ascii(), bytes, ended, strange: false }))
            }
            None => Ok(Some(Line { text: self.raw.trim_ascii(), bytes, ended, strange: ended })),
        }
    }

    /// What is wrong with the end, once all lines were read.
    pub(crate) fn wrong_end(&self) -> Option<WrongEnd> {
        self.cipher.as_ref()?;
        match self.sealed {
            None => Some(WrongEnd::Untold),
            Some(sealed) => {
                let missing = sealed.saturating_sub(self.next);
                (missing > 0).then_some(WrongEnd::Missing(missing))
            }
        }
    }

    /// What goes on with the journal behind the last line: its cipher, where it is
    /// encrypted, and the number of the next record.
    pub(crate) fn into_cipher(self) -> Option<(Cipher, u64)> {
        self.cipher.map(|cipher| (cipher, self.next))
    }
}

/// The cipher of a journal with this first line.
pub(crate) fn opened(first: &[u8], path: &Path, keys: &Keys) -> Result<Cipher, LoadError> {
    let wrong = |why| LoadError::Encrypted { path: path.to_owned(), why };
    Cipher::open(first, keys).map_err(wrong)
}

/// Whether a file is an encrypted journal.
pub(crate) fn is_encrypted(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut beginning));
    read.is_ok() && cipher::is_encrypted(&beginning)
}

/// Whether there is a key for an encrypted journal.
pub(crate) fn can_open(path: &Path, keys: &Keys) -> Result<(), LoadError> {
    let failed = |source| LoadError::Io { path: path.to_owned(), source };
    let mut first = Vec::new();
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    read_line(&mut file, &mut first).map_err(failed)?;
    opened(&first, path, keys).map(drop)
}

/// Follows a journal as it grows.
#[derive(Debug)]
pub struct JournalTail {
    path: PathBuf,
    keys: Keys,
    /// Bytes that were read.
    read: u64,
    cipher: Option<Cipher>,
}

impl JournalTail {
    /// From the beginning of a journal, which need not be there yet.
    pub fn new(path: PathBuf, keys: Keys) -> Self {
        Self { path, keys, read: 0, cipher: None }
    }

    /// The lines that came since, as records are read; one that is not whole comes
    /// the next time, one that does not open not at all. Blocking.
    ///
    /// # Errors
    /// What the disk says; an encrypted journal whose key is not to be had.
    pub fn lines(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // It is made with the first prompt.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            if self.read == 0 && cipher::is_encrypted(&line) {
                let cipher = opened(&line, &self.path, &self.keys).map_err(io::Error::other)?;
                self.cipher = Some(cipher);
            } else {
                match &self.cipher {
                    None => each(&line)?,
                    Some(cipher) => {
                        if let Some((_, plain)) = cipher.decrypted(&line) {
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
