//! Sessions of all projects: searching, exporting, copying, moving, and removing.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use parallax_sdk::{LaunchOptions, SessionConfig};
use parallax_sessions::SessionChoice;
use parallax_sessions::export::ExportFormat;
use parallax_sessions::recorded_items::RecordedItem;
use parallax_sessions::search::{MARKS, SearchHit, SearchRequest};

use crate::support::World;

fn search(launch: &SessionConfig, text: &str) -> Vec<SearchHit> {
    let search =
        SearchRequest { text: text.to_owned(), project_only: false, limit: 50, rebuild: false };
    launch.session_library().search_sessions(&search, &|_| true).expect("searched").hits
}

fn ids(hits: &[SearchHit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.id.as_str()).collect()
}

/// Prepares the configuration of a session in another directory of the same home.
fn configuration_elsewhere(world: &World, folder: &str) -> SessionConfig {
    let directory = world.root.join(folder);
    fs::create_dir_all(&directory).expect("folder");
    SessionConfig::prepare(LaunchOptions { directory, ..world.trusted() }).expect("prepared")
}

const GEMINI: &str = r#"{"sessionId":"9f6f3b2a-0000-4000-8000-000000000001","projectHash":"h","startTime":"2026-11-20T10:00:00.000Z","kind":"main"}
{"id":"c","timestamp":"2026-11-20T10:00:03.000Z","type":"user","content":[{"text":"measure the Überlauf valve"}]}
{"id":"d","timestamp":"2026-11-20T10:00:04.000Z","type":"gemini","content":"It is 日本語 inside."}
"#;

#[tokio::test]
async fn search_index_follows_session_files_of_all_programs() {
    let world = World::new();
    let one = world.send_prompts(SessionChoice::New, &["fix the parser", "then the lexer"]).await;
    world.write("home/.gemini/tmp/other/.project_root", "/home/ada/other");
    world.write("home/.gemini/tmp/other/chats/session-2026-11-20T10-00-9f6f3b2a.jsonl", GEMINI);
    let launch = world.launch();
    assert_eq!(ids(&search(&launch, "parser answ")), [one.as_str()], "both words, in one turn");
    assert_eq!(ids(&search(&launch, "lexer parser")), Vec::<&str>::new());
    let hit = search(&launch, "lexer").remove(0);
    assert_eq!((hit.turn, hit.project), (2, world.project()));
    // Punctuation, accents, and case are ignored; scripts without spaces are found.
    let theirs = "9f6f3b2a-0000-4000-8000-000000000001";
    for words in ["uberlauf", "MEASURE valv", "\"the überlauf\"", "本語", "\"日本\""] {
        let hits = search(&launch, words);
        assert_eq!(ids(&hits), [theirs], "{words}");
        assert_eq!(hits[0].project, Path::new("/home/ada/other"));
    }
    let shown = &search(&launch, "日本")[0].snippet;
    assert!(shown.contains("日") && !shown.contains('\u{200b}'), "{shown:?}");
    assert!(shown.contains(MARKS[0]) && shown.contains(MARKS[1]), "{shown:?}");
    for nothing in ["", "\"", "-- *", "\"the lexer then\"", "parser nowhere"] {
        assert_eq!(ids(&search(&launch, nothing)), Vec::<&str>::new(), "{nothing}");
    }
    world.send_prompts(SessionChoice::Resume(one.clone()), &["and the generator"]).await;
    assert_eq!(ids(&search(&launch, "generator")), [one.as_str()], "what was added is found");
    // A replaced file is noticed even if its length and time are the same.
    let path = launch.session_library().session(&one).expect("found").path;
    let time = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("a time");
    let other = path.with_extension("other");
    let text = fs::read_to_string(&path).expect("journal").replace("generator", "renovator");
    fs::write(&other, text).expect("written");
    let file = fs::File::options().append(true).open(&other).expect("other");
    file.set_modified(time).expect("aged");
    fs::rename(&other, &path).expect("renamed");
    assert_eq!(ids(&search(&launch, "renovator")), [one.as_str()]);
    launch.session_library().delete_session(&one).expect("deleted");
    assert_eq!(ids(&search(&launch, "parser")), Vec::<&str>::new());
}

