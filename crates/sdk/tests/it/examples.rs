//! Runs the examples.

#[expect(dead_code, reason = "its `main` is for `cargo run`")]
#[path = "../../examples/prompt.rs"]
mod prompt;

#[expect(dead_code, reason = "its `main` is for `cargo run`")]
#[path = "../../examples/events.rs"]
mod events;

#[expect(dead_code, reason = "its `main` is for `cargo run`")]
#[path = "../../examples/custom_tool.rs"]
mod custom_tool;

#[expect(dead_code, reason = "its `main` is for `cargo run`")]
#[path = "../../examples/approvals.rs"]
mod approvals;

#[expect(dead_code, reason = "its `main` is for `cargo run`")]
#[path = "../../examples/resume.rs"]
mod resume;

#[expect(dead_code, reason = "its `main` is for `cargo run`")]
#[path = "../../examples/record_replay.rs"]
mod record_replay;

#[tokio::test(flavor = "multi_thread")]
async fn example_prompt_runs() {
    prompt::run().await.expect("the example runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_events_runs() {
    events::run().await.expect("the example runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_custom_tool_runs() {
    custom_tool::run().await.expect("the example runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_approvals_runs() {
    approvals::run().await.expect("the example runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_resume_runs() {
    resume::run().await.expect("the example runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn example_record_replay_runs() {
    record_replay::run().await.expect("the example runs");
}
