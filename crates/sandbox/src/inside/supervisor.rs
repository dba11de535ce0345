//! The supervisor: the parent of the command. It stays outside the sandbox, waits, and ends in the
//! same way as the command.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use crate::inside::child::{self, Confinement, SupervisorChannels};
use crate::inside::command_group::CommandGroup;
use crate::inside::exit_status::ExitStatus;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::identity::Identity;
use crate::inside::kernel::{self, ForkResult};
use crate::inside::network_broker::NotifiedCalls;
use crate::inside::{
    bubblewrap, child_wait, host_environment, network_broker, process_reaper, session_namespaces,
};
use crate::plan::{Network, Plan, Tier};
use crate::supervisor_error::{REFUSED, refuse};

/// Runs the program according to the plan and returns its exit code. If a signal terminated the
/// program, this process ends itself with the same signal.
pub(crate) fn supervise(plan: &Plan, program: &OsStr, args: &[OsString]) -> ExitCode {
    kernel::hold_signals();
    // Fails if this process already leads a process group, which is sufficient.
    if plan.session && rustix::process::setsid().is_ok() {
        // Fails if standard input is not a terminal.
        let _ = rustix::process::ioctl_tiocsctty(std::io::stdin());
    }
    let Some(parent) =
        kernel::process(plan.parent).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return refuse("the program that requested the command has ended");
    };
    let has_terminal = kernel::is_in_foreground();
    let result = try_tiers(plan, program, args, &parent);
    kernel::ignore_signals();
    // In its own session, the terminal ends with this process and what the command left behind.
    if has_terminal && rustix::process::getsid(None) != Ok(rustix::process::getpid()) {
        kernel::set_foreground_group(rustix::process::getpgrp());
    }
    match result {
        Ok(ended) => ended.mirror(),
        Err(SandboxFailure::Refused(words) | SandboxFailure::Unsupported(words)) => refuse(&words),
        Err(SandboxFailure::NotStarted(code, words)) => {
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), format!("{words}\n").as_bytes());
            ExitCode::from(code)
        }
    }
}

/// Tries the tiers that the plan allows, strongest first. A failed attempt has not run anything.
fn try_tiers(
    plan: &Plan,
    program: &OsStr,
    args: &[OsString],
    parent: &OwnedFd,
) -> SandboxResult<ExitStatus> {
    let tiers: &[Tier] = match plan.tier {
        _ if !plan.confine => &[Tier::Nothing],
        Tier::Best => &[Tier::Namespaces, Tier::Bubblewrap, Tier::Landlock],
        Tier::Namespaces => &[Tier::Namespaces],
        Tier::Bubblewrap => &[Tier::Bubblewrap],
        Tier::Landlock => &[Tier::Landlock],
        Tier::Seccomp => &[Tier::Seccomp],
        Tier::Nothing => &[Tier::Nothing],
    };
    let mut last = SandboxFailure::Refused("no sandbox tier is allowed".to_owned());
    for tier in tiers {
        let command = SupervisedCommand { plan, program, args, parent, tier: *tier };
        let outcome = match tier {
            Tier::Bubblewrap => bubblewrap::run(plan, program, args, parent),
            Tier::Namespaces => command.attempt(None),
            _ => process_reaper::run_in_reaper(parent, |waiting| command.attempt(Some(waiting))),
        };
        match outcome {
            Err(SandboxFailure::Unsupported(reason)) => last = SandboxFailure::Unsupported(reason),
            other => return other,
        }
    }
    Err(last)
}

/// Runs the program in an existing view of files. Everything ends when `first`, the process that
/// holds the view, ends.
pub(crate) fn run_in_view(
    plan: &Plan,
    program: &OsStr,
    args: &[OsString],
    first: &OwnedFd,
    writable: Vec<PathBuf>,
    environment: Vec<(OsString, OsString)>,
) -> SandboxResult<ExitStatus> {
    let command = SupervisedCommand { plan, program, args, parent: first, tier: Tier::Bubblewrap };
    let broker_calls = NotifiedCalls::beside_supervisor(plan);
    command.run(Confinement::View { writable, environment, broker_calls }, None, None, None)
}

struct SupervisedCommand<'a> {
    plan: &'a Plan,
    program: &'a OsStr,
    args: &'a [OsString],
    parent: &'a OwnedFd,
    tier: Tier,
}

