//! Opens the session that was requested: its contents, and the journal for its records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use parallax_protocol::content::SealedContent;
use parallax_protocol::context::ResultLocation;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::{
    CompactionRecord, JournalHeader, NameRecord, Record, RewindTarget, Store as _,
    UnfinishedAnswer, pins,
};
use parallax_store::{
    FindError, Journal, LoadError, LoadedSession, OpenError, SessionEntry, SessionOrigin,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{SessionChoice, SessionLibrary};

/// The state with which a session begins.
pub struct ResumedState {
    pub id: SessionId,
    pub journal: Journal,
    pub contents: Vec<SealedContent>,
    /// Summaries that replace the first contents in requests.
    pub compactions: Vec<CompactionRecord>,
    /// Results that the user pinned.
    pub pins: BTreeSet<ResultLocation>,
    /// All records of its journal, for display.
    pub records: Arc<[Record]>,
    pub pending: BTreeMap<usize, Box<RawValue>>,
    /// Number of the last prompt before this process.
    pub turns: u64,
    /// Whether the last turn was cut off and can be resumed.
    pub was_interrupted: bool,
    /// The answer that was being received when the turn was cut off.
    pub unfinished_answer: Option<UnfinishedAnswer>,
    /// The prompts in the contents.
    pub prompts: Vec<RewindTarget>,
    pub notices: Vec<String>,
}

fn input_failure(message: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Input, message.to_string())
}

/// Opens the session that [`SessionChoice`] selects.
///
/// # Errors
/// Returns an error if an id is taken or invalid, or a session or file is not found.
pub fn open(library: &SessionLibrary<'_>, choice: &SessionChoice) -> Result<ResumedState, Failure> {
    match choice {
        SessionChoice::New | SessionChoice::Clear => {
            let mut fresh = new_session(library, new_id(), Vec::new());
            // The client knows the id and may load the session in another process.
            if library.is_exact && !library.ephemeral {
                fresh.notices.extend(fresh.journal.write_head().err().map(|error| error.message));
            }
            Ok(fresh)
        }
        SessionChoice::WithId(id) => with_id(library, id),
        SessionChoice::Resume(selector) => resume(library, selector),
        SessionChoice::Import(path) => {
            let loaded = parallax_store::import(path, &library.dirs().keys)
                .and_then(|it| repair_if_damaged(it, path));
            let loaded = loaded.map_err(input_failure)?;
            Ok(fork(library, new_id(), loaded, path.display().to_string()))
        }
        SessionChoice::Fork { from, keep_contents } => {
            let entry = find_session(library, from)?;
            if library.is_exact && entry.id != *from {
                return Err(input_failure(format_args!("unknown session `{from}`")));
            }
            let mut loaded = load_session(library, &entry)?;
            if let Some(keep) = keep_contents {
                loaded.truncate(*keep);
            }
            Ok(fork(library, new_id(), loaded, entry.id))
        }
        SessionChoice::ForkBefore { from, prompt } => {
            let entry = find_session(library, from)?;
            let mut loaded = load_session(library, &entry)?;
            loaded.truncate(contents_before(&loaded, *prompt)?);
            Ok(fork(library, new_id(), loaded, entry.id))
        }
        SessionChoice::Rewind { id, keep_contents } => rewind(library, id, *keep_contents),
    }
}

fn new_id() -> SessionId {
    SessionId::new(Uuid::new_v4().to_string())
}

fn project<'a>(library: &SessionLibrary<'a>) -> &'a Path {
    library.directory
}

fn journal(library: &SessionLibrary<'_>, id: &SessionId, forked_from: Option<String>) -> Journal {
    let head = JournalHeader {
        version: 1,
        session_id: id.clone(),
        project: project(library).display().to_string(),
        start_time: parallax_store::timestamp(),
        forked_from,
        one_shot: !library.interactive,
    };
    let dirs = library.dirs();
    Journal::create(dirs.journal(project(library), id), head).with_keys(&dirs.keys)
}

