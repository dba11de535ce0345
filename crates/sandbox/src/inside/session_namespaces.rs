//! The namespaces of a session (user, process, network, and IPC) that its commands share, held by
//! an init process that ends with the program.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, geteuid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::UnshareFlags;

use crate::error::StartError;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::identity::Identity;
use crate::inside::kernel::{self, ForkResult};
use crate::launcher::Launcher;
use crate::roles::SESSION_NAMESPACES;

/// Namespaces that the commands of a session share: they see each other's processes and servers but
/// not those of the host. Everything in the session namespaces is killed when this is dropped or
/// the program ends for any reason.
#[derive(Debug)]
pub struct SessionNamespaces {
    holder: Child,
    /// Closing this ends the session namespaces.
    lifeline: Option<ChildStdin>,
    first: i32,
    /// Refers to the init process, even after another process received its ID.
    init: Option<OwnedFd>,
}

impl SessionNamespaces {
    /// Starts session namespaces from the running program. Takes a few milliseconds, once.
    ///
    /// # Errors
    /// Returns an error if user namespaces are not available.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&Launcher::current_program())
    }

    /// Starts session namespaces from the program of the launcher.
    ///
    /// # Errors
    /// See [`SessionNamespaces::start`].
    #[expect(clippy::disallowed_methods, reason = "starts this program itself, not a command")]
    pub fn start_with(launcher: &Launcher) -> Result<Self, StartError> {
        let program = PathBuf::from(launcher.program());
        let to_error = |source| StartError::Spawn { program: program.clone(), source };
        // Clear the environment, because processes in the session namespaces can read that of the
        // init process.
        let mut holder = Command::new(&program)
            .arg(SESSION_NAMESPACES)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(to_error)?;
        let lifeline = holder.stdin.take();
        let mut output = String::new();
        if let Some(stdout) = holder.stdout.take() {
            stdout.take(4096).read_to_string(&mut output).map_err(to_error)?;
        }
        match output.trim().parse() {
            Ok(first) => {
                let init = Pid::from_raw(first);
                let init = init.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                Ok(Self { holder, lifeline, first, init })
            }
            Err(_) => {
                drop(lifeline);
                let _ = holder.wait();
                let reason = output.trim();
                let reason = if reason.is_empty() {
                    "the process of the session namespaces ended immediately"
                } else {
                    reason
                };
                Err(StartError::Unsupported(reason.to_owned()))
            }
        }
    }

    /// Returns the process that holds the namespaces, for [`crate::Plan::session_namespaces`].
    pub fn pid(&self) -> i32 {
        self.first
    }

    /// Returns whether commands can join the namespaces: their processes were not killed.
    pub fn is_alive(&self) -> bool {
        let Some(init) = &self.init else { return false };
        let current = rustix::event::Timespec::default();
        poll(&mut [PollFd::new(init, PollFlags::IN)], Some(&current)) == Ok(0)
    }

    /// Returns how often a process in the network of the session namespaces tried to reach an
    /// address without a route, or to resolve a name without a name server. The difference before
    /// and after a command shows whether the command tried to use the network.
    pub fn unroutable_attempts(&self) -> u64 {
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/{}/net/{name}", self.first)).unwrap_or_default()
        };
        let (four, six) = (read("snmp"), read("snmp6"));
        counter(&four, "Ip:", "OutNoRoutes")
            + counter(&four, "Udp:", "NoPorts")
            + read_counter(&six, "Ip6OutNoRoutes")
            + read_counter(&six, "Udp6NoPorts")
    }
}

impl Drop for SessionNamespaces {
    fn drop(&mut self) {
        self.lifeline.take();
        // The reaper process only has to kill and reap the init process.
        let _ = self.holder.wait();
    }
}

