//! Updates the index from the session files.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use super::reading::{
    ParsedSession, ScannedFile, SessionScope, TurnText, TurnTextReader, read_all,
};
use super::{SearchError, SearchIndex, TURN_BITS, text};
use crate::lines::is_encrypted;
use crate::paths::SessionDirs;
use crate::session_files::{FileStamp, all_files};
use crate::session_origin::SessionOrigin;

/// Maximum number of sessions written in one transaction.
const BATCH: usize = 512;
/// Approximate number of bytes of text written in one transaction.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of bytes stored for one turn.
const MAX_PER_TURN: usize = 256 * 1024;
/// Maximum number of bytes stored for one session.
const MAX_PER_SESSION: usize = 8 * 1024 * 1024;

/// The result of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateResult {
    /// Number of sessions that were read.
    pub read: usize,
    /// Number of sessions whose file no longer exists.
    pub removed_sessions: usize,
    /// Number of sessions in the index.
    pub all: usize,
}

/// A row of the index.
struct IndexedRow {
    number: i64,
    stamp: FileStamp,
}

/// The progress of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateProgress {
    /// Number of sessions read so far.
    pub read: usize,
    /// Number of sessions to read.
    pub total: usize,
}

impl SearchIndex {
    /// Reads new and changed sessions and removes deleted ones. Each batch is committed
    /// immediately, so an interrupted update continues the next time. `texts` returns the text of a
    /// session. `watch` receives the progress and returns whether to continue.
    ///
    /// # Errors
    /// Returns an error if the index cannot be read or written. Sessions that cannot be read are
    /// skipped.
    pub fn update(
        &mut self,
        dirs: &SessionDirs,
        texts: TurnTextReader<'_>,
        watch: &dyn Fn(UpdateProgress) -> bool,
    ) -> Result<UpdateResult, SearchError> {
        let mut files = all_files(dirs);
        if self.is_encrypted_only {
            files.retain(|file| file.origin == SessionOrigin::Parallax && is_encrypted(&file.path));
        }
        let known = indexed_rows(&self.connection).map_err(|error| self.database_error(error))?;
        let mut changed: Vec<ScannedFile> = Vec::new();
        let mut listed: HashSet<PathBuf> = HashSet::with_capacity(files.len());
        for file in files {
            let Some(stamp) = file.stamp() else { continue };
            listed.insert(file.path.clone());
            if known.get(&file.path).is_none_or(|known| known.stamp != stamp) {
                changed.push(ScannedFile { file, stamp });
            }
        }
        let mut indexed = UpdateResult::default();
        let removed: Vec<i64> = known
            .iter()
            .filter(|(path, _)| !listed.contains(*path))
            .map(|(_, known)| known.number)
            .collect();
        if !removed.is_empty() {
            indexed.removed_sessions = removed.len();
            self.write(|writing| {
                removed.iter().try_for_each(|number| delete_session(writing, *number))
            })?;
        }
        // The most recently used session is written last, so its rows have the highest numbers.
        changed.sort_by_key(|found| found.stamp.modified);
        if watch(UpdateProgress { read: 0, total: changed.len() }) && !changed.is_empty() {
            let opens =
                if self.in_memory { SessionScope::All(&dirs.keys) } else { SessionScope::Plain };
            indexed.read = self.index_sessions(&changed, texts, opens, watch)?;
        }
        let all: rusqlite::Result<i64> =
            self.connection
                .query_row("SELECT count(*) FROM sessions WHERE id != ''", [], |row| row.get(0));
        let all = all.map_err(|error| self.database_error(error))?;
        indexed.all = usize::try_from(all).unwrap_or_default();
        Ok(indexed)
    }

    /// Writes sessions while other threads read the next ones. Returns their number.
    fn index_sessions(
        &mut self,
        files: &[ScannedFile],
        texts: TurnTextReader<'_>,
        opens: SessionScope<'_>,
        watch: &dyn Fn(UpdateProgress) -> bool,
    ) -> Result<usize, SearchError> {
        let stopped = AtomicBool::new(false);
        thread::scope(|scope| {
            let (taker, pieces) = mpsc::sync_channel(1);
            let stopped = &stopped;
            scope.spawn(move || read_all(files, texts, opens, stopped, &taker));
            let (mut done, mut read) = (0, 0);
            let mut batch: Vec<ParsedSession<'_>> = Vec::new();
            let mut written = Ok(());
            for piece in &pieces {
                read += piece.len();
                batch.extend(piece);
                let go_on = watch(UpdateProgress { read, total: files.len() });
                let bytes: usize = batch.iter().map(ParsedSession::bytes).sum();
                if !go_on || batch.len() >= BATCH || bytes >= BATCH_BYTES {
                    done += batch.len();
                    written = self.store_all(&std::mem::take(&mut batch));
                }
                if !go_on || written.is_err() {
                    stopped.store(true, Ordering::Relaxed);
                    break;
                }
            }
            // Disconnect, so that readers do not wait for a receiver.
            drop(pieces);
            written?;
            done += batch.len();
            self.store_all(&batch)?;
            Ok(done)
        })
    }

