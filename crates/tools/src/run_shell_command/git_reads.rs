//! Finds what git would read outside of the workspace because of the repository's settings: another
//! repository, working tree, or object store.

use std::path::{Path, PathBuf};

use super::git;
use super::repository;
use crate::git_directories::unquote;
use crate::small_files::{bytes_of, line_of};

/// Lowercase keys whose values are files or directories that git reads.
const FILES: [&str; 6] = [
    "core.worktree",
    "core.excludesfile",
    "core.attributesfile",
    "mailmap.file",
    "blame.ignorerevsfile",
    "diff.orderfile",
];

/// Parts of a repository that must not be links to paths outside of it.
const PARTS: [&str; 11] = [
    "HEAD",
    "config",
    "index",
    "info",
    "logs",
    "objects",
    "objects/info",
    "objects/pack",
    "packed-refs",
    "refs",
    "modules",
];

/// Returns the paths outside of `roots` that a git command in `base` would read.
pub(super) fn paths_outside_roots(base: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in repository::directories(base) {
        let Ok(real) = folder.canonicalize() else { continue };
        if !belongs_to_workspace(&folder, &real, base, roots) {
            found.push(real.clone());
            continue;
        }
        let stays = |path: &Path| {
            path.canonicalize().map_or(true, |path| {
                path.starts_with(&real)
                    || is_inside(&path, roots)
                    || real.parent().is_some_and(|top| path == top)
            })
        };
        found.extend(PARTS.iter().map(|name| real.join(name)).filter(|part| !stays(part)));
        found.extend(alternates(&real).into_iter().filter(|path| !stays(path)));
        for (directory, value) in git::files_of_configuration(&real, &FILES, base) {
            let named = directory.join(value);
            if !stays(&named) {
                found.push(named);
            }
        }
    }
    found
}

fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Whether the repository belongs to the workspace: it is inside the workspace, its working tree
/// contains the workspace, or it records the workspace as one of its working trees. A file or link
/// in the workspace may point anywhere.
fn belongs_to_workspace(folder: &Path, real: &Path, base: &Path, roots: &[PathBuf]) -> bool {
    if is_inside(real, roots) {
        return true;
    }
    let is_above = real.parent().is_some_and(|top| base.starts_with(top));
    if is_above && folder.symlink_metadata().is_ok_and(|data| data.is_dir()) {
        return true;
    }
    let tree = |path: PathBuf| {
        path.canonicalize().is_ok_and(|path| base.starts_with(&path) || is_inside(&path, roots))
    };
    // A worktree: the repository stores the path of its `.git` file.
    let linked = line_of(&real.join("gitdir"))
        .is_some_and(|file| Path::new(&file).parent().is_some_and(|top| tree(top.to_owned())));
    // The common directory of worktrees.
    let shared = ["worktrees", "modules"].iter().any(|name| {
        std::fs::read_dir(real.join(name)).into_iter().flatten().flatten().any(|entry| {
            line_of(&entry.path().join("gitdir"))
                .is_some_and(|file| Path::new(&file).parent().is_some_and(|top| tree(top.into())))
        })
    });
    // A submodule: its configuration names its working tree.
    linked
        || shared
        || git::files_of_configuration(real, &["core.worktree"], base)
            .into_iter()
            .any(|(directory, value)| tree(directory.join(value)))
}

/// Returns the object directories that the repository borrows from.
fn alternates(repository: &Path) -> Vec<PathBuf> {
    const MAX_BYTES: u64 = 64 * 1024;
    let objects = repository.join("objects");
    let file = objects.join("info/alternates");
    if file.symlink_metadata().is_err() {
        return Vec::new();
    }
    let Some(bytes) = bytes_of(&file, MAX_BYTES) else { return vec![PathBuf::from("/")] };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| objects.join(&*unquote(line))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct TestProject {
        folder: tempfile::TempDir,
    }

    impl TestProject {
        fn new() -> Self {
            let directory = Self { folder: tempfile::tempdir().unwrap() };
            directory.git(&directory.path(""), &["init", "-q", "work"]);
            directory.git(&directory.path(""), &["init", "-q", "other"]);
            for name in ["work", "other"] {
                let line = ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "one"];
                let line: Vec<&str> = line.into_iter().chain(["--allow-empty"]).collect();
                directory.git(&directory.path(name), &line);
            }
            directory
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn git(&self, directory: &Path, line: &[&str]) {
            let time = std::time::Duration::from_secs(5);
            let output = parallax_exec::program::output("git", line, directory, &[], 1 << 20, time);
            assert!(output.is_some(), "{line:?}");
        }

        fn has_outside_paths(&self, base: &str) -> bool {
            let roots = [self.path(base)];
            !paths_outside_roots(&self.path(base), &roots).is_empty()
        }
    }

    #[test]
    fn ordinary_repository_reads_stay_in_the_workspace() {
        let project = TestProject::new();
        assert!(!project.has_outside_paths("work"));
        // The workspace is a subdirectory, a worktree, or a submodule of the repository.
        fs::create_dir(project.path("work/src")).unwrap();
        assert!(!project.has_outside_paths("work/src"));
        project.git(&project.path("work"), &["worktree", "add", "-q", "../tree"]);
        assert!(!project.has_outside_paths("tree"));
        let url = project.path("other").display().to_string();
        let line = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"];
        project.git(&project.path("work"), &line);
        assert!(!project.has_outside_paths("work/sub"));
        assert!(!project.has_outside_paths("work"));
    }

    #[test]
    fn external_paths_of_a_repository_are_found() {
        let secret = "/etc/hostname";
        for key in ["core.worktree", "mailmap.file", "blame.ignoreRevsFile"] {
            let project = TestProject::new();
            let value = if key == "core.worktree" { "/etc" } else { secret };
            project.git(&project.path("work"), &["config", key, value]);
            assert!(project.has_outside_paths("work"), "{key}");
        }
        let changes: [fn(&TestProject); 4] = [
            |project| {
                fs::remove_dir_all(project.path("work/.git")).unwrap();
                let line = format!("gitdir: {}\n", project.path("other/.git").display());
                fs::write(project.path("work/.git"), line).unwrap();
            },
            |project| {
                fs::remove_dir_all(project.path("work/.git")).unwrap();
                symlink(project.path("other/.git"), project.path("work/.git")).unwrap();
            },
            |project| {
                let objects = project.path("other/.git/objects").display().to_string();
                fs::write(project.path("work/.git/objects/info/alternates"), objects).unwrap();
            },
            |project| {
                fs::remove_dir_all(project.path("work/.git/refs")).unwrap();
                symlink(project.path("other/.git/refs"), project.path("work/.git/refs")).unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let project = TestProject::new();
            assert!(!project.has_outside_paths("work"));
            change(&project);
            assert!(project.has_outside_paths("work"), "{number}");
        }
    }
}
