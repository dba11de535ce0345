//! Project settings that loosen security. They are removed until the user has accepted the file in
//! its current form. Settings that tighten security always apply.

mod budgets;
mod core_tools;
mod effective;
mod narrower;
mod servers;

use std::path::{Component, Path, PathBuf};

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::error::ConfigError;
use crate::expand::Expander;
use crate::layers::{self, Layer, LayerFile};
use crate::mcp_server::is_same_name;
use crate::migrate::{self, get_dotted, take};
use crate::outer_settings::OuterSettings;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};
pub(crate) use core_tools::narrow as narrow_core_tools;
use effective::{SettingsDifference, merge_effective_settings};
use narrower::{drop_own_directory, is_narrower};

/// Settings of a project file that do not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredSettings {
    /// The file.
    pub file: PathBuf,
    /// The keys that loosen security.
    pub keys: Vec<String>,
    /// The value of each key in the file, as JSON.
    pub values: Vec<String>,
    /// The user's decision about the current values.
    pub acceptance: Acceptance,
}

/// The user's decision about the current loosening settings of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// No decision yet, or the file has changed since.
    Undecided,
    /// The settings apply.
    Accepted,
    /// The settings do not apply, and the user is not asked again.
    Declined,
}

/// Prefix of the stored hash of a declined file.
const DECLINED: &str = "declined ";

/// Keys of `security` with the values that only tighten. Any other value and any other `security`
/// key is treated as loosening.
const TIGHT: &[(&str, &str)] = &[
    ("security.disableYoloMode", "true"),
    ("security.disableAlwaysAllow", "true"),
    ("security.blockGitExtensions", "true"),
    ("security.toolSandboxing", "true"),
    ("security.enablePermanentToolApproval", "false"),
    ("security.autoAddToPolicyByDefault", "false"),
    ("security.enableConseca", "true"),
    ("security.buildFileGuard", "\"ask\""),
    ("security.folderTrust.enabled", "true"),
    ("security.environmentVariableRedaction.enabled", "true"),
    ("security.sandbox.network.default", "false"),
    ("security.sandbox.network.auto_edit", "false"),
    ("security.sandbox.network.plan", "false"),
    ("security.sandbox.network.yolo", "false"),
    ("security.sandbox.hostLoopback", "false"),
    ("security.sandbox.caches", "false"),
    ("security.checkpoints.enabled", "true"),
];

/// Other keys that may loosen security, with the values that do not.
const OTHER_LOOSENING_KEYS: &[(&str, &[&str])] = &[
    ("telemetry", &["false", "{\"enabled\":false}"]),
    ("general.defaultApprovalMode", &["\"default\"", "\"plan\""]),
    ("advanced.bugCommand", &[]),
    ("advanced.docsUrl", &[]),
    ("modelConfigs.prices", &["{}"]),
    // Another address would receive the user's API keys.
    ("providers", &["{}"]),
    // A fallback chain could select a model without asking the user.
    ("modelConfigs.modelChains", &["{}"]),
    ("policyPaths", &["[]"]),
    ("adminPolicyPaths", &["[]"]),
    ("tools.allowed", &["[]"]),
    ("tools.sandboxAllowedPaths", &["[]"]),
    ("tools.sandboxNetworkAccess", &["false"]),
    // Overrides could give the user's agents other servers, tools, and limits.
    ("agents.overrides", &["{}"]),
    // Commands that run without approval.
    ("tools.discoveryCommand", &[]),
    ("tools.callCommand", &[]),
    ("ui.statusLine", &["{}"]),
    // It would receive what the model searches for, and variables in its headers.
    ("tools.webSearch", &["{}"]),
    // A program that shell commands would start.
    ("tools.shell.pager", &["\"\"", "\"cat\""]),
    ("tools.shell.commandSubstitution", &["\"block\"", "\"check\""]),
    ("mcp.autoAllowInHeadless", &["false"]),
    ("mcp.sandbox", &["true"]),
    ("mcp.samplingTokens", &["0"]),
    // The user's hooks may be guards.
    ("hooksConfig.enabled", &["true"]),
    ("experimental.extensionRegistryURI", &[]),
];

/// The MCP servers that may start. A project may remove servers, but the servers that it adds still
/// require approval.
const SERVERS: &str = "mcp.allowed";

/// Keys that project files can never set, even if the user accepted the file.
const THE_USERS: [&str; 3] =
    ["general.sessionEncryption", "general.sessionRedaction", "sessions.mirror"];

