//! Builds the replacement of the older part of the history: its initial context, facts that are
//! copied verbatim, and a summary of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use parallax_protocol::content::{Content, Part, PartView, Role, SYNTHETIC_SIGNATURE};
use parallax_protocol::context::ResultLocation;
use parallax_protocol::store::RewindTarget;
use serde_json::Value;

use super::call_results::{CallResult, FileActivity};
use super::masking::truncate_middle;
use super::split::HistorySplit;
use crate::view::{EntryOrigin, ViewEntry};

/// The model's turn after a summary that is followed by a prompt.
const UNDERSTOOD: &str = "Understood. I will continue from this summary.";
/// Explains the summary to the model.
const HEADING_TEXT: &str = "The older part of this session was replaced by the summary below. It \
    describes what happened and contains no instructions.";
/// Maximum number of characters of all earlier prompts together.
const PROMPTS: usize = 12_000;
/// Number of characters kept at each end of one earlier prompt.
const PROMPT: usize = 1_500;
/// Maximum number of files listed.
const FILES: usize = 150;
/// Maximum number of calls in a generated summary.
const ACTIONS: usize = 30;

/// Facts about the dropped part that are copied verbatim.
#[derive(Debug, Default)]
pub(crate) struct PreservedDetails {
    /// The session context and notes about its changes.
    context: Vec<String>,
    /// The dropped prompts, as typed, oldest first.
    prompts: Vec<String>,
    files: BTreeMap<String, FileActivity>,
    /// Pinned results: the call and its output.
    pinned: Vec<(String, String)>,
    /// The newest task list and plan, as the model wrote them.
    documents: Vec<(&'static str, String)>,
}

impl PreservedDetails {
    /// Collects the facts: `calls` are those of the whole session.
    pub(crate) fn collect(
        view: &[ViewEntry],
        split: HistorySplit,
        marks: &[RewindTarget],
        calls: &[CallResult],
        files: BTreeMap<String, FileActivity>,
        pinned: &PinnedResults<'_>,
    ) -> Self {
        let dropped = view.iter().enumerate().filter(|(index, _)| split.is_dropped(*index));
        let mut context: Vec<String> = Vec::new();
        for (_, entry) in dropped {
            let mark = entry
                .origin
                .content_index()
                .and_then(|offset| marks.iter().find(|mark| mark.at == offset));
            if mark.is_none() && entry.origin != EntryOrigin::Generated {
                continue;
            }
            let typed = mark.map(|mark| mark.text.as_str());
            if let Some(text) = preface(entry, typed)
                && !context.contains(&text)
            {
                context.push(text);
            }
        }
        let stays = |mark: &&RewindTarget| {
            let remaining = view.iter().enumerate().filter(|(index, _)| !split.is_dropped(*index));
            let mut indexes = remaining.filter_map(|(_, entry)| entry.origin.content_index());
            indexes.any(|at| at == mark.at)
        };
        let mut left = pinned.characters;
        let pinned = calls.iter().filter(|call| {
            let position = ResultLocation { content: call.content, part: call.part };
            let remaining = view.iter().enumerate().filter(|(index, _)| !split.is_dropped(*index));
            let mut indexes = remaining.filter_map(|(_, entry)| entry.origin.content_index());
            pinned.pins.contains(&position) && !indexes.any(|at| at == call.content)
        });
        let pinned = pinned.map(|call| {
            let text = truncate_middle(&call.text, left / 2);
            left = left.saturating_sub(text.len());
            (call_title(call), text)
        });
        let pinned = pinned.collect();
        let prompts = marks.iter().filter(|mark| !stays(mark)).map(|mark| mark.text.clone());
        let lists = [("todos", "write_todos"), ("plan", "exit_plan_mode")].into_iter();
        let lists = lists.filter_map(|(tag, tool)| {
            let newest = calls.iter().rev().find(|call| call.name == tool && !call.failed)?;
            Some((tag, Value::Object(newest.args.clone()).to_string()))
        });
        Self { context, prompts: prompts.collect(), files, pinned, documents: lists.collect() }
    }

    /// Replaces a written plan with the approved one.
    pub(crate) fn with_plan(mut self, plan: Option<&Path>) -> Self {
        if let Some(plan) = plan {
            self.documents.retain(|(tag, _)| *tag != "plan");
            let words = format!("Approved by the user; follow it: {}", plan.display());
            self.documents.push(("plan", words));
        }
        self
    }

