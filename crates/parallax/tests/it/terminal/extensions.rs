//! Managing extensions, commands, skills, and MCP servers in the terminal.

use serde_json::{Value, json};
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::mcp::{set, stdio};
use crate::support::{World, wait_until};

fn start_terminal(world: World) -> TerminalDriver {
    TerminalDriver::start_in(world, &StartOptions::sized(110, 40))
}

/// Starts a session with a trusted, connected server and an empty composer.
fn start_with_server(script: &str, mode: &str) -> TerminalDriver {
    let world = World::new(script);
    let mut server = stdio(&world, mode);
    server["trust"] = json!(true);
    set(&world, &json!({"mcpServers": {"test": server}}));
    let seat = start_terminal(world);
    seat.type_text("/greet");
    seat.wait_for_text("Greets.");
    seat.press(Key::Esc);
    seat.press(Key::Ctrl('u'));
    seat
}

#[test]
fn mcp_servers_are_shown_toggled_and_usable() {
    let world = World::new(r#"[{"text": "greeted"}, {"text": "noted well"}]"#);
    let missing = json!({"command": "no-such-program"});
    set(&world, &json!({"mcpServers": {"test": stdio(&world, ""), "gone": missing}}));
    let seat = start_terminal(world);
    // The server is connected when its prompt is listed.
    seat.type_text("/greet");
    seat.wait_for_text("Greets.");
    seat.press(Key::Esc);
    seat.press(Key::Ctrl('u'));
    seat.prompts("/mcp");
    seat.has_seen("✓ test · ready");
    seat.has_seen("✕ gone · disconnected");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/mcp desc");
    seat.has_seen("a note");
    seat.prompts("/mcp schema");
    seat.has_seen("\"properties\"");
    seat.prompts("/greet-me Ada");
    seat.has_seen("greeted");
    seat.is_idle();
    seat.type_text("what is in @test:no");
    seat.wait_for_text("test:note://1");
    seat.press(Key::Tab);
    seat.wait_for_text("@test:note://1");
    seat.press(Key::Enter);
    seat.has_seen("noted well");
    seat.is_idle();
    let body = |number: usize| {
        String::from_utf8_lossy(&seat.world.server.requests()[number].body).into_owned()
    };
    assert!(body(0).contains("Ada"), "the prompt of the server was sent");
    assert!(body(1).contains("Content from @test:note://1"), "the resource was sent");
    seat.prompts("/mcp disable test --session");
    seat.has_seen("`test` disabled for this session");
    seat.prompts("/mcp list");
    seat.has_seen("○ test · disabled");
    seat.prompts("/mcp enable test --session");
    seat.has_seen("`test` enabled for this session");
    assert!(!seat.world.home.parallax().join("mcp-server-enablement.json").exists());
    seat.prompts("/mcp enable nothing");
    seat.has_seen("unknown MCP server `nothing`");
}

#[test]
fn added_directory_requires_approval_and_is_sent_to_servers() {
    // Trust in the project does not cover others.
    let world = World::new(
        r#"[{"calls": [{"name": "mcp_test_roots", "args": {}}]},
        {"text": "looked"}]"#,
    );
    let mut server = stdio(&world, "roots");
    server["trust"] = json!(true);
    set(&world, &json!({"mcpServers": {"test": server}}));
    let log = world.home.root().join("log");
    let other = tempfile::tempdir().expect("folder");
    let path = other.path().canonicalize().expect("path");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(110, 40).arguments(&["-y"]));
    seat.type_text("/greet");
    seat.wait_for_text("Greets.");
    seat.press(Key::Esc);
    seat.press(Key::Ctrl('u'));
    seat.prompts(&format!("/directory add {}", path.display()));
    seat.wait_for_text("Do you want to trust this folder");
    seat.press(Key::Char('1'));
    seat.has_seen("Added");
    let report = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("the server to be told", || report().contains("notifications/roots/list_changed"));
    seat.prompts("look");
    seat.has_seen("looked");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let body = &seat.world.server.requests()[1].body;
    assert!(String::from_utf8_lossy(body).contains(&name), "the server sees it");
}

