//! The session actor: it receives operations in order, owns the parts of the session, and runs one
//! turn at a time.

mod changed_definitions;
mod current_turn;
mod model_step;
mod queued_ops;
mod reserved_cost;
mod steps;
mod turn;
mod user_messages;

use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{
    EndReason, EventBody, Level, SessionReady, SteeringOutcome, TurnEnded,
};
use parallax_protocol::op::Prompt;
use parallax_protocol::store::Record;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::changed_definitions::refresh_definitions;
use self::current_turn::CurrentTurn;
use self::user_messages::UserMessages;
use crate::agents::{AgentRole, InvokeAgent, SubagentManager};
use crate::approvals::{ApprovalOptions, ApprovalState};
use crate::budget::Budget;
use crate::checkpoints::SessionCheckpoints;
use crate::closing_notes::CONTINUE;
use crate::context::{Compactor, ContextManager, ContextOptions, RequestFrame, Summarizer};
use crate::conversation::{Conversation, ConversationStart};
use crate::environment::SessionEnvironment;
use crate::event_bus::EventBus;
use crate::history::{History, now};
use crate::hooks::HookRunner;
use crate::inbox::{Inbox, InboxOptions, QueuedInput, TurnInput};
use crate::loop_detection::LoopDetector;
use crate::model_client::{ModelClient, ModelClientOptions};
use crate::options::SessionOptions;
use crate::prompts::Prompts;
use crate::registry::{Registry, ToolDeclarations};
use crate::routing::ModelRouter;
use crate::session_handle::SessionHandle;

/// Capacity of the operation queue; a front end that floods it waits.
const OP_QUEUE: usize = 64;

/// The actor.
struct Session {
    bus: EventBus,
    inbox: Inbox,
    environment: Arc<SessionEnvironment>,
    conversation: Conversation,
    context: ContextManager,
    registry: Registry,
    client: ModelClient,
    router: ModelRouter,
    budget: Budget,
    approvals: ApprovalState,
    hooks: HookRunner,
    checkpoints: SessionCheckpoints,
    subagents: Option<Arc<SubagentManager>>,
    loops: LoopDetector,
    current: CurrentTurn,
}

/// Starts the actor on the current runtime. Subscribe to the bus before, so that no event is
/// missed.
pub fn start(options: SessionOptions, bus: EventBus) -> SessionHandle {
    launch(options, None, bus)
}

