//! Handles the lines of the input.

use parallax_protocol::Object;
use parallax_protocol::event::Question;
use parallax_protocol::ids::SteerId;
use parallax_protocol::op::{ApprovalResponse, Op, Prompt, RequestDecision, SteeringMessage};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::typed_input::TypedInput;
use serde_json::Value;

use super::lines::NumberedLine;
use super::{Conversation, ConversationSession, MAX_QUEUED, PreparingPrompt, QueuedLine};
use crate::info_commands::{self, engine_request};
use crate::input_line::{DecideLine, InputLine};
use crate::runner::Runner;
use crate::slash::{SlashKind, classify};

impl Conversation<'_> {
    /// Handles one line.
    pub(super) fn handle_line(&mut self, incoming: NumberedLine, runner: &mut Runner) {
        let number = incoming.number;
        if self.pending_prompt.is_some() {
            return self.handle_during_approval(incoming, runner);
        }
        if let Err(problem) = incoming.operation.and_then(|line| self.handle_other(line, number)) {
            runner.reject_line(number, &problem);
        }
    }

    /// Handles a line that arrives while a command waits for approval. Lines that begin something
    /// wait, so that they keep their order.
    fn handle_during_approval(&mut self, incoming: NumberedLine, runner: &mut Runner) {
        let number = incoming.number;
        let is_for_command =
            |line: &DecideLine| self.command_approvals.find(line.id.as_str()).is_some();
        let handled = match incoming.operation {
            // It begins nothing, and its sender may wait for the error before it answers.
            Err(problem) => Err(problem),
            Ok(InputLine::Decide(line)) if is_for_command(&line) => {
                self.decide_about_command(*line, runner)
            }
            Ok(line @ (InputLine::Decide(_) | InputLine::Answer { .. })) => {
                self.handle_other(line, number)
            }
            Ok(InputLine::Interrupt) => {
                self.cancel_pending_prompt(runner);
                match self.is_idle() {
                    true => Ok(()),
                    false => self.handle_other(InputLine::Interrupt, number),
                }
            }
            operation if self.waiting.len() < MAX_QUEUED => {
                self.waiting.push_back(NumberedLine { number, operation });
                Ok(())
            }
            _ => Err(format!("{MAX_QUEUED} lines are waiting for an approval")),
        };
        if let Err(problem) = handled {
            runner.reject_line(number, &problem);
        }
    }

    fn decide_about_command(
        &mut self,
        line: DecideLine,
        runner: &mut Runner,
    ) -> Result<(), String> {
        let id = line.id.as_str();
        if !self.command_approvals.find(id).is_some_and(|ask| ask.outcomes.contains(&line.outcome))
        {
            return Err(format!("outcome not offered by the request `{id}`"));
        }
        if let Some(closed) = self.command_approvals.decide(id, line.outcome) {
            runner.print_event(&closed);
        }
        Ok(())
    }

    /// Abandons the prompt that is being prepared.
    fn cancel_pending_prompt(&mut self, runner: &mut Runner) {
        self.deny_commands(runner);
        if let Some(preparing) = self.pending_prompt.take() {
            runner.reject_line(preparing.number, "interrupted before it was sent");
        }
    }

    /// Denies the shell commands that wait for approval.
    pub(super) fn deny_commands(&mut self, runner: &mut Runner) {
        for closed in self.command_approvals.deny_all() {
            runner.print_event(&closed);
        }
    }

    /// Queues a prepared prompt before later lines.
    pub(super) fn queue_prompt(&mut self, mut prompt: Prompt) {
        if let Some(schema) = &self.schema {
            schema.add_instructions(&mut prompt);
        }
        self.queued.push_front(QueuedLine::Prompt(prompt));
    }

    /// Queues a typed text after earlier lines.
    fn handle_typed(&mut self, text: String, number: u64) -> Result<(), String> {
        if text.trim().is_empty() {
            return Err("the message is empty".to_owned());
        }
        if self.queued.len() >= MAX_QUEUED {
            return Err(format!("{MAX_QUEUED} lines are waiting for the running turn"));
        }
        self.queued.push_back(QueuedLine::Typed { number, text });
        Ok(())
    }

    /// Runs a typed text if it is a built-in command; otherwise prepares a prompt.
    pub(super) fn start_typed(&mut self, text: String, number: u64) -> Result<(), String> {
        let command = classify(text.trim_end());
        let Some(ConversationSession { session, expand }) = &self.session else {
            if let SlashKind::Command { name, .. } = command {
                return Err(unknown_command(name));
            }
            self.queue_prompt(Prompt { text, ..Prompt::default() });
            return Ok(());
        };
        if let SlashKind::Command { name, arguments } = command {
            self.outbox.extend(tokio::task::block_in_place(|| session.command_record(name)));
            if let Some(op) = engine_request(session, name, arguments) {
                self.queued.push_front(QueuedLine::Request { typed_line: text, op });
                return Ok(());
            }
            // Reads files and probes the kernel, which takes a few milliseconds.
            let output =
                tokio::task::block_in_place(|| info_commands::run(session, name, arguments));
            if let Some(output) = output.transpose().map_err(|failure| failure.message)? {
                self.queued.push_front(QueuedLine::CommandOutput { typed_line: text, output });
                return Ok(());
            }
        }
        let approver = Some(self.command_approvals.approver());
        let input = TypedInput { text, mode: self.mode.get(), approver };
        self.pending_prompt = Some(PreparingPrompt { number, prompt: expand(input) });
        Ok(())
    }

    /// Sends an operation that an event answers.
    pub(super) fn handle_context_op(&mut self, op: Op) {
        self.expected_answers += 1;
        self.outbox.push_back(op);
    }

    fn handle_other(&mut self, line: InputLine, number: u64) -> Result<(), String> {
        match line {
            InputLine::Message { content } => return self.handle_typed(content, number),
            InputLine::Steer { content } if content.trim().is_empty() => {
                return Err("the message is empty".to_owned());
            }
            InputLine::Steer { content } => {
                if self.is_idle() {
                    self.queue_prompt(Prompt { text: content, ..Prompt::default() });
                } else {
                    let id = SteerId::new(format!("line-{number}"));
                    self.pending_steering.push(id.clone());
                    let prompt = Prompt { text: content, ..Prompt::default() };
                    let steer = SteeringMessage { id, prompt };
                    match !self.queued.is_empty() && !self.running || self.awaits_interrupted_turn()
                    {
                        true => self.queued.push_back(QueuedLine::Steer(steer)),
                        false => self.outbox.push_back(Op::Steer(steer)),
                    }
                }
            }
            InputLine::Interrupt if !self.running && self.expected_turns > 0 => {
                self.interrupts_next_turn = true;
            }
            InputLine::Interrupt => {
                self.interrupts_turn = self.running;
                self.outbox.push_back(Op::Interrupt);
            }
            InputLine::Continue if !self.is_idle() => {
                return Err("a turn is running, so there is nothing to continue".to_owned());
            }
            InputLine::Continue => {
                self.continues.push_back(number);
                self.expected_turns += 1;
                self.outbox.push_back(Op::Continue);
            }
            InputLine::Undo { .. }
            | InputLine::Compact { .. }
            | InputLine::UndoCompaction
            | InputLine::Context
            | InputLine::LeaveOut { .. }
                if self.expected_answers + self.expected_undos >= MAX_QUEUED =>
            {
                return Err(format!("{MAX_QUEUED} requests are waiting for the running turn"));
            }
            InputLine::Undo { turn, force } => {
                self.expected_undos += 1;
                self.outbox.push_back(Op::Undo { prompt: turn, force });
            }
            InputLine::Compact { focus } => self.handle_context_op(Op::Compact { focus }),
            InputLine::UndoCompaction => self.handle_context_op(Op::UndoCompaction),
            InputLine::Context => self.handle_context_op(Op::DescribeContext),
            InputLine::LeaveOut { places } => self.handle_context_op(Op::DropResults(places)),
            // Has no answer.
            InputLine::Pin { place, on } => self.outbox.push_back(Op::Pin { place, on }),
            InputLine::Decide(line) => {
                let DecideLine {
                    id,
                    outcome,
                    feedback,
                    rule,
                    scope,
                    arguments,
                    broader_permissions,
                } = *line;
                let Some(ask) = self.pending_approvals.iter().find(|ask| ask.id.as_str() == id)
                else {
                    return Err(format!("no pending request with the id `{id}`"));
                };
                if !ask.outcomes.contains(&outcome) {
                    return Err(format!("outcome not offered by the request `{id}`"));
                }
                let ask = ask.id.clone();
                let decide = RequestDecision {
                    ask,
                    outcome,
                    feedback,
                    rule,
                    scope,
                    arguments,
                    increase: None,
                    answers: None,
                    broader_permissions,
                    ends_turn: false,
                };
                self.outbox.push_back(Op::Decide(Box::new(decide)));
            }
            InputLine::Answer { id, value } => {
                let Some(ask) = self.pending_approvals.iter().find(|ask| ask.id.as_str() == id)
                else {
                    return Err(format!("no pending question with the id `{id}`"));
                };
                if ask.question != Question::AskUser {
                    return Err(format!(
                        "`{id}` is an approval request: answer it with type decide"
                    ));
                }
                let answers = answers_of(value);
                let outcome = match answers {
                    Some(_) => ApprovalResponse::ProceedOnce,
                    None => ApprovalResponse::Cancel,
                };
                let decide =
                    RequestDecision { answers, ..RequestDecision::new(ask.id.clone(), outcome) };
                self.outbox.push_back(Op::Decide(Box::new(decide)));
            }
            InputLine::Command { text } => match classify(text.trim_end()) {
                SlashKind::Command { .. } => return self.handle_typed(text, number),
                SlashKind::Text => {
                    return Err(format!(
                        "`{}` is not a command: commands begin with `/`",
                        crate::sanitize::one_line(&text)
                    ));
                }
            },
            InputLine::SetModel { model } if model.trim().is_empty() => {
                return Err("the name of the model is empty".to_owned());
            }
            InputLine::SetModel { model } => self.outbox.push_back(Op::SetModel(model)),
            InputLine::SetMode { mode } => {
                let mode = ApprovalMode::parse(&mode).ok_or_else(|| {
                    let mode = crate::sanitize::one_line(&mode);
                    format!("unknown mode `{mode}`: use default, auto_edit, plan, or yolo")
                })?;
                let session = self.session.as_ref().map(|it| it.session);
                if let Some(reason) =
                    session.and_then(|it| it.launch().mode_unavailable_reason(mode))
                {
                    return Err(reason);
                }
                self.mode.request(mode);
                self.outbox.push_back(Op::SetMode(mode));
            }
        }
        Ok(())
    }
}

/// Reports an invalid line.
fn unknown_command(name: &str) -> String {
    let name = crate::sanitize::one_line(name);
    format!(
        "unknown command `/{name}`; to send a message that begins with `/`, put a space before it"
    )
}

/// Returns the answers of a line by question index.
pub(super) fn answers_of(value: Value) -> Option<Object> {
    match value {
        Value::Null => None,
        Value::Object(mut answers) => match answers.shift_remove("answers") {
            Some(Value::Object(answers)) => Some(answers),
            _ => Some(answers),
        },
        answer => Some([("0".to_owned(), answer)].into_iter().collect()),
    }
}
