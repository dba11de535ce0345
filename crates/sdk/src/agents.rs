//! The subagents of a session: their definitions, and the tools and prompts they run with.

mod agent_setting;
mod built_in;
mod internal_docs;
pub use internal_docs::PAGES as GUIDE;
mod journals;
mod prompt;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use agent_setting::AgentSetting;
use parallax_config::agents::{
    Acknowledged, AgentFolder, acknowledge, agent_files, agent_folders, find_agents,
};
pub use parallax_config::agents::{Agent, AgentSet, AgentTier};
use parallax_config::extensions::ExtensionVariables;
use parallax_exec::Processes;
use parallax_files::{SeenFiles, Workspace};
use parallax_policy::RuleFile;
use parallax_protocol::agent::{
    AgentDefinition, AgentJournal, AgentKit, AgentResult, Agents, CloseAgent, KeptWork,
    SessionTools,
};
use parallax_protocol::event::{Failure, FailureKind, Level};
use parallax_protocol::tool::Tool;
use parallax_tools::SandboxOptions;
use parallax_tools::complete_task::{CompleteTask, TaskOutput};
use parallax_tools::get_internal_docs::GetInternalDocs;
use parallax_tools::read_many_files::ReadManyFiles;
use serde_json::Value;

use self::journals::Journals;
use crate::changes::{Changes, Stamp, stamp};
use crate::launch::{Launch, failure};
use crate::settings::SettingScope;
use crate::skills;
use parallax_checkpoints::Versions;

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

/// The setting with overrides for single agents.
const OVERRIDES: &str = "agents.overrides";

impl Launch {
    /// Returns the agents of the current definition files, including disabled ones. Blocking.
    pub fn agents(&self) -> AgentSet {
        let config = &self.config;
        if !config.settings.flag("experimental.enableAgents") {
            return AgentSet::default();
        }
        let extensions = self.extensions();
        let folders = self.agent_places();
        let mut warnings = Vec::new();
        let known = Acknowledged::of(&config.homes, &config.project, &mut warnings);
        let built_in = built_in::agents(&self.provider_manager().resolved_model());
        let mut set = find_agents(built_in, &folders, &config.settings, &known);
        warnings.into_iter().for_each(|warning| set.warnings.push(warning));
        for agent in set.agents.iter_mut().chain(&mut set.unacknowledged) {
            if let AgentTier::Extension(name) = &agent.tier
                && let Some(extension) = extensions.find(name)
            {
                fill_in(agent, &extension.variables);
            }
        }
        set
    }

    /// Returns the directories of definitions, lowest precedence first.
    fn agent_places(&self) -> Vec<AgentFolder> {
        let config = &self.config;
        let of_extensions = self.extensions().agent_folders().into_iter();
        let mut folders: Vec<AgentFolder> = of_extensions
            .map(|(name, folder)| AgentFolder { tier: AgentTier::Extension(name), folder })
            .collect();
        folders.extend(agent_folders(&config.homes, &config.cwd, config.trust.trusted));
        folders
    }

    /// Returns the state of the definition files, for detecting changes. Blocking: checks each
    /// file.
    fn agent_stamp(&self) -> Stamp {
        let places = self.agent_places();
        stamp(places.iter().flat_map(|place| agent_files(&place.folder)))
    }

    /// Approves a project agent in its current form. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file of approvals cannot be read or written.
    pub fn acknowledge_agent(&self, agent: &Agent) -> Result<(), Failure> {
        acknowledge(&self.config.homes, &self.config.project, agent)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))
    }

    /// Changes or resets an agent's setting (`agents.overrides`). Returns the settings file.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn set_agent(
        &self,
        name: &str,
        setting: AgentSetting,
        value: Option<Value>,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let mut overrides = parallax_config::setting_of(&self.config, scope, OVERRIDES)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?
            .as_ref()
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let mut changes =
            overrides.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        setting.put(&mut changes, value);
        if changes.is_empty() {
            overrides.shift_remove(name);
        } else {
            overrides.insert(name.to_owned(), Value::Object(changes));
        }
        self.set_setting(scope, OVERRIDES, Some(&Value::Object(overrides)))
    }

    /// Returns the agents of a session with warnings for the user, or `None` if agents are
    /// disabled. Blocking.
    pub(crate) fn session_agents(
        &self,
        workspace: &Arc<Workspace>,
        seen: &Arc<SeenFiles>,
        processes: Processes,
        sandbox: Option<SandboxOptions>,
        versions: &Option<Arc<Versions>>,
        artifacts: &Path,
    ) -> (Option<Arc<SessionAgents>>, Vec<String>) {
        if !self.config.settings.flag("experimental.enableAgents") {
            return (None, Vec::new());
        }
        let set = self.agents();
        let mut warnings = set.warnings.summary("parallax agents list");
        // The terminal interface reports this itself.
        if !self.options.interactive {
            warnings.extend(unacknowledged(&set));
        }
        let agents = SessionAgents {
            launch: self.clone(),
            workspace: Arc::clone(workspace),
            seen: Arc::clone(seen),
            processes,
            sandbox,
            versions: versions.clone(),
            journals: (!self.options.ephemeral).then(|| {
                let project = self.options.directory.display().to_string();
                Journals::new(artifacts.join("agents"), project, self.homes().keys)
            }),
            judged: rules(&set),
            stamp: Mutex::new(self.agent_stamp()),
            state: RwLock::new(State::of(set)),
        };
        (Some(Arc::new(agents)), warnings)
    }
}

