//! Shell commands of the user, input for processes, and background processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax_protocol::event::{CallPhase, EndReason, Event, EventBody, ItemDone, ItemStart};
use parallax_protocol::ids::ItemId;
use parallax_protocol::op::{Op, ToolInput};
use parallax_protocol::shell::{
    BackgroundCompletion, BackgroundProcess, BackgroundState, ProcessControl, Screen, Shell,
    ShellCommand, ShellEnding, ShellOutcome, TerminalSize,
};
use parallax_protocol::store::Record;
use parallax_protocol::tool::{Concurrency, RunContext, ToolResult};
use parallax_protocol::{BoxFuture, BoxStream};
use tokio::sync::{Notify, watch};

use crate::support::*;

/// Runs `wait` until it is cancelled or released, and any other command to its end immediately.
struct FakeShell {
    let_go: Arc<Notify>,
    changed: watch::Sender<u64>,
    ended: Mutex<Vec<i32>>,
    completion: BackgroundCompletion,
}

impl FakeShell {
    fn new() -> Arc<Self> {
        Self::with_completion(BackgroundCompletion::Silent)
    }

    fn with_completion(completion: BackgroundCompletion) -> Arc<Self> {
        let (let_go, ended) = (Arc::default(), Mutex::default());
        Arc::new(Self { let_go, changed: watch::Sender::new(0), ended, completion })
    }
}

impl Shell for FakeShell {
    fn run(&self, command: ShellCommand, run: RunContext) -> BoxFuture<'static, ShellOutcome> {
        let let_go = Arc::clone(&self.let_go);
        Box::pin(async move {
            run.progress.output("live");
            let mut ending = ShellEnding::Exited { code: 0 };
            if command.command == "wait" {
                tokio::select! {
                    () = run.cancel.cancelled() => ending = ShellEnding::Cancelled,
                    () = let_go.notified() => {}
                }
            }
            assert_ne!(command.command, "panic");
            let output = format!("output of {} hush-hush-hush", command.command);
            ShellOutcome { ending, display: output.clone(), output, directory: None }
        })
    }
    fn background(&self, lines: usize) -> Vec<BackgroundProcess> {
        vec![BackgroundProcess {
            pid: 7,
            command: "serve".into(),
            state: match self.ended.lock().expect("pids").is_empty() {
                true => BackgroundState::Running,
                false => BackgroundState::Signalled { signal: 15 },
            },
            log: "/log".into(),
            last_lines: vec![format!("{lines} wanted")],
        }]
    }
    fn terminate_background(&self, pid: i32) -> bool {
        self.ended.lock().expect("pids").push(pid);
        true
    }
    fn completion(&self) -> BackgroundCompletion {
        self.completion
    }
    fn changes(&self) -> BoxStream<'static, ()> {
        let changes = self.changed.subscribe();
        Box::pin(futures_util::stream::unfold(changes, |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        }))
    }
}

fn run_shell(command: &str) -> Op {
    Op::RunShell(ShellCommand { command: command.into(), background: false, size: None })
}

fn is_shell_done(body: &EventBody) -> bool {
    matches!(body, EventBody::ItemDone { done: ItemDone::Shell(_), .. })
}

