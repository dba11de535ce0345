//! The sandbox of an MCP server: whether it runs in one, and what it may do there.

use parallax_protocol::Object;
use serde_json::Value;

use super::endpoint::McpSource;
use super::values::{flag, strings};

/// What a sandboxed server may do beyond what commands may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Whether it may access the network.
    pub network: bool,
    /// Paths that it may read, unexpanded: `~/` is the home directory; other relative paths are
    /// below the working directory.
    pub read: Vec<String>,
    /// Paths that it may write.
    pub write: Vec<String>,
}

/// Reads `sandbox`: a boolean, or an object of grants. A project or an extension cannot grant
/// anything.
pub(super) fn sandbox(
    fields: &Object,
    source: &McpSource,
    notes: &mut Vec<String>,
) -> Result<(Option<bool>, SandboxGrants), String> {
    let none = SandboxGrants::default();
    match fields.get("sandbox") {
        None | Some(Value::Null) => Ok((None, none)),
        Some(Value::Bool(flag)) => Ok((Some(*flag), none)),
        Some(Value::String(text)) if text == "true" || text == "false" => {
            Ok((Some(text == "true"), none))
        }
        Some(Value::Object(granted)) => {
            let known = ["network", "read", "write"];
            if let Some(other) = granted.keys().find(|key| !known.contains(&key.as_str())) {
                return Err(format!(
                    "unknown key `sandbox.{other}`; known keys: `network`, `read`, `write`"
                ));
            }
            let paths = |key: &str| match granted.get(key) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(list @ Value::Array(_)) => Ok(strings(list)),
                Some(_) => Err(format!("`sandbox.{key}` must be a list of paths")),
            };
            let grants = SandboxGrants {
                network: flag(granted, "network"),
                read: paths("read")?,
                write: paths("write")?,
            };
            if source.is_foreign() && grants != none {
                notes.push(
                    "its `sandbox` permissions are ignored: only user settings can grant them"
                        .to_owned(),
                );
                return Ok((Some(true), none));
            }
            Ok((Some(true), grants))
        }
        Some(_) => Err("`sandbox` must be `true`, `false`, or an object with `network`, `read`, \
            and `write`"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::McpServer;
    use super::*;

    #[test]
    fn only_user_settings_can_run_a_server_without_the_sandbox() {
        let confined = |own: Value, source: McpSource, default: bool| {
            let value = json!({"command": "c", "sandbox": own});
            McpServer::read("s", &value, source).expect("a server").is_confined(default)
        };
        for default in [false, true] {
            for source in [McpSource::User, McpSource::Workspace] {
                assert!(confined(json!("true"), source.clone(), default));
                assert_eq!(confined(Value::Null, source, default), default);
            }
            assert!(!confined(json!(false), McpSource::System, default));
            assert_eq!(confined(json!(false), McpSource::Workspace, default), default);
            let extension_source = McpSource::Extension("e".to_owned());
            assert_eq!(confined(json!(false), extension_source, default), default);
        }
        let read = |value| McpServer::read("s", &value, McpSource::User);
        assert!(read(json!({"command": "c", "sandbox": "yes"})).is_err());
        let far = read(json!({"url": "https://x.example", "sandbox": true})).expect("a server");
        assert!(!far.is_confined(true), "there is no program");
    }

    #[test]
    fn only_user_settings_can_grant_sandbox_permissions() {
        let value = json!({"command": "c", "sandbox": {"network": true, "write": ["~/x"]}});
        let read = |source| McpServer::read("s", &value, source).expect("a server");
        let mine = read(McpSource::User);
        assert!(mine.is_confined(false) && mine.grants.network);
        assert_eq!(mine.grants.write, ["~/x"]);
        let theirs = read(McpSource::Workspace);
        assert!(theirs.is_confined(false) && theirs.notes.len() == 1);
        assert_eq!(theirs.grants, SandboxGrants::default());
        for invalid in [json!({"net": true}), json!({"read": "x"}), json!(1)] {
            let value = json!({"command": "c", "sandbox": invalid});
            assert!(McpServer::read("s", &value, McpSource::User).is_err(), "{value}");
        }
    }
}
