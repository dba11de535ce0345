//! The command line of `parallax batch`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use parallax_protocol::policy::ApprovalMode;

use crate::argument_values::{Format, approval_modes, parse_dollars};
use crate::batch_kubernetes_arguments::KubernetesArguments;

/// `parallax batch`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BatchArguments {
    #[command(subcommand)]
    pub(crate) action: Option<BatchAction>,

    /// The plan: tasks as TOML or JSON Lines
    #[arg(value_name = "PLAN", required = true)]
    pub(crate) plan: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// How a batch is run.
#[derive(Debug, Default, Args)]
pub(crate) struct RunArguments {
    /// Where the tasks run
    #[arg(long, value_name = "EXECUTOR", default_value = "local")]
    pub(crate) on: Executor,

    /// With `--on slurm`: an option for `sbatch`, such as `--partition=gpu`; can be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) sbatch: Vec<String>,

    #[command(flatten)]
    pub(crate) kubernetes: KubernetesArguments,

    /// Number of concurrent tasks [default: half of the processors; with Slurm, as many as it
    /// starts; with Kubernetes, 10]
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Maximum total cost of all tasks in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Run failed tasks again
    #[arg(long)]
    pub(crate) retry_failed: bool,

    /// Output format; stream-json prints an object for each change of a task
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output_format: Format,

    #[command(flatten)]
    pub(crate) task: TaskArguments,
}

/// Where tasks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Executor {
    /// On this machine
    #[default]
    Local,
    /// As a Slurm array job
    Slurm,
    /// As a Kubernetes Indexed Job
    Kubernetes,
}

/// What holds for every task.
#[derive(Debug, Default, Args)]
pub(crate) struct TaskArguments {
    /// Directory for results [default: the plan's name with `-results`]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Memory limit of each process of a task, such as `2G`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<NonZeroU64>,

    /// Trust the repositories of the plan for this run
    #[arg(long)]
    pub(crate) skip_trust: bool,
}

/// What else can be done with batches.
#[derive(Debug, Subcommand)]
pub(crate) enum BatchAction {
    /// Print a plan with a task for each line that a command prints
    Plan(PlanArguments),
    /// Apply the changes of tasks that succeeded to this working tree
    Apply {
        /// The directory with the results
        dir: PathBuf,

        /// Apply only these tasks, even if they failed
        ids: Vec<String>,

        /// Create a branch for each task and leave the working tree as it is
        #[arg(long)]
        branch: bool,

        /// Change the working tree (the default)
        #[arg(long, conflicts_with = "branch")]
        patch: bool,
    },
    /// Compare the models that worked on the same tasks
    Compare {
        /// The directory with the results
        dir: PathBuf,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch the results of a batch on Kubernetes
    Collect {
        /// The directory with the results
        dir: PathBuf,
    },
    /// Run a single task of a plan, for cluster schedulers
    RunTask(RunTaskArguments),
    /// Run a command until its batch ends
    #[command(hide = true)]
    RunCommand {
        /// The command
        line: String,
    },
}

/// `parallax batch run-task`.
#[derive(Debug, Args)]
pub(crate) struct RunTaskArguments {
    /// The plan, or a directory with its parts
    pub(crate) plan: PathBuf,

    /// Number of the task, from 0
    #[arg(long, value_name = "N")]
    pub(crate) index: usize,

    /// Maximum total cost of all tasks of the plan in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Do not rerun a failed task
    #[arg(long)]
    pub(crate) keep_failed: bool,

    /// Directory for clones of repositories [default: in the directory for results]
    #[arg(long, value_name = "DIR")]
    pub(crate) repositories: Option<PathBuf>,

    /// Only clone the repository of the task
    #[arg(long)]
    pub(crate) clone_only: bool,

    /// Print the result as JSON objects, for `batch collect`
    #[arg(long)]
    pub(crate) print_results: bool,

    #[command(flatten)]
    pub(crate) task: TaskArguments,
}

/// `parallax batch plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Shell command that prints one item per line, such as `git ls-files "*.py"`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) for_each: String,

    /// Prompt of each task; `{item}` is replaced
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) prompt: String,

    /// Model of each task
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Approval mode of each task
    #[arg(long, value_name = "MODE", value_parser = approval_modes())]
    pub(crate) approval_mode: Option<ApprovalMode>,

    /// Cost limit of each task in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Time limit of each agent: `90`, `10m`, `1h`
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,

    /// Command before each agent; `{item}` is replaced; can be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) setup: Vec<String>,

    /// Command that checks each result; `{item}` is replaced; can be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,

    /// Write the plan to this file, unless it exists with different contents
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Replace the file even if its contents differ
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

/// Bytes: a number with `K`, `M`, or `G`.
fn size(text: &str) -> Result<NonZeroU64, String> {
    let text = text.trim().trim_end_matches(['b', 'B', 'i']);
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let upper = text.to_ascii_uppercase();
    let unit = units.iter().find_map(|(unit, shift)| Some((upper.strip_suffix(*unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((&upper, 0));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .and_then(NonZeroU64::new)
        .ok_or_else(|| "expected a size such as `512M` or `2G`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        let bytes = |text| size(text).map(NonZeroU64::get).ok();
        assert_eq!(
            (bytes("2G"), bytes("512MiB"), bytes("7")),
            (Some(2 << 30), Some(512 << 20), Some(7))
        );
        assert_eq!(
            (bytes(""), bytes("0"), bytes("x"), bytes("99999999999T")),
            (None, None, None, None)
        );
    }
}
