//! Batches: many prompts in many repositories, each task in a process and a git worktree of its
//! own.
//!
//! One plan format ([`Plan`]), one result contract ([`TaskResult`]), several executors. This
//! crate reads plans, runs tasks, and reports on results; the agent is the program itself,
//! started again for every task.

mod agent;
mod directory;
mod error;
mod events;
mod membership;
mod plan;
mod queue;
mod result;
mod run_task;
mod workspace;

pub use directory::{BatchDirectory, BatchLock, TaskDirectory};
pub use error::BatchError;
pub use membership::end_with_batch;
pub use plan::{Plan, PlannedTask, Repository};
pub use queue::{BatchEnd, QueueEvent, QueueOptions, run_queue};
pub use result::{CheckResult, TaskResult, TaskState, TokenCounts};
pub use run_task::{TaskRunner, TaskUpdate};
