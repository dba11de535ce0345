//! Bringing the index up to date with the files.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{SearchError, SearchIndex, TURN_BITS, text};
use crate::list::{Origin, SessionEntry, read_entry};
use crate::load::LoadedSession;
use crate::paths::Homes;
use crate::session_files::{SessionFile, of_all};

/// Sessions that are written in one go.
const BATCH: usize = 64;
/// Bytes of one turn that are kept.
const MOST_OF_TURN: usize = 256 * 1024;
/// Bytes of one session that are kept.
const MOST_OF_SESSION: usize = 8 * 1024 * 1024;

/// What was said in one turn, as it is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnText {
    /// The number of its prompt, from 1; 0: before the first.
    pub turn: u64,
    /// The prompt, answers, calls and outputs.
    pub text: String,
}

/// What an update did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Sessions that were read.
    pub read: usize,
    /// Sessions whose file is gone.
    pub gone: usize,
    /// Sessions in the index.
    pub all: usize,
}

/// A row of the index.
struct Known {
    number: i64,
    size: u64,
    modified: i64,
}

/// A session as it goes into the index; one without an entry holds no
/// conversation, and is not looked at again until it changes.
struct Read {
    file: SessionFile,
    size: u64,
    modified: i64,
    entry: Option<SessionEntry>,
    turns: Vec<TurnText>,
}

impl SearchIndex {
    /// Reads what is new or has changed and forgets what is gone. Each batch is
    /// written at once: what is cut off goes on the next time. `texts` tells
    /// what was said in a session; `stop` ends the work early.
    ///
    /// # Errors
    /// When the index cannot be read or written. Sessions that cannot be read
    /// are passed over.
    pub fn update(
        &mut self,
        homes: &Homes,
        texts: &dyn Fn(&LoadedSession) -> Vec<TurnText>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Indexed, SearchError> {
        let files = of_all(homes);
        let known = known(&self.connection).map_err(|error| self.wrong(error))?;
        let mut changed: Vec<(SessionFile, u64, i64)> = Vec::new();
        let mut there: HashSet<PathBuf> = HashSet::with_capacity(files.len());
        for file in files {
            let Some((size, modified)) = file.stamp() else { continue };
            there.insert(file.path.clone());
            let is_new = known
                .get(&file.path)
                .is_none_or(|known| (known.size, known.modified) != (size, modified));
            if is_new {
                changed.push((file, size, modified));
            }
        }
        let mut indexed = Indexed::default();
        let gone: Vec<i64> = known
            .iter()
            .filter(|(path, _)| !there.contains(*path))
            .map(|(_, known)| known.number)
            .collect();
        if !gone.is_empty() {
            indexed.gone = gone.len();
            self.write(|writing| gone.iter().try_for_each(|number| forget(writing, *number)))?;
        }
        // The last used one is written last: its rows have the highest numbers.
        changed.sort_by_key(|(_, _, modified)| *modified);
        let mut changed = changed.into_iter().peekable();
        while changed.peek().is_some() && !stop() {
            let batch: Vec<Read> = changed
                .by_ref()
                .take(BATCH)
                .take_while(|_| !stop())
                .map(|(file, size, modified)| read(file, size, modified, texts))
                .collect();
            indexed.read += batch.len();
            self.write(|writing| batch.iter().try_for_each(|read| put(writing, read)))?;
        }
        let all: rusqlite::Result<i64> =
            self.connection
                .query_row("SELECT count(*) FROM sessions WHERE id != ''", [], |row| row.get(0));
        let all = all.map_err(|error| self.wrong(error))?;
        indexed.all = usize::try_from(all).unwrap_or_default();
        Ok(indexed)
    }

    fn write(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), SearchError> {
        let written = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|writing| work(&writing).and_then(|()| writing.commit()));
        written.map_err(|error| self.wrong(error))
    }
}

