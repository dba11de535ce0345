//! Decides about tool calls with a callback.
//!
//! Needs no API key and no network, because a script provides the model's responses:
//! `cargo run -p parallax-sdk --example approvals`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example says what it expects, and shows what it gets"
)]

use parallax_sdk::agent::{Agent, AgentError, ApprovalResponse};

/// The model's responses.
const SCRIPT: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "write_file", "args": {"file_path": "allowed.txt", "content": "yes"}}}]}, "finishReason": "STOP"}]}]}
{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "write_file", "args": {"file_path": "denied.txt", "content": "no"}}}]}, "finishReason": "STOP"}]}]}
{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "I wrote one of two files."}]}, "finishReason": "STOP"}]}]}"#;

/// Runs the example.
pub async fn run() -> Result<(), AgentError> {
    let home = tempfile::tempdir().expect("a temporary home");
    let agent = Agent::builder()
        .cwd(home.path())
        .trusted()
        .env("HOME", home.path())
        .script("example", SCRIPT)
        .on_approval(|ask| match ask.title.contains("allowed") {
            true => ApprovalResponse::Allow,
            false => ApprovalResponse::Deny(Some("Only allowed.txt may be written.".to_owned())),
        })
        .build();
    let mut session = agent.session()?;
    println!("{}", session.send("Write both files.").await?);
    assert!(home.path().join("allowed.txt").exists());
    assert!(!home.path().join("denied.txt").exists());
    session.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    run().await
}
