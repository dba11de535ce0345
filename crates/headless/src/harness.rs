//! A scripted session for tests of the output formats.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use parallax_engine::EventBus;
use parallax_protocol::event::*;
use parallax_protocol::ids::{ApprovalId, CallId, ItemId};
use parallax_protocol::model::{Retry, Usage};
use parallax_protocol::op::{ApprovalResponse, Op, Prompt, RequestDecision};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{Decision, PolicyDecision};
use parallax_protocol::tool::{Display, ToolErrorKind, ToolKind};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;

use crate::options::{OutputFormat, OutputWriters, RunOptions};
use crate::signals::Signals;

/// How stdout behaves.
pub(crate) enum Stdout {
    Good,
    Broken,
    Closed,
    Blocked,
}

enum ScriptAction {
    Send(Box<EventBody>),
    /// Waits for the response to this approval request.
    AwaitDecision(String),
    /// Waits for an interrupt, then ends the turn as cancelled.
    EndOnInterrupt,
    Hang,
    Die,
}

/// The scripted behavior of the session, one list of actions per prompt.
pub(crate) struct SessionScript {
    pub(crate) options: RunOptions,
    pub(crate) signals: Vec<u8>,
    pub(crate) stdout: Stdout,
    turns: Vec<Vec<ScriptAction>>,
    open: bool,
    items: usize,
}

/// The result.
pub(crate) struct HarnessResult {
    pub(crate) code: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) prompts: Vec<String>,
    pub(crate) decisions: Vec<String>,
    pub(crate) steering: Vec<String>,
    pub(crate) seconds: f64,
}

type ScriptedCall<'a> = (&'a str, Result<&'a str, &'a str>);

impl SessionScript {
    pub(crate) fn new(format: OutputFormat) -> Self {
        let options = RunOptions {
            format,
            stream_version: 1,
            session_id: Some("s1".into()),
            model: "auto".into(),
            ..RunOptions::default()
        };
        Self {
            options,
            signals: Vec::new(),
            stdout: Stdout::Good,
            turns: Vec::new(),
            open: false,
            items: 0,
        }
    }

    fn push_action(mut self, act: ScriptAction) -> Self {
        if !self.open {
            self.turns.push(Vec::new());
            self.open = true;
        }
        self.turns.last_mut().unwrap().push(act);
        self
    }

    fn send(self, body: EventBody) -> Self {
        self.push_action(ScriptAction::Send(Box::new(body)))
    }

    fn close(mut self) -> Self {
        self.open = false;
        self
    }

    fn item(&mut self) -> ItemId {
        self.items += 1;
        ItemId::new(format!("i{}", self.items))
    }

    fn text_item(mut self, pieces: &[&str], is_dropped: bool) -> Self {
        let item = self.item();
        let mut script =
            self.send(EventBody::ItemStarted { item: item.clone(), start: ItemStart::Text });
        for piece in pieces {
            script =
                script.send(EventBody::ItemDelta { item: item.clone(), text: (*piece).into() });
        }
        let done = ItemDone::Text { text: std::sync::Arc::new(pieces.concat()), is_dropped };
        script.send(EventBody::ItemDone { item, done })
    }

    pub(crate) fn text(self, pieces: &[&str]) -> Self {
        self.text_item(pieces, false)
    }

    pub(crate) fn dropped(self, pieces: &[&str]) -> Self {
        self.text_item(pieces, true)
    }

    pub(crate) fn thought(mut self, text: &str) -> Self {
        let item = self.item();
        self.send(EventBody::ItemStarted { item: item.clone(), start: ItemStart::Thought })
            .send(EventBody::ItemDelta { item: item.clone(), text: text.into() })
            .send(EventBody::ItemDone { item, done: ItemDone::Thought { text: text.into() } })
    }

