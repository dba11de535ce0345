//! Endless or blocking standard input.

use std::process::Stdio;

use testkit::measure::MeasuredProcess;

use crate::support::{LIMIT, World};

#[test]
fn silent_open_stdin_does_not_delay_the_run() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    let mut command = world.command(&["-p", "go"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start");
    let held = child.stdin.take();
    let output = child.wait_with_output().expect("wait");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n");
    assert_eq!(output.status.code(), Some(0));
    drop(held);
}

#[test]
fn stdin_flood_is_truncated_with_a_warning() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    let flood = "word and another\n".repeat(600_000);
    let running = MeasuredProcess::start(world.command(&["-p", "go"]), Some(flood.as_bytes()));
    let output = running.and_then(|running| running.finish(LIMIT)).expect("run");
    // The truncated input may still exceed the model's limit; the warning about it is printed
    // either way.
    assert!(output.err().contains("8 MiB"), "{}: {}", output.code(), output.err());
    assert!(matches!(output.code(), 0 | 1), "{}: {}", output.code(), output.err());
}
