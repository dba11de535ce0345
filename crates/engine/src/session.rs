//! The session actor: owns the state, receives prompts, and ends the session.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax_protocol::agent::{Agents, KeptWork};
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::content::Content;
use parallax_protocol::content::Sealed;
use parallax_protocol::context::{EditorContext, FolderContext, ResultPlace, Source};
use parallax_protocol::event::{
    BudgetSpent, ContextUsed, EndReason, EventBody, SessionReady, SteerFate, TurnEnded, Undone,
};
use parallax_protocol::hooks::{HookOutcome, Hooks};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::op::{Op, TurnOverrides};
use parallax_protocol::policy::{ApprovalMode, Judge, RuleKeeper, Taint};
use parallax_protocol::routing::Route;
use parallax_protocol::shell::Shell;
use parallax_protocol::store::{CompactionRecord, PromptMark, Record, Store, UnfinishedAnswer};
use parallax_protocol::tool::{Tool, ToolSource};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::agents::{AgentRole, InvokeAgent, SubagentManager};
use crate::approval::Approvals;
use crate::availability::ModelAvailability;
use crate::budget::Budget;
use crate::compaction::{CompactionOptions, CompactionState};
use crate::event_bus::EventBus;
use crate::history::{History, now};
use crate::inbox::{AddDirectory, Inbox, ModelChanged, QueuedInput, TurnInput};
use crate::planning::ApprovedPlan;
use crate::prompts::Prompts;
use crate::registry::{Registry, ToolDeclarations};
use crate::routing::RoutingOptions;
use crate::view::contents_of;

/// Capacity of the operation queue; a front end that floods it waits.
const OP_QUEUE: usize = 64;
/// Shorter values may occur in texts by chance.
const SHORTEST_SECRET: usize = 8;

/// Describes directories for the model.
pub type DescribeDirectories = Arc<dyn Fn(&[PathBuf]) -> String + Send + Sync>;

/// Builds the system prompt for a mode and the declared tools. Equal inputs give equal bytes.
pub type SystemPrompt = Box<dyn Fn(ApprovalMode, &[String]) -> Arc<str> + Send + Sync>;

/// Everything that a session consists of.
pub struct SessionOptions {
    /// Its id.
    pub id: SessionId,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The configured model: a name or an alias.
    pub model_name: String,
    /// The tools, in declaration order.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Dynamic tools, declared after the others.
    pub more_tools: Option<Arc<dyn ToolSource>>,
    /// Agents that it can start; enables the `invoke_agent` tool.
    pub agents: Option<Arc<dyn Agents>>,
    /// Decides about calls.
    pub judge: Arc<dyn Judge>,
    /// Receives the records.
    pub store: Arc<dyn Store>,
    /// The initial approval mode.
    pub mode: ApprovalMode,
    /// Whether a user can respond.
    pub interactive: bool,
    /// Whether events keep whole files beside the diffs of edits, for editors.
    pub keeps_file_texts: bool,
    /// Whether it replaces a session that was cleared ([`Op::Clear`]).
    pub replaces: bool,
    /// Whether the folder is trusted.
    pub trusted: bool,
    /// The current workspace directories.
    pub workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Adds a workspace directory.
    pub add_directory: AddDirectory,
    /// Describes added directories for the model. Blocking.
    pub describe_directories: DescribeDirectories,
    /// The additional directories that the journal has recorded.
    pub directories: Vec<PathBuf>,
    /// Called when the model changes.
    pub model_changed: ModelChanged,
    /// The system prompt.
    pub system: SystemPrompt,
    /// Context for the first prompt of this process: the session context of a new session, or a
    /// note on what changed since.
    pub preface: Option<String>,
    /// The contents of a resumed session.
    pub history: Vec<Sealed>,
    /// Whether its newest turn was interrupted: the last content may be a partial response.
    pub cut_off: bool,
    /// The answer that was being received then, which the service can continue.
    pub unfinished: Option<UnfinishedAnswer>,
    /// The active compactions of a resumed session, oldest first.
    pub compactions: Vec<CompactionRecord>,
    /// When the history is compacted, and what stays.
    pub room: CompactionOptions,
    /// Results that the user pinned.
    pub pins: BTreeSet<ResultPlace>,
    /// The files that the system prompt and the context were made from.
    pub sources: Vec<Source>,
    /// Finds context files for directories that tools use.
    pub folder_context: Option<Arc<dyn FolderContext>>,
    /// The files that are open in the user's editor.
    pub editor_context: Option<Arc<dyn EditorContext>>,
    /// Results of the last, unfinished batch of a resumed session (the program was killed), by call
    /// index: wire parts as journaled.
    pub pending: BTreeMap<usize, Box<RawValue>>,
    /// Generation settings from the user, in wire spelling.
    pub generation: Object,
    /// Maximum number of model requests in this process; `None` = no limit.
    pub max_turns: Option<u32>,
    /// The budget.
    pub budget: Budget,
    /// How models are routed, and what happens when one is unavailable.
    pub routing: RoutingOptions,
    /// Attempts of one request before its first chunk; `None` = the model's default.
    pub max_attempts: Option<u32>,
    /// Whether loop detection is enabled.
    pub loop_detection: bool,
    /// The first wait after a broken stream; it doubles.
    pub retry_base: Duration,
    /// How long approvals may apply.
    pub approvals: Approvals,
    /// Saves rules on disk.
    pub rule_keeper: Option<Arc<dyn RuleKeeper>>,
    /// Checkpoints of the files that the agent changes.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// Whether changing the file changes what the next build runs.
    pub is_build_file: fn(&Path) -> bool,
    /// The number of the session's last prompt before this process, including rewound ones.
    pub turns: u64,
    /// The prompts in `history`.
    pub prompts: Vec<PromptMark>,
    /// The approved plan of a resumed session.
    pub plan: Option<ApprovedPlan>,
    /// Runs the user's commands; `None`: this session has none.
    pub shell: Option<Arc<dyn Shell>>,
    /// The user's hooks, if any.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Values (keys) that neither the model nor the journal may get; redacted in tool results and
    /// prompts.
    pub secrets: Vec<String>,
}

