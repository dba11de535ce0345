//! Custom slash commands.

use serde_json::{Value, json};

use crate::support::{Conversation, World, wait_until};

/// Returns the text parts of the newest user content that the model received.
fn sent(world: &World) -> String {
    let requests = world.server.requests();
    let body: Value =
        serde_json::from_slice(&requests.last().expect("a request").body).expect("json");
    let contents = body["contents"].as_array().expect("contents").clone();
    let parts = contents.last().expect("a content")["parts"].as_array().expect("parts").clone();
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    texts.filter(|text| !text.starts_with("<session_context>")).collect()
}

fn create_world() -> World {
    World::new(r#"[{"text": "done", "repeat": 0}]"#)
}

fn refused(world: &World, args: &[&str]) -> String {
    let output = world.run(args);
    assert_eq!(output.code(), 42, "{}", output.err());
    assert!(world.server.requests().is_empty(), "the model was asked");
    output.err()
}

#[test]
fn custom_command_expands_to_its_prompt() {
    let world = create_world();
    let home = &world.home;
    home.write_home(".gemini/commands/git/explain.toml", "prompt = 'Explain {{args}}!'").unwrap();
    home.write_home(".gemini/commands/plain.toml", "prompt = 'Look around.'").unwrap();
    home.write(
        ".parallax/commands/fix.md",
        "---\ndescription: Fix\n---\nFix $1 in $2 ($ARGUMENTS)\n",
    )
    .unwrap();
    for (input, prompt) in [
        ("/git:explain  the $(id)  ", "Explain the $(id)!"),
        ("/plain", "Look around."),
        ("/plain here", "Look around.\n\n/plain here"),
        ("/fix 'a b' c", "Fix a b in c ('a b' c)"),
    ] {
        world.run_ok(&["-p", input]);
        assert_eq!(sent(&world), prompt);
    }
}

#[test]
fn command_file_overrides_commands_unknown_to_gemini_cli() {
    let world = create_world();
    world.home.write_home(".gemini/commands/commit.toml", "prompt = 'Mine.'").unwrap();
    world.home.write_home(".gemini/commands/diff.toml", "prompt = 'My diff.'").unwrap();
    world.run_ok(&["-p", "/commit"]);
    assert_eq!(sent(&world), "Mine.");
    world.run_ok(&["-p", "/diff"]);
    assert_eq!(sent(&world), "My diff.");
    world.run_ok(&["-p", "/parallax:commit"]);
    assert!(sent(&world).contains("push"), "{}", sent(&world));
    let output = world.run_ok(&["-p", "/commands"]);
    assert!(
        output.stdout().contains("run `/parallax:commit` for the built-in one"),
        "{}",
        output.stdout()
    );
}

#[test]
fn unknown_command_is_reported_with_suggestions_and_nothing_is_sent() {
    let world = create_world();
    world.home.write_home(".gemini/commands/git/commit.toml", "prompt = 'x'").unwrap();
    world.home.write_home(".gemini/commands/broken.toml", "prompt 'x'").unwrap();
    let told = refused(&world, &["-p", "/git:comit now"]);
    assert!(told.contains("Unknown command `/git:comit`"), "{told}");
    assert!(told.contains("`/git:commit`") && told.contains("put a space before"), "{told}");
    // Suggestions include built-in commands, but not commands that only sound similar.
    let told = refused(&world, &["-p", "/abuot"]);
    assert!(told.contains("(did you mean `/about`?)"), "{told}");
    let told = refused(&world, &["-p", "/broken"]);
    assert!(told.contains("broken.toml:1:"), "{told}");
}

#[test]
fn info_commands_work_without_a_terminal_or_a_model() {
    let world = create_world();
    world.home.write("GEMINI.md", "a rule of the project").unwrap();
    world.home.write_home(".gemini/commands/go.toml", "prompt = 'Go'").unwrap();
    for (input, word) in [
        ("/about", "gemini"),
        ("/agents list", "codebase_investigator"),
        ("/chat list", "Nothing is saved"),
        ("/commands", "/go"),
        ("/directory show", world.home.project().to_str().unwrap()),
        ("/extensions", "No extensions"),
        ("/help", "/stats"),
        ("/hooks", "No hooks"),
        ("/mcp", "No MCP servers"),
        ("/memory show", "a rule of the project"),
        ("/model", "is set"),
        ("/permissions", "trusted"),
        ("/policies list", "plan files"),
        ("/privacy", "no usage tracking"),
        ("/skills list", ""),
        ("/stats", "0 calls"),
        ("/tools desc", "read_file"),
        ("/context", "system prompt"),
        ("/todos", "has no to-do list"),
        ("/model why", "is selected"),
        ("/compress the numbers", "Nothing to compress."),
        ("/compress undo", "no compaction to undo"),
    ] {
        let output = world.run_ok(&["-p", input]);
        assert!(output.stdout().contains(word), "{input}: {}", output.stdout());
        let output = world.run_ok(&["-p", input, "-o", "json"]);
        let out: Value = serde_json::from_str(&output.stdout()).expect("json");
        assert!(out["response"].is_string() && !out["structured"].is_null(), "{input}: {out}");
    }
    let output = world.run_ok(&["-p", "/tools", "-o", "stream-json"]);
    let lines: Vec<Value> =
        output.stdout().lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    assert_eq!(lines.last().expect("lines")["status"], "success");
    assert!(
        lines.iter().any(|line| line["content"].as_str().is_some_and(|it| it.contains("glob")))
    );
    // Commands that need a terminal say so and name alternatives.
    let told = refused(&world, &["-p", "/theme"]);
    assert!(
        told.contains("works only in the interactive terminal") && told.contains("/tools"),
        "{told}"
    );
    // Built-in prompts are sent, and a custom command may override some of them.
    world.run_ok(&["-p", "/commit:no-push"]);
    assert!(sent(&world).contains("commit"), "{}", sent(&world));
    world.run_ok(&["-p", "/parallax build it"]);
    assert!(sent(&world).ends_with("build it"), "{}", sent(&world));
    world.home.write_home(".gemini/commands/undo.toml", "prompt = 'Undo all'").unwrap();
    world.run_ok(&["-p", "/undo"]);
    assert_eq!(sent(&world), "Undo all");
}

#[test]
fn resumed_session_stats_include_its_journal() {
    let world = create_world();
    world.run_ok(&["-p", "hello"]);
    let output = world.run_ok(&["-r", "latest", "-p", "/stats", "-o", "json"]);
    let out: Value = serde_json::from_str(&output.stdout()).expect("json");
    let models = out["structured"]["models"].as_object().expect("models");
    assert_eq!(
        models.values().map(|model| model["requests"].as_u64()).sum::<Option<u64>>(),
        Some(1)
    );
    assert_eq!(world.server.requests().len(), 1);
}

#[test]
fn template_shell_commands_run_escaped_and_failures_are_reported() {
    let world = create_world();
    let template = r#"prompt = """
A: !{echo {{args}}}
B: !{ echo out; echo err >&2; exit 3 }
C: !{}
""""#;
    world.home.write_home(".gemini/commands/run.toml", template).unwrap();
    world.run_ok(&["-y", "-p", "/run one; touch made 'two'"]);
    assert_eq!(
        sent(&world),
        "A: one; touch made 'two'\nB: out\nerr\n[Shell command 'echo out; echo err >&2; exit 3' \
         exited with code 3]\nC: \n"
    );
    assert!(!world.home.project().join("made").exists());
}

#[test]
fn shell_command_without_a_user_to_approve_is_denied() {
    let world = create_world();
    world.home.write_home(".gemini/commands/w.toml", "prompt = '!{touch made}'").unwrap();
    world.home.write_home(".gemini/commands/r.toml", "prompt = 'now: !{echo hi}'").unwrap();
    let told = refused(&world, &["-p", "/w"]);
    assert!(told.contains("`touch made`") && told.contains("was denied"), "{told}");
    assert!(!world.home.project().join("made").exists());
    // A read-only shell command runs, and a rule allows the other one.
    world.run_ok(&["-p", "/r"]);
    assert_eq!(sent(&world), "now: hi");
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch \
                made\"\ndecision = \"allow\"\npriority = 100\n";
    world.home.write_home(".parallax/policies/touch.toml", rule).unwrap();
    world.run(&["-p", "/w x"]);
    assert!(world.home.project().join("made").exists());
}

#[test]
fn inserted_files_are_not_interpreted_as_templates() {
    let world = create_world();
    let template = "prompt = 'See @{notes.md} and @{gone.md}'";
    world.home.write_home(".gemini/commands/see.toml", template).unwrap();
    world.home.write("notes.md", "!{touch made} {{args}} @{secret}").unwrap();
    let output = world.run_ok(&["-y", "-p", "/see it"]);
    assert_eq!(sent(&world), "See !{touch made} {{args}} @{secret} and @{gone.md}\n\n/see it");
    assert!(output.err().contains("gone.md"), "{}", output.err());
    assert!(!world.home.project().join("made").exists());
    // A file outside of the workspace is rejected.
    world.home.write_home("secret.txt", "secret").unwrap();
    let template = format!("prompt = 'X @{{{}}}'", world.home.home().join("secret.txt").display());
    world.home.write_home(".gemini/commands/out.toml", &template).unwrap();
    world.run_ok(&["-p", "/out"]);
    assert!(sent(&world).starts_with("X @{/"), "{}", sent(&world));
}

#[test]
fn file_is_not_inserted_into_a_shell_command() {
    let world = create_world();
    world.home.write("a.txt", "secret").unwrap();
    world.home.write_home(".gemini/commands/cat.toml", "prompt = '!{cat @{a.txt}}'").unwrap();
    let told = refused(&world, &["-y", "-p", "/cat"]);
    assert!(told.contains("`@{a.txt}` is in a shell command"), "{told}");
    // Such braces in git syntax do not name a file.
    let template = "prompt = '!{echo HEAD@{1} @{u}}'";
    world.home.write_home(".gemini/commands/git.toml", template).unwrap();
    world.run_ok(&["-y", "-p", "/git"]);
    assert_eq!(sent(&world), "HEAD@{1} @{u}");
}

#[test]
fn project_command_wins_over_user_command_only_when_trusted() {
    let world = create_world();
    world.home.write_home(".gemini/commands/go.toml", "prompt = 'user'").unwrap();
    world.home.write(".gemini/commands/go.toml", "prompt = 'project'").unwrap();
    for (input, prompt) in [("/go", "project"), ("/user.go", "user"), ("/workspace.go", "project")]
    {
        world.run_ok(&["-p", input]);
        assert_eq!(sent(&world), prompt);
    }
}

#[test]
fn commands_are_accepted_as_json_lines() {
    let world = create_world();
    world.home.write_home(".gemini/commands/go.toml", "prompt = 'Go {{args}}'").unwrap();
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("/nowhere");
    assert!(conversation.next("error").to_string().contains("Unknown command"));
    conversation.prompt("/go on");
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(sent(&world), "Go on");
    conversation.send(&json!({"type": "command", "text": "/go away"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(sent(&world), "Go away");
    assert_eq!(conversation.end(), Some(0));
}

#[test]
fn command_selects_its_model_and_tools() {
    let call = |command: &str| {
        let args = serde_json::json!({"command": command});
        serde_json::json!({"calls": [{"name": "run_shell_command", "args": args}]})
    };
    let script = |command: &str| {
        serde_json::json!([call(command), {"text": "done"}, call(command), {"text": "done"}])
            .to_string()
    };
    let touch = "touch made";
    let world = World::new(&script(touch));
    let command = "---\nmodel: gemini-2.5-flash\nallowed-tools: Bash(touch:*)\n---\nDo it.\n";
    world.home.write_home(".gemini/commands/go.md", command).unwrap();
    assert_eq!(
        world.run_ok(&["commands", "check"]).stdout(),
        "1 command(s) checked, no problems found\n"
    );
    world.run_ok(&["-p", "/go"]);
    assert!(world.home.project().join("made").exists(), "the command lets it through");
    let path = world.server.requests()[0].path.clone();
    assert!(path.contains("gemini-2.5-flash:"), "{path}");
    // The override applies only to this prompt.
    std::fs::remove_file(world.home.project().join("made")).unwrap();
    world.run_ok(&["-p", "go"]);
    assert!(!world.home.project().join("made").exists());
    assert!(!world.server.requests()[2].path.contains("gemini-2.5-flash:"));

    // A project command cannot allow anything.
    let world = World::new(&script(touch));
    world.home.write(".gemini/commands/go.md", command).unwrap();
    let output = world.run_ok(&["-p", "/go"]);
    assert!(output.err().contains("only in your own commands"), "{}", output.err());
    assert!(!world.home.project().join("made").exists());

    // `tools` allows only the listed tools.
    let world = World::new(&script(touch));
    let command = "prompt = 'x'\ntools = ['read_file', 'glob']\n";
    world.home.write_home(".gemini/commands/go.toml", command).unwrap();
    world.run_ok(&["-y", "-p", "/go"]);
    let declared = |index: usize| {
        let body: serde_json::Value =
            serde_json::from_slice(&world.server.requests()[index].body).expect("json");
        let tools = body["tools"][0]["functionDeclarations"].as_array().expect("tools").clone();
        (tools.len(), body["contents"].to_string())
    };
    assert_eq!(declared(0).0, 2);
    assert!(declared(1).1.contains("does not enable `run_shell_command`"), "{}", declared(1).1);
    assert!(!world.home.project().join("made").exists());
    world.run_ok(&["-y", "-p", "go"]);
    assert!(declared(2).0 > 5);
}

#[test]
fn allowed_tools_of_a_command_end_with_its_turn() {
    let touch = |file: &str| {
        let args = serde_json::json!({"command": format!("touch {file}")});
        serde_json::json!({"calls": [{"name": "run_shell_command", "args": args}]})
    };
    let done = serde_json::json!({"text": "done"});
    let script = serde_json::json!([touch("one"), done, touch("two"), done, touch("three"), done]);
    let world = World::new(&script.to_string());
    let command = "---\nallowed-tools: Bash(touch:*)\n---\nDo it.\n";
    world.home.write_home(".gemini/commands/go.md", command).unwrap();
    let mut session = Conversation::start(&world, &[]);
    session.prompt("/go");
    session.next("result");
    assert!(world.home.project().join("one").exists(), "the command lets it through");
    // In the same session, by the same policy engine.
    session.prompt("again");
    let id = session.next("ask")["id"].clone();
    session.send(&serde_json::json!({"type": "decide", "id": id, "outcome": "proceed_always"}));
    session.next("result");
    assert!(world.home.project().join("two").exists());
    // Approval for the session, on the other hand, stays.
    session.prompt("and again");
    session.next("result");
    assert!(world.home.project().join("three").exists());
    assert_eq!(session.end(), Some(0));
}

#[test]
fn command_sets_the_mode_and_time_limit_of_its_turn() {
    let write = serde_json::json!({"calls": [{"name": "write_file",
        "args": {"file_path": "made", "content": "x"}}]});
    let script = serde_json::json!([write, {"text": "done"}, write, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let edit = "---\nmode: auto_edit\n---\nDo it.\n";
    world.home.write_home(".gemini/commands/edit.md", edit).unwrap();
    world.run_ok(&["-p", "/edit"]);
    assert!(world.home.project().join("made").exists(), "the mode lets it through");
    std::fs::remove_file(world.home.project().join("made")).unwrap();
    world.run_ok(&["-p", "edit"]);
    assert!(!world.home.project().join("made").exists(), "it held for the one prompt");

    // A project command cannot loosen the approval mode.
    let world = World::new(&script.to_string());
    world.home.write(".gemini/commands/edit.md", edit).unwrap();
    let output = world.run_ok(&["-p", "/edit"]);
    assert!(output.err().contains("`mode = auto_edit` is ignored"), "{}", output.err());
    assert!(!world.home.project().join("made").exists());

    // The timeout ends the turn, and also shell commands before it.
    let sleep = serde_json::json!([{"calls": [{"name": "run_shell_command",
        "args": {"command": "sleep 60"}}]}]);
    let world = World::new(&sleep.to_string());
    world.home.write_home(".gemini/commands/s.toml", "prompt = 'x'\ntimeout = 1").unwrap();
    let slow = "prompt = '!{sleep 61}'\ntimeout = '1s'";
    world.home.write_home(".gemini/commands/t.toml", slow).unwrap();
    let output = world.run(&["-y", "-p", "/s"]);
    assert_eq!(output.code(), 57, "{}", output.err());
    let output = world.run(&["-y", "-p", "/t"]);
    assert!(output.err().contains("was stopped after 1 s"), "{}", output.err());
    assert_eq!(world.server.requests().len(), 1);
}

#[test]
fn timeout_and_signals_end_template_shell_commands() {
    let world = create_world();
    let home = &world.home;
    home.write_home(".gemini/commands/sl.toml", "prompt = '!{sh -c \"sleep 3371; :\" }'").unwrap();
    let sleeps = || {
        let is_it = |line: Vec<u8>| line.starts_with(b"sleep\x003371\0");
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok()).any(is_it)
    };
    let output = world.run(&["-y", "--timeout", "1", "-p", "/sl"]);
    assert!(
        output.err().contains("The budget of this session (1 s) is used up"),
        "{}",
        output.err()
    );
    assert_eq!(world.server.requests().len(), 0);
    wait_until("the end of the command", || !sleeps());
    for (signal, code) in
        [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)]
    {
        let running = world.start(&["-y", "-p", "/sl"]);
        wait_until("the command's start", sleeps);
        rustix::process::kill_process(running.pid(), signal).expect("signal");
        let output = running.finish(std::time::Duration::from_secs(10)).expect("finish");
        assert_eq!(output.code(), code, "{}", output.err());
        wait_until("the end of the command", || !sleeps());
    }
}

#[test]
fn commands_can_call_commands() {
    let world = create_world();
    for (name, text) in [
        ("a", "A /{b {{args}}} and /{none x} GET /users/{id}"),
        ("b", "B<{{args}}> !{echo {{args}}}/{c}"),
        ("c", "C"),
        ("loop", "/{pool}"),
        ("pool", "/{loop}"),
    ] {
        let text = format!("prompt = '{text}'");
        world.home.write_home(&format!(".gemini/commands/{name}.toml"), &text).unwrap();
    }
    let told = refused(&world, &["-p", "/loop"]);
    assert!(told.contains("`/loop` → `/pool` → `/loop`"), "{told}");
    let output = world.run_ok(&["-y", "-p", "/a one; two"]);
    assert_eq!(sent(&world), "A B<one; two> one; two/{c} and /{none x} GET /users/{id}");
    assert!(output.err().contains("unknown command `/none`"), "{}", output.err());
}

#[test]
fn invalid_template_is_reported_with_its_position() {
    let world = World::new("[]");
    let broken = "description = 'x'\nprompt = \"\"\"\none\nout: !{echo hi \"\"\"\n";
    world.home.write_home(".gemini/commands/open.toml", broken).unwrap();
    let checked = world.run(&["commands", "check"]);
    assert_eq!(checked.code(), 1);
    assert!(checked.stdout().contains("open.toml:4:6: unclosed injection"), "{}", checked.stdout());
}
