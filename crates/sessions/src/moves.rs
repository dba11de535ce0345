//! Operations on stored sessions of all projects: finding, showing, exporting, copying, importing,
//! and moving.

use std::path::{Path, PathBuf};

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::paths::join_lexically;
use parallax_protocol::store::{JournalHeader, Store as _};
use parallax_store::{FindError, Journal, LoadedSession, SessionEntry, SessionOrigin};
use uuid::Uuid;

use crate::export::{self, ExportFormat};
use crate::gemini_record::record_name;
use crate::history::{contents_before, load_session};
use crate::recorded_items::{self, RecordedItem};
use crate::source::SessionSource;
use crate::{SessionChoice, SessionLibrary};

fn input_failure(message: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Input, message.to_string())
}

/// A session that was created from another session or from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Id of the session.
    pub id: SessionId,
    /// Path of its journal.
    pub path: PathBuf,
    /// Number of contents it starts with.
    pub contents: usize,
    /// What was skipped or repaired.
    pub notices: Vec<String>,
}

/// Result of a move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoveResult {
    /// The moved sessions with their new files.
    pub sessions: Vec<(String, PathBuf)>,
    /// The sessions that were not moved, each with the reason.
    pub skipped: Vec<(String, String)>,
    /// Number of moved saved conversations and input history files.
    pub other_files: usize,
}

/// Result of exporting all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportResult {
    /// The written files.
    pub files: Vec<PathBuf>,
    /// The sessions that could not be read, each with the reason.
    pub failed: Vec<(String, String)>,
}

/// Returns the directory name of a project in an export: the project's name, with a number if
/// another project has the same name.
fn project_name(names: &mut Vec<(PathBuf, String)>, project: &Path) -> String {
    if let Some((_, name)) = names.iter().find(|(known, _)| known == project) {
        return name.clone();
    }
    let plain = parallax_store::project_slug(project);
    let numbered = (1..).map(|number| format!("{plain}-{number}"));
    let mut free = std::iter::once(plain.clone()).chain(numbered);
    let name = free.find(|name| names.iter().all(|(_, known)| known != name)).unwrap_or(plain);
    names.push((project.to_owned(), name.clone()));
    name
}

