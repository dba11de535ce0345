//! `parallax sandbox`: shows the sandbox state of this machine, and runs a command in the sandbox.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parallax_headless::{ExitCode, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_sandbox::{MechanismSupport, Support, Tier};
use parallax_sdk::{LaunchOptions, SessionConfig};

use crate::arguments::SandboxAction;
use crate::extension_commands::warn;
use crate::session_flags::SessionFlags;
use crate::start;

/// The result: text to print, or a command that ran.
pub(crate) enum SandboxResult {
    /// A text.
    Text(String),
    /// The exit code of a command.
    Exited(ExitCode),
}

/// Runs the subcommand.
///
/// # Errors
/// Returns an error if the sandbox cannot be inspected or built.
pub(crate) fn run(action: SandboxAction) -> Result<SandboxResult, Failure> {
    match action {
        SandboxAction::Explain { json } => explain(json).map(SandboxResult::Text),
        SandboxAction::Run { mode, network, host_loopback, write, read, command } => {
            let options =
                LaunchOptions { is_read_only: true, ..start::options(&SessionFlags::default())? };
            let directory = options.directory.clone();
            let real_paths = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
                paths.iter().map(|path| real_path(&directory.join(path))).collect()
            };
            let permissions = Permissions {
                network,
                host_loopback,
                file_system: FilePermissions { read: real_paths(read), write: real_paths(write) },
                ..Permissions::default()
            };
            let launch = SessionConfig::prepare(options)?;
            warn(&launch.warnings);
            warn(&launch.policy_sources().sandbox_table().1);
            let (code, reverted) =
                parallax_sdk::sandboxed_command(&launch, command, mode, &permissions)?.run()?;
            // A failed write to stderr cannot be reported.
            for path in &reverted.restored {
                let path = one_line(&path.to_string_lossy());
                let _ = writeln!(io::stderr(), "Restored protected path: {path}");
            }
            if !reverted.restored.is_empty() {
                let _ = writeln!(
                    io::stderr(),
                    "The replaced contents are saved: if you made the change yourself, run \
                     `parallax undo --redo` to reapply it"
                );
            }
            for (path, reason) in reverted.unrestored {
                let (path, reason) = (one_line(&path.to_string_lossy()), one_line(&reason));
                let _ =
                    writeln!(io::stderr(), "Failed to restore protected path: {path} ({reason})");
            }
            for (path, reason) in reverted.unsearched {
                let (path, reason) = (one_line(&path.to_string_lossy()), one_line(&reason));
                let _ = writeln!(
                    io::stderr(),
                    "Could not check for protected files: {path} ({reason})"
                );
            }
            for path in reverted.set_id {
                let path = one_line(&path.to_string_lossy());
                let _ = writeln!(io::stderr(), "Removed set-ID bits of changed program: {path}");
            }
            Ok(SandboxResult::Exited(ExitCode(code)))
        }
    }
}

fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn explain(json: bool) -> Result<String, Failure> {
    let support = Support::probe().map_err(|error| Failure {
        kind: FailureKind::Sandbox,
        message: error.to_string(),
        status: None,
    })?;
    let findings = [
        ("landlock", "Landlock", &support.landlock),
        ("seccomp", "Seccomp", &support.seccomp),
        ("gate", "Network access without local servers", &support.network_broker),
        ("namespaces", "Namespaces", &support.namespaces),
        ("mounts", "Private view of the file system", &support.mounts),
        ("ownProc", "Private /proc", &support.own_proc),
        ("overlay", "Private package caches", &support.overlay),
        ("bubblewrap", "bubblewrap", &support.bubblewrap),
    ];
    let tier = match std::env::var("PARALLAX_SANDBOX_TIER").as_deref() {
        Ok("bubblewrap") => Tier::Bubblewrap.max(support.tier()),
        Ok("landlock") => Tier::Landlock.max(support.tier()),
        Ok("seccomp") => Tier::Seccomp.max(support.tier()),
        _ => support.tier(),
    };
    if json {
        let mut object = serde_json::Map::new();
        object.insert("tier".into(), word(tier).into());
        for (key, _, finding) in findings {
            let value = serde_json::json!({"works": finding.is_supported, "why": finding.detail});
            object.insert(key.into(), value);
        }
        return Ok(json_document(&object));
    }
    let mut text = format!("Sandbox for the agent's commands: {}\n\n", tier_sentence(tier));
    for (key, name, MechanismSupport { is_supported, detail }) in findings {
        let mark = if *is_supported { "yes" } else { "no " };
        let unused = *is_supported && is_unused(key, tier);
        let reason = match (detail.is_empty(), unused) {
            (_, true) => ": available, but not used because of PARALLAX_SANDBOX_TIER".to_owned(),
            (true, false) => String::new(),
            (false, false) => format!(": {detail}"),
        };
        let _ = writeln!(text, "  {mark}  {name}{reason}");
    }
    text.push('\n');
    for line in tier_guarantees(tier) {
        let _ = writeln!(text, "{line}");
    }
    if tier <= Tier::Landlock {
        let _ = writeln!(text, "{}", servers(support.network_broker.is_supported));
    }
    if tier == Tier::Landlock && !support.network_broker.is_supported {
        let _ = writeln!(
            text,
            "Limit: owners, modes, and times of your files outside the workspace can be changed."
        );
    }
    Ok(text)
}

