//! The main loop of the network broker: receives calls, checks their addresses, and makes them.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open, readlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{
    CapabilitySet, CapabilitySets, ThreadNameSpaceType, UnshareFlags, capabilities,
    move_into_thread_name_spaces, set_capabilities,
};

use super::address::{self, Address};
use super::bound::{self, FileIdentity, SocketTable};
use super::caller::{Caller, process_of};
use super::message::{self, SendmsgArguments};
use super::metadata::WritableFiles;
use super::processes;
use super::servers::{self, SessionProcesses};
use crate::inside::failure::{FailureContextExt as _, SandboxResult};
use crate::inside::kernel;
use crate::inside::kernel::notify::{self, NotifyReply, SyscallNotification};
use crate::plan::{Network, Plan};

/// Maximum number of waiting calls; further calls fail with a request to try again.
const MAX_AT_ONCE: usize = 256;
/// Maximum number of messages sent by one `sendmmsg`; the caller sends the rest with the next call.
const MAX_MESSAGES: u64 = 64;

/// How long to wait for a full socket before checking whether its sender still waits.
const FULL_SOCKET_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const FULL_QUEUE_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// A notification descriptor and everything needed to handle its calls.
pub(crate) struct NetworkBroker {
    listener: OwnedFd,
    /// The broker ends with this process.
    parent: OwnedFd,
    /// The `/proc` of the host, even if it is not visible here.
    proc: OwnedFd,
    network: Network,
    session: SessionProcesses,
    name_servers: Vec<IpAddr>,
    /// Whether the command has its own view of files. Its unix sockets are then evaluated by the
    /// process that answers.
    has_own_view: bool,
    /// Paths on the host where unix sockets may be connected to if the command has the host's view
    /// of files or its network.
    socket_places: Vec<PathBuf>,
    /// Sockets of the host that the plan allows.
    allowed_sockets: Vec<PathBuf>,
    /// Sockets bound in the session's own network, all of which belong to the session.
    own_sockets: Option<SocketTable>,
    /// Sockets bound in the network of the host, where the session may have servers as well.
    machine: Option<SocketTable>,
    /// Files whose owners and modes may be changed.
    writable: WritableFiles,
    waiting_calls: AtomicUsize,
    /// Held while this process has files that a command passes to another process, and while the
    /// processes that have a file open are searched for. Nothing waits while it is held.
    passed_files: Arc<Mutex<()>>,
}

impl NetworkBroker {
    /// Collects what it needs while the host is visible. `mounts`: whether the command has its own
    /// view of files.
    pub(crate) fn new(
        plan: &Plan,
        listener: OwnedFd,
        parent: &OwnedFd,
        mounts: bool,
    ) -> SandboxResult<Self> {
        let proc = open("/proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let open = plan.sockets.iter().chain(&plan.writable);
        Ok(Self {
            listener,
            parent: parent.try_clone().refused("cannot set up the network broker")?,
            proc: proc.refused("`/proc`")?,
            network: plan.network,
            session: if mounts {
                SessionProcesses::Namespace
            } else {
                SessionProcesses::Descendants
            },
            name_servers: servers::name_servers(),
            writable: if mounts {
                WritableFiles::AsMounted
            } else {
                let temporary = plan.temporary.join("tmp");
                WritableFiles::Trees {
                    open: plan.writable.iter().cloned().chain([temporary]).collect(),
                    closed: plan.read_only.clone(),
                }
            },
            has_own_view: mounts,
            socket_places: open
                .filter_map(|path| path.canonicalize().ok())
                .chain((!mounts).then(|| plan.temporary.join("tmp")))
                .collect(),
            allowed_sockets: plan.sockets.clone(),
            // Set later, from inside the network of the session.
            own_sockets: None,
            machine: if mounts && plan.network == Network::Isolated {
                None
            } else {
                SocketTable::open()
            },
            waiting_calls: AtomicUsize::new(0),
            passed_files: Arc::default(),
        })
    }

    /// Returns the `/proc` of the host.
    pub(crate) fn proc(&self) -> std::io::Result<OwnedFd> {
        self.proc.try_clone()
    }

    /// Returns the notification descriptor.
    pub(crate) fn listener(&self) -> std::io::Result<OwnedFd> {
        self.listener.try_clone()
    }

    /// Returns the lock during which this process has no file of a command.
    pub(crate) fn passed_files(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.passed_files)
    }

