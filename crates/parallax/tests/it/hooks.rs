//! Hooks: real shell commands that receive events.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Returns a script with one tool call and a final answer.
pub(crate) fn script(command: &str) -> String {
    let args = json!({"command": command});
    json!([
        {"calls": [{"name": "run_shell_command", "args": args}]},
        {"text": "done", "repeat": 0}
    ])
    .to_string()
}

pub(crate) fn settings(world: &World, hooks: &Value) {
    let text = json!({"hooks": hooks}).to_string();
    world.home.write_home(".gemini/settings.json", &text).unwrap();
}

/// Returns a group with one hook.
pub(crate) fn hook_group(command: &str) -> Value {
    json!([{"hooks": [{"type": "command", "name": "h", "command": command}]}])
}

pub(crate) fn requests(world: &World) -> Vec<Value> {
    let requests = world.server.requests();
    requests.iter().map(|it| serde_json::from_slice(&it.body).expect("json")).collect()
}

pub(crate) fn lines(world: &World, path: &str) -> Vec<Value> {
    let text = world.read(path);
    text.lines().map(|line| serde_json::from_str(line).expect("json")).collect()
}

#[test]
fn every_hook_event_fires_in_order() {
    let world = World::new(&script("echo hi"));
    let keep = "cat >> heard.jsonl";
    let mut hooks = serde_json::Map::new();
    for event in [
        "SessionStart",
        "SessionEnd",
        "BeforeAgent",
        "AfterAgent",
        "BeforeModel",
        "AfterModel",
        "BeforeToolSelection",
        "BeforeTool",
        "AfterTool",
    ] {
        hooks.insert(event.to_owned(), hook_group(keep));
    }
    settings(&world, &Value::Object(hooks));
    world.run_ok(&["-p", "go", "-y"]);
    let heard = lines(&world, "heard.jsonl");
    let names: Vec<&str> =
        heard.iter().map(|it| it["hook_event_name"].as_str().expect("a name")).collect();
    assert_eq!(
        names,
        [
            "SessionStart",
            "BeforeAgent",
            "BeforeModel",
            "BeforeToolSelection",
            "AfterModel",
            "BeforeTool",
            "AfterTool",
            "BeforeModel",
            "BeforeToolSelection",
            "AfterModel",
            "AfterAgent",
            "SessionEnd",
        ]
    );
    for it in &heard {
        for field in ["session_id", "transcript_path", "cwd", "timestamp"] {
            assert!(it[field].is_string(), "{it}");
        }
    }
    assert_eq!(heard[0]["source"], "startup");
    assert_eq!(heard[1]["prompt"], "go");
    // One entry for each content with a text, without the system prompt.
    let messages = heard[2]["llm_request"]["messages"].as_array().expect("messages");
    let output = messages[0]["content"].as_str().expect("a text");
    assert!(messages.len() == 1 && output.starts_with("<session_context>"), "{messages:?}");
    assert!(output.ends_with("go"), "{output}");
    assert_eq!(heard[7]["llm_request"]["messages"].as_array().expect("messages").len(), 1);
    let time = heard[2]["timestamp"].as_str().expect("a time");
    assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    assert_eq!(heard[5]["tool_input"]["command"], "echo hi");
    assert!(heard[6]["tool_response"]["llmContent"].as_str().expect("text").contains("hi"));
    assert_eq!(heard[9]["llm_response"]["text"], "done");
    assert_eq!(heard[10]["prompt_response"], "done");
    assert_eq!(heard[11]["reason"], "exit");
}

#[test]
fn approval_request_triggers_a_notification_hook() {
    let world = World::new(&script("touch made"));
    settings(&world, &json!({"Notification": hook_group("cat > asked.json")}));
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    crate::support::wait_until("the hook", || world.read("asked.json").ends_with('\n'));
    let heard: Value = serde_json::from_str(&world.read("asked.json")).expect("json");
    assert_eq!(heard["notification_type"], "ToolPermission");
    let details = &heard["details"];
    assert_eq!((&details["type"], &details["command"]), (&json!("exec"), &json!("touch made")));
    assert_eq!(details["rootCommand"], "touch");
    assert_eq!(heard["message"], "Tool Confirm Shell Command requires execution");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "cancel"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
}

