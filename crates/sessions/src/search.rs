//! Full-text search over the sessions of all projects.

use std::collections::HashMap;
use std::path::PathBuf;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_store::{
    EncryptedSessions, LoadedSession, SearchError, SearchIndex, SearchQuery, SessionDirs,
    SessionOrigin, TurnText, UpdateProgress, UpdateResult,
};

use crate::SessionLibrary;
use crate::recorded_items::{self, RecordedItem};

pub use parallax_store::SearchHit;
pub use parallax_store::UpdateProgress as IndexStep;

/// Maximum bytes of one tool output that are indexed.
const MAX_PER_OUTPUT: usize = 16 * 1024;
/// Number of attempts to open an unusable index.
const TRIES: usize = 3;
/// Characters that mark the start and end of a match in a snippet.
pub const MARKS: [char; 2] = ['\u{1}', '\u{2}'];

/// A search request.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// Words that must all occur; the last may be a prefix. Quotes mark phrases.
    pub text: String,
    /// Whether to search this project only.
    pub project_only: bool,
    /// Maximum number of sessions to return.
    pub limit: usize,
    /// Whether to rebuild the index first.
    pub rebuild: bool,
}

/// Result of a search.
#[derive(Debug, Default)]
pub struct SearchResult {
    /// The matching sessions, most recently used first.
    pub hits: Vec<SearchHit>,
    /// Which sessions could not be searched and why, if any.
    pub skipped_notice: Option<String>,
}

impl SessionLibrary<'_> {
    /// Searches names, prompts, answers, and arguments and outputs of tool calls. Each matching
    /// session is returned once, most recently used first. The index is updated before. Blocking;
    /// the first search takes as long as reading all sessions. `watch` receives the progress and
    /// can cancel by returning `false`.
    ///
    /// # Errors
    /// Returns an error if the index should be rebuilt but cannot be. If the index is unusable
    /// otherwise, the session files are searched.
    pub fn search_sessions(
        &self,
        search: &SearchRequest,
        watch: &dyn Fn(UpdateProgress) -> bool,
    ) -> Result<SearchResult, Failure> {
        let query = SearchQuery {
            text: search.text.clone(),
            project: search.project_only.then(|| self.directory.to_owned()),
            limit: search.limit,
        };
        let dirs = self.dirs();
        let indexed = self.with_index(search.rebuild, watch, |index, _| {
            Ok((index.search(&query)?, index.encrypted_sessions(&dirs)?))
        });
        let (mut hits, encrypted) = match indexed {
            Ok(found) => found,
            // The files give the same result, only slower.
            Err(error) if !search.rebuild => {
                tracing::warn!(error = error.message, "the search ran without the index");
                in_memory(&dirs, &query, false, watch)?
            }
            Err(error) => return Err(error),
        };
        if encrypted.readable > 0 {
            hits.extend(in_memory(&dirs, &query, true, watch)?.0);
            hits.sort_by_key(|hit| std::cmp::Reverse(hit.last_used));
            hits.truncate(search.limit);
        }
        self.use_listed_ids(&mut hits);
        let skipped_notice = encrypted.reason.map(|reason| match encrypted.unreadable {
            1 => format!("one session was not searched: {reason}"),
            closed => format!("{closed} sessions were not searched, among them: {reason}"),
        });
        Ok(SearchResult { hits, skipped_notice })
    }

    /// Replaces ids of Gemini CLI records by the ids in lists, which are needed to resume them.
    /// They differ if a Parallax session has the same id.
    fn use_listed_ids(&self, hits: &mut [SearchHit]) {
        if !hits.iter().any(|hit| hit.origin == SessionOrigin::GeminiCli) {
            return;
        }
        let listed: HashMap<PathBuf, String> =
            self.all_sessions().into_iter().map(|entry| (entry.path, entry.id)).collect();
        for hit in hits.iter_mut().filter(|hit| hit.origin == SessionOrigin::GeminiCli) {
            if let Some(id) = listed.get(&hit.path) {
                hit.id.clone_from(id);
            }
        }
    }

    /// Updates the search index, after rebuilding it if requested. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or written.
    pub fn index_sessions(&self, rebuild: bool) -> Result<UpdateResult, Failure> {
        self.with_index(rebuild, &|_| true, |_, indexed| Ok(indexed))
    }

    /// Uses the index after updating it. A damaged index, or one that another process removed, is
    /// reopened.
    fn with_index<T>(
        &self,
        rebuild: bool,
        watch: &dyn Fn(UpdateProgress) -> bool,
        work: impl Fn(&SearchIndex, UpdateResult) -> Result<T, SearchError>,
    ) -> Result<T, Failure> {
        let dirs = self.dirs();
        let once = |rebuild| {
            let mut index = SearchIndex::open(&dirs)?;
            if rebuild && let Some(_alone) = index.rebuild()? {
                index.update(&dirs, &searchable_text_by_turn, watch)?;
            }
            let _held = index.lock()?;
            let indexed = index.update(&dirs, &searchable_text_by_turn, watch)?;
            work(&index, indexed)
        };
        let mut done = once(rebuild);
        for _ in 1..TRIES {
            match &done {
                Err(error) if error.is_damage() => {
                    tracing::warn!(%error, "the search index is damaged and is being rebuilt");
                    SearchIndex::delete_index(&dirs);
                    done = once(false);
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "the search index was reopened");
                    done = once(false);
                }
                _ => break,
            }
        }
        done.map_err(|error| Failure::new(FailureKind::Input, error.to_string()))
    }
}

