//! Converts Claude Code hooks to hooks in a settings file of Parallax.

use std::path::PathBuf;

use parallax_config::other_agents::{parallax_event, parallax_matcher};
use parallax_config::{Config, SettingScope, jsonc_object, set_setting};
use parallax_protocol::Object;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::hooks::HookEvent;
use serde_json::{Value, json};

/// Result of a migration.
#[derive(Debug, Clone, PartialEq)]
pub struct MigratedHooks {
    /// The settings file that was written; `None` if nothing had to be written.
    pub file: Option<PathBuf>,
    /// The files that were read.
    pub read: Vec<PathBuf>,
    /// Number of added hooks by event.
    pub added: Vec<(String, usize)>,
    /// What was skipped and why, one sentence each.
    pub skipped: Vec<String>,
}

/// Adds the hooks of Claude Code's settings to the settings of the same scope. Hooks that
/// already exist are not added again, and Claude Code's files stay unchanged. Blocking.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub fn migrate_hooks(config: &Config, scope: SettingScope) -> Result<MigratedHooks, Failure> {
    let to_error = |error: String| Failure::new(FailureKind::Config, error);
    let names: &[&str] = match scope {
        SettingScope::User => &["settings.json"],
        SettingScope::Workspace => &["settings.json", "settings.local.json"],
    };
    let root = match scope {
        SettingScope::User => &config.dirs.user,
        SettingScope::Workspace => &config.cwd,
    };
    let known = parallax_config::setting_of(config, scope, "hooks")
        .map_err(|error| to_error(error.to_string()))?;
    let mut ours = known.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let mut done =
        MigratedHooks { file: None, read: Vec::new(), added: Vec::new(), skipped: Vec::new() };
    for name in names {
        let file = root.join(".claude").join(name);
        let read = jsonc_object(&file).map_err(|error| to_error(error.to_string()))?;
        let Some(settings) = read else { continue };
        if let Some(theirs) = settings.get("hooks").and_then(Value::as_object) {
            merge_hooks(theirs, &mut ours, &mut done);
        }
        done.read.push(file);
    }
    if !done.added.is_empty() {
        done.file = Some(
            set_setting(config, scope, "hooks", Some(&Value::Object(ours)))
                .map_err(|error| to_error(error.to_string()))?,
        );
    }
    Ok(done)
}

/// Appends Claude Code's hooks to the existing ones.
fn merge_hooks(theirs: &Object, ours: &mut Object, done: &mut MigratedHooks) {
    for (name, groups) in theirs {
        let Some(event) = parallax_event(name).or_else(|| HookEvent::parse(name)) else {
            done.skipped.push(format!("unknown event `{name}`"));
            continue;
        };
        for group in groups.as_array().into_iter().flatten() {
            let mut hooks = Vec::new();
            for hook in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
                match hook_of(hook) {
                    Ok(hook) => hooks.push(hook),
                    Err(reason) => done.skipped.push(format!("a hook of `{name}`: {reason}")),
                }
            }
            if hooks.is_empty() {
                continue;
            }
            let count = hooks.len();
            let mut new = json!({"hooks": hooks});
            let matcher = group.get("matcher").and_then(Value::as_str).unwrap_or_default();
            if let (Value::Object(new), false) = (&mut new, matcher.is_empty()) {
                let matcher = match event.matches_tools() {
                    true => parallax_matcher(matcher),
                    false => matcher.to_owned(),
                };
                new.insert("matcher".to_owned(), matcher.into());
            }
            let entries = ours.entry(event.as_str()).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(known) = entries else {
                done.skipped.push(format!("`hooks.{}` is not a list", event.as_str()));
                continue;
            };
            if !known.contains(&new) {
                known.push(new);
                let of = event.as_str();
                match done.added.iter_mut().find(|(event, _)| event == of) {
                    Some((_, sum)) => *sum += count,
                    None => done.added.push((of.to_owned(), count)),
                }
            }
        }
    }
}

/// Converts a hook. Claude Code gives the timeout in seconds.
fn hook_of(hook: &Value) -> Result<Value, String> {
    match hook.get("type").and_then(Value::as_str) {
        Some("command") | None => {}
        Some(other) => return Err(format!("unsupported type `{other}`: use `command`")),
    }
    let command = hook.get("command").and_then(Value::as_str).unwrap_or_default();
    if command.trim().is_empty() {
        return Err("`command` is missing".to_owned());
    }
    let mut ours = json!({"type": "command", "command": command});
    if let (Value::Object(ours), Some(seconds)) =
        (&mut ours, hook.get("timeout").and_then(Value::as_u64))
    {
        ours.insert("timeout".to_owned(), format!("{seconds}s").into());
    }
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrated_hooks_are_appended_once() {
        let theirs = json!({
            "PreToolUse": [{"matcher": "Write|Edit", "hooks": [
                {"type": "command", "command": "a.sh", "timeout": 5},
                {"type": "prompt", "prompt": "is it good?"}
            ]}],
            "SessionStart": [{"matcher": "startup", "hooks": [{"command": "b.sh"}]}],
            "WorktreeCreate": [{"hooks": [{"command": "c.sh"}]}]
        });
        let theirs = theirs.as_object().expect("an object").clone();
        let before = json!({"BeforeTool": [{"hooks": [{"command": "mine"}]}]});
        let mut ours = before.as_object().expect("an object").clone();
        let empty =
            MigratedHooks { file: None, read: Vec::new(), added: Vec::new(), skipped: Vec::new() };
        let mut done = empty.clone();
        merge_hooks(&theirs, &mut ours, &mut done);
        assert_eq!(
            Value::Object(ours.clone()),
            json!({
                "BeforeTool": [
                    {"hooks": [{"command": "mine"}]},
                    {"hooks": [{"type": "command", "command": "a.sh", "timeout": "5s"}],
                        "matcher": "write_file|replace"}
                ],
                "SessionStart": [
                    {"hooks": [{"type": "command", "command": "b.sh"}], "matcher": "startup"}
                ]
            })
        );
        assert_eq!(done.skipped.len(), 2, "{:?}", done.skipped);
        let mut second = empty;
        merge_hooks(&theirs, &mut ours, &mut second);
        assert!(second.added.is_empty(), "{:?}", second.added);
    }
}
