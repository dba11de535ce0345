//! The settings that clients of Gemini CLI's A2A server send with a task.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::errors::A2aError;

/// Settings for the session of a new task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AgentSettings {
    /// Whether calls run without approval.
    pub(super) auto_execute: bool,
}

impl AgentSettings {
    /// Reads `{workspacePath, autoExecute, isTrusted}`. Trust is decided on this machine, so
    /// `isTrusted` has no effect.
    ///
    /// # Errors
    /// Returns an error if the client wants to work in another directory than the server.
    pub(super) fn read(settings: Option<&Value>) -> Result<Self, A2aError> {
        settings.map_or_else(|| Ok(Self::default()), |it| Self::read_for(it, &served_directory()))
    }

    fn read_for(settings: &Value, served: &Path) -> Result<Self, A2aError> {
        if let Some(path) = settings.get("workspacePath").and_then(Value::as_str)
            && !path.is_empty()
            && !is_same_directory(Path::new(path), served)
        {
            return Err(A2aError::InvalidParams(format!(
                "`workspacePath` is not the directory of this server, which is `{}`: start a \
                 server in the other directory",
                served.display()
            )));
        }
        let auto_execute = settings.get("autoExecute").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { auto_execute })
    }
}

/// Returns the directory in which tasks work.
pub(super) fn served_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

fn is_same_directory(path: &Path, other: &Path) -> bool {
    path == other
        || path.canonicalize().is_ok_and(|path| other.canonicalize().is_ok_and(|it| it == path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_apply_only_to_the_directory_of_the_server() {
        let served = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |settings: Value| AgentSettings::read_for(&settings, served);
        let same = json!({"workspacePath": served.join("."), "autoExecute": true});
        assert_eq!(read(same).ok(), Some(AgentSettings { auto_execute: true }));
        assert_eq!(read(json!({"isTrusted": true})).ok(), Some(AgentSettings::default()));
        for other in ["/", "/nowhere", "src"] {
            let error = read(json!({"workspacePath": other})).expect_err("another directory");
            assert!(matches!(error, A2aError::InvalidParams(_)), "{other}");
        }
    }
}
