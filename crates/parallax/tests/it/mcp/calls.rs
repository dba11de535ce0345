//! Tool calls of MCP servers and their results.

use serde_json::{Value, json};

use super::{answer, call, declared, received_messages, request, set, stdio, with_server};
use crate::support::{Conversation, World};

#[test]
fn model_calls_an_mcp_tool() {
    let world = with_server(&call("echo", &json!({"text": "hi", "wait_for_previous": true})), "");
    world.run_ok(&["-y", "-p", "go"]);
    assert!(declared(&world, 0).contains(&"mcp_test_echo".to_owned()));
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    assert!(output.contains("<untrusted_context>\necho: hi\n"), "{output}");
    let first = request(&world, 0).to_string();
    assert!(first.contains("Be kind to the test server."), "its instructions");
    let calls: Vec<Value> =
        received_messages(&world).into_iter().filter(|it| it["method"] == "tools/call").collect();
    assert_eq!(calls[0]["params"]["arguments"], json!({"text": "hi"}), "our own flag stays here");

    // The tools are cached: the next session declares them before the server is ready.
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    std::fs::remove_file(world.home.root().join("log")).expect("the log");
    world.run_ok(&["-y", "-p", "go"]);
    assert!(declared(&world, 0).contains(&"mcp_test_echo".to_owned()));
    assert!(received_messages(&world).is_empty(), "nobody called it, so it was not started");
}

#[test]
fn later_of_two_tools_with_one_name_is_called() {
    let world = with_server(&call("echo", &json!({"text": "hi"})), "twice");
    world.run_ok(&["-y", "-p", "go"]);
    assert_eq!(declared(&world, 0).iter().filter(|it| *it == "mcp_test_echo").count(), 1);
    assert!(request(&world, 0).to_string().contains("The later one."));
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(output.contains("echo: hi"), "{output}");
}

#[test]
fn stray_responses_affect_no_call_and_line_floods_end_the_server() {
    let world = with_server(&call("echo", &json!({"text": "hi"})), "stray,noise");
    let done = world.run_ok(&["-y", "-p", "go"]);
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(output.contains("echo: hi"), "{output}");
    let notice = "are not MCP messages and were skipped";
    assert_eq!(done.err().matches(notice).count(), 1, "{}", done.err());

    let world = with_server(&call("echo", &json!({"text": "hi"})), "chatty");
    world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(error.contains("floods its standard output"), "{error}");
}

