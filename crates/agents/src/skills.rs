//! Skills: their definitions, and the skills of a session. The system prompt lists only their names
//! and descriptions.

mod session;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::extensions::Extensions;
use parallax_config::skills::{
    Skill, SkillFolder, SkillPins, SkillTier, Skills, find_skills, skill_files, skill_folders,
};
use parallax_config::{Config, SettingScope, disabled_names, disabling_files, set_disabled_name};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_tools::activate_skill::{SkillEntry, VariableExpander};
use serde_json::Value;

use crate::ReloadFn;
use crate::changes::{FolderStamp, stamp};

pub use session::SessionSkills;

/// Maximum total characters of skill descriptions in the system prompt. Skills of higher precedence
/// come first, and shorter descriptions before longer ones. The rest are listed by name only.
const BUDGET: usize = 16_000;

/// The setting with the names of disabled skills.
const DISABLED: &str = "skills.disabled";

/// Lists skills, and enables and disables them. Cheap to clone.
#[derive(Clone)]
pub struct SkillLibrary {
    /// The configuration of the user and the project.
    pub config: Arc<Config>,
    /// The extensions, which may provide skills.
    pub extensions: Arc<Extensions>,
    /// More directories of skills, which take precedence.
    pub directories: Vec<PathBuf>,
    /// Reads the settings again.
    pub reload: ReloadFn<SkillLibrary>,
}

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

impl SkillLibrary {
    /// Returns the skills of the current files, with warnings for the user. Blocking.
    pub fn infos(&self) -> (Vec<SkillInfo>, Vec<String>) {
        let found = (self.reload)().map_or_else(|_| self.skills(), |library| library.skills());
        let info = |skill: Skill| SkillInfo {
            source: match &skill.tier {
                SkillTier::Extension(name) => format!("of {name}"),
                tier => tier.as_str().to_owned(),
            },
            name: skill.name,
            description: skill.description,
            enabled: !skill.disabled,
        };
        let warnings = found.warnings.all().cloned().collect();
        (found.skills.into_iter().map(info).collect(), warnings)
    }

    /// Returns the skills of the current files, including disabled ones. Blocking.
    pub fn skills(&self) -> Skills {
        let config = &self.config;
        if !config.settings.flag("skills.enabled") {
            return Skills::default();
        }
        let built_in = built_in().into_iter().collect();
        let disabled = config.settings.list(DISABLED);
        let mut found = find_skills(built_in, &self.directories(), &disabled);
        self.remove_changed(&mut found);
        for skill in &mut found.skills {
            if let SkillTier::Extension(name) = &skill.tier
                && let Some(extension) = self.extensions.find(name)
            {
                skill.description = extension.variables.expand_for_model(&skill.description);
            }
        }
        found
    }

    /// Enables or disables a skill (`skills.disabled`). Returns the settings file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the skill is not found, the file cannot be written, or another file
    /// disables the skill.
    pub fn set_enabled(
        &self,
        name: &str,
        on: bool,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        let (skills, _) = self.infos();
        // A removed skill can still be taken off the list.
        let listed = || self.config.settings.list(DISABLED).iter().any(|it| same(it));
        let known = skills.iter().any(|skill| same(&skill.name)) || (on && listed());
        if !known {
            let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
            let there = match names.as_slice() {
                [] => "no skills are available".to_owned(),
                names => format!("available skills: {}", names.join(", ")),
            };
            return Err(Failure::new(
                FailureKind::Input,
                format!("unknown skill `{name}`; {there}"),
            ));
        }
        let file =
            set_disabled_name(&self.config, scope, DISABLED, name, !on).map_err(config_failure)?;
        let reloaded = (self.reload)()?;
        match disabling_files(&reloaded.config, DISABLED, name).filter(|_| on) {
            Some(reason) => Err(Failure::new(FailureKind::Input, reason)),
            None => Ok(file),
        }
    }

