//! A conversation over one process: reads operations as JSON lines from stdin and writes events as
//! stream-json.

mod command_approvals;
mod line_handlers;
mod lines;

use std::collections::VecDeque;
use std::time::Duration;

use parallax_protocol::BoxFuture;
use parallax_protocol::event::{
    ApprovalRequest, Compaction, CompactionCause, Event, EventBody, Failure, SteeringOutcome,
    SteeringResult,
};
use parallax_protocol::ids::SteerId;
use parallax_protocol::op::{ApprovalResponse, Op, Prompt, RequestDecision, SteeringMessage};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::typed_input::{CurrentMode, ExpandInput};
use parallax_sdk::{EventReader, OpSender, OpenSession};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use self::command_approvals::CommandApprovals;
use self::lines::{LineSource, NumberedLine, read_lines};
use crate::answer_schema::{AnswerCheck, AnswerSchema};
use crate::command_output::print_between_turns;
use crate::exit::ExitCode;
use crate::failure::RunOutcome;
use crate::info_commands::{CommandOutput, engine_answer};
use crate::options::{OutputFormat, OutputWriters, RunOptions};
use crate::runner::{InterruptionCause, Runner, RunnerStep};
use crate::signals::Signals;

/// How long the session may take to turn a late steering message into a prompt.
const STEER_GRACE: Duration = Duration::from_secs(1);
/// How often to check, after the end of the input, whether stdout still has a reader.
const READER_CHECK: Duration = Duration::from_millis(250);

/// The session of a conversation, for input that is not sent to the model.
pub struct ConversationSession<'a> {
    /// Runs commands.
    pub session: &'a OpenSession,
    /// Prepares prompts.
    pub expand: ExpandInput,
}

/// Maximum number of lines waiting for the running turn.
const MAX_QUEUED: usize = 256;

/// Reads operations from `input` and prints events until the input has ended and the last turn is
/// over. The format is always stream-json, with a `result` line per turn; the exit code is that of
/// the last turn. An invalid line results in an `error` event. Approval requests and questions that
/// are open when the input ends are denied.
pub async fn run_stream_input(
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    input: impl AsyncRead + Send + Unpin + 'static,
    session: ConversationSession<'_>,
    options: RunOptions,
) -> ExitCode {
    run_with(Signals::listen(), io, ops, events, input, Some(session), options).await
}

pub(crate) async fn run_with(
    signals: Signals,
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    input: impl AsyncRead + Send + Unpin + 'static,
    session: Option<ConversationSession<'_>>,
    mut options: RunOptions,
) -> ExitCode {
    options.format = OutputFormat::StreamJson;
    let mut runner = Runner::new(io, ops.clone(), signals, &options, None);
    runner.begin().await;
    let mut conversation = Conversation::new(read_lines(input), session);
    conversation.is_reader_gone = options.is_reader_gone;
    conversation.schema = options.schema.take().map(AnswerSchema::new);
    let outcome = conversation.run(&mut runner, events, &ops).await;
    conversation.reader.abort();
    drop(ops);
    // Each turn already has its `result` line; a warning follows the last one.
    runner.end_session(events).await;
    runner.flush().await;
    runner.exit(outcome).await
}

/// A queued line, in input order.
enum QueuedLine {
    /// A typed text. It is prepared when its turn comes, because an earlier turn may change what it
    /// refers to.
    Typed {
        number: u64,
        text: String,
    },
    Prompt(Prompt),
    /// A command with its output.
    CommandOutput {
        typed_line: String,
        output: CommandOutput,
    },
    /// A steering message for a prompt before it.
    Steer(SteeringMessage),
    /// A command that the engine answers.
    Request {
        typed_line: String,
        op: Op,
    },
}

/// A prompt that is being prepared, with its line number.
struct PreparingPrompt {
    number: u64,
    prompt: BoxFuture<'static, Result<Prompt, Failure>>,
}

