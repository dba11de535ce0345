//! The services of a session's configuration: each reads only what it needs.

use std::sync::Arc;

use parallax_agents::{AgentLibrary, SkillLibrary};
use parallax_config::extensions::Extensions;
use parallax_context_files::ContextSources;
use parallax_extensions::ExtensionManager;
use parallax_hooks::HookLibrary;
use parallax_http::ClientOptions;
use parallax_policy_sources::PolicySources;
use parallax_providers::ProviderManager;
use parallax_sessions::SessionLibrary;

use crate::ide::CompanionManager;
use crate::mcp::McpManager;
use crate::options::ResponseSource;
use crate::session_config::{SessionConfig, script_name};
use crate::session_info::{SessionInfo, ShellHistory};
use crate::settings::SettingsManager;
use crate::trust::TrustManager;

impl SessionConfig {
    /// Returns the options of the HTTP client that connects to anything but a model.
    pub fn client_options(&self) -> ClientOptions {
        let env = |name: &str| self.config.environment.get(name).map(str::to_owned);
        ClientOptions {
            user_agent: format!("Parallax/{}", self.options.version),
            extra_roots: parallax_http::extra_roots_from_env(&env),
            ..ClientOptions::default()
        }
    }

    /// Returns the settings manager.
    pub fn settings_manager(&self) -> SettingsManager<'_> {
        SettingsManager { config: &self.config, extensions: self.extension_manager() }
    }

    /// Returns the manager of trusted folders.
    pub fn trust_manager(&self) -> TrustManager<'_> {
        TrustManager { options: &self.options, config: &self.config }
    }

    /// Returns what connects to the companion extension of an editor.
    pub fn companion_manager(&self) -> CompanionManager<'_> {
        CompanionManager { options: &self.options, config: &self.config }
    }

    /// Returns the MCP manager, which lists and probes servers.
    pub fn mcp_manager(&self) -> McpManager<'_> {
        McpManager { launch: self }
    }

    /// Returns facts for display.
    pub fn facts(&self) -> SessionInfo<'_> {
        SessionInfo { launch: self }
    }

    /// Returns the shell history of the project.
    pub fn shell_history(&self) -> ShellHistory {
        ShellHistory { dirs: self.dirs(), directory: self.options.directory.clone() }
    }

    /// Returns what installs and lists extensions.
    pub fn extension_manager(&self) -> ExtensionManager<'_> {
        ExtensionManager {
            config: &self.config,
            only_extensions: &self.options.extensions,
            loaded_extensions: &self.extensions,
            client: self.client_options(),
            variables: &self.options.variables,
            cancel: self.cancel.as_ref(),
        }
    }

    /// Returns the provider manager, which lists models and manages keys.
    pub fn provider_manager(&self) -> ProviderManager {
        let model = self.model_name();
        ProviderManager {
            config: Arc::clone(&self.config),
            auth_method: self.options.auth_method.clone(),
            version: self.options.version,
            is_scripted: script_name(&model).is_some()
                || self.options.answers != ResponseSource::Service,
            model,
            typed_key: None,
        }
    }

    /// Returns the agent library. Blocking: reads extensions.
    pub fn agent_library(&self) -> AgentLibrary {
        let launch = self.clone();
        AgentLibrary {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            main_model: self.provider_manager().resolved_model(),
            reload: Arc::new(move || Ok(launch.reload()?.agent_library())),
        }
    }

    /// Returns the hook library. Blocking: reads extensions.
    pub fn hook_library(&self) -> HookLibrary {
        let launch = self.clone();
        HookLibrary {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            running: Arc::clone(&self.running_hooks),
            reload: Arc::new(move || Ok(launch.reload()?.hook_library())),
        }
    }

    /// Returns where policy rules come from. Blocking: reads extensions.
    pub fn policy_sources(&self) -> PolicySources {
        let options = &self.options;
        PolicySources {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            directory: options.directory.clone(),
            interactive: options.interactive,
            policy_paths: options.policy_paths.clone(),
            admin_policy_paths: options.admin_policy_paths.clone(),
            allowed_tools: options.allowed_tools.clone(),
            exclude_tools: options.exclude_tools.clone(),
            links: Arc::new(self.closed_names.clone()),
        }
    }

    /// Returns where context files come from. Blocking: reads extensions.
    pub fn context_sources(&self) -> ContextSources {
        ContextSources {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            dirs: self.dirs(),
            directory: self.options.directory.clone(),
            ephemeral: self.options.ephemeral,
            count_tokens: parallax_engine::tokens::estimate_text,
        }
    }

    /// Returns the skill library. Blocking: reads extensions.
    pub fn skill_library(&self) -> SkillLibrary {
        let launch = self.clone();
        SkillLibrary {
            config: Arc::clone(&self.config),
            extensions: self.extensions(),
            directories: self.options.skill_directories.clone(),
            reload: Arc::new(move || Ok(launch.reload()?.skill_library())),
        }
    }

    /// Returns this configuration with a companion, if enabled. Must be called on a tokio runtime.
    #[must_use]
    pub fn with_companion(mut self) -> Self {
        let manager = self.companion_manager();
        if manager.is_enabled() && self.options.companion.is_none() {
            let companion = manager.start();
            self.options.companion = Some(companion);
        }
        self
    }

    /// Returns all extensions, including inactive ones. The first call reads them and blocks.
    pub fn extensions(&self) -> Arc<Extensions> {
        self.extension_manager().extensions()
    }

    /// Returns the library of stored sessions.
    pub fn session_library(&self) -> SessionLibrary<'_> {
        SessionLibrary {
            is_exact: self.options.exact_session,
            config: &self.config,
            directory: &self.options.directory,
            highlighter: self.options.highlighter,
            interactive: self.options.interactive,
            ephemeral: self.options.ephemeral,
        }
    }

    /// Returns where sessions are stored and with which keys.
    pub fn dirs(&self) -> parallax_store::SessionDirs {
        parallax_sessions::encrypted_sessions::dirs(&self.config)
    }
}
