//! Classification of paths. Callers must resolve symbolic links in them.

use std::cell::OnceCell;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use parallax_protocol::paths::join_lexically as resolve;
use parallax_protocol::protected_links::{FindLinkTargets, LinkTargets};
use parallax_protocol::protected_names::{self, Protection, fold};

/// Whether the path is one of the roots or is inside one. The path must be resolved.
pub(crate) fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Whether a write to the path reaches no file.
pub(crate) fn is_stream(path: &Path) -> bool {
    ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"]
        .iter()
        .any(|stream| path == Path::new(stream))
        || path.starts_with("/dev/fd")
}

/// Returns the deepest root that contains the path.
fn root_containing<'a>(path: &Path, roots: &'a [PathBuf]) -> Option<&'a PathBuf> {
    roots.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.components().count())
}

/// The protected files of a workspace: those with protected names, and the targets of protected
/// links, which are determined at most once and only if the name is not sufficient.
#[derive(Debug)]
pub(crate) struct ProtectedPaths<'a> {
    roots: &'a [PathBuf],
    finder: Option<&'a dyn FindLinkTargets>,
    link_targets: OnceCell<Arc<LinkTargets>>,
}

impl<'a> ProtectedPaths<'a> {
    pub(crate) fn new(roots: &'a [PathBuf], finder: Option<&'a dyn FindLinkTargets>) -> Self {
        Self { roots, finder, link_targets: OnceCell::new() }
    }

    /// Whether a write to the path requires approval in every mode except yolo: the file can cause
    /// programs to run, or it controls access. For a path in the workspace, only the part below the
    /// workspace directory counts.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let names = names_below_root(path, self.roots);
        names.iter().any(|name| name == ".git")
            || protected_names::protection(&names) == Some(Protection::Closed)
            || makes_repository(path)
            || self.is_linked(path)
    }

    /// Whether permissive edit modes exclude the path although it is in the workspace: protected
    /// files, secrets, and installed packages.
    pub(crate) fn restrict(&self, path: &Path) -> bool {
        any_name_below_root(path, self.roots, |name| {
            name == "node_modules" || name.starts_with(".env")
        }) || self.contains(path)
    }

    /// Whether a protected link points to the path or to a directory above it, or the path is in a
    /// git directory.
    fn is_linked(&self, path: &Path) -> bool {
        let Some(finder) = self.finder.filter(|_| is_inside(path, self.roots)) else {
            return false;
        };
        let targets = self.link_targets.get_or_init(|| finder.link_targets(self.roots));
        targets.contains(path) || targets.is_in_git_directory(path)
    }
}

/// Whether the file defines which files commands must not read.
pub(crate) fn defines_hidden_files(path: &Path) -> bool {
    path.file_name().is_some_and(|name| fold(&name.to_string_lossy()) == ".geminiignore")
}

/// Whether the file turns an ordinary directory into a git repository, or is read by git from such
/// a directory: its configuration and hooks can name programs.
fn makes_repository(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    // A directory is a repository only if it contains this file, which is rare elsewhere.
    if name == "HEAD" || (cfg!(target_os = "macos") && name.eq_ignore_ascii_case("head")) {
        return true;
    }
    let is_bare = |directory: &Path| {
        directory.join("HEAD").symlink_metadata().is_ok()
            && ["objects", "refs"].iter().all(|name| directory.join(name).is_dir())
    };
    let directory = path.parent();
    let holder = directory.filter(|directory| {
        ["hooks", "info"].iter().any(|name| directory.file_name().is_some_and(|last| last == *name))
    });
    let settings = ["commondir", "config", "config.worktree"];
    (settings.iter().any(|setting| name == *setting) && directory.is_some_and(is_bare))
        || holder.and_then(Path::parent).is_some_and(is_bare)
}

/// Whether the path is a file with other hard links: a write to it also changes the file at those
/// paths, wherever they are.
pub(crate) fn has_other_names(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|data| data.is_file() && data.nlink() > 1)
}

/// Whether the file contains instructions for agents. For a path in the workspace, only the part
/// below the workspace directory counts.
pub(crate) fn is_agent_rules(path: &Path, roots: &[PathBuf]) -> bool {
    let names = names_below_root(path, roots);
    protected_names::protection(&names) == Some(Protection::Instructions)
}

/// Whether reading the path requires approval although it is in the workspace: version control data
/// and secrets, which the file tools cannot access.
pub(crate) fn is_inaccessible(path: &Path, roots: &[PathBuf]) -> bool {
    any_name_below_root(path, roots, |name| {
        name == ".git"
            || protected_names::is_secret_environment(name)
            || (name.starts_with("gha-creds-") && name.ends_with(".json"))
    })
}

/// Whether the path is the configuration of a repository. The caller adds this path if git would
/// run programs that it names. If a word of the command names the file, the caller adds the `.git`
/// directory as well.
pub(crate) fn is_git_configuration(path: &Path) -> bool {
    let is_named = |name: &str| path.file_name().is_some_and(|found| found == name);
    (is_named("config") || is_named("config.worktree"))
        && path.components().any(|part| part.as_os_str() == ".git")
}

