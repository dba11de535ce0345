//! `parallax serve` against clients and attackers, over raw sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::World;

/// A running server.
pub(crate) struct TestServer {
    pub(crate) child: Child,
    port: u16,
    pub(crate) token: String,
}

impl TestServer {
    pub(crate) fn start(world: &World) -> Self {
        let mut command = world.command(&["serve"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let mut value = |prefix: &str| {
            let line = lines.next().expect("a line").expect("text");
            line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).to_owned()
        };
        let port = value("Listening on http://127.0.0.1:").parse().expect("a port");
        let token = value("Token: ");
        Self { child, port, token }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        stream
    }

    /// Returns the status of the response to raw bytes; 0 if the connection was closed.
    fn status(&self, request: &str) -> u16 {
        let mut stream = self.connect();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut head = [0; 12];
        match stream.read_exact(&mut head) {
            Ok(()) => std::str::from_utf8(&head[9..]).expect("text").parse().expect("a status"),
            Err(_) => 0,
        }
    }

    /// Sends a request with the right token and the given `Host`.
    fn request(&self, path: &str, host: &str, more: &str) -> u16 {
        let token = &self.token;
        self.status(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        ))
    }

    pub(crate) fn own_host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of `/acp`.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn open(server: &TestServer) -> Self {
        let mut stream = server.connect();
        let (host, token) = (server.own_host(), &server.token);
        let head = format!(
            "GET /acp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nUpgrade: \
             websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \
             dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("send");
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).expect("a line") > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        Self { stream }
    }

    /// Sends a frame with a zero mask.
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    fn send_text(&mut self, text: &str) {
        let length = u16::try_from(text.len()).expect("a short message");
        let mut frame = vec![0x81, 0xfe];
        frame.extend(length.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.get_mut().write_all(&frame).expect("send");
    }

    pub(crate) fn next(&mut self) -> Value {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).expect("a frame");
        assert_eq!(head[0], 0x81, "a whole text message");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length).expect("a length");
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length).expect("a length");
                usize::try_from(u64::from_be_bytes(length)).expect("a length")
            }
            length => usize::from(length),
        };
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text).expect("a message");
        serde_json::from_slice(&text).expect("JSON")
    }

    pub(crate) fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.next();
            if message["id"] == json!(id) {
                return message;
            }
        }
    }
}

#[test]
fn session_runs_over_a_websocket_and_is_saved_at_sigterm() {
    let world = World::new(r#"[{"text":"hello from afar"}]"#);
    let mut server = TestServer::start(&world);
    let mut client = Client::open(&server);
    let answer = client.call(1, "initialize", json!({"protocolVersion": 1}));
    assert_eq!(answer["result"]["agentInfo"]["name"], "parallax");
    let params = json!({"cwd": world.home.project(), "mcpServers": []});
    let session = client.call(2, "session/new", params)["result"]["sessionId"].clone();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]});
    assert_eq!(client.call(3, "session/prompt", prompt)["result"]["stopReason"], "end_turn");
    // A second client of the same process.
    let mut other = Client::open(&server);
    other.call(1, "initialize", json!({"protocolVersion": 1}));
    let listed = other.call(2, "session/list", json!({"cwd": world.home.project()}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], session);
    let started_at = Instant::now();
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    assert!(server.child.wait().expect("the end").success());
    assert!(started_at.elapsed() < Duration::from_secs(8), "{:?}", started_at.elapsed());
}

#[test]
fn requests_from_web_pages_or_without_token_are_rejected() {
    let world = World::new("[]");
    let server = TestServer::start(&world);
    let own = server.own_host();
    assert_eq!(server.request("/acp", &own, ""), 426);
    assert_eq!(server.status(&format!("GET /acp HTTP/1.1\r\nHost: {own}\r\n\r\n")), 401);
    for token in ["", "x", &server.token[1..], &format!("{}0", server.token)] {
        let request =
            format!("GET /acp HTTP/1.1\r\nHost: {own}\r\nAuthorization: Bearer {token}\r\n\r\n");
        assert_eq!(server.status(&request), 401, "{token}");
    }
    for host in ["evil.example", "127.0.0.1:1", "evil.example:80"] {
        assert_eq!(server.request("/acp", host, ""), 403, "{host}");
    }
    for origin in ["null", "https://evil.example", &format!("http://{own}")] {
        assert_eq!(server.request("/acp", &own, &format!("Origin: {origin}\r\n")), 403);
    }
    for path in ["/", "/../etc/passwd", "/acp/../acp", "/%2e%2e/acp", "/acp/", "//acp"] {
        assert_eq!(server.request(path, &own, ""), 404, "{path}");
    }
}

