//! The sandbox of a server: whether it runs in one, and what it may do in there.

use parallax_protocol::Object;
use serde_json::Value;

use super::server::{Endpoint, McpServer, McpSource, flag, texts};

/// What a confined server may do beyond what a command may in its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Reach other machines.
    pub network: bool,
    /// Files and folders that it may read, as written: `~/` is the home, other
    /// relative ones are in the working folder.
    pub read: Vec<String>,
    /// Those that it may write.
    pub write: Vec<String>,
}

impl McpServer {
    /// Whether it runs in the sandbox of commands; `default` is the setting
    /// `mcp.sandbox`. A project or an extension cannot take that away.
    pub fn is_confined(&self, default: bool) -> bool {
        let own = self.sandbox.filter(|own| *own || !self.source.is_foreign());
        matches!(self.endpoint, Endpoint::Stdio { .. }) && own.unwrap_or(default)
    }
}

/// Reads `sandbox`: yes, no, or what is granted in it. A project or an extension
/// grants nothing.
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
                    "`sandbox.{other}` is not known: it has `network`, `read` and `write`"
                ));
            }
            let paths = |key: &str| match granted.get(key) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(list @ Value::Array(_)) => Ok(texts(list)),
                Some(_) => Err(format!("`sandbox.{key}` must be a list of paths")),
            };
            let grants = SandboxGrants {
                network: flag(granted, "network"),
                read: paths("read")?,
                write: paths("write")?,
            };
            if source.is_foreign() && grants != none {
                notes.push(
                    "what its `sandbox` grants does not count: only your own settings can grant it"
                        .to_owned(),
                );
                return Ok((Some(true), none));
            }
            Ok((Some(true), grants))
        }
        Some(_) => Err("`sandbox` must be `true`, `false`, or an object with `network`, `read` \
                        and `write`"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_its_user_takes_a_server_out_of_the_sandbox() {
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
            let of_extension = McpSource::Extension("e".to_owned());
            assert_eq!(confined(json!(false), of_extension, default), default);
        }
        let read = |value| McpServer::read("s", &value, McpSource::User);
        assert!(read(json!({"command": "c", "sandbox": "yes"})).is_err());
        let far = read(json!({"url": "https://x.example", "sandbox": true})).expect("a server");
        assert!(!far.is_confined(true), "there is no program");
    }

    #[test]
    fn only_its_user_grants_something_in_the_sandbox() {
        let value = json!({"command": "c", "sandbox": {"network": true, "write": ["~/x"]}});
        let read = |source| McpServer::read("s", &value, source).expect("a server");
        let mine = read(McpSource::User);
        assert!(mine.is_confined(false) && mine.grants.network);
        assert_eq!(mine.grants.write, ["~/x"]);
        let theirs = read(McpSource::Workspace);
        assert!(theirs.is_confined(false) && theirs.notes.len() == 1);
        assert_eq!(theirs.grants, SandboxGrants::default());
        for wrong in [json!({"net": true}), json!({"read": "x"}), json!(1)] {
            let value = json!({"command": "c", "sandbox": wrong});
            assert!(McpServer::read("s", &value, McpSource::User).is_err(), "{value}");
        }
    }
}
