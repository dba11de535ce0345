//! Runs MCP servers in the sandbox of commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_checkpoints::CheckpointManager;
use parallax_config::mcp::{Endpoint, McpServer, SandboxGrants};
use parallax_engine::EventBus;
use parallax_exec::StdioProgram;
use parallax_exec::shell::quote_word;
use parallax_mcp::{ConfineFn, EndWatch, Watch};
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_protocol::policy::ApprovalMode;
use parallax_sandbox::{Support, Tier};
use parallax_tools::SandboxOptions;
use parallax_tools::run_shell_command::{mounts, prepare_sandbox, write_scope};

use super::Roots;

/// Returns a function that confines programs as the sandbox would confine a command with the same
/// arguments in this mode. Without `options` nothing can be confined. `checkpoint_manager` protects
/// files.
pub(super) fn confine(
    options: Option<SandboxOptions>,
    mode: ApprovalMode,
    roots: Roots,
    checkpoint_manager: Option<Arc<CheckpointManager>>,
) -> ConfineFn {
    // Protected files may be changed in yolo mode.
    let checkpoint_manager = checkpoint_manager.filter(|_| mode != ApprovalMode::Yolo);
    Arc::new(move |program, grants| {
        let mut options = options.clone().ok_or("the sandbox is not available in this program")?;
        // The server's settings request the sandbox explicitly.
        options.enabled = true;
        let tier = check_tier(options.tier)?;
        let words = std::iter::once(&program.program).chain(&program.arguments);
        let line: Vec<String> = words.map(|word| quote_word(&word.to_string_lossy())).collect();
        let roots: Vec<PathBuf> = roots();
        let StdioProgram { directory, environment, .. } = &program;
        let (line, granted) = (line.join(" "), permissions(grants, directory, environment));
        let (plan, environment) = prepare_sandbox(
            &options,
            &line,
            directory,
            &roots,
            mode,
            &granted,
            environment.clone(),
        )?;
        if let Some(checkpoint_manager) = &checkpoint_manager {
            let write_scope = write_scope(&plan, mounts(tier));
            checkpoint_manager.serve(&granted.file_system.write, &write_scope);
        }
        Ok(StdioProgram { environment, sandbox: Some(plan), ..program })
    })
}

/// The working directory and variables of servers.
pub(super) struct ServerContext {
    pub(super) directory: PathBuf,
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl ServerContext {
    fn directory_of(&self, server: &McpServer) -> PathBuf {
        match &server.endpoint {
            Endpoint::Stdio { cwd: Some(cwd), .. } => self.directory.join(cwd),
            _ => self.directory.clone(),
        }
    }
}

/// Checks after each start and call of a confined server that it changed no protected file. In yolo
/// mode, they may be changed.
pub(super) fn watch(
    mode: ApprovalMode,
    checkpoint_manager: Option<Arc<CheckpointManager>>,
    context: ServerContext,
    bus: EventBus,
) -> Option<Watch> {
    let checkpoint_manager = checkpoint_manager.filter(|_| mode != ApprovalMode::Yolo)?;
    Some(Arc::new(move |server| {
        let granted =
            permissions(&server.grants, &context.directory_of(server), &context.variables);
        let watch = checkpoint_manager.watch()?.with_writable_paths(granted.file_system.write);
        let (server, bus) = (server.name.clone(), bus.clone());
        let end = move || {
            // It is unknown what the server ran, so no change is permitted.
            let note = watch.end("").note()?;
            let text = format!("MCP server `{server}`: {note}");
            let done = ItemDone::notice(Level::Warning, text.clone());
            bus.send(EventBody::ItemDone { item: "notice-mcp-watch".into(), done });
            Some(text)
        };
        Some(Box::new(end) as EndWatch)
    }))
}

/// Returns the permissions that the settings grant to a server, with paths resolved.
fn permissions(
    grants: &SandboxGrants,
    directory: &Path,
    environment: &[(OsString, OsString)],
) -> Permissions {
    let home = environment.iter().find(|(name, _)| name == "HOME").map(|(_, value)| value);
    let path = |written: &String| {
        let path = match (written.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => directory.join(written),
        };
        // A path that does not exist yet is used as written.
        std::fs::canonicalize(&path).unwrap_or(path)
    };
    Permissions {
        network: grants.network,
        file_system: FilePermissions {
            read: grants.read.iter().map(path).collect(),
            write: grants.write.iter().map(path).collect(),
        },
        ..Permissions::default()
    }
}

/// Checks that this machine can confine a program's writes. A server that requires a sandbox is not
/// started otherwise.
fn check_tier(requested: Tier) -> Result<Tier, String> {
    let support = Support::probe().map_err(|error| error.to_string())?;
    match requested.max(support.tier()) {
        Tier::Seccomp | Tier::Nothing => Err("no sandbox on this machine confines writes to the \
            project: see `parallax sandbox explain`"
            .to_owned()),
        tier => Ok(tier),
    }
}