#[test]
fn tool_list_of_a_large_server_is_cached_for_the_next_session() {
    let world = with_server(r#"[{"text": "done"}]"#, "many");
    let output = world.run_ok(&["-y", "-p", "go"]);
    assert!(
        output.err().contains("more than 2,000 entries; 2000 of them are used"),
        "{}",
        output.err()
    );
    assert_eq!(declared(&world, 0).iter().filter(|it| *it == "mcp_search_tools").count(), 1);
    let kept = std::fs::read_dir(world.home.parallax().join("mcp-cache")).expect("the cache");
    let kept: Vec<String> =
        kept.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    assert!(kept.len() == 1 && kept[0].ends_with(".json"), "{kept:?}");
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    std::fs::remove_file(world.home.root().join("log")).expect("the log");
    world.run_ok(&["-y", "-p", "go"]);
    assert!(declared(&world, 0).contains(&"mcp_search_tools".to_owned()));
    assert!(received_messages(&world).is_empty(), "nobody called it, so it was not started");
}

#[test]
fn unapproved_server_call_does_not_run() {
    let world = with_server(&call("env", &json!({})), "");
    world.run_ok(&["-p", "go"]);
    assert!(answer(&world, 1)["error"].as_str().is_some_and(|error| error.contains("denied")));
    assert!(!received_messages(&world).iter().any(|it| it["method"] == "tools/call"));
}

#[test]
fn trusted_server_needs_no_approval_and_gets_no_secrets() {
    let world = World::new(&call("env", &json!({})));
    let mut server = stdio(&world, "");
    server["trust"] = json!(true);
    server["env"] =
        json!({"OPEN": "$SECRET_TOKEN", "NODE_OPTIONS": "--x", "UNSET": "a${NO_SUCH}b"});
    set(&world, &json!({"mcpServers": {"test": server}}));
    let mut command = world.command(&["-p", "go"]);
    command.env("SECRET_TOKEN", "s3cret-value").env("PLAIN", "seen");
    let done = crate::support::finish(command);
    assert_eq!(done.code(), 0);
    assert!(done.err().contains("it receives the variable `NODE_OPTIONS`"), "{}", done.err());
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    let json = output.lines().nth(1).expect("the text");
    let variables: Value = serde_json::from_str(json).expect("variables");
    assert_eq!(variables["OPEN"], "s3cret-value");
    assert_eq!(variables["UNSET"], "ab");
    assert_eq!(variables["PLAIN"], "seen");
    assert_eq!(variables["GEMINI_CLI"], "1");
    assert_eq!(variables.get("SECRET_TOKEN"), None);
    assert_eq!(variables.get("GEMINI_API_KEY"), None);
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    assert!(!world.run_ok(&["-p", "go"]).err().contains("NODE_OPTIONS"), "it is said once");
}

#[test]
fn project_cannot_set_preload_variables_for_servers() {
    let world = World::new(&call("env", &json!({})));
    let mut server = stdio(&world, "");
    server["env"] = json!({"PYTHONPATH": "/evil", "FINE": "1"});
    let settings = json!({"mcpServers": {"test": server}}).to_string();
    world.home.write(".gemini/settings.json", &settings).expect("settings");
    let done = world.run_ok(&["-y", "-p", "go"]);
    assert!(done.err().contains("PYTHONPATH"), "{}", done.err());
    let output = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    assert!(output.contains("\"FINE\": \"1\"") && !output.contains("/evil"), "{output}");
}

#[test]
fn crashed_server_is_reported_and_restarted() {
    let world = with_server(
        r#"[{"calls": [{"name": "mcp_test_crash", "args": {}}]},
            {"calls": [{"name": "mcp_test_echo", "args": {"text": "again"}}]},
            {"calls": [{"name": "mcp_test_crash_once", "args": {}}]}, {"text": "done"}]"#,
        "",
    );
    world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("last output:\n<untrusted_context>\nthe end is near"), "{error}");
    assert!(answer(&world, 2)["output"].as_str().is_some_and(|it| it.contains("echo: again")));
    let repeated = answer(&world, 3);
    assert!(repeated["output"].as_str().is_some_and(|it| it.contains("second life")), "{repeated}");
}

#[test]
fn message_flood_is_reported() {
    let world = with_server(&call("flood", &json!({})), "");
    let done = world.run_ok(&["-y", "-p", "go"]);
    assert!(done.err().contains("`test` sends too many messages"), "{}", done.err());
    assert!(answer(&world, 1)["output"].as_str().is_some_and(|it| it.contains("flooded")));
}

#[test]
fn tools_beyond_the_context_share_are_found_by_search() {
    let world = World::new(
        r#"[{"calls": [{"name": "mcp_search_tools", "args": {"query": "says the text again"}}]},
            {"calls": [{"name": "mcp_test_echo", "args": {"text": "found"}}]}, {"text": "done"}]"#,
    );
    let server = stdio(&world, "heavy");
    set(&world, &json!({"mcpServers": {"test": server}, "mcp": {"toolBudget": 1}}));
    world.run_ok(&["-y", "-p", "go"]);
    let (before, after) = (declared(&world, 0), declared(&world, 1));
    assert!(before.contains(&"mcp_search_tools".to_owned()), "{before:?}");
    assert!(!before.iter().any(|name| name.starts_with("mcp_test_")), "{before:?}");
    assert!(after.contains(&"mcp_test_echo".to_owned()), "{after:?}");
    assert!(!after.contains(&"mcp_test_heavy_1".to_owned()), "{after:?}");
    assert!(answer(&world, 2)["output"].as_str().is_some_and(|it| it.contains("echo: found")));
}

#[test]
fn interrupt_sends_a_cancellation_to_the_server() {
    let world = with_server(&call("hang", &json!({})), "");
    let mut conversation = Conversation::start(&world, &["-y"]);
    conversation.prompt("go");
    conversation.next("tool_use");
    crate::support::wait_until("the call", || {
        received_messages(&world).iter().any(|it| it["params"]["name"] == "hang")
    });
    conversation.send(&json!({"type": "interrupt"}));
    conversation.next("result");
    conversation.end();
    let cancelled =
        received_messages(&world).into_iter().find(|it| it["method"] == "notifications/cancelled");
    assert!(cancelled.is_some(), "the server was not told");
}

