//! Skills, hooks and commands as lists show them.

use std::path::PathBuf;

use parallax_config::hooks::Hook;
use parallax_protocol::event::Failure;

use crate::custom_commands::{Catalog, CommandSource, PromptCommand};
use crate::hooks::RunningHook;
use crate::launch::Launch;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Whose it is, in a word.
    pub source: String,
    /// Whether it may be used.
    pub enabled: bool,
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookInfo {
    /// Its name, or its command.
    pub title: String,
    /// What it hears of.
    pub event: &'static str,
    /// Whose it is, in a word.
    pub source: String,
    /// Which tools, sources or triggers; empty: all.
    pub matcher: String,
    /// What it runs.
    pub command: String,
    /// What it is for.
    pub description: String,
    /// The file that it stands in.
    pub file: PathBuf,
    /// Whether it is switched on.
    pub enabled: bool,
    /// Of a project's: whether it was accepted as it is.
    pub accepted: bool,
    /// Whether the open session runs it; `None` where none is open.
    pub running: Option<bool>,
}

impl HookInfo {
    /// Whether it is in force, and if not what is missing.
    pub fn state(&self) -> &'static str {
        match (self.enabled, self.accepted, self.running) {
            (true, false, _) => "not accepted; `/hooks accept` accepts it",
            (true, true, Some(false)) => "accepted, not running yet; `/hooks accept` starts it",
            (true, true, _) => "on",
            (false, _, Some(true)) => "off; this session still runs it",
            (false, ..) => "off",
        }
    }
}

impl Launch {
    /// The skills as their files are now, and what people should hear. Blocking.
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

    /// The hooks as the files have them now, and what people should hear.
    /// Blocking.
    ///
    /// # Errors
    /// A settings file that cannot be used.
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

/// Commands of people's own by whose they are: a title, then names and what
/// each is. Prompts of servers come last.
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
                CommandSource::Project => (0, "Of the project".to_owned()),
                CommandSource::User => (1, "Yours".to_owned()),
                CommandSource::Extension(name) => (2, format!("Of the extension `{name}`")),
            };
            if order == wanted {
                let what = format!("{} ({})", command.description, command.path.display());
                add(title, &command.name, what);
            }
        }
    }
    for prompt in prompts {
        let title = format!("Of the MCP server `{}`", prompt.server);
        add(title, &prompt.name, prompt.description.clone());
    }
    groups
}
