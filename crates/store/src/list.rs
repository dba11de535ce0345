//! Lists the sessions of a project, including sessions of other tools that can be continued. Reads
//! only heads and first prompts.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parallax_protocol::content::{PartView, Role};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::{ContentRecord, JournalHeader, Record};
use serde::Deserialize;
use serde_json::Value;

use crate::cipher::{self, Cipher};
use crate::import;
use crate::keys::Keys;
use crate::lines::{JournalReader, cipher_for_journal};
use crate::load::{is_unknown_kind, read_record};
use crate::paths::SessionDirs;
use crate::session_files::{self, SessionFile, gemini_folders, read_start};
use crate::session_origin::SessionOrigin;
use crate::title::sanitize_title;

/// Number of bytes read from the start of a file for its title.
const HEAD: u64 = 1024 * 1024;
/// Number of bytes read from the end, for a summary that was written later.
const TAIL: u64 = 16 * 1024;
/// Number of bytes read after the first prompt, for a name.
const NAME_BYTES: u64 = 32 * 1024;
/// Number of bytes read from the end, for a name.
const NAME_TAIL: u64 = 4 * 1024;
/// Number of characters of an ID shown in a list.
const SHORT_ID: usize = 8;

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEntry {
    /// The position by start time, from 1; 0 if it was not determined.
    pub index: usize,
    /// The session ID.
    pub id: String,
    /// The summary or first prompt: one line, at most 100 characters.
    pub title: String,
    /// When the session began.
    pub start: Timestamp,
    /// When the file was last written.
    pub last_used: Timestamp,
    /// The file.
    pub path: PathBuf,
    /// The program that wrote the file.
    pub origin: SessionOrigin,
    /// The project directory; empty if unknown.
    pub project: PathBuf,
    /// The session that this one is a copy of.
    pub forked_from: Option<String>,
    /// Whether a headless run started the session and it was never continued in a terminal.
    pub one_shot: bool,
    /// The ID of the entry of another program that continued the same session, separate from
    /// Parallax.
    pub foreign_continuation: Option<String>,
}

impl SessionEntry {
    /// Whether a process has the session open, maybe this one. Blocking.
    pub fn is_in_use(&self) -> bool {
        crate::journal::is_in_use(&self.path)
    }
}

impl SessionEntry {
    /// Whether this entry is a continuation by another program of a session that Parallax has, too.
    /// Its ID names the entry, not a journal.
    pub fn is_foreign_continuation(&self) -> bool {
        self.origin == SessionOrigin::GeminiCli && self.id.starts_with(GEMINI_ID_PREFIX)
    }

    /// Returns a prefix of the ID that is almost always unique.
    pub fn short_id(&self) -> String {
        short_id(&self.id, self.origin)
    }

    /// Returns how long ago the session was last used, for display (`5 minutes ago`).
    pub fn age(&self) -> String {
        age(self.last_used)
    }
}

/// Returns a prefix of the ID that is almost always unique.
pub fn short_id(id: &str, origin: SessionOrigin) -> String {
    let is_marked = origin == SessionOrigin::GeminiCli && id.starts_with(GEMINI_ID_PREFIX);
    let marked = if is_marked { GEMINI_ID_PREFIX.len() } else { 0 };
    id.chars().take(SHORT_ID + marked).collect()
}

/// Returns how long ago a time was, for display.
pub(crate) fn age(time: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(time).as_secs().max(0);
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

/// Returns all sessions of a project, oldest first. Skips files that cannot be read or contain no
/// conversation.
pub fn list(dirs: &SessionDirs, project: &Path) -> Vec<SessionEntry> {
    newest_of_each(session_files::project_files(dirs, project), &dirs.keys)
}

/// Returns the Parallax session with this full ID, without reading other sessions of the project.
pub(crate) fn find_by_id(dirs: &SessionDirs, project: &Path, id: &str) -> Option<SessionEntry> {
    let files = session_files::session_files(dirs, project, id)?;
    let entries = newest_of_each(files, &dirs.keys).into_iter();
    let mut ours =
        entries.filter(|entry| entry.origin == SessionOrigin::Parallax && entry.id == id);
    ours.next().map(|entry| SessionEntry { index: 0, ..entry })
}

/// Returns the most recently used Parallax session of a project without reading all of them:
/// journals are ordered by modification time. Returns `None` if a session of another program may be
/// more recent.
pub(crate) fn newest_own(dirs: &SessionDirs, project: &Path) -> Option<SessionEntry> {
    let files = session_files::project_files(dirs, project);
    let (mut ours, theirs): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.origin == SessionOrigin::Parallax);
    ours.sort_by_cached_key(|file| std::cmp::Reverse(modified_time(&file.path)));
    let newest = ours.iter().find_map(|file| read_entry(file, &dirs.keys))?;
    let mut theirs = theirs.iter().filter_map(|file| read_entry(file, &dirs.keys));
    if theirs.any(|entry| entry.last_used >= newest.last_used) {
        return None;
    }
    find_by_id(dirs, project, &newest.id)
}

