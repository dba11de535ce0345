//! Files that must not be read.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::support::{PROGRAM, World, finish};

/// Returns the system calls of a run, if `strace` is installed.
fn calls(world: &World, args: &[&str]) -> Option<String> {
    let file = world.home.root().join("calls");
    let mut command = world.home.command(Path::new("/usr/bin/env"), &world.server.url());
    command.args(["strace", "-f", "-e", "trace=%file,clone,clone3,socket", "-o"]).arg(&file);
    let mut probe = world.home.command(Path::new("/usr/bin/env"), "");
    probe.args(["strace", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: `strace` cannot be used here");
        return None;
    }
    command.arg(PROGRAM).args(args);
    finish(command);
    Some(std::fs::read_to_string(file).expect("the trace"))
}

#[test]
fn version_and_help_start_no_thread_and_open_no_file_of_the_user() {
    for flag in ["--version", "--help"] {
        let world = World::new("[]");
        world.home.write_home(".gemini/settings.json", "{}").expect("settings");
        world.home.write("GEMINI.md", "x").expect("file");
        let Some(calls) = calls(&world, &[flag]) else { return };
        let root = world.home.root().display().to_string();
        for line in calls.lines() {
            assert!(!line.contains(&root), "{flag}: {line}");
            assert!(!line.contains("clone") && !line.contains("socket("), "{flag}: {line}");
        }
    }
}

#[test]
fn only_names_of_an_untrusted_folder_are_listed() {
    let world = World::new("[]");
    for path in
        [".gemini/settings.json", ".parallax/settings.json", ".env", "GEMINI.md", "AGENTS.md"]
    {
        world.home.write(path, "{}").expect("file");
    }
    world
        .home
        .write_home(".gemini/settings.json", r#"{"security": {"folderTrust": {"enabled": true}}}"#)
        .expect("settings");
    let file = world.home.root().join("calls");
    let mut command = world.home.command(Path::new("/usr/bin/env"), &world.server.url());
    command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    command.args(["strace", "-f", "-e", "trace=open,openat,openat2", "-o"]).arg(&file);
    command.arg(PROGRAM).args(["-p", "read @GEMINI.md"]);
    let output = finish(command);
    let Ok(calls) = std::fs::read_to_string(file) else {
        let _ = writeln!(std::io::stderr(), "skipped: `strace` cannot be used here");
        return;
    };
    assert_eq!(output.code(), 55, "{}", output.err());
    let project = format!("{}/", world.home.project().display());
    for line in calls.lines().filter(|line| line.contains(&project)) {
        // The trust preview follows no symlinks and reads no file contents.
        assert!(line.contains("O_NOFOLLOW") || line.contains("O_DIRECTORY"), "{line}");
        for name in [".env", "GEMINI.md", "AGENTS.md"] {
            assert!(!line.contains(&format!("{project}{name}")), "{line}");
        }
    }
}
