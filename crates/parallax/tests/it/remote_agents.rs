//! Remote agents: the program as a client of Agent2Agent, with its own server and with
//! nonconforming ones.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::canned::{CannedResponse, ResponsePiece, Server, data, head, stream, with_length};

use crate::serve::TestServer;
use crate::support::{World, wait_until};

pub(crate) fn invoke(prompt: &str) -> Value {
    json!({"calls": [{"name": "invoke_agent", "args": {"agent_name": "far", "prompt": prompt}}]})
}

pub(crate) fn definition(world: &World, fields: &str) {
    let text = format!("---\nkind: remote\nname: far\ndescription: Knows more.\n{fields}---\n");
    world.home.write_home(".gemini/agents/far.md", &text).expect("a definition");
}

/// Returns the result of the call that the n-th request contains as its newest content.
fn result_in_request(world: &World, index: usize) -> String {
    let request: Value =
        serde_json::from_slice(&world.server.requests()[index].body).expect("json");
    request["contents"].as_array().expect("contents").last().expect("one").to_string()
}

/// A server with these responses, of which the first is its card.
pub(crate) struct RemoteServer {
    pub(crate) server: Server,
    runtime: tokio::runtime::Runtime,
}

impl RemoteServer {
    pub(crate) fn start(responses: impl FnOnce() -> Vec<CannedResponse>) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let server = runtime.block_on(Server::start(responses()));
        Self { server, runtime }
    }

    fn bodies(&self) -> Vec<Value> {
        let requests = self.runtime.block_on(async { self.server.requests() });
        requests
            .iter()
            .map(|request| serde_json::from_str(&request.body).unwrap_or_default())
            .collect()
    }

    pub(crate) fn request_headers(&self) -> Vec<String> {
        self.server.requests().iter().map(|requests| requests.head.to_ascii_lowercase()).collect()
    }
}

pub(crate) fn json_response(value: &Value) -> CannedResponse {
    with_length(200, "Content-Type: application/json\r\n", &value.to_string())
}

pub(crate) fn card(version: &str, streaming: bool) -> CannedResponse {
    let capabilities = json!({"streaming": streaming});
    json_response(&match version {
        "0.3" => json!({"name": "far", "url": "/rpc", "capabilities": capabilities}),
        version => json!({"name": "far", "capabilities": capabilities, "supportedInterfaces": [
            {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": version}]}),
    })
}

#[test]
fn parallax_server_works_as_a_remote_agent_with_memory() {
    let world = World::new(
        &json!([
            invoke("first task"),
            {"text": "I am far away."},
            invoke("second task"),
            {"text": "Still here."},
            {"text": "done"},
        ])
        .to_string(),
    );
    let server = TestServer::start(&world);
    let host = server.own_host();
    definition(
        &world,
        &format!(
            "agent_card_url: http://{host}/\nauth:\n  type: http\n  scheme: Bearer\n  token: $FAR\n"
        ),
    );
    let mut command = world.command(&["-p", "go", "-y", "-o", "json"]);
    let output = command.env("FAR", &server.token).output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        result_in_request(&world, 2).contains("Result:\\nI am far away."),
        "{}",
        result_in_request(&world, 2)
    );
    assert!(
        result_in_request(&world, 4).contains("Result:\\nStill here."),
        "{}",
        result_in_request(&world, 4)
    );
    let second = String::from_utf8_lossy(&world.server.requests()[3].body).into_owned();
    assert!(second.contains("first task") && second.contains("second task"), "{second}");
    let listed = world.run_ok(&["agents", "list"]);
    assert!(listed.stdout().contains("sends: `Authorization: Bearer` with the variable `FAR`"));
    assert!(!listed.stdout().contains(&server.token));
}

#[test]
fn remote_agent_requires_approval_which_rules_can_grant() {
    let far = RemoteServer::start(|| {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"message": {"messageId": "m",
            "role": "ROLE_AGENT", "parts": [{"text": "yes \u{1b}[31m\u{e0041}indeed"}]}}});
        vec![card("1.0", false), json_response(&answer)]
    });
    let world =
        World::new(&json!([invoke("x"), {"text": "a"}, invoke("x"), {"text": "b"}]).to_string());
    definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
    world.run_ok(&["-p", "go"]);
    assert!(
        result_in_request(&world, 1).contains("remote agents require approval"),
        "{}",
        result_in_request(&world, 1)
    );
    assert!(far.bodies().is_empty());
    world.run_ok(&["-p", "go", "--allowed-tools", "far"]);
    assert!(
        result_in_request(&world, 3).contains("Result:\\nyes indeed"),
        "{}",
        result_in_request(&world, 3)
    );
    assert!(far.request_headers()[1].contains("a2a-version: 1.0"), "{:?}", far.request_headers());
    assert_eq!(far.bodies()[1]["method"], "SendMessage");
}

