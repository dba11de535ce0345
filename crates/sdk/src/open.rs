//! The second half of the way to a session: credentials, workspace, tools,
//! journal, engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_engine::prompt::Flags;
use parallax_engine::{
    AgreedPlan, EventHub, EventReader, Ledger, Metered, SessionHandle, SessionOptions,
};
use parallax_files::{SeenFiles, Workspace};
use parallax_mcp::{Sampling, Servers};
use parallax_protocol::agent::Agents;
use parallax_protocol::budget::BudgetUse;
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::context::FolderContext;
use parallax_protocol::event::Failure;
use parallax_protocol::hooks::{HookEvent, Hooks};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::op::Op;
use parallax_protocol::policy::{ApprovalMode, Judge};
use parallax_protocol::store::{NoStore, Record, Store, directories};

use crate::agents::{SessionAgents, trusted_servers};
use crate::custom_commands::{self, Commands};
use crate::discovery::MoreTools;
use crate::encrypted_sessions;
use crate::expand::{Expander, FileSearch};
use crate::found_context::FoundContext;
use crate::history;
use crate::launch::{Launch, SessionChoice};
use crate::rules::Unasked;
use crate::versions::Versions;
use crate::{OpSender, hooks, model, session_names, skills, system, toolbox};

mod by_settings;

/// A session that takes prompts.
pub struct OpenSession {
    /// Its id.
    pub id: SessionId,
    /// The model as asked for.
    pub model: String,
    /// The approval mode at its start.
    pub mode: ApprovalMode,
    /// Whether the model's words are scripted or replayed.
    pub scripted: bool,
    /// What the person should know before the first prompt.
    pub warnings: Vec<String>,
    /// The context files that the model was told of.
    pub context_files: Vec<PathBuf>,
    /// Expands `@path` in prompts.
    pub expander: Expander,
    /// The custom slash commands.
    pub commands: Commands,
    /// Where plans go, links resolved.
    pub(crate) plans: PathBuf,
    past: Arc<[Record]>,
    cut_off: bool,
    handle: SessionHandle,
    pub(crate) toolbox: toolbox::Toolbox,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) found: Arc<FoundContext>,
    pub(crate) launch: Launch,
    pub(crate) versions: Option<Arc<Versions>>,
    servers: Option<Servers>,
    agents: Option<Arc<SessionAgents>>,
    ledger: Ledger,
    end_hooks: bool,
}

impl OpenSession {
    /// The sub-agents, unless they are switched off.
    pub fn agents(&self) -> Option<Arc<SessionAgents>> {
        self.agents.clone()
    }

    /// The MCP servers, when there are any.
    pub fn mcp(&self) -> Option<&Servers> {
        self.servers.as_ref()
    }

    /// What the session holds already, for display ([`crate::past`]). Shared:
    /// nothing is copied.
    pub fn past(&self) -> Arc<[Record]> {
        Arc::clone(&self.past)
    }

    /// Whether the newest turn of the session did not come to its end, so that
    /// [`Op::Continue`] goes on with it.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// What may be spent and what is: for the session, then for the prompt that
    /// runs or ran last.
    pub fn budgets(&self) -> Vec<BudgetUse> {
        self.ledger.uses()
    }

    /// Where what is spent is counted, for work that a prompt needs before its
    /// turn begins.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Whether the session is on the disk, so that it can be resumed: one without
    /// a prompt is not.
    pub fn is_kept(&self) -> bool {
        self.launch.keeps_session(&self.id)
    }

    /// What it was opened with.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Where orders go.
    pub fn ops(&self) -> OpSender {
        self.handle.ops.clone()
    }

    /// Ends the session: the running turn is cancelled and saved, children die.
    /// Gives what people should hear of its end.
    pub async fn close(self) -> Vec<String> {
        self.end(Op::Shutdown).await
    }

    /// The same, but the hooks of its end are given up when `hurry` comes.
    pub async fn close_until(self, hurry: impl Future<Output = ()>) -> Vec<String> {
        self.end_until(Op::Shutdown, hurry).await
    }

