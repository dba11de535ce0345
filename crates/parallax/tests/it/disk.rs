//! Full, small, and read-only disks.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::measure::FinishedProcess;

use crate::support::{World, finish};

const EDIT: &str = r#"[{"calls":[{"name":"replace","args":{"file_path":"disk/big.txt","instruction":"x","old_string":"the first line","new_string":"THE FIRST LINE"}}]},{"text":"done"}]"#;

fn create_world() -> (World, String) {
    let world = World::new(EDIT);
    let text = format!("the first line\n{}", "another line of text\n".repeat(20_000));
    world.home.write("disk/big.txt", &text).expect("file");
    (world, text)
}

/// Checks that the old file is intact, no other file is next to it, and the error is reported: to
/// the model, or to the user if the run cannot continue.
fn assert_intact(world: &World, text: &str, done: &FinishedProcess, reason: &[&str]) {
    assert!(world.read("disk/big.txt") == text, "the old file is intact");
    let names: Vec<_> = std::fs::read_dir(world.home.project().join("disk"))
        .expect("folder")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names, ["big.txt"], "nothing is left beside it");
    let requests = world.server.requests();
    let report = match done.code() {
        0 => String::from_utf8_lossy(&requests.get(1).expect("a second request").body).into_owned(),
        code => {
            assert_eq!((code, requests.len()), (54, 1), "{}", done.err());
            done.err()
        }
    };
    let error = report.rsplit("\"error\":").next().unwrap_or_default();
    assert!(reason.iter().any(|reason| error.contains(reason)), "{error}");
}

#[test]
fn file_size_limit_keeps_the_old_file() {
    let (world, text) = create_world();
    // Blocks of 512 or 1024 bytes, depending on the shell: in both cases less than the file and
    // more than the journal.
    let output = finish(world.shell("ulimit -f 300; exec \"$@\"", &["-p", "edit", "-y"]));
    assert_intact(&world, &text, &output, &["too large", "limit", "larger"]);
}

/// Returns a command in its own mount namespace, if that is allowed.
fn mounted(world: &World, mount: &str, args: &[&str]) -> Option<Command> {
    let mut probe = world.home.command(Path::new("/usr/bin/env"), "");
    probe.args(["unshare", "-Urm", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: no mount namespaces here");
        return None;
    }
    let line = format!("{mount} && exec \"$@\"");
    let mut command = world.home.command(Path::new("/usr/bin/env"), &world.server.url());
    command.args(["unshare", "-Urm", "/bin/sh", "-c", &line, "sh", crate::support::PROGRAM]);
    command.args(args);
    Some(command)
}

#[test]
fn full_disk_keeps_the_old_file() {
    let (world, text) = create_world();
    let mount =
        "cp disk/big.txt kept && mount -t tmpfs -o size=640k none disk && cp kept disk/big.txt";
    let line = format!("{mount} && rm kept");
    let args = ["-p", "edit", "-y"];
    let Some(command) = mounted(&world, &line, &args) else { return };
    let output = finish(command);
    assert_intact(&world, &text, &output, &["No space left"]);
}

#[test]
fn read_only_disk_keeps_the_old_file() {
    let (world, text) = create_world();
    let mount = "mount --bind disk disk && mount -o remount,bind,ro disk";
    let Some(command) = mounted(&world, mount, &["-p", "edit", "-y"]) else { return };
    let output = finish(command);
    assert_intact(&world, &text, &output, &["Read-only", "read-only"]);
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for format in ["text", "json", "stream-json"] {
        let world = World::new(r#"[{"text":"an answer"}]"#);
        let output = finish(world.shell("exec \"$@\" > /dev/full", &["-p", "go", "-o", format]));
        assert_eq!(output.code(), 1, "{format}: {}", output.err());
        assert!(output.err().contains("No space left"), "{format}: {}", output.err());
    }
}

#[test]
fn unwritable_home_is_reported() {
    let world = World::new(r#"[{"text":"an answer"}]"#);
    // A file in place of the directory also stops root.
    world.home.write_home(".parallax", "").expect("file");
    let output = world.run(&["-p", "go"]);
    assert!(output.err().contains(".parallax"), "{}: {}", output.code(), output.err());
}

#[test]
fn unwritable_home_disables_only_saving() {
    let world = World::new(
        r#"[{"text":"kept words"},
            {"calls":[{"name":"run_shell_command","args":{"command":"echo made by it"}}]},
            {"text":"done"}]"#,
    );
    world.run_ok(&["-p", "remember the valve"]);
    let home = world.home.parallax();
    let mount = format!("mount --bind {0} {0} && mount -o remount,ro,bind {0}", home.display());
    let Some(command) = mounted(&world, &mount, &["-y", "-p", "go"]) else { return };
    let output = finish(command);
    assert_eq!((output.code(), output.stdout().as_str()), (0, "done\n"), "{}", output.err());
    assert_eq!(output.err().matches("aving this session stopped").count(), 1, "{}", output.err());
    let requests = world.server.requests();
    let report = String::from_utf8_lossy(&requests[2].body).into_owned();
    assert!(report.contains("made by it"), "the command ran: {report}");
    let of = |args: &[&str]| finish(mounted(&world, &mount, args).expect("as before"));
    let found = of(&["sessions", "search", "valve"]);
    assert_eq!(found.code(), 0, "{}", found.err());
    assert!(found.stdout().contains("kept [words]") || found.stdout().contains("[valve]"));
    let collected = of(&["sessions", "gc"]);
    assert_eq!(collected.code(), 1, "{}", collected.err());
    assert!(collected.stdout().contains("Read-only"), "{}", collected.stdout());
}
