//! Data for `/about`, `/tools`, `/policies`, `/model`, and `/privacy`.

use std::sync::Arc;

use parallax_config::ToolSandboxing;
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_models::{ModelTable, Providers};
use parallax_policy::Rule;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::{ApprovalMode, Decision};
use parallax_protocol::tool::ToolKind;
use parallax_sandbox::{Support, Tier};

use crate::credential::{Credential, method_name};
use crate::discovered_models;
use crate::launch::{Launch, failure};
use crate::open::OpenSession;

pub use parallax_models::ModelChoice;

/// Text of `/memory inbox`.
pub const INBOX: &str = "No memory suggestions: Parallax does not extract memories from earlier \
    sessions. `/memory add TEXT` saves a fact.";

/// Explains which data is sent where.
pub const PRIVACY: &str = include_str!("../prompts/privacy.md");

/// Facts about the running program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Version of the program.
    pub version: String,
    /// The commit it was built from, if the build set `PARALLAX_COMMIT`.
    pub commit: Option<&'static str>,
    /// The requested model and the model it resolves to.
    pub model: (String, String),
    /// What confines commands.
    pub sandbox: String,
    /// Operating system and processor architecture.
    pub os: String,
    /// The authentication method.
    pub auth: String,
}

/// A tool in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRow {
    /// The name that the model calls.
    pub name: String,
    /// The name shown to the user.
    pub display_name: String,
    /// The description for the model.
    pub description: String,
    /// The kind of tool.
    pub kind: ToolKind,
}

/// A policy rule in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    /// Its priority, for display.
    pub priority: String,
    /// Its decision.
    pub decision: Decision,
    /// The rule with its source and location.
    pub rule: String,
}

impl Launch {
    /// Returns the facts. Blocking: probes the kernel for a few milliseconds.
    pub fn about(&self) -> About {
        let model = self.model_name();
        let resolved = self.model_table().resolve(&model);
        About {
            version: self.options.version.to_owned(),
            commit: option_env!("PARALLAX_COMMIT").filter(|commit| !commit.is_empty()),
            model: (model, resolved),
            sandbox: self.sandbox_words(),
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            auth: match self.credential() {
                Credential::Found { method, .. } => method_name(method).to_owned(),
                Credential::NotNeeded => "none needed (scripted)".to_owned(),
                Credential::Missing { .. } => "none".to_owned(),
            },
        }
    }

    /// Describes in a few words what confines commands. Blocking: probes the kernel for a few
    /// milliseconds.
    pub fn sandbox_words(&self) -> String {
        match self.sandbox {
            ProgramSandbox::Off => return "off".to_owned(),
            ProgramSandbox::Container(engine) => return engine.program().to_owned(),
            ProgramSandbox::Seatbelt => return "Seatbelt".to_owned(),
            ProgramSandbox::Unsaid | ProgramSandbox::BuiltIn => {}
        }
        if self.config.environment.of_process("SANDBOX").is_some() {
            return "Parallax runs in a sandbox".to_owned();
        }
        let off = self.sandbox == ProgramSandbox::Unsaid
            && self.config.settings.sandbox().tools == ToolSandboxing::Off;
        if off || !self.options.supervises {
            return "off".to_owned();
        }
        match Support::probe().map(|support| support.tier()) {
            Ok(Tier::Namespaces | Tier::Best) => "namespaces",
            Ok(Tier::Bubblewrap) => "bubblewrap",
            Ok(Tier::Landlock) => "Landlock",
            Ok(Tier::Seccomp) => "seccomp only",
            Ok(Tier::Nothing) | Err(_) => "none on this machine",
        }
        .to_owned()
    }

    /// Returns the models for the model dialog, built-in names first.
    pub fn model_choices(&self) -> Vec<ModelChoice> {
        self.model_table().choices()
    }

    /// Returns a warning about a model name that this version does not know.
    pub fn model_doubt(&self, name: &str) -> Option<String> {
        let table = self.model_table();
        if table.is_known_name(name) {
            return None;
        }
        let choices = table.choices();
        let near = parallax_config::near(name, choices.iter().map(|choice| choice.name.as_str()));
        let near: Vec<String> = near.into_iter().map(|name| format!("`{name}`")).collect();
        let meant = match near.is_empty() {
            true => String::new(),
            false => format!(" (near it: {})", near.join(", ")),
        };
        let price = match table.price(&table.resolve(name)) {
            Some(_) => "",
            None => "; its price is unknown and not included in the cost",
        };
        Some(format!(
            "Unknown model `{name}`{meant}. It is requested as is, because the service or a \
             gateway may provide it{price}."
        ))
    }

    /// Returns the size of the model's context window in tokens.
    pub fn context_window(&self, model: &str) -> u64 {
        let table = self.model_table();
        table.limits(&table.resolve(model)).context
    }

    /// Returns the model table with additions from settings.
    pub fn model_table(&self) -> ModelTable {
        // A launch with invalid model settings cannot be opened.
        self.checked_model_table().unwrap_or_default()
    }

    /// Returns the model table with the providers of the settings.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub(crate) fn checked_model_table(&self) -> Result<ModelTable, Failure> {
        let settings = &self.config.settings;
        let table = settings
            .model_configs()
            .map_or_else(|| Ok(ModelTable::default()), crate::model::table)?;
        // A project's variables must not change where the user's API keys are sent.
        let env = |name: &str| self.config.user_variable(name).map(str::to_owned);
        let providers = Providers::from_settings(settings.providers(), &env)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        let (providers, homes) = (Arc::new(providers), self.config.homes.clone());
        let of = Arc::clone(&providers);
        let stored = Arc::new(move || discovered_models::read(&homes, &of));
        let table = table.with_max_attempts(settings.max_attempts()).with_providers(providers);
        Ok(table.with_discovered(stored))
    }

    /// Returns the policy rules by mode, highest priority first: those for all modes under `None`,
    /// then those for single modes. Blocking.
    pub fn rule_rows(&self) -> Vec<(Option<ApprovalMode>, Vec<RuleRow>)> {
        use ApprovalMode::{AutoEdit, Default, Plan, Yolo};
        let (policy, _) = self.policy();
        let rows = |mode: Option<ApprovalMode>| -> Vec<RuleRow> {
            let fits = |rule: &&Rule| match mode {
                None => rule.conditions.modes.is_empty(),
                Some(mode) => rule.conditions.modes.contains(&mode),
            };
            let row = |rule: &Rule| RuleRow {
                priority: rule.priority.to_string(),
                decision: rule.decision,
                rule: rule.label(),
            };
            policy.rules().filter(fits).map(row).collect()
        };
        let groups = [None, Some(Default), Some(AutoEdit), Some(Plan), Some(Yolo)];
        let groups = groups.into_iter().map(|mode| (mode, rows(mode)));
        groups.filter(|(_, rows)| !rows.is_empty()).collect()
    }
}

impl OpenSession {
    /// Returns the tools in the order in which they are declared to the model.
    pub fn tools(&self) -> Vec<ToolRow> {
        let tools = self.toolbox.tools();
        let row = |spec: &parallax_protocol::tool::ToolSpec| ToolRow {
            name: spec.name.clone(),
            display_name: spec.display_name.clone(),
            description: spec.description.clone(),
            kind: spec.kind,
        };
        tools.iter().map(|tool| row(tool.spec())).collect()
    }
}
