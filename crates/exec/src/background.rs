//! Background processes and the tails of their logs.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::ProcessExit;
use crate::output_file::open_no_follow;

/// Maximum number of processes to remember.
const MAX_REMEMBERED: usize = 100;
/// Maximum number of bytes read from a log.
const LOG_TAIL_BYTES: u64 = 64 * 1024;

/// A background process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// The PID.
    pub pid: i32,
    /// The command that started it, as typed.
    pub command: String,
    /// The log; missing if the process wrote nothing or closed its output.
    pub log: PathBuf,
    /// The state.
    pub state: BackgroundState,
}

/// The state of a background process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundState {
    /// It is running.
    Running,
    /// It ended; contains how, if known.
    Exited(Option<ProcessExit>),
}

#[derive(Debug, Default)]
pub(crate) struct BackgroundHistory {
    entries: VecDeque<HistoryEntry>,
}

#[derive(Debug)]
struct HistoryEntry {
    process: BackgroundProcess,
    /// Whether no task follows the process, so that its end is detected by polling.
    orphan: bool,
}

impl BackgroundHistory {
    pub(crate) fn add(&mut self, pid: i32, command: &str, log: &Path, orphan: bool) {
        if self.entries.len() >= MAX_REMEMBERED {
            let over = |entry: &HistoryEntry| entry.process.state != BackgroundState::Running;
            let oldest = self.entries.iter().position(over).unwrap_or(0);
            self.entries.remove(oldest);
        }
        let process = BackgroundProcess {
            pid,
            command: command.to_owned(),
            log: log.to_owned(),
            state: BackgroundState::Running,
        };
        self.entries.push_back(HistoryEntry { process, orphan });
    }

    /// Records the end of a process. Returns the process if its end was not known yet.
    pub(crate) fn record_end(
        &mut self,
        pid: i32,
        exit: Option<ProcessExit>,
    ) -> Option<BackgroundProcess> {
        let running = self
            .entries
            .iter_mut()
            .rev()
            .map(|entry| &mut entry.process)
            .find(|process| process.pid == pid && process.state == BackgroundState::Running)?;
        running.state = BackgroundState::Exited(exit);
        Some(running.clone())
    }

    pub(crate) fn running_orphans(&self) -> Vec<i32> {
        self.entries
            .iter()
            .filter(|entry| entry.orphan && entry.process.state == BackgroundState::Running)
            .map(|entry| entry.process.pid)
            .collect()
    }

    pub(crate) fn list(&self) -> Vec<BackgroundProcess> {
        self.entries.iter().map(|entry| entry.process.clone()).collect()
    }
}

/// The last lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTail {
    /// The lines.
    pub lines: Vec<String>,
    /// Number of lines that were read.
    pub total: usize,
    /// Whether the log is longer than the part that was read.
    pub is_truncated: bool,
}

/// Reads the last lines of a log, from at most its last 64 KiB. Blocking.
///
/// # Errors
/// Returns an error if it does not exist, cannot be read, or is a symbolic link.
pub fn read_log(path: &Path, lines: usize) -> io::Result<LogTail> {
    let mut file = open_no_follow(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(LOG_TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut all: Vec<&str> = text.lines().collect();
    if from > 0 && !all.is_empty() {
        // The first line is incomplete.
        all.remove(0);
    }
    let total = all.len();
    let lines = all.split_off(total.saturating_sub(lines));
    Ok(LogTail {
        lines: lines.into_iter().map(str::to_owned).collect(),
        total,
        is_truncated: from > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_history_drops_the_oldest_ended_process() {
        let mut history = BackgroundHistory::default();
        for pid in 1..=100 {
            history.add(pid, "c", Path::new("/l"), false);
        }
        history.record_end(7, Some(ProcessExit::Exited { code: 3 }));
        history.add(101, "c", Path::new("/l"), false);
        let pids: Vec<i32> = history.list().iter().map(|process| process.pid).collect();
        assert_eq!(pids.len(), 100);
        assert!(!pids.contains(&7) && pids.contains(&1) && pids.contains(&101));
    }

    #[test]
    fn log_tail_is_read_without_following_links() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "a\nb\nc").unwrap();
        let end = read_log(&path, 2).unwrap();
        assert_eq!(
            (end.lines, end.total, end.is_truncated),
            (vec!["b".into(), "c".into()], 3, false)
        );

        let long: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        std::fs::write(&path, long).unwrap();
        let end = read_log(&path, 3).unwrap();
        assert_eq!(end.lines, ["line 19997", "line 19998", "line 19999"]);
        assert!(end.is_truncated && end.total < 20_000);

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read_log(&link, 1).is_err());
    }
}