    /// Returns the facts as text.
    fn to_text(&self) -> String {
        let mut text = String::new();
        let mut remaining = PROMPTS;
        let mut prompts = Vec::new();
        for prompt in self.prompts.iter().rev() {
            let prompt = truncate_middle(prompt.trim(), PROMPT);
            match remaining.checked_sub(prompt.len()) {
                Some(rest) => remaining = rest,
                None => break,
            }
            prompts.push(prompt);
        }
        // Writing to a string cannot fail.
        if !prompts.is_empty() {
            let _ = writeln!(text, "<earlier_prompts>");
            if prompts.len() < self.prompts.len() {
                let _ = writeln!(text, "[{} older prompts]", self.prompts.len() - prompts.len());
            }
            for prompt in prompts.iter().rev() {
                let _ = writeln!(text, "<prompt>{prompt}</prompt>");
            }
            let _ = writeln!(text, "</earlier_prompts>");
        }
        for (tag, list) in &self.documents {
            let _ = writeln!(text, "<{tag}>{list}</{tag}>");
        }
        for (call, result) in &self.pinned {
            let _ = writeln!(text, "<pinned call=\"{call}\">\n{result}\n</pinned>");
        }
        if !self.files.is_empty() {
            let _ = writeln!(text, "<files>");
            // Changed files matter most.
            let mut files: Vec<_> = self.files.iter().collect();
            files.sort_by_key(|(_, touched)| touched.changes == 0);
            for (path, FileActivity { read_count, changes }) in files.iter().take(FILES) {
                let _ = writeln!(text, "{path}: read {read_count} times, changed {changes} times");
            }
            if files.len() > FILES {
                let _ = writeln!(text, "[{} more]", files.len() - FILES);
            }
            let _ = writeln!(text, "</files>");
        }
        text
    }
}

/// The user's pinned results.
pub(crate) struct PinnedResults<'a> {
    pub(crate) pins: &'a BTreeSet<ResultLocation>,
    /// Characters that all pinned results may have.
    pub(crate) characters: usize,
}

/// Returns a short title of a call.
pub(crate) fn call_title(call: &CallResult) -> String {
    let args = Value::Object(call.args.clone()).to_string();
    format!("{} {}", call.name, truncate_middle(&args, 60))
}

/// Returns the text before the user's prompt, or before a summary.
fn preface(entry: &ViewEntry, typed: Option<&str>) -> Option<String> {
    let content = entry.content.open().ok()?;
    let [first, _, ..] = content.parts.as_slice() else { return None };
    match first.view() {
        PartView::Text(text) if Some(text) != typed => Some(text.to_owned()),
        _ => None,
    }
}

/// Returns the view with a summary in place of the dropped entries.
pub(crate) fn replace(
    view: &[ViewEntry],
    split: HistorySplit,
    details: &PreservedDetails,
    summary: &str,
) -> Vec<ViewEntry> {
    let mut parts = Vec::new();
    if !details.context.is_empty() {
        parts.push(Part::text(details.context.join("\n\n")));
    }
    let details = details.to_text();
    parts.push(Part::text(format!(
        "<compacted_history>\n{HEADING_TEXT}\n{summary}\n{details}</compacted_history>"
    )));
    let mut shorter = vec![ViewEntry::new(Content::user(parts).seal(), EntryOrigin::Generated)];
    if let Some(active) = split.active.and_then(|at| view.get(at)) {
        let understood = Part::text(UNDERSTOOD).with_signature(SYNTHETIC_SIGNATURE);
        shorter
            .push(ViewEntry::new(Content::model(vec![understood]).seal(), EntryOrigin::Generated));
        shorter.push(active.clone());
    }
    shorter.extend(view.iter().skip(split.tail).cloned());
    shorter
}

/// Writes a summary without the model in about `characters` characters: the previous summary, the
/// model's last messages, and the last calls.
pub(crate) fn mechanical_summary(
    view: &[ViewEntry],
    split: HistorySplit,
    calls: &[CallResult],
    characters: usize,
) -> String {
    let mut text = String::from("<mechanical_account>\n");
    let dropped = view.iter().enumerate().filter(|(index, _)| split.is_dropped(*index));
    let mut output = Vec::new();
    for (_, entry) in dropped {
        let Ok(content) = entry.content.open() else { continue };
        match (entry.origin, content.role) {
            (EntryOrigin::Generated, Role::User) => {
                if let Some(PartView::Text(earlier)) = content.parts.last().map(Part::view) {
                    let earlier = truncate_middle(previous_summary(earlier), characters / 4);
                    let _ = writeln!(text, "<before>\n{earlier}\n</before>");
                }
            }
            (EntryOrigin::Generated, Role::Model) => {}
            (_, Role::Model) => {
                let words = content.visible_text();
                if !words.trim().is_empty() {
                    output.push(truncate_middle(words.trim(), characters / 40));
                }
            }
            (_, Role::User) => {}
        }
    }
    for words in output.iter().skip(output.len().saturating_sub(6)) {
        let _ = writeln!(text, "[model] {words}");
    }
    let done: Vec<&CallResult> =
        calls.iter().filter(|call| split.is_dropped(call.content)).collect();
    let from = done.len().saturating_sub(ACTIONS);
    if from > 0 {
        let _ = writeln!(text, "[{from} older calls]");
    }
    for call in done.iter().skip(from) {
        let args = truncate_middle(&Value::Object(call.args.clone()).to_string(), 60);
        let result = call.text.lines().next().unwrap_or_default();
        let word = if call.failed { "error" } else { "result" };
        let _ =
            writeln!(text, "[call {}] {args} → {word}: {}", call.name, truncate_middle(result, 60));
    }
    text = truncate_middle(&text, characters / 2);
    text.push_str("\n</mechanical_account>");
    text
}

/// Returns the summary inside a previous one, without the facts that are collected again.
fn previous_summary(text: &str) -> &str {
    let from = text.find(HEADING_TEXT).map_or(0, |offset| offset + HEADING_TEXT.len());
    let rest = text.get(from..).unwrap_or(text);
    let tags =
        ["<earlier_prompts>", "<todos>", "<plan>", "<pinned ", "<files>", "</compacted_history>"];
    let end = tags.iter().filter_map(|tag| rest.find(tag)).min().unwrap_or(rest.len());
    rest.get(..end).unwrap_or(rest).trim()
}
