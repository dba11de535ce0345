//! Tries each confinement mechanism in a disposable process.

use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::kernel::{self, ForkResult};
use crate::inside::syscalls::{self, Filters, ProcessVisibility, Sockets};
use crate::inside::{bubblewrap, devices, layout, network_broker, overmounts, session_namespaces};
use crate::support::{MechanismSupport, Support};

/// Tries all mechanisms.
pub(crate) fn probe_all() -> Support {
    let landlock = match kernel::landlock_version() {
        None => MechanismSupport {
            is_supported: false,
            detail: "not supported by this kernel, or disabled".into(),
        },
        Some(version) => {
            MechanismSupport { is_supported: true, detail: format!("version {version}") }
        }
    };
    let seccomp = finding(run_in_child(|| {
        rustix::thread::set_no_new_privs(true).unsupported("no_new_privs")?;
        syscalls::filter(Filters {
            sockets: Sockets::None,
            has_broker: false,
            group_bit_told: false,
            neighbors: ProcessVisibility::Visible,
        })
    }));
    let broker = finding(run_in_child(network_broker::self_test));
    let namespaces = finding(run_in_child(|| session_namespaces::create().map(drop)));
    let mounts = finding(run_in_child(|| {
        enter()?;
        let root = layout::new_view()?;
        overmounts::PlaceholderTmpfs::create(&root, None).map(drop)
    }));
    let own_proc = finding(run_in_child(|| {
        enter()?;
        layout::new_view()?;
        // Only a process in the new process namespace can mount its `/proc`.
        run_in_child(|| devices::new_proc().map(drop).unsupported("cannot mount it"))
    }));
    let overlay = finding(run_in_child(|| {
        enter()?;
        kernel::unshare(UnshareFlags::NEWNS).unsupported("cannot create a mount namespace")?;
        overlay_works()
    }));
    let bubblewrap = match mounts.is_supported {
        true => MechanismSupport {
            is_supported: false,
            detail: "not needed: Parallax can create namespaces itself".to_owned(),
        },
        false => bubblewrap::probe(),
    };
    Support {
        landlock,
        seccomp,
        network_broker: broker,
        namespaces,
        mounts,
        own_proc,
        overlay,
        bubblewrap,
    }
}

fn finding(outcome: SandboxResult<()>) -> MechanismSupport {
    MechanismSupport::from_result(outcome.map_err(|failure| match failure {
        SandboxFailure::Unsupported(reason)
        | SandboxFailure::Refused(reason)
        | SandboxFailure::NotStarted(_, reason) => reason,
    }))
}

fn enter() -> SandboxResult<()> {
    let (_, pidfd) = session_namespaces::create()?;
    let spaces = ThreadNameSpaceType::USER | ThreadNameSpaceType::PROCESS_ID;
    move_into_thread_name_spaces(pidfd.as_fd(), spaces).unsupported("joining")
}

fn overlay_works() -> SandboxResult<()> {
    let directory = std::env::temp_dir().join(format!("parallax-probe-{}", std::process::id()));
    std::fs::create_dir(&directory).unsupported("cannot create a test directory")?;
    let lower = rustix::fs::open(
        &directory,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .unsupported("cannot create a test directory");
    let tried =
        lower.map(|lower| overmounts::overlay(&directory.join("store"), Path::new("/x"), &lower));
    // The kernel created a directory in it that only this process may remove.
    let _ = std::fs::remove_dir_all(&directory);
    match tried? {
        Some(_) => Ok(()),
        None => Err(SandboxFailure::Unsupported(
            "the kernel does not allow it for unprivileged users".to_owned(),
        )),
    }
}

/// Runs a function in a child and returns its result.
fn run_in_child(what: impl FnOnce() -> SandboxResult<()>) -> SandboxResult<()> {
    let (reader, writer) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unsupported("a pipe")?;
    match kernel::fork(UnshareFlags::empty()).unsupported("a process")? {
        ForkResult::Child => {
            drop(reader);
            if let Err(failure) = what() {
                let _ = rustix::io::write(&writer, &failure.encode());
                kernel::exit_immediately(1);
            }
            kernel::exit_immediately(0)
        }
        ForkResult::Parent(pid) => {
            drop(writer);
            let status = waitpid(Some(pid), WaitOptions::empty()).unsupported("waiting")?;
            let mut output = vec![0; 4096];
            let length = rustix::io::read(&reader, &mut output).unwrap_or(0);
            output.truncate(length);
            match (
                SandboxFailure::decode(&output),
                status.and_then(|(_, status)| status.exit_status()),
            ) {
                (Some(failure), _) => Err(failure),
                (None, Some(0)) => Ok(()),
                (None, _) => Err(SandboxFailure::Unsupported("the probe process died".to_owned())),
            }
        }
    }
}

/// Waits for remaining processes of the probes, for a limited time.
pub(crate) fn reap() {
    const TIME: std::time::Duration = std::time::Duration::from_secs(1);
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
    let end = std::time::Instant::now() + TIME;
    while std::time::Instant::now() < end {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(PAUSE),
            // There are no children left.
            Err(_) => return,
        }
    }
}
