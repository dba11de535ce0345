//! The child of the supervisor: confines itself, then executes the program.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::host_environment::HostEnvironment;
use crate::inside::kernel;
use crate::inside::network_broker::NotifiedCalls;
use crate::inside::syscalls::{Filters, ProcessVisibility, Sockets};
use crate::inside::{
    command_group, layout, network_broker, overmounts, privileges, rules, syscalls,
};
use crate::plan::Plan;
use crate::supervisor_error::REFUSED;

/// The confinement that the child builds.
pub(crate) enum Confinement {
    Namespaces {
        host: HostEnvironment,
        /// A user ID that exists in the session namespaces but not in the namespace of the command.
        unmapped_user: Option<u32>,
        /// Whether root keeps its capabilities for files of other users.
        keep_root: bool,
        /// Which system calls are sent to the broker.
        broker_calls: NotifiedCalls,
    },
    /// The view of files already exists.
    View {
        /// The writable paths in the view.
        writable: Vec<PathBuf>,
        /// The environment of the command.
        environment: Vec<(OsString, OsString)>,
        /// Which system calls are sent to the broker.
        broker_calls: NotifiedCalls,
    },
    Landlock {
        /// Which system calls are sent to the broker.
        broker_calls: NotifiedCalls,
    },
    Seccomp,
    Nothing,
}

impl Confinement {
    /// Whether system calls are sent to the broker that the plan's network does not require.
    pub(crate) fn needs_broker(&self) -> bool {
        match self {
            Self::Namespaces { broker_calls, .. }
            | Self::View { broker_calls, .. }
            | Self::Landlock { broker_calls } => !broker_calls.is_empty(),
            Self::Seccomp | Self::Nothing => false,
        }
    }
}

/// Channels to the supervisor, closed when the program starts.
pub(crate) struct SupervisorChannels {
    pub(crate) sync: OwnedFd,
    pub(crate) report: OwnedFd,
}

/// Runs the program, or reports why it could not be started. `has_terminal`: whether the supervisor
/// is in the foreground of a terminal, which the command then takes.
pub(crate) fn run(
    plan: &Plan,
    confinement: &Confinement,
    program: &OsStr,
    args: &[OsString],
    wires: &SupervisorChannels,
    has_terminal: bool,
) -> ! {
    command_group::create(has_terminal);
    let failure = match confine(plan, confinement, wires) {
        Ok(temporary) => start(program, args, temporary, confinement),
        Err(failure) => failure,
    };
    let _ = rustix::io::write(&wires.report, &failure.encode());
    kernel::exit_immediately(REFUSED)
}

/// Builds the confinement. Returns the value of TMPDIR.
fn confine(
    plan: &Plan,
    confinement: &Confinement,
    wires: &SupervisorChannels,
) -> SandboxResult<Option<PathBuf>> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .refused("cannot request a signal when the supervisor ends")?;
    kernel::close_on_exec_from(3).unsupported("cannot close open files")?;
    match confinement {
        Confinement::Namespaces { host, unmapped_user, keep_root, broker_calls } => {
            let view = layout::build(plan, host, *unmapped_user)?;
            replace_null_device()?;
            enter_nested_namespace(wires)?;
            privileges::drop_all_but_files(*keep_root)?;
            rules::restrict_writes(plan, &view.writable, false)?;
            filter_in_view(plan, wires, *broker_calls, Some(&view.stage))?;
            Ok(Some(PathBuf::from("/tmp")))
        }
        Confinement::View { writable, broker_calls, .. } => {
            privileges::drop_all_but_files(false)?;
            rules::restrict_writes(plan, writable, true)?;
            filter_in_view(plan, wires, *broker_calls, None)?;
            Ok(Some(PathBuf::from("/tmp")))
        }
        Confinement::Landlock { broker_calls } => {
            privileges::drop_all_but_files(true)?;
            rules::restrict_all(plan)?;
            let gated =
                network_broker::install_filter_and_wait(plan, &wires.sync, *broker_calls, None)?;
            let checked = if gated { *broker_calls } else { NotifiedCalls::none() };
            filter_in_shared_namespaces(plan, checked)?;
            Ok(Some(overmounts::temporary_directory(plan)?))
        }
        Confinement::Seccomp => {
            privileges::drop_all_but_files(true)?;
            rustix::thread::set_no_new_privs(true).unsupported("no_new_privs")?;
            let checked = NotifiedCalls::for_plan(plan);
            network_broker::install_filter_and_wait(plan, &wires.sync, checked, None)?;
            filter_in_shared_namespaces(plan, checked)?;
            Ok(Some(overmounts::temporary_directory(plan)?))
        }
        Confinement::Nothing => Ok(None),
    }
}

