//! Masks old results without losing text.
//!
//! A repeated result becomes a note, and so does an older copy of a file that was read again or
//! changed later. A large result is saved to a file and only its beginning and end stay. Calls
//! and their order are unchanged.

use std::collections::{BTreeSet, HashMap, HashSet};

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part, PartView};
use parallax_protocol::context::ResultLocation;
use parallax_protocol::tool::ToolKind;
use serde_json::Value;

use super::call_results::{CallResult, answered_calls};
use super::full_output::{save_full_output, without_note};
use crate::options::{CompactionOptions, SaveOutput};
use crate::tokens;
use crate::view::{EntryOrigin, ViewEntry};

/// Marks a masked result.
const MASKED: &str = "<tool_output_masked>";
/// Tools whose results are never masked: they are instructions or answers.
const EXEMPT_TOOLS: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];
/// Smaller results stay: a note would not be shorter.
const MIN_TOKENS: u64 = 150;
/// Approximate number of tokens of the text around a masked result.
const FRAME: u64 = 60;
/// Number of lines kept at each end of a command's output.
const LINES: usize = 10;
/// Number of characters kept at each end of other output.
const CHARACTERS: usize = 250;
/// Maximum characters at each end of a command's output.
const MAX_END_CHARACTERS: usize = 2_000;

/// How much is masked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaskingLimits {
    /// Tokens of the newest results that stay.
    pub(crate) protect: u64,
    /// Minimum number of tokens to mask; with less, nothing is masked.
    pub(crate) min_masked: u64,
    /// Whether the newest content stays as it is.
    pub(crate) protect_newest: bool,
    /// Whether copies and repetitions become notes.
    pub(crate) notes: bool,
}

impl CompactionOptions {
    /// Returns the token count from which old results may be masked on their own.
    pub(super) fn masking_threshold(&self) -> u64 {
        self.protect.saturating_add(self.min_masked)
    }

    /// Returns the masking limits for a threshold.
    pub(super) fn masking_limits(&self, threshold: u64) -> MaskingLimits {
        MaskingLimits {
            protect: self.protect.min(threshold / 2),
            min_masked: self.min_masked.min(threshold / 3),
            protect_newest: self.protect_newest,
            notes: false,
        }
    }
}

/// Masks results; `None` when there is nothing to mask.
pub(crate) fn mask_results(
    view: &[ViewEntry],
    limits: MaskingLimits,
    kinds: &HashMap<String, ToolKind>,
    pins: &BTreeSet<ResultLocation>,
    save_output: Option<&SaveOutput>,
) -> Option<Vec<ViewEntry>> {
    let calls = answered_calls(view.iter().map(|entry| &entry.content));
    let newest = view.len().checked_sub(1).filter(|_| limits.protect_newest);
    let changes = |name: &str| matches!(kinds.get(name), Some(ToolKind::Edit | ToolKind::Delete));
    let mut seen: HashSet<(&str, String, &str)> = HashSet::new();
    let mut current: HashSet<&str> = HashSet::new();
    let mut replacements: HashMap<usize, Vec<(usize, String)>> = HashMap::new();
    let mut bulky = Vec::new();
    let (mut newer, mut prunable) = (0, 0);
    for call in calls.iter().rev() {
        let size = tokens::estimate_text(&call.text);
        let arguments = Value::Object(call.args.clone()).to_string();
        let is_repeated = !seen.insert((&call.name, arguments, &call.text));
        let superseded = call.name == "read_file"
            && !call.failed
            && call.path().is_some_and(|path| current.contains(path));
        if let Some(path) = call.path().filter(|_| !call.failed)
            && (changes(&call.name) || reads_whole_file(call))
        {
            current.insert(path);
        }
        let stays = size < MIN_TOKENS
            || newest == Some(call.content)
            || position_of_result(view, call).is_some_and(|position| pins.contains(&position))
            || EXEMPT_TOOLS.contains(&call.name.as_str())
            || call.text.starts_with(MASKED);
        if newest == Some(call.content) {
            continue;
        }
        newer += size;
        if stays {
            continue;
        }
        let note = match call.path() {
            _ if !limits.notes => None,
            _ if is_repeated => {
                Some("[A later identical call returned the same result.]".to_owned())
            }
            Some(path) if superseded => Some(format!(
                "[Outdated copy of `{path}` removed; the file was read again or changed later.]"
            )),
            _ => None,
        };
        if let Some(note) = note {
            replacements.entry(call.content).or_default().push((call.part, note));
        } else if newer > limits.protect {
            prunable += size;
            bulky.push(call);
        }
    }
    if prunable >= limits.min_masked {
        for call in bulky {
            if let Some(text) = mask_text(call, &preview(call, kinds), save_output) {
                replacements.entry(call.content).or_default().push((call.part, text));
            }
        }
    }
    (!replacements.is_empty()).then(|| with_replacements(view, replacements))
}

