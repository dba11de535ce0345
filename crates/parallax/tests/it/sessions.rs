//! Journals on the disk: two processes, torn lines, rights.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{World, raw_contents};

/// All files and folders below a folder.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn journals(world: &World) -> Vec<PathBuf> {
    let mut files = tree(&world.home.parallax().join("sessions"));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files
}

#[test]
fn two_processes_in_one_project_do_not_disturb_each_other() {
    let world = World::new(
        r#"[{"match":{"promptContains":"first"},"chunks":[{"text":"first "},{"gate":"one"},{"text":"answer"},{"finish":"STOP"}]},
            {"match":{"promptContains":"second"},"chunks":[{"text":"second "},{"gate":"two"},{"text":"answer"},{"finish":"STOP"}]}]"#,
    );
    let first = world.start(&["-p", "first"]);
    let second = world.start(&["-p", "second"]);
    world.at_gate("one");
    world.at_gate("two");
    world.server.open_gate("two");
    let second = second.finish(Duration::from_secs(10)).expect("second");
    world.server.open_gate("one");
    let first = first.finish(Duration::from_secs(10)).expect("first");
    assert_eq!((first.out(), second.out()), ("first answer\n".into(), "second answer\n".into()));
    assert_eq!((first.err(), second.err()), (String::new(), String::new()));
    assert_eq!(journals(&world).len(), 2);
    world.server.assert_clean();
}

#[test]
fn a_session_in_use_is_continued_as_a_copy() {
    let world = World::new(
        r#"[{"text":"begun"},
            {"match":{"promptContains":"holds it"},"chunks":[{"gate":"held"},{"text":"held"},{"finish":"STOP"}]},
            {"match":{"promptContains":"wants it"},"text":"copied"},
            {"match":{"promptContains":"third"},"text":"after both"}]"#,
    );
    world.run_well(&["-p", "begin", "--session-id", "shared"]);
    let holder = world.start(&["-r", "shared", "-p", "holds it"]);
    world.at_gate("held");
    let other = world.run(&["-r", "shared", "-p", "wants it"]);
    assert_eq!((other.code(), other.out().as_str()), (0, "copied\n"), "{}", other.err());
    assert!(other.err().contains("shared"), "it says that it works on a copy: {}", other.err());
    world.server.open_gate("held");
    let holder = holder.finish(Duration::from_secs(10)).expect("holder");
    assert_eq!((holder.code(), holder.out().as_str()), (0, "held\n"), "{}", holder.err());
    assert_eq!(journals(&world).len(), 2);
    let own = world.run(&["-r", "shared", "-p", "third"]);
    assert_eq!(own.code(), 0, "{}", own.err());
    let requests = world.server.requests();
    let last = String::from_utf8_lossy(&requests[3].body).into_owned();
    assert!(last.contains("holds it") && !last.contains("wants it"), "{last}");
}

#[test]
fn a_torn_last_line_is_dropped_with_a_notice() {
    let world = World::new(
        r#"[{"calls":[{"name":"list_directory","args":{"dir_path":"."}}]},{"text":"listed"},{"text":"still here"}]"#,
    );
    world.run_well(&["-p", "look"]);
    let journal = journals(&world).remove(0);
    let text = std::fs::read_to_string(&journal).expect("journal");
    std::fs::write(&journal, format!("{text}{{\"content\":{{\"time\":17, \"wi")).expect("write");
    let done = world.run_well(&["-r", "latest", "-p", "and now?"]);
    assert_eq!(done.out(), "still here\n");
    assert_eq!(done.err().lines().count(), 1, "one notice: {}", done.err());
    let requests = world.server.requests();
    let (before, after) = (raw_contents(&requests[1]), raw_contents(&requests[2]));
    assert_eq!(before, after[..before.len()], "nothing but the torn line is gone");
}

#[test]
fn what_is_written_is_for_the_user_alone() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    world.home.write_home(".gemini/settings.json", "{}").expect("settings");
    let before = tree(&world.home.gemini());
    world.run_well(&["-p", "hello"]);
    assert_eq!(tree(&world.home.gemini()), before, "nothing is written to `~/.gemini`");
    let written = tree(&world.home.parallax());
    assert!(!written.is_empty());
    for path in written {
        let mode = std::fs::metadata(&path).expect("metadata").permissions().mode() & 0o777;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{}: {mode:o}", path.display());
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains(testkit::API_KEY), "the key is in {}", path.display());
    }
}
