//! Subagent definitions: Markdown files with settings in the front matter and the system prompt as
//! the body.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_policy::{RuleFile, Tier};
use parallax_protocol::Object;
use serde_json::Value;

use crate::definition_warnings::DefinitionWarnings;
use crate::definitions::{self, Owner};
use crate::front_matter;
use crate::json_state_file;
use crate::read;
use crate::settings::Settings;
use crate::user_dirs::UserDirs;

mod accepted_agents;
mod fields;
mod remote;
mod rules;
mod values;

pub use accepted_agents::{AcceptedAgents, acknowledge};
pub use remote::{
    CardSource, DynamicValue, RemoteAuth, RemoteDefinition, is_on_this_machine, is_private_to_peer,
};

/// Maximum size of a definition in bytes.
const MAX_BYTES: u64 = 512 * 1024;
/// Maximum number of files read from one directory.
const MAX_COUNT: usize = 500;
/// Default maximum number of model requests of an agent.
const TURNS: u32 = 30;
/// Default time limit of an agent.
const TIME: Duration = Duration::from_secs(10 * 60);

/// Priority of the rule that a remote agent requires approval: above that of the tool.
const REMOTE_PRIORITY: u32 = 60;

/// Where an agent comes from, in ascending order of precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentTier {
    /// Built into Parallax.
    BuiltIn,
    /// An extension, by name.
    Extension(String),
    /// The user.
    User,
    /// The project.
    Project,
}

impl AgentTier {
    /// Returns the label used in lists.
    pub fn as_str(&self) -> &str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Extension(_) => "extension",
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// A directory that holds definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder {
    /// Where the definitions come from.
    pub tier: AgentTier,
    /// The directory; it need not exist.
    pub folder: PathBuf,
}

/// The structured result of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOutput {
    /// The argument of `complete_task`.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON Schema of its value.
    pub schema: Value,
}

/// An agent as defined by its file and the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The name: `[a-z0-9_-]+`.
    pub name: String,
    /// The name shown to the user, if different.
    pub display_name: Option<String>,
    /// The description.
    pub description: String,
    /// Where it comes from.
    pub tier: AgentTier,
    /// The file; `None` for built-in agents.
    pub file: Option<PathBuf>,
    /// SHA-256 of the file in hexadecimal, if the user must approve the agent (project agents).
    pub hash: Option<String>,
    /// The system prompt.
    pub prompt: String,
    /// The tools that it may use, including `*` and prefixes that end with `*`; `None` allows all.
    pub tools: Option<Vec<String>>,
    /// Additional MCP servers, in the format of the settings.
    pub mcp_servers: Object,
    /// The model, a name or an alias; `None` for the session's model.
    pub model: Option<String>,
    /// Generation settings, with the keys of the API.
    pub generation: Object,
    /// Maximum number of model requests.
    pub max_turns: u32,
    /// The time limit.
    pub time: Duration,
    /// Maximum depth of nested agents, including itself: 1 means that it cannot start agents; 2 is
    /// the maximum.
    pub max_depth: u32,
    /// Whether it works in its own git worktree.
    pub isolated: bool,
    /// The format of its result; `None` for text.
    pub output: Option<AgentOutput>,
    /// Policy rules for its tool calls, in the format of a rule file.
    pub rules: Option<String>,
    /// Whether it is disabled in the settings.
    pub disabled: bool,
    /// Where it runs, if not here; tools, prompt, and model are its own then.
    pub remote: Option<RemoteDefinition>,
}

impl Agent {
    /// Creates an agent with default values.
    pub fn new(name: &str, description: &str, tier: AgentTier, prompt: &str) -> Self {
        Self {
            name: name.to_owned(),
            display_name: None,
            description: description.to_owned(),
            tier,
            file: None,
            hash: None,
            prompt: prompt.to_owned(),
            tools: None,
            mcp_servers: Object::new(),
            model: None,
            generation: Object::new(),
            max_turns: TURNS,
            time: TIME,
            max_depth: 1,
            isolated: false,
            output: None,
            rules: None,
            disabled: false,
            remote: None,
        }
    }

