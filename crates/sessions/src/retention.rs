//! Removes old sessions according to settings, in the background or on request.

use std::path::PathBuf;
use std::time::Duration;

use parallax_config::Settings;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_store::{DeletedSession, Retention, SessionDirs};
use serde::Serialize;
use serde_json::Value;

use crate::SessionLibrary;

/// Minimum age of orphaned outputs that are removed on request.
const STRAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A session that was or would be removed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedSession {
    /// Id of the session.
    pub id: String,
    /// The title.
    pub title: String,
    /// Path of its file.
    #[serde(serialize_with = "parallax_protocol::path_text::one::serialize")]
    pub path: PathBuf,
    /// Reason: `old`, `many`, or `empty`.
    #[serde(rename = "why")]
    pub reason: &'static str,
    /// Size of its journal in bytes.
    pub bytes: u64,
}

/// Result of a cleanup.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupResult {
    /// Sessions moved to the trash.
    pub sessions: Vec<RemovedSession>,
    /// Failures with their reasons.
    pub failed: Vec<String>,
    /// Number of sessions permanently deleted from the trash.
    pub emptied: usize,
    /// Number of removed output directories without a session.
    #[serde(rename = "strayOutputs")]
    pub removed_outputs: usize,
    /// Number of sessions that remain in the search index.
    pub indexed: usize,
}

impl SessionLibrary<'_> {
    /// Returns the retention rule of the settings, or `None` if sessions are kept. Also returns a
    /// warning if the settings contradict each other.
    pub fn retention(&self) -> (Option<Retention>, Option<String>) {
        retention_of(&self.config.settings)
    }

    /// Moves old sessions of all projects to the trash and deletes those that were in the trash for
    /// a week. With `dry`, only reports what would be removed. Blocking.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid or contradict each other. Nothing is removed
    /// then.
    pub fn collect_sessions(&self, dry: bool) -> Result<CleanupResult, Failure> {
        let dirs = self.dirs();
        if let Some(key) = self.config.settings.unusable_retention() {
            let reason = format!("no sessions are deleted: the value of `{key}` is invalid");
            return Err(Failure::new(FailureKind::Config, reason));
        }
        let (rule, problem) = self.retention();
        if let Some(problem) = problem {
            return Err(Failure::new(FailureKind::Config, problem));
        }
        // Settings of this project apply to its own sessions only.
        let (elsewhere, problem) =
            retention_of(&self.config.settings.retention_for_other_projects());
        if let Some(problem) = problem {
            return Err(Failure::new(FailureKind::Config, problem));
        }
        let own = dirs.sessions(self.directory);
        let mut collected = CleanupResult::default();
        for directory in parallax_store::session_folders(&dirs) {
            if let Some(rule) = if directory == own { &rule } else { &elsewhere } {
                for session in parallax_store::outdated(&directory, rule, None, &dirs.keys) {
                    let result =
                        if dry { Ok(()) } else { parallax_store::discard(&dirs, &session) };
                    match result {
                        Ok(()) => collected.sessions.push(to_removed_session(session)),
                        Err(error) => {
                            let path = session.path.display();
                            collected.failed.push(format!("failed to delete `{path}`: {error}"));
                        }
                    }
                }
            }
        }
        if !dry {
            collected.emptied = parallax_store::empty_trash(&dirs);
            collected.removed_outputs = parallax_store::remove_stray_outputs(&dirs, STRAY);
            match self.index_sessions(false) {
                Ok(indexed) => collected.indexed = indexed.all,
                Err(error) => collected.failed.push(error.message),
            }
        }
        Ok(collected)
    }
}

/// Removes old sessions of this project, at most once a day. Blocking; meant for the background
/// and safe to interrupt.
pub fn clean_up_daily(
    dirs: &SessionDirs,
    project: &std::path::Path,
    rule: &Retention,
    current: &SessionId,
) {
    if !parallax_store::is_due(dirs, project) {
        return;
    }
    for session in
        parallax_store::outdated(&dirs.sessions(project), rule, Some(current), &dirs.keys)
    {
        if let Err(error) = parallax_store::discard(dirs, &session) {
            tracing::warn!(%error, session = session.id, "failed to delete an old session");
        }
    }
    parallax_store::empty_trash(dirs);
}

/// Returns the retention rule that the given settings define; see [`SessionLibrary::retention`].
fn retention_of(all: &Settings) -> (Option<Retention>, Option<String>) {
    let settings = all.session_retention();
    if !settings.enabled {
        return (None, None);
    }
    let off = |reason: &str| {
        let text = format!("old sessions are not deleted: `general.sessionRetention.{reason}");
        (None, Some(text))
    };
    let unread = |name: &str| {
        let value = all.get(&format!("general.sessionRetention.{name}"));
        let age = value.and_then(Value::as_str).and_then(parallax_config::parse_age);
        value.is_some_and(|value| !value.is_null()) && age.is_none()
    };
    for name in ["maxAge", "minRetention"] {
        if unread(name) {
            return off(&format!("{name}` is not a duration such as `30d`, `12h`, `2w`, or `6m`"));
        }
    }
    if settings.max_age.is_some_and(|age| age < settings.min_retention) {
        return off("maxAge` is less than `minRetention`");
    }
    let count = all.get("general.sessionRetention.maxCount");
    let count = count.filter(|count| !count.is_null());
    if count.is_some_and(|count| to_count(count).is_none_or(|max| max == 0)) {
        return off("maxCount` must be a whole number, 1 or more");
    }
    let rule = Retention {
        max_age: settings.max_age,
        max_count: count.and_then(to_count),
        min_age: settings.min_retention,
    };
    (Some(rule), None)
}

/// Returns a non-negative integer.
fn to_count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn to_removed_session(session: DeletedSession) -> RemovedSession {
    let DeletedSession { id, title, path, reason, bytes } = session;
    RemovedSession { id, title, path, reason: reason.word(), bytes }
}
