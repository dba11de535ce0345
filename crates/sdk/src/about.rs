//! Data for `/about`, `/tools`, `/policies`, `/model`, and `/privacy`.

use parallax_config::ToolSandboxing;
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_protocol::tool::ToolKind;
use parallax_sandbox::{Support, Tier};

use crate::credential::{Credential, method_name};
use crate::open::OpenSession;
use crate::session_config::SessionConfig;

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

impl About {
    /// Returns the facts. Blocking: probes the kernel for a few milliseconds.
    pub fn collect(launch: &SessionConfig) -> Self {
        let model = launch.model_name();
        let resolved = launch.provider_manager().resolved_model();
        Self {
            version: launch.options.version.to_owned(),
            commit: option_env!("PARALLAX_COMMIT").filter(|commit| !commit.is_empty()),
            model: (model, resolved),
            sandbox: describe_sandbox(launch),
            os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            auth: match launch.provider_manager().credential() {
                Credential::Found { method, .. } => method_name(method).to_owned(),
                Credential::NotNeeded => "none needed (scripted)".to_owned(),
                Credential::Missing { .. } => "none".to_owned(),
            },
        }
    }
}

/// Describes in a few words what confines commands. Blocking: probes the kernel for a few
/// milliseconds.
pub fn describe_sandbox(launch: &SessionConfig) -> String {
    match launch.sandbox {
        ProgramSandbox::Off => return "off".to_owned(),
        ProgramSandbox::Container(engine) => return engine.program().to_owned(),
        ProgramSandbox::Seatbelt => return "Seatbelt".to_owned(),
        ProgramSandbox::Unspecified | ProgramSandbox::BuiltIn => {}
    }
    if launch.config.environment.process_variable("SANDBOX").is_some() {
        return "Parallax runs in a sandbox".to_owned();
    }
    let off = launch.sandbox == ProgramSandbox::Unspecified
        && launch.config.settings.sandbox().tools == ToolSandboxing::Off;
    if off || !launch.options.calls_sandbox_main {
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