#[test]
fn oversized_slow_and_broken_requests_are_closed() {
    let world = World::new("[]");
    let server = TestServer::start(&world);
    let own = server.own_host();
    let long = format!("X-Long: {}\r\n", "x".repeat(64 * 1024));
    assert!(matches!(server.request("/acp", &own, &long), 0 | 400 | 431));
    let many = "X-Many: x\r\n".repeat(1000);
    assert!(matches!(server.request("/acp", &own, &many), 0 | 400 | 431));
    assert!(matches!(server.status("\u{0}\u{1}\r\n\r\n"), 0 | 400));
    let mut slow = server.connect();
    slow.write_all(b"GET /acp HTTP/1.1\r\n").expect("send");
    let started_at = Instant::now();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).expect("the end of the connection");
    assert!(started_at.elapsed() < Duration::from_secs(15), "{:?}", started_at.elapsed());
    // The server still responds.
    assert_eq!(server.request("/acp", &own, ""), 426);
}

#[test]
fn non_loopback_addresses_require_a_token() {
    let world = World::new("[]");
    let output = world.run(&["serve", "--host", "0.0.0.0"]);
    assert_eq!(output.code(), 42);
}

#[test]
fn clients_of_one_session_see_the_same_events_and_either_can_answer() {
    let call = json!({"name": "run_shell_command", "args": {"command": "touch made"}});
    let script = json!([{"text": "first"}, {"calls": [call]}, {"text": "done"}, {"text": "later"}]);
    let world = World::new(&script.to_string());
    let server = TestServer::start(&world);
    let mut one = Client::open(&server);
    one.call(1, "initialize", json!({"protocolVersion": 1}));
    let opened = one.call(2, "session/new", json!({"cwd": world.home.project(), "mcpServers": []}));
    let session = opened["result"]["sessionId"].clone();
    let prompt =
        |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    one.call(3, "session/prompt", prompt("hello"));
    let mut other = Client::open(&server);
    other.call(1, "initialize", json!({"protocolVersion": 1}));
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    other.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": params}));
    let mut history = String::new();
    loop {
        let message = other.next();
        if message["id"] == 2 {
            assert!(message["result"]["modes"].is_object(), "{message}");
            break;
        }
        history.push_str(&message.to_string());
    }
    assert!(history.contains("hello") && history.contains("first"), "{history}");
    // The first client sends a prompt, and the second one approves the call.
    let request =
        json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt("go")});
    one.send(&request);
    let (mut has_asked, mut seen) = (false, String::new());
    loop {
        let message = other.next();
        if message["method"] == "session/request_permission" {
            has_asked = true;
            let outcome = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
            other.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}));
        }
        seen.push_str(&message.to_string());
        if seen.contains("done") {
            break;
        }
    }
    assert!(has_asked && seen.contains("tool_call_update"), "{seen}");
    let answer = loop {
        let message = one.next();
        if message["id"] == 3 && message.get("result").is_some() {
            break message;
        }
    };
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(world.home.project().join("made").exists());
    // The session continues for the remaining client.
    drop(one);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(other.call(4, "session/prompt", prompt("more"))["result"]["stopReason"], "end_turn");
}

#[test]
fn consent_given_by_one_client_is_resolved_for_the_others() {
    let world = World::new(&json!([{"text": "one"}, {"text": "two"}]).to_string());
    let command = "prompt = 'Look: !{touch made}'";
    world.home.write_home(".parallax/commands/make.toml", command).expect("written");
    let server = TestServer::start(&world);
    let mut one = Client::open(&server);
    one.call(1, "initialize", json!({"protocolVersion": 1}));
    let opened = one.call(2, "session/new", json!({"cwd": world.home.project(), "mcpServers": []}));
    let session = opened["result"]["sessionId"].clone();
    let prompt =
        |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    one.call(3, "session/prompt", prompt("hello"));
    let mut other = Client::open(&server);
    other.call(1, "initialize", json!({"protocolVersion": 1}));
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    other.call(2, "session/load", params);
    let make = prompt("/make");
    one.send(&json!({"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": make}));
    let request = loop {
        let message = other.next();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    other.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome}));
    let call = &request["params"]["toolCall"]["toolCallId"];
    let update = loop {
        let message = one.next();
        assert_ne!(message["id"], 4, "the update comes before the answer");
        if message["params"]["update"]["sessionUpdate"] == "tool_call_update" {
            break message["params"]["update"].clone();
        }
    };
    assert_eq!((&update["toolCallId"], &update["status"]), (call, &json!("completed")));
}

