//! Paths by their text alone: no disk, so symbolic links are the caller's to
//! resolve.

use std::path::{Component, Path, PathBuf};

/// `path` below `base`, with `.` and `..` worked out.
pub(crate) fn resolve(base: &Path, path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether the path is one of the roots or lies in one. The path must be resolved.
pub(crate) fn inside(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// The root that holds the path, deepest first.
fn root_of<'a>(path: &Path, roots: &'a [PathBuf]) -> Option<&'a PathBuf> {
    roots.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.components().count())
}

/// Whether an edit of the path needs a person although it lies in the
/// workspace: version control data, secrets, installed packages, settings that
/// run programs.
pub(crate) fn is_protected(path: &Path, roots: &[PathBuf]) -> bool {
    names_below_root(path, roots, |name| {
        const PROTECTED: [&str; 6] =
            [".git", ".gemini", ".mcp.json", ".parallax", ".vscode", "node_modules"];
        PROTECTED.contains(&name) || name.starts_with(".env")
    })
}

/// Whether reading the path needs a person although it lies in the workspace:
/// version control data and secrets, which are closed to the file tools.
pub(crate) fn is_closed(path: &Path, roots: &[PathBuf]) -> bool {
    names_below_root(path, roots, |name| {
        matches!(name, ".git" | ".env")
            || (name.starts_with("gha-creds-") && name.ends_with(".json"))
    })
}

/// Whether the path is the configuration of a repository. The caller gives it
/// when git would run what it says; when a word of the command names it, the
/// `.git` folder comes with it.
pub(crate) fn is_git_configuration(path: &Path) -> bool {
    let is_named = |name: &str| path.file_name().is_some_and(|found| found == name);
    (is_named("config") || is_named("config.worktree"))
        && path.components().any(|part| part.as_os_str() == ".git")
}

fn names_below_root(path: &Path, roots: &[PathBuf], is_it: impl Fn(&str) -> bool) -> bool {
    let below = match root_of(path, roots) {
        Some(root) => path.strip_prefix(root).unwrap_or(path),
        None => path,
    };
    below.components().any(|component| match component {
        // Case is folded: on some disks `.GIT` is `.git`.
        Component::Normal(name) => is_it(&name.to_string_lossy().to_lowercase()),
        _ => false,
    })
}