/// Returns how the command of this event ended.
fn ending(event: &Event) -> Option<ShellEnding> {
    match &event.body {
        EventBody::ItemDone { done: ItemDone::Shell(done), .. } => Some(done.ending.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn idle_user_command_is_sent_with_the_next_prompt() {
    let shell = FakeShell::new();
    let setup = Setup { shell: Some(shell), ..Setup::default() };
    let mut rig = rig(vec![has_text("one"), has_text("two")], setup);
    rig.turn("first").await;
    rig.send(run_shell("make")).await;
    let item_started =
        rig.wait_for_event(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    assert!(matches!(
        item_started.body,
        EventBody::ItemStarted { start: ItemStart::Shell(start), .. } if start.command == "make"
    ));
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDelta { text, .. } if text == "live"))
        .await;
    let done = rig.wait_for_event(is_shell_done).await;
    assert_eq!(ending(&done), Some(ShellEnding::Exited { code: 0 }));
    let (_, events) = rig.turn("second").await;
    assert_eq!(texts(&events), ["two"]);
    let request = rig.script.contents().pop().expect("request");
    assert_eq!(request.len(), 5);
    assert!(request[2].contains("I ran the following shell command:\\n```sh\\nmake\\n```"));
    assert!(request[2].contains("output of make [key removed]"), "{}", request[2]);
    rig.script.assert_prefixes();
    let records = rig.store.0.lock().expect("records");
    let report = records.iter().any(|record| {
        matches!(record, Record::Content(content)
            if content.command.as_deref() == Some("make") && content.display.is_none())
    });
    assert!(report);
}

#[tokio::test]
async fn user_command_during_a_turn_is_sent_after_the_results() {
    let gate = Arc::new(Notify::new());
    let open = Arc::clone(&gate);
    let wait = tool("wait", Concurrency::Shared, move |n, _| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.notified().await;
            ToolResult::text(n.to_string())
        })
    });
    let replies = vec![calls(&[("wait", 1)]), has_text("done")];
    let setup = Setup { tools: vec![wait], shell: Some(FakeShell::new()), ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.prompt("go").await;
    rig.wait_for_event(|body| {
        matches!(body, EventBody::ItemStarted { start: ItemStart::Tool(_), .. })
    })
    .await;
    rig.send(run_shell("git status")).await;
    rig.wait_for_event(is_shell_done).await;
    rig.send(steer("1", "see there")).await;
    rig.wait_until_processed().await;
    open.notify_one();
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done));
    let last = rig.script.contents().pop().expect("request");
    assert_eq!(last.len(), 3);
    assert!(last[2].starts_with(r#"{"role":"user","parts":[{"functionResponse""#), "{}", last[2]);
    let (report, steer_input) = (last[2].find("git status"), last[2].find("see there"));
    assert!(report.is_some() && report < steer_input, "{}", last[2]);
}

#[tokio::test]
async fn interrupt_ends_a_user_command_and_its_panic_does_not_end_the_session() {
    let mut rig =
        rig(vec![has_text("on")], Setup { shell: Some(FakeShell::new()), ..Setup::default() });
    rig.send(run_shell("wait")).await;
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDelta { .. })).await;
    rig.send(Op::Interrupt).await;
    assert_eq!(ending(&rig.wait_for_event(is_shell_done).await), Some(ShellEnding::Cancelled));
    rig.send(run_shell("panic")).await;
    let crashed = ending(&rig.wait_for_event(is_shell_done).await);
    assert!(matches!(crashed, Some(ShellEnding::Failed { .. })), "{crashed:?}");
    rig.send(run_shell(" ")).await;
    rig.wait_for_event(|body| {
        matches!(body, EventBody::ItemDone { done: ItemDone::Notice { .. }, .. })
    })
    .await;
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
}

#[tokio::test]
async fn session_end_ends_user_commands() {
    for polite in [true, false] {
        let mut rig = rig(Vec::new(), Setup { shell: Some(FakeShell::new()), ..Setup::default() });
        rig.send(run_shell("wait")).await;
        rig.wait_for_event(|body| matches!(body, EventBody::ItemDelta { .. })).await;
        if polite {
            rig.send(Op::Shutdown).await;
        }
        let Rig { handle, mut events, .. } = rig;
        tokio::time::timeout(Duration::from_secs(10), handle.join()).await.expect("an end");
        let mut ended = None;
        while let Some(event) = events.next().await {
            ended = ended.or(ending(&event));
        }
        assert_eq!(ended, Some(ShellEnding::Cancelled));
    }
}

