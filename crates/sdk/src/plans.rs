//! Plan mode: whether it is enabled, where plans are stored, and the current plan.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parallax_files::{
    Access, ExpectedState, Workspace, atomic_write, lexical, read_capped, real_path,
};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::protected_names::{self, Protection, folded_names, is_secret_environment};

use crate::launch::Launch;
use crate::open::OpenSession;

/// Maximum bytes of a displayed plan.
const LONGEST: u64 = 256 * 1024;
/// Directory of plans in a session's artifact directory.
const FOLDER: &str = "plans";

/// Returns the directory for plans that the settings (`general.plan.directory`) or else an
/// extension configure, with links resolved.
///
/// # Errors
/// Returns an error if it is not a suitable directory of the project.
pub(crate) fn configured_folder(launch: &Launch) -> Result<Option<PathBuf>, String> {
    let own = launch.config.settings.text("general.plan.directory");
    let own = own.filter(|set| !set.trim().is_empty());
    let key = if own.is_some() { "general.plan.directory" } else { "plan.directory" };
    let of_extension = || {
        launch.extensions().plan_directory().map(str::to_owned).filter(|it| !it.trim().is_empty())
    };
    let Some(set) = own.or_else(of_extension) else { return Ok(None) };
    let root = &launch.options.directory;
    let folder = real_path(&lexical(root, &launch.config.expand_home(Path::new(set.trim()))));
    match (folder, real_path(root)) {
        // Otherwise plan mode could change the project's files, or write instructions that
        // agents follow.
        (Some(folder), Some(root)) if folder == root => Err(format!(
            "`{key}` cannot be the project itself (`{set}`): plans are saved in the session \
             directory"
        )),
        (Some(folder), Some(root)) if !may_hold_plans(&folder, &root) => Err(format!(
            "`{key}` cannot be `{set}`, where files configure programs or agents: plans are \
             saved in the session directory"
        )),
        (Some(folder), Some(root)) if folder.starts_with(&root) => Ok(Some(folder)),
        _ => Err(format!(
            "`{key}` is outside the project (`{set}`): plans are saved in the session \
             directory"
        )),
    }
}

/// Returns the directory for the plans of a session.
pub(crate) fn session_folder(
    launch: &Launch,
    workspace: &Workspace,
    warnings: &mut Vec<String>,
) -> PathBuf {
    let set = configured_folder(launch).unwrap_or_else(|why| {
        warnings.push(why);
        None
    });
    set.unwrap_or_else(|| workspace.temp().join(FOLDER))
}

/// Returns the approval mode after a policy rule approved a plan in a session without a user. A
/// run that began in plan mode continues in yolo mode, as in other programs, unless that is not
/// allowed; other runs keep their mode.
pub(crate) fn mode_after_plan(launch: &Launch) -> ApprovalMode {
    match launch.options.plan_exit_mode {
        Some(ApprovalMode::Yolo) if launch.yolo_refusal().is_some() => {
            return ApprovalMode::Default;
        }
        Some(mode) => return mode,
        None => {}
    }
    match launch.mode {
        ApprovalMode::Plan if launch.yolo_refusal().is_none() && !launch.is_everything() => {
            ApprovalMode::Yolo
        }
        ApprovalMode::Plan => ApprovalMode::Default,
        mode => mode,
    }
}

/// Returns whether a directory of the project may hold plans. Directories whose files control
/// programs or agents may not, except `plans` in Parallax's own.
fn may_hold_plans(folder: &Path, root: &Path) -> bool {
    let Ok(below) = folder.strip_prefix(root) else { return true };
    let names = folded_names(below);
    let is_obeyed = |name: &String| {
        matches!(name.as_str(), ".git" | "node_modules") || is_secret_environment(name)
    };
    let closed = protected_names::protection(&names) == Some(Protection::Closed);
    let ours = [".gemini/plans", ".parallax/plans"].iter().any(|ours| below.starts_with(ours));
    ours || !(closed || names.iter().any(is_obeyed))
}

/// A plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Path of the file.
    pub path: PathBuf,
    /// The Markdown text.
    pub text: String,
}

impl OpenSession {
    /// Returns the plan that was changed last. Blocks briefly.
    pub fn plan(&self) -> Option<Plan> {
        let path = newest(&self.plans)?;
        let file = self.workspace.confine(&path, Access::Read).ok()?;
        let (bytes, _) = read_capped(&file, LONGEST).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (!text.trim().is_empty()).then_some(Plan { path, text })
    }

    /// Replaces the text of a plan file, as edited by the user. Blocks briefly.
    ///
    /// # Errors
    /// Returns an error if the file is not in the directory for plans or cannot be written.
    pub fn write_plan(&self, path: &Path, text: &str) -> Result<(), String> {
        let file =
            self.workspace.confine(path, Access::Write).map_err(|error| error.to_string())?;
        if !file.path().starts_with(&self.plans) {
            return Err(format!("`{}` is not a plan", path.display()));
        }
        atomic_write(&file, text.as_bytes(), ExpectedState::Anything)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// Returns the Markdown file of the directory that was changed last.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let plans = entries.filter_map(|entry| {
        let facts = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let path = entry.path();
        let is_plan = path.extension().is_some_and(|end| end == "md");
        is_plan.then(|| (facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), path))
    });
    plans.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{may_hold_plans, newest};

    #[test]
    fn the_plan_changed_last_is_the_one() {
        let place = tempfile::tempdir().expect("tempdir");
        assert_eq!(newest(&place.path().join("missing")), None);
        let begin = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (name, age) in [("a.md", 2), ("b.md", 3), ("c.txt", 9)] {
            let file = std::fs::File::create(place.path().join(name)).expect("file");
            file.set_modified(begin + Duration::from_secs(age)).expect("time");
        }
        assert_eq!(newest(place.path()), Some(place.path().join("b.md")));
    }

    #[test]
    fn plans_go_where_nothing_is_obeyed() {
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
