//! Slow, dead, or many MCP servers, and what waits for them.

use std::time::Instant;

use serde_json::{Value, json};

use super::{answer, declared, set, stdio};
use crate::support::World;

#[test]
fn startup_waits_once_for_dead_or_silent_servers() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let mut servers = json!({
        "missing": {"command": "no-such-program"},
        "shouts": stdio(&world, "shouts"),
        "noise": stdio(&world, "noise"),
        "floods": stdio(&world, "floods"),
        "empty": stdio(&world, "empty"),
    });
    for name in ["die", "mute", "stubborn"] {
        servers[name] = stdio(&world, &format!("{name},mute"));
    }
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 8_000}}));
    let output = world.run_ok(&["-y", "-p", "go"]);
    // Unavailable servers are listed with the reason.
    for warning in ["`missing`: it failed to start: program", "`empty`: ", "`mute`: "] {
        assert!(output.err().contains(warning), "{warning}: {}", output.err());
    }
    let names = declared(&world, 0);
    let place = |name: &str| names.iter().position(|it| *it == format!("mcp_{name}_echo"));
    assert!(place("floods") < place("noise") && place("noise") < place("shouts"), "{names:?}");
    for server in ["shouts", "noise", "floods"] {
        assert!(names.contains(&format!("mcp_{server}_echo")), "{server}: {names:?}");
    }
    // Servers that did not respond are remembered and not awaited again.
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    let started_at = Instant::now();
    world.run_ok(&["-y", "-p", "go"]);
    assert!(started_at.elapsed().as_millis() < 6_000, "{:?}", started_at.elapsed());
}

#[test]
fn server_that_floods_requests_is_abandoned() {
    let world = World::new(&super::call("echo", &json!({"text": "x"})));
    set(&world, &json!({"mcpServers": {"test": stdio(&world, "asks")}}));
    world.run_ok(&["-y", "-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned);
    assert!(error.as_ref().is_some_and(|it| it.contains("without reading responses")), "{error:?}");
}

#[test]
fn first_request_waits_for_silent_server_until_it_is_ready() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let good = stdio(&world, "");
    let late = format!("sleep 2; exec python3 {}", good["args"][0].as_str().expect("the script"));
    let servers = json!({
        "missing": {"command": "no-such-program"},
        "refuses": {"httpUrl": "http://127.0.0.1:9/mcp"},
        "good": good,
        "late": {"command": "sh", "args": ["-c", late]},
    });
    set(&world, &json!({"mcpServers": servers}));
    let started_at = Instant::now();
    world.run_ok(&["-y", "-p", "go"]);
    let took = started_at.elapsed();
    assert!(took.as_secs() >= 2 && took.as_secs() < 10, "{took:?}");
    let names = declared(&world, 0);
    for server in ["good", "late"] {
        assert!(names.contains(&format!("mcp_{server}_echo")), "{server}: {names:?}");
    }
}

#[test]
fn first_request_waits_for_silent_server_no_longer_than_the_limit() {
    let world = World::new(
        r#"[{"calls": [{"name": "mcp_late_echo", "args": {"text": "x"}}]}, {"text": "done"}]"#,
    );
    let script = stdio(&world, "")["args"][0].as_str().expect("the script").to_owned();
    let servers = json!({
        "sleeps": {"command": "sleep", "args": ["60"]},
        "far": {"httpUrl": "http://192.0.2.1/mcp"},
        "late": {"command": "sh", "args": ["-c", format!("sleep 3; exec python3 {script}")]},
    });
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 1_000}}));
    let started_at = Instant::now();
    let running = world.start(&["-y", "-p", "go"]);
    world.wait_for_requests(1);
    let took = started_at.elapsed();
    assert!(took.as_millis() >= 1_000 && took.as_millis() < 3_000, "{took:?}");
    assert!(!declared(&world, 0).contains(&"mcp_late_echo".to_owned()));
    // It is available for later requests.
    world.wait_for_requests(2);
    assert!(declared(&world, 1).contains(&"mcp_late_echo".to_owned()));
    assert!(answer(&world, 1)["output"].as_str().is_some_and(|text| text.contains("echo: x")));
    drop(running);
}

#[test]
fn unavailable_servers_are_reported_to_clients() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let nameless = stdio(&world, "nameless");
    let servers = json!({"gone": {"command": "no-such-program"}, "shy": nameless});
    set(&world, &json!({"mcpServers": servers}));
    let output = world.run_ok(&["-p", "go", "-o", "json"]);
    let out: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    let warning = out["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("`gone`: ") && warning.contains("no-such-program"), "{warning}");
    // The message does not mention our internal types.
    assert!(warning.contains("missing field `serverInfo`"), "{warning}");
    assert!(!warning.contains("CustomResult"), "{warning}");
}

#[test]
fn server_that_failed_before_is_reported_again() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    let servers =
        json!({"far": {"httpUrl": "http://192.0.2.1/mcp"}, "mute": stdio(&world, "mute")});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 1_500}}));
    world.run_ok(&["-y", "-p", "go"]);
    let output = world.run_ok(&["-y", "-p", "go"]);
    assert!(output.err().contains("`far`: no response yet"), "{}", output.err());
    let output = world.run_ok(&["-y", "-p", "/mcp"]);
    assert!(output.stdout().contains("no response yet"), "{}", output.stdout());
}

#[test]
fn twenty_cached_servers_do_not_delay_startup() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let mut servers = json!({});
    for number in 0..20 {
        let r#do = match number {
            0 | 1 => "mute",
            2 => "die",
            _ => "",
        };
        servers[format!("s{number}")] = stdio(&world, r#do);
    }
    servers["s3"] = json!({"command": "no-such-program"});
    servers["s4"] = json!({"url": "http://127.0.0.1:9/mcp"});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 8000}}));
    world.run_ok(&["-y", "-p", "go"]);

    let asked_after = |world: &World| {
        let started_at = Instant::now();
        let running = world.start(&["-y", "-p", "go"]);
        world.wait_for_requests(1);
        let took = started_at.elapsed();
        drop(running);
        took
    };
    let world = World::in_home(world.home, r#"[{"text": "done"}]"#);
    let with = asked_after(&world);
    assert_eq!(declared(&world, 0).iter().filter(|name| name.ends_with("_echo")).count(), 15);
    let bare = World::new(r#"[{"text": "done"}]"#);
    let without = asked_after(&bare);
    assert!(
        with < without + std::time::Duration::from_millis(500),
        "{with:?}, {without:?} with none"
    );
}