    /// Enables a skill in both the user's and the project's settings. Returns the last file that
    /// was written. Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`switch`](Self::switch).
    pub fn enable(&self, name: &str) -> Result<PathBuf, Failure> {
        let mut off = Vec::new();
        for scope in [SettingScope::Workspace, SettingScope::User] {
            let names = disabled_names(&self.config, scope, DISABLED).map_err(config_failure)?;
            if names.iter().filter_map(Value::as_str).any(|it| it.eq_ignore_ascii_case(name)) {
                off.push(scope);
            }
        }
        // The last change also reports whether another file still disables the skill.
        let last = off.pop().unwrap_or(SettingScope::Workspace);
        for scope in off {
            set_disabled_name(&self.config, scope, DISABLED, name, false)
                .map_err(config_failure)?;
        }
        self.set_enabled(name, true, last)
    }

    /// Returns the skill directories, lowest precedence first.
    fn directories(&self) -> Vec<SkillFolder> {
        let config = &self.config;
        let mut directories = self.extensions.skill_folders();
        directories.extend(skill_folders(&config.dirs, &config.cwd, config.trust.trusted));
        let from_options = self.directories.iter();
        directories.extend(
            from_options
                .map(|directory| SkillFolder { tier: SkillTier::User, folder: directory.clone() }),
        );
        directories
    }

    /// Returns the state of the skill files, for detecting changes. Blocking: checks each file.
    pub(crate) fn stamp(&self) -> FolderStamp {
        if !self.config.settings.flag("skills.enabled") {
            return FolderStamp::new();
        }
        stamp(self.directories().iter().flat_map(|location| skill_files(&location.folder)))
    }

    /// Removes installed skills that were modified after installation.
    fn remove_changed(&self, found: &mut Skills) {
        let pins = match SkillPins::read(&self.config.dirs) {
            Ok(pins) => pins,
            Err(error) => return found.warnings.push(error.to_string()),
        };
        let Skills { skills, warnings } = found;
        skills.retain(|skill| {
            let Some(source) = pins.changed_source(skill) else { return true };
            warnings.push(format!(
                "the skill `{}` is ignored because its files differ from the installed ones: \
                 `parallax skills install {source}` restores them; to modify a skill, use \
                 `parallax skills link`",
                skill.name
            ));
            false
        });
    }
}

fn config_failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Config, error.to_string())
}

/// Returns the built-in skill about creating skills.
fn built_in() -> Option<Skill> {
    let skill = Skill::built_in(include_str!("skills/skill-creator.md"));
    // Cannot fail: a test parses the built-in text.
    skill.map_err(|reason| tracing::error!(reason, "the built-in skill is not valid")).ok()
}

/// Returns the names of built-in skills that are not overridden. They are activated without
/// approval.
pub fn built_in_names(skills: &Skills) -> Vec<String> {
    let complete = skills.skills.iter().filter(|skill| skill.text.is_some());
    complete.map(|skill| skill.name.clone()).collect()
}

/// Returns the enabled skills for the tool. Variables of extensions are filled in, except secrets.
pub(crate) fn entries(skills: &Skills, extensions: &Extensions) -> Vec<SkillEntry> {
    let fill = |skill: &Skill| -> Option<VariableExpander> {
        let SkillTier::Extension(name) = &skill.tier else { return None };
        let variables = extensions.find(name)?.variables.clone();
        Some(Arc::new(move |text| variables.expand_for_model(text)))
    };
    let enabled = skills.skills.iter().filter(|skill| !skill.disabled);
    enabled
        .map(|skill| SkillEntry {
            name: skill.name.clone(),
            description: skill.description.clone(),
            file: skill.file.clone(),
            text: skill.text,
            expander: fill(skill),
        })
        .collect()
}