#[tokio::test]
async fn background_processes_are_reported_on_request_and_on_change() {
    let shell = FakeShell::new();
    let setup = Setup { shell: Some(shell.clone()), ..Setup::default() };
    let mut rig = rig(Vec::new(), setup);
    rig.send(Op::ListBackground { lines: 42 }).await;
    let report = rig.wait_for_event(|body| matches!(body, EventBody::Background { .. })).await;
    let EventBody::Background { processes } = report.body else { unreachable!() };
    assert_eq!((processes[0].pid, processes[0].last_lines[0].as_str()), (7, "42 wanted"));
    shell.changed.send_modify(|count| *count += 1);
    rig.wait_for_event(|body| matches!(body, EventBody::Background { .. })).await;
    rig.send(Op::EndBackground { pid: 7 }).await;
    let report = rig.wait_for_event(|body| matches!(body, EventBody::Background { .. })).await;
    let EventBody::Background { processes } = report.body else { unreachable!() };
    assert_eq!(processes[0].state, BackgroundState::Signalled { signal: 15 });
}

/// Records what reached a process.
#[derive(Default)]
struct Keys(Mutex<Vec<String>>, Notify);

impl Keys {
    fn note(&self, what: String) {
        self.0.lock().expect("keys").push(what);
        self.1.notify_one();
    }
}

struct Line(Arc<Keys>);

impl ProcessControl for Line {
    fn input(&self, bytes: Vec<u8>) {
        self.0.note(format!("typed {bytes:?}"));
    }
    fn resize(&self, size: TerminalSize) {
        self.0.note(format!("{}x{}", size.columns, size.rows));
    }
    fn to_background(&self) {
        self.0.note("away".into());
    }
}

#[tokio::test]
async fn input_reaches_the_process_of_a_call_and_kill_ends_the_call_alone() {
    let keys = Arc::new(Keys::default());
    let line = Arc::clone(&keys);
    let run = tool("run", Concurrency::Shared, move |n, run: RunContext| {
        // The process of the other call may have started after the resize.
        if n == 1 {
            run.progress.control(Arc::new(Line(Arc::clone(&line))));
            let rows = vec!["row".to_owned()];
            run.progress.screen(Screen { rows, ..Screen::default() });
        }
        Box::pin(async move {
            if n == 1 {
                run.cancel.cancelled().await;
            }
            ToolResult::text(format!("ran {n}"))
        })
    });
    let replies = vec![calls(&[("run", 1), ("run", 2)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![run], ..Setup::default() });
    rig.prompt("go").await;
    let seen = rig.wait_for_event(|body| matches!(body, EventBody::ItemScreen { .. })).await;
    let EventBody::ItemScreen { item, screen } = seen.body else { unreachable!() };
    assert_eq!(screen.rows, ["row"]);
    let send = |input: ToolInput| Op::ToolInput { item: item.clone(), input };
    rig.send(send(ToolInput::Bytes(vec![3]))).await;
    rig.send(send(ToolInput::Resize(TerminalSize { columns: 100, rows: 40 }))).await;
    rig.send(send(ToolInput::ToBackground)).await;
    rig.send(Op::ToolInput { item: ItemId::from("nothing"), input: ToolInput::Kill }).await;
    rig.wait_until_processed().await;
    assert_eq!(*keys.0.lock().expect("keys"), ["typed [3]", "100x40", "away"]);
    rig.send(send(ToolInput::Kill)).await;
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done));
    let output = tools_done(&events);
    let killed = output.iter().find(|done| done.index == 0).expect("the first call");
    assert_eq!(killed.status, parallax_protocol::event::ToolStatus::Cancelled);
    assert_eq!(texts(&events), ["done"]);
}

