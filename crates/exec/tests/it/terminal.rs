//! Tests of commands in a terminal.

use std::time::Duration;

use parallax_exec::{LiveOutput, Mode, ProcessExit, StopReason, TerminalSize};
use tokio_util::sync::CancellationToken;

use crate::support::{TestProject, finished, is_alive, pids};

fn in_terminal(project: &TestProject, text: &str) -> parallax_exec::Command {
    let mut command = project.command(text);
    command.mode = Mode::Terminal(TerminalSize::default());
    command.environment.push(("TERM".into(), "xterm-256color".into()));
    command
}

#[tokio::test]
async fn terminal_has_a_size_and_follows_changes() {
    let project = TestProject::new();
    let text = "test -t 0 && test -t 1 && stty size
        trap 'stty size; exit 7' WINCH; while :; do sleep 0.02; done";
    let running = project.processes.start(in_terminal(&project, text)).await.unwrap();
    let control = running.control();
    let cancel = CancellationToken::new();
    let mut resized = false;
    let mut live = |piece: LiveOutput<'_>| {
        let LiveOutput::Text(text) = piece else { return };
        if text.contains("30 80") && !std::mem::replace(&mut resized, true) {
            let control = control.clone();
            // After the trap is set.
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                control.resize(TerminalSize::new(100, 40));
            });
        }
    };
    let done = finished(running.follow(&cancel, None, &mut live).await);
    // The height does not change, because that would add blank lines to the output.
    assert_eq!(done.output.captured.head, "30 80\n30 100");
    assert_eq!(done.exit, ProcessExit::Exited { code: 7 });
}

#[tokio::test]
async fn command_controls_its_terminal_and_inherits_no_other_file() {
    parallax_sandbox::close_inherited_on_exec();
    let project = TestProject::new();
    let files = if cfg!(target_os = "linux") { "/proc/$$/fd" } else { "/dev/null" };
    let text = format!("read x; echo there > /dev/tty; ls {files}; true");
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(project.processes.start(in_terminal(&project, &text)).await.unwrap());
    }
    for command in running {
        command.control().write_input(b"\r".to_vec());
        let done = finished(command.follow(&CancellationToken::new(), None, &mut |_| {}).await);
        let shown = done.output.captured.head;
        let lines: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
        let (first, rest) = lines.split_first().expect("lines");
        assert_eq!(*first, "there", "{shown}");
        let numbers = rest.iter().flat_map(|line| line.split_whitespace());
        // `bash` keeps its terminal open as file 255.
        let numbers: Vec<&str> = numbers.filter(|number| *number != "255").collect();
        assert!(cfg!(not(target_os = "linux")) || numbers == ["0", "1", "2"], "{shown}");
    }
}

#[tokio::test]
async fn terminal_input_reaches_the_program() {
    let project = TestProject::new();
    let text = "stty -echo; printf 'name? '; read name; echo \"hello $name\"";
    let running = project.processes.start(in_terminal(&project, text)).await.unwrap();
    let control = running.control();
    let cancel = CancellationToken::new();
    let mut live = |piece: LiveOutput<'_>| {
        let LiveOutput::Text(text) = piece else { return };
        if text.contains("name?") {
            control.write_input(b"Jo\n".to_vec());
        }
    };
    let output = finished(running.follow(&cancel, None, &mut live).await);
    assert_eq!(output.output.captured.head, "name? hello Jo");
}

#[tokio::test]
async fn long_output_is_read_as_text_and_bounded() {
    let project = TestProject::new();
    let mut command = in_terminal(&project, "seq 1 20000; printf '\\033[32m%0300d\\n' 7");
    command.color = true;
    let output = project.run(command).await;
    let captured = &output.output.captured;
    assert!(captured.head.starts_with("1\n2\n3\n"), "{:?}", captured.head.get(..20));
    let joined = format!("\n20000\n{}7", "0".repeat(299));
    assert!(captured.tail.as_deref().unwrap().ends_with(&joined));
    let text = std::fs::read_to_string(output.output.file.unwrap().path).unwrap();
    assert_eq!(text.lines().count(), 20_001);
    assert!(output.output.colored.unwrap().contains("\x1b[32m"));
}

#[tokio::test]
async fn cancelled_terminal_command_leaves_no_process() {
    let project = TestProject::new();
    let text = "(setsid sh -c 'echo $$ >> pids; exec sleep 60' &)
        while [ ! -s pids ]; do sleep 0.01; done; echo ready; sleep 60";
    let running = project.processes.start(in_terminal(&project, text)).await.unwrap();
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    let output = finished(running.follow(&cancel, None, &mut |_| trigger.cancel()).await);
    assert_eq!(output.stop, Some(StopReason::Cancelled));
    assert_eq!(output.output.captured.head, "ready");
    assert!(!is_alive(output.pid));
    assert!(pids(&project, "pids").iter().all(|pid| !is_alive(*pid)));
}
