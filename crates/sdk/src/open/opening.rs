//! The second half of opening a session; [`Launch::prepare`] is the first.
//!
//! Each step returns what later steps need. The order follows the dependencies: the resumed session
//! determines the directories, the directories determine the tools, and the tools determine the
//! system prompt.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_engine::prompt::PromptFlags;
use parallax_engine::{
    ApprovedPlan, Budget, EventBus, EventReader, SessionHandle, SessionOptions, SystemPrompt,
    UsageTrackingModel,
};
use parallax_files::{SeenFiles, Workspace};
use parallax_mcp::{Sampling, Servers};
use parallax_protocol::agent::Agents;
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::context::{EditorContext, FolderContext};
use parallax_protocol::event::{EventBody, Failure, ItemDone, Level};
use parallax_protocol::hooks::{HookEvent, Hooks};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::observer::Observer;
use parallax_protocol::policy::Judge;
use parallax_protocol::store::{NoStore, Record, Store, directories};
use parallax_protocol::tool::Tool;
use parallax_tools::ShellOptions;

use super::OpenSession;
use crate::agent_environment::SessionEnvironment;
use crate::command_sources::{AgentNames, SkillCommands};
use crate::discovery::{CombinedToolSource, Discovered};
use crate::launch::Launch;
use crate::toolbox::Toolbox;
use crate::{model, session_names, system, toolbox};
use parallax_agents::{
    AgentsSetup, Journals, SessionAgents, SessionSkills, rules, trusted_servers,
};
use parallax_checkpoints::Versions;
use parallax_commands::{Commands, StartableAgents};
use parallax_commands::{Expander, FileSearch};
use parallax_context_files::{InitialContext, NestedContext, gather};
use parallax_devtools::{Observers, SessionTap, TapSocket};
use parallax_policy_sources::ImplicitAllows;
use parallax_sessions::SessionChoice;
use parallax_sessions::history::{self, Resumed};
use parallax_telemetry::{Telemetry, TelemetrySettings};

/// The workspace of the session.
struct WorkspaceSetup {
    workspace: Arc<Workspace>,
    /// The file contents that the model has seen.
    seen: Arc<SeenFiles>,
    /// The session's directory for temporary files.
    artifacts: PathBuf,
}

/// The model and its budget.
struct ModelSetup {
    model: Arc<dyn Model>,
    /// The same model for requests outside the conversation, which are reported and counted.
    metered: Arc<dyn Model>,
    /// The requested model name.
    name: String,
    budget: Budget,
}

/// The tools of the session and the policy for them.
struct ToolSetup {
    shell: ShellOptions,
    skills: Arc<SessionSkills>,
    /// Directory for plans.
    plans: PathBuf,
    toolbox: Toolbox,
    versions: Option<Arc<Versions>>,
    agents: Option<Arc<SessionAgents>>,
    judge: Arc<dyn Judge>,
    servers: Option<Servers>,
}

impl ToolSetup {
    /// Returns the agents that a command or a prompt may name.
    fn startable_agents(&self) -> Option<Arc<dyn StartableAgents>> {
        let agents = self.agents.clone()?;
        Some(Arc::new(AgentNames(agents)))
    }

    /// Returns the tools that exist from the beginning, including the skill tool.
    fn declared(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.toolbox.tools();
        tools.extend(self.skills.tool());
        tools
    }
}

/// What the model reads before the first prompt.
struct PromptInputs {
    system: SystemPrompt,
    memory: InitialContext,
}

/// Sources of additional context, tools, and hooks while the session runs.
struct RuntimeSources {
    found: Arc<NestedContext>,
    discovered: Option<Arc<Discovered>>,
    hooks: Option<Arc<dyn Hooks>>,
}

