//! Tests of protected files changed by a command whose program was killed before it could revert
//! them.

use serde_json::json;

use super::*;

/// Restores the saved state as it was when the program was killed.
fn killed(fixture: &Fixture, change: impl FnOnce()) -> Checkpoints {
    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(3).expect("begin");
    let pending = checkpoints.save_protected(&mark, json!({"by": "test"})).expect("saved");
    change();
    // While the program lives, its command does not count as abandoned.
    let mut options = fixture.options();
    options.session = "s2".into();
    assert!(Checkpoints::open(options.clone()).abandoned_changes().is_empty());
    let folder = fixture.folder.path().join("checkpoints/work-12345678");
    let mut files = fs::read_dir(&folder).expect("folder").flatten().map(|file| file.path());
    let path = files.find(|path| path.extension().is_some_and(|end| end == "pending"));
    let path = path.expect("a file");
    let text = fs::read(&path).expect("text");
    drop((pending, checkpoints));
    assert!(!path.exists(), "one that ended leaves nothing");
    fs::write(&path, text).expect("left behind");
    Checkpoints::open(options)
}

#[test]
fn protected_files_are_reverted_by_the_next_session_after_a_kill() {
    let fixture = Fixture::repository(&[("a.txt", "a"), (".gitattributes", "old")]);
    for name in [".mcp.json", ".vscode/tasks.json", "sub/.envrc"] {
        fixture.write(name, "old");
    }
    let next = killed(&fixture, || {
        fixture.write(".mcp.json", "evil");
        fixture.write(".git/hooks/pre-commit", "evil");
        fixture.write("sub/.idea/workspace.xml", "evil");
        fixture.write("a.txt", "changed");
        fs::remove_file(fixture.path(".vscode/tasks.json")).expect("removed");
    });
    let found = next.abandoned_changes();
    assert_eq!(found.len(), 1);
    for abandoned in found {
        assert_eq!(abandoned.allowed, json!({"by": "test"}));
        let paths = abandoned.changes.protected.clone();
        let restored = next.restore(&abandoned.changes, &paths).expect("restored");
        assert_eq!(restored.skipped, []);
        abandoned.finish();
    }
    assert_eq!(fixture.read(".mcp.json").as_deref(), Some("old"));
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("old"));
    assert_eq!(fixture.read(".git/hooks/pre-commit"), None);
    assert_eq!(fixture.read("sub/.idea/workspace.xml"), None);
    assert_eq!(fixture.read("a.txt").as_deref(), Some("changed"));
    assert!(next.abandoned_changes().is_empty());
    // The replaced contents are not lost.
    let redone = next.redo(false).expect("redo");
    assert!(redone.restored.contains(&fixture.path(".mcp.json")), "{redone:?}");
}

#[test]
fn change_after_the_kill_is_not_attributed_to_the_command() {
    let fixture = Fixture::repository(&[("a.txt", "a")]);
    fixture.write(".mcp.json", "old");
    let next = killed(&fixture, || {});
    let folder = fixture.folder.path().join("checkpoints/work-12345678");
    for file in fs::read_dir(folder).expect("folder").flatten() {
        if file.path().extension().is_some_and(|end| end == "pending") {
            let file = fs::File::options().append(true).open(file.path()).expect("file");
            let before = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
            file.set_modified(before).expect("time");
        }
    }
    fixture.write(".mcp.json", "user");
    fixture.write(".envrc", "user");
    let found = next.abandoned_changes();
    assert!(found.iter().all(|abandoned| abandoned.changes.protected.is_empty()), "{found:?}");
}

#[test]
fn damaged_state_and_other_directories_are_skipped() {
    let fixture = Fixture::repository(&[("a.txt", "a")]);
    fixture.write(".mcp.json", "old");
    let next = killed(&fixture, || fixture.write(".mcp.json", "evil"));
    let elsewhere = fixture.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("folder");
    let mut options = fixture.options();
    options.roots = vec![elsewhere];
    assert!(Checkpoints::open(options).abandoned_changes().is_empty());
    assert_eq!(next.abandoned_changes().len(), 1);
    let folder = fixture.folder.path().join("checkpoints/work-12345678");
    for file in fs::read_dir(folder).expect("folder").flatten() {
        if file.path().extension().is_some_and(|end| end == "pending") {
            fs::write(file.path(), "{").expect("damaged");
        }
    }
    assert!(next.abandoned_changes().is_empty());
}
