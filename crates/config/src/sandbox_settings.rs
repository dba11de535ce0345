//! Typed settings of sandboxes and checkpoints.

use std::path::PathBuf;

use parallax_protocol::policy::ApprovalMode;
use serde_json::Value;

use crate::settings::Settings;

/// `security.toolSandboxing`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolSandboxing {
    /// Uses the strongest sandbox that this machine supports.
    #[default]
    Auto,
    /// Requires a sandbox; without one, no command runs.
    Required,
    /// Off.
    Off,
}

/// `security.sandbox.*`: what commands may do in their sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether commands run in a sandbox.
    pub tools: ToolSandboxing,
    /// The approval modes in which commands have network access.
    pub network: NetworkByMode,
    /// Whether commands can reach services on this machine.
    pub host_loopback: bool,
    /// Whether package caches are writable. `None`: in a session layer if one can be mounted, else
    /// with approval.
    pub caches: Option<bool>,
    /// Additional paths that commands may write, unexpanded (`~` is kept).
    pub writable: Vec<PathBuf>,
    /// Additional paths that are hidden from commands, unexpanded.
    pub hidden: Vec<PathBuf>,
    /// Otherwise hidden paths that commands may read, unexpanded. Includes
    /// `tools.sandboxAllowedPaths`.
    pub readable: Vec<PathBuf>,
}

/// Whether commands have network access, by approval mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkByMode {
    /// In mode `default`.
    pub default: bool,
    /// In mode `auto_edit`.
    pub auto_edit: bool,
    /// In mode `plan`.
    pub plan: bool,
    /// In mode `yolo`.
    pub yolo: bool,
}

impl NetworkByMode {
    /// Whether network access is on in the mode.
    pub fn is_enabled(self, mode: ApprovalMode) -> bool {
        match mode {
            ApprovalMode::Plan => self.plan,
            ApprovalMode::Default => self.default,
            ApprovalMode::AutoEdit => self.auto_edit,
            ApprovalMode::Yolo => self.yolo,
        }
    }
}

/// `tools.sandbox`: the sandbox around the whole program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramSandbox {
    /// The requested sandbox: `true`, `false`, `docker`, a profile, and so on; `None` if not set.
    pub word: Option<String>,
    /// The container image.
    pub image: Option<String>,
    /// Additional paths that are readable inside, unexpanded.
    pub allowed_paths: Vec<PathBuf>,
    /// Whether the network is available inside; `None` if not set.
    pub network: Option<bool>,
}

/// `security.checkpoints.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// Whether previous file contents are saved, so that changes can be undone.
    pub enabled: bool,
    /// Maximum total size in bytes; `None` for the built-in limit.
    pub max_bytes: Option<u64>,
}

/// `tools.shell.commandSubstitution`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommandSubstitution {
    /// Commands with substitutions are denied.
    Block,
    /// Substituted commands are checked by the policy engine like any other.
    #[default]
    Check,
    /// Substituted commands are not checked.
    Allow,
}

impl Settings {
    /// `security.toolSandboxing` and `security.sandbox.*`.
    pub fn sandbox(&self) -> SandboxSettings {
        let paths = |key: &str| self.list(key).into_iter().map(PathBuf::from);
        let everywhere = self.flag("tools.sandboxNetworkAccess");
        let network = |mode: &str| match self.get(&format!("security.sandbox.network.{mode}")) {
            Some(value) => value.as_bool().unwrap_or(false),
            None => mode == "yolo" || (everywhere && mode != "plan"),
        };
        SandboxSettings {
            tools: match self.get("security.toolSandboxing") {
                Some(Value::Bool(true)) => ToolSandboxing::Required,
                Some(Value::Bool(false)) => ToolSandboxing::Off,
                _ => ToolSandboxing::Auto,
            },
            network: NetworkByMode {
                default: network("default"),
                auto_edit: network("auto_edit"),
                plan: network("plan"),
                yolo: network("yolo"),
            },
            host_loopback: self.flag("security.sandbox.hostLoopback"),
            caches: self.get("security.sandbox.caches").and_then(Value::as_bool),
            writable: paths("security.sandbox.writable").collect(),
            hidden: paths("security.sandbox.hidden").collect(),
            readable: paths("security.sandbox.readable")
                .chain(paths("tools.sandboxAllowedPaths"))
                .collect(),
        }
    }

