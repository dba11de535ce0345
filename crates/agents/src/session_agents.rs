//! The subagents of a session: their definitions, and the tools and prompts they run with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use parallax_config::SettingScope;
use parallax_config::agents::{Agent, AgentSet, RemoteDefinition};
use parallax_config::skills::Skills;
use parallax_files::{SeenFiles, Workspace};
use parallax_mcp::Servers;
use parallax_policy::RuleFile;
use parallax_protocol::agent::{
    AgentDefinition, AgentJournal, AgentResult, AgentTask, AgentWorkspace, Agents, CloseAgent,
    InterruptedRun, RemoteAgent, SessionTools, SubagentResources,
};
use parallax_protocol::event::{Failure, FailureKind, Level};
use parallax_protocol::tool::{Tool, ToolSource as _};
use parallax_tools::complete_task::{CompleteTask, TaskOutput};
use parallax_tools::get_internal_docs::GetInternalDocs;
use parallax_tools::read_many_files::ReadManyFiles;
use serde_json::Value;

use crate::changes::{FolderStamp, NameChanges};
use crate::{
    AgentLibrary, AgentSetting, SubagentJournals, built_in, internal_docs, library, prompt, skills,
};

/// Tools that only the main agent has. Subagents cannot ask the user or change the mode of the
/// session. The engine adds `invoke_agent` for those that may start subagents.
const NOT_FOR_AGENTS: [&str; 7] = [
    // Each subagent has its own.
    "complete_task",
    "invoke_agent",
    "update_topic",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    parallax_mcp::SEARCH_TOOLS,
];

/// How long a subagent waits for its servers.
const SERVER_WAIT: Duration = Duration::from_secs(10);

/// The context files of a session, as a subagent receives them.
#[derive(Debug, Default)]
pub struct AgentMemory {
    /// Text at the end of the system prompt.
    pub system: String,
    /// Text before the first prompt.
    pub preface: Option<String>,
}

