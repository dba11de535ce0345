//! Runs a command of the user in the sandbox of the agent's commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_checkpoints::{self as checkpoints, CheckpointManager};
use parallax_files::SensitivePathIndex;
use parallax_protocol::checkpoint::{Checkpoints as _, PendingChange, RevertedFiles, WriteScope};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::Effects;
use parallax_sandbox::Plan;

use crate::sandbox::sandbox_options;
use crate::session_config::{SessionConfig, failure};
use crate::toolbox;

/// A command of the user that runs in the same sandbox as the agent's commands.
pub struct SandboxedCommand {
    plan: Plan,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    words: Vec<OsString>,
    temporary: PathBuf,
    mode: ApprovalMode,
    permissions: Permissions,
    effects: Effects,
    dirs: parallax_store::SessionDirs,
    closed_names: SensitivePathIndex,
}

/// Prepares a command for the sandbox of the agent's commands in this mode, optionally with
/// additional permissions.
///
/// # Errors
/// Returns an error if this program cannot confine commands or a directory cannot be created.
pub fn sandboxed_command(
    launch: &SessionConfig,
    words: Vec<OsString>,
    mode: ApprovalMode,
    permissions: &Permissions,
) -> Result<SandboxedCommand, Failure> {
    let name = format!("run-{}", std::process::id());
    let project = parallax_store::project_folder(&launch.options.directory);
    let temporary = launch.config.dirs.parallax.join("tmp").join(project).join(name);
    let to_error = |message: String| failure(FailureKind::Sandbox, message);
    parallax_store::create_private_dir(&temporary).map_err(|error| {
        to_error(format!("failed to create `{}`: {error}", temporary.display()))
    })?;
    let mut options = sandbox_options(launch, &temporary)
        .ok_or_else(|| to_error("the sandbox is not available in this program".to_owned()))?;
    // The sandbox was requested explicitly.
    options.enabled = true;
    let directory = launch.options.directory.clone();
    let real = std::fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
    let line: Vec<String> = words
        .iter()
        .map(|word| parallax_exec::shell::quote_word(&word.to_string_lossy()))
        .collect();
    let shell = toolbox::shell_options(launch, temporary.clone());
    let prepared = parallax_tools::run_shell_command::prepare_sandbox(
        &options,
        &line.join(" "),
        &real,
        std::slice::from_ref(&real),
        mode,
        permissions,
        shell.environment().variables,
    );
    let (plan, environment) = prepared.map_err(to_error)?;
    Ok(SandboxedCommand {
        plan,
        environment,
        directory,
        words,
        temporary,
        mode,
        permissions: permissions.clone(),
        effects: Effects { runs: vec![line.join(" ")], ..Effects::default() },
        dirs: launch.dirs(),
        closed_names: launch.closed_names.clone(),
    })
}

impl SandboxedCommand {
    /// Runs the command with this process's input and output. Returns the exit code and the
    /// protected files that were reverted. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn run(self) -> Result<(u8, RevertedFiles), Failure> {
        let id = SessionId::new(format!("sandbox-run-{}", std::process::id()));
        let roots = vec![self.directory.clone()];
        let links = Arc::new(self.closed_names);
        let (dirs, project) = (&self.dirs, &self.directory);
        let store = checkpoints::open(dirs, project, id.clone(), roots, None, Some(links));
        let checkpoint = CheckpointManager::new(store, Arc::default())
            .save_before(0, PendingChange::Command(&self.effects.runs.join("\n")));
        let ended = parallax_exec::program::run_confined(
            &self.plan,
            &self.words,
            &self.directory,
            &self.environment,
        );
        // Its private directory is no longer needed.
        let _ = parallax_files::remove_tree(&self.temporary);
        let reverted = checkpoint.map_or_else(
            |_| RevertedFiles::default(),
            |checkpoint| {
                checkpoint.finish(
                    &self.effects,
                    &self.permissions,
                    self.mode,
                    &WriteScope::default(),
                )
            },
        );
        if reverted.restored.is_empty() {
            // The checkpoint belongs to no session that could be undone.
            let project = parallax_store::project_folder(&self.directory);
            let journals = self.dirs.parallax.join("checkpoints").join(project);
            for kind in ["jsonl", "lock"] {
                let _ = std::fs::remove_file(journals.join(format!("{}.{kind}", id.as_str())));
            }
        }
        let ended = ended.map(|code| (code, reverted));
        ended.map_err(|error| failure(FailureKind::Sandbox, error.to_string()))
    }
}
