//! The configuration: environment and `.env`, user directories, trust, layered settings, and memory
//! files.
//!
//! Not in this crate: the policy engine (`policy`), session storage (`store`), command-line
//! arguments (the binary), and the directory tree (`files`).

pub mod agents;
pub mod commands;
mod credentials;
mod definition_warnings;
mod definitions;
mod dialog;
mod disabled_names;
mod dotenv;
mod dotenv_search;
mod editor_keys;
mod environment;
mod error;
mod expand;
mod extension_files;
pub mod extensions;
mod front_matter;
mod hook_definitions;
pub mod hooks;
mod json_state_file;
mod jsonc;
mod layers;
mod load;
pub mod mcp;
mod mcp_server;
mod memory;
mod merge;
mod migrate;
pub mod other_agents;
mod outer_settings;
mod prompt_files;
mod provider_keys;
mod read;
mod rules;
mod rules_integrity;
mod sandbox_settings;
mod saved_rules;
mod secret_references;
mod session_context;
mod set;
mod setting_check;
mod setting_reference;
mod setting_spec;
mod setting_table;
mod settings;
pub mod skills;
mod suggestions;
pub mod trust;
mod trust_preview;
pub mod trust_state;
mod ui;
mod unknown_settings;
mod unsupported_settings;
mod untrusted_settings;
mod user_dirs;
pub mod worktrees;

pub use credentials::{
    KeyKind, StoredKey, credentials_file, forget_key, forget_keys, key_of_reference, store_key,
    stored_key, stored_kinds,
};
pub use definition_warnings::DefinitionWarnings;
pub use dialog::{SettingRow, setting_rows};
pub use disabled_names::{disabled_names, disabling_files, set_disabled_name};
pub use editor_keys::{EditorKeys, add_editor_keys};
pub use environment::Environment;
pub use error::ConfigError;
pub use json_state_file::rewrite as rewrite_file;
pub use jsonc::read_object as jsonc_object;
pub use layers::{Layer, ValueOrigin};
pub use load::{Config, LoadOptions, load};
pub use memory::{
    ImportFormat, Memory, MemoryFile, MemoryOptions, MemoryScope, add_fact, add_memory,
    collect_upwards, load_memory, project_memory_file, project_top, user_memory_file,
};
pub use outer_settings::OuterSettings;
pub use prompt_files::{PromptFileSources, PromptFiles, default_prompt_file, prompt_files};
pub use provider_keys::{
    provider_keys_file, remove_provider_key, store_provider_key, stored_provider_key,
    stored_providers,
};
pub use rules::{RuleFileSources, RuleFiles, find_policy_files, sandbox_files};
pub use rules_integrity::{
    RulesChange, accept_workspace_rules, save_accepted_rules, workspace_rules_changed,
    workspace_rules_may_allow,
};
pub use sandbox_settings::{
    CheckpointSettings, CommandSubstitution, NetworkByMode, ProgramSandbox, SandboxSettings,
    ToolSandboxing,
};
pub use saved_rules::save_rule;
pub use session_context::{SessionContext, session_context};
pub use set::{SettingError, SettingScope, set_setting, setting_of};
pub use setting_reference::settings_schema;
pub use setting_spec::{SettingSpec, SettingType, parse_age};
pub use setting_table::settings_table;
pub use settings::{EnvironmentRedaction, OutputFormat, SessionRetention, Settings, ShellSettings};
pub use suggestions::similar_names;
pub use trust::{Trust, TrustReason};
pub use trust_preview::{PreviewedHook, PreviewedServer, TrustPreview, inspect};
pub use ui::{FooterItem, InlineImages, LoadingPhrases, NotificationMethod, TitleMode, UiSettings};
pub use unknown_settings::UnknownSetting;
pub use untrusted_settings::{
    Acceptance, IgnoredSettings, accept_settings, decline_settings, loosening_settings,
};
pub use user_dirs::UserDirs;