    /// The same for a session whose place a new one takes
    /// ([`SessionChoice::Clear`]).
    pub async fn clear_until(self, hurry: impl Future<Output = ()>) -> Vec<String> {
        self.end_until(Op::Clear, hurry).await
    }

    /// Whether hooks hear of its end, which may take them a while.
    pub fn has_end_hooks(&self) -> bool {
        self.end_hooks
    }

    async fn end_until(self, order: Op, hurry: impl Future<Output = ()>) -> Vec<String> {
        let ops = self.ops();
        let ending = self.end(order);
        tokio::pin!(ending, hurry);
        tokio::select! {
            said = &mut ending => return said,
            () = &mut hurry => {}
        }
        // Gone already is as good.
        let _ = ops.send(Op::Interrupt).await;
        ending.await
    }

    async fn end(self, order: Op) -> Vec<String> {
        // A closed channel means that the actor is gone already.
        let _ = self.handle.ops.send(order).await;
        self.handle.join().await;
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
        trim_outputs(&self.launch, &self.id).await;
        let had_background = self.toolbox.had_background().await;
        self.toolbox.close().await;
        let (homes, directory) = (self.launch.homes(), self.launch.options.directory.clone());
        let id = self.id.clone();
        let clearing = tokio::task::spawn_blocking(move || {
            encrypted_sessions::clear_elsewhere(&homes, &directory, &id);
        });
        // Memory forgets it at the latest when the user signs out.
        drop(clearing.await);
        let Some(versions) = self.versions else { return Vec::new() };
        let person = self.launch.options.interactive;
        let settling = tokio::task::spawn_blocking(move || versions.settle(had_background, person));
        settling.await.unwrap_or_default()
    }
}

/// Makes room among the kept outputs of all sessions, when this one kept any.
async fn trim_outputs(launch: &Launch, id: &SessionId) {
    let homes = launch.homes();
    let own = homes.artifacts(&launch.options.directory, id).tool_outputs();
    let trimming = tokio::task::spawn_blocking(move || {
        let kept_any = own.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if kept_any {
            parallax_store::trim_outputs(&homes, parallax_store::OUTPUTS_LIMIT, &own);
        }
    });
    // A panic there is a defect of ours; the next session tries again.
    drop(trimming.await);
}

