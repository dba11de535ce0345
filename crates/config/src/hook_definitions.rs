//! Hooks as files define them.

mod closed;
mod kind;
mod scripts;

use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::hooks::HookEvent;
use serde_json::{Value, json};

use crate::other_agents::{parallax_event, parallax_matcher};
use crate::read::read_at_most;
use crate::{json_state_file, jsonc};

use closed::fail_closed;
pub use kind::HookKind;

/// The hooks file of an extension.
pub const HOOKS: &str = "hooks/hooks.json";

/// Timeout of a hook that does not set one.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of hooks in one file.
const MAX_COUNT: usize = 200;

/// Scripts up to this many bytes are read into memory.
const SCRIPT: u64 = 4 * 1024 * 1024;

/// Where a hook comes from, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookSource {
    /// An extension.
    Extension,
    /// The system settings.
    System,
    /// The user settings.
    User,
    /// The project settings.
    Project,
}

impl HookSource {
    /// Returns the label used in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Extension => "extension",
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The event that triggers it.
    pub event: HookEvent,
    /// Another agent's name for the event, if the file uses that name.
    pub alias: Option<String>,
    /// Where it comes from.
    pub source: HookSource,
    /// The name of the extension that it comes from.
    pub extension: Option<String>,
    /// The file that defines it.
    pub file: PathBuf,
    /// Matches tools, sources, or triggers; empty matches all.
    pub matcher: String,
    /// Whether the hooks of the event run sequentially.
    pub sequential: bool,
    /// How it runs.
    pub kind: HookKind,
    /// The shell command; for built-in actions, a label.
    pub command: String,
    /// Its name; if empty, the command serves as its name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The timeout.
    pub timeout: Duration,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Whether a failure of the hook denies the action.
    pub fail_closed: bool,
    /// For `AfterModel`: whether the hook receives each chunk of the response.
    pub chunks: bool,
    /// Whether it runs in the command sandbox.
    pub sandbox: bool,
    /// Whether `hooksConfig.disabled` lists it.
    pub disabled: bool,
    /// For project hooks: whether the user accepted the current version. For extension hooks:
    /// whether the hook is unchanged since installation.
    pub accepted: bool,
}

impl Hook {
    /// Returns the name to show.
    pub fn title(&self) -> &str {
        if self.name.is_empty() { &self.command } else { &self.name }
    }

    /// Returns the command with its variables, which also decide what it runs. For the user's own
    /// hooks, only the names of variables are shown, because the values may be secrets.
    pub fn display_command(&self) -> String {
        if self.env.is_empty() {
            return self.command.clone();
        }
        let is_own = matches!(self.source, HookSource::User | HookSource::System);
        let variables = self.env.iter().map(|(name, value)| match is_own {
            true => name.clone(),
            false => format!("{name}={value}"),
        });
        format!("{} ({})", self.command, variables.collect::<Vec<_>>().join(", "))
    }

    /// Whether another hook does exactly the same on the same event.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let what = |hook: &Self| (hook.event, hook.kind.clone(), hook.command.clone());
        let how = |hook: &Self| (hook.timeout, hook.fail_closed, hook.chunks, hook.sandbox);
        what(self) == what(other)
            && how(self) == how(other)
            && self.matcher == other.matcher
            && self.env == other.env
            && self.source != other.source
    }

    /// Returns a hash of its definition and the current contents of the scripts that it runs.
    /// Blocking.
    pub fn hash(&self, project: &Path) -> String {
        let mut pieces: Vec<Vec<u8>> = [
            self.event.as_str(),
            &self.matcher,
            &self.command,
            &format!("{:?} {:?} {}", self.env, self.timeout, self.sandbox),
        ]
        .iter()
        .map(|piece| piece.as_bytes().to_vec())
        .collect();
        if self.kind != HookKind::Command {
            pieces.push(format!("{:?}", self.kind).into_bytes());
        }
        for script in self.scripts(project) {
            if let Some(content) = content(&script) {
                pieces.push(script.as_os_str().as_encoded_bytes().to_vec());
                pieces.push(content);
            }
        }
        json_state_file::digest(pieces.iter().map(Vec::as_slice))
    }

    /// Returns the files that the command runs, and those that its variables name (`BASH_ENV`).
    /// Blocking.
    pub(crate) fn scripts(&self, project: &Path) -> Vec<PathBuf> {
        scripts::scripts(&self.command, &self.env, project)
    }
}

