//! The merged settings and typed accessors.

use std::path::PathBuf;
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::secret::SecretVariables;
use serde_json::Value;

use crate::environment::Environment;
use crate::expand::Expander;
use crate::layers::{Layer, LayerFile, ValueOrigin};
use crate::memory::ImportFormat;
use crate::merge::{self, Origins};
use crate::migrate::get_dotted;
use crate::secret_references;
use crate::setting_spec::parse_age;
use crate::unsupported_settings;
use crate::{setting_check, setting_table};

/// The merged settings of all layers. `merged` does not contain built-in defaults; the accessors
/// apply them.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Every key that a layer sets, including unknown ones.
    pub merged: Object,
    origins: Origins,
    /// `general.sessionRetention` without the project layers.
    user_retention: Object,
    /// Variables from which the configuration takes secrets.
    secrets: SecretVariables,
}

/// `output.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Plain text.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    StreamJson,
}

/// `general.sessionRetention.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRetention {
    /// Whether old sessions are deleted at all.
    pub enabled: bool,
    /// Older sessions are deleted.
    pub max_age: Option<Duration>,
    /// The oldest sessions beyond this number are deleted.
    pub max_count: Option<u64>,
    /// Sessions younger than this are always kept.
    pub min_retention: Duration,
}

/// `tools.shell.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellSettings {
    /// Whether commands run in their own terminal (interactive front ends only).
    pub interactive: bool,
    /// The value of `PAGER` for child processes.
    pub pager: String,
    /// Whether colors are kept in the output shown to the user.
    pub show_color: bool,
    /// A command without output for this long is stopped; `None` disables the limit.
    pub inactivity_timeout: Option<Duration>,
    /// Whether the model is asked to prefer quiet flags.
    pub efficiency_hints: bool,
    /// `silent`, `inject` or `notify`.
    pub background_completion: String,
}

/// `security.environmentVariableRedaction.*`.
#[derive(Debug, Clone)]
pub struct EnvironmentRedaction {
    /// Whether secrets are hidden from child processes.
    pub enabled: bool,
    /// Variables that are always passed on.
    pub allowed: Vec<String>,
    /// Variables that are never passed on.
    pub blocked: Vec<String>,
    /// Variables from which the configuration takes secrets.
    pub credentials: SecretVariables,
}

/// The settings that decide which sessions are deleted.
const RETENTION: &str = "general.sessionRetention";
/// A memory file that is always read, regardless of `context.fileName`.
const ALWAYS_MEMORY: &str = "GEMINI.md";

impl Settings {
    /// Expands, checks, and merges the files, lowest layer first.
    pub(crate) fn from_layers(
        mut layers: Vec<LayerFile>,
        environment: &Environment,
        warnings: &mut Vec<String>,
    ) -> Self {
        layers.sort_by_key(|file| file.layer);
        let mut expander = Expander::new(environment);
        let secrets = environment.secrets().clone();
        let mut settings = Self { secrets, ..Self::default() };
        for mut file in layers {
            secret_references::register(&file.values, environment.secrets());
            for (key, value) in &mut file.values {
                match key.as_str() {
                    "mcpServers" => crate::mcp_server::expand_servers(value, &mut expander),
                    _ => expander.expand_value(value),
                }
            }
            warnings.extend(setting_check::check(&mut file.values, &file.path));
            warnings.extend(unsupported_settings::notice(&file.values, &file.path));
            let origin = ValueOrigin { layer: file.layer, file: file.path };
            if !matches!(file.layer, Layer::WorkspaceGemini | Layer::Workspace)
                && let Some(Value::Object(retention)) = get_dotted(&file.values, RETENTION)
            {
                let retention = retention.clone();
                let (rules, mut origins) = (&mut settings.user_retention, Origins::default());
                merge::merge(rules, retention, &origin, &mut origins);
            }
            merge::merge(&mut settings.merged, file.values, &origin, &mut settings.origins);
        }
        settings
    }

    /// Uses the registry of another configuration for variables with secrets.
    pub(crate) fn share_secrets(&mut self, secrets: &SecretVariables) {
        self.secrets = secrets.clone();
    }

