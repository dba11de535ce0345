//! Describes tool calls: display names and the relevant arguments.

use parallax_protocol::Object;
use parallax_protocol::tool::{FileDiff, ToolKind};
use serde_json::Value;

/// Maximum number of characters shown of an argument.
const MAX_VALUE: usize = 200;

/// The built-in tools: the name for the model, the display name, the kind, and the arguments that
/// describe the call.
const TOOLS: &[(&str, &str, ToolKind, &[&str])] = &[
    ("read_file", "ReadFile", ToolKind::Read, &["file_path", "absolute_path"]),
    ("read_many_files", "ReadManyFiles", ToolKind::Read, &["include", "paths"]),
    ("write_file", "WriteFile", ToolKind::Edit, &["file_path"]),
    ("replace", "Edit", ToolKind::Edit, &["file_path"]),
    ("run_shell_command", "Shell", ToolKind::Execute, &["command"]),
    ("list_directory", "ReadFolder", ToolKind::Read, &["dir_path", "path"]),
    ("glob", "FindFiles", ToolKind::Search, &["pattern"]),
    ("grep_search", "SearchText", ToolKind::Search, &["pattern"]),
    ("search_file_content", "SearchText", ToolKind::Search, &["pattern"]),
    ("google_web_search", "GoogleSearch", ToolKind::Search, &["query"]),
    ("web_fetch", "WebFetch", ToolKind::Fetch, &["prompt", "url"]),
    ("write_todos", "WriteTodos", ToolKind::Plan, &[]),
    ("enter_plan_mode", "Enter Plan Mode", ToolKind::Plan, &["reason"]),
    ("exit_plan_mode", "Exit Plan Mode", ToolKind::Plan, &["plan_filename"]),
    ("invoke_agent", "Agent", ToolKind::Agent, &["agent_name"]),
    ("ask_user", "AskUser", ToolKind::Communicate, &[]),
    ("update_topic", "Topic", ToolKind::Think, &["title", "strategic_intent"]),
    ("complete_task", "CompleteTask", ToolKind::Other, &[]),
    ("list_background_processes", "List Background Processes", ToolKind::Read, &[]),
    ("read_background_output", "Read Background Output", ToolKind::Read, &["pid"]),
    ("kill_background_process", "Kill Background Process", ToolKind::Execute, &["pid"]),
    ("save_memory", "SaveMemory", ToolKind::Edit, &["fact"]),
    ("activate_skill", "Activate Skill", ToolKind::Other, &["name"]),
    ("get_internal_docs", "GetInternalDocs", ToolKind::Think, &["path"]),
    ("list_mcp_resources", "ListMcpResources", ToolKind::Search, &["serverName"]),
    ("read_mcp_resource", "ReadMcpResource", ToolKind::Search, &["uri"]),
    ("mcp_search_tools", "McpSearchTools", ToolKind::Search, &["query"]),
];

fn known(
    name: &str,
) -> Option<&'static (&'static str, &'static str, ToolKind, &'static [&'static str])> {
    TOOLS.iter().find(|(tool, ..)| *tool == name)
}

/// Returns the display name of a tool.
pub(crate) fn display_name(name: &str) -> &str {
    known(name).map_or(name, |(_, shown, ..)| shown)
}

/// Returns the kind of a built-in tool.
pub(super) fn kind(name: &str) -> Option<ToolKind> {
    known(name).map(|(_, _, kind, _)| *kind)
}

/// Returns one line for a call of which only the arguments are known.
pub(super) fn arguments(name: &str, args: &Object) -> String {
    if let Some((_, _, _, keys)) = known(name) {
        let value = keys.iter().find_map(|key| args.get(*key));
        return value.map(short).unwrap_or_default();
    }
    let pairs: Vec<String> =
        args.iter().take(8).map(|(key, value)| format!("{key}: {}", short(value))).collect();
    pairs.join(", ")
}

/// Returns the command that a call runs and the model's description of it.
pub(super) fn command(name: &str, args: &Object) -> Option<(String, String)> {
    let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
    if name != "run_shell_command" || text("command").trim().is_empty() {
        return None;
    }
    let folder = match text("dir_path") {
        "" => String::new(),
        folder => format!("in {folder}"),
    };
    let background = match args.get("is_background").and_then(Value::as_bool) {
        Some(true) => "in the background",
        _ => "",
    };
    let about = [text("description"), &folder, background];
    let about: Vec<&str> = about.into_iter().filter(|part| !part.is_empty()).collect();
    Some((text("command").to_owned(), about.join(" · ")))
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MAX_VALUE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Formats the number of lines that a change adds and removes.
pub(crate) fn counts(diff: &FileDiff) -> String {
    format!("+{} −{}", diff.lines_added, diff.lines_removed)
}

/// Returns a title without the verb that the display name already contains.
pub(crate) fn without_verb<'t>(name: &str, title: &'t str) -> &'t str {
    let verb = match name {
        "read_file" | "read_many_files" | "get_internal_docs" => "Read ",
        "replace" => "Edit ",
        "write_file" => "Write ",
        "list_directory" => "List ",
        "glob" => "Find ",
        "web_fetch" => "Fetch ",
        "google_web_search" => "Search the web for ",
        "save_memory" => "Remember in ",
        "write_todos" => "Todos: ",
        "ask_user" => "Ask: ",
        _ => return title,
    };
    title.strip_prefix(verb).unwrap_or(title)
}
