//! Reads a turn as a stream of events.
//!
//! Needs no API key and no network, because a script provides the model's responses:
//! `cargo run -p parallax-sdk --example events`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example says what it expects, and shows what it gets"
)]

use parallax_sdk::agent::{Agent, AgentError, AgentEvent};

/// The model's responses.
const SCRIPT: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "list_directory", "args": {"dir_path": "."}}}]}, "finishReason": "STOP"}]}]}
{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "The directory is empty."}]}, "finishReason": "STOP"}]}]}"#;

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
    let (mut calls, mut answer) = (Vec::new(), String::new());
    let mut turn = session.prompt("What is here?").await?;
    while let Some(event) = turn.next().await? {
        println!("{event:?}");
        match event {
            AgentEvent::ToolEnded { name, error, .. } => calls.push((name, error)),
            AgentEvent::Ended(text) => answer = text,
            _ => {}
        }
    }
    assert_eq!(calls, [("list_directory".to_owned(), None)]);
    assert_eq!(answer, "The directory is empty.");
    session.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    run().await
}
