//! The telemetry file, as external programs read it.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::otlp::{Collector, CollectorBehavior, WireMessage};

use crate::hooks::hook_group;
use crate::mcp::stdio;
use crate::providers::for_each_wire;
use crate::support::{World, finish};
use crate::vertex::{KEY, TokenService};

/// Returns the records of the file, which programs split between a line with `}` and one with `{`.
fn records(world: &World) -> Vec<Value> {
    let text = world.read(".gemini/telemetry.log");
    let split = text.split("}\n{").enumerate();
    let count = text.matches("}\n{").count();
    split
        .map(|(index, piece)| {
            let start = if index > 0 { "{" } else { "" };
            let end = if index < count { "}" } else { "" };
            serde_json::from_str(&format!("{start}{piece}{end}")).expect("JSON")
        })
        .collect()
}

/// Returns the attributes of all records with a name.
fn named(world: &World, name: &str) -> Vec<Value> {
    let has_name = |record: &Value| record["attributes"]["event.name"] == name;
    let records = records(world).into_iter().filter(has_name);
    records.map(|record| record["attributes"].clone()).collect()
}

pub(crate) fn set(world: &World, telemetry: &Value, more: &Value) {
    let mut settings = json!({"telemetry": telemetry});
    let settings = settings.as_object_mut().expect("an object");
    settings.extend(more.as_object().cloned().unwrap_or_default());
    let text = serde_json::to_string(settings).expect("JSON");
    world.home.write_home(".gemini/settings.json", &text).expect("settings");
}

fn to_file() -> Value {
    json!({"enabled": true, "target": "local", "otlpEndpoint": "", "outfile": ".gemini/telemetry.log"})
}

