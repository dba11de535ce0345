//! System calls that a filter hands to a supervisor instead of refusing them,
//! and the two that the supervisor makes in place of the command.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::last_error;

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) id: u64,
    /// The calling thread, as this process numbers it.
    pub(crate) thread: i32,
    pub(crate) call: libc::c_long,
    pub(crate) arguments: [u64; 6],
}

/// One instruction of a filter: code, jumps if true and if false, operand.
pub(crate) type Instruction = (u16, u8, u8, u32);

/// Puts a filter on this process and gives the file from which its notices
/// are read. A call that was read is broken off by nothing but death, so that
/// none is made twice.
pub(crate) fn put_filter(program: &[Instruction]) -> Result<OwnedFd, Errno> {
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
        // SAFETY: the kernel has just opened this file for us alone.
        Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(last_error()),
    }
}

/// The next call that waits. `NOENT`: the one that was there is gone.
pub(crate) fn receive(listener: impl AsFd) -> Result<Notice, Errno> {
    // SAFETY: plain data for which all zeros is a value, as the kernel wants it.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure of this size, which is ours.
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
    Ok(Notice {
        id: notice.id,
        thread: notice.pid.cast_signed(),
        call: libc::c_long::from(notice.data.nr),
        arguments: notice.data.args,
    })
}

/// Whether the call still waits: its thread has not died, so that its number
/// is nobody else's.
pub(crate) fn still_waits(listener: impl AsFd, id: u64) -> bool {
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

/// What a call that waits gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyReply {
    /// It is done; this is its value.
    Value(i64),
    /// The kernel may make it. Only for calls whose numbers were checked: what a pointer
    /// leads to can be exchanged before the kernel reads it.
    Proceed,
}

/// Ends the call for its thread, with a value or an error, or lets it through.
pub(crate) fn answer(listener: impl AsFd, id: u64, result: Result<NotifyReply, Errno>) {
    let (val, error, flags) = match result {
        Ok(NotifyReply::Value(value)) => (value, 0, 0),
        Ok(NotifyReply::Proceed) => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        Err(error) => (0, -error.raw_os_error(), 0),
    };
    let response = libc::seccomp_notif_resp { id, val, error, flags };
    // SAFETY: the kernel reads one structure, which outlives the call. An
    // error says that the caller is dead.
    unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND as _,
            &raw const response,
        )
    };
}

/// `connect`, with an address as it came.
pub(crate) fn connect(socket: impl AsFd, address: &[u8]) -> Result<i64, Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel reads `length` bytes, which outlive the call.
    let done =
        unsafe { libc::connect(socket.as_fd().as_raw_fd(), address.as_ptr().cast(), length) };
    if done == 0 { Ok(0) } else { Err(last_error()) }
}

/// `sendmsg` with one piece of data; `control` is as the kernel wants it, with
/// files of this process in it.
pub(crate) fn send(
    socket: impl AsFd,
    address: Option<&[u8]>,
    data: &[u8],
    control: &[u8],
    flags: i32,
) -> Result<i64, Errno> {
    let piece = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: plain data for which all zeros is a value.
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
    // SAFETY: `sendmsg` only reads, and all it reads outlives the call. Copies
    // in flight would outlive it, so the flag that asks for none is taken out.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_fd().as_raw_fd(),
            &raw const message,
            (flags & !libc::MSG_ZEROCOPY) | libc::MSG_NOSIGNAL,
        )
    };
    i64::try_from(sent).ok().filter(|sent| *sent >= 0).ok_or_else(last_error)
}

/// `listen`.
pub(crate) fn listen(socket: impl AsFd, backlog: i32) -> Result<i64, Errno> {
    // SAFETY: no memory is involved.
    let done = unsafe { libc::listen(socket.as_fd().as_raw_fd(), backlog) };
    if done == 0 { Ok(0) } else { Err(last_error()) }
}
