//! The network broker: access to other hosts without servers on this host, or the other way round.
//!
//! The command uses the network of the host, but each call with an address waits until a process
//! outside the sandbox has read the address, checked it, and made the call for the command on the
//! command's own socket. The kernel does not read the memory of the command again, so nothing can
//! be changed after the check.

mod address;
mod bound;
mod broker_loop;
mod caller;
mod message;
mod metadata;
mod processes;
mod servers;

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, WaitOptions, pidfd_getfd, pidfd_open, waitpid,
};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use crate::inside::broker_guard::BrokerGuard;
use crate::inside::failure::{FailureContextExt as _, SandboxFailure, SandboxResult};
use crate::inside::kernel::notify::{self, Instruction};
use crate::inside::kernel::{self, ForkResult};
use crate::inside::overmount_monitor::{MonitorFiles, OvermountMonitor};
use crate::inside::overmounts;
use crate::plan::{Network, Plan};
use crate::replaced;

pub(crate) use broker_loop::NetworkBroker;
pub(crate) use processes::CALLS_BY_PROCESS;

/// Written by the child before the number of the descriptor that it offers.
const OFFER: u8 = b'g';

/// Whether the command of this plan must not run without a broker.
pub(crate) fn is_needed(plan: &Plan) -> bool {
    matches!(plan.network, Network::External | Network::Loopback)
}

/// Which system calls of a command the broker is notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotifiedCalls {
    /// Calls with addresses.
    pub(crate) addresses: bool,
    /// Calls that change metadata, which Landlock does not control.
    metadata: bool,
    /// Calls that set the set-group-ID bit, which directories may have.
    pub(crate) group_bit: bool,
    /// Calls that change limits and priorities of processes.
    pub(crate) processes: bool,
}

impl NotifiedCalls {
    /// Returns no calls.
    pub(crate) fn none() -> Self {
        Self { addresses: false, metadata: false, group_bit: false, processes: false }
    }

    /// Returns the calls that the plan's network requires.
    pub(crate) fn for_plan(plan: &Plan) -> Self {
        Self { addresses: is_needed(plan), ..Self::none() }
    }

    /// Returns the calls for a command with its own view of files and processes. Calls with
    /// addresses are included even with its own network, because unix sockets of the host are in
    /// the file system.
    pub(crate) fn with_private_view(plan: &Plan) -> Self {
        if !can_take() {
            return Self::for_plan(plan);
        }
        let addresses = is_needed(plan) || bound::SocketTable::open().is_some();
        Self { addresses, metadata: false, group_bit: true, processes: false }
    }

    /// The same, and calls that could change limits and priorities of the supervisor, which is in
    /// the process namespace of the command.
    pub(crate) fn beside_supervisor(plan: &Plan) -> Self {
        let calls = Self::with_private_view(plan);
        Self { processes: can_take(), ..calls }
    }

