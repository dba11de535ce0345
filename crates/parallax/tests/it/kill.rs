//! `kill -9` at any moment loses no finished step.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{World, raw_contents};

const RUNS: u64 = 30;

/// Rounds of two calls each, one of them with an effect; signed.
const WORK: &str = r#"[{"loop":{"calls":40,"parallel":2,"signed":true,"name":"run_shell_command","args":{"command":"echo {i} >> log.txt; echo did {i}"},"final":"done"}}]"#;

const AFTER: &str = r#"[{"loop":{"calls":1,"signed":true,"name":"read_file","args":{"file_path":"log.txt"},"final":"resumed"}}]"#;

/// The same numbers in every run of the tests (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn a_killed_run_resumes_with_every_result_that_the_model_had_seen() {
    let mut numbers = Numbers(0x5eed_1234_abcd_0001);
    let moments: Vec<(usize, u64)> =
        (0..RUNS).map(|_| (numbers.below(9) as usize, numbers.below(30_000))).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((requests, micros)) =
                    moments.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    kill_and_resume(*requests, Duration::from_micros(*micros));
                }
            });
        }
    });
}

/// Kills a run some time after that many requests.
fn kill_and_resume(requests: usize, then: Duration) {
    let at = format!("killed {then:?} after request {requests}");
    let world = World::new(WORK);
    let running = world.start(&["-p", "work", "-y"]);
    world.asked(requests);
    std::thread::sleep(then);
    kill_process(running.pid(), Signal::KILL).expect("kill");
    let done = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(done.code(), 137, "{at}: {}", done.err());
    let seen = world.server.requests();
    assert_eq!(world.server.violations(), Vec::<String>::new(), "{at}");

    // A command that the kill caught may still be writing its line.
    let World { home, .. } = world;
    let after = World::in_home(home, AFTER);
    let resumed = after.run(&["-r", "latest", "-p", "go on", "-y"]);
    assert_eq!(
        (resumed.code(), resumed.out().as_str()),
        (0, "resumed\n"),
        "{at}: {}",
        resumed.err()
    );
    assert_eq!(after.server.violations(), Vec::<String>::new(), "{at}");
    let first = raw_contents(&after.server.requests()[0]);
    if let Some(last) = seen.last() {
        assert_holds(&first, &raw_contents(last), &at);
    }
    assert_nothing_ran_twice(&after.read("log.txt"), &at);
    assert_every_run_is_told(&after.read("log.txt"), &first.join("\n"), &at);
}

/// The contents that were sent before must be there, byte for byte; the last
/// one may have got more parts.
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

/// Whatever had an effect is in what the model reads: with its result, or with
/// the note that the result is lost.
fn assert_every_run_is_told(log: &str, contents: &str, at: &str) {
    for number in log.lines() {
        assert!(
            contents.contains(&format!("echo {number} >> log.txt")),
            "{at}: call {number} ran, and the model does not know of it"
        );
    }
}