struct Conversation<'a> {
    session: Option<ConversationSession<'a>>,
    lines: mpsc::Receiver<NumberedLine>,
    reader: JoinHandle<()>,
    input_ended: bool,
    /// While this is set, no further line is read, so that prompts keep the order of their lines.
    pending_prompt: Option<PreparingPrompt>,
    queued: VecDeque<QueuedLine>,
    /// The numbers of `continue` lines that no turn has answered yet.
    continues: VecDeque<u64>,
    /// The command that the engine has not answered yet.
    requested: Option<String>,
    /// Requests for the shell commands of the prompt that is being prepared.
    command_approvals: CommandApprovals,
    /// Lines that arrived while a command waited for approval.
    waiting: VecDeque<NumberedLine>,
    mode: CurrentMode,
    /// Operations that the session has not accepted yet.
    outbox: VecDeque<Op>,
    running: bool,
    /// Number of sent prompts whose turns have not begun.
    expected_turns: usize,
    /// Number of sent undo operations without a result yet.
    expected_undos: usize,
    /// Number of sent context operations without an answer yet.
    expected_answers: usize,
    /// Steering messages whose end no event has reported yet. One that arrives too late becomes a
    /// prompt.
    pending_steering: Vec<SteerId>,
    steer_deadline: Option<Instant>,
    /// Whether an interrupt came after a prompt whose turn has not begun; it ends that turn.
    interrupts_next_turn: bool,
    /// Whether the running turn was interrupted.
    interrupts_turn: bool,
    is_reader_gone: Option<fn() -> bool>,
    /// Schema of the answers.
    schema: Option<AnswerSchema>,
    pending_approvals: Vec<ApprovalRequest>,
    last: RunOutcome,
}

impl<'a> Conversation<'a> {
    fn new(lines: LineSource, session: Option<ConversationSession<'a>>) -> Self {
        let mode = session.as_ref().map_or(ApprovalMode::Default, |it| it.session.mode);
        Self {
            session,
            command_approvals: CommandApprovals::new(),
            waiting: VecDeque::new(),
            mode: CurrentMode::new(mode),
            lines: lines.receiver,
            reader: lines.task,
            input_ended: false,
            pending_prompt: None,
            queued: VecDeque::new(),
            continues: VecDeque::new(),
            requested: None,
            outbox: VecDeque::new(),
            running: false,
            expected_turns: 0,
            expected_undos: 0,
            expected_answers: 0,
            pending_steering: Vec::new(),
            steer_deadline: None,
            interrupts_next_turn: false,
            interrupts_turn: false,
            is_reader_gone: None,
            schema: None,
            pending_approvals: Vec::new(),
            last: RunOutcome::success(),
        }
    }

    fn is_idle(&self) -> bool {
        self.is_between_turns()
            && self.queued.is_empty()
            && self.waiting.is_empty()
            && self.pending_prompt.is_none()
    }

    /// Returns whether the session is idle.
    fn is_between_turns(&self) -> bool {
        let expected = self.expected_turns + self.expected_undos + self.expected_answers;
        !self.running && expected == 0 && self.outbox.is_empty()
    }

    /// Whether an interrupt waits for the end of its turn. Until then, no prompt is sent, so that the
    /// interrupt cannot end the turn of a later line.
    fn awaits_interrupted_turn(&self) -> bool {
        self.interrupts_next_turn || self.interrupts_turn
    }

    /// Handles queued lines whose turn has come: each waits for the end of the turn before it. A
    /// steering message waits only for the lines before it.
    async fn process_ready_lines(&mut self, runner: &mut Runner, events: &mut EventReader) {
        while let Some(next) = self.queued.pop_front() {
            let is_due = self.pending_prompt.is_none()
                && !self.awaits_interrupted_turn()
                && (self.is_between_turns() || matches!(next, QueuedLine::Steer(_)));
            if !is_due {
                self.queued.push_front(next);
                return;
            }
            match next {
                QueuedLine::Typed { number, text } => {
                    if let Err(problem) = self.start_typed(text, number) {
                        runner.reject_line(number, &problem);
                    }
                }
                QueuedLine::Prompt(prompt) => {
                    self.expected_turns += 1;
                    self.outbox.push_back(Op::Prompt(prompt));
                }
                QueuedLine::Steer(steer) => self.outbox.push_back(Op::Steer(steer)),
                QueuedLine::CommandOutput { typed_line, output } => {
                    print_between_turns(runner, events, typed_line, output).await;
                    self.last = RunOutcome::success();
                }
                QueuedLine::Request { typed_line, op } => {
                    self.requested = Some(typed_line);
                    self.handle_context_op(op);
                }
            }
        }
    }