#[test]
fn skills_are_reloaded_in_the_open_session() {
    let seat = start_terminal(World::new(r#"[{"text": "hello"}, {"text": "heard"}]"#));
    seat.prompts("hi");
    seat.has_seen("hello");
    seat.is_idle();
    let file = ".agents/skills/review/SKILL.md";
    let text = "---\nname: review\ndescription: When code is reviewed\n---\n";
    seat.world.home.write_home(file, text).unwrap();
    seat.prompts("/skills reload");
    seat.has_seen("2 skills are enabled.");
    seat.has_seen("Skills: new `review`");
    // The skill is offered to the user and described to the model.
    seat.type_text("/revi");
    seat.wait_for_text("When code is reviewed");
    seat.press(Key::Esc);
    seat.press(Key::Ctrl('u'));
    seat.prompts("hear me");
    seat.has_seen("heard");
    let body = String::from_utf8_lossy(&seat.world.server.requests()[1].body).into_owned();
    assert!(body.contains("<name>review</name>"));
}

#[test]
fn skills_hooks_and_commands_are_listed_and_toggled() {
    let world = World::new(r#"[{"text": "hello"}, {"text": "short"}]"#);
    let home = &world.home;
    home.write_home(
        ".agents/skills/review/SKILL.md",
        "---\nname: review\ndescription: When code is reviewed\n---\n",
    )
    .unwrap();
    home.write_home(".gemini/commands/git/fix.toml", "description = 'Fix it'\nprompt = 'fix'\n")
        .unwrap();
    let hook = json!({"command": "cat >> heard", "name": "listener"});
    let compress = json!({"command": "cat >> \"$HOME/compressed\"", "name": "squeeze"});
    let settings = json!({"hooks": {
        "SessionStart": [{"hooks": [hook]}], "PreCompress": [{"hooks": [compress]}]
    }});
    home.write_home(".gemini/settings.json", &settings.to_string()).unwrap();
    let seat = start_terminal(world);
    seat.prompts("/skills");
    seat.has_seen("When code is reviewed");
    seat.wait_for_text("user · on");
    seat.press(Key::Enter);
    seat.wait_for_text("user · off");
    seat.press(Key::Enter);
    seat.wait_for_text("user · on");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/skills disable review");
    // The session is reopened, and the message stays visible.
    seat.wait_for_text(COMPOSER);
    seat.wait_for_text("Skill `review` disabled.");
    seat.prompts("/skills list");
    seat.has_seen("Disabled: `review` (`/skills enable NAME`)");
    seat.prompts("/skills disable nope");
    seat.has_seen("unknown skill `nope`; available skills: review");
    seat.prompts("/skills list all");
    seat.has_seen("review (user, disabled)");
    seat.prompts("/commands");
    seat.has_seen("/git:fix Fix it");
    seat.prompts("hi");
    seat.has_seen("hello");
    seat.is_idle();
    seat.prompts("/compress");
    let compressed = seat.world.home.home().join("compressed");
    wait_until("the hook before a compression", || {
        std::fs::read_to_string(&compressed).is_ok_and(|text| text.contains("PreCompress"))
    });
    seat.has_seen("Nothing to compress.");
    seat.is_idle();
    seat.prompts("/hooks");
    seat.wait_for_text("listener");
    seat.wait_for_text("SessionStart · user · on");
    seat.press(Key::Enter);
    seat.wait_for_text("SessionStart · user · off");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/hooks enable-all");
    seat.has_seen("Hooks enabled: `listener`");
    seat.wait_for_text(COMPOSER);
    // The state is already correct, so there is no message.
    seat.prompts("/skills enable review");
    seat.has_seen("Skill `review` enabled.");
    seat.wait_for_text(COMPOSER);
    let output = seat.lines().iter().filter(|line| line.trim_end() == "> hi").count();
    assert_eq!(output, 1, "{:#?}", seat.lines());
}

#[test]
fn cleared_session_fires_hooks() {
    let world = World::new("[]");
    let hook = json!([{"hooks": [{"command": "cat >> \"$HOME/heard\"", "name": "listener"}]}]);
    let settings = json!({"hooks": {"SessionStart": hook, "SessionEnd": hook}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).unwrap();
    let seat = start_terminal(world);
    let heard = seat.world.home.home().join("heard");
    let events = || -> Vec<String> {
        let text = std::fs::read_to_string(&heard).unwrap_or_default();
        let calls = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        calls
            .filter_map(|call| {
                call["source"].as_str().or(call["reason"].as_str()).map(str::to_owned)
            })
            .collect()
    };
    wait_until("the start", || events() == ["startup"]);
    seat.prompts("/clear");
    wait_until("the end and the start of another", || events() == ["startup", "clear", "clear"]);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/quit");
    seat.ends();
    assert_eq!(events(), ["startup", "clear", "clear", "exit"]);
}

#[test]
fn session_end_hooks_are_shown_and_can_be_skipped() {
    let world = World::new("[]");
    let hook = json!([{"hooks": [{"command": "sleep 60", "name": "slow"}]}]);
    let settings = json!({"hooks": {"SessionEnd": hook}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).unwrap();
    let seat = start_terminal(world);
    seat.prompts("/quit");
    seat.has_seen("Press Ctrl+C to exit without waiting");
    let started_at = std::time::Instant::now();
    seat.press(Key::Ctrl('c'));
    seat.ends();
    assert!(started_at.elapsed().as_secs() < 8, "{:?}", started_at.elapsed());
}

#[test]
fn prompt_cancelled_during_start_hooks_is_restored() {
    let world = World::new("[]");
    let hook = json!([{"hooks": [{"command": "sleep 60", "name": "slow"}]}]);
    let settings = json!({"hooks": {"SessionStart": hook}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).unwrap();
    let mut seat = start_terminal(world);
    seat.prompts("look at it");
    seat.wait_for_text("Sent:");
    seat.prompts("/quit");
    seat.ends();
    let lines = seat.lines();
    assert!(lines.iter().any(|line| line.trim_end() == "  look at it"), "{lines:#?}");
    // There is nothing to resume, so no hint is shown.
    assert!(!lines.iter().any(|line| line.contains("To resume")), "{lines:#?}");
    seat =
        TerminalDriver::start_in(World::in_home(seat.world.home, "[]"), &StartOptions::default());
    // The input history is loaded concurrently with the first frame.
    seat.wait_until_stable();
    seat.press(Key::Up);
    seat.wait_for_text("/quit");
    seat.press(Key::Up);
    seat.wait_for_text("look at it");
}

#[test]
fn extension_gallery_is_opened() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new("[]");
    let home = world.home.home();
    let opener = "#!/bin/sh\necho \"$1\" > \"$HOME/opened\"\n";
    for name in ["bin/xdg-open", "bin/open"] {
        world.home.write_home(name, opener).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(home.join(name), mode).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
    let seat =
        TerminalDriver::start_in(world, &StartOptions::sized(110, 40).with_variable("PATH", &path));
    seat.prompts("/extensions explore");
    seat.has_seen("Extension gallery: https://");
    wait_until("the browser", || {
        std::fs::read_to_string(home.join("opened")).is_ok_and(|it| it.starts_with("https://"))
    });
}

#[test]
fn extension_is_active_immediately_after_consent() {
    let world = World::new("[]");
    let folder = world.home.project().join("mine");
    crate::extensions::copy(&crate::extensions::published("dusk"), &folder);
    let seat = start_terminal(world);
    seat.prompts("/extensions install mine");
    seat.wait_for_text("Install `dusk` 0.3.1?");
    seat.wait_for_text("commands: palette:name");
    seat.press(Key::Down);
    seat.press(Key::Enter);
    seat.has_seen("`dusk` installed successfully.");
    seat.wait_for_text(COMPOSER);
    seat.type_text("/palette");
    seat.wait_for_text("Name a colour");
    seat.press(Key::Esc);
    seat.press(Key::Ctrl('u'));
    seat.prompts("/extensions");
    seat.has_seen("✓ dusk 0.3.1");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/theme");
    seat.wait_until_stable();
    seat.type_text("Dusk");
    seat.wait_for_text("Dusk (dusk)");
    seat.press(Key::Esc);
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    // The result stays visible after the session is reopened.
    seat.prompts("/extensions disable dusk");
    seat.wait_for_text("`dusk` is disabled.");
    seat.wait_for_text(COMPOSER);
    seat.wait_until_stable();
    assert!(seat.window().contains("`dusk` is disabled."), "{}", seat.window());
    seat.prompts("/extensions uninstall dusk");
    seat.has_seen("Extension `dusk` uninstalled.");
}

#[test]
fn server_progress_is_shown_while_its_tool_runs() {
    let script = r#"[
        {"calls": [{"name": "mcp_test_slow", "args": {"steps": 400, "pause": 0.02}}]},
        {"text": "that is all"}
    ]"#;
    let seat = start_with_server(script, "");
    seat.prompts("go");
    // A progress bar, the percentage, and the current step.
    seat.wait_for_text("█░░░░░░░░");
    seat.wait_for_text(" %  step ");
    seat.press(Key::Esc);
    seat.is_idle();
    seat.wait_for_text("Request cancelled");
}

#[test]
fn server_sampling_is_answered_after_approval() {
    let script = r#"[
        {"calls": [{"name": "mcp_test_sample", "args": {"text": "Which \u001b[2Jcolour?"}}]},
        {"method": "generateContent", "text": "blue, says the model"},
        {"calls": [{"name": "mcp_test_sample", "args": {}}]},
        {"method": "generateContent", "text": "green, says the model"},
        {"text": "both asked"}
    ]"#;
    let seat = start_with_server(script, "sample");
    seat.prompts("go");
    seat.wait_for_text("Request from MCP server `test` to call the model");
    seat.wait_for_text("colour?");
    seat.wait_for_text("System prompt of the server: Be brief.");
    // An escape sequence that would clear the window is shown instead of executed.
    assert!(seat.window().contains("to call the model"), "{}", seat.window());
    seat.press(Key::Down);
    seat.press(Key::Down);
    seat.press(Key::Enter);
    seat.has_seen("both asked");
    seat.is_idle();
    let bodies: Vec<String> = (seat.world.server.requests().iter())
        .map(|request| String::from_utf8_lossy(&request.body).into_owned())
        .collect();
    assert!(bodies[1].contains("Which") && bodies[1].contains("Be brief."), "{}", bodies[1]);
    assert!(!bodies[1].contains("functionDeclarations") && !bodies[1].contains("\"go\""));
    assert!(bodies[2].contains("blue, says the model"), "{}", bodies[2]);
    assert!(bodies[4].contains("green, says the model"), "asked once for the session");
}

/// Starts with a trusted, known server.
fn start_with_extension(script: &str) -> TerminalDriver {
    let seat = start_with_server(script, "ask");
    seat.wait_for_text(COMPOSER);
    seat
}

#[test]
fn server_requests_end_with_their_call() {
    let seat = start_with_extension(
        r#"[{"calls": [{"name": "mcp_test_ask_often", "args": {"wait": 1.5}}]}, {"text": "the end"}]"#,
    );
    seat.prompts("go");
    seat.wait_for_text("Request from MCP server `test`");
    // Typed text goes to the composer, and the question waits until the user stops typing.
    seat.type_text("/mcp");
    seat.wait_for_text("> /mcp");
    seat.has_seen("the end");
    seat.is_idle();
    seat.press(Key::Enter);
    seat.has_seen("✓ test · ready");
    assert!(!seat.window().contains("asks"), "{}", seat.window());
}

#[test]
fn user_can_disable_further_requests_of_a_server() {
    let seat = start_with_extension(
        r#"[{"calls": [{"name": "mcp_test_ask", "args": {}}]},
            {"calls": [{"name": "mcp_test_ask", "args": {}}]}, {"text": "the end"}]"#,
    );
    seat.prompts("go");
    seat.wait_for_text("don't ask again for this server");
    seat.press(Key::Down);
    seat.press(Key::Down);
    seat.press(Key::Enter);
    seat.has_seen("the end");
    for request in [1, 2] {
        let body = seat.world.server.requests()[request].body.to_vec();
        assert!(String::from_utf8_lossy(&body).contains("decline"));
    }
}

#[test]
fn server_form_is_validated_until_correct() {
    let seat = start_with_extension(
        r#"[{"calls": [{"name": "mcp_test_ask_much", "args": {}}]},
            {"calls": [{"name": "mcp_test_ask_url", "args": {}}]}, {"text": "the end"}]"#,
    );
    seat.prompts("go");
    seat.wait_for_text("Request from MCP server `test`");
    seat.press(Key::Enter);
    // The default is filled in, and invalid input stays in the field.
    seat.wait_for_text("test: age");
    seat.type_text("9");
    seat.press(Key::Enter);
    seat.wait_for_text("must be at most 9");
    for _ in 0..2 {
        seat.press(Key::Backspace);
    }
    seat.type_text("7");
    seat.press(Key::Enter);
    seat.wait_for_text("test: code");
    seat.type_text("aa");
    seat.press(Key::Enter);
    seat.wait_for_text("must be at least 3 characters long");
    seat.type_text("a");
    seat.press(Key::Enter);
    seat.wait_for_text("[ ] red");
    seat.press(Key::Down);
    seat.press(Key::Enter);
    seat.wait_for_text("[x] green");
    seat.press(Key::Down);
    seat.press(Key::Enter);
    seat.has_seen("Declined a request");
    seat.has_seen("the end");
    let body = |number: usize| {
        let body = seat.world.server.requests()[number].body.to_vec();
        String::from_utf8_lossy(&body).replace('\\', "")
    };
    assert!(
        body(1).contains(r#""content": {"age": 7, "code": "aaa", "colours": ["green"]}"#),
        "{}",
        body(1)
    );
    assert!(body(2).contains("decline"), "{}", body(2));
}

#[test]
fn server_request_receives_the_user_response() {
    let script = r#"[{"calls": [{"name": "mcp_test_ask", "args": {}}]}, {"text": "asked"}]"#;
    let seat = start_with_server(script, "ask");
    seat.prompts("go");
    seat.wait_for_text("Request from MCP server `test`");
    seat.press(Key::Enter);
    seat.wait_for_text("test: ");
    seat.type_text("Ada");
    seat.press(Key::Enter);
    seat.has_seen("asked");
    let body = seat.world.server.requests()[1].body.to_vec();
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(body.contains("Ada"), "{body}");
}

#[test]
fn hooks_of_the_project_are_accepted_in_the_session() {
    let world = World::new(r#"[{"text":"First."},{"text":"Second."}]"#);
    let hook = json!({"name": "listener", "command": "echo heard >> heard"});
    let settings = json!({"hooks": {"BeforeAgent": [{"hooks": [hook]}]}});
    world.home.write(".gemini/settings.json", &settings.to_string()).expect("settings");
    let seat = start_terminal(world);
    seat.prompts("/hooks");
    seat.wait_for_text("BeforeAgent · project · not accepted");
    seat.press(Key::Esc);
    // Hooks accepted in another process do not run here, and the list shows that.
    seat.world.run_ok(&["hooks", "accept"]);
    seat.wait_until_stable();
    seat.prompts("/hooks");
    seat.wait_for_text("accepted, not running yet");
    seat.press(Key::Esc);
    seat.wait_until_stable();
    seat.prompts("one");
    seat.wait_for_text("First.");
    seat.is_idle();
    assert_eq!(seat.world.read("heard"), "");
    seat.prompts("/hooks accept");
    seat.has_seen("Accepted 1 hook of the project");
    seat.wait_for_text(COMPOSER);
    seat.wait_until_stable();
    seat.prompts("/hooks");
    seat.wait_for_text("BeforeAgent · project · on");
    seat.press(Key::Esc);
    seat.wait_until_stable();
    seat.prompts("two");
    seat.wait_for_text("Second.");
    assert_eq!(seat.world.read("heard"), "heard\n");
}

#[test]
fn hooks_that_changed_elsewhere_are_shown_as_the_session_runs_them() {
    let world = World::new(r#"[{"text":"First."},{"text":"Second."},{"text":"Third."}]"#);
    let hook = json!({"name": "listener", "command": "sh $GEMINI_PROJECT_DIR/note.sh"});
    let settings = json!({"hooks": {"BeforeAgent": [{"hooks": [hook]}]}});
    world.home.write(".gemini/settings.json", &settings.to_string()).expect("settings");
    world.home.write("note.sh", "echo heard >> heard\n").expect("a script");
    world.run_ok(&["hooks", "accept"]);
    let seat = start_terminal(world);
    let state_is = |state: &str| {
        seat.prompts("/hooks");
        seat.wait_for_text(state);
        seat.press(Key::Esc);
        seat.wait_until_stable();
    };
    state_is("BeforeAgent · project · on");
    // Its script changes, and is accepted by another process.
    seat.world.home.write("note.sh", "echo changed >> heard\n").expect("a script");
    seat.world.run_ok(&["hooks", "accept"]);
    state_is("accepted, not running yet");
    seat.prompts("one");
    seat.wait_for_text("First.");
    seat.is_idle();
    assert_eq!(seat.world.read("heard"), "");
    seat.prompts("/hooks accept");
    seat.has_seen("Accepted 1 hook of the project");
    seat.wait_for_text(COMPOSER);
    seat.wait_until_stable();
    state_is("BeforeAgent · project · on");
    // It is removed, but the session still runs it.
    seat.world.home.write(".gemini/settings.json", "{}").expect("settings");
    state_is("removed; this session still runs it");
    seat.prompts("two");
    seat.wait_for_text("Second.");
    seat.is_idle();
    assert_eq!(seat.world.read("heard"), "changed\n");
    seat.prompts("/hooks accept");
    seat.has_seen("removed hooks are stopped");
    seat.wait_for_text(COMPOSER);
    seat.wait_until_stable();
    state_is("No hooks.");
    seat.prompts("three");
    seat.wait_for_text("Third.");
    seat.is_idle();
    assert_eq!(seat.world.read("heard"), "changed\n");
}
