//! The process that `bwrap` started: verifies the view of files, then confines and starts the
//! command in it.

mod verify;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::inside::bubblewrap::STARTED;
use crate::inside::bubblewrap_job::BwrapJob;
use crate::inside::exit_status::ExitStatus;
use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::inside::{kernel, supervisor};
use crate::supervisor_error::refuse;

/// Runs the process that `bwrap` started, which confines and starts the command.
pub(crate) fn serve(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let number = args.next().and_then(|number| number.to_str()?.parse().ok());
    let (Some(number), true, Some(program)) =
        (number, args.next().as_deref() == Some(OsStr::new("--")), args.next())
    else {
        return refuse("no command given");
    };
    let args: Vec<OsString> = args.collect();
    match read_job(number) {
        Ok((job, environment, report)) => {
            let _ = rustix::io::write(&report, &[STARTED]);
            let message = match run_inside(&job, environment, &program, &args) {
                Ok(ended) => ended.encode().to_vec(),
                Err(failure) => failure.encode(),
            };
            let _ = rustix::io::write(&report, &message);
            ExitCode::SUCCESS
        }
        Err(words) => refuse(&words),
    }
}

type Variables = Vec<(OsString, OsString)>;

fn read_job(number: i32) -> Result<(BwrapJob, Variables, OwnedFd), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let file = kernel::inherited_descriptor(number).map_err(|error| words(&error))?;
    let mut bytes = Vec::new();
    fs::File::from(file).read_to_end(&mut bytes).map_err(|error| words(&error))?;
    let (job, environment) = BwrapJob::decode(&bytes)?;
    let stderr = kernel::inherited_descriptor(job.stderr).map_err(|error| words(&error))?;
    rustix::stdio::dup2_stderr(&stderr).map_err(|error| words(&error))?;
    let report = kernel::inherited_descriptor(job.report).map_err(|error| words(&error))?;
    Ok((job, environment, report))
}

fn run_inside(
    job: &BwrapJob,
    environment: Variables,
    program: &OsStr,
    args: &[OsString],
) -> SandboxResult<ExitStatus> {
    verify::verify(job)?;
    // Orphaned descendants of the command become children of this process.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    // Everything ends with the init process of the namespace.
    let first = pidfd_open(Pid::INIT, PidfdFlags::empty()).refused("pidfd")?;
    supervisor::run_in_view(&job.plan, program, args, &first, job.writable.clone(), environment)
}