#[test]
fn task_that_needs_input_is_continued_by_the_next_call() {
    let far = RemoteServer::start(|| {
        let state = |state: &str, text: &str| {
            let status = json!({"state": state, "message": {"messageId": "m", "role": "agent",
                "kind": "message", "parts": [{"kind": "text", "text": text}]}});
            json!({"jsonrpc": "2.0", "id": 1, "result": {"kind": "status-update", "taskId": "t1",
                "contextId": "c1", "status": status, "final": state != "working"}})
            .to_string()
        };
        vec![
            card("0.3", true),
            stream(&[&state("working", "thinking"), &state("input-required", "Which branch?")]),
            stream(&[&state("completed", "Merged.")]),
        ]
    });
    let world =
        World::new(&json!([invoke("merge it"), invoke("main"), {"text": "done"}]).to_string());
    definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
    world.run_ok(&["-p", "go", "-y"]);
    let asked = result_in_request(&world, 1);
    assert!(asked.contains("Which branch?") && asked.contains("Call it again"), "{asked}");
    assert!(result_in_request(&world, 2).contains("Merged."), "{}", result_in_request(&world, 2));
    let sent = far.bodies();
    assert_eq!(sent[1]["method"], "message/stream");
    assert!(sent[1]["params"]["message"].get("taskId").is_none());
    assert_eq!(sent[2]["params"]["message"]["taskId"], "t1");
    assert_eq!(sent[2]["params"]["message"]["contextId"], "c1");
}

#[test]
fn task_without_a_stream_is_polled_until_it_ends() {
    let far = RemoteServer::start(|| {
        let task = |state: &str| {
            json!({"jsonrpc": "2.0", "id": 1, "result": {"id": "t1", "contextId": "c",
                "status": {"state": state}, "artifacts": [{"artifactId": "a", "name": "out.txt",
                    "parts": [{"text": format!("in state {state}")}]}]}})
        };
        let first = json!({"jsonrpc": "2.0", "id": 1, "result": {"task":
            {"id": "t1", "status": {"state": "TASK_STATE_SUBMITTED"}}}});
        vec![
            card("1.0", false),
            json_response(&first),
            json_response(&task("TASK_STATE_WORKING")),
            json_response(&task("TASK_STATE_COMPLETED")),
        ]
    });
    let world = World::new(&json!([invoke("x"), {"text": "done"}]).to_string());
    definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
    world.run_ok(&["-p", "go", "-y"]);
    let report = result_in_request(&world, 1);
    assert!(report.contains("out.txt:\\nin state TASK_STATE_COMPLETED"), "{report}");
    assert_eq!(far.bodies()[3]["method"], "GetTask");
}

