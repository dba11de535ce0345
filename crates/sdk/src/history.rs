//! Which contents a session begins with, and where its records go.

use std::collections::BTreeMap;
use std::path::Path;

use parallax_protocol::content::{Role, Sealed};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::{Record, SessionHead};
use parallax_store::{FindError, Journal, LoadedSession, OpenError, Origin, SessionEntry};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::launch::{Launch, SessionChoice, failure};

/// What a session begins with.
pub(crate) struct Resumed {
    pub(crate) id: SessionId,
    pub(crate) journal: Journal,
    pub(crate) contents: Vec<Sealed>,
    pub(crate) pending: BTreeMap<usize, Box<RawValue>>,
    /// Model requests that an earlier process made.
    pub(crate) requests_made: u32,
    /// Prompts that the session had before this process.
    pub(crate) turns: u64,
    pub(crate) notices: Vec<String>,
}

fn input(message: impl std::fmt::Display) -> Failure {
    failure(FailureKind::Input, message.to_string())
}

/// Opens what [`SessionChoice`] names.
///
/// # Errors
/// An id that is taken or no id, a session or file that is not there.
pub(crate) fn open(launch: &Launch) -> Result<Resumed, Failure> {
    match &launch.options.session {
        SessionChoice::New => Ok(fresh(launch, new_id(), Vec::new())),
        SessionChoice::WithId(id) => with_id(launch, id),
        SessionChoice::Resume(selector) => resume(launch, selector),
        SessionChoice::Import(path) => {
            let loaded = parallax_store::import(path).map_err(input)?;
            Ok(fork(launch, new_id(), &loaded, path.display().to_string()))
        }
    }
}

fn new_id() -> SessionId {
    SessionId::new(Uuid::new_v4().to_string())
}

fn project(launch: &Launch) -> &Path {
    &launch.options.directory
}

fn journal(launch: &Launch, id: &SessionId, forked_from: Option<String>) -> Journal {
    let head = SessionHead {
        version: 1,
        session_id: id.clone(),
        project: project(launch).display().to_string(),
        start_time: parallax_store::timestamp(),
        forked_from,
    };
    Journal::create(launch.homes().journal(project(launch), id), head)
}

fn fresh(launch: &Launch, id: SessionId, notices: Vec<String>) -> Resumed {
    Resumed {
        journal: journal(launch, &id, None),
        id,
        contents: Vec::new(),
        pending: BTreeMap::new(),
        requests_made: 0,
        turns: 0,
        notices,
    }
}

fn with_id(launch: &Launch, id: &str) -> Result<Resumed, Failure> {
    if !SessionId::is_valid(id) {
        return Err(input(format!(
            "`{}` cannot be a session id: use letters, digits, `-` and `_`, at most 128",
            id.escape_debug()
        )));
    }
    let session = SessionId::from(id);
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    if id == "latest" || is_number {
        return Err(input(format!(
            "`{id}` cannot be a session id: `--resume {id}` would mean another session"
        )));
    }
    let taken = launch.homes().journal(project(launch), &session).exists()
        || parallax_store::list(&launch.homes(), project(launch))
            .iter()
            .any(|entry| entry.id == id);
    if taken {
        return Err(input(format!(
            "the session id `{id}` is already used in this project; continue that session with \
             `--resume {id}`, or choose another id"
        )));
    }
    Ok(fresh(launch, session, Vec::new()))
}

fn resume(launch: &Launch, selector: &str) -> Result<Resumed, Failure> {
    let entry = match parallax_store::find(&launch.homes(), project(launch), selector) {
        Ok(entry) => entry,
        Err(FindError::NoSessions { .. }) if selector == "latest" => {
            let notice = "there is no earlier session in this project: a new one begins".to_owned();
            return Ok(fresh(launch, new_id(), vec![notice]));
        }
        Err(error) => return Err(unreadable(launch, selector).unwrap_or_else(|| input(error))),
    };
    if entry.origin != Origin::Parallax {
        return adopt(launch, &entry);
    }
    match Journal::open_append(&entry.path) {
        Ok((journal, loaded)) => {
            let mut resumed = Resumed {
                id: loaded.head.session_id.clone(),
                journal,
                contents: Vec::new(),
                pending: BTreeMap::new(),
                requests_made: 0,
                turns: 0,
                notices: Vec::new(),
            };
            take(&mut resumed, &loaded);
            Ok(resumed)
        }
        Err(OpenError::InUse { .. }) => {
            let loaded = parallax_store::load(&entry.path).map_err(input)?;
            let id = new_id();
            let notice = format!(
                "the session `{}` is in use by another process: this run continues a copy of it, `{id}`",
                entry.id
            );
            let mut resumed = fork(launch, id, &loaded, entry.id);
            resumed.notices.push(notice);
            Ok(resumed)
        }
        Err(error) => Err(input(error)),
    }
}

/// Why a session file of Parallax CLI with this very name is not in the list.
fn unreadable(launch: &Launch, selector: &str) -> Option<Failure> {
    let file = launch.homes().parallax.join(format!("{selector}.json"));
    if !SessionId::is_valid(selector) || !file.is_file() {
        return None;
    }
    parallax_store::import(&file).err().map(input)
}

/// Continues another program's session in a journal of ours. It keeps its id,
/// so that it is found again under it.
fn adopt(launch: &Launch, entry: &SessionEntry) -> Result<Resumed, Failure> {
    let loaded = parallax_store::import(&entry.path).map_err(input)?;
    let known = SessionId::is_valid(&entry.id);
    let id = if known { SessionId::from(entry.id.as_str()) } else { new_id() };
    Ok(fork(launch, id, &loaded, entry.path.display().to_string()))
}

fn fork(launch: &Launch, id: SessionId, loaded: &LoadedSession, from: String) -> Resumed {
    let journal = journal(launch, &id, Some(from));
    let mut resumed = Resumed {
        id,
        journal,
        contents: Vec::new(),
        pending: BTreeMap::new(),
        requests_made: 0,
        turns: 0,
        notices: Vec::new(),
    };
    if let Err(error) = resumed.journal.append_all(loaded) {
        resumed.notices.push(format!("this session is not saved: {error}"));
    }
    take(&mut resumed, loaded);
    resumed
}

fn take(resumed: &mut Resumed, loaded: &LoadedSession) {
    resumed.contents = loaded.contents.clone();
    let answers = loaded.contents.iter().filter(|content| content.role() == Role::Model).count();
    resumed.requests_made = u32::try_from(answers).unwrap_or(u32::MAX);
    let is_prompt =
        |record: &&Record| matches!(record, Record::Content(content) if content.display.is_some());
    resumed.turns = loaded.records.iter().filter(is_prompt).count() as u64;
    resumed.notices.extend(loaded.notices.iter().cloned());
    if let Some(pending) = &loaded.pending {
        resumed.pending =
            pending.results.iter().map(|(index, result)| (*index, result.wire.clone())).collect();
    }
}

impl Launch {
    /// The sessions of this project, oldest first.
    pub fn sessions(&self) -> Vec<SessionEntry> {
        parallax_store::list(&self.homes(), project(self))
    }

    /// Deletes a session of this project and what belongs to it.
    ///
    /// # Errors
    /// When there is no such session, or it is not ours or in use.
    pub fn delete_session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        let homes = self.homes();
        let entry = parallax_store::find(&homes, project(self), selector).map_err(input)?;
        let artifacts =
            homes.artifacts(project(self), &SessionId::from(entry.id.as_str())).root().to_owned();
        parallax_store::delete(&homes, project(self), &entry, &[artifacts]).map_err(input)?;
        Ok(entry)
    }
}
