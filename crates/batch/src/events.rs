//! The stream-json lines that an agent writes while it works, read from a file so that they outlive
//! this process.

use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::result::{AttemptUsage, TokenCounts};

/// Maximum length in bytes of a line; longer ones contain tool results, which are not needed here.
const MAX_LINE_LENGTH: usize = 4 * 1024 * 1024;
/// Maximum number of bytes kept of an answer.
const MAX_ANSWER_LENGTH: usize = 4 * 1024 * 1024;
/// Maximum number of characters of the newest text shown as progress.
const MAX_ACTIVITY_LENGTH: usize = 200;

/// The lines of a session so far.
#[derive(Debug)]
pub(crate) struct EventReader {
    file: PathBuf,
    offset: u64,
    /// Summary of these lines.
    pub(crate) summary: EventSummary,
}

/// Summary of the lines of a session.
#[derive(Debug, Default, Clone)]
pub(crate) struct EventSummary {
    /// The text since the last tool call.
    pub(crate) answer: String,
    /// The model that answered last.
    pub(crate) model: Option<String>,
    /// Tokens of all requests.
    pub(crate) tokens: TokenCounts,
    /// US dollars of all requests.
    pub(crate) cost: f64,
    /// Requests that the service rejected because of its rate limit.
    pub(crate) rate_limited: u64,
    /// The last `result` line since the last start.
    pub(crate) end: Option<SessionResultLine>,
    /// What the agent is doing.
    pub(crate) activity: String,
    /// Whether a turn has started.
    pub(crate) has_prompt: bool,
}

/// The last line of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionResultLine {
    /// Whether the turn succeeded.
    pub(crate) is_success: bool,
    /// Why the turn failed.
    pub(crate) message: String,
    /// The class of the failure.
    pub(crate) error_type: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EventLine {
    Init {
        model: String,
    },
    Message {
        role: String,
        #[serde(default)]
        content: String,
    },
    ToolUse {
        #[serde(default)]
        tool_name: String,
    },
    Retry {
        #[serde(default, rename = "dropChars")]
        drop_chars: usize,
        #[serde(default)]
        status: Option<u16>,
    },
    Usage {
        model: String,
        tokens: UsageTokens,
        #[serde(default)]
        cost_usd: Option<f64>,
    },
    Result {
        status: String,
        #[serde(default)]
        error: Option<ErrorLine>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct ErrorLine {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct UsageTokens {
    #[serde(default)]
    prompt: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    candidates: u64,
    #[serde(default)]
    thoughts: u64,
    #[serde(default)]
    total: u64,
}

impl EventReader {
    pub(crate) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), offset: 0, summary: EventSummary::default() }
    }

    /// Reads the lines that were added, and returns whether there were any. Blocking.
    pub(crate) fn read_new(&mut self) -> io::Result<bool> {
        let mut file = match File::open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        if file.metadata()?.len() <= self.offset {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::with_capacity(16 * 1024, file);
        let mut line = Vec::new();
        let mut found = false;
        while let Some(length) = read_line(&mut reader, &mut line)? {
            self.offset += length;
            found = true;
            self.summary.process_line(&line);
        }
        Ok(found)
    }
}

/// Reads one complete line, of which `line` receives at most this many bytes. Returns its length,
/// or `None` if the rest is not a complete line.
fn read_line(reader: &mut impl io::BufRead, line: &mut Vec<u8>) -> io::Result<Option<u64>> {
    line.clear();
    let mut length = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|index| index + 1);
        let piece = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = MAX_LINE_LENGTH.saturating_sub(line.len());
        line.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
        let count = piece.len();
        length += count as u64;
        reader.consume(count);
        if end.is_some() {
            return Ok(Some(length));
        }
    }
}

impl EventSummary {
    /// Returns what all requests used.
    pub(crate) fn usage(&self) -> AttemptUsage {
        AttemptUsage { tokens: self.tokens, cost: self.cost }
    }

