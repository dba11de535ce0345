//! The second half of opening a session; [`SessionConfig::prepare`] is the first.
//!
//! Each step returns what later steps need. The order follows the dependencies: the resumed session
//! determines the directories, the directories determine the tools, and the tools determine the
//! system prompt.

use std::sync::Arc;

use parallax_agents::{
    AgentsSetup, SessionAgents, SessionSkills, SubagentJournals, rules, trusted_servers,
};
use parallax_commands::Commands;
use parallax_commands::{Expander, FileSearch};
use parallax_context_files::{InitialContext, NestedContext, build_context};
use parallax_devtools::{Observers, SessionTap, TapSocket};
use parallax_engine::prompt::PromptFlags;
use parallax_engine::{
    ApprovedPlan, EventBus, EventReader, SessionHandle, SessionOptions, SharedPolicyEngine,
    UsageTrackingModel,
};
use parallax_files::{SeenFiles, Workspace};
use parallax_mcp::Sampling;
use parallax_policy_sources::ImplicitAllows;
use parallax_protocol::agent::Agents;
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::context::{EditorContext, FolderContext};
use parallax_protocol::event::{EventBody, Failure, ItemDone, Level};
use parallax_protocol::hooks::{HookEvent, Hooks};
use parallax_protocol::ids::SessionId;
use parallax_protocol::observer::Observer;
use parallax_protocol::store::{NoStore, Record, Store, directories};
use parallax_sessions::SessionChoice;
use parallax_sessions::gemini_mirror;
use parallax_sessions::history::{self, ResumedState};
use parallax_telemetry::{InheritedTrace, Telemetry, TelemetrySettings};

use super::OpenSession;
use super::setup::{ModelSetup, PromptInputs, RuntimeSources, ToolSetup, WorkspaceSetup};
use crate::agent_environment::{IsolationInputs, SessionEnvironment};
use crate::command_sources::SkillCommands;
use crate::credential::Credential;
use crate::discovery::CombinedToolSource;

use crate::session_config::SessionConfig;
use crate::{
    budget, directories, discovery, mcp, model, plans, routing, sandbox, session_names,
    session_settings, system, toolbox, web_search,
};

impl SessionConfig {
    /// Opens the session. Must be called on a tokio runtime.
    ///
    /// The returned reader emits all events from the beginning.
    ///
    /// # Errors
    /// Returns an error if credentials are missing, the session is not found, or a directory cannot
    /// be included.
    pub fn open(self) -> Result<(OpenSession, EventReader), Failure> {
        SessionBuilder::new(self).open()
    }
}

/// Opens a session, step by step.
struct SessionBuilder {
    launch: SessionConfig,
    /// Warnings to show before the first prompt.
    warnings: Vec<String>,
}

impl SessionBuilder {
    /// Begins with the warnings of the configuration.
    fn new(launch: SessionConfig) -> Self {
        let warnings = launch.warnings.clone();
        Self { launch, warnings }
    }