    pub(crate) fn tools(self, calls: &[ScriptedCall<'_>]) -> Self {
        let order = (0..calls.len()).collect();
        self.batch(calls, order)
    }

    pub(crate) fn tools_done_in_reverse(self, calls: &[ScriptedCall<'_>]) -> Self {
        let order = (0..calls.len()).rev().collect();
        self.batch(calls, order)
    }

    fn batch(self, calls: &[ScriptedCall<'_>], order: Vec<usize>) -> Self {
        let mut script = self;
        for (index, (name, _)) in calls.iter().enumerate() {
            let mut args = parallax_protocol::Object::new();
            args.insert("path".into(), "x".into());
            let start = ToolStart {
                call: CallId::new(format!("call{index}")),
                index,
                name: (*name).into(),
                args,
            };
            let item = ItemId::new(format!("tool{index}"));
            script = script.send(EventBody::ItemStarted { item, start: ItemStart::Tool(start) });
        }
        for index in order {
            let (name, result) = calls[index];
            let item = ItemId::new(format!("tool{index}"));
            let text = result.unwrap_or_else(|error| error);
            let done = ToolDone {
                call: CallId::new(format!("call{index}")),
                index,
                name: name.into(),
                kind: Some(ToolKind::Read),
                title: format!("{name} x"),
                status: if result.is_ok() { ToolStatus::Success } else { ToolStatus::Error },
                decision: Some(CallDecision::AutoAccept),
                policy_decision: None,
                display: Some(Display::text(text)),
                error: result.err().map(|error| (ToolErrorKind::FileNotFound, error.into())),
                for_model: text.into(),
                data: None,
                duration_ms: 3,
            };
            script = script
                .send(EventBody::ItemDelta { item: item.clone(), text: "live".into() })
                .send(EventBody::ItemDone { item, done: ItemDone::Tool(Box::new(done)) });
        }
        script
    }

    pub(crate) fn model_call(self, model: &str, prompt: u64, cached: u64, answer: u64) -> Self {
        self.send(EventBody::ModelCall(ModelCall {
            model: model.into(),
            role: "main".into(),
            usage: Usage {
                prompt,
                output: answer,
                cached,
                total: prompt + answer,
                ..Usage::default()
            },
            cost: Some(parallax_protocol::price::Cost::default()),
            latency_ms: 20,
            request_bytes: 0,
            error: None,
        }))
    }

    pub(crate) fn retry(self) -> Self {
        self.send(EventBody::Retry(Retry {
            attempt: 1,
            max_attempts: 3,
            delay_ms: 1500,
            class: "server".into(),
            status: Some(503),
            message: "overloaded".into(),
            model: "m1".into(),
        }))
    }

    pub(crate) fn notice(mut self, text: &str) -> Self {
        let item = self.item();
        let done = ItemDone::notice(Level::Warning, text);
        self.send(EventBody::ItemDone { item, done })
    }

    pub(crate) fn notice_of(mut self, kind: &str, text: &str) -> Self {
        let (item, kind) = (self.item(), Some(kind.to_owned()));
        let done = ItemDone::Notice { level: Level::Warning, text: text.into(), kind };
        self.send(EventBody::ItemDone { item, done })
    }

    pub(crate) fn user(mut self, text: &str) -> Self {
        let item = self.item();
        self.send(EventBody::ItemStarted { item, start: ItemStart::User { text: text.into() } })
    }

    pub(crate) fn ask(self, id: &str) -> Self {
        let ask = ApprovalRequest {
            id: id.into(),
            call: "call0".into(),
            agent: None,
            name: "run".into(),
            kind: ToolKind::Execute,
            title: "Run ls".into(),
            preview: None,
            policy_decision: PolicyDecision::new(Decision::Ask, "default", "it runs a command"),
            question: Question::Exec,
            rules: Vec::new(),
            no_rule_reason: None,
            permissions: Permissions::default(),
            broader_permissions: Permissions::default(),
            not_undoable: Vec::new(),
            outcomes: vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel],
        };
        let closed = EventBody::ApprovalClosed {
            ask: ApprovalId::from(id),
            outcome: Some(ApprovalResponse::Cancel),
        };
        self.send(EventBody::ApprovalRequested(Box::new(ask)))
            .push_action(ScriptAction::AwaitDecision(id.into()))
            .send(closed)
    }

    pub(crate) fn end(self, reason: EndReason) -> Self {
        self.send(EventBody::TurnEnded(TurnEnded { reason, duration_ms: 5, is_removed: false }))
            .close()
    }

    pub(crate) fn done(self) -> Self {
        self.end(EndReason::Done)
    }

    pub(crate) fn failed(self) -> Self {
        self.end(EndReason::Failed(Failure {
            kind: FailureKind::Api,
            message: "the service failed".into(),
            status: Some(500),
        }))
    }

    pub(crate) fn end_on_interrupt(self) -> Self {
        self.push_action(ScriptAction::EndOnInterrupt).close()
    }

    pub(crate) fn hang(self) -> Self {
        self.push_action(ScriptAction::Hang).close()
    }

    pub(crate) fn exit_abruptly(self) -> Self {
        self.push_action(ScriptAction::Die).close()
    }
}

/// What the session received.
#[derive(Default)]
struct ReceivedOperations {
    prompts: Vec<String>,
    decisions: Vec<String>,
    steering: Vec<String>,
}

/// Runs the script as a session would.
async fn session(
    turns: Vec<Vec<ScriptAction>>,
    bus: EventBus,
    mut ops: mpsc::Receiver<Op>,
) -> ReceivedOperations {
    let mut heard = ReceivedOperations::default();
    for acts in turns {
        let prompt = loop {
            match ops.recv().await {
                Some(Op::Prompt(prompt)) => break prompt,
                Some(Op::Interrupt | Op::Shutdown) => {}
                _ => return heard,
            }
        };
        heard.prompts.push(prompt.text.clone());
        bus.send(EventBody::TurnStarted { prompt: prompt.text });
        for act in acts {
            match act {
                ScriptAction::Send(body) => bus.send(*body),
                ScriptAction::AwaitDecision(id) => loop {
                    match ops.recv().await {
                        Some(Op::Decide(decide)) => {
                            let RequestDecision { ask, .. } = *decide;
                            heard.decisions.push(ask.as_str().into());
                            if ask.as_str() == id {
                                break;
                            }
                        }
                        Some(Op::Steer(steer)) => heard.steering.push(steer.prompt.text),
                        Some(_) => {}
                        None => return heard,
                    }
                },
                ScriptAction::EndOnInterrupt => loop {
                    match ops.recv().await {
                        Some(Op::Interrupt | Op::Shutdown) => {
                            bus.send(EventBody::TurnEnded(TurnEnded {
                                reason: EndReason::Cancelled,
                                duration_ms: 5,
                                is_removed: false,
                            }));
                            break;
                        }
                        Some(Op::Steer(steer)) => heard.steering.push(steer.prompt.text),
                        Some(_) => {}
                        None => return heard,
                    }
                },
                ScriptAction::Hang => while ops.recv().await.is_some() {},
                ScriptAction::Die => {
                    bus.close();
                    return heard;
                }
            }
        }
    }
    while ops.recv().await.is_some() {}
    heard
}

/// A stream whose contents a test reads afterwards.
#[derive(Clone, Default)]
pub(crate) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl AsyncWrite for Buffer {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Short writes, as with pipes.
        let count = bytes.len().min(4096);
        self.0.lock().unwrap().extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream that fails or never accepts anything.
struct FailingWriter(Option<io::ErrorKind>);

impl AsyncWrite for FailingWriter {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.0.map_or(Poll::Pending, |kind| Poll::Ready(Err(kind.into())))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Runs the prompt `sent`, displayed as `typed`, with the script.
pub(crate) fn run(script: SessionScript) -> HarnessResult {
    play(script, None)
}

/// Runs a conversation with this input.
pub(crate) fn run_conversation(script: SessionScript, input: &str) -> HarnessResult {
    play(script, Some(input.to_owned()))
}

fn play(script: SessionScript, input: Option<String>) -> HarnessResult {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async move {
        let start = tokio::time::Instant::now();
        let bus = EventBus::new();
        let mut events = bus.subscribe();
        let (ops, orders) = mpsc::channel(4);
        let session = tokio::spawn(session(script.turns, bus, orders));
        let (stdout, stderr) = (Buffer::default(), Buffer::default());
        let io = OutputWriters {
            stdout: match script.stdout {
                Stdout::Good => Box::new(stdout.clone()),
                Stdout::Broken => Box::new(FailingWriter(Some(io::ErrorKind::BrokenPipe))),
                Stdout::Closed => Box::new(FailingWriter(Some(io::ErrorKind::StorageFull))),
                Stdout::Blocked => Box::new(FailingWriter(None)),
            },
            stderr: Box::new(stderr.clone()),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let numbers = script.signals;
        let signals = Signals::from_channel(receiver);
        let keeper = tokio::spawn(async move {
            for number in numbers {
                // The paused clock advances when nothing else can happen.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                sender.send(number).unwrap();
            }
            std::future::pending::<()>().await;
        });
        let code = match input {
            None => {
                let prompt = Prompt { text: "sent".into(), ..Prompt::default() };
                let typed = "typed".to_owned();
                crate::prompt::run_prompt_with(
                    signals,
                    io,
                    ops,
                    &mut events,
                    prompt,
                    typed,
                    script.options,
                )
                .await
            }
            Some(input) => {
                let input = io::Cursor::new(input.into_bytes());
                crate::stream_input::run_with(
                    signals,
                    io,
                    ops,
                    &mut events,
                    input,
                    None,
                    script.options,
                )
                .await
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        keeper.abort();
        let heard = session.await.unwrap();
        HarnessResult {
            code: code.0,
            stdout: stdout.text(),
            stderr: stderr.text(),
            prompts: heard.prompts,
            decisions: heard.decisions,
            steering: heard.steering,
            seconds,
        }
    })
}