impl Launch {
    /// Opens the session. Must be called on a tokio runtime.
    ///
    /// The returned reader emits all events from the beginning.
    ///
    /// # Errors
    /// Returns an error if credentials are missing, the session is not found, or a directory cannot
    /// be included.
    pub fn open(mut self) -> Result<(OpenSession, EventReader), Failure> {
        let mut warnings = self.warnings.clone();
        self.may_open(&mut warnings)?;
        let resumed = history::open(&self.session_library(), &self.options.session)?;
        warnings.extend(resumed.notices.iter().cloned());
        let ground = self.ground(&resumed, &mut warnings)?;
        // Must subscribe before anything emits events.
        let telemetry = self.telemetry(&resumed.id, &mut warnings);
        let tap = (!self.options.ephemeral).then(Arc::<SessionTap>::default);
        let observers: Vec<Arc<dyn Observer>> = telemetry
            .clone()
            .map(|telemetry| telemetry as Arc<dyn Observer>)
            .into_iter()
            .chain(tap.clone().map(|tap| tap as Arc<dyn Observer>))
            .collect();
        let hub = EventBus::observed(observers.clone());
        let events = hub.subscribe();
        let voice = self.voice(&resumed, &ground, &hub, tap.as_ref(), &mut warnings)?;
        let means = self.means(&resumed.id, &ground, &voice, &hub, &mut warnings)?;
        // Must run before context files are read, because a killed command may have changed one.
        warnings.extend(means.versions.as_ref().and_then(|versions| versions.finish_abandoned()));
        let memory = gather(&self.context_sources(), &ground.workspace, &resumed.contents);
        warnings.extend(memory.warnings.iter().cloned());
        let joined =
            self.join(&resumed.id, &ground, &means, &memory, &hub, observers, &mut warnings)?;
        let prompt = self.material(&ground, &means, &joined, &memory, &mut warnings)?;
        let offered = self.offered(&means.declared(), means.judge.as_ref());
        system::write_built_in(&prompt, self.mode, &offered)?;
        warnings.extend(self.lists_no_tool(&offered));
        let expander = self.expander(&ground, &means, &joined);
        let commands = self.typed_commands(&ground, &means);
        let (id, records, cut_off) =
            (resumed.id.clone(), Arc::clone(&resumed.records), resumed.cut_off);
        let (name, scripted) = (voice.name.clone(), voice.model.catalog().is_scripted());
        let ledger = voice.budget.ledger();
        let end_hooks = hears_end(joined.hooks.as_ref());
        let found = Arc::clone(&joined.found);
        let context_files = memory.files.clone();
        let told = PromptInputs { system: system::prompt(prompt), memory };
        let handle = self.start(resumed, &ground, voice, &means, joined, told, hub, tap.as_ref());
        let tap = tap.map(|tap| TapSocket::start(tap, &self.homes(), &id));
        warnings.extend(self.clean_beside(&id));
        let mut seen = std::collections::HashSet::new();
        warnings.retain(|warning| seen.insert(warning.clone()));
        let session = OpenSession {
            workspace: ground.workspace,
            found,
            mode: self.mode,
            launch: self,
            id,
            model: name,
            scripted,
            warnings,
            context_files,
            expander,
            commands,
            plans: means.plans,
            past: records,
            cut_off,
            handle,
            toolbox: means.toolbox,
            versions: means.versions,
            servers: means.servers,
            agents: means.agents,
            skills: means.skills,
            ledger,
            end_hooks,
            telemetry,
            tap,
        };
        Ok((session, events))
    }

    /// Starts recording the session if enabled. Invalid options become warnings.
    fn telemetry(&self, id: &SessionId, warnings: &mut Vec<String>) -> Option<Arc<Telemetry>> {
        if self.options.ephemeral {
            return None;
        }
        let manager = self.provider_manager();
        let auth_type = || manager.auth().ok().map(|(auth, _)| auth.kind().as_str().to_owned());
        let settings = TelemetrySettings {
            config: &self.config,
            project: &self.options.directory,
            variables: &self.options.variables,
            client: self.client_options(),
            interactive: self.options.interactive,
            version: self.options.version,
            auth_type: &auth_type,
        };
        settings.start(id, warnings)
    }

    /// Checks everything that prevents the session from opening, before anything is read or
    /// written: an unavailable sandbox, a missing key, or a temporary directory that another user
    /// owns.
    fn may_open(&self, warnings: &mut Vec<String>) -> Result<(), Failure> {
        self.require_sandbox()?;
        warnings.extend(self.extensions().warnings.iter().cloned());
        warnings.extend(self.extension_manager().extensions_of_no_name());
        self.session_library().check_keys()?;
        self.session_library().make_temporary()
    }

    /// Creates the workspace. A resumed session may add directories.
    fn ground(
        &self,
        resumed: &Resumed,
        warnings: &mut Vec<String>,
    ) -> Result<WorkspaceSetup, Failure> {
        let (workspace, artifacts, notices) = self.workspace(resumed)?;
        warnings.extend(notices);
        let seen = Arc::new(SeenFiles::default());
        Ok(WorkspaceSetup { workspace: Arc::new(workspace), seen, artifacts })
    }

