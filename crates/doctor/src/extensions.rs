//! Finds problems in installed extensions.

use std::collections::HashSet;
use std::path::Path;

use parallax_config::agents::{AgentTier, agent_files, read_agents};
use parallax_config::commands::CommandSource;
use parallax_config::extensions::Extension;
use parallax_config::hooks::hooks_of_folder;
use parallax_config::mcp::McpSource;
use parallax_config::skills::{SkillTier, read_skill, skill_files};
use parallax_policy::{RuleFile, Tier, lint};

use parallax_extensions::rule_files;
use parallax_sdk::SessionConfig;
use parallax_sdk::{McpProbe, ProbeState};

/// A problem of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionProblem {
    /// Name of the extension; empty if the problem belongs to none.
    pub extension: String,
    /// The problem and its solution, in one sentence.
    pub description: String,
}

/// Checks the active extensions, or one of them: files, servers, commands, settings, rules,
/// hooks, skills, and agents. Starts the MCP servers. Blocking; must not be called on a runtime
/// thread.
pub fn examine_extensions(launch: &SessionConfig, only: Option<&str>) -> Vec<ExtensionProblem> {
    let all = launch.extensions();
    let is_selected = |name: &str| only.is_none_or(|only| only.eq_ignore_ascii_case(name));
    let examined: Vec<&Extension> =
        all.active().filter(|extension| is_selected(extension.name())).collect();
    let mut found = Vec::new();
    for warning in &all.warnings {
        let of = all.all.iter().find_map(|extension| {
            let rest = warning.strip_prefix(&format!("extension `{}`: ", extension.name()))?;
            Some((extension.name(), rest))
        });
        match of {
            Some((name, what)) if is_selected(name) => found.push(extension_problem(name, what)),
            None if only.is_none() => found.push(extension_problem("", warning)),
            _ => {}
        }
    }
    let probes = match examined.iter().any(|extension| !extension.manifest.servers.is_empty()) {
        true => probes(launch),
        false => Vec::new(),
    };
    for extension in examined {
        let name = extension.name();
        let mut problems = Vec::new();
        if launch.extension_manager().extension_is_intact(extension) == Some(false)
            && !extension.is_modified
        {
            problems.push(format!(
                "its files differ from the installed ones; `parallax extensions update {name}` \
                     restores them"
            ));
        }
        for value in extension.values.iter().filter(|value| value.value.is_none()) {
            problems.push(format!(
                "its setting \"{}\" has no value: run `parallax extensions config {name} {}`",
                value.setting.name, value.setting.variable
            ));
        }
        check_servers(launch, extension, &probes, &mut problems);
        check_commands(launch, extension, &mut problems);
        check_rules(extension, &mut problems);
        check_hooks(extension, &mut problems);
        check_skills_and_agents(launch, extension, &mut problems);
        found.extend(problems.iter().map(|what| extension_problem(name, what)));
    }
    found
}

/// Probes all MCP servers.
fn probes(launch: &SessionConfig) -> Vec<McpProbe> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(launch.mcp_manager().probe()).0,
        Err(error) => {
            tracing::warn!(%error, "servers are not checked");
            Vec::new()
        }
    }
}

fn check_servers(
    launch: &SessionConfig,
    extension: &Extension,
    probes: &[McpProbe],
    report: &mut Vec<String>,
) {
    if extension.is_modified {
        return;
    }
    if !launch.is_trusted() && !extension.manifest.servers.is_empty() {
        report.push(
            "its servers were not checked because the folder is not trusted; `parallax trust \
                 add` trusts the directory"
                .to_owned(),
        );
        return;
    }
    for name in extension.manifest.servers.keys() {
        let Some(probe) = probes.iter().find(|probe| probe.server.name == *name) else {
            report.push(format!("its MCP server `{name}` cannot be used; see `parallax mcp list`"));
            continue;
        };
        let is_its = matches!(&probe.server.source, McpSource::Extension(of)
                if of == extension.name());
        let error = probe.error.as_deref().unwrap_or("it did not respond");
        match probe.state {
            ProbeState::Connected => {}
            ProbeState::Disconnected => {
                report.push(format!("its MCP server `{name}` does not work: {error}"));
            }
            ProbeState::NeedsSignIn => report.push(format!(
                "its MCP server `{name}` requires authentication: run `parallax mcp auth {name}`"
            )),
            ProbeState::Disabled => report.push(format!(
                "its MCP server `{name}` is disabled: run `parallax mcp enable {name}`"
            )),
            ProbeState::Blocked => report.push(format!(
                "its MCP server `{name}` is blocked by `mcp.allowed` or `mcp.excluded`"
            )),
        }
        if !is_its {
            report.push(format!(
                "its MCP server `{name}` is overridden by another server with this name"
            ));
        }
    }
}

