//! The socket that viewers connect to, in a directory of the session that only the user can open.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_files::ShortSocketPath;
use parallax_protocol::ids::SessionId;
use parallax_store::SessionDirs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{SessionTap, messages};

/// What a viewer sends first.
pub(super) const ATTACH: &[u8] = b"attach\n";
/// The name of the socket in the session's directory.
const NAME: &str = "tap";
/// The file next to it that names the project.
pub(super) const PROJECT: &str = "project";
/// How long after its start a session creates the socket: its first request does not wait for it.
const BIND_DELAY: Duration = Duration::from_millis(100);
/// How long a viewer may take to attach, or to read the rest at the end.
const VIEWER_LIMIT: Duration = Duration::from_millis(200);
/// The pause after a connection that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of viewers.
const MAX_VIEWERS: usize = 4;

/// Returns the directory of a session's socket.
pub(super) fn directory(dirs: &SessionDirs, id: &SessionId) -> Option<PathBuf> {
    SessionId::is_valid(id.as_str()).then(|| dirs.parallax.join("live").join(id.as_str()))
}

/// Returns the path of the socket in a directory.
pub(super) fn address(directory: &Path) -> io::Result<ShortSocketPath> {
    ShortSocketPath::new(&directory.join(NAME))
}

/// The socket of a session; it is removed at the end.
#[derive(Debug)]
pub struct TapSocket {
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl TapSocket {
    /// Creates the socket of a session in `project` shortly after. Must be called on a tokio
    /// runtime.
    pub fn start(tap: Arc<SessionTap>, dirs: &SessionDirs, project: &Path, id: &SessionId) -> Self {
        let stop = CancellationToken::new();
        let start = |directory| tokio::spawn(run(tap, directory, project.into(), stop.clone()));
        let task = directory(dirs, id).map(start);
        Self { stop, task }
    }

    /// Lets viewers read the rest for a moment, and removes the socket.
    pub async fn close(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // It ends by itself within its limits.
            let _ = task.await;
        }
    }
}

impl Drop for TapSocket {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(tap: Arc<SessionTap>, directory: PathBuf, project: PathBuf, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => return,
        () = tokio::time::sleep(BIND_DELAY) => {}
    }
    // A few system calls: no thread is started for them.
    let listener = match bind(&directory, &project) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::debug!(%error, directory = %directory.display(), "failed to create the socket for viewers");
            return;
        }
    };
    let mut viewers = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = viewers.join_next() => {}
            accepted = listener.accept(), if viewers.len() < MAX_VIEWERS => match accepted {
                Ok((stream, _)) => {
                    viewers.spawn(serve(Arc::clone(&tap), stream, stop.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "a viewer could not connect");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    remove(&directory);
    while viewers.join_next().await.is_some() {}
}

fn bind(directory: &Path, project: &Path) -> io::Result<UnixListener> {
    if let Some(all) = directory.parent() {
        remove_stale(all, directory);
    }
    parallax_store::create_private_dir(directory)?;
    // An older process may have created it with other permissions.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    fs::write(directory.join(PROJECT), project.as_os_str().as_bytes())?;
    let address = address(directory)?;
    match fs::remove_file(address.path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // A killed process left it, or it does not exist.
        _ => {}
    }
    let listener = UnixListener::bind(address.path())?;
    fs::set_permissions(address.path(), fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the directories of sessions whose process was killed.
fn remove_stale(all: &Path, own_socket: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let directory = entry.path();
        if directory == own_socket {
            continue;
        }
        let is_dead = address(&directory).is_ok_and(|address| {
            let connected = std::os::unix::net::UnixStream::connect(address.path());
            connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        if is_dead {
            remove(&directory);
        }
    }
}

fn remove(directory: &Path) {
    // What remains is removed by the next session.
    let _ = fs::remove_file(directory.join(NAME));
    let _ = fs::remove_file(directory.join(PROJECT));
    let _ = fs::remove_dir(directory);
}

/// Writes to one viewer until it is gone.
async fn serve(tap: Arc<SessionTap>, mut stream: UnixStream, stop: CancellationToken) {
    let is_user =
        stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
    let mut first = [0; ATTACH.len()];
    let read = tokio::time::timeout(VIEWER_LIMIT, stream.read_exact(&mut first)).await;
    if !is_user || !matches!(read, Ok(Ok(_))) || first != *ATTACH {
        return;
    }
    let queue = tap.attach();
    let (mut reader, mut writer) = stream.split();
    let mut byte = [0; 1];
    let write_lines = async {
        writer.write_all(messages::hello_message().as_bytes()).await?;
        loop {
            let Some((lines, dropped)) = queue.take() else {
                if stop.is_cancelled() {
                    return writer.shutdown().await;
                }
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = queue.ready.notified() => {}
                }
                continue;
            };
            if dropped > 0 {
                writer.write_all(messages::dropped_message(dropped).as_bytes()).await?;
            }
            writer.write_all(lines.as_bytes()).await?;
        }
    };
    let shutdown = async {
        stop.cancelled().await;
        tokio::time::sleep(VIEWER_LIMIT).await;
    };
    tokio::select! {
        // A viewer that is gone needs nothing.
        _ = write_lines => {}
        // It sends nothing: this is its end.
        _ = reader.read(&mut byte) => {}
        () = shutdown => {}
    }
    tap.detach(&queue);
}