    /// Opens the session.
    ///
    /// # Errors
    /// Returns the errors of [`SessionConfig::open`].
    fn open(mut self) -> Result<(OpenSession, EventReader), Failure> {
        self.check()?;
        let resumed = history::open(&self.launch.session_library(), &self.launch.options.session)?;
        self.warnings.extend(resumed.notices.iter().cloned());
        let session_model = self.launch.restore_selection(&resumed.records)?;
        self.warnings.extend(session_model.as_ref().and_then(|it| it.notice.clone()));
        let workspace_setup = self.open_workspace(&resumed)?;
        // Must subscribe before anything emits events.
        let telemetry = self.start_telemetry(&resumed.id);
        let tap = (!self.launch.options.ephemeral).then(Arc::<SessionTap>::default);
        let observers: Vec<Arc<dyn Observer>> = telemetry
            .clone()
            .map(|telemetry| telemetry as Arc<dyn Observer>)
            .or_else(|| Some(Arc::new(self.inherited_trace()?)))
            .into_iter()
            .chain(tap.clone().map(|tap| tap as Arc<dyn Observer>))
            .collect();
        let bus = EventBus::with_observers(observers.clone());
        let events = bus.subscribe();
        let model_setup =
            self.open_model(&resumed, &workspace_setup, &bus, tap.as_ref()).map_err(|error| {
                match &session_model {
                    Some(model) => model.explain(error),
                    None => error,
                }
            })?;
        let tool_setup =
            self.open_tools(&resumed.id, &workspace_setup, &model_setup, &bus, tap.as_ref())?;
        // Must run before context files are read, because a killed command may have changed one.
        self.warnings.extend(
            tool_setup
                .checkpoint_manager
                .as_ref()
                .and_then(|checkpoint_manager| checkpoint_manager.revert_abandoned()),
        );
        let memory = build_context(
            &self.launch.context_sources(),
            &workspace_setup.workspace,
            &resumed.contents,
        );
        self.warnings.extend(memory.warnings.iter().cloned());
        let sources = self.open_sources(
            &resumed.id,
            &workspace_setup,
            &tool_setup,
            &memory,
            &bus,
            observers,
        )?;
        let prompt = self.prompt_material(&workspace_setup, &tool_setup, &sources, &memory)?;
        let offered = system::declared_tools(
            &self.launch,
            &tool_setup.declared_tools(),
            &tool_setup.policy_engine,
        );
        system::write_built_in(&prompt, self.launch.mode, &offered)?;
        self.warnings.extend(system::missing_core_tools_warning(&self.launch, &offered));
        let expander = self.expander(&workspace_setup, &tool_setup, &sources);
        let commands = self.custom_commands(&workspace_setup, &tool_setup);
        let (id, records, was_interrupted) =
            (resumed.id.clone(), Arc::clone(&resumed.records), resumed.was_interrupted);
        let (name, scripted) =
            (model_setup.name.clone(), model_setup.model.catalog().is_scripted());
        let ledger = model_setup.budget.ledger();
        let end_hooks = has_session_end_hook(sources.hooks.as_ref());
        let nested_context = Arc::clone(&sources.nested_context);
        let context_files = memory.files.clone();
        let inputs = PromptInputs { system: system::prompt(prompt), memory };
        let session_bus = bus.clone();
        let handle = self.start(
            resumed,
            &workspace_setup,
            model_setup,
            &tool_setup,
            sources,
            inputs,
            bus,
            tap.as_ref(),
        );
        let directory = self.launch.directory();
        let tap = tap.map(|tap| TapSocket::start(tap, &self.launch.dirs(), directory, &id));
        let conflict = self.clean_old_sessions(&id);
        self.warnings.extend(conflict);
        let Self { launch, mut warnings } = self;
        let mut seen = std::collections::HashSet::new();
        warnings.retain(|warning| seen.insert(warning.clone()));
        let session = OpenSession {
            workspace: workspace_setup.workspace,
            nested_context,
            mode: launch.mode,
            launch,
            id,
            model: name,
            scripted,
            warnings,
            context_files,
            expander,
            commands,
            plans: tool_setup.plans,
            initial_records: records,
            was_interrupted,
            handle,
            policy_engine: tool_setup.policy_engine,
            bus: session_bus,
            toolbox: tool_setup.toolbox,
            checkpoint_manager: tool_setup.checkpoint_manager,
            servers: tool_setup.servers,
            agents: tool_setup.agents,
            skills: tool_setup.skills,
            ledger,
            end_hooks,
            telemetry,
            tap,
        };
        Ok((session, events))
    }

    /// Returns the trace that a session without telemetry passes on.
    fn inherited_trace(&self) -> Option<InheritedTrace> {
        InheritedTrace::from_environment(&self.launch.config.environment)
    }

    /// Starts recording the session if enabled. Invalid options become warnings.
    fn start_telemetry(&mut self, id: &SessionId) -> Option<Arc<Telemetry>> {
        if self.launch.options.ephemeral {
            return None;
        }
        let manager = self.launch.provider_manager();
        let auth_type = || match manager.credential() {
            Credential::Found { method, .. } => Some(method.to_owned()),
            Credential::NotNeeded => Some("none".to_owned()),
            Credential::Missing { .. } => None,
        };
        let settings = TelemetrySettings {
            config: &self.launch.config,
            project: &self.launch.options.directory,
            variables: &self.launch.options.variables,
            client: self.launch.client_options(),
            interactive: self.launch.options.interactive,
            version: self.launch.options.version,
            auth_type: &auth_type,
        };
        settings.start(id, &mut self.warnings)
    }

