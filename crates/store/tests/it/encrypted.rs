use std::fs;
use std::path::{Path, PathBuf};

use parallax_keychain::Keychain;
use parallax_protocol::store::{Record, Store as _};
use parallax_store::{
    Journal, KeyStorage, Keys, LoadError, LoadedSession, SessionDirs, list, load, move_session,
};

use crate::{head, user};

fn keys(home: &Path) -> Keys {
    Keys::new(Keychain::default(), home, Some(KeyStorage::File))
}

fn write(path: &Path, keys: &Keys, count: usize) -> Journal {
    let journal = Journal::create(path, head("s1")).with_keys(keys);
    for number in 0..count {
        journal.append(&user(&format!("marker {number}"))).expect("append");
    }
    journal
}

fn texts(session: &LoadedSession) -> Vec<String> {
    session.contents.iter().map(|content| content.json().to_owned()).collect()
}

struct TestProject {
    folder: tempfile::TempDir,
    path: PathBuf,
    keys: Keys,
}

impl TestProject {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let (path, keys) = (folder.path().join("s1.jsonl"), keys(folder.path()));
        Self { folder, path, keys }
    }

    /// Returns the two lines before the records as one string, then each record.
    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let (opening, records) = lines.split_at(2);
        let records = records.iter().map(|line| (*line).to_owned());
        std::iter::once(opening.join("\n")).chain(records).collect()
    }

    fn write_lines(&self, lines: &[&str]) {
        fs::write(&self.path, format!("{}\n", lines.join("\n"))).expect("written");
    }

    fn load(&self) -> LoadedSession {
        load(&self.path, &self.keys).expect("load")
    }
}

