//! The account that a model writes: asked for, checked, mended once, and tried
//! against the original by a second pass.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, Request, ToolSet};
use parallax_protocol::{CancellationToken, Object};

use crate::tokens;

/// What the calls are told as.
pub(crate) const ROLE: &str = "chat-compression";
/// One call may take so long.
const PATIENCE: Duration = Duration::from_secs(180);
const ASK: &str = include_str!("../../prompts/snapshot.md");
const PROBE: &str = include_str!("../../prompts/snapshot_probe.md");
const OPEN: &str = "<state_snapshot>";
const CLOSE: &str = "</state_snapshot>";
/// The elements; the first must say something.
const ELEMENTS: [&str; 7] = [
    "overall_goal",
    "active_constraints",
    "key_knowledge",
    "artifact_trail",
    "file_system_state",
    "recent_actions",
    "task_state",
];
/// Elements that must say something.
const FILLED: usize = 3;

/// What is to be written.
pub(crate) struct Order {
    pub(crate) model: Arc<dyn Model>,
    /// The model's id.
    pub(crate) name: String,
    /// The name that settings know the call by.
    pub(crate) alias: String,
    /// The part of the history, as text.
    pub(crate) transcript: String,
    /// Tokens that the account may have.
    pub(crate) limit: u64,
    /// What matters most to the person and to hooks.
    pub(crate) focus: Option<String>,
    /// Whether a second pass looks for what is missing.
    pub(crate) probe: bool,
}

/// Writes the account.
///
/// # Errors
/// Why there is none, in words.
pub(crate) async fn write(order: &Order, cancel: &CancellationToken) -> Result<String, String> {
    let mut question = history_of(order);
    if let Some(focus) = &order.focus {
        question.push_str(&format!("\n\nThe person wants this kept above all: {focus}"));
    }
    let first = order.ask(ASK, &question, cancel).await?;
    let snapshot = match check(&first, order.limit) {
        Ok(snapshot) => snapshot,
        Err(why) => {
            let again = format!(
                "{question}\n\nAn earlier attempt could not be used: {why}. Output the \
                 {OPEN} element, whole, in at most {} words.",
                order.limit / 2
            );
            check(&order.ask(ASK, &again, cancel).await?, order.limit)?
        }
    };
    if !order.probe {
        return Ok(snapshot);
    }
    let question = format!("{}\n\nThe snapshot:\n{snapshot}", history_of(order));
    // A probe that fails leaves the snapshot as good as it was.
    let better = order.ask(PROBE, &question, cancel).await;
    Ok(better.and_then(|text| check(&text, order.limit)).unwrap_or(snapshot))
}

fn history_of(order: &Order) -> String {
    format!("<history>\n{}\n</history>", order.transcript)
}

impl Order {
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
            gives_way: false,
            is_retry: false,
            taken: None,
        };
        let answer = self.model.generate(request, cancel.child_token());
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Ok(answer.text()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the model took too long".into()),
        }
    }
}

/// Takes the snapshot out of an answer.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(answer: &str, limit: u64) -> Result<String, String> {
    if answer.trim().is_empty() {
        return Err("it was empty".into());
    }
    let end = answer.rfind(CLOSE);
    let begin = answer.get(..end.unwrap_or(answer.len())).and_then(|text| text.rfind(OPEN));
    let (Some(begin), Some(end)) = (begin, end) else {
        let cut = end.is_none() && begin.is_some();
        return Err(if cut { "it was cut off" } else { "it had no snapshot" }.into());
    };
    let snapshot = answer.get(begin..end + CLOSE.len()).unwrap_or_default();
    let filled = ELEMENTS.iter().filter(|element| says(snapshot, element)).count();
    if !says(snapshot, ELEMENTS[0]) || filled < FILLED {
        return Err("its elements were missing or empty".into());
    }
    let size = tokens::of_text(snapshot);
    if size > limit {
        return Err(format!("it was too long, about {size} tokens"));
    }
    Ok(snapshot.to_owned())
}

/// Whether an element is there with something in it.
fn says(snapshot: &str, element: &str) -> bool {
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
    fn only_a_whole_snapshot_passes() {
        let good = snapshot("mend it");
        let answer = format!("<scratchpad>{OPEN} comes</scratchpad>\n{good}\nDone.");
        assert_eq!(check(&answer, 1_000), Ok(good.clone()));
        for bad in ["", "I cannot help with that.", good.trim_end_matches(CLOSE), &snapshot(" ")] {
            assert!(check(bad, 1_000).is_err(), "{bad}");
        }
        assert!(check(&good, 10).is_err_and(|why| why.contains("too long")));
        assert!(check(CLOSE, 10).is_err());
    }
}
