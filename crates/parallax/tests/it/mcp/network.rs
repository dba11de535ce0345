//! Servers with an address.

use serde_json::json;

use super::{answer, call, script, set, told};
use crate::support::World;

/// A server on the network, ended when dropped.
pub(crate) struct Remote {
    child: std::process::Child,
    pub(crate) address: String,
}

impl Remote {
    pub(crate) fn start(world: &World, how: &str, r#do: &str) -> Self {
        let place = world.home.root().join(format!("address{how}"));
        let _ = std::fs::remove_file(&place);
        let mut command = world.home.command(std::path::Path::new("python3"), "");
        command.arg(script()).arg(how).arg(&place).args(["--do", r#do]);
        command.arg("--log").arg(world.home.root().join("log"));
        let child = command.spawn().expect("started");
        crate::support::until("the server", || place.exists());
        Self { child, address: std::fs::read_to_string(&place).expect("the address") }
    }

    /// Without its path.
    pub(crate) fn base(&self) -> &str {
        self.address.rsplit_once('/').map_or("", |(base, _)| base)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn servers_are_reached_over_http_and_the_older_stream() {
    let echo = call("echo", &json!({"text": "far"}));
    for (how, r#do, kind) in [
        ("--http", "", Some("http")),
        ("--http", "nostream", None),
        ("--sse", "", Some("sse")),
        // Nothing said: streamable HTTP first, then the older way.
        ("--sse", "", None),
    ] {
        let world = World::new(&echo);
        let remote = Remote::start(&world, how, r#do);
        let mut server = json!({"url": remote.address, "headers": {"X-Key": "$MY_KEY"}});
        if let Some(kind) = kind {
            server["type"] = json!(kind);
        }
        set(&world, &json!({"mcpServers": {"test": server}}));
        let mut command = world.command(&["-y", "-p", "go"]);
        command.env("MY_KEY", "k-1");
        let done = crate::support::finish(command);
        assert_eq!(done.code(), 0, "{}", done.err());
        let answer = answer(&world, 1);
        assert!(
            answer["output"].as_str().is_some_and(|it| it.contains("echo: far")),
            "{how} {answer}"
        );
        let keys = told(&world).iter().filter(|it| it["headers"]["x-key"] == "k-1").count();
        assert!(keys >= 2, "{how}: the header goes with each request");
    }
}
