//! Texts of transcript notices.

use parallax_protocol::event::{
    Compaction, CompactionCause, EndReason, Failure, FailureKind, Level, NOTHING_TO_COMPRESS,
    RewindResult, UndoResult,
};
use parallax_protocol::model::Retry;

use super::item::{Item, LocalItem};
use crate::sanitize;

/// A wait before a retry.
#[derive(Debug)]
pub(super) struct RetryWait {
    retry: Retry,
    /// When it was first shown, by the clock of the live rows.
    since_ms: Option<u64>,
}

impl RetryWait {
    pub(super) fn new(retry: Retry) -> Self {
        Self { retry, since_ms: None }
    }

    /// Returns one row with the remaining time.
    pub(super) fn text(&mut self, now_ms: u64) -> String {
        let since = *self.since_ms.get_or_insert(now_ms);
        let remaining =
            self.retry.delay_ms.saturating_sub(now_ms.saturating_sub(since)).div_ceil(1000);
        let Retry { attempt, max_attempts, model, .. } = &self.retry;
        let (what, next) = (describe_failure(&self.retry), attempt + 1);
        let model = sanitize::one_row(model);
        let wait = if remaining > 0 { format!(" in {remaining}s") } else { String::new() };
        format!("{what} Retrying with {model}{wait} (attempt {next} of {max_attempts})")
    }
}

/// Describes a failed attempt that is retried.
pub(super) fn describe_retry(retry: &Retry) -> String {
    let of = retry.max_attempts;
    let model = sanitize::one_row(&retry.model);
    format!("{} Attempt {} of {of} with {model} failed", describe_failure(retry), retry.attempt)
}

/// Describes the failure as a sentence.
fn describe_failure(retry: &Retry) -> String {
    let what = match retry.class.as_str() {
        "rate_limit" => "Rate limited",
        "capacity" => "The model is overloaded",
        "network" => "Network error",
        // The message begins with the address.
        "connect" => "Cannot connect to",
        "server" => "Service error",
        _ => "Request failed",
    };
    let status = retry.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
    let message = sanitize::one_row(&retry.message);
    let message = message.trim_end_matches(|char: char| char == '.' || char.is_whitespace());
    // The status is already given.
    let code = retry.status.map(|status| status.to_string()).unwrap_or_default();
    let message = message.strip_prefix(code.as_str()).unwrap_or(message).trim_start();
    let end = if message.ends_with(['!', '?', '…']) { "" } else { "." };
    let colon = if retry.class == "connect" { "" } else { ":" };
    format!("{what}{status}{colon} {message}{end}")
}

/// Describes the end of a turn, if there is something to report.
pub(super) fn describe_turn_end(reason: &EndReason) -> Option<(Level, String)> {
    Some(match reason {
        EndReason::Done => return None,
        EndReason::Cancelled => (Level::Info, "Request cancelled.".to_owned()),
        EndReason::MaxTurns { limit } => (
            Level::Warning,
            format!(
                "Stopped after {limit} model requests, the limit of `model.maxSessionTurns`. Send \
                 `continue` to resume."
            ),
        ),
        EndReason::Budget(spent) => {
            (Level::Warning, format!("Stopped: {spent}, or use `/budget`."))
        }
        EndReason::Loop { detail } => (
            Level::Warning,
            format!(
                "Stopped because the model is repeating itself: {detail}. Tell it what to \
                 do instead."
            ),
        ),
        EndReason::Stopped { reason, .. } => (Level::Info, format!("Stopped: {reason}")),
        EndReason::Failed(failure) => {
            let (what, advice) = split_advice(&failure.message);
            let advice = advice.or_else(|| hint(failure).map(str::to_owned));
            (
                Level::Error,
                match advice {
                    Some(advice) => format!("{what}\n{advice}"),
                    None => what,
                },
            )
        }
    })
}

/// Describes the end of a turn from a journal entry.
pub(super) fn describe_recorded_end(reason: &str, detail: Option<&str>) -> Option<(Level, String)> {
    let reason = match (reason, detail.map(str::to_owned)) {
        ("cancelled" | "shutdown", _) => EndReason::Cancelled,
        ("stopped", Some(reason)) => EndReason::Stopped { reason, blocked: false },
        ("loop", Some(detail)) => EndReason::Loop { detail },
        ("error", Some(message)) => return Some((Level::Error, message)),
        _ => return None,
    };
    describe_turn_end(&reason)
}