/// Replaces standard streams that are the null device of the host, whose mode root could change
/// through them, with the one of the view, which is on a read-only mount.
fn replace_null_device() -> SandboxResult<()> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, Mode::empty()).unsupported("/dev/null")?;
    let device = |file: BorrowedFd<'_>| {
        fstat(file).ok().filter(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device())
    };
    let number = |file: BorrowedFd<'_>| device(file).map(|stat| stat.st_rdev);
    let is_null = |file| number(file).is_some() && number(file) == number(null.as_fd());
    let replaced = || -> Result<(), Errno> {
        if is_null(rustix::stdio::stdin()) {
            rustix::stdio::dup2_stdin(&null)?;
        }
        if is_null(rustix::stdio::stdout()) {
            rustix::stdio::dup2_stdout(&null)?;
        }
        if is_null(rustix::stdio::stderr()) {
            rustix::stdio::dup2_stderr(&null)?;
        }
        Ok(())
    };
    replaced().refused("cannot replace the null device")
}

/// Sets the filters of a command that sees neither other processes nor their IPC objects.
fn filter_in_view(
    plan: &Plan,
    wires: &SupervisorChannels,
    report: NotifiedCalls,
    stage: Option<&OwnedFd>,
) -> SandboxResult<()> {
    let gated = network_broker::install_filter_and_wait(plan, &wires.sync, report, stage)?;
    syscalls::filter(Filters {
        sockets: Sockets::Namespace,
        has_broker: network_broker::is_needed(plan),
        group_bit_told: gated && report.group_bit,
        neighbors: ProcessVisibility::Hidden,
    })
}

/// Sets the filters of a command that shares its process and IPC namespaces with the user.
/// `checked`: the calls that a broker checks.
fn filter_in_shared_namespaces(plan: &Plan, checked: NotifiedCalls) -> SandboxResult<()> {
    syscalls::filter(Filters {
        sockets: Sockets::without_namespace(plan, checked.addresses),
        has_broker: network_broker::is_needed(plan),
        group_bit_told: checked.processes,
        neighbors: if checked.processes {
            ProcessVisibility::Gated
        } else {
            ProcessVisibility::Visible
        },
    })
}

/// Moves from the session's user namespace to a nested one, in which this process has no
/// capabilities for the mounts, the network, and the processes of the session.
fn enter_nested_namespace(wires: &SupervisorChannels) -> SandboxResult<()> {
    kernel::unshare(UnshareFlags::NEWUSER)
        .unsupported("cannot create a user namespace for the command")?;
    let mut answer = [0; 1];
    let written = rustix::io::write(&wires.sync, b"u")
        .and_then(|_| rustix::io::read(&wires.sync, &mut answer));
    if written == Ok(1) && answer == *b"y" {
        return Ok(());
    }
    Err(SandboxFailure::Unsupported("the ID maps of the user namespace were not set".to_owned()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this process becomes the command; nothing is spawned"
)]
fn start(
    program: &OsStr,
    args: &[OsString],
    temporary: Option<PathBuf>,
    confinement: &Confinement,
) -> SandboxFailure {
    let mut command = Command::new(program);
    command.args(args);
    if let Confinement::View { environment, .. } = confinement {
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    }
    if let Some(temporary) = temporary {
        command.env("TMPDIR", temporary);
        // As root, `tar` tries to restore the owners of files, which is not permitted here.
        if rustix::process::geteuid().is_root() && std::env::var_os("TAR_OPTIONS").is_none() {
            command.env("TAR_OPTIONS", "--no-same-owner");
        }
    }
    // Reset signal handling that the runtime and the supervisor configured for themselves.
    for signal in [libc::SIGPIPE, libc::SIGCHLD] {
        kernel::set_signal(signal, false);
    }
    kernel::unblock_signals();
    let error = command.exec();
    let name = program.to_string_lossy();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            SandboxFailure::NotStarted(127, format!("{name}: command not found"))
        }
        _ => SandboxFailure::NotStarted(126, format!("{name}: {error}")),
    }
}