/// Whether a session of any program in a project has this ID. An empty journal does not count,
/// because a process may be about to start that session.
pub fn has_id(dirs: &SessionDirs, project: &Path, id: &SessionId) -> bool {
    let journal = dirs.journal(project, id);
    if fs::symlink_metadata(journal).is_ok_and(|metadata| metadata.len() > 0) {
        return true;
    }
    let mut files = session_files::project_files(dirs, project);
    files.retain(|file| file.origin != SessionOrigin::Parallax);
    newest_of_each(files, &dirs.keys).iter().any(|entry| entry.id == id.as_str())
}

/// Returns the sessions of all projects, oldest first, numbered across the whole list. As in the
/// list of one project, if two files of the same program and project have the same ID, only the
/// most recently used one is returned.
pub fn list_all(dirs: &SessionDirs) -> Vec<SessionEntry> {
    newest_of_each(session_files::all_files(dirs), &dirs.keys)
}

/// ID prefix in lists for a Gemini CLI record that a journal with the same ID does not fully
/// contain.
const GEMINI_ID_PREFIX: &str = "gemini-";

fn newest_of_each(files: Vec<SessionFile>, keys: &Keys) -> Vec<SessionEntry> {
    type EntriesById = HashMap<(PathBuf, String), SessionEntry>;
    let (mut found, mut theirs) = (EntriesById::new(), EntriesById::new());
    for entry in files.iter().filter_map(|file| read_entry(file, keys)) {
        let list = if entry.origin == SessionOrigin::GeminiCli { &mut theirs } else { &mut found };
        let key = (entry.project.clone(), entry.id.clone());
        match list.get(&key) {
            Some(known) if known.last_used >= entry.last_used => {}
            _ => drop(list.insert(key, entry)),
        }
    }
    for (key, mut entry) in theirs {
        if let Some(ours) = found.get_mut(&key) {
            // The journal began with everything that the other record contained.
            if entry.last_used <= ours.start {
                continue;
            }
            entry.id.insert_str(0, GEMINI_ID_PREFIX);
            ours.foreign_continuation = Some(entry.id.clone());
        }
        found.insert((key.0, entry.id.clone()), entry);
    }
    // A session of Parallax CLI that was continued in a project is listed only once.
    let known: HashSet<String> = found
        .keys()
        .filter(|(project, _)| !project.as_os_str().is_empty())
        .map(|(_, id)| id.clone())
        .collect();
    found.retain(|(project, id), _| !(project.as_os_str().is_empty() && known.contains(id)));
    let mut entries: Vec<SessionEntry> = found.into_values().collect();
    entries.sort_by(|one, two| (one.start, &one.id).cmp(&(two.start, &two.id)));
    for (entry, index) in entries.iter_mut().zip(1..) {
        entry.index = index;
    }
    entries
}

/// Returns the list entry of a file, or `None` if it contains no conversation.
pub(crate) fn read_entry(file: &SessionFile, keys: &Keys) -> Option<SessionEntry> {
    let project = file.project.clone().unwrap_or_default();
    match file.origin {
        SessionOrigin::Parallax => read_ours(&file.path, keys),
        SessionOrigin::GeminiCli => read_gemini(&file.path, project),
        SessionOrigin::ParallaxCli => read_parallax_cli(&file.path),
    }
}

/// Returns the directories of the user's private notes on a project, oldest program first. They may
/// not exist. Blocking.
pub fn memory_directories(dirs: &SessionDirs, project: &Path) -> Vec<PathBuf> {
    let theirs =
        gemini_folders(dirs, project).into_iter().map(|directory| directory.join("memory"));
    theirs.chain([dirs.notes(project)]).collect()
}

