//! Minimal wrappers of system calls for which there is no safe function. All `unsafe` code of this
//! crate is here and in `notify`. Processes that fork were started by this crate and have a single
//! thread.

#![expect(unsafe_code, reason = "fork, clone, signals and two ioctls have no safe call")]

pub(crate) mod notify;

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// One side of a fork.
pub(crate) enum ForkResult {
    Child,
    Parent(Pid),
}

/// Forks this process, with new namespaces if flags are given.
pub(crate) fn fork(namespaces: UnshareFlags) -> Result<ForkResult, Errno> {
    // `CLONE_NEW*` and SIGCHLD fit in 32 bits, so the widening loses nothing.
    let flags = libc::c_long::from(namespaces.bits() as i32) | libc::c_long::from(libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack, `clone` is `fork`: the child
    // has its own copy of the memory. The process has a single thread, so no
    // lock can be left held in the copy; or the child only makes system calls.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match pid {
        0 => Ok(ForkResult::Child),
        pid => {
            i32::try_from(pid).ok().and_then(process).map(ForkResult::Parent).ok_or_else(last_error)
        }
    }
}

/// Returns the process ID; zero and negative numbers, which mean process groups, yield `None`.
pub(crate) fn process(number: i32) -> Option<Pid> {
    if number > 0 { Pid::from_raw(number) } else { None }
}

/// Exits immediately, without running destructors and exit handlers, which in a forked child would
/// be those of its parent.
pub(crate) fn exit_immediately(code: u8) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Gives this thread its own table of descriptors, which contains only these (sorted). The
/// descriptors must be owned by values that only this thread uses.
pub(crate) fn separate_descriptors(kept: &[i32]) {
    // SAFETY: the other threads keep their table, and this one uses no descriptors but these.
    unsafe {
        if libc::unshare(libc::CLONE_FILES) != 0 {
            return;
        }
        let mut first: u32 = 0;
        for number in kept.iter().filter_map(|number| u32::try_from(*number).ok()) {
            if number > first {
                libc::syscall(libc::SYS_close_range, first, number - 1, 0);
            }
            first = number.saturating_add(1);
        }
        libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
    }
}

/// Moves this process to new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: `unshare` is hazardous with CLONE_FILES and several threads; that flag is never
    // passed here.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// What two tasks can share.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SharedResource {
    /// The memory.
    Memory = 1,
    /// The table of descriptors.
    Descriptors = 2,
    /// The working directory and the root.
    Directories = 3,
}

/// Whether two tasks share a resource. `false` if that is unknown.
pub(crate) fn share(first: i32, second: i32, what: SharedResource) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, first, second, what as i32, 0, 0) == 0 }
}

/// Stops a process by a signal to one of its threads.
pub(crate) fn stop_thread(process: i32, thread: i32) {
    // SAFETY: no memory is involved. An error means that the thread has ended.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSTOP) };
}

/// Ignores a signal, or restores its default action.
pub(crate) fn set_signal(signal: i32, ignored: bool) {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither action is a handler, so no code of this program runs in a signal.
    unsafe { libc::signal(signal, action) };
}

/// Signals that are meant for the command: it handles them, and the supervisor ends as the command
/// does.
const FOR_THE_COMMAND: [i32; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Blocks the signals for the command until this process has forked and ignores them. The command
/// starts with no signal blocked and receives its own copy.
pub(crate) fn hold_signals() {
    // SAFETY: the set is a local that `sigemptyset` fills before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in FOR_THE_COMMAND {
            libc::sigaddset(&mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Ignores the signals for the command.
pub(crate) fn ignore_signals() {
    for signal in FOR_THE_COMMAND {
        set_signal(signal, true);
    }
}

/// Blocks the signals for the command, and those about its state, and returns a descriptor from
/// which [`next_signal`] reads them.
pub(crate) fn signal_descriptor() -> Result<OwnedFd, Errno> {
    // SAFETY: the set is a local that `sigemptyset` fills before it is used, and the descriptor is
    // new and not owned by anything else.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in FOR_THE_COMMAND.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        match libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
            -1 => Err(last_error()),
            number => Ok(OwnedFd::from_raw_fd(number)),
        }
    }
}

/// Returns the next signal that is pending for a descriptor of [`signal_descriptor`].
pub(crate) fn next_signal(signals: &OwnedFd) -> Option<i32> {
    // The number of the signal is the first field.
    let mut record = [0; size_of::<libc::signalfd_siginfo>()];
    rustix::io::read(signals, &mut record).ok()?;
    let number = record.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))?;
    (number > 0).then_some(number)
}