#[test]
fn encrypted_journal_hides_content_and_round_trips() {
    let project = TestProject::new();
    drop(write(&project.path, &project.keys, 3));
    let text = fs::read_to_string(&project.path).expect("text");
    assert!(
        !text.contains("marker") && !text.contains("\"/w\"") && !text.contains("parts"),
        "{text}"
    );
    // The line with the key ID, the seal, the head, and three contents.
    assert_eq!(text.lines().count(), 6);
    let (journal, loaded) = Journal::open_append(&project.path, &project.keys).expect("open");
    assert_eq!((loaded.contents.len(), loaded.head.project.as_str()), (3, "/w"));
    journal.append(&user("marker 3")).expect("append");
    drop(journal);
    let again = project.load();
    assert_eq!((again.contents.len(), again.notices.len()), (4, 0));
    let key = project.folder.path().join("session-key");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&key).expect("key").permissions().mode() & 0o777, 0o600);
    }
    // It stays encrypted even if new journals are not.
    let off = Keys::new(Keychain::default(), project.folder.path(), None);
    let (journal, _) = Journal::open_append(&project.path, &off).expect("open");
    journal.append(&user("marker 4")).expect("append");
    assert!(!fs::read_to_string(&project.path).expect("text").contains("marker"));
    // With another key or without one, an error is reported.
    for text in [Some("A".repeat(43) + "="), None] {
        fs::remove_file(&key).expect("removed");
        let expected = if text.is_some() { "session-key`, and the" } else { "file not found" };
        if let Some(text) = text {
            fs::write(&key, text).expect("another key");
        }
        let error = load(&project.path, &project.keys).expect_err("no key");
        assert!(matches!(&error, LoadError::Encrypted { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        if !key.exists() {
            break;
        }
    }
}

#[test]
fn tampered_encrypted_lines_end_the_session() {
    let project = TestProject::new();
    drop(write(&project.path, &project.keys, 4));
    let lines = project.lines();
    let line: Vec<&str> = lines.iter().map(String::as_str).collect();
    let whole = project.load();
    let changed = line[4].replace("\"encrypted\":\"", "\"encrypted\":\"AAAA");
    let renumbered = line[5].replace("\"n\":4", "\"n\":3");
    // (Name, lines, number of remaining contents.)
    let table: [(&str, Vec<&str>, usize); 6] = [
        ("swapped", vec![line[0], line[1], line[2], line[4], line[3], line[5]], 1),
        ("taken out", vec![line[0], line[1], line[2], line[4], line[5]], 1),
        ("twice", vec![line[0], line[1], line[2], line[2], line[3]], 1),
        ("changed", vec![line[0], line[1], line[2], line[3], &changed, line[5]], 2),
        ("renumbered", vec![line[0], line[1], line[2], line[3], &renumbered], 2),
        ("in the clear", vec![line[0], line[1], line[2], r#"{"name":{"time":"","text":"x"}}"#], 1),
    ];
    for (what, lines, left) in table {
        project.write_lines(&lines);
        let before = fs::read(&project.path).expect("bytes");
        let (journal, loaded) = Journal::open_append(&project.path, &project.keys).expect("open");
        assert_eq!(texts(&loaded), texts(&whole)[..left], "{what}");
        assert!(
            loaded.broken
                && loaded.notices[0].contains("was changed, or records before it are missing"),
            "{what}"
        );
        journal.append(&user("more")).expect("quietly nothing");
        assert_eq!(
            fs::read(&project.path).expect("bytes"),
            before,
            "{what}: nothing is cut or added"
        );
    }
    // A line of another session with the same key.
    let other = project.folder.path().join("other.jsonl");
    drop(write(&other, &project.keys, 4));
    let foreign = fs::read_to_string(&other).expect("text");
    let foreign = foreign.lines().nth(4).expect("a line");
    project.write_lines(&[line[0], line[1], line[2], foreign]);
    assert_eq!((project.load().contents.len(), project.load().broken), (1, true));
    // The session is valid under another file name, but not with another session ID.
    project.write_lines(&[&line[0].replace("\"s1\"", "\"s2\""), line[1], line[2]]);
    assert!(load(&project.path, &project.keys).is_err());
}

#[test]
fn truncated_end_is_detected_and_distinguished_from_a_crash() {
    let project = TestProject::new();
    let journal = write(&project.path, &project.keys, 4);
    journal.sync().expect("durable");
    journal.append(&user("marker 4")).expect("append");
    // The program was killed here: the seal counts fewer records than there are.
    drop(journal);
    assert_eq!((project.load().contents.len(), project.load().broken), (5, false));
    let lines = project.lines();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    project.write_lines(&lines[..lines.len() - 1]);
    assert_eq!((project.load().contents.len(), project.load().broken), (4, false));
    for (left, report) in [(4, "1 record is missing"), (2, "3 records are missing")] {
        project.write_lines(&lines[..left + 1]);
        let (journal, loaded) = Journal::open_append(&project.path, &project.keys).expect("open");
        assert!(loaded.broken && loaded.notices[0].contains(report), "{:?}", loaded.notices);
        assert_eq!(loaded.contents.len(), left - 1);
        journal.append(&user("quietly nothing")).expect("append");
        journal.sync().expect("sync");
        assert_eq!(project.lines().len(), left + 1, "it stays as it is");
    }
    // Without a seal, or with that of another journal, truncation cannot be detected.
    let (first, seal) = lines[0].split_once('\n').expect("a seal");
    let other = project.folder.path().join("other.jsonl");
    drop(write(&other, &project.keys, 1));
    let other = fs::read_to_string(&other).expect("text");
    let foreign = format!("{first}\n{}", other.lines().nth(1).expect("a seal"));
    let damaged = format!("{first}\n{}", seal.replace("\":\"", "\":\"AAAA"));
    for opening in [first, &foreign, &damaged] {
        project.write_lines(&[&[opening], &lines[1..3]].concat());
        let loaded = project.load();
        assert!(loaded.broken && loaded.notices[0].contains("cannot be detected"));
        assert_eq!(loaded.contents.len(), 1);
    }
    // The seal is updated with each turn, and the file remains a valid journal.
    project.write_lines(&lines);
    let (journal, _) = Journal::open_append(&project.path, &project.keys).expect("open");
    journal.append(&user("marker 5")).expect("append");
    journal.sync().expect("durable");
    drop(journal);
    let longer = project.lines();
    assert_eq!((longer.len(), longer[0].len()), (lines.len() + 1, lines[0].len()));
    project.write_lines(&longer[..7].iter().map(String::as_str).collect::<Vec<_>>());
    assert!(project.load().notices[0].contains("1 record is missing"));
}

#[test]
fn torn_encrypted_line_is_dropped_at_any_position() {
    let project = TestProject::new();
    drop(write(&project.path, &project.keys, 3));
    let bytes = fs::read(&project.path).expect("bytes");
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    for cut in (last..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
        fs::write(&project.path, &bytes[..cut]).expect("torn");
        let (journal, loaded) = Journal::open_append(&project.path, &project.keys).expect("open");
        let kept = loaded.contents.len();
        assert_eq!(kept, if cut == bytes.len() - 1 { 3 } else { 2 }, "{cut}");
        assert!(!loaded.broken);
        journal.append(&user("on")).expect("append");
        drop(journal);
        let again = project.load();
        assert_eq!((again.contents.len(), again.broken), (kept + 1, false), "{cut}");
    }
}

#[test]
fn plain_session_is_encrypted_when_resumed() {
    let project = TestProject::new();
    let plain = Keys::default();
    drop(write(&project.path, &plain, 2));
    let before = load(&project.path, &plain).expect("load");
    let (journal, loaded) = Journal::open_append(&project.path, &project.keys).expect("open");
    assert_eq!(texts(&loaded), texts(&before));
    journal.append(&user("marker 2")).expect("append");
    let name = Record::Name(parallax_protocol::store::NameRecord {
        time: crate::TIME.into(),
        text: "Named later".into(),
    });
    journal.append(&name).expect("append");
    drop(journal);
    let text = fs::read_to_string(&project.path).expect("text");
    assert!(!text.contains("marker"), "{text}");
    assert_eq!(project.load().contents.len(), 3);
    assert!(load(&project.path, &plain).is_err());
}

#[test]
fn encrypted_sessions_are_listed_and_moved() {
    let folder = tempfile::tempdir().expect("folder");
    let mut dirs = SessionDirs::new(folder.path().join("p"), folder.path().join("g"));
    dirs.keys = keys(&dirs.parallax);
    let project = Path::new("/w");
    drop(write(&dirs.journal(project, &"s1".into()), &dirs.keys, 2));
    let entries = list(&dirs, project);
    assert_eq!((entries.len(), entries[0].title.as_str()), (1, "marker 0"));
    let to = folder.path().join("elsewhere");
    let new = move_session(&dirs, &entries[0], &to).expect("moved");
    let moved = load(&new, &dirs.keys).expect("load");
    assert_eq!((moved.head.project, moved.contents.len()), (to.display().to_string(), 2));
    // Without the key the session is listed, and does not count as empty.
    dirs.keys = Keys::new(Keychain::default(), folder.path(), None);
    let entries = list(&dirs, &to);
    assert_eq!((entries[0].id.as_str(), entries[0].title.contains("encrypted")), ("s1", true));
}
