//! Unlimited inputs do not exceed a memory limit.

use std::fs::File;
use std::io::Write as _;

use testkit::TestHome;
use testkit::measure::FinishedProcess;

use crate::support::{World, finish};

const MIB: u64 = 1024 * 1024;

/// Returns the peak memory of a run that only answers.
fn plain() -> u64 {
    World::new(r#"[{"text":"fine"}]"#).run_ok(&["-p", "hello"]).peak_rss
}

/// Runs one tool call; returns the run and the tool result.
fn one_call(world: &World) -> (FinishedProcess, String) {
    let output = world.run_ok(&["-p", "go", "-y"]);
    assert_eq!(output.stdout(), "done\n");
    let last = world.server.requests().pop().expect("a second request");
    (output, String::from_utf8_lossy(&last.body).into_owned())
}

fn assert_bounded(done: &FinishedProcess, limit: u64) {
    let more = done.peak_rss.saturating_sub(plain());
    assert!(more <= limit, "{} MiB more than a plain run", more / MIB);
}

fn call(name: &str, args: &str) -> String {
    format!(r#"[{{"calls":[{{"name":"{name}","args":{args}}}]}},{{"text":"done"}}]"#)
}

#[test]
fn shell_output_flood_is_truncated() {
    let world = World::new(&call(
        "run_shell_command",
        r#"{"command":"yes 'a line of output' | head -c 30000000; echo the end"}"#,
    ));
    let (done, body) = one_call(&world);
    assert!(body.contains("the end"), "the tail is shown");
    assert!(body.len() < 200_000, "{} bytes go to the model", body.len());
    assert_bounded(&done, 24 * MIB);
}

#[test]
fn endless_line_of_zero_bytes_is_truncated() {
    let world = World::new(&call(
        "run_shell_command",
        r#"{"command":"head -c 30M /dev/zero; echo the end"}"#,
    ));
    let (done, body) = one_call(&world);
    assert!(body.len() < 200_000, "{} bytes go to the model", body.len());
    assert_bounded(&done, 24 * MIB);
}

#[test]
fn file_of_300_mb_is_rejected_or_truncated() {
    let world = World::new(&call("read_file", r#"{"file_path":"big.txt"}"#));
    let file = File::create(world.home.project().join("big.txt")).expect("file");
    file.set_len(300 * MIB).expect("length");
    let (done, body) = one_call(&world);
    assert!(body.len() < 200_000, "{} bytes go to the model", body.len());
    assert_bounded(&done, 24 * MIB);
}

#[test]
fn line_of_50_mb_is_searched_and_read_in_bounded_memory() {
    let world = World::new(
        r#"[{"calls":[{"name":"grep_search","args":{"pattern":"needle"}},{"name":"read_file","args":{"file_path":"long.txt"}}]},{"text":"done"}]"#,
    );
    let mut file = File::create(world.home.project().join("long.txt")).expect("file");
    let block = vec![b'x'; MIB as usize];
    for _ in 0..50 {
        file.write_all(&block).expect("write");
    }
    file.write_all(b" needle \n").expect("write");
    let (done, body) = one_call(&world);
    assert!(body.len() < 200_000, "{} bytes go to the model", body.len());
    assert_bounded(&done, 60 * MIB);
}

#[test]
fn fifo_and_a_device_do_not_hang() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"pipe"}},{"name":"grep_search","args":{"pattern":"x"}},
                      {"name":"read_file","args":{"file_path":"zero"}},{"name":"write_file","args":{"file_path":"pipe","content":"x"}},
                      {"name":"replace","args":{"file_path":"pipe","instruction":"x","old_string":"a","new_string":"b"}}]},{"text":"done"}]"#,
    );
    let created = finish(world.shell("mkfifo pipe && ln -s /dev/zero zero", &[]));
    assert_eq!(created.code(), 0, "{}", created.err());
    let (_, body) = one_call(&world);
    assert_eq!(body.matches("\"error\":").count(), 4, "each is reported to the model: {body}");
    // If the user names a pipe, it is an error or skipped, but the run does not wait for a writer.
    let named = World::in_home(TestHome::new().expect("home"), r#"[{"text":"done"}]"#);
    assert_eq!(finish(named.shell("mkfifo pipe", &[])).code(), 0);
    let output = named.run(&["-p", "read @pipe"]);
    assert!(matches!(output.code(), 0 | 42), "{}: {}", output.code(), output.err());
}

#[test]
fn long_answer_costs_at_most_three_times_its_size() {
    let world =
        World::new(r#"[{"generate":{"chunks":2000,"bytes":5000000}}]"#).without_loop_guard();
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.stdout.len() > 4_900_000, "{}", output.stdout.len());
    // In debug builds, the checks of the history make additional copies.
    assert_bounded(&output, if cfg!(debug_assertions) { 45 } else { 15 } * MIB);
}

#[test]
fn first_request_is_small() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    world.run_ok(&["-p", "hello"]);
    let bytes = world.server.requests()[0].body.len();
    assert!(bytes / 4 <= 6000, "about {} tokens", bytes / 4);
}