#[tokio::test]
async fn damaged_index_is_rebuilt_and_shared_by_several_processes() {
    let world = World::new();
    let one = world.send_prompts(SessionChoice::New, &["fix the parser"]).await;
    let launch = world.launch();
    assert_eq!(search(&launch, "parser").len(), 1);
    let index = world.root.join("home/.parallax/index/sessions.sqlite");
    let whole = fs::read(&index).expect("the index");
    for damage in [b"no database at all, but long enough to be looked at".to_vec(), Vec::new()] {
        fs::write(&index, damage).expect("damaged");
        assert_eq!(ids(&search(&launch, "parser")), [one.as_str()]);
    }
    // Damaged in the middle: the header is valid, but the pages are not.
    let mut torn = whole;
    for byte in torn.iter_mut().skip(4096) {
        *byte = 0xa5;
    }
    for name in ["sessions.sqlite-wal", "sessions.sqlite-shm"] {
        let _ = fs::remove_file(index.with_file_name(name));
    }
    fs::write(&index, torn).expect("torn");
    assert_eq!(ids(&search(&launch, "parser")), [one.as_str()]);
    fs::remove_file(&index).expect("removed");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ids(&search(&launch, "parser")), [one.as_str()]));
        }
    });
    // Rebuilt by many threads at once while others only search.
    std::thread::scope(|scope| {
        for number in 0..32 {
            let (launch, one) = (&launch, &one);
            scope.spawn(move || {
                let rebuild = number % 3 != 0;
                let search = SearchRequest {
                    text: "parser".into(),
                    project_only: false,
                    limit: 50,
                    rebuild,
                };
                let hits = launch
                    .session_library()
                    .search_sessions(&search, &|_| true)
                    .expect("searched")
                    .hits;
                assert_eq!(ids(&hits), [one.as_str()]);
            });
        }
    });
}

#[tokio::test]
async fn every_machine_readable_export_can_be_imported() {
    let world = World::new();
    let id = world.send_prompts(SessionChoice::New, &["say <b>it</b>", "again"]).await;
    let launch = world.launch();
    let entry = launch.session_library().any_session(&id[..12]).expect("found");
    let before = launch.session_library().session_items(&entry).expect("items");
    for (form, ending) in [(ExportFormat::Json, "json"), (ExportFormat::Jsonl, "jsonl")] {
        let text = launch.session_library().export_document(&entry, form).expect("exported");
        let file = launch
            .session_library()
            .write_export(Path::new(&format!("x.{ending}")), &text)
            .expect("written");
        assert_eq!(ExportFormat::from_path(&file), Some(form));
        assert!(
            launch.session_library().write_export(&file, &text).is_err(),
            "a file that is there stays"
        );
        let new = configuration_elsewhere(&world, "other")
            .session_library()
            .import_session(&file)
            .expect("imported");
        let copy =
            launch.session_library().any_session(new.id.as_str()).expect("of another project");
        assert_eq!(copy.project, world.root.join("other"));
        assert_eq!(copy.forked_from.as_deref(), file.to_str());
        let after = launch.session_library().session_items(&copy).expect("items");
        // Gemini CLI's format has the times of messages only.
        assert_eq!(after.len(), before.len(), "{form:?}: {after:?}");
        assert_eq!(after.last(), before.last(), "{form:?}");
    }
    // Gemini CLI ignores messages that begin with context, so a prompt must not be in one.
    let messages = |text: &str| {
        let record: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let messages = record["messages"].as_array().expect("messages").iter();
        messages.map(|message| message["content"].to_string()).collect::<Vec<_>>()
    };
    let text =
        launch.session_library().export_document(&entry, ExportFormat::Json).expect("exported");
    let output = messages(&text);
    assert!(
        output[0].contains("<session_context>") && !output[0].contains("say <b>it"),
        "{}",
        output[0]
    );
    assert!(
        output[1].contains("say <b>it") && !output[1].contains("<session_context>"),
        "{}",
        output[1]
    );
    let file =
        launch.session_library().write_export(Path::new("again.json"), &text).expect("written");
    let new = configuration_elsewhere(&world, "other")
        .session_library()
        .import_session(&file)
        .expect("imported");
    let copy = launch.session_library().any_session(new.id.as_str()).expect("found");
    assert_eq!(
        messages(
            &launch.session_library().export_document(&copy, ExportFormat::Json).expect("exported")
        ),
        output
    );
    for form in [ExportFormat::Claude, ExportFormat::Codex] {
        let text = launch.session_library().export_document(&entry, form).expect("exported");
        let file =
            launch.session_library().write_export(Path::new(&format!("{form:?}.jsonl")), &text);
        let new = configuration_elsewhere(&world, "other")
            .session_library()
            .import_session(&file.expect("written"));
        let copy = launch
            .session_library()
            .any_session(new.expect("imported").id.as_str())
            .expect("found");
        let after = launch.session_library().session_items(&copy).expect("items");
        assert_eq!(after.len(), before.len(), "{form:?}: {after:?}");
        assert_eq!(after.last(), before.last(), "{form:?}");
    }
    let page =
        launch.session_library().export_document(&entry, ExportFormat::Html).expect("exported");
    assert!(page.contains("say &lt;b&gt;it&lt;/b&gt;") && !page.contains("<b>it"), "{page}");
}

