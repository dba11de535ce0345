//! `kill -9` at any moment loses no finished step and leaves no partial file.
//! `PARALLAX_KILL_MOMENTS` sets the number of moments (200 for the full test); the default is
//! small.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{World, raw_contents};

/// The default number of moments.
const FEW: u64 = 24;
/// Lines of the file that is rewritten repeatedly.
const LINES: usize = 1_500;

/// Steps with two calls each, one of them with an effect; signed.
const WORK: &str = r#"[{"loop":{"calls":40,"parallel":2,"signed":true,"name":"run_shell_command","args":{"command":"echo {i} >> log.txt; echo did {i}"},"final":"done"}}]"#;

const AFTER: &str = r#"[{"loop":{"calls":1,"signed":true,"name":"read_file","args":{"file_path":"log.txt"},"final":"resumed"}}]"#;

/// Returns steps that each rewrite one whole file.
fn writing() -> String {
    let content = "whole {i}\\n".repeat(LINES);
    format!(
        r#"[{{"loop":{{"calls":60,"signed":true,"name":"write_file","args":{{"file_path":"same.txt","content":"{content}"}},"final":"done"}}}}]"#
    )
}

/// A deterministic random generator (xorshift).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn next_below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn kill_moments(part: u64, seed: u64) -> Vec<(usize, u64)> {
    let requested = std::env::var("PARALLAX_KILL_MOMENTS").ok().and_then(|text| text.parse().ok());
    let count = requested.unwrap_or(FEW).div_ceil(part);
    let mut numbers = RandomNumbers(seed);
    (0..count).map(|_| (numbers.next_below(9) as usize, numbers.next_below(30_000))).collect()
}

/// Runs the test at each moment, two at a time.
fn run_at_each(moments: &[(usize, u64)], kill: impl Fn(usize, Duration) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((requests, micros)) =
                    moments.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    kill(*requests, Duration::from_micros(*micros));
                }
            });
        }
    });
}

#[test]
fn killed_run_resumes_with_every_result_the_model_saw() {
    run_at_each(&kill_moments(2, 0x5eed_1234_abcd_0001), kill_and_resume);
}

#[test]
fn resumed_turn_after_kill_does_not_repeat_finished_calls() {
    run_at_each(&kill_moments(4, 0x5eed_1234_abcd_0002), kill_and_continue);
}

#[test]
fn file_being_written_during_a_kill_is_complete() {
    run_at_each(&kill_moments(4, 0x5eed_1234_abcd_0003), kill_during_write);
}

/// Kills a run, then continues its turn without a new prompt.
fn kill_and_continue(requests: usize, then: Duration) {
    let at = format!("killed {then:?} after request {requests}");
    let (world, seen) = killed(WORK, requests, then, &at);
    let after = World::in_home(world, AFTER);
    let resumed = after.run(&["-r", "latest", "-y"]);
    let Some(last) = seen.last() else {
        // Before the first request, the prompt may not be recorded yet. Then there is nothing to
        // continue, which is an input error.
        assert!([0, 42].contains(&resumed.code()), "{at}: {}", resumed.err());
        return;
    };
    assert_eq!(
        (resumed.code(), resumed.stdout().as_str()),
        (0, "resumed\n"),
        "{at}: {}",
        resumed.err()
    );
    assert_eq!(after.server.violations(), Vec::<String>::new(), "{at}");
    let first = raw_contents(&after.server.requests()[0]);
    assert_holds(&first, last, &at);
    // There is no new prompt, so the model receives nothing else.
    let end: Value = serde_json::from_str(first.last().expect("contents")).expect("content");
    let parts = end["parts"].as_array().cloned().unwrap_or_default();
    let answers = parts.iter().filter(|part| part.get("functionResponse").is_some()).count();
    assert!(answers == parts.len() || first.len() == 1, "{at}: {end}");
    assert_nothing_ran_twice(&after.read("log.txt"), &at);
    assert_every_run_is_recorded(&after.read("log.txt"), &first.join("\n"), &at);
}

