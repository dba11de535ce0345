//! The limits for copying files before one command.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use super::CheckpointOptions;

/// The limits on bytes and time for reading before one command.
#[derive(Debug)]
pub(super) struct CopyBudget {
    pub(super) compared: AtomicU64,
    pub(super) copied: AtomicU64,
    pub(super) deadline: Instant,
    pub(super) was_exceeded: AtomicBool,
}

impl CopyBudget {
    pub(super) fn new(time: Duration) -> Self {
        Self {
            compared: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            deadline: Instant::now() + time,
            was_exceeded: AtomicBool::new(false),
        }
    }
}

/// Returns the time limit for reading and copying this number of files, so that commands in a large
/// workspace are not delayed for long. `was_late`: whether the last command exceeded it.
pub(super) fn time_limit(options: &CheckpointOptions, was_late: bool, files: usize) -> Duration {
    // Where most files will not be saved in time, the others are not worth the wait either.
    match was_late || files > options.command_files {
        true => options.command_time / 4,
        false => options.command_time,
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::ids::SessionId;

    use super::*;

    #[test]
    fn workspace_with_many_files_shortens_the_time_limit_for_copying() {
        let options =
            CheckpointOptions::new("/c".into(), "p".to_owned(), SessionId::new("s"), Vec::new());
        let (time, files) = (options.command_time, options.command_files);
        assert_eq!(time_limit(&options, false, files), time);
        for (was_late, files) in [(false, files + 1), (false, 200_000), (true, 1), (true, files)] {
            assert_eq!(time_limit(&options, was_late, files), time / 4);
        }
    }
}