/// The authentication method. Naming the one in use changes nothing.
const AUTH: [&str; 2] = ["security.auth.selectedType", "security.auth.enforcedType"];

/// Deny lists, where a project's list would otherwise replace the user's.
const REFUSALS: [&str; 2] =
    ["tools.confirmationRequired", "security.environmentVariableRedaction.blocked"];

/// A deny list whose entries are merged across layers.
const HIDDEN: &str = "security.sandbox.hidden";

/// Removes loosening settings that were not accepted from the project's files.
pub(crate) fn close(
    project: &mut [LayerFile],
    outer: &OuterSettings,
    dirs: &UserDirs,
    cwd: &Path,
    warnings: &mut Vec<String>,
) -> Vec<IgnoredSettings> {
    let mut loose = Vec::new();
    for file in project {
        for key in THE_USERS {
            if get_dotted(&file.values, key).is_some() {
                take(&mut file.values, key);
                let path = file.path.display();
                warnings.push(format!("{path}: `{key}` is allowed only in user settings"));
            }
        }
        let mut values = file.values.clone();
        let keys = tighten(&mut values, cwd, outer);
        let shown = values_of(&file.values, &keys);
        if keys.is_empty() {
            // Deny lists may have been extended.
            file.values = values;
            continue;
        }
        let acceptance = acceptance(dirs, file, &keys).unwrap_or_else(|error| {
            warnings.push(error.to_string());
            Acceptance::Undecided
        });
        if acceptance == Acceptance::Accepted {
            continue;
        }
        file.values = values;
        let names = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let asks = match keys.iter().any(|key| key == SERVERS) {
            true => {
                format!(
                    " (`{SERVERS}` selects the servers to start; their tools still require \
                    approval)"
                )
            }
            false => String::new(),
        };
        warnings.push(format!(
            "{}: these settings loosen restrictions and are ignored: {names}{asks}; run `parallax \
             trust add --settings` to accept the file as it is now",
            file.path.display()
        ));
        loose.push(IgnoredSettings { file: file.path.clone(), keys, values: shown, acceptance });
    }
    loose
}

/// Returns the values of dotted keys as JSON.
fn values_of(values: &Object, keys: &[String]) -> Vec<String> {
    let text = |key: &String| get_dotted(values, key).map(Value::to_string).unwrap_or_default();
    keys.iter().map(text).collect()
}

/// Returns the loosening keys in the values of a project file.
pub(crate) fn loosening_keys(
    values: &Object,
    project: &Path,
    outer: &OuterSettings,
) -> Vec<String> {
    tighten(&mut values.clone(), project, outer)
}

/// Accepts the project's current settings and returns the ones that loosen security. Blocking.
///
/// # Errors
/// Returns an error if a file cannot be used or written.
pub fn accept_settings(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
) -> Result<Vec<IgnoredSettings>, ConfigError> {
    remember(dirs, outer, cwd, Acceptance::Accepted)
}

/// Declines the project's current settings, so that the user is not asked again until they change.
/// Blocking.
///
/// # Errors
/// Returns an error if a file cannot be used or written.
pub fn decline_settings(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
) -> Result<Vec<IgnoredSettings>, ConfigError> {
    remember(dirs, outer, cwd, Acceptance::Declined)
}

/// Returns the project settings that loosen security, with the user's decision about each file.
/// These are the settings that a start ignores and [`accept_settings`] accepts. Blocking.
///
/// # Errors
/// Returns an error if a file cannot be used.
pub fn loosening_settings(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
) -> Result<Vec<IgnoredSettings>, ConfigError> {
    let found = loosening_files(dirs, outer, cwd)?.into_iter();
    let state = |(file, keys): (LayerFile, Vec<String>)| {
        let acceptance = acceptance(dirs, &file, &keys)?;
        let values = values_of(&file.values, &keys);
        Ok(IgnoredSettings { file: file.path, keys, values, acceptance })
    };
    found.map(state).collect()
}

fn remember(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
    acceptance: Acceptance,
) -> Result<Vec<IgnoredSettings>, ConfigError> {
    let mut found = Vec::new();
    for (file, keys) in loosening_files(dirs, outer, cwd)? {
        let hash = hash(&file, &keys);
        let declined = acceptance == Acceptance::Declined;
        record_decision(dirs, &file, if declined { format!("{DECLINED}{hash}") } else { hash })?;
        let values = values_of(&file.values, &keys);
        found.push(IgnoredSettings { file: file.path, keys, values, acceptance });
    }
    Ok(found)
}

