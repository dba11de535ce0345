//! An open session: its accessors for front ends, and closing it.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_agents::{SessionAgents, SessionSkills};
use parallax_checkpoints::CheckpointManager;
use parallax_commands::{Commands, Expander, built_in_names, strip_parallax_prefix};
use parallax_context_files::{ContextFile, NestedContext};
use parallax_devtools::TapSocket;
use parallax_engine::{EventBus, EventReader, Ledger, SessionHandle, SharedPolicyEngine};
use parallax_files::Workspace;
use parallax_mcp::Servers;
use parallax_protocol::budget::BudgetUse;
use parallax_protocol::content::Role;
use parallax_protocol::hooks::HookEvent;
use parallax_protocol::ids::SessionId;
use parallax_protocol::op::Op;
use parallax_protocol::policy::{ApprovalMode, SuggestedRule};
use parallax_protocol::routing::Route;
use parallax_protocol::store::Record;
use parallax_sessions::encrypted_sessions;
use parallax_sessions::session_stats::SessionStats;
use parallax_store::JournalLockHandover;
use parallax_telemetry::Telemetry;

use crate::closing_notice::ClosingNotice;
use crate::session_config::SessionConfig;
use crate::{OpSender, toolbox};

mod opening;
mod setup;

/// A session that accepts prompts.
pub struct OpenSession {
    /// Id of the session.
    pub id: SessionId,
    /// The requested model.
    pub model: String,
    /// Approval mode at the start.
    pub mode: ApprovalMode,
    /// Whether responses come from a script or a recording.
    pub scripted: bool,
    /// Warnings to show before the first prompt.
    pub warnings: Vec<String>,
    /// The context files that the model has received.
    pub context_files: Vec<PathBuf>,
    /// Expands `@path` in prompts.
    pub expander: Expander,
    /// The custom slash commands.
    pub commands: Commands,
    /// Directory for plans, with symbolic links resolved.
    pub(crate) plans: PathBuf,
    initial_records: Arc<[Record]>,
    was_interrupted: bool,
    handle: SessionHandle,
    policy_engine: SharedPolicyEngine,
    bus: EventBus,
    pub(crate) toolbox: toolbox::Toolbox,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) nested_context: Arc<NestedContext>,
    pub(crate) launch: SessionConfig,
    pub(crate) checkpoint_manager: Option<Arc<CheckpointManager>>,
    servers: Option<Servers>,
    agents: Option<Arc<SessionAgents>>,
    skills: Arc<SessionSkills>,
    ledger: Ledger,
    end_hooks: bool,
    telemetry: Option<Arc<Telemetry>>,
    tap: Option<TapSocket>,
}

impl OpenSession {
    /// Returns the operation that records the use of a slash command. Other words after a slash are
    /// content and are not recorded. The first call blocks, because it reads command files.
    pub fn command_record(&self, name: &str) -> Option<Op> {
        let plain = strip_parallax_prefix(name).unwrap_or(name);
        let is_known =
            built_in_names().any(|known| known == plain) || self.commands.has_command(name);
        is_known.then(|| Op::RecordCommand(name.to_owned()))
    }

    /// Returns the usage before the session was opened, to continue counting.
    pub fn initial_stats(&self) -> SessionStats {
        let table = self.launch.provider_manager().model_table();
        // Scripted responses cost nothing.
        SessionStats::from_records(&self.initial_records(), |name| {
            table.price(name).filter(|_| !self.scripted)
        })
    }

    /// Returns the subagents, unless they are disabled.
    pub fn agents(&self) -> Option<Arc<SessionAgents>> {
        self.agents.clone()
    }

    /// Returns the skills.
    pub fn skills(&self) -> Arc<SessionSkills> {
        Arc::clone(&self.skills)
    }

    /// Returns the MCP servers, if any are configured.
    pub fn mcp(&self) -> Option<&Servers> {
        self.servers.as_ref()
    }

    /// Returns the rules that the user added for this session. They are not stored: a front end
    /// that reopens the session passes them on ([`crate::LaunchOptions::session_rules`]).
    pub fn session_rules(&self) -> Vec<SuggestedRule> {
        self.policy_engine.added_rules()
    }

    /// Returns the records that the session started with, for display
    /// ([`parallax_sessions::recorded_items`]). They are shared, not copied.
    pub fn initial_records(&self) -> Arc<[Record]> {
        Arc::clone(&self.initial_records)
    }

    /// Returns the model of the last answer before the session was opened.
    pub fn answered_before(&self) -> Option<String> {
        self.initial_records().iter().rev().find_map(|record| match record {
            Record::Content(content) if content.wire.role() == Role::Model => content.model.clone(),
            _ => None,
        })
    }

    /// Returns the routing decision for the last answer before the session was opened.
    pub fn route_before(&self) -> Option<Route> {
        let past = self.initial_records();
        let route = past.iter().rev().find_map(|record| match record {
            Record::Route(chosen) => Some(&chosen.route),
            _ => None,
        });
        // A later prompt may have selected its model explicitly.
        let last = self.answered_before();
        route.filter(|route| last.is_none_or(|last| last == route.model)).cloned()
    }