    /// Checks everything that prevents the session from opening, before anything is read or
    /// written: an unavailable sandbox, a missing key, or a temporary directory that another user
    /// owns.
    fn check(&mut self) -> Result<(), Failure> {
        sandbox::require(&self.launch)?;
        let extensions = self.launch.extensions();
        self.warnings.extend(extensions.warnings.iter().cloned());
        self.launch.closed_names.trust(extensions.linked_parts());
        self.warnings.extend(self.launch.extension_manager().unmatched_extension_names());
        self.launch.session_library().check_keys()?;
        self.launch.session_library().make_temporary()
    }

    /// Creates the workspace. A resumed session may add directories.
    fn open_workspace(&mut self, resumed: &ResumedState) -> Result<WorkspaceSetup, Failure> {
        let (workspace, artifacts, notices) =
            session_settings::open_workspace(&self.launch, resumed)?;
        self.warnings.extend(notices);
        let seen_files = Arc::new(SeenFiles::default());
        Ok(WorkspaceSetup { workspace: Arc::new(workspace), seen_files, artifacts })
    }

    /// Creates the model and the budget, including what the resumed session has spent. Reports
    /// invalid credentials or scripts before anything is started.
    fn open_model(
        &mut self,
        resumed: &ResumedState,
        workspace_setup: &WorkspaceSetup,
        bus: &EventBus,
        tap: Option<&Arc<SessionTap>>,
    ) -> Result<ModelSetup, Failure> {
        let model = model::open(&self.launch, workspace_setup.workspace.root(), &resumed.id, tap)?;
        let budget = budget::session_budget(&self.launch, &resumed.records, model.as_ref());
        let budget = budget.with_user_prompts(self.launch.options.budget_questions);
        let metered =
            UsageTrackingModel::new(Arc::clone(&model), bus.clone()).with_ledger(budget.ledger());
        let name = self.launch.model_name();
        self.warnings.extend(self.launch.provider_manager().model_table().warnings_for(&name));
        self.warnings.extend(web_search::start_notice(&self.launch, model.as_ref(), &name));
        Ok(ModelSetup { model, metered: Arc::new(metered), name, budget })
    }

    /// Creates tools, subagents, MCP servers, and the policy engine. The policy comes after the
    /// subagents, which add rules, and before the servers, which are started here because they take
    /// longest.
    fn open_tools(
        &mut self,
        id: &SessionId,
        workspace_setup: &WorkspaceSetup,
        model_setup: &ModelSetup,
        bus: &EventBus,
        tap: Option<&Arc<SessionTap>>,
    ) -> Result<ToolSetup, Failure> {
        let WorkspaceSetup { workspace, seen_files, artifacts } = workspace_setup;
        let shell = toolbox::shell_options(&self.launch, artifacts.clone());
        let (skills, notices) = SessionSkills::open(self.launch.skill_library(), workspace);
        self.warnings.extend(notices);
        let plans = plans::session_directory(&self.launch, workspace, &mut self.warnings);
        let metered = || Arc::clone(&model_setup.metered);
        let toolbox = toolbox::build(
            &self.launch,
            workspace,
            seen_files,
            artifacts.clone(),
            metered(),
            &plans,
        );
        self.launch.sampling = Some(Sampling {
            model: metered(),
            main: toolbox.main_model(metered()),
            tokens: self.launch.config.settings.count("mcp.samplingTokens").unwrap_or(0),
        });
        self.warnings.extend(self.launch.policy_sources().sandbox_table().1);
        let checkpoint_manager =
            session_settings::checkpoint_manager(&self.launch, id, workspace, seen_files);
        let processes = || toolbox.processes();
        let sandbox = || shell.sandbox.clone();
        let (agents, notices) = SessionAgents::open(AgentsSetup {
            library: self.launch.agent_library(),
            environment: Box::new(SessionEnvironment {
                launch: self.launch.clone(),
                workspace: Arc::clone(workspace),
                processes: processes(),
                sandbox: sandbox(),
                checkpoint_manager: checkpoint_manager.clone(),
                isolation: IsolationInputs {
                    id: id.clone(),
                    artifacts: artifacts.clone(),
                    plans: plans.clone(),
                    model: metered(),
                    warn: warning(bus),
                    workspace: Arc::clone(workspace),
                },
            }),
            workspace: Arc::clone(workspace),
            seen_files: Arc::clone(seen_files),
            journals: (!self.launch.options.ephemeral).then(|| {
                let project = self.launch.options.directory.display().to_string();
                SubagentJournals::new(artifacts.join("agents"), project, self.launch.dirs().keys)
            }),
            interactive: self.launch.options.interactive,
        });
        self.warnings.extend(notices);
        let set = agents.as_ref().map(|agents| agents.set()).unwrap_or_default();
        let policy_sources = self.launch.policy_sources();
        let (trusted, allowed) = mcp::implicitly_allowed_servers(&self.launch);
        let (policy, notices) = policy_sources.policy(ImplicitAllows {
            plans: Some(plans.clone()),
            skills: skills.built_in().to_vec(),
            trusted_servers: trusted,
            allowed_servers: allowed,
            agent_servers: trusted_servers(&set),
            agent_rules: rules(&set),
        });
        policy_sources.require_rules(&policy)?;
        self.warnings.extend(notices);
        let (servers, notices) = mcp::open_servers(
            &self.launch,
            workspace,
            processes(),
            sandbox(),
            &checkpoint_manager,
            bus,
            tap,
        );
        self.warnings.extend(notices);
        if let Some(servers) = &servers {
            servers.start();
        }
        let policy_engine = SharedPolicyEngine::new(Arc::new(policy));
        for rule in &self.launch.options.session_rules {
            if let Err(reason) = policy_engine.add_rule(rule) {
                self.warnings
                    .push(format!("An approval for the session no longer applies: {reason}"));
            }
        }
        Ok(ToolSetup {
            shell,
            skills,
            plans,
            toolbox,
            checkpoint_manager,
            agents,
            policy_engine,
            servers,
        })
    }

