//! `parallax sandbox`: what holds here, and a command run in it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parallax_headless::{ExitCode, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_sandbox::{Finding, Support, Tier};
use parallax_sdk::{Launch, LaunchOptions};

use crate::arguments::SandboxAction;
use crate::extending::warn;
use crate::invocation::Settings;
use crate::start;

/// What was done: a text to print, or a command that ran.
pub(crate) enum Done {
    /// A text.
    Said(String),
    /// A command, with its exit code.
    Ran(ExitCode),
}

/// Does what the words say.
///
/// # Errors
/// When the sandbox cannot be looked at or built.
pub(crate) fn run(action: SandboxAction) -> Result<Done, Failure> {
    match action {
        SandboxAction::Explain { json } => explain(json).map(Done::Said),
        SandboxAction::Run { mode, network, host_loopback, write, read, command } => {
            let options =
                LaunchOptions { look_only: true, ..start::options(&Settings::default())? };
            let here = options.directory.clone();
            let real = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
                paths.iter().map(|path| real(&here.join(path))).collect()
            };
            let permissions = Permissions {
                network,
                host_loopback,
                file_system: FilePermissions { read: real(read), write: real(write) },
                ..Permissions::default()
            };
            let launch = Launch::prepare(options)?;
            warn(&launch.warnings);
            warn(&launch.sandbox_table().1);
            let (code, put_back) = launch.sandboxed(command, mode, &permissions)?.run()?;
            // With stderr gone nobody is there to be told.
            for path in put_back.restored {
                let path = one_line(&path.to_string_lossy());
                let _ = writeln!(io::stderr(), "put back, since it is protected: {path}");
            }
            for (path, why) in put_back.lost {
                let (path, why) = (one_line(&path.to_string_lossy()), one_line(&why));
                let _ = writeln!(io::stderr(), "protected, but not put back: {path} ({why})");
            }
            Ok(Done::Ran(ExitCode(code)))
        }
    }
}

fn real(path: &Path) -> PathBuf {
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
        ("gate", "Network apart from this machine's servers", &support.gate),
        ("namespaces", "Namespaces", &support.namespaces),
        ("mounts", "Own view of the disk", &support.mounts),
        ("ownProc", "Own /proc", &support.own_proc),
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
            let value = serde_json::json!({"works": finding.works, "why": finding.why});
            object.insert(key.into(), value);
        }
        return Ok(json_document(&object));
    }
    let mut text = format!("Commands of the agent run in: {}\n\n", sentence(tier));
    for (key, name, Finding { works, why }) in findings {
        let mark = if *works { "yes" } else { "no " };
        let unused = *works && is_unused(key, tier);
        let why = match (why.is_empty(), unused) {
            (_, true) => ": works, but is not used, as PARALLAX_SANDBOX_TIER asks".to_owned(),
            (true, false) => String::new(),
            (false, false) => format!(": {why}"),
        };
        let _ = writeln!(text, "  {mark}  {name}{why}");
    }
    text.push('\n');
    for line in holds(tier) {
        let _ = writeln!(text, "{line}");
    }
    if tier <= Tier::Landlock {
        let _ = writeln!(text, "{}", servers(support.gate.works));
    }
    if tier == Tier::Landlock && !support.gate.works {
        let _ = writeln!(
            text,
            "Weaker: owners, modes and times of your files elsewhere can be changed."
        );
    }
    Ok(text)
}

/// Whether what works is left out at a tier that was asked for.
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
        "Servers of this machine: a permission of their own, without and beside the network."
    } else {
        "Weaker: with the network given, servers of this machine are in reach as well, and the \
         other way round."
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

fn sentence(tier: Tier) -> &'static str {
    match tier {
        Tier::Best | Tier::Namespaces => "namespaces, Landlock and seccomp",
        Tier::Bubblewrap => "namespaces made by `bwrap`, Landlock and seccomp",
        Tier::Landlock => "Landlock and seccomp",
        Tier::Seccomp => "seccomp alone",
        Tier::Nothing => "no sandbox",
    }
}

/// What a person may count on.
fn holds(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::Best | Tier::Namespaces => &[
            "Writes: the workspace without its protected paths, and a private temporary folder.",
            "Hidden: keys, tokens and `.env` files are refused, whoever runs the program.",
            "Network: a network of its own; the machine's only where a mode, rule or answer gives it.",
            "Processes: nothing that a command starts outlives the session.",
        ],
        Tier::Bubblewrap => &[
            "Mechanism: this program may make no namespaces here, and `bwrap` may; Landlock and \
             seccomp come on top.",
            "Writes: the workspace without its protected paths, and a private temporary folder.",
            "Hidden: keys, tokens and `.env` files are refused.",
            "Network: a loopback for each command; the machine's only where a mode, rule or answer \
             gives it.",
            "Weaker: what a command leaves running ends with that command, no other command reaches \
             its servers, and package caches are read-only.",
        ],
        Tier::Landlock => &[
            "Writes: the workspace and a private temporary folder. Protected paths in the workspace \
             are put back after each command instead of being read-only.",
            "Hidden: keys and tokens of the home are refused; `.env` files of the workspace are not.",
            "Network: no sockets of the network, and no unix sockets, unless the network is given.",
            "Processes: those of the session are ended with it; others of the user stay visible.",
        ],
        Tier::Seccomp => &[
            "Writes outside and hidden files cannot be refused here, so commands do not run before \
             somebody lets each run outside the sandbox, or `security.toolSandboxing` is `false`.",
        ],
        Tier::Nothing => {
            &["Nothing can be confined here, so commands do not run before somebody lets each run \
             outside the sandbox, or `security.toolSandboxing` is `false`."]
        }
    }
}
