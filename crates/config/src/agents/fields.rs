//! The settings of an agent, in its file and in `agents.overrides`.

use parallax_protocol::Object;
use serde_json::Value;

use super::values::{DESCRIPTION, NAME, checked_name, minutes_of, positive_number, text};
use super::{Agent, AgentTier};
use crate::commands::one_line;

/// Maximum depth of nested agents.
const MAX_DEPTH: u32 = 2;

/// The keys of a definition.
const KEYS: [&str; 13] = [
    "kind",
    "name",
    "description",
    "display_name",
    "tools",
    "mcp_servers",
    "model",
    "temperature",
    "max_turns",
    "timeout_mins",
    "policy",
    "max_depth",
    "isolation",
];

/// Keys of an MCP server in a definition and their names in settings.
const SERVER_KEYS: [(&str, &str); 3] =
    [("http_url", "httpUrl"), ("include_tools", "includeTools"), ("exclude_tools", "excludeTools")];

/// Tool groups that can be listed in `tools`.
const GROUPS: [(&str, &[&str]); 4] = [
    ("read-only", &["list_directory", "read_file", "read_many_files", "glob", "grep_search"]),
    ("edit", &["replace", "write_file"]),
    ("web", &["web_fetch", "google_web_search"]),
    ("mcp", &["mcp_*"]),
];

/// Builds an agent from the parts of its file.
pub(super) fn read(fields: &Object, body: &str, tier: &AgentTier) -> Result<Agent, String> {
    let is_remote = fields.get("kind").and_then(Value::as_str) == Some("remote")
        || fields.keys().any(|key| key.starts_with("agent_card"));
    if is_remote {
        return super::remote::read(fields, tier);
    }
    if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("unknown key `{unknown}`; known keys: {}", KEYS.join(", ")));
    }
    match fields.get("kind").map(|kind| kind.as_str()) {
        None | Some(Some("local")) => {}
        Some(_) => return Err("`kind` must be `local` or `remote`".to_owned()),
    }
    let name = checked_name(fields)?;
    let description = text(fields, "description")?.ok_or("`description` is missing")?;
    let mut agent =
        Agent::new(name, &one_line(description, DESCRIPTION), tier.clone(), body.trim());
    agent.display_name = text(fields, "display_name")?.map(|name| one_line(name, NAME));
    if let Some(tools) = fields.get("tools") {
        agent.tools = Some(tool_names(tools).ok_or("`tools` must be a list of names")?);
    }
    if let Some(rules) = fields.get("policy") {
        agent.rules = Some(super::rules::read(name, rules)?);
    }
    if let Some(servers) = fields.get("mcp_servers") {
        agent.mcp_servers = mcp_servers(servers)?;
    }
    agent.model = text(fields, "model")?.filter(|model| *model != "inherit").map(str::to_owned);
    if let Some(temperature) = fields.get("temperature") {
        let number = temperature.as_f64().filter(|number| (0.0..=2.0).contains(number));
        number.ok_or("`temperature` must be a number from 0 to 2")?;
        agent.generation.insert("temperature".to_owned(), temperature.clone());
    }
    if let Some(turns) = positive_number(fields, "max_turns")? {
        agent.max_turns = u32::try_from(turns).unwrap_or(u32::MAX);
    }
    if let Some(isolation) = fields.get("isolation") {
        agent.isolated =
            is_isolated(isolation).ok_or("`isolation` must be `worktree` or `none`")?;
    }
    if let Some(depth) = positive_number(fields, "max_depth")? {
        agent.max_depth = u32::try_from(depth)
            .ok()
            .filter(|depth| *depth <= MAX_DEPTH)
            .ok_or_else(|| format!("`max_depth` must be at most {MAX_DEPTH}"))?;
    }
    if agent.isolated && agent.max_depth > 1 {
        return Err("`max_depth` must be 1 with `isolation: worktree`".to_owned());
    }
    if let Some(minutes) = positive_number(fields, "timeout_mins")? {
        agent.time = minutes_of(minutes);
    }
    Ok(agent)
}