/// Splits a message into what failed and its own advice, each a sentence in plain text.
fn split_advice(message: &str) -> (String, Option<String>) {
    let advised = message.rsplit_once("; ").filter(|(_, advice)| {
        let verb = advice.split(' ').next().unwrap_or_default();
        matches!(verb, "check" | "use" | "set" | "run" | "try" | "wait" | "choose" | "sign")
    });
    match advised {
        Some((what, advice)) => (to_sentence(what), Some(to_sentence(advice))),
        None => (to_sentence(message), None),
    }
}

/// Returns a string that begins with a capital letter and ends with a period, without backticks.
fn to_sentence(text: &str) -> String {
    let text = text.trim().replace('`', "");
    let mut chars = text.chars();
    let first: String =
        chars.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?', '…', ':']) || text.is_empty() { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// Advice for a request that the service rejects.
const REFUSED: &str = "The same request would fail again: choose another model with /model, check \
                       modelConfigs in the settings, or use /compress or /rewind. F12 shows the \
                       request.";

/// Returns what the user can do about a failure.
fn hint(failure: &Failure) -> Option<&'static str> {
    Some(match failure.kind {
        FailureKind::Auth => "Check the API key with /auth.",
        FailureKind::Quota => "Wait until your quota renews, or choose another model with /model.",
        FailureKind::Overflow => {
            "Compact the history with /compress, or start a new session with /clear."
        }
        FailureKind::Untrusted => "Trust the folder with /permissions.",
        FailureKind::Blocked => "Rephrase the request.",
        FailureKind::InvalidStream => "Send the prompt again.",
        FailureKind::Api if failure.status.is_some_and(|status| status >= 500) => {
            "Try again later, or choose another model with /model."
        }
        _ if failure.status == Some(400) => REFUSED,
        _ => return None,
    })
}

/// Describes the result of an undo.
pub(super) fn describe_undo(undone: &UndoResult) -> (Level, String) {
    if let Some(problem) = &undone.problem {
        return (Level::Warning, format!("Undo failed: {problem}"));
    }
    let prompt = undone.prompt.map(|number| format!("prompt {number}"));
    let prompt = prompt.unwrap_or_else(|| "a rewound prompt".to_owned());
    let text = match undone.restored.is_empty() {
        true => format!("None of the changes of {prompt} could be undone"),
        false => format!("Undid the changes of {prompt}:"),
    };
    let (level, mut text) = append_files(text, undone);
    // Only the newest changes can be reverted by force.
    let is_newer = |(_, reason): &(_, String)| reason.contains("changed");
    if let Some(number) = undone.prompt.filter(|_| undone.skipped.iter().any(is_newer)) {
        text.push_str(&format!(
            "\n  /undo {number} --force also reverts files that changed since."
        ));
    }
    (level, text)
}

/// Maximum number of reverted files that are listed.
const MAX_LISTED: usize = 10;

/// Appends the affected files; of many reverted ones, the first.
fn append_files(mut text: String, undone: &UndoResult) -> (Level, String) {
    let count = undone.restored.len();
    // A single file takes as much space as the number.
    let listed = if count > MAX_LISTED + 1 { MAX_LISTED } else { count };
    for path in undone.restored.iter().take(listed) {
        text.push_str(&format!("\n  {}", sanitize::one_row(&path.to_string_lossy())));
    }
    if count > listed {
        text.push_str(&format!("\n  … and {} more", count - listed));
    }
    for (path, reason) in &undone.skipped {
        text.push_str(&format!(
            "\n  skipped {}: {reason}",
            sanitize::one_row(&path.to_string_lossy())
        ));
    }
    (if undone.skipped.is_empty() { Level::Info } else { Level::Warning }, text)
}

/// Describes the result of restoring the state before a single change.
pub(super) fn describe_restore(undone: &UndoResult) -> (Level, String) {
    if let Some(problem) = &undone.problem {
        return (Level::Warning, format!("Restore failed: {problem}"));
    }
    append_files(undone.restore_summary().to_owned(), undone)
}

