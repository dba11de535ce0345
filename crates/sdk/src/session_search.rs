//! Full-text search over the sessions of all projects.

use std::collections::HashMap;
use std::path::PathBuf;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_store::{
    EncryptedSessions, Homes, Indexed, LoadedSession, Origin, SearchError, SearchIndex,
    SearchQuery, Step, TurnText,
};

use crate::launch::{Launch, failure};
use crate::past::{self, PastItem};

pub use parallax_store::SearchHit;
pub use parallax_store::Step as IndexStep;

/// Bytes of one output that can be found.
const MOST_OF_OUTPUT: usize = 16 * 1024;
/// How often an index that cannot be used is tried.
const TRIES: usize = 3;
/// Where what was found begins and ends in a snippet.
pub const MARKS: [char; 2] = ['\u{1}', '\u{2}'];

/// What is looked for, and where.
#[derive(Debug, Clone)]
pub struct Search {
    /// Words, each of which must be there; the last may be the beginning of one.
    /// Between quotes, words as they stand together.
    pub text: String,
    /// Only in this project.
    pub here: bool,
    /// The most sessions that are given.
    pub limit: usize,
    /// Whether the index is made anew first.
    pub rebuild: bool,
}

/// What a search gave.
#[derive(Debug, Default)]
pub struct Found {
    /// The sessions that hold the text, the last used first.
    pub hits: Vec<SearchHit>,
    /// Which sessions could not be looked into, and why, for people.
    pub left_out: Option<String>,
}

impl Launch {
    /// Looks for a text in what was said in sessions: names, prompts, answers,
    /// arguments and outputs of calls. The last used session comes first; each
    /// comes once. The index is brought up to date before. Blocking; the first
    /// time as long as it takes to read all sessions, of which `watch` is told,
    /// unless it says no.
    ///
    /// # Errors
    /// When the index is to be made anew and cannot be. Where it cannot be used the
    /// files themselves are read.
    pub fn search_sessions(
        &self,
        search: &Search,
        watch: &dyn Fn(Step) -> bool,
    ) -> Result<Found, Failure> {
        let query = SearchQuery {
            text: search.text.clone(),
            project: search.here.then(|| self.options.directory.clone()),
            limit: search.limit,
        };
        let homes = self.homes();
        let indexed = self.with_index(search.rebuild, watch, |index, _| {
            Ok((index.search(&query)?, index.encrypted(&homes)?))
        });
        let (mut hits, encrypted) = match indexed {
            Ok(found) => found,
            // The files themselves tell it as well, only not as fast.
            Err(error) if !search.rebuild => {
                tracing::warn!(error = error.message, "searched without the index");
                in_memory(&homes, &query, false, watch)?
            }
            Err(error) => return Err(error),
        };
        if encrypted.opened > 0 {
            hits.extend(in_memory(&homes, &query, true, watch)?.0);
            hits.sort_by_key(|hit| std::cmp::Reverse(hit.last_used));
            hits.truncate(search.limit);
        }
        self.name_as_listed(&mut hits);
        let left_out = encrypted.why.map(|why| match encrypted.closed {
            1 => format!("one session was not searched: {why}"),
            closed => format!("{closed} sessions were not searched, among them: {why}"),
        });
        Ok(Found { hits, left_out })
    }

    /// Gives records of Gemini CLI the ids that lists show, by which they are
    /// resumed: another than they have in themselves where a session of ours has
    /// that.
    fn name_as_listed(&self, hits: &mut [SearchHit]) {
        if !hits.iter().any(|hit| hit.origin == Origin::GeminiCli) {
            return;
        }
        let listed: HashMap<PathBuf, String> =
            self.all_sessions().into_iter().map(|entry| (entry.path, entry.id)).collect();
        for hit in hits.iter_mut().filter(|hit| hit.origin == Origin::GeminiCli) {
            if let Some(id) = listed.get(&hit.path) {
                hit.id.clone_from(id);
            }
        }
    }

