//! Shell line analysis: what `bash -c` would do with a string, following the grammar of bash.

mod analyze;
pub mod ansi;
mod arguments;
mod builtins;
mod created_directories;
mod danger;
mod expand;
mod findings;
mod git;
mod git_alias;
mod git_config;
mod grammar;
mod line;
mod prefix;
mod reader;
mod required_access;
mod safe;
mod variable_name;
mod wrappers;
mod write_targets;

pub use analyze::{analyze, analyze_expanded};
pub use created_directories::is_created_by_line;
pub use danger::{
    Destruction, DestructionKind, assignment_control_reason, checked_out, danger_reason,
    destruction, may_destroy,
};
pub use git::{GitCall, git_subcommand, uses_git};
pub use git_config::{
    makes_repository, moves_worktrees, writes_git_configuration, writes_sparse_patterns,
};
pub use line::{
    Assignment, Command, CommandPosition, Redirection, RedirectionKind, ShellLine, Word,
};
pub use prefix::{has_subcommands, narrowest_prefixes, prefixes};
pub use required_access::{needs_network, needs_outside, runs_code};
pub use safe::{
    SafeReadRoots, changes_git, command_is_safe, is_harmless_redirection, is_safe, is_safe_text,
};
pub use write_targets::{placed_paths, written_paths};
