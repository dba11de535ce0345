//! Checks of the user's setup: settings, credentials, trust, the sandbox, the editor, and MCP
//! servers.

use std::time::Duration;

use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_sandbox::{Support, Tier};

use crate::{CheckStatus, DoctorCheck, machine};
use parallax_sdk::ProbeState;
use parallax_sdk::SessionConfig;
use parallax_sdk::credential::{Credential, CredentialSource, method_name};
use parallax_sdk::provider_credentials::KeySource;

/// How long all MCP servers together may take to start.
const SERVERS_LIMIT: Duration = Duration::from_secs(15);

/// Runs the checks that need no network. Blocking.
pub(crate) fn checks(launch: &SessionConfig) -> Vec<DoctorCheck> {
    let mut checks = vec![settings(launch), trust(launch), credentials(launch)];
    checks.extend(other_keys(launch));
    checks.push(sandbox(launch));
    checks.extend(companion(launch));
    checks
}

fn settings(launch: &SessionConfig) -> DoctorCheck {
    let check = |status, detail| DoctorCheck::new("settings", status, "Settings", detail);
    let mut warnings = launch.warnings.clone();
    warnings.extend(launch.extensions().warnings.iter().cloned());
    match warnings.is_empty() {
        true => check(CheckStatus::Ok, "no problems".to_owned()),
        false => {
            check(CheckStatus::Warning, warnings.join("\n")).with_fix("Correct the listed files.")
        }
    }
}

fn trust(launch: &SessionConfig) -> DoctorCheck {
    let check = |status, detail| DoctorCheck::new("trust", status, "Trust", detail);
    let directory = launch.directory().display();
    match launch.is_trusted() {
        true => check(CheckStatus::Ok, format!("{directory} is trusted")),
        false => check(
            CheckStatus::Warning,
            format!("{directory} is not trusted: its settings and commands are not used"),
        )
        .with_fix("Trust it with `parallax trust add`."),
    }
}

fn credentials(launch: &SessionConfig) -> DoctorCheck {
    let check = |status, detail| DoctorCheck::new("credentials", status, "Credentials", detail);
    let model = launch.model_name();
    match launch.provider_manager().credential() {
        Credential::Found { method, source } => {
            let source_text = match source {
                CredentialSource::Environment => "from the environment",
                CredentialSource::Stored => "stored",
            };
            let detail = format!("{}, {source_text}, for the model `{model}`", method_name(method));
            check(CheckStatus::Ok, detail)
        }
        Credential::NotNeeded => check(CheckStatus::Ok, format!("`{model}` needs none")),
        Credential::Missing { reason } => {
            let table = launch.provider_manager().model_table();
            let name = table.resolve(&model);
            let remedy = match table.providers().split(&name) {
                Some((provider, _)) => {
                    format!("Store a key with `parallax auth add {}`.", provider.name)
                }
                None => "Store a key with `parallax auth add gemini`, or set `GEMINI_API_KEY`."
                    .to_owned(),
            };
            check(CheckStatus::Error, reason).with_fix(remedy)
        }
    }
}

/// Lists the providers with available keys, by name only.
fn other_keys(launch: &SessionConfig) -> Option<DoctorCheck> {
    let found =
        launch.provider_manager().provider_credentials().ok()?.into_iter().filter_map(|it| {
            let source_text = match it.source {
                KeySource::Variable(name) => format!("`{name}`"),
                KeySource::Command => "a command".to_owned(),
                KeySource::Stored => "stored".to_owned(),
                KeySource::Missing | KeySource::NotNeeded | KeySource::Project => return None,
            };
            Some(format!("{} ({source_text})", it.provider))
        });
    let found: Vec<String> = found.collect();
    let info = CheckStatus::Info;
    let detail = found.join(", ");
    (!found.is_empty()).then(|| DoctorCheck::new("providers", info, "Other keys", detail))
}

