//! The contents of a request, and what happens when it grows.

use serde_json::{Value, json};

use crate::support::{Conversation, World, answers, finish, raw_contents};

fn body(world: &World, number: usize) -> Value {
    serde_json::from_slice(&world.server.requests()[number].body).expect("a request")
}

fn system(body: &Value) -> String {
    let parts = body["systemInstruction"]["parts"].as_array().cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}

#[test]
fn request_starts_with_user_and_project_context() {
    let world = World::new(r#"[{"text":"done"}]"#);
    world.home.write_home(".gemini/GEMINI.md", "global rule").expect("file");
    world.home.write_home(".gemini/system.append.md", "appended by the user").expect("file");
    world.home.write(".gemini/prompt/preamble.md", "You are of this project.").expect("file");
    world.home.write("GEMINI.md", "project rule").expect("file");
    world.run_ok(&["-p", "go", "--append-system-prompt", "appended for once"]);
    let body = body(&world, 0);
    let system = system(&body);
    let places = [
        "You are of this project.",
        "# Rules",
        "appended by the user",
        "appended for once",
        "<loaded_context>",
        "global rule",
    ];
    let places = places.map(|words| system.find(words).unwrap_or_else(|| panic!("{words}")));
    assert!(places.is_sorted(), "{system}");
    let first = raw_contents(&world.server.requests()[0])[0].clone();
    let places = ["<session_context>", "project rule", "</session_context>", "\"go\""];
    let places = places.map(|words| first.find(words).unwrap_or_else(|| panic!("{words}")));
    assert!(places.is_sorted(), "{first}");
}

#[test]
fn files_ignored_at_the_root_are_not_imported_from_subdirectories() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    for (name, text) in [
        (".geminiignore", "ignored.md\n"),
        (".gitignore", "/GEMINI.md\nown.md\nvendor/\n"),
        ("GEMINI.md", "rule of the top @ignored.md @vendor/theirs.md @own.md @known.md"),
        ("ignored.md", "SECRET WORDS"),
        ("vendor/theirs.md", "SECRET WORDS of a stranger"),
        ("own.md", "words of my own"),
        ("known.md", "known words"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("sub/file", ""),
    ] {
        world.home.write(name, text).expect("file");
    }
    for folder in ["", "sub"] {
        let mut command = world.command(&["-p", "go"]);
        command.current_dir(world.home.project().join(folder));
        assert_eq!(finish(command).code(), 0);
        let sent = raw_contents(&world.server.requests().pop().expect("a request")).join("\n");
        for words in ["rule of the top", "words of my own", "known words"] {
            assert!(sent.contains(words), "from `{folder}` no `{words}`: {sent}");
        }
        assert!(!sent.contains("SECRET WORDS"), "from `{folder}`: {sent}");
    }
}

#[test]
fn context_file_that_links_out_of_the_project_is_not_read() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    let key = world.home.write_home(".ssh/id_rsa", "KEY OF THE USER").expect("file");
    world.home.write(".env", "TOKEN=KEY OF THE PROJECT").expect("file");
    world.home.write("docs/AGENTS.md", "rule behind a link").expect("file");
    let project = world.home.project();
    std::os::unix::fs::symlink(&key, project.join("GEMINI.md")).expect("a link");
    std::os::unix::fs::symlink("docs/AGENTS.md", project.join("AGENTS.md")).expect("a link");
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("link to a file outside"), "{}", output.err());
    let sent = raw_contents(&world.server.requests()[0]).join("\n");
    assert!(sent.contains("rule behind a link") && !sent.contains("KEY OF"), "{sent}");
    // A symlink to a project file that tools may not read.
    std::fs::remove_file(project.join("GEMINI.md")).expect("removed");
    std::os::unix::fs::symlink(".env", project.join("GEMINI.md")).expect("a link");
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("protected from tools"), "{}", output.err());
    let sent = raw_contents(&world.server.requests()[1]).join("\n");
    assert!(!sent.contains("KEY OF"), "{sent}");
    // NUL bytes are not text and would waste tokens.
    std::fs::remove_file(project.join("GEMINI.md")).expect("removed");
    std::fs::write(project.join("GEMINI.md"), [0; 4096]).expect("file");
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("is not a text file"), "{}", output.err());
}