/// Whether the name belongs to a file that git reads from a repository. A directory with any name
/// becomes a repository if it contains such files.
pub(crate) fn is_part_of_repository(path: &Path) -> bool {
    const PARTS: [&str; 8] = [
        "alternates",
        "attributes",
        "commondir",
        "config",
        "config.worktree",
        "gitdir",
        "head",
        ".git",
    ];
    PARTS.contains(&folded_name(path).as_str())
}

/// Whether a directory tree placed at the path may contain files one level below that
/// [`ProtectedPaths`] or [`is_agent_rules`] covers.
pub(crate) fn may_hold_protected(path: &Path) -> bool {
    protected_names::may_hold_protected(&folded_name(path))
}

fn folded_name(path: &Path) -> String {
    path.file_name().map(|name| fold(&name.to_string_lossy())).unwrap_or_default()
}

/// Returns the case-folded names of the path's components; for a path in the workspace, only those
/// below the workspace directory.
fn names_below_root(path: &Path, roots: &[PathBuf]) -> Vec<String> {
    let relative = match root_containing(path, roots) {
        Some(root) => path.strip_prefix(root).unwrap_or(path),
        None => path,
    };
    protected_names::folded_names(relative)
}

fn any_name_below_root(path: &Path, roots: &[PathBuf], is_it: impl Fn(&str) -> bool) -> bool {
    names_below_root(path, roots).iter().any(|name| is_it(name))
}

#[cfg(test)]
mod tests {
    use super::{ProtectedPaths, Protection, is_agent_rules, protected_names};
    use std::path::{Path, PathBuf};

    fn is_protected(path: &Path, roots: &[PathBuf]) -> bool {
        ProtectedPaths::new(roots, None).contains(path)
    }

    #[test]
    fn case_and_invisible_characters_do_not_hide_protected_paths() {
        let roots = [PathBuf::from("/w/.gemini/tmp")];
        let is = |path: &str| is_protected(Path::new(path), &roots);
        for path in [
            "/w/.gemini/tmp/.git/hooks/x",
            "/w/.gemini/tmp/a/.GIT/config",
            "/w/.gemini/tmp/.g\u{200c}it/config",
            "/w/.gemini/tmp/.git./config",
            "/home/me/.BashRC",
            "/home/me/.ssh/authorized_keys",
            "/home/me/.config/fish/conf.d/x.fish",
            "/w/.gemini/settings.json",
            "/w/.gemini/tmp/.husky/pre-commit",
            "/w/.gemini/tmp/.claude/settings.json",
            "/w/.gemini/tmp/a/.gitattributes",
            "/w/.gemini/tmp/.github/workflows/ci.yml",
            "/w/.gemini/tmp/.cargo/config.toml",
            "/w/.gemini/tmp/x/HEAD",
        ] {
            assert!(is(path), "{path}");
        }
        for path in [
            "/w/.gemini/tmp/.github/CODEOWNERS",
            "/w/.gemini/tmp/src/a",
            "/w/.gemini/tmp/.gitignore",
            "/home/me/git/x",
            "/w/.gemini/tmp/config",
            "/w/.gemini/tmp/hooks/x",
            "/w/.gemini/tmp/head",
        ] {
            assert!(!is(path), "{path}");
        }
        let bare = tempfile::tempdir().expect("a directory");
        let root = bare.path().to_owned();
        for name in ["objects", "refs"] {
            std::fs::create_dir(root.join(name)).expect("a directory");
        }
        std::fs::write(root.join("HEAD"), "").expect("a file");
        let roots = [root.clone()];
        for (name, expected) in [("config", true), ("hooks/update", true), ("description", false)] {
            assert_eq!(is_protected(&root.join(name), &roots), expected, "{name}");
        }
        assert!(is_agent_rules(Path::new("/w/sub/Agents.md"), &roots));
        assert!(is_agent_rules(Path::new("/w/.github/copilot-instructions.md"), &roots));
        assert!(is_agent_rules(Path::new("/w/WARP.md"), &roots));
        for path in ["/w/.roo/rules/x.md", "/w/.cursor/rules/a.mdc", "/w/.Codex/config.toml"] {
            assert!(is_protected(Path::new(path), &roots), "{path}");
        }
        assert!(!is_agent_rules(Path::new("/w/README.md"), &roots));
    }

    #[test]
    fn protected_names_follow_the_table() {
        let roots = [PathBuf::from("/w")];
        for (pattern, protection) in protected_names::patterns() {
            let pattern = pattern.replace('*', "x");
            for path in [format!("/w/{pattern}"), format!("/w/sub/{pattern}/file")] {
                let path = Path::new(&path);
                let closed = protection == Protection::Closed;
                assert_eq!(is_protected(path, &roots), closed, "{path:?}");
                assert_eq!(is_agent_rules(path, &roots), !closed, "{path:?}");
            }
        }
    }
}
