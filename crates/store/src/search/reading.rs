//! Reads session files for the index on several threads while another thread writes.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use crate::keys::Keys;
use crate::lines::{can_open, is_encrypted};
use crate::list::{SessionEntry, read_entry};
use crate::load::LoadedSession;
use crate::session_files::{FileStamp, SessionFile};
use crate::session_origin::SessionOrigin;

/// Number of files that a thread reads before it passes them on.
const SHARE: usize = 16;
/// Maximum number of reading threads.
const THREADS: usize = 4;

/// Returns the text of a session by turn.
pub type TurnTextReader<'a> = &'a (dyn Fn(&LoadedSession) -> Vec<TurnText> + Sync);

/// Which sessions an index reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum SessionScope<'a> {
    /// Unencrypted sessions.
    Plain,
    /// All sessions that these keys decrypt, for an index that is never written to disk.
    All(&'a Keys),
}

/// A file found by the scan.
#[derive(Debug)]
pub(super) struct ScannedFile {
    pub(super) file: SessionFile,
    pub(super) stamp: FileStamp,
}

/// A session to write to the index. Without an entry, the file contains no conversation and is not
/// read again until it changes.
pub(super) struct ParsedSession<'a> {
    pub(super) file: &'a ScannedFile,
    pub(super) entry: Option<SessionEntry>,
    pub(super) turns: Vec<TurnText>,
}

impl ParsedSession<'_> {
    /// Returns the size of the text in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.turns.iter().map(|turn| turn.text.len()).sum()
    }
}

/// Reads the files in order and passes them on in batches, until the receiver is gone or `stopped`
/// is set.
pub(super) fn read_all<'a>(
    files: &'a [ScannedFile],
    texts: TurnTextReader<'_>,
    opens: SessionScope<'_>,
    stopped: &AtomicBool,
    taker: &SyncSender<Vec<ParsedSession<'a>>>,
) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
    for piece in files.chunks(SHARE * threads) {
        let read: Vec<ParsedSession<'a>> = thread::scope(|scope| {
            let shares: Vec<_> = piece
                .chunks(SHARE)
                .map(|share| {
                    scope.spawn(|| {
                        let remaining =
                            share.iter().take_while(|_| !stopped.load(Ordering::Relaxed));
                        remaining.map(|found| read(found, texts, opens)).collect::<Vec<_>>()
                    })
                })
                .collect();
            // If a file makes a reader panic, its batch is skipped.
            shares.into_iter().flat_map(|share| share.join().unwrap_or_default()).collect()
        });
        if taker.send(read).is_err() || stopped.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn read<'a>(
    found: &'a ScannedFile,
    texts: TurnTextReader<'_>,
    opens: SessionScope<'_>,
) -> ParsedSession<'a> {
    let file = &found.file;
    // Encrypted text is never written to disk in plain text.
    let keys = match (opens, file.origin == SessionOrigin::Parallax && is_encrypted(&file.path)) {
        (SessionScope::Plain, true) => {
            return ParsedSession { file: found, entry: None, turns: Vec::new() };
        }
        (SessionScope::Plain, false) => &Keys::default(),
        // A session that cannot be decrypted has nothing to index.
        (SessionScope::All(keys), true) if can_open(&file.path, keys).is_err() => {
            return ParsedSession { file: found, entry: None, turns: Vec::new() };
        }
        (SessionScope::All(keys), _) => keys,
    };
    let entry = read_entry(file, keys);
    let session = entry.as_ref().and_then(|_| {
        match file.origin {
            SessionOrigin::Parallax => crate::load::load(&file.path, keys),
            SessionOrigin::GeminiCli | SessionOrigin::ParallaxCli => {
                crate::import::import(&file.path, keys)
            }
        }
        .ok()
    });
    let turns = session.map(|session| texts(&session)).unwrap_or_default();
    ParsedSession { file: found, entry, turns }
}

/// The searchable text of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnText {
    /// The number of its prompt, starting at 1; 0 for text before the first prompt.
    pub turn: u64,
    /// The prompt, answers, calls, and outputs.
    pub text: String,
}