impl SessionLibrary<'_> {
    /// Returns the sessions of all projects, oldest first. Blocking.
    pub fn all_sessions(&self) -> Vec<SessionEntry> {
        parallax_store::list_all(&self.dirs())
    }

    /// Returns a session of this project (`latest`, a number, an id, or an id prefix), or one of
    /// another project by id or id prefix. Blocking.
    ///
    /// # Errors
    /// Returns an error if no session or several sessions match.
    pub fn any_session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        let in_project = parallax_store::find(&self.dirs(), self.directory, selector);
        let missing = match in_project {
            Ok(entry) => return Ok(entry),
            Err(error @ FindError::Ambiguous { .. }) => return Err(input_failure(error)),
            Err(error) => input_failure(error),
        };
        let selector = selector.trim();
        let is_number = selector.bytes().all(|byte| byte.is_ascii_digit()) && selector.len() < 6;
        if selector.is_empty() || selector == "latest" || is_number {
            return Err(missing);
        }
        let mut matches: Vec<SessionEntry> = self.all_sessions();
        matches.retain(|entry| parallax_store::has_prefix(&entry.id, selector));
        if matches.iter().any(|entry| entry.id.eq_ignore_ascii_case(selector)) {
            matches.retain(|entry| entry.id.eq_ignore_ascii_case(selector));
        }
        let nowhere = || {
            input_failure(format!(
                "no session `{selector}` in any project (searched `{}` and Gemini CLI \
                 sessions); `parallax sessions list` shows them",
                self.dirs().parallax.join("sessions").display()
            ))
        };
        match matches.len() {
            0 | 1 => matches.pop().ok_or_else(nowhere),
            count => {
                Err(input_failure(FindError::Ambiguous { selector: selector.to_owned(), count }))
            }
        }
    }

    /// Resolves the argument of `/load`: a file, a session of this or another project, or a
    /// conversation saved under a name, including by Gemini CLI. Blocking.
    ///
    /// # Errors
    /// Returns an error if nothing or more than one thing matches.
    pub fn loadable_session(&self, what: &str) -> Result<SessionChoice, Failure> {
        let file = self.directory.join(self.config.expand_home(Path::new(what.trim())));
        if file.is_file() {
            // Checked now, before the open session is closed.
            parallax_store::import(&file, &self.dirs().keys)
                .map_err(|error| Failure::new(FailureKind::Input, error.to_string()))?;
            return Ok(SessionChoice::Import(file));
        }
        let missing = match self.any_session(what) {
            Ok(entry) if self.session(&entry.id).is_ok_and(|here| here.path == entry.path) => {
                return Ok(SessionChoice::Resume(entry.id));
            }
            Ok(entry) => return Ok(SessionChoice::Import(entry.path)),
            Err(failure) => failure,
        };
        let chat = self.find_chat(what).map(|chat| SessionChoice::Import(chat.path));
        chat.map_err(|_| missing)
    }

    /// Returns the items of a session. Blocking.
    ///
    /// # Errors
    /// Returns an error if its file cannot be read.
    pub fn session_items(&self, entry: &SessionEntry) -> Result<Vec<RecordedItem>, Failure> {
        Ok(recorded_items::items(&load_session(self, entry)?.records))
    }

    /// Exports a session as a document. Blocking.
    ///
    /// # Errors
    /// Returns an error if its file cannot be read.
    pub fn export_document(
        &self,
        entry: &SessionEntry,
        form: ExportFormat,
    ) -> Result<String, Failure> {
        self.export_loaded(&load_session(self, entry)?, entry, form)
    }

    fn export_loaded(
        &self,
        session: &LoadedSession,
        entry: &SessionEntry,
        form: ExportFormat,
    ) -> Result<String, Failure> {
        export::export(session, &entry.title, form, self.highlighter, || {
            SessionSource::open(self, entry)?.read_new()
        })
    }

    /// Exports the sessions of all projects into a directory, with one subdirectory per project.
    /// Exports in Gemini CLI's format have the layout of `~/.gemini/tmp`. Existing files are
    /// overwritten. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be written. Sessions that cannot be read are listed
    /// in the result.
    pub fn export_all(&self, form: ExportFormat, out: &Path) -> Result<ExportResult, Failure> {
        let out = self.directory.join(self.config.expand_home(out));
        let mut done = ExportResult::default();
        let mut names: Vec<(PathBuf, String)> = Vec::new();
        for entry in self.all_sessions() {
            if entry.origin != SessionOrigin::Parallax {
                continue;
            }
            let text = load_session(self, &entry).and_then(|session| {
                let text = self.export_loaded(&session, &entry, form)?;
                Ok((session.head, text))
            });
            let (head, text) = match text {
                Ok(written) => written,
                Err(reason) => {
                    done.failed.push((entry.id, reason.message));
                    continue;
                }
            };
            let directory = out.join(project_name(&mut names, &entry.project));
            let file = match form {
                ExportFormat::GeminiJson => directory.join("chats").join(record_name(&head)),
                form => directory.join(format!("{}.{}", entry.id, form.extension())),
            };
            let prepared = match form {
                ExportFormat::GeminiJson => {
                    parallax_store::claim_gemini_folder(&directory, Path::new(&entry.project))
                }
                _ => parallax_store::create_private_dir(&directory),
            };
            let written = prepared.and_then(|()| std::fs::write(&file, text));
            match written {
                Ok(()) => done.files.push(file),
                Err(error) => {
                    return Err(input_failure(format!(
                        "failed to write `{}`: {error}",
                        file.display()
                    )));
                }
            }
        }
        Ok(done)
    }

    /// Writes a document to a new file that only its owner can read. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be written.
    pub fn write_export(&self, file: &Path, text: &str) -> Result<PathBuf, Failure> {
        let path = self.directory.join(self.config.expand_home(file));
        crate::chats::write_new(&path, text)?;
        Ok(path)
    }

    /// Copies a session into this project: all of it, or the part before a prompt. Blocking.
    ///
    /// # Errors
    /// Returns an error if the session or prompt is not found or the copy cannot be written.
    pub fn fork_session(&self, selector: &str, before: Option<u64>) -> Result<NewSession, Failure> {
        let entry = self.any_session(selector)?;
        let mut session = load_session(self, &entry)?;
        if let Some(number) = before {
            session.truncate(contents_before(&session, number)?);
        }
        if session.contents.is_empty() {
            return Err(input_failure(match before {
                Some(_) => "nothing precedes that prompt: nothing to copy",
                None => "nothing to copy yet",
            }));
        }
        self.new_session(&session, entry.id)
    }

    /// Imports a session from a file into this project. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file contains no session or the copy cannot be written.
    pub fn import_session(&self, file: &Path) -> Result<NewSession, Failure> {
        let path = self.directory.join(self.config.expand_home(file));
        let session = parallax_store::import(&path, &self.dirs().keys).map_err(input_failure)?;
        self.new_session(&session, path.display().to_string())
    }

    fn new_session(&self, session: &LoadedSession, from: String) -> Result<NewSession, Failure> {
        let id = SessionId::new(Uuid::new_v4().to_string());
        let directory = self.directory;
        let path = self.dirs().journal(directory, &id);
        let head = JournalHeader {
            version: 1,
            session_id: id.clone(),
            project: directory.display().to_string(),
            start_time: parallax_store::timestamp(),
            forked_from: Some(from),
            one_shot: false,
        };
        let journal = Journal::create(&path, head).with_keys(&self.dirs().keys);
        journal.append_all(session).and_then(|()| journal.sync()).map_err(input_failure)?;
        let (contents, notices) = (session.contents.len(), session.notices.clone());
        Ok(NewSession { id, path, contents, notices })
    }

    /// Moves a session to another project. Blocking.
    ///
    /// # Errors
    /// Returns an error if the session is not found, belongs to another program, or is in use, or
    /// if writing fails.
    pub fn move_session(&self, selector: &str, to: &Path) -> Result<MoveResult, Failure> {
        let entry = self.any_session(selector)?;
        let to = self.target(to)?;
        let path =
            parallax_store::move_session(&self.dirs(), &entry, &to).map_err(input_failure)?;
        Ok(MoveResult { sessions: vec![(entry.id, path)], ..MoveResult::default() })
    }

    /// Moves all Parallax sessions, saved conversations, and the input history of a project to
    /// another project, for example after its directory was renamed. Blocking.
    ///
    /// # Errors
    /// Returns an error if the project has nothing to move.
    pub fn move_project(&self, from: &Path, to: &Path) -> Result<MoveResult, Failure> {
        let (from, to) = (self.directory(from), self.target(to)?);
        if from == to {
            return Err(input_failure("both are the same directory"));
        }
        let dirs = self.dirs();
        let mut moved = MoveResult::default();
        for entry in parallax_store::list(&dirs, &from) {
            if entry.origin != parallax_store::SessionOrigin::Parallax {
                continue;
            }
            match parallax_store::move_session(&dirs, &entry, &to) {
                Ok(path) => moved.sessions.push((entry.id, path)),
                Err(error) => moved.skipped.push((entry.id, error.to_string())),
            }
        }
        moved.other_files = parallax_store::move_project_files(&dirs, &from, &to);
        if moved == MoveResult::default() {
            return Err(input_failure(format!("no sessions of `{}`", from.display())));
        }
        Ok(moved)
    }

    /// Returns the target directory of a move, which must exist.
    fn target(&self, typed: &Path) -> Result<PathBuf, Failure> {
        let directory = self.directory(typed);
        match directory.is_dir() {
            true => Ok(directory),
            false => Err(input_failure(format!("directory `{}` not found", directory.display()))),
        }
    }

    /// Returns a directory in the form that sessions record. It may no longer exist.
    fn directory(&self, typed: &Path) -> PathBuf {
        let path = self.directory.join(self.config.expand_home(typed));
        path.canonicalize().unwrap_or_else(|_| join_lexically(Path::new("/"), &path))
    }
}
