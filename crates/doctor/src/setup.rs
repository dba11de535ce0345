//! Checks of the user's setup: settings, credentials, trust, the sandbox, the editor, and MCP
//! servers.

use std::time::Duration;

use parallax_config::UnknownSetting;
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_sandbox::{Support, Tier};

use crate::{CheckStatus, DoctorCheck, machine};
use parallax_sdk::ProbeState;
use parallax_sdk::SessionConfig;
use parallax_sdk::credential::{Credential, CredentialSource, method_name};
use parallax_sdk::provider_credentials::KeySource;

/// How long all MCP servers together may take to start.
const SERVERS_LIMIT: Duration = Duration::from_secs(15);

/// How long a container engine may take to report its state, and how much of it is read.
const ENGINE_LIMIT: Duration = Duration::from_secs(10);
const ENGINE_OUTPUT: u64 = 1024 * 1024;

/// Runs the checks that need no network. Blocking.
pub(crate) fn checks(launch: &SessionConfig, interface: &[String]) -> Vec<DoctorCheck> {
    let mut checks = vec![settings(launch, interface)];
    checks.extend(unknown_settings(launch));
    checks.extend([trust(launch), credentials(launch)]);
    checks.extend(other_keys(launch));
    checks.push(sandbox(launch));
    checks.extend(policies(launch));
    checks.extend(hooks(launch));
    checks.extend(definitions(launch));
    checks.extend(companion(launch));
    checks
}

/// Finds settings without an effect, which may be misspelled.
fn unknown_settings(launch: &SessionConfig) -> Option<DoctorCheck> {
    let line = |unknown: UnknownSetting| match unknown.suggestion {
        Some(known) => format!("`{}` is not known; did you mean `{known}`?", unknown.key),
        None => format!("`{}` is not known", unknown.key),
    };
    let (misspelled, others): (Vec<_>, Vec<_>) = launch
        .config()
        .settings
        .unknown_settings()
        .into_iter()
        .partition(|unknown| unknown.suggestion.is_some());
    // Settings of other programs and versions in the same file are harmless.
    let status = match misspelled.is_empty() {
        true => CheckStatus::Info,
        false => CheckStatus::Warning,
    };
    let lines: Vec<String> = misspelled.into_iter().chain(others).map(line).collect();
    (!lines.is_empty()).then(|| {
        let check =
            DoctorCheck::new("settings.unknown", status, "Unknown settings", lines.join("\n"));
        check.with_fix("They have no effect: correct or remove them.")
    })
}

/// Reads the files that define commands, skills, and agents.
fn definitions(launch: &SessionConfig) -> Option<DoctorCheck> {
    let commands = parallax_commands::catalog(launch.config(), &launch.extensions());
    let (_, skills) = launch.skill_library().infos();
    let agents = launch.agent_library().agents();
    let mut problems: Vec<String> = commands
        .problems()
        .chain(commands.conflicts().iter().map(String::as_str))
        .map(str::to_owned)
        .collect();
    problems.extend(skills);
    problems.extend(agents.warnings.all().cloned());
    (!problems.is_empty()).then(|| {
        let title = "Commands, skills, agents";
        DoctorCheck::new("definitions", CheckStatus::Warning, title, problems.join("\n"))
            .with_fix("Correct the listed files.")
    })
}

/// Checks the rule files.
fn policies(launch: &SessionConfig) -> Option<DoctorCheck> {
    let check = |status, detail| DoctorCheck::new("policies", status, "Policies", detail);
    let (policy, mut problems) = parallax_sdk::policy(launch);
    if let Err(failure) = launch.policy_sources().require_rules(&policy) {
        return Some(
            check(CheckStatus::Error, failure.message)
                .with_fix("Without these rules, headless runs do not start: correct the file."),
        );
    }
    problems.extend(policy.problems().iter().map(ToString::to_string));
    problems.dedup();
    (!problems.is_empty()).then(|| {
        check(CheckStatus::Warning, problems.join("\n")).with_fix("Correct the listed files.")
    })
}

/// Finds hooks whose program does not exist: a hook that cannot start may block every prompt.
fn hooks(launch: &SessionConfig) -> Option<DoctorCheck> {
    let (hooks, _) = launch.hook_library().infos().ok()?;
    let active = hooks.into_iter().filter(|hook| hook.enabled && hook.accepted);
    let missing = active.filter_map(|hook| {
        let program = missing_program(launch, &hook.command)?;
        let (event, file) = (hook.event, hook.file.display());
        Some(format!("{event} ({file}): `{program}` was not found"))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| {
        DoctorCheck::new("hooks", CheckStatus::Error, "Hooks", missing.join("\n"))
            .with_fix("Install the program, correct the path, or remove the hook.")
    })
}

/// Returns the program of a command line, if it is certain that it does not exist: a plain word
/// that is neither a file nor a program, nor known to the shell.
fn missing_program(launch: &SessionConfig, command: &str) -> Option<String> {
    const OF_THE_SHELL: [&str; 14] = [
        "cd", "command", "echo", "eval", "exec", "exit", "export", "printf", "read", "set",
        "source", "test", "true", "false",
    ];
    let word = command.split_whitespace().next()?;
    let is_plain = word.chars().all(|char| char.is_ascii_alphanumeric() || "/._-+@".contains(char));
    if !is_plain || OF_THE_SHELL.contains(&word) || word == "." {
        return None;
    }
    let exists = match word.contains('/') {
        true => launch.directory().join(word).exists(),
        false => is_installed(launch, word),
    };
    (!exists).then(|| word.to_owned())
}

fn settings(launch: &SessionConfig, interface: &[String]) -> DoctorCheck {
    let check = |status, detail| DoctorCheck::new("settings", status, "Settings", detail);
    if let Err(failure) = launch.provider_manager().checked_model_table() {
        return check(CheckStatus::Error, failure.message)
            .with_fix("Correct the setting: with it, a session cannot be opened.");
    }
    let mut warnings = launch.warnings.clone();
    warnings.extend(launch.extensions().warnings.iter().cloned());
    warnings.extend(interface.iter().cloned());
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
                None => gemini_remedy(launch),
            };
            check(CheckStatus::Error, reason).with_fix(remedy)
        }
    }
}