/// Describes the result of a compaction.
pub(super) fn describe_compaction(compaction: &Compaction) -> Item {
    let Compaction { cause, how, before, after, remark } = compaction;
    let remark = remark.as_deref().map(sanitize::one_row);
    match (how, cause, remark) {
        (Some(_), _, None) => LocalItem::Compressed { before: *before, after: *after }.into(),
        (Some(_), _, Some(reason)) => {
            let text = format!("Chat history compressed from {before} to {after} tokens: {reason}");
            Item::notice(Level::Info, text)
        }
        (None, CompactionCause::Undo, None) => {
            Item::notice(Level::Info, format!("Restored the history ({after} tokens)"))
        }
        (None, _, Some(reason)) if reason.starts_with(NOTHING_TO_COMPRESS) => {
            Item::notice(Level::Info, reason.into_owned())
        }
        (None, _, reason) => {
            let reason = reason.unwrap_or_default();
            Item::notice(Level::Info, format!("The history is unchanged: {reason}"))
        }
    }
}

/// Describes a rewind.
pub(super) fn describe_rewind(rewound: &RewindResult) -> (Level, String) {
    let mut text = match rewound.chat {
        true => format!("Rewound the conversation to before prompt {}", rewound.number),
        false => format!(
            "The conversation is unchanged; reverting files to before prompt {}",
            rewound.number
        ),
    };
    let Some(files) = &rewound.files else { return (Level::Info, text) };
    if let Some(problem) = &files.problem {
        text.push_str(&format!(
            "\nSome files could not be reverted: {}",
            sanitize::one_row(problem)
        ));
        return (Level::Warning, append_files(text, files).1);
    }
    text.push_str(match files.restored.is_empty() {
        true => "\nNo files were reverted",
        false => "\nReverted files:",
    });
    append_files(text, files)
}

/// Splits a thought into its subject (the first bold text, otherwise the first line) and the rest.
pub(super) fn subject(text: &str) -> (String, String) {
    if let Some((before, rest)) = text.split_once("**")
        && let Some((subject, after)) = rest.split_once("**")
    {
        return (
            subject.trim().to_owned(),
            format!("{}{}", before.trim_start(), after.trim_start()),
        );
    }
    let text = text.trim();
    match text.split_once('\n') {
        Some((first, rest)) => (first.trim().to_owned(), rest.to_owned()),
        None => (text.to_owned(), String::new()),
    }
}

/// Returns the newest subject in a thought that still grows: its last complete bold text, otherwise
/// its first line.
pub(super) fn latest_subject(text: &str) -> String {
    let mut latest = None;
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("**")
        && let Some((bold, after)) = after.split_once("**")
    {
        latest = Some(bold.trim()).filter(|bold| !bold.is_empty()).or(latest);
        rest = after;
    }
    latest.map_or_else(|| subject(text).0, str::to_owned)
}

/// Formats a duration.
pub(super) fn seconds(millis: u64) -> String {
    let seconds = millis / 1000;
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        format!("{}m {}s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_request_has_one_sentence_of_advice() {
        let failure = |message: &str| Failure {
            kind: FailureKind::Api,
            message: message.to_owned(),
            status: Some(400),
        };
        let text = |message| {
            let (_, text) = describe_turn_end(&EndReason::Failed(failure(message))).expect("text");
            text
        };
        let own = text("bad part; run `/rewind` to continue without the rejected content");
        assert_eq!(own, "Bad part.\nRun /rewind to continue without the rejected content.");
        assert_eq!(text("bad part"), format!("Bad part.\n{REFUSED}"));
    }

    #[test]
    fn many_reverted_files_are_counted() {
        let paths = |count: usize| (0..count).map(|number| format!("/p/{number}").into()).collect();
        let rows = |count| {
            let undone = UndoResult {
                turn: 1,
                prompt: Some(1),
                restored: paths(count),
                skipped: Vec::new(),
                force_helps: false,
                problem: None,
            };
            describe_undo(&undone).1
        };
        assert_eq!(rows(11).lines().count(), 12);
        let long = rows(62);
        assert_eq!(long.lines().count(), 12);
        assert!(long.ends_with("\n  … and 52 more"), "{long}");
    }
}
