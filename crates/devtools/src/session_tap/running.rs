//! Finds the running sessions that a viewer can attach to, by the directories of their sockets.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parallax_protocol::ids::SessionId;
use parallax_store::SessionDirs;

use super::socket;

/// Maximum length of a path in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of directories read.
const MAX_SESSIONS: usize = 1024;

/// A running session, possibly without a journal yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningSession {
    /// The id.
    pub id: SessionId,
    /// The working directory.
    pub project: PathBuf,
    /// When it started.
    pub started: SystemTime,
}

/// Returns the running sessions of all projects, newest first. Blocking.
pub fn running_sessions(dirs: &SessionDirs) -> Vec<RunningSession> {
    let entries = fs::read_dir(dirs.parallax.join("live")).into_iter().flatten().flatten();
    let mut sessions: Vec<RunningSession> =
        entries.take(MAX_SESSIONS).filter_map(|entry| running_session(&entry.path())).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.started));
    sessions
}

fn running_session(directory: &Path) -> Option<RunningSession> {
    let name = directory.file_name()?.to_str().filter(|name| SessionId::is_valid(name))?;
    let address = socket::address(directory).ok()?;
    // A killed process left its socket.
    std::os::unix::net::UnixStream::connect(address.path()).ok()?;
    let file = fs::File::open(directory.join(socket::PROJECT)).ok()?;
    let started = file.metadata().ok()?.modified().ok()?;
    let mut project = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut project).ok()?;
    let project = PathBuf::from(std::ffi::OsString::from_vec(project));
    Some(RunningSession { id: SessionId::from(name), project, started })
}
