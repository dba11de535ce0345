use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parallax_files::{
    Access, ExpectedState, FileError, PathError, Workspace, WorkspaceOptions, atomic_write,
};
use proptest::prelude::*;

use crate::TestWorkspace;

fn refused(fixture: &TestWorkspace, path: &str, access: Access) -> String {
    match fixture.workspace.resolve(path, access) {
        Err(error) => error.to_string(),
        Ok(found) => panic!("{path} was allowed as {}", found.path().display()),
    }
}

#[test]
fn paths_outside_or_protected_are_rejected_with_known_messages() {
    let fixture = TestWorkspace::new();
    fixture.write_file("outside/secret", "s");
    symlink(fixture.path("outside"), fixture.path("work/door")).expect("link");
    symlink(fixture.path("outside/new"), fixture.path("work/dangling")).expect("link");
    symlink(".git", fixture.path("work/innocent")).expect("link");
    for access in [Access::Read, Access::Write] {
        for (index, path) in [
            "../outside/secret",
            "door/secret",
            "door/not/there/yet",
            "dangling",
            "/etc/passwd",
            ".env",
            "sub/.ENV",
            "node_modules/x/i.js",
            ".git/config",
            "innocent/config",
            "gha-creds-1.json",
            ".env\0",
        ]
        .into_iter()
        .enumerate()
        {
            let message = refused(&fixture, path, access);
            let start = "Path not in workspace: Attempted path \"/";
            let middle = "\" resolves outside the allowed workspace directories: ";
            let is_outside = message.starts_with(start) && message.contains(middle);
            let is_protected = message.contains("` is protected from tools: /");
            assert_eq!((is_outside, is_protected), (index < 5, index >= 5), "{message}");
        }
    }
    let loops = fixture.path("work/loop");
    symlink(&loops, &loops).expect("link");
    assert!(matches!(fixture.workspace.resolve("loop", Access::Read), Err(PathError::Loop { .. })));
    assert!(matches!(fixture.workspace.resolve("\0", Access::Read), Err(PathError::Empty)));
}

#[test]
fn allowed_directories_are_readable_and_writable_as_configured() {
    let fixture = TestWorkspace::with(|base, options| {
        std::fs::create_dir(base.join("docs")).expect("a folder");
        options.readable = vec![base.join("docs")];
        options.writable_files = vec![base.join("outside/MEMORY.md")];
        options.denied = vec![base.join("temp/.inbox")];
    });
    let may = |path: &Path, access| {
        fixture.workspace.resolve(&path.display().to_string(), access).is_ok()
    };
    for (path, read, write) in [
        ("work/a/b/new", true, true),
        ("temp/x", true, true),
        ("temp/.inbox/x", false, false),
        ("docs/x", true, false),
        ("outside/MEMORY.md", true, true),
        ("outside/other.md", false, false),
    ] {
        let path = fixture.path(path);
        assert_eq!(
            (may(&path, Access::Read), may(&path, Access::Write)),
            (read, write),
            "{path:?}"
        );
    }
    assert!(!may(&fixture.path("outside/x"), Access::Write));
    fixture.workspace.add_root(&fixture.path("outside")).expect("added");
    assert!(may(&fixture.path("outside/x"), Access::Write));
    assert!(fixture.workspace.add_root(&fixture.path("missing")).is_err());
}

#[test]
fn leading_at_sign_is_removed_unless_the_file_exists() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/src/a.rs", "");
    fixture.write_file("work/@scope/b.rs", "");
    for (text, expected) in [
        ("@/src/a.rs", "src/a.rs"),
        ("@src/a.rs", "src/a.rs"),
        ("@scope/new.rs", "@scope/new.rs"),
        ("@scope/b.rs", "@scope/b.rs"),
        ("src/../src/./a.rs", "src/a.rs"),
    ] {
        let found = fixture.workspace.resolve(text, Access::Read).expect("allowed");
        assert_eq!(found.path(), fixture.path("work").join(expected), "{text}");
    }
}

#[test]
fn links_within_the_workspace_are_followed() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/real/a.txt", "one");
    symlink("real", fixture.path("work/folder")).expect("link");
    symlink("folder/a.txt", fixture.path("work/file")).expect("link");
    let found = fixture.workspace.resolve("file", Access::Write).expect("allowed");
    atomic_write(&found, b"two", ExpectedState::Anything).expect("written");
    assert_eq!(fixture.text("work/real/a.txt"), "two");
    assert!(fixture.path("work/file").is_symlink());
}

