//! Tests of protected files, and of links that lead elsewhere.

use super::*;

#[test]
fn protected_files_are_put_back_and_the_rest_stays() {
    let fixture = Fixture::repository(&[("a", "a"), (".vscode/tasks.json", "{}")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("a", "wanted");
        fixture.write(".vscode/tasks.json", "evil");
        fixture.write(".git/hooks/pre-commit", "evil");
        fixture.write(".envrc", "evil");
        fixture.write(".git/refs/heads/other", "fine");
    });
    assert_eq!(changes.protected.len(), 3, "{changes:?}");
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!((undone.restored.len(), undone.kept.len()), (3, 0));
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("{}"));
    assert!(!fixture.path(".git/hooks/pre-commit").exists() && !fixture.path(".envrc").exists());
    let listed = checkpoints.list().expect("list");
    assert_eq!(listed[0].files.len(), 1);
    assert_eq!(listed[0].files[0].kind, ChangeKind::Changed);
    assert_eq!(checkpoints.undo(None, false).expect("undo").restored, [fixture.path("a")]);
}

#[test]
fn links_exchanged_meanwhile_lead_nowhere() {
    let fixture = Fixture::new();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).expect("outside");
    fs::write(outside.join("a"), "theirs").expect("theirs");
    fixture.write("dir/a", "old");
    let checkpoints = fixture.checkpoints();
    fixture.edit(&checkpoints, 1, "dir/a", "new");
    fs::rename(fixture.path("dir"), fixture.path("away")).expect("away");
    symlink(&outside, fixture.path("dir")).expect("link");
    for force in [false, true] {
        let undone = checkpoints.undo(Some(1), force).expect("undo");
        assert_eq!((undone.restored.len(), undone.kept.len()), (0, 1), "{undone:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("a")).expect("theirs"), "theirs");

    // Paths outside the workspace in a record are not touched either.
    let journal = fixture.folder.path().join("checkpoints/work-12345678/s1.jsonl");
    let text = fs::read_to_string(&journal).expect("journal");
    let foreign = text.replace(
        &fixture.path("dir/a").display().to_string(),
        &outside.join("a").display().to_string(),
    );
    fs::write(&journal, foreign).expect("journal");
    let undone = fixture.checkpoints().undo(Some(1), true).expect("undo");
    assert_eq!(undone.kept[0].1, "it is outside the workspace");
}

#[test]
fn a_folder_swapped_all_the_time_is_never_left() {
    let fixture = Fixture::new();
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).expect("outside");
    fixture.write("dir/a", "old");
    let checkpoints = fixture.checkpoints();
    let file = [fixture.path("dir/a")];
    let changes = command(&checkpoints, 1, || fixture.write("dir/a", "new"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut restored = 0;
    let swaps = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (dir, link) = (fixture.path("dir"), fixture.path("link"));
            symlink(&outside, &link).expect("link");
            let swap = || renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE);
            let mut swaps = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                swap().expect("swapped");
                // The real directory now has the name of the link.
                if swaps % 16 == 0 {
                    let _ = fs::write(link.join("a"), "new");
                }
                swap().expect("swapped");
                swaps += 2;
            }
            swaps
        });
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 1000 {
            restored += checkpoints.restore(&changes, &file).map_or(0, |done| done.restored.len());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        swapper.join().expect("swapper")
    });
    assert!(swaps > 1000 && restored > 0, "{swaps} swaps, {restored} restored");
    assert_eq!(fs::read_dir(&outside).expect("outside").count(), 0);
}

#[test]
fn a_protected_folder_behind_a_link_is_put_back_whole() {
    let fixture = Fixture::new();
    fixture.write(".vscode/tasks.json", "{}");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        fixture.write("e/tasks.json", "evil");
        fs::remove_dir_all(fixture.path(".vscode")).expect("removed");
        symlink("e", fixture.path(".vscode")).expect("link");
    });
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(undone.kept, []);
    assert_eq!(fixture.read(".vscode/tasks.json").as_deref(), Some("{}"));
    assert!(!fixture.path(".vscode").is_symlink());
}

#[test]
fn what_was_put_back_can_be_had_and_what_was_out_of_reach_is_not_touched() {
    let fixture = Fixture::new();
    fixture.write(".vscode/settings.json", "old");
    let checkpoints = fixture.checkpoints();
    let mark = checkpoints.begin_command(1).expect("begin");
    fixture.write(".vscode/settings.json", "user");
    fixture.write(".vscode/tasks.json", "user");
    fixture.write("AGENTS.md", "user");
    fixture.write("a", "agent");
    let reach = Reach { closed: vec![fixture.path(".vscode")], open: vec![] };
    let changes = checkpoints.end_command(mark, &reach).expect("end");
    assert_eq!(changes.protected, [fixture.path("AGENTS.md")]);
    let undone = checkpoints.restore(&changes, &changes.protected).expect("restore");
    assert_eq!(undone.restored, [fixture.path("AGENTS.md")]);
    assert_eq!(fixture.read("AGENTS.md"), None);
    let of_turn = checkpoints.list().expect("list");
    assert_eq!(of_turn[0].files.len(), 1, "{of_turn:?}");

    // A redone file counts as a change by the user, so no undo reverts it.
    assert_eq!(checkpoints.redo(false).expect("redo").restored, [fixture.path("AGENTS.md")]);
    assert_eq!(checkpoints.undo(None, false).expect("undo").restored, [fixture.path("a")]);
    for name in ["AGENTS.md", ".vscode/settings.json", ".vscode/tasks.json"] {
        assert_eq!(fixture.read(name).as_deref(), Some("user"), "{name}");
    }
}