#[test]
fn exporting_the_system_prompt_overwrites_no_user_file() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    let kept = world.home.write_home(".bashrc", "alias x=y\n").expect("file");
    world.home.write(".gemini/x", "").expect("file");
    std::os::unix::fs::symlink(&kept, world.home.project().join(".gemini/system.md"))
        .expect("link");
    for (value, code) in [("~/.bashrc", 52), ("1", 52), ("~/new.md", 0), ("~/new.md", 0)] {
        let mut command = world.command(&["-p", "go"]);
        command.env("GEMINI_WRITE_SYSTEM_MD", value);
        let output = crate::support::finish(command);
        assert_eq!(output.code(), code, "{value}: {}", output.err());
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("kept"), "alias x=y\n");
    let mut command = world.command(&["-p", "go"]);
    command.env("GEMINI_SYSTEM_MD", "1");
    let output = crate::support::finish(command);
    assert!(output.code() == 52 && output.err().contains("outside"), "{}", output.err());
}

#[test]
fn custom_system_prompt_replaces_the_built_in_one() {
    let world = World::new(r#"[{"text":"done"}]"#);
    let text = "Only ${read_file_ToolName}.\n${AvailableTools}";
    world.home.write(".gemini/system.md", text).expect("file");
    world.home.write_home(".gemini/GEMINI.md", "global rule").expect("file");
    let mut command = world.command(&["-p", "go"]);
    command.env("GEMINI_SYSTEM_MD", "1").env("GEMINI_WRITE_SYSTEM_MD", "built-in.md");
    let output = crate::support::finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    let system = system(&body(&world, 0));
    assert!(system.starts_with("Only read_file.\n- "), "{system}");
    assert!(system.contains("\n- list_directory\n- read_file\n"), "{system}");
    assert!(!system.contains("You are Parallax") && system.contains("global rule"), "{system}");
    assert!(world.read("built-in.md").starts_with("You are Parallax"));
    let mut command = world.command(&["-p", "go"]);
    command.env("GEMINI_SYSTEM_MD", "none.md");
    let output = crate::support::finish(command);
    assert_eq!(output.code(), 52, "{}", output.err());
}

#[test]
fn problems_in_directory_rules_are_reported_once() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"sub/a.txt"}}]},
            {"calls":[{"name":"read_file","args":{"file_path":"sub/b.txt"}}]},
            {"text":"done"}]"#,
    );
    let key = world.home.write_home(".ssh/id_rsa", "KEY OF THE USER").expect("file");
    for name in ["sub/a.txt", "sub/b.txt"] {
        world.home.write(name, "x").expect("file");
    }
    let link = world.home.project().join("sub/GEMINI.md");
    std::os::unix::fs::symlink(&key, link).expect("a link");
    let output = world.run_ok(&["-p", "go"]);
    assert_eq!(output.err().matches("link to a file outside").count(), 1, "{}", output.err());
    let sent = raw_contents(&world.server.requests()[2]).join("\n");
    assert!(!sent.contains("KEY OF"), "{sent}");
}

