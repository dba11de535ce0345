//! Values of project settings that only narrow what the user's settings allow.

use std::path::Path;

use parallax_protocol::Object;
use parallax_protocol::paths::join_lexically;
use parallax_protocol::protected_names::{folded_names, protection};
use serde_json::Value;

use super::effective::SettingsDifference;
use super::{core_tools, equals_json, is_below, is_inside, strings};
use crate::migrate::{get_dotted, set_default, take};
use crate::outer_settings::OuterSettings;
use crate::setting_table::{default_of, settings_table};

/// Whether a value is stricter than the user's, in another form, or has no effect.
pub(super) fn is_narrower(
    key: &str,
    value: &Value,
    outer: &OuterSettings,
    difference: &SettingsDifference,
    project: &Path,
) -> bool {
    let users = difference.settings_without_project();
    match key {
        "tools.sandboxAllowedPaths" => {
            let users = strings(get_dotted(users, key));
            value.is_array() && strings(Some(value)).iter().all(|own| is_below(own, &users, outer))
        }
        "security.environmentVariableRedaction.allowed" => {
            let users = strings(get_dotted(users, key));
            value.is_array() && strings(Some(value)).iter().all(|own| users.contains(own))
        }
        // An empty list allows all.
        "security.allowedExtensions" => {
            let (users, own) = (strings(get_dotted(users, key)), strings(Some(value)));
            let is_list = value.as_array().is_some_and(|list| list.len() == own.len());
            let is_subset = || own.iter().all(|own| users.contains(own));
            is_list
                && match (users.is_empty(), own.is_empty()) {
                    (true, true) => true,
                    (true, false) => own.iter().all(|own| !own.trim().is_empty()),
                    (false, own_is_empty) => !own_is_empty && is_subset(),
                }
        }
        "general.defaultApprovalMode" => {
            settings_table().any(|known| known.name == key && known.kind.accept(value).is_none())
        }
        "tools.allowed" => {
            let (users, own) = (strings(get_dotted(users, key)), strings(Some(value)));
            let is_covered = |own: &String| users.iter().any(|it| core_tools::covers(it, own));
            !own.is_empty() && own.iter().all(is_covered)
        }
        "mcp.samplingTokens" => {
            let users = get_dotted(users, key).and_then(Value::as_u64);
            let users = users.or_else(|| default_of(key)?.as_u64());
            value.as_u64().zip(users).is_some_and(|(own, users)| own <= users)
        }
        "agents.overrides" => value.as_object().is_some_and(|agents| {
            let users = get_dotted(users, key);
            agents
                .iter()
                .all(|(name, own)| restricts_agent(own, users.and_then(|all| all.get(name))))
        }),
        // A telemetry file inside the project, which reveals nothing beyond the session itself.
        "telemetry" => value.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, field)| match name.as_str() {
                "enabled" | "traces" => field.is_boolean(),
                "target" => equals_json(field, "local"),
                "otlpEndpoint" => equals_json(field, ""),
                "outfile" => field.as_str().is_some_and(|file| is_inside(file, project)),
                "logPrompts" => equals_json(field, "false"),
                _ => false,
            })
        }),
        _ => false,
    }
}

/// The smallest limits of built-in agents: values up to these restrict each of them.
const AGENT_LIMITS: [(&str, u64); 2] = [("maxTurns", 10), ("maxTimeMinutes", 3)];

/// Whether a project's override of an agent only disables it or lowers its limits, compared with the
/// user's override. Enabling changes nothing unless the user disabled the agent.
fn restricts_agent(own: &Value, users: Option<&Value>) -> bool {
    let users_value = |path: &str| users.and_then(|users| users.pointer(path));
    let is_lower = |(limit, value): (&String, &Value)| {
        let users = users_value(&format!("/runConfig/{limit}")).and_then(Value::as_u64);
        let known = AGENT_LIMITS.iter().find(|(name, _)| name == limit);
        let most = users.or(known.map(|(_, smallest)| *smallest));
        value.as_u64().zip(most).is_some_and(|(value, most)| value <= most)
    };
    own.as_object().is_some_and(|own| {
        own.iter().all(|(key, value)| match (key.as_str(), value) {
            ("enabled", Value::Bool(on)) => {
                !on || users_value("/enabled").is_none_or(|users| *users == Value::Bool(true))
            }
            ("runConfig", Value::Object(limits)) => limits.iter().all(is_lower),
            _ => false,
        })
    })
}

/// Drops directories of the project from the paths that commands may write: they may do so anyway,
/// and the entry must not open what is protected in it.
pub(super) fn drop_own_directory(values: &mut Object, project: &Path) {
    const PATHS: &str = "tools.sandboxAllowedPaths";
    let is_other = |entry: &Value| {
        let path = entry.as_str().filter(|path| !path.is_empty());
        // Variables are expanded later.
        let path = path.filter(|path| !path.contains('$') && !path.starts_with('~'));
        path.is_none_or(|path| {
            !is_ordinary_part(&join_lexically(project, Path::new(path)), project)
        })
    };
    let Some(Value::Array(entries)) = get_dotted(values, PATHS) else { return };
    let others: Vec<Value> = entries.iter().filter(|entry| is_other(entry)).cloned().collect();
    if others.len() < entries.len() {
        take(values, PATHS);
        set_default(values, PATHS, Value::Array(others));
    }
}

/// Whether the path is the project's directory, or one below it that is not protected and that no
/// link points out of.
fn is_ordinary_part(path: &Path, project: &Path) -> bool {
    let Ok(below) = path.strip_prefix(project) else { return false };
    let names = folded_names(below);
    let is_protected = names.iter().any(|name| name == ".git") || protection(&names).is_some();
    let stays = match (path.canonicalize(), project.canonicalize()) {
        (Ok(path), Ok(project)) => path.starts_with(project),
        // It does not exist.
        _ => path.symlink_metadata().is_err(),
    };
    !is_protected && stays
}
