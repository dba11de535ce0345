//! The sandbox of commands around the programs of MCP servers.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_exec::ServedProgram;
use parallax_mcp::Confine;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_sandbox::{Support, Tier};
use parallax_tools::SandboxOptions;
use parallax_tools::run_shell_command::sandboxed;

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
    Arc::new(move |program| {
        let mut options = options.clone().ok_or("this program confines no commands")?;
        // It was asked for by name.
        options.enabled = true;
        enough(options.tier)?;
        let words = std::iter::once(&program.program).chain(&program.arguments);
        let line: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
        let roots: Vec<PathBuf> = roots();
        let ServedProgram { directory, environment, .. } = &program;
        let (line, none) = (line.join(" "), Permissions::default());
        let (plan, environment) =
            sandboxed(&options, &line, directory, &roots, mode, &none, environment.clone())?;
        if let Some(versions) = &versions {
            versions.serve();
        }
        Ok(ServedProgram { environment, sandbox: Some(plan), ..program })
    })
}

/// Whether this machine keeps a program's writes where they belong. A server
/// that is to be confined does not start where it would not be.
fn enough(asked: Tier) -> Result<(), String> {
    let support = Support::probe().map_err(|error| error.to_string())?;
    match asked.max(support.tier()) {
        Tier::Seccomp | Tier::Nothing => Err("this machine gives none that keeps writes inside \
                                              the project: see `parallax sandbox explain`"
            .to_owned()),
        _ => Ok(()),
    }
}