#[test]
fn directory_context_is_sent_on_first_access() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"sub/deep/a.txt"}}]},
            {"calls":[{"name":"read_file","args":{"file_path":"sub/deep/a.txt"}}]},
            {"text":"done"},
            {"calls":[{"name":"read_file","args":{"file_path":"sub/b.txt"}}]},
            {"text":"done again"}]"#,
    );
    world.home.write("GEMINI.md", "root rule").expect("file");
    world.home.write("sub/GEMINI.md", "rule of sub, see @more.md").expect("file");
    world.home.write("sub/more.md", "imported rule").expect("file");
    world.home.write("sub/deep/AGENTS.md", "deep rule").expect("file");
    world.home.write("sub/deep/a.txt", "text").expect("file");
    world.home.write("sub/b.txt", "text").expect("file");
    world.run_ok(&["-p", "go"]);
    let last = raw_contents(&world.server.requests()[2]).join("\n");
    let start = "--- Newly Discovered Project Context ---";
    assert_eq!(last.matches(start).count(), 1, "{last}");
    let places = ["root rule", start, "rule of sub", "imported rule", "deep rule"];
    let places = places.map(|words| last.find(words).unwrap_or_else(|| panic!("{words}")));
    assert!(places.is_sorted(), "{last}");
    // A resumed session does not add the file again.
    world.run_ok(&["--resume", "latest", "-p", "on"]);
    let last = raw_contents(world.server.requests().last().expect("request")).join("\n");
    assert_eq!(last.matches(start).count(), 1, "{last}");
}

#[test]
fn only_files_of_exactly_these_names_are_instructions() {
    let world = World::new(
        r#"[{"calls":[{"name":"read_file","args":{"file_path":"docs/guide.md"}},
                     {"name":"save_memory","args":{"fact":"Built with make","scope":"project"}}]},
            {"text":"done"}]"#,
    );
    world.home.write_home(".gemini/gemini.md", "lower global").expect("file");
    for name in ["gemini.md", "agents.md", "Gemini.md", "Agents.MD", "docs/agents.md"] {
        world.home.write(name, "another case").expect("file");
    }
    world.home.write("docs/guide.md", "text").expect("file");
    world.home.write("rules.txt", "linked rule").expect("file");
    let project = world.home.project();
    std::os::unix::fs::symlink("rules.txt", project.join("AGENTS.md")).expect("link");
    // A hard link does not make either file unreadable.
    world.home.write("docs/GEMINI.md", "rule of docs").expect("file");
    std::fs::hard_link(project.join("docs/GEMINI.md"), project.join("docs/gemini.md"))
        .expect("a second name");
    world.run_ok(&["-p", "go", "-y"]);
    assert!(!system(&body(&world, 0)).contains("lower global"));
    let text = raw_contents(&world.server.requests()[1]).join("\n");
    for (words, times) in [("linked rule", 1), ("rule of docs", 1), ("another case", 0)] {
        assert_eq!(text.matches(words).count(), times, "{words}: {text}");
    }
    assert_eq!(world.read("gemini.md"), "another case");
    assert!(world.read("rules.txt").contains("- Built with make"));
}

#[test]
fn gemini_md_is_read_regardless_of_configured_names() {
    let world = World::new(r#"[{"text":"done"}]"#);
    let settings = r#"{"context": {"fileName": ["RULES.md", "AGENTS.md"]}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    for name in ["RULES.md", "AGENTS.md", "GEMINI.md"] {
        world.home.write_home(&format!(".gemini/{name}"), &format!("own {name}")).expect("file");
        world.home.write(name, &format!("project {name}")).expect("file");
    }
    world.run_ok(&["-p", "go"]);
    let is_in_order = |text: &str, words: [&str; 3]| {
        let places = words.map(|word| text.find(word).unwrap_or_else(|| panic!("{word}: {text}")));
        assert!(places.is_sorted(), "{words:?}: {places:?}");
    };
    let own = ["own RULES.md", "own AGENTS.md", "own GEMINI.md"];
    is_in_order(&system(&body(&world, 0)), own);
    let text = raw_contents(&world.server.requests()[0]).join("\n");
    is_in_order(&text, ["project AGENTS.md", "project GEMINI.md", "project RULES.md"]);
}