/// Searches the session files, or only the encrypted ones. Also returns which of those could not be
/// decrypted.
fn in_memory(
    dirs: &SessionDirs,
    query: &SearchQuery,
    only_encrypted: bool,
    watch: &dyn Fn(UpdateProgress) -> bool,
) -> Result<(Vec<SearchHit>, EncryptedSessions), Failure> {
    let found = SearchIndex::in_memory(only_encrypted).and_then(|mut index| {
        index.update(dirs, &searchable_text_by_turn, watch)?;
        // Sessions that were decrypted are part of the index.
        let encrypted = EncryptedSessions { readable: 0, ..index.encrypted_sessions(dirs)? };
        Ok((index.search(query)?, encrypted))
    });
    found.map_err(|error| Failure::new(FailureKind::Input, error.to_string()))
}

/// Returns the searchable text of a session by turn.
pub fn searchable_text_by_turn(session: &LoadedSession) -> Vec<TurnText> {
    let mut turns: Vec<TurnText> = Vec::new();
    for item in recorded_items::items(&session.records) {
        if let RecordedItem::User { turn, .. } = &item {
            turns.push(TurnText { turn: *turn, text: String::new() });
        }
        if turns.is_empty() {
            turns.push(TurnText { turn: 0, text: String::new() });
        }
        let Some(TurnText { text, .. }) = turns.last_mut() else { continue };
        match item {
            RecordedItem::User { text: said, .. }
            | RecordedItem::Steer { text: said }
            | RecordedItem::Thought { text: said }
            | RecordedItem::Text { text: said, .. } => add(text, &said),
            RecordedItem::Image(_) | RecordedItem::Ended { .. } => {}
            RecordedItem::Continued(continuation) => add(text, &continuation.text),
            RecordedItem::Shell { command, output, .. } => {
                add(text, &command);
                add(text, crate::listing::truncate(&output, MAX_PER_OUTPUT));
            }
            RecordedItem::Tool { name, args, output, .. } => {
                add(text, &name);
                args.values().for_each(|value| add_values(text, value));
                add(text, crate::listing::truncate(&output, MAX_PER_OUTPUT));
            }
        }
    }
    turns
}

fn add(text: &mut String, more: &str) {
    text.push_str(more);
    text.push('\n');
}

/// Adds the text values of an argument without JSON syntax.
fn add_values(text: &mut String, value: &serde_json::Value) {
    match value {
        serde_json::Value::String(output) => add(text, output),
        serde_json::Value::Array(items) => items.iter().for_each(|item| add_values(text, item)),
        serde_json::Value::Object(object) => {
            object.values().for_each(|item| add_values(text, item));
        }
        serde_json::Value::Number(number) => add(text, &number.to_string()),
        _ => {}
    }
}
