//! Facts of a session file that a list shows, got without holding the session
//! in memory.

use std::fs::File;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::import::import;
use crate::keys::Keys;
use crate::lines::Lines;
use crate::list::{Origin, SessionEntry};
use crate::load::LoadError;

/// How many messages a session has: prompts and answers, without context of the
/// program's making and without results. Blocking: as long as it takes to read
/// the file. `None` when it cannot be read.
pub fn count_messages(entry: &SessionEntry, keys: &Keys) -> Option<usize> {
    match entry.origin {
        Origin::Parallax => count_ours(&entry.path, keys).ok(),
        Origin::GeminiCli | Origin::ParallaxCli => {
            let session = import(&entry.path, keys).ok()?;
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

fn count_ours(path: &Path, keys: &Keys) -> Result<usize, LoadError> {
    let file =
        File::open(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
    let mut lines = Lines::new(file, path, keys);
    // For each content whether it is a message.
    let mut contents: Vec<bool> = Vec::new();
    while let Some(line) = lines.next()? {
        let line = line.text;
        // Results are long and say nothing here.
        if line.starts_with(b"{\"result\"") {
            continue;
        }
        let mut read: Line = serde_json::from_slice(line).unwrap_or_default();
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
