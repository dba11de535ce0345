//! Everything a user writes: environment and `.env`, homes, trust, settings in
//! their layers, memory files.
//!
//! Not here: what may happen (`policy`), writing sessions (`store`),
//! command-line arguments (the binary), the folder tree
//! (`files`).

mod dotenv;
mod environment;
mod error;
mod expand;
mod gate;
mod homes;
mod jsonc;
mod keys;
mod layers;
mod load;
mod memory;
mod merge;
mod migrate;
mod read;
mod rules;
mod rules_integrity;
mod sandbox_settings;
mod saved_rules;
mod session_context;
mod settings;
mod state;
mod survey;
pub mod trust;

pub use environment::Environment;
pub use error::ConfigError;
pub use gate::{LooseSettings, accept_settings};
pub use homes::Homes;
pub use keys::{KEYS, Key, Kind};
pub use layers::{Layer, Origin};
pub use load::{Config, LoadOptions, load};
pub use memory::{ImportFormat, Memory, MemoryFile, MemoryOptions, load_memory};
pub use rules::{RuleFiles, RulePlaces, policy_files, sandbox_files};
pub use rules_integrity::{
    RulesChange, accept_workspace_rules, let_workspace_rules_allow, workspace_rules_changed,
    workspace_rules_may_allow,
};
pub use sandbox_settings::{
    CheckpointSettings, CommandSubstitution, NetworkByMode, ProgramSandbox, SandboxSettings,
    ToolSandboxing,
};
pub use saved_rules::save_rule;
pub use session_context::{SessionContext, session_context};
pub use settings::{EnvironmentRedaction, OutputFormat, SessionRetention, Settings, Shell};
pub use survey::{Survey, SurveyedHook, SurveyedServer, survey};
pub use trust::{Trust, TrustReason};