fn new_session(library: &SessionLibrary<'_>, id: SessionId, notices: Vec<String>) -> ResumedState {
    ResumedState {
        journal: journal(library, &id, None),
        id,
        contents: Vec::new(),
        compactions: Vec::new(),
        pins: BTreeSet::new(),
        records: Arc::default(),
        pending: BTreeMap::new(),
        turns: 0,
        prompts: Vec::new(),
        was_interrupted: false,
        unfinished_answer: None,
        notices,
    }
}

fn with_id(library: &SessionLibrary<'_>, id: &str) -> Result<ResumedState, Failure> {
    if !SessionId::is_valid(id) {
        return Err(input_failure(format!(
            "invalid session id `{}`: use at most 128 letters, digits, `-`, and `_`",
            id.escape_debug()
        )));
    }
    let session = SessionId::from(id);
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    if id == "latest" || is_number {
        return Err(input_failure(format!(
            "invalid session id `{id}`: `--resume {id}` would select another session"
        )));
    }
    let is_taken = || {
        input_failure(format!(
            "the session id `{id}` is already used in this project; resume it with `--resume \
             {id}`, or choose another id"
        ))
    };
    // Reserving the id later detects an existing empty file.
    if parallax_store::has_id(&library.dirs(), project(library), &session) {
        return Err(is_taken());
    }
    let mut resumed = new_session(library, session, Vec::new());
    if library.ephemeral {
        return Ok(resumed);
    }
    match resumed.journal.reserve() {
        Ok(()) => {}
        // Another process created it at the same moment.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Err(is_taken()),
        Err(error) => resumed.notices.push(format!("this session is not saved: {error}")),
    }
    Ok(resumed)
}

fn resume(library: &SessionLibrary<'_>, selector: &str) -> Result<ResumedState, Failure> {
    let is_exact = library.is_exact;
    let entry = match parallax_store::find(&library.dirs(), project(library), selector) {
        Ok(entry) => entry,
        Err(FindError::NoSessions { .. }) if selector == "latest" => {
            let notice = "no earlier session in this project; starting a new one".to_owned();
            return Ok(new_session(library, new_id(), vec![notice]));
        }
        Err(error @ (FindError::NoSessions { .. } | FindError::NotFound { .. })) => {
            if let Some(resumed) = open_without_prompt(library, selector) {
                return Ok(resumed);
            }
            let failure = unreadable_reason(library, selector)
                .or_else(|| other_project_error(library, selector));
            return Err(failure.unwrap_or_else(|| input_failure(error)));
        }
        Err(error) => return Err(input_failure(error)),
    };
    if is_exact && (entry.id != selector || entry.origin != SessionOrigin::Parallax) {
        return Err(input_failure(format_args!("unknown session `{selector}`")));
    }
    if entry.origin != SessionOrigin::Parallax {
        return adopt(library, &entry);
    }
    match Journal::open_append(&entry.path, &library.dirs().keys) {
        Ok((_, loaded)) if is_exact && is_damaged(&loaded) => Err(input_failure(format_args!(
            "session `{selector}` is damaged: run `parallax --resume {selector}` to resume a repaired \
             copy"
        ))),
        Err(error @ OpenError::InUse { .. }) if is_exact => Err(input_failure(error)),
        Ok((_, loaded)) if is_damaged(&loaded) => resume_copy(library, &entry, loaded),
        Ok((journal, loaded)) => {
            if loaded.head.one_shot && library.interactive {
                // A name makes the session appear in lists.
                let (time, text) = (parallax_store::timestamp(), entry.title.clone());
                let name = Record::Name(NameRecord { time, text });
                journal.append(&name).map_err(input_failure)?;
            }
            let mut resumed = resumed_state(loaded.head.session_id.clone(), journal, loaded);
            resumed.notices.extend(entry.foreign_continuation.map(|elsewhere| {
                format!(
                    "Gemini CLI also continued this session; its messages are not included: \
                     `--resume {elsewhere}` resumes a copy with them"
                )
            }));
            Ok(resumed)
        }
        Err(OpenError::InUse { .. }) => {
            let loaded = load_session(library, &entry)?;
            let id = new_id();
            let notice = format!(
                "the session `{}` is in use by another process: continuing in a copy, `{id}`",
                entry.id
            );
            let mut resumed = fork(library, id, loaded, entry.id);
            resumed.notices.push(notice);
            Ok(resumed)
        }
        Err(OpenError::Io { path, source }) if is_not_writable(&source) => {
            let loaded = load_session(library, &entry)?;
            let journal = Journal::without_file(&path, loaded.head.clone());
            let mut resumed = resumed_state(loaded.head.session_id.clone(), journal, loaded);
            resumed.notices.insert(
                0,
                format!(
                    "saving this session stopped: failed to write `{}`: {source}",
                    path.display()
                ),
            );
            Ok(resumed)
        }
        Err(error) => Err(input_failure(error)),
    }
}