/// What a session provides for its subagents. All methods block.
pub trait AgentEnvironment: Send + Sync {
    /// Returns the current context files.
    fn memory(&self) -> AgentMemory;
    /// Returns the system prompt of a session with these tools, for an agent that works like one.
    fn session_prompt(&self, tools: &[String]) -> String;
    /// Returns the safety rules that every system prompt contains.
    fn safety_rules(&self) -> &'static str;
    /// Returns the skills of the current files.
    fn skills(&self) -> Skills;
    /// Returns the MCP servers of an agent without starting them, and why others are ignored.
    fn servers(&self, agent: &Agent) -> (Option<Servers>, Vec<String>);
    /// Creates the worktree of an isolated agent, or opens that of its interrupted run.
    ///
    /// # Errors
    /// Returns a message for the calling model if there can be none.
    fn isolate(&self, agent: &Agent, task: AgentTask<'_>) -> Result<IsolatedAgent, String>;
    /// Returns a client that sends tasks to a remote agent. It connects with its first task.
    fn remote(&self, definition: &RemoteDefinition) -> Arc<dyn RemoteAgent>;
}

/// What an agent with its own worktree has instead of what the session provides.
pub struct IsolatedAgent {
    /// The session's environment there.
    pub environment: Box<dyn AgentEnvironment>,
    /// Tools that replace those of the same name.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Describes the worktree to the agent.
    pub note: String,
    /// The file access of the agent's tools.
    pub files: Arc<Workspace>,
    /// The file contents that the agent has seen.
    pub seen_files: Arc<SeenFiles>,
    /// Its directories and how they end.
    pub workspace: AgentWorkspace,
}

impl IsolatedAgent {
    /// Replaces tools by those that work in the worktree.
    fn replace(&self, tools: &mut [Arc<dyn Tool>]) {
        for tool in tools {
            let same = |own: &&Arc<dyn Tool>| own.spec().name == tool.spec().name;
            if let Some(replacement) = self.tools.iter().find(same) {
                *tool = Arc::clone(replacement);
            }
        }
    }
}

/// How a session opens its agents.
pub struct AgentsSetup {
    /// The definitions.
    pub library: AgentLibrary,
    /// What the session provides.
    pub environment: Box<dyn AgentEnvironment>,
    /// The workspace of the session.
    pub workspace: Arc<Workspace>,
    /// The file contents that the model has seen.
    pub seen_files: Arc<SeenFiles>,
    /// Journals of subagents; `None` if they are not recorded.
    pub journals: Option<SubagentJournals>,
    /// Whether the front end itself reports agents that must be accepted.
    pub interactive: bool,
}

/// Returns a warning about project agents that are not approved, for sessions without a user.
fn unaccepted_agents_warning(set: &AgentSet) -> Option<String> {
    let names: Vec<String> =
        set.unacknowledged.iter().map(|agent| format!("`{}`", agent.name)).collect();
    let (word, them) = if names.len() == 1 { ("agent", "it") } else { ("agents", "them") };
    (!names.is_empty()).then(|| {
        format!(
            "the {word} {} of this project must be accepted before use; `parallax agents list` \
             shows {them}, `parallax agents accept` accepts {them}",
            names.join(", ")
        )
    })
}

/// Returns the notices after a reload: changed agents, agents that need approval, and new problems.
fn change_notices(before: &AgentSet, now: &AgentSet) -> Vec<(Level, String)> {
    let on = |set: &AgentSet| -> Vec<(String, Agent)> {
        let on = set.agents.iter().filter(|agent| !agent.disabled);
        on.map(|agent| (agent.name.clone(), agent.clone())).collect()
    };
    let mut changes = NameChanges::compare(&on(before), &on(now));
    let waiting: Vec<&Agent> =
        now.unacknowledged.iter().filter(|it| !before.unacknowledged.contains(it)).collect();
    changes.removed.retain(|name| waiting.iter().all(|agent| agent.name != *name));
    let line = changes.line("Agents").map(|line| (Level::Info, line));
    let waiting = waiting.iter().map(|agent| {
        format!(
            "the agent `{}` of this project is new or changed and must be accepted before use; \
             `parallax agents list` shows it, `parallax agents accept` (in the terminal `/agents \
             accept`) accepts it",
            agent.name
        )
    });
    let known: Vec<&String> = before.warnings.all().collect();
    let new_warnings = now.warnings.all().filter(|it| !known.contains(it)).cloned();
    let wrong = waiting.chain(new_warnings).map(|text| (Level::Warning, text));
    line.into_iter().chain(wrong).collect()
}

/// Removes agents whose rules differ from those that the session's policy was built from.
fn retain_evaluated(set: &mut AgentSet, judged: &[RuleFile]) {
    let AgentSet { agents, warnings, .. } = set;
    agents.retain(|agent| {
        let rules = agent.rule_file();
        let is_judged = rules.as_ref().is_none_or(|rules| judged.contains(rules));
        if !is_judged {
            warnings.push(format!(
                "the rules of the agent `{}` changed: it can be started in the next session",
                agent.name
            ));
        }
        is_judged
    });
}

/// The agents that a session can start.
pub struct SessionAgents {
    library: AgentLibrary,
    environment: Box<dyn AgentEnvironment>,
    workspace: Arc<Workspace>,
    seen_files: Arc<SeenFiles>,
    /// Journals of subagents; `None` if they are not recorded.
    journals: Option<SubagentJournals>,
    /// The rules of agents when the session began.
    evaluated_rules: Vec<RuleFile>,
    /// State of the definition files at the last reload.
    stamp: Mutex<FolderStamp>,
    state: RwLock<AgentState>,
    /// The remote agents that were called, which remember their conversation.
    remotes: Mutex<BTreeMap<String, CalledAgent>>,
}

/// A remote agent and the definition that it was opened with.
type CalledAgent = (RemoteDefinition, Arc<dyn RemoteAgent>);

struct AgentState {
    agents: Arc<AgentSet>,
    /// The agents that can be started.
    definitions: Vec<Arc<AgentDefinition>>,
    /// Section of the system prompt about the agents.
    section: Arc<str>,
}

impl AgentState {
    fn new(set: AgentSet) -> Self {
        let enabled: Vec<&Agent> = set.agents.iter().filter(|agent| !agent.disabled).collect();
        let definitions = enabled.iter().map(|agent| Arc::new(definition(agent))).collect();
        let section = prompt::section(&enabled).into();
        Self { definitions, section, agents: Arc::new(set) }
    }
}

impl SessionAgents {
    /// Returns the agents of a session with warnings for the user, or `None` if agents are
    /// disabled. Blocking.
    pub fn open(setup: AgentsSetup) -> (Option<Arc<Self>>, Vec<String>) {
        let AgentsSetup { library, environment, workspace, seen_files, journals, interactive } =
            setup;
        if !library.config.settings.flag("experimental.enableAgents") {
            return (None, Vec::new());
        }
        let set = library.agents();
        let mut warnings = set.warnings.summary("parallax agents list");
        // The terminal interface reports this itself.
        if !interactive {
            warnings.extend(unaccepted_agents_warning(&set));
        }
        let agents = Self {
            evaluated_rules: library::rules(&set),
            stamp: Mutex::new(library.stamp()),
            state: RwLock::new(AgentState::new(set)),
            library,
            environment,
            workspace,
            seen_files,
            journals,
            remotes: Mutex::default(),
        };
        (Some(Arc::new(agents)), warnings)
    }