#[test]
fn memory_is_saved_and_read_by_the_next_session() {
    let world = World::new(
        r#"[{"calls":[{"name":"save_memory","args":{"fact":"Prefers short answers"}},
                     {"name":"save_memory","args":{"fact":"Built with make","scope":"project"}}]},
            {"text":"done"},{"text":"done"}]"#,
    );
    world.run_ok(&["-p", "remember", "-y"]);
    let file = world.home.parallax().join("GEMINI.md");
    let text = std::fs::read_to_string(file).expect("the user's memory");
    assert_eq!(text, "## Gemini Added Memories\n\n- Prefers short answers\n");
    assert_eq!(world.read("GEMINI.md"), "## Gemini Added Memories\n\n- Built with make\n");
    world.run_ok(&["-p", "go on"]);
    let body = body(&world, 2);
    assert!(system(&body).contains("- Prefers short answers"));
    assert!(body["contents"][0].to_string().contains("- Built with make"));
}

#[test]
fn client_compacts_the_history_and_drops_results() {
    let snapshot = "<state_snapshot><overall_goal>look around</overall_goal><key_knowledge>a \
                    file</key_knowledge><task_state>done</task_state></state_snapshot>";
    let script = serde_json::json!([
        {"calls": [{"name": "read_file", "args": {"file_path": "long.txt"}}]},
        {"text": "read"},
        {"text": "more"},
        {"method": "generateContent", "text": snapshot},
        {"method": "generateContent", "text": "COMPLETE"},
        {"text": "on"},
    ]);
    let world = World::new(&script.to_string());
    world.home.write("long.txt", &"a line of text\n".repeat(500)).expect("file");
    let mut conversation = Conversation::start(&world, &["--stream-version", "2"]);
    conversation.prompt("read it");
    conversation.next("result");
    conversation.send(&serde_json::json!({"type": "context"}));
    let context = conversation.next("context");
    let place = context["items"][0]["place"].clone();
    assert_eq!(context["items"][0]["tool"], "read_file", "{context}");
    assert!(context["blocks"].as_array().is_some_and(|blocks| blocks.len() >= 5), "{context}");
    conversation.send(&serde_json::json!({"type": "leave_out", "places": [place]}));
    let report = conversation.next("compaction");
    assert!(report["after"].as_u64() < report["before"].as_u64(), "{report}");
    conversation.send(&serde_json::json!({"type": "undo_compaction"}));
    assert_eq!(conversation.next("compaction")["cause"], "undo");
    conversation.prompt("more");
    conversation.next("result");
    conversation.send(&serde_json::json!({"type": "compact", "focus": "the file"}));
    let report = conversation.next("compaction");
    assert_eq!(
        (&report["cause"], &report["how"]),
        (&"manual".into(), &"snapshot".into()),
        "{report}"
    );
    conversation.prompt("on");
    conversation.next("result");
    assert_eq!(conversation.end(), Some(0));
    let last = raw_contents(world.server.requests().last().expect("request")).join("\n");
    assert!(last.contains("look around") && !last.contains("a line of text"), "{last}");
}

#[test]
fn json_output_reports_compaction() {
    let read = |files: std::ops::Range<usize>| {
        let calls = files.map(|number| {
            serde_json::json!({"name": "read_file", "args": {"file_path": format!("f{number}.txt")}})
        });
        serde_json::json!({"calls": calls.collect::<Vec<_>>()})
    };
    let script = serde_json::json!([read(0..2), read(2..8), {"text": "done"}]);
    let world = World::new(&script.to_string());
    for number in 0..8 {
        let text = format!("a line of the file {number}\n").repeat(500);
        world.home.write(&format!("f{number}.txt"), &text).expect("file");
    }
    // The program writes the summary without a model.
    let settings = r#"{"model": {"compactAtTokens": 9000, "disableLoopDetection": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let output = world.run(&["-p", "read them", "-o", "json"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    let out: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    let report = out["compactions"].as_array().expect("compactions");
    let shorter = report.iter().find(|one| one["how"].is_string()).expect("a shorter history");
    assert!(shorter["after"].as_u64() < shorter["before"].as_u64(), "{out}");
}