fn kill_during_write(requests: usize, then: Duration) {
    let at = format!("killed {then:?} after request {requests}");
    let (home, _) = killed(&writing(), requests, then, &at);
    let text = std::fs::read_to_string(home.project().join("same.txt")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_empty() || lines.len() == LINES, "{at}: {} lines", lines.len());
    assert!(lines.windows(2).all(|pair| pair[0] == pair[1]), "{at}: two writes are mixed");
    let after = World::in_home(home, r#"[{"text":"resumed"}]"#);
    let resumed = after.run(&["-r", "latest", "-p", "go on", "-y"]);
    assert_eq!(resumed.code(), 0, "{at}: {}", resumed.err());
    assert_eq!(after.server.violations(), Vec::<String>::new(), "{at}");
    // The changes can be undone, so the backups are complete as well.
    if !lines.is_empty() {
        while after.run(&["undo", "--force"]).code() == 0 {}
        assert!(!home_file(&after, "same.txt"), "{at}: the file was made by the run");
    }
}

fn home_file(world: &World, name: &str) -> bool {
    world.home.project().join(name).exists()
}

/// Kills a run some time after this many requests; returns its home and the contents of each
/// request.
fn killed(
    script: &str,
    requests: usize,
    then: Duration,
    at: &str,
) -> (testkit::TestHome, Vec<Vec<String>>) {
    let world = World::new(script);
    let running = world.start(&["-p", "work", "-y"]);
    world.wait_for_requests(requests);
    std::thread::sleep(then);
    kill_process(running.pid(), Signal::KILL).expect("kill");
    let output = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(output.code(), 137, "{at}: {}", output.err());
    let seen = world.server.requests().iter().map(raw_contents).collect();
    assert_eq!(world.server.violations(), Vec::<String>::new(), "{at}");
    let World { home, .. } = world;
    (home, seen)
}

/// Kills a run some time after this many requests, then resumes the session.
fn kill_and_resume(requests: usize, then: Duration) {
    let at = format!("killed {then:?} after request {requests}");
    // A command that was running at the kill may still be writing its line.
    let (home, seen) = killed(WORK, requests, then, &at);
    let after = World::in_home(home, AFTER);
    let resumed = after.run(&["-r", "latest", "-p", "go on", "-y"]);
    assert_eq!(
        (resumed.code(), resumed.stdout().as_str()),
        (0, "resumed\n"),
        "{at}: {}",
        resumed.err()
    );
    assert_eq!(after.server.violations(), Vec::<String>::new(), "{at}");
    let first = raw_contents(&after.server.requests()[0]);
    if let Some(last) = seen.last() {
        assert_holds(&first, last, &at);
    }
    assert_nothing_ran_twice(&after.read("log.txt"), &at);
    assert_every_run_is_recorded(&after.read("log.txt"), &first.join("\n"), &at);
}

/// Checks that the contents sent before are unchanged, except that the last one may have additional
/// parts.
fn assert_holds(now: &[String], before: &[String], at: &str) {
    let whole = before.len() - 1;
    assert!(now.len() > whole, "{at}: {} contents of {}", now.len(), before.len());
    assert_eq!(now[..whole], before[..whole], "{at}");
    let parts = |content: &str| -> Vec<Value> {
        let content: Value = serde_json::from_str(content).expect("content");
        content["parts"].as_array().cloned().unwrap_or_default()
    };
    let (now, before) = (parts(&now[whole]), parts(&before[whole]));
    assert!(now.starts_with(&before), "{at}: {now:?} does not begin with {before:?}");
}

fn assert_nothing_ran_twice(log: &str, at: &str) {
    let mut lines: Vec<&str> = log.lines().collect();
    let count = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "{at}: a call ran twice: {log}");
}

/// Checks that every call that had an effect is in the contents: with its result, or with the note
/// that the result is lost.
fn assert_every_run_is_recorded(log: &str, contents: &str, at: &str) {
    for number in log.lines() {
        assert!(
            contents.contains(&format!("echo {number} >> log.txt")),
            "{at}: call {number} ran, and the model does not know of it"
        );
    }
}

/// Returns the child of a process that holds the namespaces of its commands.
fn namespaces_of(parent: rustix::process::Pid) -> Option<rustix::process::Pid> {
    let parent = format!("PPid:\t{}\n", parent.as_raw_nonzero());
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut found = processes.filter_map(|entry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let id = entry.file_name().to_str()?.parse().ok()?;
        (status.contains(&parent) && line.contains("__sandbox-namespaces")).then_some(id)
    });
    rustix::process::Pid::from_raw(found.next()?)
}

#[test]
fn commands_run_after_the_session_namespaces_were_killed() {
    let world = World::new(&crate::support::commands(&[
        "echo x > begun; sleep 60",
        "echo y > after; cat after",
    ]));
    let running = world.start(&["-p", "go", "-y"]);
    crate::support::wait_until("the first command", || world.home.project().join("begun").exists());
    // Without namespaces, there is nothing to kill.
    let Some(keeper) = namespaces_of(running.pid()) else { return };
    kill_process(keeper, Signal::KILL).expect("signal");
    let output = running.finish(Duration::from_secs(30)).expect("finish");
    assert_eq!(output.code(), 0, "{}", output.err());
    assert_eq!(world.read("after"), "y\n");
}
