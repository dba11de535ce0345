//! Sessions as users see them: listing, opening, showing, searching, exporting, moving, and
//! removing them, and what they used.
//!
//! Not in this crate: the files of sessions (`store`), and running one (`engine`, `sdk`).

pub mod chats;
mod choice;
pub mod encrypted_sessions;
pub mod export;
pub mod gemini_mirror;
pub mod gemini_record;
pub mod history;
mod journal_text;
mod listing;
pub mod moves;
pub mod recorded_items;
pub mod retention;
pub mod search;
pub mod session_stats;
mod source;
pub mod stats;
pub mod transcript;
mod tree;
pub mod usage_report;
pub mod usage_text;
pub mod usage_totals;

use std::path::Path;

use parallax_config::Config;

use export::SyntaxHighlighter;

pub use choice::SessionChoice;
pub use listing::{last_turn, truncate};
pub use parallax_store::{SavedChat, SessionEntry, SessionOrigin, has_prefix};
pub use source::{SessionSource, SourceError};
pub use tree::tree;

/// The stored sessions of a user, as seen from a project.
#[derive(Clone, Copy)]
pub struct SessionLibrary<'a> {
    /// The configuration of the user and the project.
    pub config: &'a Config,
    /// The directory of the project.
    pub directory: &'a Path,
    /// Highlights code in exported sessions.
    pub highlighter: Option<SyntaxHighlighter>,
    /// Whether to resume exactly the named session or none: the name is an id, and a session that
    /// another process uses is not continued in a copy.
    pub is_exact: bool,
    /// Whether the user can answer questions in new sessions.
    pub interactive: bool,
    /// Whether new sessions write no journal.
    pub ephemeral: bool,
}

impl SessionLibrary<'_> {
    /// Returns where sessions are stored and with which keys.
    pub fn dirs(&self) -> parallax_store::SessionDirs {
        encrypted_sessions::dirs(self.config)
    }
}
