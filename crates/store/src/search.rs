//! A full-text index of the sessions of all projects. The journals are authoritative: the index is
//! updated by comparing the size, modification time, and inode of the files, and rebuilt if it is
//! unusable.
//!
//! Several processes may use it at once. Writers are serialized by the SQLite lock, and each checks
//! again what changed once it holds the lock. A process that needs a rebuild while another process
//! is rebuilding waits for it.

mod query;
mod reading;
mod rebuild;
mod text;
mod update;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::lines::{can_open, is_encrypted};
use crate::list::short_id;
use crate::load_error::LoadError;
use crate::paths::SessionDirs;
use crate::private_files::create_private_dir;
use crate::session_origin::SessionOrigin;
pub use reading::TurnText;
pub use rebuild::IndexLock;
pub use update::{UpdateProgress, UpdateResult};
use update::{origin_number, path_of};

/// The schema version; an index with another version is discarded.
const VERSION: i64 = 3;
/// The tokenizer of FTS5.
const TOKENS: &str = "tokenize = \"unicode61 remove_diacritics 2\"";
/// How long a process waits for another process to write.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a waiting process polls.
const LOOK: Duration = Duration::from_millis(20);
/// SQLite page cache size, as negative KiB.
const CACHE: i64 = -32 * 1024;
/// Number of bytes of terms that SQLite buffers before writing; a larger buffer reduces merging.
const GATHERED: u32 = 32 * 1024 * 1024;
/// Number of bits of a row ID that hold the turn; the others hold the session.
const TURN_BITS: u32 = 12;

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// An I/O operation failed.
    #[error("failed to use the search index `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// SQLite reported an error.
    #[error("failed to use the search index `{}`: {source}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
}

/// A search query. All terms must occur in the same turn.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// Words that must all occur; the last may be a prefix. Words in quotes must occur as a phrase.
    pub text: String,
    /// Restricts the search to sessions of this project.
    pub project: Option<PathBuf>,
    /// Maximum number of sessions returned.
    pub limit: usize,
}

/// A session that matches a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The session ID.
    pub id: String,
    /// The name or first prompt.
    pub title: String,
    /// The project directory; empty if unknown.
    pub project: PathBuf,
    /// The file.
    pub path: PathBuf,
    /// The program that wrote the file.
    pub origin: SessionOrigin,
    /// When the session was last used.
    pub last_used: Timestamp,
    /// The newest turn that contains the text.
    pub turn: u64,
    /// The text with its context on one line; matches are enclosed in U+0001 and U+0002.
    pub snippet: String,
}

impl SearchHit {
    /// Returns a prefix of the ID that is almost always unique.
    pub fn short_id(&self) -> String {
        short_id(&self.id, self.origin)
    }
}

/// Encrypted sessions that are not in the index.
#[derive(Debug, Default)]
pub struct EncryptedSessions {
    /// Number of sessions that can be decrypted.
    pub readable: usize,
    /// Number of sessions that cannot be decrypted.
    pub unreadable: usize,
    /// Why one of those cannot be decrypted.
    pub reason: Option<LoadError>,
}

/// An open index.
#[derive(Debug)]
pub struct SearchIndex {
    path: PathBuf,
    connection: Connection,
    /// Whether the index exists only in memory of this process.
    in_memory: bool,
    /// Whether the index contains only encrypted sessions.
    is_encrypted_only: bool,
}

impl SearchIndex {
    /// Opens the index and creates it if it does not exist or is unusable. Does not read any
    /// sessions; see [`SearchIndex::update`].
    ///
    /// # Errors
    /// Returns an error if an I/O operation fails.
    pub fn open(dirs: &SessionDirs) -> Result<Self, SearchError> {
        let directory = dirs.parallax.join("index");
        let path = directory.join("sessions.sqlite");
        let failed = |source| SearchError::Io { path: path.clone(), source };
        create_private_dir(&directory).map_err(failed)?;
        // Lock, so that no process removes an index that another process just created.
        let turn = open_private_file(&directory.join("lock")).map_err(failed)?;
        wait(TIMEOUT, || turn.try_lock()).map_err(failed)?;
        let opened = match connect(&path) {
            Err(error) if is_unusable(&error) => {
                remove(&path).map_err(failed)?;
                connect(&path)
            }
            opened => opened,
        };
        let _ = turn.unlock();
        let connection = opened.map_err(|source| match source {
            ConnectError::Io(source) => SearchError::Io { path: path.clone(), source },
            ConnectError::Database(source) => SearchError::Database { path: path.clone(), source },
            ConnectError::Version => SearchError::Io {
                path: path.clone(),
                source: io::Error::other("it was created by another version"),
            },
        })?;
        Ok(Self { path, connection, in_memory: false, is_encrypted_only: false })
    }

