//! Adds a tool implemented by a function.
//!
//! Needs no API key and no network, because a script provides the model's responses:
//! `cargo run -p parallax-sdk --example custom_tool`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example says what it expects, and shows what it gets"
)]

use std::sync::{Arc, Mutex};

use parallax_sdk::agent::{Agent, AgentError, function_tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// The model's responses.
const SCRIPT: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "lookup_order", "args": {"number": 17}}}]}, "finishReason": "STOP"}]}]}
{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "Order 17 has shipped."}]}, "finishReason": "STOP"}]}]}"#;

/// Arguments of the tool. The model receives their schema.
#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The order number.
    number: u32,
}

/// Runs the example.
pub async fn run() -> Result<(), AgentError> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let lookup = function_tool("lookup_order", "Looks up an order.", move |order: Order| {
        seen.lock().expect("not poisoned").push(order.number);
        async move { Ok(format!("order {}: shipped", order.number)) }
    });
    let home = tempfile::tempdir().expect("a temporary home");
    let agent = Agent::builder()
        .cwd(home.path())
        .trusted()
        .env("HOME", home.path())
        .script("example", SCRIPT)
        .tool(lookup)
        .build();
    let mut session = agent.session()?;
    let answer = session.send("Where is order 17?").await?;
    assert_eq!(
        (answer.as_str(), asked.lock().expect("not poisoned").as_slice()),
        ("Order 17 has shipped.", &[17][..])
    );
    println!("{answer}");
    session.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    run().await
}
