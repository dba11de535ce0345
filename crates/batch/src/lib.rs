//! Batches: many prompts in many repositories, each task in its own process and git worktree.
//!
//! One plan format ([`Plan`]), one result contract ([`TaskResult`]), several executors. This
//! crate reads plans, runs tasks, and reports on results; the agent is the program itself,
//! started again for every task.

mod agent;
mod apply;
mod blocking;
mod budget;
mod compare;
mod directory;
mod error;
mod events;
mod for_each;
mod kubernetes;
mod log_limit;
mod membership;
mod newest_plan;
mod plan;
mod progress;
mod queue;
mod result;
mod result_log;
mod run_task;
mod serial;
mod single_task;
mod slurm;
mod summary;
mod task_update;
mod workspace;

pub use apply::{ApplyMode, ApplyOutcome, apply_results};
pub use compare::{ComparedResult, ComparedTask, ModelComparison, ModelTotal};
pub use directory::{BatchDirectory, BatchLock, TaskDirectory};
pub use error::BatchError;
pub use for_each::{ItemList, PlanTemplate, items, plan_lines};
pub use kubernetes::{EgressRule, KubernetesOptions, collect_kubernetes, run_kubernetes};
pub use membership::{end_with_batch, is_agent};
pub use newest_plan::NewestTask;
pub use plan::{Plan, PlannedTask, Repository, seconds_of};
pub use progress::BatchProgress;
pub use queue::{BatchOutcome, QueueEvent, QueueOptions, run_queue};
pub use result::{CheckResult, TaskResult, TaskState, TokenCounts};
pub use result_log::print_results;
pub use run_task::{FinishedBranches, TaskRunner};
pub use serial::ProcessLock;
pub use single_task::SingleTaskEnd;
pub use slurm::{SlurmOptions, run_slurm};
pub use summary::{Summary, SummaryRow};
pub use task_update::TaskUpdate;