pub(crate) fn modified_time(path: &Path) -> Option<Timestamp> {
    fs::metadata(path).ok()?.modified().ok()?.try_into().ok()
}

fn entry(path: &Path, origin: SessionOrigin, about: EntryInfo<'_>) -> Option<SessionEntry> {
    let last_used = modified_time(path)?;
    Some(SessionEntry {
        index: 0,
        id: about.id,
        title: sanitize_title(about.title),
        start: about.start.parse().unwrap_or(last_used),
        last_used,
        path: path.to_owned(),
        origin,
        project: about.project,
        forked_from: about.forked_from,
        one_shot: about.one_shot,
        foreign_continuation: None,
    })
}

/// Information about a session from its file.
struct EntryInfo<'a> {
    id: String,
    /// Start time in RFC 3339 format; empty if unknown.
    start: &'a str,
    title: &'a str,
    project: PathBuf,
    forked_from: Option<String>,
    one_shot: bool,
}

impl<'a> EntryInfo<'a> {
    /// Returns the information in the head of a journal. `is_named`: whether the journal contains a
    /// name.
    fn from_head(head: &'a JournalHeader, title: &'a str, is_named: bool) -> Self {
        Self {
            id: head.session_id.0.clone(),
            start: &head.start_time,
            title,
            project: PathBuf::from(&head.project),
            forked_from: head.forked_from.clone(),
            one_shot: head.one_shot && !is_named,
        }
    }
}

fn read_ours(path: &Path, keys: &Keys) -> Option<SessionEntry> {
    let mut reader = BufReader::new(File::open(path).ok()?).take(HEAD);
    if cipher::is_encrypted(reader.fill_buf().ok()?) {
        return read_encrypted(path, keys);
    }
    let (mut head, mut more, mut damaged) = (None, false, false);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).ok().map(str::trim);
        match text.and_then(read_record) {
            Some(Record::Session(found)) => head = head.or(Some(found)),
            Some(Record::Content(content)) => {
                more = true;
                if let Some(title) = prompt_of(&content) {
                    let head = head.unwrap_or_else(|| crate::load::head_of_file(path));
                    let name = read_session_name(&mut reader, path, None);
                    let is_named = name.is_some();
                    let title = name.unwrap_or(title);
                    return entry(
                        path,
                        SessionOrigin::Parallax,
                        EntryInfo::from_head(&head, &title, is_named),
                    );
                }
            }
            Some(_) => {}
            // A line without a line ending was torn by a crash or truncated by the read limit.
            None => {
                damaged |= line.ends_with(b"\n")
                    && (head.is_some() || line.starts_with(b"{"))
                    && !line.trim_ascii().is_empty()
                    && !text.is_some_and(is_unknown_kind);
            }
        }
    }
    let name = read_session_name(&mut reader, path, None);
    if damaged {
        return damaged_entry(path, head, name.as_deref());
    }
    // The first prompt may be longer than the part that is read.
    let head = head.filter(|_| more || reader.limit() == 0)?;
    let title = name.as_deref().unwrap_or("(no prompt)");
    entry(path, SessionOrigin::Parallax, EntryInfo::from_head(&head, title, name.is_some()))
}

/// Returns the entry of a session whose first prompt can no longer be read. The session is not
/// empty, so it is listed for resuming or inspection.
fn damaged_entry(
    path: &Path,
    head: Option<JournalHeader>,
    name: Option<&str>,
) -> Option<SessionEntry> {
    let head = head.unwrap_or_else(|| crate::load::head_of_file(path));
    let title = match name {
        Some(name) => format!("(damaged) {name}"),
        None => "(damaged: its first prompt cannot be read)".to_owned(),
    };
    entry(path, SessionOrigin::Parallax, EntryInfo::from_head(&head, &title, true))
}

/// Title of a session whose key is not available.
const NOT_OPENED: &str = "(encrypted; its key cannot be read)";