    /// Creates an empty in-memory index: for all sessions if the index on disk is unusable, or for
    /// the encrypted sessions, which are never in the index on disk.
    ///
    /// # Errors
    /// Returns an error if SQLite fails.
    pub fn in_memory(is_encrypted_only: bool) -> Result<Self, SearchError> {
        let created = Connection::open_in_memory().and_then(|connection| {
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.execute_batch(&tables())?;
            Ok(connection)
        });
        let path = PathBuf::from(":memory:");
        match created {
            Ok(connection) => Ok(Self { path, connection, in_memory: true, is_encrypted_only }),
            Err(source) => Err(SearchError::Database { path, source }),
        }
    }

    /// Returns the encrypted sessions that are not in the index: all of them for an index on disk,
    /// otherwise those without an available key. The index must be up to date. Blocking.
    ///
    /// # Errors
    /// Returns an error if the index cannot be read.
    pub fn encrypted_sessions(&self, dirs: &SessionDirs) -> Result<EncryptedSessions, SearchError> {
        let unread = self.unindexed_journals().map_err(|error| self.database_error(error))?;
        let mut found = EncryptedSessions::default();
        for path in unread.iter().filter(|path| is_encrypted(path)) {
            match can_open(path, &dirs.keys) {
                Ok(()) => found.readable += 1,
                Err(error) => {
                    found.unreadable += 1;
                    found.reason = Some(error);
                }
            }
        }
        Ok(found)
    }

    /// Returns the Parallax journals for which the index has no session.
    fn unindexed_journals(&self) -> rusqlite::Result<Vec<PathBuf>> {
        let mut unread =
            self.connection.prepare("SELECT path FROM sessions WHERE id = '' AND origin = ?1")?;
        let paths = unread.query_map([origin_number(SessionOrigin::Parallax)], |row| {
            Ok(path_of(&row.get::<_, Vec<u8>>(0)?))
        })?;
        paths.collect()
    }

    /// Removes a damaged index; a new one is created when it is next opened.
    pub fn delete_index(dirs: &SessionDirs) {
        let directory = dirs.parallax.join("index");
        let Ok(turn) = open_private_file(&directory.join("lock")) else { return };
        if wait(TIMEOUT, || turn.try_lock()).is_ok() {
            // A failure to remove it is reported when it is next opened.
            let _ = remove(&directory.join("sessions.sqlite"));
        }
    }

    fn database_error(&self, source: rusqlite::Error) -> SearchError {
        SearchError::Database { path: self.path.clone(), source }
    }
}

impl SearchError {
    /// Whether the index is damaged, so that a new one may work.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Database { source, .. } if is_damage(source))
    }

    /// Whether another process removed the file or held the lock too long, so that opening the
    /// index again may work.
    pub fn is_transient(&self) -> bool {
        let Self::Database { source, .. } = self else { return false };
        matches!(
            source.sqlite_error_code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::SchemaChanged
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
            )
        )
    }
}

enum ConnectError {
    Io(io::Error),
    Database(rusqlite::Error),
    /// The schema has another version.
    Version,
}

impl From<rusqlite::Error> for ConnectError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

fn is_unusable(trouble: &ConnectError) -> bool {
    match trouble {
        ConnectError::Io(_) => false,
        ConnectError::Version => true,
        ConnectError::Database(error) => is_damage(error),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    // A missing or unexpected table is reported as `Unknown`.
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown))
}

/// Opens a file that only its owner can read, creating it if it does not exist.
fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits for a lock, with a limit because the holder may be suspended.
fn wait(timeout: Duration, take: impl Fn() -> Result<(), TryLockError>) -> io::Result<()> {
    let until = Instant::now() + timeout;
    loop {
        match take() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                let reason = "another process is using it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
}

fn connect(path: &Path) -> Result<Connection, ConnectError> {
    // Create the file ourselves, so that no other user can read it; the files that SQLite creates
    // next to it get the same permissions.
    open_private_file(path).map_err(ConnectError::Io)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(TIMEOUT)?;
    // Entries lost in a crash are added again, but a torn page must not remain.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == VERSION {
        return Ok(connection);
    }
    let table_count: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if table_count > 0 {
        return Err(ConnectError::Version);
    }
    connection.execute_batch(&tables())?;
    Ok(connection)
}

/// Returns the schema of all tables.
fn tables() -> String {
    format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE sessions(
             number INTEGER PRIMARY KEY AUTOINCREMENT,
             path BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
             inode INTEGER NOT NULL,
             origin INTEGER NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL,
             project BLOB NOT NULL);
         {texts}
         PRAGMA user_version = {VERSION};
         COMMIT;",
        texts = create_text_table()
    )
}

/// Returns the schema of the text table. Two-letter prefixes have their own index because many
/// words share them. Indexes of longer prefixes would make building the index four times slower and
/// queries hardly faster.
fn create_text_table() -> String {
    format!(
        "CREATE VIRTUAL TABLE texts USING fts5(body, {TOKENS}, prefix = '2');
         INSERT INTO texts(texts, rank) VALUES('hashsize', {GATHERED});"
    )
}

/// Removes the index and the other SQLite files.
fn remove(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