    /// `tools.sandbox`, `tools.sandboxAllowedPaths`, `tools.sandboxNetworkAccess`.
    pub fn program_sandbox(&self) -> ProgramSandbox {
        let mut sandbox = ProgramSandbox {
            allowed_paths: self
                .list("tools.sandboxAllowedPaths")
                .into_iter()
                .map(PathBuf::from)
                .collect(),
            network: self.get("tools.sandboxNetworkAccess").and_then(Value::as_bool),
            ..ProgramSandbox::default()
        };
        match self.get("tools.sandbox") {
            Some(Value::Bool(flag)) => sandbox.word = Some(flag.to_string()),
            Some(Value::String(word)) => sandbox.word = Some(word.clone()),
            Some(Value::Object(fields)) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
                let off = fields.get("enabled").is_some_and(|it| *it == false || *it == "false");
                sandbox.word = match (off, text("command")) {
                    (true, _) => Some("false".to_owned()),
                    (false, Some(command)) => Some(command),
                    (false, None) => Some("true".to_owned()),
                };
                sandbox.image = text("image");
                let paths = fields.get("allowedPaths").and_then(Value::as_array);
                let paths = paths.into_iter().flatten().filter_map(Value::as_str);
                sandbox.allowed_paths.extend(paths.map(PathBuf::from));
                sandbox.network =
                    fields.get("networkAccess").and_then(Value::as_bool).or(sandbox.network);
            }
            _ => {}
        }
        sandbox
    }

    /// `security.checkpoints.*`.
    pub fn checkpoints(&self) -> CheckpointSettings {
        CheckpointSettings {
            enabled: self.flag("security.checkpoints.enabled"),
            max_bytes: self.count("security.checkpoints.maxBytes"),
        }
    }

    /// `tools.shell.commandSubstitution`.
    pub fn command_substitution(&self) -> CommandSubstitution {
        match self.text("tools.shell.commandSubstitution").as_deref() {
            Some("block") => CommandSubstitution::Block,
            Some("allow") => CommandSubstitution::Allow,
            _ => CommandSubstitution::Check,
        }
    }

    /// `security.disableAlwaysAllow`.
    pub fn disable_always_allow(&self) -> bool {
        self.flag("security.disableAlwaysAllow")
    }

    /// `security.enablePermanentToolApproval`.
    pub fn permanent_tool_approval(&self) -> bool {
        self.flag("security.enablePermanentToolApproval")
    }

    /// `security.autoAddToPolicyByDefault`.
    pub fn auto_add_to_policy(&self) -> bool {
        self.flag("security.autoAddToPolicyByDefault")
    }

    /// `policyPaths`, unexpanded.
    pub fn policy_paths(&self) -> Vec<PathBuf> {
        self.list("policyPaths").into_iter().map(PathBuf::from).collect()
    }

    /// `adminPolicyPaths`, unexpanded.
    pub fn admin_policy_paths(&self) -> Vec<PathBuf> {
        self.list("adminPolicyPaths").into_iter().map(PathBuf::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ToolSandboxing;
    use crate::environment::Environment;
    use crate::layers::{Layer, LayerFile};
    use crate::settings::Settings;

    fn settings(values: &Value) -> (Settings, Vec<String>) {
        let file = LayerFile {
            layer: Layer::User,
            path: "/s.json".into(),
            text: String::new(),
            values: values.as_object().cloned().unwrap_or_default(),
        };
        let mut warnings = Vec::new();
        let settings = Settings::from_layers(vec![file], &Environment::default(), &mut warnings);
        (settings, warnings)
    }

    #[test]
    fn missing_sandbox_settings_use_safe_defaults() {
        let (settings, _) = settings(&json!({}));
        let sandbox = settings.sandbox();
        assert_eq!(sandbox.tools, ToolSandboxing::Auto);
        let network = sandbox.network;
        assert_eq!(
            (network.default, network.auto_edit, network.plan, network.yolo),
            (false, false, false, true)
        );
        assert!(!sandbox.host_loopback && sandbox.caches.is_none());
        assert_eq!(settings.program_sandbox(), super::ProgramSandbox::default());
        assert!(settings.checkpoints().enabled);
    }

    #[test]
    fn every_form_is_parsed_and_invalid_ones_are_reported() {
        let (read, warnings) = settings(&json!({
            "tools": {"sandbox": {"enabled": true, "command": "podman", "image": "i", "allowedPaths": ["/a"], "networkAccess": false},
                      "sandboxAllowedPaths": ["/b"], "sandboxNetworkAccess": true},
            "security": {"toolSandboxing": "true", "sandbox": {"network": {"yolo": false, "plan": 1}, "hidden": ["/h"], "writable": "x"},
                         "checkpoints": {"maxBytes": 5}}
        }));
        let program = read.program_sandbox();
        assert_eq!(program.word.as_deref(), Some("podman"));
        assert_eq!((program.image.as_deref(), program.network), (Some("i"), Some(false)));
        assert_eq!(program.allowed_paths, ["/b", "/a"].map(std::path::PathBuf::from));
        let sandbox = read.sandbox();
        assert_eq!(sandbox.tools, ToolSandboxing::Required);
        assert!(sandbox.network.default && !sandbox.network.plan && !sandbox.network.yolo);
        assert_eq!(sandbox.hidden, ["/h"].map(std::path::PathBuf::from));
        assert_eq!(read.checkpoints().max_bytes, Some(5));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        for (value, word) in [(json!(true), "true"), (json!("false"), "false"), (json!({}), "true")]
        {
            let (read, _) = settings(&json!({"tools": {"sandbox": value}}));
            assert_eq!(read.program_sandbox().word.as_deref(), Some(word));
        }
        let (_, warnings) = settings(&json!({"security": {"toolSandboxing": "maybe"}}));
        assert_eq!(warnings.len(), 1);
    }
}
