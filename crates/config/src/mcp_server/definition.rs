//! The objects that define servers, before they are read: where they come from, and how they are
//! expanded and merged.

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::expand::Expander;

/// The servers that an extension provides.
#[derive(Debug, Clone)]
pub struct ExtensionServers {
    /// The extension's name.
    pub extension: String,
    /// `mcpServers` of its manifest, with expanded variables.
    pub servers: Object,
}

/// Expands variables in `mcpServers`: in `env` and `headers` an unset variable becomes empty;
/// elsewhere it stays unexpanded.
pub(crate) fn expand_servers(servers: &mut Value, expander: &mut Expander<'_>) {
    for server in servers.as_object_mut().into_iter().flat_map(|servers| servers.values_mut()) {
        let Some(fields) = server.as_object_mut() else { continue };
        for (key, field) in fields {
            match key.as_str() {
                "env" | "headers" => expander.expand_value_or_empty(field),
                _ => expander.expand_value(field),
            }
        }
    }
}

/// Returns the server `mcp` that `mcp.serverCommand` defines, if it is a command line.
pub(crate) fn server_of_command(command: &str) -> Option<Value> {
    let words = shell_words::split(command).ok()?;
    let (program, arguments) = words.split_first()?;
    Some(json!({"command": program, "args": arguments}))
}

/// Merges the user's settings into a server of an extension: single values replace, variables are
/// added, included tools are intersected, and excluded tools are combined.
pub(crate) fn merged_with_extension(extension: &Value, user: &Value) -> Value {
    let (Some(lower), Some(upper)) = (extension.as_object(), user.as_object()) else {
        return user.clone();
    };
    let mut fields = lower.clone();
    // Another way to reach the server replaces the extension's endpoint completely.
    if ["command", "url", "httpUrl"].iter().any(|key| upper.contains_key(*key)) {
        for key in ["command", "args", "cwd", "url", "httpUrl", "type", "headers"] {
            fields.shift_remove(key);
        }
    }
    for (key, value) in upper {
        let value = match (key.as_str(), fields.get(key), value) {
            ("env", Some(Value::Object(there)), Value::Object(more)) => {
                let mut env = there.clone();
                env.extend(more.clone());
                Value::Object(env)
            }
            ("includeTools", Some(Value::Array(there)), Value::Array(tools)) => {
                Value::Array(there.iter().filter(|tool| tools.contains(tool)).cloned().collect())
            }
            ("excludeTools", Some(Value::Array(there)), Value::Array(tools)) => {
                let mut all = there.clone();
                all.extend(tools.iter().filter(|tool| !there.contains(tool)).cloned());
                Value::Array(all)
            }
            _ => value.clone(),
        };
        fields.insert(key.clone(), value);
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_settings_can_narrow_an_extension_server() {
        let extension = json!({"command": "c", "args": ["a"], "env": {"A": "1", "B": "1"},
            "includeTools": ["x", "y"], "excludeTools": ["p"], "timeout": 5});
        let user = json!({"env": {"B": "2", "C": "2"}, "includeTools": ["y", "z"],
            "excludeTools": ["q", "p"], "timeout": 9});
        assert_eq!(
            merged_with_extension(&extension, &user),
            json!({"command": "c", "args": ["a"], "env": {"A": "1", "B": "2", "C": "2"},
                "includeTools": ["y"], "excludeTools": ["p", "q"], "timeout": 9})
        );
        let other = merged_with_extension(&extension, &json!({"command": "d"}));
        assert_eq!((&other["command"], other.get("args")), (&json!("d"), None));
    }
}
