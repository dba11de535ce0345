//! Compatibility with projects and programs made for Gemini CLI.

use serde_json::{Value, json};

use crate::support::World;

const ANSWER: &str = r#"[{"text": "done", "repeat": 0}]"#;

/// Returns the names of the tools in a request.
fn declared(world: &World, request: usize) -> Vec<String> {
    let body = world.server.requests()[request].json();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let all = tools.iter().filter_map(|tool| tool["functionDeclarations"].as_array()).flatten();
    all.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

fn warnings(out: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(out).expect("JSON");
    let warnings = json["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

#[test]
fn project_tool_list_narrows_but_never_empties() {
    for (user, project, expected) in [
        (json!(null), json!(["run_shell_command"]), vec!["run_shell_command"]),
        (json!(["read_file", "glob"]), json!(["glob", "write_file"]), vec!["glob"]),
        (json!(["read_file"]), json!(["write_file"]), vec!["read_file"]),
        (json!(["read_file"]), json!([]), vec!["read_file"]),
    ] {
        let world = World::new(ANSWER);
        let settings = |core: &Value| json!({"tools": {"core": core}}).to_string();
        if !user.is_null() {
            world.home.write_home(".gemini/settings.json", &settings(&user)).expect("written");
        }
        world.home.write(".gemini/settings.json", &settings(&project)).expect("written");
        let output = world.run_ok(&["--skip-trust", "--yolo", "-o", "json", "-p", "go"]);
        assert_eq!(declared(&world, 0), expected, "{user} {project}");
        // Narrowing is not loosening. A list that would leave nothing is named.
        let is_disjoint = project == json!(["write_file"]);
        let warnings = warnings(&output.stdout());
        assert_eq!(warnings.len(), usize::from(is_disjoint), "{user} {project}: {warnings:?}");
        assert!(warnings.iter().all(|it| it.contains("would leave none")), "{warnings:?}");
    }
    let world = World::new(ANSWER);
    let settings = json!({"tools": {"core": ["readfile"]}}).to_string();
    world.home.write(".gemini/settings.json", &settings).expect("written");
    let output = world.run_ok(&["--skip-trust", "--yolo", "-o", "json", "-p", "go"]);
    let warnings = warnings(&output.stdout());
    assert!(warnings.iter().any(|it| it.contains("has no tools")), "{warnings:?}");
}

#[test]
fn project_tool_list_does_not_grant_approval() {
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch made"}}]},
        {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    let core = r#"{"tools": {"core": ["run_shell_command"]}}"#;
    world.home.write(".gemini/settings.json", core).expect("written");
    world.run(&["-p", "go"]);
    assert!(!world.home.project().join("made").exists());
}

#[test]
fn project_settings_equal_to_user_settings_are_not_gated() {
    let world = World::new(ANSWER);
    let settings = json!({
        "general": {"enableAutoUpdate": false, "defaultApprovalMode": "auto_edit"},
        "tools": {"allowed": ["run_shell_command(ls)"], "sandbox": false},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": true, "target": "local", "otlpEndpoint": ""},
        "mcpServers": {"s": {"command": "false", "trust": true}},
        "mcp": {"firstWaitMs": 0},
    })
    .to_string();
    world.home.write_home(".gemini/settings.json", &settings).expect("written");
    world.home.write(".gemini/settings.json", &settings).expect("written");
    let output = world.run_ok(&["--skip-trust", "-o", "json", "-p", "go"]);
    let gated: Vec<String> =
        warnings(&output.stdout()).into_iter().filter(|it| it.contains("are ignored")).collect();
    assert_eq!(gated, Vec::<String>::new());
}

#[test]
fn rejected_shown_and_accepted_settings_are_the_same() {
    let world = World::new(ANSWER);
    let server = |command: &str| json!({"command": command});
    let user = json!({"mcpServers": {"s": server("false")}, "mcp": {"firstWaitMs": 0}});
    world.home.write_home(".gemini/settings.json", &user.to_string()).expect("written");
    let project = json!({"mcpServers": {"s": server("true")}, "tools": {"allowed": ["glob"]}});
    world.home.write(".gemini/settings.json", &project.to_string()).expect("written");
    let keys = ["tools.allowed", "mcpServers.s"];
    let output = world.run_ok(&["-o", "json", "-p", "go"]);
    let rejected = warnings(&output.stdout()).join("\n");
    let stdout = world.run_ok(&["trust", "show"]).stdout();
    let accepted = world.run_ok(&["trust", "add", "--settings"]).stdout();
    for key in keys {
        assert!(rejected.contains(&format!("`{key}`")), "{rejected}");
        assert!(stdout.contains(key), "{stdout}");
        assert!(accepted.contains(&format!("accepted: {key}")), "{accepted}");
    }
    let listed = world.run_ok(&["mcp", "list"]);
    assert!(listed.stdout().contains("s: true"), "{}", listed.stdout());
    // Acceptance next to one user server does not apply next to another.
    let other = json!({"mcpServers": {"s": server("false")}, "tools": {"allowed": ["glob"]}});
    world.home.write_home(".gemini/settings.json", &other.to_string()).expect("written");
    let output = world.run_ok(&["-o", "json", "-p", "go"]);
    assert!(
        warnings(&output.stdout()).join("\n").contains("`mcpServers.s`"),
        "{}",
        output.stdout()
    );
}

#[test]
fn gemini_setting_is_changed_in_the_gemini_file() {
    let world = World::new(ANSWER);
    let text = "{\n  // ours\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}}\n}\n";
    let file = world.home.write(".gemini/settings.json", text).expect("written");
    world.run_ok(&["mcp", "add", "b", "true", "--scope", "project"]);
    world.run_ok(&["mcp", "remove", "a"]);
    let read = std::fs::read_to_string(&file).expect("there");
    assert!(
        read.contains("// ours") && read.contains("\"b\"") && !read.contains("\"a\""),
        "{read}"
    );
    assert!(!world.home.project().join(".parallax/settings.json").exists());
}

#[test]
fn comma_after_the_last_element_is_a_warning() {
    let world = World::new(ANSWER);
    let text = "{\n  \"ui\": {\"hideTips\": true,},\n}\n";
    world.home.write_home(".gemini/settings.json", text).expect("written");
    let output = world.run_ok(&["-p", "go"]);
    assert!(output.err().contains("settings.json:2:"), "{}", output.err());
    assert!(output.err().contains("trailing comma"), "{}", output.err());
}

#[test]
fn missing_directory_in_the_settings_is_a_warning() {
    let world = World::new(ANSWER);
    let text = r#"{"context": {"includeDirectories": ["/no/such/directory"]}}"#;
    world.home.write_home(".gemini/settings.json", text).expect("written");
    let output = world.run_ok(&["-o", "json", "-p", "go"]);
    let report = warnings(&output.stdout());
    assert!(
        report.iter().any(|it| it.contains("not a directory: `/no/such/directory`")),
        "{report:?}"
    );
    assert_eq!(world.run(&["--include-directories", "/no/such/directory", "-p", "go"]).code(), 42);
}

#[test]
fn broken_command_file_is_a_warning_and_is_not_replaced_by_a_weaker_one() {
    let world = World::new(ANSWER);
    world.home.write(".gemini/commands/fix.toml", "prompt = \"open").expect("written");
    world.home.write_home(".gemini/commands/fix.toml", "prompt = 'weaker'").expect("written");
    let output = world.run_ok(&["-o", "json", "-p", "go"]);
    let report = warnings(&output.stdout());
    assert!(report.iter().any(|it| it.contains("Cannot use a command file")), "{report:?}");
    assert!(world.run_ok(&["-p", "go"]).err().contains("fix.toml"));
    let refused = world.run(&["-p", "/fix"]);
    assert_eq!(refused.code(), 42);
    assert!(refused.err().contains("Cannot run `/fix`"), "{}", refused.err());
    let weaker = world.run_ok(&["-p", "/user.fix"]);
    assert_eq!(weaker.stdout().trim(), "done");
}

#[test]
fn custom_command_overrides_an_alias_but_not_a_name() {
    let world = World::new(ANSWER);
    for name in ["summarize", "usage", "stats"] {
        let prompt = format!("prompt = 'mine: {name}'");
        world.home.write_home(&format!(".gemini/commands/{name}.toml"), &prompt).expect("written");
    }
    for name in ["summarize", "usage"] {
        world.run_ok(&["-p", &format!("/{name}")]);
        let request = world.server.requests().last().expect("a request").json().to_string();
        assert!(request.contains(&format!("mine: {name}")), "{request}");
    }
    let sent = world.server.requests().len();
    world.run_ok(&["-p", "/stats"]);
    assert_eq!(world.server.requests().len(), sent, "the built-in command answers");
}

#[test]
fn error_for_session_of_another_directory_says_how_to_open_it() {
    let world = World::new(ANSWER);
    let output = world.run_ok(&["-o", "json", "-p", "remember"]);
    let json: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    let id = json["session_id"].as_str().expect("an id").to_owned();
    let other = world.home.root().join("other");
    std::fs::create_dir(&other).expect("a directory");
    let run = |id: &str| {
        let mut command = world.command(&["--resume", id, "-p", "go"]);
        command.current_dir(&other);
        crate::support::finish(command)
    };
    let here = world.home.project().canonicalize().expect("there").display().to_string();
    for id in [id.clone(), id[..8].to_owned(), id.to_uppercase()] {
        let refused = run(&id);
        assert_eq!(refused.code(), 42);
        assert!(refused.err().contains(&here), "{}", refused.err());
        assert!(refused.err().contains("parallax sessions move"), "{}", refused.err());
    }
    assert_eq!(world.run(&["--resume", &id.to_uppercase(), "-p", "go"]).code(), 0);
}

#[test]
fn subcommands_of_other_agents_are_errors_with_a_hint() {
    let world = World::new(ANSWER);
    for (words, hint) in [
        (&["update"][..], "install the new version"),
        (&["login"], "GEMINI_API_KEY"),
        (&["Version"], "parallax --version"),
        (&["Doctor"], "did you mean `parallax doctor`?"),
        (&["skills "], "did you mean `parallax skills`?"),
        (&["resume"], "parallax --resume"),
        (&["help", "nope"], "Unknown command `nope`"),
        (&["help", "sesions"], "did you mean `sessions`?"),
        (&["sessions", "lst"], "did you mean `list`?"),
        (&["--model", "x", "sessions", "lst"], "did you mean `list`?"),
        (&["--dangerously-skip-permissions"], "--approval-mode"),
        (&["--image", "a.png"], "@picture.png"),
    ] {
        let output = world.run(words);
        assert_eq!(output.code(), 1, "{words:?}: {}", output.err());
        assert!(output.err().contains(hint), "{words:?}: {}", output.err());
    }
    for words in [&["--foo"][..], &["--yoloo"], &["--skip-trus"], &["--raw-outputs"]] {
        let output = world.run(words);
        assert!(!output.err().contains("Did you mean"), "{words:?}: {}", output.err());
    }
    let near = world.run(&["--modle", "x"]);
    assert!(near.err().contains("Did you mean `--model`?"), "{}", near.err());
    assert!(world.server.requests().is_empty(), "nothing was sent to the model");
    // `-p` always marks a prompt.
    assert_eq!(world.run_ok(&["-p", "doctor"]).stdout().trim(), "done");
    assert!(world.run_ok(&["help", "mcp"]).stdout().contains("Usage: parallax mcp"));
    assert!(world.run_ok(&["completion", "bash"]).stdout().contains("_parallax"));
}

#[test]
fn closed_standard_output_is_an_error() {
    let world = World::new(ANSWER);
    let done = crate::support::finish(world.shell(r#"exec "$@" >&-"#, &["-p", "go"]));
    assert_eq!(done.code(), 1, "{}", done.err());
    assert!(done.err().contains("standard output"), "{}", done.err());
    assert!(world.server.requests().is_empty());
    // Discarding the output on purpose is not an error.
    let done = crate::support::finish(world.shell(r#"exec "$@" >/dev/null"#, &["-p", "go"]));
    assert_eq!(done.code(), 0, "{}", done.err());
}

#[test]
fn directory_flag_sets_the_working_directory() {
    let world = World::new(ANSWER);
    let inner = world.home.project().join("inner");
    std::fs::create_dir(&inner).expect("a directory");
    let output = world.run(&["-C", "inner", "--skip-trust", "-p", "go"]);
    assert_eq!(output.code(), 0, "{}", output.err());
    let request = world.server.requests()[0].json().to_string();
    assert!(request.contains("/inner"), "{request}");
    assert_eq!(world.run(&["-C", "gone", "-p", "go"]).code(), 42);
}

/// Returns the lines of the records below a directory, one list per file.
fn records(folder: &std::path::Path) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    for project in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(project.path().join("chats")).into_iter().flatten().flatten()
        {
            let name = file.file_name().to_string_lossy().into_owned();
            assert!(name.starts_with("session-") && name.ends_with(".jsonl"), "{name}");
            let text = std::fs::read_to_string(file.path()).expect("a record");
            found.push(text.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect());
        }
    }
    found
}

/// Checks what readers of Gemini CLI's records count.
fn check_records(records: &[Vec<Value>], sessions: usize) {
    assert_eq!(records.len(), sessions);
    let mut ids = std::collections::HashSet::new();
    for record in records {
        let (head, messages) = record.split_first().expect("a head");
        assert!(head["sessionId"].is_string() && head["projectHash"].is_string(), "{head}");
        assert!(head["directories"][0].is_string(), "{head}");
        let answers: Vec<&Value> = messages.iter().filter(|it| it["type"] == "gemini").collect();
        assert!(!answers.is_empty(), "{record:?}");
        for answer in answers {
            assert!(answer["tokens"]["input"].as_u64().is_some_and(|it| it > 0), "{answer}");
            assert!(answer["model"].as_str().is_some_and(|it| !it.is_empty()), "{answer}");
            assert!(ids.insert(answer["id"].to_string()), "an id is counted once: {answer}");
        }
    }
}

#[test]
fn exported_and_mirrored_sessions_use_the_gemini_cli_format() {
    let usage = json!({"promptTokenCount": 100, "candidatesTokenCount": 7, "totalTokenCount": 107,
        "cachedContentTokenCount": 40});
    let chunk = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]},
        "finishReason": "STOP"}], "usageMetadata": usage});
    let script = json!([{"chunks": [chunk], "repeat": 0}]).to_string();
    let world = World::new(&script);
    let settings = r#"{"sessions": {"mirror": "gemini"}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("written");
    world.run_ok(&["-p", "one"]);
    world.run_ok(&["-p", "two"]);
    world.run_ok(&["--resume", "latest", "-p", "more"]);
    world.run_ok(&["sessions", "export", "--all", "--format", "gemini-json", "--out", "out"]);
    check_records(&records(&world.home.project().join("out")), 2);
    let mirror = records(&world.home.gemini().join("tmp"));
    check_records(&mirror, 2);
    let lengths: usize = mirror.iter().map(Vec::len).sum();
    assert!(lengths >= 2 + 2 * 3, "the resumed turn is there: {mirror:?}");
    // The mirror is not listed as a session.
    let listed = world.run_ok(&["sessions", "--json", "list"]).stdout();
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let id = listed[0]["id"].as_str().expect("an id");
    let claude = world.run_ok(&["sessions", "export", id, "--format", "claude"]).stdout();
    assert!(claude.contains(r#""input_tokens":60"#), "{claude}");
    assert!(claude.contains(r#""cache_read_input_tokens":40"#), "{claude}");
    let codex = world.run_ok(&["sessions", "export", id, "--format", "codex"]).stdout();
    assert!(codex.contains(r#""type":"token_count""#), "{codex}");
    assert!(codex.contains(r#""cached_input_tokens":40"#), "{codex}");
}

#[test]
fn mirror_that_cannot_be_written_is_reported() {
    let world = World::new(ANSWER);
    let settings = r#"{"sessions": {"mirror": "gemini"}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("written");
    world.home.write_home(".gemini/tmp", "a file").expect("written");
    let output = world.run_ok(&["-p", "one"]);
    assert!(output.err().contains("`sessions.mirror` is off for this session"), "{}", output.err());
}

#[test]
fn encrypted_sessions_are_not_mirrored_and_the_user_is_notified() {
    let world = World::new(ANSWER);
    let settings = json!({
        "general": {"sessionEncryption": "file"}, "sessions": {"mirror": "gemini"}
    });
    world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("written");
    let output = world.run_ok(&["-p", "one"]);
    let warning = "`sessions.mirror` is off: sessions are encrypted";
    assert!(output.err().contains(warning), "{}", output.err());
    assert!(!world.home.gemini().join("tmp").exists());
}

#[test]
fn project_cannot_enable_the_mirror() {
    let world = World::new(ANSWER);
    let settings = r#"{"sessions": {"mirror": "gemini"}}"#;
    world.home.write(".parallax/settings.json", settings).expect("written");
    world.run_ok(&["-p", "one"]);
    assert!(!world.home.gemini().join("tmp").exists());
}

#[test]
fn failed_imports_and_skills_are_one_line_each() {
    let world = World::new(ANSWER);
    let text = "See @./missing.md, @./gone.md and again @./missing.md\n";
    world.home.write("GEMINI.md", text).expect("written");
    for number in 0..20 {
        let path = format!(".gemini/skills/s{number}/SKILL.md");
        world.home.write(&path, "no front matter").expect("written");
    }
    let output = world.run_ok(&["-p", "go"]);
    let lines: Vec<String> = output.err().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let imports = lines.iter().find(|line| line.contains("failed to import")).expect("imports");
    assert_eq!(imports.matches("missing.md").count(), 1, "{imports}");
    assert!(lines.iter().any(|line| line.contains("(and 19 more like it")), "{lines:?}");
}

#[test]
fn extension_update_compares_names_and_its_source() {
    let world = World::new(ANSWER);
    let manifest = |tools: &[&str], themes: &[&str]| {
        let themes: Vec<Value> = themes.iter().map(|name| json!({"name": name})).collect();
        json!({"name": "ext", "version": "1.0.0", "excludeTools": tools, "themes": themes})
            .to_string()
    };
    let put = |path: &str, text: &str| {
        world.home.write(path, text).expect("written");
    };
    put("ext/gemini-extension.json", &manifest(&["glob", "write_todos"], &["A", "B"]));
    put("ext/commands/a.toml", "prompt = 'a'");
    put("ext/commands/b.toml", "prompt = 'b'");
    world.run_ok(&["extensions", "install", "ext", "--consent"]);
    put("ext/gemini-extension.json", &manifest(&["glob"], &["B"]).replace("1.0.0", "1.0.1"));
    std::fs::remove_file(world.home.project().join("ext/commands/b.toml")).expect("removed");
    let output = world.run(&["extensions", "update", "ext"]);
    assert_eq!(output.code(), 0, "fewer names need no new agreement: {}", output.err());
    put("ext/commands/c.toml", "prompt = 'c'");
    put("ext/gemini-extension.json", &manifest(&["glob"], &["B"]).replace("1.0.0", "1.0.2"));
    let more = world.run(&["extensions", "update", "ext"]);
    assert_ne!(more.code(), 0, "a new command does");
    assert!(more.err().contains("commands: c"), "{}", more.err());
    let metadata = world.home.parallax().join("extensions/ext/.gemini-extension-install.json");
    let text = std::fs::read_to_string(&metadata).expect("there");
    std::fs::write(&metadata, text.replace("/ext\"", "/other\"")).expect("written");
    let edited = world.run(&["extensions", "update", "ext", "--consent"]);
    assert_ne!(edited.code(), 0, "{}", edited.stdout());
    assert!(world.run_ok(&["-p", "go"]).err().contains("it was installed from"));
    // A changed installation type does not redirect loading to another directory.
    let evil = world.home.project().join("evil");
    world.home.write("evil/gemini-extension.json", &manifest(&[], &[])).expect("written");
    world.home.write("evil/GEMINI.md", "EVILCONTEXT").expect("written");
    let link = json!({"source": evil, "type": "link"}).to_string();
    std::fs::write(&metadata, link).expect("written");
    world.run_ok(&["-p", "go"]);
    let request = world.server.requests().last().expect("a request").json().to_string();
    assert!(!request.contains("EVILCONTEXT"), "{request}");
    let again = world.run(&["extensions", "install", "ext"]);
    assert!(again.err().contains("already installed"), "{}", again.err());
    assert!(!again.err().contains("Do you want"), "{}", again.err());
}

#[test]
fn broken_extension_is_installed_with_a_note_and_uninstalled() {
    let world = World::new(ANSWER);
    let manifest = json!({"name": "ext", "version": "1.0.0"}).to_string();
    world.home.write("ext/gemini-extension.json", &manifest).expect("written");
    world.home.write("ext/hooks/hooks.json", "{bad").expect("written");
    let done = world.run_ok(&["extensions", "install", "ext", "--consent"]);
    assert!(done.err().contains("hooks.json"), "{}", done.err());
    let installed = world.home.parallax().join("extensions/ext");
    std::fs::write(installed.join("gemini-extension.json"), "{").expect("written");
    for name in ["..", ".staging", "extensions/ext", "nosuch"] {
        assert_ne!(world.run(&["extensions", "uninstall", name]).code(), 0, "{name}");
    }
    assert!(installed.exists());
    world.run_ok(&["extensions", "uninstall", "ext"]);
    assert!(!installed.exists());
    world.run_ok(&["extensions", "install", "ext", "--consent"]);
    assert!(installed.exists());
}

#[test]
fn extension_with_a_missing_file_or_a_misspelled_key_is_not_valid() {
    let world = World::new(ANSWER);
    for (name, fields, code, what) in [
        ("a", r#""contextFileName": "gone.md""#, 1, "gone.md"),
        ("b", r#""mcp_servers": {}"#, 1, "did you mean `mcpServers`?"),
        ("c", r#""exclude_tools": []"#, 1, "did you mean `excludeTools`?"),
        ("g", r#""mcpServers": {"s": {"command": "x", "enviroment": {}}}"#, 0, "enviroment"),
        ("j", r#""mcpServers": {"s": {"cmd": "x"}}"#, 1, "neither `command` nor `url`"),
        ("k", r#""mcpServers": {"s": {"httpUrl": "http://localhost:1"}}"#, 0, "is valid"),
        ("h", r#""settings": [{"name": "K", "envvar": "K"}]"#, 1, "did you mean `envVar`?"),
        ("i", r#""contextFileName": ".""#, 1, "is a directory"),
        ("d", r#""author": "x", "colour": 1"#, 0, "unknown key `colour`"),
        ("e", r#""contextFileName": "docs${/}a.md""#, 0, "docs/a.md"),
        (
            "f",
            r#""contextFileName": ["${extensionPath}${pathSeparator}docs/a.md"]"#,
            0,
            "docs/a.md",
        ),
    ] {
        let manifest = format!(r#"{{"name": "{name}", "version": "1.0.0", {fields}}}"#);
        world.home.write(&format!("{name}/gemini-extension.json"), &manifest).expect("written");
        world.home.write(&format!("{name}/docs/a.md"), "rules").expect("written");
        let output = world.run(&["extensions", "validate", name]);
        let all = format!("{}{}", output.stdout(), output.err());
        assert_eq!(output.code(), code, "{fields}: {all}");
        assert!(all.contains(what), "{fields}: {all}");
    }
}

#[test]
fn first_request_of_an_empty_project_is_short() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    for mode in ["default", "yolo"] {
        world.run_ok(&["-p", "hi", "--approval-mode", mode]);
    }
    for request in world.server.requests() {
        assert!(request.body.len() <= 14_000, "{} bytes", request.body.len());
    }
}