/// Returns a counter of `/proc/net/snmp`, which has a line of names followed by a line of values.
fn counter(text: &str, family: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(family));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    names
        .split(' ')
        .zip(numbers.split(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

/// Returns a counter of `/proc/net/snmp6`, which has a name and a value on each line.
fn read_counter(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(char::is_whitespace))
        .find(|(key, _)| *key == name)
        .and_then(|(_, number)| number.trim().parse().ok())
        .unwrap_or(0)
}

/// Runs the reaper process: creates the session namespaces, prints its process ID, and waits for
/// the end of the program, which closes standard input.
pub(crate) fn serve() -> ExitCode {
    let (first, pidfd) = match create() {
        Ok(created) => created,
        Err(failure) => {
            let words = match failure {
                SandboxFailure::Unsupported(words)
                | SandboxFailure::Refused(words)
                | SandboxFailure::NotStarted(_, words) => words,
            };
            let _ = io::stdout().write_all(words.as_bytes());
            return ExitCode::FAILURE;
        }
    };
    let output = writeln!(io::stdout(), "{}", first.as_raw_nonzero()).and_then(|()| close_stdout());
    if output.is_ok() {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&pidfd, PollFlags::IN)];
        while poll(&mut fds, None) == Err(Errno::INTR) {}
    }
    let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    let _ = waitpid(Some(first), WaitOptions::empty());
    ExitCode::SUCCESS
}

/// Closes standard output, because the program reads the process ID until the end of the stream.
fn close_stdout() -> io::Result<()> {
    io::stdout().flush()?;
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(null)?)
}

/// Creates the namespaces and their init process, a child of this process that does not outlive it.
pub(crate) fn create() -> SandboxResult<(Pid, OwnedFd)> {
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .unsupported("cannot create a socket pair")?;
    let namespaces =
        UnshareFlags::NEWUSER | UnshareFlags::NEWPID | UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
    match kernel::fork(namespaces).unsupported("cannot create a user namespace")? {
        ForkResult::Child => {
            drop(ours);
            first_process(theirs)
        }
        ForkResult::Parent(pid) => {
            drop(theirs);
            let mapped = map_identity(pid).and_then(|()| {
                rustix::io::write(&ours, b"g")
                    .unsupported("cannot start the first process of the session namespaces")?;
                let mut answer = [0; 1];
                match rustix::io::read(&ours, &mut answer) {
                    Ok(1) => pidfd_open(pid, PidfdFlags::empty()).unsupported("pidfd"),
                    _ => Err(SandboxFailure::Unsupported(
                        "cannot enable the loopback interface".to_owned(),
                    )),
                }
            });
            if mapped.is_err() {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
            Ok((pid, mapped?))
        }
    }
}

fn map_identity(pid: Pid) -> SandboxResult<()> {
    if geteuid().is_root() && Identity::all_ids()?.map_for(pid).is_ok() {
        return Ok(());
    }
    Identity::current_user().map_for(pid)
}

/// Runs the init process of the session namespaces, which reaps orphans. If it or its parent dies,
/// everything in the session namespaces is killed.
fn first_process(sync: OwnedFd) -> ! {
    let ready = || -> Result<(), Errno> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut go = [0; 1];
        // Detects that the reaper process died before the line above.
        if rustix::io::read(&sync, &mut go)? != 1 {
            return Err(Errno::PIPE);
        }
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::DGRAM,
            None,
        )?;
        kernel::enable_loopback(socket.as_fd())?;
        // A server of a build may use port 80 of its own network.
        let _ = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
        // Readers of the program's pipes must not wait for this process.
        let null =
            rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        rustix::process::setsid()?;
        rustix::io::write(&sync, b"r").map(drop)
    };
    if ready().is_err() {
        kernel::exit_immediately(1);
    }
    kernel::close_all_from(3);
    // The kernel reaps ended children automatically.
    kernel::set_signal(libc::SIGCHLD, true);
    loop {
        let _ = poll(&mut [], None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_counters_are_found_by_name() {
        let four = "Ip: Forwarding OutNoRoutes\nIp: 1 7\nUdp: InDatagrams NoPorts\nUdp: 3 4\n";
        assert_eq!(counter(four, "Ip:", "OutNoRoutes"), 7);
        assert_eq!(counter(four, "Udp:", "NoPorts"), 4);
        assert_eq!(counter("Ip: A\n", "Ip:", "A"), 0);
        assert_eq!(read_counter("Ip6InReceives   1\nIp6OutNoRoutes  \t 9\n", "Ip6OutNoRoutes"), 9);
    }
}
