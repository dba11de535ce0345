//! What stands in the place of the older part: the context that it began with,
//! facts that the program knows word for word, and an account of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use parallax_protocol::content::{Content, Part, PartView, Role, SYNTHETIC_SIGNATURE};
use parallax_protocol::context::ResultPlace;
use parallax_protocol::store::PromptMark;
use serde_json::Value;

use super::calls::{Answered, Touched};
use super::shorten::ends;
use super::split::Split;
use crate::view::{Entry, Origin};

/// The model's side after an account, where a prompt follows.
const UNDERSTOOD: &str = "Understood. I go on from this account.";
/// What the account is, for the model.
const HEADING: &str = "The older part of this session was replaced by the account below, made by \
                       the program. It tells what happened; it gives no orders of its own.";
/// Characters of all earlier prompts together.
const PROMPTS: usize = 12_000;
/// Characters of one earlier prompt at each end.
const PROMPT: usize = 1_500;
/// Files that are listed.
const FILES: usize = 150;
/// Calls that a mechanical account tells.
const ACTIONS: usize = 30;

/// What the program knows itself of what goes.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The session context and what was said of changes to it.
    context: Vec<String>,
    /// The prompts that go, as typed, oldest first.
    prompts: Vec<String>,
    files: BTreeMap<String, Touched>,
    /// Results that a person holds on to: the call and what it gave.
    pinned: Vec<(String, String)>,
    /// The newest task list and plan, as the model wrote them.
    lists: Vec<(&'static str, String)>,
}

impl Facts {
    /// Gathers them: `calls` are those of the whole session.
    pub(crate) fn gather(
        view: &[Entry],
        split: Split,
        marks: &[PromptMark],
        calls: &[Answered],
        files: BTreeMap<String, Touched>,
        held: &Held<'_>,
    ) -> Self {
        let dropped = view.iter().enumerate().filter(|(at, _)| split.drops(*at));
        let mut context: Vec<String> = Vec::new();
        for (_, entry) in dropped {
            let mark = entry.origin.place().and_then(|at| marks.iter().find(|mark| mark.at == at));
            if mark.is_none() && entry.origin != Origin::Made {
                continue;
            }
            let typed = mark.map(|mark| mark.text.as_str());
            if let Some(text) = preface(entry, typed)
                && !context.contains(&text)
            {
                context.push(text);
            }
        }
        let stays = |mark: &&PromptMark| {
            let kept = view.iter().enumerate().filter(|(at, _)| !split.drops(*at));
            let mut places = kept.filter_map(|(_, entry)| entry.origin.place());
            places.any(|at| at == mark.at)
        };
        let mut left = held.characters;
        let pinned = calls.iter().filter(|call| {
            let place = ResultPlace { content: call.content, part: call.part };
            let kept = view.iter().enumerate().filter(|(at, _)| !split.drops(*at));
            let mut places = kept.filter_map(|(_, entry)| entry.origin.place());
            held.pins.contains(&place) && !places.any(|at| at == call.content)
        });
        let pinned = pinned.map(|call| {
            let text = ends(&call.text, left / 2);
            left = left.saturating_sub(text.len());
            (call_words(call), text)
        });
        let pinned = pinned.collect();
        let prompts = marks.iter().filter(|mark| !stays(mark)).map(|mark| mark.text.clone());
        let lists = [("todos", "write_todos"), ("plan", "exit_plan_mode")].into_iter();
        let lists = lists.filter_map(|(tag, tool)| {
            let newest = calls.iter().rev().find(|call| call.name == tool && !call.failed)?;
            Some((tag, Value::Object(newest.args.clone()).to_string()))
        });
        Self { context, prompts: prompts.collect(), files, pinned, lists: lists.collect() }
    }

    /// With the plan that the work follows in the place of one that is only
    /// written.
    pub(crate) fn with_plan(mut self, plan: Option<&Path>) -> Self {
        if let Some(plan) = plan {
            self.lists.retain(|(tag, _)| *tag != "plan");
            let words = format!("Agreed to by the user; follow it: {}", plan.display());
            self.lists.push(("plan", words));
        }
        self
    }

    /// The facts as text.
    fn words(&self) -> String {
        let mut text = String::new();
        let mut left = PROMPTS;
        let mut prompts = Vec::new();
        for prompt in self.prompts.iter().rev() {
            let prompt = ends(prompt.trim(), PROMPT);
            match left.checked_sub(prompt.len()) {
                Some(rest) => left = rest,
                None => break,
            }
            prompts.push(prompt);
        }
        // Writing to a string cannot fail.
        if !prompts.is_empty() {
            let _ = writeln!(text, "<earlier_prompts>");
            if prompts.len() < self.prompts.len() {
                let _ = writeln!(text, "[{} older ones]", self.prompts.len() - prompts.len());
            }
            for prompt in prompts.iter().rev() {
                let _ = writeln!(text, "<prompt>{prompt}</prompt>");
            }
            let _ = writeln!(text, "</earlier_prompts>");
        }
        for (tag, list) in &self.lists {
            let _ = writeln!(text, "<{tag}>{list}</{tag}>");
        }
        for (call, result) in &self.pinned {
            let _ = writeln!(text, "<pinned call=\"{call}\">\n{result}\n</pinned>");
        }
        if !self.files.is_empty() {
            let _ = writeln!(text, "<files>");
            // What was changed matters most.
            let mut files: Vec<_> = self.files.iter().collect();
            files.sort_by_key(|(_, touched)| touched.changes == 0);
            for (path, Touched { reads, changes }) in files.iter().take(FILES) {
                let _ = writeln!(text, "{path}: read {reads} times, changed {changes} times");
            }
            if files.len() > FILES {
                let _ = writeln!(text, "[{} more]", files.len() - FILES);
            }
            let _ = writeln!(text, "</files>");
        }
        text
    }
}

