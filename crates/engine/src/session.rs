//! The session actor: owns the state, receives prompts, and ends the session.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::agent::Agents;
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::content::Content;
use parallax_protocol::content::Sealed;
use parallax_protocol::context::{EditorContext, FolderContext, ResultPlace, Source};
use parallax_protocol::event::{EndReason, EventBody, SessionReady, SteerFate, TurnEnded, Undone};
use parallax_protocol::hooks::Hooks;
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::op::Op;
use parallax_protocol::policy::{ApprovalMode, Judge, RuleKeeper, Taint};
use parallax_protocol::shell::Shell;
use parallax_protocol::store::{CompactionRecord, PromptMark, Record, Store, UnfinishedAnswer};
use parallax_protocol::tool::{Tool, ToolSource};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::agents::{AgentRole, InvokeAgent, SubagentManager};
use crate::approval::{ApprovalState, Approvals};
use crate::budget::Budget;
use crate::compaction::{CompactionOptions, CompactionState};
use crate::context_manager::ContextManager;
use crate::conversation::{Conversation, IdGenerator};
use crate::current_turn::CurrentTurn;
use crate::event_bus::EventBus;
use crate::history::{History, now};
use crate::hook_events::HookRunner;
use crate::inbox::{AddDirectory, Inbox, ModelChanged, QueuedInput, TurnInput};
use crate::model_client::ModelClient;
use crate::planning::ApprovedPlan;
use crate::prompts::Prompts;
use crate::registry::Registry;
use crate::routing::{ModelRouter, RoutingOptions};
use crate::view::contents_of;

/// Capacity of the operation queue; a front end that floods it waits.
const OP_QUEUE: usize = 64;
/// Minimum length of redacted values: shorter ones may occur in texts by chance.
const SHORTEST_SECRET: usize = 8;

/// Describes directories for the model.
pub type DescribeDirectories = Arc<dyn Fn(&[PathBuf]) -> String + Send + Sync>;

/// Builds the system prompt for a mode and the declared tools. Equal inputs give equal bytes.
pub type SystemPrompt = Box<dyn Fn(ApprovalMode, &[String]) -> Arc<str> + Send + Sync>;

/// The options and components of a session.
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
    /// Whether the directory is trusted.
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
    /// The unfinished answer of that turn, which the service can continue.
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
    /// Generation settings from the user, with wire names.
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

/// Facts of the session that do not change.
pub(crate) struct SessionEnvironment {
    pub(crate) interactive: bool,
    pub(crate) keeps_file_texts: bool,
    pub(crate) replaces: bool,
    pub(crate) trusted: bool,
    pub(crate) workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    pub(crate) describe_directories: DescribeDirectories,
    pub(crate) secrets: Vec<String>,
}

impl SessionEnvironment {
    /// Redacts the program's keys in a text.
    pub(crate) fn redact(&self, text: &mut String) {
        for secret in self.secrets.iter().filter(|secret| secret.len() >= SHORTEST_SECRET) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "[key removed]");
            }
        }
    }

    /// Redacts keys in model contents; parts without a key keep their bytes.
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
            // The provider accepts its data only unchanged.
            if part.opaque().is_some_and(|data| change(data.get()).is_some()) {
                *part = part.clone().with_opaque(None);
            }
        }
    }
}

/// The checkpoints of the files that the agent changes.
pub(crate) struct SessionCheckpoints {
    pub(crate) store: Option<Arc<dyn Checkpoints>>,
    /// Whether changing the file changes what the next build runs.
    pub(crate) is_build_file: fn(&Path) -> bool,
}

/// The subagents of the session, and its own role if it is a subagent.
pub(crate) struct AgentState {
    /// Its role, if it is a subagent.
    pub(crate) role: Option<AgentRole>,
    /// The manager of its subagents.
    pub(crate) subagents: Option<Arc<SubagentManager>>,
}

