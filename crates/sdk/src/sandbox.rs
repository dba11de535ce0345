//! The sandbox of commands, configured by settings, `sandbox.toml`, and flags.

use std::path::{Path, PathBuf};

use parallax_config::ToolSandboxing;
use parallax_engine::prompt::SandboxKind;
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_files::{HiddenFileTracker, real_path};
use parallax_policy_sources::home_folder;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sandbox::{Support, Tier};
use parallax_tools::SandboxOptions;
use parallax_tools::run_shell_command::GitDirectories;

use crate::home_directories::other_homes;
use crate::session_config::{SessionConfig, failure};

/// Returns the sandbox options for the commands of a session, or `None` if the program cannot
/// start itself again because another program embeds this library.
pub(crate) fn sandbox_options(launch: &SessionConfig, artifacts: &Path) -> Option<SandboxOptions> {
    if !launch.options.calls_sandbox_main {
        return None;
    }
    let settings = launch.config.settings.sandbox();
    let home = home_folder(&launch.config).unwrap_or_else(|| PathBuf::from("/nonexistent"));
    // The directories of a session may be created later, below a link.
    let real = |path: &Path| real_path(path).unwrap_or_else(|| path.to_owned());
    let paths = |paths: &[PathBuf]| -> Vec<PathBuf> {
        let full =
            paths.iter().map(|path| launch.options.directory.join(launch.config.expand_home(path)));
        full.map(|path| real(&path)).collect()
    };
    let (mut hidden, mut readable) = (paths(&settings.hidden), paths(&settings.readable));
    let dirs = launch.dirs();
    if !dirs.is_temporary_at_home() {
        // It also contains the directories of other sessions.
        hidden.push(real(&dirs.temporary));
        readable.push(real(artifacts));
    }
    let enabled = match launch.sandbox {
        ProgramSandbox::Off => false,
        ProgramSandbox::BuiltIn => true,
        _ => settings.tools != ToolSandboxing::Off,
    };
    Some(SandboxOptions {
        enabled,
        tier: sandbox_tier(launch),
        home: real(&home),
        parallax_home: real(&launch.config.dirs.parallax),
        other_home_directories: other_homes(
            &launch.config,
            &launch.options.directory,
            &real(&home),
        ),
        table: launch.policy_sources().sandbox_table().0,
        hidden,
        hidden_places: hidden_file_tracker(launch),
        git_directories: GitDirectories::default(),
        closed_names: launch.closed_names.clone(),
        worktree: parallax_worktrees::access(&launch.config.dirs, &launch.options.directory),
        hides_ignored: launch.config.settings.respect_gemini_ignore(),
        readable,
        writable: paths(&settings.writable),
        temporary: real(artifacts).join("sandbox"),
        overlays: real(artifacts).join("overlays"),
    })
}

/// Returns the record of the workspace files that were hidden so far, in this and earlier
/// sessions.
pub(crate) fn hidden_file_tracker(launch: &SessionConfig) -> HiddenFileTracker {
    let ours = &launch.config.dirs.parallax;
    let ours = std::fs::canonicalize(ours).unwrap_or_else(|_| ours.clone());
    let project = parallax_store::project_folder(&launch.options.directory);
    HiddenFileTracker::with_record(ours.join("hidden").join(project))
}

/// Returns the kind of sandbox for the system prompt. The machine is not probed before the
/// first command.
pub(crate) fn confinement(launch: &SessionConfig) -> SandboxKind {
    match launch.sandbox {
        ProgramSandbox::Container(_) => return SandboxKind::Container,
        ProgramSandbox::Seatbelt => return SandboxKind::Seatbelt,
        ProgramSandbox::Unspecified | ProgramSandbox::Off | ProgramSandbox::BuiltIn => {}
    }
    let tools = launch.config.settings.sandbox().tools;
    let commands = match launch.sandbox {
        ProgramSandbox::Off => false,
        ProgramSandbox::BuiltIn => true,
        _ => tools != ToolSandboxing::Off,
    };
    // Inside a sandbox, the program runs without the flag that requested it.
    match launch.config.environment.process_variable("SANDBOX") {
        Some("sandbox-exec") => SandboxKind::Seatbelt,
        Some(_) => SandboxKind::Container,
        None if commands && launch.options.calls_sandbox_main => SandboxKind::Commands,
        None => SandboxKind::None,
    }
}

/// Fails if a sandbox is required but not available. If none is required, nothing is probed
/// before the first command.
///
/// # Errors
/// Returns what is missing and what to do.
pub(crate) fn require(launch: &SessionConfig) -> Result<(), Failure> {
    let required = launch.sandbox == ProgramSandbox::BuiltIn
        || launch.config.settings.sandbox().tools == ToolSandboxing::Required;
    if !required || launch.sandbox == ProgramSandbox::Off || !launch.options.calls_sandbox_main {
        return Ok(());
    }
    let sandbox_failure = |reason: String| failure(FailureKind::Sandbox, reason);
    let support = Support::probe().map_err(|error| sandbox_failure(error.to_string()))?;
    match sandbox_tier(launch).max(support.tier()) {
        Tier::Nothing | Tier::Seccomp => Err(sandbox_failure(
            "a sandbox is required (`--sandbox` or `security.toolSandboxing`), but no sandbox \
             on this machine confines writes to the project: see `parallax sandbox explain`"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Returns the sandbox tier. The variable selects a weaker one for tests.
fn sandbox_tier(launch: &SessionConfig) -> Tier {
    match launch.config.environment.process_variable("PARALLAX_SANDBOX_TIER") {
        Some("namespaces") => Tier::Namespaces,
        Some("bubblewrap") => Tier::Bubblewrap,
        Some("landlock") => Tier::Landlock,
        Some("seccomp") => Tier::Seccomp,
        _ => Tier::Best,
    }
}
