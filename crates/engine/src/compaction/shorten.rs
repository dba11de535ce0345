//! The cheap pass: old results become short, and no word of anybody is lost.
//!
//! A result that came again is a note, an older copy of a file that was read
//! again or changed since is a note, and a bulky one goes to a file with its
//! beginning and end left in its place. Calls and their order stay.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part, PartView};
use parallax_protocol::context::ResultPlace;
use parallax_protocol::tool::ToolKind;
use serde_json::Value;

use super::calls::{Answered, answered};
use super::whole::{kept, without_note};
use crate::tokens;
use crate::view::{Entry, Origin};

/// Puts the whole text of a result where the model can read on: tool, text.
pub type KeepOutput = Arc<dyn Fn(&str, &str) -> Result<PathBuf, String> + Send + Sync>;

/// Stands around what is left of a bulky result.
const MASKED: &str = "<tool_output_masked>";
/// Tools whose results are never shortened: they are instructions or answers.
const EXEMPT: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];
/// Shorter results stay: a note would be no shorter.
const SMALLEST: u64 = 150;
/// Tokens of what stands around what is left of a result, about.
const FRAME: u64 = 60;
/// Lines at each end of a command's output.
const LINES: usize = 10;
/// Characters at each end of any other output.
const CHARACTERS: usize = 250;
/// Characters at each end of a command's output at most.
const LONGEST_END: usize = 2_000;

/// How much is shortened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// Tokens of the newest results that stay.
    pub(crate) protect: u64,
    /// Nothing happens when less could be masked.
    pub(crate) at_least: u64,
    /// Whether the newest content stays as it is.
    pub(crate) protect_newest: bool,
    /// Whether copies and repetitions become notes too.
    pub(crate) notes: bool,
}

/// Shortens results; `None` when there is nothing to shorten.
pub(crate) fn shorten(
    view: &[Entry],
    reach: Reach,
    kinds: &HashMap<String, ToolKind>,
    pins: &BTreeSet<ResultPlace>,
    keep_output: Option<&KeepOutput>,
) -> Option<Vec<Entry>> {
    let calls = answered(view.iter().map(|entry| &entry.content));
    let newest = view.len().checked_sub(1).filter(|_| reach.protect_newest);
    let changes = |name: &str| matches!(kinds.get(name), Some(ToolKind::Edit | ToolKind::Delete));
    let mut seen: HashSet<(&str, String, &str)> = HashSet::new();
    let mut current: HashSet<&str> = HashSet::new();
    let mut places: HashMap<usize, Vec<(usize, String)>> = HashMap::new();
    let mut bulky = Vec::new();
    let (mut newer, mut prunable) = (0, 0);
    for call in calls.iter().rev() {
        let size = tokens::of_text(&call.text);
        let arguments = Value::Object(call.args.clone()).to_string();
        let again = !seen.insert((&call.name, arguments, &call.text));
        let superseded = call.name == "read_file"
            && !call.failed
            && call.path().is_some_and(|path| current.contains(path));
        if let Some(path) = call.path().filter(|_| !call.failed)
            && (changes(&call.name) || is_whole_read(call))
        {
            current.insert(path);
        }
        let stays = size < SMALLEST
            || newest == Some(call.content)
            || place_of(view, call).is_some_and(|place| pins.contains(&place))
            || EXEMPT.contains(&call.name.as_str())
            || call.text.starts_with(MASKED);
        if newest == Some(call.content) {
            continue;
        }
        newer += size;
        if stays {
            continue;
        }
        let note = match call.path() {
            _ if !reach.notes => None,
            _ if again => Some("[The same call gave the same result later; see there.]".to_owned()),
            Some(path) if superseded => Some(format!(
                "[An older copy of `{path}` stood here; it was read again or changed later.]"
            )),
            _ => None,
        };
        if let Some(note) = note {
            places.entry(call.content).or_default().push((call.part, note));
        } else if newer > reach.protect {
            prunable += size;
            bulky.push(call);
        }
    }
    if prunable >= reach.at_least {
        for call in bulky {
            if let Some(text) = masked(call, &preview(call, kinds), keep_output) {
                places.entry(call.content).or_default().push((call.part, text));
            }
        }
    }
    (!places.is_empty()).then(|| with_notes(view, places))
}

