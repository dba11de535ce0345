//! Records a session and replays it without the model.
//!
//! Needs no API key and no network, because a script provides the model's responses:
//! `cargo run -p parallax-sdk --example record_replay`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example says what it expects, and shows what it gets"
)]

use parallax_sdk::agent::{Agent, AgentError};

/// The model's responses.
const SCRIPT: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "Recorded once."}]}, "finishReason": "STOP"}]}]}"#;

/// Runs the example.
pub async fn run() -> Result<(), AgentError> {
    let home = tempfile::tempdir().expect("a temporary home");
    let file = home.path().join("recording.jsonl");
    let base = || Agent::builder().cwd(home.path()).trusted().env("HOME", home.path());
    let mut session = base().script("example", SCRIPT).record(&file).build().session()?;
    let first = session.send("Answer.").await?;
    session.close().await;
    let mut session = base().replay(&file).build().session()?;
    assert_eq!(session.send("Answer.").await?, first);
    println!("{first}");
    session.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    run().await
}
