//! The arguments of a call of an MCP tool in full, for the expanded view.

use parallax_protocol::Object;
use parallax_protocol::built_in_tools::built_in_tool;
use parallax_screen::{Line, Span, Style, wrap};
use serde_json::Value;

use super::describe;
use crate::sanitize;

/// Maximum size in bytes of the kept arguments of a call.
const MAX_KEPT: usize = 100_000;
/// Maximum number of characters compared with a title, which contains fewer.
const COMPARED: usize = 1_000;
/// The indentation of arguments, and of what belongs to one.
const INDENT: &str = "    ";
const NESTED_INDENT: &str = "      ";

/// The names and values of arguments.
#[derive(Debug)]
pub(super) struct CallArguments {
    values: Vec<(String, String)>,
    /// The beginning of the JSON, with which the title of the call ends.
    json: String,
}

impl CallArguments {
    /// Returns `None` for built-in tools, whose titles and results contain them, and if there are
    /// none.
    pub(super) fn new(name: &str, args: &Object) -> Option<Self> {
        if args.is_empty() || built_in_tool(name).is_some() {
            return None;
        }
        let mut left = MAX_KEPT;
        let mut keep = |text: &str| {
            let end = text.floor_char_boundary(left);
            left -= end;
            match end == text.len() {
                true => text.to_owned(),
                false => format!("{}…", &text[..end]),
            }
        };
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let values = args.iter().map(|(name, value)| (keep(name), keep(&text(value)))).collect();
        let json = Value::Object(args.clone()).to_string().chars().take(COMPARED).collect();
        Some(Self { values, json })
    }

    /// Whether a title describes these arguments. A hook may have changed those of the call.
    pub(super) fn match_title(&self, title: &str) -> bool {
        describe::mcp_title_parts(title).is_some_and(|(_, _, json)| self.json.starts_with(json))
    }

    /// Returns all arguments in one row, if each is one line.
    pub(super) fn one_row(&self) -> Option<String> {
        let is_line = |(_, value): &(String, String)| !value.trim_end().contains(['\n', '\r']);
        let pairs = self.values.iter().map(|(name, value)| format!("{name}: {value}"));
        self.values.iter().all(is_line).then(|| pairs.collect::<Vec<_>>().join(", "))
    }

    /// Returns a row for each argument; text of several lines is below its name.
    pub(super) fn rows(&self, columns: usize, name: Style, value: Style) -> Vec<Line> {
        let nested = [Span::raw(NESTED_INDENT)];
        let in_full = |line: &str| sanitize::line_in_full(line).replace('\t', " ");
        let mut rows = Vec::new();
        for (key, text) in &self.values {
            let head = Line::raw(INDENT).with_span(format!("{}:", in_full(key)), name);
            let mut lines = text.lines();
            match (lines.next().unwrap_or_default(), lines.next().is_some()) {
                (line, false) => {
                    rows.extend(wrap(
                        &head.with_span(format!(" {}", in_full(line)), value),
                        columns,
                        &nested,
                    ));
                }
                (_, true) => {
                    rows.extend(wrap(&head, columns, &nested));
                    rows.extend(text.lines().flat_map(|line| {
                        let line = Line::raw(NESTED_INDENT).with_span(in_full(line), value);
                        wrap(&line, columns, &nested)
                    }));
                }
            }
        }
        rows
    }
}
