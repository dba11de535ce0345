//! The trace context of the environment, as commands, hooks, servers, and remote agents receive it.

use serde_json::{Value, json};
use testkit::otlp::{Collector, CollectorBehavior};

use crate::hooks::hook_group;
use crate::mcp::stdio;
use crate::remote_agents::{RemoteServer, card, definition, invoke, json_response};
use crate::support::{World, finish};
use crate::telemetry::set;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const STATE: &str = "vendor=one,other=t61rcWkgMzE";

/// What a session passed on, as `traceparent|tracestate`.
struct PropagatedTrace {
    command: String,
    hook: String,
    /// The messages that the MCP server received.
    mcp: String,
    /// The headers that the remote agent received, in lower case.
    agent: String,
}

/// Runs a session with these variables that calls a command, an MCP server, and a remote agent.
fn run(telemetry: &Value, variables: &[(&str, &str)]) -> PropagatedTrace {
    let answer = json!({"kind": "message", "messageId": "m", "parts": [{"text": "in"}]});
    let far = RemoteServer::start(|| vec![card("0.3", false), json_response(&answer)]);
    let echo = "echo \"$TRACEPARENT|$TRACESTATE\"";
    let script = json!([
        {"calls": [
            {"name": "run_shell_command", "args": {"command": format!("{echo} > shell.txt")}},
            {"name": "mcp_test_echo", "args": {"text": "hi"}},
        ]},
        invoke("x"),
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
    let more = json!({
        "mcpServers": {"test": stdio(&world, "")},
        "hooks": {"AfterTool": hook_group(&format!("grep -q run_shell && {echo} > hook.txt"))},
    });
    set(&world, telemetry, &more);
    let mut command = world.command(&["-p", "go", "-y"]);
    command.envs(variables.iter().copied());
    let output = finish(command);
    assert_eq!(output.code(), 0, "{}", output.err());
    PropagatedTrace {
        command: world.read("shell.txt").trim().to_owned(),
        hook: world.read("hook.txt").trim().to_owned(),
        mcp: std::fs::read_to_string(world.home.root().join("log")).expect("a log"),
        agent: far.request_headers()[1].clone(),
    }
}

#[test]
fn inherited_trace_is_passed_on_with_and_without_telemetry() {
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let variables = [("TRACEPARENT", parent.as_str()), ("TRACESTATE", STATE)];
    for has_telemetry in [false, true] {
        let telemetry = json!({"enabled": has_telemetry, "otlpEndpoint": collector.url()});
        let passed_on = run(&telemetry, &variables);
        let prefix = if has_telemetry { format!("00-{TRACE}-") } else { parent.clone() };
        for text in [&passed_on.command, &passed_on.hook] {
            assert!(text.starts_with(&prefix) && text.ends_with(&format!("|{STATE}")), "{text}");
            assert_eq!(text.contains(PARENT), !has_telemetry, "{text}");
        }
        assert!(passed_on.mcp.contains(&prefix), "{}", passed_on.mcp);
        assert!(passed_on.mcp.contains(STATE), "{}", passed_on.mcp);
        let agent = &passed_on.agent;
        assert!(agent.contains(&format!("traceparent: {prefix}")), "{agent}");
        assert!(agent.contains(&format!("tracestate: {}", STATE.to_lowercase())), "{agent}");
    }
}

#[test]
fn state_without_a_valid_trace_is_dropped_from_new_traces() {
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    let variables = [("TRACEPARENT", "00-invalid"), ("TRACESTATE", STATE)];
    let telemetry = json!({"enabled": true, "otlpEndpoint": collector.url()});
    let passed_on = run(&telemetry, &variables);
    assert!(passed_on.command.starts_with("00-") && passed_on.command.ends_with('|'));
    assert!(!passed_on.command.contains("invalid"), "{}", passed_on.command);
    assert!(!passed_on.mcp.contains(STATE), "{}", passed_on.mcp);
    assert!(!passed_on.agent.contains("tracestate"), "{}", passed_on.agent);

    let passed_on = run(&json!({"enabled": false}), &variables);
    assert!(!passed_on.mcp.contains("traceparent"), "{}", passed_on.mcp);
    assert!(!passed_on.agent.contains("trace"), "{}", passed_on.agent);
}

#[test]
fn state_that_a_header_cannot_hold_is_dropped() {
    let parent = format!("00-{TRACE}-{PARENT}-01");
    for state in ["a=é", "a=\u{1}", "a=1\nx: y", &"a=1,".repeat(200)] {
        let variables = [("TRACEPARENT", parent.as_str()), ("TRACESTATE", state)];
        let passed_on = run(&json!({"enabled": false}), &variables);
        assert_eq!(passed_on.command, format!("{parent}|"));
        assert!(passed_on.agent.contains(&format!("traceparent: {parent}")));
        assert!(!passed_on.agent.contains("tracestate"), "{}", passed_on.agent);
    }
}

#[test]
fn trace_that_is_not_sampled_has_no_spans() {
    let script = json!([
        {"calls": [{"name": "run_shell_command", "args": {"command": "echo $TRACEPARENT > shell.txt"}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    let collector = Collector::start(CollectorBehavior::Accept).expect("a collector");
    let telemetry = json!({"enabled": true, "otlpEndpoint": collector.url()});
    set(&world, &telemetry, &Value::Null);
    let mut command = world.command(&["-p", "go", "-y"]);
    command.env("TRACEPARENT", format!("00-{TRACE}-{PARENT}-00"));
    assert_eq!(finish(command).code(), 0);
    let passed_on = world.read("shell.txt");
    assert!(passed_on.starts_with(&format!("00-{TRACE}-")), "{passed_on}");
    assert!(passed_on.trim().ends_with("-00"), "{passed_on}");
    assert_eq!(collector.items("/v1/traces").len(), 0);
    let logs = collector.items("/v1/logs");
    assert!(!logs.is_empty() && logs.iter().all(|log| log.number(8) == 0));
    assert!(!collector.items("/v1/metrics").is_empty());
}