/// The actor: it receives operations in order, owns the parts of the session, and runs one turn at
/// a time.
pub(crate) struct Session {
    pub(crate) hub: EventBus,
    pub(crate) inbox: Inbox,
    pub(crate) registry: Registry,
    pub(crate) environment: SessionEnvironment,
    pub(crate) conversation: Conversation,
    pub(crate) context: ContextManager,
    pub(crate) client: ModelClient,
    pub(crate) router: ModelRouter,
    pub(crate) budget: Budget,
    pub(crate) approval: ApprovalState,
    pub(crate) hooks: HookRunner,
    pub(crate) checkpoints: SessionCheckpoints,
    pub(crate) agents: AgentState,
    pub(crate) current: CurrentTurn,
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
        registry: Registry::new(options.tools, options.more_tools),
        environment: SessionEnvironment {
            interactive: options.interactive,
            keeps_file_texts: options.keeps_file_texts,
            replaces: options.replaces,
            trusted: options.trusted,
            workspace: options.workspace,
            describe_directories: options.describe_directories,
            secrets: options.secrets,
        },
        conversation: Conversation {
            history: History::new(
                options.history,
                options.compactions,
                options.pins,
                options.store,
            ),
            prompts: Prompts::new(options.prompts),
            turn: options.turns,
            preface: options.preface,
            pending: options.pending,
            is_last_answer_partial: options.cut_off,
            plan: options.plan,
            directories: options.directories,
            interrupted_work: Vec::new(),
            ids: IdGenerator::default(),
        },
        context: ContextManager {
            compacting: CompactionState::new(options.room),
            sources: options.sources,
            folder_context: options.folder_context,
            editor_context: options.editor_context,
            reported_context: None,
            system: options.system,
        },
        client: ModelClient {
            model: options.model,
            generation: options.generation,
            max_attempts: options.max_attempts,
            retry_base: options.retry_base,
            max_turns: options.max_turns,
            unfinished: options.unfinished,
            rejected_tools: HashSet::new(),
            declared: None,
            requests: 0,
            requests_at_prompt: 0,
        },
        router: ModelRouter::new(options.routing),
        budget: options.budget,
        approval: ApprovalState {
            judge: options.judge,
            approvals: options.approvals,
            rule_keeper: options.rule_keeper,
            began_in_yolo: options.mode == ApprovalMode::Yolo,
            yolo_by_rule: false,
            asks: 0,
            warned_tools: HashSet::new(),
            taint: Taint::default(),
        },
        hooks: HookRunner::new(options.hooks),
        checkpoints: SessionCheckpoints {
            store: options.checkpoints,
            is_build_file: options.is_build_file,
        },
        agents: AgentState { role, subagents },
        current: CurrentTurn::new(options.loop_detection),
    };
    session.inbox.subagents.clone_from(&session.agents.subagents);
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
        if let Some(context) = &self.context.folder_context {
            context.resume(&contents_of(self.conversation.history.view()));
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
            if self.conversation.history.len() > 0 {
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
                        joined = self.hooks.starting.join_next(), if !self.hooks.starting.is_empty() => joined,
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
            self.conversation.turn += u64::from(matches!(beginning, TurnInput::Prompt(_)));
            self.hub.set_turn(turn);
            let (begun, waited) = (Instant::now(), self.hub.user_wait());
            self.refresh_definitions(turn).await;
            let cancel = match &self.agents.role {
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
            if self.conversation.history.len() > 0 || self.current.taken_back {
                let (time, reason) = (now(), word.to_owned());
                self.conversation.history.record(&Record::TurnEnd { time, reason, detail });
            }
            let store = self.conversation.history.store();
            let synced = tokio::task::spawn_blocking(move || store.sync());
            if let Ok(Err(error)) = self.inbox.while_receiving(synced).await {
                self.conversation.history.record_storage_error(error.message);
            }
            self.report_storage_error();
            // A late steering message becomes a prompt. A subagent has one prompt only; the session
            // has the message too.
            let late = std::mem::take(&mut self.inbox.steers);
            if self.agents.role.is_none() && !self.inbox.shutdown {
                self.inbox.prompts.extend(late.into_iter().map(QueuedInput::steer_input));
            }
            // Time spent waiting for the user does not count.
            let waited = self.hub.user_wait().saturating_sub(waited);
            let worked = begun.elapsed().saturating_sub(waited);
            let duration_ms = u64::try_from(worked.as_millis()).unwrap_or(u64::MAX);
            let taken_back = std::mem::take(&mut self.current.taken_back);
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
            let marks = self.conversation.prompts.marks();
            let turn = prompt.map(|number| PromptMark::numbered(marks, number)).transpose();
            let turn = turn.map(|mark| mark.map(|mark| mark.turn));
            let undone = match (self.checkpoints.store.clone(), turn) {
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
                    let prompt = PromptMark::number(self.conversation.prompts.marks(), undone.turn);
                    Undone { prompt, ..undone }
                }
                Err(why) => Undone { prompt, problem: Some(why), ..Undone::default() },
            };
            self.conversation.record_restored_files(&undone);
            self.hub.send(EventBody::Undone(undone));
        }
    }

    /// Reports a journal that cannot be written once; the session continues.
    pub(crate) fn report_storage_error(&mut self) {
        if let Some(notice) = self.conversation.history.store().notice() {
            self.inbox.notice(parallax_protocol::event::Level::Warning, notice);
        }
        if let Some(trouble) = self.conversation.history.take_storage_error() {
            let text = format!("This session is no longer saved: {trouble}");
            self.inbox.notice(parallax_protocol::event::Level::Warning, text);
        }
    }

    pub(crate) fn nested_media(&self) -> bool {
        self.client.model.catalog().limits(&self.main_model()).multimodal_tool_results
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
