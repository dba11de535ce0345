//! The session actor: owns the state, takes prompts, ends.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax_protocol::agent::{Agents, KeptWork};
use parallax_protocol::checkpoint::Checkpoints;
use parallax_protocol::content::Content;
use parallax_protocol::content::Sealed;
use parallax_protocol::context::{FolderContext, ResultPlace, Source};
use parallax_protocol::event::{
    BudgetSpent, ContextUsed, EndReason, EventBody, SessionReady, SteerFate, TurnEnded, Undone,
};
use parallax_protocol::hooks::{HookOutcome, Hooks};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::op::{Op, PromptWishes};
use parallax_protocol::policy::{ApprovalMode, Judge, RuleKeeper, Taint};
use parallax_protocol::routing::Route;
use parallax_protocol::shell::Shell;
use parallax_protocol::store::{CompactionRecord, PromptMark, Record, Store};
use parallax_protocol::tool::{Tool, ToolSource};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::agents::{AgentRole, Family, InvokeAgent};
use crate::approval::Approvals;
use crate::availability::Availability;
use crate::budget::Budget;
use crate::compaction::{Compacting, Room};
use crate::history::{History, now};
use crate::hub::EventHub;
use crate::inbox::{AddDirectory, Beginning, Inbox, ModelChanged, Queued};
use crate::planning::AgreedPlan;
use crate::prompts::Prompts;
use crate::registry::{Declared, Registry};
use crate::routing::RoutingOptions;
use crate::view::contents_of;

/// Orders that may wait unread; a face that floods waits itself.
const OPS: usize = 64;
/// A shorter value stands in texts by chance.
const SHORTEST_SECRET: usize = 8;

/// Describes folders for the model.
pub type DescribeDirectories = Arc<dyn Fn(&[PathBuf]) -> String + Send + Sync>;

/// Makes the system prompt for a mode and the names of the declared tools. Equal
/// ones give equal bytes.
pub type SystemPrompt = Box<dyn Fn(ApprovalMode, &[String]) -> Arc<str> + Send + Sync>;

/// Everything a session is made of.
pub struct SessionOptions {
    /// Its id.
    pub id: SessionId,
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// The model as set: a name or an alias.
    pub model_name: String,
    /// The tools, in the order in which they are declared.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Tools that come and go, declared behind the others.
    pub more_tools: Option<Arc<dyn ToolSource>>,
    /// Agents that it can start; with them there is the tool `invoke_agent`.
    pub agents: Option<Arc<dyn Agents>>,
    /// Who judges calls.
    pub judge: Arc<dyn Judge>,
    /// Where records go.
    pub store: Arc<dyn Store>,
    /// The approval mode at the start.
    pub mode: ApprovalMode,
    /// Whether questions can be answered.
    pub interactive: bool,
    /// Whether it takes the place of a session that was cleared ([`Op::Clear`]).
    pub replaces: bool,
    /// Whether the folder is trusted.
    pub trusted: bool,
    /// The workspace folders as they are now.
    pub workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Widens the workspace.
    pub add_directory: AddDirectory,
    /// What the model is told of folders that were added. Blocking.
    pub describe_directories: DescribeDirectories,
    /// The folders beside the project's that the journal knows of.
    pub directories: Vec<PathBuf>,
    /// Told when the model changes.
    pub model_changed: ModelChanged,
    /// The system prompt.
    pub system: SystemPrompt,
    /// Context that goes before the first prompt of this process: the session
    /// context of a new session, or a note on what changed since.
    pub preface: Option<String>,
    /// The contents of a resumed session.
    pub history: Vec<Sealed>,
    /// Whether its newest turn did not come to an end: what stands last may be half
    /// of an answer.
    pub cut_off: bool,
    /// The compactions of a resumed session that still count, oldest first.
    pub compactions: Vec<CompactionRecord>,
    /// When the history is made shorter, and what stays.
    pub room: Room,
    /// Results that a person holds on to.
    pub pins: BTreeSet<ResultPlace>,
    /// What of the system prompt and the preface comes from files.
    pub sources: Vec<Source>,
    /// Finds context files where tools go.
    pub folder_context: Option<Arc<dyn FolderContext>>,
    /// Results of the last, unfinished round of a resumed session (the program
    /// was killed), by the index of their call: wire parts as journalled.
    pub pending: BTreeMap<usize, Box<RawValue>>,
    /// Generation settings from the user, in wire spelling.
    pub generation: Object,
    /// Model requests that may be made, those of earlier processes apart; `None` =
    /// no limit.
    pub max_turns: Option<u32>,
    /// What may be spent.
    pub budget: Budget,
    /// How models are chosen, and what happens when one cannot answer.
    pub routing: RoutingOptions,
    /// Attempts of one request before its first chunk; `None` = the model's own.
    pub max_attempts: Option<u32>,
    /// Whether the loop guard watches.
    pub loop_detection: bool,
    /// The first wait after a broken stream; it doubles.
    pub retry_base: Duration,
    /// What answers may hold for longer than one call.
    pub approvals: Approvals,
    /// Keeps rules on disk.
    pub rule_keeper: Option<Arc<dyn RuleKeeper>>,
    /// Keeps the old bytes of what the agent changes.
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    /// Whether a change of the file changes what the next build runs.
    pub is_build_file: fn(&Path) -> bool,
    /// The number of the last prompt that the session had before this process,
    /// those that were taken back included.
    pub turns: u64,
    /// The prompts that are in `history`.
    pub prompts: Vec<PromptMark>,
    /// The plan that was agreed to, of a resumed session.
    pub plan: Option<AgreedPlan>,
    /// Runs the person's commands; `None`: there are none in this session.
    pub shell: Option<Arc<dyn Shell>>,
    /// Hooks of the user's; `None`: there are none.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Values that neither the model nor the journal may get (keys), blacked out
    /// where a tool or a prompt brings them.
    pub secrets: Vec<String>,
}

