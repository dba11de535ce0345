//! Hooks from settings files and extensions, each with its source file, and the project hooks that
//! the user accepted.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::ConfigError;
use crate::extensions::{Extension, Extensions};
use crate::hook_definitions::{HOOKS, read_file};
use crate::layers::{self, Layer};
use crate::load::Config;
use crate::mcp_server::is_rejected_variable;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc, migrate};

pub use crate::hook_definitions::{Hook, HookKind, HookSource, hooks_of_folder};

/// The hooks of all layers.
#[derive(Debug, Clone, Default)]
pub struct HookList {
    /// The hooks; project hooks come first.
    pub hooks: Vec<Hook>,
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
}

/// Reads the hooks of all settings files and active extensions. Project hooks are read only in
/// trusted projects. Blocking.
///
/// # Errors
/// Returns an error if a file cannot be used.
pub fn find_hooks(config: &Config, extensions: &Extensions) -> Result<HookList, ConfigError> {
    let mut found = HookList::default();
    let has_any = config.settings.get("hooks").and_then(Value::as_object);
    let has_extension_hooks = extensions.active().any(|it| it.folder.join(HOOKS).exists());
    if has_any.is_none_or(serde_json::Map::is_empty) && !has_extension_hooks {
        return Ok(found);
    }
    let mut files = layers::read_outer(&config.environment, &config.dirs, &config.cwd)?;
    if config.trust.trusted {
        files.extend(layers::read_project(&config.dirs, &config.project)?);
    }
    files.sort_by_key(|file| std::cmp::Reverse(source_of(file.layer)));
    let accepted = read_accepted_hashes(&config.dirs, &config.project)?;
    for file in &mut files {
        migrate::migrate(&mut file.values, &file.path);
    }
    // A project can disable only its own hooks, because other hooks may be guards.
    let off = |include_project: bool| -> Vec<String> {
        let counting = files
            .iter()
            .filter(|file| include_project || source_of(file.layer) != HookSource::Project)
            .filter_map(|file| {
                migrate::get_dotted(&file.values, "hooksConfig.disabled")?.as_array()
            });
        // An empty name would mean all hooks without one.
        let names = counting.flatten().filter_map(Value::as_str).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let (off_here, off_everywhere) = (off(true), off(false));
    for file in &files {
        let source = source_of(file.layer);
        let Some(hooks) = file.values.get("hooks").and_then(Value::as_object) else { continue };
        let mut file_hooks = read_file(hooks, source, &file.path, &mut found.warnings);
        for hook in &mut file_hooks {
            let off = if source == HookSource::Project { &off_here } else { &off_everywhere };
            hook.disabled = off.iter().any(|name| *name == hook.name || *name == hook.command);
            hook.accepted =
                source != HookSource::Project || accepted.contains(&hook.hash(&config.project));
        }
        if source == HookSource::Project {
            // A project file that is the same as the user's file adds nothing.
            file_hooks.retain(|hook| !found.hooks.iter().any(|known| known.is_equivalent(hook)));
        }
        found.hooks.extend(file_hooks);
    }
    for extension in extensions.active() {
        let mut hooks = extension_hooks(extension, &mut found.warnings);
        for hook in &mut hooks {
            let is_off = |name: &String| *name == hook.name || *name == hook.command;
            hook.disabled = off_everywhere.iter().any(is_off);
            hook.accepted = !extension.is_modified;
        }
        found.hooks.extend(hooks);
    }
    if !config.settings.flag("hooksConfig.moreEvents") {
        remove_disabled_events(&mut found);
    }
    Ok(found)
}

/// Removes hooks of optional events that are not enabled.
fn remove_disabled_events(found: &mut HookList) {
    let mut names: Vec<&str> = Vec::new();
    for hook in found.hooks.iter().filter(|hook| hook.event.is_extra()) {
        if !names.contains(&hook.event.as_str()) {
            names.push(hook.event.as_str());
        }
    }
    if !names.is_empty() {
        found.warnings.push(format!(
            "hooks of `{}` do not run: enable these events with `hooksConfig.moreEvents`",
            names.join("`, `")
        ));
        found.hooks.retain(|hook| !hook.event.is_extra());
    }
}

/// Returns the hooks of an extension, ready to run: paths are expanded, and its settings are added
/// to their environment. The user accepted them by installing the extension.
fn extension_hooks(extension: &Extension, warnings: &mut Vec<String>) -> Vec<Hook> {
    let file = extension.folder.join(HOOKS);
    let mut found = hooks_of_folder(&extension.folder, warnings);
    let settings = extension.environment();
    for hook in &mut found {
        hook.extension = Some(extension.name().to_owned());
        hook.command = extension.variables.fill_command(&hook.command);
        for (_, value) in &mut hook.env {
            *value = extension.variables.fill(value);
        }
        let (allowed, refused): (Vec<_>, Vec<_>) = std::mem::take(&mut hook.env)
            .into_iter()
            .partition(|(name, _)| !is_rejected_variable(name));
        for (name, _) in refused {
            warnings.push(format!("{}: the variable `{name}` is ignored", file.display()));
        }
        hook.env = allowed;
        for (name, value) in &settings {
            if !hook.env.iter().any(|(known, _)| known == name) {
                hook.env.push((name.clone(), value.clone()));
            }
        }
    }
    found
}

fn source_of(layer: Layer) -> HookSource {
    match layer {
        Layer::SystemDefaults | Layer::System => HookSource::System,
        Layer::UserGemini | Layer::User => HookSource::User,
        Layer::WorkspaceGemini | Layer::Workspace => HookSource::Project,
    }
}

fn register(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("accepted-hooks.json")
}

fn project_key(project: &Path) -> String {
    let real = std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    real.to_string_lossy().into_owned()
}

/// Returns the hashes of the project hooks that the user accepted.
fn read_accepted_hashes(dirs: &UserDirs, project: &Path) -> Result<Vec<String>, ConfigError> {
    let known = jsonc::read_object(&register(dirs))?.unwrap_or_default();
    let hashes = known.get(&project_key(project)).and_then(Value::as_array);
    let hashes = hashes.into_iter().flatten().filter_map(Value::as_str);
    Ok(hashes.map(str::to_owned).collect())
}

/// Accepts the project's current hooks. Blocking.
///
/// # Errors
/// Returns an error if `~/.parallax/accepted-hooks.json` cannot be used or written.
pub fn accept_hooks(dirs: &UserDirs, project: &Path, hooks: &[Hook]) -> Result<(), ConfigError> {
    let project_hooks = hooks.iter().filter(|hook| hook.source == HookSource::Project);
    let hashes: Vec<String> = project_hooks.map(|hook| hook.hash(project)).collect();
    let name = project_key(project);
    json_state_file::update(&register(dirs), |known| match known.get(&name) {
        Some(entry) => entry.set_value(hashes.into()),
        None => drop(known.append(&name, hashes.into())),
    })
}
