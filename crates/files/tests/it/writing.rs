use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use parallax_files::{
    Access, AllowedPath, ExpectedState, FileError, Freshness, SeenFiles, Snapshot, atomic_write,
    hash, read_capped,
};

use crate::TestWorkspace;

fn target(fixture: &TestWorkspace, path: &str) -> AllowedPath {
    fixture.workspace.resolve(path, Access::Write).expect("allowed")
}

fn mode(fixture: &TestWorkspace, name: &str) -> u32 {
    std::fs::metadata(fixture.path(name)).expect("there").mode() & 0o7777
}

/// Returns all names in the workspace, to check that no temporary file is left.
fn names(fixture: &TestWorkspace) -> Vec<String> {
    let entries = std::fs::read_dir(fixture.path("work")).expect("readable");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn new_file_has_the_default_mode_and_its_directories() {
    let fixture = TestWorkspace::new();
    let plain = fixture.write_file("work/plain", "");
    let written = atomic_write(&target(&fixture, "a/b/c"), b"text", ExpectedState::Absent);
    assert!(written.expect("written").created);
    assert_eq!(fixture.text("work/a/b/c"), "text");
    assert_eq!(mode(&fixture, "work/a/b/c"), mode(&fixture, "work/plain"));
    drop(plain);
}

#[test]
fn write_keeps_mode_attributes_and_link_target() {
    let fixture = TestWorkspace::new();
    let path = fixture.write_file("work/run.sh", "old");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).expect("mode");
    let marked =
        rustix::fs::setxattr(&path, "user.mark", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    symlink("run.sh", fixture.path("work/link")).expect("link");
    let before = std::fs::metadata(&path).expect("there").ino();
    let written =
        atomic_write(&target(&fixture, "link"), b"new", ExpectedState::Content(hash(b"old")))
            .expect("ok");
    assert!(!written.created && !written.rewritten_in_place);
    assert_eq!(
        (fixture.text("work/run.sh").as_str(), mode(&fixture, "work/run.sh")),
        ("new", 0o751)
    );
    assert_ne!(std::fs::metadata(&path).expect("there").ino(), before);
    assert!(fixture.path("work/link").is_symlink());
    if marked {
        let mut value = [0u8; 8];
        let length = rustix::fs::getxattr(&path, "user.mark", &mut value[..]).expect("attribute");
        assert_eq!(&value[..length], b"kept");
    }
    assert_eq!(names(&fixture), ["link", "run.sh"]);
}

#[test]
fn write_keeps_hard_links() {
    let fixture = TestWorkspace::new();
    let path = fixture.write_file("work/one", "a long old content");
    std::fs::hard_link(&path, fixture.path("work/two")).expect("link");
    for content in ["short", "a much longer content than there was before"] {
        let written =
            atomic_write(&target(&fixture, "two"), content.as_bytes(), ExpectedState::Anything)
                .expect("ok");
        assert!(written.rewritten_in_place);
        assert_eq!(fixture.text("work/one"), content);
    }
    let refused =
        atomic_write(&target(&fixture, "two"), b"x", ExpectedState::Content(hash(b"other")));
    assert!(matches!(refused, Err(FileError::Changed { .. })));
}

#[test]
fn file_with_unexpected_content_is_never_overwritten() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/a", "by someone else");
    let found = target(&fixture, "a");
    for expected in [ExpectedState::Content(hash(b"mine")), ExpectedState::Absent] {
        assert!(atomic_write(&found, b"new", expected).is_err());
    }
    assert_eq!(fixture.text("work/a"), "by someone else");
    let gone = atomic_write(&target(&fixture, "b"), b"new", ExpectedState::Content(hash(b"mine")));
    assert!(matches!(gone, Err(FileError::Changed { .. })));
    assert_eq!(names(&fixture), ["a"]);
}

#[test]
fn concurrent_writers_lose_no_update() {
    const ROUNDS: usize = 60;
    let fixture = TestWorkspace::new();
    fixture.write_file("work/a", "0 0 0");
    // Each thread counts one number up, as sessions that edit different lines do.
    std::thread::scope(|scope| {
        for own in 0..3 {
            let fixture = &fixture;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    loop {
                        let text = fixture.text("work/a");
                        let mut numbers: Vec<usize> = text
                            .split(' ')
                            .map(|number| number.parse().expect("a number"))
                            .collect();
                        numbers[own] += 1;
                        let new: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                        let expected = ExpectedState::Content(hash(text.as_bytes()));
                        let new = new.join(" ");
                        if atomic_write(&target(fixture, "a"), new.as_bytes(), expected).is_ok() {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(fixture.text("work/a"), format!("{ROUNDS} {ROUNDS} {ROUNDS}"));
}

#[test]
fn directory_is_rejected() {
    let fixture = TestWorkspace::new();
    std::fs::create_dir(fixture.path("work/folder")).expect("a folder");
    let refused = atomic_write(&target(&fixture, "folder"), b"x", ExpectedState::Anything);
    assert!(matches!(refused, Err(FileError::IsDirectory { .. })));
    let refused = atomic_write(&target(&fixture, "."), b"x", ExpectedState::Anything);
    assert!(refused.is_err());
    fixture.write_file("work/file", "x");
    let refused = atomic_write(&target(&fixture, "file/below"), b"x", ExpectedState::Anything);
    assert!(matches!(refused, Err(FileError::NotADirectory { .. })), "{refused:?}");
}

#[test]
fn write_protected_file_is_not_replaced() {
    let fixture = TestWorkspace::new();
    let path = fixture.write_file("work/a", "old");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("mode");
    // Root can still write it.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let refused = atomic_write(&target(&fixture, "a"), b"new", ExpectedState::Anything);
    assert!(matches!(refused, Err(FileError::PermissionDenied { .. })));
    assert_eq!(fixture.text("work/a"), "old");
}

#[test]
fn seen_files_detect_changes_by_others() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/a", "one");
    let found = target(&fixture, "a");
    let now = |found: &AllowedPath| {
        let (bytes, metadata) = read_capped(found, 1000).expect("reads");
        Snapshot::from_bytes(metadata, &bytes)
    };
    let seen_files = SeenFiles::new();
    assert_eq!(seen_files.compare(found.path(), &now(&found)), Freshness::NeverSeen);
    seen_files.record(found.path(), now(&found), Some(b"one"));
    // Touched but not changed.
    fixture.write_file("work/a", "one");
    assert_eq!(seen_files.compare(found.path(), &now(&found)), Freshness::Fresh);
    fixture.write_file("work/a", "two");
    assert_eq!(
        seen_files.compare(found.path(), &now(&found)),
        Freshness::Changed(Some(b"one".as_slice().into()))
    );
    let written = atomic_write(&found, b"three", ExpectedState::Anything).expect("written");
    seen_files.record(found.path(), written.snapshot, Some(b"three"));
    assert_eq!(seen_files.compare(found.path(), &now(&found)), Freshness::Fresh);
}
