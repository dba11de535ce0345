//! Shell line analysis: what `bash -c` would do with a text, following the grammar of bash.

mod analyse;
pub mod ansi;
mod arguments;
mod builtins;
mod danger;
mod expand;
mod found;
mod git;
mod git_alias;
mod git_config;
mod grammar;
mod line;
mod needs;
mod prefix;
mod reader;
mod safe;
mod variable_name;
mod wrappers;
mod written;

pub use analyse::{analyse, analyse_expanded};
pub use danger::{
    Destruction, LossKind, checked_out, dangerous, destructive, may_destroy, steering,
};
pub use git::{GitCall, git_subcommand, uses_git};
pub use git_config::{
    makes_repository, moves_worktrees, writes_git_configuration, writes_sparse_patterns,
};
pub use line::{
    Assignment, Command, CommandPosition, Redirection, RedirectionKind, ShellLine, Word,
};
pub use needs::{needs_network, needs_outside, runs_code};
pub use prefix::{has_subcommands, narrowest_prefixes, prefixes};
pub use safe::{
    SafePlace, changes_git, command_is_safe, known_safe, known_safe_text, redirects_nowhere,
};
pub use written::{placed, written};
