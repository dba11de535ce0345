//! Checks the reader against the published grammar of bash: both must find the same commands at the
//! same positions, or the line counts as not understood.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, ParseState, Parser};

use super::findings::ShellFindings;

/// Time limit for the parser.
const MAX_TIME: Duration = Duration::from_millis(200);
/// The scanner of the grammar counts them in one byte.
const MAX_DOUBLE_ANGLES: usize = 64;

thread_local! {
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Returns why the grammar disagrees with what was found, if it does.
pub(super) fn disagreement(text: &str, found: &ShellFindings) -> Option<String> {
    if text.matches("<<").count() > MAX_DOUBLE_ANGLES {
        return Some("it has too many `<<`".to_owned());
    }
    let Some(commands) = commands(text) else {
        return Some("it is not valid bash".to_owned());
    };
    let apart = |at: &usize| found.uncompared_ranges.iter().any(|range| range.contains(at));
    let theirs: BTreeSet<usize> = commands.into_iter().filter(|at| !apart(at)).collect();
    let mut ours: BTreeSet<usize> =
        found.commands.iter().filter_map(|simple| simple.start).collect();
    for (keyword, behind) in &found.prefixed {
        // In the grammar, the reserved word is the program.
        if let Some(start) = found.commands.get(*behind).and_then(|simple| simple.start)
            && !theirs.contains(&start)
            && theirs.contains(keyword)
        {
            ours.remove(&start);
            ours.insert(*keyword);
        }
    }
    ours.retain(|at| !apart(at));
    let odd = ours.symmetric_difference(&theirs).next()?;
    let near: String = text
        .get(*odd..)
        .unwrap_or_default()
        .chars()
        .take_while(|c| !c.is_whitespace())
        .take(24)
        .collect();
    Some(format!("it is ambiguous at `{near}`"))
}

/// Returns the start offsets of simple commands, or `None` if the text has syntax errors.
fn commands(text: &str) -> Option<Vec<usize>> {
    PARSER.with(|cell| {
        let mut slot = cell.try_borrow_mut().ok()?;
        if slot.is_none() {
            let mut parser = Parser::new();
            parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
            *slot = Some(parser);
        }
        let parser = slot.as_mut()?;
        let started_at = Instant::now();
        let mut too_long = |_: &ParseState| {
            if started_at.elapsed() > MAX_TIME {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let tree = parser.parse_with_options(
            &mut |at: usize, _| text.as_bytes().get(at..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut too_long)),
        );
        let Some(tree) = tree else {
            parser.reset();
            return None;
        };
        let root = tree.root_node();
        if root.has_error() {
            return None;
        }
        Some(starts(root))
    })
}

fn starts(root: Node<'_>) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        match node.kind() {
            "command_name" | "declaration_command" | "unset_command" => {
                starts.push(node.start_byte());
            }
            "test_command" if node.child(0).is_some_and(|child| child.kind() == "[") => {
                starts.push(node.start_byte());
            }
            _ => {}
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return starts;
            }
        }
    }
}
