//! Exports sessions as documents.

mod atif;
mod call;
mod diff;
mod escaped;
mod foreign;
mod html;
mod markdown;
mod prose;
mod record;
mod syntax_colors;

use std::path::Path;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_store::LoadedSession;

use crate::journal_text::journal_text;
use crate::recorded_items;
use crate::source::SourceError;
pub(crate) use record::Messages;

pub use markdown::markdown;
pub use syntax_colors::{SyntaxClass, SyntaxHighlighter};

/// The file extensions that select a format, for messages.
pub const ENDINGS: &str = "`.md`, `.json`, `.jsonl` or `.html`";

/// Format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Markdown with prompts, answers, and tool calls, for reading.
    Markdown,
    /// A single JSON document in Gemini CLI's session format, which both programs can import.
    Json,
    /// A complete Parallax journal.
    Jsonl,
    /// A self-contained web page.
    Html,
    /// A transcript in Claude Code's format.
    Claude,
    /// A rollout in Codex's format.
    Codex,
    /// A Gemini CLI record: a header, then one line per message.
    GeminiJson,
    /// A trajectory in the Agent Trajectory Interchange Format.
    Atif,
}

impl ExportFormat {
    /// Returns the format for a file extension.
    pub fn from_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        // Formats of other programs share our extensions, so they must be selected by name.
        Self::parse(&extension).filter(|form| {
            !matches!(form, Self::Claude | Self::Codex | Self::GeminiJson | Self::Atif)
        })
    }

    /// Returns the file extension of the format.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json | Self::Atif => "json",
            Self::Html => "html",
            Self::Jsonl | Self::Claude | Self::Codex | Self::GeminiJson => "jsonl",
        }
    }

    /// Parses a format name: `md`, `json`, `jsonl`, `html`, `claude`, `codex`, `gemini-json`, or
    /// `atif`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "md" | "markdown" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            "jsonl" => Some(Self::Jsonl),
            "html" | "htm" => Some(Self::Html),
            "claude" => Some(Self::Claude),
            "codex" => Some(Self::Codex),
            "gemini-json" => Some(Self::GeminiJson),
            "atif" => Some(Self::Atif),
            _ => None,
        }
    }
}

/// Exports a session as a document with a title. `by` highlights code in formats that support it.
/// `read_journal` returns all lines of its journal, for formats that also show what was rewound.
///
/// # Errors
/// Returns an error if the journal cannot be read, or a record cannot be serialized as JSON, which
/// would be a bug.
pub fn export(
    session: &LoadedSession,
    title: &str,
    form: ExportFormat,
    by: Option<SyntaxHighlighter>,
    read_journal: impl FnOnce() -> Result<String, SourceError>,
) -> Result<String, Failure> {
    let to_error = |error: serde_json::Error| {
        Failure::new(FailureKind::Internal, format!("failed to write the session: {error}"))
    };
    match form {
        ExportFormat::Markdown => Ok(markdown(&recorded_items::items(&session.records))),
        ExportFormat::Html => {
            let journal = read_journal()
                .map_err(|error| Failure::new(FailureKind::Input, error.to_string()))?;
            Ok(html::page(session, title, by, &journal))
        }
        ExportFormat::Json => record::document(session, title).map_err(to_error),
        ExportFormat::Jsonl => journal_text(session).map_err(to_error),
        ExportFormat::Claude => Ok(foreign::claude(session)),
        ExportFormat::Codex => Ok(foreign::codex(session)),
        ExportFormat::Atif => atif::trajectory(session).map_err(to_error),
        ExportFormat::GeminiJson => record::lines(session, title).map_err(to_error),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}