/// Starts the actor; with a role it is a subagent.
fn launch(mut options: SessionOptions, role: Option<AgentRole>, bus: EventBus) -> SessionHandle {
    let (ops, receiver) = mpsc::channel(OP_QUEUE);
    let subagents = options.agents.take().map(|agents| {
        let is_subagent = role.is_some();
        let subagents = Arc::new(SubagentManager::new(
            agents,
            &mut options,
            bus.clone(),
            &ops,
            is_subagent,
            launch,
        ));
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
    let inbox = InboxOptions {
        ops: receiver,
        mode: options.mode,
        model: options.model_name,
        model_changed: options.model_changed,
        add_directory: options.add_directory,
        shell: options.shell,
        subagents: subagents.clone(),
        ledger: options.budget.ledger(),
    };
    let inbox = Inbox::new(inbox, bus.clone());
    let environment = Arc::new(SessionEnvironment {
        interactive: options.interactive,
        includes_file_texts: options.includes_file_texts,
        is_replacement: options.is_replacement,
        trusted: options.trusted,
        workspace: options.workspace,
        describe_directories: options.describe_directories,
        secrets: options.secrets,
        role,
    });
    let notices = inbox.notices().clone();
    let session = Session {
        conversation: Conversation::new(ConversationStart {
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
            is_last_answer_partial: options.was_interrupted,
            plan: options.plan,
            directories: options.directories,
        }),
        context: ContextManager::new(ContextOptions {
            compaction: options.compaction,
            sources: options.sources,
            folder_context: options.folder_context,
            editor_context: options.editor_context,
            system: options.system,
        }),
        registry: Registry::new(options.tools, options.more_tools),
        router: ModelRouter::new(
            options.routing,
            Arc::clone(&options.model),
            bus.clone(),
            options.budget.ledger(),
        ),
        client: ModelClient::new(ModelClientOptions {
            model: options.model,
            generation: options.generation,
            max_attempts: options.max_attempts,
            retry_base: options.retry_base,
            max_requests: options.max_turns,
            unfinished_answer: options.unfinished_answer,
        }),
        budget: options.budget,
        approvals: ApprovalState::new(
            ApprovalOptions {
                policy_engine: options.policy_engine,
                limits: options.approvals,
                rule_store: options.rule_store,
                mode: options.mode,
            },
            Arc::clone(&environment),
            bus.clone(),
            notices.clone(),
        ),
        hooks: HookRunner::new(options.hooks, bus.clone(), notices),
        checkpoints: SessionCheckpoints::new(options.checkpoints, options.is_build_file),
        subagents,
        loops: LoopDetector::new(options.loop_detection),
        current: CurrentTurn::default(),
        inbox,
        environment,
        bus: bus.clone(),
    };
    bus.send(EventBody::SessionReady(ready));
    let task = tokio::spawn(session.run(bus));
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
    async fn run(mut self, bus: EventBus) {
        let _close = CloseOnDrop(bus);
        let mut turn = 0;
        self.hooks.start(
            match (self.conversation.history().len() > 0, self.environment.is_replacement) {
                (true, _) => "resume",
                (false, true) => "clear",
                (false, false) => "startup",
            },
        );
        self.context.resume_directory_context(self.conversation.history());
        self.conversation.record_ended_processes();
        loop {
            self.run_queued_ops().await;
            let Some(QueuedInput { input, interrupted, steer }) = self.inbox.next_input() else {
                if self.inbox.is_over() {
                    break;
                }
                self.wait_for_ops().await;
                continue;
            };
            if let Some(id) = steer {
                self.inbox.report_steering_outcome(
                    id,
                    input.text().to_owned(),
                    SteeringOutcome::Prompted,
                );
            }
            if let Some(input) = self.input_to_start(input) {
                turn += 1;
                self.serve_turn(turn, input, interrupted).await;
            }
        }
        // Requests made outside turns.
        self.budget.save_spending(self.conversation.history_mut());
        self.hooks.end(&mut self.inbox).await;
    }

    /// Waits for an operation, or for the session-start hooks.
    async fn wait_for_ops(&mut self) {
        // Do not wait for what arrived while another operation ran.
        if self.inbox.has_queued_ops() {
            return;
        }
        let outcome = tokio::select! {
            biased;
            () = self.inbox.receive() => return,
            outcome = self.hooks.start_finished() => outcome,
        };
        self.hooks.apply_session_start(Some(outcome));
    }

    /// Returns the input with which a turn starts; if none can, notifies the user.
    fn input_to_start(&self, input: TurnInput) -> Option<TurnInput> {
        if matches!(input, TurnInput::Prompt(_)) || self.conversation.is_interrupted() {
            return Some(input);
        }
        if self.conversation.is_cancelled() {
            // The history of a cancelled turn is complete, so only a prompt can follow.
            return Some(TurnInput::Prompt(Prompt {
                text: CONTINUE.to_owned(),
                ..Prompt::default()
            }));
        }
        self.bus.send(EventBody::NotContinued);
        None
    }

    /// Runs a turn and reports its end. `turn` counts the turns of this process.
    async fn serve_turn(&mut self, turn: u64, mut input: TurnInput, interrupted: bool) {
        // A resumed turn keeps its number.
        if matches!(input, TurnInput::Prompt(_)) {
            self.conversation.start_turn();
        }
        self.bus.set_turn(turn);
        let (started_at, waited) = (Instant::now(), self.bus.user_wait());
        // First: an interrupt may come while definitions are read.
        let cancel = match &self.environment.role {
            Some(role) => role.cancel.child_token(),
            None => CancellationToken::new(),
        };
        if interrupted {
            cancel.cancel();
        }
        self.inbox.set_turn(Some(cancel.clone()));
        refresh_definitions(
            turn == 1,
            self.subagents.as_deref(),
            &self.registry,
            &mut self.conversation,
            &mut self.inbox,
        )
        .await;
        self.bus.send(EventBody::TurnStarted { prompt: input.display_text().to_owned() });
        let overrides = input.take_overrides();
        let Self { current, registry, approvals, inbox, .. } = self;
        current.apply_overrides(overrides, registry, approvals, inbox);
        let reason = self.run_turn(input, cancel).await.err().unwrap_or(EndReason::Done);
        let Self { current, registry, approvals, inbox, .. } = self;
        current.clear_overrides(registry, approvals, inbox);
        if let Some(warning) = self.registry.take_warning() {
            self.inbox.notice(Level::Warning, warning);
        }
        self.conversation.set_cancelled(matches!(reason, EndReason::Cancelled));
        self.router.end_turn(&reason, self.inbox.model());
        self.conversation.record_limits(&mut self.inbox);
        self.conversation.record_selection(&mut self.inbox);
        self.budget.save_spending(self.conversation.history_mut());
        self.inbox.set_turn(None);
        self.record_turn_end(&reason);
        self.conversation.sync(&mut self.inbox).await;
        // A late steering message becomes a prompt. A subagent has one prompt only; the session
        // has the message too.
        let late = self.inbox.take_steering();
        if self.environment.role.is_none() && !self.inbox.is_shutting_down() {
            self.inbox.queue_steers(late);
        }
        // Time spent waiting for the user does not count.
        let waited = self.bus.user_wait().saturating_sub(waited);
        let worked = started_at.elapsed().saturating_sub(waited);
        let duration_ms = u64::try_from(worked.as_millis()).unwrap_or(u64::MAX);
        let is_removed = self.current.end();
        self.bus.send(EventBody::TurnEnded(TurnEnded { reason, duration_ms, is_removed }));
    }

    /// Records the end of a turn. A prompt that was abandoned before it started leaves no journal:
    /// there would be nothing to resume.
    fn record_turn_end(&mut self, reason: &EndReason) {
        let word = match reason {
            EndReason::Cancelled if self.inbox.is_shutting_down() => "shutdown",
            _ => reason.as_str(),
        };
        let detail = match reason {
            EndReason::Loop { detail } => Some(detail),
            EndReason::Stopped { reason, .. } => Some(reason),
            EndReason::Failed(failure) => Some(&failure.message),
            _ => None,
        };
        if self.conversation.history().len() > 0 || self.current.is_removed() {
            let (time, reason, detail) = (now(), word.to_owned(), detail.cloned());
            self.conversation.history_mut().record(&Record::TurnEnd { time, reason, detail });
        }
    }

    /// Returns the model in use.
    fn main_model(&self) -> String {
        self.router.main_model(self.inbox.model())
    }

    /// Returns the declarations of the tools that the next request may use.
    fn declare_tools(&mut self) -> ToolDeclarations {
        let (mode, interactive) = (self.inbox.mode(), self.environment.interactive);
        self.registry.declare(self.approvals.policy_engine(), mode, interactive)
    }

    /// Returns what the next request contains besides the history.
    fn frame(&mut self) -> RequestFrame {
        let model = self.main_model();
        let limits = self.client.catalog().limits(&model);
        let tools = self.declare_tools();
        self.context.frame((model, limits), self.inbox.mode(), &tools)
    }

    /// Emits the context usage of the next request if it changed.
    fn emit_context_usage(&mut self) {
        let frame = self.frame();
        self.context.emit_usage(&frame, self.conversation.history(), &self.bus);
    }

    fn compactor(&mut self) -> Compactor<'_> {
        let frame = self.frame();
        let (model, ledger) = (Arc::clone(self.client.model()), self.budget.ledger());
        Compactor {
            kinds: self.registry.tool_kinds(),
            frame,
            summarizer: Summarizer { model, ledger },
            context: &mut self.context,
            conversation: &mut self.conversation,
            hooks: &self.hooks,
            inbox: &mut self.inbox,
            bus: &self.bus,
        }
    }

    fn user_messages(&mut self) -> UserMessages<'_> {
        UserMessages {
            conversation: &mut self.conversation,
            hooks: &mut self.hooks,
            inbox: &mut self.inbox,
            environment: &self.environment,
            bus: &self.bus,
        }
    }
}