#[test]
fn changed_tool_list_is_declared_in_the_same_turn() {
    let world = with_server(
        r#"[{"calls": [{"name": "mcp_test_bump", "args": {}}]},
            {"calls": [{"name": "run_shell_command", "args": {"command": "sleep 1.5"}}]},
            {"calls": [{"name": "mcp_test_extra", "args": {}}]}, {"text": "done"}]"#,
        "",
    );
    world.run_ok(&["-y", "-p", "go"]);
    assert!(!declared(&world, 0).contains(&"mcp_test_extra".to_owned()));
    assert!(declared(&world, 2).contains(&"mcp_test_extra".to_owned()));
    let lists = received_messages(&world).iter().filter(|it| it["method"] == "tools/list").count();
    assert!(lists <= 4, "a burst is one change: {lists}");
}

#[test]
fn mcp_messages_are_logged_without_secrets() {
    let world = World::new(&call("echo", &json!({"text": "it is s3cret-value"})));
    let mut server = stdio(&world, "");
    server["env"] = json!({"ITS_KEY": "s3cret-value"});
    set(&world, &json!({"mcpServers": {"test": server}}));
    world.run_ok(&["-y", "--debug", "-p", "go"]);
    let logs = std::fs::read_dir(world.home.parallax().join("logs")).expect("logs");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.expect("an entry").path()).expect("a log")
    };
    let log: String = logs.map(read).collect();
    let sent = log.lines().find(|line| line.contains("\"tools/call\"")).expect("the call");
    assert!(sent.contains("test <- ") && sent.contains("it is [hidden]"), "{sent}");
    let wire: Vec<&str> = log.lines().filter(|line| line.contains("parallax_mcp::wire")).collect();
    assert!(wire.iter().any(|line| line.contains("test -> ")), "{log}");
    assert!(!wire.iter().any(|line| line.contains("s3cret")), "{log}");
}

/// Whether the tool of the project's server `name` ran in a headless run.
fn project_tool_runs(name: &str, project: &Value, rules: &str, flags: &[&str]) -> bool {
    let tool = format!("mcp_{}_echo", name.replace(' ', "_"));
    let script = json!([
        {"calls": [{"name": tool, "args": {"text": "x"}}]}, {"text": "done"}
    ]);
    let world = World::new(&script.to_string());
    let mut settings = project.clone();
    settings["mcpServers"][name] = super::stdio(&world, "");
    world.home.write(".gemini/settings.json", &settings.to_string()).expect("file");
    world.home.write_home(".parallax/policies/mine.toml", rules).expect("file");
    let args: Vec<&str> = [flags, &["-p", "go"]].concat();
    let done = world.run_ok(&args);
    let answer = answer(&world, 1);
    assert!(answer["output"].is_string() || answer["error"].is_string(), "{answer} {}", done.err());
    answer["output"].is_string()
}

#[test]
fn project_cannot_approve_its_own_servers() {
    let named = json!({"mcp": {"allowed": ["ev"]}});
    assert!(!project_tool_runs("ev", &named, "", &[]));
    assert!(project_tool_runs("ev", &named, "", &["--allowed-mcp-server-names", "ev"]));
    // A rule for the server `u` applies to no other server, whatever its name.
    let rules = "[[rule]]\ntoolName = \"mcp_u_*\"\ndecision = \"allow\"\npriority = 100\n";
    for (name, runs) in [("u", true), ("u_x", false), ("u ", false)] {
        assert_eq!(project_tool_runs(name, &json!({}), rules, &[]), runs, "{name:?}");
    }
    assert!(!project_tool_runs("u_x", &json!({}), "", &["--allowed-tools", "mcp_u_*"]));
}

#[test]
fn project_changes_by_a_server_are_undone() {
    let world = World::new(&super::call("put", &json!({"path": "kept.txt", "text": "theirs"})));
    set(&world, &json!({"mcpServers": {"test": super::stdio(&world, "puts")}}));
    let kept = world.home.write("kept.txt", "mine").expect("file");
    world.run_ok(&["-y", "-p", "go"]);
    assert_eq!(std::fs::read_to_string(&kept).expect("file"), "theirs");
    let output = world.run(&["undo"]);
    assert_eq!(output.code(), 0, "{}{}", output.stdout(), output.err());
    assert_eq!(std::fs::read_to_string(&kept).expect("file"), "mine");
}
