//! MCP servers of a project that have the name of one of the user's servers. The user's rules and
//! lists refer to servers by name: a project server with the same name would inherit permissions
//! that are meant for the user's server.

use parallax_protocol::Object;
use serde_json::{Value, json};

use super::{equals_json, strings, take};
use crate::expand::Expander;
use crate::layers::Layer;
use crate::mcp_server::{is_same_name, merged_with_extension, server_of_command};
use crate::migrate::get_dotted;
use crate::outer_settings::OuterSettings;

const COMMAND: &str = "mcp.serverCommand";

/// Removes the servers that would replace one of the user's, and `trust` of the others. Adds the
/// removed keys.
pub(super) fn tighten(values: &mut Object, outer: &OuterSettings, removed: &mut Vec<String>) {
    let command = get_dotted(values, COMMAND).and_then(Value::as_str).map(server_of_command);
    let replaces_command = command.is_some_and(|server| match users(outer, "mcp") {
        Some(project) => server.is_none_or(|server| project.is_replaced_by(&server, outer)),
        None => false,
    });
    if replaces_command {
        take(values, COMMAND);
        removed.push(COMMAND.to_owned());
    }
    let Some(Value::Object(servers)) = values.get_mut("mcpServers") else { return };
    servers.retain(|name, server| {
        let replaces =
            users(outer, name).is_some_and(|project| project.is_replaced_by(server, outer));
        if replaces {
            removed.push(format!("mcpServers.{name}"));
        }
        !replaces
    });
    for (name, server) in servers {
        if users(outer, name).is_some() {
            continue;
        }
        let Some(server) = server.as_object_mut() else { continue };
        let trust = server.get("trust");
        if trust.is_some_and(|trust| !trust.is_null() && !equals_json(trust, "false")) {
            server.shift_remove("trust");
            removed.push(format!("mcpServers.{name}.trust"));
        }
    }
}

/// One of the user's servers.
struct UserServer {
    value: Value,
    is_of_extension: bool,
}

/// Returns the user's server with that name: of the settings, or else of an extension or
/// `mcp-config.json`.
fn users(outer: &OuterSettings, name: &str) -> Option<UserServer> {
    let outer_layers = outer.layers.iter().filter(|file| file.layer < Layer::WorkspaceGemini);
    let mut in_settings = outer_layers.filter_map(|file| -> Option<Value> {
        let named = file.values.get("mcpServers").and_then(Value::as_object).and_then(|servers| {
            servers.iter().find(|(known, _)| is_same_name(known, name)).map(|it| it.1.clone())
        });
        let name_from_command = || {
            let command = get_dotted(&file.values, COMMAND)?.as_str()?;
            (is_same_name("mcp", name)).then(|| server_of_command(command)).flatten()
        };
        named.or_else(name_from_command)
    });
    if let Some(value) = in_settings.next_back() {
        return Some(UserServer { value, is_of_extension: false });
    }
    let other = outer.servers.iter().rfind(|server| is_same_name(&server.name, name))?;
    let mut value = other.value.clone();
    if let Some(fields) = value.as_object_mut().filter(|_| other.is_of_extension) {
        // An extension cannot trust its own server.
        fields.shift_remove("trust");
    }
    Some(UserServer { value, is_of_extension: other.is_of_extension })
}

impl UserServer {
    /// Whether a project's server with the same name differs and is not narrower.
    fn is_replaced_by(&self, server: &Value, outer: &OuterSettings) -> bool {
        let server = match self.is_of_extension {
            true => merged_with_extension(&self.value, server),
            false => server.clone(),
        };
        let expanded = |mut value: Value| {
            Expander::new(&outer.environment).expand_value(&mut value);
            value
        };
        let plain = |value: Value| with_plain_url(expanded(value));
        let (project, users) = (plain(server), plain(self.value.clone()));
        project != users && !is_narrower(&project, &users)
    }
}

/// Spells `url` with the type `http` as `httpUrl`, which means the same.
fn with_plain_url(mut server: Value) -> Value {
    if let Some(fields) = server.as_object_mut()
        && fields.get("type").and_then(Value::as_str) == Some("http")
        && !fields.contains_key("httpUrl")
        && let Some(url) = fields.shift_remove("url")
    {
        fields.shift_remove("type");
        fields.insert("httpUrl".to_owned(), url);
    }
    server
}