#[test]
fn hook_input_matches_the_documented_format() {
    let call = |name: &str, args: Value| json!({"functionCall": {"name": name, "args": args}});
    let parts = json!([
        {"text": "First. "},
        call("write_file", json!({"file_path": "n.txt", "content": "q\n"})),
        call("list_directory", json!({"dir_path": "."})),
        call("grep_search", json!({"pattern": "q"})),
        call("read_file", json!({"file_path": "none.txt"})),
    ]);
    let replies = json!([
        {"chunks": [{"parts": parts}, {"finish": "STOP"}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&replies.to_string());
    let keep = json!([{"sequential": true, "hooks": [
        {"type": "command", "command": "cat >> heard.jsonl"}
    ]}]);
    let look = "cat > end.json; cp \"$(sed 's/.*\"transcript_path\":\"\\([^\"]*\\).*/\\1/' \
                end.json)\" t.jsonl";
    settings(&world, &json!({"AfterTool": keep, "AfterAgent": hook_group(look)}));
    world.run_ok(&["-p", "go", "-y"]);
    let heard = lines(&world, "heard.jsonl");
    let of = |tool: &str| {
        let found = heard.iter().find(|it| it["tool_name"] == tool).expect("the call");
        found["tool_response"].clone()
    };
    let edit = of("write_file")["returnDisplay"].clone();
    let head =
        format!("Index: n.txt\n{}\n--- n.txt\tOriginal\n+++ n.txt\tWritten\n@@", "=".repeat(67));
    assert!(edit["fileDiff"].as_str().expect("a diff").starts_with(&head), "{edit}");
    assert_eq!((&edit["originalContent"], &edit["newContent"]), (&json!(""), &json!("q\n")));
    assert_eq!(edit["diffStat"]["model_added_chars"], 1);
    assert_eq!((&edit["isNewFile"], &edit["isBuildFile"]), (&json!(true), &json!(false)));
    let files = of("list_directory")["returnDisplay"]["files"].to_string();
    assert!(files.contains("\"n.txt\""), "{files}");
    let found = of("grep_search")["returnDisplay"]["matches"].clone();
    let hit = found.as_array().expect("hits").iter().find(|it| it["filePath"] == "n.txt");
    assert_eq!(hit.expect("the file")["line"], "q");
    assert!(of("read_file")["llmContent"].as_str().expect("why").contains("File not found"));

    let end: Value = serde_json::from_str(&world.read("end.json")).expect("json");
    assert_eq!(end["prompt_response"], "First. \ndone");
    let transcript = lines(&world, "t.jsonl");
    assert_eq!(transcript[0]["kind"], "main");
    let typed = transcript.iter().find(|it| it["type"] == "user").expect("the prompt");
    assert_eq!(typed["content"][0]["text"], "go");
    let called = transcript.iter().rfind(|it| it["toolCalls"].is_array()).expect("an answer");
    assert_eq!((&called["type"], &called["content"]), (&json!("gemini"), &json!("First. ")));
    assert_eq!(called["toolCalls"][0]["status"], "success");
}

#[test]
fn hook_message_is_in_the_json_output_and_not_on_stderr() {
    let world = World::new(&script("exit 3"));
    let speak = r#"echo '{"systemMessage": "look here"}'"#;
    let refuse = r#"echo '{"decision": "deny", "reason": "not this"}'"#;
    settings(&world, &json!({"BeforeAgent": hook_group(speak), "BeforeTool": hook_group(refuse)}));
    let output = world.run_ok(&["-p", "go", "-y", "-o", "json"]);
    let json: Value = serde_json::from_str(&output.stdout()).expect("json");
    assert_eq!(json["warnings"], json!(["Hook system message: look here"]));
    assert_eq!(output.err(), "", "programs read standard error as one document");
    let world = World::new(&script("exit 3"));
    let halt = r#"echo '{"continue": false, "stopReason": "halt"}'"#;
    settings(&world, &json!({"BeforeModel": hook_group(halt)}));
    let output = world.run_ok(&["-p", "go", "-o", "json"]);
    let json: Value = serde_json::from_str(&output.stdout()).expect("json");
    assert_eq!(json["warnings"], json!(["Agent execution stopped: halt"]));
    for event in ["BeforeAgent", "BeforeModel"] {
        let world = World::new(&script("exit 3"));
        settings(&world, &json!({event: hook_group(refuse)}));
        let output = world.run(&["-p", "go", "-o", "json"]);
        let json: Value = serde_json::from_str(&output.stdout()).expect("json");
        assert_eq!(output.code(), 1, "{event}: no answer arrived");
        assert_eq!(json["error"]["message"], "Agent execution blocked: not this");
    }
}

#[test]
fn text_seen_by_a_hook_that_ends_the_run_is_not_shown() {
    let world = World::new(&script("echo secret-result"));
    let halt = r#"echo '{"continue": false, "stopReason": "halt"}'"#;
    settings(&world, &json!({"AfterTool": hook_group(halt)}));
    let done = world.run_ok(&["-p", "go", "-y", "-o", "stream-json"]);
    let out = done.stdout();
    let result = out.lines().find(|line| line.contains(r#""tool_result""#)).expect("a result");
    assert!(!result.contains("secret-result"), "{result}");
    assert!(result.contains(r#""output":"Agent execution stopped by hook: halt""#), "{result}");
}

#[test]
fn hooks_deny_change_and_withhold_calls() {
    let refuse = "echo 'not this' >&2; exit 2";
    let change = r#"echo '{"hookSpecificOutput": {"tool_input": {"command": "echo changed"}}}'"#;
    let withhold = r#"echo '{"decision": "block", "reason": "too much"}'"#;
    let add = r#"echo '{"hookSpecificOutput": {"additionalContext": "see <this>"}}'"#;
    for (event, hook, read) in [
        ("BeforeTool", refuse, "Tool execution blocked: not this"),
        ("BeforeTool", change, "Output: changed"),
        ("BeforeTool", change, "[System] A hook changed `command` of this call"),
        ("AfterTool", withhold, "Tool result blocked: too much"),
        ("AfterTool", add, "<hook_context>see &lt;this&gt;</hook_context>"),
        ("BeforeTool", r#"echo '{"decision": "ask"}'"#, "no user is present"),
    ] {
        let world = World::new(&script("echo hi"));
        settings(&world, &json!({event: hook_group(hook)}));
        world.run_ok(&["-p", "go", "-y"]);
        let answer = &requests(&world)[1]["contents"];
        let answer = answer.as_array().expect("contents").last().expect("one").to_string();
        assert!(answer.contains(read), "{event} {hook}: {answer}");
        assert_eq!(answer.contains("Output: hi"), hook == add, "{answer}");
    }
}

#[test]
fn hooks_deny_extend_and_continue_prompts() {
    let world = World::new(&script("echo hi"));
    settings(&world, &json!({"BeforeAgent": hook_group("echo 'no prompts' >&2; exit 2")}));
    let output = world.run(&["-p", "go"]);
    assert!(world.server.requests().is_empty());
    assert!(output.err().contains("no prompts"), "{}", output.err());
    assert_eq!(output.code(), 1);

    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let context = |text: &str| {
        hook_group(&format!(
            r#"echo '{{"hookSpecificOutput": {{"additionalContext": "{text}"}}}}'"#
        ))
    };
    // Blocks only once: the second input says that a hook continued the turn.
    let again = r#"grep -q '"stop_hook_active":true' || echo '{"decision": "block", "reason": "also this"}'"#;
    settings(
        &world,
        &json!({"SessionStart": context("from start"), "BeforeAgent": context("from prompt"), "AfterAgent": hook_group(again)}),
    );
    world.run_ok(&["-p", "go"]);
    let requests = requests(&world);
    assert_eq!(requests.len(), 2);
    let first = requests[0]["contents"].to_string();
    assert!(first.contains("from start") && first.contains("from prompt"), "{first}");
    let prompt = &requests[0]["contents"][0]["parts"][1]["text"];
    assert_eq!(*prompt, "<hook_context>from start</hook_context>\n\ngo");
    let last =
        requests[1]["contents"].as_array().expect("contents").last().expect("one").to_string();
    assert!(last.contains("also this") && last.contains("from prompt"), "{last}");
    assert!(!last.contains("from start"), "{last}");
}

#[test]
fn text_of_a_hook_that_continues_the_agent_is_not_stored_as_a_prompt() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let again = r#"grep -q '"stop_hook_active":true' || { echo 'also this' >&2; exit 2; }"#;
    settings(&world, &json!({"AfterAgent": hook_group(again)}));
    world.run_ok(&["-p", "go", "--session-id", "hooked"]);
    let shown = world.run_ok(&["sessions", "show", "hooked", "--json"]).stdout();
    let shown: Value = serde_json::from_str(&shown).expect("json");
    let items = shown["items"].as_array().expect("items").clone();
    let kinds: Vec<&str> = items.iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(kinds, ["user", "text", "hook", "text"], "{shown}");
    assert_eq!((&items[2]["hooks"], &items[2]["text"]), (&json!(["h"]), &json!("also this")));
    let file = world.run_ok(&["sessions", "export", "hooked", "--format", "markdown"]).stdout();
    assert!(file.contains("## HOOK\n\nContinued by the hook `h`: also this\n"), "{file}");
    // What the model receives is the same as before.
    settings(&world, &json!({}));
    world.run_ok(&["--resume", "hooked", "-p", "more"]);
    let requests = requests(&world);
    let contents = |at: usize| requests[at]["contents"].as_array().expect("contents").clone();
    assert_eq!(contents(2)[..3], contents(1)[..3]);
    assert!(contents(1)[2].to_string().contains("also this"), "{:?}", contents(1));
}

#[test]
fn hooks_change_requests_and_responses() {
    let answer = r#"echo '{"hookSpecificOutput": {"llm_response": {"text": "mine"}}}'"#;
    let world = World::new("[]");
    settings(&world, &json!({"BeforeModel": hook_group(answer)}));
    assert_eq!(world.run_ok(&["-p", "go"]).stdout(), "mine\n");
    assert!(world.server.requests().is_empty());

    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let config =
        r#"echo '{"hookSpecificOutput": {"llm_request": {"config": {"temperature": 0.25}}}}'"#;
    let tools = r#"echo '{"hookSpecificOutput": {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file", "glob"]}}}'"#;
    settings(
        &world,
        &json!({"BeforeModel": hook_group(config), "BeforeToolSelection": hook_group(tools), "AfterModel": hook_group(answer)}),
    );
    let json: Value =
        serde_json::from_str(&world.run_ok(&["-p", "go", "-o", "json"]).stdout()).expect("json");
    assert_eq!(json["response"], "mine");
    let request = requests(&world)[0].clone();
    assert_eq!(request["generationConfig"]["temperature"], 0.25);
    // The declarations stay the same, so the provider's cache remains valid.
    let tools = request["tools"][0]["functionDeclarations"].as_array().expect("tools").clone();
    assert!(tools.len() > 5, "{tools:?}");
    let choice = &request["toolConfig"]["functionCallingConfig"];
    assert_eq!(choice["mode"], "ANY");
    assert_eq!(choice["allowedFunctionNames"], json!(["read_file", "glob"]));
}

#[test]
fn hook_tool_choice_applies_to_calls() {
    for (config, sent, runs) in [
        (r#"{"mode": "ANY", "allowedFunctionNames": ["glob"]}"#, "ANY", false),
        (r#"{"mode": "NONE"}"#, "NONE", false),
        (r#"{"allowedFunctionNames": ["glob"]}"#, "", false),
        (r#"{"mode": "ANY", "allowedFunctionNames": ["run_shell_command"]}"#, "ANY", true),
        (r#"{"mode": "ANY"}"#, "ANY", true),
        (r#"{"mode": "AUTO"}"#, "", true),
    ] {
        let world = World::new(&script("echo hi"));
        let hook = format!(r#"echo '{{"hookSpecificOutput": {{"toolConfig": {config}}}}}'"#);
        settings(&world, &json!({"BeforeToolSelection": hook_group(&hook)}));
        world.run_ok(&["-p", "go", "-y"]);
        let requests = requests(&world);
        let choice = &requests[0]["toolConfig"]["functionCallingConfig"]["mode"];
        assert_eq!(choice.as_str().unwrap_or_default(), sent, "{config}");
        let contents = requests[1]["contents"].to_string();
        assert_eq!(contents.contains("Output: hi"), runs, "{config}: {contents}");
        assert_eq!(contents.contains("A hook excluded `run_shell_command`"), !runs, "{config}");
    }
}

#[test]
fn text_is_shown_only_after_the_answer_hooks() {
    let redact = r#"echo '{"hookSpecificOutput": {"llm_response": {"text": "[redacted]"}}}'"#;
    let refuse = r#"echo '{"decision": "deny", "reason": "not this"}'"#;
    for (hook, is_shown) in [(redact, true), (refuse, false), ("echo no >&2; exit 2", false)] {
        for format in ["text", "json", "stream-json"] {
            let world = World::new(r#"[{"text": "SECRET 1234", "repeat": 0}]"#);
            settings(&world, &json!({"AfterModel": hook_group(hook)}));
            let output = world.run(&["-p", "go", "-o", format]);
            let all = format!("{}{}", output.stdout(), output.err());
            assert!(!all.contains("SECRET"), "{hook} {format}: {all}");
            assert_eq!(all.matches("[redacted]").count(), usize::from(is_shown), "{format}: {all}");
        }
    }
    // Responses that contain only calls have no text.
    let world = World::new(&script("echo hi"));
    settings(&world, &json!({"AfterModel": hook_group(redact)}));
    assert_eq!(world.run_ok(&["-p", "go", "-y"]).stdout(), "[redacted]\n");
    let second = requests(&world)[1]["contents"].to_string();
    assert!(!second.contains("[redacted]"), "{second}");
}

#[test]
fn failing_guard_ends_the_turn_where_denial_is_impossible() {
    for event in ["AfterAgent", "BeforeToolSelection"] {
        let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
        let group = json!([{"hooks": [
            {"name": "h", "command": "sleep 60", "timeout": "300ms", "failClosed": true}
        ]}]);
        settings(&world, &json!({event: group}));
        let output = world.run(&["-p", "go"]);
        let all = format!("{}{}", output.stdout(), output.err());
        assert!(all.contains("the hook `h` must approve"), "{event}: {all}");
        assert_eq!(world.server.requests().len(), usize::from(event == "AfterAgent"), "{event}");
    }
}

#[test]
fn failing_hook_blocks_only_if_fail_closed() {
    let hooks = [
        "sleep 60",
        "kill -9 $$",
        "head -c 20000000 /dev/urandom | tr -d '\\0'",
        "printf '{\"decision\": '",
        "echo '{\"decision\": \"denny\"}'",
        "exit 1",
    ];
    for hook in hooks {
        for closed in [false, true] {
            let world = World::new(&script("echo hi"));
            let group = json!([{"matcher": "run_.*", "hooks": [
                {"command": hook, "timeout": "300ms", "failClosed": closed}
            ]}]);
            settings(&world, &json!({"BeforeTool": group}));
            let started_at = Instant::now();
            let output = world.run(&["-p", "go", "-y"]);
            assert!(started_at.elapsed().as_secs() < 15, "{hook}");
            assert_eq!(
                (output.code(), output.stdout().as_str()),
                (0, "done\n"),
                "{hook} {}",
                output.err()
            );
            assert!(output.err().len() < 20_000, "{hook}: {} bytes", output.err().len());
            let answer = requests(&world)[1]["contents"].to_string();
            assert_eq!(answer.contains("Output: hi"), !closed, "{hook} {closed}: {answer}");
        }
    }
}

#[test]
fn matchers_select_hooks_and_sequential_hooks_pass_changes_on() {
    let world = World::new(&script("echo hi"));
    let add = |name: &str| {
        let text = format!(
            r#"cat > {name}.json; echo '{{"hookSpecificOutput": {{"tool_input": {{"{name}": 1}}}}}}'"#
        );
        json!({"name": name, "command": text})
    };
    settings(
        &world,
        &json!({"BeforeTool": [
            {"matcher": "read_file", "hooks": [{"command": "touch never"}]},
            {"matcher": "run_shell", "sequential": true, "hooks": [add("one"), add("two"), add("two")]},
            {"matcher": "(", "hooks": [{"command": "touch never"}]}
        ]}),
    );
    world.run_ok(&["-p", "go", "-y"]);
    assert!(!world.home.project().join("never").exists());
    let second: Value = serde_json::from_str(&world.read("two.json")).expect("json");
    assert_eq!(second["tool_input"]["one"], 1);
    let first: Value = serde_json::from_str(&world.read("one.json")).expect("json");
    assert!(first["tool_input"].get("two").is_none());
}

#[test]
fn answer_chunks_are_sent_only_to_hooks_that_request_them() {
    let script = r#"[{"chunks": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "b"}]}, "finishReason": "STOP"}]}
    ], "repeat": 0}]"#;
    let world = World::new(script);
    let group = json!([{"hooks": [
        {"command": "echo >> whole"},
        {"command": "echo >> pieces", "granularity": "chunk"}
    ]}]);
    settings(&world, &json!({"AfterModel": group}));
    assert_eq!(world.run_ok(&["-p", "go"]).stdout(), "ab\n");
    assert_eq!((world.read("whole").len(), world.read("pieces").len()), (1, 2));
}

#[test]
fn interrupt_during_a_tool_hook_runs_no_call() {
    let args = json!({"file_path": "made.txt", "content": "x"});
    let script =
        json!([{"calls": [{"name": "write_file", "args": args}]}, {"text": "done", "repeat": 0}]);
    let world = World::new(&script.to_string());
    let group =
        json!([{"hooks": [{"command": "touch looked; sleep 60; exit 2", "failClosed": true}]}]);
    settings(&world, &json!({"BeforeTool": group}));
    let mut conversation = Conversation::start(&world, &["-y"]);
    conversation.prompt("go");
    crate::support::wait_until("the hook", || world.home.project().join("looked").exists());
    conversation.send(&json!({"type": "interrupt"}));
    conversation.next("result");
    conversation.end();
    assert!(!world.home.project().join("made.txt").exists());
}

#[test]
fn parallax_hook_events_fire_when_enabled() {
    let write = json!({"file_path": "a.txt", "content": "x"});
    let agent = json!({"agent_name": "generalist", "prompt": "look"});
    let script = json!([
        {"calls": [{"name": "write_file", "args": write}]},
        {"calls": [{"name": "invoke_agent", "args": agent}]},
        {"calls": [{"name": "complete_task", "args": {"result": {"response": "seen"}}}]},
        {"text": "done", "repeat": 0}
    ]);
    for on in [false, true] {
        let world = World::new(&script.to_string());
        let mut hooks = serde_json::Map::new();
        for event in ["FileChanged", "SubagentStart", "SubagentEnd"] {
            hooks.insert(event.to_owned(), hook_group("cat >> heard.jsonl"));
        }
        let text = json!({"hooks": hooks, "hooksConfig": {"moreEvents": on}}).to_string();
        world.home.write_home(".gemini/settings.json", &text).unwrap();
        let output = world.run_ok(&["-p", "go", "-y"]);
        if !on {
            assert!(output.err().contains("`hooksConfig.moreEvents`"), "{}", output.err());
            assert!(!world.home.project().join("heard.jsonl").exists());
            continue;
        }
        let heard = lines(&world, "heard.jsonl");
        let names: Vec<&str> = heard.iter().flat_map(|it| it["hook_event_name"].as_str()).collect();
        // The first one is not awaited, so it may arrive later.
        assert_eq!(names.len(), 3, "{names:?}");
        let of = |event: &str| heard.iter().find(|it| it["hook_event_name"] == event).unwrap();
        let path = of("FileChanged")["file_path"].as_str().unwrap_or_default();
        assert!(path.ends_with("a.txt"), "{path}");
        assert_eq!(of("SubagentStart")["prompt"], "look");
        assert_eq!(of("SubagentEnd")["terminate_reason"], "GOAL");
    }
}
