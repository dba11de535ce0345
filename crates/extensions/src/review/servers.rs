//! Reviews what the MCP servers of an extension run, connect to, and read.

use parallax_config::mcp::is_rejected_variable;
use parallax_protocol::Object;
use parallax_protocol::code_text::{check_command, check_name, code_text};
use serde_json::Value;

use super::Review;
use super::capability::Capability;

/// Adds a line for each server. `agent` is the agent that provides the servers, if any.
///
/// # Errors
/// Returns why the extension may not be installed.
pub(super) fn servers(
    servers: &Object,
    agent: Option<&str>,
    review: &mut Review,
) -> Result<(), String> {
    for (name, server) in servers {
        let whose = agent.map(|agent| format!(" of the agent `{agent}`")).unwrap_or_default();
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let server_name = code_text(name);
        let rejection_message = |reason: String| {
            format!("its MCP server `{server_name}`{whose} was rejected: {reason}")
        };
        check_name(name).map_err(|reason| rejection_message(format!("its name {reason}")))?;
        for url in [text("httpUrl"), text("url")].into_iter().flatten() {
            check_name(url).map_err(|reason| {
                rejection_message(format!("its URL `{}` {reason}", code_text(url)))
            })?;
        }
        let args = server.get("args").and_then(Value::as_array).into_iter().flatten();
        for word in text("command").into_iter().chain(args.filter_map(Value::as_str)) {
            check_command(word).map_err(|reason| {
                rejection_message(format!("its command `{}` {reason}", code_text(word)))
            })?;
        }
        let line = match (text("command"), text("httpUrl").or_else(|| text("url"))) {
            (_, Some(url)) => format!("MCP server `{name}`{whose}: connects to {url}"),
            (Some(command), None) => {
                let args = server.get("args").and_then(Value::as_array);
                let args = args.into_iter().flatten().filter_map(Value::as_str);
                let words: Vec<&str> = std::iter::once(command).chain(args).collect();
                format!("MCP server `{name}`{whose}: runs `{}`", words.join(" "))
            }
            (None, None) => {
                review.notes.push(format!(
                    "its MCP server `{name}`{whose} has neither a command nor a URL"
                ));
                continue;
            }
        };
        let env = server.get("env").and_then(Value::as_object);
        let names: Vec<&String> = env.into_iter().flatten().map(|(name, _)| name).collect();
        if let Some(variable) = names.iter().find(|name| is_rejected_variable(name)) {
            return Err(format!(
                "its MCP server `{name}`{whose} sets `{variable}`, which makes programs load code"
            ));
        }
        let mut line = line;
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            line.push_str(&format!("; sets {}", names.join(", ")));
        }
        let read = variables(server);
        if !read.is_empty() {
            line.push_str(&format!("; reads your variables {}", read.join(", ")));
        }
        let capability = Capability::Server {
            name: name.clone(),
            agent: agent.map(str::to_owned),
            value: server.clone(),
        };
        review.add_capability(&line, capability);
        review.add_line(line, server);
    }
    Ok(())
}

/// Returns the names of the user's variables that the strings refer to.
fn variables(value: &Value) -> Vec<String> {
    fn collect_names(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::String(text) => {
                for piece in text.split('$').skip(1) {
                    let piece = piece.trim_start_matches('{');
                    let end = piece
                        .find(|char: char| !(char.is_ascii_alphanumeric() || char == '_'))
                        .unwrap_or(piece.len());
                    let name = piece.get(..end).unwrap_or_default();
                    let ours = ["extensionPath", "workspacePath", "pathSeparator"];
                    if !name.is_empty()
                        && !ours.contains(&name)
                        && !names.iter().any(|it| it == name)
                    {
                        names.push(name.to_owned());
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
            Value::Object(fields) => fields.values().for_each(|field| collect_names(field, names)),
            _ => {}
        }
    }
    let mut names = Vec::new();
    collect_names(value, &mut names);
    names
}
