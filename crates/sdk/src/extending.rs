//! Skills, hooks, and custom commands for lists.

use std::path::PathBuf;

use parallax_config::hooks::Hook;
use parallax_protocol::event::Failure;

use crate::custom_commands::{Catalog, CommandSource, PromptCommand};
use crate::hooks::RunningHook;
use crate::launch::Launch;

/// A skill in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInfo {
    /// Name of the skill.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Where it comes from, in a word.
    pub source: String,
    /// Whether it is enabled.
    pub enabled: bool,
}

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
    /// Its description.
    pub description: String,
    /// The settings file that defines it.
    pub file: PathBuf,
    /// Whether it is enabled.
    pub enabled: bool,
    /// For a project hook: whether its current form was accepted.
    pub accepted: bool,
    /// Whether the open session runs it; `None` if no session is open.
    pub running: Option<bool>,
}

impl HookInfo {
    /// Describes whether the hook is active, and what is missing if not.
    pub fn state(&self) -> &'static str {
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

impl Launch {
    /// Returns the skills of the current files, with warnings for the user. Blocking.
    pub fn skill_infos(&self) -> (Vec<SkillInfo>, Vec<String>) {
        let found = self.reread().map_or_else(|_| self.skills(), |launch| launch.skills());
        let info = |skill: parallax_config::skills::Skill| SkillInfo {
            source: match &skill.tier {
                parallax_config::skills::SkillTier::Extension(name) => format!("of {name}"),
                tier => tier.as_str().to_owned(),
            },
            name: skill.name,
            description: skill.description,
            enabled: !skill.disabled,
        };
        let warnings = found.warnings.all().cloned().collect();
        (found.skills.into_iter().map(info).collect(), warnings)
    }

    /// Returns the hooks of the current files, with warnings for the user. Blocking.
    ///
    /// # Errors
    /// Returns an error if a settings file is invalid.
    pub fn hook_infos(&self) -> Result<(Vec<HookInfo>, Vec<String>), Failure> {
        let found = self.reread()?.hook_list()?;
        let running = self.running_hooks.get();
        let info = |hook: Hook| HookInfo {
            running: running.map(|running| running.contains(&RunningHook::of(&hook))),
            title: hook.title().to_owned(),
            event: hook.event.as_str(),
            source: match &hook.extension {
                Some(name) => format!("of {name}"),
                None => hook.source.as_str().to_owned(),
            },
            matcher: hook.matcher,
            command: hook.command,
            description: hook.description,
            file: hook.file,
            enabled: !hook.disabled,
            accepted: hook.accepted,
        };
        Ok((found.hooks.into_iter().map(info).collect(), found.warnings))
    }
}

/// Groups custom commands by source: a title, then names with descriptions. Prompts of MCP servers
/// come last.
pub fn command_groups(
    catalog: &Catalog,
    prompts: &[PromptCommand],
) -> Vec<(String, Vec<(String, String)>)> {
    let mut groups: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut add = |title: String, name: &str, what: String| {
        let entry = (name.to_owned(), what);
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, names)) => names.push(entry),
            None => groups.push((title, vec![entry])),
        }
    };
    for wanted in 0..3 {
        for command in catalog.commands() {
            let (order, title) = match &command.source {
                CommandSource::Project => (0, "Project".to_owned()),
                CommandSource::User => (1, "Yours".to_owned()),
                CommandSource::Extension(name) => (2, format!("Extension `{name}`")),
            };
            if order == wanted {
                let what = format!("{} ({})", command.description, command.path.display());
                add(title, &command.name, what);
            }
        }
    }
    for prompt in prompts {
        let title = format!("MCP server `{}`", prompt.server);
        add(title, &prompt.name, prompt.description.clone());
    }
    groups
}
