//! Old sessions go, by the settings: in the background now and then, and when
//! somebody asks for it.

use std::path::PathBuf;
use std::time::Duration;

use parallax_config::Settings;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_store::{Discarded, Homes, Retention};
use serde::Serialize;
use serde_json::Value;

use crate::launch::{Launch, failure};

/// How old stray outputs are that go when somebody asks for it.
const STRAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A session that went, or would go.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Its id.
    pub id: String,
    /// What it was called.
    pub title: String,
    /// Its file as it was.
    #[serde(serialize_with = "parallax_protocol::path_text::one::serialize")]
    pub path: PathBuf,
    /// `old`, `many` or `empty`.
    pub why: &'static str,
    /// The length of its journal.
    pub bytes: u64,
}

/// What a clean-up did.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collected {
    /// Sessions that went into the trash.
    pub sessions: Vec<Removed>,
    /// What could not be done, and why.
    pub failed: Vec<String>,
    /// Sessions that went from the trash for good.
    pub emptied: usize,
    /// Folders of outputs without a session that went.
    pub stray_outputs: usize,
    /// Sessions left in the search index.
    pub indexed: usize,
}

impl Launch {
    /// Which sessions the settings let go; `None`: none at all. The text says
    /// why, where the settings contradict themselves.
    pub(crate) fn retention(&self) -> (Option<Retention>, Option<String>) {
        retention_of(&self.config.settings)
    }

    /// Lets old sessions of this project go, at most once a day. Blocking, for
    /// the background; may be cut off anywhere.
    pub(crate) fn clean_lazily(
        homes: &Homes,
        project: &std::path::Path,
        rule: &Retention,
        current: &SessionId,
    ) {
        if !parallax_store::is_due(homes, project) {
            return;
        }
        for session in
            parallax_store::outdated(&homes.sessions(project), rule, Some(current), &homes.keys)
        {
            if let Err(error) = parallax_store::discard(homes, &session) {
                tracing::warn!(%error, session = session.id, "an old session stays");
            }
        }
        parallax_store::empty_trash(homes);
    }

    /// Lets old sessions of all projects go, and what has been in the trash for
    /// a week; with `dry`, only tells what would. Blocking.
    ///
    /// # Errors
    /// When the settings contradict themselves or cannot be used. Then nothing went.
    pub fn collect_sessions(&self, dry: bool) -> Result<Collected, Failure> {
        let homes = self.homes();
        if let Some(key) = self.config.settings.unusable_retention() {
            let why = format!("no session goes: the value of `{key}` cannot be used");
            return Err(failure(FailureKind::Config, why));
        }
        let (rule, wrong) = self.retention();
        if let Some(wrong) = wrong {
            return Err(failure(FailureKind::Config, wrong));
        }
        // What this project says holds for its own sessions.
        let (elsewhere, wrong) = retention_of(&self.config.settings.retention_elsewhere());
        if let Some(wrong) = wrong {
            return Err(failure(FailureKind::Config, wrong));
        }
        let own = homes.sessions(&self.options.directory);
        let mut collected = Collected::default();
        for folder in parallax_store::session_folders(&homes) {
            if let Some(rule) = if folder == own { &rule } else { &elsewhere } {
                for session in parallax_store::outdated(&folder, rule, None, &homes.keys) {
                    let gone = if dry { Ok(()) } else { parallax_store::discard(&homes, &session) };
                    match gone {
                        Ok(()) => collected.sessions.push(removed(session)),
                        Err(error) => {
                            let path = session.path.display();
                            collected.failed.push(format!("`{path}` stays: {error}"));
                        }
                    }
                }
            }
        }
        if !dry {
            collected.emptied = parallax_store::empty_trash(&homes);
            collected.stray_outputs = parallax_store::remove_stray_outputs(&homes, STRAY);
            match self.index_sessions(false) {
                Ok(indexed) => collected.indexed = indexed.all,
                Err(error) => collected.failed.push(error.message),
            }
        }
        Ok(collected)
    }
}

/// Which sessions some settings let go; see [`Launch::retention`].
fn retention_of(all: &Settings) -> (Option<Retention>, Option<String>) {
    let settings = all.session_retention();
    if !settings.enabled {
        return (None, None);
    }
    let off = |why: &str| {
        let text = format!("old sessions are not deleted: `general.sessionRetention.{why}");
        (None, Some(text))
    };
    let unread = |name: &str| {
        let value = all.get(&format!("general.sessionRetention.{name}"));
        let age = value.and_then(Value::as_str).and_then(parallax_config::parse_age);
        value.is_some_and(|value| !value.is_null()) && age.is_none()
    };
    for name in ["maxAge", "minRetention"] {
        if unread(name) {
            return off(&format!("{name}` is no time as `30d`, `12h`, `2w` or `6m` are"));
        }
    }
    if settings.max_age.is_some_and(|age| age < settings.min_retention) {
        return off("maxAge` is less than `minRetention`");
    }
    let count = all.get("general.sessionRetention.maxCount");
    let count = count.filter(|count| !count.is_null());
    if count.is_some_and(|count| whole(count).is_none_or(|most| most == 0)) {
        return off("maxCount` must be a whole number, 1 or more");
    }
    let rule = Retention {
        max_age: settings.max_age,
        max_count: count.and_then(whole),
        min_age: settings.min_retention,
    };
    (Some(rule), None)
}

/// A number without a fraction that a count can have.
fn whole(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn removed(session: Discarded) -> Removed {
    let Discarded { id, title, path, why, bytes } = session;
    Removed { id, title, path, why: why.word(), bytes }
}