    /// Creates the model and the budget, including what the resumed session has spent. Reports
    /// invalid credentials or scripts before anything is started.
    fn voice(
        &self,
        resumed: &Resumed,
        ground: &WorkspaceSetup,
        hub: &EventBus,
        tap: Option<&Arc<SessionTap>>,
        warnings: &mut Vec<String>,
    ) -> Result<ModelSetup, Failure> {
        let model = model::open(self, ground.workspace.root(), &resumed.id, tap)?;
        let budget = self.budget(&resumed.records, model.as_ref());
        let budget = budget.with_user_prompts(self.options.budget_questions);
        let metered =
            UsageTrackingModel::new(Arc::clone(&model), hub.clone()).counted(budget.ledger());
        let name = self.model_name();
        warnings.extend(self.provider_manager().model_table().warnings_for(&name));
        if !toolbox::has_web_search(model.as_ref(), &model.catalog().resolve(&name)) {
            warnings.push(format!(
                "the provider of `{name}` has no web search, so the model cannot search the web \
                 (connect an MCP server that provides it)"
            ));
        }
        Ok(ModelSetup { model, metered: Arc::new(metered), name, budget })
    }

    /// Creates tools, subagents, MCP servers, and the policy engine. The policy comes after the
    /// subagents, which add rules, and before the servers, which are started here because they take
    /// longest.
    fn means(
        &mut self,
        id: &SessionId,
        ground: &WorkspaceSetup,
        voice: &ModelSetup,
        hub: &EventBus,
        warnings: &mut Vec<String>,
    ) -> Result<ToolSetup, Failure> {
        let WorkspaceSetup { workspace, seen, artifacts } = ground;
        let shell = toolbox::shell_options(self, artifacts.clone());
        let (skills, notices) = SessionSkills::open(self.skill_library(), workspace);
        warnings.extend(notices);
        let plans = self.plans_folder(workspace, warnings);
        let metered = || Arc::clone(&voice.metered);
        let toolbox = toolbox::build(self, workspace, seen, artifacts.clone(), metered(), &plans);
        self.sampling = Some(Sampling {
            model: metered(),
            main: toolbox.main_model(metered()),
            tokens: self.config.settings.count("mcp.samplingTokens").unwrap_or(0),
        });
        warnings.extend(self.policy_sources().sandbox_table().1);
        let versions = self.versions(id, workspace, seen);
        let processes = || toolbox.processes();
        let sandbox = || shell.sandbox.clone();
        let (agents, notices) = SessionAgents::open(AgentsSetup {
            library: self.agent_library(),
            environment: Box::new(SessionEnvironment {
                launch: self.clone(),
                workspace: Arc::clone(workspace),
                processes: processes(),
                sandbox: sandbox(),
                versions: versions.clone(),
            }),
            workspace: Arc::clone(workspace),
            seen: Arc::clone(seen),
            journals: (!self.options.ephemeral).then(|| {
                let project = self.options.directory.display().to_string();
                Journals::new(artifacts.join("agents"), project, self.homes().keys)
            }),
            interactive: self.options.interactive,
        });
        warnings.extend(notices);
        let set = agents.as_ref().map(|agents| agents.set()).unwrap_or_default();
        let sources = self.policy_sources();
        let (policy, notices) = sources.policy(ImplicitAllows {
            plans: Some(plans.clone()),
            skills: skills.built_in().to_vec(),
            agent_servers: trusted_servers(&set),
            agent_rules: rules(&set),
        });
        sources.require_rules(&policy)?;
        warnings.extend(notices);
        let (servers, notices) =
            self.open_servers(workspace, processes(), sandbox(), &versions, hub);
        warnings.extend(notices);
        if let Some(servers) = &servers {
            servers.start();
        }
        let judge = Arc::new(policy);
        Ok(ToolSetup { shell, skills, plans, toolbox, versions, agents, judge, servers })
    }

