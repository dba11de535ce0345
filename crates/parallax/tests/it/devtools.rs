//! `parallax devtools` over raw sockets: who can connect, and what they receive.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::API_KEY;

use crate::mcp::stdio;
use crate::support::{Conversation, World, wait_until};

/// A running server.
struct DevToolsProcess {
    child: Child,
    port: u16,
    token: String,
}

impl DevToolsProcess {
    /// Without a session, the latest one is shown.
    fn start(world: &World, session: &str) -> Self {
        let mut command = world.command(&["devtools", "--no-open"]);
        command.args((!session.is_empty()).then_some(session));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("stdout");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let (_, link) = line.trim().split_once("http://127.0.0.1:").expect("a link");
        let (port, token) = link.split_once("/?token=").expect("a token");
        Self { port: port.parse().expect("a port"), token: token.to_owned(), child }
    }

    fn send(&self, path: &str, headers: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        let host = if headers.contains("Host:") {
            String::new()
        } else {
            format!("Host: 127.0.0.1:{}\r\n", self.port)
        };
        let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        BufReader::new(stream)
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let mut text = String::new();
        self.send(path, headers).read_to_string(&mut text).expect("a response");
        text
    }

    /// Opens the page with the link. Returns the header with its cookie.
    fn cookie(&self) -> String {
        let first = self.get(&format!("/?token={}", self.token), "");
        let cookie = first.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let pair = cookie.expect("a cookie").split(';').next().expect("a pair");
        format!("Cookie: {pair}\r\n")
    }

    fn status(&self, path: &str, headers: &str) -> u16 {
        self.get(path, headers)[9..12].parse().expect("a status")
    }
}

impl Drop for DevToolsProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn link_works_once_and_its_cookie_opens_the_session() {
    let script = json!([
        {"calls": [{"name": "list_directory", "args": {"dir_path": "."}}]},
        {"text": "all is </script> well"},
        {"text": "and still is"},
    ]);
    let world = World::new(&script.to_string());
    world.run_ok(&["-p", "how is it?", "--session-id", "seen"]);
    let server = DevToolsProcess::start(&world, "seen");
    let link = format!("/?token={}", server.token);
    for path in ["/", "/events", "/devtools.js", "/?token=0", "/?token="] {
        assert_eq!(server.status(path, ""), 403, "{path}");
    }
    // Pages of other servers do not receive the token's cookie.
    assert_eq!(server.status(&link, "Host: evil.example\r\n"), 403);
    assert_eq!(server.status(&link, "Origin: https://evil.example\r\n"), 403);
    let first = server.get(&link, "");
    assert!(first.starts_with("HTTP/1.1 303"), "{first}");
    let cookie =
        first.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    let header = format!("Cookie: other=1; {pair}\r\n");
    assert_eq!(server.status(&link, ""), 403, "the link works once");
    assert_eq!(server.status(&link, &header), 303);
    // The cookie belongs to a path that other servers on this machine do not have.
    let path = cookie.split("; ").find_map(|field| field.strip_prefix("Path=")).expect("a path");
    assert!(path.len() > 30 && path.ends_with('/'), "{cookie}");
    assert!(first.contains(&format!("location: {path}\r\n")), "{first}");
    assert_eq!(server.status(path, &header), 200);
    assert_eq!(server.status(path, ""), 403);
    assert_eq!(server.status("/devtools.css", &header), 200);
    assert_eq!(server.status(&format!("{path}devtools.css"), &header), 200);
    // The other cookie is sent everywhere, but only allows reopening the link.
    let mut marks = first.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
    let mark = marks.next_back().and_then(|mark| mark.split(';').next()).expect("a cookie");
    let mark = format!("Cookie: {mark}\r\n");
    assert_eq!(server.status(&link, &mark), 303);
    assert_eq!(server.status(path, &mark), 403);
    // Other pages cannot load anything, but links on them work.
    for site in ["cross-site", "same-site"] {
        let other = format!("{header}Sec-Fetch-Site: {site}\r\n");
        assert_eq!(server.status(&format!("{path}events"), &other), 403);
        assert_eq!(server.status(path, &format!("{other}Sec-Fetch-Mode: no-cors\r\n")), 403);
        assert_eq!(server.status(path, &format!("{other}Sec-Fetch-Mode: navigate\r\n")), 200);
    }
    assert_eq!(server.status(path, &format!("{header}Sec-Fetch-Site: same-origin\r\n")), 200);
    assert_eq!(server.status("/", "Cookie: parallax-devtools=x\r\n"), 403);
    assert_eq!(server.status("/", &format!("{header}Origin: https://evil.example\r\n")), 403);
    assert_eq!(server.status("/other", &header), 404);
    let page = server.get("/", &header);
    assert!(page.contains("content-security-policy: default-src 'self'"), "{page}");
    assert!(server.get("/devtools.js", &header).contains("text/javascript"));
    let mut events = server.send("/events", &header);
    let mut session = String::new();
    while !session.contains("turn_end") {
        let mut line = String::new();
        assert!(events.read_line(&mut line).expect("a line") > 0, "{session}");
        session.push_str(&line);
    }
    assert!(session.contains("event: session\n"), "{session}");
    for record in ["\"role\":\"main\"", "\"firstChunkMs\"", "\"window\"", "\"rule\"", "how is it?"]
    {
        assert!(session.contains(record), "{record}: {session}");
    }
    // What another process adds arrives.
    world.run_ok(&["-p", "and now?", "-r", "seen"]);
    let mut added = String::new();
    while !added.contains("turn_end") {
        assert!(events.read_line(&mut added).expect("a line") > 0, "{added}");
    }
    assert!(added.contains("event: records") && added.contains("and still is"), "{added}");
    let unknown = world.run(&["devtools", "nothing", "--no-open"]);
    assert!(unknown.code() != 0 && unknown.err().contains("nothing"), "{}", unknown.err());
}