/// The handle of a running session.
pub struct SessionHandle {
    /// Where operations go.
    pub ops: mpsc::Sender<Op>,
    task: JoinHandle<()>,
}

impl SessionHandle {
    /// Waits until the session is over. Send [`Op::Shutdown`] or drop every sender first.
    pub async fn join(self) {
        drop(self.ops);
        // A panic in the actor is a bug that the crash report has already covered.
        let _ = self.task.await;
    }
}

/// The actor's state.
pub(crate) struct Session {
    pub(crate) hub: EventBus,
    pub(crate) inbox: Inbox,
    pub(crate) history: History,
    pub(crate) registry: Registry,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) judge: Arc<dyn Judge>,
    pub(crate) interactive: bool,
    pub(crate) keeps_file_texts: bool,
    pub(crate) replaces: bool,
    pub(crate) trusted: bool,
    pub(crate) workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    pub(crate) describe_directories: DescribeDirectories,
    /// The additional directories that the journal has recorded.
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) system: SystemPrompt,
    pub(crate) preface: Option<String>,
    pub(crate) pending: BTreeMap<usize, Box<RawValue>>,
    /// Whether the newest response may be partial.
    pub(crate) is_last_answer_partial: bool,
    /// The answer of an earlier process that the next request continues.
    pub(crate) unfinished: Option<UnfinishedAnswer>,
    pub(crate) generation: Object,
    pub(crate) max_turns: Option<u32>,
    pub(crate) routing: RoutingOptions,
    /// The availability of models.
    pub(crate) models: ModelAvailability,
    /// The route of the running prompt, once selected.
    pub(crate) route: Option<Route>,
    /// Whether that happened in plan mode.
    pub(crate) routed_in_plan_mode: bool,
    /// The model of the previous prompt.
    pub(crate) last_model: Option<String>,
    /// The fast model failed at the previous prompt.
    pub(crate) fast_model_failed: bool,
    pub(crate) budget: Budget,
    /// The prompt of the running turn was removed from the history.
    pub(crate) taken_back: bool,
    /// The time limit that ended the running turn.
    pub(crate) timed_out: Arc<OnceLock<BudgetSpent>>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) loop_detection: bool,
    pub(crate) retry_base: Duration,
    pub(crate) approvals: Approvals,
    pub(crate) rule_keeper: Option<Arc<dyn RuleKeeper>>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints>>,
    pub(crate) is_build_file: fn(&Path) -> bool,
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    /// The tools that hooks selected for the newest response; `None`: all.
    pub(crate) chosen_tools: Option<Vec<String>>,
    /// The overrides of the running turn.
    pub(crate) overrides: Option<TurnOverrides>,
    /// Whether `yolo` is active because a rule approved a plan, not because the user set it.
    pub(crate) yolo_by_rule: bool,
    /// Whether the session started in `yolo`.
    pub(crate) began_in_yolo: bool,
    /// Changed tools that the user was warned about.
    pub(crate) warned_tools: HashSet<String>,
    /// Whether calls are run again after a restore.
    pub(crate) is_rerun: bool,
    /// The mode to return to after a prompt that overrides it.
    pub(crate) mode_before_override: Option<ApprovalMode>,
    /// The running session-start hooks.
    pub(crate) starting: JoinSet<HookOutcome>,
    /// The running notification hooks.
    pub(crate) notified: JoinSet<()>,
    /// The context that session-start hooks add to the first prompt.
    pub(crate) hook_context: Option<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) taint: Taint,
    pub(crate) prompts: Prompts,
    pub(crate) compacting: CompactionState,
    /// The last approved plan.
    pub(crate) plan: Option<ApprovedPlan>,
    pub(crate) sources: Vec<Source>,
    pub(crate) folder_context: Option<Arc<dyn FolderContext>>,
    pub(crate) editor_context: Option<Arc<dyn EditorContext>>,
    /// The context usage reported last.
    pub(crate) reported_context: Option<ContextUsed>,
    /// The turn, counted over all processes of the session.
    pub(crate) turn: u64,
    /// Number of requests to the user, for ids.
    pub(crate) asks: u64,
    /// Whether the current prompt runs in coordinator mode.
    pub(crate) is_coordinator: bool,
    /// The tool declarations for the mode of the last request.
    pub(crate) declared: Option<(ApprovalMode, ToolDeclarations)>,
    /// Tools that are excluded because the service rejects their schemas.
    pub(crate) rejected_tools: HashSet<String>,
    /// Number of model requests.
    pub(crate) requests: u32,
    /// The same before the running turn.
    pub(crate) requests_at_prompt: u32,
    /// Number of calls, for generated ids.
    pub(crate) calls: u64,
    /// Number of items, for their ids.
    pub(crate) items: u64,
    /// Its role, if it is a subagent.
    pub(crate) role: Option<AgentRole>,
    /// The manager of its subagents.
    pub(crate) subagents: Option<Arc<SubagentManager>>,
    /// Subagent runs that an earlier process left interrupted.
    pub(crate) interrupted_work: Vec<KeptWork>,
    /// Call ids from the server, to detect duplicates.
    pub(crate) known_ids: HashSet<String>,
}