/// Whether a project server equals the user's server with fewer tools or less trust.
fn is_narrower(project: &Value, users: &Value) -> bool {
    let (Some(own), Some(users)) = (project.as_object(), users.as_object()) else { return false };
    let list = |server: &Object, key: &str| strings(server.get(key));
    let includes = |server: &Object| server.get("includeTools").is_some_and(|it| !it.is_null());
    let keeps_excluded =
        list(users, "excludeTools").iter().all(|it| list(own, "excludeTools").contains(it));
    let adds_none = !includes(users)
        || (includes(own)
            && list(own, "includeTools").iter().all(|it| list(users, "includeTools").contains(it)));
    let trusts = |server: &Object| {
        server.get("trust").is_some_and(|trust| !trust.is_null() && !equals_json(trust, "false"))
    };
    let rest = |server: &Object| {
        let mut rest = server.clone();
        let is_empty = |value: &Value| [json!(null), json!([]), json!({})].contains(value);
        let is_compared_alone =
            |name: &str| matches!(name, "excludeTools" | "includeTools" | "trust");
        // These change neither what runs nor what it may do.
        let is_harmless = |name: &str| matches!(name, "description" | "timeout");
        rest.retain(|name, value| {
            !is_compared_alone(name) && !is_harmless(name) && !is_empty(value)
        });
        Value::Object(rest)
    };
    keeps_excluded && adds_none && (trusts(users) || !trusts(own)) && rest(own) == rest(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outer_settings::OuterServer;

    fn tightened(outer: &OuterSettings, project: Value) -> Vec<String> {
        let mut values = project.as_object().cloned().unwrap_or_default();
        let mut removed = Vec::new();
        tighten(&mut values, outer, &mut removed);
        removed
    }

    #[test]
    fn extension_and_config_file_servers_count_as_user_servers() {
        let server = |name: &str, value: Value, is_of_extension| OuterServer {
            name: name.to_owned(),
            value,
            is_of_extension,
        };
        let outer = OuterSettings {
            servers: vec![
                server("file", json!({"command": "good"}), false),
                server("ext", json!({"command": "good", "args": ["${extensionPath}/x"]}), true),
            ],
            ..OuterSettings::default()
        };
        let project = json!({"mcpServers": {"FILE": {"command": "evil"}, "ext": {"command": "evil"},
            "own": {"command": "own"}}});
        assert_eq!(tightened(&outer, project), ["mcpServers.FILE", "mcpServers.ext"]);
        let narrower = json!({"mcpServers": {
            "file": {"command": "good", "args": [], "excludeTools": ["x"]},
            "ext": {"includeTools": ["y"]}}});
        assert!(tightened(&outer, narrower).is_empty());
        let trusting = json!({"mcpServers": {"ext": {"trust": true}}});
        assert_eq!(tightened(&outer, trusting), ["mcpServers.ext"]);
    }

    #[test]
    fn server_of_the_user_command_counts_as_user_server() {
        let mut outer = OuterSettings::default();
        let free = json!({"mcp": {"serverCommand": "own x"}, "mcpServers": {"mcp": {}}});
        assert!(tightened(&outer, free).is_empty());
        let values = json!({"mcp": {"serverCommand": "good a"}});
        outer.layers.push(crate::layers::LayerFile {
            layer: Layer::User,
            path: "/home/settings.json".into(),
            text: String::new(),
            values: values.as_object().cloned().unwrap_or_default(),
        });
        assert!(tightened(&outer, values).is_empty());
        let other = json!({"mcp": {"serverCommand": "evil"}, "mcpServers": {"mcp": {"url": "x"}}});
        assert_eq!(tightened(&outer, other), ["mcp.serverCommand", "mcpServers.mcp"]);
    }

    #[test]
    fn only_programs_and_permissions_are_compared() {
        let users = json!({"command": "c", "timeout": 600_000, "includeTools": ["a", "b"]});
        for project in [
            json!({"command": "c", "args": [], "env": {}, "includeTools": ["a"]}),
            json!({"command": "c", "description": "x", "trust": false, "includeTools": ["a", "b"]}),
            json!({"command": "c", "timeout": 5, "includeTools": ["a"], "excludeTools": ["b"]}),
        ] {
            assert!(is_narrower(&project, &users), "{project}");
        }
        for project in [
            json!({"command": "c"}),
            json!({"command": "c", "includeTools": ["a", "c"]}),
            json!({"command": "c", "includeTools": ["a"], "trust": true}),
            json!({"command": "c", "includeTools": ["a"], "env": {"LD_PRELOAD": "x"}}),
            json!({"command": "c", "includeTools": ["a"], "args": ["x"]}),
        ] {
            assert!(!is_narrower(&project, &users), "{project}");
        }
    }
}