    fn store_all(&mut self, batch: &[ParsedSession<'_>]) -> Result<(), SearchError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.write(|writing| batch.iter().try_for_each(|read| store_session(writing, read)))
    }

    fn write(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), SearchError> {
        let written = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|writing| work(&writing).and_then(|()| writing.commit()));
        written.map_err(|error| self.database_error(error))
    }
}

fn indexed_rows(connection: &Connection) -> rusqlite::Result<HashMap<PathBuf, IndexedRow>> {
    let mut statement =
        connection.prepare("SELECT path, size, modified, inode, number FROM sessions")?;
    let mut rows = statement.query([])?;
    let mut known = HashMap::new();
    while let Some(row) = rows.next()? {
        let path = path_of(row.get_ref(0)?.as_bytes().unwrap_or_default());
        known.insert(path, IndexedRow { number: row.get(4)?, stamp: stamp_of(row, 1)? });
    }
    Ok(known)
}

/// Reads size, modification time, and inode, starting at a column.
fn stamp_of(row: &Row<'_>, first: usize) -> rusqlite::Result<FileStamp> {
    let (size, inode): (i64, i64) = (row.get(first)?, row.get(first + 2)?);
    let modified = row.get(first + 1)?;
    Ok(FileStamp { size: size.cast_unsigned(), modified, inode: inode.cast_unsigned() })
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn delete_session(writing: &Transaction<'_>, number: i64) -> rusqlite::Result<()> {
    let first = number << TURN_BITS;
    let last = first | ((1 << TURN_BITS) - 1);
    writing
        .prepare("DELETE FROM texts WHERE rowid BETWEEN ?1 AND ?2")?
        .execute(params![first, last])?;
    writing.prepare("DELETE FROM sessions WHERE number = ?1")?.execute([number])?;
    Ok(())
}

fn store_session(writing: &Transaction<'_>, read: &ParsedSession<'_>) -> rusqlite::Result<()> {
    let path = bytes_of(&read.file.file.path);
    // Another process may have updated the row in the meantime.
    let indexed: Option<(i64, FileStamp)> = writing
        .prepare("SELECT number, size, modified, inode FROM sessions WHERE path = ?1")?
        .query_map([path], |row| Ok((row.get(0)?, stamp_of(row, 1)?)))?
        .next()
        .transpose()?;
    let FileStamp { size, modified, inode } = read.file.stamp;
    if let Some((number, stamp)) = indexed {
        if stamp == read.file.stamp {
            return Ok(());
        }
        delete_session(writing, number)?;
    }
    let (id, title, project) = match &read.entry {
        Some(entry) => (entry.id.as_str(), entry.title.as_str(), entry.project.as_path()),
        None => ("", "", Path::new("")),
    };
    writing
        .prepare(
            "INSERT INTO sessions(path, size, modified, inode, origin, id, title, project)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            path,
            size.cast_signed(),
            modified,
            inode.cast_signed(),
            origin_number(read.file.file.origin),
            id,
            title,
            bytes_of(project),
        ])?;
    let number = writing.last_insert_rowid();
    let mut rows = rows_of(title, &read.turns);
    let mut insert = writing.prepare("INSERT INTO texts(rowid, body) VALUES (?1, ?2)")?;
    let mut remaining = MAX_PER_SESSION;
    rows.retain(|(_, text)| !text.trim().is_empty());
    for (turn, body) in rows {
        let limit = remaining.min(MAX_PER_TURN);
        let body = text::for_index(&body, limit);
        remaining = remaining.saturating_sub(body.len());
        insert.execute(params![number << TURN_BITS | turn, body])?;
    }
    Ok(())
}

/// Returns one text for each turn; turns beyond the last number share it. The title is part of the
/// first.
fn rows_of(title: &str, turns: &[TurnText]) -> Vec<(i64, String)> {
    let last = (1_i64 << TURN_BITS) - 1;
    let mut rows: Vec<(i64, String)> = Vec::new();
    for turn in turns {
        let number = i64::try_from(turn.turn).unwrap_or(last).min(last);
        match rows.last_mut() {
            Some((known, text)) if *known == number => {
                text.push('\n');
                text.push_str(&turn.text);
            }
            _ => rows.push((number, turn.text.clone())),
        }
    }
    match rows.first_mut() {
        Some((_, text)) if !text.starts_with(title) => text.insert_str(0, &format!("{title}\n")),
        Some(_) => {}
        None => rows.push((0, title.to_owned())),
    }
    // Turn numbers increase within a Parallax session, but may not in a foreign one.
    rows.sort_by_key(|(number, _)| *number);
    rows.dedup_by_key(|(number, _)| *number);
    rows
}

pub(super) fn origin_number(origin: SessionOrigin) -> i64 {
    match origin {
        SessionOrigin::Parallax => 0,
        SessionOrigin::GeminiCli => 1,
        SessionOrigin::ParallaxCli => 2,
    }
}

pub(super) fn origin_of(number: i64) -> SessionOrigin {
    match number {
        1 => SessionOrigin::GeminiCli,
        2 => SessionOrigin::ParallaxCli,
        _ => SessionOrigin::Parallax,
    }
}