impl Launch {
    /// Opens the session. Must run on a tokio runtime.
    ///
    /// The reader tells everything that happens, from the beginning.
    ///
    /// # Errors
    /// Missing credentials, a session that is not there, folders that cannot be
    /// included.
    pub fn open(mut self) -> Result<(OpenSession, EventReader), Failure> {
        let mut warnings = self.warnings.clone();
        self.require_sandbox()?;
        warnings.extend(self.extensions().warnings.iter().cloned());
        warnings.extend(self.extensions_of_no_name());
        self.check_keys()?;
        let resumed = history::open(&self)?;
        warnings.extend(resumed.notices.iter().cloned());
        let (workspace, artifacts, notices) = self.workspace(&resumed)?;
        warnings.extend(notices);
        let workspace = Arc::new(workspace);
        let seen = Arc::new(SeenFiles::default());
        let hub = EventHub::new();
        let events = hub.subscribe();
        let model = model::open(&self, workspace.root())?;
        let scripted = model.is_scripted();
        let budget = self.budget(&resumed.records, model.as_ref());
        let budget = budget.asking(self.options.budget_questions);
        let ledger = budget.ledger();
        let metered: Arc<dyn Model> =
            Arc::new(Metered::new(Arc::clone(&model), hub.clone()).counted(budget.ledger()));
        let metered_model = Arc::clone(&metered);
        let model_name = self.model_name();
        warnings.extend(self.model_table().doubts(&model_name));
        let shell = toolbox::shell_options(&self, artifacts.clone());
        let skills = self.skills();
        warnings.extend(skills.warnings.iter().cloned());
        let entries = skills::entries(&skills, &self.extensions());
        let plans = self.plans_folder(&workspace, &mut warnings);
        let toolbox =
            toolbox::build(&self, &workspace, &seen, artifacts.clone(), metered, entries, &plans);
        self.sampling = Some(Sampling {
            model: Arc::clone(&metered_model),
            main: toolbox.main_model(Arc::clone(&metered_model)),
            tokens: self.config.settings.count("mcp.samplingTokens").unwrap_or(0),
        });
        warnings.extend(self.sandbox_table().1);
        let versions = self.versions(&resumed.id, &workspace, &seen);
        let (agents, notices) = self.session_agents(
            &workspace,
            &seen,
            toolbox.processes(),
            shell.sandbox.clone(),
            &versions,
            &artifacts,
        );
        warnings.extend(notices);
        let set = agents.as_ref().map(|agents| agents.set()).unwrap_or_default();
        let (policy, notices) = self.policy_for(Unasked {
            plans: Some(plans.clone()),
            skills: skills::of_the_program(&skills),
            agent_servers: trusted_servers(&set),
            agent_rules: crate::agents::rules(&set),
        });
        let judge: Arc<dyn Judge> = Arc::new(policy);
        warnings.extend(notices);
        let (servers, notices) = self.open_servers(
            &workspace,
            toolbox.processes(),
            shell.sandbox.clone(),
            &versions,
            &hub,
        );
        warnings.extend(notices);
        if let Some(servers) = &servers {
            servers.start();
        }
        let memory = crate::memory::gather(&self, &workspace, &resumed.contents);
        warnings.extend(memory.warnings);
        let found =
            Arc::new(FoundContext::new(self.clone(), Arc::clone(&workspace), memory.files.clone()));
        let id = resumed.id.clone();
        let mode = self.mode;
        let folders = Arc::clone(&workspace);
        let added = Arc::clone(&workspace);
        let store: Arc<dyn Store> =
            if self.options.ephemeral { Arc::new(NoStore) } else { Arc::new(resumed.journal) };
        if self.wants_name(&resumed.records) {
            session_names::name(hub.subscribe(), Arc::clone(&metered_model), Arc::clone(&store));
        }
        let discovered =
            self.discover(shell.clone(), toolbox.processes(), versions.clone(), hub.clone());
        let checkpoints = versions.clone().map(|versions| versions as Arc<dyn Checkpoints>);
        let expander =
            Expander::new(&workspace, &seen, servers.clone()).with_agents(agents.clone());
        let expander = expander
            .with_found(Arc::clone(&found) as Arc<dyn FolderContext>)
            .with_search(FileSearch {
                recursive: self
                    .config
                    .settings
                    .flag("context.fileFiltering.enableRecursiveFileSearch"),
                loose: self.config.settings.flag("context.fileFiltering.enableFuzzySearch"),
            });
        let (hooks, notices) = self.session_hooks(|| hooks::Surroundings {
            processes: toolbox.processes(),
            shell: shell.clone(),
            session: id.as_str().to_owned(),
            journal: self.homes().journal(&self.options.directory, &id),
            keys: self.homes().keys,
            transcript: self.keeps_clear_text().then(|| artifacts.join(hooks::TRANSCRIPT)),
            plans: plans.clone(),
            versions: versions.clone(),
            trace: self.keeps_clear_text().then(|| artifacts.join(hooks::TRACE)),
        })?;
        warnings.extend(notices);
        let hears = |hooks: &Arc<dyn Hooks>| hooks.listens(HookEvent::SessionEnd, false);
        let end_hooks = hooks.as_ref().is_some_and(hears);
        let files = self.prompt_files()?;
        warnings.extend(files.warnings.iter().cloned());
        let prompt = system::Material {
            flags: self.prompt_flags(&workspace, hooks.is_some()),
            files,
            off: self.switched_off_sections(),
            append: self.options.append_system_prompt.clone(),
            skills: skills::section(&skills),
            agents: agents.clone(),
            tools: toolbox.tools().iter().map(|tool| tool.spec().name.clone()).collect(),
            memory: memory.system,
            plans: plans.clone(),
            notes: self.homes().notes(&self.options.directory),
        };
        let offered = self.offered(&toolbox.tools(), judge.as_ref());
        system::write_built_in(&prompt, mode, &offered)?;
        let commands = self.commands(custom_commands::Surroundings {
            workspace: Arc::clone(&workspace),
            seen: Arc::clone(&seen),
            judge: Arc::clone(&judge),
            shell,
            processes: toolbox.processes(),
            servers: servers.clone(),
            skills: skills::commands(&skills, &self.extensions()),
        });
        let plan = AgreedPlan::of(resumed.records.iter(), resumed.contents.len());
        let handle = parallax_engine::start(
            SessionOptions {
                id: id.clone(),
                model,
                model_name: model_name.clone(),
                tools: toolbox.tools(),
                more_tools: MoreTools { discovered, servers: servers.clone() }.source(),
                agents: agents.clone().map(|agents| agents as Arc<dyn Agents>),
                judge,
                store,
                mode: self.mode,
                interactive: self.options.interactive,
                replaces: self.options.session == SessionChoice::Clear,
                trusted: self.config.trust.trusted,
                workspace: Arc::new(move || folders.roots()),
                add_directory: Box::new(move |path| {
                    added.add_root(&path).map_err(|error| error.to_string())
                }),
                describe_directories: self.describe_directories(&workspace),
                directories: directories(resumed.records.iter()).to_vec(),
                model_changed: toolbox.follow(),
                system: system::prompt(prompt),
                preface: memory.preface,
                sources: memory.sources,
                folder_context: Some(Arc::clone(&found) as Arc<dyn FolderContext>),
                pending: resumed.pending,
                cut_off: resumed.cut_off,
                history: resumed.contents,
                compactions: resumed.compactions,
                pins: resumed.pins,
                room: self.room(&artifacts, &id),
                // What an alias sets goes by its name, with each request.
                generation: parallax_protocol::Object::new(),
                max_turns: self.max_turns(),
                budget,
                routing: self.routing(),
                max_attempts: None,
                loop_detection: self.config.settings.loop_detection(),
                retry_base: self.retry_base(),
                approvals: self.approvals(),
                rule_keeper: Some(Arc::new(self.rule_keeper())),
                checkpoints,
                is_build_file: parallax_policy::is_build_file,
                turns: resumed.turns,
                prompts: resumed.prompts,
                plan,
                shell: Some(toolbox.shell()),
                hooks,
                secrets: self.own_keys(),
            },
            hub,
        );
        warnings.extend(self.clean_beside(&id));
        let session = OpenSession {
            workspace: Arc::clone(&workspace),
            found,
            launch: self,
            id,
            model: model_name,
            mode,
            scripted,
            warnings,
            context_files: memory.files,
            expander,
            commands,
            plans,
            past: resumed.records,
            cut_off: resumed.cut_off,
            handle,
            toolbox,
            versions,
            servers,
            agents,
            ledger,
            end_hooks,
        };
        Ok((session, events))
    }

