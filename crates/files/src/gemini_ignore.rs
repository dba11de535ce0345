//! Applies the user's `.geminiignore` to commands: ignored files are hidden in the sandbox and
//! readable only with approval.

use std::path::{Path, PathBuf};

use crate::{IgnoreRules, RuleSource, real_path};

/// Directories of build outputs and installed packages. Ignore files list them to exclude them from
/// searches; hiding them would break every build.
const OF_BUILDS: &[&str] = &[
    "node_modules",
    "target",
    "build",
    "dist",
    "out",
    "coverage",
    "venv",
    ".venv",
    "__pycache__",
    ".cache",
    ".gradle",
    ".next",
];

/// The ignore rules of a workspace.
#[derive(Debug)]
pub struct GeminiIgnore {
    rules: IgnoreRules,
    roots: Vec<PathBuf>,
}

impl GeminiIgnore {
    /// Returns the rules of these workspace directories, with links resolved; `None` if there are
    /// none. Blocking.
    pub fn load(roots: &[PathBuf]) -> Option<Self> {
        let rules = IgnoreRules::geminiignore_only(roots)?;
        Some(Self { rules, roots: roots.to_vec() })
    }

    /// Returns the files that contain the rules.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.roots.iter().map(|root| root.join(".geminiignore"))
    }

    /// Whether the rules name the entry itself, ignoring its parents.
    pub fn names(&self, path: &Path, is_directory: bool) -> bool {
        let is_build_output = |name: &str| path.file_name().is_some_and(|found| found == name);
        let named = self.rules.entry(path, is_directory);
        named.is_some_and(|by| by.source == RuleSource::Gemini)
            && !(is_directory && OF_BUILDS.iter().any(|name| is_build_output(name)))
    }

    /// Whether the rules name the path, one of its parents, or its link target.
    pub fn matches(&self, path: &Path) -> bool {
        let is_directory = path.is_dir();
        let within = |path: &Path| {
            let Some(root) = self.roots.iter().find(|root| path.starts_with(root)) else {
                return false;
            };
            let ancestors = path.ancestors().take_while(|part| *part != root.as_path());
            ancestors.enumerate().any(|(level, part)| self.names(part, level > 0 || is_directory))
        };
        within(path) || real_path(path).is_some_and(|real| real != path && within(&real))
    }
}

#[cfg(test)]
mod tests {
    use super::GeminiIgnore;

    #[test]
    fn user_ignored_files_are_known_and_build_outputs_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        assert!(GeminiIgnore::load(std::slice::from_ref(&root)).is_none());
        for name in ["notes/a", "build/k.key", "build/x", "src/a.rs"] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folders");
            std::fs::write(path, "").expect("a file");
        }
        std::os::unix::fs::symlink("notes/a", root.join("link")).expect("a link");
        std::fs::write(root.join(".geminiignore"), "notes/\n*.key\nbuild\n").expect("a file");
        let left = GeminiIgnore::load(std::slice::from_ref(&root)).expect("rules");
        for (name, expected) in [
            ("notes", true),
            ("notes/a", true),
            ("link", true),
            ("build/k.key", true),
            ("build/x", false),
            ("build", false),
            ("src/a.rs", false),
        ] {
            assert_eq!(left.matches(&root.join(name)), expected, "{name}");
        }
    }
}