/// Opens a session of this project that has no prompt yet, if its id is given exactly. It is in no
/// list.
fn open_without_prompt(library: &SessionLibrary<'_>, id: &str) -> Option<ResumedState> {
    if !library.is_exact || !SessionId::is_valid(id) {
        return None;
    }
    let path = library.dirs().journal(project(library), &SessionId::from(id));
    let (journal, loaded) = Journal::open_append(&path, &library.dirs().keys).ok()?;
    Some(resumed_state(loaded.head.session_id.clone(), journal, loaded))
}

/// Returns whether the error means that a file may be readable but not writable.
fn is_not_writable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Returns whether the file is damaged so that nothing can be appended.
fn is_damaged(loaded: &LoadedSession) -> bool {
    loaded.broken || !parallax_store::is_valid(&loaded.contents)
}

/// Resumes a session with a damaged file in a copy. The file stays unchanged for inspection.
fn resume_copy(
    library: &SessionLibrary<'_>,
    entry: &SessionEntry,
    loaded: LoadedSession,
) -> Result<ResumedState, Failure> {
    let (id, from) = (new_id(), entry.id.clone());
    let notice = format!("session `{from}` is damaged: this run resumes a repaired copy, `{id}`");
    let repaired = repair_if_damaged(loaded, &entry.path).map_err(input_failure)?;
    let mut resumed = fork(library, id, repaired, from);
    resumed.notices.push(notice);
    Ok(resumed)
}

/// Returns an error that names the other project if the session belongs to one.
fn other_project_error(library: &SessionLibrary<'_>, selector: &str) -> Option<Failure> {
    let entry = library.any_session(selector).ok()?;
    let (id, project) = (&entry.id, entry.project.display());
    Some(input_failure(match entry.project.is_dir() {
        true => format!(
            "Session `{id}` belongs to another project, `{project}`. Run `parallax --resume {id}` \
             there, or move it to this one with `parallax sessions move {id}`"
        ),
        false => format!(
            "Session `{id}` belongs to `{project}`, which no longer exists. Move it to this \
             project with `parallax sessions move {id}`"
        ),
    }))
}

/// Returns why a Parallax CLI session file with exactly this name is not listed.
fn unreadable_reason(library: &SessionLibrary<'_>, selector: &str) -> Option<Failure> {
    let file = library.dirs().parallax.join(format!("{selector}.json"));
    if !SessionId::is_valid(selector) || !file.is_file() {
        return None;
    }
    parallax_store::import(&file, &library.dirs().keys).err().map(input_failure)
}

/// Resumes another program's session in a new Parallax journal. It keeps its id, so that it can be
/// found under it again. If a Parallax journal already has the id, the other program has continued
/// separately, and the result is a fork with a new id.
fn adopt(library: &SessionLibrary<'_>, entry: &SessionEntry) -> Result<ResumedState, Failure> {
    let loaded =
        parallax_store::import(&entry.path, &library.dirs().keys).map_err(input_failure)?;
    if !entry.is_foreign_continuation() {
        let known = SessionId::is_valid(&entry.id);
        let id = if known { SessionId::from(entry.id.as_str()) } else { new_id() };
        return Ok(fork(library, id, loaded, entry.path.display().to_string()));
    }
    let id = new_id();
    let notice = format!(
        "a Parallax session was created from an earlier state of this session: this run continues \
         a new copy, `{id}`"
    );
    let mut resumed = fork(library, id, loaded, entry.id.clone());
    resumed.notices.push(notice);
    Ok(resumed)
}

