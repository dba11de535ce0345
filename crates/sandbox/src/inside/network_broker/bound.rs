//! Finds which process serves a unix socket, from the kernel's table of bound sockets. The name
//! that a server gave its socket is not reliable: it may be relative to a directory, belong to
//! another view of files, or predate a rename.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::inside::kernel::notify;

/// Size limit of a mount list in bytes; a longer list is not read to the end.
const MAX_MOUNTS_LENGTH: u64 = 4 << 20;
/// Maximum number of bytes that the kernel returns at once.
const PIECE: usize = 64 << 10;

/// A file as identified in the table: the device of its file system, and the lower half of its
/// inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u32,
    number: u32,
}

impl FileIdentity {
    /// Returns the identity of an open file. The device comes from the mount, because `stat`
    /// reports another one for some file systems. `proc` is a `/proc` that shows this process.
    pub(super) fn for_file(proc: &OwnedFd, file: &OwnedFd) -> Result<Self, Errno> {
        let mask = StatxFlags::INO | StatxFlags::MNT_ID;
        let data = statx(file, "", AtFlags::EMPTY_PATH, mask)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = File::from(openat(proc, "thread-self/mountinfo", flags, Mode::empty())?);
        let mut text = String::new();
        mounts.take(MAX_MOUNTS_LENGTH).read_to_string(&mut text).map_err(|_| Errno::ACCESS)?;
        let device = text.lines().find_map(|line| device(line, data.stx_mnt_id));
        let number = (data.stx_ino & 0xffff_ffff) as u32;
        Ok(Self { device: device.ok_or(Errno::ACCESS)?, number })
    }
}

/// Parses a line `ID PARENT MAJOR:MINOR …` and returns the device in the internal format of the
/// kernel.
fn device(line: &str, mount: u64) -> Option<u32> {
    let mut words = line.split(' ');
    let number: u64 = words.next()?.parse().ok()?;
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (number == mount).then_some(major << 20 | minor)
}

/// The unix sockets of a network namespace.
pub(super) struct SocketTable(Mutex<OwnedFd>);

impl SocketTable {
    /// Opens the table of the network namespace of this thread. Returns `None` if the kernel does
    /// not provide it.
    pub(super) fn open() -> Option<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        );
        let table = Self(Mutex::new(socket.ok()?));
        table.listeners_at(FileIdentity { device: 0, number: 0 }).is_ok().then_some(table)
    }

    /// Returns the inodes of the sockets that listen at the file: at most one.
    pub(super) fn listeners_at(&self, identity: FileIdentity) -> Result<Vec<u64>, Errno> {
        self.listeners(|attribute, value| {
            attribute == OF_FILE
                && u32_at(value, 0) == Some(identity.number)
                && u32_at(value, 4) == Some(identity.device)
        })
    }

    /// Returns the inodes of the sockets that listen at the abstract name, which begins with a NUL
    /// byte.
    pub(super) fn listeners_named(&self, name: &[u8]) -> Result<Vec<u64>, Errno> {
        self.listeners(|attribute, value| attribute == NAME && value == name)
    }

    /// Returns the inodes of the listening sockets with an attribute for which `is_it` returns
    /// true.
    fn listeners(&self, is_it: impl Fn(u16, &[u8]) -> bool) -> Result<Vec<u64>, Errno> {
        const DONE: u16 = 3;
        const ERROR: u16 = 2;
        // Only one listing at a time.
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &socket_query(), SendFlags::empty())?;
        let mut piece = vec![0; PIECE];
        let mut found = Vec::new();
        loop {
            let (length, _) = recv(&*socket, piece.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = piece.get(..length).unwrap_or_default();
            while let Some((kind, body, behind)) = message(rest) {
                match kind {
                    DONE => return Ok(found),
                    ERROR => return Err(Errno::NOTSUP),
                    _ => found.extend(listening_inode(body, &is_it)),
                }
                rest = behind;
            }
            if length == 0 {
                return Err(Errno::PROTO);
            }
        }
    }
}

/// Returns a request for all sockets, each with its name and the file that it is bound to.
fn socket_query() -> Vec<u8> {
    const LENGTH: u32 = 40;
    const BY_FAMILY: u16 = 20;
    /// NLM_F_REQUEST and NLM_F_DUMP.
    const FLAGS: u16 = 0x1 | 0x300;
    const ALL_STATES: u32 = u32::MAX;
    const SHOW_NAME_AND_FILE: u32 = 0x1 | 0x2;
    let mut bytes = LENGTH.to_ne_bytes().to_vec();
    bytes.extend([BY_FAMILY.to_ne_bytes(), FLAGS.to_ne_bytes()].concat());
    // Sequence number and port ID.
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(libc::AF_UNIX).unwrap_or(1), 0, 0, 0]);
    for word in [ALL_STATES, 0, SHOW_NAME_AND_FILE, u32::MAX, u32::MAX] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// Returns the type and body of the first message, and the remaining bytes.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    const HEAD: usize = 16;
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let body = bytes.get(HEAD..length)?;
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16_at(bytes, 4)?, body, behind))
}

