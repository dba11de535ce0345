//! Files that control what builds run.

use std::path::Path;

/// Approval that an edit of a build file requires (`security.buildFileGuard`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BuildFileGuard {
    /// Approval by the user, except in yolo mode.
    #[default]
    Ask,
    /// The same as any other edit.
    Off,
}

const BUILD_FILES: &[&str] = &[
    "BUILD",
    "BUILD.bazel",
    "WORKSPACE",
    "WORKSPACE.bazel",
    "MODULE.bazel",
    ".bazelrc",
    ".blazerc",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "CMakeLists.txt",
    "package.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lockb",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "go.mod",
    "go.sum",
    "Cargo.toml",
    "Cargo.lock",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "Dockerfile",
    "Containerfile",
    "build.rs",
    "conftest.py",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "justfile",
    ".npmrc",
    ".yarnrc.yml",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
];
const BUILD_PREFIXES: &[&str] = &["Dockerfile.", "Containerfile."];
const BUILD_EXTENSIONS: &[&str] = &["bzl", "bazel", "bzlmod", "mk", "cmake"];

/// Whether changing the file changes what the next build runs.
pub fn is_build_file(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    BUILD_FILES.contains(&name)
        || BUILD_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| BUILD_EXTENSIONS.contains(&extension))
}