/// Finds a session of the project by number, id, or id prefix.
pub fn find_session(library: &SessionLibrary<'_>, selector: &str) -> Result<SessionEntry, Failure> {
    parallax_store::find(&library.dirs(), project(library), selector).map_err(input_failure)
}

/// Loads the file of a session.
pub fn load_session(
    library: &SessionLibrary<'_>,
    entry: &SessionEntry,
) -> Result<LoadedSession, Failure> {
    let keys = library.dirs().keys;
    let path = &entry.path;
    match entry.origin {
        SessionOrigin::Parallax => {
            parallax_store::load(path, &keys).and_then(|it| repair_if_damaged(it, path))
        }
        SessionOrigin::GeminiCli | SessionOrigin::ParallaxCli => {
            parallax_store::import(path, &keys)
        }
    }
    .map_err(input_failure)
}

/// Repairs the session if its file is damaged.
fn repair_if_damaged(loaded: LoadedSession, path: &Path) -> Result<LoadedSession, LoadError> {
    match parallax_store::is_valid(&loaded.contents) {
        true => Ok(loaded),
        false => parallax_store::repair_session(loaded, path),
    }
}

/// Removes everything after the first `keep_contents` contents of a Parallax session.
fn rewind(
    library: &SessionLibrary<'_>,
    id: &str,
    keep_contents: usize,
) -> Result<ResumedState, Failure> {
    let entry = find_session(library, id)?;
    if entry.origin != SessionOrigin::Parallax {
        return Err(input_failure(format!(
            "the session `{id}` belongs to another program: resume it, then rewind"
        )));
    }
    let (journal, mut loaded) =
        Journal::open_append(&entry.path, &library.dirs().keys).map_err(input_failure)?;
    if is_damaged(&loaded) {
        loaded.truncate(keep_contents);
        return resume_copy(library, &entry, loaded);
    }
    if keep_contents < loaded.contents.len() {
        journal.append(&Record::Truncate { keep_contents }).map_err(input_failure)?;
        loaded.truncate(keep_contents);
    }
    Ok(resumed_state(loaded.head.session_id.clone(), journal, loaded))
}

/// Creates a session from loaded contents. If the requested id is taken, it gets another one, so
/// that the session can be saved in any case.
fn fork(
    library: &SessionLibrary<'_>,
    requested_id: SessionId,
    loaded: LoadedSession,
    from: String,
) -> ResumedState {
    let mut id = requested_id;
    let mut journal = journal(library, &id, Some(from.clone()));
    let mut renamed = None;
    if journal.reserve().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists) {
        let other = new_id();
        renamed = Some(format!("the session id `{id}` is taken: using `{other}` instead"));
        id = other;
        journal = self::journal(library, &id, Some(from));
    }
    let unsaved = journal.append_all(&loaded).err();
    let mut resumed = resumed_state(id, journal, loaded);
    resumed.notices.extend(renamed);
    if let Some(error) = unsaved {
        resumed.notices.insert(0, format!("this session is not saved: {error}"));
    }
    resumed
}

/// Returns the initial state of a loaded session.
fn resumed_state(id: SessionId, journal: Journal, loaded: LoadedSession) -> ResumedState {
    let results = loaded.pending.map(|pending| pending.results).unwrap_or_default();
    let records: Arc<[Record]> = loaded.records.into();
    let head = JournalHeader { session_id: id.clone(), ..loaded.head };
    journal.set_initial_contents(head, Arc::clone(&records));
    ResumedState {
        id,
        journal,
        turns: loaded.turns,
        prompts: loaded.prompts,
        was_interrupted: loaded.was_interrupted,
        unfinished_answer: loaded.unfinished_answer,
        pending: results.into_iter().map(|(index, result)| (index, result.wire)).collect(),
        contents: loaded.contents,
        compactions: loaded.compactions,
        pins: pins(&*records),
        records,
        notices: loaded.notices,
    }
}

/// Returns the number of contents before a prompt.
pub(crate) fn contents_before(session: &LoadedSession, number: u64) -> Result<usize, Failure> {
    RewindTarget::find_by_number(&session.prompts, number)
        .map(|mark| mark.at)
        .map_err(input_failure)
}