fn check_commands(launch: &SessionConfig, extension: &Extension, problems: &mut Vec<String>) {
    let catalog = parallax_commands::catalog(launch.config(), &launch.extensions());
    for command in catalog.commands() {
        let is_its = matches!(&command.source, CommandSource::Extension(of)
                if of == extension.name());
        let Some(plain) = command.file_name.as_deref().filter(|_| is_its) else {
            continue;
        };
        problems.push(match catalog.find(plain) {
            Some(other) if other.path != command.path => format!(
                "its command `/{plain}` is overridden by `{}`; it is available as `/{}`",
                other.path.display(),
                command.name
            ),
            Some(_) => continue,
            None => format!(
                "its command `/{plain}` has the name of a built-in command; it is available as \
                     `/{}`",
                command.name
            ),
        });
    }
    let directory = extension.folder.display().to_string();
    problems
        .extend(catalog.problems().filter(|text| text.starts_with(&directory)).map(str::to_owned));
}

fn check_skills_and_agents(
    launch: &SessionConfig,
    extension: &Extension,
    problems: &mut Vec<String>,
) {
    let tier = SkillTier::Extension(extension.name().to_owned());
    let known = launch.skill_library().skills().skills;
    for file in skill_files(&extension.folder.join("skills")) {
        let skill = match read_skill(&file, &tier) {
            Ok(skill) => skill,
            Err(reason) => {
                problems
                    .push(format!("invalid skill `{}`: {reason}", display_path(&file, extension)));
                continue;
            }
        };
        match known.iter().find(|other| other.name == skill.name) {
            Some(other) if other.file != skill.file => problems.push(format!(
                "its skill `{}` is overridden by `{}`",
                skill.name,
                other.location()
            )),
            Some(other) if other.disabled => problems.push(format!(
                "its skill `{}` is disabled: run `parallax skills enable`",
                skill.name
            )),
            _ => {}
        }
    }
    if extension.is_modified {
        return;
    }
    let tier = AgentTier::Extension(extension.name().to_owned());
    let known = launch.agent_library().agents().agents;
    for file in agent_files(&extension.folder.join("agents")) {
        match read_agents(&file, &tier) {
            Ok(agents) => {
                for agent in agents {
                    let counts = known.iter().find(|other| other.name == agent.name);
                    if counts.is_some_and(|other| other.file.as_ref() != Some(&file)) {
                        let name = &agent.name;
                        problems.push(format!("its agent `{name}` is overridden by another agent"));
                    }
                }
            }
            Err(reason) => problems
                .push(format!("invalid agent `{}`: {reason}", display_path(&file, extension))),
        }
    }
}

fn extension_problem(extension: &str, what: &str) -> ExtensionProblem {
    ExtensionProblem { extension: extension.to_owned(), description: what.to_owned() }
}

fn display_path(file: &Path, extension: &Extension) -> String {
    file.strip_prefix(&extension.folder).unwrap_or(file).display().to_string()
}

/// Reports invalid policy rules.
fn check_rules(extension: &Extension, problems: &mut Vec<String>) {
    for (path, text) in rule_files(&extension.folder) {
        let name = display_path(&path, extension);
        for problem in lint(&RuleFile { tier: Tier::Extension, path, text }, None) {
            problems.push(format!("`{name}`: {}", problem.message()));
        }
    }
}

fn check_hooks(extension: &Extension, problems: &mut Vec<String>) {
    let mut notes = Vec::new();
    let directory = extension.folder.display().to_string();
    let mut looked = HashSet::new();
    for hook in hooks_of_folder(&extension.folder, &mut notes) {
        let command = extension.variables.fill_command(&hook.command);
        let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'', ';']));
        for word in words.filter(|word| word.starts_with(&directory)) {
            if !Path::new(word).exists() && looked.insert(word.to_owned()) {
                let file = display_path(Path::new(word), extension);
                let event = hook.event.as_str();
                problems.push(format!("its {event} hook runs `{file}`, which does not exist"));
            }
        }
    }
    problems.extend(notes);
}
