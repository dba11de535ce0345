//! A full-text index over the sessions of all projects. The journals are the
//! truth: the index is brought up to date by the sizes, times and inodes of the files,
//! and made anew whenever it cannot be used.
//!
//! Several processes may use it at once. Writers take turns (SQLite's lock), and
//! each looks again, once it is its turn, at what the others did. Who wants it made
//! anew while another does just that waits for it.

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
use crate::list::{Origin, short_id};
use crate::load::LoadError;
use crate::paths::{Homes, create_private_dir};
pub use rebuild::Held;
pub use update::{Indexed, Step, TurnText};
use update::{origin_number, path_of};

/// The layout of the tables; another one is thrown away.
const VERSION: i64 = 3;
/// How texts are taken apart.
const TOKENS: &str = "tokenize = \"unicode61 remove_diacritics 2\"";
/// How long one process waits for another to write.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a process that waits looks again.
const LOOK: Duration = Duration::from_millis(20);
/// Pages that SQLite keeps, as negative KiB.
const CACHE: i64 = -32 * 1024;
/// Bytes of words that SQLite gathers before it writes them: the more, the less it
/// has to merge.
const GATHERED: u32 = 32 * 1024 * 1024;
/// Bits of a row's number that tell the turn; the others tell the session.
const TURN_BITS: u32 = 12;

/// An index that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The disk refuses.
    #[error("cannot use the search index `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// SQLite refuses.
    #[error("cannot use the search index `{}`: {source}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// What is looked for. What fits must stand in one turn.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// Words, each of which must be there; the last may be the beginning of one.
    /// Between quotes, words as they stand together.
    pub text: String,
    /// Only sessions of this project.
    pub project: Option<PathBuf>,
    /// The most sessions that are given.
    pub limit: usize,
}

/// A session that holds what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The session's id.
    pub id: String,
    /// Its name or first prompt.
    pub title: String,
    /// Its project; empty where that is not known.
    pub project: PathBuf,
    /// Its file.
    pub path: PathBuf,
    /// Whose file it is.
    pub origin: Origin,
    /// When it was used last.
    pub last_used: Timestamp,
    /// The prompt with which, or after which, the text stands; the newest.
    pub turn: u64,
    /// The text with what stands around it, one line; what was found is between
    /// U+0001 and U+0002.
    pub snippet: String,
}

impl SearchHit {
    /// The beginning of its id that tells it from others, nearly always.
    pub fn short_id(&self) -> String {
        short_id(&self.id, self.origin)
    }
}

/// Encrypted sessions that an index does not hold.
#[derive(Debug, Default)]
pub struct EncryptedSessions {
    /// How many can be opened.
    pub opened: usize,
    /// How many cannot.
    pub closed: usize,
    /// Why one of those cannot.
    pub why: Option<LoadError>,
}

/// The index, open.
#[derive(Debug)]
pub struct SearchIndex {
    path: PathBuf,
    connection: Connection,
    /// Whether it is on no disk and goes with this process.
    in_memory: bool,
    /// Whether it holds encrypted sessions alone.
    only_encrypted: bool,
}

impl SearchIndex {
    /// Opens the index, and makes it where there is none that can be used.
    /// Nothing is read into it yet: see [`SearchIndex::update`].
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn open(homes: &Homes) -> Result<Self, SearchError> {
        let folder = homes.parallax.join("index");
        let path = folder.join("sessions.sqlite");
        let failed = |source| SearchError::Io { path: path.clone(), source };
        create_private_dir(&folder).map_err(failed)?;
        // One at a time: nobody throws away what another has just made.
        let turn = private(&folder.join("lock")).map_err(failed)?;
        wait(PATIENCE, || turn.try_lock()).map_err(failed)?;
        let opened = match connect(&path) {
            Err(error) if is_beyond_use(&error) => {
                remove(&path).map_err(failed)?;
                connect(&path)
            }
            opened => opened,
        };
        let _ = turn.unlock();
        let connection = opened.map_err(|source| match source {
            Trouble::Io(source) => SearchError::Io { path: path.clone(), source },
            Trouble::Database(source) => SearchError::Database { path: path.clone(), source },
            Trouble::Version => SearchError::Io {
                path: path.clone(),
                source: io::Error::other("it has the layout of another version"),
            },
        })?;
        Ok(Self { path, connection, in_memory: false, only_encrypted: false })
    }