#[test]
fn pipes_and_devices_are_rejected_without_blocking() {
    let fixture = TestWorkspace::new();
    let pipe = fixture.path("work/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    let found = fixture.workspace.resolve("pipe", Access::Write).expect("allowed");
    assert!(matches!(found.open(), Err(FileError::NotRegular { kind: "named pipe", .. })));
    assert!(matches!(
        atomic_write(&found, b"x", ExpectedState::Anything),
        Err(FileError::NotRegular { .. })
    ));

    let socket = std::os::unix::net::UnixListener::bind(fixture.path("work/socket"));
    let found = fixture.workspace.resolve("socket", Access::Read).expect("allowed");
    assert!(matches!(found.open(), Err(FileError::NotRegular { kind: "socket", .. })));
    drop(socket);

    symlink("/dev/zero", fixture.path("work/zero")).expect("link");
    assert!(refused(&fixture, "zero", Access::Read).contains("work/zero"));
    let everything = Workspace::new(WorkspaceOptions {
        root: PathBuf::from("/"),
        ..WorkspaceOptions::default()
    })
    .expect("a workspace");
    let zero = everything.resolve("/dev/zero", Access::Read).expect("allowed");
    assert!(matches!(zero.open(), Err(FileError::NotRegular { kind: "device", .. })));
}

#[test]
fn link_swapped_between_check_and_use_never_escapes() {
    let fixture = TestWorkspace::new();
    fixture.write_file("outside/victim", "untouched");
    fixture.write_file("work/inner/victim", "inside");
    let hole = fixture.path("work/hole");
    let (inner, outer) = (fixture.path("work/inner"), fixture.path("outside"));
    std::fs::create_dir(&hole).expect("a folder");
    let stop = AtomicBool::new(false);
    let (mut written, mut stopped) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let spare = fixture.path("work/spare");
            while !stop.load(Ordering::Relaxed) {
                // A directory, a link that stays inside, and a link that points outside.
                let _ = std::fs::remove_dir_all(&hole);
                let _ = std::fs::create_dir(&hole);
                for target in [&outer, &inner] {
                    let _ = symlink(target, &spare);
                    let _ = std::fs::remove_dir_all(&hole);
                    let _ = std::fs::rename(&spare, &hole);
                }
                let _ = std::fs::remove_file(&hole);
            }
        });
        for _ in 0..2_000 {
            let Ok(found) = fixture.workspace.resolve("hole/victim", Access::Write) else {
                stopped += 1;
                continue;
            };
            match atomic_write(&found, b"written", ExpectedState::Anything) {
                Ok(_) => written += 1,
                Err(_) => stopped += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fixture.text("outside/victim"), "untouched");
    let outside = std::fs::read_dir(&outer).expect("readable").count();
    assert_eq!(outside, 1, "nothing was created outside");
    assert!(written > 0 && stopped > 0, "{written} written, {stopped} stopped: no race took place");
}

/// A step in creating a random tree: directories, files, and links to anywhere.
#[derive(Debug, Clone)]
enum Step {
    Folder(String),
    File(String),
    Link(String, String),
}

fn step() -> impl Strategy<Value = Step> {
    let path = "[abc](/[abc]){0,2}";
    let target = "(\\.\\./){0,3}[abc]?(/[abc]){0,1}|/OUT(/secret)?|/WORK/[abc]";
    prop_oneof![
        path.prop_map(Step::Folder),
        path.prop_map(Step::File),
        (path, target).prop_map(|(path, target)| Step::Link(path, target)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_combination_of_links_escapes(
        steps in proptest::collection::vec(step(), 1..12),
        paths in proptest::collection::vec("(\\.\\./){0,2}[abc](/(\\.\\.|[abc])){0,3}(/secret)?", 1..6),
    ) {
        let fixture = TestWorkspace::new();
        fixture.write_file("outside/secret", "secret");
        let work = fixture.path("work");
        for step in steps {
            let _ = match step {
                Step::Folder(path) => std::fs::create_dir_all(work.join(path)),
                Step::File(path) => std::fs::write(work.join(path), "plain"),
                Step::Link(path, target) => {
                    let target = target
                        .replace("/OUT", &fixture.path("outside").display().to_string())
                        .replace("/WORK", &work.display().to_string());
                    symlink(target, work.join(path))
                }
            };
        }
        let outside = || ["outside", ""].map(|name| std::fs::read_dir(fixture.path(name)).expect("readable").count());
        let (before, secret) = (outside(), fixture.text("outside/secret"));
        for path in paths {
            if let Ok(found) = fixture.workspace.resolve(&path, Access::Write) {
                prop_assert!(
                    found.path().starts_with(&work) || found.path().starts_with(fixture.path("temp"))
                );
                let _ = atomic_write(&found, b"changed", ExpectedState::Anything);
            }
        }
        prop_assert_eq!(fixture.text("outside/secret"), secret);
        prop_assert_eq!(outside(), before);
    }
}