/// Attributes of a socket in the table: its name, and the file that it is bound to.
const NAME: u16 = 0;
const OF_FILE: u16 = 1;

/// Returns the inode of the socket if it has the attribute and others can connect or send to it. An
/// accepted connection is also listed with the name and file of its server, in the namespace of the
/// client, but does not count.
fn listening_inode(entry: &[u8], is_it: impl Fn(u16, &[u8]) -> bool) -> Option<u64> {
    const HEAD: usize = 16;
    const PACKETS: u8 = 2;
    const TCP_LISTEN: u8 = 10;
    const TCP_CLOSE: u8 = 7;
    let &[_, kind, state, _] = entry.first_chunk::<4>()?;
    if kind != PACKETS && ![TCP_LISTEN, TCP_CLOSE].contains(&state) {
        return None;
    }
    let mut rest = entry.get(HEAD..)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        if is_it(kind, rest.get(4..length)?) {
            return Some(u64::from(u32_at(entry, 4)?));
        }
        rest = rest.get(length.next_multiple_of(4).max(4)..)?;
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_ne_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// Whether no process serves the socket at address `name`. The check is not noticeable: a stream
/// server rejects a datagram socket, and connecting sends nothing to a datagram server.
pub(super) fn is_stale(name: &[u8]) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let tried = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
        .and_then(|socket| notify::connect(socket.as_fd(), name));
    tried == Err(Errno::CONNREFUSED)
}

/// Returns the path of a descriptor of this process, relative to the directory `proc`.
pub(super) fn name_of(file: &OwnedFd) -> String {
    format!("self/fd/{}", file.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
    use std::path::Path;

    use super::*;

    fn file_identity(path: &Path) -> FileIdentity {
        let open = |path: &Path| openat(rustix::fs::CWD, path, OFlags::PATH, Mode::empty());
        FileIdentity::for_file(&open(Path::new("/proc")).unwrap(), &open(path).unwrap()).unwrap()
    }

    #[test]
    fn listening_sockets_are_found_and_connections_are_not() {
        let Some(table) = SocketTable::open() else {
            println!("skipped: this kernel tells of no unix sockets");
            return;
        };
        let directory = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| directory.path().join(name));
        let server = UnixListener::bind(&one).unwrap();
        let _packets = UnixDatagram::bind(&three).unwrap();
        std::fs::rename(&one, &two).unwrap();
        assert_eq!(table.listeners_at(file_identity(&two)).unwrap().len(), 1);
        assert_eq!(table.listeners_at(file_identity(&three)).unwrap().len(), 1);
        let _client = UnixStream::connect(&two).unwrap();
        let _accepted = server.accept().unwrap();
        assert_eq!(table.listeners_at(file_identity(&two)).unwrap().len(), 1);
        drop(server);
        // The accepted connection is still listed with this file.
        assert!(table.listeners_at(file_identity(&two)).unwrap().is_empty());
        let name = format!("parallax-{}", std::process::id());
        let address = <SocketAddr as SocketAddrExt>::from_abstract_name(&name).unwrap();
        let named = UnixListener::bind_addr(&address).unwrap();
        let name = format!("\0{name}");
        assert_eq!(table.listeners_named(name.as_bytes()).unwrap().len(), 1);
        drop(named);
        assert!(table.listeners_named(name.as_bytes()).unwrap().is_empty());
        let address = |path: &Path| {
            let path = path.to_str().unwrap().as_bytes();
            [&1u16.to_ne_bytes()[..], path, &[0]].concat()
        };
        assert!(is_stale(&address(&two)));
        assert!(!is_stale(&address(&three)));
    }

    #[test]
    fn devices_are_parsed_from_the_mount_table() {
        let line = "36 35 98:3 / /home rw,noatime master:1 - ext4 /dev/sda rw";
        assert_eq!(device(line, 36), Some(98 << 20 | 3));
        assert_eq!(device(line, 35), None);
        assert_eq!(device("", 36), None);
    }

    #[test]
    fn truncated_responses_yield_no_entries() {
        let whole = socket_query();
        for length in 0..whole.len() {
            assert!(message(whole.get(..length).unwrap()).is_none(), "{length}");
            assert_eq!(listening_inode(whole.get(..length).unwrap(), |_, _| true), None);
        }
    }
}
