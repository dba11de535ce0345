//! An exhausted budget in an interactive session.

use serde_json::{Value, json};

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::{World, wait_until};

/// Returns a reply that uses this many tokens.
fn reply(part: &Value, tokens: u64) -> Value {
    let content = json!({"role": "model", "parts": [part]});
    let usage = json!({"promptTokenCount": tokens, "totalTokenCount": tokens});
    let candidates = json!([{"content": content, "finishReason": "STOP"}]);
    json!({"chunks": [{"candidates": candidates, "usageMetadata": usage}]})
}

fn create_world() -> World {
    let call = json!({"functionCall": {"name": "list_directory", "args": {"dir_path": "."}}});
    let script = json!([
        reply(&call, 1200),
        reply(&json!({"text": "Done with that."}), 10),
        reply(&json!({"text": "And with this."}), 10),
    ]);
    let world = World::new(&script.to_string());
    let settings = r#"{"budget": {"session": {"maxTokens": 1000}}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    world
}

#[test]
fn raised_budget_continues_the_turn() {
    let seat = TerminalDriver::start_in(create_world(), &StartOptions::sized(100, 40));
    seat.prompts("look around");
    seat.wait_for_text("The budget is used up. Continue?");
    seat.wait_for_text("1200 tokens of the budget of this session (1000 tokens) have been used");
    seat.wait_for_text("1. Yes, with 1000 tokens more");
    seat.type_text("2");
    seat.wait_for_text("increase by:");
    seat.type_text("5k\r");
    seat.wait_for_text("Done with that.");
    seat.wait_for_text("The budget of this session is now 6200 tokens");
    seat.is_idle();
    seat.prompts("/budget");
    seat.wait_for_text("1210 tokens of 6200 tokens");
    seat.prompts("/budget prompt time 10m");
    seat.wait_for_text("The budget for each prompt is now 600 s.");
    seat.prompts("/budget");
    seat.wait_for_text("of 600 s");
    seat.world.server.assert_clean();
}

#[test]
fn stopping_at_the_budget_restores_the_prompt_in_the_composer() {
    let seat = TerminalDriver::start_in(create_world(), &StartOptions::sized(100, 40));
    seat.prompts("look around");
    seat.wait_for_text("The budget is used up. Continue?");
    seat.type_text("3");
    seat.wait_for_text("the budget of this session (1000 tokens) is used up");
    seat.is_idle();
    // The turn has not started yet.
    seat.prompts("another thing");
    seat.wait_for_text("The budget is used up. Continue?");
    seat.type_text("3");
    // Once in the transcript, and once in the composer.
    wait_until("the prompt is given back", || seat.window().matches("another thing").count() == 2);
    seat.press(testkit::pty::Key::Ctrl('u'));
    seat.wait_for_text(COMPOSER);
    seat.prompts("/budget tokens off");
    seat.wait_for_text("Removed the tokens limit for this session.");
    seat.prompts("a third");
    seat.wait_for_text("Done with that.");
}
