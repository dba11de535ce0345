//! The worktrees that Parallax creates below `~/.parallax/worktrees`. The record of each is a file
//! next to it, which commands of the agent cannot write.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::user_dirs::UserDirs;

/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 64 * 1024;
/// Maximum number of characters of a name.
const MAX_NAME_LENGTH: usize = 64;

/// The record of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeRecord {
    /// The name.
    pub name: String,
    /// The worktree itself.
    pub path: PathBuf,
    /// The top directory of the checkout from which it was created.
    pub main: PathBuf,
    /// The branch that was created for it.
    pub branch: String,
    /// The commit from which it was created.
    pub base: String,
    /// Distinguishes it from earlier ones with the same name; empty in records of earlier versions.
    #[serde(default)]
    pub id: String,
    /// The id of the worktree whose session started the subagent that works here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// Returns the directory of all worktrees.
pub fn directory(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("worktrees")
}

/// Returns the path of the record of the worktree `name` in a project's worktrees directory.
pub fn record_file(project: &Path, name: &str) -> PathBuf {
    project.join(format!("{name}.json"))
}

/// Whether a worktree may have this name, which becomes a file name and part of a branch name.
pub fn is_valid_name(name: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    let suffix = name.rsplit('.').next().unwrap_or_default();
    !name.is_empty()
        && name.len() <= MAX_NAME_LENGTH
        && name.chars().all(is_allowed)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && !name.contains("..")
        && !["json", "lock"].iter().any(|refused| suffix.eq_ignore_ascii_case(refused))
}

/// Reads a record.
///
/// # Errors
/// Returns an error if the file cannot be read or is not a record.
pub fn read_record(file: &Path) -> io::Result<WorktreeRecord> {
    let mut text = String::new();
    File::open(file)?.take(MAX_RECORD_BYTES).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Returns the worktree that contains a directory, and the path of the directory inside it.
pub fn worktree_of(dirs: &UserDirs, folder: &Path) -> Option<(WorktreeRecord, PathBuf)> {
    let all = directory(dirs).canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    let mut parts = folder.strip_prefix(&all).ok()?.components();
    let (Some(Component::Normal(project)), Some(Component::Normal(name))) =
        (parts.next(), parts.next())
    else {
        return None;
    };
    let rest = parts.as_path().to_owned();
    let project = all.join(project);
    let record = read_record(&record_file(&project, name.to_str()?)).ok()?;
    (record.path.canonicalize().ok()? == project.join(name)).then_some((record, rest))
}

/// Returns the directory whose trust, settings, and approvals apply in `directory`: itself, or, in
/// a worktree that Parallax created, the same directory of the main checkout.
pub fn project_of(dirs: &UserDirs, directory: &Path) -> PathBuf {
    let Some((record, rest)) = worktree_of(dirs, directory) else { return directory.to_owned() };
    // Another branch may have directories that the main checkout lacks.
    let existing = rest.ancestors().map(|rest| record.main.join(rest)).find(|path| path.is_dir());
    existing.unwrap_or(record.main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktree_names_are_valid_for_files_and_branches() {
        for name in ["fix", "a.b", "Fix_2", "x-1"] {
            assert!(is_valid_name(name), "{name}");
        }
        let long = "x".repeat(65);
        for name in
            ["", ".", "..", "-x", ".x", "a/b", "a..b", "x.lock", "x.JSON", "x.", "ä", "a b", &long]
        {
            assert!(!is_valid_name(name), "{name}");
        }
    }

    #[test]
    fn worktree_without_a_record_is_a_separate_project() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = scratch.path().canonicalize().expect("a path");
        let dirs = UserDirs {
            user: top.clone(),
            gemini: top.join(".gemini"),
            parallax: top.join(".parallax"),
        };
        let (project, main) = (directory(&dirs).join("p-1"), top.join("main"));
        let tree = project.join("fix");
        for directory in [tree.join("src"), tree.join("new"), main.join("src")] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        assert_eq!(project_of(&dirs, &tree), tree);
        let record = WorktreeRecord {
            name: "fix".to_owned(),
            path: tree.clone(),
            main: main.clone(),
            branch: "parallax/fix".to_owned(),
            base: "0".to_owned(),
            id: String::new(),
            parent: None,
        };
        let text = serde_json::to_string(&record).expect("a record");
        std::fs::write(record_file(&project, "fix"), text).expect("a file");
        assert_eq!(project_of(&dirs, &tree), main);
        assert_eq!(project_of(&dirs, &tree.join("src")), main.join("src"));
        assert_eq!(project_of(&dirs, &tree.join("new")), main);
        assert_eq!(project_of(&dirs, &project), project);
        assert_eq!(project_of(&dirs, &main), main);
    }
}
