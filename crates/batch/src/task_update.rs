//! The progress of a running task.

/// A progress report of a running task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskUpdate {
    /// The task.
    pub id: String,
    /// The current activity in a few words; from the model, so not safe to print.
    pub activity: String,
    /// US dollars so far.
    pub cost: f64,
    /// Tokens so far.
    pub tokens: u64,
    /// Answers with status 429 so far.
    pub rate_limited: u64,
}
