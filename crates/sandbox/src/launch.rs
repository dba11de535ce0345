//! How the binary starts itself again: the command line of the supervisor, and the function that
//! recognizes it.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::{PlanError, StartError};
use crate::plan::Plan;
use crate::support::Support;

pub(crate) const SUPERVISOR: &str = "__sandbox";
pub(crate) const INSIDE: &str = "__sandbox-inside";
pub(crate) const CELL: &str = "__sandbox-cell";
pub(crate) const PROBE: &str = "__sandbox-probe";

/// The exit code of a supervisor that could not build the confinement. A command may return it as
/// well; [`SupervisorError::read`] distinguishes them.
pub const REFUSED: u8 = 121;

/// Maximum length of a plan on the command line; Linux limits an argument to 128 KiB. Longer plans
/// are passed in a file.
const LONGEST_ARGUMENT: usize = 100_000;

/// Size limit of a plan file in bytes.
const LARGEST_PLAN: u64 = 64 << 20;

/// The message of a supervisor that refused to run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupervisorError {
    /// The reason, for display.
    pub message: String,
}

impl SupervisorError {
    pub(crate) const MARK: &str = "parallax-sandbox: refused: ";

    /// Returns the refusal in the output of a supervisor that ended with `code`, if there is one.
    /// The supervisor writes it as the last line of stderr.
    pub fn read(code: i32, stderr: &str) -> Option<Self> {
        if code != i32::from(REFUSED) {
            return None;
        }
        let line = stderr.lines().next_back()?;
        Some(Self { message: line.strip_prefix(Self::MARK)?.to_owned() })
    }
}

/// Starts the supervisor, cells, and probes from a program whose `main` calls [`main`] first.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    /// Uses the running program, even if its file was replaced.
    pub fn own() -> Self {
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
        let text = if text.len() > LONGEST_ARGUMENT {
            by_file(plan, &text)?
        } else {
            OsString::from(text)
        };
        let mut line = vec![SUPERVISOR.into(), text, "--".into(), program.to_owned()];
        line.extend_from_slice(args);
        Ok((self.program.clone().into_os_string(), line))
    }

    /// Returns the kernel support on this host.
    ///
    /// # Errors
    /// Returns an error if the probe cannot be started.
    pub fn probe(&self) -> Result<Support, StartError> {
        crate::support::probe_with(self)
    }
}

fn by_file(plan: &Plan, text: &str) -> Result<OsString, PlanError> {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = plan.temporary.join(format!("plan-{}-{number}.json", std::process::id()));
    let wrong = |source| PlanError::Write { path: path.clone(), source };
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(wrong)?;
    file.write_all(text.as_bytes()).map_err(wrong)?;
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
    Launcher::own().command(plan, program, args)
}

/// Runs the supervisor, a cell, or a probe if the command line says so, and returns its exit code;
/// otherwise returns `None`. Call this first in `main`, before starting any thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let role = args.next()?;
    match role.to_str()? {
        SUPERVISOR => Some(supervisor(args)),
        #[cfg(target_os = "linux")]
        CELL => Some(crate::inside::session_namespaces::serve()),
        #[cfg(target_os = "linux")]
        INSIDE => Some(crate::inside::bubblewrap::serve(args)),
        PROBE => Some(crate::support::answer()),
        _ => None,
    }
}

fn supervisor(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let plan = match args.next().map(|text| read_plan(&text)) {
        Some(Ok(plan)) => plan,
        Some(Err(message)) => return refuse(&message),
        None => return refuse("no plan given"),
    };
    match (args.next().as_deref() == Some(OsStr::new("--"))).then(|| args.next()).flatten() {
        Some(program) => run(&plan, &program, args.collect()),
        None => refuse("no command given"),
    }
}

#[cfg(target_os = "linux")]
fn run(plan: &Plan, program: &OsStr, args: Vec<OsString>) -> ExitCode {
    crate::inside::supervise(plan, program, &args)
}

#[cfg(not(target_os = "linux"))]
fn run(_: &Plan, _: &OsStr, _: Vec<OsString>) -> ExitCode {
    refuse("this sandbox is not available on this system")
}

fn read_plan(text: &OsStr) -> Result<Plan, String> {
    let bytes = text.as_bytes();
    let plan: Plan = match bytes.strip_prefix(b"@") {
        None => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
        Some(path) => {
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            let mut text = Vec::new();
            let read = std::fs::File::open(&path)
                .and_then(|file| file.take(LARGEST_PLAN).read_to_end(&mut text));
            read.map_err(|error| format!("the plan `{}`: {error}", path.display()))?;
            // The file is no longer needed.
            let _ = std::fs::remove_file(&path);
            serde_json::from_slice(&text).map_err(|error| error.to_string())?
        }
    };
    plan.check().map_err(|error| error.to_string())?;
    Ok(plan)
}

/// Reports why nothing was run.
pub(crate) fn refuse(message: &str) -> ExitCode {
    let line = format!("{}{}\n", SupervisorError::MARK, message.replace('\n', " "));
    // If stderr is closed, only the exit code remains.
    let _ = std::io::stderr().write_all(line.as_bytes());
    ExitCode::from(REFUSED)
}

/// The namespaces of a session; not available on this platform.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct SessionNamespaces {
    never: std::convert::Infallible,
}

#[cfg(not(target_os = "linux"))]
impl SessionNamespaces {
    /// Always fails on this platform.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&Launcher::own())
    }

    /// Always fails on this platform.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start_with(_: &Launcher) -> Result<Self, StartError> {
        Err(StartError::Unsupported("available only on Linux".to_owned()))
    }

    /// Never called on this platform.
    pub fn pid(&self) -> i32 {
        match self.never {}
    }

    /// Never called on this platform.
    pub fn unroutable(&self) -> u64 {
        match self.never {}
    }
}