#[test]
fn running_session_without_a_prompt_can_be_attached() {
    let world = World::new(r#"[{"text": "hi", "repeat": 0}]"#);
    world.run_ok(&["-p", "an older one", "--session-id", "older"]);
    let session = Conversation::start(&world, &["--session-id", "waiting"]);
    let socket = world.home.parallax().join("live/waiting/tap");
    wait_until("the socket", || socket.exists());
    for selector in ["", "waiting", "wait"] {
        let server = DevToolsProcess::start(&world, selector);
        let header = server.cookie();
        let mut page = LivePage { events: server.send("/events", &header), all: String::new() };
        page.read_until(&["\"running\":true"]);
        assert!(!page.all.contains("an older one"), "{selector}: {}", page.all);
    }
    drop(session);
}

/// What a page receives from a running session.
struct LivePage {
    events: BufReader<TcpStream>,
    all: String,
}

impl LivePage {
    /// Reads until a line has all of these.
    fn read_until(&mut self, words: &[&str]) -> String {
        loop {
            let mut line = String::new();
            let read = self.events.read_line(&mut line).expect("a line");
            assert!(read > 0, "{words:?} did not come: {}", self.all);
            self.all.push_str(&line);
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    /// Returns the next message of the tap of a kind.
    fn message(&mut self, kind: &str) -> Value {
        // A record of the journal may have the same name.
        let words = [&*format!("data: {{\"{kind}\":"), "\"time\":1"];
        let line = self.read_until(&words);
        let line = line.trim().trim_start_matches("data: ");
        serde_json::from_str::<Value>(line).expect("JSON")[kind].clone()
    }
}

#[test]
fn running_session_shows_requests_without_secrets_while_a_page_is_open() {
    let echo = json!({"calls": [{"name": "run_shell_command", "args": {"command": format!("echo {API_KEY}")}}]});
    let script = json!([
        {"text": "before"},
        {"status": 503, "headers": {"x-echo": API_KEY, "set-cookie": "a=1"}, "error": {"code": 503, "status": "UNAVAILABLE", "message": format!("overloaded {API_KEY}")}},
        echo,
        {"text": format!("the key is {API_KEY}")},
    ]);
    let world = World::new(&script.to_string());
    let hook = format!("cat; echo {API_KEY} >&2");
    let settings = json!({"hooks": {"BeforeTool": [{"hooks": [{"type": "command", "name": "log", "command": hook}]}]}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let mut session = Conversation::start(&world, &["--session-id", "live", "--yolo"]);
    session.prompt("first");
    session.next("result");
    let directory = world.home.parallax().join("live/live");
    wait_until("the socket", || directory.join("tap").exists());
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &directory.metadata().expect("directory").permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
    let server = DevToolsProcess::start(&world, "live");
    let header = server.cookie();
    let mut page = LivePage { events: server.send("/events", &header), all: String::new() };
    page.read_until(&["\"running\":true"]);
    session.prompt(&format!("second with {API_KEY}"));
    let sent = page.message("request");
    assert_eq!(sent["attempt"], 1, "{sent}");
    assert_eq!(sent["headers"]["x-goog-api-key"], "[redacted]", "{sent}");
    assert_eq!(sent["headers"]["content-type"], "application/json", "{sent}");
    assert!(sent["url"].as_str().expect("url").contains(":streamGenerateContent"), "{sent}");
    let body: Value =
        serde_json::from_str(sent["body"]["text"].as_str().expect("text")).expect("a body");
    assert!(body["contents"].to_string().contains("second with"), "{body}");
    let refused = page.message("response");
    assert_eq!(refused["status"], 503, "{refused}");
    assert_eq!(refused["headers"]["set-cookie"], "[redacted]", "{refused}");
    let retry = page.message("retry");
    assert!(retry["message"].as_str().expect("text").contains("overloaded"), "{retry}");
    let again = page.message("request");
    assert_eq!(again["attempt"], 2, "{again}");
    assert_eq!(again["body"]["base"], sent["body"]["key"], "{again}");
    assert_eq!(page.message("response")["status"], 200);
    assert!(page.message("chunk")["bytes"].as_u64() > Some(0));
    let hook = page.message("hook");
    assert_eq!(hook["input"]["tool_name"], "run_shell_command", "{hook}");
    assert_eq!(page.message("call_state")["phase"], "executing");
    session.next("result");
    // A page that is opened later gets what was reported before.
    page.read_until(&["turn_end"]);
    let mut later = LivePage { events: server.send("/events", &header), all: String::new() };
    assert_eq!(later.message("request")["url"], sent["url"]);
    assert_eq!(session.end(), Some(0));
    page.read_until(&["\"running\":false"]);
    let reported: Vec<&str> = page.all.lines().filter(|line| !line.contains("\"wire\"")).collect();
    for line in reported.iter().chain(&later.all.lines().collect::<Vec<_>>()) {
        let is_tap = ["request", "response", "retry", "hook", "log", "call", "call_end"]
            .iter()
            .any(|kind| line.starts_with(&format!("data: {{\"{kind}\":{{")));
        assert!(!is_tap || !line.contains(API_KEY), "{line}");
    }
    assert!(!directory.exists(), "the socket is removed");
}

#[test]
fn page_shows_startup_and_messages_of_mcp_servers() {
    let echo = json!({"name": "mcp_test_echo", "args": {"text": "hi"}});
    let script = json!([{"text": "before"}, {"calls": [echo]}, {"text": "done"}]);
    let world = World::new(&script.to_string());
    let mut server = stdio(&world, "");
    server["env"] = json!({"TOKEN": "s3cret-value"});
    let settings = json!({"mcpServers": {"test": server}});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    let mut session = Conversation::start(&world, &["--session-id", "served", "--yolo"]);
    session.prompt("first");
    session.next("result");
    wait_until("the socket", || world.home.parallax().join("live/served/tap").exists());
    let server = DevToolsProcess::start(&world, "served");
    let header = server.cookie();
    let mut page = LivePage { events: server.send("/events", &header), all: String::new() };
    let started = page.message("mcp");
    assert_eq!((&started["server"], &started["method"]), (&json!("test"), &json!("initialize")));
    assert_eq!((&started["sent"], &started["is_response"]), (&json!(true), &json!(false)));
    let answered = page.message("mcp");
    assert_eq!((&answered["method"], &answered["is_response"]), (&started["method"], &json!(true)));
    assert_eq!((&answered["id"], &answered["sent"]), (&started["id"], &json!(false)));
    assert!(answered["message"]["result"]["serverInfo"].is_object(), "{answered}");
    page.read_until(&["{\"mcp\":", "\"method\":\"tools/list\"", "\"is_response\":true"]);
    session.prompt(&format!("second {}", "s3cret-value"));
    page.read_until(&["{\"mcp\":", "\"method\":\"tools/call\"", "\"is_response\":true"]);
    session.next("result");
    assert_eq!(session.end(), Some(0));
    let server_lines = page.all.lines().filter(|line| line.contains("{\"mcp\":"));
    assert!(server_lines.clone().count() > 4);
    assert!(server_lines.clone().all(|line| !line.contains("s3cret-value")));
}

#[test]
fn journal_records_what_ran_and_why_a_call_was_undecided() {
    let call = |name: &str, args: Value| json!({"name": name, "args": args});
    let script = json!([
        {"calls": [
            call("list_directory", json!({"dir_path": "."})),
            call("read_file", json!({"file_path": "a.txt"})),
            call("glob", json!({"pattern": "*"})),
            call("no_such_tool", json!({})),
            call("run_shell_command", json!({"command": "true"})),
        ]},
        {"text": "done"},
    ]);
    let world = World::new(&script.to_string());
    world.home.write("a.txt", "one").expect("a file");
    world.home.write("b.txt", "two").expect("a file");
    let hook = |matcher: &str, output: &Value| {
        let command = format!("cat > /dev/null; echo '{output}'");
        json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]})
    };
    let specific = |field: &str, value: Value| json!({"hookSpecificOutput": {field: value}});
    let tail = json!({"name": "read_file", "args": {"file_path": "a.txt"}});
    let settings = json!({"hooks": {
        "BeforeTool": [
            hook("read_file", &specific("tool_input", json!({"file_path": "b.txt"}))),
            {"matcher": "glob", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]},
        ],
        "AfterTool": [hook("list_directory", &specific("tailToolCallRequest", tail))],
    }});
    world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
    world.run_ok(&["-p", "go", "-y", "--session-id", "hooked"]);
    let folder = world.home.parallax().join("sessions");
    let project = std::fs::read_dir(folder).expect("projects").flatten().next().expect("one");
    let journal = std::fs::read_to_string(project.path().join("hooked.jsonl")).expect("a journal");
    let records = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let results: Vec<Value> = records.filter_map(|it| it.get("result").cloned()).collect();
    let details = |name: &str| {
        let found = results.iter().find(|result| result["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {results:?}"))["told"].clone()
    };
    let replaced = details("list_directory");
    assert_eq!(replaced["tool"], "read_file", "{replaced}");
    // The hook of the tool that ran changes the arguments once more.
    assert_eq!(replaced["arguments"], json!({"file_path": "b.txt"}), "{replaced}");
    let changed = details("read_file");
    assert_eq!(changed["arguments"], json!({"file_path": "b.txt"}), "{changed}");
    assert!(changed.get("tool").is_none(), "{changed}");
    assert_eq!(details("glob")["error"], "policy_violation");
    assert_eq!(details("no_such_tool")["error"], "tool_not_registered");
    let command = details("run_shell_command");
    assert!(command["sandbox"]["before"].is_u64(), "{command}");
    assert!(command.get("arguments").is_none() && command.get("error").is_none(), "{command}");
}

#[test]
fn socket_of_a_killed_session_is_replaced() {
    let world = World::new(&json!([{"text": "one"}, {"text": "two"}]).to_string());
    let directory = world.home.parallax().join("live/again");
    for name in ["again", "dead"] {
        let stale = world.home.parallax().join("live").join(name);
        std::fs::create_dir_all(&stale).expect("directory");
        drop(std::os::unix::net::UnixListener::bind(stale.join("tap")).expect("socket"));
    }
    let mut session = Conversation::start(&world, &["--session-id", "again"]);
    session.prompt("first");
    session.next("result");
    wait_until("the stale socket is gone", || !world.home.parallax().join("live/dead").exists());
    wait_until("the new socket", || {
        std::os::unix::net::UnixStream::connect(directory.join("tap")).is_ok()
    });
    // A connection that sends nothing is not a viewer, and delays nothing.
    let silent = std::os::unix::net::UnixStream::connect(directory.join("tap")).expect("connect");
    session.prompt("second");
    session.next("result");
    assert_eq!(session.end(), Some(0));
    drop(silent);
    assert!(!directory.exists());
}
