//! Rewinding an open session: previews the file changes, and lists the single changes that can be
//! restored.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::content::Role;
use parallax_protocol::op::Restore;
use parallax_protocol::store::Record;
use parallax_protocol::tool::FileDiff;
use parallax_store::{Checkpoints, Keys, RestorePreview};
use serde_json::Value;

use crate::open::OpenSession;

pub use parallax_store::ChangeKind;

/// Previews rewinds of an open session. Can be used from any thread.
#[derive(Clone)]
pub struct RewindPreviewer {
    checkpoints: Option<Arc<Checkpoints>>,
    journal: PathBuf,
    keys: Keys,
    /// Whether single changes can be restored (`general.checkpointing.enabled`).
    pub checkpointing: bool,
}

/// The effect of a rewind on a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileRestore {
    /// The file or directory.
    pub path: PathBuf,
    /// Whether it would be recreated, changed, or removed.
    pub kind: ChangeKind,
    /// Why it would not be reverted, if so.
    pub skip_reason: Option<String>,
    /// From the current to the restored contents; `None` if it is not text.
    pub diff: Option<FileDiff>,
}

/// A change before which the session can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePoint {
    /// The name: the time, the file, and the tool.
    pub name: String,
    /// The changed files.
    pub files: Vec<PathBuf>,
    /// The tool that made the change.
    pub tool: String,
    /// The operation that restores this point.
    pub restore_request: Restore,
}

impl OpenSession {
    /// Returns access to the checkpoints.
    pub fn rewind_preview(&self) -> RewindPreviewer {
        RewindPreviewer {
            checkpoints: self.checkpoint_manager.as_ref().map(|manager| manager.store()),
            journal: self.launch.dirs().journal(&self.launch.options.directory, &self.id),
            keys: self.launch.dirs().keys,
            checkpointing: self.launch.config.settings.flag("general.checkpointing.enabled"),
        }
    }
}

impl RewindPreviewer {
    /// Returns how rewinding to before a turn would change files. Blocking.
    ///
    /// # Errors
    /// Returns why this cannot be determined.
    pub fn files(&self, turn: u64) -> Result<Vec<FileRestore>, String> {
        let checkpoints =
            self.checkpoints.as_ref().ok_or("checkpoints are disabled in this session")?;
        let restores = checkpoints.preview_restore(turn).map_err(|error| error.to_string())?;
        Ok(restores.into_iter().map(to_file_restore).collect())
    }

    /// Returns the changes of the current conversation before which it can be restored, oldest
    /// first. Blocking.
    ///
    /// # Errors
    /// Returns why there are none.
    pub fn restore_points(&self) -> Result<Vec<RestorePoint>, String> {
        let checkpoints =
            self.checkpoints.as_ref().ok_or("checkpoints are disabled in this session")?;
        let edits = checkpoints.edits().map_err(|error| error.to_string())?;
        if edits.is_empty() {
            return Ok(Vec::new());
        }
        let session =
            parallax_store::load(&self.journal, &self.keys).map_err(|error| error.to_string())?;
        let mut calls = recorded_calls(&session.records);
        let mut points = Vec::new();
        for edit in edits {
            // The newest answer before the change, and in it the first unmatched call that names
            // the file.
            let before = |recorded: &&mut RecordedToolCalls| recorded.time_ns <= edit.change_time;
            let Some(place) = calls.iter_mut().rev().find(before) else { continue };
            let names = |call: &(String, Vec<String>)| {
                edit.files.iter().any(|file| call.1.iter().any(|arg| names_file(arg, file)))
            };
            let free = |(at, call): &(usize, &(String, Vec<String>))| {
                !place.matched.contains(at) && names(call)
            };
            let found = place.calls.iter().enumerate().find(free);
            let Some((call, (tool, _))) = found else { continue };
            place.matched.insert(call);
            points.push(RestorePoint {
                name: name_of(edit.change_time, edit.files.first().map(PathBuf::as_path), tool),
                tool: tool.clone(),
                files: edit.files,
                restore_request: Restore {
                    change_time: edit.change_time,
                    keep_contents: place.keep_contents,
                    call,
                    force: false,
                },
            });
        }
        Ok(points)
    }
}

/// An answer with tool calls.
struct RecordedToolCalls {
    /// When it was recorded, in nanoseconds since 1970.
    time_ns: i64,
    /// Number of contents up to and including it.
    keep_contents: usize,
    /// The tools with their text arguments.
    calls: Vec<(String, Vec<String>)>,
    /// Indexes of the calls that were matched with a change.
    matched: HashSet<usize>,
}

fn recorded_calls(records: &[Record]) -> Vec<RecordedToolCalls> {
    let mut keep_contents = 0;
    let mut recorded = Vec::new();
    for record in records {
        match record {
            Record::Content(content) => {
                keep_contents += 1;
                let time: Option<jiff::Timestamp> = content.time.parse().ok();
                let opened = content.wire.open().ok().filter(|opened| opened.role == Role::Model);
                let (Some(time), Some(opened)) = (time, opened) else { continue };
                let calls: Vec<_> = opened
                    .calls()
                    .map(|call| {
                        let values = call.args.into_iter().flat_map(|args| args.values());
                        let texts = values.filter_map(Value::as_str).map(str::to_owned);
                        (call.name.to_owned(), texts.collect())
                    })
                    .collect();
                if !calls.is_empty() {
                    let time_ns = i64::try_from(time.as_nanosecond()).unwrap_or_default();
                    recorded.push(RecordedToolCalls {
                        time_ns,
                        keep_contents,
                        calls,
                        matched: HashSet::new(),
                    });
                }
            }
            Record::Round(_) => keep_contents += 1,
            _ => {}
        }
    }
    recorded
}

/// Returns whether an argument names the file.
fn names_file(argument: &str, file: &Path) -> bool {
    let path = Path::new(argument.trim());
    !argument.trim().is_empty()
        && !argument.contains('\n')
        && path.file_name().is_some_and(|name| file.file_name() == Some(name))
}

/// Formats the name like Gemini CLI: the time without characters that are invalid in file names.
fn name_of(moment: i64, file: Option<&Path>, tool: &str) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(moment)).unwrap_or_default();
    let time = format!("{time:.3}").replace(':', "-").replace('.', "_");
    let file = file.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    format!("{time}-{file}-{tool}")
}

fn to_file_restore(restores: RestorePreview) -> FileRestore {
    let RestorePreview { path, kind, skip_reason, current_text, restored_text } = restores;
    let diff = match (&current_text, &restored_text, kind) {
        (None, None, _) => None,
        (Some(_), None, ChangeKind::Changed) | (None, Some(_), ChangeKind::Changed) => None,
        (now, then, _) => {
            let text = |side: &Option<String>| side.clone().unwrap_or_default();
            let name = PathBuf::from(path.file_name().unwrap_or_default());
            Some(parallax_tools::file_diff(&path, &name, &text(now), &text(then), now.is_none()))
        }
    };
    FileRestore { path, kind, skip_reason, diff }
}