/// A running session as its owner holds it.
pub struct SessionHandle {
    /// Where orders go.
    pub ops: mpsc::Sender<Op>,
    task: JoinHandle<()>,
}

impl SessionHandle {
    /// Waits until the session is over. Send [`Op::Shutdown`] or drop every
    /// sender first.
    pub async fn join(self) {
        drop(self.ops);
        // A panic in the actor is a defect; the crash report has told it.
        let _ = self.task.await;
    }
}

/// The actor's state.
pub(crate) struct Session {
    pub(crate) hub: EventHub,
    pub(crate) inbox: Inbox,
    pub(crate) history: History,
    pub(crate) registry: Registry,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) judge: Arc<dyn Judge>,
    pub(crate) interactive: bool,
    pub(crate) replaces: bool,
    pub(crate) trusted: bool,
    pub(crate) workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    pub(crate) describe_directories: DescribeDirectories,
    /// The folders beside the project's that the journal knows of.
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) system: SystemPrompt,
    pub(crate) preface: Option<String>,
    pub(crate) pending: BTreeMap<usize, Box<RawValue>>,
    /// Whether the newest answer may be half of one.
    pub(crate) is_half: bool,
    pub(crate) generation: Object,
    pub(crate) max_turns: Option<u32>,
    pub(crate) routing: RoutingOptions,
    /// Which models can answer.
    pub(crate) models: Availability,
    /// The model of the running prompt, once it is chosen.
    pub(crate) route: Option<Route>,
    /// Whether it was plan mode when that was chosen.
    pub(crate) routed_planning: bool,
    /// The model of the prompt before.
    pub(crate) last_model: Option<String>,
    /// The fast model did not get on with the prompt before.
    pub(crate) stuck: bool,
    pub(crate) budget: Budget,
    /// The prompt of the running turn was taken out of the history.
    pub(crate) taken_back: bool,
    /// The budget that the running turn was ended for.
    pub(crate) timed_out: Arc<OnceLock<BudgetSpent>>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) loop_detection: bool,
    pub(crate) retry_base: Duration,
    pub(crate) approvals: Approvals,
    pub(crate) rule_keeper: Option<Arc<dyn RuleKeeper>>,
    pub(crate) checkpoints: Option<Arc<dyn Checkpoints>>,
    pub(crate) is_build_file: fn(&Path) -> bool,
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    /// The tools that hooks left for the newest answer; `None`: all.
    pub(crate) chosen_tools: Option<Vec<String>>,
    /// What the prompt of the running turn wants.
    pub(crate) wishes: Option<PromptWishes>,
    /// Whether everything runs unasked since a plan was agreed to by a rule, and
    /// not since a person wanted that.
    pub(crate) yolo_by_rule: bool,
    /// Whether a person began the session in `yolo`.
    pub(crate) began_in_yolo: bool,
    /// Tools that are called though they changed, of which people know.
    pub(crate) told_doubts: HashSet<String>,
    /// Whether calls are run again that a person went back to before.
    pub(crate) went_back: bool,
    /// The mode to go back to after a prompt that wanted another.
    pub(crate) mode_before: Option<ApprovalMode>,
    /// The hooks of the start, while they run.
    pub(crate) starting: JoinSet<HookOutcome>,
    /// Hooks that are told of a question, while they run.
    pub(crate) notified: JoinSet<()>,
    /// What the hooks of the start add to the first prompt.
    pub(crate) hook_context: Option<String>,
    pub(crate) secrets: Vec<String>,
    pub(crate) taint: Taint,
    pub(crate) prompts: Prompts,
    pub(crate) compacting: Compacting,
    /// The plan agreed to last.
    pub(crate) plan: Option<AgreedPlan>,
    pub(crate) sources: Vec<Source>,
    pub(crate) folder_context: Option<Arc<dyn FolderContext>>,
    /// What was last told of the context.
    pub(crate) told_context: Option<ContextUsed>,
    /// The turn, counted over all processes of the session.
    pub(crate) turn: u64,
    /// Questions put so far, for ids of those put again.
    pub(crate) asks: u64,
    /// Whether this prompt's model only coordinates.
    pub(crate) coordinating: bool,
    /// The declarations of the tools for the mode of the last request.
    pub(crate) declared: Option<(ApprovalMode, Declared)>,
    /// Tools that are left out, since the service rejects their schemas.
    pub(crate) rejected_tools: HashSet<String>,
    /// Model requests made so far.
    pub(crate) requests: u32,
    /// Those made before the prompt of the running turn.
    pub(crate) requests_at_prompt: u32,
    /// Calls seen so far, for ids of our own.
    pub(crate) calls: u64,
    /// Items made so far, for their ids.
    pub(crate) items: u64,
    /// What it is, when it is a sub-agent's.
    pub(crate) role: Option<AgentRole>,
    /// What it shares with the sub-agents that it starts.
    pub(crate) family: Option<Arc<Family>>,
    /// Work of sub-agents that an earlier process left.
    pub(crate) kept_work: Vec<KeptWork>,
    /// Ids that the server gave to calls, to notice one that comes twice.
    pub(crate) known_ids: HashSet<String>,
}

