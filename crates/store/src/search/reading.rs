//! Reads session files for the index, on several threads while another writes.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use super::update::TurnText;
use crate::keys::Keys;
use crate::lines::{can_open, is_encrypted};
use crate::list::{Origin, SessionEntry, read_entry};
use crate::load::LoadedSession;
use crate::session_files::{FileStamp, SessionFile};

/// Files that one thread reads before they are handed on.
const SHARE: usize = 16;
/// Threads that read, at most.
const THREADS: usize = 4;

/// What was said in a session, by turns.
pub type Texts<'a> = &'a (dyn Fn(&LoadedSession) -> Vec<TurnText> + Sync);

/// Which sessions an index reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opens<'a> {
    /// Those that are not encrypted.
    Plain,
    /// All that these keys open: for an index that is never on a disk.
    All(&'a Keys),
}

/// A file as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: SessionFile,
    pub(super) stamp: FileStamp,
}

/// A session as it goes into the index; one without an entry holds no
/// conversation, and is not looked at again until it changes.
pub(super) struct Read<'a> {
    pub(super) found: &'a Found,
    pub(super) entry: Option<SessionEntry>,
    pub(super) turns: Vec<TurnText>,
}

impl Read<'_> {
    /// The bytes of what was said.
    pub(super) fn bytes(&self) -> usize {
        self.turns.iter().map(|turn| turn.text.len()).sum()
    }
}

/// Reads the files in their order and hands them on in pieces, until nobody takes
/// them or it is stopped.
pub(super) fn read_all<'a>(
    files: &'a [Found],
    texts: Texts<'_>,
    opens: Opens<'_>,
    stopped: &AtomicBool,
    taker: &SyncSender<Vec<Read<'a>>>,
) {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
    for piece in files.chunks(SHARE * threads) {
        let read: Vec<Read<'a>> = thread::scope(|scope| {
            let shares: Vec<_> = piece
                .chunks(SHARE)
                .map(|share| {
                    scope.spawn(|| {
                        let wanted = share.iter().take_while(|_| !stopped.load(Ordering::Relaxed));
                        wanted.map(|found| read(found, texts, opens)).collect::<Vec<_>>()
                    })
                })
                .collect();
            // A file that makes a reader crash is left out with its share.
            shares.into_iter().flat_map(|share| share.join().unwrap_or_default()).collect()
        });
        if taker.send(read).is_err() || stopped.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn read<'a>(found: &'a Found, texts: Texts<'_>, opens: Opens<'_>) -> Read<'a> {
    let file = &found.file;
    // Nothing of what is encrypted goes to the disk in the clear.
    let keys = match (opens, file.origin == Origin::Parallax && is_encrypted(&file.path)) {
        (Opens::Plain, true) => return Read { found, entry: None, turns: Vec::new() },
        (Opens::Plain, false) => &Keys::default(),
        // Of one that stays closed there is nothing to find.
        (Opens::All(keys), true) if can_open(&file.path, keys).is_err() => {
            return Read { found, entry: None, turns: Vec::new() };
        }
        (Opens::All(keys), _) => keys,
    };
    let entry = read_entry(file, keys);
    let session = entry.as_ref().and_then(|_| {
        match file.origin {
            Origin::Parallax => crate::load::load(&file.path, keys),
            Origin::GeminiCli | Origin::ParallaxCli => crate::import::import(&file.path, keys),
        }
        .ok()
    });
    let turns = session.map(|session| texts(&session)).unwrap_or_default();
    Read { found, entry, turns }
}