/// Starts the actor on the current runtime. Subscribe to the bus before, so that no event is
/// missed.
pub fn start(options: SessionOptions, hub: EventBus) -> SessionHandle {
    launch(options, None, hub)
}

/// Starts the actor; with a role it is a subagent.
pub(crate) fn launch(
    mut options: SessionOptions,
    role: Option<AgentRole>,
    hub: EventBus,
) -> SessionHandle {
    let (ops, inbox) = mpsc::channel(OP_QUEUE);
    let subagents = options.agents.take().map(|agents| {
        let subagents =
            Arc::new(SubagentManager::new(agents, &mut options, hub.clone(), &ops, role.is_some()));
        options.tools.push(Arc::new(InvokeAgent::new(Arc::clone(&subagents))));
        subagents
    });
    let ready = SessionReady {
        session: options.id.clone(),
        model: options.model_name.clone(),
        mode: options.mode,
        resumed: !options.history.is_empty(),
        scripted: options.model.catalog().is_scripted(),
    };
    let mut session = Session {
        inbox: Inbox::new(
            inbox,
            hub.clone(),
            options.add_directory,
            options.model_changed,
            (options.mode, options.model_name),
            options.shell,
        ),
        hub: hub.clone(),
        history: History::new(options.history, options.compactions, options.pins, options.store),
        registry: Registry::new(options.tools, options.more_tools),
        model: options.model,
        judge: options.judge,
        interactive: options.interactive,
        keeps_file_texts: options.keeps_file_texts,
        replaces: options.replaces,
        trusted: options.trusted,
        workspace: options.workspace,
        describe_directories: options.describe_directories,
        directories: options.directories,
        system: options.system,
        preface: options.preface,
        pending: options.pending,
        is_last_answer_partial: options.cut_off,
        unfinished: options.unfinished,
        generation: options.generation,
        max_turns: options.max_turns,
        routing: options.routing,
        models: ModelAvailability::default(),
        route: None,
        routed_in_plan_mode: false,
        last_model: None,
        fast_model_failed: false,
        budget: options.budget,
        taken_back: false,
        timed_out: Arc::default(),
        max_attempts: options.max_attempts,
        loop_detection: options.loop_detection,
        retry_base: options.retry_base,
        approvals: options.approvals,
        rule_keeper: options.rule_keeper,
        checkpoints: options.checkpoints,
        is_build_file: options.is_build_file,
        hooks: options.hooks,
        chosen_tools: None,
        overrides: None,
        yolo_by_rule: false,
        began_in_yolo: options.mode == ApprovalMode::Yolo,
        warned_tools: HashSet::new(),
        is_rerun: false,
        mode_before_override: None,
        starting: JoinSet::new(),
        notified: JoinSet::new(),
        hook_context: None,
        secrets: options.secrets,
        taint: Taint::default(),
        prompts: Prompts::new(options.prompts),
        reported_context: None,
        compacting: CompactionState::new(options.room),
        plan: options.plan,
        sources: options.sources,
        folder_context: options.folder_context,
        editor_context: options.editor_context,
        turn: options.turns,
        asks: 0,
        is_coordinator: false,
        declared: None,
        rejected_tools: HashSet::new(),
        requests: 0,
        requests_at_prompt: 0,
        calls: 0,
        items: 0,
        role,
        subagents,
        interrupted_work: Vec::new(),
        known_ids: std::collections::HashSet::new(),
    };
    session.inbox.subagents.clone_from(&session.subagents);
    session.inbox.ledger = session.budget.ledger();
    hub.send(EventBody::SessionReady(ready));
    let task = tokio::spawn(session.run(hub));
    SessionHandle { ops, task }
}