/// Whether a feature is available but not used at the requested tier.
fn is_unused(finding: &str, tier: Tier) -> bool {
    match finding {
        "namespaces" | "mounts" | "ownProc" | "overlay" => tier > Tier::Namespaces,
        "bubblewrap" => tier > Tier::Bubblewrap,
        "landlock" | "gate" => tier > Tier::Landlock,
        _ => false,
    }
}

fn servers(apart: bool) -> &'static str {
    if apart {
        "Local servers: require a separate permission, independent of the network."
    } else {
        "Limit: a permission for the network also covers servers on this machine, and vice versa."
    }
}

fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Best | Tier::Namespaces => "namespaces",
        Tier::Bubblewrap => "bubblewrap",
        Tier::Landlock => "landlock",
        Tier::Seccomp => "seccomp",
        Tier::Nothing => "nothing",
    }
}

fn tier_sentence(tier: Tier) -> &'static str {
    match tier {
        Tier::Best | Tier::Namespaces => "namespaces, Landlock, and seccomp",
        Tier::Bubblewrap => "namespaces created by `bwrap`, Landlock, and seccomp",
        Tier::Landlock => "Landlock and seccomp",
        Tier::Seccomp => "seccomp only",
        Tier::Nothing => "none",
    }
}

/// Returns the guarantees of a tier.
fn tier_guarantees(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::Best | Tier::Namespaces => &[
            "Writes: only the workspace without its protected paths, and a private temporary \
             directory.",
            "Hidden: keys, tokens, and `.env` files cannot be read by any program.",
            "Network: isolated; the host network only if a mode, rule, or approval allows it.",
            "Processes: no process started by a command outlives the session.",
        ],
        Tier::Bubblewrap => &[
            "Mechanism: this program cannot create namespaces here, but `bwrap` can; Landlock and \
             seccomp are added.",
            "Writes: only the workspace without its protected paths, and a private temporary \
             directory.",
            "Hidden: keys, tokens, and `.env` files cannot be read.",
            "Network: a loopback interface per command; the host network only if a mode, rule, or \
             approval allows it.",
            "Limit: background processes end with their command, other commands cannot reach \
             their servers, and package caches are read-only.",
        ],
        Tier::Landlock => &[
            "Writes: only the workspace and a private temporary directory. Protected paths in the \
             workspace are writable, and are restored after each command.",
            "Hidden: keys and tokens in the home directory cannot be read; `.env` files in the \
             workspace can.",
            "Network: no network or Unix sockets unless the network is allowed.",
            "Processes: those of the session end with it; other processes of the user are visible.",
        ],
        Tier::Seccomp => {
            &["Writes outside the workspace and access to hidden files cannot be blocked here. \
               Commands therefore require approval to run outside the sandbox, unless \
               `security.toolSandboxing` is `false`."]
        }
        Tier::Nothing => {
            &["No sandbox is available here. Commands therefore require approval to run outside \
               the sandbox, unless `security.toolSandboxing` is `false`."]
        }
    }
}