    /// An index that is on no disk and holds nothing yet: of all sessions, where the
    /// one on the disk cannot be used, or of the encrypted ones, which are in no
    /// other.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub fn in_memory(only_encrypted: bool) -> Result<Self, SearchError> {
        let made = Connection::open_in_memory().and_then(|connection| {
            connection.pragma_update(None, "temp_store", "MEMORY")?;
            connection.execute_batch(&tables())?;
            Ok(connection)
        });
        let path = PathBuf::from(":memory:");
        match made {
            Ok(connection) => Ok(Self { path, connection, in_memory: true, only_encrypted }),
            Err(source) => Err(SearchError::Database { path, source }),
        }
    }

    /// The encrypted sessions that are not in it: on a disk all of them, else those that
    /// no key opens. Of an index that is up to date, which knows each file. Blocking.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn encrypted(&self, homes: &Homes) -> Result<EncryptedSessions, SearchError> {
        let unread = self.unread().map_err(|error| self.wrong(error))?;
        let mut found = EncryptedSessions::default();
        for path in unread.iter().filter(|path| is_encrypted(path)) {
            match can_open(path, &homes.keys) {
                Ok(()) => found.opened += 1,
                Err(error) => {
                    found.closed += 1;
                    found.why = Some(error);
                }
            }
        }
        Ok(found)
    }

    /// The journals of ours in which nothing was found.
    fn unread(&self) -> rusqlite::Result<Vec<PathBuf>> {
        let mut unread =
            self.connection.prepare("SELECT path FROM sessions WHERE id = '' AND origin = ?1")?;
        let paths = unread.query_map([origin_number(Origin::Parallax)], |row| {
            Ok(path_of(&row.get::<_, Vec<u8>>(0)?))
        })?;
        paths.collect()
    }

    /// Takes a damaged index away: the next that is opened is a new one.
    pub fn throw_away(homes: &Homes) {
        let folder = homes.parallax.join("index");
        let Ok(turn) = private(&folder.join("lock")) else { return };
        if wait(PATIENCE, || turn.try_lock()).is_ok() {
            // What cannot be removed is told when it is opened.
            let _ = remove(&folder.join("sessions.sqlite"));
        }
    }

    fn wrong(&self, source: rusqlite::Error) -> SearchError {
        SearchError::Database { path: self.path.clone(), source }
    }
}

impl SearchError {
    /// Whether the index is damaged: a new one may do.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Database { source, .. } if is_damage(source))
    }

    /// Whether another process took the file away, or held it for too long: opened
    /// again it may do.
    pub fn is_passing(&self) -> bool {
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

enum Trouble {
    Io(io::Error),
    Database(rusqlite::Error),
    /// Its tables are another version's.
    Version,
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

fn is_beyond_use(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Io(_) => false,
        Trouble::Version => true,
        Trouble::Database(error) => is_damage(error),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    // A table that is missing or not as expected is `Unknown`.
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown))
}

/// A file that only its owner can read, made where it is missing.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits for a lock, but not for ever: who holds it may be stopped.
fn wait(most: Duration, take: impl Fn() -> Result<(), TryLockError>) -> io::Result<()> {
    let until = Instant::now() + most;
    loop {
        match take() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                let why = "another process is at work on it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
}

fn connect(path: &Path) -> Result<Connection, Trouble> {
    // Made by us, so that nobody else can read it; the files that SQLite puts
    // beside it get the same rights.
    private(path).map_err(Trouble::Io)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // What a crash loses is made again; a torn page it must not leave.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == VERSION {
        return Ok(connection);
    }
    let there: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if there > 0 {
        return Err(Trouble::Version);
    }
    connection.execute_batch(&tables())?;
    Ok(connection)
}

/// Makes all tables.
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
        texts = table_of_texts()
    )
}

/// Makes the table of texts. Beginnings of two letters have a list of their own, since
/// very many words have them; lists of longer ones would make the index four times as
/// slow to build and hardly faster to ask.
fn table_of_texts() -> String {
    format!(
        "CREATE VIRTUAL TABLE texts USING fts5(body, {TOKENS}, prefix = '2');
         INSERT INTO texts(texts, rank) VALUES('hashsize', {GATHERED});"
    )
}

/// Removes the index and what SQLite keeps beside it.
fn remove(path: &Path) -> io::Result<()> {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