    /// Returns its rules as a rule file. Like their other rules, rules of projects and extensions
    /// may only tighten.
    pub fn rule_file(&self) -> Option<RuleFile> {
        if self.remote.is_some() {
            // The task leaves this machine.
            let text = format!(
                "[[rule]]\nname = \"remote agents require approval\"\ntoolName = \"{}\"\n\
                 modes = [\"default\", \"autoEdit\"]\ndecision = \"ask_user\"\npriority = {}\n",
                self.name, REMOTE_PRIORITY
            );
            let path = PathBuf::from(&self.name);
            return Some(RuleFile { tier: Tier::BuiltIn, path, text: Ok(text) });
        }
        let tier = match self.tier {
            AgentTier::BuiltIn | AgentTier::User => Tier::User,
            AgentTier::Project => Tier::Workspace,
            AgentTier::Extension(_) => Tier::Extension,
        };
        let path = self.file.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        Some(RuleFile { tier, path, text: Ok(self.rules.clone()?) })
    }

    /// Whether it may use a tool.
    pub fn may_use(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => tool.starts_with(beginning),
                None => pattern == tool,
            })
        })
    }
}

/// The agents that were found.
#[derive(Debug, Clone, Default)]
pub struct AgentSet {
    /// The agents by name; of several agents with the same name, only the one with the highest
    /// precedence.
    pub agents: Vec<Agent>,
    /// Project agents that are not used, because the user has not approved their current version
    /// ([`acknowledge`]).
    pub unacknowledged: Vec<Agent>,
    /// Warnings for the user, one sentence each.
    pub warnings: DefinitionWarnings,
}

/// Returns the agent directories of the user and, if it is trusted, of the project, in ascending
/// order of precedence.
pub fn agent_folders(dirs: &UserDirs, cwd: &Path, trusted: bool) -> Vec<AgentFolder> {
    let folders = definitions::directories(dirs, cwd, trusted, "agents", &[]);
    folders
        .into_iter()
        .map(|(owner, folder)| AgentFolder {
            tier: match owner {
                Owner::User => AgentTier::User,
                Owner::Project => AgentTier::Project,
            },
            folder,
        })
        .collect()
}

/// Combines the built-in agents with those of the directories, given in ascending order of
/// precedence, and applies `agents.overrides`. Project agents are used only if they are
/// `acknowledged`. Blocking; bounded in files and bytes.
pub fn find_agents(
    built_in: Vec<Agent>,
    directories: &[AgentFolder],
    settings: &Settings,
    acknowledged: &AcceptedAgents,
) -> AgentSet {
    let mut found: BTreeMap<String, Agent> =
        built_in.into_iter().map(|agent| (agent.name.clone(), agent)).collect();
    let (mut invalid, mut shadowed) = (Vec::new(), Vec::new());
    let (mut other_warnings, mut unacknowledged) = (Vec::new(), Vec::new());
    for location in directories {
        for file in agent_files(&location.folder) {
            let agents = read_agents(&file, &location.tier).unwrap_or_else(|reason| {
                invalid.push(format!("{}: not a valid agent: {reason}", file.display()));
                Vec::new()
            });
            for agent in agents {
                if !acknowledged.has(&agent) {
                    unacknowledged.push(agent);
                    continue;
                }
                let path = file.display();
                if let Some(weaker) = found.get(&agent.name) {
                    // Within a directory the first definition is used; across directories, the
                    // last.
                    if let Some(first) =
                        weaker.file.as_ref().filter(|it| it.parent() == file.parent())
                    {
                        shadowed.push(format!(
                            "the agent `{}` from `{path}` is ignored: `{}` has the same name",
                            agent.name,
                            first.display()
                        ));
                        continue;
                    }
                    let of = match &weaker.file {
                        Some(file) => format!("of `{}`", file.display()),
                        None => "built in".to_owned(),
                    };
                    shadowed.push(format!(
                        "the agent `{}` {of} is ignored: `{path}` has the same name",
                        agent.name
                    ));
                }
                found.insert(agent.name.clone(), agent);
            }
        }
    }
    for (name, changes) in settings.agent_overrides() {
        match found.get_mut(&name) {
            Some(agent) => other_warnings.extend(
                fields::change(agent, &changes)
                    .into_iter()
                    .map(|reason| format!("`agents.overrides.{name}`: {reason}")),
            ),
            None if unacknowledged.iter().any(|agent| agent.name == name) => {}
            None => {
                other_warnings.push(format!("`agents.overrides.{name}`: unknown agent `{name}`"))
            }
        }
    }
    let warnings = DefinitionWarnings { invalid, shadowed, other_warnings };
    AgentSet { agents: found.into_values().collect(), unacknowledged, warnings }
}

