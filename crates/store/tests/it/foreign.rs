use std::fs;
use std::path::{Path, PathBuf};

use parallax_protocol::content::{Role, SYNTHETIC_SIGNATURE};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::session_selection::SelectionRecord;
use parallax_protocol::store::{Record, Store as _};
use parallax_store::{
    DeleteError, FindError, Journal, Keys, LoadError, LoadedSession, SessionDirs, SessionEntry,
    SessionOrigin, delete, find, find_listed, list,
};
use proptest::prelude::*;

use crate::{content, head, load, sealed, user};

fn import(path: &Path) -> Result<LoadedSession, LoadError> {
    parallax_store::import(path, &Keys::default())
}

/// A record as Gemini CLI leaves it after resuming: the result of the call occurs three times, one
/// message was written twice, and one was rewound.
const GEMINI: &str = r#"{"sessionId":"9f6f3b2a-0000-4000-8000-000000000001","projectHash":"h","startTime":"2026-11-20T10:00:00.000Z","lastUpdated":"2026-11-20T10:00:00.000Z","kind":"main"}
{"id":"a","timestamp":"2026-11-20T10:00:01.000Z","type":"user","content":[{"text":"<session_context>\nos\n</session_context>"}]}
{"id":"b","timestamp":"2026-11-20T10:00:02.000Z","type":"user","content":"/help"}
{"id":"c","timestamp":"2026-11-20T10:00:03.000Z","type":"user","content":[{"text":"list the files"}]}
{"id":"d","timestamp":"2026-11-20T10:00:04.000Z","type":"gemini","content":"old","model":"m"}
{"id":"d","timestamp":"2026-11-20T10:00:04.000Z","type":"gemini","content":"I look.","model":"m","thoughts":[{"subject":"Plan","description":"look"}],"tokens":{"input":7,"output":2,"total":9},"toolCalls":[{"id":"t1","name":"ls","args":{"p":"."},"result":[{"functionResponse":{"id":"t1","name":"ls","response":{"output":"a.txt"}}}],"status":"success","resultDisplay":"1 file"},{"id":"t2","name":"ls","args":{}}]}
{"id":"e","timestamp":"2026-11-20T10:00:05.000Z","type":"user","content":[{"functionResponse":{"id":"t1","name":"ls","response":{"output":"a.txt"}}},{"functionResponse":{"id":"t1","name":"ls","response":{"output":"a.txt"}}},{"text":"go on"}]}
broken {
{"id":"f","timestamp":"2026-11-20T10:00:06.000Z","type":"gemini","content":"One file."}
{"id":"g","timestamp":"2026-11-20T10:00:07.000Z","type":"user","content":"taken back"}
{"$rewindTo":"g"}
{"$set":{"summary":"Listing files"}}
"#;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("parent")).expect("folder");
    fs::write(path, text).expect("write");
}

/// Asserts the rules of the wire format that every session must obey.
fn assert_wellformed(session: &LoadedSession) {
    let contents: Vec<_> = session.contents.iter().map(|c| c.open().expect("content")).collect();
    for (index, content) in contents.iter().enumerate() {
        let role = if index % 2 == 0 { Role::User } else { Role::Model };
        assert_eq!(content.role, role, "content {index}");
        assert!(!content.parts.is_empty());
        let calls = content.calls().count();
        if calls > 0 {
            let next = contents.get(index + 1).expect("an answer");
            let keys = next.parts.iter().filter(|p| p.object().contains_key("functionResponse"));
            assert_eq!(keys.count(), calls, "content {index}");
        }
    }
}

