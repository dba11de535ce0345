//! Input history of a project for the composer: a Parallax log, and the Gemini CLI log, which
//! is read-only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::paths::{SessionDirs, project_folder};
use crate::private_files::{create_private_dir, set_mode};
use crate::session_files::gemini_folders;

/// Number of bytes read from the end of the log.
const TAIL: u64 = 2 * 1024 * 1024;
/// Size in bytes above which the log is shortened to its end.
const MAX_BYTES: u64 = 2 * TAIL;
/// Size in bytes above which a Gemini CLI log is ignored.
const MAX_FOREIGN_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum length in bytes of a recorded text.
const LONGEST: usize = 256 * 1024;

#[derive(Serialize, Deserialize)]
struct InputEntry {
    /// Time in RFC 3339 format.
    time: String,
    text: String,
}

/// An entry of Gemini CLI's `logs.json`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct GeminiLogEntry {
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

/// Returns the last `limit` lines, oldest first, without consecutive duplicates. Logs that cannot
/// be read count as empty.
pub fn input_history(dirs: &SessionDirs, project: &Path, limit: usize) -> Vec<String> {
    let mut inputs = read_own(&log(dirs, project)).unwrap_or_default();
    for directory in gemini_folders(dirs, project) {
        inputs.extend(read_gemini(&directory.join("logs.json")).unwrap_or_default());
    }
    inputs.sort_by_key(|(time, _)| *time);
    let mut texts: Vec<String> = inputs.into_iter().map(|(_, text)| text).collect();
    texts.dedup();
    texts.drain(..texts.len().saturating_sub(limit));
    texts
}

/// Appends text to the log with a single write. Does nothing if sessions are encrypted.
///
/// # Errors
/// Returns an error if the log cannot be written.
pub fn remember_input(dirs: &SessionDirs, project: &Path, text: &str) -> io::Result<()> {
    if dirs.keys.is_enabled() {
        return Ok(());
    }
    append(&log(dirs, project), &dirs.keys.redact_text(text))
}

/// Removes inputs from the log, for a session that must leave nothing behind. Removes the newest
/// occurrence of each text once.
///
/// # Errors
/// Returns an error if the log cannot be read or written.
pub fn forget_inputs(dirs: &SessionDirs, project: &Path, texts: &[String]) -> io::Result<()> {
    let path = log(dirs, project);
    if texts.is_empty() || !path.exists() {
        return Ok(());
    }
    let lock = OpenOptions::new().append(true).create(true).open(path.with_extension("lock"))?;
    lock.lock()?;
    let mut left: Vec<_> = texts.iter().map(|text| dirs.keys.redact_text(text)).collect();
    let text = fs::read_to_string(&path)?;
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().rev() {
        let typed = serde_json::from_str::<InputEntry>(line).ok().map(|line| line.text);
        match typed.and_then(|typed| left.iter().position(|text| *text == typed)) {
            Some(at) => drop(left.swap_remove(at)),
            None => lines.push(line),
        }
    }
    lines.reverse();
    let mut rest = lines.join("\n");
    if !rest.is_empty() {
        rest.push('\n');
    }
    exchange(&path, &rest)
}

/// Returns the last `limit` shell lines that the user ran in the project, oldest first. Lines of
/// Gemini CLI have no time and come first.
pub fn shell_history(dirs: &SessionDirs, project: &Path, limit: usize) -> Vec<String> {
    let theirs = crate::session_files::gemini_folders(dirs, project).into_iter();
    let theirs = theirs.filter_map(|directory| tail(&directory.join("shell_history")).ok());
    let mut lines: Vec<String> = theirs.flat_map(|text| join_continued_lines(&text)).collect();
    let ours = read_own(&shell_log(dirs, project)).unwrap_or_default();
    lines.extend(ours.into_iter().map(|(_, line)| line));
    lines.dedup();
    lines.drain(..lines.len().saturating_sub(limit));
    lines
}

/// Splits text into lines and joins lines that end in a backslash with the next line.
fn join_continued_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => {
                last.push('\n');
                last.push_str(line);
            }
            None => lines.push(line.to_owned()),
        }
        goes_on = more;
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Appends a shell line to its log with a single write. Does nothing if sessions are encrypted.
///
/// # Errors
/// Returns an error if the log cannot be written.
pub fn remember_shell(dirs: &SessionDirs, project: &Path, line: &str) -> io::Result<()> {
    if dirs.keys.is_enabled() {
        return Ok(());
    }
    append(&shell_log(dirs, project), &dirs.keys.redact_text(line))
}