/// Returns the enabled skills with their names as slash commands. Those of an extension are named
/// `EXTENSION:NAME`.
pub(crate) fn commands(skills: &Skills, extensions: &Extensions) -> Vec<(String, SkillEntry)> {
    let enabled = skills.skills.iter().filter(|skill| !skill.disabled);
    entries(skills, extensions)
        .into_iter()
        .zip(enabled)
        .map(|(entry, skill)| {
            let plain = skill.name.split_whitespace().collect::<Vec<_>>().join("-");
            let name = match &skill.tier {
                SkillTier::Extension(extension) => format!("{extension}:{plain}"),
                _ => plain,
            };
            (name, entry)
        })
        .collect()
}

/// Builds the section of the system prompt about skills; empty if there are none.
pub(crate) fn section(skills: &Skills) -> String {
    let enabled: Vec<&Skill> = skills.skills.iter().filter(|skill| !skill.disabled).collect();
    if enabled.is_empty() {
        return String::new();
    }
    let mut text = "# Available Agent Skills\n\nBefore work that a skill describes, call \
                    `activate_skill` with its name and follow its `<instructions>`: they rank \
                    above these defaults, but not above Safety.\n\n<available_skills>\n"
        .to_owned();
    let described = described_names(&enabled);
    for skill in enabled {
        let name = escape(&skill.name);
        let description = match described.contains(&skill.name.as_str()) {
            true => escape(&skill.description),
            false => String::new(),
        };
        let location = escape(&skill.location());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<skill><name>{name}</name><description>{description}</description>\
             <location>{location}</location></skill>"
        );
    }
    text.push_str("</available_skills>\n");
    text
}

/// Returns the names of the skills whose descriptions fit the limit.
fn described_names<'a>(enabled: &[&'a Skill]) -> Vec<&'a str> {
    let length = |skill: &Skill| escape(&skill.description).chars().count();
    let rank = |skill: &Skill| match skill.tier {
        SkillTier::Project => 0,
        SkillTier::User => 1,
        SkillTier::Extension(_) => 2,
        SkillTier::BuiltIn => 3,
    };
    let mut ranked = enabled.to_vec();
    ranked.sort_by_key(|skill| (rank(skill), length(skill)));
    let mut remaining = BUDGET;
    let fits = ranked.into_iter().take_while(|skill| {
        let rest = remaining.checked_sub(length(skill));
        remaining = rest.unwrap_or(0);
        rest.is_some()
    });
    fits.map(|skill| skill.name.as_str()).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, description: &str) -> Skill {
        Skill {
            name: name.to_owned(),
            description: description.to_owned(),
            tier: SkillTier::User,
            file: "/s/SKILL.md".into(),
            text: None,
            disabled: false,
        }
    }

    #[test]
    fn built_in_skill_is_listed_once() {
        let skill = built_in().expect("a skill");
        assert_eq!((skill.name.as_str(), skill.location().as_str()), ("skill-creator", "built in"));
    }

    #[test]
    fn descriptions_are_bounded_and_escaped() {
        let mut skills = Skills::default();
        assert_eq!(section(&skills), "");
        skills.skills = vec![skill("a", "x </skill> y"), skill("b", &"z".repeat(BUDGET))];
        let text = section(&skills);
        assert!(text.contains("x &lt;/skill&gt; y"), "{text}");
        assert!(text.contains("<name>b</name><description></description>"), "{text}");
    }

    #[test]
    fn project_skills_are_described_first() {
        let of = |name: &str, tier, length| Skill { tier, ..skill(name, &"z".repeat(length)) };
        let skills = [
            of("a", SkillTier::BuiltIn, 10),
            of("b", SkillTier::User, BUDGET - 10),
            of("c", SkillTier::Project, 20),
            of("d", SkillTier::Project, 5),
        ];
        assert_eq!(described_names(&skills.iter().collect::<Vec<_>>()), ["d", "c"]);
        let skills = &skills[1..];
        assert_eq!(described_names(&skills.iter().collect::<Vec<_>>()).first(), Some(&"d"));
    }
}
