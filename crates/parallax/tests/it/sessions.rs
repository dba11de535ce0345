//! Session journals on disk: concurrent processes, torn lines, and permissions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Conversation, World, raw_contents};

/// Returns all files and directories below a directory.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn journals(world: &World) -> Vec<PathBuf> {
    let mut files = tree(&world.home.parallax().join("sessions"));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files
}

#[test]
fn processes_in_one_project_do_not_interfere() {
    let world = World::new(
        r#"[{"match":{"promptContains":"first"},"chunks":[{"text":"first "},{"gate":"one"},{"text":"answer"},{"finish":"STOP"}]},
            {"match":{"promptContains":"second"},"chunks":[{"text":"second "},{"gate":"two"},{"text":"answer"},{"finish":"STOP"}]}]"#,
    );
    let first = world.start(&["-p", "first"]);
    let second = world.start(&["-p", "second"]);
    world.at_gate("one");
    world.at_gate("two");
    world.server.open_gate("two");
    let second = second.finish(Duration::from_secs(10)).expect("second");
    world.server.open_gate("one");
    let first = first.finish(Duration::from_secs(10)).expect("first");
    assert_eq!(
        (first.stdout(), second.stdout()),
        ("first answer\n".into(), "second answer\n".into())
    );
    assert_eq!((first.err(), second.err()), (String::new(), String::new()));
    assert_eq!(journals(&world).len(), 2);
    world.server.assert_clean();
}

#[test]
fn session_in_use_is_continued_as_a_copy() {
    let world = World::new(
        r#"[{"text":"begun"},
            {"match":{"promptContains":"holds it"},"chunks":[{"gate":"held"},{"text":"held"},{"finish":"STOP"}]},
            {"match":{"promptContains":"wants it"},"text":"copied"},
            {"match":{"promptContains":"third"},"text":"after both"}]"#,
    );
    world.run_ok(&["-p", "begin", "--session-id", "shared"]);
    let holder = world.start(&["-r", "shared", "-p", "holds it"]);
    world.at_gate("held");
    let other = world.run(&["-r", "shared", "-p", "wants it"]);
    assert_eq!((other.code(), other.stdout().as_str()), (0, "copied\n"), "{}", other.err());
    assert!(other.err().contains("shared"), "it says that it works on a copy: {}", other.err());
    world.server.open_gate("held");
    let holder = holder.finish(Duration::from_secs(10)).expect("holder");
    assert_eq!((holder.code(), holder.stdout().as_str()), (0, "held\n"), "{}", holder.err());
    assert_eq!(journals(&world).len(), 2);
    let own = world.run(&["-r", "shared", "-p", "third"]);
    assert_eq!(own.code(), 0, "{}", own.err());
    let requests = world.server.requests();
    let last = String::from_utf8_lossy(&requests[3].body).into_owned();
    assert!(last.contains("holds it") && !last.contains("wants it"), "{last}");
}

/// Three prompts, one of them with calls and signatures.
const TALK: &str = r#"[
    {"loop":{"calls":2,"parallel":2,"signed":true,"name":"list_directory","args":{"dir_path":"."},"final":"looked"}},
    {"text":"second"}, {"text":"third"}]"#;

/// Returns the contents of the last request when the prompts are sent by several processes, without
/// the session ID.
fn last_contents(world: &World, id: &str, processes: &[&[&str]]) -> Vec<String> {
    for (index, prompts) in processes.iter().enumerate() {
        let choice = if index == 0 { ["--session-id", id] } else { ["-r", id] };
        let mut conversation = Conversation::start(world, &choice);
        for prompt in *prompts {
            conversation.prompt(prompt);
            conversation.next("result");
        }
        assert_eq!(conversation.end(), Some(0));
    }
    world.server.assert_clean();
    let requests = world.server.requests();
    let last = raw_contents(requests.last().expect("requests"));
    last.into_iter().map(|content| content.replace(id, "ID")).collect()
}