/// Returns the project files that loosen security, with the loosening keys of each.
fn loosening_files(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
) -> Result<Vec<(LayerFile, Vec<String>)>, ConfigError> {
    let mut found = Vec::new();
    for mut file in layers::read_project(dirs, cwd)? {
        migrate::migrate(&mut file.values, &file.path);
        let keys = loosening_keys(&file.values, cwd, outer);
        if !keys.is_empty() {
            found.push((file, keys));
        }
    }
    Ok(found)
}

/// Whether the user accepted the file in its current form.
pub(crate) fn is_accepted_file(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
    path: &Path,
) -> bool {
    read_file(outer, cwd, path).is_some_and(|(file, keys)| {
        acceptance(dirs, &file, &keys).is_ok_and(|it| it == Acceptance::Accepted)
    })
}

/// Accepts the file in its current form.
pub(crate) fn accept_file(
    dirs: &UserDirs,
    outer: &OuterSettings,
    cwd: &Path,
    path: &Path,
) -> Result<(), ConfigError> {
    let Some((file, keys)) = read_file(outer, cwd, path) else { return Ok(()) };
    record_decision(dirs, &file, hash(&file, &keys))
}

/// Reads a project file and its loosening keys.
fn read_file(outer: &OuterSettings, cwd: &Path, path: &Path) -> Option<(LayerFile, Vec<String>)> {
    let text = jsonc::read_document(path).ok().flatten()?;
    let mut values = jsonc::parse_object(path, &text).ok()?;
    migrate::migrate(&mut values, path);
    let keys = loosening_keys(&values, cwd, outer);
    Some((LayerFile { layer: Layer::Workspace, path: path.to_owned(), text, values }, keys))
}

fn record_decision(dirs: &UserDirs, file: &LayerFile, word: String) -> Result<(), ConfigError> {
    let name = file_key(file);
    json_state_file::update(&register(dirs), |known| match known.get(&name) {
        Some(entry) => entry.set_value(word.into()),
        None => drop(known.append(&name, word.into())),
    })
}

fn register(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("accepted-settings.json")
}

fn acceptance(
    dirs: &UserDirs,
    file: &LayerFile,
    keys: &[String],
) -> Result<Acceptance, ConfigError> {
    let known = jsonc::read_object(&register(dirs))?.unwrap_or_default();
    let Some(known) = known.get(&file_key(file)).and_then(Value::as_str) else {
        return Ok(Acceptance::Undecided);
    };
    Ok(match known.strip_prefix(DECLINED) {
        Some(declined) if declined == hash(file, keys) => Acceptance::Declined,
        None if known == hash(file, keys) => Acceptance::Accepted,
        _ => Acceptance::Undecided,
    })
}

fn file_key(file: &LayerFile) -> String {
    let real = std::fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    real.to_string_lossy().into_owned()
}

/// Hashes what the decision is about: the file and the keys that loosen the user's settings.
fn hash(file: &LayerFile, keys: &[String]) -> String {
    let keys = keys.iter().flat_map(|key| [&b"\n"[..], key.as_bytes()]);
    json_state_file::digest(std::iter::once(file.text.as_bytes()).chain(keys))
}

