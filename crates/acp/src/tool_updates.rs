//! Tool calls as `tool_call` and `tool_call_update`.

use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use parallax_protocol::agent::AgentProgress;
use parallax_protocol::event::{ToolDone, ToolStatus};
use parallax_protocol::tool::{Display, FileDiff, Preview, Todo, TodoStatus, ToolKind};
use serde_json::{Value, json};

/// Maximum bytes of text in a call's content. The end of longer text is kept.
const MAX_TEXT: usize = 64 * 1024;
/// Maximum number of calls of a subagent shown while it runs.
const MAX_STEPS: usize = 12;
/// Names of path arguments.
const PATH_ARGUMENTS: &[&str] = &["file_path", "absolute_path", "path", "dir_path"];

/// Returns the ACP kind of a tool.
pub(crate) fn kind(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think | ToolKind::Agent => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::SwitchMode => "switch_mode",
        ToolKind::Communicate | ToolKind::Plan | ToolKind::Other => "other",
    }
}

/// Returns the files that a tool call refers to.
pub(crate) fn locations(arguments: &Object, directory: &Path) -> Value {
    let paths = PATH_ARGUMENTS.iter().filter_map(|name| arguments.get(*name)?.as_str());
    let line = arguments.get("start_line").or_else(|| arguments.get("offset"));
    let line = line.and_then(Value::as_u64);
    let locations = paths.map(|path| {
        let mut location = json!({"path": directory.join(path)});
        if let Some(line) = line {
            location["line"] = json!(line);
        }
        location
    });
    Value::Array(locations.collect())
}

/// Returns the fields of a finished call.
pub(crate) fn finished_fields(done: &ToolDone) -> Value {
    let mut update = json!({
        "status": if done.status == ToolStatus::Success { "completed" } else { "failed" },
        "title": title(&done.title, &done.name),
    });
    if let Some(tool) = done.kind {
        update["kind"] = json!(kind(tool));
    }
    let text = match (&done.error, &done.display) {
        (Some((_, error)), _) => Some(error.clone()),
        (None, Some(Display::Text { text })) => Some(text.clone()),
        (None, Some(Display::Diff(diff))) => {
            update["content"] = json!([diff_content(diff)]);
            None
        }
        (None, Some(Display::Todos { .. } | Display::Topic { .. })) => None,
        (None, Some(Display::Agent(_)) | None) => Some(done.for_model.clone()),
    };
    if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
        update["content"] = json!([text_content(&text)]);
    }
    if let Some(policy_decision) = &done.policy_decision {
        update["_meta"] =
            json!({"policy": {"rule": policy_decision.rule, "reason": policy_decision.reason}});
    }
    update
}

/// Returns the preview of an approval request.
pub(crate) fn preview(preview: &Preview) -> Vec<Value> {
    match preview {
        Preview::Diff(diff) => vec![diff_content(diff)],
        Preview::Command { command, .. } => vec![text_content(command)],
        Preview::Urls { urls, .. } => vec![text_content(&urls.join("\n"))],
        Preview::Mcp { server, tool, arguments, .. } => {
            let arguments = Value::Object(arguments.clone());
            vec![text_content(&format!("{server}: {tool} {arguments}"))]
        }
        Preview::Skill { description, .. } => vec![text_content(description)],
        Preview::Plan { text, .. } => vec![text_content(text)],
        Preview::Questions { questions } => {
            questions.iter().map(|it| text_content(&it.question)).collect()
        }
        Preview::Budget(_) => Vec::new(),
    }
}

/// Returns the title, or the name if the title is empty.
pub(crate) fn title<'a>(title: &'a str, name: &'a str) -> &'a str {
    if title.trim().is_empty() { name } else { title }
}

/// Returns text content of a call.
pub(crate) fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": last_bytes(text)}})
}

/// Returns the end of a string that is too long.
pub(crate) fn last_bytes(text: &str) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TEXT));
    text.get(start..).unwrap_or(text)
}

pub(crate) fn diff_content(diff: &FileDiff) -> Value {
    let path: &PathBuf = &diff.file_path;
    let change = if diff.is_new_file { "add" } else { "modify" };
    let (old, new, is_partial) = match &diff.texts {
        Some(texts) => (texts.old.clone(), texts.new.clone(), false),
        // The journal has only what changed.
        None => {
            let (old, new) = diff_sides(&diff.diff);
            (old, new, !diff.is_new_file)
        }
    };
    let old = (!diff.is_new_file).then_some(old);
    let mut content = json!({"type": "diff", "path": path, "oldText": old, "newText": new,
        "_meta": {"kind": change}});
    if is_partial {
        content["_meta"]["partial"] = json!(true);
    }
    content
}

/// Returns the text before and after a change that a unified diff contains.
fn diff_sides(diff: &str) -> (String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    let mut is_in_hunk = false;
    for line in diff.split_inclusive('\n') {
        let Some((sign, text)) = line.split_at_checked(1).filter(|_| is_in_hunk) else {
            is_in_hunk |= line.starts_with("@@");
            continue;
        };
        match sign {
            "-" => old.push_str(text),
            "+" => new.push_str(text),
            "\\" | "@" => {}
            _ => {
                old.push_str(text);
                new.push_str(text);
            }
        }
    }
    (old, new)
}

/// Returns what a subagent thinks about and its newest calls, one line each.
pub(crate) fn progress_text(progress: &AgentProgress) -> String {
    let mut lines = Vec::new();
    if !progress.thought.is_empty() {
        lines.push(progress.thought.clone());
    }
    let hidden = progress.steps.len().saturating_sub(MAX_STEPS);
    for step in progress.steps.iter().skip(hidden) {
        let state = match step.status {
            None => " (running)",
            Some(ToolStatus::Success) => "",
            Some(_) => " (failed)",
        };
        lines.push(format!("- {}{state}", title(&step.title, &step.name)));
    }
    lines.join("\n")
}

/// Converts the todo list to a plan.
pub(crate) fn plan(todos: &[Todo]) -> Value {
    let entries = todos.iter().map(|todo| {
        let status = match todo.status {
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed | TodoStatus::Cancelled => "completed",
            _ => "pending",
        };
        json!({"content": todo.description, "priority": "medium", "status": status})
    });
    json!({"sessionUpdate": "plan", "entries": entries.collect::<Vec<_>>()})
}
