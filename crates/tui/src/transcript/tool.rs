//! A call: from the model's wish to its end.

use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::agent::AgentProgress;
use parallax_protocol::event::{
    Ask, CallDecision, CallPhase, CallState, ToolDone, ToolStart, ToolStatus,
};
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::Decision;
use parallax_protocol::shell::Screen;
use parallax_protocol::store::CallTold;
use parallax_protocol::tool::{Advance, Display, FileDiff, Todo, ToolErrorKind, ToolKind};
use parallax_protocol::untrusted::without_marks;

use super::describe;
use super::output::{Output, tail_of};
use super::topic_rows::Topic;

/// The longest text of a finished call that is kept, in bytes.
const MAX_TEXT: usize = 100_000;
/// The longest diff that is kept, in bytes.
const MAX_DIFF: usize = 400_000;
/// How the message to the model about a cancelled call begins.
const CANCELLED: &str = "[Operation Cancelled]";
/// The message if the user denied the call.
const REFUSED: &str = "User denied execution";
/// The text before the user's instruction for the model in it.
const SAYS: &str = " The user says: ";

/// A call.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    /// One line: what is done, to which thing.
    pub(super) title: String,
    /// The command that it runs, and what the model says of it.
    pub(super) command: Option<(String, String)>,
    pub(super) state: State,
    /// The arguments, until it is over.
    args: Option<Object>,
}

/// How far a call is.
#[derive(Debug)]
pub(super) enum State {
    Open(Open),
    Done(Done),
    /// Its turn ended without a word about it.
    Abandoned,
}

/// A call that is not over.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) stage: Stage,
    pub(super) output: Output,
    /// The progress of the subagent that it started.
    pub(super) agent: Option<Arc<AgentProgress>>,
    /// How far it is, as its server tells it.
    pub(super) advance: Option<Advance>,
    /// When it was first shown as running.
    pub(super) since_ms: Option<u64>,
    /// When a confirmation for the call began, if it had already been running.
    asked_ms: Option<u64>,
}

/// Where an open call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// Before anything of it happened.
    #[default]
    Pending,
    /// Waiting for approval.
    Asked,
    Running,
}

/// A call that is over.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) kind: Option<ToolKind>,
    pub(super) status: ToolStatus,
    pub(super) body: Body,
    pub(super) error: Option<(ToolErrorKind, String)>,
    /// The rule that refused it, and why.
    pub(super) denied: Option<(String, String)>,
    /// Whether the user denied it.
    pub(super) refused: bool,
    /// The user's instruction for the model.
    pub(super) said: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) duration_ms: u64,
}

/// What a call has to show.
#[derive(Debug)]
pub(super) enum Body {
    None,
    Text(String),
    Output(Output),
    Diff(Box<FileDiff>),
    Todos(Vec<Todo>),
    Agent(Box<AgentProgress>),
    Topic(Topic),
}

impl Open {
    /// Whether there is more to show than what is done.
    pub(super) fn shows_more(&self) -> bool {
        !self.output.is_empty() || self.agent.is_some() || self.advance.is_some()
    }
}

impl Tool {
    pub(super) fn start(start: &ToolStart) -> Self {
        Self {
            name: start.name.clone(),
            title: describe::arguments(&start.name, &start.args),
            command: describe::command(&start.name, &start.args),
            state: State::Open(Open::default()),
            args: Some(start.args.clone()),
        }
    }

    /// One that is over already.
    pub(super) fn whole(done: &ToolDone) -> Self {
        let mut tool = Self {
            name: done.name.clone(),
            title: String::new(),
            command: None,
            state: State::Abandoned,
            args: None,
        };
        tool.end(done);
        tool
    }

    /// One of a loaded session, before its response is read.
    pub(super) fn loaded(name: &str, args: Option<&Object>) -> Self {
        let title = args.map(|args| describe::arguments(name, args)).unwrap_or_default();
        let command = args.and_then(|args| describe::command(name, args));
        Self { name: name.to_owned(), title, command, state: State::Abandoned, args: None }
    }

