//! The sandbox of commands, configured by settings, `sandbox.toml`, and flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_checkpoints::{self as checkpoints, Versions};
use parallax_config::ToolSandboxing;
use parallax_engine::prompt::SandboxKind;
use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_files::HiddenFileTracker;
use parallax_policy_sources::home_folder;
use parallax_protocol::checkpoint::{Change, Checkpoints as _, PutBack, Reach};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::Effects;
use parallax_sandbox::{Plan, Support, Tier};
use parallax_tools::SandboxOptions;
use parallax_tools::run_shell_command::{ClosedNames, GitDirectories};

use crate::launch::{Launch, failure};
use crate::toolbox;

/// Returns the sandbox options for the commands of a session, or `None` if the program cannot
/// start itself again because another program embeds this library.
pub(crate) fn sandbox_options(launch: &Launch, artifacts: &Path) -> Option<SandboxOptions> {
    if !launch.options.supervises {
        return None;
    }
    let settings = launch.config.settings.sandbox();
    let home = home_folder(&launch.config).unwrap_or_else(|| PathBuf::from("/nonexistent"));
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let paths = |paths: &[PathBuf]| -> Vec<PathBuf> {
        let full =
            paths.iter().map(|path| launch.options.directory.join(launch.config.expand_home(path)));
        full.map(|path| real(&path)).collect()
    };
    let (mut hidden, mut readable) = (paths(&settings.hidden), paths(&settings.readable));
    let homes = launch.homes();
    if !homes.is_temporary_at_home() {
        // It also contains the directories of other sessions.
        hidden.push(real(&homes.temporary));
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
        ours: real(&launch.config.homes.parallax),
        other_homes: other_homes(launch, &real(&home)),
        table: launch.policy_sources().sandbox_table().0,
        hidden,
        hidden_places: hidden_places(launch),
        git_directories: GitDirectories::default(),
        closed_names: ClosedNames::default(),
        worktree: parallax_worktrees::access(&launch.config.homes, &launch.options.directory),
        hides_ignored: launch.config.settings.respect_gemini_ignore(),
        readable,
        writable: paths(&settings.writable),
        temporary: real(artifacts).join("sandbox"),
        overlays: real(artifacts).join("overlays"),
    })
}

/// Returns other home directories in which Parallax or other programs store secrets.
fn other_homes(launch: &Launch, home: &Path) -> Vec<PathBuf> {
    let homes = &launch.config.homes;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let named = ["HOME", "GEMINI_CLI_HOME"].map(|name| launch.config.environment.of_process(name));
    let named = named.into_iter().flatten().map(|path| launch.options.directory.join(path));
    let mut others: Vec<PathBuf> =
        named.chain([homes.user.clone()]).filter_map(|path| real(&path)).collect();
    let ours_is_elsewhere = real(&homes.parallax) != real(&home.join(".parallax"));
    others.retain(|other| other != home);
    others.extend(ours_is_elsewhere.then(|| home.to_owned()));
    others.sort();
    others.dedup();
    others
}

/// Returns the record of the workspace files that were hidden so far, in this and earlier
/// sessions.
pub(crate) fn hidden_places(launch: &Launch) -> HiddenFileTracker {
    let ours = &launch.config.homes.parallax;
    let ours = std::fs::canonicalize(ours).unwrap_or_else(|_| ours.clone());
    let project = parallax_store::project_folder(&launch.options.directory);
    HiddenFileTracker::with_record(ours.join("hidden").join(project))
}

/// Returns the kind of sandbox for the system prompt. The machine is not probed before the
/// first command.
pub(crate) fn confinement(launch: &Launch) -> SandboxKind {
    match launch.sandbox {
        ProgramSandbox::Container(_) => return SandboxKind::Container,
        ProgramSandbox::Seatbelt => return SandboxKind::Seatbelt,
        ProgramSandbox::Unsaid | ProgramSandbox::Off | ProgramSandbox::BuiltIn => {}
    }
    let tools = launch.config.settings.sandbox().tools;
    let commands = match launch.sandbox {
        ProgramSandbox::Off => false,
        ProgramSandbox::BuiltIn => true,
        _ => tools != ToolSandboxing::Off,
    };
    // Inside a sandbox, the program runs without the flag that requested it.
    match launch.config.environment.of_process("SANDBOX") {
        Some("sandbox-exec") => SandboxKind::Seatbelt,
        Some(_) => SandboxKind::Container,
        None if commands && launch.options.supervises => SandboxKind::Commands,
        None => SandboxKind::None,
    }
}

