//! Slash commands of all front ends: the names of the built-in ones, custom commands of files, skills
//! and MCP servers, and the expansion of what was typed to prompts.
//!
//! A front end calls [`Commands::prepare`] with a typed line, asks the user about the shell
//! commands that need approval ([`PreparedCommand::questions`]), and runs the result.

mod arguments;
mod at_globs;
pub mod at_paths;
pub mod built_in;
mod catalog;
mod command_overrides;
pub mod expand;
mod expansion_step;
mod files;
mod names;
mod new_command;
mod preparation;
mod prepared;
mod prompts;
#[cfg(test)]
mod reference_page;
mod shell;
mod skill_commands;
mod table;
mod template_files;
mod typed_line;
mod word_ends;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use parallax_config::Config;
use parallax_config::commands::{CommandFolder, CommandProblem, find_commands};
use parallax_config::extensions::Extensions;
use parallax_exec::Processes;
use parallax_files::{SeenFiles, Workspace};
use parallax_mcp::Servers;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::{ApprovalMode, PolicyEngine};
use parallax_tools::ShellOptions;

pub use catalog::{Catalog, CommandInfo};
pub use expand::{Expander, FileSearch};
pub use names::{
    OWN_PREFIX, built_in_names, equivalent_command, is_alias, is_parallax_only, is_reserved,
    other_agent_hint, strip_parallax_prefix,
};
pub use new_command::new_command;
pub use parallax_config::commands::{CommandArgument, CommandFormat, CommandSource};
pub use prepared::{ExpandedCommand, PreparedCommand};
pub use prompts::PromptCommand;
pub use skill_commands::SkillCommand;
pub use table::{CommandSpec, EditorCommand, SlashCommand, TABLE};
pub use typed_line::{ParsedLine, available_names, parse};

/// Maximum number of names suggested in an error.
const OFFERED: usize = 5;

/// The custom commands of a session. Cheap to clone. Their files are read on first use.
#[derive(Clone)]
pub struct Commands {
    shared: Arc<ExpansionContext>,
}

/// What every expansion needs.
pub(crate) struct ExpansionContext {
    folders: Vec<CommandFolder>,
    catalog: RwLock<Option<Arc<Catalog>>>,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
    policy_engine: Arc<dyn PolicyEngine>,
    shell: ShellOptions,
    processes: Processes,
    servers: Option<Servers>,
    skills: Arc<dyn SkillSource>,
    agents: Option<Arc<dyn StartableAgents>>,
    interactive: bool,
    trusted: bool,
    /// Shell commands that the user allowed for the session, matched exactly.
    approved_commands: Mutex<HashSet<String>>,
}

/// The inputs of [`Commands`].
pub struct CommandInputs {
    pub workspace: Arc<Workspace>,
    pub seen_files: Arc<SeenFiles>,
    pub policy_engine: Arc<dyn PolicyEngine>,
    pub shell: ShellOptions,
    pub processes: Processes,
    /// MCP servers, whose prompts are also commands.
    pub servers: Option<Servers>,
    /// The skills, which are also commands.
    pub skills: Arc<dyn SkillSource>,
    /// The agents that a command may delegate to.
    pub agents: Option<Arc<dyn StartableAgents>>,
}

/// The agents that a command or a prompt may delegate to.
pub trait StartableAgents: Send + Sync {
    /// Returns whether an agent with this name can be started.
    fn has(&self, name: &str) -> bool;
    /// Returns the names of all agents that can be started.
    fn names(&self) -> Vec<String>;
}

/// The skills that are also commands.
pub trait SkillSource: Send + Sync {
    /// Returns the enabled skills as commands.
    fn commands(&self) -> Vec<SkillCommand>;
}

/// Returns the custom commands of the current files. Blocking.
pub fn catalog(config: &Config, extensions: &Extensions) -> Catalog {
    Catalog::new(find_commands(&directories(config, extensions)))
}

fn directories(config: &Config, extensions: &Extensions) -> Vec<CommandFolder> {
    let (dirs, cwd) = (&config.dirs, &config.cwd);
    let others = config.settings.flag("commands.includeOtherAgents");
    let trusted = config.trust.trusted;
    let mut folders = parallax_config::commands::command_folders(dirs, cwd, trusted, others);
    folders.extend(extensions.command_folders());
    folders
}

impl ExpansionContext {
    /// Returns the agent that a command delegates to, or a warning if there is none with this name.
    /// Commands written for other programs may name agents of those.
    fn agent(&self, name: &str) -> (Option<String>, Option<String>) {
        let agents = self.agents.as_ref();
        if agents.is_some_and(|agents| agents.has(name)) {
            return (Some(name.to_owned()), None);
        }
        let known = agents.map(|agents| agents.names()).unwrap_or_default();
        let near = parallax_config::similar_names(name, known.iter().map(String::as_str));
        let near =
            near.first().map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
        (None, Some(format!("unknown agent `{name}`{near}; the command runs without it")))
    }
}

impl Commands {
    /// Returns the commands of a session.
    pub fn new(
        config: &Config,
        extensions: &Extensions,
        interactive: bool,
        inputs: CommandInputs,
    ) -> Self {
        let CommandInputs {
            workspace,
            seen_files,
            policy_engine,
            shell,
            processes,
            servers,
            skills,
            agents,
        } = inputs;
        Self {
            shared: Arc::new(ExpansionContext {
                folders: directories(config, extensions),
                catalog: RwLock::default(),
                workspace,
                seen_files,
                policy_engine,
                shell,
                processes,
                servers,
                skills,
                agents,
                interactive,
                trusted: config.trust.trusted,
                approved_commands: Mutex::default(),
            }),
        }
    }