#[tokio::test]
async fn prompt_numbers_stay_unique_after_rewind() {
    let world = World::new();
    let id = world.send_prompts(SessionChoice::New, &["aaa", "bbb", "ccc"]).await;
    let back = SessionChoice::Rewind { id, keep_contents: 4 };
    let id = world.send_prompts(back, &["ddd", "eee", "fff"]).await;
    let launch = world.launch();
    let shown = |id: &str| {
        let items = launch
            .session_library()
            .session_items(&launch.session_library().session(id).expect("found"))
            .expect("items");
        let prompts = items.into_iter().filter_map(|item| match item {
            RecordedItem::User { text, turn, .. } => Some((turn, text)),
            _ => None,
        });
        prompts.collect::<Vec<_>>()
    };
    let named =
        |texts: &[&str]| (1..).zip(texts.iter().map(|&it| it.to_owned())).collect::<Vec<_>>();
    assert_eq!(shown(&id), named(&["aaa", "bbb", "ddd", "eee", "fff"]));
    assert_eq!(search(&launch, "eee")[0].turn, 4);
    let copy = launch.session_library().fork_session(&id, Some(4)).expect("copied");
    assert_eq!(shown(copy.id.as_str()), named(&["aaa", "bbb", "ddd"]));
    let missing = launch.session_library().fork_session(&id, Some(6)).expect_err("there are five");
    assert_eq!(missing.message, "unknown prompt 6: the last one is 5");
    let copy =
        world.send_prompts(SessionChoice::ForkBefore { from: id, prompt: 3 }, &["ggg"]).await;
    assert_eq!(shown(&copy), named(&["aaa", "bbb", "ggg"]));
}

#[tokio::test]
async fn session_copy_keeps_the_original_and_move_takes_all_files() {
    let world = World::new();
    let id = world.send_prompts(SessionChoice::New, &["one", "two"]).await;
    let other = configuration_elsewhere(&world, "moved/here");
    let copy = other.session_library().fork_session(&id, Some(2)).expect("copied");
    let items = |launch: &SessionConfig, id: &str| {
        let entry = launch.session_library().any_session(id).expect("found");
        launch.session_library().session_items(&entry).expect("items").len()
    };
    assert_eq!((items(&other, copy.id.as_str()), items(&other, &id)), (2, 4));
    assert!(
        other.session_library().fork_session(&id, Some(1)).is_err(),
        "nothing comes before the first"
    );
    assert!(other.session_library().fork_session(&id, Some(9)).is_err());

    let launch = world.launch();
    launch.session_library().save_chat(&id.as_str().into(), "kept", false).expect("saved");
    let (session, _events) = world.open(SessionChoice::Resume(id.clone()));
    let moved =
        other.session_library().move_project(&world.project(), &world.root.join("moved/here"));
    let moved = moved.expect("told");
    assert_eq!((moved.sessions.len(), moved.skipped.len()), (0, 1), "it is in use");
    session.close().await;
    let before =
        fs::read(launch.session_library().session(&id).expect("found").path).expect("journal");
    let moved = other.session_library().move_session(&id, Path::new(".")).expect("moved");
    assert_eq!(launch.session_library().sessions(), []);
    let after = fs::read(&moved.sessions[0].1).expect("journal");
    let rest = |bytes: &[u8]| bytes.splitn(2, |byte| *byte == b'\n').nth(1).map(<[u8]>::to_vec);
    assert_eq!(rest(&after), rest(&before), "all but the head is the same");
    assert_eq!(
        other.session_library().session(&id).expect("here").project,
        world.root.join("moved/here")
    );
    assert!(other.session_library().find_chat("kept").is_ok());
}

