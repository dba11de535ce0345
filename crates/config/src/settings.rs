//! The merged settings and what the program asks of them.

use std::path::PathBuf;
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::policy::ApprovalMode;
use serde_json::Value;

use crate::environment::Environment;
use crate::expand::Expander;
use crate::keys;
use crate::layers::{Layer, LayerFile, Origin};
use crate::memory::ImportFormat;
use crate::merge::{self, Origins};
use crate::migrate::look;
use crate::without_effect;

/// What all layers say together. Built-in defaults are not in `merged`; the
/// methods know them.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Every key that some layer sets, unknown ones included.
    pub merged: Object,
    origins: Origins,
    /// `general.sessionRetention` as it is without the project's layers.
    user_retention: Object,
}

/// `output.format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    StreamJson,
}

/// `general.sessionRetention.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRetention {
    /// Whether old sessions are deleted at all.
    pub enabled: bool,
    /// Older ones go.
    pub max_age: Option<Duration>,
    /// More than so many go, oldest first.
    pub max_count: Option<u64>,
    /// Younger ones stay whatever else is said.
    pub min_retention: Duration,
}

/// `tools.shell.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// Commands run in a terminal of their own (interactive faces only).
    pub interactive: bool,
    /// `PAGER` of children.
    pub pager: String,
    /// Colours are kept for people.
    pub show_color: bool,
    /// A command silent for so long is ended; `None`: never.
    pub inactivity_timeout: Option<Duration>,
    /// The model is told to prefer quiet flags.
    pub efficiency_hints: bool,
    /// `silent`, `inject` or `notify`.
    pub background_completion: String,
}

/// `security.environmentVariableRedaction.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentRedaction {
    /// Secrets are kept from child processes.
    pub enabled: bool,
    /// Names that always pass.
    pub allowed: Vec<String>,
    /// Names that never pass.
    pub blocked: Vec<String>,
    /// Variables that hold keys of model providers (`providers.<name>.apiKeyEnv`).
    pub credentials: Vec<String>,
}

/// Which sessions are deleted.
const RETENTION: &str = "general.sessionRetention";
/// A memory file that is read whatever `context.fileName` names.
const ALWAYS_MEMORY: &str = "GEMINI.md";

impl Settings {
    /// Expands, checks and merges the files, lowest layer first.
    pub(crate) fn from_layers(
        mut layers: Vec<LayerFile>,
        environment: &Environment,
        warnings: &mut Vec<String>,
    ) -> Self {
        layers.sort_by_key(|file| file.layer);
        let mut expander = Expander::new(environment);
        let mut settings = Self::default();
        for mut file in layers {
            for (key, value) in &mut file.values {
                match key.as_str() {
                    "mcpServers" => crate::mcp::expand_servers(value, &mut expander),
                    _ => expander.value(value),
                }
            }
            warnings.extend(keys::check(&mut file.values, &file.path));
            warnings.extend(without_effect::notice(&file.values, &file.path));
            let origin = Origin { layer: file.layer, file: file.path };
            if !matches!(file.layer, Layer::WorkspaceGemini | Layer::Workspace)
                && let Some(Value::Object(retention)) = look(&file.values, RETENTION)
            {
                let retention = retention.clone();
                let (rules, mut origins) = (&mut settings.user_retention, Origins::default());
                merge::merge(rules, retention, &origin, &mut origins);
            }
            merge::merge(&mut settings.merged, file.values, &origin, &mut settings.origins);
        }
        settings
    }