fn read_encrypted(path: &Path, keys: &Keys) -> Option<SessionEntry> {
    let mut file = File::open(path).ok()?;
    let mut first = Vec::new();
    BufReader::new(&mut file).take(NAME_BYTES).read_until(b'\n', &mut first).ok()?;
    let Ok(cipher) = cipher_for_journal(&first, path, keys) else {
        let stem = crate::load::head_of_file(path);
        return entry(path, SessionOrigin::Parallax, EntryInfo::from_head(&stem, NOT_OPENED, true));
    };
    file.seek(SeekFrom::Start(0)).ok()?;
    let mut lines = JournalReader::new(file.take(HEAD), path, keys);
    let (mut head, mut title, mut more) = (None, None, false);
    let mut damaged = false;
    while let Some(line) = lines.next().ok()? {
        damaged |= line.is_foreign;
        match std::str::from_utf8(line.text).ok().and_then(read_record) {
            Some(Record::Session(found)) => head = head.or(Some(found)),
            Some(Record::Content(content)) => {
                more = true;
                title = prompt_of(&content);
            }
            _ => {}
        }
        if title.is_some() || damaged {
            break;
        }
    }
    let is_long = file_length(path)? > HEAD;
    // Names are shortly after the prompt or near the end; each line can be decrypted by itself.
    let name = read_session_name(&mut std::io::empty(), path, Some(&cipher));
    // If the first prompt is intact, later damage is reported when the session is opened.
    let is_cut = || !more && !is_long && lines.end_damage().is_some();
    if damaged || is_cut() {
        return damaged_entry(path, head, name.as_deref());
    }
    let head = head.filter(|_| more || is_long)?;
    let mut near = || {
        let mut names = None;
        let mut bytes = 0;
        while let Some(line) = lines.next().ok()?.filter(|_| bytes < NAME_BYTES) {
            bytes += line.bytes;
            if let Some(Record::Name(name)) =
                std::str::from_utf8(line.text).ok().and_then(read_record)
            {
                names = Some(name.text);
            }
        }
        names
    };
    let name = name.or_else(&mut near);
    let title = name.as_deref().or(title.as_deref()).unwrap_or("(no prompt)");
    entry(path, SessionOrigin::Parallax, EntryInfo::from_head(&head, title, name.is_some()))
}

fn file_length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.len())
}

/// Returns the name of a session, which is shortly after its first prompt or near its end. `reader`
/// is positioned after the prompt.
fn read_session_name(
    reader: &mut impl BufRead,
    path: &Path,
    cipher: Option<&Cipher>,
) -> Option<String> {
    let mut near = Vec::new();
    reader.take(NAME_BYTES).read_to_end(&mut near).ok()?;
    let mut tail = Vec::new();
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(NAME_TAIL))).ok()?;
    file.take(NAME_TAIL).read_to_end(&mut tail).ok()?;
    let newest = |bytes: &[u8]| {
        let mut names = bytes.split(|byte| *byte == b'\n').rev();
        names.find_map(|line| {
            let opened = match cipher {
                Some(cipher) => Some(cipher.decrypt_line(line)?.1),
                None => None,
            };
            let line = opened.as_deref().unwrap_or(line);
            let line = line.strip_prefix(b"{\"name\":").map(|_| line)?;
            match read_record(std::str::from_utf8(line).ok()?)? {
                Record::Name(name) if !name.text.trim().is_empty() => Some(name.text),
                _ => None,
            }
        })
    };
    newest(&tail).or_else(|| newest(&near))
}

