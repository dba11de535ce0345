//! Queries of the index.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::update::{origin_of, path_of};
use super::{SearchError, SearchHit, SearchIndex, SearchQuery, TOKENS, TURN_BITS, text};

/// Number of words in a snippet.
const SNIPPET: i64 = 16;

impl SearchIndex {
    /// Returns the matching sessions, most recently used first according to the last update of the
    /// index; then those that match only with the last word as a prefix.
    ///
    /// # Errors
    /// Returns an error if the index cannot be read.
    pub fn search(&self, query: &SearchQuery) -> Result<Vec<SearchHit>, SearchError> {
        let mut hits = Vec::new();
        let mut seen = HashSet::new();
        // Whole words first: a prefix that many words share is expensive to look up, and
        // unnecessary if the word itself is common.
        for is_prefix in [false, true] {
            if hits.len() < query.limit
                && let Some(expression) = text::expression(&query.text, is_prefix)
            {
                let added = self.add_hits(&expression, query, &mut seen, &mut hits);
                added.map_err(|error| self.database_error(error))?;
            }
        }
        Ok(hits)
    }

    fn add_hits(
        &self,
        expression: &str,
        query: &SearchQuery,
        seen: &mut HashSet<(PathBuf, String)>,
        hits: &mut Vec<SearchHit>,
    ) -> rusqlite::Result<()> {
        let mut session = self.connection.prepare(
            "SELECT id, title, project, path, origin, modified FROM sessions WHERE number = ?1",
        )?;
        // Rows are returned in row ID order without sorting or reading them, so a common word costs
        // hardly more than a rare one.
        let mut rows = self
            .connection
            .prepare("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid DESC")?;
        let mut rows = rows.query(params![expression])?;
        let mut added: Vec<(i64, SearchHit)> = Vec::new();
        let mut last = None;
        while let Some(row) = rows.next()? {
            if hits.len() + added.len() >= query.limit {
                break;
            }
            let row: i64 = row.get(0)?;
            let number = row >> TURN_BITS;
            // The newest match in a session is enough.
            if last.replace(number) == Some(number) {
                continue;
            }
            let turn = row & ((1 << TURN_BITS) - 1);
            let hit = session.query_row([number], |row| {
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
            // An adopted session has two files: the newest counts.
            if seen.insert((hit.project.clone(), hit.id.clone())) {
                added.push((row, hit));
            }
        }
        let numbers: Vec<i64> = added.iter().map(|(row, _)| *row).collect();
        let mut snippets = self.snippets(expression, &numbers)?;
        hits.extend(added.into_iter().map(|(row, mut hit)| {
            hit.snippet = snippets.remove(&row).unwrap_or_else(|| hit.title.clone());
            hit
        }));
        Ok(())
    }

    /// Returns the snippets of rows. Queries a temporary table with only these rows, because the
    /// full index would repeat the search for each row.
    fn snippets(&self, expression: &str, rows: &[i64]) -> rusqlite::Result<HashMap<i64, String>> {
        let few = Connection::open_in_memory()?;
        few.execute_batch(&format!("CREATE VIRTUAL TABLE few USING fts5(body, {TOKENS});"))?;
        let mut body = self.connection.prepare("SELECT body FROM texts WHERE rowid = ?1")?;
        let mut insert = few.prepare("INSERT INTO few(rowid, body) VALUES (?1, ?2)")?;
        few.execute_batch("BEGIN")?;
        for row in rows {
            let text: String = body.query_row([row], |row| row.get(0))?;
            insert.execute(params![row, text])?;
        }
        few.execute_batch("COMMIT")?;
        let mut statement = few.prepare(
            "SELECT rowid, snippet(few, 0, char(1), char(2), '…', ?2) FROM few WHERE few MATCH ?1",
        )?;
        let found = statement.query_map(params![expression, SNIPPET], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        found.map(|found| found.map(|(row, text)| (row, text::for_display(&text)))).collect()
    }
}
