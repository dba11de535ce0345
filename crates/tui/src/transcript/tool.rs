//! A tool call from request to end.

use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::agent::AgentProgress;
use parallax_protocol::event::{
    ApprovalRequest, CallDecision, CallPhase, CallState, ToolDone, ToolStart, ToolStatus,
};
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::Decision;
use parallax_protocol::shell::Screen;
use parallax_protocol::store::CallDetails;
use parallax_protocol::tool::{
    Display, FileDiff, Preview, ProgressUpdate, Todo, ToolErrorKind, ToolKind,
};
use parallax_protocol::untrusted::without_marks;

use super::call_arguments::CallArguments;
use super::describe;
use super::output::CommandOutput;
use super::topic_rows::Topic;

/// Maximum size in bytes of the text kept of a finished call.
const MAX_TEXT: usize = 100_000;
/// Maximum size in bytes of a kept diff.
const MAX_DIFF: usize = 400_000;
/// The start of the message to the model about a cancelled call.
const CANCELLED: &str = "[Operation Cancelled]";
/// What a call that asks the user shows if the user dismissed the questions.
const UNANSWERED: &str = "no answer";
/// The display of a plan that the user rejected, before what the user said about it.
const REJECTED_PLAN: &str = "Plan rejected";
/// The message if the user denied the call.
const REFUSED: &str = "User denied execution";
/// The text before the user's instruction in that message.
const USER_INSTRUCTION_PREFIX: &str = " The user says: ";

/// A tool call.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    /// One line that describes what is done.
    pub(super) title: String,
    /// The command that it runs and the model's description of it.
    pub(super) command: Option<(String, String)>,
    /// The arguments in full, if the title contains only a part of them.
    pub(super) all_arguments: Option<CallArguments>,
    pub(super) state: CallProgress,
    /// The arguments until the call ends.
    args: Option<Object>,
}

/// The state of a call.
#[derive(Debug)]
pub(super) enum CallProgress {
    Open(ActiveCall),
    Done(FinishedCall),
    /// The turn ended without a result.
    Abandoned,
}

/// A call in progress.
#[derive(Debug, Default)]
pub(super) struct ActiveCall {
    pub(super) stage: Stage,
    pub(super) output: CommandOutput,
    /// The progress of the subagent that it started.
    pub(super) agent: Option<Arc<AgentProgress>>,
    /// The progress reported by the server.
    pub(super) advance: Option<ProgressUpdate>,
    /// When it was first shown as running.
    pub(super) since_ms: Option<u64>,
    /// When a confirmation for the call began, if it had already been running.
    asked_ms: Option<u64>,
}

/// The stage of an unfinished call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// Not started.
    #[default]
    Pending,
    /// Waiting for approval.
    Asked,
    Running,
}

/// A finished call.
#[derive(Debug)]
pub(super) struct FinishedCall {
    pub(super) kind: Option<ToolKind>,
    pub(super) status: ToolStatus,
    pub(super) body: CallBody,
    pub(super) error: Option<(ToolErrorKind, String)>,
    /// The rule that denied the call, and the reason.
    pub(super) denied: Option<(String, String)>,
    /// Whether the user denied it.
    pub(super) was_denied: bool,
    /// The user's instruction for the model.
    pub(super) user_instruction: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) duration_ms: u64,
    /// If a screen reader announced the start: what it had not announced before the end.
    pub(super) unannounced_lines: Option<Vec<String>>,
}

/// The content of a call.
#[derive(Debug)]
pub(super) enum CallBody {
    None,
    Text(String),
    Output(CommandOutput),
    Diff(Box<FileDiff>),
    Todos(Vec<Todo>),
    Agent(Box<AgentProgress>),
    Topic(Topic),
}

impl ActiveCall {
    /// Whether there is more to show than the title.
    pub(super) fn has_details(&self) -> bool {
        !self.output.is_empty() || self.agent.is_some() || self.advance.is_some()
    }
}

impl Tool {
    pub(super) fn start(start: &ToolStart) -> Self {
        Self {
            name: start.name.clone(),
            title: describe::arguments(&start.name, &start.args),
            command: describe::command(&start.name, &start.args),
            all_arguments: CallArguments::new(&start.name, &start.args),
            state: CallProgress::Open(ActiveCall::default()),
            args: Some(start.args.clone()),
        }
    }