#[test]
fn question_goes_to_supporting_clients_and_survives_a_malformed_answer() {
    let questions = json!([{"question": "Which color?", "header": "Color", "type": "text"}]);
    let call = json!({"name": "ask_user", "args": {"questions": questions}});
    let script = json!([{"text": "one"}, {"calls": [call]}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let server = TestServer::start(&world);
    let offers = json!({"elicitation": {"form": {}}});
    let start = json!({"protocolVersion": 1, "clientCapabilities": offers});
    let mut place = json!({"cwd": world.home.project(), "mcpServers": []});
    let mut one = Client::open(&server);
    one.call(1, "initialize", start.clone());
    let session = one.call(2, "session/new", place.clone())["result"]["sessionId"].clone();
    let prompt =
        |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    one.call(3, "session/prompt", prompt("hello"));
    place["sessionId"] = session.clone();
    let [mut malformed, mut plain] = [start, json!({"protocolVersion": 1})].map(|start| {
        let mut client = Client::open(&server);
        client.call(1, "initialize", start);
        client.call(2, "session/load", place.clone());
        client
    });
    one.send(
        &json!({"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": prompt("ask")}),
    );
    let question = |client: &mut Client| loop {
        let message = client.next();
        if message["method"] == "elicitation/create" {
            break message["id"].clone();
        }
    };
    let id = question(&mut malformed);
    malformed.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    let id = question(&mut one);
    std::thread::sleep(Duration::from_millis(300));
    let answer = json!({"action": "accept", "content": {"0": "ultramarine"}});
    one.send(&json!({"jsonrpc": "2.0", "id": id, "result": answer}));
    while one.next()["id"] != json!(4) {}
    let answers = crate::support::answers(&world.server).join("\n");
    assert!(answers.contains("ultramarine"), "{answers}");
    let mut seen = String::new();
    while !seen.contains("done") {
        let message = plain.next();
        assert_ne!(message["method"], "elicitation/create", "{message}");
        seen.push_str(&message.to_string());
    }
}

#[test]
fn client_that_joins_later_can_answer_and_other_clients_cannot_close_the_session() {
    let call = json!({"name": "run_shell_command", "args": {"command": "touch made"}});
    let world = World::new(&json!([{"calls": [call]}, {"text": "done"}]).to_string());
    let server = TestServer::start(&world);
    let mut one = Client::open(&server);
    one.call(1, "initialize", json!({"protocolVersion": 1}));
    let opened = one.call(2, "session/new", json!({"cwd": world.home.project(), "mcpServers": []}));
    let session = opened["result"]["sessionId"].clone();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    one.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}));
    while one.next()["method"] != "session/request_permission" {}
    let mut other = Client::open(&server);
    other.call(1, "initialize", json!({"protocolVersion": 1}));
    let refused = other.call(2, "session/close", json!({"sessionId": session}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    other.send(&json!({"jsonrpc": "2.0", "method": "session/cancel",
        "params": {"sessionId": session}}));
    let params = json!({"sessionId": session, "cwd": world.home.project(), "mcpServers": []});
    other.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "session/load", "params": params}));
    // It sees the call as it is, under the id that its request and its later updates have.
    let mut calls = Vec::new();
    let request = loop {
        let message = other.next();
        if message["method"] == "session/request_permission" {
            break message;
        }
        if message["params"]["update"]["sessionUpdate"] == "tool_call" {
            calls.push(message["params"]["update"].clone());
        }
    };
    let call = request["params"]["toolCall"]["toolCallId"].clone();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!((&calls[0]["toolCallId"], &calls[0]["status"]), (&call, &json!("pending")));
    // The session continues for the second client when the first one closes it.
    assert!(one.call(4, "session/close", json!({"sessionId": session}))["result"].is_object());
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}});
    other.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": outcome}));
    let mut seen = String::new();
    while !seen.contains("done") {
        seen.push_str(&other.next().to_string());
    }
    assert!(world.home.project().join("made").exists());
}

