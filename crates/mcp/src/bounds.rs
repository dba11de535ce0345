//! Limits the tool declarations of a server: they are part of every request, so one server must not
//! fill the context window.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::catalog::ToolEntry;

/// Maximum characters of a tool description.
const DESCRIPTION: usize = 4_000;
/// Maximum bytes of a tool schema.
const SCHEMA: usize = 32_000;
/// Maximum bytes of all descriptions and schemas of one server.
const TOTAL: usize = 1_000_000;

/// The tools after applying the limits.
#[derive(Debug)]
pub(crate) struct LimitedTools {
    pub(crate) tools: Vec<ToolEntry>,
    /// A message about tools that were omitted because there are too many.
    pub(crate) omission_notice: Option<String>,
    /// Messages about other omissions.
    pub(crate) notes: Vec<String>,
}

/// Applies the limits to tools.
pub(crate) fn bound(tools: Vec<ToolEntry>) -> LimitedTools {
    let (mut tools_within_limits, mut notes) = (Vec::with_capacity(tools.len()), Vec::new());
    let (mut described, mut schemas, mut total, mut left_out) = (0, 0, 0_usize, 0);
    for mut tool in tools {
        described += usize::from(shorten(&mut tool.description));
        if tool.schema.to_string().len() > SCHEMA {
            tool.schema = json!({"type": "object"});
            // The output schema is only used to validate structured results.
            tool.output_schema = None;
            tool.description.push_str(
                "\n[The schema of its arguments is too long and was \
                omitted.]",
            );
            schemas += 1;
        }
        if tool.output_schema.as_ref().is_some_and(|schema| schema.to_string().len() > SCHEMA) {
            tool.output_schema = None;
        }
        total = total.saturating_add(size(&tool));
        match total > TOTAL {
            true => left_out += 1,
            false => tools_within_limits.push(tool),
        }
    }
    let omission_notice = (left_out > 0).then(|| {
        format!(
            "its tools need more than {TOTAL} characters: {left_out} of them were omitted (select \
             tools with `includeTools`)"
        )
    });
    if described > 0 {
        notes.push(format!(
            "the descriptions of {described} of its tools were truncated to {DESCRIPTION} \
             characters"
        ));
    }
    if schemas > 0 {
        notes.push(format!(
            "the schemas of {schemas} tools exceed {SCHEMA} characters and were \
             not declared"
        ));
    }
    LimitedTools { tools: tools_within_limits, omission_notice, notes }
}

/// Returns the size of a tool declaration in characters.
pub(crate) fn size(tool: &ToolEntry) -> usize {
    tool.name.len() + tool.description.len() + schema_size(&tool.schema)
}

fn schema_size(schema: &Value) -> usize {
    schema.to_string().len()
}

/// Truncates a description and marks the truncation. Returns whether it was too long.
fn shorten(text: &mut String) -> bool {
    let Some((at, _)) = text.char_indices().nth(DESCRIPTION) else { return false };
    let left_out = text.chars().count() - DESCRIPTION;
    text.truncate(at);
    let _ = write!(text, "\n[… {left_out} more characters omitted]");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: String, schema: Value) -> ToolEntry {
        ToolEntry { name: name.to_owned(), description, schema, ..ToolEntry::default() }
    }

    #[test]
    fn tool_descriptions_are_truncated_and_reported() {
        let small = tool("small", "Does it.".into(), json!({"type": "object"}));
        let long = tool("long", "ä".repeat(5_000_000), json!({"type": "object"}));
        let wide = tool("wide", "x".into(), json!({"description": "s".repeat(50_000)}));
        let LimitedTools { tools: kept, omission_notice, notes } =
            bound(vec![small.clone(), long, wide]);
        assert_eq!(omission_notice, None);
        assert_eq!(kept[0], small);
        assert!(kept[1].description.chars().count() < 4_100);
        assert!(kept[1].description.ends_with("[… 4996000 more characters omitted]"));
        assert_eq!(kept[2].schema, json!({"type": "object"}));
        assert_eq!(notes.len(), 2, "{notes:?}");
        let many = (0..2_000).map(|at| tool(&at.to_string(), "d".repeat(1_000), Value::Null));
        let LimitedTools { tools: kept, omission_notice, .. } = bound(many.collect());
        assert!((900..1_000).contains(&kept.len()), "{}", kept.len());
        let words = format!("{} of them were omitted", 2_000 - kept.len());
        assert!(omission_notice.is_some_and(|cut| cut.contains(&words)));
    }
}