    /// Returns the calls for a command that sees the files and processes of the host.
    pub(crate) fn with_host_view(plan: &Plan) -> Self {
        if !can_take() {
            return Self::for_plan(plan);
        }
        Self {
            // Without a broker, the command could not create unix sockets.
            addresses: is_needed(plan) || !plan.sockets.is_empty(),
            // These include all calls that change modes.
            metadata: true,
            group_bit: false,
            processes: true,
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(self) -> bool {
        !(self.addresses || self.metadata || self.group_bit || self.processes)
    }
}

/// In the child: installs the filter and waits until the supervisor has taken its notification
/// descriptor. Returns whether the filter is installed: if the network does not require it and the
/// kernel does not support it, the command runs without it. `stage` is the directory of the
/// overmounts, which the broker process keeps in place.
pub(crate) fn install_filter_and_wait(
    plan: &Plan,
    sync: &OwnedFd,
    report: NotifiedCalls,
    stage: Option<&OwnedFd>,
) -> SandboxResult<bool> {
    if report.is_empty() {
        return Ok(false);
    }
    let needed = is_needed(plan);
    let listener = match notify::install_filter(&program(plan.network, report)) {
        Err(_) if !needed => return Ok(false),
        tried => tried.unsupported("cannot install a filter with notifications")?,
    };
    let mut offer = vec![OFFER];
    offer.extend(listener.as_raw_fd().to_ne_bytes());
    offer.extend(stage.map_or(-1, |stage| stage.as_raw_fd()).to_ne_bytes());
    let mut answer = [0; 1];
    let answered =
        rustix::io::write(sync, &offer).and_then(|_| rustix::io::read(sync, &mut answer));
    if answered == Ok(1) && answer == *b"y" {
        return Ok(true);
    }
    Err(SandboxFailure::Unsupported("the network broker did not receive the filter".to_owned()))
}

/// Whether the supervisor can take a descriptor of its child; an outer sandbox or host settings may
/// forbid it.
pub(crate) fn can_take() -> bool {
    /// From this value on, ordinary users cannot trace even their own children.
    const ADMIN_ONLY: u32 = 2;
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if scope >= ADMIN_ONLY && !rustix::process::geteuid().is_root() {
        return false;
    }
    handle_of(rustix::process::getpid())
        .is_ok_and(|own| pidfd_getfd(&own, own.as_raw_fd(), PidfdGetfdFlags::empty()).is_ok())
}

/// The descriptors that a child offers.
pub(crate) struct PassedDescriptors {
    /// The notification descriptor.
    pub(crate) listener: OwnedFd,
    /// The directory of its overmounts, if it has any.
    pub(crate) stage: Option<OwnedFd>,
}

/// In the supervisor: takes the descriptors that the child offers; the child then waits for
/// [`release`]. Returns `None` if the child sent something else.
pub(crate) fn receive_offer(
    child: &OwnedFd,
    sync: &OwnedFd,
) -> SandboxResult<Option<PassedDescriptors>> {
    let mut offer = [0; 9];
    let Ok(9) = rustix::io::read(sync, &mut offer) else { return Ok(None) };
    let [OFFER, a, b, c, d, stage @ ..] = offer else { return Ok(None) };
    let get = |number| pidfd_getfd(child, number, PidfdGetfdFlags::empty());
    let listener = get(i32::from_ne_bytes([a, b, c, d]));
    if listener.is_err() {
        release(sync, false);
    }
    let stage = Some(i32::from_ne_bytes(stage)).filter(|number| *number >= 0);
    let stage = stage.and_then(|number| get(number).ok());
    let offer = listener.map(|listener| Some(PassedDescriptors { listener, stage }));
    offer.unsupported("cannot set up the network broker")
}

/// Notifies the child whether a broker handles its calls. The child may end at any time afterwards,
/// so inspect it before this call.
pub(crate) fn release(sync: &OwnedFd, kept: bool) {
    let _ = rustix::io::write(sync, if kept { b"y" } else { b"n" });
}

/// A process that will run the broker, started while this one is still outside the session
/// namespaces, so that nothing in them can see or reach it.
pub(crate) struct BrokerProcess {
    wire: Option<OwnedFd>,
    process: Pid,
}

impl BrokerProcess {
    /// Starts the process; it ends by itself if it receives nothing.
    pub(crate) fn start(
        plan: &Plan,
        parent: &OwnedFd,
        session_namespaces: &OwnedFd,
    ) -> SandboxResult<Self> {
        let (wire, its_wire) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .refused("cannot create a socket pair")?;
        // The report is hidden from the command, so it must exist before.
        overmounts::temporary_directory(plan)?;
        let report = replaced::open(&plan.temporary).ok();
        match kernel::fork(UnshareFlags::empty()).refused("a process")? {
            ForkResult::Parent(process) => Ok(Self { wire: Some(wire), process }),
            ForkResult::Child => {
                drop(wire);
                // Detach from the terminal and process group of the command, so that their end does
                // not affect this process.
                let _ = rustix::process::setsid();
                if let Ok(name) = std::ffi::CString::new(crate::KEEPER) {
                    let _ = rustix::thread::set_name(&name);
                }
                if let Ok((offer, child)) = receive(&its_wire)
                    && let Ok(mut broker) = NetworkBroker::new(plan, offer.listener, parent, true)
                    && enter_child_view(&child, session_namespaces).is_ok()
                    && crate::inside::process_reaper::detach_from_command().is_ok()
                {
                    let Ok(guard) = BrokerGuard::start(session_namespaces) else {
                        kernel::exit_immediately(1)
                    };
                    let Ok(busy) = start_monitor(
                        plan,
                        &broker,
                        (offer.stage, report, child),
                        session_namespaces,
                    ) else {
                        guard.release();
                        kernel::exit_immediately(1)
                    };
                    broker.open_session_network(session_namespaces);
                    if rustix::io::write(&its_wire, b"r") == Ok(1) {
                        drop(its_wire);
                        broker.run();
                    }
                    // The monitor may have stopped processes of other commands.
                    let _done = busy.as_ref().map(|busy| busy.lock());
                    guard.release();
                    kernel::exit_immediately(0);
                }
                kernel::exit_immediately(0)
            }
        }
    }

    /// Passes the descriptors of the child to the process and waits until it is ready. It ends with
    /// the last process that the filter applies to.
    pub(crate) fn pass_descriptors(
        &mut self,
        offer: &PassedDescriptors,
        child: &OwnedFd,
    ) -> SandboxResult<()> {
        let Some(wire) = self.wire.take() else { return Ok(()) };
        let mut files = vec![offer.listener.as_fd(), child.as_fd()];
        files.extend(offer.stage.as_ref().map(OwnedFd::as_fd));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(&wire, &[IoSlice::new(b"g")], &mut control, SendFlags::NOSIGNAL);
        sent.refused("cannot set up the network broker")?;
        match rustix::io::read(&wire, &mut [0; 1]) {
            Ok(1) => Ok(()),
            _ => Err(SandboxFailure::Unsupported("the network broker did not start".to_owned())),
        }
    }
}

impl Drop for BrokerProcess {
    /// Reaps the process if it ends soon because no process was left behind.
    fn drop(&mut self) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        self.wire = None;
        if let Ok(handle) = handle_of(self.process) {
            let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout));
        }
        let _ = waitpid(Some(self.process), WaitOptions::NOHANG);
    }
}