    /// Creates a finished call.
    pub(super) fn finished(done: &ToolDone) -> Self {
        let mut tool = Self {
            name: done.name.clone(),
            title: String::new(),
            command: None,
            all_arguments: None,
            state: CallProgress::Abandoned,
            args: None,
        };
        tool.end(done);
        tool
    }

    /// Creates a call of a loaded session, before its response is read.
    pub(super) fn from_history(name: &str, args: Option<&Object>) -> Self {
        let title = args.map(|args| describe::arguments(name, args)).unwrap_or_default();
        let command = args.and_then(|args| describe::command(name, args));
        let all_arguments = args.and_then(|args| CallArguments::new(name, args));
        let (name, state) = (name.to_owned(), CallProgress::Abandoned);
        Self { name, title, command, all_arguments, state, args: None }
    }

    /// Sets the response of a loaded call: its text, and whether it is an error.
    pub(super) fn respond(&mut self, (text, failed): (&str, bool)) {
        let kind = describe::kind(&self.name);
        let body = match kind {
            _ if failed => CallBody::None,
            Some(ToolKind::Execute) => CallBody::Output(CommandOutput::from_text(text)),
            // The content is for the model.
            Some(_) => CallBody::None,
            None => CallBody::Text(head_of(text)),
        };
        self.state = CallProgress::Done(FinishedCall {
            unannounced_lines: None,
            kind,
            status: if failed { ToolStatus::Error } else { ToolStatus::Success },
            body,
            error: failed.then(|| (ToolErrorKind::Unknown, head_of(text))),
            denied: None,
            was_denied: false,
            user_instruction: None,
            exit_code: None,
            duration_ms: 0,
        });
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, CallProgress::Open(_))
    }

    /// Whether its row has a spinner or clock: not while it is pending or waits for approval.
    pub(super) fn is_animated(&self) -> bool {
        match &self.state {
            CallProgress::Open(open) => open.stage == Stage::Running || open.agent.is_some(),
            CallProgress::Done(_) | CallProgress::Abandoned => false,
        }
    }

    /// Whether it waits for approval and has nothing else to show.
    pub(super) fn awaits_approval_only(&self) -> bool {
        matches!(&self.state, CallProgress::Open(open) if open.stage == Stage::Asked && !open.has_details())
    }

    /// Returns the arguments of an unfinished call.
    pub(super) fn arguments(&self) -> Option<&Object> {
        self.args.as_ref()
    }

    /// Returns the result of the call, if it has one.
    pub(super) fn finished_mut(&mut self) -> Option<&mut FinishedCall> {
        match &mut self.state {
            CallProgress::Done(done) => Some(done),
            CallProgress::Open(_) | CallProgress::Abandoned => None,
        }
    }

    /// Returns the diff of a file change.
    pub(super) fn diff(&self) -> Option<&FileDiff> {
        match &self.state {
            CallProgress::Done(FinishedCall { body: CallBody::Diff(diff), .. }) => Some(diff),
            _ => None,
        }
    }

    /// Updates the phase.
    pub(super) fn update_phase(&mut self, state: &CallState) {
        self.set_title(state.title.as_deref().unwrap_or_default());
        if let CallProgress::Open(open) = &mut self.state {
            open.stage = match state.phase {
                CallPhase::Validating => Stage::Pending,
                CallPhase::AwaitingApproval => Stage::Asked,
                CallPhase::Executing => Stage::Running,
            };
        }
    }

    /// Replaces the output with the contents of the call's terminal.
    pub(super) fn screen(&mut self, screen: &Screen) {
        if let CallProgress::Open(open) = &mut self.state {
            open.output = CommandOutput::from_screen(screen);
        }
    }

    /// Updates the progress reported by the server.
    pub(super) fn advance(&mut self, advance: &ProgressUpdate) {
        if let CallProgress::Open(open) = &mut self.state {
            open.stage = Stage::Running;
            open.advance = Some(advance.clone());
        }
    }

    /// Updates the progress of the subagent.
    pub(super) fn update_agent(&mut self, progress: &Arc<AgentProgress>) {
        if let CallProgress::Open(open) = &mut self.state {
            open.agent = Some(Arc::clone(progress));
        }
    }

    pub(super) fn ask(&mut self, request: &ApprovalRequest) {
        // A request of the subagent that it started has its own title.
        if request.agent.is_none() {
            self.set_title(&request.title);
            // The arguments that the user sees in the request.
            if let Some(Preview::Mcp { arguments, .. }) = &request.preview {
                self.all_arguments = CallArguments::new(&self.name, arguments);
            }
        }
        if let CallProgress::Open(open) = &mut self.state {
            open.stage = Stage::Asked;
        }
    }

    pub(super) fn record_response(&mut self, outcome: Option<ApprovalResponse>) {
        if let CallProgress::Open(open) = &mut self.state {
            open.stage = match outcome {
                // A subagent continues whatever the answer was.
                _ if open.agent.is_some() => Stage::Running,
                Some(ApprovalResponse::Cancel) | None => Stage::Pending,
                Some(_) => Stage::Running,
            };
        }
    }

    pub(super) fn output(&mut self, more: &str) {
        if let CallProgress::Open(open) = &mut self.state {
            open.stage = Stage::Running;
            open.output.push(more);
        }
    }

    /// Starts the clock when the call is first shown as running.
    pub(super) fn start_clock(&mut self, now_ms: u64) {
        let CallProgress::Open(open) = &mut self.state else { return };
        match open.stage {
            Stage::Running => {
                let since = open.since_ms.get_or_insert(now_ms);
                // Waiting for approval does not count.
                if let Some(asked_at) = open.asked_ms.take() {
                    *since += now_ms.saturating_sub(asked_at);
                }
            }
            Stage::Asked if open.since_ms.is_some() => {
                open.asked_ms.get_or_insert(now_ms);
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, done: &ToolDone) {
        self.args = None;
        self.set_title(&done.title);
        let mut error = done.error.as_ref().map(|(kind, text)| (*kind, without_marks(text)));
        let message = error.as_ref().map(|(_, message)| message.as_ref());
        let body = body_of(display_unless_repeated(done.display.as_ref(), message), done.kind);
        let status = done.status;
        if status == ToolStatus::Cancelled {
            // The sign and the note already show it.
            error = None;
        }
        let denied = done
            .policy_decision
            .as_ref()
            .filter(|policy_decision| policy_decision.kind == Decision::Deny);
        self.state = CallProgress::Done(FinishedCall {
            unannounced_lines: None,
            kind: done.kind,
            status,
            body,
            error: error.as_ref().map(|(kind, text)| (*kind, head_of(text))),
            denied: denied.map(|policy_decision| {
                (policy_decision.rule.clone(), policy_decision.reason.clone())
            }),
            was_denied: done.decision == Some(CallDecision::Reject),
            user_instruction: done.error.as_ref().and_then(|(_, text)| denial_instruction(text)),
            exit_code: done.exit_code(),
            duration_ms: done.duration_ms,
        });
        self.mark_declined();
    }

    /// Marks a question without an answer and a rejected plan, whose calls succeed for the model,
    /// as declined by the user.
    fn mark_declined(&mut self) {
        let CallProgress::Done(done) = &mut self.state else { return };
        let CallBody::Text(text) = &done.body else { return };
        match self.name.as_str() {
            "ask_user" if text == UNANSWERED => done.status = ToolStatus::Cancelled,
            "exit_plan_mode" if text.starts_with(REJECTED_PLAN) => {
                let instruction = text.split_once(": ").map(|(_, words)| head_of(words.trim()));
                done.status = ToolStatus::Cancelled;
                done.was_denied = true;
                done.user_instruction = instruction;
                done.body = CallBody::None;
            }
            _ => {}
        }
    }

    /// Restores a loaded call from its status, its display, the text for the model, and what the
    /// user was shown besides, if known.
    pub(super) fn restore(
        &mut self,
        status: &str,
        display: Option<&Display>,
        output: &str,
        report: Option<&CallDetails>,
    ) {
        let failed = status != "success";
        self.respond((output, failed));
        let CallProgress::Done(done) = &mut self.state else { return };
        let message = failed.then(|| without_marks(output));
        if status == "cancelled" {
            // The sign and the note already show it.
            done.status = ToolStatus::Cancelled;
            done.error = None;
            done.was_denied = output.contains(REFUSED);
            done.user_instruction = denial_instruction(output);
            done.body = body_of(display_unless_repeated(display, message.as_deref()), done.kind);
        }
        if let (false, Some(display)) = (failed, display) {
            done.body = body_of(Some(display), done.kind);
        }
        let Some(report) = report else { return self.mark_declined() };
        let cancelled = status == "cancelled";
        *done = FinishedCall {
            unannounced_lines: None,
            kind: done.kind,
            status: ToolStatus::from_record(status),
            body: body_of(display_unless_repeated(display, message.as_deref()), done.kind),
            error: message
                .filter(|_| !cancelled)
                .map(|message| (ToolErrorKind::Unknown, head_of(&message))),
            denied: report.denied.clone(),
            was_denied: report.was_rejected,
            user_instruction: denial_instruction(output).filter(|_| failed),
            exit_code: report.exit_code,
            duration_ms: report.duration_ms,
        };
        self.set_title(&report.title);
        self.mark_declined();
    }

    /// Sets a better title. One that only names the tool is ignored.
    fn set_title(&mut self, title: &str) {
        if title.is_empty() || title == self.name {
            return;
        }
        title.clone_into(&mut self.title);
        // A hook may have changed the call: show what actually runs.
        self.all_arguments = self.all_arguments.take().filter(|all| all.match_title(title));
        let is_it = |(command, _): &(String, String)| {
            let mut words = title.split_whitespace().filter(|word| *word != "⏎");
            // Long titles are truncated.
            command.split_whitespace().take(50).all(|word| {
                words.next().is_some_and(|it| word.starts_with(it.trim_end_matches('…')))
            })
        };
        self.command = self.command.take().filter(is_it);
    }

    pub(super) fn abandon(&mut self) {
        if self.is_open() {
            self.state = CallProgress::Abandoned;
        }
    }
}

/// Returns the display of a call unless the message of its error contains the same text, which is
/// then shown once.
fn display_unless_repeated<'d>(
    display: Option<&'d Display>,
    message: Option<&str>,
) -> Option<&'d Display> {
    let bare = |text: &str| {
        let text = text.trim();
        text.strip_prefix(CANCELLED).unwrap_or(text).trim_start().to_owned()
    };
    let is_said = |text: &str| {
        let text = bare(text);
        message.map(bare).is_some_and(|message| {
            message == text || (!text.is_empty() && message.starts_with(&text))
        })
    };
    display.filter(|display| !matches!(display, Display::Text { text } if is_said(text)))
}