    /// Opens the table of sockets bound in the network of the session namespaces, whose user
    /// namespace this process must be in.
    pub(crate) fn open_session_network(&mut self, session_namespaces: &OwnedFd) {
        let table = std::thread::scope(|scope| {
            // Only this thread enters the network namespace.
            let there = scope.spawn(|| {
                let spaces = ThreadNameSpaceType::NETWORK;
                move_into_thread_name_spaces(session_namespaces.as_fd(), spaces)
                    .ok()
                    .and_then(|()| SocketTable::open())
            });
            there.join().ok().flatten()
        });
        self.own_sockets = table;
    }

    /// Serves only descendants of this process, which is in the namespaces of the command and is
    /// not part of it.
    pub(crate) fn serve_own_descendants(&mut self) {
        self.session = SessionProcesses::Descendants;
        if self.network == Network::Isolated {
            self.own_sockets = SocketTable::open();
        }
    }

    /// Handles calls until the filter applies to no remaining process, or the program ends.
    pub(crate) fn run(self) {
        if drop_capabilities(matches!(self.writable, WritableFiles::Trees { .. })).is_err() {
            // Unanswered calls would block; closing the listener makes them fail.
            return;
        }
        let broker = Arc::new(self);
        loop {
            let mut fds = [
                PollFd::new(&broker.listener, PollFlags::IN),
                PollFd::new(&broker.parent, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let [calls, parent] = &fds;
            if !parent.revents().is_empty() || !calls.revents().contains(PollFlags::IN) {
                return;
            }
            let Ok(notification) = notify::receive(&broker.listener) else { continue };
            if broker.waiting_calls.fetch_add(1, Ordering::Relaxed) >= MAX_AT_ONCE {
                broker.done(&notification, Err(Errno::AGAIN));
                continue;
            }
            let for_thread = Arc::clone(&broker);
            let started = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
                let result = for_thread.serve(&notification);
                for_thread.done(&notification, result);
            });
            if started.is_err() {
                broker.done(&notification, Err(Errno::AGAIN));
            }
        }
    }

    fn done(&self, notification: &SyscallNotification, result: Result<NotifyReply, Errno>) {
        notify::answer(&self.listener, notification.id, result);
        self.waiting_calls.fetch_sub(1, Ordering::Relaxed);
    }

    fn serve(&self, notification: &SyscallNotification) -> Result<NotifyReply, Errno> {
        // These checks need only numbers, so they also work for a process whose memory cannot be read.
        let process = process_of(&self.proc, notification.thread)?.number;
        if !notify::is_waiting(&self.listener, notification.id) {
            return Err(Errno::SRCH);
        }
        let is_own = |other| self.session.has_process(&self.proc, process, other);
        if let Some(checked) = processes::check_access(notification, is_own) {
            return checked.map(|()| NotifyReply::Proceed);
        }
        let caller = Caller::open(&self.proc, notification.thread)?;
        if !notify::is_waiting(&self.listener, notification.id) {
            return Err(Errno::SRCH);
        }
        let created = self.writable.serve(&self.proc, &caller, notification);
        created.unwrap_or_else(|| self.serve_address(&caller, notification)).map(NotifyReply::Value)
    }