#[test]
fn resumed_session_sends_the_same_bytes_as_one_process() {
    let world = World::new(TALK);
    let whole = last_contents(&world, "in-one", &[&["one", "two", "three"]]);
    let world = World::in_home(world.home, TALK);
    let parts = last_contents(&world, "in-parts", &[&["one"], &["two"], &["three"]]);
    assert_eq!(whole, parts);
    assert!(whole.len() > 6, "{whole:?}");
}

#[test]
fn sessions_of_all_projects_are_listed_searched_and_exported() {
    let world = World::new(r#"[{"text":"It is <b>fixed</b>."}]"#);
    world.run_ok(&["-p", "fix the parser", "--session-id", "fixer"]);
    let listed = world.run_ok(&["sessions", "list"]);
    assert!(listed.stdout().contains("fixer  fix the parser"), "{}", listed.stdout());
    let json: serde_json::Value =
        serde_json::from_str(&world.run_ok(&["sessions", "list", "--json"]).stdout())
            .expect("JSON");
    assert_eq!(json[0]["id"], "fixer");
    assert_eq!(json[0]["project"], world.home.project().to_str().expect("a path"));
    let found = world.run_ok(&["sessions", "search", "fixed", "pars"]);
    assert!(found.stdout().contains("[fixed]"), "{}", found.stdout());
    assert_eq!(world.run(&["sessions", "search", "nothing like it"]).code(), 1);
    let finished = world.run_ok(&["sessions", "show", "fix"]);
    assert!(finished.stdout().contains("[1] > fix the parser"), "{}", finished.stdout());
    let page = world.run_ok(&["sessions", "export", "fixer", "--format", "html"]);
    assert!(page.stdout().contains("&lt;b&gt;fixed&lt;/b&gt;"), "{}", page.stdout());
    world.run_ok(&["sessions", "export", "fixer", "-f", "talk.json"]);
    let new = world.run_ok(&["sessions", "import", "talk.json", "--json"]);
    let new: serde_json::Value = serde_json::from_str(&new.stdout()).expect("JSON");
    let copy = world.run_ok(&["sessions", "show", new["id"].as_str().expect("an id")]);
    assert!(copy.stdout().contains("It is <b>fixed</b>."), "{}", copy.stdout());
    let first = world.run_ok(&["sessions", "list", "--limit", "1", "--json"]);
    assert_eq!(first.err(), "… 1 more; use `--limit 2` to list all\n");
    for ask in [&["list"][..], &["search", "fixed"]] {
        let none = world.run(&[&["sessions"], ask, &["--limit", "0"]].concat());
        assert_eq!(none.code(), 1, "{}", none.stdout());
        assert!(none.err().contains("expected a number greater than zero"), "{}", none.err());
    }
    let output = world.run(&["sessions", "show", "nobody"]);
    assert_eq!(output.code(), 42);
    assert!(output.err().contains("no session `nobody` in any project"), "{}", output.err());
}

#[test]
fn invalid_retention_age_deletes_no_session() {
    let world = World::new(r#"[{"text":"begun"}]"#);
    world.run_ok(&["-p", "begin"]);
    for age in ["\"abc\"", "\"\"", "\"-5d\"", "5"] {
        let settings = format!(r#"{{"general": {{"sessionRetention": {{"maxAge": {age}}}}}}}"#);
        world.home.write_home(".gemini/settings.json", &settings).expect("settings");
        let output = world.run(&["sessions", "gc"]);
        assert_eq!(output.code(), 52, "{age}");
        assert!(output.err().contains("`general.sessionRetention.maxAge` is invalid"), "{age}");
        // Other commands continue and print the same warning.
        let output = world.run(&["sessions", "list"]);
        assert_eq!(output.code(), 0, "{age}");
        assert!(output.err().contains("must be a duration such as `30d`"), "{}", output.err());
    }
    assert_eq!(journals(&world).len(), 1);
}

#[test]
fn resuming_a_turn_requires_an_interrupted_one() {
    let world = World::new(r#"[{"text":"done"}]"#);
    world.run_ok(&["-p", "hello", "--session-id", "whole"]);
    let nothing = world.run(&["-r", "whole"]);
    assert_eq!(nothing.code(), 42, "{}", nothing.err());
}

#[test]
fn torn_last_line_is_dropped_with_a_notice() {
    let world = World::new(
        r#"[{"calls":[{"name":"list_directory","args":{"dir_path":"."}}]},{"text":"listed"},{"text":"still here"}]"#,
    );
    world.run_ok(&["-p", "look"]);
    let journal = journals(&world).remove(0);
    let text = std::fs::read_to_string(&journal).expect("journal");
    std::fs::write(&journal, format!("{text}{{\"content\":{{\"time\":17, \"wi")).expect("write");
    let output = world.run_ok(&["-r", "latest", "-p", "and now?"]);
    assert_eq!(output.stdout(), "still here\n");
    assert_eq!(output.err().lines().count(), 1, "one notice: {}", output.err());
    let requests = world.server.requests();
    let (before, after) = (raw_contents(&requests[1]), raw_contents(&requests[2]));
    assert_eq!(before, after[..before.len()], "nothing but the torn line is gone");
}

#[test]
fn written_files_are_private_to_the_user() {
    let world = World::new(r#"[{"text":"fine"}]"#);
    world.home.write_home(".gemini/settings.json", "{}").expect("settings");
    let before = tree(&world.home.gemini());
    world.run_ok(&["-p", "hello"]);
    assert_eq!(tree(&world.home.gemini()), before, "nothing is written to `~/.gemini`");
    let written = tree(&world.home.parallax());
    assert!(!written.is_empty());
    for path in written {
        let mode = std::fs::metadata(&path).expect("metadata").permissions().mode() & 0o777;
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains(testkit::API_KEY), "the key is in {}", path.display());
    }
}

/// After damage in the middle of a journal, the conversation continues in a repaired copy that the
/// service accepts.
#[test]
fn damaged_journal_is_repaired_in_a_copy() {
    const WORK: &str = r#"[
        {"calls":[{"name":"read_file","args":{"file_path":"a.txt"}},{"name":"list_directory","args":{"dir_path":"."}}]},
        {"text":"looked","repeat":0}]"#;
    const AFTER: &str = r#"[{"text":"and went on"}]"#;
    let mut world = World::new(WORK);
    world.home.write("a.txt", "one").expect("file");
    world.run_ok(&["-p", "look", "--session-id", "whole"]);
    world.run_ok(&["-r", "whole", "-p", "again"]);
    let file = journals(&world).pop().expect("a journal");
    let text = std::fs::read_to_string(&file).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    for index in 1..lines.len() {
        for doubled in [false, true] {
            let mut broken = lines.clone();
            match doubled {
                true => broken.insert(index, lines[index]),
                false => drop(broken.remove(index)),
            }
            std::fs::write(&file, broken.join("\n") + "\n").expect("written");
            // A new server, which checks calls and results, roles, and the previous history.
            world = World::in_home(world.home, AFTER);
            let output = world.run_ok(&["-r", "whole", "-p", "and now?"]);
            assert_eq!(output.stdout(), "and went on\n", "line {index}: {}", output.err());
            let sent = raw_contents(world.server.requests().last().expect("a request"));
            assert!(sent.last().expect("a content").contains("and now?"), "line {index}");
        }
    }
}

#[test]
fn concurrently_requested_session_id_is_given_to_one() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    for round in 0..5 {
        let id = format!("same{round}");
        let runs: Vec<_> =
            (0..4).map(|_| world.start(&["-p", "mine", "--session-id", &id])).collect();
        let codes: Vec<i32> = runs
            .into_iter()
            .map(|run| run.finish(Duration::from_secs(20)).expect("finished").code())
            .collect();
        let succeeded = codes.iter().filter(|code| **code == 0).count();
        assert!(succeeded == 1 && codes.iter().all(|code| [0, 42].contains(code)), "{codes:?}");
    }
    assert_eq!((journals(&world).len(), world.server.requests().len()), (5, 5));
    // A failed prompt leaves no journal.
    world.run(&["-p", "/nothing", "--session-id", "empty"]);
    assert_eq!(journals(&world).len(), 5);
    // A process that was killed before its prompt left an empty file, so its ID is free.
    let left = journals(&world)[0].with_file_name("killed.jsonl");
    std::fs::write(&left, "").expect("written");
    let id = ["-p", "mine", "--session-id", "killed"];
    assert_eq!(world.run(&id).code(), 0);
    assert!(std::fs::metadata(&left).is_ok_and(|metadata| metadata.len() > 0));
    assert_eq!(world.run(&id).code(), 42);
}

#[test]
fn session_continued_by_both_programs_is_always_saved() {
    let world = World::new(
        r#"[{"match":{"promptContains":"ours"},"text":"one"},
            {"match":{"promptContains":"again"},"text":"two"},
            {"match":{"promptContains":"theirs"},"text":"three"}]"#,
    );
    let id = "9f6f3b2a-0000-4000-8000-000000000001";
    let folder = world.home.gemini().join("tmp/app");
    std::fs::create_dir_all(folder.join("chats")).expect("folder");
    let project = world.home.project().canonicalize().expect("project");
    std::fs::write(folder.join(".project_root"), project.display().to_string()).expect("root");
    let record = |updated: &str, prompt: &str| {
        let text = format!(
            "{{\"sessionId\":\"{id}\",\"projectHash\":\"h\",\"startTime\":\"2026-01-01T00:00:00.000Z\",\"lastUpdated\":\"{updated}\",\"kind\":\"main\"}}\n\
             {{\"id\":\"a\",\"timestamp\":\"{updated}\",\"type\":\"user\",\"content\":\"{prompt}\"}}\n\
             {{\"id\":\"b\",\"timestamp\":\"{updated}\",\"type\":\"gemini\",\"content\":\"yes\"}}\n"
        );
        let path = folder.join("chats/session-2026-01-01T00-00-9f6f3b2a.jsonl");
        std::fs::write(path, text).expect("record");
    };
    record("2026-01-01T00:00:00.000Z", "began there");
    world.run_ok(&["-r", id, "-p", "ours"]);
    record("2999-01-01T00:00:00.000Z", "went on there");
    let again = world.run(&["-r", id, "-p", "again"]);
    assert_eq!((again.code(), again.stdout().as_str()), (0, "two\n"), "{}", again.err());
    assert!(again.err().contains(&format!("--resume gemini-{id}")), "{}", again.err());
    // A search returns an ID that can be resumed.
    let found = world.run(&["sessions", "search", "\"went on there\""]);
    assert!(found.stdout().starts_with("gemini-9f6f3b2a "), "{}", found.stdout());
    let theirs = world.run(&["-r", "gemini-9f6f3b2a", "-p", "theirs"]);
    assert_eq!((theirs.code(), theirs.stdout().as_str()), (0, "three\n"), "{}", theirs.err());
    assert!(!theirs.err().contains("not saved"), "{}", theirs.err());
    let files = journals(&world);
    assert_eq!(files.len(), 2, "{files:?}");
    let texts: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).expect("journal")).collect();
    let of = |prompt: &str| texts.iter().find(|text| text.contains(prompt)).expect("saved");
    assert!(of("\"ours\"").contains("\"again\""));
    assert!(of("\"theirs\"").contains("went on there"));
    assert!(of("\"theirs\"").contains(&format!("\"forkedFrom\":\"gemini-{id}\"")));
}

#[test]
fn shown_session_includes_the_complete_command() {
    let words: Vec<String> = (0..60).map(|number| format!("word{number}")).collect();
    let command = format!("echo {} # the end", words.join(" "));
    let call = serde_json::json!({"name": "run_shell_command",
        "args": {"command": command, "description": "Says many words"}});
    let script = serde_json::json!([{"calls": [call]}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    world.run_ok(&["-p", "go", "-y"]);
    let stdout = world.run_ok(&["sessions", "show", "latest"]).stdout();
    assert!(stdout.contains(&format!("    $ {command}\n")), "{stdout}");
}