/// Fails if a sandbox is required but not available. If none is required, nothing is probed
/// before the first command.
///
/// # Errors
/// Returns what is missing and what to do.
pub(crate) fn require(launch: &Launch) -> Result<(), Failure> {
    let required = launch.sandbox == ProgramSandbox::BuiltIn
        || launch.config.settings.sandbox().tools == ToolSandboxing::Required;
    if !required || launch.sandbox == ProgramSandbox::Off || !launch.options.supervises {
        return Ok(());
    }
    let refused = |why: String| failure(FailureKind::Sandbox, why);
    let support = Support::probe().map_err(|error| refused(error.to_string()))?;
    match sandbox_tier(launch).max(support.tier()) {
        Tier::Nothing | Tier::Seccomp => Err(refused(
            "a sandbox is required (`--sandbox` or `security.toolSandboxing`), but no sandbox \
             on this machine confines writes to the project: see `parallax sandbox explain`"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Returns the sandbox tier. The variable selects a weaker one for tests.
fn sandbox_tier(launch: &Launch) -> Tier {
    match launch.config.environment.of_process("PARALLAX_SANDBOX_TIER") {
        Some("namespaces") => Tier::Namespaces,
        Some("bubblewrap") => Tier::Bubblewrap,
        Some("landlock") => Tier::Landlock,
        Some("seccomp") => Tier::Seccomp,
        _ => Tier::Best,
    }
}

/// A command of the user that runs in the same sandbox as the agent's commands.
pub struct SandboxedCommand {
    plan: Plan,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    words: Vec<OsString>,
    temporary: PathBuf,
    mode: ApprovalMode,
    permissions: Permissions,
    effects: Effects,
    homes: parallax_store::Homes,
}

/// Prepares a command for the sandbox of the agent's commands in this mode, optionally with
/// additional permissions.
///
/// # Errors
/// Returns an error if this program cannot confine commands or a directory cannot be created.
pub fn sandboxed_command(
    launch: &Launch,
    words: Vec<OsString>,
    mode: ApprovalMode,
    permissions: &Permissions,
) -> Result<SandboxedCommand, Failure> {
    let name = format!("run-{}", std::process::id());
    let project = parallax_store::project_folder(&launch.options.directory);
    let temporary = launch.config.homes.parallax.join("tmp").join(project).join(name);
    let wrong = |message: String| failure(FailureKind::Sandbox, message);
    parallax_store::create_private_dir(&temporary)
        .map_err(|error| wrong(format!("failed to create `{}`: {error}", temporary.display())))?;
    let mut options = sandbox_options(launch, &temporary)
        .ok_or_else(|| wrong("the sandbox is not available in this program".to_owned()))?;
    // The sandbox was requested explicitly.
    options.enabled = true;
    let directory = launch.options.directory.clone();
    let real = std::fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
    let line: Vec<String> =
        words.iter().map(|word| parallax_exec::shell::quoted(&word.to_string_lossy())).collect();
    let shell = toolbox::shell_options(launch, temporary.clone());
    let prepared = parallax_tools::run_shell_command::sandboxed(
        &options,
        &line.join(" "),
        &real,
        std::slice::from_ref(&real),
        mode,
        permissions,
        shell.environment().variables,
    );
    let (plan, environment) = prepared.map_err(wrong)?;
    Ok(SandboxedCommand {
        plan,
        environment,
        directory,
        words,
        temporary,
        mode,
        permissions: permissions.clone(),
        effects: Effects { runs: vec![line.join(" ")], ..Effects::default() },
        homes: launch.homes(),
    })
}

impl SandboxedCommand {
    /// Runs the command with this process's input and output. Returns the exit code and the
    /// protected files that were reverted. Blocking.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn run(self) -> Result<(u8, PutBack), Failure> {
        let id = SessionId::new(format!("sandbox-run-{}", std::process::id()));
        let roots = vec![self.directory.clone()];
        let store = checkpoints::open(&self.homes, &self.directory, id.clone(), roots, None);
        let kept = Versions::new(store, Arc::default())
            .before(0, Change::Command(&self.effects.runs.join("\n")));
        let ended = parallax_exec::program::run_confined(
            &self.plan,
            &self.words,
            &self.directory,
            &self.environment,
        );
        // Nothing needs the remains of its private directory.
        let _ = parallax_files::remove_tree(&self.temporary);
        let put_back = kept.map_or_else(
            |_| PutBack::default(),
            |kept| kept.after(&self.effects, &self.permissions, self.mode, &Reach::default()),
        );
        if put_back.restored.is_empty() {
            // The checkpoint belongs to no session that could be undone.
            let project = parallax_store::project_folder(&self.directory);
            let journals = self.homes.parallax.join("checkpoints").join(project);
            for kind in ["jsonl", "lock"] {
                let _ = std::fs::remove_file(journals.join(format!("{}.{kind}", id.as_str())));
            }
        }
        let ended = ended.map(|code| (code, put_back));
        ended.map_err(|error| failure(FailureKind::Sandbox, error.to_string()))
    }
}