fn known(connection: &Connection) -> rusqlite::Result<HashMap<PathBuf, Known>> {
    let mut asked = connection.prepare("SELECT path, number, size, modified FROM sessions")?;
    let mut rows = asked.query([])?;
    let mut known = HashMap::new();
    while let Some(row) = rows.next()? {
        let path = path_of(row.get_ref(0)?.as_bytes().unwrap_or_default());
        let size: i64 = row.get(2)?;
        let row = Known { number: row.get(1)?, size: size.cast_unsigned(), modified: row.get(3)? };
        known.insert(path, row);
    }
    Ok(known)
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn read(
    file: SessionFile,
    size: u64,
    modified: i64,
    texts: &dyn Fn(&LoadedSession) -> Vec<TurnText>,
) -> Read {
    let entry = read_entry(&file);
    let session = entry.as_ref().and_then(|_| {
        match file.origin {
            Origin::Parallax => crate::load::load(&file.path),
            Origin::GeminiCli | Origin::ParallaxCli => crate::import::import(&file.path),
        }
        .ok()
    });
    let turns = session.map(|session| texts(&session)).unwrap_or_default();
    Read { file, size, modified, entry, turns }
}

fn forget(writing: &Transaction<'_>, number: i64) -> rusqlite::Result<()> {
    let first = number << TURN_BITS;
    let last = first | ((1 << TURN_BITS) - 1);
    writing
        .prepare("DELETE FROM texts WHERE rowid BETWEEN ?1 AND ?2")?
        .execute(params![first, last])?;
    writing.prepare("DELETE FROM sessions WHERE number = ?1")?.execute([number])?;
    Ok(())
}

fn put(writing: &Transaction<'_>, read: &Read) -> rusqlite::Result<()> {
    let path = bytes_of(&read.file.path);
    // Another process may have been here since we looked.
    let there: Option<(i64, i64, i64)> = writing
        .prepare("SELECT number, size, modified FROM sessions WHERE path = ?1")?
        .query_map([path], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .next()
        .transpose()?;
    if let Some((number, size, modified)) = there {
        if (size.cast_unsigned(), modified) == (read.size, read.modified) {
            return Ok(());
        }
        forget(writing, number)?;
    }
    let (id, title, project) = match &read.entry {
        Some(entry) => (entry.id.as_str(), entry.title.as_str(), entry.project.as_path()),
        None => ("", "", Path::new("")),
    };
    writing
        .prepare(
            "INSERT INTO sessions(path, size, modified, origin, id, title, project)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            path,
            read.size.cast_signed(),
            read.modified,
            origin_number(read.file.origin),
            id,
            title,
            bytes_of(project),
        ])?;
    let number = writing.last_insert_rowid();
    let mut rows = rows_of(title, &read.turns);
    let mut insert = writing.prepare("INSERT INTO texts(rowid, body) VALUES (?1, ?2)")?;
    let mut left = MOST_OF_SESSION;
    rows.retain(|(_, text)| !text.trim().is_empty());
    for (turn, body) in rows {
        let most = left.min(MOST_OF_TURN);
        let body = text::for_index(&body, most);
        left = left.saturating_sub(body.len());
        insert.execute(params![number << TURN_BITS | turn, body])?;
    }
    Ok(())
}

/// One text for each turn; those beyond the last number share it. The name
/// stands with the first.
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
    // Numbers only grow within a session of ours; a foreign one may be odd.
    rows.sort_by_key(|(number, _)| *number);
    rows.dedup_by_key(|(number, _)| *number);
    rows
}

fn origin_number(origin: Origin) -> i64 {
    match origin {
        Origin::Parallax => 0,
        Origin::GeminiCli => 1,
        Origin::ParallaxCli => 2,
    }
}

pub(super) fn origin_of(number: i64) -> Origin {
    match number {
        1 => Origin::GeminiCli,
        2 => Origin::ParallaxCli,
        _ => Origin::Parallax,
    }
}