/// Returns the contents of a file, or the hash of a large file.
fn content(path: &Path) -> Option<Vec<u8>> {
    let read = read_at_most(path, SCRIPT).ok()??;
    if !read.is_truncated {
        return Some(read.bytes);
    }
    json_state_file::hash_file(path).ok()
}

/// Returns the hooks in the directory of an extension, unexpanded. Blocking.
pub fn hooks_of_folder(directory: &Path, warnings: &mut Vec<String>) -> Vec<Hook> {
    let file = directory.join(HOOKS);
    match jsonc::read_object(&file) {
        Ok(read) => match read.as_ref().and_then(|read| read.get("hooks")?.as_object()) {
            Some(hooks) => read_file(hooks, HookSource::Extension, &file, warnings),
            None => Vec::new(),
        },
        Err(error) => {
            warnings.push(format!("{error}; its hooks do not run"));
            Vec::new()
        }
    }
}

/// Reads a `hooks` object.
pub(crate) fn read_file(
    hooks: &Object,
    source: HookSource,
    file: &Path,
    warnings: &mut Vec<String>,
) -> Vec<Hook> {
    let mut found = Vec::new();
    let mut warn = |text: String| warnings.push(format!("{}: {text}", file.display()));
    for (name, groups) in hooks {
        let theirs = parallax_event(name);
        let Some(event) = HookEvent::parse(name).or(theirs) else {
            // Old locations of what is now `hooksConfig`.
            if !matches!(name.as_str(), "enabled" | "disabled" | "notifications") {
                warn(format!("unknown hook event `hooks.{name}`; its hooks do not run"));
            }
            continue;
        };
        let groups = match groups.as_array() {
            Some(groups) => groups.as_slice(),
            None => std::slice::from_ref(groups),
        };
        for group in groups {
            let text = |key: &str| group.get(key).and_then(Value::as_str).unwrap_or_default();
            let matcher = match theirs.is_some() {
                true => parallax_matcher(text("matcher")),
                false => text("matcher").to_owned(),
            };
            let sequential = group.get("sequential").and_then(Value::as_bool).unwrap_or(false);
            let (own, broken);
            let hooks = match group.get("hooks").and_then(Value::as_array) {
                Some(hooks) => hooks.as_slice(),
                // A malformed guard must not be dropped silently.
                None if has_required_hook(group) => {
                    broken = json!({"type": MISPLACED, "failClosed": true});
                    own = [broken];
                    &own
                }
                None => {
                    warn(format!("an entry of `{name}` has no `hooks` list and is ignored"));
                    continue;
                }
            };
            for written in hooks {
                if found.len() >= MAX_COUNT {
                    warn(format!("only the first {MAX_COUNT} hooks are read"));
                    return found;
                }
                match read_hook(written, event, theirs.is_some()) {
                    Ok((mut hook, notes)) => {
                        hook.source = source;
                        file.clone_into(&mut hook.file);
                        matcher.clone_into(&mut hook.matcher);
                        hook.alias = theirs.map(|_| name.clone());
                        hook.sequential = sequential;
                        for note in notes {
                            warn(format!("the hook `{}`: {note}", hook.title()));
                        }
                        found.push(hook);
                    }
                    Err(reason) => warn(format!("a hook of `{name}` does not run: {reason}")),
                }
            }
        }
    }
    found
}

/// The type reported for a hook at an unsupported position.
const MISPLACED: &str = "misplaced";

/// Whether the value contains a hook that must succeed.
fn has_required_hook(written: &Value) -> bool {
    match written {
        Value::Object(fields) => {
            fail_closed(fields.get("failClosed")).0 || fields.values().any(has_required_hook)
        }
        Value::Array(items) => items.iter().any(has_required_hook),
        _ => false,
    }
}

