//! State that a session shares with its subagents, and routing of operations to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_protocol::agent::{Agents, SessionTools};
use parallax_protocol::event::{ApprovalRequest, EventBody};
use parallax_protocol::hooks::Hooks;
use parallax_protocol::ids::{ApprovalId, ItemId};
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::RoutingMode;
use parallax_protocol::store::NoStore;
use parallax_protocol::tool::{Tool, ToolKind, ToolSource};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, WeakSender};

use super::role::AgentRole;
use super::subagent_hooks::SubagentHooks;
use crate::event_bus::EventBus;
use crate::options::{RoutingOptions, SessionOptions};
use crate::session_handle::SessionHandle;

/// Maximum number of concurrent subagents; others wait.
const MAX_CONCURRENT: usize = 4;

/// Starts a session; with a role it is a subagent.
pub(crate) type StartSession = fn(SessionOptions, Option<AgentRole>, EventBus) -> SessionHandle;

pub(crate) struct SubagentManager {
    pub(crate) agents: Arc<dyn Agents>,
    pub(super) launch: StartSession,
    pub(super) bus: EventBus,
    pub(super) slots: Semaphore,
    /// Whether this session is itself a subagent; then its subagents cannot start any.
    pub(super) is_subagent: bool,
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    tools: Vec<Arc<dyn Tool>>,
    more_tools: Option<Arc<dyn ToolSource>>,
    /// Creates session options that share the parent's settings.
    options_factory: Box<dyn Fn() -> SessionOptions + Send + Sync>,
    /// The parent's operations. Weak, so that the session can end when its front ends are gone.
    ops: WeakSender<Op>,
    state: Mutex<ManagerState>,
}

struct ManagerState {
    mode: ApprovalMode,
    model: String,
    turn: u64,
    children: HashMap<ItemId, Sender<Op>>,
    /// Journal ids of subagents that have started, by item.
    journals: HashMap<ItemId, String>,
    /// Open approval requests of subagents, by the ids that front ends know.
    pending_approvals: HashMap<ApprovalId, (ItemId, ApprovalId)>,
}

