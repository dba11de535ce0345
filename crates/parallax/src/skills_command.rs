//! `parallax skills`: lists, installs, and removes skills, and enables or disables them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use parallax_extensions::skill_files::{self, FetchedSkills};
use parallax_headless::one_line;
use parallax_protocol::event::Failure;
use parallax_sdk::SessionConfig;
use serde_json::{Value, json};

use crate::command_result::{CommandResult, input_failure, switch_result};
use crate::extensions_command::{Prompter as _, StdinPrompter};
use crate::scope_option::{OptionalScope, ProjectScopeOption, Scope, UserScopeOption};

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsAction {
    /// List the skills
    List {
        /// Include disabled skills
        #[arg(long)]
        all: bool,
    },
    /// Install skills from a directory, an archive, or a Git URL
    Install {
        /// Directory, archive, or Git URL
        source: String,
        /// Subdirectory of the source
        #[arg(long, value_name = "FOLDER")]
        path: Option<PathBuf>,
        #[command(flatten)]
        scope: UserScopeOption,
        /// Agree to the installation without a prompt
        #[arg(long, visible_alias = "yes")]
        consent: bool,
    },
    /// Use the skills of a directory in place, without copying them
    Link {
        /// Directory with the skills
        folder: String,
        #[command(flatten)]
        scope: UserScopeOption,
        /// Agree to the installation without a prompt
        #[arg(long, visible_alias = "yes")]
        consent: bool,
    },
    /// Remove an installed or linked skill
    Uninstall {
        /// Name of the skill
        name: String,
        #[command(flatten)]
        scope: UserScopeOption,
    },
    /// Enable a skill
    Enable {
        /// Name of the skill
        name: String,
        #[command(flatten)]
        scope: OptionalScope,
    },
    /// Disable a skill
    Disable {
        /// Name of the skill
        name: String,
        #[command(flatten)]
        scope: ProjectScopeOption,
    },
}

impl SkillsAction {
    /// Whether the action installs or removes skills.
    pub(crate) fn changes_skills(&self) -> bool {
        matches!(self, Self::Install { .. } | Self::Link { .. } | Self::Uninstall { .. })
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Fails if the source cannot be used, the skill is unknown, or the user does not agree.
pub(crate) fn run(launch: &SessionConfig, action: &SkillsAction) -> Result<CommandResult, Failure> {
    match action {
        SkillsAction::List { all } => Ok(list(launch, *all)),
        SkillsAction::Install { source, path, scope, consent } => {
            let skills = skill_files::fetch_skills(launch.config(), source, path.as_deref())?;
            StdinPrompter::new(Vec::new())
                .confirm(&consent_text(&skills, "installed", source), *consent)?;
            let installed = skill_files::install_skills(launch.config(), &skills, (*scope).into())?;
            let directories: Vec<PathBuf> = installed.iter().map(|it| it.folder.clone()).collect();
            let mut output = done("Installed", &skills, &directories);
            for (skill, _) in skills.skills.iter().zip(&installed).filter(|(_, it)| it.was_replaced)
            {
                let name = one_line(&skill.name);
                let _ = writeln!(output.text, "Replaced the existing skill `{name}`.");
            }
            Ok(output)
        }
        SkillsAction::Link { folder, scope, consent } => {
            let skills = skill_files::fetch_skills(launch.config(), folder, None)?;
            StdinPrompter::new(Vec::new())
                .confirm(&consent_text(&skills, "linked", folder), *consent)?;
            let links = skill_files::link_skills(launch.config(), &skills, (*scope).into())?;
            Ok(done("Linked", &skills, &links))
        }
        SkillsAction::Uninstall { name, scope } => {
            let folder =
                skill_files::uninstall_skill(launch.config(), name, (*scope).into(), || {
                    launch.skill_library().skills()
                })?;
            let output = format!("Removed {}\n", one_line(&folder.display().to_string()));
            Ok(CommandResult::new(output, json!({"removed": folder.to_string_lossy()})))
        }
        SkillsAction::Enable { name, scope } => set_enabled(launch, name, true, scope.scope),
        SkillsAction::Disable { name, scope } => {
            set_enabled(launch, name, false, Some(scope.scope))
        }
    }
}

fn list(launch: &SessionConfig, all: bool) -> CommandResult {
    let found = launch.skill_library().skills();
    let mut text = String::new();
    let listed = || found.skills.iter().filter(|skill| all || !skill.disabled);
    for skill in listed() {
        let off = if skill.disabled { ", off" } else { "" };
        let _ = writeln!(text, "{} ({}{off})", one_line(&skill.name), skill.tier.as_str());
        let _ = writeln!(text, "  {}", one_line(&skill.description));
        let _ = writeln!(text, "  {}", one_line(&skill.location()));
    }
    if text.is_empty() {
        text.push_str("No skills. Install some with `parallax skills install SOURCE`.\n");
    }
    for warning in found.warnings.all() {
        let _ = writeln!(text, "note: {}", one_line(warning));
    }
    let skills: Vec<Value> = listed()
        .map(|skill| {
            json!({
                "name": skill.name,
                "description": skill.description,
                "source": skill.tier.as_str(),
                "file": skill.text.is_none().then(|| skill.file.to_string_lossy()),
                "enabled": !skill.disabled,
            })
        })
        .collect();
    CommandResult::new(
        text,
        json!({"skills": skills, "warnings": found.warnings.all().collect::<Vec<_>>()}),
    )
}

/// Returns the text that the user must agree to.
fn consent_text(skills: &FetchedSkills, what: &str, source: &str) -> String {
    let mut text = format!("These skills from {} would be {what}:\n", one_line(source));
    for skill in &skills.skills {
        let _ = writeln!(text, "  {}: {}", one_line(&skill.name), one_line(&skill.description));
    }
    text.push_str(
        "Skills instruct the agent and can contain scripts that the agent runs. Install only \
         skills that you trust.\n",
    );
    text
}

fn done(word: &str, skills: &FetchedSkills, directories: &[PathBuf]) -> CommandResult {
    let mut text = String::new();
    let mut list = Vec::new();
    for (skill, folder) in skills.skills.iter().zip(directories) {
        let path = one_line(&folder.display().to_string());
        let _ = writeln!(text, "{word}: {} ({path})", one_line(&skill.name));
        list.push(json!({"name": skill.name, "folder": folder.to_string_lossy()}));
    }
    CommandResult::new(text, json!({"skills": list}))
}

fn set_enabled(
    launch: &SessionConfig,
    name: &str,
    on: bool,
    scope: Option<Scope>,
) -> Result<CommandResult, Failure> {
    if scope == Some(Scope::Workspace) && !launch.is_trusted() {
        return Err(input_failure(
            "The folder is not trusted, so no setting can be changed for it. Use `--scope user` \
             to change it for all your projects, or run `parallax trust add` to trust the folder."
                .to_owned(),
        ));
    }
    let known = launch
        .skill_library()
        .skills()
        .skills
        .iter()
        .any(|skill| skill.name.eq_ignore_ascii_case(name));
    let file = match scope {
        Some(scope) => launch.skill_library().set_enabled(name, on, scope.into())?,
        None => launch.skill_library().enable(name)?,
    };
    let mut output = switch_result("skill", name, on, &file);
    if !known {
        output.text.push_str("No skill currently has this name.\n");
    }
    Ok(output)
}