    /// Returns the commands. The first call reads them and blocks.
    pub fn catalog(&self) -> Arc<Catalog> {
        let known = self.shared.catalog.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| self.reload())
    }

    /// Reads the files again. Blocking.
    pub fn reload(&self) -> Arc<Catalog> {
        let catalog = Arc::new(Catalog::new(find_commands(&self.shared.folders)));
        let mut known = self.shared.catalog.write().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Arc::clone(&catalog));
        catalog
    }

    /// Returns whether a file or skill has this name, possibly overriding a built-in command.
    /// Blocks if the files were not read yet.
    pub fn has_command(&self, name: &str) -> bool {
        let catalog = self.catalog();
        catalog.find(name).is_some()
            || catalog.file_error(name).is_some()
            || self.skills().iter().any(|it| it.name == name)
    }

    /// Returns a notice for each command whose name differs from what its author expects.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = self.catalog().notices().to_vec();
        let skills = self.skills().into_iter().filter(|skill| is_parallax_only(&skill.name));
        notices.extend(
            skills.map(|it| catalog::override_notice(&it.name, &format!("skill {}", it.name))),
        );
        notices
    }

    /// Returns the notices for the start of a session, one line of each kind: unexpected names and
    /// invalid files. Blocking.
    pub fn warnings(&self) -> Vec<String> {
        let catalog = self.catalog();
        let mut renamed = self.notices();
        renamed.retain(|notice| !catalog.conflicts().contains(notice));
        catalog::with_count(&renamed).into_iter().chain(catalog.warnings()).collect()
    }

    /// Prepares a typed line (`/name arguments`) for an approval mode: reads the template, fills in
    /// the arguments, and has the policy engine evaluate its shell commands. Blocking.
    ///
    /// # Errors
    /// Returns an error if the command is unknown (with similar names), its template or arguments
    /// are invalid, or a shell command is denied.
    pub fn prepare(&self, line: &str, mode: ApprovalMode) -> Result<PreparedCommand, Failure> {
        let mut prepared = self.prepare_command(line, mode)?;
        line.trim().clone_into(&mut prepared.line);
        Ok(prepared)
    }

    fn prepare_command(&self, line: &str, mode: ApprovalMode) -> Result<PreparedCommand, Failure> {
        let typed = line.strip_prefix('/').unwrap_or(line);
        let end = typed.find(char::is_whitespace).unwrap_or(typed.len());
        let (name, arguments) = typed.split_at(end);
        let catalog = self.catalog();
        if let Some(problem) = catalog.file_error(name) {
            let message = format!("Cannot run `/{name}` because its file is invalid: {problem}");
            return Err(Failure::new(FailureKind::Input, message));
        }
        let Some(command) = catalog.find(name) else {
            let arguments = arguments.trim();
            let prepared = self
                .prepare_skill(name, arguments)
                .or_else(|| self.prepare_prompt(name, arguments));
            return match prepared {
                Some(prepared) => prepared,
                None => Err(self.unknown_command_failure(&catalog, name)),
            };
        };
        PreparedCommand::new(&self.shared, &catalog, command, (line, arguments.trim()), mode)
    }

    /// Builds the error for an unknown command name.
    fn unknown_command_failure(&self, catalog: &Catalog, name: &str) -> Failure {
        if let Some(hint) = other_agent_hint(name) {
            return Failure::new(FailureKind::Input, format!("Unknown command `/{name}`: {hint}"));
        }
        let mut message = format!("Unknown command `/{name}`");
        let prompts = self.prompts();
        let skills = self.skills();
        let names: Vec<&str> = catalog
            .names()
            .chain(prompts.iter().map(|prompt| prompt.name.as_str()))
            .chain(skills.iter().map(|skill| skill.name.as_str()))
            .collect();
        // If several commands share a name, suggest their longer names.
        let is_longer = |longer: &&str| {
            longer.strip_suffix(name).is_some_and(|rest| rest.ends_with(['.', ':']))
        };
        let mut offered: Vec<&str> = names.iter().copied().filter(is_longer).collect();
        offered.sort_unstable();
        let built_in = built_in_names().map(|name| -> &str { name });
        let known = names.iter().copied().chain(built_in);
        offered.extend(parallax_config::similar_names(name, known));
        let mut seen = HashSet::new();
        offered.retain(|name| seen.insert(*name));
        if !offered.is_empty() {
            let listed = offered.iter().take(OFFERED).map(|name| format!("`/{name}`"));
            let listed: Vec<String> = listed.collect();
            message.push_str(&format!(" (did you mean {}?)", listed.join(", ")));
        }
        if self.may_gain_prompts() {
            message.push_str("; MCP servers are still starting, and one of them may provide it");
        }
        message.push_str("; to send it to the model as text, put a space before the `/`");
        Failure::new(FailureKind::Input, message)
    }
}

/// Formats a problem in one line.
pub(crate) fn format_problem(problem: &CommandProblem) -> String {
    problem.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
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
    for priority in 0..3 {
        for command in catalog.commands() {
            let (order, title) = match &command.source {
                CommandSource::Project => (0, "Project".to_owned()),
                CommandSource::User => (1, "Yours".to_owned()),
                CommandSource::Extension(name) => (2, format!("Extension `{name}`")),
            };
            if order == priority {
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