#[test]
fn pipe_is_rejected_without_blocking() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("pipe");
    let error = import(&path).expect_err("no file").to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn saved_conversation_can_be_rewound_to_prompts() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("checkpoint-x.json");
    let history = r#"{"history": [
        {"role": "user", "parts": [{"text": "<session_context>\nos\n</session_context>"}]},
        {"role": "user", "parts": [{"text": "fix @a"}, {"text": "\n--- Content from referenced files ---"},
            {"text": "the file"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {}}}]},
        {"role": "model", "parts": [{"text": "done"}]},
        {"role": "user", "parts": [{"text": "thanks"}]},
        {"role": "model", "parts": [{"text": "welcome"}]}
    ], "authType": "gemini-api-key"}"#;
    fs::write(&path, history).expect("written");
    let loaded = import(&path).expect("imported");
    let prompts: Vec<_> = loaded
        .prompts
        .iter()
        .map(|prompt| (prompt.turn, prompt.at, prompt.text.as_str()))
        .collect();
    assert_eq!(prompts, [(1, 0, "fix @a"), (2, 4, "thanks")]);
}

#[test]
fn gemini_cli_record_becomes_a_valid_history() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("session-2026-11-20T10-00-9f6f3b2a.jsonl");
    write(&path, GEMINI);
    let session = import(&path).expect("import");
    assert_wellformed(&session);
    let texts: Vec<&str> = session.contents.iter().map(|content| content.json()).collect();
    assert_eq!(texts.len(), 4, "{texts:#?}");
    assert!(texts[0].contains("session_context") && texts[0].contains("list the files"));
    assert!(!texts[0].contains("/help"));
    assert_eq!(texts[1].matches(SYNTHETIC_SIGNATURE).count(), 1, "the first call only");
    assert!(texts[1].contains("I look.") && !texts[1].contains("Plan"), "thoughts stay here");
    assert_eq!(texts[2].matches("a.txt").count(), 1, "no response twice: {}", texts[2]);
    assert!(texts[2].contains(r#""id":"t2""#) && texts[2].contains("was lost"));
    assert!(texts[2].ends_with(r#"{"text":"go on"}]}"#));
    assert_eq!(texts[3], r#"{"role":"model","parts":[{"text":"One file."}]}"#);
    let Record::Content(prompt) = &session.records[0] else { panic!("a content") };
    assert_eq!(prompt.display.as_deref(), Some("list the files"));
    let Record::Name(name) = &session.records[1] else { panic!("a name") };
    assert_eq!(name.text, "Listing files");
    let Record::Content(answer) = &session.records[2] else { panic!("a content") };
    assert_eq!(answer.thoughts, ["**Plan** look"]);
    assert_eq!(answer.usage.map(|usage| usage.prompt), Some(7));
    // It continues as a Parallax journal.
    let journal = Journal::create(folder.path().join("ours.jsonl"), head("ours"));
    journal.append_all(&session).expect("append");
    assert_eq!(import(journal.path()).expect("import").contents, session.contents);
}

#[test]
fn documents_of_other_tools_are_imported() {
    let folder = tempfile::tempdir().expect("tempdir");
    let contents = r#"[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"a","thoughtSignature":"c2ln","n":1.00}]}]"#;
    for (name, text) in [
        ("array", contents.to_owned()),
        ("messages", format!(r#"{{"blocks":[],"messages":{contents}}}"#)),
        ("contents", format!("{{\n\"contents\":{contents}}}")),
        ("checkpoint", format!(r#"{{"history":{contents},"authType":"x"}}"#)),
        (
            "old-gemini",
            r#"{"sessionId":"s","projectHash":"h","startTime":"2026-01-01T00:00:00Z","messages":[{"id":"1","type":"user","content":"q"},{"id":"2","type":"gemini","content":[{"text":"a","thoughtSignature":"c2ln","n":1.00}]}]}"#.to_owned(),
        ),
    ] {
        let path = folder.path().join(name);
        write(&path, &text);
        let session = import(&path).expect(name);
        assert_wellformed(&session);
        assert_eq!(session.contents.len(), 2, "{name}");
        assert!(session.contents[1].json().contains(r#""thoughtSignature":"c2ln","n":1.00"#));
    }
    for (name, text) in [("empty", ""), ("none", "[]"), ("other", "{\"a\":1}"), ("text", "hello")] {
        let path = folder.path().join(name);
        write(&path, text);
        assert!(import(&path).is_err(), "{name}");
    }
    assert!(import(folder.path()).is_err(), "a folder");
}

struct Home {
    _folder: tempfile::TempDir,
    dirs: SessionDirs,
    project: PathBuf,
}

fn home() -> Home {
    let folder = tempfile::tempdir().expect("tempdir");
    let dirs = SessionDirs::new(folder.path().join("p"), folder.path().join("g"));
    Home { dirs, project: folder.path().join("work/My App"), _folder: folder }
}

impl Home {
    fn write_session(&self, id: &str, start: &str, prompt: &str) -> PathBuf {
        let mut head = head(id);
        head.start_time = start.to_owned();
        head.project = self.project.display().to_string();
        let journal = Journal::create(self.dirs.journal(&self.project, &id.into()), head);
        journal
            .append(&content(sealed(r#"{"role":"user","parts":[{"text":"<session_context>"}]}"#)))
            .expect("append");
        journal.append(&user(prompt)).expect("append");
        journal.path().to_owned()
    }
}

#[test]
fn sessions_of_a_project_are_listed_and_selectable() {
    let home = home();
    let (dirs, project) = (&home.dirs, home.project.as_path());
    assert!(matches!(find(dirs, project, "latest"), Err(FindError::NoSessions { .. })));
    let third = home.write_session("abc-3", "2026-11-22T10:00:00.000Z", "third\n\u{1b}[1mprömpt");
    home.write_session("abd-1", "2026-11-19T10:00:00.000Z", &"x".repeat(300));
    write(
        &dirs.gemini.join("projects.json"),
        &format!(r#"{{"projects":{{"{}":"my-app"}}}}"#, project.display()),
    );
    let chats = dirs.gemini.join("tmp/my-app/chats");
    write(&chats.join("session-2026-11-20T10-00-9f6f3b2a.jsonl"), GEMINI);
    write(
        &chats.join("session-x.jsonl"),
        "{\"sessionId\":\"e\",\"projectHash\":\"h\"}\n{\"$set\":{\"messages\":[]}}\n",
    );
    write(&chats.join("session-y.json"), "not json");
    // Another project with the same name, and one missing from the registry.
    write(&dirs.gemini.join("tmp/my-app-1/.project_root"), "/elsewhere/My App");
    write(&dirs.gemini.join("tmp/my-app-1/chats/session-z.jsonl"), GEMINI);
    write(&dirs.gemini.join("tmp/my-app-2/.project_root"), &project.display().to_string());
    write(
        &dirs.gemini.join("tmp/my-app-2/chats/session-w.json"),
        r#"{"sessionId":"old","projectHash":"h","startTime":"2026-11-01T00:00:00Z","messages":[{"type":"user","content":"/quit"},{"type":"user","content":[{"text":"ancient"}]}]}"#,
    );
    write(
        &dirs.parallax.join("0badcafe.json"),
        r#"{"messages":[{"role":"user","parts":[{"text":"state"}]}]}"#,
    );
    write(&dirs.parallax.join("settings.json"), "{}");
    // Unreadable Parallax journals have no effect.
    write(&dirs.sessions(project).join("bad.jsonl"), "\u{0}\u{0}\n");
    let entries = list(dirs, project);
    let seen: Vec<_> = entries.iter().map(|e| (e.index, e.title.as_str(), e.origin)).collect();
    let long = format!("{}...", "x".repeat(97));
    let expected = [
        (1, "ancient", SessionOrigin::GeminiCli),
        (2, long.as_str(), SessionOrigin::Parallax),
        (3, "Listing files", SessionOrigin::GeminiCli),
        (4, "third [1mprömpt", SessionOrigin::Parallax),
    ];
    // The start time of a session without its own time is that of its file.
    let seen: Vec<_> =
        seen.into_iter().filter(|(_, _, o)| *o != SessionOrigin::ParallaxCli).collect();
    assert_eq!(entries.len(), 5);
    for ((_, title, origin), (_, want, from)) in seen.iter().zip(expected) {
        assert_eq!((*title, *origin), (want, from));
    }
    // Copied today, but last used then.
    let theirs = entries.iter().find(|entry| entry.id.starts_with("9f6f")).expect("theirs");
    assert_eq!(theirs.last_used.to_string(), "2026-11-20T10:00:00Z");
    let by = |selector: &str| find(dirs, project, selector).map(|entry| entry.id);
    assert_eq!(by("1"), Ok("old".to_owned()));
    assert_eq!(by("abd-1"), Ok("abd-1".to_owned()));
    assert_eq!(by("9f6f"), Ok("9f6f3b2a-0000-4000-8000-000000000001".to_owned()));
    assert_eq!(by("ab"), Err(FindError::Ambiguous { selector: "ab".into(), count: 2 }));
    for invalid in ["9", "", "zzz", "../x"] {
        let error = by(invalid).expect_err(invalid).to_string();
        assert!(error.contains("sessions/my-app-"), "{error}");
    }
    // A full ID is found without reading other sessions, which only the number in the list
    // requires.
    let (alone, listed) = (find(dirs, project, "abd-1"), find_listed(dirs, project, "abd-1"));
    let (alone, listed) = (alone.expect("found"), listed.expect("found"));
    assert!(alone.index == 0 && listed.index > 1, "{alone:?}, {listed:?}");
    assert_eq!(SessionEntry { index: 0, ..listed }, alone);
    // Last used, not last started.
    let old = dirs.journal(project, &"abd-1".into());
    let file = fs::File::options().append(true).open(&old).expect("open");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    file.set_modified(later).expect("time");
    assert_eq!(by("latest"), Ok("abd-1".to_owned()));
    // Deleting: only Parallax sessions that no process is writing, with everything that belongs to
    // them.
    let ours = find(dirs, project, "abc").expect("entry");
    let artifacts = dirs.artifacts(project, &"abc-3".into());
    artifacts.create().expect("artifacts");
    let running = Journal::open_append(&third, &Keys::default()).expect("open");
    assert!(matches!(delete(dirs, project, &ours, &[]), Err(DeleteError::InUse { .. })));
    drop(running);
    for bad in ["", "sessions", "../x"].map(|path| dirs.parallax.join(path)) {
        let refused = delete(dirs, project, &ours, &[bad]);
        assert!(matches!(refused, Err(DeleteError::Outside { .. })));
    }
    delete(dirs, project, &ours, &[dirs.parallax.join("none/there")]).expect("delete");
    assert!(!third.exists() && !artifacts.root().exists());
    let foreign = find(dirs, project, "9f6f").expect("entry");
    let refused = delete(dirs, project, &foreign, &[]).expect_err("foreign");
    assert!(refused.to_string().contains("session-2026-11-20T10-00") && foreign.path.exists());
}

#[test]
fn continued_parallax_cli_session_is_listed_once() {
    let home = home();
    let old = r#"{"messages":[{"role":"user","parts":[{"text":"state"}]}]}"#;
    write(&home.dirs.parallax.join("0badcafe.json"), old);
    home.write_session("0badcafe", "2026-11-19T10:00:00.000Z", "state");
    let entries = list(&home.dirs, &home.project);
    let seen: Vec<_> = entries.iter().map(|entry| (entry.id.as_str(), entry.origin)).collect();
    assert_eq!(seen, [("0badcafe", SessionOrigin::Parallax)]);
}

#[test]
fn diverged_gemini_cli_session_has_its_own_entry() {
    let home = home();
    let id = "9f6f3b2a-0000-4000-8000-000000000001";
    let folder = home.dirs.gemini.join("tmp/app");
    write(&folder.join(".project_root"), &home.project.display().to_string());
    let record = folder.join("chats/session-2026-11-20T10-00-9f6f3b2a.jsonl");
    write(&record, GEMINI);
    home.write_session(id, "2026-11-20T10:05:00.000Z", "list the files");
    let listed = || {
        let report = |e: SessionEntry| {
            (e.short_id(), e.origin, e.foreign_continuation, e.forked_from.is_some())
        };
        let entries = list(&home.dirs, &home.project);
        entries.into_iter().map(report).collect::<Vec<_>>()
    };
    let ours = |elsewhere: Option<&str>| {
        ("9f6f3b2a".to_owned(), SessionOrigin::Parallax, elsewhere.map(str::to_owned), false)
    };
    assert_eq!(listed(), [ours(None)], "our journal holds all of it");
    write(
        &record,
        &format!("{GEMINI}{{\"$set\":{{\"lastUpdated\":\"2026-11-20T11:00:00.000Z\"}}}}\n"),
    );
    let theirs = format!("gemini-{id}");
    let entry = ("gemini-9f6f3b2a".to_owned(), SessionOrigin::GeminiCli, None, false);
    assert_eq!(listed(), [entry, ours(Some(&theirs))]);
    let by = |selector: &str| find(&home.dirs, &home.project, selector).map(|e| (e.id, e.origin));
    assert_eq!(by(id), Ok((id.to_owned(), SessionOrigin::Parallax)));
    let found = find(&home.dirs, &home.project, id).expect("found");
    assert_eq!(found.foreign_continuation.as_deref(), Some(theirs.as_str()));
    assert_eq!(by("9f6f"), Ok((id.to_owned(), SessionOrigin::Parallax)));
    assert_eq!(by("gemini-9f6f"), Ok((theirs, SessionOrigin::GeminiCli)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens to the lines of a record or journal, nothing panics, and an imported
    /// session can be sent.
    #[test]
    fn mutated_files_never_panic(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..6),
        shuffle in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("x.jsonl");
        let mut bytes = GEMINI.as_bytes().to_vec();
        for (at, other, byte) in cuts {
            let (at, other) = (at.index(bytes.len()), other.index(bytes.len()));
            match byte % 3 {
                0 => bytes[at] = byte,
                1 => drop(bytes.splice(at..at, GEMINI.as_bytes()[..other.min(GEMINI.len())].iter().copied())),
                _ => drop(bytes.drain(at..bytes.len().min(at + 1 + usize::from(byte)))),
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        if shuffle {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.reverse();
            bytes = lines.join("\n").into_bytes();
        }
        fs::write(&path, &bytes).expect("write");
        if let Ok(session) = import(&path) {
            assert_wellformed(&session);
        }
        let _ = load(&path);
    }
}

/// Generates valid and invalid parts.
fn any_part() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
    use proptest::prelude::*;
    use serde_json::json;
    prop_oneof![
        Just(json!({"text": "words"})),
        Just(json!({"text": ""})),
        Just(json!({"text": "thinking", "thought": true})),
        Just(json!({"functionCall": {"name": "a", "args": {}}})),
        Just(json!({"functionCall": {"name": "b", "id": "1", "args": 5}})),
        Just(json!({"functionCall": {}})),
        Just(json!({"functionResponse": {"name": "a", "response": {"output": "x"}}})),
        Just(json!({"functionResponse": {"name": "b", "id": "1", "response": 5}})),
        Just(json!({"functionResponse": {}})),
        Just(json!({"inlineData": {"mimeType": "image/png", "data": "AA"}})),
        Just(json!({"unheard": [1, 2]})),
        Just(json!("no part")),
        Just(json!(null)),
    ]
}

proptest::proptest! {
    #[test]
    fn imported_sessions_are_valid_requests(
        contents in proptest::collection::vec(
            (0usize..4, proptest::collection::vec(any_part(), 0..4)),
            0..8,
        ),
    ) {
        let contents: Vec<_> = contents
            .into_iter()
            .map(|(role, parts)| {
                let role = ["user", "model", "system", "function"][role];
                serde_json::json!({"role": role, "parts": parts})
            })
            .collect();
        let directory = tempfile::tempdir().expect("tempdir");
        let file = directory.path().join("c.json");
        std::fs::write(&file, serde_json::to_vec(&contents).expect("json")).expect("written");
        if let Ok(session) = import(&file) {
            proptest::prop_assert!(
                parallax_store::is_valid(&session.contents),
                "{:?}",
                session.contents.iter().map(|content| content.json()).collect::<Vec<_>>()
            );
            let mut opened = session.contents.iter().map(|content| content.open());
            let none_is_empty = opened.all(|content| content.is_ok_and(|it| !it.parts.is_empty()));
            proptest::prop_assert!(none_is_empty);
        }
    }
}

#[test]
fn consecutive_contents_of_one_role_import_in_linear_time() {
    let directory = tempfile::tempdir().expect("tempdir");
    let file = directory.path().join("c.json");
    let imported = |roles: [&str; 2]| {
        let content =
            |at: usize| format!(r#"{{"role":"{}","parts":[{{"text":"a"}}]}}"#, roles[at % 2]);
        let contents: Vec<String> = (0..20_000).map(content).collect();
        write(&file, &format!("[{}]", contents.join(",")));
        let started_at = std::time::Instant::now();
        let session = import(&file).expect("import");
        (started_at.elapsed(), session.contents.len())
    };
    let (alternating, count) = imported(["user", "model"]);
    assert_eq!(count, 20_000);
    let (in_a_row, count) = imported(["user", "user"]);
    assert_eq!(count, 1);
    assert!(in_a_row < alternating * 5, "{in_a_row:?} instead of {alternating:?}");
}

#[test]
fn calls_without_a_result_are_counted() {
    let directory = tempfile::tempdir().expect("tempdir");
    let file = directory.path().join("c.json");
    for (calls, report) in [(1, "1 call without a result"), (2, "2 calls without a result")] {
        let call = r#"{"functionCall":{"name":"look"}}"#;
        let calls = vec![call; calls].join(",");
        let prompt = r#"{"role":"user","parts":[{"text":"go"}]}"#;
        write(&file, &format!(r#"[{prompt},{{"role":"model","parts":[{calls}]}}]"#));
        assert_eq!(import(&file).expect("import").notices, [report]);
    }
}

/// Two parallel calls with sibling results, a rewound branch, and lines of a subagent and of the
/// program itself.
const CLAUDE: &str = r#"{"type":"summary","summary":"Fixing the parser","leafUuid":"u9"}
{"type":"file-history-snapshot","messageId":"u1","snapshot":{}}
{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/work","sessionId":"c0ffee00-0000-4000-8000-000000000001","version":"2.0.1","gitBranch":"","type":"user","message":{"role":"user","content":"fix the parser"},"uuid":"u1","timestamp":"2026-11-20T10:00:01.000Z"}
{"parentUuid":"u1","isSidechain":false,"type":"assistant","sessionId":"s","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"look first","signature":"x"}]},"uuid":"u2","timestamp":"2026-11-20T10:00:02.000Z"}
{"parentUuid":"u2","isSidechain":false,"type":"assistant","sessionId":"s","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"a"}}]},"uuid":"u3","timestamp":"2026-11-20T10:00:02.000Z"}
{"parentUuid":"u3","isSidechain":false,"type":"assistant","sessionId":"s","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"toolu_2","name":"Read","input":{"file_path":"b"}}]},"uuid":"u4","timestamp":"2026-11-20T10:00:02.000Z"}
{"parentUuid":"u3","isSidechain":false,"type":"user","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"text of a"}]},"uuid":"u5","timestamp":"2026-11-20T10:00:03.000Z"}
{"parentUuid":"u4","isSidechain":false,"type":"user","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"no b"}]}]},"uuid":"u6","timestamp":"2026-11-20T10:00:03.000Z"}
{"parentUuid":"u6","isSidechain":true,"type":"user","sessionId":"s","message":{"role":"user","content":"words of a subagent"},"uuid":"x1","timestamp":"t"}
{"parentUuid":"u6","isSidechain":false,"type":"user","sessionId":"s","message":{"role":"user","content":"taken back"},"uuid":"x2","timestamp":"t"}
{"parentUuid":"u6","isSidechain":false,"type":"assistant","sessionId":"s","message":{"id":"m2","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Fixed."}]},"uuid":"u7","timestamp":"2026-11-20T10:00:04.000Z"}
{"parentUuid":"u7","isSidechain":false,"isMeta":true,"type":"user","sessionId":"s","message":{"role":"user","content":"Caveat: by the program"},"uuid":"u8","timestamp":"t"}
{"parentUuid":"u8","isSidechain":false,"type":"user","sessionId":"s","message":{"role":"user","content":"<command-name>/cost</command-name>"},"uuid":"u8b","timestamp":"t"}
{"parentUuid":"u8b","isSidechain":false,"type":"user","sessionId":"s","message":{"role":"user","content":[{"type":"text","text":"thanks"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},"uuid":"u9","timestamp":"2026-11-20T10:00:05.000Z"}
"#;

#[test]
fn claude_code_transcript_is_imported() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("c.jsonl");
    write(&path, CLAUDE);
    let session = import(&path).expect("import");
    assert_wellformed(&session);
    assert_eq!(session.head.session_id.as_str(), "c0ffee00-0000-4000-8000-000000000001");
    let all: Vec<&str> = session.contents.iter().map(|content| content.json()).collect();
    assert_eq!(all.len(), 5, "{all:#?}");
    assert!(all[1].contains("toolu_1") && all[1].contains("toolu_2"));
    assert!(all[2].contains("text of a") && all[2].contains(r#""error":"no b""#));
    assert!(all[4].contains("thanks") && all[4].contains("image/png"));
    let whole = all.join("");
    for absent in ["words of a subagent", "taken back", "Caveat", "command-name", "look first"] {
        assert!(!whole.contains(absent), "{absent}");
    }
    // The same without message IDs, and with the result of the first call before the second call.
    let mut lines: Vec<&str> = CLAUDE.lines().collect();
    let first = lines.iter().position(|line| line.contains("\"uuid\":\"u5\"")).expect("a result");
    lines.swap(first - 1, first);
    let text = format!("{}\n", lines.join("\n"));
    write(&path, &text.replace("\"id\":\"m1\",", "").replace("\"id\":\"m2\",", ""));
    let without = import(&path).expect("import");
    assert_wellformed(&without);
    assert_eq!(without.contents.len(), 5);
    assert!(without.contents[1].json().contains("toolu_1"));
    assert!(without.contents[1].json().contains("toolu_2"));
    let thoughts = session.records.iter().find_map(|record| match record {
        Record::Content(content) if !content.thoughts.is_empty() => Some(&content.thoughts),
        _ => None,
    });
    assert_eq!(thoughts.map(Vec::as_slice), Some(&["look first".to_owned()][..]));
    assert!(
        session
            .records
            .iter()
            .any(|record| matches!(record, Record::Name(name) if name.text == "Fixing the parser"))
    );
}

const CODEX: &str = r##"{"timestamp":"2026-11-20T10:00:00.000Z","type":"session_meta","payload":{"id":"019a2d7a-0000-7000-8000-000000000001","timestamp":"2026-11-20T10:00:00.000Z","cwd":"/work","originator":"codex_cli_rs","cli_version":"0.60.0","instructions":null}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /work"},{"type":"input_text","text":"<environment_context>\ncwd\n</environment_context>"}]}}
{"timestamp":"t","type":"turn_context","payload":{"cwd":"/work","model":"gpt-x"}}
{"timestamp":"2026-11-20T10:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]}}
{"timestamp":"t","type":"event_msg","payload":{"type":"user_message","message":"fix it"}}
{"timestamp":"t","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"look first"}],"encrypted_content":"x"}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"c1"}}
{"timestamp":"t","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2"}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"a.txt\\n\",\"metadata\":{\"exit_code\":0}}"}}
{"timestamp":"t","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":"Done"}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"not json","call_id":"c3"}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"forget this"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"forgotten"}]}}
{"timestamp":"t","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}}
"##;

#[test]
fn codex_rollout_is_imported() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("rollout-1.jsonl");
    write(&path, CODEX);
    let session = import(&path).expect("import");
    assert_wellformed(&session);
    assert_eq!(session.head.session_id.as_str(), "019a2d7a-0000-7000-8000-000000000001");
    let all: Vec<&str> = session.contents.iter().map(|content| content.json()).collect();
    assert_eq!(all.len(), 5, "{all:#?}");
    assert!(all[0].contains("fix it") && !all[0].contains("AGENTS.md"));
    assert!(all[1].contains(r#"["ls"]"#) && all[1].contains("*** Begin"));
    assert!(all[2].contains(r#""output":"a.txt\n""#) && all[2].contains("Done"), "{}", all[2]);
    // The last call has no result, so one is added.
    assert!(all[3].contains("not json") && all[4].contains("lost"));
    assert!(all[4].contains("go on") && all[4].contains("image/png"));
    let whole = all.join("");
    assert!(!whole.contains("forg") && !whole.contains("rules"), "{whole}");
    // Parallel calls stay together, wherever their results are.
    let line = |kind: &str, payload: &str| {
        format!("{{\"timestamp\":\"t\",\"type\":\"{kind}\",\"payload\":{payload}}}\n")
    };
    let mut rollout = CODEX.lines().take(5).map(|line| format!("{line}\n")).collect::<String>();
    for round in [["a", "b"], ["c", "d"]] {
        rollout += &line("event_msg", r#"{"type":"token_count","info":null}"#);
        for id in round {
            let call = format!(
                r#"{{"type":"function_call","name":"shell","arguments":"{{}}","call_id":"{id}"}}"#
            );
            let output =
                format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"{id}"}}"#);
            rollout += &line("response_item", &call);
            rollout += &line("response_item", &output);
        }
    }
    write(&path, &rollout);
    let session = import(&path).expect("import");
    assert_wellformed(&session);
    let calls =
        session.contents.iter().map(|content| content.json().matches("functionCall\"").count());
    assert_eq!(calls.collect::<Vec<_>>(), [0, 2, 0, 2, 0]);
    // The older format: only the items.
    let old = r#"{"id":"old","timestamp":"t","instructions":null}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}
"#;
    write(&path, old);
    assert_eq!(import(&path).expect("import").contents.len(), 2);
}

#[test]
fn journal_without_contents_is_not_imported() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    let journal = Journal::create(&path, head("s1"));
    journal.append(&user("hello")).expect("append");
    drop(journal);
    let text = fs::read_to_string(&path).expect("text");
    let end = text.find('\n').expect("a head") + 20;
    write(&path, &text[..end]);
    let error = import(&path).expect_err("empty").to_string();
    assert!(error.contains("it contains no messages"), "{error}");
}

#[test]
fn mode_of_an_imported_journal_is_omitted() {
    let folder = tempfile::tempdir().expect("tempdir");
    let path = folder.path().join("s1.jsonl");
    let journal = Journal::create(&path, head("s1"));
    journal.append(&user("hello")).expect("append");
    let selection = SelectionRecord {
        time: "2026-01-01T00:00:00Z".to_owned(),
        mode: Some(ApprovalMode::Yolo),
        model: "auto".to_owned(),
    };
    journal.append(&Record::Selection(selection)).expect("append");
    drop(journal);
    let is_selection = |record: &Record| matches!(record, Record::Selection(_));
    let resumed = load(&path).expect("load");
    assert!(resumed.records.iter().any(is_selection));
    let imported = import(&path).expect("import");
    assert!(!imported.records.iter().any(is_selection));
}
