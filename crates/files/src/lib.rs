//! Safe disk access: confined paths, ignore rules, bounded reads, encodings, and atomic
//! replacement of files. Every error contains its path.
//!
//! This crate does not interpret text (the tools do), decide about calls (the policy does), or
//! watch files.

pub mod archive;
mod confined;
mod encoding;
mod error;
mod exchange;
mod hidden_places;
mod ignore_rules;
mod lines;
mod names;
mod open;
mod remove_tree;
mod resolve;
mod seen;
mod tree;
mod walk;
mod workspace;
mod write;

pub use confined::{Confined, Entry, Facts, Kind, Listing};
pub use encoding::{Decoded, EncodeError, SHOWN_NUL, Splice, TextEncoding, decode, looks_binary};
pub use error::{FileError, PathError};
pub use exchange::exchange;
pub use hidden_places::{Followed, HiddenPlaces};
pub use ignore_rules::{IgnoreFlags, IgnoreRules, IgnoredBy, RuleSource};
pub use lines::{LineRange, Lines, lines_of, read_capped, read_head, read_lines};
pub use names::{is_kept_from_tools, is_secret_file};
pub use parallax_protocol::paths::lexical;
pub use remove_tree::remove_tree;
pub use resolve::real_path;
pub use seen::{Freshness, Hash, SeenFiles, Snapshot, hash};
pub use tree::{folder_tree, folder_tree_of};
pub use walk::{Passed, WalkOptions, walk};
pub use workspace::{Access, Filtering, Workspace, WorkspaceOptions};
pub use write::{Expected, Written, atomic_write};

/// The parallel walker, for crates that use it directly.
pub use ignore::{DirEntry, WalkBuilder, WalkParallel, WalkState};