/// Applies the user's overrides to an agent. Returns warnings about them.
pub(super) fn change(agent: &mut Agent, changes: &Object) -> Vec<String> {
    let mut problems = Vec::new();
    for (key, value) in changes {
        match (key.as_str(), value) {
            ("enabled", Value::Bool(on)) => agent.disabled = !on,
            ("isolation", value) if is_isolated(value).is_some() => {
                agent.isolated = is_isolated(value) == Some(true);
            }
            ("runConfig", Value::Object(limits)) => {
                for (limit, value) in limits {
                    match (limit.as_str(), value.as_u64().filter(|number| *number > 0)) {
                        ("maxTurns", Some(turns)) => {
                            agent.max_turns = u32::try_from(turns).unwrap_or(u32::MAX);
                        }
                        ("maxTimeMinutes", Some(minutes)) => agent.time = minutes_of(minutes),
                        _ => problems.push(format!("`runConfig.{limit}` is invalid")),
                    }
                }
            }
            ("modelConfig", Value::Object(model)) => {
                if let Some(name) = model.get("model").and_then(Value::as_str) {
                    agent.model = (name != "inherit").then(|| name.to_owned());
                }
                if let Some(Value::Object(set)) = model.get("generateContentConfig") {
                    agent.generation.extend(set.clone());
                }
            }
            ("tools", list) if string_list(list).is_some() => agent.tools = tool_names(list),
            ("mcpServers", Value::Object(servers)) => {
                agent.mcp_servers.extend(servers.clone());
            }
            _ => problems.push(format!("`{key}` cannot be used")),
        }
    }
    problems
}

/// Returns whether an agent with this `isolation` works in its own git worktree.
fn is_isolated(value: &Value) -> Option<bool> {
    match value.as_str() {
        Some("worktree") => Some(true),
        Some("none") => Some(false),
        _ => None,
    }
}

pub(super) fn string_list(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Returns the tool names with groups expanded.
fn tool_names(value: &Value) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for name in string_list(value)? {
        match GROUPS.iter().find(|(group, _)| *group == name) {
            Some((_, tools)) => names.extend(tools.iter().map(|tool| (*tool).to_owned())),
            None => names.push(name),
        }
    }
    Some(names)
}

fn mcp_servers(value: &Value) -> Result<Object, String> {
    let Value::Object(servers) = value else {
        return Err("`mcp_servers` must be a mapping of names".to_owned());
    };
    let mut renamed = servers.clone();
    for (name, server) in &mut renamed {
        let Value::Object(server) = server else {
            return Err(format!("`mcp_servers.{name}` must be a mapping"));
        };
        for (key, setting) in SERVER_KEYS {
            if let Some(value) = server.shift_remove(key) {
                server.insert(setting.to_owned(), value);
            }
        }
    }
    Ok(renamed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(fields: Value) -> Result<Agent, String> {
        let Value::Object(fields) = fields else { panic!("an object") };
        read(&fields, "\nYou look.\n", &AgentTier::User)
    }

    #[test]
    fn complete_agent_definition_is_parsed() {
        let agent = agent(json!({
            "kind": "local", "name": "looker_1", "description": "looks", "display_name": "Looker",
            "tools": ["read_file", "mcp_docs_*"], "model": "inherit", "temperature": 0.2,
            "max_turns": 5, "timeout_mins": 1, "isolation": "worktree",
            "mcp_servers": {"docs": {"http_url": "https://x", "include_tools": ["a"]}}
        }))
        .expect("an agent");
        assert_eq!((agent.prompt.as_str(), agent.model.clone()), ("You look.", None));
        assert_eq!((agent.max_turns, agent.time.as_secs(), agent.isolated), (5, 60, true));
        assert!(agent.may_use("mcp_docs_find") && !agent.may_use("write_file"));
        assert_eq!(agent.generation["temperature"], 0.2);
        assert_eq!(agent.mcp_servers["docs"]["httpUrl"], "https://x");
    }

    #[test]
    fn tool_group_expands_to_its_tools() {
        let fields = json!({"name": "a", "description": "d", "tools": ["read-only", "replace"]});
        let agent = agent(fields).expect("an agent");
        for (tool, may) in
            [("grep_search", true), ("replace", true), ("write_file", false), ("read-only", false)]
        {
            assert_eq!(agent.may_use(tool), may, "{tool}");
        }
    }

    #[test]
    fn invalid_fields_are_reported() {
        for (fields, part) in [
            (json!({"name": "a"}), "`description` is missing"),
            (json!({"description": "a"}), "`name` is missing"),
            (json!({"name": "run_shell_command", "description": "a"}), "that of a tool"),
            (json!({"name": "mcp_x_y", "description": "a"}), "that of a tool"),
            (json!({"name": "A b", "description": "a"}), "lowercase"),
            (json!({"name": "a", "description": "a", "tool": []}), "unknown key `tool`"),
            (json!({"name": "a", "description": "a", "tools": "x"}), "list of names"),
            (json!({"name": "a", "description": "a", "max_turns": 0}), "positive integer"),
            (json!({"name": "a", "description": "a", "temperature": "hot"}), "from 0 to 2"),
            (json!({"name": "a", "description": "a", "isolation": true}), "`worktree` or `none`"),
            (json!({"name": "a", "description": "a", "kind": "remote"}), "`agent_card_url`"),
            (json!({"name": "a", "description": "a", "kind": "far"}), "`local` or `remote`"),
        ] {
            let reason = agent(fields.clone()).expect_err("a problem");
            assert!(reason.contains(part), "{fields}: {reason}");
        }
    }
}
