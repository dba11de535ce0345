//! Sessions as documents to give away or to take elsewhere.

mod atif;
mod call;
mod colours;
mod diff;
mod escaped;
mod foreign;
mod html;
mod markdown;
mod prose;
mod record;

use std::path::Path;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::store::Record;
use parallax_store::LoadedSession;

use crate::launch::failure;
use crate::past;
pub(crate) use record::Messages;

pub use colours::{CodePiece, Colourist};
pub use markdown::markdown;

/// The endings that name a form, for people.
pub const ENDINGS: &str = "`.md`, `.json`, `.jsonl` or `.html`";

/// What a session is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportForm {
    /// For people: prompts, answers and calls.
    Markdown,
    /// One document as Gemini CLI keeps a session; both programs load it.
    Json,
    /// A journal of ours, nothing left out.
    Jsonl,
    /// One page that needs nothing else.
    Html,
    /// A transcript in the form of Claude Code.
    Claude,
    /// A rollout in the form of Codex.
    Codex,
    /// A record of Gemini CLI: the head, then a line for each message.
    GeminiJson,
    /// A trajectory in the Agent Trajectory Interchange Format.
    Atif,
}

impl ExportForm {
    /// The form that a file's ending names.
    pub fn of_file(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        // Their files end as ours do: who wants them says so.
        Self::parse(&ending).filter(|form| {
            !matches!(form, Self::Claude | Self::Codex | Self::GeminiJson | Self::Atif)
        })
    }

    /// The extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Json | Self::Atif => "json",
            Self::Html => "html",
            Self::Jsonl | Self::Claude | Self::Codex | Self::GeminiJson => "jsonl",
        }
    }

    /// The form of a name: `md`, `json`, `jsonl`, `html`, `claude`, `codex`, `gemini-json`,
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

/// A session as a document. `title`: what it is called; `by`: who knows the
/// colours of code, where the form has some.
///
/// # Errors
/// When a record cannot be written as JSON, which is a defect.
pub fn export(
    session: &LoadedSession,
    title: &str,
    form: ExportForm,
    by: Option<Colourist>,
) -> Result<String, Failure> {
    let wrong = |error: serde_json::Error| {
        failure(FailureKind::Internal, format!("cannot write the session: {error}"))
    };
    match form {
        ExportForm::Markdown => Ok(markdown(&past::items(&session.records))),
        ExportForm::Html => html::page(session, title, by).map_err(wrong),
        ExportForm::Json => record::document(session, title).map_err(wrong),
        ExportForm::Jsonl => journal(session).map_err(wrong),
        ExportForm::Claude => Ok(foreign::claude(session)),
        ExportForm::Codex => Ok(foreign::codex(session)),
        ExportForm::Atif => atif::trajectory(session).map_err(wrong),
        ExportForm::GeminiJson => record::lines(session, title).map_err(wrong),
    }
}

/// The records that count, a line each, the head first.
fn journal(session: &LoadedSession) -> serde_json::Result<String> {
    let head = Record::Session(session.head.clone());
    let mut text = String::new();
    for record in std::iter::once(&head).chain(&session.records) {
        text.push_str(&parallax_store::record_line(record)?);
    }
    Ok(text)
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}
