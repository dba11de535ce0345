//! Groups consecutive read and search calls in one line, because their results are for the model.
//! Ctrl+O shows each of them.

use std::ops::Range;

use parallax_protocol::event::ToolStatus;
use parallax_screen::{Line, Span};

use super::ViewOptions;
use super::describe;
use super::draw::ItemRenderer;
use super::item::Item;
use super::tool::{CallBody, CallProgress, Tool};
use crate::layout::truncate_text;
use crate::sanitize;
use crate::tokens::DONE;

/// Minimum number of calls in a group.
const MIN_CALLS: usize = 3;

/// The kind of a call in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadKind {
    Read,
    Listed,
    Searched,
}

fn read_kind(tool: &Tool) -> Option<ReadKind> {
    match tool.name.as_str() {
        "read_file" => Some(ReadKind::Read),
        "list_directory" => Some(ReadKind::Listed),
        "glob" | "grep_search" | "search_file_content" => Some(ReadKind::Searched),
        _ => None,
    }
}

/// Whether calls are grouped.
pub(super) fn is_enabled(options: ViewOptions) -> bool {
    !(options.expanded || options.screen_reader || options.boxes_results)
}

/// Returns the kind of an item that can be part of a group: a successful call with at most one line
/// to show.
fn group_kind(item: &Item) -> Option<ReadKind> {
    let Item::Tool(tool) = item else { return None };
    let CallProgress::Done(done) = &tool.state else { return None };
    let is_short = match &done.body {
        CallBody::None => true,
        CallBody::Text(text) => !text.trim().contains('\n'),
        _ => false,
    };
    read_kind(tool)
        .filter(|_| is_short && done.status == ToolStatus::Success && done.error.is_none())
}

/// Whether the item will be part of a group if it succeeds.
pub(super) fn may_join(item: &Item) -> bool {
    matches!(item, Item::Tool(tool) if tool.is_open() && read_kind(tool).is_some())
}

/// Returns the items around `at` that are shown as one line, if there are enough.
pub(super) fn find_group(items: &[Item], at: usize) -> Option<Range<usize>> {
    let run = run(items, at)?;
    (run.len() >= MIN_CALLS).then_some(run)
}

/// Returns the items around `at` that could be shown as one line.
pub(super) fn run(items: &[Item], at: usize) -> Option<Range<usize>> {
    items.get(at).and_then(group_kind)?;
    let before = items[..at].iter().rev().take_while(|item| group_kind(item).is_some()).count();
    let after = items[at..].iter().take_while(|item| group_kind(item).is_some()).count();
    Some(at - before..at + after)
}

/// Returns the line of a group.
pub(super) fn row(group: &[Item], renderer: &ItemRenderer<'_>) -> Line {
    let theme = renderer.theme;
    let counted =
        |deed: ReadKind| group.iter().filter(|item| group_kind(item) == Some(deed)).count();
    let plural = |count: usize, one: &str, many: &str| match count {
        0 => None,
        1 => Some(one.to_owned()),
        _ => Some(many.replace('#', &count.to_string())),
    };
    let output = [
        plural(counted(ReadKind::Read), "read 1 file", "read # files"),
        plural(counted(ReadKind::Listed), "listed 1 directory", "listed # directories"),
        plural(counted(ReadKind::Searched), "searched once", "searched # times"),
    ];
    let output: Vec<String> = output.into_iter().flatten().collect();
    let mut output = output.join(", ");
    if let Some(first) = output.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let names = group.iter().filter_map(|item| match item {
        Item::Tool(tool) => Some(describe::without_verb(&tool.name, &tool.title)),
        _ => None,
    });
    let names = sanitize::one_row(&names.collect::<Vec<_>>().join(", ")).into_owned();
    let mut line = Line::styled(format!("{DONE} "), theme.success);
    line.push(Span::styled(
        truncate_text(&output, renderer.width.saturating_sub(2)),
        theme.text.bold(),
    ));
    let room = renderer.width.saturating_sub(line.width() + 2);
    if room > 4 {
        line.push(Span::styled(format!("  {}", truncate_text(&names, room)), theme.secondary));
    }
    line
}