/// Whether standard input is the controlling terminal of this process, and its process group is in
/// the foreground.
pub(crate) fn is_in_foreground() -> bool {
    // SAFETY: neither call has a precondition. Both numbers are 0 if another process namespace
    // contains the group.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}

/// Puts a process group of this session into the foreground of the terminal that is standard input.
/// Signals for the command must be blocked or ignored.
pub(crate) fn set_foreground_group(leader: Pid) -> bool {
    // SAFETY: the call has no precondition.
    unsafe { libc::tcsetpgrp(libc::STDIN_FILENO, leader.as_raw_nonzero().get()) == 0 }
}

/// No longer ignores the signals for the command, which stay blocked.
pub(crate) fn reset_command_signals() {
    for signal in FOR_THE_COMMAND {
        set_signal(signal, false);
    }
}

/// Unblocks all signals.
pub(crate) fn unblock_signals() {
    // SAFETY: the set is a local that `sigemptyset` fills before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

/// Closes all file descriptors from `first` upward, in a process that opens no further files.
pub(crate) fn close_all_from(first: u32) {
    // SAFETY: the only caller never returns and does not use these descriptors again.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

/// Returns a file descriptor that this process was started with, by its number, and marks it as
/// close-on-exec.
pub(crate) fn inherited_descriptor(number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: only a flag changes; a number that is not an open descriptor is an error.
    let open = number > 2 && unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    if !open {
        return Err(Errno::BADF);
    }
    // SAFETY: the descriptor is open and was not opened by this process, which has just started and
    // received its number once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Marks all file descriptors from `first` upward as close-on-exec.
pub(crate) fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: nothing is closed now; only a flag of open descriptors changes.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Restrictions for a mount and all mounts below it.
#[derive(Default, Clone, Copy)]
pub(crate) struct MountRestrictions {
    pub(crate) read_only: bool,
    pub(crate) no_devices: bool,
    pub(crate) no_exec: bool,
    pub(crate) private: bool,
    /// Whether mounts below it are excluded.
    pub(crate) is_single_mount: bool,
}

/// Adds restrictions to the mount at `mount`; set-user-ID bits are always ignored.
pub(crate) fn restrict_mount(mount: impl AsFd, restrict: MountRestrictions) -> Result<(), Errno> {
    let mut set = libc::MOUNT_ATTR_NOSUID;
    for (is_set, bit) in [
        (restrict.read_only, libc::MOUNT_ATTR_RDONLY),
        (restrict.no_devices, libc::MOUNT_ATTR_NODEV),
        (restrict.no_exec, libc::MOUNT_ATTR_NOEXEC),
    ] {
        if is_set {
            set |= bit;
        }
    }
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: if restrict.private { libc::MS_PRIVATE } else { 0 },
        userns_fd: 0,
    };
    // SAFETY: the structure and the empty path outlive the call, and the size is that of the
    // structure.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | if restrict.is_single_mount { 0 } else { libc::AT_RECURSIVE },
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Makes this thread run soon after it wakes even if all processors are busy, by requesting short
/// time slices. Kernels before 6.12 ignore this.
pub(crate) fn request_low_latency() {
    const MIN_SLICE_LENGTH: u64 = 100_000;
    #[repr(C)]
    #[derive(Default)]
    struct SchedulerAttributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
        utilization: [u32; 2],
    }
    let mut attributes =
        SchedulerAttributes { runtime: MIN_SLICE_LENGTH, ..SchedulerAttributes::default() };
    attributes.size = u32::try_from(size_of::<SchedulerAttributes>()).unwrap_or(0);
    // SAFETY: the structure outlives the call and contains its own size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Sends a signal to every process in the process namespace of this process except its first process
/// and this one. Does nothing if the parent of this process is in that namespace, too.
pub(crate) fn signal_all(signal: i32) {
    // SAFETY: neither call has a precondition. A parent outside the namespace has no number in it.
    unsafe {
        if libc::getppid() == 0 {
            libc::kill(-1, signal);
        }
    }
}

/// Enables the loopback interface of the current network namespace.
pub(crate) fn enable_loopback(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: `ifreq` is plain data for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    // The constants are small; `ifr_flags` is a short.
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    let done =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Returns the Landlock version of this kernel if Landlock is available and enabled.
pub(crate) fn landlock_version() -> Option<i64> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag, the call takes no structure and only returns the version.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    (version > 0).then_some(version)
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
