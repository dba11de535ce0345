//! The built-in tools, each a module with its code, its text for the model, and its tests.
//!
//! Not responsible for whether a call may run (the policy engine), the order of calls (the engine),
//! or safe file access (the `files` crate).

pub mod activate_skill;
pub mod arguments;
pub mod ask_user;
mod blocking;
mod change;
mod citations;
pub mod complete_task;
pub mod discovered;
mod edit_distance;
pub mod enter_plan_mode;
pub mod exit_plan_mode;
pub mod failure;
pub mod get_internal_docs;
mod git_directories;
pub mod glob;
pub mod google_web_search;
pub mod grep_search;
pub mod kill_background_process;
mod kind;
pub mod list_background_processes;
pub mod list_directory;
mod literal_names;
mod plan_files;
pub mod read_background_output;
pub mod read_file;
pub mod read_many_files;
pub mod replace;
mod repository_variables;
pub mod run_shell_command;
mod sandbox_options;
pub mod save_memory;
mod search_scope;
mod shell_options;
mod small_files;
mod suggest;
#[cfg(test)]
mod test_support;
pub mod tracker;
pub mod update_topic;
pub mod web_fetch;
pub mod write_file;
pub mod write_todos;

pub use change::file_diff;
pub use repository_variables::is_repository_variable;
pub use run_shell_command::UserShell;
pub use sandbox_options::{SandboxOptions, WorktreeAccess};
pub use shell_options::{RedactionOptions, ShellOptions};

/// Returns the session's main model at the time of the call.
pub type MainModel = std::sync::Arc<dyn Fn() -> String + Send + Sync>;