    fn state(&self) -> std::sync::RwLockReadGuard<'_, AgentState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all agents, including disabled ones, and the problems of their files.
    pub fn set(&self) -> Arc<AgentSet> {
        Arc::clone(&self.state().agents)
    }

    /// Reloads settings and definition files. Blocking.
    ///
    /// # Errors
    /// Returns an error if settings are invalid.
    pub fn reload(&self) -> Result<Arc<AgentSet>, Failure> {
        let mut set = (self.library.reload)()?.agents();
        retain_evaluated(&mut set, &self.evaluated_rules);
        let state = AgentState::new(set);
        let set = Arc::clone(&state.agents);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        Ok(set)
    }

    /// Enables or disables an agent in the user's settings and reloads. Also returns the settings
    /// file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the agent is not found or the file cannot be written.
    pub fn set_enabled(&self, name: &str, on: bool) -> Result<(PathBuf, Arc<AgentSet>), Failure> {
        self.change(name, AgentSetting::Enabled, Some(Value::Bool(on)))
    }

    /// Changes or resets an agent's setting in the user's settings and reloads. Also returns the
    /// settings file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the agent is not found or the file cannot be written.
    pub fn change(
        &self,
        name: &str,
        setting: AgentSetting,
        value: Option<Value>,
    ) -> Result<(PathBuf, Arc<AgentSet>), Failure> {
        if !self.set().agents.iter().any(|agent| agent.name == name) {
            let message = format!("unknown agent `{name}`; `/agents` lists the agents");
            return Err(Failure::new(FailureKind::Input, message));
        }
        let file = self.library.set(name, setting, value, SettingScope::User)?;
        Ok((file, self.reload()?))
    }

    /// Approves a project agent in its current form and reloads. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file of approvals cannot be read or written.
    pub fn acknowledge(&self, agent: &Agent) -> Result<Arc<AgentSet>, Failure> {
        self.library.acknowledge(agent)?;
        self.reload()
    }

    /// Returns the section of the system prompt about the agents; empty if there are none.
    pub fn section(&self) -> Arc<str> {
        Arc::clone(&self.state().section)
    }
}

fn definition(agent: &Agent) -> AgentDefinition {
    AgentDefinition {
        name: agent.name.clone(),
        description: agent.description.clone(),
        model: agent.model.clone(),
        generation: agent.generation.clone(),
        max_turns: agent.max_turns,
        time: agent.time,
        has_schema: agent.output.is_some(),
        // Its agents would get the prompts of the main checkout.
        may_delegate: agent.max_depth > 1 && !agent.isolated,
        remote: agent.remote.as_ref().map(RemoteDefinition::address),
    }
}

/// Returns whether the agent may use a tool under any of its names.
fn has_tool(agent: &Agent, tool: &dyn Tool) -> bool {
    let spec = tool.spec();
    !NOT_FOR_AGENTS.contains(&spec.name.as_str())
        && std::iter::once(&spec.name).chain(&spec.aliases).any(|name| agent.may_use(name))
}

/// Returns a warning about unknown names in `tools`. Tools of MCP servers are not checked, because
/// they come and go.
fn unknown_tools(agent: &Agent, tools: &[Arc<dyn Tool>]) -> Option<String> {
    let known = |name: &str| {
        let has = |tool: &Arc<dyn Tool>| {
            let spec = tool.spec();
            spec.name == name || spec.aliases.iter().any(|alias| alias == name)
        };
        let agent_only_tools = ["get_internal_docs", "complete_task"];
        name.ends_with('*')
            || name.starts_with("mcp_")
            || name.ends_with("_mcp_resource")
            || name.ends_with("_mcp_resources")
            || agent_only_tools.contains(&name)
            // Added by the engine for agents that may start subagents.
            || (name == "invoke_agent" && agent.max_depth > 1)
            || tools.iter().any(has)
    };
    let listed = agent.tools.as_deref().unwrap_or_default();
    let unknown: Vec<&str> =
        listed.iter().map(String::as_str).filter(|name| !known(name)).take(20).collect();
    (!unknown.is_empty()).then(|| {
        let (name, unknown) = (&agent.name, unknown.join("`, `"));
        format!("`tools` of the agent `{name}` contains the unavailable tool `{unknown}`")
    })
}

impl Agents for SessionAgents {
    fn list(&self) -> Vec<Arc<AgentDefinition>> {
        self.state().definitions.clone()
    }