/// Starts the actor on the current runtime. Subscribe to the hub before, so
/// that no event is missed.
pub fn start(options: SessionOptions, hub: EventHub) -> SessionHandle {
    launch(options, None, hub)
}

/// Starts the actor; with a role it is a sub-agent's.
pub(crate) fn launch(
    mut options: SessionOptions,
    role: Option<AgentRole>,
    hub: EventHub,
) -> SessionHandle {
    let (ops, inbox) = mpsc::channel(OPS);
    let family = options.agents.take().map(|agents| {
        let family = Arc::new(Family::new(agents, &mut options, hub.clone(), &ops, role.is_some()));
        options.tools.push(Arc::new(InvokeAgent::new(Arc::clone(&family))));
        family
    });
    let ready = SessionReady {
        session: options.id.clone(),
        model: options.model_name.clone(),
        mode: options.mode,
        resumed: !options.history.is_empty(),
        scripted: options.model.is_scripted(),
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
        replaces: options.replaces,
        trusted: options.trusted,
        workspace: options.workspace,
        describe_directories: options.describe_directories,
        directories: options.directories,
        system: options.system,
        preface: options.preface,
        pending: options.pending,
        is_half: options.cut_off,
        generation: options.generation,
        max_turns: options.max_turns,
        routing: options.routing,
        models: Availability::default(),
        route: None,
        routed_planning: false,
        last_model: None,
        stuck: false,
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
        wishes: None,
        yolo_by_rule: false,
        began_in_yolo: options.mode == ApprovalMode::Yolo,
        told_doubts: HashSet::new(),
        went_back: false,
        mode_before: None,
        starting: JoinSet::new(),
        notified: JoinSet::new(),
        hook_context: None,
        secrets: options.secrets,
        taint: Taint::default(),
        prompts: Prompts::new(options.prompts),
        told_context: None,
        compacting: Compacting::new(options.room),
        plan: options.plan,
        sources: options.sources,
        folder_context: options.folder_context,
        turn: options.turns,
        asks: 0,
        coordinating: false,
        declared: None,
        rejected_tools: HashSet::new(),
        requests: 0,
        requests_at_prompt: 0,
        calls: 0,
        items: 0,
        role,
        family,
        kept_work: Vec::new(),
        known_ids: std::collections::HashSet::new(),
    };
    session.inbox.family.clone_from(&session.family);
    session.inbox.ledger = session.budget.ledger();
    hub.send(EventBody::SessionReady(ready));
    let task = tokio::spawn(session.run(hub));
    SessionHandle { ops, task }
}