    async fn run(
        &mut self,
        runner: &mut Runner,
        events: &mut EventReader,
        ops: &OpSender,
    ) -> RunOutcome {
        loop {
            if runner.is_interrupted() {
                // Drop queued lines.
                self.queued.clear();
                self.waiting.clear();
                self.pending_prompt = None;
            }
            while self.pending_prompt.is_none()
                && let Some(incoming) = self.waiting.pop_front()
            {
                self.handle_line(incoming, runner);
            }
            self.process_ready_lines(runner, events).await;
            if runner.is_interrupted() && self.is_idle() {
                return self.finish_forced(runner).await;
            }
            if self.input_ended && self.is_idle() {
                if self.pending_steering.is_empty() {
                    return self.last.clone();
                }
                self.steer_deadline.get_or_insert_with(|| Instant::now() + STEER_GRACE);
            } else {
                self.steer_deadline = None;
            }
            let listens = self.outbox.is_empty()
                && (self.pending_prompt.is_none() || self.command_approvals.has_open())
                && !self.input_ended
                && !runner.is_interrupted();
            // Not biased, so that a flood of events or of lines cannot block the other.
            let step = tokio::select! {
                step = runner.next(events) => step,
                permit = ops.reserve(), if !self.outbox.is_empty() => {
                    match (permit, self.outbox.pop_front()) {
                        (Ok(permit), Some(op)) => permit.send(op),
                        _ => self.outbox.clear(),
                    }
                    RunnerStep::Continue
                }
                (number, prompt) = wait_for_prompt(&mut self.pending_prompt) => {
                    self.pending_prompt = None;
                    match prompt {
                        Ok(prompt) => self.queue_prompt(prompt),
                        Err(failure) => runner.reject_line(number, &failure.message),
                    }
                    RunnerStep::Continue
                }
                announced = self.command_approvals.next() => {
                    runner.print_event(&announced);
                    if self.input_ended {
                        self.deny_commands(runner);
                    }
                    RunnerStep::Continue
                }
                line = self.lines.recv(), if listens => {
                    match line {
                        Some(incoming) => self.handle_line(incoming, runner),
                        None => {
                            self.end_of_input();
                            self.deny_commands(runner);
                        }
                    }
                    RunnerStep::Continue
                }
                () = sleep(READER_CHECK), if self.input_ended && !runner.is_interrupted() => {
                    if self.is_reader_gone.is_some_and(|is_gone| is_gone()) {
                        runner.interrupt(InterruptionCause::ReaderGone).await;
                    }
                    RunnerStep::Continue
                }
                () = wait_until(self.steer_deadline) => {
                    self.pending_steering.clear();
                    RunnerStep::Continue
                }
            };
            match step {
                RunnerStep::Continue => {}
                RunnerStep::GiveUp => return self.finish_forced(runner).await,
                RunnerStep::Closed => {
                    if runner.is_interrupted() {
                        return self.finish_forced(runner).await;
                    }
                    let outcome = RunOutcome::internal("The session ended before the conversation");
                    runner.end(&outcome).await;
                    return outcome;
                }
                RunnerStep::Event(event) => {
                    let event = runner.process_event(*event, events, needs_reaction);
                    let answer = self.requested.as_ref().and_then(|_| engine_answer(&event.body));
                    let is_written = self.handle_event(event, runner).await;
                    if let Some(output) = answer
                        && let Some(typed) = self.requested.take()
                    {
                        print_between_turns(runner, events, typed, output).await;
                        self.last = RunOutcome::success();
                        continue;
                    }
                    if is_written {
                        continue;
                    }
                }
            }
            runner.flush().await;
        }
    }

    /// Writes the final output after a signal or a broken pipe.
    async fn finish_forced(&mut self, runner: &mut Runner) -> RunOutcome {
        let outcome = runner.forced_outcome().unwrap_or_else(|| self.last.clone());
        if outcome.error.is_some() {
            runner.end(&outcome).await;
        }
        outcome
    }

