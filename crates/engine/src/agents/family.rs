//! What a session shares with the sub-agents that it starts, and the way from
//! its orders to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parallax_protocol::agent::{Agents, SessionTools};
use parallax_protocol::event::{Ask, EventBody};
use parallax_protocol::hooks::Hooks;
use parallax_protocol::ids::{AskId, ItemId};
use parallax_protocol::op::{AskOutcome, Decide, Op};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::Router;
use parallax_protocol::store::NoStore;
use parallax_protocol::tool::{Tool, ToolKind, ToolSource};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, WeakSender};

use super::quiet_hooks::QuietHooks;
use super::shared_judge::SharedJudge;
use crate::hub::EventHub;
use crate::routing::RoutingOptions;
use crate::session::SessionOptions;

/// Agents at work at the same time; others wait.
const AT_ONCE: usize = 4;

pub(crate) struct Family {
    pub(crate) agents: Arc<dyn Agents>,
    pub(super) hub: EventHub,
    pub(super) places: Semaphore,
    /// Whether the session is a sub-agent's: then those that it starts start none.
    pub(super) is_child: bool,
    /// The hooks of the session.
    pub(super) hooks: Option<Arc<dyn Hooks>>,
    tools: Vec<Arc<dyn Tool>>,
    more_tools: Option<Arc<dyn ToolSource>>,
    judge: SharedJudge,
    /// Makes the options of a session that is like the parent's.
    like: Box<dyn Fn() -> SessionOptions + Send + Sync>,
    /// The parent's own orders. Weak: a session ends when its faces are gone.
    ops: WeakSender<Op>,
    state: Mutex<State>,
}

struct State {
    mode: ApprovalMode,
    model: String,
    turn: u64,
    children: HashMap<ItemId, Sender<Op>>,
    /// What the work of those is kept by that have begun.
    works: HashMap<ItemId, String>,
    /// Open questions of sub-agents, by the ids that faces know.
    asks: HashMap<AskId, (ItemId, AskId)>,
}

