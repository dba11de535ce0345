//! Tests of the output of commands: complete, truncated, binary, and live.

use std::time::{Duration, Instant};

use parallax_exec::capture::CaptureLimits;
use parallax_exec::{Limits, LiveOutput, ProcessExit, StartError, StopReason};
use tokio_util::sync::CancellationToken;

use crate::support::{TestProject, finished};

#[tokio::test]
async fn exit_code_and_both_streams_are_captured_in_order() {
    let project = TestProject::new();
    let output = project.run_text("echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(output.output.captured.head, "one\ntwo\nthree");
    assert_eq!(output.exit, ProcessExit::Exited { code: 3 });
    assert!(output.remaining_processes.is_empty() && output.stop.is_none());

    let output = project.run_text("kill -9 $$").await;
    assert_eq!(output.exit, ProcessExit::Signalled { signal: 9 });
}

#[tokio::test]
async fn stdin_is_closed_and_no_terminal_is_available() {
    let project = TestProject::new();
    let started_at = Instant::now();
    let output = project.run_text("cat; read x < /dev/tty || echo none").await;
    assert!(output.output.captured.head.ends_with("none"), "{:?}", output.output);
    assert!(started_at.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn command_longer_than_an_argument_runs_as_written() {
    let project = TestProject::new();
    let lines = "ä line of 'text' with $x and \\ in it\n".repeat(8_000);
    let text = format!("cat > out <<'END'\n{lines}END\necho $#-$1- \"[$IFS]\" | od -c | head -1");
    assert!(text.len() > 300_000);
    let mut command = project.command(&text);
    command.directory = project.folder.path().to_owned();
    let output = project.run(command).await;
    assert_eq!(output.exit, ProcessExit::Exited { code: 0 }, "{:?}", output.output);
    assert!(output.output.captured.head.contains("0   -   -       ["), "{:?}", output.output);
    let written = std::fs::read_to_string(project.folder.path().join("out")).unwrap();
    assert!(written == lines);
}

#[tokio::test]
async fn text_with_nul_is_shown() {
    let project = TestProject::new();
    let output = project.run_text(r"printf 'a.txt\0b.txt\0'").await;
    assert_eq!(output.output.captured.head, "a.txt\u{2400}b.txt\u{2400}");
    let output = project.run_text(r"echo hello; printf '\000'; echo FAILED").await;
    assert_eq!(output.output.captured.head, "hello\n\u{2400}FAILED");
    let output = project.run_text(r"printf '\177ELF\002\001\0\377\376'").await;
    assert!(output.output.binary && output.output.captured.head.is_empty(), "{:?}", output.output);
}

#[tokio::test]
async fn command_uses_only_the_given_environment_and_directory() {
    let project = TestProject::new();
    let mut command = project.command("echo $GIVEN-$CARGO_PKG_NAME; pwd");
    command.environment.push(("GIVEN".into(), "yes".into()));
    let output = project.run(command).await;
    let folder = project.folder.path().canonicalize().unwrap();
    assert_eq!(output.output.captured.head, format!("yes-\n{}", folder.display()));

    let mut command = project.command("true");
    command.directory = "/no/such/folder".into();
    let error = project.processes.start(command).await.unwrap_err();
    assert!(matches!(error, StartError::NoFolder(_)));
}

#[tokio::test]
async fn long_output_keeps_both_ends_and_is_complete_on_disk() {
    let project = TestProject::new();
    let output = project.run_text("seq 1 1000000").await;
    let captured = &output.output.captured;
    assert!(captured.head.starts_with("1\n2\n") && captured.head.len() <= 8_000);
    let tail = captured.tail.as_deref().unwrap();
    assert!(tail.ends_with("\n999999\n1000000") && tail.len() <= 32_000);
    assert!(captured.omitted_characters > 6_800_000);

    let file = output.output.file.unwrap();
    assert!(file.complete);
    let text = std::fs::read_to_string(&file.path).unwrap();
    assert_eq!(text.lines().count(), 1_000_000);
    assert!(text.ends_with("\n1000000\n"));
}

#[tokio::test]
async fn copy_that_cannot_be_written_does_not_stop_the_output() {
    let project = TestProject::new();
    let mut command = project.command("seq 1 100000");
    command.copy = Some("/dev/null/copy".into());
    let output = project.run(command).await;
    assert!(output.output.captured.tail.unwrap().ends_with("\n100000"));
    let file = output.output.file.unwrap();
    assert!(!file.complete && file.problem.is_some());
}

#[tokio::test]
async fn short_output_leaves_no_file() {
    let project = TestProject::new();
    let output = project.run_text("echo short").await;
    assert_eq!(output.output.file, None);
    assert!(!project.folder.path().join("outputs").exists());
}

#[tokio::test]
async fn endless_output_uses_bounded_memory() {
    let project = TestProject::new();
    // Warm up: the first command loads what all commands need.
    project.run_text("true").await;
    let before = resident_peak();
    let line = "x".repeat(99);
    let output = project.run_text(&format!("yes {line} | head -n 300000")).await;
    assert_eq!(output.output.bytes, 30_000_000);
    assert!(output.output.file.unwrap().complete);
    let growth = resident_peak().saturating_sub(before);
    // Other tests run at the same time.
    assert!(growth < 16 * 1024, "{growth} KiB");
}

fn resident_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("0");
    line.split_ascii_whitespace().nth(1).and_then(|size| size.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn binary_output_is_counted_and_discarded() {
    let project = TestProject::new();
    let mut live = String::new();
    let running = project.processes.start(project.command("head -c 200M /dev/zero")).await.unwrap();
    let cancel = CancellationToken::new();
    let done = finished(
        running
            .follow(&cancel, None, &mut |piece| {
                if let LiveOutput::Text(text) = piece {
                    live.push_str(text);
                }
            })
            .await,
    );
    assert!(done.output.binary);
    assert_eq!(done.output.bytes, 200 * 1024 * 1024);
    assert_eq!(done.output.captured.head, "");
    assert_eq!(done.output.file, None);
    assert!(live.contains("Binary output"), "{live:?}");
}

#[tokio::test]
async fn live_output_is_sent_at_once_and_then_merged() {
    let project = TestProject::new();
    let command = project.command("echo first; for i in 1 2 3 4 5 6; do sleep 0.02; echo $i; done");
    let running = project.processes.start(command).await.unwrap();
    let cancel = CancellationToken::new();
    let mut pieces = Vec::new();
    running
        .follow(&cancel, None, &mut |piece| {
            if let LiveOutput::Text(text) = piece {
                pieces.push(text.to_owned());
            }
        })
        .await;
    assert_eq!(pieces.first().map(String::as_str), Some("first\n"));
    assert_eq!(pieces.concat(), "first\n1\n2\n3\n4\n5\n6\n");
    assert!(pieces.len() <= 4, "{pieces:?}");
}

#[tokio::test]
async fn silent_command_is_terminated_and_its_output_kept() {
    let project = TestProject::new();
    let mut command = project.command("echo before; sleep 30; echo after");
    let silence = Duration::from_millis(150);
    command.limits = Limits { inactivity: Some(silence), ..command.limits };
    let output = project.run(command).await;
    assert_eq!(output.stop, Some(StopReason::Inactive(silence)));
    assert_eq!(output.output.captured.head, "before");
}

#[tokio::test]
async fn output_resets_the_silence_timer_but_not_the_time_limit() {
    let project = TestProject::new();
    let mut command = project.command("while :; do echo x; sleep 0.05; done");
    let runtime = Duration::from_millis(400);
    command.limits = Limits {
        inactivity: Some(Duration::from_millis(250)),
        runtime: Some(runtime),
        capture: CaptureLimits::from_threshold(40_000),
        ..command.limits
    };
    let output = project.run(command).await;
    assert_eq!(output.stop, Some(StopReason::Runtime(runtime)));
}
