//! Uses `bwrap` to build the view of files and the namespaces if this program may not create
//! namespaces but `bwrap` may (because it is set-user-ID or has a security profile). This program,
//! started again inside, verifies the result against the plan and adds Landlock and the system call
//! filters.

mod arguments;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::thread::UnshareFlags;

use crate::inside::bubblewrap_job::BwrapJob;
use crate::inside::exit_status::ExitStatus;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::kernel::{self, ForkResult};
use crate::inside::{child_wait, host_environment};
use crate::plan::Plan;
use crate::roles::INSIDE;
use crate::supervisor_error::REFUSED;
use crate::support::MechanismSupport;
use arguments::BwrapArguments;

/// Usual locations. The search path is not used, because it may contain a directory of the project.
const PLACES: [&str; 5] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/wrappers/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/bin/bwrap",
];

/// Written by the process inside before it starts the command.
pub(super) const STARTED: u8 = b's';

/// Maximum number of bytes kept of its own output.
const MAX_WORDS_LENGTH: u64 = 4096;

/// Returns the path of a `bwrap` that only root can change.
fn find() -> Option<PathBuf> {
    const SYSTEM: u32 = 0;
    const OTHERS_WRITE: u32 = 0o022;
    PLACES.iter().map(PathBuf::from).find(|path| {
        fs::metadata(path).is_ok_and(|data| {
            data.is_file() && data.uid() == SYSTEM && data.mode() & OTHERS_WRITE == 0
        })
    })
}

/// Tries `bwrap` with everything that a command needs.
#[expect(clippy::disallowed_methods, reason = "a probe of a fixed program, not a command")]
pub(crate) fn probe() -> MechanismSupport {
    let Some(program) = find() else {
        return MechanismSupport { is_supported: false, detail: "`bwrap` not found".to_owned() };
    };
    let tried = Command::new(&program)
        .args(arguments::probe_arguments())
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    match tried {
        Ok(output) if output.status.success() => {
            const SET_USER_ID: u32 = 0o4000;
            let set = fs::metadata(&program).is_ok_and(|data| data.mode() & SET_USER_ID != 0);
            let how = if set { "set-user-id" } else { "permitted to create namespaces" };
            MechanismSupport { is_supported: true, detail: format!("{}, {how}", program.display()) }
        }
        Ok(output) => MechanismSupport { is_supported: false, detail: one_line(&output.stderr) },
        Err(error) => MechanismSupport { is_supported: false, detail: format!("`bwrap`: {error}") },
    }
}

fn one_line(words: &[u8]) -> String {
    String::from_utf8_lossy(words).trim().replace('\n', "; ")
}

/// How often to try again if a path vanishes before `bwrap` covers it, such as the socket of
/// another program that ends. The next attempt leaves it out.
const ATTEMPTS: usize = 4;
/// How `bwrap` begins messages about paths that it cannot use.
const UNUSABLE: &str = "bwrap: Can't ";

/// Runs the command inside and waits for its end.
pub(crate) fn run(
    plan: &Plan,
    program: &OsStr,
    args: &[OsString],
    parent: &OwnedFd,
) -> SandboxResult<ExitStatus> {
    for _ in 1..ATTEMPTS {
        match attempt(plan, program, args, parent) {
            Err(SandboxFailure::Unsupported(words)) if words.starts_with(UNUSABLE) => {
                // The next child must not inherit that this process ignores them.
                kernel::reset_command_signals();
            }
            ended => return ended,
        }
    }
    attempt(plan, program, args, parent)
}

/// Starts `bwrap` once. The command has not started if the result begins with [`UNUSABLE`].
fn attempt(
    plan: &Plan,
    program: &OsStr,
    args: &[OsString],
    parent: &OwnedFd,
) -> SandboxResult<ExitStatus> {
    let Some(bwrap) = find() else {
        return Err(SandboxFailure::Unsupported("`bwrap` not found".to_owned()));
    };
    let host = host_environment::collect(plan, program);
    let BwrapArguments { words, trees, writable } = arguments::build_arguments(plan, &host)?;
    let (report, its_report) = pipe_with(PipeFlags::CLOEXEC).refused("a pipe")?;
    let (output, its_stderr) = pipe_with(PipeFlags::CLOEXEC).refused("a pipe")?;
    let stderr = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3).refused("stderr")?;
    let job = BwrapJob {
        plan: plan.clone(),
        trees,
        writable,
        report: its_report.as_raw_fd(),
        stderr: stderr.as_raw_fd(),
    };
    let job = in_memory(&job.encode(std::env::vars_os())?)?;
    let words = in_memory(&join_arguments(&words))?;
    let executable =
        rustix::fs::open("/proc/self/exe", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .refused("cannot open this program")?;
    let mut line: Vec<OsString> = vec![
        "--args".into(),
        words.as_raw_fd().to_string().into(),
        "--".into(),
        format!("/proc/self/fd/{}", executable.as_raw_fd()).into(),
        INSIDE.into(),
        job.as_raw_fd().to_string().into(),
        "--".into(),
        program.to_owned(),
    ];
    line.extend_from_slice(args);
    let handed = [&its_report, &stderr, &job, &words, &executable];
    let child = match kernel::fork(UnshareFlags::empty()).refused("a process")? {
        ForkResult::Child => {
            let ready = rustix::stdio::dup2_stderr(&its_stderr).and_then(|()| {
                handed.iter().try_for_each(|file| rustix::io::fcntl_setfd(file, FdFlags::empty()))
            });
            if ready.is_ok() {
                // The signals for the command stay blocked, so that none of them ends `bwrap`.
                become_program(&bwrap, &line);
            }
            kernel::exit_immediately(REFUSED)
        }
        ForkResult::Parent(pid) => pid,
    };
    drop((its_report, its_stderr, stderr, job, words, executable));
    kernel::ignore_signals();
    let pidfd = pidfd_open(child, PidfdFlags::empty()).refused("pidfd")?;
    child_wait::wait(child, &pidfd, &[parent], None)?;
    let read_pipe = |file: OwnedFd| {
        let mut bytes = Vec::new();
        let read = fs::File::from(file).take(MAX_WORDS_LENGTH).read_to_end(&mut bytes);
        read.map(|_| bytes).refused("a pipe")
    };
    match read_pipe(report)?.split_first() {
        Some((&STARTED, ended)) => match (ExitStatus::decode(ended), SandboxFailure::decode(ended))
        {
            (Some(ended), _) => Ok(ended),
            (None, Some(failure)) => Err(failure),
            // The process inside was killed from outside.
            (None, None) => Ok(ExitStatus::Signal(libc::SIGKILL)),
        },
        _ => Err(SandboxFailure::Unsupported(one_line(&read_pipe(output)?))),
    }
}

#[expect(clippy::disallowed_methods, reason = "this process becomes `bwrap`; nothing is spawned")]
fn become_program(program: &Path, line: &[OsString]) {
    let error = Command::new(program).args(line).exec();
    let words = format!("`bwrap`: {error}");
    let _ = std::io::stderr().write_all(words.as_bytes());
}

fn join_arguments(words: &[OsString]) -> Vec<u8> {
    words.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect()
}

/// Returns an in-memory file with this content, positioned at its start.
fn in_memory(bytes: &[u8]) -> SandboxResult<OwnedFd> {
    let file =
        memfd_create("parallax", MemfdFlags::CLOEXEC).refused("cannot create an in-memory file")?;
    let mut file = fs::File::from(file);
    file.write_all(bytes)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .refused("cannot create an in-memory file")?;
    Ok(file.into())
}