fn receive(wire: &OwnedFd) -> SandboxResult<(PassedDescriptors, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let mut data = [IoSliceMut::new(&mut byte)];
    recvmsg(wire, &mut data, &mut control, flags).refused("cannot set up the network broker")?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let mut files = files.next().into_iter().flatten();
    match (files.next(), files.next()) {
        (Some(listener), Some(child)) => {
            Ok((PassedDescriptors { listener, stage: files.next() }, child))
        }
        _ => Err(SandboxFailure::Refused("the network broker received no filter".to_owned())),
    }
}

/// Starts the thread that keeps the overmounts of the command in place, before the broker drops
/// the capability to mount, so that only the thread keeps it. Returns its lock, or `None` if there
/// is nothing to do.
fn start_monitor(
    plan: &Plan,
    broker: &NetworkBroker,
    (stage, report, child): (Option<OwnedFd>, Option<File>, OwnedFd),
    session_namespaces: &OwnedFd,
) -> SandboxResult<Option<Arc<Mutex<()>>>> {
    let Some(stage) = stage else { return Ok(None) };
    let proc = broker.proc().refused("cannot monitor hidden files")?;
    let namespaces = session_namespaces.try_clone().refused("cannot monitor hidden files")?;
    let listener = broker.listener().refused("cannot monitor hidden files")?;
    let busy = broker.passed_files();
    let stop_lock = Arc::clone(&busy);
    let files = MonitorFiles {
        stage,
        proc,
        report,
        command: child,
        listener,
        session_namespaces: namespaces,
    };
    let monitor = OvermountMonitor::start(plan, files, stop_lock)?;
    if !monitor.is_needed() {
        return Ok(None);
    }
    let started = std::thread::Builder::new().spawn(move || monitor.run());
    started.refused("cannot monitor hidden files")?;
    Ok(Some(busy))
}

/// Enters the view of files of the child.
fn enter_child_view(child: &OwnedFd, session_namespaces: &OwnedFd) -> Result<(), Errno> {
    move_into_thread_name_spaces(session_namespaces.as_fd(), ThreadNameSpaceType::USER)?;
    move_into_thread_name_spaces(child.as_fd(), ThreadNameSpaceType::MOUNT)
}

/// Returns a pidfd, which allows signaling and inspecting the process.
pub(crate) fn handle_of(process: Pid) -> Result<OwnedFd, Errno> {
    pidfd_open(process, PidfdFlags::empty())
}

/// The conditions under which a call is passed to the broker; all of them must hold.
#[derive(Debug, Clone, Copy)]
enum Condition {
    /// The argument, a pointer, is not null.
    Pointer(u32),
    /// The argument has one of these bits.
    Bits(u32, u32),
}