    /// The value that some layer gives to the dotted key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        look(&self.merged, key)
    }

    /// Where the value of a key comes from, lowest layer first; several for
    /// lists that layers add to.
    pub fn origins(&self, key: &str) -> &[Origin] {
        self.origins.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    fn value(&self, key: &str) -> Value {
        self.get(key).cloned().or_else(|| keys::default_of(key)).unwrap_or(Value::Null)
    }

    /// A yes or no, by its dotted key.
    pub fn flag(&self, key: &str) -> bool {
        self.value(key).as_bool().unwrap_or(false)
    }

    /// A text, by its dotted key; `None` when neither set nor with a default.
    pub fn text(&self, key: &str) -> Option<String> {
        self.value(key).as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A list of texts, by its dotted key.
    pub fn list(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Value::String(text) => vec![text],
            Value::Array(items) => {
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A number, by its dotted key.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key).as_f64()
    }

    /// A count; `None` for a negative or missing number.
    pub fn count(&self, key: &str) -> Option<u64> {
        let number = self.number(key)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked, and `as` saturates"
        )]
        (number >= 0.0).then_some(number as u64)
    }

    /// `agents.overrides`: changes of single agents, by name.
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
    /// `model.disableLoopDetection`, the other way round.
    pub fn loop_detection(&self) -> bool {
        !self.flag("model.disableLoopDetection")
    }
    /// `model.streamIdleTimeoutMs`; `None` (0 in the file): never.
    pub fn stream_idle_timeout(&self) -> Option<Duration> {
        self.count("model.streamIdleTimeoutMs")
            .filter(|limit| *limit > 0)
            .map(Duration::from_millis)
    }
    /// `general.defaultApprovalMode`; never yolo.
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
    /// The rules for old sessions of other projects: what this project's files say
    /// does not count for them.
    #[must_use]
    pub fn retention_elsewhere(&self) -> Self {
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
    /// The key of `general.sessionRetention.*` whose value cannot be used, so that
    /// nothing is deleted.
    pub fn unusable_retention(&self) -> Option<String> {
        let enabled = self.flag("general.sessionRetention.enabled");
        self.text(crate::keys::UNUSABLE_RETENTION).filter(|_| !enabled)
    }
    /// `output.format`.
    pub fn output_format(&self) -> OutputFormat {
        match self.text("output.format").as_deref() {
            Some("json") => OutputFormat::Json,
            Some("stream-json") => OutputFormat::StreamJson,
            _ => OutputFormat::Text,
        }
    }
    /// `context.fileName`: the names of memory files. `GEMINI.md` is one whatever
    /// it says: people keep their own there.
    pub fn memory_file_names(&self) -> Vec<String> {
        let mut names = self.list("context.fileName");
        if !names.iter().any(|name| name == ALWAYS_MEMORY) {
            names.push(ALWAYS_MEMORY.to_owned());
        }
        names
    }
    /// `context.includeDirectories`, as written.
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
    /// `context.fileFiltering.customIgnoreFilePaths`, first = strongest.
    pub fn custom_ignore_files(&self) -> Vec<PathBuf> {
        self.list("context.fileFiltering.customIgnoreFilePaths")
            .into_iter()
            .map(PathBuf::from)
            .collect()
    }
    /// `tools.core`; `None`: no such list.
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
    /// `tools.truncateToolOutputThreshold` in characters; `None`: off.
    pub fn truncate_tool_output_threshold(&self) -> Option<usize> {
        let count = self.count("tools.truncateToolOutputThreshold").filter(|count| *count > 0)?;
        Some(usize::try_from(count).unwrap_or(usize::MAX))
    }
    /// `tools.shell.*`.
    pub fn shell(&self) -> Shell {
        let seconds = self.number("tools.shell.inactivityTimeout").filter(|seconds| *seconds > 0.0);
        Shell {
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
            credentials: self.provider_key_variables(),
        }
    }
    /// The variables that entries of `providers` name as their keys.
    fn provider_key_variables(&self) -> Vec<String> {
        let entries = self.providers().and_then(Value::as_object);
        let named = entries.into_iter().flat_map(|entries| entries.values());
        let named = named.filter_map(|entry| entry.get("apiKeyEnv"));
        let texts = named.flat_map(|names| match names {
            Value::Array(names) => names.iter().collect(),
            name => vec![name],
        });
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
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
    /// `security.buildFileGuard` is not `off`.
    pub fn build_file_guard(&self) -> bool {
        self.text("security.buildFileGuard").as_deref() != Some("off")
    }
    /// `modelConfigs` as written.
    pub fn model_configs(&self) -> Option<&Value> {
        self.get("modelConfigs")
    }
    /// `providers` as written.
    pub fn providers(&self) -> Option<&Value> {
        self.get("providers")
    }
    /// `ui.showCitations`.
    pub fn show_citations(&self) -> bool {
        self.flag("ui.showCitations")
    }
}

/// `12h`, `30d`, `2w`, `6m` (months of 30 days).
pub fn parse_age(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let seconds = match unit {
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        'm' => 30 * 86_400,
        _ => return None,
    };
    let count = text.strip_suffix(unit)?;
    // No sign, and no time that is none.
    let count = Some(count).filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()))?;
    let count: u64 = count.parse().ok().filter(|count| *count > 0)?;
    count.checked_mul(seconds).map(Duration::from_secs)
}
