//! Looking something up.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::params;

use super::update::{origin_of, path_of};
use super::{SearchError, SearchHit, SearchIndex, SearchQuery, TURN_BITS, text};

/// Words of a snippet.
const SNIPPET: i64 = 16;

impl SearchIndex {
    /// The sessions that hold what is looked for, the last used one first (as
    /// they were when the index was brought up to date).
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn search(&self, query: &SearchQuery) -> Result<Vec<SearchHit>, SearchError> {
        let Some(expression) = text::expression(&query.text) else { return Ok(Vec::new()) };
        self.hits(&expression, query).map_err(|error| self.wrong(error))
    }

    fn hits(&self, expression: &str, query: &SearchQuery) -> rusqlite::Result<Vec<SearchHit>> {
        let mut session = self.connection.prepare(
            "SELECT id, title, project, path, origin, modified FROM sessions WHERE number = ?1",
        )?;
        let mut snippet = self.connection.prepare(
            "SELECT snippet(texts, 0, char(1), char(2), '…', ?3) FROM texts
             WHERE texts MATCH ?1 AND rowid = ?2",
        )?;
        // Rows come in the order of their numbers without being sorted or read, so
        // that a common word costs hardly more than a rare one.
        let mut rows = self
            .connection
            .prepare("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid DESC")?;
        let mut rows = rows.query(params![expression])?;
        let mut hits = Vec::new();
        let mut seen: HashSet<(PathBuf, String)> = HashSet::new();
        let mut last = None;
        while let Some(row) = rows.next()? {
            if hits.len() >= query.limit {
                break;
            }
            let row: i64 = row.get(0)?;
            let number = row >> TURN_BITS;
            // The newest place in a session is enough.
            if last.replace(number) == Some(number) {
                continue;
            }
            let turn = row & ((1 << TURN_BITS) - 1);
            let mut hit = session.query_row([number], |row| {
                let modified: i64 = row.get(5)?;
                Ok(SearchHit {
                    id: row.get(0)?,
                    title: row.get(1)?,
                    project: path_of(row.get_ref(2)?.as_bytes().unwrap_or_default()),
                    path: path_of(row.get_ref(3)?.as_bytes().unwrap_or_default()),
                    origin: origin_of(row.get(4)?),
                    last_used: Timestamp::from_nanosecond(i128::from(modified)).unwrap_or_default(),
                    turn: turn.unsigned_abs(),
                    snippet: String::new(),
                })
            })?;
            if let Some(project) = &query.project
                && hit.project.as_os_str().as_bytes() != project.as_os_str().as_bytes()
            {
                continue;
            }
            // A session that was adopted has two files: the newest counts.
            if !seen.insert((hit.project.clone(), hit.id.clone())) {
                continue;
            }
            let piece: String =
                snippet.query_row(params![expression, row, SNIPPET], |row| row.get(0))?;
            hit.snippet = text::for_people(&piece);
            hits.push(hit);
        }
        Ok(hits)
    }
}