#[test]
fn partial_file_name_is_resolved() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    world.home.write("a/my-file7.md", "HOLDS IT").unwrap();
    world.home.write("b/file7.md", "BEGINS SO").unwrap();
    world.home.write("c/docs_dir/one.md", "IN A FOLDER").unwrap();
    for (typed, text) in
        [("@file7", "BEGINS SO"), ("@my-file7.md", "HOLDS IT"), ("@docs_di", "IN A FOLDER")]
    {
        world.run_ok(&["-p", &format!("see {typed}")]);
        let requests = world.server.requests().len();
        assert!(body(&world, requests - 1).to_string().contains(text), "{typed}");
    }
}

#[test]
fn annotations_in_pasted_code_do_not_attach_files() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    world.home.write("src/FooTest.java", "HAS a test").unwrap();
    world.home.write("property_tests.rs", "HAS properties").unwrap();
    world.home.write("Makefile", "HAS rules").unwrap();
    for (input, expected) in [
        ("@Test\npublic void x() {}", None),
        ("why?\n    @property\n    def x(self): ...", None),
        ("see @Makefile\nand @Test", Some("HAS rules")),
        ("see @Test\n", Some("HAS a test")),
    ] {
        world.run_ok(&["-p", input]);
        let sent = body(&world, world.server.requests().len() - 1)["contents"].to_string();
        assert_eq!(sent.contains("HAS "), expected.is_some(), "{input}: {sent}");
        assert!(expected.is_none_or(|text| sent.contains(text)), "{input}: {sent}");
    }
}

#[test]
fn globs_in_a_prompt_attach_matching_files() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    for path in ["src/a.rs", "src/lib/b.rs", "src/m.txt", "app/[id]/page.tsx", "app/x.ts", "README"]
    {
        world.home.write(path, &format!("HAS {path}")).unwrap();
    }
    let all = ["src/a.rs", "src/lib/b.rs", "src/m.txt", "app/[id]/page.tsx", "app/x.ts", "README"];
    for (input, expected, warning) in [
        ("@src/{a,z}.rs, please", vec!["src/a.rs"], None),
        ("@**/[ab].rs", vec!["src/a.rs", "src/lib/b.rs"], None),
        ("@{src,app}/?.{rs,ts}", vec!["src/a.rs", "app/x.ts"], None),
        ("@\"src/{a.rs,m.txt}\"", vec!["src/a.rs", "src/m.txt"], None),
        ("see @src/?.txt?", vec!["src/m.txt"], None),
        ("@src/[!a].*", vec!["src/m.txt"], None),
        ("@app/[id]", vec!["app/[id]/page.tsx"], None),
        ("@app/[id]/page.tsx.", vec!["app/[id]/page.tsx"], None),
        ("@src/{x,y}.rs", vec![], Some("`@src/{x,y}.rs` matches no file")),
        ("@src/*.zz", vec![], Some("`@src/*.zz` matches no file")),
        ("@src/!(m).rs", vec![], Some("`@src/!(m).rs` was not found")),
        ("@app/(nope)/x.ts", vec![], Some("`@app/(nope)/x.ts` was not found")),
        ("@app/[id]/nope.tsx", vec![], Some("`@app/[id]/nope.tsx` matches no file")),
        ("@app/[id]/*.ts", vec![], Some("`@app/[id]/*.ts` matches no file")),
        ("@app/[id]/*.tsx", vec!["app/[id]/page.tsx"], None),
        ("@app/(group)/nope.tsx", vec![], Some("`@app/(group)/nope.tsx` was not found")),
        (
            "@node_modules/p/index.js",
            vec![],
            Some("`@node_modules/p/index.js` was not read: `node_modules` is protected"),
        ),
        ("@src/[abc", vec![], Some("`@src/[abc` was not found")),
        ("@src/{id}.ts", vec![], Some("`@src/{id}.ts` was not found")),
        ("@src[0] = {a, b}; @src(1)(2)", vec!["src/a.rs", "src/lib/b.rs", "src/m.txt"], None),
        ("```java\n@app\n```", vec![], None),
    ] {
        let output = world.run(&["-p", input]);
        assert_eq!(output.code(), 0, "{input}: {}", output.err());
        let sent = body(&world, world.server.requests().len() - 1)["contents"].to_string();
        let found: Vec<&str> =
            all.into_iter().filter(|path| sent.contains(&format!("HAS {path}"))).collect();
        let mut expected = expected;
        expected.sort_unstable_by_key(|path| all.iter().position(|known| known == path));
        assert_eq!(found, expected, "{input}");
        match warning {
            Some(warning) => assert!(output.err().contains(warning), "{input}: {}", output.err()),
            None => assert_eq!(output.err(), "", "{input}"),
        }
    }
}