    /// Creates the sources of context, tools, and hooks that act while the session runs. Comes
    /// after the servers and the memory, because it adds to both.
    fn open_sources(
        &mut self,
        id: &SessionId,
        workspace_setup: &WorkspaceSetup,
        tool_setup: &ToolSetup,
        memory: &InitialContext,
        bus: &EventBus,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Result<RuntimeSources, Failure> {
        let ToolSetup { shell, plans, toolbox, checkpoint_manager, .. } = tool_setup;
        let workspace = Arc::clone(&workspace_setup.workspace);
        let begun_with = memory.files.clone();
        let found =
            NestedContext::new(self.launch.context_sources(), workspace, begun_with, warning(bus));
        let nested_context = Arc::new(found);
        let discovered = discovery::discover(
            &self.launch,
            shell.clone(),
            toolbox.processes(),
            checkpoint_manager.clone(),
            bus.clone(),
        );
        let artifact_path = |name| {
            self.launch
                .session_library()
                .allows_clear_text()
                .then(|| workspace_setup.artifacts.join(name))
        };
        let hook_session = || parallax_hooks::HookSession {
            processes: toolbox.processes(),
            shell: shell.clone(),
            session: id.as_str().to_owned(),
            journal: self.launch.dirs().journal(&self.launch.options.directory, id),
            keys: self.launch.dirs().keys,
            transcript: artifact_path(parallax_sessions::transcript::TRANSCRIPT),
            plans: plans.clone(),
            checkpoint_manager: checkpoint_manager.clone(),
            trace: artifact_path(parallax_hooks::TRACE),
            observer: (!observers.is_empty())
                .then(|| Arc::new(Observers(observers)) as Arc<dyn Observer>),
        };
        let setup = parallax_hooks::session_hooks(
            &self.launch.config,
            || self.launch.hook_library().list(),
            self.launch.mode,
            hook_session,
        )?;
        // Cannot be set already: one launch opens one session.
        let _ = self.launch.running_hooks.set(setup.running);
        let hooks = setup.hooks;
        self.warnings.extend(setup.warnings);
        Ok(RuntimeSources { nested_context, discovered, hooks })
    }

    /// Collects the inputs of the system prompt from the previous steps.
    fn prompt_material(
        &mut self,
        workspace_setup: &WorkspaceSetup,
        tool_setup: &ToolSetup,
        sources: &RuntimeSources,
        memory: &InitialContext,
    ) -> Result<system::PromptMaterial, Failure> {
        let files = system::prompt_files(&self.launch)?;
        self.warnings.extend(files.warnings.iter().cloned());
        let tools = tool_setup.declared_tools();
        Ok(system::PromptMaterial {
            flags: self.prompt_flags(&workspace_setup.workspace, sources.hooks.is_some()),
            files,
            off: system::disabled_sections(&self.launch),
            append: self.launch.options.append_system_prompt.clone(),
            skills: Some(Arc::clone(&tool_setup.skills)),
            agents: tool_setup.agents.clone(),
            tools: tools.iter().map(|tool| tool.spec().name.clone()).collect(),
            memory: memory.system.clone(),
            plans: tool_setup.plans.clone(),
            notes: self.launch.dirs().notes(&self.launch.options.directory),
        })
    }

    /// Creates the expander of `@path` in prompts.
    fn expander(
        &self,
        workspace_setup: &WorkspaceSetup,
        tool_setup: &ToolSetup,
        sources: &RuntimeSources,
    ) -> Expander {
        let settings = &self.launch.config.settings;
        Expander::new(
            &workspace_setup.workspace,
            &workspace_setup.seen_files,
            tool_setup.servers.clone(),
        )
        .with_agents(tool_setup.startable_agents())
        .with_folder_context(Arc::clone(&sources.nested_context) as Arc<dyn FolderContext>)
        .with_search(FileSearch {
            recursive: settings.flag("context.fileFiltering.enableRecursiveFileSearch"),
            is_fuzzy: settings.flag("context.fileFiltering.enableFuzzySearch"),
        })
    }

    /// Loads the custom commands. The policy engine decides before a command runs anything.
    fn custom_commands(
        &self,
        workspace_setup: &WorkspaceSetup,
        tool_setup: &ToolSetup,
    ) -> Commands {
        let inputs = parallax_commands::CommandInputs {
            workspace: Arc::clone(&workspace_setup.workspace),
            seen_files: Arc::clone(&workspace_setup.seen_files),
            policy_engine: Arc::new(tool_setup.policy_engine.clone()),
            shell: tool_setup.shell.clone(),
            processes: tool_setup.toolbox.processes(),
            servers: tool_setup.servers.clone(),
            skills: Arc::new(SkillCommands(Arc::clone(&tool_setup.skills))),
            agents: tool_setup.startable_agents(),
        };
        Commands::new(
            &self.launch.config,
            &self.launch.extensions(),
            self.launch.options.interactive,
            inputs,
        )
    }

    /// Starts the engine; from here on the session accepts operations.
    #[expect(clippy::too_many_arguments, reason = "each is the result of one step")]
    fn start(
        &self,
        resumed: ResumedState,
        workspace_setup: &WorkspaceSetup,
        model_setup: ModelSetup,
        tool_setup: &ToolSetup,
        sources: RuntimeSources,
        inputs: PromptInputs,
        bus: EventBus,
        tap: Option<&Arc<SessionTap>>,
    ) -> SessionHandle {
        let secrets = self.launch.provider_manager().own_keys();
        if let Some(tap) = tap {
            tap.add_secrets(secrets.iter().cloned());
        }
        let ModelSetup { model, metered, name, budget } = model_setup;
        let store: Arc<dyn Store> = match self.launch.options.ephemeral {
            true => Arc::new(NoStore),
            false => {
                let path = self.launch.dirs().journal(&self.launch.options.directory, &resumed.id);
                let sessions = self.launch.session_library();
                gemini_mirror::mirror(&sessions, Arc::new(resumed.journal), path)
            }
        };
        if self.needs_name(&resumed.records) {
            session_names::name(bus.subscribe(), metered, Arc::clone(&store));
        }
        let more_tools = CombinedToolSource {
            skills: Arc::clone(&tool_setup.skills),
            discovered: sources.discovered,
            servers: tool_setup.servers.clone(),
        };
        let folders = Arc::clone(&workspace_setup.workspace);
        let added = Arc::clone(&workspace_setup.workspace);
        let roots_of = tool_setup.servers.clone();
        let records = || resumed.records.iter();
        let model_changed =
            tool_setup.toolbox.model_change_handler(Arc::clone(&model), bus.clone());
        parallax_engine::start(
            SessionOptions {
                model,
                model_name: name,
                tools: tool_setup.toolbox.tools(),
                more_tools: Some(Arc::new(more_tools)),
                agents: tool_setup.agents.clone().map(|agents| agents as Arc<dyn Agents>),
                policy_engine: tool_setup.policy_engine.clone(),
                store,
                mode: self.launch.mode,
                interactive: self.launch.options.interactive,
                includes_file_texts: self.launch.options.includes_file_texts
                    || self.launch.companion_manager().shows_diffs(),
                is_replacement: self.launch.options.session == SessionChoice::Clear,
                trusted: self.launch.config.trust.trusted,
                workspace: Arc::new(move || folders.roots()),
                add_directory: Box::new(move |path| {
                    let before = added.roots().len();
                    let directory = added.add_root(&path).map_err(|error| error.to_string())?;
                    if let Some(servers) = roots_of.clone().filter(|_| added.roots().len() > before)
                    {
                        tokio::spawn(async move { servers.roots_changed().await });
                    }
                    Ok(directory)
                }),
                describe_directories: directories::describe_directories(
                    &self.launch,
                    &workspace_setup.workspace,
                ),
                directories: directories(records()).to_vec(),
                model_changed,
                system: inputs.system,
                preface: inputs.memory.preface,
                sources: inputs.memory.sources,
                folder_context: Some(sources.nested_context as Arc<dyn FolderContext>),
                editor_context: self
                    .launch
                    .companion_manager()
                    .context()
                    .map(|it| it as Arc<dyn EditorContext>),
                plan: ApprovedPlan::from_records(records(), resumed.contents.len()),
                pending: resumed.pending,
                was_interrupted: resumed.was_interrupted,
                unfinished_answer: resumed.unfinished_answer,
                history: resumed.contents,
                compactions: resumed.compactions,
                pins: resumed.pins,
                compaction: session_settings::compaction_options(
                    &self.launch,
                    &workspace_setup.artifacts,
                    &resumed.id,
                ),
                // The parameters of an alias are added by name to each request.
                generation: parallax_protocol::Object::new(),
                max_turns: session_settings::max_turns(&self.launch),
                budget,
                routing: routing::routing_options(&self.launch),
                max_attempts: None,
                loop_detection: self.launch.config.settings.loop_detection(),
                retry_base: session_settings::retry_base(&self.launch),
                approvals: session_settings::approvals(&self.launch),
                rule_store: Some(Arc::new(self.launch.policy_sources().rule_store())),
                checkpoints: tool_setup
                    .checkpoint_manager
                    .clone()
                    .map(|it| it as Arc<dyn Checkpoints>),
                is_build_file: parallax_policy::is_build_file,
                turns: resumed.turns,
                prompts: resumed.prompts,
                shell: Some(tool_setup.toolbox.shell()),
                hooks: sources.hooks,
                secrets,
                id: resumed.id,
            },
            bus,
        )
    }

    /// Returns whether the model should name the session. A headless run would end before it gets a
    /// name.
    fn needs_name(&self, records: &[Record]) -> bool {
        let named = |record: &Record| matches!(record, Record::Name(_));
        self.launch.options.interactive
            && self.launch.config.settings.text("general.sessionNames").as_deref() == Some("model")
            && !records.iter().any(named)
    }

    /// Returns the facts about the session's environment for the system prompt.
    fn prompt_flags(&self, workspace: &Workspace, hooks: bool) -> PromptFlags<'static> {
        PromptFlags {
            interactive: self.launch.options.interactive,
            git: system::in_git(workspace.root()),
            sandbox: sandbox::confinement(&self.launch),
            hooks,
            ..PromptFlags::default()
        }
    }

    /// Removes old sessions of the project in the background. Returns a warning if the retention
    /// settings contradict each other.
    fn clean_old_sessions(&self, id: &SessionId) -> Option<String> {
        let (retention, warning) = self.launch.session_library().retention();
        if let Some(rule) = retention.filter(|_| !self.launch.options.ephemeral) {
            let (dirs, project) = (self.launch.dirs(), self.launch.options.directory.clone());
            let id = id.clone();
            tokio::task::spawn_blocking(move || {
                parallax_sessions::retention::clean_up_daily(&dirs, &project, &rule, &id);
            });
        }
        warning
    }
}

/// Returns a function that shows a warning about context files.
fn warning(bus: &EventBus) -> parallax_context_files::WarnFn {
    let bus = bus.clone();
    Arc::new(move |text| {
        let done = ItemDone::notice(Level::Warning, text);
        bus.send(EventBody::ItemDone { item: "notice-context".into(), done });
    })
}

/// Returns whether a hook listens for the end of the session.
fn has_session_end_hook(hooks: Option<&Arc<dyn Hooks>>) -> bool {
    hooks.is_some_and(|hooks| hooks.has_subscriber(HookEvent::SessionEnd, false))
}