/// Removes `over` tokens from the newest results, the largest first, and no more than needed
/// from the last one. `None` when there is nothing to mask.
pub(crate) fn mask_newest_results(
    view: &[ViewEntry],
    over: u64,
    kinds: &HashMap<String, ToolKind>,
    pins: &BTreeSet<ResultLocation>,
    save_output: Option<&SaveOutput>,
) -> Option<Vec<ViewEntry>> {
    let newest = view.len().checked_sub(1)?;
    let mut calls = answered_calls(view.iter().map(|entry| &entry.content));
    calls.retain(|call| {
        call.content == newest
            && !EXEMPT_TOOLS.contains(&call.name.as_str())
            && !call.text.starts_with(MASKED)
            && position_of_result(view, call).is_none_or(|position| !pins.contains(&position))
    });
    calls.sort_by_key(|call| std::cmp::Reverse(tokens::estimate_text(&call.text)));
    let (mut left, mut results) = (over, Vec::new());
    for call in calls {
        let size = tokens::estimate_text(&call.text);
        if left == 0 || size < MIN_TOKENS {
            break;
        }
        // Accounts for the surrounding text and for escapes.
        let stays = size.saturating_sub(left + left / 10 + 2 * FRAME);
        let share = u128::from(stays) * call.text.chars().count() as u128 / u128::from(size);
        let part = truncate_middle(
            &without_note(&call.text),
            usize::try_from(share / 2).unwrap_or(usize::MAX),
        );
        let usual = preview(&call, kinds);
        let shown = if part.len() > usual.len() { part } else { usual };
        if let Some(text) = mask_text(&call, &shown, save_output) {
            left = left.saturating_sub(size.saturating_sub(tokens::estimate_text(&text)));
            results.push((call.part, text));
        }
    }
    let replacements = HashMap::from([(newest, results)]);
    replacements
        .values()
        .any(|results| !results.is_empty())
        .then(|| with_replacements(view, replacements))
}

/// Returns the position of a call's result among all contents.
pub(crate) fn position_of_result(view: &[ViewEntry], call: &CallResult) -> Option<ResultLocation> {
    let content = view.get(call.content)?.origin.content_index()?;
    Some(ResultLocation { content, part: call.part })
}

/// Returns the view with results replaced by other text, by entry and part.
pub(crate) fn with_replacements(
    view: &[ViewEntry],
    replacements: HashMap<usize, Vec<(usize, String)>>,
) -> Vec<ViewEntry> {
    let mut view = view.to_vec();
    for (at, results) in replacements {
        if let Some(entry) = view.get_mut(at)
            && let Some(shorter) = with_results(entry, &results)
        {
            *entry = shorter;
        }
    }
    view
}

fn reads_whole_file(call: &CallResult) -> bool {
    let ranges = ["start_line", "end_line", "offset", "limit"];
    call.name == "read_file" && ranges.iter().all(|key| !call.args.contains_key(*key))
}