impl SupervisedCommand<'_> {
    /// Builds the confinement and runs the program. Everything ends when `waiting` ends.
    fn attempt(&self, waiting: Option<&OwnedFd>) -> SandboxResult<ExitStatus> {
        let mut apart = None;
        let (confinement, below) = match self.tier {
            Tier::Namespaces | Tier::Best => {
                // Read this while the processes and sockets of the host are visible.
                let host = host_environment::collect(self.plan, self.program);
                let session_namespaces = open_namespaces(self.plan)?;
                let broker_calls = NotifiedCalls::with_private_view(self.plan);
                if !broker_calls.is_empty() {
                    apart = Some(network_broker::BrokerProcess::start(
                        self.plan,
                        self.parent,
                        &session_namespaces,
                    )?);
                }
                join(self.plan, &session_namespaces)?;
                let (below, odd) = Identity::nested()?;
                let whole = below.maps_all_ids;
                let confinement = Confinement::Namespaces {
                    host,
                    unmapped_user: odd,
                    keep_root: whole,
                    broker_calls,
                };
                (confinement, Some(below))
            }
            Tier::Landlock => (
                Confinement::Landlock { broker_calls: NotifiedCalls::with_host_view(self.plan) },
                None,
            ),
            Tier::Seccomp => (Confinement::Seccomp, None),
            Tier::Bubblewrap | Tier::Nothing => (Confinement::Nothing, None),
        };
        self.run(confinement, below, apart, waiting)
    }

    fn run(
        &self,
        confinement: Confinement,
        below: Option<Identity>,
        mut apart: Option<network_broker::BrokerProcess>,
        waiting: Option<&OwnedFd>,
    ) -> SandboxResult<ExitStatus> {
        let (sync, child_sync) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .refused("cannot create a socket pair")?;
        let (report, child_report) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).refused("a pipe")?;
        let has_terminal = kernel::is_in_foreground();
        let child = match kernel::fork(UnshareFlags::empty()).refused("a process")? {
            ForkResult::Child => {
                drop((sync, report));
                let wires = SupervisorChannels { sync: child_sync, report: child_report };
                child::run(self.plan, &confinement, self.program, self.args, &wires, has_terminal)
            }
            ForkResult::Parent(pid) => pid,
        };
        drop((child_sync, child_report));
        let pidfd = pidfd_open(child, PidfdFlags::empty()).refused("pidfd")?;
        let group = CommandGroup::for_child(child, has_terminal)?;
        if let Some(below) = below {
            let mut request = [0; 1];
            if rustix::io::read(&sync, &mut request) == Ok(1) {
                let mapped = below.map_for(child);
                let word = if mapped.is_ok() { b"y" } else { b"n" };
                let _ = rustix::io::write(&sync, word);
                if let Err(failure) = mapped {
                    child_wait::reap(child)?;
                    return Err(failure);
                }
            }
        }
        let needed = network_broker::is_needed(self.plan) && self.tier != Tier::Nothing;
        if needed || confinement.needs_broker() {
            self.start_broker(&pidfd, &sync, apart.as_mut())?;
        }
        drop(sync);
        let others: Vec<&OwnedFd> = [Some(self.parent), waiting].into_iter().flatten().collect();
        let ended = child_wait::wait(child, &pidfd, &others, Some(&group))?;
        let mut output = Vec::new();
        // Only a child that ran nothing has written a report, and it has ended.
        let mut report = std::fs::File::from(report);
        if ended == ExitStatus::Code(REFUSED)
            && report.read_to_end(&mut output).is_ok()
            && let Some(failure) = SandboxFailure::decode(&output)
        {
            return Err(failure);
        }
        Ok(ended)
    }

    /// Receives the notification descriptor of the child and starts the network broker for it, in a
    /// process that lives as long as processes that the command leaves behind.
    fn start_broker(
        &self,
        child: &OwnedFd,
        sync: &OwnedFd,
        apart: Option<&mut network_broker::BrokerProcess>,
    ) -> SandboxResult<()> {
        let Some(offer) = network_broker::receive_offer(child, sync)? else { return Ok(()) };
        let passed = match apart {
            Some(apart) => apart.pass_descriptors(&offer, child),
            None => self.run_broker_here(offer.listener),
        };
        network_broker::release(sync, passed.is_ok());
        passed
    }

    fn run_broker_here(&self, listener: OwnedFd) -> SandboxResult<()> {
        let viewed = self.tier == Tier::Bubblewrap;
        let mut broker =
            network_broker::NetworkBroker::new(self.plan, listener, self.parent, viewed)?;
        if viewed {
            broker.serve_own_descendants();
        }
        // This process is the reaper and an ancestor of everything that the command starts, which
        // it must be to inspect those processes.
        let thread = std::thread::Builder::new().spawn(move || broker.run());
        thread.map(drop).refused("cannot start the network broker")
    }
}

/// Returns the session namespaces, or new ones for this command.
fn open_namespaces(plan: &Plan) -> SandboxResult<OwnedFd> {
    match plan.session_namespaces {
        Some(session_namespaces) => kernel::process(session_namespaces)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .refused("cannot open the session namespaces"),
        None => Ok(session_namespaces::create()?.1),
    }
}

/// Moves this process into the session namespaces. Processes that it starts from now on are in the
/// session namespaces, but it stays outside the process namespace.
fn join(plan: &Plan, session_namespaces: &OwnedFd) -> SandboxResult<()> {
    let mut spaces = ThreadNameSpaceType::USER
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION;
    if plan.network == Network::Isolated {
        spaces |= ThreadNameSpaceType::NETWORK;
    }
    move_into_thread_name_spaces(session_namespaces.as_fd(), spaces)
        .unsupported("cannot join the session namespaces")
}
