//! Recognizes that the program started itself again, and runs what it was started for.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
use crate::error::StartError;
#[cfg(not(target_os = "linux"))]
use crate::launcher::Launcher;
use crate::plan::Plan;
#[cfg(target_os = "linux")]
use crate::roles::{INSIDE, SESSION_NAMESPACES};
use crate::roles::{PROBE, SUPERVISOR};
use crate::supervisor_error::refuse;

/// Size limit of a plan file in bytes.
const MAX_PLAN_BYTES: u64 = 64 << 20;

/// Runs the supervisor, session namespaces, or a probe if the command line says so, and returns its
/// exit code; otherwise returns `None`. Call this first in `main`, before starting any thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let role = args.next()?;
    match role.to_str()? {
        SUPERVISOR => Some(supervisor(args)),
        #[cfg(target_os = "linux")]
        SESSION_NAMESPACES => Some(crate::inside::session_namespaces::serve()),
        #[cfg(target_os = "linux")]
        INSIDE => Some(crate::inside::bubblewrap_process::serve(args)),
        PROBE => Some(crate::probe::answer()),
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
                .and_then(|file| file.take(MAX_PLAN_BYTES).read_to_end(&mut text));
            read.map_err(|error| format!("the plan `{}`: {error}", path.display()))?;
            // The file is no longer needed.
            let _ = std::fs::remove_file(&path);
            serde_json::from_slice(&text).map_err(|error| error.to_string())?
        }
    };
    plan.check().map_err(|error| error.to_string())?;
    Ok(plan)
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
        Self::start_with(&Launcher::current_program())
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
    pub fn unroutable_attempts(&self) -> u64 {
        match self.never {}
    }
}
