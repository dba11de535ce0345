//! Signals, and a closed stdout.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::{World, wait_until};

const BUSY: &str = r#"[{"calls":[{"name":"run_shell_command","args":{"command":"echo $$ > pid; echo started; sleep 60; touch too-late"}}]},{"text":"no"}]"#;

/// Returns the process ID of the command's `sleep` as this process sees it: the command itself is
/// in a PID namespace.
fn shell_pid(world: &World) -> Pid {
    let folder = world.home.project().canonicalize().expect("the project");
    let mut found = None;
    wait_until("the command's start", || {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        found = processes
            .filter(|entry| {
                std::fs::read_link(entry.path().join("cwd")).ok().as_ref() == Some(&folder)
            })
            .filter(|entry| {
                std::fs::read(entry.path().join("cmdline"))
                    .is_ok_and(|line| line.starts_with(b"sleep\0"))
            })
            .find_map(|entry| entry.file_name().to_str()?.parse().ok());
        found.is_some()
    });
    Pid::from_raw(found.expect("a number")).expect("a process")
}

/// Whether this process was started with a signal ignored, as `nohup` does: child processes inherit
/// that.
fn ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal.as_raw() - 1)) != 0
}

#[test]
fn signal_ends_running_commands_and_saves_the_session() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if ignored(signal) {
            println!("skipped: these tests were started with {signal:?} ignored");
            continue;
        }
        let world = World::new(BUSY);
        let running = world.start(&["-p", "go", "-y"]);
        let shell = shell_pid(&world);
        let sent = Instant::now();
        kill_process(running.pid(), signal).expect("signal");
        let output = running.finish(Duration::from_secs(10)).expect("finish");
        assert_eq!(output.code(), code, "{}", output.err());
        assert!(sent.elapsed() < Duration::from_secs(4), "{:?}", sent.elapsed());
        wait_until("the command's end", || test_kill_process(shell).is_err());
        assert!(!world.home.project().join("too-late").exists());
        let next = world.run_ok(&["-r", "latest", "-p", "what happened?"]);
        assert_eq!(next.stdout(), "no\n");
    }
}

#[test]
fn background_command_ends_with_the_run() {
    let world = World::new(
        r#"[{"calls":[{"name":"run_shell_command","args":{"command":"sleep 60","is_background":true,"delay_ms":600}}]},{"text":"done"}]"#,
    );
    let running = world.start(&["-p", "go", "-y"]);
    let sleep = shell_pid(&world);
    let output = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(output.stdout(), "done\n");
    wait_until("the command's end", || test_kill_process(sleep).is_err());
}

#[test]
fn no_process_outlives_a_killed_program() {
    let world = World::new(BUSY);
    let running = world.start(&["-p", "go", "-y"]);
    let sleep = shell_pid(&world);
    kill_process(running.pid(), Signal::KILL).expect("signal");
    running.finish(Duration::from_secs(10)).expect("finish");
    wait_until("the command's end", || test_kill_process(sleep).is_err());
}

#[test]
fn wait_for_a_retry_can_be_interrupted() {
    let world = World::new(
        r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"},"headers":{"retry-after":"60"}}]"#,
    );
    let running = world.start(&["-p", "go"]);
    world.wait_for_requests(1);
    std::thread::sleep(Duration::from_millis(50));
    kill_process(running.pid(), Signal::INT).expect("signal");
    let output = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!((output.code(), output.timed_out), (130, false), "{}", output.err());
    assert!(output.elapsed < Duration::from_secs(5), "{:?}", output.elapsed);
}

#[test]
fn closed_output_pipe_is_not_a_failure() {
    for format in ["text", "stream-json"] {
        let world =
            World::new(r#"[{"generate":{"chunks":2000,"bytes":4000000}}]"#).without_loop_guard();
        let mut command = world.command(&["-p", "go", "-o", format]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start");
        let mut first = [0; 10];
        child.stdout.take().expect("stdout").read_exact(&mut first).expect("some output");
        let output = child.wait_with_output().expect("wait");
        assert_eq!((output.status.code(), output.status.signal()), (Some(0), None), "{format}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
    }
}

#[test]
fn version_and_help_tolerate_a_closed_output() {
    let world = World::new("[]");
    for flag in ["--version", "--help"] {
        let mut command = world.shell("\"$@\" | true", &[flag]);
        let output = command.output().expect("run");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{flag}");
    }
}
