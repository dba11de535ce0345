//! Diagnoses problems on this machine and suggests solutions: the home directory, settings,
//! credentials, the network path to the model, the sandbox, MCP servers, and the editor.

mod extensions;
mod machine;
mod network;
mod setup;

use parallax_protocol::event::FailureKind;
use parallax_sdk::{LaunchOptions, SessionConfig};
use schemars::JsonSchema;
use serde::Serialize;

pub use extensions::{ExtensionProblem, examine_extensions};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// It works.
    Ok,
    /// Information only.
    Info,
    /// Not checked, because another check failed or the feature is disabled.
    Skipped,
    /// It works, but with limitations.
    Warning,
    /// It does not work.
    Error,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorCheck {
    /// Identifier for programs, for example `network.dns`.
    pub id: String,
    /// Result of the check.
    pub status: CheckStatus,
    /// Displayed name.
    pub title: String,
    /// What was found.
    pub detail: String,
    /// How to solve the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl DoctorCheck {
    fn new(id: &str, status: CheckStatus, title: &str, detail: impl Into<String>) -> Self {
        let (id, title, detail) = (id.to_owned(), title.to_owned(), detail.into());
        Self { id, status, title, detail, remedy: None }
    }

    fn with_fix(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// Version of the program.
    pub version: String,
    /// Operating system and processor architecture.
    pub platform: String,
    /// All checks in display order.
    pub checks: Vec<DoctorCheck>,
}

impl DoctorReport {
    /// Returns whether a check failed.
    pub fn has_errors(&self) -> bool {
        self.checks.iter().any(|check| check.status == CheckStatus::Error)
    }
}

/// Returns the JSON Schema of a [`DoctorReport`].
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(DoctorReport).to_value()
}

/// Returns the report of a machine on which Parallax cannot start in the working directory.
pub fn without_directory(version: &str, reason: &str) -> DoctorReport {
    let check = DoctorCheck::new("directory", CheckStatus::Error, "Directory", reason)
        .with_fix("Change to a directory that exists, and run `parallax doctor` again.");
    DoctorReport { version: version.to_owned(), platform: platform(), checks: vec![check] }
}

fn platform() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Finds problems of settings that only the terminal interface interprets, one sentence each.
/// Blocking.
pub type InterfaceCheck = fn(&SessionConfig) -> Vec<String>;

/// Runs all checks. `name` is the name under which the program was called. Must be called on a
/// tokio runtime.
pub async fn examine(
    options: LaunchOptions,
    name: &str,
    interface: InterfaceCheck,
) -> DoctorReport {
    let options = LaunchOptions { is_read_only: true, ..options };
    let version = options.version.to_owned();
    let platform = platform();
    let (own_options, name) = (options.clone(), name.to_owned());
    let machine = tokio::task::spawn_blocking(move || machine::checks(&own_options, &name));
    let prepare_task = tokio::task::spawn_blocking(move || SessionConfig::prepare(options));
    let mut checks = match machine.await {
        Ok(checks) => checks,
        Err(error) => vec![failed_check("machine", "Machine", &error.to_string())],
    };
    match prepare_task.await {
        Ok(Ok(launch)) => {
            let setting_up = launch.clone();
            let setup = tokio::task::spawn_blocking(move || {
                setup::checks(&setting_up, &interface(&setting_up))
            });
            let (setup, network, servers) =
                tokio::join!(setup, network::checks(&launch), setup::servers(&launch));
            checks.extend(
                setup.unwrap_or_else(|it| vec![failed_check("setup", "Setup", &it.to_string())]),
            );
            checks.extend(network);
            checks.extend(servers);
        }
        Ok(Err(failure)) => {
            let no_home =
                checks.iter().any(|it| it.id == "home" && it.status == CheckStatus::Error);
            let remedy = match failure.kind {
                FailureKind::Sandbox => {
                    "Correct `GEMINI_SANDBOX` or `tools.sandbox`; everything else was skipped."
                }
                _ if no_home => "Correct the home directory first (see Home).",
                _ => "Correct the file; everything that depends on it was skipped.",
            };
            checks.push(
                DoctorCheck::new("settings", CheckStatus::Error, "Settings", failure.message)
                    .with_fix(remedy),
            );
            for (id, title) in [
                ("credentials", "Credentials"),
                ("network", "Network"),
                ("sandbox", "Sandbox"),
                ("mcp", "MCP servers"),
            ] {
                let detail = "not checked, because the settings cannot be read";
                checks.push(DoctorCheck::new(id, CheckStatus::Skipped, title, detail));
            }
        }
        Err(error) => checks.push(failed_check("settings", "Settings", &error.to_string())),
    }
    DoctorReport { version, platform, checks }
}

/// Creates the result of a check that panicked.
fn failed_check(id: &str, title: &str, reason: &str) -> DoctorCheck {
    DoctorCheck::new(id, CheckStatus::Error, title, format!("the check failed: {reason}"))
}