impl Family {
    /// Takes what sub-agents will need from the options of a session, which may be
    /// a sub-agent's itself.
    pub(crate) fn new(
        agents: Arc<dyn Agents>,
        options: &mut SessionOptions,
        hub: EventHub,
        ops: &Sender<Op>,
        is_child: bool,
    ) -> Self {
        let judge = SharedJudge::new(Arc::clone(&options.judge));
        options.judge = Arc::new(judge.clone());
        let state = State {
            mode: options.mode,
            model: options.model_name.clone(),
            turn: options.turns,
            children: HashMap::new(),
            works: HashMap::new(),
            asks: HashMap::new(),
        };
        Self {
            agents,
            hub,
            places: Semaphore::new(AT_ONCE),
            hooks: options.hooks.clone(),
            is_child,
            // Plans are between the session and the person.
            tools: options
                .tools
                .iter()
                .filter(|tool| tool.spec().kind != ToolKind::Plan)
                .cloned()
                .collect(),
            more_tools: options.more_tools.clone(),
            judge,
            like: like(options),
            ops: ops.downgrade(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of the session, those that came later included.
    pub(super) fn tools(&self) -> SessionTools {
        let mut declared = self.tools.clone();
        declared.extend(self.more_tools.iter().flat_map(|more| more.tools()));
        let deferred = self.more_tools.as_ref().map(|more| more.deferred()).unwrap_or_default();
        SessionTools { declared, deferred }
    }

    /// The options of a sub-agent's session: what it shares with this one. Tools
    /// and prompts are still missing.
    pub(super) fn options(&self) -> SessionOptions {
        let mut options = (self.like)();
        let state = self.state();
        options.judge = Arc::new(self.judge.clone());
        options.mode = state.mode;
        options.model_name.clone_from(&state.model);
        // Its changes are those of the prompt that it works for.
        options.turns = state.turn.saturating_sub(1);
        options
    }

    pub(super) fn enter(&self, item: ItemId, ops: Sender<Op>) {
        self.state().children.insert(item, ops);
    }

    pub(super) fn leave(&self, item: &ItemId) {
        let mut state = self.state();
        state.children.remove(item);
        state.asks.retain(|_, (of, _)| of != item);
    }

    /// A sub-agent has begun on work that is kept.
    pub(super) fn note_work(&self, item: ItemId, id: String) {
        self.state().works.insert(item, id);
    }

    /// Its result tells how to go on, if there is anything to go on with.
    pub(super) fn forget_work(&self, item: &ItemId) {
        self.state().works.remove(item);
    }

    /// What the work of a call is kept by that gave no result.
    pub(crate) fn left_work(&self, item: &ItemId) -> Option<String> {
        self.state().works.remove(item)
    }

    /// Puts the question of a sub-agent to the faces.
    pub(super) fn put(&self, item: &ItemId, agent: &str, ask: Ask) {
        let mut ask = ask;
        let shown = shown_id(item, &ask.id);
        let own = std::mem::replace(&mut ask.id, shown.clone());
        self.state().asks.insert(shown, (item.clone(), own));
        // The call that faces know.
        let call = item.as_str();
        ask.call = call.strip_prefix("tool-").unwrap_or(call).into();
        ask.agent = Some(agent.to_owned());
        // Faces would look for the arguments among the session's own calls.
        ask.outcomes.retain(|outcome| *outcome != AskOutcome::ModifyWithEditor);
        self.hub.send(EventBody::Ask(Box::new(ask)));
    }

    /// It is answered or gone.
    pub(super) fn close(&self, item: &ItemId, ask: &AskId, outcome: Option<AskOutcome>) {
        let shown = shown_id(item, ask);
        self.state().asks.remove(&shown);
        self.hub.send(EventBody::AskClosed { ask: shown, outcome });
    }

    /// Hands an answer to the sub-agent whose question it is; gives it back when
    /// it is none's.
    pub(crate) fn answer(&self, decide: Box<Decide>) -> Option<Box<Decide>> {
        let state = self.state();
        let found = state.asks.get(&decide.ask);
        let Some((child, own)) =
            found.and_then(|(item, own)| Some((state.children.get(item)?, own)))
        else {
            return Some(decide);
        };
        let order = Op::Decide(Box::new(Decide { ask: own.clone(), ..*decide }));
        // Its queue is far longer than the questions it can have; full, it is
        // about to end.
        if child.try_send(order).is_err() {
            tracing::warn!("an answer came too late for a sub-agent");
        }
        None
    }

    /// What a person says meanwhile is for all that are at work.
    pub(crate) fn tell_children(&self, order: &Op) {
        for child in self.state().children.values() {
            // A full queue is one of a session that is about to end.
            let _ = child.try_send(order.clone());
        }
    }

    /// The session begins a turn.
    pub(crate) fn begin_turn(&self, turn: u64) {
        self.state().turn = turn;
    }

    /// The mode or the model of the session is another one.
    pub(crate) fn follow(&self, mode: ApprovalMode, model: &str) {
        let mut state = self.state();
        model.clone_into(&mut state.model);
        if std::mem::replace(&mut state.mode, mode) != mode {
            for child in state.children.values() {
                // A full queue is one of a session that is about to end.
                let _ = child.try_send(Op::SetMode(mode));
            }
        }
    }

    /// A person gave a sub-agent another mode: it is the session's too.
    pub(super) fn lead(&self, mode: ApprovalMode) {
        if self.state().mode != mode
            && let Some(ops) = self.ops.upgrade()
        {
            let _ = ops.try_send(Op::SetMode(mode));
        }
    }
}

/// The id of a sub-agent's question as faces know it.
fn shown_id(item: &ItemId, ask: &AskId) -> AskId {
    AskId::new(format!("{item}/{ask}"))
}

/// Makes options that share what sessions of one family share.
fn like(options: &SessionOptions) -> Box<dyn Fn() -> SessionOptions + Send + Sync> {
    let id = options.id.clone();
    let model = Arc::clone(&options.model);
    let model_name = options.model_name.clone();
    let judge = Arc::clone(&options.judge);
    let (mode, interactive, trusted) = (options.mode, options.interactive, options.trusted);
    let workspace = Arc::clone(&options.workspace);
    let room = options.room.clone();
    let folder_context = options.folder_context.clone();
    let generation = options.generation.clone();
    let (max_attempts, loop_detection) = (options.max_attempts, options.loop_detection);
    let (retry_base, approvals) = (options.retry_base, options.approvals);
    let rule_keeper = options.rule_keeper.clone();
    let checkpoints = options.checkpoints.clone();
    let is_build_file = options.is_build_file;
    // What they spend is the session's, and they take the model that it has.
    let budget = options.budget.within();
    let routing = RoutingOptions { router: Router::Off, ..options.routing };
    let hooks = options.hooks.clone();
    let secrets = options.secrets.clone();
    Box::new(move || SessionOptions {
        id: id.clone(),
        model: Arc::clone(&model),
        model_name: model_name.clone(),
        tools: Vec::new(),
        more_tools: None,
        agents: None,
        judge: Arc::clone(&judge),
        store: Arc::new(NoStore),
        mode,
        interactive,
        replaces: false,
        trusted,
        workspace: Arc::clone(&workspace),
        describe_directories: Arc::new(|_| String::new()),
        directories: Vec::new(),
        add_directory: Box::new(|_| Err("a sub-agent cannot widen the workspace".to_owned())),
        model_changed: Box::new(|_| {}),
        system: Box::new(|_, _| Arc::from("")),
        preface: None,
        cut_off: false,
        history: Vec::new(),
        compactions: Vec::new(),
        room: room.clone(),
        pins: std::collections::BTreeSet::new(),
        sources: Vec::new(),
        folder_context: folder_context.as_ref().map(|context| context.anew()),
        pending: std::collections::BTreeMap::new(),
        generation: generation.clone(),
        max_turns: None,
        budget: budget.clone(),
        routing,
        max_attempts,
        loop_detection,
        retry_base,
        approvals,
        rule_keeper: rule_keeper.clone(),
        checkpoints: checkpoints.clone(),
        is_build_file,
        turns: 0,
        prompts: Vec::new(),
        plan: None,
        shell: None,
        hooks: hooks.clone().map(|hooks| Arc::new(QuietHooks(hooks)) as _),
        secrets: secrets.clone(),
    })
}
