//! DevTools of a session in the terminal.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::terminal_driver::{StartOptions, TerminalDriver};
use crate::support::World;

/// Returns the status line and headers of a response.
fn get(link: &str) -> String {
    let rest = link.strip_prefix("http://").expect("a link");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    text
}

fn links(seat: &TerminalDriver) -> Vec<String> {
    let lines = seat.lines().join("\n");
    lines
        .split_whitespace()
        .filter(|word| word.starts_with("http://127.0.0.1:") && word.contains("/?token="))
        .map(str::to_owned)
        .collect()
}

#[test]
fn page_starts_with_the_session_and_each_link_works_once() {
    let world = World::new(&json!([{"text": "Hello."}]).to_string());
    let settings = r#"{"general": {"devtools": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(120, 40));
    seat.wait_for_text("DevTools: http://127.0.0.1:");
    seat.prompts("/devtools --no-open");
    crate::support::wait_until("two links", || links(&seat).len() == 2);
    let links = links(&seat);
    assert_ne!(links[0], links[1]);
    for link in &links {
        assert!(get(link).starts_with("HTTP/1.1 303"), "{link}");
        assert!(get(link).starts_with("HTTP/1.1 403"), "{link}");
    }
    seat.prompts("hello");
    seat.wait_for_text("Hello.");
}