    fn process_line(&mut self, line: &[u8]) {
        // Lines that are not events are ignored.
        let Ok(line) = serde_json::from_slice::<EventLine>(line) else { return };
        match line {
            EventLine::Init { model } => {
                self.model.get_or_insert(model);
                self.end = None;
            }
            EventLine::Message { role, content } if role == "assistant" => {
                if self.answer.len() + content.len() <= MAX_ANSWER_LENGTH {
                    self.answer.push_str(&content);
                }
                let newest = self.answer.lines().rev().find(|line| !line.trim().is_empty());
                self.activity =
                    newest.unwrap_or_default().chars().take(MAX_ACTIVITY_LENGTH).collect();
            }
            EventLine::Message { .. } => self.has_prompt = true,
            EventLine::ToolUse { tool_name } => {
                self.answer.clear();
                self.activity = tool_name;
            }
            EventLine::Retry { drop_chars, status } => {
                let remaining = self.answer.chars().count().saturating_sub(drop_chars);
                let end = self.answer.char_indices().nth(remaining).map(|(offset, _)| offset);
                self.answer.truncate(end.unwrap_or(self.answer.len()));
                if status == Some(429) {
                    self.rate_limited += 1;
                    "waiting: rate limited".clone_into(&mut self.activity);
                }
            }
            EventLine::Usage { model, tokens, cost_usd } => {
                self.model = Some(model);
                self.tokens += TokenCounts {
                    input: tokens.prompt,
                    cached: tokens.cached,
                    output: tokens.candidates + tokens.thoughts,
                    total: tokens.total,
                };
                self.cost += cost_usd.unwrap_or_default();
            }
            EventLine::Result { status, error } => {
                let (error_type, message) =
                    error.map(|error| (error.r#type, error.message)).unwrap_or_default();
                self.end = Some(SessionResultLine {
                    is_success: status == "success",
                    message,
                    error_type,
                });
            }
            EventLine::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn event_lines_are_summed_and_partial_lines_wait() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("events.jsonl");
        let mut reader = EventReader::new(&path);
        assert!(!reader.read_new().expect("read"));
        let mut file = File::create(&path).expect("a file");
        let lines = [
            r#"{"type":"init","timestamp":"t","session_id":"s","model":"auto"}"#,
            r#"{"type":"message","role":"user","content":"go"}"#,
            r#"{"type":"message","role":"assistant","content":"Looking","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"read_file","tool_id":"1","parameters":{}}"#,
            r#"{"type":"tool_result","tool_id":"1","status":"success"}"#,
            r#"{"type":"retry","dropChars":0,"status":429,"delayMs":5}"#,
            r#"{"type":"message","role":"assistant","content":"Dönee","delta":true}"#,
            r#"{"type":"retry","dropChars":1}"#,
            r#"{"type":"usage","model":"m1","role":"main","tokens":{"input":1,"prompt":10,"candidates":2,"total":13,"cached":4,"thoughts":1,"tool":0},"cost_usd":0.5,"latency_ms":1}"#,
            "not JSON",
        ];
        write!(file, "{}\n{{\"type\":\"res", lines.join("\n")).expect("written");
        assert!(reader.read_new().expect("read"));
        assert!(!reader.read_new().expect("read"));
        let summary = &reader.summary;
        assert_eq!((summary.answer.as_str(), summary.rate_limited), ("Döne", 1));
        assert_eq!((summary.model.as_deref(), summary.cost), (Some("m1"), 0.5));
        let tokens = TokenCounts { input: 10, cached: 4, output: 3, total: 13 };
        assert_eq!((summary.tokens, summary.end.as_ref()), (tokens, None));
        let rest =
            r#"ult","status":"error","error":{"type":"X","message":"why","code":1},"stats":{}}"#;
        writeln!(file, "{rest}").expect("written");
        assert!(reader.read_new().expect("read"));
        let end = reader.summary.end.clone().expect("an end");
        assert_eq!((end.is_success, end.message.as_str()), (false, "why"));
    }
}