fn sandbox(launch: &SessionConfig) -> DoctorCheck {
    let check = |status, detail: String| DoctorCheck::new("sandbox", status, "Sandbox", detail);
    let words = parallax_sdk::about::sandbox_words(launch);
    match launch.sandbox {
        ProgramSandbox::Container(engine) if !is_installed(launch, engine.program()) => {
            let program = engine.program();
            return check(
                CheckStatus::Error,
                format!("it requires `{program}`, which is not in `PATH`"),
            )
            .with_fix(format!(
                "Install {program}, or choose another sandbox with `tools.sandbox` (in \
                     settings.json) or `GEMINI_SANDBOX`; `true` is the built-in one."
            ));
        }
        ProgramSandbox::Container(_) | ProgramSandbox::Seatbelt => {
            return check(CheckStatus::Ok, format!("commands run in {words}"));
        }
        _ if words == "off" => {
            return check(
                CheckStatus::Warning,
                "it is off: commands have all your permissions".into(),
            )
            .with_fix("Set `security.sandbox.enabled` to true, or use `--sandbox`.");
        }
        _ => {}
    }
    let support = match Support::probe() {
        Ok(support) => support,
        Err(error) => {
            return check(CheckStatus::Warning, error.to_string()).with_fix(
                "Mount `/proc` and allow Parallax to start programs: the sandbox needs both.",
            );
        }
    };
    let unprivileged = "Allow unprivileged user namespaces \
        (`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` or \
        `kernel.unprivileged_userns_clone=1`), or install bubblewrap.";
    match support.tier() {
        Tier::Namespaces | Tier::Best => {
            check(CheckStatus::Ok, "namespaces: files, network, and processes".to_owned())
        }
        Tier::Bubblewrap => check(CheckStatus::Ok, "bubblewrap".to_owned()),
        Tier::Landlock => check(
            CheckStatus::Warning,
            format!("Landlock only, since namespaces do not work: {}", support.namespaces.detail),
        )
        .with_fix(unprivileged),
        Tier::Seccomp => check(
            CheckStatus::Warning,
            "seccomp only: commands can read and write your files".to_owned(),
        )
        .with_fix(unprivileged),
        Tier::Nothing => check(
            CheckStatus::Warning,
            "none on this machine: commands have all your permissions".to_owned(),
        )
        .with_fix(unprivileged),
    }
}

fn is_installed(launch: &SessionConfig, program: &str) -> bool {
    machine::find_in_path(&launch.config().environment, program).is_some()
}

/// Checks the connection to the editor, if it is enabled.
fn companion(launch: &SessionConfig) -> Option<DoctorCheck> {
    let check = |status, detail: String| DoctorCheck::new("ide", status, "Editor", detail);
    if !launch.companion_manager().is_enabled() {
        return None;
    }
    let diagnosis = launch.companion_manager().diagnose().ok()?;
    Some(match diagnosis.is_reachable {
        true => check(CheckStatus::Ok, "the companion extension can be reached".to_owned()),
        false => check(CheckStatus::Warning, "no companion extension can be reached".to_owned())
            .with_fix(diagnosis.fix),
    })
}

/// Probes the MCP servers.
pub(crate) async fn servers(launch: &SessionConfig) -> Vec<DoctorCheck> {
    let probing = tokio::time::timeout(SERVERS_LIMIT, launch.mcp_manager().probe()).await;
    let entries = launch.mcp_manager().servers().errors;
    let unusable = entries.iter().map(|error| {
        let id = format!("mcp.{}", error.name);
        let title = format!("MCP server {}", error.name);
        DoctorCheck::new(&id, CheckStatus::Error, &title, error.reason.clone())
            .with_fix(format!("Correct or remove the entry `mcpServers.{}`.", error.name))
    });
    let Ok((probes, _)) = probing else {
        let reason = format!("a server did not respond within {} s", SERVERS_LIMIT.as_secs());
        return vec![
            DoctorCheck::new("mcp", CheckStatus::Error, "MCP servers", reason)
                .with_fix("`parallax mcp list` shows which one; lower its `timeout`."),
        ];
    };
    let is_trusted = launch.is_trusted();
    let check = |probe: parallax_sdk::McpProbe| {
        let name = probe.server.name.clone();
        let of = |status, detail: String| {
            DoctorCheck::new(&format!("mcp.{name}"), status, &format!("MCP server {name}"), detail)
        };
        match probe.state {
            ProbeState::Connected => of(CheckStatus::Ok, format!("{} tools", probe.tools)),
            ProbeState::Disabled if !is_trusted => of(
                CheckStatus::Skipped,
                "not checked, because the directory is not trusted".to_owned(),
            ),
            ProbeState::Disabled => of(CheckStatus::Skipped, "it is disabled".to_owned()),
            ProbeState::Blocked => of(CheckStatus::Skipped, "the settings block it".to_owned()),
            ProbeState::NeedsSignIn => {
                of(CheckStatus::Warning, "it requires authentication".to_owned())
                    .with_fix(format!("Run `parallax mcp auth {name}`."))
            }
            ProbeState::Disconnected => {
                let reason = probe.error.map(|error| error.to_string());
                let reason = reason.unwrap_or_else(|| "it does not respond".to_owned());
                of(CheckStatus::Error, reason).with_fix(format!(
                    "Correct the entry `mcpServers.{name}`, or disable it with \
                     `parallax mcp disable {name}`."
                ))
            }
        }
    };
    probes.into_iter().map(check).chain(unusable).collect()
}
