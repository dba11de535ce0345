//! Records which hooks ran in a session and what they answered, for debugging.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use parallax_config::hooks::Hook;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::hooks::HookDecision;
use parallax_protocol::ids::SessionId;
use parallax_store::SessionDirs;
use serde::{Deserialize, Serialize};

use crate::own::append;
use crate::result::{HookResult, sanitize};

/// Name of the trace file in the session's directory.
pub const TRACE: &str = "hooks.jsonl";
/// Maximum bytes that are read of the file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum bytes of a string in the file.
const TEXT: usize = 500;

/// One run of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookTraceEntry {
    /// When the run ended.
    pub time: String,
    /// The event.
    pub event: String,
    /// The tool name or other subject of the event.
    #[serde(rename = "subject", default, skip_serializing_if = "String::is_empty")]
    pub matcher_subject: String,
    /// Name or command of the hook.
    pub hook: String,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// `allow`, `ask`, `deny`, or `stop`; empty if the hook made no decision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// The reason, or the message for the user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl HookTraceEntry {
    /// Formats the run without its time in one line.
    pub fn line(&self) -> String {
        let Self { event, matcher_subject, hook, duration_ms, answer, text, .. } = self;
        let of =
            if matcher_subject.is_empty() { String::new() } else { format!(" {matcher_subject}") };
        let mut line = format!("{event}{of}: `{hook}`, {duration_ms} ms");
        for piece in [answer, text].into_iter().filter(|piece| !piece.is_empty()) {
            line.push_str(", ");
            line.push_str(piece);
        }
        line
    }
}

/// The trace file of a session.
#[derive(Debug)]
pub(crate) struct Trace {
    path: Option<PathBuf>,
}

impl Trace {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path }
    }

    /// Records a run. Write errors are ignored.
    pub(crate) async fn note(
        &self,
        hook: &Hook,
        subject: &str,
        took: Duration,
        output: &HookResult,
    ) {
        let Some(path) = self.path.clone() else { return };
        let answer = match (&output.stop, output.decision) {
            (Some(_), _) => "stop",
            (None, Some(HookDecision::Deny)) => "deny",
            (None, Some(HookDecision::Ask)) => "ask",
            (None, Some(HookDecision::Allow)) => "allow",
            (None, None) => "",
        };
        let text = output.stop.as_ref().unwrap_or(&output.reason);
        let joined_messages =
            || output.messages.iter().map(|it| it.1.as_str()).collect::<Vec<_>>().join("; ");
        let mut text = if text.is_empty() { joined_messages() } else { text.clone() };
        for skipped in &output.skipped {
            text.push_str(if text.is_empty() { "" } else { "; " });
            text.push_str(skipped);
        }
        let entry = HookTraceEntry {
            time: Timestamp::now().to_string(),
            event: hook.event.as_str().to_owned(),
            matcher_subject: sanitize(subject, TEXT),
            hook: sanitize(hook.title(), TEXT),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            answer: answer.to_owned(),
            text: sanitize(&text, TEXT),
        };
        let append_task = tokio::task::spawn_blocking(move || append(&path, &entry));
        if let Ok(Err(error)) = append_task.await {
            tracing::debug!(%error, "failed to record the run of a hook");
        }
    }
}

/// Returns the hook runs of a session of the project, or of the most recent session with hook
/// runs. Blocking.
///
/// # Errors
/// Returns an error if no hook runs are recorded.
pub fn hook_trace(
    dirs: &SessionDirs,
    directory: &Path,
    session: Option<&str>,
) -> Result<Vec<HookTraceEntry>, Failure> {
    let path = match session {
        Some(id) => {
            let root = dirs.artifacts(directory, &SessionId::new(id));
            Some(root.root().join(TRACE)).filter(|path| path.is_file())
        }
        None => {
            let project = parallax_store::project_folder(directory);
            newest(&dirs.temporary.join(project))
        }
    };
    let read = path.as_deref().and_then(|path| read(path).ok()).unwrap_or_default();
    match read.is_empty() {
        true => Err(Failure::new(FailureKind::Input, "no hook ran".to_owned())),
        false => Ok(read),
    }
}

fn newest(directory: &Path) -> Option<PathBuf> {
    let sessions = std::fs::read_dir(directory).ok()?.flatten();
    let files = sessions.filter_map(|session| {
        let path = session.path().join(TRACE);
        Some((path.metadata().ok()?.modified().ok()?, path))
    });
    files.max().map(|(_, path)| path)
}

fn read(path: &Path) -> std::io::Result<Vec<HookTraceEntry>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}
