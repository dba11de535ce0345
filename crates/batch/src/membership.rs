//! How an agent of a batch notices that the process that started it is gone, including by a crash.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpgrp, getpid, kill_process, kill_process_group};

use crate::directory::BatchLock;

/// The variable that names the lock of the process that runs the batch.
const LOCK: &str = "PARALLAX_BATCH_LOCK";
/// The variable that names the lock that every agent of the batch holds.
const AGENTS: &str = "PARALLAX_BATCH_AGENTS";
/// How long the running tool calls of an agent may take when its batch is gone.
const CALLS_TIME: Duration = Duration::from_secs(20);
/// How long the agent may take to end after that.
const END_TIME: Duration = Duration::from_secs(10);

/// The variable of a process that only runs a command.
pub(crate) const COMMAND: &str = "PARALLAX_BATCH_COMMAND";

/// The variable that names the worktree of the task to which a command belongs.
pub(crate) const TASK: &str = "PARALLAX_BATCH_TASK";

/// The lock that this process holds for its lifetime.
static HELD: OnceLock<File> = OnceLock::new();

/// Returns the variables of an agent.
pub(crate) fn variables(lock: &BatchLock) -> Vec<(OsString, OsString)> {
    vec![
        (LOCK.into(), lock.file.clone().into_os_string()),
        (AGENTS.into(), lock.agents.clone().into_os_string()),
        ("PARALLAX_BATCH_PACE".into(), lock.pace_file.clone().into_os_string()),
    ]
}

/// Whether this process is an agent of a batch.
pub fn is_agent() -> bool {
    HELD.get().is_some()
}

/// In an agent of a batch, makes this process end with the one that started it. Elsewhere, this
/// does nothing. Call it once, early.
pub fn end_with_batch() {
    let (Some(lock), Some(agents)) = (std::env::var_os(LOCK), std::env::var_os(AGENTS)) else {
        return;
    };
    // Where it cannot be opened, as in a sandbox, another process of the batch watches.
    let Ok(agents) = File::open(agents) else { return };
    if flock(&agents, FlockOperation::LockShared).is_err() {
        return;
    }
    // Only one caller sets it.
    let _ = HELD.set(agents);
    let lock = Path::new(&lock).to_owned();
    // The batch may have ended before this process held its lock. A later run then did not wait
    // for it, and runs the same task again.
    if has_ended(&lock) {
        let _ = kill_process(getpid(), Signal::TERM);
        return;
    }
    // It ends with the process; nothing waits for it.
    drop(std::thread::spawn(move || {
        wait_for_end(&lock);
        let leads = getpgrp() == getpid();
        if std::env::var_os(COMMAND).is_some() && leads {
            let _ = kill_process_group(getpid(), Signal::KILL);
        }
        // As for signals of the user, running tool calls are awaited first, so the journal is
        // complete.
        for time in [CALLS_TIME, END_TIME] {
            let _ = kill_process(getpid(), Signal::TERM);
            std::thread::sleep(time);
        }
        if leads {
            let _ = kill_process_group(getpid(), Signal::KILL);
        }
    }));
}

/// Whether no process holds the lock.
fn has_ended(lock: &Path) -> bool {
    match File::open(lock) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Waits until no process holds the lock.
fn wait_for_end(lock: &Path) {
    // A lock that is gone belonged to a process that is gone.
    let Ok(file) = File::open(lock) else { return };
    while let Err(error) = flock(&file, FlockOperation::LockShared) {
        if error != rustix::io::Errno::INTR {
            return;
        }
    }
}