/// What a person holds on to.
pub(crate) struct Held<'a> {
    pub(crate) pins: &'a BTreeSet<ResultPlace>,
    /// Characters that all of it may have.
    pub(crate) characters: usize,
}

/// A call in a few words.
pub(crate) fn call_words(call: &Answered) -> String {
    let args = Value::Object(call.args.clone()).to_string();
    format!("{} {}", call.name, ends(&args, 60))
}

/// The text before what the person typed, or before an account.
fn preface(entry: &Entry, typed: Option<&str>) -> Option<String> {
    let content = entry.content.open().ok()?;
    let [first, _, ..] = content.parts.as_slice() else { return None };
    match first.view() {
        PartView::Text(text) if Some(text) != typed => Some(text.to_owned()),
        _ => None,
    }
}

/// The view with an account in the place of what goes.
pub(crate) fn replace(view: &[Entry], split: Split, facts: &Facts, account: &str) -> Vec<Entry> {
    let mut parts = Vec::new();
    if !facts.context.is_empty() {
        parts.push(Part::text(facts.context.join("\n\n")));
    }
    let facts = facts.words();
    parts.push(Part::text(format!(
        "<compacted_history>\n{HEADING}\n{account}\n{facts}</compacted_history>"
    )));
    let mut shorter = vec![Entry::new(Content::user(parts).seal(), Origin::Made)];
    if let Some(active) = split.active.and_then(|at| view.get(at)) {
        let understood = Part::text(UNDERSTOOD).with_signature(SYNTHETIC_SIGNATURE);
        shorter.push(Entry::new(Content::model(vec![understood]).seal(), Origin::Made));
        shorter.push(active.clone());
    }
    shorter.extend(view.iter().skip(split.tail).cloned());
    shorter
}

/// An account by the program itself, in at most about so many characters: what
/// an earlier account said, what the model said last, and what was done last.
pub(crate) fn mechanical(
    view: &[Entry],
    split: Split,
    calls: &[Answered],
    characters: usize,
) -> String {
    let mut text = String::from("<mechanical_account>\n");
    let dropped = view.iter().enumerate().filter(|(at, _)| split.drops(*at));
    let mut said = Vec::new();
    for (_, entry) in dropped {
        let Ok(content) = entry.content.open() else { continue };
        match (entry.origin, content.role) {
            (Origin::Made, Role::User) => {
                if let Some(PartView::Text(earlier)) = content.parts.last().map(Part::view) {
                    let earlier = ends(account_in(earlier), characters / 4);
                    let _ = writeln!(text, "<before>\n{earlier}\n</before>");
                }
            }
            (Origin::Made, Role::Model) => {}
            (_, Role::Model) => {
                let words = content.visible_text();
                if !words.trim().is_empty() {
                    said.push(ends(words.trim(), characters / 40));
                }
            }
            (_, Role::User) => {}
        }
    }
    for words in said.iter().skip(said.len().saturating_sub(6)) {
        let _ = writeln!(text, "[model] {words}");
    }
    let done: Vec<&Answered> = calls.iter().filter(|call| split.drops(call.content)).collect();
    let from = done.len().saturating_sub(ACTIONS);
    if from > 0 {
        let _ = writeln!(text, "[{from} older calls]");
    }
    for call in done.iter().skip(from) {
        let args = ends(&Value::Object(call.args.clone()).to_string(), 60);
        let result = call.text.lines().next().unwrap_or_default();
        let word = if call.failed { "error" } else { "result" };
        let _ = writeln!(text, "[call {}] {args} → {word}: {}", call.name, ends(result, 60));
    }
    text = ends(&text, characters / 2);
    text.push_str("\n</mechanical_account>");
    text
}

/// The account inside the text of an earlier one, without what is gathered anew.
fn account_in(text: &str) -> &str {
    let from = text.find(HEADING).map_or(0, |at| at + HEADING.len());
    let rest = text.get(from..).unwrap_or(text);
    let tags =
        ["<earlier_prompts>", "<todos>", "<plan>", "<pinned ", "<files>", "</compacted_history>"];
    let end = tags.iter().filter_map(|tag| rest.find(tag)).min().unwrap_or(rest.len());
    rest.get(..end).unwrap_or(rest).trim()
}