/// Returns a warning about project agents that are not approved, for sessions without a user.
fn unacknowledged(set: &AgentSet) -> Option<String> {
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
fn changed(before: &AgentSet, now: &AgentSet) -> Vec<(Level, String)> {
    let on = |set: &AgentSet| -> Vec<(String, Agent)> {
        let on = set.agents.iter().filter(|agent| !agent.disabled);
        on.map(|agent| (agent.name.clone(), agent.clone())).collect()
    };
    let mut changes = Changes::between(&on(before), &on(now));
    let waiting: Vec<&Agent> =
        now.unacknowledged.iter().filter(|it| !before.unacknowledged.contains(it)).collect();
    changes.gone.retain(|name| waiting.iter().all(|agent| agent.name != *name));
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
    let wrong = now.warnings.all().filter(|it| !known.contains(it)).cloned();
    let wrong = waiting.chain(wrong).map(|text| (Level::Warning, text));
    line.into_iter().chain(wrong).collect()
}

/// Returns the agents and their MCP servers whose tools need no approval. Agents of projects and
/// extensions cannot claim this.
pub(crate) fn trusted_servers(set: &AgentSet) -> Vec<(String, String)> {
    let own = set.agents.iter().filter(|agent| agent.tier == AgentTier::User);
    own.flat_map(|agent| {
        let trusted = agent
            .mcp_servers
            .iter()
            .filter(|(_, server)| server.get("trust").and_then(Value::as_bool) == Some(true));
        trusted.map(|(server, _)| (agent.name.clone(), server.clone()))
    })
    .collect()
}

/// Returns the policy rules of agents.
pub(crate) fn rules(set: &AgentSet) -> Vec<RuleFile> {
    set.agents.iter().filter_map(Agent::rule_file).collect()
}

/// Removes agents whose rules differ from those that the session's policy was built from.
fn keep_judged(set: &mut AgentSet, judged: &[RuleFile]) {
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
    launch: Launch,
    workspace: Arc<Workspace>,
    seen: Arc<SeenFiles>,
    processes: Processes,
    /// For MCP servers of agents that run in the sandbox.
    sandbox: Option<SandboxOptions>,
    versions: Option<Arc<Versions>>,
    /// Journals of subagents; `None` if they are not recorded.
    journals: Option<Journals>,
    /// The rules of agents when the session began.
    judged: Vec<RuleFile>,
    /// State of the definition files at the last reload.
    stamp: Mutex<Stamp>,
    state: RwLock<State>,
}

struct State {
    set: Arc<AgentSet>,
    /// The agents that can be started.
    definitions: Vec<Arc<AgentDefinition>>,
    /// Section of the system prompt about the agents.
    section: Arc<str>,
}

impl State {
    fn of(set: AgentSet) -> Self {
        let enabled: Vec<&Agent> = set.agents.iter().filter(|agent| !agent.disabled).collect();
        let definitions = enabled.iter().map(|agent| Arc::new(definition(agent))).collect();
        let section = prompt::section(&enabled).into();
        Self { definitions, section, set: Arc::new(set) }
    }
}

impl SessionAgents {
    fn state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all agents, including disabled ones, and the problems of their files.
    pub fn set(&self) -> Arc<AgentSet> {
        Arc::clone(&self.state().set)
    }

    /// Reloads settings and definition files. Blocking.
    ///
    /// # Errors
    /// Returns an error if settings are invalid.
    pub fn reload(&self) -> Result<Arc<AgentSet>, Failure> {
        let mut set = self.launch.reread()?.agents();
        keep_judged(&mut set, &self.judged);
        let state = State::of(set);
        let set = Arc::clone(&state.set);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        Ok(set)
    }

    /// Enables or disables an agent in the user's settings and reloads. Also returns the settings
    /// file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the agent is not found or the file cannot be written.
    pub fn switch(&self, name: &str, on: bool) -> Result<(PathBuf, Arc<AgentSet>), Failure> {
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
            return Err(failure(FailureKind::Input, message));
        }
        let file = self.launch.set_agent(name, setting, value, SettingScope::User)?;
        Ok((file, self.reload()?))
    }

    /// Approves a project agent in its current form and reloads. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file of approvals cannot be read or written.
    pub fn acknowledge(&self, agent: &Agent) -> Result<Arc<AgentSet>, Failure> {
        self.launch.acknowledge_agent(agent)?;
        self.reload()
    }

    /// Returns the section of the system prompt about the agents; empty if there are none.
    pub(crate) fn section(&self) -> Arc<str> {
        Arc::clone(&self.state().section)
    }
}