    /// The response of a loaded call: its text, and whether it is a failure.
    pub(super) fn respond(&mut self, (text, failed): (&str, bool)) {
        let kind = describe::kind(&self.name);
        let body = match kind {
            _ if failed => Body::None,
            Some(ToolKind::Execute) => Body::Output(Output::of(text)),
            // What was read or changed is for the model.
            Some(_) => Body::None,
            None => Body::Text(head_of(text)),
        };
        self.state = State::Done(Done {
            kind,
            status: if failed { ToolStatus::Error } else { ToolStatus::Success },
            body,
            error: failed.then(|| (ToolErrorKind::Unknown, head_of(text))),
            denied: None,
            refused: false,
            said: None,
            exit_code: None,
            duration_ms: 0,
        });
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether its row has a turning sign or a clock: not while it waits or asks.
    pub(super) fn is_moving(&self) -> bool {
        match &self.state {
            State::Open(open) => open.stage == Stage::Running || open.agent.is_some(),
            State::Done(_) | State::Abandoned => false,
        }
    }

    /// Whether it waits for approval and has nothing else to show.
    pub(super) fn is_only_asked(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.stage == Stage::Asked && !open.shows_more())
    }

    /// The arguments of a call that is not over.
    pub(super) fn arguments(&self) -> Option<&Object> {
        self.args.as_ref()
    }

    /// What it wrote, once it is over.
    pub(super) fn done_output(&mut self) -> Option<&mut Output> {
        match &mut self.state {
            State::Done(Done { body: Body::Output(output), .. }) => Some(output),
            _ => None,
        }
    }

    /// The change that it made to a file.
    pub(super) fn diff(&self) -> Option<&FileDiff> {
        match &self.state {
            State::Done(Done { body: Body::Diff(diff), .. }) => Some(diff),
            _ => None,
        }
    }

    /// It got further.
    pub(super) fn phase(&mut self, state: &CallState) {
        self.entitle(state.title.as_deref().unwrap_or_default());
        if let State::Open(open) = &mut self.state {
            open.stage = match state.phase {
                CallPhase::Validating => Stage::Pending,
                CallPhase::AwaitingApproval => Stage::Asked,
                CallPhase::Executing => Stage::Running,
            };
        }
    }

    /// What its terminal shows, in place of what it wrote.
    pub(super) fn screen(&mut self, screen: &Screen) {
        if let State::Open(open) = &mut self.state {
            open.output = Output::on(screen);
        }
    }

    /// How far it is, as its server tells it.
    pub(super) fn advance(&mut self, advance: &Advance) {
        if let State::Open(open) = &mut self.state {
            open.stage = Stage::Running;
            open.advance = Some(advance.clone());
        }
    }

    /// The progress of the subagent that it started.
    pub(super) fn agent(&mut self, progress: &Arc<AgentProgress>) {
        if let State::Open(open) = &mut self.state {
            open.agent = Some(Arc::clone(progress));
        }
    }

    pub(super) fn ask(&mut self, ask: &Ask) {
        // A request of the subagent that it started has its own title.
        if ask.agent.is_none() {
            self.entitle(&ask.title);
        }
        if let State::Open(open) = &mut self.state {
            open.stage = Stage::Asked;
        }
    }

    pub(super) fn answered(&mut self, outcome: Option<AskOutcome>) {
        if let State::Open(open) = &mut self.state {
            open.stage = match outcome {
                // A subagent continues, whatever the answer was.
                _ if open.agent.is_some() => Stage::Running,
                Some(AskOutcome::Cancel) | None => Stage::Pending,
                Some(_) => Stage::Running,
            };
        }
    }

    pub(super) fn output(&mut self, more: &str) {
        if let State::Open(open) = &mut self.state {
            open.stage = Stage::Running;
            open.output.push(more);
        }
    }

