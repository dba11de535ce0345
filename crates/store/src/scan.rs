//! Facts of a session file that a list shows, got without holding the session
//! in memory.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::import::import;
use crate::list::{Origin, SessionEntry};
use crate::load::read_line;

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// How many messages a session has: prompts and answers, without context of the
/// program's making and without results. Blocking: as long as it takes to read
/// the file. `None` when it cannot be read.
pub fn count_messages(entry: &SessionEntry) -> Option<usize> {
    match entry.origin {
        Origin::Parallax => count_ours(&entry.path).ok(),
        Origin::GeminiCli | Origin::ParallaxCli => {
            let session = import(&entry.path).ok()?;
            let contents = session.contents.iter();
            Some(contents.filter(|c| !c.json().contains("\"functionResponse\"")).count())
        }
    }
}

/// A line, as far as it matters here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Line {
    content: Option<Content>,
    round: Option<IgnoredAny>,
    truncate: Option<Truncate>,
    escaped: Option<String>,
}

#[derive(Deserialize)]
struct Truncate {
    keep: usize,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    synthetic: bool,
}

fn count_ours(path: &Path) -> io::Result<usize> {
    let mut reader = BufReader::with_capacity(CHUNK, File::open(path)?);
    // For each content whether it is a message.
    let mut contents: Vec<bool> = Vec::new();
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line)? > 0 {
        // Results are long and say nothing here.
        if line.starts_with(b"{\"result\"") {
            continue;
        }
        let mut read: Line = serde_json::from_slice(&line).unwrap_or_default();
        if let Some(escaped) = read.escaped.take() {
            read = serde_json::from_str(&escaped).unwrap_or_default();
        }
        if let Some(content) = read.content {
            contents.push(!content.synthetic);
        }
        if read.round.is_some() {
            contents.push(false);
        }
        if let Some(Truncate { keep }) = read.truncate {
            contents.truncate(keep);
        }
    }
    Ok(contents.into_iter().filter(|is_message| *is_message).count())
}

/// Whether the text can stand in the file, upper and lower case alike: a quick
/// look before the session is read. Texts that JSON may write in another way
/// can always. Stops with `false` when `stop` says so.
///
/// # Errors
/// When the file cannot be read.
pub fn may_hold(path: &Path, text: &str, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    let plain = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && !b"\"\\/".contains(&byte);
    if text.is_empty() || !text.bytes().all(plain) {
        return Ok(true);
    }
    let wanted = text.to_ascii_lowercase().into_bytes();
    let mut file = File::open(path)?;
    let mut window: Vec<u8> = Vec::with_capacity(CHUNK + wanted.len());
    loop {
        if stop() {
            return Ok(false);
        }
        let kept = window.len().min(wanted.len() - 1);
        window.drain(..window.len() - kept);
        let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut window)?;
        if read == 0 {
            return Ok(false);
        }
        if let Some(new) = window.get_mut(kept..) {
            new.make_ascii_lowercase();
        }
        if memchr::memmem::find(&window, &wanted).is_some() {
            return Ok(true);
        }
    }
}
