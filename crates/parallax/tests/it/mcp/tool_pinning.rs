//! Tool pinning: the user accepts the description of a tool once.

use serde_json::{Value, json};

use super::{answer, call, set, stdio, with_server};
use crate::support::{Conversation, World};

#[test]
fn changed_tool_description_requires_a_new_approval() {
    let script = call("echo", &json!({"text": "x"}));
    let allow =
        "[[rule]]\nmcpName = \"test\"\ntoolName = \"*\"\ndecision = \"allow\"\npriority = 500\n";
    let world = with_server(&script, "");
    world.home.write_home(".gemini/policies/mcp.toml", allow).expect("rules");
    world.run_ok(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());

    let world = World::in_home(world.home, &script);
    set(&world, &json!({"mcpServers": {"test": stdio(&world, "changed")}}));
    world.run_ok(&["-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("changed the description"), "{error}");

    // The user reviews and allows it, and the decision is remembered.
    let world = World::in_home(world.home, &script);
    let mut conversation = Conversation::start(&world, &[]);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    assert_eq!(ask["tool_name"], "mcp_test_echo");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(conversation.next("tool_result")["status"], "success");
    conversation.end();
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());
}

#[test]
fn trust_covers_the_description_of_the_first_call() {
    let script = call("echo", &json!({"text": "x"}));
    let world = World::new(&script);
    let mut server = stdio(&world, "");
    server["trust"] = json!(true);
    set(&world, &json!({"mcpServers": {"test": server}}));
    world.run_ok(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());

    // The cached declaration is used, but the server now describes the tool differently.
    std::fs::write(world.home.root().join("log.changed"), "").expect("a mark");
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("changed the description"), "{error}");
    assert!(
        !error.contains("untrusted_context"),
        "the message of Parallax is not marked as untrusted: {error}"
    );

    // The current declaration, which the user has not accepted.
    let world = World::in_home(world.home, &script);
    world.run_ok(&["-p", "go"]);
    let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
    assert!(error.contains("since it was last allowed"), "{error}");

    // In YOLO mode, there is at least a warning each time.
    let mut world = world;
    for _ in 0..2 {
        world = World::in_home(world.home, &script);
        let done = world.run_ok(&["-y", "-p", "go", "-o", "json"]);
        assert!(answer(&world, 1)["output"].is_string());
        let report: Value = serde_json::from_str(&done.stdout()).expect("json");
        assert!(report["warnings"].to_string().contains("changed the description"), "{report}");
    }
}

#[test]
fn changed_description_is_reported_for_a_trusted_server() {
    let script = call("echo", &json!({"text": "x"}));
    let world = World::new(&script);
    let server = |world: &World, r#do: &str| {
        let mut server = stdio(world, r#do);
        server["trust"] = json!(true);
        json!({"mcpServers": {"test": server}})
    };
    set(&world, &server(&world, ""));
    world.run_ok(&["-p", "go"]);
    assert!(answer(&world, 1)["output"].is_string());
    let mut world = world;
    for _ in 0..2 {
        world = World::in_home(world.home, &script);
        set(&world, &server(&world, "changed"));
        let done = world.run_ok(&["-p", "go"]);
        let error = answer(&world, 1)["error"].as_str().map(str::to_owned).expect("an error");
        assert!(
            error.contains("changed the description") && !error.contains("untrusted"),
            "{error}"
        );
        assert!(!done.err().contains("untrusted_context"), "{}", done.err());
    }
}