    /// It is about to be shown: its clock begins when it is first seen running.
    pub(super) fn seen(&mut self, now_ms: u64) {
        let State::Open(open) = &mut self.state else { return };
        match open.stage {
            Stage::Running => {
                let since = open.since_ms.get_or_insert(now_ms);
                // The time of a question does not count.
                if let Some(asked) = open.asked_ms.take() {
                    *since += now_ms.saturating_sub(asked);
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
        self.entitle(&done.title);
        let mut error = done.error.as_ref().map(|(kind, text)| (*kind, without_marks(text)));
        let message = error.as_ref().map(|(_, message)| message.as_ref());
        let body = body_of(unsaid(done.display.as_ref(), message), done.kind);
        if done.status == ToolStatus::Cancelled {
            // The sign and a word say it.
            error = None;
        }
        let denied = done.verdict.as_ref().filter(|verdict| verdict.decision == Decision::Deny);
        self.state = State::Done(Done {
            kind: done.kind,
            status: done.status,
            body,
            error: error.as_ref().map(|(kind, text)| (*kind, head_of(text))),
            denied: denied.map(|verdict| (verdict.rule.clone(), verdict.why.clone())),
            refused: done.decision == Some(CallDecision::Reject),
            said: done.error.as_ref().and_then(|(_, text)| said_with(text)),
            exit_code: done.data.as_ref().and_then(|data| data.get("exitCode")?.as_i64()),
            duration_ms: done.duration_ms,
        });
    }

    /// A loaded call shows what it showed: its status and what it gave to be shown,
    /// what the model read, and what people were told beside that, if it is known.
    pub(super) fn recall(
        &mut self,
        status: &str,
        display: Option<&Display>,
        output: &str,
        told: Option<&CallTold>,
    ) {
        let failed = status != "success";
        self.respond((output, failed));
        let State::Done(done) = &mut self.state else { return };
        let message = failed.then(|| without_marks(output));
        if status == "cancelled" {
            // The sign and a word say it.
            done.status = ToolStatus::Cancelled;
            done.error = None;
            done.refused = output.contains(REFUSED);
            done.said = said_with(output);
            done.body = body_of(unsaid(display, message.as_deref()), done.kind);
        }
        if let (false, Some(display)) = (failed, display) {
            done.body = body_of(Some(display), done.kind);
        }
        let Some(told) = told else { return };
        let cancelled = status == "cancelled";
        *done = Done {
            kind: done.kind,
            status: match status {
                "success" => ToolStatus::Success,
                "cancelled" => ToolStatus::Cancelled,
                _ => ToolStatus::Error,
            },
            body: body_of(unsaid(display, message.as_deref()), done.kind),
            error: message
                .filter(|_| !cancelled)
                .map(|message| (ToolErrorKind::Unknown, head_of(&message))),
            denied: told.denied.clone(),
            refused: told.refused,
            said: said_with(output).filter(|_| failed),
            exit_code: told.exit_code,
            duration_ms: told.duration_ms,
        };
        self.entitle(&told.title);
    }

    /// Takes a better title. One that only names the tool says nothing.
    fn entitle(&mut self, title: &str) {
        if title.is_empty() || title == self.name {
            return;
        }
        title.clone_into(&mut self.title);
        // A hook has changed the command: what runs is shown.
        let is_it = |(command, _): &(String, String)| {
            let mut words = title.split_whitespace().filter(|word| *word != "⏎");
            // A long title is cut.
            command.split_whitespace().take(50).all(|word| {
                words.next().is_some_and(|it| word.starts_with(it.trim_end_matches('…')))
            })
        };
        self.command = self.command.take().filter(is_it);
    }

    pub(super) fn abandon(&mut self) {
        if self.is_open() {
            self.state = State::Abandoned;
        }
    }
}

/// What a call gave to be shown, unless its failure's message says it: that is
/// said once.
fn unsaid<'d>(display: Option<&'d Display>, message: Option<&str>) -> Option<&'d Display> {
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

/// What a call has to show, of what it gave to be shown.
fn body_of(display: Option<&Display>, kind: Option<ToolKind>) -> Body {
    match display {
        None => Body::None,
        Some(Display::Text { text }) if text.trim().is_empty() => Body::None,
        Some(Display::Text { text }) if kind == Some(ToolKind::Execute) => {
            Body::Output(Output::of(text))
        }
        Some(Display::Text { text }) => Body::Text(head_of(text)),
        Some(Display::Diff(diff)) => {
            let mut diff = diff.clone();
            diff.diff.truncate(diff.diff.floor_char_boundary(MAX_DIFF));
            Body::Diff(Box::new(diff))
        }
        Some(Display::Todos { todos }) => Body::Todos(todos.clone()),
        Some(Display::Agent(progress)) => Body::Agent(Box::new(progress.clone())),
        Some(Display::Topic { title, summary, intent }) => Body::Topic(Topic {
            title: title.clone(),
            summary: summary.clone(),
            intent: intent.clone(),
        }),
    }
}

fn head_of(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Keeps only the end of a text.
pub(super) fn keep_tail(text: &mut String, most: usize) {
    if text.len() > most {
        *text = tail_of(text, most / 2).to_owned();
    }
}

/// The user's instruction in the message about a denied call.
fn said_with(message: &str) -> Option<String> {
    let message = without_marks(message);
    let (before, said) = message.split_once(SAYS)?;
    (before.contains(REFUSED) && before.starts_with(CANCELLED)).then(|| head_of(said.trim()))
}