#[tokio::test]
async fn process_starts_with_the_window_size() {
    let keys = Arc::new(Keys::default());
    let line = Arc::clone(&keys);
    let run = tool("run", Concurrency::Shared, move |n, run: RunContext| {
        run.progress.control(Arc::new(Line(Arc::clone(&line))));
        Box::pin(async move { ToolResult::text(format!("ran {n}")) })
    });
    let replies = vec![calls(&[("run", 1)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![run], ..Setup::default() });
    let input = ToolInput::Resize(TerminalSize { columns: 90, rows: 20 });
    rig.send(Op::ToolInput { item: ItemId::from("not there yet"), input }).await;
    rig.turn("go").await;
    assert_eq!(*keys.0.lock().expect("keys"), ["90x20"]);
}

#[tokio::test]
async fn background_process_end_is_sent_to_the_model_if_requested() {
    for (completion, report, whole) in [
        (BackgroundCompletion::Silent, false, false),
        (BackgroundCompletion::Notify, true, false),
        (BackgroundCompletion::Inject, true, true),
    ] {
        let shell = FakeShell::with_completion(completion);
        let setup = Setup { shell: Some(shell.clone()), ..Setup::default() };
        let mut rig = rig(vec![has_text("one")], setup);
        shell.ended.lock().expect("pids").push(7);
        shell.changed.send_modify(|count| *count += 1);
        let done = |body: &EventBody| match report {
            true => matches!(body, EventBody::ItemDone { done: ItemDone::Notice { .. }, .. }),
            false => matches!(body, EventBody::Background { .. }),
        };
        rig.wait_for_event(done).await;
        rig.turn("go").await;
        let request = rig.script.contents().pop().expect("request").join("\n");
        assert_eq!(request.contains("(PID 7) was terminated by signal 15"), report, "{request}");
        assert_eq!(request.contains("1000 wanted"), whole, "{request}");
    }
}

#[tokio::test]
async fn call_progress_is_emitted() {
    let replies = vec![calls(&[("ask_run", 1), ("look", 2), ("deny_it", 3)]), has_text("done")];
    let tools: Vec<Arc<dyn parallax_protocol::tool::Tool>> = vec![
        tool("ask_run", Concurrency::Shared, |n, _| echo(n)),
        tool("look", Concurrency::Shared, |n, _| echo(n)),
        tool("deny_it", Concurrency::Shared, |n, _| echo(n)),
    ];
    let mut rig = rig(replies, Setup { tools, ..Setup::default() });
    rig.prompt("go").await;
    let mut phases = Vec::new();
    loop {
        let event = rig.next().await;
        match event.body {
            EventBody::CallState(state) => {
                let call = state.item.as_str().split('_').next().unwrap_or_default().to_owned();
                phases.push((call, state.phase, state.title));
            }
            EventBody::ApprovalRequested(ask) => {
                use parallax_protocol::op::{ApprovalResponse, RequestDecision};
                let decide = RequestDecision::new(ask.id, ApprovalResponse::ProceedOnce);
                rig.send(Op::Decide(Box::new(decide))).await;
            }
            EventBody::TurnEnded(_) => break,
            _ => {}
        }
    }
    let of = |name: &str| -> Vec<(CallPhase, Option<String>)> {
        let own_phases = phases.iter().filter(|(call, ..)| call == name);
        own_phases.map(|(_, phase, title)| (*phase, title.clone())).collect()
    };
    let title = |n: u64| Some(format!("call {n}"));
    assert_eq!(
        of("tool-ask"),
        [
            (CallPhase::Validating, None),
            (CallPhase::AwaitingApproval, title(1)),
            (CallPhase::Executing, title(1))
        ]
    );
    let look = [(CallPhase::Validating, None), (CallPhase::Executing, title(2))];
    assert_eq!(of("tool-look"), look);
    assert_eq!(of("tool-deny"), [(CallPhase::Validating, None)]);
}

#[tokio::test]
async fn next_prompt_is_accepted_after_an_interrupt() {
    let hanging = vec![chunk(r#"[{"text":"half"}]"#, None), Step::Hang];
    let mut rig = rig(vec![hanging, has_text("next")], Setup::default());
    rig.prompt("go").await;
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDelta { .. })).await;
    rig.send(Op::Interrupt).await;
    rig.prompt("next").await;
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Cancelled));
    rig.wait_for_event(
        |body| matches!(body, EventBody::TurnStarted { prompt } if prompt == "next"),
    )
    .await;
}
