//! The summary that a model writes: requested, validated, repaired once, and verified against
//! the original by a second pass.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, Request, ToolSet};
use parallax_protocol::{CancellationToken, Object};

use crate::tokens;

/// The role of the requests.
pub(crate) const ROLE: &str = "chat-compression";
/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(180);
const ASK: &str = include_str!("../../../prompts/snapshot.md");
const PROBE: &str = include_str!("../../../prompts/snapshot_probe.md");
const OPEN: &str = "<state_snapshot>";
const CLOSE: &str = "</state_snapshot>";
/// The elements; the first must not be empty.
const ELEMENTS: [&str; 7] = [
    "overall_goal",
    "active_constraints",
    "key_knowledge",
    "artifact_trail",
    "file_system_state",
    "recent_actions",
    "task_state",
];
/// Minimum number of non-empty elements.
const MIN_FILLED: usize = 3;

/// A request for a summary.
pub(crate) struct SummaryRequest {
    pub(crate) model: Arc<dyn Model>,
    /// The model's id.
    pub(crate) name: String,
    /// The name that settings use for the request.
    pub(crate) alias: String,
    /// The part of the history to summarize, as text.
    pub(crate) transcript: String,
    /// Maximum tokens of the summary.
    pub(crate) limit: u64,
    /// What the user and hooks want to keep.
    pub(crate) focus: Option<String>,
    /// Whether a second pass looks for omissions.
    pub(crate) probe: bool,
}

/// Writes the summary.
///
/// # Errors
/// Returns the reason if the model wrote no valid summary.
pub(crate) async fn write(
    summary_request: &SummaryRequest,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let mut question = history_block(summary_request);
    if let Some(focus) = &summary_request.focus {
        question.push_str(&format!("\n\nThe user wants to keep above all: {focus}"));
    }
    let first = summary_request.ask(ASK, &question, cancel).await?;
    let snapshot = match check(&first, summary_request.limit) {
        Ok(snapshot) => snapshot,
        Err(reason) => {
            let retry_question = format!(
                "{question}\n\nAn earlier attempt was invalid: {reason}. Output the complete {OPEN} \
                    element in at most {} words.",
                summary_request.limit / 2
            );
            check(&summary_request.ask(ASK, &retry_question, cancel).await?, summary_request.limit)?
        }
    };
    if !summary_request.probe {
        return Ok(snapshot);
    }
    let question = format!("{}\n\nThe snapshot:\n{snapshot}", history_block(summary_request));
    // If the probe fails, the first summary stands.
    let better = summary_request.ask(PROBE, &question, cancel).await;
    Ok(better.and_then(|text| check(&text, summary_request.limit)).unwrap_or(snapshot))
}

fn history_block(summary_request: &SummaryRequest) -> String {
    format!("<history>\n{}\n</history>", summary_request.transcript)
}

impl SummaryRequest {
    async fn ask(
        &self,
        system: &str,
        question: &str,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        let request = Request {
            model: self.name.clone(),
            system: Arc::from(system),
            contents: vec![Content::user(vec![Part::text(question)]).seal()],
            tools: ToolSet::None,
            generation: Object::new(),
            role: ROLE.into(),
            alias: self.alias.clone(),
            max_attempts: Some(3),
            has_fallback: false,
            is_retry: false,
            continuation: None,
        };
        let answer = self.model.generate(request, cancel.child_token());
        match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(answer)) => Ok(answer.text()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the model timed out".into()),
        }
    }
}

/// Extracts the snapshot from a response.
///
/// # Errors
/// Returns what is wrong with the response.
pub(crate) fn check(answer: &str, limit: u64) -> Result<String, String> {
    if answer.trim().is_empty() {
        return Err("it was empty".into());
    }
    let end = answer.rfind(CLOSE);
    let start = answer.get(..end.unwrap_or(answer.len())).and_then(|text| text.rfind(OPEN));
    let (Some(begin), Some(end)) = (start, end) else {
        let cut = end.is_none() && start.is_some();
        return Err(if cut { "it was truncated" } else { "it contained no snapshot" }.into());
    };
    let snapshot = answer.get(begin..end + CLOSE.len()).unwrap_or_default();
    let filled = ELEMENTS.iter().filter(|element| has_text(snapshot, element)).count();
    if !has_text(snapshot, ELEMENTS[0]) || filled < MIN_FILLED {
        return Err("elements were missing or empty".into());
    }
    let size = tokens::estimate_text(snapshot);
    if size > limit {
        return Err(format!("it was too long, about {size} tokens"));
    }
    Ok(snapshot.to_owned())
}

/// Whether an element exists and is not empty.
fn has_text(snapshot: &str, element: &str) -> bool {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let inside = snapshot.split_once(&open).and_then(|(_, rest)| rest.split_once(&close));
    inside.is_some_and(|(text, _)| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(goal: &str) -> String {
        format!(
            "{OPEN}<overall_goal>{goal}</overall_goal><key_knowledge>a</key_knowledge>\
             <task_state>b</task_state>{CLOSE}"
        )
    }

    #[test]
    fn only_a_complete_summary_is_accepted() {
        let good = snapshot("fix it");
        let answer = format!("<scratchpad>{OPEN} comes</scratchpad>\n{good}\nDone.");
        assert_eq!(check(&answer, 1_000), Ok(good.clone()));
        for bad in ["", "I cannot help with that.", good.trim_end_matches(CLOSE), &snapshot(" ")] {
            assert!(check(bad, 1_000).is_err(), "{bad}");
        }
        assert!(check(&good, 10).is_err_and(|reason| reason.contains("too long")));
        assert!(check(CLOSE, 10).is_err());
    }
}