/// Takes so many tokens out of the newest results: the largest first, and of the last
/// of them no more than is needed. `None` when there is nothing to shorten.
pub(crate) fn shorten_newest(
    view: &[Entry],
    over: u64,
    kinds: &HashMap<String, ToolKind>,
    pins: &BTreeSet<ResultPlace>,
    keep_output: Option<&KeepOutput>,
) -> Option<Vec<Entry>> {
    let newest = view.len().checked_sub(1)?;
    let mut calls = answered(view.iter().map(|entry| &entry.content));
    calls.retain(|call| {
        call.content == newest
            && !EXEMPT.contains(&call.name.as_str())
            && !call.text.starts_with(MASKED)
            && place_of(view, call).is_none_or(|place| !pins.contains(&place))
    });
    calls.sort_by_key(|call| std::cmp::Reverse(tokens::of_text(&call.text)));
    let (mut left, mut results) = (over, Vec::new());
    for call in calls {
        let size = tokens::of_text(&call.text);
        if left == 0 || size < SMALLEST {
            break;
        }
        // What stands around it, and what escapes add.
        let stays = size.saturating_sub(left + left / 10 + 2 * FRAME);
        let share = u128::from(stays) * call.text.chars().count() as u128 / u128::from(size);
        let part =
            ends(&without_note(&call.text), usize::try_from(share / 2).unwrap_or(usize::MAX));
        let usual = preview(&call, kinds);
        let shown = if part.len() > usual.len() { part } else { usual };
        if let Some(text) = masked(&call, &shown, keep_output) {
            left = left.saturating_sub(size.saturating_sub(tokens::of_text(&text)));
            results.push((call.part, text));
        }
    }
    let places = HashMap::from([(newest, results)]);
    places.values().any(|results| !results.is_empty()).then(|| with_notes(view, places))
}

/// Where the result of a call is among all contents, which a view keeps.
pub(crate) fn place_of(view: &[Entry], call: &Answered) -> Option<ResultPlace> {
    let content = view.get(call.content)?.origin.place()?;
    Some(ResultPlace { content, part: call.part })
}

/// The view with texts in the place of results, by entry and part.
pub(crate) fn with_notes(
    view: &[Entry],
    places: HashMap<usize, Vec<(usize, String)>>,
) -> Vec<Entry> {
    let mut view = view.to_vec();
    for (at, results) in places {
        if let Some(entry) = view.get_mut(at)
            && let Some(shorter) = with_results(entry, &results)
        {
            *entry = shorter;
        }
    }
    view
}

fn is_whole_read(call: &Answered) -> bool {
    let ranges = ["start_line", "end_line", "offset", "limit"];
    call.name == "read_file" && ranges.iter().all(|key| !call.args.contains_key(*key))
}

/// What is left of a bulky result.
fn preview(call: &Answered, kinds: &HashMap<String, ToolKind>) -> String {
    // Where all of it is, is told beneath.
    let text = without_note(&call.text);
    match kinds.get(&call.name) {
        Some(ToolKind::Execute) => ends_by_lines(&text),
        _ => ends(&text, CHARACTERS),
    }
}

/// What stands for a bulky result; `None` when that would save nothing.
fn masked(call: &Answered, preview: &str, keep_output: Option<&KeepOutput>) -> Option<String> {
    if tokens::of_text(preview) + FRAME >= tokens::of_text(&call.text) {
        return None;
    }
    let place = kept(&call.name, &call.text, keep_output);
    Some(format!("{MASKED}\n{preview}\n[The whole output{place}.]\n</tool_output_masked>"))
}

