//! Lists hooks, accepts those of the project, and enables or disables them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parallax_config::extensions::Extensions;
use parallax_config::hooks::{Hook, HookList, HookSource, accept_hooks};
use parallax_config::{Config, SettingScope, disabling_files, set_disabled_name};
use parallax_protocol::event::{Failure, FailureKind};

use crate::{RunningHook, format_title, hook_list};

/// The setting with the names of disabled hooks.
const DISABLED: &str = "hooksConfig.disabled";

/// A hook in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// Its name, or its command.
    pub title: String,
    /// The event it runs at.
    pub event: &'static str,
    /// Where it comes from, in a word.
    pub source: String,
    /// The tools, sources, or triggers it matches; empty matches all.
    pub matcher: String,
    /// The command it runs.
    pub command: String,
    /// The command with the variables that it gets.
    pub shown_command: String,
    /// The description.
    pub description: String,
    /// The settings file that defines it.
    pub file: PathBuf,
    /// Whether it is enabled.
    pub enabled: bool,
    /// For a project hook: whether its current form was accepted.
    pub accepted: bool,
    /// Whether the open session runs it; `None` if no session is open.
    pub running: Option<bool>,
    /// Whether settings files no longer define it: only the session still runs it.
    pub is_removed: bool,
}

impl HookInfo {
    /// Describes whether the hook is active, and what is missing if not.
    pub fn state(&self) -> &'static str {
        if self.is_removed {
            return "removed; this session still runs it; run `/hooks accept` to stop it";
        }
        match (self.enabled, self.accepted, self.running) {
            (true, false, _) => "not accepted; run `/hooks accept` to accept it",
            (true, true, Some(false)) => {
                "accepted, not running yet; run `/hooks accept` to start it"
            }
            (true, true, _) => "on",
            (false, _, Some(true)) => "off; this session still runs it",
            (false, ..) => "off",
        }
    }
}

/// Lists hooks, accepts those of the project, and enables or disables them. Cheap to clone.
#[derive(Clone)]
pub struct HookLibrary {
    /// The configuration of the user and the project.
    pub config: Arc<Config>,
    /// The extensions, which may provide hooks.
    pub extensions: Arc<Extensions>,
    /// The hooks of the open session, if there is one.
    pub running: Arc<OnceLock<Vec<RunningHook>>>,
    /// Reads the settings again and returns a library that follows them.
    pub reload: Arc<dyn Fn() -> Result<HookLibrary, Failure> + Send + Sync>,
}

impl HookLibrary {
    /// Returns the hooks of all settings files. Blocking.
    ///
    /// # Errors
    /// Returns an error if a settings file is invalid.
    pub fn list(&self) -> Result<HookList, Failure> {
        hook_list(&self.config, &self.extensions)
    }

    /// Accepts the project's hooks in their current form and returns their number. An open session
    /// runs them after it is reopened. Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn accept(&self) -> Result<usize, Failure> {
        // The session may have been opened before the hooks changed.
        let hooks = (self.reload)()?.list()?.hooks;
        accept_hooks(&self.config.dirs, &self.config.project, &hooks)
            .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))?;
        Ok(hooks.iter().filter(|hook| hook.source == HookSource::Project).count())
    }

    /// Enables or disables a hook, given by name or command (`hooksConfig.disabled`). Returns the
    /// changed file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the hook is not found, a file cannot be written, another file disables
    /// the hook, or the project scope would disable a hook of the user.
    pub fn set_enabled(
        &self,
        name: &str,
        on: bool,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let hooks = (self.reload)()?.list()?.hooks;
        // A hook without a name is known by its command.
        let is_it = |hook: &Hook| !name.is_empty() && (hook.name == name || hook.command == name);
        let is_listed = self.config.settings.get(DISABLED).is_some_and(|list| {
            list.as_array().is_some_and(|names| names.iter().any(|it| it == name))
        });
        let is_known = hooks.iter().any(is_it) || on && is_listed;
        if !is_known {
            let near = parallax_config::similar_names(name, hooks.iter().map(Hook::title));
            let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
            let hint = match near.is_empty() {
                true => "`parallax hooks list` shows all hooks".to_owned(),
                false => format!("did you mean {}?", near.join(" or ")),
            };
            let name = format_title(name);
            return Err(Failure::new(FailureKind::Input, format!("unknown hook `{name}`; {hint}")));
        }
        let config = |reason: String| Failure::new(FailureKind::Config, reason);
        let file = set_disabled_name(&self.config, scope, DISABLED, name, !on)
            .map_err(|error| config(error.to_string()))?;
        let reloaded = (self.reload)()?;
        if let Some(reason) = disabling_files(&reloaded.config, DISABLED, name).filter(|_| on) {
            return Err(Failure::new(FailureKind::Input, reason));
        }
        let is_on = |hook: &Hook| !hook.disabled && (hook.name == name || hook.command == name);
        if !on && (self.reload)()?.list()?.hooks.iter().any(is_on) {
            let reason =
                format!("a project cannot disable your own hook `{name}`: use `--scope user`");
            return Err(Failure::new(FailureKind::Input, reason));
        }
        Ok(file)
    }

    /// Returns the hooks of the current files and those that only the open session still runs, with
    /// warnings for the user. Blocking.
    ///
    /// # Errors
    /// Returns an error if a settings file is invalid.
    pub fn infos(&self) -> Result<(Vec<HookInfo>, Vec<String>), Failure> {
        let found = (self.reload)()?.list()?;
        let (running, project) = (self.running.get(), &self.config.project);
        let runs = |hook: &Hook| {
            running.map(|running| running.iter().any(|one| one.may_run(hook, project)))
        };
        let is_removed =
            |one: &&RunningHook| !found.hooks.iter().any(|hook| one.is_defined_as(hook));
        let removed: Vec<Hook> =
            running.into_iter().flatten().filter(is_removed).map(|one| one.hook.clone()).collect();
        let info = |hook: Hook, is_removed: bool| HookInfo {
            running: if is_removed { Some(true) } else { runs(&hook) },
            is_removed,
            title: hook.title().to_owned(),
            event: hook.event.as_str(),
            source: match &hook.extension {
                Some(name) => format!("of {name}"),
                None => hook.source.as_str().to_owned(),
            },
            shown_command: hook.display_command(),
            matcher: hook.matcher,
            command: hook.command,
            description: hook.description,
            file: hook.file,
            enabled: !hook.disabled,
            accepted: hook.accepted,
        };
        let removed = removed.into_iter().map(|hook| info(hook, true));
        let hooks = found.hooks.into_iter().map(|hook| info(hook, false)).chain(removed);
        Ok((hooks.collect(), found.warnings))
    }
}
