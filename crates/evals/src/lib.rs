//! Evaluations: cases for the agent, checks of the results, and statistics.
//!
//! A case is a directory with a `case.toml`. Each run is a process of the agent in a fresh copy of
//! the case's project, driven over stream-json, so that the evaluation measures what users run.

mod agent;
mod case;
mod case_outcome;
mod check;
mod comparison;
mod error;
mod judge;
mod page;
mod recording;
mod report;
mod results;
mod statistics;
mod suite;
mod tool_call;
mod workspace;
mod wrong_step;

pub use case::{Case, CaseLimits, Judge, find_cases};
pub use check::Check;
pub use comparison::Comparison;
pub use error::EvalError;
pub use page::{is_report, page};
pub use report::{Report, RunGroup};
pub use results::{CheckResult, FailedStep, JudgeUse, RunResult, read_results};
pub use suite::{AnswerSource, Suite};
