//! Persistent session data: journals, the session list, search, import of session files of other
//! tools (never written), deletion, and file contents for undo.
//!
//! A journal stores the wire contents byte for byte, so that a resumed session sends what the
//! interrupted session would have sent. The engine decides what is recorded.
//!
//! All functions block on disk I/O; asynchronous callers use `spawn_blocking`.

mod chats;
mod checkpoints;
mod cipher;
mod import;
mod inputs;
mod journal;
mod keys;
mod lines;
mod list;
mod load;
mod load_error;
mod locked_file;
mod moving;
mod outputs;
mod paths;
mod private_files;
mod redact;
mod repair;
mod retention;
mod scan;
mod search;
mod select;
mod session_files;
mod session_origin;
mod shared_budget;
mod title;

pub use chats::{ChatError, SavedChat, delete_chat, find_chat, save_chat, saved_chats};
pub use checkpoints::{
    AbandonedChanges, BlobReader, ChangeKind, ChangeOrigin, Changes, CheckpointError,
    CheckpointOptions, Checkpoints, CleanupResult, CommandSnapshot, Edit, EditSnapshot, FileChange,
    IGNORED_DIRECTORIES, MovedRepository, PendingRestore, QuarantinedFiles, RestorePreview,
    TurnChanges, UnfinishedCommandGuard, is_in_broken_repository, latest_session,
    latest_undo_session,
};
pub use cipher::CipherError;
pub use import::{import, is_context};
pub use inputs::{forget_inputs, input_history, remember_input, remember_shell, shell_history};
pub use journal::{Journal, JournalLockHandover, OpenError, record_line};
pub use keys::{KeyError, KeyStorage, Keys};
pub use lines::JournalTail;
pub use list::{SessionEntry, has_id, list, list_all, memory_directories, short_id};
pub use load::{LoadedSession, PendingBatch, PendingCall, load};
pub use load_error::LoadError;
pub use moving::{MoveError, move_project_files, move_session};
pub use outputs::{
    OUTPUTS_LIMIT, encrypt_outputs, restore_outputs, save_output, save_output_encrypted,
    trim_outputs,
};
pub use paths::{SessionArtifacts, SessionDirs, project_folder, project_hash, project_slug};
pub use private_files::create_private_dir;
pub use repair::{is_valid, repair_session};
pub use retention::{
    DeletedSession, RemovalReason, Retention, TRASH_AGE, associated_paths, discard,
    discard_directory, empty_trash, is_due, outdated, remove_stray_outputs, session_folders,
};
pub use scan::count_messages;
pub use search::{
    EncryptedSessions, IndexLock, SearchError, SearchHit, SearchIndex, SearchQuery, TurnText,
    UpdateProgress, UpdateResult,
};
pub use select::{DeleteError, FindError, delete, find, find_listed, has_prefix};
pub use session_files::{MIRROR_KEY, claim_gemini_folder, delete_mirrors, gemini_folder};
pub use session_origin::SessionOrigin;
pub use shared_budget::{
    LostRequests, Renewals, SharedBudgetFile, TaskBudget, TaskStart, shared_budget,
};

/// Returns the current time in the journal format: RFC 3339, UTC, milliseconds.
pub fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
