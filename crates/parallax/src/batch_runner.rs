//! The runner of the tasks of a batch, and where its results are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_batch::{BatchDirectory, BatchLock, ProcessLock, TaskRunner};
use parallax_exec::agent_process::MemoryLimits;
use parallax_protocol::CancellationToken;
use parallax_protocol::event::Failure;

use crate::batch_arguments::TaskArguments;
use crate::batch_failure::input_failure;

pub(crate) fn runner(
    directory: BatchDirectory,
    lock: BatchLock,
    typed: &TaskArguments,
) -> Result<TaskRunner, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        input_failure(format!("Failed to determine the path of this program: {error}"))
    })?;
    let trust = typed.skip_trust.then(|| "--skip-trust".into());
    Ok(TaskRunner {
        directory,
        repositories: None,
        program,
        arguments: trust.into_iter().collect(),
        limits: MemoryLimits {
            address_space: typed.memory.map(std::num::NonZeroU64::get),
            cgroup: None,
        },
        serial: Arc::new(ProcessLock::new(lock.serial.clone())),
        lock: Arc::new(lock),
        stop_tools: CancellationToken::new(),
        branches: Default::default(),
    })
}

pub(crate) fn results_of(plan: &Path) -> PathBuf {
    let mut name = plan.file_stem().unwrap_or_default().to_owned();
    name.push("-results");
    PathBuf::from(name)
}