/// The first and last lines of a text.
fn ends_by_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 2 * LINES {
        return ends(text, LONGEST_END);
    }
    let head = lines.iter().take(LINES).copied().collect::<Vec<_>>().join("\n");
    let tail = lines.iter().skip(lines.len() - LINES).copied().collect::<Vec<_>>().join("\n");
    let left_out = lines.len() - 2 * LINES;
    let (head, tail) = (ends(&head, LONGEST_END / 2), ends(&tail, LONGEST_END / 2));
    format!("{head}\n[… {left_out} lines …]\n{tail}")
}

/// A text with only so many characters at each end.
pub(crate) fn ends(text: &str, each: usize) -> String {
    let count = text.chars().count();
    if count <= 2 * each {
        return text.to_owned();
    }
    let head: String = text.chars().take(each).collect();
    let tail: String = text.chars().skip(count - each).collect();
    format!("{head}\n[… {} characters …]\n{tail}", count - 2 * each)
}

/// A content with other texts in some of its results; `None` when that would
/// not be shorter.
fn with_results(entry: &Entry, results: &[(usize, String)]) -> Option<Entry> {
    let content = entry.content.open().ok()?;
    let parts = content.parts.into_iter().enumerate().map(|(at, part)| {
        let text = results.iter().find(|(place, _)| *place == at).map(|(_, text)| text);
        match (text, part.view()) {
            (Some(text), PartView::Response(old)) => {
                let failed = old.response.is_some_and(|response| response.get("error").is_some());
                let key = if failed { "error" } else { "output" };
                let mut response = Object::new();
                response.insert(key.into(), Value::String(text.clone()));
                Part::function_response(old.id, old.name, response, Vec::new())
            }
            _ => part,
        }
    });
    let content = Content { role: content.role, parts: parts.collect() };
    let origin = entry.origin.place().map_or(Origin::Made, Origin::Changed);
    let shorter = Entry::new(content.seal(), origin);
    (shorter.tokens < entry.tokens).then_some(shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round whose results have these sizes in tokens, about.
    fn round(sizes: &[usize]) -> Vec<Entry> {
        let call = |at: usize| Part::function_call(Some(&format!("c{at}")), "look", Object::new());
        let result = |(at, size): (usize, &usize)| {
            let mut response = Object::new();
            let line = format!("result {at} says something\n");
            response.insert("output".into(), line.repeat(size * 4 / line.len()).into());
            Part::function_response(Some(&format!("c{at}")), "look", response, Vec::new())
        };
        let contents = [
            Content::user(vec![Part::text("go")]),
            Content::model((0..sizes.len()).map(call).collect()),
            Content::user(sizes.iter().enumerate().map(result).collect()),
        ];
        let entries = contents.into_iter().enumerate();
        entries.map(|(at, content)| Entry::new(content.seal(), Origin::Whole(at))).collect()
    }

    #[test]
    fn of_new_results_only_as_much_goes_as_is_too_much() {
        let view = round(&[800, 3_000, 500, 2_000]);
        let total = |view: &[Entry]| crate::view::tokens_of(view);
        let shorter = |over| {
            let pins = BTreeSet::new();
            let view = shorten_newest(&view, over, &HashMap::new(), &pins, None).expect("shorter");
            let masked = view[2].content.json().matches(MASKED).count();
            (total(&view), masked, view[2].content.json().to_owned())
        };
        // (tokens too many, results that become shorter)
        for (over, results) in [(1, 1), (300, 1), (2_500, 1), (4_000, 2), (5_800, 4)] {
            let (left, masked, json) = shorter(over);
            let gone = total(&view) - left;
            assert_eq!(masked, results, "{over}");
            assert!(gone >= over.min(5_000), "{over}: {gone}");
            assert!(over > 4_000 || gone < over + over / 4 + 200, "{over}: {gone}");
            assert!(json.contains("result 1 says"), "its ends are left");
        }
    }
}