/// Tells the faces that nothing more comes, also when the actor panics.
struct CloseOnDrop(EventHub);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Session {
    async fn run(mut self, hub: EventHub) {
        let _close = CloseOnDrop(hub);
        let mut turn = 0;
        self.hook_start();
        if let Some(context) = &self.folder_context {
            context.resume(&contents_of(self.history.view()));
        }
        loop {
            self.undo().await;
            self.rewind().await;
            self.restore().await;
            self.compact_between_turns().await;
            self.list_prompts().await;
            self.describe_context();
            self.keep_reports();
            self.keep_budgets();
            if self.history.len() > 0 {
                self.tell_context();
            }
            let Some(queued) = self.inbox.prompts.pop_front() else {
                if self.inbox.shutdown && self.inbox.shells.is_empty() {
                    break;
                }
                // What came while another order was carried out is not waited for.
                if !self.inbox.has_orders() {
                    let joined = tokio::select! {
                        biased;
                        () = self.inbox.take_one() => None,
                        joined = self.starting.join_next(), if !self.starting.is_empty() => joined,
                    };
                    self.started(joined);
                }
                continue;
            };
            let Queued { mut beginning, interrupted, steer } = queued;
            if let Some(id) = steer {
                self.inbox.steer_ended(id, beginning.text().to_owned(), SteerFate::Prompted);
            }
            if !self.can_begin(&beginning) {
                continue;
            }
            turn += 1;
            // What goes on with a turn belongs to it.
            self.turn += u64::from(matches!(beginning, Beginning::Prompt(_)));
            self.hub.set_turn(turn);
            let (begun, waited) = (Instant::now(), self.hub.user_wait());
            self.look_at_files(turn).await;
            let cancel = match &self.role {
                Some(role) => role.cancel.child_token(),
                None => CancellationToken::new(),
            };
            if interrupted {
                cancel.cancel();
            }
            self.inbox.turn = Some(cancel.clone());
            self.hub.send(EventBody::TurnStarted { prompt: beginning.shown().to_owned() });
            self.begin_wishes(&mut beginning);
            let reason = self.run_in_time(beginning, cancel).await;
            self.end_wishes();
            if let Some(trouble) = self.registry.trouble() {
                self.inbox.notice(parallax_protocol::event::Level::Warning, trouble);
            }
            self.end_route(&reason);
            self.keep_budgets();
            self.note_spent();
            self.inbox.turn = None;
            let word = match reason {
                EndReason::Cancelled if self.inbox.shutdown => "shutdown",
                _ => word(&reason),
            };
            let detail = detail(&reason).map(str::to_owned);
            // A prompt that was given up before it was anywhere makes no journal: there
            // would be nothing to go on with.
            if self.history.len() > 0 || self.taken_back {
                let (time, reason) = (now(), word.to_owned());
                self.history.record(&Record::TurnEnd { time, reason, detail });
            }
            let store = self.history.store();
            let synced = tokio::task::spawn_blocking(move || store.sync());
            if let Ok(Err(error)) = self.inbox.during(synced).await {
                self.history.note_trouble(error.message);
            }
            self.tell_trouble();
            // What was steered too late is a prompt of its own.
            // A sub-agent has one prompt; the session has the message too.
            let late = std::mem::take(&mut self.inbox.steers);
            if self.role.is_none() && !self.inbox.shutdown {
                self.inbox.prompts.extend(late.into_iter().map(Queued::steered));
            }
            // The user's own time is not the agent's.
            let waited = self.hub.user_wait().saturating_sub(waited);
            let worked = begun.elapsed().saturating_sub(waited);
            let duration_ms = u64::try_from(worked.as_millis()).unwrap_or(u64::MAX);
            let taken_back = std::mem::take(&mut self.taken_back);
            self.hub.send(EventBody::TurnEnded(TurnEnded { reason, duration_ms, taken_back }));
        }
        // What was asked beside turns.
        self.note_spent();
        self.hook_end().await;
    }