/// Reads one hook. `theirs` is true if it is listed under another agent's name for the event.
fn read_hook(
    written: &Value,
    event: HookEvent,
    theirs: bool,
) -> Result<(Hook, Vec<String>), String> {
    let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let flag = |key: &str| written.get(key).and_then(Value::as_bool).unwrap_or(false);
    let (fail_closed, slip) = fail_closed(written.get("failClosed"));
    let (kind, command) = match HookKind::read(written) {
        Err(reason) if fail_closed => {
            let command = [text("command"), text("type")];
            let shown = command.into_iter().find(|text| !text.trim().is_empty());
            (HookKind::Invalid(reason), shown.unwrap_or_else(|| "hook".to_owned()))
        }
        read => read?,
    };
    // Other agents give the timeout in seconds.
    let seconds = written.get("timeout").and_then(Value::as_u64).filter(|_| theirs);
    let provided = seconds.map(|seconds| Value::String(format!("{seconds}s")));
    // The hook may be a guard, so it runs despite an invalid timeout.
    let (timeout, note) = timeout(provided.as_ref().or_else(|| written.get("timeout")))
        .unwrap_or_else(|reason| {
            (TIMEOUT, Some(format!("{reason}; its timeout is {} seconds", TIMEOUT.as_secs())))
        });
    let env = written.get("env").and_then(Value::as_object).into_iter().flatten();
    let env = env
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .filter(|(name, _)| !name.is_empty() && !name.contains(['=', '\0']))
        .collect();
    let note = match &kind {
        HookKind::Invalid(reason) => {
            Some(format!("{reason}; it must approve, so the calls that it guards are denied"))
        }
        _ => note,
    };
    let hook = Hook {
        event,
        alias: None,
        source: HookSource::User,
        extension: None,
        file: PathBuf::new(),
        matcher: String::new(),
        sequential: false,
        kind,
        command,
        name: text("name"),
        description: text("description"),
        timeout,
        env,
        fail_closed,
        chunks: text("granularity") == "chunk",
        sandbox: flag("sandbox"),
        disabled: false,
        accepted: true,
    };
    Ok((hook, note.into_iter().chain(slip).collect()))
}