/// Removes loosening values and returns their keys.
fn tighten(values: &mut Object, project: &Path, outer: &OuterSettings) -> Vec<String> {
    let mut accepted_keys = Vec::new();
    let layers = outer.layers.as_slice();
    for key in REFUSALS {
        add_denials(values, key, layers);
    }
    drop_unused_telemetry(values, outer);
    drop_own_directory(values, project);
    let difference = SettingsDifference::new(outer, values);
    if let Some(security) = values.get("security").filter(|security| !security.is_null()) {
        let mut loose = Vec::new();
        collect_loosening("security", security, &mut loose);
        let is_in_use = |key: &str| AUTH.contains(&key) && difference.uses_auth_method(outer, key);
        let is_loose = |key: &String| {
            let narrower = || {
                get_dotted(values, key)
                    .is_some_and(|value| is_narrower(key, value, outer, &difference, project))
            };
            difference.is_in(key) && !is_in_use(key) && !narrower()
        };
        let loose: Vec<String> = loose.into_iter().filter(is_loose).collect();
        for key in loose {
            take(values, &key);
            accepted_keys.push(key);
        }
    }
    for (key, harmless) in OTHER_LOOSENING_KEYS {
        let is_loose = get_dotted(values, key).is_some_and(|value| {
            !value.is_null()
                && !harmless.iter().any(|text| equals_json(value, text))
                && !is_narrower(key, value, outer, &difference, project)
        });
        if is_loose && difference.is_in(key) {
            take(values, key);
            accepted_keys.push((*key).to_owned());
        }
    }
    if let Some(Value::Array(names)) = get_dotted(values, SERVERS) {
        let spared = exempt_servers(layers);
        let is_new = |name: &str| !spared.iter().any(|known| is_same_name(known, name));
        if names.iter().filter_map(Value::as_str).any(is_new) {
            accepted_keys.push(SERVERS.to_owned());
        }
    }
    for key in budgets::loosening_budgets(values, layers) {
        take(values, &key);
        accepted_keys.push(key);
    }
    let says_off =
        get_dotted(values, "tools.sandbox").is_some_and(|value| equals_json(value, "false"));
    if says_off && difference.is_in("tools.sandbox") {
        // Gemini CLI writes this default into its files. It would loosen security here, so it is
        // dropped without asking the user.
        take(values, "tools.sandbox");
    } else if difference.is_in("tools.sandbox") && sandbox_loosens(values, layers) {
        take(values, "tools.sandbox");
        accepted_keys.push("tools.sandbox".to_owned());
    }
    for key in ["context.includeDirectories", "context.fileName"] {
        let users: Vec<String> = strings(get_dotted(difference.settings_without_project(), key));
        retain_entries(values, key, &mut accepted_keys, |path| {
            is_inside(path, project) || is_below(path, &users, outer)
        });
    }
    servers::tighten(values, outer, &mut accepted_keys);
    accepted_keys
}

/// Drops where a project's telemetry goes while telemetry is off, without asking the user: it has
/// no effect, and must have none if telemetry is enabled by other means.
fn drop_unused_telemetry(values: &mut Object, outer: &OuterSettings) {
    let is_off = |values: &Object| {
        get_dotted(values, "telemetry.enabled")
            .is_none_or(|value| value.is_null() || equals_json(value, "false"))
    };
    if !values.get("telemetry").is_some_and(Value::is_object)
        || !is_off(&merge_effective_settings(outer, Some(values)))
    {
        return;
    }
    let enabled = take(values, "telemetry.enabled");
    take(values, "telemetry");
    if let Some(enabled) = enabled {
        migrate::set_default(values, "telemetry.enabled", enabled);
    }
}

/// Whether a path, in any spelling, is one of these or below one.
fn is_below(path: &str, users: &[String], outer: &OuterSettings) -> bool {
    let spelled = |path: &str| {
        let path = path.strip_prefix('~').map_or(path.to_owned(), |rest| format!("$HOME{rest}"));
        PathBuf::from(Expander::new(&outer.environment).text(&path))
    };
    let project = spelled(path);
    let leads_up = project.components().any(|part| part == Component::ParentDir);
    users.iter().map(|user| spelled(user)).any(|user| {
        project == user || (!leads_up && !user.as_os_str().is_empty() && project.starts_with(user))
    })
}

/// Returns a string, or the strings of a list.
fn strings(value: Option<&Value>) -> Vec<String> {
    let entries = match value {
        Some(Value::Array(entries)) => entries.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    };
    entries.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the servers that the user and the administrator exempt from approval.
fn exempt_servers(outer: &[LayerFile]) -> Vec<String> {
    let lists = outer.iter().filter_map(|file| get_dotted(&file.values, SERVERS)?.as_array());
    let texts = |list: &Vec<Value>| -> Vec<String> {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let in_both = |mut all: Vec<String>, more: Vec<String>| {
        all.retain(|name| more.iter().any(|other| is_same_name(other, name)));
        all
    };
    lists.map(texts).reduce(in_both).unwrap_or_default()
}

/// Returns the servers whose tools stay exempt from approval, if a project adds servers that the
/// user did not accept.
pub(crate) fn exempt_servers_for(
    loose: &[IgnoredSettings],
    outer: &[LayerFile],
) -> Option<Vec<String>> {
    let adds = loose.iter().any(|file| file.keys.iter().any(|key| key == SERVERS));
    adds.then(|| exempt_servers(outer))
}

/// Whether the value equals the given JSON, which may also be written as a string.
fn equals_json(value: &Value, text: &str) -> bool {
    value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|it| it == *value)
}

/// Collects the keys below `security` that are not known to tighten.
fn collect_loosening(key: &str, value: &Value, loose: &mut Vec<String>) {
    if REFUSALS.contains(&key)
        || key == HIDDEN
        || TIGHT.iter().any(|(name, tight)| *name == key && equals_json(value, tight))
    {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                // A dot in a name would form a different dotted key.
                if name.contains('.') {
                    loose.push(key.to_owned());
                    return;
                }
                collect_loosening(&format!("{key}.{name}"), field, loose);
            }
        }
        Value::Null => {}
        _ => loose.push(key.to_owned()),
    }
}