    /// Returns a function that reads the current records of the session from its journal. The
    /// function blocks.
    pub fn journal_reader(&self) -> impl FnOnce() -> Vec<Record> + Send + 'static {
        let dirs = self.launch.dirs();
        let path = dirs.journal(&self.launch.options.directory, &self.id);
        // A session without a prompt has no journal yet.
        move || parallax_store::load(&path, &dirs.keys).map_or_else(|_| Vec::new(), |it| it.records)
    }

    /// Returns whether the last turn of the session was cut off, so that [`Op::Continue`] resumes
    /// it.
    pub fn is_cut_off(&self) -> bool {
        self.was_interrupted
    }

    /// Returns limits and use of the budgets: first of the session, then of the running or last
    /// prompt.
    pub fn budgets(&self) -> Vec<BudgetUse> {
        self.ledger.budget_uses()
    }

    /// Returns the ledger that counts cost and tokens, for work that happens before a turn begins.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Returns the current context files, the user's first. The session received them when it was
    /// opened; later changes reach the model when it is closed and resumed. Blocking.
    pub fn context_files(&self) -> Vec<ContextFile> {
        let sources = self.launch.context_sources();
        parallax_context_files::context_files(&sources, &self.workspace, &self.nested_context)
    }

    /// Returns the workspace directories, the working directory first.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.workspace.roots()
    }

    /// Returns whether the session is stored on disk and can be resumed. A session without a prompt
    /// is not.
    pub fn is_resumable(&self) -> bool {
        self.launch.is_resumable(&self.id)
    }

    /// Keeps other processes from opening the session while it is closed and reopened here,
    /// until the result is dropped.
    pub fn begin_lock_handover(&self) -> JournalLockHandover {
        let directory = &self.launch.options.directory;
        JournalLockHandover::begin(self.launch.dirs().journal(directory, &self.id))
    }

    /// Returns the configuration that opened the session.
    pub fn launch(&self) -> &SessionConfig {
        &self.launch
    }

    /// Returns the sender for operations.
    pub fn ops(&self) -> OpSender {
        self.handle.ops.clone()
    }

    /// Returns another reader of the events, which gets all events from now on.
    pub fn subscribe(&self) -> EventReader {
        self.bus.subscribe()
    }

    /// Closes the session: cancels and saves the running turn and ends child processes. Returns
    /// notices for the user.
    pub async fn close(self) -> Vec<String> {
        self.end(Op::Shutdown).await.into_iter().map(|notice| notice.text).collect()
    }

    /// Closes the session like [`Self::close`], but stops waiting for its end hooks when `hurry`
    /// completes.
    pub async fn close_with_limit(self, hurry: impl Future<Output = ()>) -> Vec<ClosingNotice> {
        self.end_until(Op::Shutdown, hurry).await
    }

    /// Closes the session like [`Self::close_with_limit`] because a new session replaces it
    /// ([`SessionChoice::Clear`]).
    pub async fn clear_until(self, hurry: impl Future<Output = ()>) -> Vec<ClosingNotice> {
        self.end_until(Op::Clear, hurry).await
    }

    /// Returns whether hooks run when the session ends, which may take a while.
    pub fn has_end_hooks(&self) -> bool {
        self.end_hooks
    }

    /// Returns the names of the hooks that run when the session ends. Blocking: reads the settings
    /// files.
    pub fn end_hooks(&self) -> Vec<String> {
        let hooks = self.launch.hook_library().list().map(|list| list.hooks).unwrap_or_default();
        let runs = |hook: &&parallax_config::hooks::Hook| {
            hook.event == HookEvent::SessionEnd && hook.accepted && !hook.disabled
        };
        hooks.iter().filter(runs).map(|hook| hook.title().to_owned()).collect()
    }

    async fn end_until(self, op: Op, hurry: impl Future<Output = ()>) -> Vec<ClosingNotice> {
        let ops = self.ops();
        let shutdown = self.end(op);
        tokio::pin!(shutdown, hurry);
        tokio::select! {
            output = &mut shutdown => return output,
            () = &mut hurry => {}
        }
        // Fails only if the session has ended already.
        let _ = ops.send(Op::Interrupt).await;
        shutdown.await
    }

    async fn end(self, op: Op) -> Vec<ClosingNotice> {
        // Fails only if the session actor has ended already.
        let _ = self.handle.ops.send(op).await;
        self.handle.join().await;
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
        let lost = match &self.telemetry {
            Some(telemetry) => telemetry.flush().await,
            None => Vec::new(),
        };
        let mut notes: Vec<ClosingNotice> = lost.into_iter().map(ClosingNotice::failure).collect();
        if let Some(tap) = self.tap {
            tap.close().await;
        }
        trim_outputs(&self.launch, &self.id).await;
        let had_background = self.toolbox.had_background().await;
        // At the end of a run without a user, its commands are terminated as expected.
        if self.launch.options.interactive {
            notes.extend(self.toolbox.background_commands_notice().await.map(ClosingNotice::info));
        }
        let replaced = self.toolbox.close().await;
        let (dirs, directory) = (self.launch.dirs(), self.launch.options.directory.clone());
        let id = self.id.clone();
        let clear_task = tokio::task::spawn_blocking(move || {
            encrypted_sessions::remove_session_files(&dirs, &directory, &id);
        });
        // If this fails, the files are in memory and disappear when the user logs out.
        drop(clear_task.await);
        notes.extend(replaced.into_iter().map(ClosingNotice::info));
        let Some(checkpoint_manager) = self.checkpoint_manager else { return notes };
        let interactive = self.launch.options.interactive;
        let finish_task = tokio::task::spawn_blocking(move || {
            checkpoint_manager.finish_session(had_background, interactive)
        });
        notes.extend(finish_task.await.unwrap_or_default().into_iter().map(ClosingNotice::info));
        notes
    }
}

/// Trims the stored tool outputs of all sessions if this session stored any.
async fn trim_outputs(launch: &SessionConfig, id: &SessionId) {
    let dirs = launch.dirs();
    let own = dirs.artifacts(&launch.options.directory, id).tool_outputs();
    let trim_task = tokio::task::spawn_blocking(move || {
        let kept_any = own.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if kept_any {
            parallax_store::trim_outputs(&dirs, parallax_store::OUTPUTS_LIMIT, &own);
        }
    });
    // A panic in the task would be a bug; the next session trims again.
    drop(trim_task.await);
}
