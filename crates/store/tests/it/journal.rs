use std::fs;
use std::fs::TryLockError::WouldBlock;
use std::path::Path;

use parallax_protocol::store::{ContentRecord, Record, ResultRecord, Store as _};
use parallax_store::{
    Journal, JournalLockHandover, Keys, LoadError, OpenError, create_private_dir,
};

use crate::{content, head, load, result, round, sealed, user};

/// Two calls, answered out of order, with line endings and unusual numbers in the raw JSON.
const CALLS: &str = "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"x\",\"args\":{\"a\":1.00}},\n\"thoughtSignature\":\"c2ln\"},{\"functionCall\":{\"name\":\"x\"}}]}";

fn sample() -> Vec<Record> {
    vec![
        user("héllo\u{2028}"),
        content(sealed(CALLS)),
        result(1, r#"[{"functionResponse":{"name":"x","response":{"output":"second"}}}]"#),
        result(
            0,
            "[{\"functionResponse\": {\"name\":\"x\",\n\"response\":{\"output\":\"first\"}}},{\"inlineData\":{}}]",
        ),
        round(2, Some(r#"[{"text":"steer"}]"#)),
        content(sealed(r#"{"role":"model","parts":[{"text":"done"}]}"#)),
        Record::TurnEnd { time: crate::TIME.into(), reason: "done".into(), detail: None },
    ]
}

fn write(path: &Path, records: &[Record]) -> Journal {
    let journal = Journal::create(path, head("s1"));
    for record in records {
        journal.append(record).expect("append");
    }
    journal.sync().expect("sync");
    journal
}

#[test]
fn journal_round_trips_byte_for_byte() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("a/b/s1.jsonl");
    let journal = Journal::create(&path, head("s1"));
    journal.sync().expect("sync");
    assert!(!folder.path().join("a").exists(), "a session without a prompt leaves nothing");
    drop(journal);
    let journal = write(&path, &sample());
    let loaded = load(&path).expect("load");
    let contents: Vec<&str> = loaded.contents.iter().map(|content| content.json()).collect();
    assert_eq!(contents.len(), 4);
    assert_eq!(contents[1], CALLS);
    assert_eq!(
        contents[2],
        "{\"role\":\"user\",\"parts\":[{\"functionResponse\": {\"name\":\"x\",\n\"response\":{\"output\":\"first\"}}},{\"inlineData\":{}},{\"functionResponse\":{\"name\":\"x\",\"response\":{\"output\":\"second\"}}},{\"text\":\"steer\"}]}"
    );
    assert_eq!((loaded.notices.as_slice(), loaded.records.len()), ([].as_slice(), 7));
    assert!(loaded.pending.is_none() && loaded.head.session_id.as_str() == "s1");
    // One line per record, and the same in a fork.
    assert_eq!(fs::read_to_string(&path).expect("text").lines().count(), 8);
    let fork = Journal::create(folder.path().join("s2.jsonl"), head("s2"));
    fork.append_all(&loaded).expect("fork");
    let again = load(fork.path()).expect("load");
    assert_eq!((again.contents, again.records.len()), (loaded.contents, 7));
    drop(journal);
}

/// Runs in a separate process, because the umask is shared by all threads.
#[cfg(unix)]
#[test]
fn journal_is_private_regardless_of_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    if let Some(home) = std::env::var_os(CHILD) {
        drop(write(&Path::new(&home).join("sessions/p/s1.jsonl"), &[user("x")]));
        create_private_dir(&Path::new(&home).join("tmp/p/s1")).expect("folder");
        return;
    }
    let folder = tempfile::tempdir().expect("tempdir");
    for umask in ["0277", "0000"] {
        let home = folder.path().join(umask);
        in_child(&format!("umask {umask}"), "journal_is_private_regardless_of_umask", &home);
        let mode = |path: &str| {
            fs::metadata(home.join(path)).expect("metadata").permissions().mode() & 0o777
        };
        assert_eq!(mode("sessions/p/s1.jsonl"), 0o600);
        for folder in ["", "sessions", "sessions/p", "tmp", "tmp/p", "tmp/p/s1"] {
            assert_eq!(mode(folder), 0o700, "{folder}");
        }
    }
}

#[test]
fn truncation_at_any_byte_loses_only_one_record() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    drop(write(&path, &sample()));
    let bytes = fs::read(&path).expect("bytes");
    let cut = folder.path().join("cut.jsonl");
    let first = bytes.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for length in first..bytes.len() {
        fs::write(&cut, &bytes[..length]).expect("write");
        let whole = bytes[..length].iter().filter(|byte| **byte == b'\n').count();
        // A record that lacks only its line ending is complete.
        let whole = if bytes[length] == b'\n' { whole + 1 } else { whole };
        let (journal, loaded) = Journal::open_append(&cut, &Keys::default()).expect("open");
        assert_eq!(loaded.records.len(), whole - 1, "cut at {length}");
        journal.append(&user("next")).expect("append");
        drop(journal);
        let again = load(&cut).expect("load");
        assert_eq!(again.notices, [""; 0], "cut at {length}");
        let last = again.contents.last().map(|content| content.json().to_owned());
        assert_eq!(last.as_deref(), Some(r#"{"role":"user","parts":[{"text":"next"}]}"#));
    }
    fs::write(&cut, &bytes[..first / 2]).expect("write");
    assert!(matches!(load(&cut), Err(LoadError::NotASession { .. })));
}

#[test]
fn unfinished_step_is_pending() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    drop(write(&path, &sample()[..3]));
    let (journal, loaded) = Journal::open_append(&path, &Keys::default()).expect("open");
    let pending = loaded.pending.expect("pending");
    assert_eq!((loaded.contents.len(), pending.calls.len()), (2, 2));
    assert_eq!(pending.results.keys().copied().collect::<Vec<_>>(), [1]);
    // The engine finishes the batch; the reader then sees one content.
    journal.append(&result(0, r#"[{"functionResponse":{}}]"#)).expect("append");
    journal.append(&round(2, None)).expect("append");
    let loaded = load(&path).expect("load");
    assert!(loaded.pending.is_none());
    assert!(
        loaded.contents[2]
            .json()
            .starts_with(r#"{"role":"user","parts":[{"functionResponse":{}},"#)
    );
}

#[test]
fn damaged_newer_and_rewound_records_are_loaded() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    let records = [user("one"), content(sealed(r#"{"role":"model","parts":[]}"#)), user("failed")];
    let journal = write(&path, &records);
    journal.append(&Record::Truncate { keep_contents: 2 }).expect("append");
    journal.append(&user("again")).expect("append");
    drop(journal);
    let mut text = fs::read_to_string(&path).expect("text");
    text.push_str("{\"checkpoint\":{\"x\":1}}\n{\"content\":{\"ti\n\u{0}\n\n");
    fs::write(&path, &text).expect("write");
    let loaded = load(&path).expect("load");
    assert_eq!((loaded.contents.len(), loaded.records.len()), (3, 3));
    assert!(loaded.contents[2].json().contains("again"));
    assert_eq!(loaded.notices.len(), 2, "{:?}", loaded.notices);
    assert!(loaded.notices[0].contains("line 8"));
}

fn prompt(text: &str, turn: Option<u64>) -> Record {
    match user(text) {
        Record::Content(content) => {
            Record::Content(ContentRecord { display: Some(text.to_owned()), turn, ..content })
        }
        other => other,
    }
}

#[test]
fn prompt_numbers_are_stable_and_unique() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    let answer = || content(sealed(r#"{"role":"model","parts":[{"functionCall":{"name":"x"}}]}"#));
    let diff = r#"{"type":"diff","filePath":"/w/x","diff":"","linesAdded":3,"linesRemoved":1,"isNewFile":false}"#;
    let edit = match result(0, r#"[{"functionResponse":{"name":"x"}}]"#) {
        Record::Result(result) => {
            Record::Result(ResultRecord { display: serde_json::from_str(diff).ok(), ..result })
        }
        other => other,
    };
    // Journals from before prompts had numbers, and current ones.
    let records = [
        prompt("one", None),
        answer(),
        edit,
        round(1, None),
        content(sealed(r#"{"role":"model","parts":[]}"#)),
        // A steering message, which is not a prompt.
        user("steered"),
        answer(),
        prompt("two", None),
        prompt("three", Some(7)),
        Record::Truncate { keep_contents: 6 },
    ];
    drop(write(&path, &records));
    let loaded = load(&path).expect("load");
    assert_eq!((loaded.turns, loaded.prompts.len()), (7, 1));
    let first = &loaded.prompts[0];
    assert_eq!((first.turn, first.at, first.text.as_str()), (1, 0, "one"));
    assert_eq!((first.lines_added, first.lines_removed), (3, 1));
}

proptest::proptest! {
    /// Whatever lines a journal loses, the resumed conversation can be sent.
    #[test]
    fn journal_with_missing_records_can_be_resumed(lost in proptest::collection::vec(proptest::bool::ANY, 12)) {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("s1.jsonl");
        let calls = || content(sealed(r#"{"role":"model","parts":[{"functionCall":{"name":"x"}}]}"#));
        let answered = || result(0, r#"[{"functionResponse":{"name":"x","response":{}}}]"#);
        let says = || content(sealed(r#"{"role":"model","parts":[{"text":"done"}]}"#));
        let turn = |text| [prompt(text, None), calls(), answered(), round(1, None), says()];
        drop(write(&path, &[turn("one"), turn("two")].concat()));
        let text = fs::read_to_string(&path).expect("text");
        let lines = text.lines().zip(lost.iter().chain([&false].into_iter().cycle()));
        let kept: Vec<&str> = lines.filter(|(_, lost)| !**lost).map(|(line, _)| line).collect();
        fs::write(&path, kept.join("\n") + "\n").expect("written");
        if let Ok(loaded) = load(&path) {
            let loaded = match parallax_store::is_valid(&loaded.contents) {
                true => loaded,
                false => match parallax_store::repair_session(loaded, &path) {
                    Ok(repaired) => repaired,
                    Err(_) => return Ok(()),
                },
            };
            proptest::prop_assert!(parallax_store::is_valid(&loaded.contents));
            for sealed in &loaded.contents {
                proptest::prop_assert!(!sealed.open().expect("a content").parts.is_empty());
            }
        }
    }
}

#[test]
fn lock_is_held_while_the_journal_is_reopened() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    let is_locked = || {
        fs::File::open(&path).expect("file").try_lock().is_err_and(|it| matches!(it, WouldBlock))
    };
    let first = write(&path, &[user("one")]);
    let handover = JournalLockHandover::begin(&path);
    drop(first);
    assert!(is_locked(), "the closed journal");
    // A second time, as after settings with which the session does not open.
    for _ in 0..2 {
        let (journal, loaded) = Journal::open_append(&path, &Keys::default()).expect("open");
        assert_eq!(loaded.contents.len(), 1);
        assert!(matches!(
            Journal::open_append(&path, &Keys::default()),
            Err(OpenError::InUse { .. })
        ));
        drop(journal);
        assert!(is_locked(), "the journal closed again");
    }
    let (journal, _) = Journal::open_append(&path, &Keys::default()).expect("open");
    journal.append(&user("two")).expect("append");
    drop(handover);
    assert!(is_locked(), "the open journal");
    drop(journal);
    assert!(!is_locked());
    assert_eq!(load(&path).expect("load").contents.len(), 2);

    let handover = JournalLockHandover::begin(&path);
    let (journal, _) = Journal::open_append(&path, &Keys::default()).expect("open");
    drop(journal);
    assert!(is_locked());
    drop(handover);
    assert!(!is_locked(), "no session took it over");
}

#[test]
fn second_writer_is_rejected() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    let journal = write(&path, &[user("one")]);
    assert!(matches!(Journal::open_append(&path, &Keys::default()), Err(OpenError::InUse { .. })));
    assert_eq!(load(&path).expect("reading is free").contents.len(), 1);
    let same = Journal::create(&path, head("s1"));
    assert!(same.append(&user("two")).is_err(), "never a second file of the same id");
    drop(journal);
    let (first, _) = Journal::open_append(&path, &Keys::default()).expect("open");
    assert!(matches!(Journal::open_append(&path, &Keys::default()), Err(OpenError::InUse { .. })));
    drop(first);
    Journal::open_append(&path, &Keys::default()).expect("open again");
}

const CHILD: &str = "PARALLAX_TEST_CHILD";

/// Runs one test of this binary again, in a process prepared by shell commands.
#[cfg(unix)]
fn in_child(setup: &str, test: &str, path: &Path) {
    let program = std::env::current_exe().expect("test binary");
    #[expect(clippy::disallowed_methods, reason = "a test starts itself")]
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{setup}; exec \"$0\" --exact \"$1\" --nocapture")])
        .arg(program)
        .arg(format!("journal::{test}"))
        .env(CHILD, path)
        .output()
        .expect("child");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A limit on the file size has the same effect as a full disk.
#[cfg(unix)]
#[test]
fn full_disk_is_reported_once_and_leaves_complete_lines() {
    if let Some(path) = std::env::var_os(CHILD) {
        let journal = Journal::create(Path::new(&path), head("s1"));
        let mut report = 0;
        for _ in 0..100 {
            if let Err(error) = journal.append(&user(&"x".repeat(300))) {
                assert!(error.disk_full, "{error}");
                report += 1;
            }
        }
        assert_eq!((report, journal.is_off()), (1, true));
        journal.sync().expect("sync is quiet too");
        return;
    }
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    in_child(
        "trap '' XFSZ; ulimit -f 4",
        "full_disk_is_reported_once_and_leaves_complete_lines",
        &path,
    );
    let text = fs::read_to_string(&path).expect("text");
    assert!(text.ends_with("}\n") && text.len() > 1500, "{}", text.len());
    assert_eq!(load(&path).expect("load").notices, [""; 0]);
}

#[cfg(unix)]
#[test]
fn deleted_journal_is_recreated_while_writing() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("project/s1.jsonl");
    let (all, last) = (sample(), user("after"));
    let journal = write(&path, &all);
    assert_eq!(journal.notice(), None);
    fs::remove_dir_all(folder.path().join("project")).expect("deleted");
    journal.append(&last).expect("append");
    journal.sync().expect("sync");
    assert!(journal.notice().is_some_and(|report| report.contains("deleted")));
    assert_eq!(load(&path).expect("load").records.len(), all.len() + 1);
    assert!(matches!(Journal::open_append(&path, &Keys::default()), Err(OpenError::InUse { .. })));
    // A file that another process has locked is not taken away from it.
    fs::remove_file(&path).expect("deleted");
    fs::write(&path, "mine").expect("written");
    let other = fs::File::open(&path).expect("open");
    other.lock().expect("locked");
    assert!(journal.append(&last).is_err() && journal.is_off());
    assert_eq!(fs::read_to_string(&path).expect("text"), "mine");
}

#[test]
fn journal_damaged_by_another_program_is_rewritten() {
    // (What the other program does, whether the bytes of the file are lost.)
    type FileDamage = fn(&Path);
    let deeds: [FileDamage; 4] = [
        |path| fs::write(path, b"").expect("truncated"),
        |path| fs::write(path, b"not a session\n").expect("overwritten"),
        |path| {
            let mut bytes = fs::read(path).expect("read");
            bytes.extend_from_slice(b"{\"name\":1}\n");
            fs::write(path, bytes).expect("appended");
        },
        |path| {
            let new = path.with_extension("new");
            fs::write(&new, b"another file\n").expect("written");
            fs::rename(new, path).expect("replaced");
        },
    ];
    let records = sample();
    for (number, deed) in deeds.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("s1.jsonl");
        let journal = write(&path, &records[..4]);
        deed(&path);
        let left = fs::read(&path).expect("what it left");
        for record in &records[4..] {
            journal.append(record).expect("append");
        }
        let notice = journal.notice().expect("it is reported");
        assert!(notice.contains("another program"), "{number}: {notice}");
        assert_eq!(journal.notice(), None, "once");
        let loaded = load(&path).expect("load");
        assert_eq!(loaded.records.len(), records.len(), "{number}");
        assert_eq!(loaded.notices, [""; 0]);
        let aside = fs::read_dir(folder.path()).expect("folder").flatten();
        let mut aside =
            aside.filter(|entry| entry.path().extension().is_some_and(|e| e == "changed"));
        let aside = aside.next().expect("what the other program made stays");
        assert_eq!(fs::read(aside.path()).expect("read"), left);
    }
}

#[test]
fn same_length_change_is_detected_and_touch_is_ignored() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("s1.jsonl");
    let records = sample();
    let journal = write(&path, &records[..4]);
    let touch = || {
        let file = fs::File::options().append(true).open(&path).expect("file");
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(9))
            .expect("touched");
    };
    touch();
    journal.append(&records[4]).expect("append");
    assert_eq!(journal.notice(), None, "nothing was changed");
    let text = fs::read_to_string(&path).expect("text");
    let spoilt = text.replacen("\"text\"", "\"next\"", 1);
    assert!(spoilt != text && spoilt.len() == text.len());
    fs::write(&path, &spoilt).expect("spoilt");
    touch();
    journal.append(&records[5]).expect("append");
    let notice = journal.notice().expect("it is reported");
    assert!(notice.contains("was changed by another program"), "{notice}");
    assert!(fs::read_to_string(&path).expect("text").starts_with(&text));
}

#[test]
fn truncated_resumed_journal_is_rewritten() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("s1.jsonl");
    drop(write(&path, &sample()[..3]));
    let (journal, loaded) = Journal::open_append(&path, &Keys::default()).expect("open");
    journal.set_initial_contents(loaded.head.clone(), loaded.records.clone().into());
    journal.append(&sample()[3]).expect("append");
    fs::write(&path, b"").expect("truncated");
    journal.append(&sample()[4]).expect("append");
    let again = load(&path).expect("load");
    assert_eq!(again.head.start_time, loaded.head.start_time);
    assert_eq!((again.records.len(), again.notices.len()), (5, 0));
}