    fn refresh(&self) -> Vec<(Level, String)> {
        let current = self.library.stamp();
        {
            let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
            if *known == current {
                return Vec::new();
            }
            *known = current;
        }
        let before = self.set();
        match self.reload() {
            Ok(current) => change_notices(&before, &current),
            Err(failure) => {
                tracing::warn!(why = failure.message, "the agents were not changed");
                Vec::new()
            }
        }
    }

    fn journal(&self, agent: &str, id: Option<&str>) -> Option<AgentJournal> {
        let journals = self.journals.as_ref()?;
        match id {
            Some(id) => journals.open(agent, id),
            None => journals.begin(agent),
        }
    }

    fn interrupted_runs(&self) -> Vec<InterruptedRun> {
        self.journals.as_ref().map(SubagentJournals::interrupted_runs).unwrap_or_default()
    }

    fn delete_run(&self, id: &str) {
        if let Some(journals) = &self.journals {
            journals.delete(id);
        }
    }

    fn remote(&self, name: &str) -> Option<Arc<dyn RemoteAgent>> {
        let set = self.set();
        let definition = set.agents.iter().find(|agent| agent.name == name)?.remote.as_ref()?;
        let mut remotes = self.remotes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, remote)) = remotes.get(name)
            && known == definition
        {
            return Some(Arc::clone(remote));
        }
        let remote = self.environment.remote(definition);
        remotes.insert(name.to_owned(), (definition.clone(), Arc::clone(&remote)));
        Some(remote)
    }

    fn prepare_run(
        &self,
        agent: &AgentDefinition,
        task: AgentTask<'_>,
        mut tools: SessionTools,
        result: AgentResult,
    ) -> Result<SubagentResources, String> {
        let set = self.set();
        let found = set.agents.iter().find(|known| known.name == agent.name);
        // The definition was removed after it was listed.
        let Some(found) = found else {
            let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(CompleteTask::new(None, result))];
            return Ok(SubagentResources {
                tools,
                system: Arc::from(""),
                preface: None,
                problems: Vec::new(),
                close: None,
                workspace: None,
            });
        };
        let isolated = found.isolated.then(|| self.environment.isolate(found, task)).transpose()?;
        if let Some(isolated) = &isolated {
            isolated.replace(&mut tools.declared);
            isolated.replace(&mut tools.deferred);
        }
        let environment = isolated
            .as_ref()
            .map_or(&self.environment, |isolated_agent| &isolated_agent.environment);
        let environment = environment.as_ref();
        let files =
            isolated.as_ref().map_or(&self.workspace, |isolated_agent| &isolated_agent.files);
        let seen_files =
            isolated.as_ref().map_or(&self.seen_files, |isolated_agent| &isolated_agent.seen_files);
        // Only for agents that list it.
        let many = ReadManyFiles::new(
            Arc::clone(files),
            Arc::clone(seen_files),
            self.library.config.settings.memory_file_names(),
        );
        let named_many = found.tools.is_some() && has_tool(found, &many);
        let many: Option<Arc<dyn Tool>> = named_many.then(|| Arc::new(many) as Arc<dyn Tool>);
        let listed = tools.declared.into_iter().chain(many);
        let tools = SessionTools { declared: listed.collect(), ..tools };
        let unknown = unknown_tools(found, &tools.declared);
        // Deferred tools must be listed by name, because a tool search would declare them for the
        // whole session.
        let named = tools.deferred.into_iter().filter(|_| found.tools.is_some());
        let mut tools: Vec<Arc<dyn Tool>> = (tools.declared.into_iter().chain(named))
            .filter(|tool| has_tool(found, tool.as_ref()))
            .collect();
        let docs = GetInternalDocs::new(internal_docs::PAGES);
        // Only for agents that list it by name.
        if found.tools.is_some() && has_tool(found, &docs) {
            tools.push(Arc::new(docs));
        }
        let output = found.output.as_ref().map(|output| TaskOutput {
            name: output.name.clone(),
            description: output.description.clone(),
            schema: output.schema.clone(),
        });
        let (servers, mut problems) = environment.servers(found);
        problems.extend(unknown);
        let runtime = tokio::runtime::Handle::try_current();
        let close = servers.zip(runtime.ok()).map(|(servers, runtime)| {
            let (server_tools, failed) = runtime.block_on(tools_of(&servers));
            // The agent may use all tools of its own servers, but must list the resource tools.
            let resources = ["list_mcp_resources", "read_mcp_resource"];
            let is_there =
                |tool: &dyn Tool| tools.iter().any(|known| known.spec().name == tool.spec().name);
            let server_tools: Vec<Arc<dyn Tool>> = server_tools
                .into_iter()
                .filter(|tool| {
                    !resources.contains(&tool.spec().name.as_str())
                        || has_tool(found, tool.as_ref())
                })
                .filter(|tool| !is_there(tool.as_ref()))
                .collect();
            tools.extend(server_tools);
            let of = |reason: String| format!("the agent `{}`: {reason}", found.name);
            problems.extend(failed.into_iter().map(of));
            let close: CloseAgent =
                Box::new(move || Box::pin(async move { servers.close().await }));
            close
        });
        tools.push(Arc::new(CompleteTask::new(output, result)));
        let memory = environment.memory();
        let skills = match has_skills(&tools) {
            true => skills::section(&environment.skills()),
            false => String::new(),
        };
        let core = match built_in::uses_session_prompt(found) {
            true => {
                let names: Vec<String> =
                    tools.iter().map(|tool| tool.spec().name.clone()).collect();
                environment.session_prompt(&names)
            }
            false => String::new(),
        };
        let others = if agent.may_delegate { self.section() } else { Arc::from("") };
        let extras = prompt::PromptExtras {
            safety: environment.safety_rules(),
            core: &core,
            worktree: isolated.as_ref().map_or("", |isolated_agent| &isolated_agent.note),
            agents: &others,
            skills: &skills,
            memory: &memory.system,
        };
        let system = prompt::system(found, task.prompt, &extras);
        Ok(SubagentResources {
            tools,
            system: system.into(),
            preface: memory.preface,
            problems,
            close,
            workspace: isolated.map(|isolated_agent| isolated_agent.workspace),
        })
    }
}

fn has_skills(tools: &[Arc<dyn Tool>]) -> bool {
    tools.iter().any(|tool| tool.spec().name == "activate_skill")
}

/// Starts servers and returns the tools of those that start in time, and the errors of the others.
async fn tools_of(servers: &Servers) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let connecting_servers = servers.status().into_iter().map(|status| {
        let (servers, name) = (servers.clone(), status.config.name);
        async move {
            let reason = match tokio::time::timeout(SERVER_WAIT, servers.connect(&name)).await {
                Ok(Ok(())) => return None,
                Ok(Err(reason)) => reason,
                Err(_) => format!("no response within {} s", SERVER_WAIT.as_secs()),
            };
            Some((name, reason))
        }
    });
    let failed = futures_util::future::join_all(connecting_servers).await.into_iter().flatten();
    let problems =
        failed.map(|(name, reason)| format!("the MCP server `{name}` is unavailable: {reason}"));
    let problems = problems.collect();
    (servers.tools(), problems)
}
