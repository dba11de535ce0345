//! A message that a command wants to send, copied from its memory.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::caller::Caller;

/// Maximum length in bytes of one send; a longer message is sent partially, as if kernel buffers
/// were full. It limits the memory that a command can make the broker use.
const MAX_LENGTH: usize = 256 << 10;
const MAX_PIECES: usize = 1024;
const MAX_ADDRESS_LENGTH: usize = 128;
const MAX_CONTROL_LENGTH: usize = 16 << 10;

/// The arguments of `sendmsg`, without references to the memory of the command.
pub(super) struct SendmsgArguments {
    pub(super) address: Option<Vec<u8>>,
    pub(super) data: Vec<u8>,
    /// Whether `data` is only the beginning of the message.
    pub(super) is_truncated: bool,
    control: Vec<u8>,
}

/// The size of `struct msghdr`, alone or within `struct mmsghdr`.
pub(super) const HEADER: u64 = 56;
pub(super) const COUNTED: u64 = 64;

impl SendmsgArguments {
    /// Reads the message described by the `struct msghdr` at `at`.
    pub(super) fn read(caller: &Caller, at: u64) -> Result<Self, Errno> {
        let words = native_words(&caller.read(at, HEADER as usize)?);
        let [name, name_length, pieces, count, control, control_length, _] = words[..] else {
            return Err(Errno::FAULT);
        };
        // The length of the name is an `int` followed by padding.
        let address = read_address(caller, name, name_length & 0xffff_ffff)?;
        let count = usize::try_from(count).ok().filter(|count| *count <= MAX_PIECES);
        let count = count.ok_or(Errno::MSGSIZE)?;
        let (mut data, mut is_truncated) = (Vec::new(), false);
        for piece in self::native_words(&caller.read(pieces, count * 16)?).chunks_exact(2) {
            let &[base, length] = piece else { continue };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            is_truncated |= length > MAX_LENGTH - data.len();
            data.extend(caller.read(base, length.min(MAX_LENGTH - data.len()))?);
        }
        let control = match usize::try_from(control_length) {
            _ if control == 0 => Vec::new(),
            Ok(length) if length <= MAX_CONTROL_LENGTH => caller.read(control, length)?,
            _ => return Err(Errno::NOBUFS),
        };
        Ok(Self { address, data, is_truncated, control })
    }

    /// Reads the message of a `sendto` call.
    pub(super) fn from_sendto(
        caller: &Caller,
        data: u64,
        length: u64,
        address: u64,
        address_length: u64,
    ) -> Result<Self, Errno> {
        let address = read_address(caller, address, address_length & 0xffff_ffff)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let data = caller.read(data, length.min(MAX_LENGTH))?;
        Ok(Self { address, data, is_truncated: length > MAX_LENGTH, control: Vec::new() })
    }

    /// Whether the control data may contain file descriptors.
    pub(super) fn passes_files(&self) -> bool {
        !self.control.is_empty()
    }

    /// Returns the control data for the broker's own call. File descriptors to pass are opened in
    /// this process and must be kept open as the second value. Control data that would change the
    /// destination of a packet is removed.
    pub(super) fn control(&self, caller: &Caller) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
        const HEAD: usize = 16;
        let (mut ours, mut files) = (Vec::new(), Vec::new());
        let mut rest = self.control.as_slice();
        while let Some((head, _)) = rest.split_first_chunk::<HEAD>() {
            let Some(&length) = native_words(head).first() else { break };
            let length = usize::try_from(length).unwrap_or(0);
            let Some(sent) = rest.get(HEAD..length) else { return Err(Errno::INVAL) };
            let kind = head.get(8..).map(numbers).unwrap_or_default();
            let &[level, kind] = kind.as_slice() else { return Err(Errno::INVAL) };
            let body = match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let mut body = Vec::new();
                    for number in numbers(sent) {
                        let file = caller.file(number)?;
                        body.extend(file.as_raw_fd().to_ne_bytes());
                        files.push(file);
                    }
                    Some(body)
                }
                (libc::IPPROTO_IP, libc::IP_TOS | libc::IP_TTL | libc::IP_PKTINFO)
                | (
                    libc::IPPROTO_IPV6,
                    libc::IPV6_TCLASS | libc::IPV6_HOPLIMIT | libc::IPV6_PKTINFO,
                )
                | (libc::SOL_UDP, libc::UDP_SEGMENT) => Some(sent.to_vec()),
                _ => None,
            };
            if let Some(body) = body {
                ours.extend(head);
                ours.extend(&body);
                ours.resize(ours.len().next_multiple_of(8), 0);
            }
            rest = rest.get(length.next_multiple_of(8)..).unwrap_or(&[]);
        }
        Ok((ours, files))
    }
}

/// Reads an address from the memory of the command; empty if the pointer is null.
pub(super) fn read_address(
    caller: &Caller,
    at: u64,
    length: u64,
) -> Result<Option<Vec<u8>>, Errno> {
    match usize::try_from(length) {
        _ if at == 0 => Ok(None),
        Ok(0) => Ok(None),
        Ok(length) if length <= MAX_ADDRESS_LENGTH => caller.read(at, length).map(Some),
        _ => Err(Errno::INVAL),
    }
}

fn native_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|number| i32::from_ne_bytes(*number)).collect()
}