#[test]
fn rejected_credentials_are_fetched_again_or_explained() {
    let output = json!({"kind": "message", "messageId": "m", "parts": [{"text": "in"}]});
    let far = RemoteServer::start(|| {
        let denied = || with_length(401, "", "");
        vec![denied(), card("0.3", false), denied(), json_response(&output)]
    });
    let world = World::new(&json!([invoke("x"), {"text": "done"}]).to_string());
    let counter = world.home.project().join("counter");
    let command = format!("echo x >> {0}; wc -l < {0}", counter.display());
    definition(
        &world,
        &format!(
            "agent_card_url: {}/card.json\nauth: {{type: apiKey, key: '!{command}'}}\n",
            far.server.base
        ),
    );
    world.run_ok(&["-p", "go", "-y"]);
    assert!(
        result_in_request(&world, 1).contains("Result:\\nin"),
        "{}",
        result_in_request(&world, 1)
    );
    let keys: Vec<String> = far
        .request_headers()
        .iter()
        .map(|head| {
            head.lines()
                .find_map(|line| line.strip_prefix("x-api-key: "))
                .unwrap_or("none")
                .to_owned()
        })
        .collect();
    assert_eq!(keys, ["1", "2", "2", "3"]);
    let far = RemoteServer::start(|| vec![with_length(401, "", "")]);
    let world = World::new(&json!([invoke("x"), {"text": "done"}]).to_string());
    definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
    world.run_ok(&["-p", "go", "-y"]);
    let report = result_in_request(&world, 1);
    assert!(report.contains("(401): its definition has no `auth`"), "{report}");
}

#[test]
fn interrupted_task_is_cancelled_at_the_agent() {
    let task = json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": "t9", "contextId": "c",
        "status": {"state": "TASK_STATE_WORKING"}}}});
    let mut working = head();
    working.extend([data(&task.to_string()), ResponsePiece::Hang]);
    let cancelled = json!({"jsonrpc": "2.0", "id": 1, "result": {"id": "t9",
        "status": {"state": "TASK_STATE_CANCELED"}}});
    let far = RemoteServer::start(|| vec![card("1.0", true), working, json_response(&cancelled)]);
    let world = World::new(&json!([invoke("x"), {"text": "never"}]).to_string());
    definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
    let mut command = world.command(&["-p", "go", "-y"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("start");
    wait_until("the task", || far.bodies().len() == 2);
    // The answer has begun once the request was read.
    std::thread::sleep(Duration::from_millis(300));
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::INT).expect("interrupt");
    assert_eq!(child.wait().expect("the end").code(), Some(130));
    let sent = far.bodies();
    assert_eq!(
        (&sent[2]["method"], &sent[2]["params"]["id"]),
        (&json!("CancelTask"), &json!("t9"))
    );
}

#[test]
fn errors_of_a_remote_agent_reach_the_model_as_failures() {
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "broken"}});
    let failed = json!({"id": "t", "status": {"state": "failed",
        "message": {"parts": [{"text": "no disk"}]}}});
    for (response, part) in [
        (json_response(&error), "returned an error: broken"),
        (json_response(&failed), "the agent failed: no disk"),
        (with_length(500, "", "oops"), "status 500"),
        (with_length(200, "", "<html>"), "invalid JSON"),
        (json_response(&json!({})), "neither a message nor a task"),
    ] {
        let far = RemoteServer::start(|| vec![card("0.3", false), response]);
        let world = World::new(&json!([invoke("x"), {"text": "done"}]).to_string());
        definition(&world, &format!("agent_card_url: {}/card.json\n", far.server.base));
        world.run_ok(&["-p", "go", "-y"]);
        let report = result_in_request(&world, 1);
        assert!(report.contains(part) && report.contains("Termination Reason: ERROR"), "{report}");
    }
}

#[test]
fn file_can_define_several_remote_agents() {
    let world = World::new("[]");
    let text = "---\n- kind: remote\n  name: one\n  agent_card_url: https://x.example/1\n\
                - kind: remote\n  name: two\n  agent_card_url: https://x.example/2\n\
                  \x20 auth: {type: oauth, client_id: c}\n---\n";
    world.home.write_home(".gemini/agents/far.md", text).expect("a definition");
    let listed = world.run_ok(&["agents", "list"]);
    assert!(listed.stdout().contains("`auth.type: oauth` is not supported"), "{}", listed.stdout());
    let text = text.replace("auth: {type: oauth, client_id: c}", "display_name: Second");
    world.home.write_home(".gemini/agents/far.md", &text).expect("a definition");
    let listed = world.run_ok(&["agents", "list"]);
    for line in ["one (user, on)", "two (user, on)", "remote: https://x.example/2"] {
        assert!(listed.stdout().contains(line), "{}", listed.stdout());
    }
}