/// Returns the preview of a masked result.
fn preview(call: &CallResult, kinds: &HashMap<String, ToolKind>) -> String {
    // The location of the full output follows below.
    let text = without_note(&call.text);
    match kinds.get(&call.name) {
        Some(ToolKind::Execute) => head_and_tail_lines(&text),
        _ => truncate_middle(&text, CHARACTERS),
    }
}

/// Returns the replacement of a large result; `None` when it would save nothing.
fn mask_text(call: &CallResult, preview: &str, save_output: Option<&SaveOutput>) -> Option<String> {
    if tokens::estimate_text(preview) + FRAME >= tokens::estimate_text(&call.text) {
        return None;
    }
    let saved = save_full_output(&call.name, &call.text, save_output);
    Some(format!("{MASKED}\n{preview}\n[The full output{saved}.]\n</tool_output_masked>"))
}

/// Returns the first and last lines of a string.
fn head_and_tail_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 2 * LINES {
        return truncate_middle(text, MAX_END_CHARACTERS);
    }
    let head = lines.iter().take(LINES).copied().collect::<Vec<_>>().join("\n");
    let tail = lines.iter().skip(lines.len() - LINES).copied().collect::<Vec<_>>().join("\n");
    let omitted_lines = lines.len() - 2 * LINES;
    let (head, tail) = (
        truncate_middle(&head, MAX_END_CHARACTERS / 2),
        truncate_middle(&tail, MAX_END_CHARACTERS / 2),
    );
    format!("{head}\n[… {omitted_lines} lines …]\n{tail}")
}

/// Returns a string truncated to `each` characters at both ends.
pub(crate) fn truncate_middle(text: &str, each: usize) -> String {
    let count = text.chars().count();
    if count <= 2 * each {
        return text.to_owned();
    }
    let head: String = text.chars().take(each).collect();
    let tail: String = text.chars().skip(count - each).collect();
    format!("{head}\n[… {} characters …]\n{tail}", count - 2 * each)
}

/// Returns a content with some results replaced; `None` when it would not be shorter.
fn with_results(entry: &ViewEntry, results: &[(usize, String)]) -> Option<ViewEntry> {
    let content = entry.content.open().ok()?;
    let parts = content.parts.into_iter().enumerate().map(|(offset, part)| {
        let text = results.iter().find(|(index, _)| *index == offset).map(|(_, text)| text);
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
    let origin = entry.origin.content_index().map_or(EntryOrigin::Generated, EntryOrigin::Edited);
    let shorter = ViewEntry::new(content.seal(), origin);
    (shorter.tokens < entry.tokens).then_some(shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a batch whose results have about these sizes in tokens.
    fn round(sizes: &[usize]) -> Vec<ViewEntry> {
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
        entries
            .map(|(at, content)| ViewEntry::new(content.seal(), EntryOrigin::Original(at)))
            .collect()
    }

    #[test]
    fn only_the_excess_of_new_results_is_masked() {
        let view = round(&[800, 3_000, 500, 2_000]);
        let total = |view: &[ViewEntry]| crate::view::tokens_of(view);
        let shorter = |over| {
            let pins = BTreeSet::new();
            let view =
                mask_newest_results(&view, over, &HashMap::new(), &pins, None).expect("shorter");
            let mask_text = view[2].content.json().matches(MASKED).count();
            (total(&view), mask_text, view[2].content.json().to_owned())
        };
        // (tokens too many, results that get masked)
        for (over, results) in [(1, 1), (300, 1), (2_500, 1), (4_000, 2), (5_800, 4)] {
            let (excess, mask_text, json) = shorter(over);
            let removed = total(&view) - excess;
            assert_eq!(mask_text, results, "{over}");
            assert!(removed >= over.min(5_000), "{over}: {removed}");
            assert!(over > 4_000 || removed < over + over / 4 + 200, "{over}: {removed}");
            assert!(json.contains("result 1 says"), "its ends are left");
        }
    }
}
