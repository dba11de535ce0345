//! Tests of new protected files that are too many, or nested too deep, to be removed one by one.

use std::time::{Duration, Instant};

use super::*;

/// More than are removed one by one.
const MANY: usize = 1_500;

fn write_many(fixture: &Fixture, name: impl Fn(usize) -> String) {
    (0..MANY).for_each(|number| fixture.write(&name(number), "evil"));
}

fn nest(fixture: &Fixture, top: &str) {
    let mut folder = fixture.path(top);
    for _ in 0..200 {
        folder.push("d");
    }
    fs::create_dir_all(&folder).expect("folders");
    fs::write(folder.join("tasks.json"), "evil").expect("written");
}

/// Restores everything protected that changed, and returns what was moved away.
fn restore(checkpoints: &Checkpoints, changes: &Changes) -> Vec<PathBuf> {
    let (moved, remaining) = checkpoints.quarantine(changes, changes.protected.clone());
    let undone = checkpoints.restore(changes, &remaining).expect("restore");
    assert_eq!(undone.skipped, []);
    moved.paths
}

/// Returns the entries of the directory for what was moved away.
fn quarantined(fixture: &Fixture) -> usize {
    let folder = fixture.folder.path().join("checkpoints/removed");
    fs::read_dir(folder).into_iter().flatten().count()
}

#[test]
fn directory_with_too_many_new_files_is_moved_away_and_removed_by_the_next_session() {
    let fixture = Fixture::repository(&[("a", "a")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        write_many(&fixture, |number| format!(".vscode/{number}/tasks.json"));
        fixture.write("b", "wanted");
    });
    assert_eq!(restore(&checkpoints, &changes), [fixture.path(".vscode")]);
    assert!(!fixture.path(".vscode").exists());
    assert_eq!((fixture.read("b").as_deref(), quarantined(&fixture)), (Some("wanted"), 1));

    fixture.checkpoints_of("s2").begin_command(1).expect("begin");
    let started = Instant::now();
    while quarantined(&fixture) > 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "not removed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn too_many_new_files_in_existing_directories_are_moved_away() {
    let fixture = Fixture::repository(&[(".vscode/settings.json", "{}"), ("a", "a")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        write_many(&fixture, |number| format!(".vscode/{number}.json"));
        write_many(&fixture, |number| format!("d{}/{number}/.envrc", number % 7));
        fixture.write(".vscode/settings.json", "evil");
    });
    assert_eq!(restore(&checkpoints, &changes).len(), 2 * MANY);
    let names = fs::read_dir(fixture.path(".vscode")).expect("listed").flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["settings.json"]);
    assert_eq!(fixture.read(".vscode/settings.json").as_deref(), Some("{}"));
    assert!(fixture.path("d0/0").is_dir() && !fixture.path("d0/0/.envrc").exists());
}

#[test]
fn permitted_files_stay_in_a_directory_with_too_many_new_files() {
    let fixture = Fixture::repository(&[("a", "a")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        write_many(&fixture, |number| format!(".vscode/{number}.json"));
        fixture.write(".vscode/settings.json", "wanted");
    });
    let (settings, folder) = (fixture.path(".vscode/settings.json"), fixture.path(".vscode"));
    let mut closed = changes.protected.clone();
    closed.retain(|path| *path != settings && *path != folder);
    let (moved, remaining) = checkpoints.quarantine(&changes, closed);
    assert_eq!((moved.paths.len(), remaining.len()), (MANY, 0));
    assert_eq!(fixture.read(".vscode/settings.json").as_deref(), Some("wanted"));
}

#[test]
fn deeply_nested_new_directory_is_moved_away_even_without_permissions() {
    let fixture = Fixture::repository(&[("a", "a")]);
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || {
        nest(&fixture, ".vscode");
        fixture.write(".envrc", "evil");
        set_mode(&fixture.path(".vscode"), 0o500);
    });
    assert_eq!(restore(&checkpoints, &changes), [fixture.path(".vscode")]);
    assert!(!fixture.path(".vscode").exists() && !fixture.path(".envrc").exists());
}

#[test]
fn workspace_on_another_file_system_has_its_own_quarantine() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let mut fixture = Fixture::new();
    fixture.work = memory.path().canonicalize().expect("real");
    fixture.write("a", "a");
    let checkpoints = fixture.checkpoints();
    let changes = command(&checkpoints, 1, || nest(&fixture, ".vscode"));
    assert_eq!(restore(&checkpoints, &changes), [fixture.path(".vscode")]);
    let names = || {
        let names = fs::read_dir(&fixture.work).expect("listed").flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names().len(), 2, "{:?}", names());
    // It is not part of the workspace.
    let changes = command(&checkpoints, 2, || fixture.write("b", "b"));
    assert_eq!(changes.created, [fixture.path("b")]);

    fixture.checkpoints_of("s2").begin_command(1).expect("begin");
    let started = Instant::now();
    while names() != ["a", "b"] {
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", names());
        std::thread::sleep(Duration::from_millis(5));
    }
}