/// Parses a timeout: milliseconds, or a string such as `"60s"`.
fn timeout(value: Option<&Value>) -> Result<(Duration, Option<String>), String> {
    let to_error =
        || "`timeout` must be a number of milliseconds, or a string such as `60s`".to_owned();
    match value {
        None | Some(Value::Null) => Ok((TIMEOUT, None)),
        Some(Value::Number(number)) => {
            let milliseconds =
                number.as_f64().filter(|number| *number > 0.0).ok_or_else(to_error)?;
            let timeout =
                Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(|_| to_error())?;
            let short = timeout < Duration::from_secs(1);
            let note = short.then(|| {
                format!(
                    "its timeout is {milliseconds} milliseconds; to specify seconds, use \
                    `\"{milliseconds}s\"`"
                )
            });
            Ok((timeout, note))
        }
        Some(Value::String(text)) => {
            let text = text.trim();
            let (digits, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
                (Some(digits), _) => (digits, 1),
                (None, Some(digits)) => (digits, 1000),
                (None, None) => match text.strip_suffix('m') {
                    Some(digits) => (digits, 60_000),
                    None => (text, 1),
                },
            };
            let count: f64 = digits.trim().parse().map_err(|_| to_error())?;
            let seconds = count * f64::from(unit) / 1000.0;
            let timeout = Duration::try_from_secs_f64(seconds).map_err(|_| to_error())?;
            if timeout.is_zero() { Err(to_error()) } else { Ok((timeout, None)) }
        }
        Some(_) => Err(to_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(hooks: &Value) -> (Vec<Hook>, Vec<String>) {
        let mut warnings = Vec::new();
        let file = Path::new("/s.json");
        let object = hooks.as_object().expect("object");
        (read_file(object, HookSource::User, file, &mut warnings), warnings)
    }

    #[test]
    fn hooks_are_parsed_and_invalid_ones_are_reported() {
        let (hooks, warnings) = read(&json!({
            "BeforeTool": [{"matcher": "write_.*", "sequential": true, "hooks": [
                {"type": "command", "command": "a", "timeout": "2s", "failClosed": true},
                {"type": "prompt", "command": "b"},
                {"command": "c", "timeout": 60, "env": {"X": "1"}}
            ]}],
            "PreToolUse": [{"matcher": "Bash|Write", "hooks": [{"command": "d", "timeout": 5}]}],
            "WorktreeCreate": [],
            "enabled": true
        }));
        assert_eq!(hooks.len(), 3);
        assert_eq!((hooks[0].timeout, hooks[0].fail_closed), (Duration::from_secs(2), true));
        assert_eq!(hooks[1].timeout, Duration::from_millis(60));
        assert!(hooks[1].sequential && hooks[1].matcher == "write_.*");
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        // Another agent's event names and seconds.
        let theirs = &hooks[2];
        assert_eq!((theirs.event, theirs.timeout), (HookEvent::BeforeTool, Duration::from_secs(5)));
        assert_eq!(theirs.matcher, "run_shell_command|write_file");
        assert_eq!(theirs.alias.as_deref(), Some("PreToolUse"));
    }

    #[test]
    fn malformed_guard_does_not_grant_permission() {
        for (entry, refuses) in [
            (json!([{"type": "command", "command": "exit 2", "failClosed": true}]), true),
            (
                json!([{"matcher": "glob", "hooks": {"command": "exit 2", "failClosed": true}}]),
                true,
            ),
            (json!({"hook": [{"command": "exit 2", "failClosed": "yes"}]}), true),
            (json!([{"hook": [{"command": "exit 2"}]}]), false),
            (json!([{"command": "exit 2", "failClosed": false}]), false),
            (json!("exit 2"), false),
        ] {
            let (hooks, warnings) = read(&json!({"BeforeTool": entry}));
            assert_eq!(hooks.len(), usize::from(refuses), "{entry}");
            assert!(hooks.iter().all(|hook| matches!(hook.kind, HookKind::Invalid(_))), "{entry}");
            assert_eq!(warnings.len(), 1, "{entry}: {warnings:?}");
        }
        assert!(read(&json!({"BeforeTool": []})).1.is_empty());
    }

    #[test]
    fn guard_that_cannot_run_is_kept() {
        let (hooks, warnings) = read(&json!({"BeforeTool": [{"hooks": [
            {"type": "http", "url": "https://x", "failClosed": true},
            {"type": "http", "url": "https://x"},
            {"type": "command", "failClosed": true}
        ]}]}));
        assert_eq!(hooks.len(), 2);
        assert!(matches!(&hooks[0].kind, HookKind::Invalid(reason) if reason.contains("`http`")));
        assert!(hooks[0].title() == "http" && hooks[0].fail_closed);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].contains("are denied"), "{warnings:?}");
    }

    #[test]
    fn changed_script_is_a_different_hook() {
        let directory = tempfile::tempdir().expect("directory");
        let script = directory.path().join("check.sh");
        std::fs::write(&script, "one").expect("written");
        let (hooks, _) = read(&json!({"BeforeTool": [{"hooks": [
            {"command": "bash \"$GEMINI_PROJECT_DIR/check.sh\" --x"}
        ]}]}));
        let before = hooks[0].hash(directory.path());
        assert_eq!(before, hooks[0].hash(directory.path()));
        std::fs::write(&script, "two").expect("written");
        assert_ne!(before, hooks[0].hash(directory.path()));
        let (hooks, _) = read(&json!({"BeforeTool": [{"hooks": [
            {"command": "true", "env": {"BASH_ENV": "./check.sh"}}
        ]}]}));
        let before = hooks[0].hash(directory.path());
        std::fs::write(&script, "three").expect("written");
        assert_ne!(before, hooks[0].hash(directory.path()));
    }
}
