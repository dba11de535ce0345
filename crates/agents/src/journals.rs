//! The journals of running subagents, in the session's artifact directory. A journal is removed
//! when its run ends, so a remaining one belongs to an interrupted run.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parallax_protocol::agent::{AgentJournal, InterruptedRun};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::JournalHeader;
use parallax_store::{Journal, Keys};

/// Maximum number of journals per session. The oldest are removed.
const MAX_COUNT: usize = 8;
/// Maximum number of ids to try for a new journal.
const NUMBERS: usize = 1_000;

/// The directory of the journals of a session's subagents.
pub struct SubagentJournals {
    directory: PathBuf,
    project: String,
    /// Encryption keys of the journals.
    keys: Keys,
}

impl SubagentJournals {
    /// Uses this directory, which need not exist yet.
    pub fn new(directory: PathBuf, project: String, keys: Keys) -> Self {
        Self { directory, project, keys }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.jsonl"))
    }

    /// Returns the ids of all journals, oldest first.
    fn ids(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut found: Vec<(SystemTime, String)> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok()?;
                Some((changed, name.strip_suffix(".jsonl")?.to_owned()))
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the interrupted runs.
    pub(super) fn interrupted_runs(&self) -> Vec<InterruptedRun> {
        let resumable = |id: String| {
            let loaded = parallax_store::load(&self.path(&id), &self.keys).ok()?;
            let agent = id.rsplit_once('-')?.0.to_owned();
            let task = loaded.prompts.first()?.text.clone();
            Some(InterruptedRun { id, agent, task })
        };
        self.ids().into_iter().filter(|id| self.is_unused(id)).filter_map(resumable).collect()
    }

    /// Creates a journal for the agent.
    pub(super) fn begin(&self, agent: &str) -> Option<AgentJournal> {
        self.delete_oldest();
        let fresh = |number: usize| {
            let id = format!("{agent}-{number}");
            let head = JournalHeader {
                version: 1,
                session_id: SessionId::new(id.clone()),
                project: self.project.clone(),
                start_time: parallax_store::timestamp(),
                forked_from: None,
                one_shot: false,
            };
            let journal = Journal::create(self.path(&id), head).with_keys(&self.keys);
            Some((id, journal.reserve().map(|()| journal)))
        };
        let is_taken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AlreadyExists;
        let (id, journal) = (1..=NUMBERS)
            .filter_map(fresh)
            .find(|(_, journal)| !journal.as_ref().is_err_and(is_taken))?;
        let journal = journal
            .inspect_err(|error| tracing::warn!(%error, "failed to save the work of a subagent"))
            .ok()?;
        Some(AgentJournal {
            id,
            store: Arc::new(journal),
            task: None,
            contents: Vec::new(),
            compactions: Vec::new(),
            pending: std::collections::BTreeMap::new(),
        })
    }

    /// Opens the journal of an interrupted run. Returns `None` if it does not exist, is in use, or
    /// is invalid.
    pub(super) fn open(&self, agent: &str, id: &str) -> Option<AgentJournal> {
        // Only ids with a generated form, so that the model cannot provide a path.
        let number = id.strip_prefix(agent)?.strip_prefix('-')?;
        number.parse::<usize>().ok()?;
        let (journal, loaded) = Journal::open_append(self.path(id), &self.keys)
            .inspect_err(|error| tracing::warn!(%error, "the work of a subagent was not found"))
            .ok()?;
        if !parallax_store::is_valid(&loaded.contents) {
            return None;
        }
        let results = loaded.pending.map(|round| round.results).unwrap_or_default();
        Some(AgentJournal {
            id: id.to_owned(),
            store: Arc::new(journal),
            task: loaded.prompts.first().map(|prompt| prompt.text.clone()),
            contents: loaded.contents,
            compactions: loaded.compactions,
            pending: results.into_iter().map(|(index, result)| (index, result.wire)).collect(),
        })
    }

    /// Removes the journal of a finished run.
    pub(super) fn delete(&self, id: &str) {
        if let Err(error) = std::fs::remove_file(self.path(id))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, id, "failed to delete the journal of a subagent");
        }
    }

    /// Removes the oldest journals until there is space for a new one.
    fn delete_oldest(&self) {
        let ids = self.ids();
        let too_many = (ids.len() + 1).saturating_sub(MAX_COUNT);
        for id in ids.iter().filter(|id| self.is_unused(id)).take(too_many) {
            self.delete(id);
        }
    }

    /// Returns whether no process uses the journal.
    fn is_unused(&self, id: &str) -> bool {
        File::open(self.path(id)).is_ok_and(|file| file.try_lock().is_ok())
    }
}