/// Closes the bus, even when the actor panics.
struct CloseOnDrop(EventBus);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Session {
    async fn run(mut self, hub: EventBus) {
        let _close = CloseOnDrop(hub);
        let mut turn = 0;
        self.run_start_hooks();
        if let Some(context) = &self.folder_context {
            context.resume(&contents_of(self.history.view()));
        }
        loop {
            self.undo().await;
            self.rewind().await;
            self.restore().await;
            self.compact_between_turns().await;
            self.list_prompts().await;
            self.emit_context_breakdown();
            self.commit_reports();
            self.save_budgets();
            if self.history.len() > 0 {
                self.emit_context_usage();
            }
            let Some(queued) = self.inbox.prompts.pop_front() else {
                if self.inbox.shutdown && self.inbox.user_commands.is_empty() {
                    break;
                }
                // Do not wait for what arrived while another operation ran.
                if !self.inbox.has_pending_ops() {
                    let joined = tokio::select! {
                        biased;
                        () = self.inbox.receive() => None,
                        joined = self.starting.join_next(), if !self.starting.is_empty() => joined,
                    };
                    self.started(joined);
                }
                continue;
            };
            let QueuedInput { mut beginning, interrupted, steer } = queued;
            if let Some(id) = steer {
                self.inbox.steer_ended(id, beginning.text().to_owned(), SteerFate::Prompted);
            }
            if !self.can_start_turn(&beginning) {
                continue;
            }
            turn += 1;
            // A resumed turn keeps its number.
            self.turn += u64::from(matches!(beginning, TurnInput::Prompt(_)));
            self.hub.set_turn(turn);
            let (begun, waited) = (Instant::now(), self.hub.user_wait());
            self.refresh_definitions(turn).await;
            let cancel = match &self.role {
                Some(role) => role.cancel.child_token(),
                None => CancellationToken::new(),
            };
            if interrupted {
                cancel.cancel();
            }
            self.inbox.turn = Some(cancel.clone());
            self.hub.send(EventBody::TurnStarted { prompt: beginning.shown().to_owned() });
            self.apply_overrides(&mut beginning);
            let reason = self.run_with_time_limit(beginning, cancel).await;
            self.clear_overrides();
            if let Some(trouble) = self.registry.trouble() {
                self.inbox.notice(parallax_protocol::event::Level::Warning, trouble);
            }
            self.end_route(&reason);
            self.save_budgets();
            self.save_spending();
            self.inbox.turn = None;
            let word = match reason {
                EndReason::Cancelled if self.inbox.shutdown => "shutdown",
                _ => reason.as_str(),
            };
            let detail = detail(&reason).map(str::to_owned);
            // A prompt that was abandoned before it started leaves no journal: there would be
            // nothing to resume.
            if self.history.len() > 0 || self.taken_back {
                let (time, reason) = (now(), word.to_owned());
                self.history.record(&Record::TurnEnd { time, reason, detail });
            }
            let store = self.history.store();
            let synced = tokio::task::spawn_blocking(move || store.sync());
            if let Ok(Err(error)) = self.inbox.while_receiving(synced).await {
                self.history.record_storage_error(error.message);
            }
            self.report_storage_error();
            // A late steering message becomes a prompt. A subagent has one prompt only; the session
            // has the message too.
            let late = std::mem::take(&mut self.inbox.steers);
            if self.role.is_none() && !self.inbox.shutdown {
                self.inbox.prompts.extend(late.into_iter().map(QueuedInput::steer_input));
            }
            // The user's time does not count for the agent.
            let waited = self.hub.user_wait().saturating_sub(waited);
            let worked = begun.elapsed().saturating_sub(waited);
            let duration_ms = u64::try_from(worked.as_millis()).unwrap_or(u64::MAX);
            let taken_back = std::mem::take(&mut self.taken_back);
            self.hub.send(EventBody::TurnEnded(TurnEnded { reason, duration_ms, taken_back }));
        }
        // Requests made outside turns.
        self.save_spending();
        self.run_end_hooks().await;
    }