    fn serve_address(
        &self,
        caller: &Caller,
        notification: &SyscallNotification,
    ) -> Result<i64, Errno> {
        let [first, second, third, fourth, fifth, sixth] = notification.arguments;
        // These arguments are `int`, so the upper bits are ignored.
        let int = |argument: u64| (argument & 0xffff_ffff) as u32;
        let socket = caller.file(int(first).cast_signed())?;
        match notification.call {
            libc::SYS_connect => {
                let address = message::read_address(caller, second, u64::from(int(third)))?;
                self.connect(caller, &socket, &address.ok_or(Errno::INVAL)?)
            }
            libc::SYS_listen => self.listen(&socket, int(second).cast_signed()),
            libc::SYS_sendto => {
                let message = SendmsgArguments::from_sendto(
                    caller,
                    second,
                    third,
                    fifth,
                    u64::from(int(sixth)),
                )?;
                let sender = Sender { caller, socket: &socket, call: notification.id };
                self.send(&sender, &message, int(fourth).cast_signed())
            }
            libc::SYS_sendmsg => {
                let message = SendmsgArguments::read(caller, second)?;
                let sender = Sender { caller, socket: &socket, call: notification.id };
                self.send(&sender, &message, int(third).cast_signed())
            }
            libc::SYS_sendmmsg => {
                let count = u64::from(int(third)).min(MAX_MESSAGES);
                let sender = Sender { caller, socket: &socket, call: notification.id };
                self.send_many(&sender, second, count, int(fourth).cast_signed())
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn connect(&self, caller: &Caller, socket: &OwnedFd, bytes: &[u8]) -> Result<i64, Errno> {
        match Address::read(bytes) {
            Address::Path(path) => {
                self.connect_to_path(caller, &path, |name| notify::connect(socket, name))
            }
            address => {
                self.check_access(caller, &address)?;
                notify::connect(socket, bytes)
            }
        }
    }

    fn send_many(
        &self,
        sender: &Sender<'_>,
        at: u64,
        count: u64,
        flags: i32,
    ) -> Result<i64, Errno> {
        for number in 0..count {
            let at = at.wrapping_add(number * message::COUNTED);
            let sent = SendmsgArguments::read(sender.caller, at)
                .and_then(|message| self.send(sender, &message, flags));
            match sent {
                Ok(sent) => {
                    let length = u32::try_from(sent).unwrap_or(u32::MAX);
                    let at = at.wrapping_add(message::HEADER);
                    sender.caller.write(at, &length.to_ne_bytes())?;
                }
                // An error after the first message is reported by the next call.
                Err(error) if number == 0 => return Err(error),
                Err(_) => return Ok(number.cast_signed()),
            }
        }
        Ok(count.cast_signed())
    }

    fn send(
        &self,
        sender: &Sender<'_>,
        message: &SendmsgArguments,
        flags: i32,
    ) -> Result<i64, Errno> {
        // Only a stream may be sent in parts.
        if message.is_truncated && socket_type(sender.socket)? != SocketType::STREAM {
            return Err(Errno::MSGSIZE);
        }
        let to = |address: Option<&[u8]>| match message.passes_files() {
            true => self.pass_files(sender, message, address, flags),
            false => {
                let (control, _) = message.control(sender.caller)?;
                notify::send(sender.socket, address, &message.data, &control, flags)
            }
        };
        let Some(bytes) = message.address.as_deref() else { return to(None) };
        match Address::from_message(bytes) {
            Address::Path(path) => {
                self.connect_to_path(sender.caller, &path, |name| to(Some(name)))
            }
            address => {
                self.check_access(sender.caller, &address)?;
                to(Some(bytes))
            }
        }
    }

    /// Sends a message with files. While the socket is full, this process does not have the files:
    /// it opens them again for each attempt, and only while the call still waits. The search for
    /// processes that have a file open would otherwise miss them.
    fn pass_files(
        &self,
        sender: &Sender<'_>,
        message: &SendmsgArguments,
        address: Option<&[u8]>,
        flags: i32,
    ) -> Result<i64, Errno> {
        let is_nonblocking = flags & libc::MSG_DONTWAIT != 0
            || rustix::fs::fcntl_getfl(sender.socket)?.contains(OFlags::NONBLOCK);
        let limit = rustix::net::sockopt::socket_timeout(
            sender.socket,
            rustix::net::sockopt::Timeout::Send,
        )?;
        let start = Instant::now();
        loop {
            let sent = {
                let _locked = self.passed_files.lock();
                if !notify::is_waiting(&self.listener, sender.call) {
                    return Err(Errno::SRCH);
                }
                let (control, _files) = message.control(sender.caller)?;
                let flags = flags | libc::MSG_DONTWAIT;
                notify::send(sender.socket, address, &message.data, &control, flags)
            };
            let is_over = limit.is_some_and(|limit| start.elapsed() >= limit);
            match sent {
                Err(Errno::AGAIN) if !is_nonblocking && !is_over => {}
                // The files went with the first part.
                Ok(count) if !is_nonblocking => {
                    let rest = usize::try_from(count).ok().and_then(|at| message.data.get(at..));
                    let more = rest.filter(|rest| !rest.is_empty()).map(|rest| {
                        // After a part was sent, an error is reported by the next call.
                        notify::send(sender.socket, address, rest, &[], flags).unwrap_or(0)
                    });
                    return Ok(count + more.unwrap_or(0));
                }
                sent => return sent,
            }
            let mut writable = [PollFd::new(sender.socket, PollFlags::OUT)];
            let _ = poll(&mut writable, Some(&FULL_SOCKET_CHECK));
            // The socket itself can be writable while the queue of the receiver is full.
            let _ = poll(&mut [], Some(&FULL_QUEUE_PAUSE));
        }
    }

    /// Listens on a socket. With [`Network::Loopback`], rejects addresses that other hosts could
    /// connect to.
    fn listen(&self, socket: &OwnedFd, backlog: i32) -> Result<i64, Errno> {
        let internet = [AddressFamily::INET, AddressFamily::INET6];
        if internet.contains(&socket_domain(socket)?) {
            let local = rustix::net::getsockname(socket)?;
            let local: std::net::SocketAddr = local.try_into()?;
            if !local.ip().to_canonical().is_loopback() {
                return Err(Errno::ACCESS);
            }
        }
        notify::listen(socket, backlog)
    }

    fn check_access(&self, caller: &Caller, address: &Address) -> Result<(), Errno> {
        match address {
            // The network contains only the session.
            _ if self.has_own_view && self.network == Network::Isolated => Ok(()),
            Address::Internet { host, port, scope } => {
                let around = CallerEnvironment { network_broker: self, caller };
                address::check_access(self.network, *host, *port, *scope, &around)
            }
            Address::Kernel | Address::None => Ok(()),
            // Programs of the host also listen there, and no file permissions restrict access.
            Address::Abstract(name) => {
                let Some(machine) = &self.machine else { return Err(Errno::CONNREFUSED) };
                let found = machine.listeners_named(name)?;
                let is_own = self.session.owns_sockets(&self.proc, caller.number, found);
                if is_own { Ok(()) } else { Err(Errno::CONNREFUSED) }
            }
            Address::Path(_) | Address::Other => Err(Errno::ACCESS),
        }
    }

    /// Connects to a unix socket as seen by the command, relative to its directory.
    fn connect_to_path(
        &self,
        caller: &Caller,
        path: &[u8],
        reach: impl FnOnce(&[u8]) -> Result<i64, Errno>,
    ) -> Result<i64, Errno> {
        let path = Path::new(OsStr::from_bytes(path));
        if !self.has_own_view {
            // Hold the file open during the check, and connect through the descriptor.
            let file = caller.open_path(caller.directory(), path, true)?;
            let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
            let real = std::fs::read_link(&handle).map_err(|_| Errno::ACCESS)?;
            if !self.socket_places.iter().any(|open| real.starts_with(open)) {
                return Err(Errno::ACCESS);
            }
            return reach(&unix_address(handle.as_bytes()));
        }
        let file = caller.open_path(caller.directory(), path, true)?;
        // This thread handles only one call, so changing its directory affects nothing else.
        kernel::unshare(UnshareFlags::FS)?;
        rustix::process::fchdir(&self.proc)?;
        let name = unix_address(bound::name_of(&file).as_bytes());
        self.is_open(caller, &file, &name)?;
        reach(&name)
    }

    /// Checks whether the server of the open socket file belongs to the session or is allowed by
    /// the plan.
    fn is_open(&self, caller: &Caller, file: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        if self.own_sockets.is_none() && self.machine.is_none() {
            return Ok(());
        }
        let stat = fstat(file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
            return Ok(());
        }
        let same = |path: &PathBuf| {
            let status = rustix::fs::stat(path);
            status.is_ok_and(|status| (status.st_dev, status.st_ino) == (stat.st_dev, stat.st_ino))
        };
        if self.allowed_sockets.iter().any(same) {
            return Ok(());
        }
        if self.network == Network::Host {
            let name = bound::name_of(file);
            let seen = readlinkat(&self.proc, name, Vec::new()).map_err(|_| Errno::ACCESS)?;
            let seen = Path::new(OsStr::from_bytes(seen.as_bytes()));
            if self.socket_places.iter().any(|socket_path| seen.starts_with(socket_path)) {
                return Ok(());
            }
        }
        let identity = FileIdentity::for_file(&self.proc, file)?;
        let at = |table: &Option<SocketTable>| match table {
            Some(table) => table.listeners_at(identity),
            None => Ok(Vec::new()),
        };
        let is_owned_by_session =
            |found: Vec<u64>| self.session.owns_sockets(&self.proc, caller.number, found);
        if !at(&self.own_sockets)?.is_empty() || is_owned_by_session(at(&self.machine)?) {
            return Ok(());
        }
        // Distinguish a socket without a server from one that is not allowed.
        Err(if bound::is_stale(name) { Errno::CONNREFUSED } else { Errno::ACCESS })
    }
}

/// A call that sends messages.
struct Sender<'a> {
    caller: &'a Caller,
    socket: &'a OwnedFd,
    /// The ID of the notification.
    call: u64,
}

struct CallerEnvironment<'a> {
    network_broker: &'a NetworkBroker,
    caller: &'a Caller,
}

impl address::HostEnvironment for CallerEnvironment<'_> {
    fn is_own_address(&self, host: IpAddr, scope: u32) -> bool {
        address::is_own_address(host, scope)
    }

    fn is_name_server(&self, host: IpAddr) -> bool {
        self.network_broker.name_servers.contains(&host)
    }

    fn is_session_port(&self, port: u16) -> bool {
        self.network_broker.session.owns_port(&self.network_broker.proc, self.caller.number, port)
    }
}

fn unix_address(path: &[u8]) -> Vec<u8> {
    let family = u16::try_from(libc::AF_UNIX).unwrap_or(1);
    let mut address = family.to_ne_bytes().to_vec();
    address.extend_from_slice(path);
    address.push(0);
    address
}

/// Drops capabilities, so that calls are made with no more privileges than the command has, except
/// the one required to read its memory. `files`: whether root keeps its capabilities for files.
fn drop_capabilities(files: bool) -> Result<(), Errno> {
    let current = capabilities(None)?;
    let file_capabilities = match files {
        true => CapabilitySet::FOWNER | CapabilitySet::DAC_OVERRIDE,
        false => CapabilitySet::empty(),
    };
    let capabilities = current.permitted & (CapabilitySet::SYS_PTRACE | file_capabilities);
    let _ = rustix::thread::clear_ambient_capability_set();
    let sets = CapabilitySets {
        effective: capabilities,
        permitted: capabilities,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}