    /// Whether a model is to name the session. A headless run would be over before
    /// it has its name.
    fn wants_name(&self, records: &[Record]) -> bool {
        let named = |record: &Record| matches!(record, Record::Name(_));
        self.options.interactive
            && self.config.settings.text("general.sessionNames").as_deref() == Some("model")
            && !records.iter().any(named)
    }

    /// What the system prompt is told of the session's surroundings.
    fn prompt_flags(&self, workspace: &Workspace, hooks: bool) -> Flags<'static> {
        Flags {
            interactive: self.options.interactive,
            git: system::in_git(workspace.root()),
            sandbox: self.confinement(),
            hooks,
            ..Flags::default()
        }
    }

    /// Lets old sessions of the project go, in the background; gives why not, where
    /// the settings contradict themselves.
    fn clean_beside(&self, id: &SessionId) -> Option<String> {
        let (retention, warning) = self.retention();
        if let Some(rule) = retention.filter(|_| !self.options.ephemeral) {
            let (homes, project) = (self.homes(), self.options.directory.clone());
            let id = id.clone();
            tokio::task::spawn_blocking(move || {
                Self::clean_lazily(&homes, &project, &rule, &id);
            });
        }
        warning
    }

    /// `~/x` as people write it in settings and flags.
    pub(crate) fn expand_home(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.config.environment.get("HOME")) {
            (Ok(rest), Some(home)) => Path::new(home).join(rest),
            _ => path.to_owned(),
        }
    }

    pub(crate) fn homes(&self) -> parallax_store::Homes {
        encrypted_sessions::homes(&self.config)
    }
}
