//! Safe disk access: confined paths, ignore rules, bounded reads, encodings, and atomic replacement
//! of files. Every error contains its path.
//!
//! Not included: interpreting text (the tools), policy decisions about tool calls, and watching
//! files.

pub mod archive;
mod confined;
mod editor_write;
mod encoding;
mod error;
mod exchange;
mod file_handles;
mod file_identity;
mod gemini_ignore;
pub mod git_files;
pub mod git_head;
mod hidden_file_tracker;
mod ignore_rules;
mod in_editor;
mod lines;
mod open;
mod printable;
mod protected_names;
mod real_path;
mod remove_tree;
mod seen_files;
mod sensitive_path_index;
#[cfg(unix)]
mod short_socket_path;
mod tree;
mod walk;
mod whole_file;
mod workspace;
mod write;
mod write_state;

pub use confined::{AllowedPath, DirectoryEntry, EntryKind, FileMetadata, Listing};
pub use encoding::{
    DecodedFile, EncodeError, SHOWN_NUL, Splice, TextEncoding, decode, looks_binary,
};
pub use error::{FileError, PathError};
pub use exchange::exchange;
pub use gemini_ignore::GeminiIgnore;
pub use hidden_file_tracker::{HiddenFileTracker, TrackedPaths};
pub use ignore_rules::{IgnoreFileOptions, IgnoreFlags, IgnoreRules, IgnoredBy, RuleSource};
pub use lines::{LineRange, TextLines, lines_from_bytes, read_lines};
pub use parallax_protocol::paths::join_lexically;
pub use printable::printable;
pub use protected_names::{is_protected_name, is_secret_file};
pub use real_path::{link_targets, real_path};
pub use remove_tree::{remove_tree, remove_tree_at, remove_tree_until};
pub use seen_files::{Freshness, Hash, SeenFiles, Snapshot, hash};
pub use sensitive_path_index::{SensitivePathIndex, SensitivePaths, remove_nested_paths};
#[cfg(unix)]
pub use short_socket_path::ShortSocketPath;
pub use tree::{folder_tree, folder_tree_of};
pub use walk::{SkippedEntries, WalkOptions, walk};
pub use whole_file::{read_capped, read_head};
pub use workspace::{Access, Workspace, WorkspaceOptions};
pub use write::atomic_write;
pub use write_state::{ExpectedState, WriteResult};

/// The parallel walker, for crates that use it directly.
pub use ignore::{DirEntry, WalkBuilder, WalkParallel, WalkState};