#[tokio::test]
async fn old_sessions_are_trashed_by_retention_and_kept_for_a_week() {
    let world = World::new();
    let mut created = Vec::new();
    for prompt in ["one", "two", "three", "four"] {
        created.push(world.send_prompts(SessionChoice::New, &[prompt]).await);
    }
    let days = |days: u64| SystemTime::now() - Duration::from_secs(days * 86_400);
    let age = |id: &str, days_ago: u64| {
        let path = world.launch().session_library().session(id).expect("found").path;
        let file = fs::File::options().append(true).open(path).expect("journal");
        file.set_modified(days(days_ago)).expect("aged");
    };
    for (id, days_ago) in created.iter().zip([40, 5, 3, 0]) {
        age(id, days_ago);
    }
    let folder = world.launch().session_library().session(&created[0]).expect("found").path;
    let folder = folder.parent().expect("folder").to_owned();
    let stray = folder.join("stray.jsonl");
    fs::write(&stray, "nothing\n").expect("stray");
    fs::File::options().append(true).open(&stray).expect("s").set_modified(days(2)).expect("aged");
    let set = |text: &str| world.write("home/.gemini/settings.json", text);
    let reason = |dry: bool| {
        let collected = world.launch().session_library().collect_sessions(dry).expect("collected");
        collected.sessions.into_iter().map(|one| (one.id, one.reason)).collect::<Vec<_>>()
    };
    let of = |id: &str, reason: &'static str| (id.to_owned(), reason);
    // A session killed before its first prompt leaves an empty file.
    for (name, seconds) in [("killed", 120), ("beginning", 0)] {
        let path = folder.join(name).with_extension("jsonl");
        fs::write(&path, "").expect("written");
        let file = fs::File::options().append(true).open(path).expect("empty");
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("aged");
    }
    let expected = vec![of(&created[0], "old"), of("stray", "empty"), of("killed", "empty")];
    assert_eq!(reason(true), expected);
    fs::remove_file(folder.join("killed.jsonl")).expect("removed");
    assert_eq!(world.launch().session_library().sessions().len(), 4, "nothing was done");
    set(r#"{"general": {"sessionRetention": {"enabled": false}}}"#);
    assert_eq!(reason(false), []);
    set(r#"{"general": {"sessionRetention": {"maxAge": "soon"}}}"#);
    assert!(
        world.launch().session_library().collect_sessions(false).is_err(),
        "an invalid age is an error"
    );
    assert_eq!(world.launch().session_library().sessions().len(), 4, "and deletes nothing");
    set(r#"{"general": {"sessionRetention": {"maxAge": "1h"}}}"#);
    assert!(
        world.launch().session_library().collect_sessions(false).is_err(),
        "less than the least"
    );
    for odd in [
        r#""maxCount": 1.5"#,
        r#""maxCount": "1e3""#,
        r#""maxAge": "+30d""#,
        r#""minRetention": "0h""#,
    ] {
        set(&format!(r#"{{"general": {{"sessionRetention": {{{odd}}}}}}}"#));
        assert!(world.launch().session_library().collect_sessions(false).is_err(), "{odd}");
    }
    set(r#"{"general": {"sessionRetention": {"maxCount": 2, "minRetention": "4d"}}}"#);
    let expected = vec![of(&created[0], "old"), of(&created[1], "many")];
    // A project's settings apply to its own sessions only.
    let there = configuration_elsewhere(&world, "there");
    let rule = r#"{"general": {"sessionRetention": {"maxAge": "1d", "minRetention": "1h"}}}"#;
    world.write("there/.gemini/settings.json", rule);
    let there = SessionConfig::prepare(there.options().clone()).expect("prepared");
    let would = there.session_library().collect_sessions(true).expect("collected");
    let would: Vec<_> = would.sessions.into_iter().map(|one| (one.id, one.reason)).collect();
    assert_eq!(would, expected, "the user's rule");
    assert_eq!(reason(false), expected);
    assert!(stray.exists(), "it is younger than the least");
    let trash = world.root.join("home/.parallax/trash");
    let kept = |trash: &Path| {
        let projects = fs::read_dir(trash).into_iter().flatten().flatten();
        projects.flat_map(|one| fs::read_dir(one.path()).expect("t").flatten()).count()
    };
    assert_eq!(kept(&trash), 2);

    // In the background, once a day.
    set("{}");
    let cleaned = folder.join(".cleaned");
    fs::remove_file(&cleaned).expect("stamp");
    age(&created[2], 31);
    world.send_prompts(SessionChoice::New, &["five"]).await;
    let gone =
        || world.launch().session_library().sessions().iter().all(|entry| entry.id != created[2]);
    for _ in 0..200 {
        if gone() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone() && cleaned.exists());
}
