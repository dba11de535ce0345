//! Paths of Unix sockets that are too long for an address.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of bytes that fit into the address of a socket on every system, including the NUL.
const MAX_ADDRESS: usize = 104;

/// A short path that points to a socket, to bind or to connect to it. Addresses of sockets are
/// limited to about 100 bytes, but paths below the home directory can be longer.
///
/// It is valid until it is dropped; connections and listeners outlive it.
#[derive(Debug)]
pub struct ShortSocketPath {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    _directory: Option<std::os::fd::OwnedFd>,
    _link: Option<ShortLink>,
}

impl ShortSocketPath {
    /// Returns a path that points to `socket`, whose directory must exist.
    ///
    /// # Errors
    /// Returns an error if the path has no name, or a long one has no directory that can be opened.
    pub fn new(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() < MAX_ADDRESS {
            return Ok(Self {
                path: socket.to_owned(),
                #[cfg(target_os = "linux")]
                _directory: None,
                _link: None,
            });
        }
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let directory = socket.parent().ok_or_else(invalid)?;
        let name = socket.file_name().ok_or_else(invalid)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags};
            use std::os::fd::AsRawFd as _;

            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(directory, flags, Mode::empty())?;
            let descriptor_path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            if descriptor_path.exists() {
                let path = descriptor_path.join(name);
                return Ok(Self { path, _directory: Some(opened), _link: None });
            }
        }
        let link = ShortLink::new(directory)?;
        Ok(Self {
            path: link.0.join(name),
            #[cfg(target_os = "linux")]
            _directory: None,
            _link: Some(link),
        })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A symbolic link to a directory, removed when dropped. For systems whose process directory does
/// not lead to open directories.
#[derive(Debug)]
struct ShortLink(PathBuf);

impl ShortLink {
    /// Number of names to try.
    const ATTEMPTS: u32 = 100;

    fn new(directory: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let target = std::path::absolute(directory)?;
        let mut last_error = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..Self::ATTEMPTS {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let link = PathBuf::from(format!("/tmp/parallax-{}-{number}", std::process::id()));
            match std::os::unix::fs::symlink(&target, &link) {
                Ok(()) => return Ok(Self(link)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last_error = error,
                Err(error) => return Err(error),
            }
        }
        Err(last_error)
    }
}

impl Drop for ShortLink {
    fn drop(&mut self) {
        // A remaining link does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn socket_below_a_long_directory_is_bound_and_connected() {
        let folder = tempfile::tempdir().expect("directory");
        for length in [1, 60, 200] {
            let directory = folder.path().join("d".repeat(length));
            std::fs::create_dir(&directory).expect("directory");
            let socket = directory.join("socket");
            let listener = {
                let short = ShortSocketPath::new(&socket).expect("a path");
                UnixListener::bind(short.path()).expect("bound")
            };
            assert!(socket.exists(), "{length}");
            let short = ShortSocketPath::new(&socket).expect("a path");
            UnixStream::connect(short.path()).expect("connected");
            drop(listener);
        }
        let missing = ShortSocketPath::new(&folder.path().join("e".repeat(200)).join("socket"));
        assert_eq!(missing.expect_err("no directory").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn link_points_to_the_directory_until_it_is_dropped() {
        let directory = tempfile::tempdir().expect("directory");
        let link = ShortLink::new(directory.path()).expect("a link");
        let path = link.0.clone();
        let listener = UnixListener::bind(path.join("socket")).expect("bound");
        assert!(directory.path().join("socket").exists() && path.as_os_str().len() < 40);
        drop((listener, link));
        assert!(std::fs::symlink_metadata(path).is_err());
    }
}