#[test]
fn files_of_another_client_are_used_after_the_opener_has_left() {
    let call = |name: &str, args: Value| json!({"calls": [{"name": name, "args": args}]});
    let read = || call("read_file", json!({"file_path": "a.txt"}));
    let done = json!({"text": "done"});
    let write = call("write_file", json!({"file_path": "b.txt", "content": "new"}));
    let world = World::new(&json!([read(), done, read(), write, done]).to_string());
    world.home.write("a.txt", "saved").expect("a file");
    let server = TestServer::start(&world);
    let offers = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let start = json!({"protocolVersion": 1, "clientCapabilities": offers});
    let mut place = json!({"cwd": world.home.project(), "mcpServers": []});
    let mut opener = Client::open(&server);
    opener.call(1, "initialize", start.clone());
    let session = opener.call(2, "session/new", place.clone())["result"]["sessionId"].clone();
    let mode = json!({"sessionId": session, "modeId": "autoEdit"});
    opener.call(3, "session/set_mode", mode);
    place["sessionId"] = session.clone();
    let [_plain, mut other] = [json!({"protocolVersion": 1}), start].map(|start| {
        let mut client = Client::open(&server);
        client.call(1, "initialize", start);
        client.call(2, "session/load", place.clone());
        client
    });
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let turn = json!({"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": prompt});
    let serve_files = |client: &mut Client| {
        let mut requested = Vec::new();
        client.send(&turn);
        loop {
            let message = client.next();
            let result = match message["method"].as_str() {
                Some("fs/read_text_file") => json!({"content": "unsaved"}),
                Some("fs/write_text_file") => json!({}),
                _ if message["id"] == json!(4) => return requested,
                _ => continue,
            };
            let path = message["params"]["path"].as_str().unwrap_or_default();
            requested.push(path.rsplit('/').next().unwrap_or_default().to_owned());
            client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
    };
    assert_eq!(serve_files(&mut opener), ["a.txt"]);
    // It stays connected, for example for other sessions.
    assert!(opener.call(5, "session/close", json!({"sessionId": session}))["result"].is_object());
    let requested = serve_files(&mut other);
    assert_eq!(requested.first().map(String::as_str), Some("a.txt"), "{requested:?}");
    assert!(requested.iter().any(|name| name == "b.txt"), "{requested:?}");
    assert!(!world.home.project().join("b.txt").exists(), "the client wrote it");
    let answers = crate::support::answers(&world.server).join("\n");
    assert_eq!(answers.matches("unsaved").count(), 2, "{answers}");
}

#[test]
fn clients_that_load_a_session_at_once_share_it_and_files_outlive_its_opener() {
    let read = json!({"name": "read_file", "args": {"file_path": "a.txt"}});
    let script = json!([{"text": "one"}, {"calls": [read]}, {"text": "done", "repeat": 0}]);
    let world = World::new(&script.to_string());
    world.home.write("a.txt", "from disk").expect("a file");
    let server = TestServer::start(&world);
    let offers = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let start = json!({"protocolVersion": 1, "clientCapabilities": offers});
    let place = || json!({"cwd": world.home.project(), "mcpServers": []});
    let mut one = Client::open(&server);
    one.call(1, "initialize", start.clone());
    let session = one.call(2, "session/new", place())["result"]["sessionId"].clone();
    // JavaScript writes half an emoji as the escape sequence of one surrogate.
    let prompt =
        |text: &str| json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    let cut = prompt("MARK").to_string().replace("MARK", "cut \\ud83d");
    one.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{cut}}}"#
    ));
    while one.next()["id"] != json!(3) {}
    drop(one);
    // Both load it while it may still be closing.
    let mut clients = [Client::open(&server), Client::open(&server)];
    for client in &mut clients {
        client.call(1, "initialize", start.clone());
        let mut params = place();
        params["sessionId"] = session.clone();
        client
            .send(&json!({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": params}));
    }
    for client in &mut clients {
        let reply = loop {
            let message = client.next();
            if message["id"] == json!(2) {
                break message;
            }
        };
        assert!(reply["error"].is_null(), "{reply}");
    }
    let [first, mut second] = clients;
    // One of them opened it. When it is gone, the files are those of the other one.
    first.stream.get_ref().shutdown(std::net::Shutdown::Both).expect("closed");
    drop(first);
    std::thread::sleep(Duration::from_millis(300));
    let started_at = std::time::Instant::now();
    second.send(
        &json!({"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": prompt("read")}),
    );
    loop {
        let message = second.next();
        if message["method"] == "fs/read_text_file" {
            let answer = json!({"content": "from disk"});
            second.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
        }
        if message["id"] == json!(5) {
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            break;
        }
    }
    assert!(started_at.elapsed() < Duration::from_secs(15), "{:?}", started_at.elapsed());
    let requests = world.server.requests();
    let last = String::from_utf8_lossy(&requests.last().expect("a request").body).into_owned();
    assert!(last.contains("from disk"), "{last}");
}