    /// Carries out requested undos. Only between turns: the changes of a running turn are not
    /// complete.
    async fn undo(&mut self) {
        for (prompt, force) in std::mem::take(&mut self.inbox.undos) {
            let marks = self.prompts.marks();
            let turn = prompt.map(|number| PromptMark::numbered(marks, number)).transpose();
            let turn = turn.map(|mark| mark.map(|mark| mark.turn));
            let undone = match (self.checkpoints.clone(), turn) {
                (_, Err(problem)) => Err(problem),
                (Some(checkpoints), Ok(turn)) => {
                    let undo = move || checkpoints.undo(turn, force);
                    let undoing =
                        self.inbox.while_receiving(tokio::task::spawn_blocking(undo)).await;
                    undoing.unwrap_or_else(|_| Err("the undo crashed (this is a bug)".into()))
                }
                (None, Ok(_)) => Err("checkpoints are disabled in this session".to_owned()),
            };
            let undone = match undone {
                Ok(undone) => {
                    let prompt = PromptMark::number(self.prompts.marks(), undone.turn);
                    Undone { prompt, ..undone }
                }
                Err(why) => Undone { prompt, problem: Some(why), ..Undone::default() },
            };
            self.record_restored_files(&undone);
            self.hub.send(EventBody::Undone(undone));
        }
    }

    /// Redacts the program's keys in a text.
    pub(crate) fn redact(&self, text: &mut String) {
        for secret in self.secrets.iter().filter(|secret| secret.len() >= SHORTEST_SECRET) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "[key removed]");
            }
        }
    }

    /// The same for model contents; parts without a key keep their bytes.
    pub(crate) fn redact_parts(&self, content: &mut Content) {
        let change = |text: &str| {
            let holds =
                |secret: &String| secret.len() >= SHORTEST_SECRET && text.contains(secret.as_str());
            self.secrets.iter().any(holds).then(|| {
                let mut text = text.to_owned();
                self.redact(&mut text);
                text
            })
        };
        for part in &mut content.parts {
            if let Some(other) = part.with_texts(&change) {
                *part = other;
            }
            // The provider accepts its data unchanged only.
            if part.opaque().is_some_and(|data| change(data.get()).is_some()) {
                *part = part.clone().with_opaque(None);
            }
        }
    }

    /// Reports a journal that cannot be written once; the session continues.
    pub(crate) fn report_storage_error(&mut self) {
        if let Some(notice) = self.history.store().notice() {
            self.inbox.notice(parallax_protocol::event::Level::Warning, notice);
        }
        if let Some(trouble) = self.history.take_storage_error() {
            let text = format!("This session is no longer saved: {trouble}");
            self.inbox.notice(parallax_protocol::event::Level::Warning, text);
        }
    }

    pub(crate) fn nested_media(&self) -> bool {
        self.model.catalog().limits(&self.main_model()).multimodal_tool_results
    }
}

/// Details of the end reason.
fn detail(reason: &EndReason) -> Option<&str> {
    match reason {
        EndReason::Loop { detail } => Some(detail),
        EndReason::Stopped { reason, .. } => Some(reason),
        EndReason::Failed(failure) => Some(&failure.message),
        _ => None,
    }
}
