//! Facts about a session file for lists, determined without loading the session into memory.

use std::fs::File;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::import::import;
use crate::keys::Keys;
use crate::lines::JournalReader;
use crate::list::SessionEntry;
use crate::load_error::LoadError;
use crate::session_origin::SessionOrigin;

/// Returns the number of messages of a session: prompts and answers, but not synthetic context or
/// tool results. Blocks while it reads the whole file. Returns `None` if the file cannot be read.
pub fn count_messages(entry: &SessionEntry, keys: &Keys) -> Option<usize> {
    match entry.origin {
        SessionOrigin::Parallax => count_records(&entry.path, keys).ok(),
        SessionOrigin::GeminiCli | SessionOrigin::ParallaxCli => {
            let session = import(&entry.path, keys).ok()?;
            let contents = session.contents.iter();
            Some(contents.filter(|c| !c.json().contains("\"functionResponse\"")).count())
        }
    }
}

/// The relevant part of a line.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ScannedLine {
    content: Option<ScannedContent>,
    round: Option<IgnoredAny>,
    truncate: Option<TruncateRecord>,
    escaped: Option<String>,
}

#[derive(Deserialize)]
struct TruncateRecord {
    #[serde(rename = "keep")]
    keep_contents: usize,
}

#[derive(Deserialize)]
struct ScannedContent {
    #[serde(default)]
    synthetic: bool,
}

fn count_records(path: &Path, keys: &Keys) -> Result<usize, LoadError> {
    let file =
        File::open(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
    let mut lines = JournalReader::new(file, path, keys);
    // Whether each content is a message.
    let mut contents: Vec<bool> = Vec::new();
    while let Some(line) = lines.next()? {
        let line = line.text;
        // Skip results, which are long and not messages.
        if line.starts_with(b"{\"result\"") {
            continue;
        }
        let mut read: ScannedLine = serde_json::from_slice(line).unwrap_or_default();
        if let Some(escaped) = read.escaped.take() {
            read = serde_json::from_str(&escaped).unwrap_or_default();
        }
        if let Some(content) = read.content {
            contents.push(!content.synthetic);
        }
        if read.round.is_some() {
            contents.push(false);
        }
        if let Some(TruncateRecord { keep_contents }) = read.truncate {
            contents.truncate(keep_contents);
        }
    }
    Ok(contents.into_iter().filter(|is_message| *is_message).count())
}
