//! Finds out what is wrong on this machine, and says what to do: the home directory, settings,
//! credentials, the network path to the model, the sandbox, MCP servers, and the editor.

mod machine;
mod network;
mod setup;

use schemars::JsonSchema;
use serde::Serialize;

use crate::launch::{Launch, LaunchOptions};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// It works.
    Ok,
    /// A fact, neither good nor bad.
    Info,
    /// It was not checked, because another check failed or it is switched off.
    Skipped,
    /// It works, but not as well as it could.
    Warning,
    /// It does not work.
    Error,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorCheck {
    /// Its name for programs, for example `network.dns`.
    pub id: String,
    /// How it came out.
    pub status: CheckStatus,
    /// The name that is shown.
    pub title: String,
    /// What was found.
    pub detail: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl DoctorCheck {
    fn new(id: &str, status: CheckStatus, title: &str, detail: impl Into<String>) -> Self {
        let (id, title, detail) = (id.to_owned(), title.to_owned(), detail.into());
        Self { id, status, title, detail, remedy: None }
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// What the checks found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// The version of the program.
    pub version: String,
    /// The operating system and the processor.
    pub platform: String,
    /// All checks, in the order in which they are shown.
    pub checks: Vec<DoctorCheck>,
}

impl DoctorReport {
    /// Whether something does not work.
    pub fn has_errors(&self) -> bool {
        self.checks.iter().any(|check| check.status == CheckStatus::Error)
    }
}

/// The JSON Schema of a [`DoctorReport`].
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(DoctorReport).to_value()
}

/// Checks everything. `name` is the name that the program was called by. Must run on a tokio
/// runtime.
pub async fn examine(options: LaunchOptions, name: &str) -> DoctorReport {
    let options = LaunchOptions { look_only: true, ..options };
    let version = options.version.to_owned();
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let (given, name) = (options.clone(), name.to_owned());
    let machine = tokio::task::spawn_blocking(move || machine::checks(&given, &name));
    let preparing = tokio::task::spawn_blocking(move || Launch::prepare(options));
    let mut checks = match machine.await {
        Ok(checks) => checks,
        Err(error) => vec![failed_check("machine", "Machine", &error.to_string())],
    };
    match preparing.await {
        Ok(Ok(launch)) => {
            let setting_up = launch.clone();
            let setup = tokio::task::spawn_blocking(move || setup::checks(&setting_up));
            let (setup, network, servers) =
                tokio::join!(setup, network::checks(&launch), setup::servers(&launch));
            checks.extend(
                setup.unwrap_or_else(|it| vec![failed_check("setup", "Setup", &it.to_string())]),
            );
            checks.extend(network);
            checks.extend(servers);
        }
        Ok(Err(failure)) => {
            checks.push(
                DoctorCheck::new("settings", CheckStatus::Error, "Settings", failure.message)
                    .with_remedy("Correct the file; everything that depends on it was skipped."),
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

/// A check that ended by a defect of ours.
fn failed_check(id: &str, title: &str, why: &str) -> DoctorCheck {
    DoctorCheck::new(id, CheckStatus::Error, title, format!("the check failed: {why}"))
}
