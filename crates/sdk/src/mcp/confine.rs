//! The sandbox of commands around the programs of MCP servers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_config::mcp::{Endpoint, McpServer, SandboxGrants};
use parallax_engine::EventBus;
use parallax_exec::StdioProgram;
use parallax_mcp::{Confine, EndWatch, Watch};
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_protocol::policy::ApprovalMode;
use parallax_sandbox::{Support, Tier};
use parallax_tools::SandboxOptions;
use parallax_tools::run_shell_command::{mounts, reach, sandboxed};

use super::Roots;
use crate::sandbox::quoted;
use crate::versions::Versions;

/// Confines programs as a command with the same words would be in the mode.
/// Without `options` nothing can be confined. `versions` see to what they do to
/// protected files.
pub(super) fn confine(
    options: Option<SandboxOptions>,
    mode: ApprovalMode,
    roots: Roots,
    versions: Option<Arc<Versions>>,
) -> Confine {
    // In yolo protected files are free.
    let versions = versions.filter(|_| mode != ApprovalMode::Yolo);
    Arc::new(move |program, grants| {
        let mut options = options.clone().ok_or("this program confines no commands")?;
        // It was asked for by name.
        options.enabled = true;
        let tier = enough(options.tier)?;
        let words = std::iter::once(&program.program).chain(&program.arguments);
        let line: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        let roots: Vec<PathBuf> = roots();
        let StdioProgram { directory, environment, .. } = &program;
        let (line, granted) = (line.join(" "), permissions(grants, directory, environment));
        let (plan, environment) =
            sandboxed(&options, &line, directory, &roots, mode, &granted, environment.clone())?;
        if let Some(versions) = &versions {
            let reach = reach(&plan, mounts(tier));
            versions.serve(&granted.file_system.write, &reach);
        }
        Ok(StdioProgram { environment, sandbox: Some(plan), ..program })
    })
}

/// Where servers run, and with which variables.
pub(super) struct Around {
    pub(super) directory: PathBuf,
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl Around {
    fn directory_of(&self, server: &McpServer) -> PathBuf {
        match &server.endpoint {
            Endpoint::Stdio { cwd: Some(cwd), .. } => self.directory.join(cwd),
            _ => self.directory.clone(),
        }
    }
}

/// Sees to it, each time that a confined server starts or is called, that it
/// changes no protected file. In yolo they are free.
pub(super) fn watch(
    mode: ApprovalMode,
    versions: Option<Arc<Versions>>,
    around: Around,
    hub: EventBus,
) -> Option<Watch> {
    let versions = versions.filter(|_| mode != ApprovalMode::Yolo)?;
    Some(Arc::new(move |server| {
        let given = permissions(&server.grants, &around.directory_of(server), &around.variables);
        let watch = versions.watch()?.giving(given.file_system.write);
        let (server, hub) = (server.name.clone(), hub.clone());
        let end = move || {
            // Nobody knows what it ran: it has leave for nothing.
            let note = watch.end("").note()?;
            let text = format!("MCP server `{server}`: {note}");
            let done = ItemDone::Notice { level: Level::Warning, text: text.clone() };
            hub.send(EventBody::ItemDone { item: "notice-mcp-watch".into(), done });
            Some(text)
        };
        Some(Box::new(end) as EndWatch)
    }))
}

/// What the settings grant to a server, with the paths as they are on the disk.
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
        // One that is not there yet is taken as it is written.
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

/// Whether this machine keeps a program's writes where they belong. A server
/// that is to be confined does not start where it would not be.
fn enough(asked: Tier) -> Result<Tier, String> {
    let support = Support::probe().map_err(|error| error.to_string())?;
    match asked.max(support.tier()) {
        Tier::Seccomp | Tier::Nothing => Err("this machine gives none that keeps writes inside \
                                              the project: see `parallax sandbox explain`"
            .to_owned()),
        tier => Ok(tier),
    }
}
