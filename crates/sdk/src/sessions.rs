//! The sessions of a project, for lists and browsers.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;

use crate::history::{found, loaded};
use crate::launch::{Launch, failure};
use crate::past::{self, PastItem};

pub use parallax_store::{Origin, SessionEntry};

/// Characters around what was found.
const AROUND: usize = 60;

/// Where a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHit {
    /// The session.
    pub id: String,
    /// The text with what stands around it, in one line.
    pub snippet: String,
}

fn input(message: impl std::fmt::Display) -> Failure {
    failure(FailureKind::Input, message.to_string())
}

impl Launch {
    /// The sessions of this project, oldest first. Only heads and first prompts
    /// are read. Blocking.
    pub fn sessions(&self) -> Vec<SessionEntry> {
        parallax_store::list(&self.homes(), &self.options.directory)
    }

    /// A session of this project: `latest`, a number of the list, an id or the
    /// beginning of one. Blocking.
    ///
    /// # Errors
    /// When none or several fit.
    pub fn session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        found(self, selector)
    }

    /// Deletes a session of this project and what belongs to it. Blocking.
    ///
    /// # Errors
    /// When there is no such session, or it is not ours or in use.
    pub fn delete_session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        let homes = self.homes();
        let project = &self.options.directory;
        let entry = parallax_store::find(&homes, project, selector).map_err(input)?;
        let artifacts =
            homes.artifacts(project, &SessionId::from(entry.id.as_str())).root().to_owned();
        let checkpoints =
            homes.parallax.join("checkpoints").join(parallax_store::project_folder(project));
        let beside = ["jsonl", "lock"].map(|end| checkpoints.join(format!("{}.{end}", entry.id)));
        let [changes, lock] = beside;
        parallax_store::delete(&homes, project, &entry, &[artifacts, changes, lock])
            .map_err(input)?;
        Ok(entry)
    }
}

/// How many prompts and answers a session has. Reads the whole file: ask for
/// what is on the screen. Blocking. `None` when it cannot be read.
pub fn message_count(entry: &SessionEntry) -> Option<usize> {
    parallax_store::count_messages(entry)
}

/// What happened in the last prompts of a session, oldest first. Blocking.
///
/// # Errors
/// When the file cannot be read.
pub fn preview(entry: &SessionEntry, prompts: usize) -> Result<Vec<PastItem>, Failure> {
    Ok(past::recent(&loaded(entry)?.records, prompts).0)
}

/// Looks for a text in what was said in sessions (prompts, answers, arguments
/// and outputs of calls), upper and lower case alike, the newest session first;
/// each is told once, as soon as it is found. Sessions that cannot be read are
/// passed over. Blocking; ends when the token is cancelled.
pub fn search(
    entries: &[SessionEntry],
    text: &str,
    cancel: &CancellationToken,
    mut tell: impl FnMut(SessionHit),
) {
    let wanted = text.trim().to_lowercase();
    if wanted.is_empty() {
        return;
    }
    let stop = || cancel.is_cancelled();
    let mut newest: Vec<&SessionEntry> = entries.iter().collect();
    newest.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
    for entry in newest {
        if stop() {
            return;
        }
        if !parallax_store::may_hold(&entry.path, &wanted, &stop).unwrap_or(false) {
            continue;
        }
        let Ok(session) = loaded(entry) else { continue };
        let items = past::items(&session.records);
        if let Some(snippet) = items.iter().find_map(|item| found_in(item, &wanted)) {
            tell(SessionHit { id: entry.id.clone(), snippet });
        }
    }
}

fn found_in(item: &PastItem, wanted: &str) -> Option<String> {
    let arguments;
    let texts: [&str; 2] = match item {
        PastItem::User { text, .. }
        | PastItem::Steer { text }
        | PastItem::Thought { text }
        | PastItem::Text { text, .. } => [text, ""],
        PastItem::Tool { args, output, .. } => {
            arguments = serde_json::Value::Object(args.clone()).to_string();
            [&arguments, output]
        }
    };
    texts.into_iter().find_map(|text| snippet(text, wanted))
}

/// The wanted text with what stands around it. `wanted` is in lower case.
fn snippet(text: &str, wanted: &str) -> Option<String> {
    // Lower case may have another length: places count in characters of the
    // original, each lowered on its own.
    let lowered = text.to_lowercase();
    let at = lowered.find(wanted)?;
    let before = lowered.get(..at)?.chars().count();
    let from = before.saturating_sub(AROUND);
    let length = wanted.chars().count() + before.min(AROUND) + AROUND;
    let mut cut: String = text.chars().skip(from).take(length).collect();
    if from > 0 {
        cut.insert(0, '…');
    }
    let words: Vec<&str> = cut.split_whitespace().collect();
    let line = words.join(" ");
    Some(line.chars().filter(|char| !char.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::snippet;

    #[test]
    fn a_snippet_is_one_line_around_the_text() {
        assert_eq!(
            snippet("say\n Hello \u{1b}[31mWorld", "hello").as_deref(),
            Some("say Hello [31mWorld")
        );
        let long = format!("{} NEEDLE {}", "ä".repeat(200), "b".repeat(200));
        let found = snippet(&long, "needle").expect("found");
        assert!(found.starts_with("…ä") && found.contains("NEEDLE") && found.chars().count() < 130);
        assert_eq!(snippet("İİİİ x", "x").as_deref(), Some("İİİİ x"));
        assert_eq!(snippet("abc", "d"), None);
    }
}