    /// Returns the value of a dotted key, if a layer sets it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        get_dotted(&self.merged, key)
    }

    /// Returns the origins of a value, lowest layer first; several for lists that merge across
    /// layers.
    pub fn origins(&self, key: &str) -> &[ValueOrigin] {
        self.origins.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    fn value(&self, key: &str) -> Value {
        self.get(key).cloned().or_else(|| setting_table::default_of(key)).unwrap_or(Value::Null)
    }

    /// Returns a boolean by its dotted key.
    pub fn flag(&self, key: &str) -> bool {
        self.value(key).as_bool().unwrap_or(false)
    }

    /// Returns a string by its dotted key; `None` if it has neither a value nor a default.
    pub fn text(&self, key: &str) -> Option<String> {
        self.value(key).as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns a list of strings by its dotted key.
    pub fn list(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Value::String(text) => vec![text],
            Value::Array(items) => {
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns a number by its dotted key.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key).as_f64()
    }

    /// Returns a count by its dotted key; `None` for a negative or missing number.
    pub fn count(&self, key: &str) -> Option<u64> {
        let number = self.number(key)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked, and `as` saturates"
        )]
        (number >= 0.0).then_some(number as u64)
    }

    /// `agents.overrides`: overrides of single agents, by name.
    pub fn agent_overrides(&self) -> Vec<(String, Object)> {
        let overrides = self.get("agents.overrides").and_then(Value::as_object);
        let changes = overrides.into_iter().flatten();
        changes
            .filter_map(|(name, changes)| Some((name.clone(), changes.as_object()?.clone())))
            .collect()
    }
    /// `model.name`.
    pub fn model_name(&self) -> Option<String> {
        self.text("model.name")
    }
    /// `model.maxSessionTurns`; `None`: no limit.
    pub fn max_session_turns(&self) -> Option<u64> {
        self.count("model.maxSessionTurns")
    }
    /// Whether loop detection is on (not `model.disableLoopDetection`).
    pub fn loop_detection(&self) -> bool {
        !self.flag("model.disableLoopDetection")
    }
    /// `model.streamIdleTimeoutMs`; `None` (0 in the file) disables the timeout.
    pub fn stream_idle_timeout(&self) -> Option<Duration> {
        self.count("model.streamIdleTimeoutMs")
            .filter(|limit| *limit > 0)
            .map(Duration::from_millis)
    }
    /// `general.defaultApprovalMode`; never YOLO mode.
    pub fn default_approval_mode(&self) -> ApprovalMode {
        self.text("general.defaultApprovalMode")
            .and_then(|mode| ApprovalMode::parse(&mode))
            .unwrap_or_default()
    }
    /// `general.maxAttempts`: 1 to 10.
    pub fn max_attempts(&self) -> u32 {
        let count = self.count("general.maxAttempts").unwrap_or(10).clamp(1, 10);
        u32::try_from(count).unwrap_or(10)
    }
    /// `general.retryFetchErrors`.
    pub fn retry_fetch_errors(&self) -> bool {
        self.flag("general.retryFetchErrors")
    }
    /// Returns the retention rules for sessions of other projects: the settings of this project do
    /// not apply to them.
    #[must_use]
    pub fn retention_for_other_projects(&self) -> Self {
        let retention = Value::Object(self.user_retention.clone());
        let general = Object::from_iter([("sessionRetention".to_owned(), retention)]);
        let merged = Object::from_iter([("general".to_owned(), Value::Object(general))]);
        Self { merged, ..Self::default() }
    }
    /// `general.sessionRetention`.
    pub fn session_retention(&self) -> SessionRetention {
        let age = |name: &str| {
            let key = format!("general.sessionRetention.{name}");
            self.text(&key).and_then(|text| parse_age(&text))
        };
        SessionRetention {
            enabled: self.flag("general.sessionRetention.enabled"),
            max_age: age("maxAge"),
            max_count: self.count("general.sessionRetention.maxCount"),
            min_retention: age("minRetention").unwrap_or(Duration::from_secs(86_400)),
        }
    }
    /// Returns the key of `general.sessionRetention.*` whose value is invalid; if there is one,
    /// nothing is deleted.
    pub fn unusable_retention(&self) -> Option<String> {
        let enabled = self.flag("general.sessionRetention.enabled");
        self.text(setting_check::UNUSABLE_RETENTION).filter(|_| !enabled)
    }
    /// `output.format`.
    pub fn output_format(&self) -> OutputFormat {
        match self.text("output.format").as_deref() {
            Some("json") => OutputFormat::Json,
            Some("stream-json") => OutputFormat::StreamJson,
            _ => OutputFormat::Text,
        }
    }
    /// `context.fileName`: the names of memory files. Always includes `GEMINI.md`.
    pub fn memory_file_names(&self) -> Vec<String> {
        let mut names = self.list("context.fileName");
        if !names.iter().any(|name| name == ALWAYS_MEMORY) {
            names.push(ALWAYS_MEMORY.to_owned());
        }
        names
    }
    /// `context.includeDirectories`, unexpanded.
    pub fn include_directories(&self) -> Vec<PathBuf> {
        self.list("context.includeDirectories").into_iter().map(PathBuf::from).collect()
    }
    /// `context.loadMemoryFromIncludeDirectories`.
    pub fn load_memory_from_include_directories(&self) -> bool {
        self.flag("context.loadMemoryFromIncludeDirectories")
    }
    /// `context.memoryBoundaryMarkers`.
    pub fn memory_boundary_markers(&self) -> Vec<String> {
        self.list("context.memoryBoundaryMarkers")
    }
    /// `context.importFormat`.
    pub fn import_format(&self) -> ImportFormat {
        match self.text("context.importFormat").as_deref() {
            Some("flat") => ImportFormat::Flat,
            _ => ImportFormat::Tree,
        }
    }
    /// `context.includeDirectoryTree`.
    pub fn include_directory_tree(&self) -> bool {
        self.flag("context.includeDirectoryTree")
    }
    /// `context.fileFiltering.respectGitIgnore`.
    pub fn respect_git_ignore(&self) -> bool {
        self.flag("context.fileFiltering.respectGitIgnore")
    }
    /// `context.fileFiltering.respectGeminiIgnore`.
    pub fn respect_gemini_ignore(&self) -> bool {
        self.flag("context.fileFiltering.respectGeminiIgnore")
    }
    /// `context.fileFiltering.customIgnoreFilePaths`; the first has the highest precedence.
    pub fn custom_ignore_files(&self) -> Vec<PathBuf> {
        self.list("context.fileFiltering.customIgnoreFilePaths")
            .into_iter()
            .map(PathBuf::from)
            .collect()
    }
    /// `tools.core`; `None` if it is not set.
    pub fn core_tools(&self) -> Option<Vec<String>> {
        self.get("tools.core").map(|_| self.list("tools.core"))
    }
    /// `tools.allowed`.
    pub fn allowed_tools(&self) -> Vec<String> {
        self.list("tools.allowed")
    }
    /// `tools.exclude`.
    pub fn excluded_tools(&self) -> Vec<String> {
        self.list("tools.exclude")
    }
    /// `tools.confirmationRequired`.
    pub fn confirmation_required(&self) -> Vec<String> {
        self.list("tools.confirmationRequired")
    }
    /// `tools.truncateToolOutputThreshold` in characters; `None` if disabled.
    pub fn truncate_tool_output_threshold(&self) -> Option<usize> {
        let count = self.count("tools.truncateToolOutputThreshold").filter(|count| *count > 0)?;
        Some(usize::try_from(count).unwrap_or(usize::MAX))
    }
    /// `tools.shell.*`.
    pub fn shell(&self) -> ShellSettings {
        let seconds = self.number("tools.shell.inactivityTimeout").filter(|seconds| *seconds > 0.0);
        ShellSettings {
            interactive: self.flag("tools.shell.enableInteractiveShell"),
            pager: self.text("tools.shell.pager").unwrap_or_else(|| "cat".to_owned()),
            show_color: self.flag("tools.shell.showColor"),
            inactivity_timeout: seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            efficiency_hints: self.flag("tools.shell.enableShellOutputEfficiency"),
            background_completion: self
                .text("tools.shell.backgroundCompletionBehavior")
                .unwrap_or_default(),
        }
    }
    /// `useWriteTodos`.
    pub fn use_write_todos(&self) -> bool {
        self.flag("useWriteTodos")
    }
    /// `security.disableYoloMode`.
    pub fn disable_yolo_mode(&self) -> bool {
        self.flag("security.disableYoloMode")
    }
    /// `security.environmentVariableRedaction`.
    pub fn environment_redaction(&self) -> EnvironmentRedaction {
        EnvironmentRedaction {
            enabled: self.flag("security.environmentVariableRedaction.enabled"),
            allowed: self.list("security.environmentVariableRedaction.allowed"),
            blocked: self.list("security.environmentVariableRedaction.blocked"),
            credentials: self.secrets.clone(),
        }
    }
    /// `security.auth.selectedType`.
    pub fn auth_selected_type(&self) -> Option<String> {
        self.text("security.auth.selectedType")
    }
    /// `security.auth.enforcedType`.
    pub fn auth_enforced_type(&self) -> Option<String> {
        self.text("security.auth.enforcedType")
    }
    /// `security.auth.useExternal`.
    pub fn auth_is_external(&self) -> bool {
        self.flag("security.auth.useExternal")
    }
    /// Whether `security.buildFileGuard` is not `off`.
    pub fn build_file_guard(&self) -> bool {
        self.text("security.buildFileGuard").as_deref() != Some("off")
    }
    /// `modelConfigs`, unparsed.
    pub fn model_configs(&self) -> Option<&Value> {
        self.get("modelConfigs")
    }
    /// `providers`, unparsed.
    pub fn providers(&self) -> Option<&Value> {
        self.get("providers")
    }
    /// `ui.showCitations`.
    pub fn show_citations(&self) -> bool {
        self.flag("ui.showCitations")
    }
}