impl SubagentManager {
    /// Takes what subagents need from the options of a session, which may itself be a subagent.
    pub(crate) fn new(
        agents: Arc<dyn Agents>,
        options: &mut SessionOptions,
        bus: EventBus,
        ops: &Sender<Op>,
        is_subagent: bool,
        launch: StartSession,
    ) -> Self {
        let state = ManagerState {
            mode: options.mode,
            model: options.model_name.clone(),
            turn: options.turns,
            children: HashMap::new(),
            journals: HashMap::new(),
            pending_approvals: HashMap::new(),
        };
        Self {
            agents,
            launch,
            bus,
            slots: Semaphore::new(MAX_CONCURRENT),
            hooks: options.hooks.clone(),
            is_subagent,
            // Only the session itself submits plans to the user.
            tools: options
                .tools
                .iter()
                .filter(|tool| tool.spec().kind != ToolKind::Plan)
                .cloned()
                .collect(),
            more_tools: options.more_tools.clone(),
            options_factory: options_factory(options),
            ops: ops.downgrade(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, ManagerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tools of the session, including those added later.
    pub(super) fn tools(&self) -> SessionTools {
        let mut declared = self.tools.clone();
        declared.extend(self.more_tools.iter().flat_map(|more| more.tools()));
        let deferred = self.more_tools.as_ref().map(|more| more.deferred()).unwrap_or_default();
        SessionTools { declared, deferred }
    }

    /// Returns the options that a subagent's session shares with this one. Tools and prompts are
    /// still missing.
    pub(super) fn options(&self) -> SessionOptions {
        let mut options = (self.options_factory)();
        let state = self.state();
        options.mode = state.mode;
        options.model_name.clone_from(&state.model);
        // Changes by the subagent belong to the turn of the session.
        options.turns = state.turn.saturating_sub(1);
        options
    }

    pub(super) fn enter(&self, item: ItemId, ops: Sender<Op>) {
        self.state().children.insert(item, ops);
    }

    pub(super) fn remove(&self, item: &ItemId) {
        let mut state = self.state();
        state.children.remove(item);
        state.pending_approvals.retain(|_, (of, _)| of != item);
    }

    /// Records the journal of a subagent that has started.
    pub(super) fn record_journal(&self, item: ItemId, id: String) {
        self.state().journals.insert(item, id);
    }

    /// Removes the journal record: the subagent's result says how to resume, if it can be resumed.
    pub(super) fn remove_journal(&self, item: &ItemId) {
        self.state().journals.remove(item);
    }

    /// Takes the journal id of a call that ended without a result.
    pub(crate) fn take_journal(&self, item: &ItemId) -> Option<String> {
        self.state().journals.remove(item)
    }

    /// Forwards a subagent's approval request to the front ends.
    pub(super) fn forward_request(&self, item: &ItemId, agent: &str, request: ApprovalRequest) {
        let mut request = request;
        let public = public_id(item, &request.id);
        let private_id = std::mem::replace(&mut request.id, public.clone());
        self.state().pending_approvals.insert(public, (item.clone(), private_id));
        // The call id that front ends know.
        let call = item.as_str();
        request.call = call.strip_prefix("tool-").unwrap_or(call).into();
        request.agent = Some(agent.to_owned());
        // Front ends would look for the arguments among the session's own calls.
        request.outcomes.retain(|outcome| *outcome != ApprovalResponse::ModifyWithEditor);
        self.bus.send(EventBody::ApprovalRequested(Box::new(request)));
    }

    /// Closes an approval request that was answered or withdrawn.
    pub(super) fn close(&self, item: &ItemId, ask: &ApprovalId, outcome: Option<ApprovalResponse>) {
        let public = public_id(item, ask);
        self.state().pending_approvals.remove(&public);
        self.bus.send(EventBody::ApprovalClosed { ask: public, outcome });
    }

    /// Passes a response to the subagent that asked. Returns the response if no subagent asked.
    pub(crate) fn answer(&self, decide: Box<RequestDecision>) -> Option<Box<RequestDecision>> {
        let state = self.state();
        let found = state.pending_approvals.get(&decide.ask);
        let Some((child, own)) =
            found.and_then(|(item, private_id)| Some((state.children.get(item)?, private_id)))
        else {
            return Some(decide);
        };
        let op = Op::Decide(Box::new(RequestDecision { ask: own.clone(), ..*decide }));
        // Its queue is far longer than its possible requests. If it is full, the session is about
        // to end.
        if child.try_send(op).is_err() {
            tracing::warn!("a response arrived too late for a subagent");
        }
        None
    }

    /// Sends the user's steering messages to all running subagents.
    pub(crate) fn broadcast(&self, order: &Op) {
        for child in self.state().children.values() {
            // Only a session that is about to end has a full queue.
            let _ = child.try_send(order.clone());
        }
    }

    /// Records the start of a turn.
    pub(crate) fn begin_turn(&self, turn: u64) {
        self.state().turn = turn;
    }

    /// Propagates a changed mode or model to the subagents.
    pub(crate) fn propagate_selection(&self, mode: ApprovalMode, model: &str) {
        let mut state = self.state();
        model.clone_into(&mut state.model);
        if std::mem::replace(&mut state.mode, mode) != mode {
            for child in state.children.values() {
                // Only a session that is about to end has a full queue.
                let _ = child.try_send(Op::SetMode(mode));
            }
        }
    }

    /// Adopts the mode that the user gave to a subagent as the session's mode.
    pub(super) fn adopt_mode(&self, mode: ApprovalMode) {
        if self.state().mode != mode
            && let Some(ops) = self.ops.upgrade()
        {
            let _ = ops.try_send(Op::SetMode(mode));
        }
    }
}

/// Returns the id of a subagent's request as front ends know it.
fn public_id(item: &ItemId, ask: &ApprovalId) -> ApprovalId {
    ApprovalId::new(format!("{item}/{ask}"))
}

/// Returns a factory for options that share the session's settings.
fn options_factory(options: &SessionOptions) -> Box<dyn Fn() -> SessionOptions + Send + Sync> {
    let id = options.id.clone();
    let model = Arc::clone(&options.model);
    let model_name = options.model_name.clone();
    let policy_engine = options.policy_engine.clone();
    let (mode, interactive, trusted) = (options.mode, options.interactive, options.trusted);
    let workspace = Arc::clone(&options.workspace);
    let room = options.compaction.clone();
    let directory_context = options.folder_context.clone();
    let generation = options.generation.clone();
    let (max_attempts, loop_detection) = (options.max_attempts, options.loop_detection);
    let (retry_base, approvals) = (options.retry_base, options.approvals);
    let rule_store = options.rule_store.clone();
    let checkpoints = options.checkpoints.clone();
    let is_build_file = options.is_build_file;
    // Their spending counts for the session, and they use its model.
    let budget = options.budget.nested_budget();
    let routing = RoutingOptions { router: RoutingMode::Off, ..options.routing };
    let hooks = options.hooks.clone();
    let secrets = options.secrets.clone();
    Box::new(move || SessionOptions {
        id: id.clone(),
        model: Arc::clone(&model),
        model_name: model_name.clone(),
        tools: Vec::new(),
        more_tools: None,
        agents: None,
        policy_engine: policy_engine.clone(),
        store: Arc::new(NoStore),
        mode,
        interactive,
        includes_file_texts: false,
        is_replacement: false,
        trusted,
        workspace: Arc::clone(&workspace),
        describe_directories: Arc::new(|_| String::new()),
        directories: Vec::new(),
        add_directory: Box::new(|_| {
            Err("subagents cannot add directories to the workspace".to_owned())
        }),
        model_changed: Box::new(|_| {}),
        system: Box::new(|_, _| Arc::from("")),
        preface: None,
        was_interrupted: false,
        unfinished_answer: None,
        history: Vec::new(),
        compactions: Vec::new(),
        compaction: room.clone(),
        pins: std::collections::BTreeSet::new(),
        sources: Vec::new(),
        folder_context: directory_context.as_ref().map(|context| context.new_instance()),
        editor_context: None,
        pending: std::collections::BTreeMap::new(),
        generation: generation.clone(),
        max_turns: None,
        budget: budget.clone(),
        routing,
        max_attempts,
        loop_detection,
        retry_base,
        approvals,
        rule_store: rule_store.clone(),
        checkpoints: checkpoints.clone(),
        is_build_file,
        turns: 0,
        prompts: Vec::new(),
        plan: None,
        shell: None,
        hooks: hooks.clone().map(|hooks| Arc::new(SubagentHooks(hooks)) as _),
        secrets: secrets.clone(),
    })
}
