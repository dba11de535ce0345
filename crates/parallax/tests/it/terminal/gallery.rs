//! Snapshots of every scene of the gallery in a small, a normal, and a wide window, and for a screen
//! reader.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use testkit::gallery::{DARK, Scene, SceneRun, StageOptions, scenes};

use super::snapshots::constant_rows;
use crate::support::PROGRAM;

/// How many scenes are played at the same time; they mostly wait.
const AT_ONCE: usize = 4;
/// The rows are compared after this time without output.
const QUIET: Duration = Duration::from_millis(150);
/// On a busy machine, late facts such as the state of the sandbox arrive within this time.
const LATE: Duration = Duration::from_secs(5);

const FOLDER: &str = "snapshots/scenes";

fn assert_scenes(suffix: &str, size: (u16, u16), is_screen_reader: bool) {
    let scenes = Mutex::new(scenes().into_iter());
    let next = || scenes.lock().expect("no panic while it is locked").next();
    let options = StageOptions {
        program: Path::new(PROGRAM),
        size,
        appearance: DARK,
        is_screen_reader,
        waits_for_grammars: false,
        parent: None,
    };
    let problems = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(scene) = next() {
                    let name = format!("{}-{suffix}", scene.name);
                    let played = || assert_scene(&name, &scene, &options);
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(played)).is_err() {
                        problems.lock().expect("no panic while it is locked").push(name);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic while it is locked");
    assert!(problems.is_empty(), "scenes that differ, see above: {problems:?}");
}

fn assert_scene(name: &str, scene: &Scene, options: &StageOptions<'_>) {
    let stage =
        SceneRun::play(scene, options).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    let rows = settled_rows(&stage, &expected(name));
    stage.server.assert_clean();
    insta::with_settings!({ snapshot_path => FOLDER, prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, rows);
    });
    // In small windows, facts are shortened.
    if options.is_screen_reader || options.size.0 >= 120 {
        let words = rows.split_whitespace().collect::<Vec<_>>().join(" ");
        for fact in scene.texts {
            assert!(words.contains(fact), "{name} lacks `{fact}`:\n{rows}");
        }
    }
}

/// Returns the rows of scrollback and window when nothing changes anymore. Waits longer if they are
/// not those of the snapshot.
fn settled_rows(stage: &SceneRun, expected: &str) -> String {
    let deadline = Instant::now() + LATE;
    loop {
        stage.terminal.settle(QUIET);
        let rows = stage.terminal.with_emulator(testkit::pty::Emulator::lines);
        let rows = constant_rows(&rows, stage.home.root());
        if rows == expected || expected.is_empty() || Instant::now() > deadline {
            return rows;
        }
    }
}

/// Returns the contents of a snapshot, or nothing if it does not exist.
fn expected(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/terminal").join(FOLDER);
    let text = std::fs::read_to_string(folder.join(format!("{name}.snap"))).unwrap_or_default();
    text.splitn(3, "---\n").nth(2).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn gallery_scenes_match_their_snapshots_in_a_small_window() {
    assert_scenes("50x15", (50, 15), false);
}

#[test]
fn gallery_scenes_match_their_snapshots_in_a_normal_window() {
    assert_scenes("80x24", (80, 24), false);
}

#[test]
fn gallery_scenes_match_their_snapshots_in_a_wide_window() {
    assert_scenes("120x40", (120, 40), false);
}

#[test]
fn gallery_scenes_match_their_snapshots_for_a_screen_reader() {
    assert_scenes("screen-reader", (80, 24), true);
}