    /// Brings the search index up to date, and makes it anew before if that is
    /// wanted. Blocking.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn index_sessions(&self, rebuild: bool) -> Result<Indexed, Failure> {
        self.with_index(rebuild, &|_| true, |_, indexed| Ok(indexed))
    }

    /// Uses the index once it is up to date. One that is damaged, or that another
    /// process took away meanwhile, is opened again.
    fn with_index<T>(
        &self,
        rebuild: bool,
        watch: &dyn Fn(Step) -> bool,
        work: impl Fn(&SearchIndex, Indexed) -> Result<T, SearchError>,
    ) -> Result<T, Failure> {
        let homes = self.homes();
        let once = |rebuild| {
            let mut index = SearchIndex::open(&homes)?;
            if rebuild && let Some(_alone) = index.rebuild()? {
                index.update(&homes, &texts, watch)?;
            }
            let _held = index.hold()?;
            let indexed = index.update(&homes, &texts, watch)?;
            work(&index, indexed)
        };
        let mut done = once(rebuild);
        for _ in 1..TRIES {
            match &done {
                Err(error) if error.is_damage() => {
                    tracing::warn!(%error, "the search index is damaged and is made anew");
                    SearchIndex::throw_away(&homes);
                    done = once(false);
                }
                Err(error) if error.is_passing() => {
                    tracing::warn!(%error, "the search index is opened again");
                    done = once(false);
                }
                _ => break,
            }
        }
        done.map_err(|error| failure(FailureKind::Input, error.to_string()))
    }
}

/// Looks for a text in the session files themselves, or in the encrypted ones alone;
/// with it comes which of these stayed closed.
fn in_memory(
    homes: &Homes,
    query: &SearchQuery,
    only_encrypted: bool,
    watch: &dyn Fn(Step) -> bool,
) -> Result<(Vec<SearchHit>, EncryptedSessions), Failure> {
    let found = SearchIndex::in_memory(only_encrypted).and_then(|mut index| {
        index.update(homes, &texts, watch)?;
        // Those that open are in it.
        let encrypted = EncryptedSessions { opened: 0, ..index.encrypted(homes)? };
        Ok((index.search(query)?, encrypted))
    });
    found.map_err(|error| failure(FailureKind::Input, error.to_string()))
}

/// What was said in a session, turn by turn.
pub fn texts(session: &LoadedSession) -> Vec<TurnText> {
    let mut turns: Vec<TurnText> = Vec::new();
    for item in past::items(&session.records) {
        if let PastItem::User { turn, .. } = &item {
            turns.push(TurnText { turn: *turn, text: String::new() });
        }
        if turns.is_empty() {
            turns.push(TurnText { turn: 0, text: String::new() });
        }
        let Some(TurnText { text, .. }) = turns.last_mut() else { continue };
        match item {
            PastItem::User { text: said, .. }
            | PastItem::Steer { text: said }
            | PastItem::Thought { text: said }
            | PastItem::Text { text: said, .. } => add(text, &said),
            PastItem::Image(_) | PastItem::Ended { .. } => {}
            PastItem::Shell { command, output, .. } => {
                add(text, &command);
                add(text, crate::sessions::cut(&output, MOST_OF_OUTPUT));
            }
            PastItem::Tool { name, args, output, .. } => {
                add(text, &name);
                args.values().for_each(|value| add_values(text, value));
                add(text, crate::sessions::cut(&output, MOST_OF_OUTPUT));
            }
        }
    }
    turns
}

fn add(text: &mut String, more: &str) {
    text.push_str(more);
    text.push('\n');
}

/// The words of an argument, not its JSON.
fn add_values(text: &mut String, value: &serde_json::Value) {
    match value {
        serde_json::Value::String(said) => add(text, said),
        serde_json::Value::Array(items) => items.iter().for_each(|item| add_values(text, item)),
        serde_json::Value::Object(object) => {
            object.values().for_each(|item| add_values(text, item));
        }
        serde_json::Value::Number(number) => add(text, &number.to_string()),
        _ => {}
    }
}