    /// Creates the sources of context, tools, and hooks that act while the session runs. Comes
    /// after the servers and the memory, because it adds to both.
    #[expect(clippy::too_many_arguments, reason = "each is what one step gave")]
    fn join(
        &self,
        id: &SessionId,
        ground: &WorkspaceSetup,
        means: &ToolSetup,
        memory: &InitialContext,
        hub: &EventBus,
        observers: Vec<Arc<dyn Observer>>,
        warnings: &mut Vec<String>,
    ) -> Result<RuntimeSources, Failure> {
        let ToolSetup { shell, plans, toolbox, versions, .. } = means;
        let workspace = Arc::clone(&ground.workspace);
        let begun_with = memory.files.clone();
        let found = NestedContext::new(self.context_sources(), workspace, begun_with, warning(hub));
        let found = Arc::new(found);
        let discovered =
            self.discover(shell.clone(), toolbox.processes(), versions.clone(), hub.clone());
        let kept =
            |name| self.session_library().keeps_clear_text().then(|| ground.artifacts.join(name));
        let around = || parallax_hooks::Surroundings {
            processes: toolbox.processes(),
            shell: shell.clone(),
            session: id.as_str().to_owned(),
            journal: self.homes().journal(&self.options.directory, id),
            keys: self.homes().keys,
            transcript: kept(parallax_sessions::transcript::TRANSCRIPT),
            plans: plans.clone(),
            versions: versions.clone(),
            trace: kept(parallax_hooks::TRACE),
            observer: (!observers.is_empty())
                .then(|| Arc::new(Observers(observers)) as Arc<dyn Observer>),
        };
        let setup = parallax_hooks::session_hooks(
            &self.config,
            || self.hook_library().list(),
            self.mode,
            around,
        )?;
        // Cannot be set already: one launch opens one session.
        let _ = self.running_hooks.set(setup.running);
        let hooks = setup.hooks;
        warnings.extend(setup.warnings);
        Ok(RuntimeSources { found, discovered, hooks })
    }

    /// Collects the inputs of the system prompt from the previous steps.
    fn material(
        &self,
        ground: &WorkspaceSetup,
        means: &ToolSetup,
        joined: &RuntimeSources,
        memory: &InitialContext,
        warnings: &mut Vec<String>,
    ) -> Result<system::PromptMaterial, Failure> {
        let files = self.prompt_files()?;
        warnings.extend(files.warnings.iter().cloned());
        let tools = means.declared();
        Ok(system::PromptMaterial {
            flags: self.prompt_flags(&ground.workspace, joined.hooks.is_some()),
            files,
            off: self.switched_off_sections(),
            append: self.options.append_system_prompt.clone(),
            skills: Some(Arc::clone(&means.skills)),
            agents: means.agents.clone(),
            tools: tools.iter().map(|tool| tool.spec().name.clone()).collect(),
            memory: memory.system.clone(),
            plans: means.plans.clone(),
            notes: self.homes().notes(&self.options.directory),
        })
    }

    /// Creates the expander of `@path` in prompts.
    fn expander(
        &self,
        ground: &WorkspaceSetup,
        means: &ToolSetup,
        joined: &RuntimeSources,
    ) -> Expander {
        let settings = &self.config.settings;
        Expander::new(&ground.workspace, &ground.seen, means.servers.clone())
            .with_agents(means.startable_agents())
            .with_found(Arc::clone(&joined.found) as Arc<dyn FolderContext>)
            .with_search(FileSearch {
                recursive: settings.flag("context.fileFiltering.enableRecursiveFileSearch"),
                loose: settings.flag("context.fileFiltering.enableFuzzySearch"),
            })
    }

    /// Loads the custom commands. The policy engine decides before a command runs anything.
    fn typed_commands(&self, ground: &WorkspaceSetup, means: &ToolSetup) -> Commands {
        let around = parallax_commands::Surroundings {
            workspace: Arc::clone(&ground.workspace),
            seen: Arc::clone(&ground.seen),
            judge: Arc::clone(&means.judge),
            shell: means.shell.clone(),
            processes: means.toolbox.processes(),
            servers: means.servers.clone(),
            skills: Arc::new(SkillCommands(Arc::clone(&means.skills))),
            agents: means.startable_agents(),
        };
        Commands::new(&self.config, &self.extensions(), self.options.interactive, around)
    }

