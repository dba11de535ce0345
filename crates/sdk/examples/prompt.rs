//! Sends one prompt and prints the answer.
//!
//! Needs no API key and no network, because a script provides the model's responses:
//! `cargo run -p parallax-sdk --example prompt`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example says what it expects, and shows what it gets"
)]

use parallax_sdk::agent::{Agent, AgentError};

/// The model's responses.
const SCRIPT: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello from the script."}]}, "finishReason": "STOP"}]}]}"#;

/// Runs the example.
pub async fn run() -> Result<(), AgentError> {
    let home = tempfile::tempdir().expect("a temporary home");
    let agent = Agent::builder()
        .cwd(home.path())
        .trusted()
        .env("HOME", home.path())
        .script("example", SCRIPT)
        .build();
    let mut session = agent.session()?;
    let answer = session.send("Say hello.").await?;
    assert_eq!(answer, "Hello from the script.");
    println!("{answer}");
    session.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    run().await
}
