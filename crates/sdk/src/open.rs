//! A session that is open: what faces ask of it, and its end.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_engine::{Ledger, SessionHandle};
use parallax_files::Workspace;
use parallax_mcp::Servers;
use parallax_protocol::budget::BudgetUse;
use parallax_protocol::hooks::HookEvent;
use parallax_protocol::ids::SessionId;
use parallax_protocol::op::Op;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::Record;

use crate::agents::SessionAgents;
use crate::custom_commands::Commands;
use crate::expand::Expander;
use crate::found_context::FoundContext;
use parallax_telemetry::Telemetry;

use crate::launch::Launch;
use crate::skills::SessionSkills;
use crate::versions::Versions;
use crate::{OpSender, encrypted_sessions, toolbox};

mod by_settings;
mod opening;

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
    skills: Arc<SessionSkills>,
    ledger: Ledger,
    end_hooks: bool,
    telemetry: Option<Arc<Telemetry>>,
}

impl OpenSession {
    /// The sub-agents, unless they are switched off.
    pub fn agents(&self) -> Option<Arc<SessionAgents>> {
        self.agents.clone()
    }

    /// The skills.
    pub fn skills(&self) -> Arc<SessionSkills> {
        Arc::clone(&self.skills)
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

    /// Reads the records that the session has by now from its journal. Blocking when called.
    pub fn journal_reader(&self) -> impl FnOnce() -> Vec<Record> + Send + 'static {
        let homes = self.launch.homes();
        let path = homes.journal(&self.launch.options.directory, &self.id);
        // One without a prompt has no journal yet.
        move || {
            parallax_store::load(&path, &homes.keys).map_or_else(|_| Vec::new(), |it| it.records)
        }
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

    /// What the hooks of its end are called. Blocking: it reads where they stand.
    pub fn end_hooks(&self) -> Vec<String> {
        let hooks = self.launch.hook_list().map(|list| list.hooks).unwrap_or_default();
        let runs = |hook: &&parallax_config::hooks::Hook| {
            hook.event == HookEvent::SessionEnd && hook.accepted && !hook.disabled
        };
        hooks.iter().filter(runs).map(|hook| hook.title().to_owned()).collect()
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
        let mut notes = match &self.telemetry {
            Some(telemetry) => telemetry.flush().await,
            None => Vec::new(),
        };
        trim_outputs(&self.launch, &self.id).await;
        let had_background = self.toolbox.had_background().await;
        let replaced = self.toolbox.close().await;
        let (homes, directory) = (self.launch.homes(), self.launch.options.directory.clone());
        let id = self.id.clone();
        let clearing = tokio::task::spawn_blocking(move || {
            encrypted_sessions::clear_elsewhere(&homes, &directory, &id);
        });
        // Memory forgets it at the latest when the user signs out.
        drop(clearing.await);
        notes.extend(replaced);
        let Some(versions) = self.versions else { return notes };
        let person = self.launch.options.interactive;
        let settling = tokio::task::spawn_blocking(move || versions.settle(had_background, person));
        notes.extend(settling.await.unwrap_or_default());
        notes
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
