//! Checks that stand above the rules.

use std::path::Path;

use parallax_protocol::policy::Query;
use serde_json::Value;

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
];
const BUILD_PREFIXES: &[&str] = &["Dockerfile.", "Containerfile."];
const BUILD_EXTENSIONS: &[&str] = &["bzl", "bazel", "bzlmod", "mk", "cmake"];

/// Whether a change of the file changes what the next build runs.
pub fn is_build_file(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    BUILD_FILES.contains(&name)
        || BUILD_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| BUILD_EXTENSIONS.contains(&extension))
}

/// Whether the call touches the credentials that a CI job leaves in the folder.
pub(crate) fn touches_job_credentials(query: &Query<'_>) -> bool {
    let effects = query.effects;
    effects
        .reads
        .iter()
        .chain(&effects.writes)
        .any(|path| names_credentials(&path.to_string_lossy()))
        || effects.runs.iter().any(|command| names_credentials(command))
        || query.args.iter().any(|(key, value)| {
            // Text for a file may well speak of them (an ignore file does).
            !matches!(key.as_str(), "content" | "old_string" | "new_string") && any_text(value, 0)
        })
}

fn any_text(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(text) => names_credentials(text),
        Value::Array(items) if depth < 16 => items.iter().any(|item| any_text(item, depth + 1)),
        Value::Object(fields) if depth < 16 => {
            fields.values().any(|field| any_text(field, depth + 1))
        }
        _ => false,
    }
}

fn names_credentials(text: &str) -> bool {
    text.find("gha-creds-")
        .is_some_and(|start| text.get(start..).is_some_and(|rest| rest.contains(".json")))
}