#[test]
fn records_of_a_session_are_in_the_file() {
    let script = json!([
        {"calls": [
            {"name": "write_file", "args": {"file_path": "a.txt", "content": "one\ntwo\n"}},
            {"name": "mcp_test_echo", "args": {"text": "hi"}},
            {"name": "read_file", "args": {"file_path": "missing.txt"}},
        ]},
        {"text": "all done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    let hook = "cat > /dev/null; echo '{\"systemMessage\": \"seen\"}'; echo aside >&2";
    let more = json!({
        "mcpServers": {"test": stdio(&world, "")},
        "hooks": {"BeforeAgent": hook_group(hook), "AfterTool": hook_group("cat > /dev/null; exit 1")},
    });
    let mut telemetry = to_file();
    telemetry["logPrompts"] = true.into();
    telemetry["traces"] = true.into();
    set(&world, &telemetry, &more);
    world.run_ok(&["-p", "do it", "-y"]);

    let prompt = &named(&world, "gemini_cli.user_prompt")[0];
    assert_eq!((&prompt["prompt"], &prompt["prompt_length"]), (&json!("do it"), &json!(5)));
    assert_eq!(prompt["interactive"], false);
    for key in ["session.id", "installation.id", "auth_type", "event.timestamp", "prompt_id"] {
        assert!(prompt[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {prompt}");
    }
    let requests = named(&world, "gemini_cli.api_request");
    assert_eq!(requests.len(), 2);
    let text = requests[1]["request_text"].as_str().expect("a text");
    let contents: Value = serde_json::from_str(text).expect("contents");
    assert!(contents.as_array().is_some_and(|contents| contents.len() >= 3), "{text}");
    assert_eq!(requests[0]["role"], "main");
    let responses = named(&world, "gemini_cli.api_response");
    assert_eq!(responses[1]["response_text"], "all done");
    assert_eq!(responses[1]["status_code"], 200);
    assert_eq!(responses[1]["finish_reasons"], json!(["STOP"]));
    assert!(responses[1]["input_token_count"].as_u64().is_some());

    let calls = named(&world, "gemini_cli.tool_call");
    let call = |name: &str| {
        let has_name = |call: &&Value| call["function_name"] == name;
        calls.iter().find(has_name).unwrap_or_else(|| panic!("no call of {name}: {calls:?}"))
    };
    let write = call("write_file");
    assert_eq!(
        write["function_args"],
        "{\n  \"file_path\": \"a.txt\",\n  \"content\": \"one\\ntwo\\n\"\n}"
    );
    assert_eq!((&write["success"], &write["tool_type"]), (&json!(true), &json!("native")));
    assert!(write["metadata"].as_str().expect("text").contains("\"model_added_lines\":2"));
    assert!(write["content_length"].as_u64().is_some_and(|length| length > 0));
    let served = call("mcp_test_echo");
    assert_eq!(served["tool_type"], "mcp");
    assert!(served.get("content_length").is_none());
    let failed = call("read_file");
    assert_eq!(
        (&failed["success"], &failed["error_type"]),
        (&json!(false), &json!("file_not_found"))
    );
    assert!(failed["error"].as_str().is_some() && failed.get("content_length").is_none());

    let hooks = named(&world, "gemini_cli.hook_call");
    let records_of_event = |event: &str| {
        hooks.iter().find(|it| it["hook_event_name"] == event).expect("a run of the hook").clone()
    };
    let before = records_of_event("BeforeAgent");
    assert_eq!((&before["hook_name"], &before["hook_type"]), (&json!(hook), &json!("command")));
    assert_eq!((&before["success"], &before["exit_code"]), (&json!(true), &json!(0)));
    assert_eq!(before["hook_output"], json!({"systemMessage": "seen"}).to_string());
    assert_eq!((&before["stderr"], &before["stdout"].is_string()), (&json!("aside\n"), &true));
    let input: Value = serde_json::from_str(before["hook_input"].as_str().expect("text")).unwrap();
    assert_eq!(input["prompt"], "do it");
    let after = records_of_event("AfterTool");
    assert_eq!((&after["success"], &after["exit_code"]), (&json!(false), &json!(1)));
    assert!(after.get("hook_output").is_none());
    let details = named(&world, "gen_ai.client.inference.operation.details");
    assert_eq!(details.len(), 2);
    let parsed = |name: &str| -> Value {
        let text = details[1][name].as_str().unwrap_or_else(|| panic!("{name}: {}", details[1]));
        serde_json::from_str(text).expect("JSON")
    };
    let input = parsed("gen_ai.input.messages");
    let roles: Vec<&Value> =
        input.as_array().expect("messages").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles[roles.len() - 3..], ["user", "assistant", "tool"]);
    let [.., calls, results] = &input.as_array().expect("messages")[..] else { panic!("{input}") };
    assert_eq!(calls["parts"][0]["type"], "tool_call");
    assert_eq!(calls["parts"][0]["name"], "write_file");
    assert_eq!(calls["parts"][0]["arguments"]["file_path"], "a.txt");
    assert_eq!(results["parts"][1]["type"], "tool_call_response");
    assert_eq!(results["parts"][1]["id"], calls["parts"][1]["id"]);
    let output = parsed("gen_ai.output.messages");
    assert_eq!(output[0]["parts"], json!([{"type": "text", "content": "all done"}]));
    let system = parsed("gen_ai.system_instructions");
    assert!(system[0]["content"].as_str().is_some_and(|text| text.len() > 100), "{system}");

    let records = records(&world);
    let last = records.last().expect("a record");
    let metrics = &last["scopeMetrics"][0]["metrics"];
    let metric = |name: &str| {
        let has_name = |it: &&Value| it["descriptor"]["name"] == name;
        metrics
            .as_array()
            .expect("metrics")
            .iter()
            .find(has_name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(metric("gemini_cli.session.count")["dataPoints"][0]["value"], 1);
    assert!(metric("gemini_cli.memory.usage")["dataPoints"][0]["value"]["max"].is_number());
    assert!(metric("gemini_cli.token.usage")["dataPoints"].is_array());
    let counted = metric("gemini_cli.tool.call.count")["dataPoints"].as_array().expect("points");
    assert!(counted.iter().any(|point| point["attributes"]["function_name"] == "write_file"));
}

#[test]
fn contents_are_omitted_by_default() {
    let world = World::new(r#"[{"text":"the answer"}]"#);
    set(&world, &to_file(), &json!({"hooks": {"BeforeAgent": hook_group("cat; echo told >&2")}}));
    world.run_ok(&["-p", "a secret prompt"]);
    let text = world.read(".gemini/telemetry.log");
    assert!(!text.contains("a secret prompt") && !text.contains("the answer"), "{text}");
    assert!(!text.contains("told\\n"), "{text}");
    assert_eq!(named(&world, "gemini_cli.user_prompt")[0]["prompt_length"], 15);
    // In a Gemini CLI test rig, the project's setting applies.
    let mut command = world.command(&["-p", "a secret prompt"]);
    command.env("GEMINI_CLI_INTEGRATION_TEST", "true");
    crate::support::finish(command);
    assert!(world.read(".gemini/telemetry.log").contains("a secret prompt"));
}

#[test]
fn slash_commands_are_recorded_by_name() {
    let world = World::new(r#"[{"text": "hi", "repeat": 0}]"#);
    set(&world, &to_file(), &Value::Null);
    world.run_ok(&["-p", "/about"]);
    let mut command = world.command(&["--input-format", "stream-json", "-o", "stream-json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("start");
    let line = json!({"type": "command", "text": "/compress a secret focus"});
    writeln!(child.stdin.take().expect("stdin"), "{line}").expect("write");
    assert!(child.wait().expect("the end").success());
    let commands = named(&world, "gemini_cli.slash_command");
    let names: Vec<&Value> = commands.iter().map(|command| &command["command"]).collect();
    assert_eq!(names, ["about", "compress"]);
    // What is not a command is content.
    finish(world.command(&["-p", "/hunter2 is my password"]));
    let mut command = world.command(&["--input-format", "stream-json", "-o", "stream-json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("start");
    let line = json!({"type": "command", "text": "/hunter2 is my password"});
    writeln!(child.stdin.take().expect("stdin"), "{line}").expect("write");
    child.wait().expect("the end");
    assert!(!world.read(".gemini/telemetry.log").contains("hunter2"));
    world.home.write(".gemini/commands/greet.toml", "prompt = \"Say hi\"").expect("a command");
    world.run_ok(&["-p", "/greet"]);
    let commands = named(&world, "gemini_cli.slash_command");
    assert_eq!(commands.last().expect("a command")["command"], "greet");
    assert!(!world.read(".gemini/telemetry.log").contains("a secret focus"));
}

/// Runs a turn whose hooks, tools, server, and service put their own text into everything they
/// can write. Returns what the file and the collector received.
fn run_with_marked_texts(log_prompts: bool) -> Vec<u8> {
    let script = json!([
        {"calls": [
            {"name": "glob", "args": {"pattern": "*"}},
            {"name": "read_file", "args": {"file_path": "a.txt"}},
            {"name": "run_shell_command", "args": {"command": "cat a.txt; cat a.txt >&2; exit 3"}},
            {"name": "mcp_test_fail", "args": {}},
            {"name": "no MARKtool of that name", "args": {}},
        ]},
        {"text": "MARKanswer"},
        {"status": 400, "error": {"code": 400, "message": "your MARKservice", "status": "INVALID_ARGUMENT"}, "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    world.home.write("a.txt", "MARKfile").expect("a file");
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    let told = "cat >&2; echo MARKhook >&2; exit 2";
    let more = json!({
        "mcpServers": {"test": stdio(&world, "")},
        "hooks": {
            "BeforeTool": [{"matcher": "glob", "hooks": [{"type": "command", "command": told}]}],
            "AfterTool": [{"matcher": "read_file", "hooks": [{"type": "command", "command": told}]}],
            "BeforeAgent": hook_group("cat > /dev/null; echo MARKoutput; echo MARKhook >&2; exit 1"),
        },
    });
    let mut telemetry = to_file();
    telemetry["otlpEndpoint"] = collector.url().into();
    telemetry["traces"] = true.into();
    telemetry["logPrompts"] = log_prompts.into();
    set(&world, &telemetry, &more);
    world.run(&["-p", "MARKprompt", "-y"]);
    let failed = world.run(&["-p", "MARKprompt", "-y"]);
    assert_ne!(failed.code(), 0, "{}", failed.stdout());
    let mut all = world.read(".gemini/telemetry.log").into_bytes();
    let spans = spans(&collector);
    assert!(spans.iter().filter(|span| span.name == "invoke_agent parallax").count() == 2);
    all.extend(collector.requests().into_iter().flat_map(|request| request.body));
    all
}

#[test]
fn no_text_of_the_conversation_is_recorded_without_log_prompts() {
    // Names of hooks are their commands, which the user wrote.
    let without_commands = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.replace("echo MARKhook", "").replace("echo MARKoutput", "")
    };
    let recorded = without_commands(run_with_marked_texts(false));
    let found: Vec<&str> = recorded
        .match_indices("MARK")
        .map(|(at, _)| &recorded[recorded.floor_char_boundary(at.saturating_sub(80))..])
        .map(|text| &text[..text.floor_char_boundary(120)])
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(recorded.contains("mcp_tool_error"), "{recorded}");
    let recorded = without_commands(run_with_marked_texts(true));
    for text in ["prompt", "answer", "hook", "output", "service", "file"] {
        assert!(recorded.contains(&format!("MARK{text}")), "{text}");
    }
}

#[test]
fn telemetry_variables_override_settings() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    world.run_ok(&["-p", "go"]);
    set(&world, &json!({"enabled": false, "outfile": "t.log"}), &Value::Null);
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("t.log"), "");
    let mut command = world.command(&["-p", "go"]);
    command.env("GEMINI_TELEMETRY_ENABLED", "1").env("GEMINI_TELEMETRY_OUTFILE", "other.log");
    assert_eq!(crate::support::finish(command).code(), 0);
    assert!(world.read("other.log").contains("gemini_cli.user_prompt"));
    let mut command = world.command(&["-p", "go"]);
    command.env("GEMINI_TELEMETRY_ENABLED", "1").env("OTEL_SDK_DISABLED", "true");
    assert_eq!(crate::support::finish(command).code(), 0);
    assert_eq!(world.read("t.log"), "");
}

#[test]
fn unusable_telemetry_file_is_a_warning() {
    let world = World::new(r#"[{"text":"hi"}]"#);
    set(&world, &json!({"enabled": true, "outfile": "/dev/full"}), &Value::Null);
    let output = world.run_ok(&["-p", "go"]);
    assert!(
        output.err().contains("telemetry is not recorded") && output.err().contains("/dev/full")
    );
}

#[test]
fn call_replaced_by_a_hook_is_recorded_under_the_executed_name() {
    let script = json!([
        {"calls": [{"name": "read_file", "args": {"file_path": "a.txt"}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    std::fs::write(world.home.project().join("a.txt"), "x").expect("write");
    std::fs::write(world.home.project().join("b.txt"), "y").expect("write");
    let changed =
        r#"cat > /dev/null; echo '{"hookSpecificOutput":{"tool_input":{"file_path":"b.txt"}}}'"#;
    let tail = r#"grep -q read_file && echo '{"hookSpecificOutput":{"tailToolCallRequest":{"name":"list_directory","args":{"dir_path":"."}}}}'; exit 0"#;
    let hooks = json!({"hooks": {"BeforeTool": hook_group(changed)}});
    set(&world, &to_file(), &hooks);
    world.run_ok(&["-p", "go"]);
    let call = &named(&world, "gemini_cli.tool_call")[0];
    assert!(call["function_args"].as_str().is_some_and(|text| text.contains("b.txt")), "{call}");
    std::fs::remove_file(world.home.project().join(".gemini/telemetry.log")).expect("remove");
    set(&world, &to_file(), &json!({"hooks": {"AfterTool": hook_group(tail)}}));
    let world = World::in_home(world.home, &script.to_string());
    world.run_ok(&["-p", "go"]);
    let calls = named(&world, "gemini_cli.tool_call");
    let names: Vec<&Value> = calls.iter().map(|call| &call["function_name"]).collect();
    assert_eq!(names, ["list_directory"]);
}

#[test]
fn calls_that_were_denied_are_recorded() {
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch x"}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    set(&world, &to_file(), &json!({"security": {"sandbox": {"enabled": false}}}));
    world.run(&["-p", "go", "--approval-mode", "plan"]);
    let call = &named(&world, "gemini_cli.tool_call")[0];
    assert_eq!(
        (&call["success"], &call["function_name"]),
        (&json!(false), &json!("run_shell_command"))
    );
    assert!(call["function_args"].as_str().is_some_and(|text| text.contains("touch x")));
}

/// Returns the value of an attribute.
fn attribute<'a>(of: &'a [(String, String)], name: &str) -> &'a str {
    of.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// A span: its name, kind, IDs, and attributes.
struct Span {
    name: String,
    kind: u64,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    attributes: Vec<(String, String)>,
}

fn spans(collector: &Collector) -> Vec<Span> {
    let items = collector.items("/v1/traces").into_iter();
    let span = |item: WireMessage| Span {
        trace: item.bytes(1),
        id: item.bytes(2),
        parent: item.bytes(4),
        name: item.text(5),
        kind: item.number(6),
        attributes: item.attributes(9),
    };
    items.map(span).collect()
}

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {names:?}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn collector_gets_the_spans_of_a_turn_with_a_subagent_and_an_mcp_server() {
    let scout = "---\nname: scout\ndescription: Looks.\ntools: [read_file]\nmax_turns: 3\n---\nYou \
                 are the scout.\n";
    let script = json!([
        {"match": {"systemContains": "You are the scout"},
         "calls": [{"name": "read_file", "args": {"file_path": "notes.txt"}}]},
        {"match": {"systemContains": "You are the scout"},
         "calls": [{"name": "complete_task", "args": {"result": "read"}}]},
        {"calls": [
            {"name": "invoke_agent", "args": {"agent_name": "scout", "prompt": "look"}},
            {"name": "mcp_test_echo", "args": {"text": "hi"}},
            {"name": "run_shell_command", "args": {"command": "echo $TRACEPARENT > shell.txt"}},
        ]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    world.home.write(".gemini/agents/scout.md", scout).expect("agent");
    world.home.write("notes.txt", "x").expect("notes");
    world.run_ok(&["agents", "accept"]);
    let more = json!({
        "mcpServers": {"test": stdio(&world, "")},
        "hooks": {
            "BeforeAgent": hook_group("cat > /dev/null; echo $TRACEPARENT > hook.txt"),
            "AfterTool": hook_group("grep -q run_shell && echo $TRACEPARENT > tool.txt"),
        },
    });
    set(
        &world,
        &json!({"enabled": true, "otlpEndpoint": collector.url(), "otlpProtocol": "http"}),
        &more,
    );
    let mut command = world.command(&["-p", "a secret prompt", "-y"]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    command
        .env("TRACEPARENT", format!("00-{trace}-00f067aa0ba902b7-01"))
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=core,note=a%20b")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=core");
    let output = crate::support::finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());

    let spans = spans(&collector);
    assert!(spans.iter().all(|span| hex(&span.trace) == trace));
    let turn = find(&spans, "invoke_agent parallax");
    assert_eq!((hex(&turn.parent).as_str(), turn.kind), ("00f067aa0ba902b7", 1));
    let agent = find(&spans, "execute_tool invoke_agent");
    assert_eq!(agent.parent, turn.id);
    let scout = find(&spans, "invoke_agent scout");
    assert_eq!(scout.parent, agent.id);
    assert_eq!(find(&spans, "execute_tool read_file").parent, scout.id);
    let chats: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    let scout_chats: Vec<&&Span> = chats.iter().filter(|chat| chat.parent == scout.id).collect();
    assert_eq!(scout_chats.len(), 2);
    for chat in scout_chats {
        assert_eq!(chat.kind, 3);
        assert_eq!(attribute(&chat.attributes, "parallax.request.role"), "subagent");
        assert_eq!(attribute(&chat.attributes, "gen_ai.agent.name"), "scout");
    }
    let chat = chats.iter().find(|chat| chat.parent == turn.id).expect("a request of the turn");
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "gcp.gemini"),
        ("gen_ai.response.finish_reasons", "STOP"),
        ("server.address", "127.0.0.1"),
    ] {
        assert_eq!(attribute(&chat.attributes, name), value, "{:?}", chat.attributes);
    }
    for name in ["gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.conversation.id"] {
        assert!(!attribute(&chat.attributes, name).is_empty(), "{name}");
    }
    let tool = find(&spans, "execute_tool mcp_test_echo");
    let request = find(&spans, "tools/call mcp_test_echo");
    assert_eq!((&request.parent, request.kind), (&tool.id, 3));
    let log = std::fs::read_to_string(world.home.root().join("log")).expect("a log");
    assert!(log.contains(&format!("00-{trace}-{}-01", hex(&request.id))), "{log}");
    let shell = find(&spans, "execute_tool run_shell_command");
    assert_eq!(world.read("shell.txt").trim(), format!("00-{trace}-{}-01", hex(&shell.id)));
    assert_eq!(world.read("hook.txt").trim(), format!("00-{trace}-{}-01", hex(&turn.id)));
    assert_eq!(world.read("tool.txt"), world.read("shell.txt"), "the hook is part of the call");

    let resource = collector.resource();
    assert_eq!(attribute(&resource, "service.name"), "parallax");
    assert_eq!(attribute(&resource, "note"), "a b");
    let received = collector.requests();
    assert!(received.iter().all(|request| request.head.contains("x-team: core")));
    assert!(received.iter().all(|request| !contains(&request.body, b"a secret")));
    let logs = collector.items("/v1/logs");
    let names: Vec<String> = logs.iter().map(|log| log.text(12)).collect();
    for name in [
        "gemini_cli.user_prompt",
        "gemini_cli.api_response",
        "gemini_cli.tool_call",
        "gemini_cli.agent.start",
        "gemini_cli.config",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    assert!(logs.iter().all(|log| hex(&log.bytes(9)) == trace));
    let started = logs.iter().find(|log| log.text(12) == "gemini_cli.agent.start").expect("a log");
    assert_eq!(started.bytes(10), scout.id);
    let metrics = collector.items("/v1/metrics");
    let metric = |name: &str| metrics.iter().rfind(|it| it.text(1) == name).expect("a metric");
    let usage = &metric("gen_ai.client.token.usage").messages(9)[0];
    assert_eq!(usage.number(2), 2, "cumulative");
    let point = &usage.messages(1)[0];
    assert!(point.number(4) >= 1 && point.float(5) > 0.0);
    let count = &metric("gemini_cli.tool.call.count").messages(7)[0];
    assert_eq!(count.number(3), 1, "monotonic");
}

#[test]
fn requests_between_turns_belong_to_no_turn() {
    let world = World::new(r#"[{"text": "hi", "repeat": 0}]"#);
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    let hook = hook_group("cat > /dev/null; echo $TRACEPARENT >> hook.txt");
    let hooks = json!({"hooks": {"PreCompress": hook, "AfterAgent": hook}});
    set(&world, &json!({"enabled": true, "otlpEndpoint": collector.url()}), &hooks);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for parent in [None, Some("00f067aa0ba902b7")] {
        let seen = collector.items("/v1/traces").len();
        let mut command = world.command(&["--input-format", "stream-json", "-o", "stream-json"]);
        if let Some(parent) = parent {
            command.env("TRACEPARENT", format!("00-{trace}-{parent}-01"));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("start");
        let mut stdin = child.stdin.take().expect("stdin");
        let prompt = "word ".repeat(2000);
        for line in [
            json!({"type": "message", "content": prompt}),
            json!({"type": "message", "content": prompt}),
            json!({"type": "command", "text": "/compress"}),
        ] {
            writeln!(stdin, "{line}").expect("write");
        }
        drop(stdin);
        assert!(child.wait().expect("the end").success());
        let all = spans(&collector);
        let spans = &all[seen..];
        let turns: Vec<&Span> = spans.iter().filter(|it| it.name.starts_with("invoke")).collect();
        assert_eq!(turns.len(), 2);
        let outside: Vec<&Span> = spans
            .iter()
            .filter(|span| {
                attribute(&span.attributes, "parallax.request.role").contains("compress")
            })
            .collect();
        assert!(!outside.is_empty(), "{:?}", spans.iter().map(|it| &it.name).collect::<Vec<_>>());
        for span in outside {
            assert_eq!(hex(&span.parent), parent.unwrap_or_default());
            assert_eq!(parent.is_some(), turns.iter().any(|turn| turn.trace == span.trace));
        }
        let hooks = world.read("hook.txt");
        let told = hooks.lines().last().expect("a line").to_owned();
        match parent {
            // The hook of the compaction.
            Some(parent) => assert_eq!(told, format!("00-{trace}-{parent}-01")),
            None => assert_eq!(told, ""),
        }
    }
}

fn contains(bytes: &[u8], piece: &[u8]) -> bool {
    bytes.windows(piece.len()).any(|window| window == piece)
}

#[test]
fn failing_collector_does_not_delay_the_run() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    // A closed port.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().unwrap();
    let collectors =
        [CollectorBehavior::Mute, CollectorBehavior::Status(503), CollectorBehavior::Status(400)]
            .map(|conduct| Collector::start(conduct).expect("a collector"));
    let mut urls: Vec<String> = collectors.iter().map(Collector::url).collect();
    urls.push(format!("http://{dead}"));
    for url in urls {
        let telemetry = json!({"enabled": true, "otlpEndpoint": url, "otlpProtocol": "http"});
        set(&world, &telemetry, &Value::Null);
        let started_at = Instant::now();
        let output = world.run_ok(&["-p", "go"]);
        assert!(started_at.elapsed() < Duration::from_secs(4), "{url}: {:?}", started_at.elapsed());
        assert_eq!(output.stdout().trim(), "hi");
        assert_eq!(output.err().matches("telemetry").count(), 1, "{}", output.err());
        assert!(output.err().contains(" records were not sent"), "{}", output.err());
    }
    // The last one fails at once.
    for format in ["json", "stream-json"] {
        let output = world.run_ok(&["-p", "go", "-o", format]);
        let notice = output.err();
        assert_eq!(notice.matches(" records were not sent").count(), 1, "{format}: {notice}");
    }
    assert_eq!(world.run_ok(&["-p", "go", "--quiet"]).err(), "");
    // The default endpoint, which is not reported.
    set(&world, &json!({"enabled": true}), &Value::Null);
    let output = world.run_ok(&["-p", "go"]);
    assert!(!output.err().contains("telemetry"), "{}", output.err());
}

#[test]
fn records_that_a_collector_rejects_are_reported() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    let collector = Collector::start(CollectorBehavior::AcceptPartly).expect("a collector");
    set(&world, &json!({"enabled": true, "otlpEndpoint": collector.url()}), &Value::Null);
    let notice = world.run_ok(&["-p", "go"]).err();
    // Two spans and two log records, and the request with metrics, which counts as one.
    assert!(
        notice.contains("telemetry: 5 of ") && notice.contains("rejected them: bad"),
        "{notice}"
    );
}

#[test]
fn requests_of_every_provider_have_its_names() {
    for_each_wire(json!([{"text": "hi"}]), |it| {
        let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
        it.write_settings(json!({"telemetry": {"enabled": true, "otlpEndpoint": collector.url()}}));
        it.run_ok(&["-p", "go"]);
        let spans = spans(&collector);
        let chat = find(&spans, "chat test-model");
        let named = |name: &str| attribute(&chat.attributes, name);
        assert_eq!(named("gen_ai.request.model"), "test-model");
        assert_eq!(named("gen_ai.response.model"), "scripted");
        let turn = find(&spans, "invoke_agent parallax");
        assert_eq!(attribute(&turn.attributes, "gen_ai.request.model"), "test-model");
        let logs = collector.items("/v1/logs");
        assert!(!logs.is_empty());
        for log in logs {
            assert_eq!(attribute(&log.attributes(6), "auth_type"), "provider-key");
        }
    });
}

#[test]
fn google_cloud_gets_the_project_of_the_credentials() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    let service = TokenService::start(3600);
    let file = world.home.root().join("account.json");
    let account = json!({"type": "service_account", "client_email": "a@my-project",
        "private_key": KEY, "private_key_id": "k", "token_uri": service.url,
        "project_id": "my-project"});
    std::fs::write(&file, account.to_string()).expect("written");
    let projects = [
        ("gcp", vec![], "my-project"),
        ("gcp", vec![("GOOGLE_CLOUD_PROJECT", "of-variable")], "of-variable"),
        (
            "gcp",
            vec![("GOOGLE_CLOUD_PROJECT", "x"), ("OTLP_GOOGLE_CLOUD_PROJECT", "of-otlp")],
            "of-otlp",
        ),
        ("gcp", vec![("OTEL_RESOURCE_ATTRIBUTES", "gcp.project_id=own")], "own"),
        ("local", vec![("GOOGLE_CLOUD_PROJECT", "of-variable")], ""),
    ];
    for (target, variables, project) in projects {
        let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
        let telemetry = json!({"enabled": true, "target": target, "otlpEndpoint": collector.url()});
        set(&world, &telemetry, &Value::Null);
        let mut command = world.command(&["-p", "go"]);
        command.env("GOOGLE_APPLICATION_CREDENTIALS", &file).envs(variables);
        let output = finish(command);
        assert_eq!((output.code(), output.err().as_str()), (0, ""));
        let resource = collector.resource();
        let found = resource.iter().find(|(name, _)| name == "gcp.project_id");
        assert_eq!(found.map_or("", |(_, value)| value), project, "{target}");
    }
}

#[test]
fn slow_collector_gets_every_signal_at_the_end() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    let collector =
        Collector::start(CollectorBehavior::Slow(Duration::from_millis(900))).expect("a collector");
    set(&world, &json!({"enabled": true, "otlpEndpoint": collector.url()}), &Value::Null);
    let done = world.run_ok(&["-p", "go"]);
    assert_eq!(done.err(), "");
    for signal in ["traces", "logs", "metrics"] {
        assert!(!collector.items(&format!("/v1/{signal}")).is_empty(), "{signal}");
    }
}

#[test]
fn settings_of_a_collector_that_cannot_be_used_are_explained() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    let set_endpoint = |endpoint: &str, protocol: &str| {
        let telemetry =
            json!({"enabled": true, "otlpEndpoint": endpoint, "otlpProtocol": protocol});
        set(&world, &telemetry, &Value::Null);
        world.run_ok(&["-p", "go"]).err().to_owned()
    };
    assert!(set_endpoint("not an address", "http").contains("not the address of a collector"));
    assert!(set_endpoint(&collector.url(), "grpc").contains("gRPC is not supported"));
    let notice = set_endpoint("http://localhost:4317", "");
    assert!(notice.contains("sent over HTTP to `http://localhost:4318`"), "{notice}");
    let mut command = world.command(&["-p", "go"]);
    command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", "/absent/ca.pem");
    let notice = crate::support::finish(command).err().to_owned();
    assert!(notice.contains("telemetry: /absent/ca.pem: "), "{notice}");
    assert!(!collector.items("/v1/traces").is_empty());
    assert_eq!(set_endpoint(&format!("{}/otlp/?key=1", collector.url()), "http"), "");
    assert!(!collector.items("/otlp/v1/traces?key=1").is_empty());
    // A project's `.env` cannot set the telemetry destination.
    world
        .home
        .write(".env", "GEMINI_TELEMETRY_ENABLED=1\nGEMINI_TELEMETRY_OUTFILE=x.log\n")
        .unwrap();
    set(&world, &Value::Null, &Value::Null);
    world.run_ok(&["-p", "go"]);
    assert_eq!(world.read("x.log"), "");
}

#[test]
fn test_setups_can_write_telemetry_outside_the_project() {
    let world = World::new(r#"[{"text":"hi", "repeat": 0}]"#);
    let file = world.home.root().join("rig.log");
    let mut telemetry = to_file();
    telemetry["outfile"] = json!(file);
    let settings = json!({"telemetry": telemetry}).to_string();
    world.home.write(".gemini/settings.json", &settings).expect("settings");
    let output = world.run_ok(&["-p", "go"]);
    assert!(!file.exists() && output.err().contains("telemetry"), "{}", output.err());
    let mut command = world.command(&["-p", "go"]);
    command.env("GEMINI_CLI_INTEGRATION_TEST", "true");
    assert_eq!(crate::support::finish(command).code(), 0);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.contains("gemini_cli.user_prompt") && text.contains("scopeMetrics"));
}