    /// Starts the engine; from here on the session accepts operations.
    #[expect(clippy::too_many_arguments, reason = "each is what one step gave")]
    fn start(
        &self,
        resumed: Resumed,
        ground: &WorkspaceSetup,
        voice: ModelSetup,
        means: &ToolSetup,
        joined: RuntimeSources,
        told: PromptInputs,
        hub: EventBus,
        tap: Option<&Arc<SessionTap>>,
    ) -> SessionHandle {
        let secrets = self.provider_manager().own_keys();
        if let Some(tap) = tap {
            tap.add_secrets(secrets.iter().cloned());
        }
        let ModelSetup { model, metered, name, budget } = voice;
        let store: Arc<dyn Store> = match self.options.ephemeral {
            true => Arc::new(NoStore),
            false => {
                let path = self.homes().journal(&self.options.directory, &resumed.id);
                self.session_library().mirrored(Arc::new(resumed.journal), path)
            }
        };
        if self.wants_name(&resumed.records) {
            session_names::name(hub.subscribe(), metered, Arc::clone(&store));
        }
        let more_tools = CombinedToolSource {
            skills: Arc::clone(&means.skills),
            discovered: joined.discovered,
            servers: means.servers.clone(),
        };
        let folders = Arc::clone(&ground.workspace);
        let added = Arc::clone(&ground.workspace);
        let roots_of = means.servers.clone();
        let records = || resumed.records.iter();
        parallax_engine::start(
            SessionOptions {
                model,
                model_name: name,
                tools: means.toolbox.tools(),
                more_tools: Some(Arc::new(more_tools)),
                agents: means.agents.clone().map(|agents| agents as Arc<dyn Agents>),
                judge: Arc::clone(&means.judge),
                store,
                mode: self.mode,
                interactive: self.options.interactive,
                keeps_file_texts: self.options.keeps_file_texts || self.shows_diffs_in_editor(),
                replaces: self.options.session == SessionChoice::Clear,
                trusted: self.config.trust.trusted,
                workspace: Arc::new(move || folders.roots()),
                add_directory: Box::new(move |path| {
                    let before = added.roots().len();
                    let folder = added.add_root(&path).map_err(|error| error.to_string())?;
                    if let Some(servers) = roots_of.clone().filter(|_| added.roots().len() > before)
                    {
                        tokio::spawn(async move { servers.roots_changed().await });
                    }
                    Ok(folder)
                }),
                describe_directories: self.describe_directories(&ground.workspace),
                directories: directories(records()).to_vec(),
                model_changed: means.toolbox.follow(),
                system: told.system,
                preface: told.memory.preface,
                sources: told.memory.sources,
                folder_context: Some(joined.found as Arc<dyn FolderContext>),
                editor_context: self.editor_context().map(|it| it as Arc<dyn EditorContext>),
                plan: ApprovedPlan::of(records(), resumed.contents.len()),
                pending: resumed.pending,
                cut_off: resumed.cut_off,
                unfinished: resumed.unfinished,
                history: resumed.contents,
                compactions: resumed.compactions,
                pins: resumed.pins,
                room: self.room(&ground.artifacts, &resumed.id),
                // The parameters of an alias are added by name to each request.
                generation: parallax_protocol::Object::new(),
                max_turns: self.max_turns(),
                budget,
                routing: self.routing(),
                max_attempts: None,
                loop_detection: self.config.settings.loop_detection(),
                retry_base: self.retry_base(),
                approvals: self.approvals(),
                rule_keeper: Some(Arc::new(self.policy_sources().rule_store())),
                checkpoints: means.versions.clone().map(|it| it as Arc<dyn Checkpoints>),
                is_build_file: parallax_policy::is_build_file,
                turns: resumed.turns,
                prompts: resumed.prompts,
                shell: Some(means.toolbox.shell()),
                hooks: joined.hooks,
                secrets,
                id: resumed.id,
            },
            hub,
        )
    }

    /// Returns whether the model should name the session. A headless run would end before it gets a
    /// name.
    fn wants_name(&self, records: &[Record]) -> bool {
        let named = |record: &Record| matches!(record, Record::Name(_));
        self.options.interactive
            && self.config.settings.text("general.sessionNames").as_deref() == Some("model")
            && !records.iter().any(named)
    }

    /// Returns the facts about the session's environment for the system prompt.
    fn prompt_flags(&self, workspace: &Workspace, hooks: bool) -> PromptFlags<'static> {
        PromptFlags {
            interactive: self.options.interactive,
            git: system::in_git(workspace.root()),
            sandbox: self.confinement(),
            hooks,
            ..PromptFlags::default()
        }
    }

    /// Removes old sessions of the project in the background. Returns a warning if the retention
    /// settings contradict each other.
    fn clean_beside(&self, id: &SessionId) -> Option<String> {
        let (retention, warning) = self.session_library().retention();
        if let Some(rule) = retention.filter(|_| !self.options.ephemeral) {
            let (homes, project) = (self.homes(), self.options.directory.clone());
            let id = id.clone();
            tokio::task::spawn_blocking(move || {
                parallax_sessions::retention::clean_lazily(&homes, &project, &rule, &id);
            });
        }
        warning
    }
}

/// Returns a function that shows a warning about context files.
fn warning(hub: &EventBus) -> parallax_context_files::Warn {
    let hub = hub.clone();
    Arc::new(move |text| {
        let done = ItemDone::Notice { level: Level::Warning, text };
        hub.send(EventBody::ItemDone { item: "notice-context".into(), done });
    })
}

/// Returns whether a hook listens for the end of the session.
fn hears_end(hooks: Option<&Arc<dyn Hooks>>) -> bool {
    hooks.is_some_and(|hooks| hooks.listens(HookEvent::SessionEnd, false))
}