/// Returns the filter program. With [`Network::Loopback`], `listen` is included, to reject servers
/// that other hosts could reach.
fn program(network: Network, report: NotifiedCalls) -> Vec<Instruction> {
    let mut calls: Vec<(libc::c_long, Option<Condition>)> = Vec::new();
    if report.addresses {
        calls.extend([libc::SYS_connect, libc::SYS_sendmsg, libc::SYS_sendmmsg].map(unconditional));
        // Without an address, it sends to the peer that the socket is connected to.
        calls.push((libc::SYS_sendto, Some(Condition::Pointer(4))));
        if network == Network::Loopback {
            calls.push(unconditional(libc::SYS_listen));
        }
    }
    if report.metadata {
        calls.extend(metadata::calls().into_iter().map(unconditional));
    } else if report.group_bit {
        let set_group = |(call, argument)| (call, Some(Condition::Bits(argument, 0o2000)));
        calls.extend(metadata::calls_with_mode().into_iter().map(set_group));
    }
    if report.processes {
        calls.extend(processes::calls().into_iter().map(unconditional));
    }
    assemble(&calls)
}

fn unconditional(call: libc::c_long) -> (libc::c_long, Option<Condition>) {
    (call, None)
}

/// Assembles the instructions of the filter: one block for each call, which ends by returning an
/// action.
fn assemble(calls: &[(libc::c_long, Option<Condition>)]) -> Vec<Instruction> {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_BITS: u16 = 0x45;
    const RETURN: u16 = 0x06;
    /// Offsets of the call number and of its first argument.
    const NUMBER: u32 = 0;
    const ARGUMENTS: u32 = 16;
    const ALLOW: Instruction = (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    const NOTIFY: Instruction = (RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF);
    let mut program = vec![(LOAD, 0, 0, NUMBER)];
    for (call, condition) in calls {
        let block = match *condition {
            None => vec![NOTIFY],
            Some(Condition::Bits(argument, bits)) => vec![
                (LOAD, 0, 0, ARGUMENTS + 8 * argument + low_half_offset()),
                (IF_BITS, 0, 1, bits),
                NOTIFY,
                ALLOW,
            ],
            Some(Condition::Pointer(argument)) => vec![
                (LOAD, 0, 0, ARGUMENTS + 8 * argument),
                (IF_EQUAL, 0, 2, 0),
                (LOAD, 0, 0, ARGUMENTS + 8 * argument + 4),
                (IF_EQUAL, 1, 0, 0),
                NOTIFY,
                ALLOW,
            ],
        };
        let over = u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.push((IF_EQUAL, 0, over, u32::try_from(*call).unwrap_or(u32::MAX)));
        program.extend(block);
    }
    program.push(ALLOW);
    program
}

/// Returns the offset of the low half of a 64-bit argument.
fn low_half_offset() -> u32 {
    if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// Tests a broker with a connection that it must reject. Forks; intended for a probe.
pub(crate) fn self_test() -> SandboxResult<()> {
    let parent = handle_of(rustix::process::getpid()).unsupported("pidfd")?;
    let mut plan = Plan::new("/nowhere".into());
    plan.network = Network::Loopback;
    let (sync, child_sync) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .unsupported("cannot create a socket pair")?;
    match kernel::fork(UnshareFlags::empty()).unsupported("a process")? {
        ForkResult::Child => {
            drop(sync);
            let tried = rustix::thread::set_no_new_privs(true)
                .unsupported("no_new_privs")
                .and_then(|()| {
                    install_filter_and_wait(
                        &plan,
                        &child_sync,
                        NotifiedCalls::for_plan(&plan),
                        None,
                    )
                })
                .and_then(|_| probe_broker());
            kernel::exit_immediately(u8::from(tried.is_err()))
        }
        ForkResult::Parent(pid) => {
            drop(child_sync);
            let child = handle_of(pid).unsupported("pidfd")?;
            let offer = receive_offer(&child, &sync)?.ok_or_else(|| {
                SandboxFailure::Unsupported(
                    "filters with notifications are not supported".to_owned(),
                )
            })?;
            let broker = NetworkBroker::new(&plan, offer.listener, &parent, false)?;
            release(&sync, true);
            // The broker ends with the child, the only process that the filter applies to.
            broker.run();
            let status = waitpid(Some(pid), WaitOptions::empty()).unsupported("waiting")?;
            match status.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                _ => Err(SandboxFailure::Unsupported(
                    "the network broker did not respond".to_owned(),
                )),
            }
        }
    }
}

/// Tries a connection that only a broker rejects in this way without delay.
fn probe_broker() -> SandboxResult<()> {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .unsupported("a socket")?;
    let far = std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(192, 0, 2, 1), 9);
    match rustix::net::connect(&socket, &far) {
        Err(Errno::NETUNREACH) => Ok(()),
        _ => Err(SandboxFailure::Unsupported(
            "the network broker did not block a connection".to_owned(),
        )),
    }
}
