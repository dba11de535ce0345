//! Tasks of the Agent2Agent protocol over HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use serde_json::{Value, json};

use crate::acp::Editor;
use crate::serve::{Client, TestServer};
use crate::support::World;

/// A response: its status, its lowercase head, and its body.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }

    /// Returns the events of a stream.
    fn events(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn ask(server: &TestServer, verb: &str, path: &str, version: &str, body: &Value) -> Reply {
    let (host, token) = (server.own_host(), &server.token);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let version = match version {
        "" => String::new(),
        version => format!("A2A-Version: {version}\r\n"),
    };
    let mut stream = server.connect();
    let request = format!(
        "{verb} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{version}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("send");
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("a line") > 0, "{head}");
    }
    let status = head[9..12].parse().expect("a status");
    let head = head.to_ascii_lowercase();
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("a body");
    let body = match head.contains("transfer-encoding: chunked") {
        true => unchunked(&body),
        false => body,
    };
    Reply { status, head, body: String::from_utf8(body).expect("text") }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(index) = rest.windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&rest[..index]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        body.extend_from_slice(&rest[index + 2..index + 2 + size]);
        rest = &rest[(index + 4 + size).min(rest.len())..];
        if size == 0 {
            break;
        }
    }
    body
}

fn rpc(server: &TestServer, version: &str, method: &str, params: Value) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    ask(server, "POST", "/", version, &body)
}

fn text_message(text: &str, task: Option<&str>) -> Value {
    let mut message = json!({"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]});
    if let Some(task) = task {
        message["contextId"] = json!(task);
    }
    json!({"message": message})
}

#[test]
fn only_the_card_is_public() {
    let world = World::new("[]");
    let mut server = TestServer::start(&world);
    let token = std::mem::replace(&mut server.token, "wrong".to_owned());
    let card = ask(&server, "GET", "/.well-known/agent-card.json", "", &Value::Null);
    assert_eq!(card.status, 200);
    let card = card.json();
    assert_eq!(card["supportedInterfaces"][0]["protocolBinding"], "JSONRPC");
    assert!(card["supportedInterfaces"][0]["url"].as_str().unwrap().contains(&server.own_host()));
    assert_eq!(card["capabilities"]["streaming"], true);
    for path in ["/", "/tasks", "/message:send", "/tasks/x", "/listCommands"] {
        let reply = ask(&server, "POST", path, "1.0", &json!({}));
        assert_eq!(reply.status, 401, "{path}");
    }
    server.token = token;
    assert_eq!(ask(&server, "GET", "/tasks/nothing", "1.0", &Value::Null).status, 404);
}

#[test]
fn message_is_answered_in_both_bindings_and_tasks_outlive_the_server() {
    let world = World::new(r#"[{"text":"first answer"},{"text":"second answer"}]"#);
    let server = TestServer::start(&world);
    let reply = ask(&server, "POST", "/message:send", "1.0", &text_message("hello", None));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.head.contains("application/a2a+json"), "{}", reply.head);
    let task = reply.json()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["status"]["message"]["parts"], json!([{"text": "first answer"}]));
    assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
    assert!(task.get("kind").is_none());
    let id = task["contextId"].as_str().expect("an id").to_owned();
    let reply = rpc(&server, "1.0", "SendMessage", text_message("more", Some(&id)));
    let task = reply.json()["result"]["task"].clone();
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "second answer");
    assert_eq!((&task["id"], task["history"].as_array().unwrap().len()), (&json!(id), 4));
    let got = rpc(&server, "1.0", "GetTask", json!({"id": id, "historyLength": 1})).json();
    assert_eq!(got["result"]["history"].as_array().unwrap().len(), 1);
    drop(server);
    let server = TestServer::start(&world);
    // Several clients ask at once, as after a restart.
    let get = || ask(&server, "GET", &format!("/tasks/{id}"), "1.0", &Value::Null).json();
    let replies: Vec<Value> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
        asking.into_iter().map(|it| it.join().expect("a reply")).collect()
    });
    for reply in replies {
        assert_eq!(reply["history"].as_array().map(Vec::len), Some(4), "{reply}");
    }
    let got = get();
    assert_eq!(got["status"]["state"], "TASK_STATE_COMPLETED");
    let history = got["history"].to_string();
    assert!(history.contains("hello") && history.contains("second answer"), "{history}");
    let listed = ask(&server, "GET", "/tasks?pageSize=1", "1.0", &Value::Null).json();
    assert_eq!((&listed["tasks"][0]["id"], &listed["totalSize"]), (&json!(id), &json!(1)));
}

