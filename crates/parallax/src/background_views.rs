//! The session's side of front ends that are attached to a background session: passes events on,
//! and runs what they request.

use std::collections::VecDeque;

use parallax_background::{
    InitialState, LiveFeed, PromptCounter, ViewerHandle, ViewerLine, ViewerRequest,
};
use parallax_headless::{SlashKind, classify, info_commands};
use parallax_protocol::BoxFuture;
use parallax_protocol::event::{Failure, Level, SessionReady};
use parallax_protocol::ids::SteerId;
use parallax_protocol::op::{Op, Prompt, SteeringMessage};
use parallax_protocol::store::Record;
use parallax_protocol::typed_input::{ExpandInput, TypedInput};
use parallax_sdk::{OpSender, OpenSession};
use tokio::sync::mpsc;

/// Maximum number of lines of front ends that wait.
const WAITING: usize = 16;
/// Maximum number of prompts that wait until their files and commands are read.
const MAX_EXPANSIONS: usize = 64;

/// The channel for the lines of front ends.
pub(crate) struct RequestChannel {
    pub(crate) sender: mpsc::Sender<ViewerRequest>,
    pub(crate) receiver: mpsc::Receiver<ViewerRequest>,
}

/// Starts a feed with the events of a session.
pub(crate) fn feed(session: &OpenSession) -> (LiveFeed, RequestChannel) {
    let mut events = session.subscribe();
    let records = session.initial_records();
    let turns = records.iter().filter_map(|record| match record {
        Record::Content(content) => content.turn,
        _ => None,
    });
    let feed = LiveFeed::new(InitialState {
        ready: SessionReady {
            session: session.id.clone(),
            model: session.model.clone(),
            mode: session.mode,
            resumed: !records.is_empty(),
            scripted: session.scripted,
        },
        initial_records: records.len(),
        last_turn: turns.max().unwrap_or_default(),
        is_trusted: session.launch().is_trusted(),
    });
    let target = feed.clone();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            target.send(&event);
        }
    });
    let (sender, receiver) = mpsc::channel(WAITING);
    (feed, RequestChannel { sender, receiver })
}

/// What requests of front ends need.
pub(crate) struct ViewerInputs<'a> {
    pub(crate) session: &'a OpenSession,
    pub(crate) expand: ExpandInput,
    pub(crate) ops: OpSender,
    pub(crate) counter: PromptCounter,
}

/// The text of a prompt or a steering message that is being expanded.
struct Expansion {
    prompt: BoxFuture<'static, Result<Prompt, Failure>>,
    /// What was typed, if the front end has expanded a command.
    typed_command: Option<String>,
    /// The id, if it is a steering message.
    steer: Option<SteerId>,
    viewer: ViewerHandle,
}

impl ViewerInputs<'_> {
    /// Runs the requests of front ends until there are no more senders.
    pub(crate) async fn serve(self, mut requests: mpsc::Receiver<ViewerRequest>) {
        // Prompts keep their order; other operations do not wait for their files.
        let mut expansions: VecDeque<Expansion> = VecDeque::new();
        loop {
            tokio::select! {
                biased;
                request = requests.recv(), if expansions.len() < MAX_EXPANSIONS => match request {
                    Some(request) => expansions.extend(self.handle(request).await),
                    None => return,
                },
                expanded = wait_for_expansion(&mut expansions) => {
                    if let Some(expansion) = expansions.pop_front() {
                        self.send_expanded(expanded, expansion).await;
                    }
                }
            }
        }
    }

    /// Handles a request. Returns the text to expand, if any.
    async fn handle(&self, ViewerRequest { line, viewer }: ViewerRequest) -> Option<Expansion> {
        match line {
            ViewerLine::Command(text) => self.run_command(&text, &viewer),
            ViewerLine::Op(Op::Prompt(prompt)) => {
                let Prompt { text, typed_command, .. } = prompt;
                let is_command = matches!(classify(&text), SlashKind::Command { .. });
                let typed_command = typed_command.or_else(|| is_command.then(|| text.clone()));
                let prompt = self.expand(text);
                return Some(Expansion { prompt, typed_command, steer: None, viewer });
            }
            ViewerLine::Op(Op::Steer(steer)) if steer.prompt.text.contains('@') => {
                let prompt = self.expand(steer.prompt.text);
                let steer = Some(steer.id);
                return Some(Expansion { prompt, typed_command: None, steer, viewer });
            }
            ViewerLine::Op(op) => match self.rejection_reason(&op) {
                Some(reason) => viewer.send_notice(Level::Error, reason),
                None => self.send(op).await,
            },
        }
        None
    }

    /// Expands text. Shell commands that need approval are denied.
    fn expand(&self, text: String) -> BoxFuture<'static, Result<Prompt, Failure>> {
        (self.expand)(TypedInput { text, mode: self.session.mode, approver: None })
    }

    /// Returns why a front end may not send an operation.
    fn rejection_reason(&self, op: &Op) -> Option<String> {
        match op {
            Op::SetMode(mode) => self.session.launch().mode_unavailable_reason(*mode),
            Op::Shutdown | Op::ShutdownAfterCalls | Op::Clear => {
                Some("An attached front end cannot end the session; use `parallax stop`".to_owned())
            }
            _ => None,
        }
    }

    async fn send(&self, op: Op) {
        // A session that has ended needs no operations.
        let _ = self.ops.send(op).await;
    }

    async fn send_expanded(&self, expanded: Result<Prompt, Failure>, expansion: Expansion) {
        let Expansion { typed_command, steer, viewer, .. } = expansion;
        let prompt = match expanded {
            Ok(prompt) => prompt,
            Err(failure) => return viewer.send_notice(Level::Error, failure.message),
        };
        match steer {
            Some(id) => self.send(Op::Steer(SteeringMessage { id, prompt })).await,
            None => {
                let typed_command = prompt.typed_command.clone().or(typed_command);
                self.counter.add().await;
                self.send(Op::Prompt(Prompt { typed_command, ..prompt })).await;
            }
        }
    }

    /// Runs a command that only shows something.
    fn run_command(&self, text: &str, viewer: &ViewerHandle) {
        let SlashKind::Command { name, arguments } = classify(text) else {
            return viewer
                .send_notice(Level::Error, "Not a command: commands begin with `/`".to_owned());
        };
        // Reads files and probes the kernel, which takes a few milliseconds.
        let output =
            tokio::task::block_in_place(|| info_commands::run(self.session, name, arguments));
        match output {
            Some(Ok(output)) => viewer.send_output(output.text),
            Some(Err(failure)) => viewer.send_notice(Level::Error, failure.message),
            None => viewer.send_notice(
                Level::Error,
                format!("`/{name}` is not available in an attached session"),
            ),
        }
    }
}

/// Waits for the text of the first expansion.
async fn wait_for_expansion(expansions: &mut VecDeque<Expansion>) -> Result<Prompt, Failure> {
    match expansions.front_mut() {
        Some(expansion) => (&mut expansion.prompt).await,
        None => std::future::pending().await,
    }
}
