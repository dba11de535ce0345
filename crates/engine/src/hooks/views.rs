//! Tool calls and approval requests as hooks see them, in the Gemini CLI format, for scripts
//! that were written for it.

use std::path::Path;

use parallax_protocol::Object;
use parallax_protocol::event::{ApprovalRequest, Question};
use parallax_protocol::tool::{Display, FileDiff, Preview, ToolResult};
use serde_json::{Value, json};

use super::object;

/// Returns the result of a call (`tool_response`).
pub(crate) fn tool_response(
    outcome: &ToolResult,
    tool: &str,
    is_build_file: fn(&Path) -> bool,
) -> Object {
    let output = &outcome.for_model.output;
    let content = match (&outcome.for_hooks.content, &outcome.error) {
        // A failure is described as text.
        (_, Some(error)) if output.is_empty() => Value::from(error.message.as_str()),
        (Some(parts), None) => parts.clone(),
        _ => Value::from(output.as_str()),
    };
    let shown = match (&outcome.for_hooks.display, &outcome.for_user) {
        (Some(display), _) => display.clone(),
        (None, Some(shown)) => display_value(shown, tool, is_build_file),
        (None, None) => Value::from(""),
    };
    let mut response = object(json!({"llmContent": content, "returnDisplay": shown}));
    if let Some(error) = &outcome.error {
        let error = json!({"type": error.kind.as_str(), "message": error.message});
        response.insert("error".to_owned(), error);
    }
    response
}

fn display_value(display: &Display, tool: &str, is_build_file: fn(&Path) -> bool) -> Value {
    match display {
        Display::Text { text } => Value::from(text.as_str()),
        Display::Diff(change) => {
            let heads = match tool {
                "write_file" => ("Original", "Written"),
                _ => ("Current", "Proposed"),
            };
            let [added, removed] = characters(&change.diff);
            let mut fields = diff_fields(change, heads);
            fields.extend(object(json!({
                "diffStat": {
                    "model_added_lines": change.lines_added,
                    "model_removed_lines": change.lines_removed,
                    "model_added_chars": added,
                    "model_removed_chars": removed,
                    // The user's changes are already part of the model's call.
                    "user_added_lines": 0,
                    "user_removed_lines": 0,
                    "user_added_chars": 0,
                    "user_removed_chars": 0,
                },
                "isNewFile": change.is_new_file,
                "isBuildFile": is_build_file(&change.file_path),
            })));
            Value::Object(fields)
        }
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

/// Returns the diff fields that results and approval requests share.
fn diff_fields(change: &FileDiff, heads: (&str, &str)) -> Object {
    let name = change.file_path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    // Replace our two header lines with theirs.
    let hunks = change.diff.splitn(3, '\n').nth(2).unwrap_or_default();
    let (line, (old, new)) = ("=".repeat(67), heads);
    let diff = format!("Index: {name}\n{line}\n--- {name}\t{old}\n+++ {name}\t{new}\n{hunks}");
    let mut fields = object(json!({
        "fileDiff": diff, "fileName": name, "filePath": change.file_path.to_string_lossy(),
    }));
    if let Some(texts) = &change.texts {
        fields.insert("originalContent".to_owned(), Value::from(texts.old.as_str()));
        fields.insert("newContent".to_owned(), Value::from(texts.new.as_str()));
    }
    fields
}

/// Characters of the lines that a diff adds, and of those that it removes.
fn characters(diff: &str) -> [usize; 2] {
    let hunks = diff.lines().skip(2);
    let count = |mark: char| -> usize {
        hunks.clone().filter_map(|line| line.strip_prefix(mark)).map(|it| it.chars().count()).sum()
    };
    [count('+'), count('-')]
}

/// Returns the hook input for an approval request: its message, and `details` with the fields of
/// its `type`.
pub(crate) fn approval_notification(request: &ApprovalRequest, tool: &str) -> (String, Object) {
    let (title, what) = match (&request.preview, request.question) {
        (Some(Preview::Diff(change)), _) => {
            let name = change.file_path.file_name().unwrap_or_default().to_string_lossy();
            let verb = if tool == "write_file" { "Write" } else { "Edit" };
            (format!("Confirm {verb}: {name}"), "editing")
        }
        (_, Question::Exec) => ("Confirm Shell Command".to_owned(), "execution"),
        (_, Question::Mcp) => ("Confirm MCP Tool Execution".to_owned(), "MCP"),
        (_, Question::Info) => (request.title.clone(), "information"),
        _ => (request.title.clone(), "confirmation"),
    };
    let mut details = object(json!({"type": request.question, "title": title}));
    let more = match &request.preview {
        Some(Preview::Diff(change)) => Value::Object(diff_fields(change, ("Current", "Proposed"))),
        Some(Preview::Command { command, directory }) => json!({
            "command": command,
            "rootCommand": command.split_whitespace().next().unwrap_or_default(),
            "directory": directory.to_string_lossy(),
        }),
        Some(Preview::Urls { prompt, urls }) => json!({"prompt": prompt, "urls": urls}),
        Some(Preview::Mcp { server, tool, description, arguments }) => json!({
            "serverName": server,
            "toolName": tool,
            "toolDisplayName": tool,
            "toolDescription": description,
            "toolArgs": arguments,
        }),
        Some(other) => serde_json::to_value(other).unwrap_or_default(),
        None => Value::Null,
    };
    // The type of the request must not be overwritten.
    details.extend(object(more).into_iter().filter(|(name, _)| name != "type"));
    (format!("Tool {title} requires {what}"), details)
}
