//! The policy of a session: finding and loading its rules, accepting those of a project, and saving
//! new ones. The `policy` crate decides.

mod rule_files;
mod rule_rows;
mod rule_store;
mod session_policy;

use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::Config;
use parallax_config::extensions::Extensions;
use parallax_protocol::protected_links::FindLinkTargets;

pub use rule_rows::{RuleRow, rule_rows};
pub use rule_store::RuleFileStore;
pub use session_policy::{ImplicitAllows, PolicyUpdate};

/// Where the rules of a session come from.
#[derive(Clone)]
pub struct PolicySources {
    /// The configuration of the user and the project.
    pub config: Arc<Config>,
    /// The extensions, which may provide rules.
    pub extensions: Arc<Extensions>,
    /// The working directory.
    pub directory: PathBuf,
    /// Whether the user can answer questions.
    pub interactive: bool,
    /// Rule files to use instead of the user's.
    pub policy_paths: Vec<PathBuf>,
    /// Rule files to use instead of those of the administrator's settings.
    pub admin_policy_paths: Vec<PathBuf>,
    /// Tools that a flag allows.
    pub allowed_tools: Vec<String>,
    /// Tools that a flag excludes.
    pub exclude_tools: Vec<String>,
    /// Finds what protected links point to.
    pub links: Arc<dyn FindLinkTargets>,
}

/// Returns the user's home directory, if it is known.
pub fn home_folder(config: &Config) -> Option<PathBuf> {
    let home = config.environment.get("HOME").map(PathBuf::from);
    home.filter(|home| home.is_absolute())
}
