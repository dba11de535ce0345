//! Starts the program itself as a supervisor.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::PlanError;
use crate::plan::Plan;
use crate::roles::SUPERVISOR;

/// Maximum length of a plan on the command line; Linux limits an argument to 128 KiB. Longer plans
/// are passed in a file.
const MAX_ARGUMENT_LENGTH: usize = 100_000;

/// Starts the supervisor, session namespaces, and probes from a program whose `main` calls [`main`]
/// first.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    /// Uses the running program, even if its file was replaced.
    pub fn current_program() -> Self {
        Self { program: PathBuf::from("/proc/self/exe") }
    }

    /// Uses another program that calls [`main`] (for tests).
    pub fn from_program(program: PathBuf) -> Self {
        Self { program }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the program and arguments to start instead of `program args…`. Standard streams,
    /// working directory, and environment are inherited; TMPDIR is set.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid, or is long and cannot be written below its
    /// temporary directory.
    pub fn command(
        &self,
        plan: &Plan,
        program: &OsStr,
        args: &[OsString],
    ) -> Result<(OsString, Vec<OsString>), PlanError> {
        plan.check()?;
        let text = serde_json::to_string(plan)?;
        let text = if text.len() > MAX_ARGUMENT_LENGTH {
            seatbelt_from_file(plan, &text)?
        } else {
            OsString::from(text)
        };
        let mut line = vec![SUPERVISOR.into(), text, "--".into(), program.to_owned()];
        line.extend_from_slice(args);
        Ok((self.program.clone().into_os_string(), line))
    }
}

fn seatbelt_from_file(plan: &Plan, text: &str) -> Result<OsString, PlanError> {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = plan.temporary.join(format!("plan-{}-{number}.json", std::process::id()));
    let to_error = |source| PlanError::Write { path: path.clone(), source };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(to_error)?;
    file.write_all(text.as_bytes()).map_err(to_error)?;
    let mut argument = OsString::from("@");
    argument.push(&path);
    Ok(argument)
}

/// Calls [`Launcher::command`] for the running program.
///
/// # Errors
/// See [`Launcher::command`].
pub fn reexec(
    plan: &Plan,
    program: &OsStr,
    args: &[OsString],
) -> Result<(OsString, Vec<OsString>), PlanError> {
    Launcher::current_program().command(plan, program, args)
}