fn shell_log(dirs: &SessionDirs, project: &Path) -> PathBuf {
    dirs.parallax.join("inputs").join(format!("{}.shell.jsonl", project_folder(project)))
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    if text.trim().is_empty() || text.len() > LONGEST {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        create_private_dir(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The lock is a separate file, because shortening replaces the log.
    let lock = options.open(path.with_extension("lock"))?;
    lock.lock()?;
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_BYTES) {
        shorten(path)?;
    }
    let mut file = options.open(path)?;
    let line = InputEntry { time: crate::timestamp(), text: text.to_owned() };
    // If a crash or a full disk left a torn last line, start a new line so that this entry stays
    // readable.
    let mut bytes = if is_newline_terminated(&mut file)? { Vec::new() } else { vec![b'\n'] };
    serde_json::to_writer(&mut bytes, &line)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

/// Whether a file is empty or ends with a newline.
fn is_newline_terminated(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn log(dirs: &SessionDirs, project: &Path) -> PathBuf {
    dirs.parallax.join("inputs").join(format!("{}.jsonl", project_folder(project)))
}

/// Returns the end of a file, from the start of a line.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let cut =
        if length > TAIL { text.find('\n').map_or(text.len(), |offset| offset + 1) } else { 0 };
    Ok(text.get(cut..).unwrap_or_default().to_owned())
}

fn shorten(path: &Path) -> io::Result<()> {
    exchange(path, &tail(path)?)
}

fn exchange(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&new, text)?;
    set_mode(&new, 0o600)?;
    fs::rename(&new, path)
}

fn read_own(path: &Path) -> io::Result<Vec<(Timestamp, String)>> {
    let text = tail(path)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<InputEntry>(line).ok());
    Ok(lines.filter_map(|line| Some((line.time.parse().ok()?, line.text))).collect())
}

fn read_gemini(path: &Path) -> io::Result<Vec<(Timestamp, String)>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_FOREIGN_BYTES {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FOREIGN_BYTES).read_to_end(&mut bytes)?;
    let entries: Vec<GeminiLogEntry> = serde_json::from_slice(&bytes)?;
    let typed = entries.into_iter().filter(|entry| entry.kind.as_deref() == Some("user"));
    Ok(typed
        .filter_map(|entry| Some((entry.timestamp?.parse().ok()?, entry.message?)))
        .filter(|(_, text)| !text.trim().is_empty())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_input_line_drops_only_itself() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("inputs/p.jsonl");
        append(&path, "one").expect("kept");
        let mut file = OpenOptions::new().append(true).open(&path).expect("the log");
        file.write_all(b"{\"time\":\"2026").expect("torn");
        append(&path, "two").expect("kept");
        let texts: Vec<String> =
            read_own(&path).expect("read").into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn gemini_cli_shell_history_is_oldest() {
        let home = tempfile::tempdir().expect("a directory");
        let dirs = SessionDirs::new(home.path().join("p"), home.path().join("g"));
        let theirs = dirs.gemini.join("tmp/slug");
        fs::create_dir_all(&theirs).expect("a directory");
        let project = home.path().display().to_string();
        fs::write(theirs.join(".project_root"), project).expect("owner");
        fs::write(theirs.join("shell_history"), "ls\nfor i in 1; do\\\n echo\\\ndone\n\npwd\n")
            .expect("history");
        remember_shell(&dirs, home.path(), "make").expect("kept");
        let lines = shell_history(&dirs, home.path(), 10);
        assert_eq!(lines, ["ls", "for i in 1; do\n echo\ndone", "pwd", "make"]);
    }

    #[test]
    fn deleting_an_input_keeps_the_others() {
        let home = tempfile::tempdir().expect("a directory");
        let dirs = SessionDirs::new(home.path().join("p"), home.path().join("g"));
        for text in ["one", "two", "one", "three"] {
            remember_input(&dirs, home.path(), text).expect("kept");
        }
        let texts = ["one".to_owned(), "three".to_owned()];
        forget_inputs(&dirs, home.path(), &texts).expect("forgotten");
        assert_eq!(input_history(&dirs, home.path(), 10), ["one", "two"]);
    }

    #[test]
    fn lines_added_during_truncation_are_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("p.jsonl");
        let old =
            format!("{{\"time\":\"2026-01-01T00:00:00Z\",\"text\":\"{}\"}}\n", "x".repeat(1000));
        let count = usize::try_from(MAX_BYTES).expect("a size") / old.len() + 1;
        fs::write(&path, old.repeat(count)).expect("a long log");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || append(path, &format!("line {number}")).expect("kept"));
            }
        });
        let texts: Vec<String> =
            read_own(&path).expect("read").into_iter().map(|(_, text)| text).collect();
        for number in 0..8 {
            assert!(texts.contains(&format!("line {number}")), "{number}");
        }
        assert!(fs::metadata(&path).expect("facts").len() <= MAX_BYTES);
    }
}