/// Returns the content of a call from its display.
fn body_of(display: Option<&Display>, kind: Option<ToolKind>) -> CallBody {
    match display {
        None => CallBody::None,
        Some(Display::Text { text }) if text.trim().is_empty() => CallBody::None,
        Some(Display::Text { text }) if kind == Some(ToolKind::Execute) => {
            CallBody::Output(CommandOutput::from_text(text))
        }
        Some(Display::Text { text }) => CallBody::Text(head_of(text)),
        Some(Display::Diff(diff)) => {
            let mut diff = diff.clone();
            diff.diff.truncate(diff.diff.floor_char_boundary(MAX_DIFF));
            CallBody::Diff(Box::new(diff))
        }
        Some(Display::Todos { todos }) => CallBody::Todos(todos.clone()),
        Some(Display::Agent(progress)) => CallBody::Agent(Box::new(progress.clone())),
        Some(Display::Topic { title, summary, intent }) => CallBody::Topic(Topic {
            title: title.clone(),
            summary: summary.clone(),
            intent: intent.clone(),
        }),
    }
}

fn head_of(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Returns the user's instruction from the message about a denied call.
fn denial_instruction(message: &str) -> Option<String> {
    let message = without_marks(message);
    let (before, output) = message.split_once(USER_INSTRUCTION_PREFIX)?;
    (before.contains(REFUSED) && before.starts_with(CANCELLED)).then(|| head_of(output.trim()))
}