/// Returns the remedy for the configured authentication method, for which a key alone may not be
/// enough.
fn gemini_remedy(launch: &SessionConfig) -> String {
    let settings = &launch.config().settings;
    let key = "store a key with `parallax auth add gemini`, or set `GEMINI_API_KEY`";
    let method = ["security.auth.enforcedType", "security.auth.selectedType"]
        .into_iter()
        .find_map(|name| Some((name, settings.text(name).filter(|it| !it.is_empty())?)));
    let variable = |name: &str| launch.config().environment.get(name).is_some();
    let uses_vertex = method.as_ref().is_some_and(|(_, method)| method == "vertex-ai")
        || method.is_none() && variable("GOOGLE_GENAI_USE_VERTEXAI");
    match method {
        _ if uses_vertex => {
            "For Vertex AI, set `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION`, \
             and sign in with `gcloud auth application-default login` or a service account \
             (`GOOGLE_APPLICATION_CREDENTIALS`)."
                .to_owned()
        }
        Some((name, method)) if method != "gemini-api-key" => {
            format!("Set `{name}` (now `{method}`) to `gemini-api-key`, and {key}.")
        }
        _ => format!(
            "{}{}.",
            key.get(..1).unwrap_or_default().to_uppercase(),
            key.get(1..).unwrap_or_default()
        ),
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
    let words = parallax_sdk::about::describe_sandbox(launch);
    match launch.sandbox {
        ProgramSandbox::Container(engine) if !is_installed(launch, engine.program()) => {
            let program = engine.program();
            return check(
                CheckStatus::Error,
                format!("it requires `{program}`, which is not on `PATH`"),
            )
            .with_fix(format!(
                "Install {program}, or choose another sandbox with `tools.sandbox` (in \
                     settings.json) or `GEMINI_SANDBOX`; `true` is the built-in one."
            ));
        }
        ProgramSandbox::Container(engine) => {
            let program = engine.program();
            let planned = parallax_sdk::sandboxed_program(launch, Vec::new(), false);
            if let Err(failure) = planned {
                return check(CheckStatus::Error, failure.message).with_fix(
                    "Correct the setting, or choose another sandbox with `tools.sandbox` or \
                     `GEMINI_SANDBOX`; `true` is the built-in one.",
                );
            }
            return match engine_problem(launch, program) {
                None => check(CheckStatus::Ok, format!("commands run in {words}")),
                Some(problem) => {
                    check(CheckStatus::Error, format!("`{program}` cannot be used: {problem}"))
                        .with_fix(format!(
                            "Start {program} and check that you may use it (`{program} info`), \
                             or choose another sandbox with `GEMINI_SANDBOX`."
                        ))
                }
            };
        }
        ProgramSandbox::Seatbelt => {
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
    // The limit of namespaces is reported as a full disk.
    let is_limited = support.namespaces.detail.contains("No space left on device");
    let unprivileged = if is_limited {
        "Allow user namespaces (`sysctl -w user.max_user_namespaces=15000`), or install bubblewrap."
    } else {
        UNPRIVILEGED
    };
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

/// The remedy if the kernel or its security module blocks namespaces.
const UNPRIVILEGED: &str = "Allow unprivileged user namespaces \
        (`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` or \
        `kernel.unprivileged_userns_clone=1`), or install bubblewrap.";

/// Asks a container engine for its state, and returns why it cannot be used.
fn engine_problem(launch: &SessionConfig, program: &str) -> Option<String> {
    let variables = &launch.options().variables;
    let info = parallax_exec::program::capture(
        program,
        ["info"],
        launch.directory(),
        variables,
        ENGINE_OUTPUT,
        ENGINE_LIMIT,
    );
    match info {
        Ok(output) if output.succeeded => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            Some(line.unwrap_or("it does not respond").to_owned())
        }
        Err(error) => Some(error.to_string()),
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
    let probe_result = tokio::time::timeout(SERVERS_LIMIT, launch.mcp_manager().probe()).await;
    let entries = launch.mcp_manager().servers().errors;
    let unusable = entries.iter().map(|error| {
        let id = format!("mcp.{}", error.name);
        let title = format!("MCP server {}", error.name);
        DoctorCheck::new(&id, CheckStatus::Error, &title, error.reason.clone())
            .with_fix(format!("Correct or remove the entry `mcpServers.{}`.", error.name))
    });
    let Ok((probes, _)) = probe_result else {
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