/// Returns the prompt that the user typed, if the content is a prompt.
fn prompt_of(record: &ContentRecord) -> Option<String> {
    if record.synthetic || record.wire.role() != Role::User {
        return None;
    }
    if let Some(display) = record.display.as_ref().filter(|text| !text.trim().is_empty()) {
        return Some(display.clone());
    }
    let content = record.wire.open().ok()?;
    content.parts.iter().find_map(|part| match part.view() {
        PartView::Text(text) if !text.trim().is_empty() && !import::is_context(text) => {
            Some(text.to_owned())
        }
        _ => None,
    })
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct GeminiRecordHeader {
    session_id: Option<String>,
    project_hash: Option<String>,
    start_time: Option<String>,
    last_updated: Option<String>,
    kind: Option<String>,
    summary: Option<String>,
    messages: Vec<GeminiMessage>,
    #[serde(rename = "$set")]
    set: Option<Box<GeminiRecordHeader>>,
    #[serde(rename = "type")]
    message_kind: Option<String>,
    content: Value,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GeminiMessage {
    #[serde(rename = "type")]
    kind: Option<String>,
    content: Value,
}

/// Information about a Gemini CLI record, collected so far.
#[derive(Default)]
struct GeminiRecordInfo {
    id: Option<String>,
    start: Option<String>,
    subagent: bool,
    summary: Option<String>,
    /// The latest update time found.
    updated: Option<Timestamp>,
    prompt: Option<String>,
    answered: bool,
}

impl GeminiRecordInfo {
    fn merge(&mut self, head: GeminiRecordHeader) {
        if head.session_id.is_some() && head.project_hash.is_some() {
            self.id = head.session_id;
            self.start = self.start.take().or(head.start_time);
        }
        self.subagent |= head.kind.as_deref() == Some("subagent");
        self.summary = head.summary.or(self.summary.take());
        let updated = head.last_updated.and_then(|time| time.parse().ok());
        self.updated = self.updated.max(updated);
        for message in &head.messages {
            self.add_message(message.kind.as_deref(), &message.content);
        }
        self.add_message(head.message_kind.as_deref(), &head.content);
        if let Some(set) = head.set {
            self.merge(*set);
        }
    }

    fn add_message(&mut self, kind: Option<&str>, content: &Value) {
        match kind {
            Some("gemini") => self.answered = true,
            Some("user") if self.prompt.is_none() => {
                let text = value_text(content);
                let real = !text.trim().is_empty()
                    && !import::is_command(&text)
                    && !import::is_context(&text);
                self.prompt = real.then_some(text);
            }
            _ => {}
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().find(|item| item.get("text").is_some()).map(value_text).unwrap_or_default()
        }
        Value::Object(part) => {
            part.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

fn read_gemini(path: &Path, project: PathBuf) -> Option<SessionEntry> {
    let mut facts = GeminiRecordInfo::default();
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    if path.extension().is_some_and(|extension| extension == "json") {
        let text = read_start(path, 64 * HEAD)?;
        facts.merge(serde_json::from_str(&text).ok()?);
    } else {
        let mut reader = BufReader::new(&mut file).take(HEAD);
        let mut line = Vec::new();
        while facts.prompt.is_none() || facts.id.is_none() {
            line.clear();
            if reader.read_until(b'\n', &mut line).ok()? == 0 {
                break;
            }
            facts.merge(serde_json::from_slice(&line).unwrap_or_default());
        }
        // A summary is written after the conversation, with a later start time.
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
        let mut tail = Vec::new();
        file.take(TAIL).read_to_end(&mut tail).ok()?;
        for line in tail.split(|byte| *byte == b'\n').skip(usize::from(length > TAIL)) {
            if let Ok(GeminiRecordHeader { set: Some(set), .. }) = serde_json::from_slice(line) {
                facts.summary = set.summary.or(facts.summary);
                let updated = set.last_updated.and_then(|time| time.parse().ok());
                facts.updated = facts.updated.max(updated);
            }
        }
    }
    if facts.subagent || (facts.prompt.is_none() && !facts.answered) {
        return None;
    }
    let title = facts.summary.filter(|text| !text.trim().is_empty()).or(facts.prompt);
    let title = title.unwrap_or_else(|| "(no prompt)".to_owned());
    let start = facts.start.as_deref().unwrap_or_default();
    let about = EntryInfo {
        id: facts.id?,
        start,
        title: &title,
        project,
        forked_from: None,
        one_shot: false,
    };
    // A copied or restored file is newer than its session.
    let mut entry = entry(path, SessionOrigin::GeminiCli, about)?;
    entry.last_used = facts.updated.unwrap_or(entry.last_used);
    Some(entry)
}

fn read_parallax_cli(path: &Path) -> Option<SessionEntry> {
    // These files are small and few, and the importer knows their formats.
    let session = import::import(path, &Keys::default()).ok()?;
    let id = path.file_stem()?.to_string_lossy().into_owned();
    let prompt = session.records.iter().find_map(|record| match record {
        Record::Content(content) => prompt_of(content),
        _ => None,
    });
    let title = prompt.as_deref().unwrap_or("(no prompt)");
    let start = session.head.start_time.as_str();
    let about =
        EntryInfo { id, start, title, project: PathBuf::new(), forked_from: None, one_shot: false };
    entry(path, SessionOrigin::ParallaxCli, about)
}
