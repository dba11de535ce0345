//! Plan mode: whether it is enabled, where plans are stored, and the current plan.

use std::path::{Path, PathBuf};

use parallax_files::{Workspace, join_lexically, real_path};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::protected_names::{self, Protection, folded_names, is_secret_environment};

use crate::session_config::SessionConfig;

/// Directory of plans in a session's artifact directory.
const FOLDER: &str = "plans";

/// Returns the directory for plans that the settings (`general.plan.directory`) or else an
/// extension configure, with links resolved.
///
/// # Errors
/// Returns an error if it is not a suitable directory of the project.
pub(crate) fn configured_directory(launch: &SessionConfig) -> Result<Option<PathBuf>, String> {
    let own = launch.config.settings.text("general.plan.directory");
    let own = own.filter(|set| !set.trim().is_empty());
    let key = if own.is_some() { "general.plan.directory" } else { "plan.directory" };
    let extension_directory = || {
        launch.extensions().plan_directory().map(str::to_owned).filter(|it| !it.trim().is_empty())
    };
    let Some(set) = own.or_else(extension_directory) else { return Ok(None) };
    let root = &launch.options.directory;
    let directory =
        real_path(&join_lexically(root, &launch.config.expand_home(Path::new(set.trim()))));
    match (directory, real_path(root)) {
        // Otherwise plan mode could change the project's files, or write instructions that
        // agents follow.
        (Some(directory), Some(root)) if directory == root => Err(format!(
            "`{key}` cannot be the project itself (`{set}`): plans are saved in the session \
             directory"
        )),
        (Some(directory), Some(root)) if !may_hold_plans(&directory, &root) => Err(format!(
            "`{key}` cannot be `{set}`, where files configure programs or agents: plans are \
             saved in the session directory"
        )),
        (Some(directory), Some(root)) if directory.starts_with(&root) => Ok(Some(directory)),
        _ => Err(format!(
            "`{key}` is outside the project (`{set}`): plans are saved in the session \
             directory"
        )),
    }
}

/// Returns the directory for the plans of a session.
pub(crate) fn session_directory(
    launch: &SessionConfig,
    workspace: &Workspace,
    warnings: &mut Vec<String>,
) -> PathBuf {
    let set = configured_directory(launch).unwrap_or_else(|reason| {
        warnings.push(reason);
        None
    });
    set.unwrap_or_else(|| workspace.temporary_directory().join(FOLDER))
}

/// Returns the approval mode after a policy rule approved a plan in a session without a user. A
/// run that began in plan mode continues in yolo mode, as in other programs, unless that is not
/// allowed; other runs keep their mode.
pub(crate) fn approved_plan_mode(launch: &SessionConfig) -> ApprovalMode {
    match launch.options.plan_exit_mode {
        Some(ApprovalMode::Yolo) if launch.yolo_unavailable_reason().is_some() => {
            return ApprovalMode::Default;
        }
        Some(mode) => return mode,
        None => {}
    }
    match launch.mode {
        ApprovalMode::Plan
            if launch.yolo_unavailable_reason().is_none() && !launch.is_home_or_root() =>
        {
            ApprovalMode::Yolo
        }
        ApprovalMode::Plan => ApprovalMode::Default,
        mode => mode,
    }
}

/// Returns whether a directory of the project may hold plans. Directories whose files control
/// programs or agents may not, except `plans` in Parallax's own.
fn may_hold_plans(directory: &Path, root: &Path) -> bool {
    let Ok(below) = directory.strip_prefix(root) else { return true };
    let names = folded_names(below);
    let is_obeyed = |name: &String| {
        matches!(name.as_str(), ".git" | "node_modules") || is_secret_environment(name)
    };
    let closed = protected_names::protection(&names) == Some(Protection::Closed);
    let ours = [".gemini/plans", ".parallax/plans"].iter().any(|ours| below.starts_with(ours));
    ours || !(closed || names.iter().any(is_obeyed))
}

#[cfg(test)]
mod tests {
    use super::may_hold_plans;

    #[test]
    fn plan_directory_must_not_configure_programs() {
        let root = std::path::Path::new("/w");
        for (folder, may) in [
            ("/w/docs/plans", true),
            ("/w/.gemini/plans", true),
            ("/w/.parallax/plans/2", true),
            ("/elsewhere", true),
            ("/w/.git/plans", false),
            ("/w/.gemini", false),
            ("/w/.gemini/agents", false),
            ("/w/.plans", true),
            ("/w/.notes/plans", true),
            ("/w/.vscode", false),
            ("/w/.Cursor/rules", false),
            ("/w/a/.github/workflows", false),
        ] {
            assert_eq!(may_hold_plans(folder.as_ref(), root), may, "{folder}");
        }
    }
}
