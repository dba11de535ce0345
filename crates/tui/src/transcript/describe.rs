//! Describes tool calls: display names and the relevant arguments.

use parallax_protocol::Object;
use parallax_protocol::built_in_tools::built_in_tool;
use parallax_protocol::tool::{FileDiff, Todo, TodoStatus, ToolKind};
use serde_json::Value;

use crate::sanitize::one_row_of_lines;
use crate::tokens::SEPARATOR;

/// Maximum number of characters shown of an argument.
const MAX_VALUE: usize = 200;

/// Returns the display name of a tool.
pub(crate) fn display_name(name: &str) -> &str {
    match name {
        // Its argument is a heading, which a verb would only make longer.
        "update_topic" => "Topic",
        "write_todos" => "To-do list",
        _ => built_in_tool(name).map_or(name, |tool| tool.display_name),
    }
}

/// Returns the kind of a built-in tool, by which its result is shown.
pub(super) fn kind(name: &str) -> Option<ToolKind> {
    match name {
        // Its result looks like the output of a command.
        "kill_background_process" => Some(ToolKind::Execute),
        _ => built_in_tool(name).map(|tool| tool.kind),
    }
}

/// Returns one line for a call of which only the arguments are known.
pub(super) fn arguments(name: &str, args: &Object) -> String {
    if let Some(tool) = built_in_tool(name) {
        let value = tool.summary.iter().find_map(|key| args.get(*key));
        return value.map(shorten).unwrap_or_default();
    }
    let pairs: Vec<String> =
        args.iter().take(8).map(|(key, value)| format!("{key}: {}", shorten(value))).collect();
    pairs.join(", ")
}

/// Returns the command that a call runs and the model's description of it.
pub(super) fn command(name: &str, args: &Object) -> Option<(String, String)> {
    let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
    if name != "run_shell_command" || text("command").trim().is_empty() {
        return None;
    }
    let directory = match text("dir_path") {
        "" => String::new(),
        directory => format!("in {directory}"),
    };
    let background = match args.get("is_background").and_then(Value::as_bool) {
        Some(true) => "in the background",
        _ => "",
    };
    let about = [text("description"), &directory, background];
    let about: Vec<&str> = about.into_iter().filter(|part| !part.is_empty()).collect();
    Some((text("command").to_owned(), about.join(" · ")))
}

fn shorten(value: &Value) -> String {
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
pub(crate) fn format_line_counts(diff: &FileDiff) -> String {
    match (diff.lines_added, diff.lines_removed) {
        (added, 0) => format!("+{added}"),
        (0, removed) => format!("−{removed}"),
        (added, removed) => format!("+{added} −{removed}"),
    }
}

/// Formats how many tasks are done. Cancelled tasks do not count.
pub(crate) fn format_done(todos: &[Todo]) -> String {
    let is = |status| todos.iter().filter(|todo| todo.status == status).count();
    let all = todos.len() - is(TodoStatus::Cancelled);
    format!("{}/{all} done", is(TodoStatus::Completed))
}

/// Returns the tool, the server, and the arguments of a call of an MCP tool from its title: `TOOL
/// (SERVER MCP Server) {JSON}`, in which the JSON may be cut.
pub(super) fn mcp_title_parts(title: &str) -> Option<(&str, &str, &str)> {
    let (tool, rest) = title.split_once(" (")?;
    let (server, json) = rest.split_once(" MCP Server) ")?;
    (!tool.contains(' ') && json.starts_with('{')).then_some((tool, server, json))
}

/// Returns the tool of an MCP server and the call in words, from the title of the call.
pub(crate) fn split_mcp_title(title: &str) -> Option<(String, String)> {
    let (tool, server, json) = mcp_title_parts(title)?;
    let cut = [json.to_owned(), format!("{json}…\"}}"), format!("{json}…}}")];
    let args = cut.iter().find_map(|json| serde_json::from_str::<Object>(json).ok());
    let arguments_text = args.map_or_else(|| format!("{json}…"), |args| arguments("", &args));
    let separator = if arguments_text.is_empty() { "" } else { SEPARATOR };
    // The JSON may have escaped characters that hide text.
    let arguments_text = one_row_of_lines(&arguments_text);
    Some((tool.to_owned(), format!("{server}{separator}{arguments_text}")))
}

/// Returns the title of a call in words, for the working line.
pub(crate) fn title_in_words(title: &str) -> String {
    split_mcp_title(title)
        .map_or_else(|| title.to_owned(), |(tool, rest)| format!("{tool} · {rest}"))
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
        "save_memory" => "Save to ",
        "write_todos" => "Todos: ",
        "ask_user" => "Ask: ",
        _ => return title,
    };
    title.strip_prefix(verb).unwrap_or(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_call_has_a_readable_title() {
        let describe = |title| split_mcp_title(title).map(|(tool, rest)| format!("{tool}  {rest}"));
        let title = r#"create_issue (tracker MCP Server) {"title":"Retry loop","count":2}"#;
        assert_eq!(
            describe(title).as_deref(),
            Some("create_issue  tracker · title: Retry loop, count: 2")
        );
        let title = r#"create_issue (tracker MCP Server) {"title":"Retry lo"#;
        assert_eq!(describe(title).as_deref(), Some("create_issue  tracker · title: Retry lo…"));
        let title = r#"create (tracker MCP Server) {"title":"a\u001bb\u202ec"}"#;
        assert_eq!(title_in_words(title), "create · tracker · title: a␛b<U+202E>c");
        assert_eq!(title_in_words("Read a"), "Read a");
        assert_eq!(describe("list (tracker MCP Server) {}").as_deref(), Some("list  tracker"));
        assert_eq!(describe("echo (x MCP Server) y"), None);
    }

    #[test]
    fn cancelled_todos_do_not_count_as_done() {
        let todo = |status| Todo { description: "x".to_owned(), status };
        let todos = [
            TodoStatus::Completed,
            TodoStatus::Completed,
            TodoStatus::Pending,
            TodoStatus::Cancelled,
        ];
        assert_eq!(format_done(&todos.map(todo)), "2/3 done");
    }
}
