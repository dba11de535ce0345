//! `parallax devtools` over raw sockets: who gets in, and what comes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::support::World;

/// A server that runs.
struct Inspection {
    child: Child,
    port: u16,
    token: String,
}

impl Inspection {
    fn start(world: &World, session: &str) -> Self {
        let mut command = world.command(&["devtools", session, "--no-open"]);
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

    fn status(&self, path: &str, headers: &str) -> u16 {
        self.get(path, headers)[9..12].parse().expect("a status")
    }
}

impl Drop for Inspection {
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
    world.run_well(&["-p", "how is it?", "--session-id", "seen"]);
    let server = Inspection::start(&world, "seen");
    let link = format!("/?token={}", server.token);
    for path in ["/", "/events", "/devtools.js", "/?token=0", "/?token="] {
        assert_eq!(server.status(path, ""), 403, "{path}");
    }
    // No page of others gets the token's cookie.
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
    world.run_well(&["-p", "and now?", "-r", "seen"]);
    let mut added = String::new();
    while !added.contains("turn_end") {
        assert!(events.read_line(&mut added).expect("a line") > 0, "{added}");
    }
    assert!(added.contains("event: records") && added.contains("and still is"), "{added}");
    let unknown = world.run(&["devtools", "nothing", "--no-open"]);
    assert!(unknown.code() != 0 && unknown.err().contains("nothing"), "{}", unknown.err());
}