/// Returns the definitions in a directory. Names that start with `_` are drafts. Blocking.
pub fn agent_files(directory: &Path) -> Vec<PathBuf> {
    definitions::files(directory, MAX_COUNT, |path| {
        let name = path.file_name()?.to_string_lossy();
        let is_agent = path.extension().is_some_and(|extension| extension == "md")
            && !name.starts_with(['_', '.']);
        is_agent.then(|| path.clone())
    })
}

/// Reads the definitions of a file: one, or a list of remote agents.
///
/// # Errors
/// Returns the reason if the file is not valid.
pub fn read_agents(file: &Path, tier: &AgentTier) -> Result<Vec<Agent>, String> {
    let bytes = definitions::bytes(file, MAX_BYTES)?;
    let text = read::to_text(&bytes);
    let is_text = |key: &str| matches!(key, "description" | "display_name");
    let parts = front_matter::read_list(&text, is_text).map_err(|broken| match broken.line {
        Some(line) => format!("line {line}: {}", broken.message),
        None => broken.message,
    })?;
    let mut agents = match &parts.fields[..] {
        [] => return Err("the front matter is missing (`name` and `description`)".to_owned()),
        [fields] => vec![fields::read(fields, &parts.body, tier)?],
        // Only one agent can have the text of the file as its prompt.
        list => list.iter().map(|fields| remote::read(fields, tier)).collect::<Result<_, _>>()?,
    };
    for agent in &mut agents {
        agent.file = Some(file.to_owned());
        agent.hash = (*tier == AgentTier::Project).then(|| json_state_file::sha256(&bytes));
    }
    Ok(agents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, path: &str, text: &str) {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, text).expect("written");
    }

    fn find(root: &Path, trusted: bool, settings: Value) -> AgentSet {
        let dirs = dirs(root);
        let Value::Object(merged) = settings else { panic!("an object") };
        let mut settings = Settings::default();
        settings.merged = merged;
        let built_in = vec![Agent::new("helper", "built in", AgentTier::BuiltIn, "p")];
        let project = root.join("project");
        let known = AcceptedAgents::read(&dirs, &project, &mut Vec::new());
        find_agents(built_in, &agent_folders(&dirs, &project, trusted), &settings, &known)
    }

    #[test]
    fn highest_precedence_name_wins_and_drafts_are_ignored() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let agent = |text: &str| format!("---\nname: helper\ndescription: {text}\n---\nDo it.");
        write(root, "home/.gemini/agents/a.md", &agent("user"));
        write(root, "project/.parallax/agents/b.md", &agent("project"));
        write(root, "project/.parallax/agents/_draft.md", "nonsense");
        write(root, "project/.parallax/agents/c.md", "no settings");
        let found = find(root, true, serde_json::json!({}));
        assert_eq!(found.agents[0].description, "user", "nobody agreed to the project's");
        accept_all(root, &found.unacknowledged);
        let found = find(root, true, serde_json::json!({}));
        assert_eq!(found.agents.len(), 1);
        assert_eq!(found.agents[0].description, "project");
        assert_eq!(found.warnings.all().count(), 3, "{:?}", found.warnings);
        assert_eq!(find(root, false, serde_json::json!({})).agents[0].description, "user");
    }

    #[test]
    fn first_of_equal_names_in_a_directory_wins() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let agent = |text: &str| format!("---\nname: mine\ndescription: {text}\n---\nDo it.");
        write(root, "home/.gemini/agents/a.md", &agent("first"));
        write(root, "home/.gemini/agents/b.md", &agent("second"));
        let found = find(root, true, serde_json::json!({}));
        let mine = found.agents.iter().find(|agent| agent.name == "mine").expect("an agent");
        assert_eq!(mine.description, "first");
        assert!(found.warnings.shadowed[0].contains("b.md` is ignored"), "{:?}", found.warnings);
    }

    fn dirs(root: &Path) -> UserDirs {
        let home = root.join("home");
        let (gemini, parallax) = (home.join(".gemini"), home.join(".parallax"));
        UserDirs { user: home, gemini, parallax }
    }

    fn accept_all(root: &Path, agents: &[Agent]) {
        for agent in agents {
            acknowledge(&dirs(root), &root.join("project"), agent).expect("written");
        }
    }

    #[test]
    fn project_agent_is_used_only_as_accepted() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let one = "---\nname: one\ndescription: d\n---\nDo it.";
        write(root, "project/.gemini/agents/one.md", one);
        write(root, "project/.gemini/agents/two.md", &one.replace("one", "two"));
        let names = |agents: &[Agent]| -> Vec<String> {
            agents.iter().map(|agent| agent.name.clone()).collect()
        };
        let found = find(root, true, serde_json::json!({}));
        assert_eq!(names(&found.unacknowledged), ["one", "two"]);
        accept_all(root, &found.unacknowledged);
        let found = find(root, true, serde_json::json!({}));
        assert_eq!(names(&found.agents), ["helper", "one", "two"]);
        // Only the changed file needs approval again.
        write(
            root,
            "project/.gemini/agents/two.md",
            &one.replace("one", "two").replace("Do", "Undo"),
        );
        let found = find(root, true, serde_json::json!({}));
        assert_eq!(names(&found.agents), ["helper", "one"]);
        assert_eq!(names(&found.unacknowledged), ["two"]);
        // Approvals given in Gemini CLI apply.
        let project = std::fs::canonicalize(root.join("project")).expect("a path");
        let hash = found.unacknowledged[0].hash.clone().expect("a hash");
        let theirs = serde_json::json!({project.display().to_string(): {"two": hash}});
        write(root, "home/.gemini/acknowledgments/agents.json", &theirs.to_string());
        let found = find(root, true, serde_json::json!({}));
        assert_eq!((found.agents.len(), found.unacknowledged.len()), (3, 0));
    }

    #[test]
    fn settings_override_agent_fields() {
        let directory = tempfile::tempdir().expect("directory");
        let found = find(
            directory.path(),
            true,
            serde_json::json!({"agents": {"overrides": {
                "helper": {"enabled": false, "tools": ["glob"],
                    "runConfig": {"maxTurns": 3, "maxTimeMinutes": 2},
                    "modelConfig": {"model": "flash",
                        "generateContentConfig": {"temperature": 0.5}}},
                "nobody": {}
            }}}),
        );
        let helper = &found.agents[0];
        assert!(helper.disabled && helper.max_turns == 3 && helper.time.as_secs() == 120);
        assert_eq!(helper.model.as_deref(), Some("flash"));
        assert_eq!(helper.generation["temperature"], 0.5);
        assert!(helper.may_use("glob") && !helper.may_use("read_file"));
        assert_eq!(
            found.warnings.other_warnings,
            ["`agents.overrides.nobody`: unknown agent `nobody`"]
        );
    }
}
