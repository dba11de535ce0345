//! Resumes a session with another agent.
//!
//! Needs no API key and no network, because a script provides the model's responses:
//! `cargo run -p parallax-sdk --example resume`

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example says what it expects, and shows what it gets"
)]

use parallax_sdk::agent::{Agent, AgentError};

/// The model's first response.
const SCRIPT: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "Noted."}]}, "finishReason": "STOP"}]}]}"#;

/// The model's response after resuming.
const LATER: &str = r#"{"method": "generateContentStream", "response": [{"candidates": [{"content": {"role": "model", "parts": [{"text": "You said: blue."}]}, "finishReason": "STOP"}]}]}"#;

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
    session.send("My favorite color is blue.").await?;
    let id = session.id().to_owned();
    session.close().await;
    let later = Agent::builder()
        .cwd(home.path())
        .trusted()
        .env("HOME", home.path())
        .script("later", LATER)
        .build();
    let mut session = later.resume(&id)?;
    assert_eq!(session.id(), id);
    println!("{}", session.send("What is my favorite color?").await?);
    session.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AgentError> {
    run().await
}