#[test]
fn states_and_files_of_tasks_outlive_the_server() {
    let script = json!([
        {"calls": [{"name": "write_file", "args": {"file_path": "a.txt", "content": "new\n"}}]},
        {"text": "written"},
        {"status": 400, "error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}},
        {"calls": [{"name": "run_shell_command", "args": {"command": "touch x"}}]},
        {"text": "never", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    let settings = json!({"general": {"defaultApprovalMode": "auto_edit"}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let server = TestServer::start(&world);
    let send = |text: &str| {
        let reply = ask(&server, "POST", "/message:send", "1.0", &text_message(text, None)).json();
        let state = reply["task"]["status"]["state"].as_str().unwrap_or_default().to_owned();
        (reply["task"]["id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned(), state)
    };
    let (written, failed, waiting) = (send("write"), send("fail"), send("run"));
    assert_eq!(failed.1, "TASK_STATE_FAILED");
    assert_eq!(waiting.1, "TASK_STATE_INPUT_REQUIRED");
    let requests = world.server.requests().len();
    drop(server);
    assert_eq!(world.server.requests().len(), requests, "the end of the server rejects nothing");
    let server = TestServer::start(&world);
    let get = |path: &str| ask(&server, "GET", path, "1.0", &Value::Null).json();
    let listed = get("/tasks");
    let state = |id: &str| {
        let tasks = listed["tasks"].as_array().expect("tasks");
        let task = tasks.iter().find(|task| task["id"] == id).expect("the task");
        task["status"]["state"].as_str().expect("a state").to_owned()
    };
    assert_eq!(state(&written.0), "TASK_STATE_COMPLETED");
    assert_eq!(state(&failed.0), "TASK_STATE_FAILED");
    let waiting_state = state(&waiting.0);
    assert!(["TASK_STATE_CANCELED", "TASK_STATE_FAILED"].contains(&waiting_state.as_str()));
    let filtered = get("/tasks?status=TASK_STATE_COMPLETED");
    assert_eq!(filtered["totalSize"], 1, "{filtered}");
    let whole = get("/tasks?includeArtifacts=true&historyLength=1&status=TASK_STATE_COMPLETED");
    assert_eq!(whole["tasks"][0]["artifacts"][0]["parts"][0]["text"], "new\n", "{whole}");
    assert_eq!(whole["tasks"][0]["history"].as_array().expect("messages").len(), 1);
    assert!(filtered["tasks"][0].get("artifacts").is_none(), "{filtered}");
    let late = get("/tasks?statusTimestampAfter=2999-01-01T00:00:00Z");
    assert_eq!(late["totalSize"], 0, "{late}");
    let task = get(&format!("/tasks/{}", written.0));
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "new\n", "{task}");
    let time = |task: &Value| task["status"]["timestamp"].as_str().expect("a time").to_owned();
    let entry = listed["tasks"].as_array().expect("tasks").iter().find(|it| it["id"] == task["id"]);
    assert_eq!(time(&task), time(entry.expect("the task")));
}

#[test]
fn stream_contains_the_task_its_updates_and_its_end() {
    let script = json!([
        {"calls": [{"name": "write_file", "args": {"file_path": "a.txt", "content": "new\n"}}]},
        {"text": "written", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    let settings = json!({"general": {"defaultApprovalMode": "auto_edit"}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let server = TestServer::start(&world);
    let reply = ask(&server, "POST", "/message:stream", "1.0", &text_message("write", None));
    assert!(reply.head.contains("text/event-stream"), "{}", reply.head);
    let events = reply.events();
    assert!(events[0]["task"]["id"].is_string(), "{:?}", events[0]);
    let artifact = events.iter().find(|it| it.get("artifactUpdate").is_some()).expect("a file");
    let part = &artifact["artifactUpdate"]["artifact"]["parts"][0];
    assert!(part["filename"].as_str().unwrap().ends_with("a.txt") && part["text"] == "new\n");
    let last = &events.last().expect("an event")["statusUpdate"]["status"];
    assert_eq!(last["state"], "TASK_STATE_COMPLETED");
    assert_eq!(last["message"]["parts"][0]["text"], "written");
    // The older protocol version, over JSON-RPC.
    let message = json!({"message": {"kind": "message", "messageId": "m", "role": "user",
        "parts": [{"kind": "text", "text": "again"}]}});
    let events = rpc(&server, "", "message/stream", message).events();
    assert_eq!(events[0]["result"]["kind"], "task");
    let last = &events.last().expect("an event")["result"];
    assert_eq!((&last["kind"], &last["final"]), (&json!("status-update"), &json!(true)));
    assert_eq!(last["status"]["state"], "completed");
}

#[test]
fn approval_is_answered_by_the_next_message() {
    let call = json!({"name": "run_shell_command", "args": {"command": "touch made"}});
    let script = json!([{"calls": [call]}, {"text": "done"}, {"calls": [call]}, {"text": "no"}]);
    let world = World::new(&script.to_string());
    let server = TestServer::start(&world);
    let reply = rpc(&server, "1.0", "SendMessage", text_message("make it", None)).json();
    let task = &reply["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{reply}");
    let data = &task["status"]["message"]["parts"][1]["data"];
    let call = data["toolCall"]["toolCallId"].clone();
    assert!(data["options"].as_array().is_some_and(|it| it.len() > 1), "{data}");
    let id = task["id"].as_str().expect("an id").to_owned();
    let answer = |option: &str| {
        let decision = json!({"outcome": {"outcome": "selected", "optionId": option},
            "toolCallId": call});
        json!({"message": {"messageId": "m2", "role": "ROLE_USER", "taskId": id,
            "parts": [{"data": decision}]}})
    };
    let reply = rpc(&server, "1.0", "SendMessage", answer("proceed_once")).json();
    assert_eq!(reply["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{reply}");
    assert!(world.home.project().join("made").exists());
    std::fs::remove_file(world.home.project().join("made")).expect("remove");
    let reply = rpc(&server, "1.0", "SendMessage", text_message("again", Some(&id))).json();
    assert_eq!(reply["result"]["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let cancelled = ask(&server, "POST", &format!("/tasks/{id}:cancel"), "1.0", &Value::Null);
    assert_eq!(cancelled.json()["status"]["state"], "TASK_STATE_CANCELED", "{}", cancelled.body);
    assert!(!world.home.project().join("made").exists());
    let again = rpc(&server, "1.0", "CancelTask", json!({"id": id})).json();
    assert_eq!(again["error"]["code"], -32002);
}

#[test]
fn turn_of_another_client_can_be_approved_and_its_end_ends_the_task() {
    let call = json!({"name": "run_shell_command", "args": {"command": "touch made"}});
    let script = json!([{"text": "hello"}, {"calls": [call]}, {"text": "done"}, {"text": "more"}]);
    let world = World::new(&script.to_string());
    let server = TestServer::start(&world);
    let reply = rpc(&server, "1.0", "SendMessage", text_message("hi", None)).json();
    let task = reply["result"]["task"]["id"].as_str().expect("an id").to_owned();
    let mut client = Client::open(&server);
    client.call(1, "initialize", json!({"protocolVersion": 1}));
    let params = json!({"sessionId": task, "cwd": world.home.project(), "mcpServers": []});
    assert!(client.call(2, "session/load", params)["error"].is_null());
    let prompt = json!({"sessionId": task, "prompt": [{"type": "text", "text": "go"}]});
    client.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}));
    while client.next()["method"] != "session/request_permission" {}
    let state = || {
        let got = ask(&server, "GET", &format!("/tasks/{task}"), "1.0", &Value::Null).json();
        got["status"]["state"].clone()
    };
    crate::support::wait_until("the approval request", || state() == "TASK_STATE_INPUT_REQUIRED");
    let reply = rpc(&server, "1.0", "SendMessage", text_message("Allow", Some(&task))).json();
    let status = &reply["result"]["task"]["status"];
    assert_eq!(status["state"], "TASK_STATE_COMPLETED", "{reply}");
    assert_eq!(status["message"]["parts"][0]["text"], "done");
    assert!(world.home.project().join("made").exists());
    while client.next()["id"] != json!(3) {}
    let reply = rpc(&server, "1.0", "SendMessage", text_message("and now", Some(&task))).json();
    assert_eq!(reply["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{reply}");
}

#[test]
fn text_of_a_rejection_reaches_the_model_and_text_of_an_approval_is_rejected() {
    let call = json!({"name": "run_shell_command", "args": {"command": "touch made"}});
    let world = World::new(&json!([{"calls": [call]}, {"text": "no"}]).to_string());
    let server = TestServer::start(&world);
    let reply = rpc(&server, "1.0", "SendMessage", text_message("make it", None)).json();
    let task = &reply["result"]["task"];
    let call = task["status"]["message"]["parts"][1]["data"]["toolCall"]["toolCallId"].clone();
    let answer = |option: &str| {
        let decision = json!({"outcome": {"outcome": "selected", "optionId": option},
            "toolCallId": call});
        let message = json!({"message": {"messageId": "m2", "role": "ROLE_USER",
            "taskId": task["id"], "parts": [{"data": decision}, {"text": "use git instead"}]}});
        rpc(&server, "1.0", "SendMessage", message).json()
    };
    assert_eq!(answer("proceed_once")["error"]["code"], -32602);
    assert_eq!(answer("cancel")["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(!world.home.project().join("made").exists());
    let answers = crate::support::answers(&world.server).join("\n");
    assert!(answers.contains("use git instead"), "{answers}");
}

#[test]
fn simultaneous_approval_requests_are_answered_in_sequence() {
    let call = |name: &str| {
        let command = format!("touch {name}");
        json!({"name": "run_shell_command", "args": {"command": command}})
    };
    let calls = ["one", "two", "three"].map(call);
    let script = json!([{"calls": calls}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let server = TestServer::start(&world);
    let mut reply = rpc(&server, "1.0", "SendMessage", text_message("make them", None)).json();
    let id = reply["result"]["task"]["id"].as_str().expect("an id").to_owned();
    let mut refused = String::new();
    for option in ["proceed_once", "cancel", "proceed_once"] {
        let status = &reply["result"]["task"]["status"];
        assert_eq!(status["state"], "TASK_STATE_INPUT_REQUIRED", "{reply}");
        let data = &status["message"]["parts"][1]["data"];
        if option == "cancel" {
            refused = data["toolCall"]["title"].as_str().unwrap_or_default().to_owned();
        }
        let decision = json!({"outcome": {"outcome": "selected", "optionId": option},
            "toolCallId": data["toolCall"]["toolCallId"]});
        let message = json!({"message": {"messageId": "m", "role": "ROLE_USER", "taskId": id,
            "parts": [{"data": decision}]}});
        reply = rpc(&server, "1.0", "SendMessage", message).json();
    }
    assert_eq!(reply["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{reply}");
    for name in ["one", "two", "three"] {
        let created = world.home.project().join(name).exists();
        assert_eq!(created, !refused.contains(name), "{name}, refused: {refused}");
    }
}

#[test]
fn invalid_requests_get_protocol_error_codes() {
    let world = World::new("[]");
    let server = TestServer::start(&world);
    let code = |version: &str, method: &str, params: Value| {
        rpc(&server, version, method, params).json()["error"]["code"].clone()
    };
    assert_eq!(code("2.0", "GetTask", json!({"id": "x"})), -32009);
    assert_eq!(code("1.0", "GetTask", json!({"id": "../../etc/passwd"})), -32001);
    assert_eq!(code("1.0", "GetTask", json!({})), -32602);
    assert_eq!(code("1.0", "Nothing", json!({})), -32601);
    assert_eq!(code("1.0", "SendMessage", json!({"message": {"parts": []}})), -32602);
    let file = json!({"message": {"messageId": "m", "parts": [{"url": "http://x"}]}});
    assert_eq!(code("1.0", "SendMessage", file), -32005);
    let push = json!({"id": "x"});
    assert_eq!(code("1.0", "CreateTaskPushNotificationConfig", push), -32003);
    for (verb, path) in [
        ("POST", "/tasks/x/pushNotificationConfigs"),
        ("GET", "/tasks/x/pushNotificationConfigs"),
        ("GET", "/v1/tasks/x/pushNotificationConfigs/c"),
        ("DELETE", "/tasks/x/pushNotificationConfigs/c"),
    ] {
        let reply = ask(&server, verb, path, "1.0", &Value::Null);
        let reason = reply.json()["error"]["details"][0]["reason"].clone();
        let expected = (400, json!("PUSH_NOTIFICATION_NOT_SUPPORTED"));
        assert_eq!((reply.status, reason), expected, "{verb} {path}");
    }
    let reply = ask(&server, "GET", "/tasks/%2e%2e", "1.0", &Value::Null);
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["error"]["details"][0]["reason"], "TASK_NOT_FOUND");
    let reply = ask(&server, "POST", "/", "1.0", &json!("x"));
    assert_eq!(reply.json()["error"]["code"], -32600);
    let large = json!({"message": "x".repeat(17 * 1024 * 1024)});
    assert!(matches!(ask(&server, "POST", "/message:send", "1.0", &large).status, 413));
}

#[test]
fn older_server_routes_work() {
    let world = World::new("[]");
    let server = TestServer::start(&world);
    let listed = ask(&server, "GET", "/listCommands", "", &Value::Null).json();
    assert!(listed.to_string().contains("extensions install"), "{listed}");
    let created = ask(&server, "POST", "/tasks", "", &json!({"agentSettings": {}}));
    assert_eq!(created.status, 201);
    let id = created.json().as_str().expect("a bare id").to_owned();
    let metadata = ask(&server, "GET", &format!("/tasks/{id}/metadata"), "", &Value::Null).json();
    assert_eq!(metadata["metadata"]["id"], json!(id));
    let run = json!({"command": "about", "args": []});
    let output = ask(&server, "POST", "/executeCommand", "", &run);
    assert_eq!((output.status, &output.json()["name"]), (200, &json!("about")), "{}", output.body);
    let listed = ask(&server, "GET", "/listCommands", "", &Value::Null).json();
    assert!(listed["commands"].as_array().is_some_and(|it| !it.is_empty()), "{listed}");
    let manifest = json!({"name": "ext", "version": "1.0.0"}).to_string();
    world.home.write("ext/gemini-extension.json", &manifest).expect("written");
    let install = json!({"command": "extensions", "args": ["install", "./ext"]});
    let refused = ask(&server, "POST", "/executeCommand", "", &install);
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert!(refused.body.contains("consent"), "{}", refused.body);
    assert!(!world.home.parallax().join("extensions/ext").exists());
    let unknown = json!({"command": "nothing-of-this-name"});
    assert_eq!(ask(&server, "POST", "/executeCommand", "", &unknown).status, 404);
}

#[test]
fn session_open_in_another_process_is_not_listed_and_its_task_says_so() {
    let world = World::new(r#"[{"text":"first answer"},{"text":"second answer"}]"#);
    let mut editor = Editor::ready(&world, &[]);
    let session = editor.open(&world);
    let id = editor.prompt(&session, "in the editor");
    editor.answer(id);
    let server = TestServer::start(&world);
    let sent = ask(&server, "POST", "/message:send", "1.0", &text_message("hello", None)).json();
    let own = sent["task"]["id"].clone();
    let listed = || {
        let listed = ask(&server, "GET", "/tasks", "1.0", &Value::Null).json();
        let tasks = listed["tasks"].as_array().expect("tasks").clone();
        assert_eq!(listed["totalSize"], json!(tasks.len()));
        tasks.into_iter().map(|task| task["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(), std::slice::from_ref(&own));
    let get = || ask(&server, "GET", &format!("/tasks/{session}"), "1.0", &Value::Null);
    let got = get();
    assert_eq!(got.json()["error"]["details"][0]["reason"], "UNSUPPORTED_OPERATION");
    assert!(got.body.contains("in use by another process"), "{}", got.body);
    let sent = rpc(&server, "1.0", "SendMessage", text_message("more", Some(&session))).json();
    assert_eq!(sent["error"]["code"], -32004, "{sent}");
    // Once it is closed there, it is a task like the others.
    editor.end();
    assert_eq!(get().json()["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(listed().len(), 2);
}