#[test]
fn attachment_that_cannot_be_read_is_a_warning() {
    let world = World::new(r#"[{"text":"done","repeat":0}]"#);
    world.home.write("empty.png", "").unwrap();
    world.home.write("empty.pdf", "").unwrap();
    world.home.write("a.txt", "HAS a").unwrap();
    let big = world.home.write("big.mp4", "\0\0\0\u{18}ftypmp42\0\0\0\0mp42isom").unwrap();
    std::fs::File::options().write(true).open(big).unwrap().set_len(30_000_000).unwrap();
    for input in ["@empty.png", "@empty.pdf @a.txt", "look at \"@empty.png\"", "@big.mp4"] {
        let output = world.run(&["-p", input]);
        assert_eq!(output.code(), 0, "{input}: {}", output.err());
        assert!(output.err().contains("was not read: "), "{input}: {}", output.err());
        let sent = body(&world, world.server.requests().len() - 1)["contents"].to_string();
        assert_eq!(sent.contains("HAS a"), input.contains("a.txt"), "{input}");
    }
}

#[test]
fn twice_truncated_output_names_the_complete_file() {
    let call = r#"{"name":"run_shell_command","args":{"command":"seq 1 60000"}}"#;
    let world = World::new(&format!(r#"[{{"calls":[{call},{call}]}},{{"text":"done"}}]"#));
    let settings = r#"{"model": {"compactAtTokens": 9000}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("written");
    assert_eq!(world.run(&["-p", "go", "-y"]).code(), 0);
    let received = answers(&world.server);
    assert_eq!(received.len(), 2);
    for text in received {
        assert!(text.len() < 30_000, "{} bytes", text.len());
        let named =
            text.split("The full output is in `").nth(1).and_then(|it| it.split('`').next());
        let whole = std::fs::read_to_string(named.expect("a file")).expect("kept");
        assert!(
            whole.starts_with("1\n2\n") && whole.trim_end().ends_with("\n60000"),
            "{text:.300}"
        );
        assert_eq!(whole.lines().count(), 60_000);
    }
}

#[test]
fn truncated_old_output_names_the_complete_file() {
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": "seq -f 'line %g' 9000"}}]},
        {"calls": [{"name": "run_shell_command", "args": {"command": "echo more"}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    let masking = json!({"protectionThresholdTokens": 0, "minPrunableThresholdTokens": 1});
    let settings = json!({"contextManagement": {"tools": {"outputMasking": masking}}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    // The server would reject a history that becomes shorter.
    assert_eq!(world.run(&["-y", "-p", "go"]).code(), 0);
    let sent = String::from_utf8_lossy(&world.server.requests()[2].body).into_owned();
    let note = sent.split("[The full output").nth(1).expect("a note");
    let path = note.strip_prefix(" is in ").and_then(|rest| rest.split_once(": read"));
    let path = path.expect("where the whole is").0;
    let whole = std::fs::read_to_string(path).expect("the file");
    assert_eq!(whole.lines().count(), 9_000, "{note:.300}");
    assert!(!sent.contains("Too long"), "one file is named as the whole");
}