    /// Reacts to an event. Returns whether its output is written already.
    async fn handle_event(&mut self, event: Event, runner: &mut Runner) -> bool {
        match event.body {
            EventBody::TurnStarted { .. } => {
                // A turn that continues has a prompt of an earlier line.
                self.continues.clear();
                self.running = true;
                self.expected_turns = self.expected_turns.saturating_sub(1);
                if std::mem::take(&mut self.interrupts_next_turn) {
                    self.interrupts_turn = true;
                    self.outbox.push_back(Op::Interrupt);
                }
            }
            EventBody::SteerEnded(SteeringResult { id, outcome, .. }) => {
                self.pending_steering.retain(|steer| *steer != id);
                if outcome == SteeringOutcome::Prompted {
                    self.expected_turns += 1;
                }
            }
            EventBody::StateChanged { mode, .. } => self.mode.confirm(mode),
            EventBody::ApprovalRequested(ask) => {
                self.pending_approvals.push(*ask);
                if self.input_ended {
                    self.deny_pending_requests();
                }
            }
            EventBody::Compaction(Compaction {
                cause: CompactionCause::Manual | CompactionCause::Undo,
                ..
            })
            | EventBody::ContextBreakdown(_) => {
                self.expected_answers = self.expected_answers.saturating_sub(1);
            }
            EventBody::NotContinued => {
                self.expected_turns = self.expected_turns.saturating_sub(1);
                self.interrupts_next_turn = false;
                if let Some(number) = self.continues.pop_front() {
                    let problem = "nothing to continue: the last turn was not interrupted";
                    runner.reject_line(number, problem);
                }
            }
            EventBody::Undone(_) => self.expected_undos = self.expected_undos.saturating_sub(1),
            EventBody::ApprovalClosed { ask, .. } => {
                self.pending_approvals.retain(|open| open.id != ask)
            }
            EventBody::TurnEnded(end) => {
                self.running = false;
                self.interrupts_turn = false;
                self.interrupts_next_turn &= self.expected_turns > 0;
                self.pending_approvals.clear();
                if runner.is_interrupted() {
                    return true;
                }
                let outcome = RunOutcome::from(&end.reason);
                let check = match &mut self.schema {
                    Some(schema) => schema.check(outcome, runner.summary.answer_text()),
                    None => AnswerCheck::Finished(outcome, None),
                };
                match check {
                    AnswerCheck::AskAgain(correction) => {
                        self.expected_turns += 1;
                        self.outbox.push_back(correction);
                        return false;
                    }
                    AnswerCheck::Finished(outcome, value) => {
                        self.last = outcome;
                        runner.summary.structured = value;
                        runner.end(&self.last).await;
                        runner.summary.structured = None;
                        return true;
                    }
                }
            }
            _ => {}
        }
        false
    }

    fn end_of_input(&mut self) {
        self.input_ended = true;
        self.deny_pending_requests();
    }

    fn deny_pending_requests(&mut self) {
        for ask in self.pending_approvals.drain(..) {
            self.outbox.push_back(Op::Decide(Box::new(RequestDecision {
                feedback: Some("The request cannot be answered: the input has ended".to_owned()),
                ..RequestDecision::new(ask.id, ApprovalResponse::Cancel)
            })));
        }
    }
}

/// Waits for the prepared prompt.
async fn wait_for_prompt(
    preparing: &mut Option<PreparingPrompt>,
) -> (u64, Result<Prompt, Failure>) {
    match preparing {
        Some(PreparingPrompt { number, prompt }) => (*number, prompt.await),
        None => std::future::pending().await,
    }
}

/// Returns whether this loop must handle the event itself.
fn needs_reaction(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::TurnStarted { .. }
            | EventBody::SteerEnded(_)
            | EventBody::StateChanged { .. }
            | EventBody::ApprovalRequested(_)
            | EventBody::ApprovalClosed { .. }
            | EventBody::Undone(_)
            | EventBody::Compaction(_)
            | EventBody::ContextBreakdown(_)
            | EventBody::NotContinued
            | EventBody::TurnEnded(_)
    )
}

async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
