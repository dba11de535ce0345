//! Prompts of MCP servers as slash commands.

use serde_json::json;

use super::{request, set, stdio};
use crate::support::World;

#[test]
fn server_prompt_is_available_as_a_command() {
    let world = World::new(r#"[{"text": "done"}]"#);
    let settings =
        json!({"mcpServers": {"test": stdio(&world, "")}, "mcp": {"firstWaitMs": 15_000}});
    set(&world, &settings);
    let refused = world.run(&["-p", "/greet-me"]);
    assert_eq!(refused.code(), 42);
    assert!(refused.err().contains("missing: --"), "{}", refused.err());
    let help = world.run_ok(&["-p", "/test.greet-me help"]);
    assert!(help.stdout().contains("it takes `--"), "{}", help.stdout());
    world.run_ok(&["-p", "/greet-me \"Ada L\""]);
    let contents = request(&world, 0)["contents"].to_string();
    assert!(contents.contains("Ada L") && !contents.contains("/greet-me"), "{contents}");
    let near = world.run(&["-p", "/greet-mee"]);
    assert!(near.err().contains("did you mean `/greet-me`?"), "{}", near.err());
    let unknown = world.run(&["-p", "/no-such-prompt"]);
    assert!(unknown.err().contains("Unknown command `/no-such-prompt`"), "{}", unknown.err());
}

#[test]
fn prompt_offered_by_several_servers_has_qualified_names() {
    let world = World::new("[]");
    let servers = json!({"one": stdio(&world, ""), "two": stdio(&world, "")});
    set(&world, &json!({"mcpServers": servers, "mcp": {"firstWaitMs": 15_000}}));
    let refused = world.run(&["-p", "/greet-me Ada"]);
    assert_eq!(refused.code(), 42);
    let report = refused.err();
    assert!(report.contains("`/one.greet-me`, `/two.greet-me`"), "{report}");
}