    /// Carries out the undos that were asked for. Between turns only: what a
    /// running turn changes is not done yet.
    async fn undo(&mut self) {
        for (prompt, force) in std::mem::take(&mut self.inbox.undos) {
            let marks = self.prompts.marks();
            let turn = prompt.map(|number| PromptMark::numbered(marks, number)).transpose();
            let turn = turn.map(|mark| mark.map(|mark| mark.turn));
            let undone = match (self.checkpoints.clone(), turn) {
                (_, Err(problem)) => Err(problem),
                (Some(checkpoints), Ok(turn)) => {
                    let undo = move || checkpoints.undo(turn, force);
                    let undoing = self.inbox.during(tokio::task::spawn_blocking(undo)).await;
                    undoing.unwrap_or_else(|_| Err("the undo crashed; this is a defect".into()))
                }
                (None, Ok(_)) => Err("this session keeps no old versions of files".to_owned()),
            };
            let undone = match undone {
                Ok(undone) => {
                    let prompt = PromptMark::number(self.prompts.marks(), undone.turn);
                    Undone { prompt, ..undone }
                }
                Err(why) => Undone { prompt, problem: Some(why), ..Undone::default() },
            };
            self.note_restored(&undone);
            self.hub.send(EventBody::Undone(undone));
        }
    }

    /// Blacks out the keys of this program in a text.
    pub(crate) fn black_out(&self, text: &mut String) {
        for secret in self.secrets.iter().filter(|secret| secret.len() >= SHORTEST_SECRET) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "[key removed]");
            }
        }
    }

    /// The same in what the model said; parts without a key keep their bytes.
    pub(crate) fn black_out_parts(&self, content: &mut Content) {
        let change = |text: &str| {
            let holds =
                |secret: &String| secret.len() >= SHORTEST_SECRET && text.contains(secret.as_str());
            self.secrets.iter().any(holds).then(|| {
                let mut text = text.to_owned();
                self.black_out(&mut text);
                text
            })
        };
        for part in &mut content.parts {
            if let Some(other) = part.with_texts(&change) {
                *part = other;
            }
        }
    }

    /// A journal that cannot be written is told once; the work goes on.
    pub(crate) fn tell_trouble(&mut self) {
        if let Some(notice) = self.history.store().notice() {
            self.inbox.notice(parallax_protocol::event::Level::Warning, notice);
        }
        if let Some(trouble) = self.history.take_trouble() {
            let text = format!("this session is no longer saved: {trouble}");
            self.inbox.notice(parallax_protocol::event::Level::Warning, text);
        }
    }

    pub(crate) fn nested_media(&self) -> bool {
        self.model.limits(&self.main_model()).multimodal_tool_results
    }
}

/// The word for the end of a turn in a journal.
fn word(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Done => "done",
        EndReason::Cancelled => "cancelled",
        EndReason::MaxTurns { .. } => "max_turns",
        EndReason::Budget(_) => "budget",
        EndReason::Loop { .. } => "loop",
        EndReason::Stopped { .. } => "stopped",
        EndReason::Failed(_) => "error",
    }
}

/// What else there is to tell of the end of a turn.
fn detail(reason: &EndReason) -> Option<&str> {
    match reason {
        EndReason::Loop { detail } => Some(detail),
        EndReason::Stopped { reason, .. } => Some(reason),
        EndReason::Failed(failure) => Some(&failure.message),
        _ => None,
    }
}