/// Adds the deny-list entries of the layers below to the project's list.
fn add_denials(values: &mut Object, key: &str, outer: &[LayerFile]) {
    let lower = outer
        .iter()
        .filter(|file| file.layer < Layer::WorkspaceGemini)
        .filter_map(|file| get_dotted(&file.values, key)?.as_array());
    let lower: Vec<Value> = lower.flatten().cloned().collect();
    if lower.is_empty() || get_dotted(values, key).is_none_or(Value::is_null) {
        return;
    }
    let project = take(values, key);
    let mut all = lower;
    // Values that are not lists are ignored, and the lower layers' entries stay.
    all.extend(project.into_iter().filter_map(|project| project.as_array().cloned()).flatten());
    migrate::set_default(values, key, Value::Array(all));
}

/// Whether the project's sandbox setting loosens: a project may enable a sandbox only where no
/// other layer enables another one.
fn sandbox_loosens(values: &Object, outer: &[LayerFile]) -> bool {
    let Some(value) = get_dotted(values, "tools.sandbox").filter(|value| !value.is_null()) else {
        return false;
    };
    let others = outer.iter().filter(|file| file.layer < Layer::WorkspaceGemini);
    let others = others.filter_map(|file| get_dotted(&file.values, "tools.sandbox"));
    let is_off = |other: &Value| equals_json(other, "false");
    let mut others = others.filter(|other| *other != value && !is_off(other)).peekable();
    if others.peek().is_some() {
        return true;
    }
    let known = ["true", "docker", "podman", "runsc", "sandbox-exec"];
    !match value {
        Value::String(text) => known.contains(&text.as_str()),
        Value::Object(fields) => fields.iter().all(|(name, field)| match name.as_str() {
            "enabled" => equals_json(field, "true"),
            "command" => field.as_str().is_some_and(|text| known.contains(&text)),
            "networkAccess" => equals_json(field, "false"),
            _ => false,
        }),
        other => *other == json!(true),
    }
}

/// Keeps the entries of a list of strings (or the single string) for which `keep` returns true.
fn retain_entries(
    values: &mut Object,
    key: &str,
    accepted_keys: &mut Vec<String>,
    keep: impl Fn(&str) -> bool,
) {
    let is_kept = |value: &Value| value.as_str().is_none_or(&keep);
    let remaining = match get_dotted(values, key) {
        Some(Value::Array(entries)) => {
            let remaining: Vec<Value> =
                entries.iter().filter(|entry| is_kept(entry)).cloned().collect();
            (remaining.len() < entries.len()).then_some(Some(Value::Array(remaining)))
        }
        Some(text @ Value::String(_)) => (!is_kept(text)).then_some(None),
        _ => None,
    };
    let Some(remaining) = remaining else { return };
    take(values, key);
    if let Some(remaining) = remaining {
        migrate::set_default(values, key, remaining);
    }
    accepted_keys.push(key.to_owned());
}

/// Whether a path in a project file stays inside the project, without resolving links below it.
fn is_inside(path: &str, project: &Path) -> bool {
    if path.contains('$') || path.starts_with('~') {
        return false;
    }
    let path = Path::new(path);
    let stays = |path: &Path| path.components().all(|part| part != Component::ParentDir);
    if let Ok(rest) = path.strip_prefix(project) {
        return stays(rest);
    }
    if path.is_absolute() {
        return false;
    }
    // Leading `..` leave the project, and the rest may lead back into it.
    let parent_count = path.components().take_while(|part| *part == Component::ParentDir).count();
    let rest: PathBuf = path.components().skip(parent_count).collect();
    if parent_count == 0 || !stays(&rest) {
        return stays(path);
    }
    let real = std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    real.ancestors().nth(parent_count).is_some_and(|start| start.join(rest).starts_with(&real))
}

#[cfg(test)]
mod tests;