/// Fills in the variables of the agent's extension: all of them where programs are started, no
/// secrets in what the model reads.
fn fill_in(agent: &mut Agent, variables: &ExtensionVariables) {
    agent.description = variables.fill_shown(&agent.description);
    agent.prompt = variables.fill_shown(&agent.prompt);
    agent.mcp_servers.values_mut().for_each(|server| variables.fill_value(server));
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
        may_delegate: agent.max_depth > 1,
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
        let of_agents = ["get_internal_docs", "complete_task"];
        name.ends_with('*')
            || name.starts_with("mcp_")
            || name.ends_with("_mcp_resource")
            || name.ends_with("_mcp_resources")
            || of_agents.contains(&name)
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

impl parallax_commands::StartableAgents for SessionAgents {
    fn has(&self, name: &str) -> bool {
        self.state().definitions.iter().any(|agent| agent.name == name)
    }

    fn names(&self) -> Vec<String> {
        self.state().definitions.iter().map(|agent| agent.name.clone()).collect()
    }
}

impl Agents for SessionAgents {
    fn list(&self) -> Vec<Arc<AgentDefinition>> {
        self.state().definitions.clone()
    }

    fn refresh(&self) -> Vec<(Level, String)> {
        let now = self.launch.agent_stamp();
        {
            let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
            if *known == now {
                return Vec::new();
            }
            *known = now;
        }
        let before = self.set();
        match self.reload() {
            Ok(now) => changed(&before, &now),
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

    fn kept(&self) -> Vec<KeptWork> {
        self.journals.as_ref().map(Journals::kept).unwrap_or_default()
    }

    fn forget(&self, id: &str) {
        if let Some(journals) = &self.journals {
            journals.forget(id);
        }
    }

    fn equip(
        &self,
        agent: &AgentDefinition,
        task: &str,
        tools: SessionTools,
        result: AgentResult,
    ) -> AgentKit {
        let set = self.set();
        let found = set.agents.iter().find(|known| known.name == agent.name);
        // The definition was removed after it was listed.
        let Some(found) = found else {
            let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(CompleteTask::new(None, result))];
            let (preface, problems, close) = (None, Vec::new(), None);
            return AgentKit { tools, system: Arc::from(""), preface, problems, close };
        };
        // Only for agents that list it.
        let many = ReadManyFiles::new(
            Arc::clone(&self.workspace),
            Arc::clone(&self.seen),
            self.launch.config.settings.memory_file_names(),
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
        let (processes, sandbox) = (self.processes.clone(), self.sandbox.clone());
        let (servers, mut problems) =
            self.launch.agent_servers(found, &self.workspace, processes, sandbox, &self.versions);
        problems.extend(unknown);
        let runtime = tokio::runtime::Handle::try_current();
        let close = servers.zip(runtime.ok()).map(|(servers, runtime)| {
            let (own, failed) = runtime.block_on(servers::tools_of(&servers));
            // The agent may use all tools of its own servers, but must list the resource tools.
            let resources = ["list_mcp_resources", "read_mcp_resource"];
            let is_there =
                |tool: &dyn Tool| tools.iter().any(|known| known.spec().name == tool.spec().name);
            let own: Vec<Arc<dyn Tool>> = own
                .into_iter()
                .filter(|tool| {
                    !resources.contains(&tool.spec().name.as_str())
                        || has_tool(found, tool.as_ref())
                })
                .filter(|tool| !is_there(tool.as_ref()))
                .collect();
            tools.extend(own);
            let of = |why: String| format!("the agent `{}`: {why}", found.name);
            problems.extend(failed.into_iter().map(of));
            let close: CloseAgent =
                Box::new(move || Box::pin(async move { servers.close().await }));
            close
        });
        tools.push(Arc::new(CompleteTask::new(output, result)));
        let memory = crate::memory::gather(&self.launch, &self.workspace, &[]);
        let skills = match has_skills(&tools) {
            true => skills::section(&self.launch.skills()),
            false => String::new(),
        };
        let core = match built_in::works_as_session(found) {
            true => {
                let names: Vec<String> =
                    tools.iter().map(|tool| tool.spec().name.clone()).collect();
                self.launch.core_prompt(self.workspace.root(), &names)
            }
            false => String::new(),
        };
        let others = if agent.may_delegate { self.section() } else { Arc::from("") };
        let around = prompt::Around {
            core: &core,
            agents: &others,
            skills: &skills,
            memory: &memory.system,
        };
        let system = prompt::system(found, task, &around);
        AgentKit { tools, system: system.into(), preface: memory.preface, problems, close }
    }
}

fn has_skills(tools: &[Arc<dyn Tool>]) -> bool {
    tools.iter().any(|tool| tool.spec().name == "activate_skill")
}
