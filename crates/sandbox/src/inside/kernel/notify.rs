//! Seccomp notifications: system calls that a filter passes to a supervisor instead of rejecting
//! them, and the calls that the supervisor makes for the command.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::last_error;

/// A system call that waits for a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyscallNotification {
    pub(crate) id: u64,
    /// The calling thread, in the PID namespace of this process.
    pub(crate) thread: i32,
    pub(crate) call: libc::c_long,
    pub(crate) arguments: [u64; 6],
}

/// A filter instruction: code, jumps if true and if false, operand.
pub(crate) type Instruction = (u16, u8, u8, u32);

/// Installs a filter on this process and returns the file descriptor for its notifications. After a
/// notification is received, only a fatal signal interrupts the call, so that no call is made
/// twice.
pub(crate) fn install_filter(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let mut program: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let length = u16::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let whole = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program and its description outlive the call, which copies them.
    let file = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const whole)
    };
    match i32::try_from(file) {
        // SAFETY: the kernel has just opened this file descriptor for this call.
        Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(last_error()),
    }
}

/// Receives the next waiting call. Fails with `NOENT` if the caller no longer exists.
pub(crate) fn receive(listener: impl AsFd) -> Result<SyscallNotification, Errno> {
    // SAFETY: plain data for which all zeros is a valid value, which the kernel requires.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure of this size, which this function owns.
    let done = unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV as _,
            &raw mut notice,
        )
    };
    if done != 0 {
        return Err(last_error());
    }
    Ok(SyscallNotification {
        id: notice.id,
        thread: notice.pid.cast_signed(),
        call: libc::c_long::from(notice.data.nr),
        arguments: notice.data.args,
    })
}

/// Whether the call still waits, so that its thread has not died and its ID was not reused.
pub(crate) fn is_waiting(listener: impl AsFd, id: u64) -> bool {
    // SAFETY: the kernel reads one number, which outlives the call.
    let done = unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _,
            &raw const id,
        )
    };
    done == 0
}

/// The response to a waiting call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyReply {
    /// The call is done and returns this value.
    Value(i64),
    /// The kernel executes the call. Valid only if just numbers were checked: the memory that a
    /// pointer refers to can change before the kernel reads it.
    Proceed,
}

/// Completes the call with a value or an error, or lets the kernel execute it.
pub(crate) fn answer(listener: impl AsFd, id: u64, result: Result<NotifyReply, Errno>) {
    let (val, error, flags) = match result {
        Ok(NotifyReply::Value(value)) => (value, 0, 0),
        Ok(NotifyReply::Proceed) => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        Err(error) => (0, -error.raw_os_error(), 0),
    };
    let response = libc::seccomp_notif_resp { id, val, error, flags };
    // SAFETY: the kernel reads one structure, which outlives the call. An error means that the
    // caller is dead.
    unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND as _,
            &raw const response,
        )
    };
}

/// Calls `connect` with an address in raw form.
pub(crate) fn connect(socket: impl AsFd, address: &[u8]) -> Result<i64, Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads `length` bytes, which outlive the call.
    let done =
        unsafe { libc::connect(socket.as_fd().as_raw_fd(), address.as_ptr().cast(), length) };
    if done == 0 { Ok(0) } else { Err(last_error()) }
}

/// Calls `sendmsg` with one buffer. `control` is in kernel format and contains file descriptors of
/// this process.
pub(crate) fn send(
    socket: impl AsFd,
    address: Option<&[u8]>,
    data: &[u8],
    control: &[u8],
    flags: i32,
) -> Result<i64, Errno> {
    let piece = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: plain data for which all zeros is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some(address) = address {
        message.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_namelen = address.len().try_into().map_err(|_| Errno::INVAL)?;
    }
    message.msg_iov = (&raw const piece).cast_mut();
    message.msg_iovlen = 1;
    if !control.is_empty() {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len() as _;
    }
    // SAFETY: `sendmsg` only reads, and everything it reads outlives the call. The zero-copy flag
    // is removed because such a send would read the buffer after the call.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_fd().as_raw_fd(),
            &raw const message,
            (flags & !libc::MSG_ZEROCOPY) | libc::MSG_NOSIGNAL,
        )
    };
    i64::try_from(sent).ok().filter(|sent| *sent >= 0).ok_or_else(last_error)
}

/// Calls `listen`.
pub(crate) fn listen(socket: impl AsFd, backlog: i32) -> Result<i64, Errno> {
    // SAFETY: no memory is involved.
    let done = unsafe { libc::listen(socket.as_fd().as_raw_fd(), backlog) };
    if done == 0 { Ok(0) } else { Err(last_error()) }
}
