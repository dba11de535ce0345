//! Finds the files that a script runs or includes, as far as its text names them: the user accepts
//! a hook together with its helpers. Names that are computed at run time and programs on the search
//! path are not covered.

use std::path::{Path, PathBuf};

use super::{is_data, script_paths};
use crate::read::read_at_most;

/// Maximum size in bytes of a script that is parsed; larger scripts are not followed.
const MAX_BYTES: u64 = 64 * 1024;
/// Maximum nesting depth of scripts.
const DEPTH: usize = 3;
/// Maximum number of files of one hook.
const MAX_COUNT: usize = 64;

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptLanguage {
    Shell,
    Python,
    JavaScript,
}

/// Appends the files that `files` run, recursively. Blocking.
pub(super) fn follow(files: &mut Vec<PathBuf>, project: &Path) {
    let mut start = 0;
    for _ in 0..DEPTH {
        let more: Vec<PathBuf> =
            files.iter().skip(start).flat_map(|file| followed_files(file, project)).collect();
        start = files.len();
        for file in more {
            if files.len() < MAX_COUNT && !files.contains(&file) {
                files.push(file);
            }
        }
    }
}

fn followed_files(file: &Path, project: &Path) -> Vec<PathBuf> {
    let read = read_at_most(file, MAX_BYTES).ok().flatten().filter(|read| !read.is_truncated);
    let Some(text) = read.and_then(|read| String::from_utf8(read.bytes).ok()) else {
        return Vec::new();
    };
    let directory = file.parent().unwrap_or(project);
    let found = match language(file, &text) {
        Some(ScriptLanguage::Shell) => script_paths(&text, project, directory),
        Some(ScriptLanguage::Python) => modules(&text, project, directory),
        Some(ScriptLanguage::JavaScript) => required_files(&text, directory),
        None => Vec::new(),
    };
    found.into_iter().filter(|path| path.is_file() && !is_data(path)).collect()
}

fn language(file: &Path, text: &str) -> Option<ScriptLanguage> {
    let extension = file.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("sh" | "bash" | "zsh" | "ksh") => return Some(ScriptLanguage::Shell),
        Some("py" | "pyw") => return Some(ScriptLanguage::Python),
        Some("js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "tsx" | "jsx") => {
            return Some(ScriptLanguage::JavaScript);
        }
        _ => {}
    }
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!"))?;
    [
        ("python", ScriptLanguage::Python),
        ("node", ScriptLanguage::JavaScript),
        ("sh", ScriptLanguage::Shell),
    ]
    .into_iter()
    .find(|(name, _)| first.contains(name))
    .map(|(_, language)| language)
}

/// Returns the files of `import a.b` and `from .a import b`.
fn modules(text: &str, project: &Path, directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = Vec::new();
        if let Some(rest) = line.strip_prefix("import ") {
            names.extend(rest.split(',').map(first));
        } else if let Some((of, parts)) =
            line.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
        {
            let of = of.trim();
            let joint = if of.ends_with('.') { "" } else { "." };
            names.push(of.to_owned());
            let parts = parts.split(',').map(|part| first(part.trim_matches(['(', ')', ' '])));
            names.extend(parts.map(|part| format!("{of}{joint}{part}")));
        }
        for name in names.iter().filter(|name| !name.is_empty()) {
            let relative = name.trim_start_matches('.');
            // Each further dot is one directory up.
            let mut start = directory;
            for _ in 1..name.len() - relative.len() {
                start = start.parent().unwrap_or(start);
            }
            let path = relative.replace('.', "/");
            for base in [start, project] {
                found.push(base.join(format!("{path}.py")));
                found.push(base.join(&path).join("__init__.py"));
            }
        }
    }
    found
}

/// Returns the files named by `"./…"` and `'../…'`, with optional extensions added.
fn required_files(text: &str, directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for quote in ['"', '\'', '`'] {
        // Splits at quotes and checks the text on both sides of each.
        for name in text.split(quote).filter(|it| it.starts_with("./") || it.starts_with("../")) {
            if name.contains('\n') {
                continue;
            }
            for extension in ["", ".js", ".mjs", ".cjs", ".ts", "/index.js"] {
                let path = directory.join(format!("{name}{extension}"));
                found.push(path.components().collect());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helper_scripts_are_found_and_processed_files_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        // One of the scripts names a file above the project.
        let project = &directory.path().join("project");
        for (name, text) in [
            (
                "hooks/check.sh",
                "#!/bin/sh\nHERE=$(dirname \"$0\")\n. \"$HERE/lib/common.sh\"\nprettier --write app.js\nbash tools/run.sh >log.txt\nif x; then python3 \"${HERE}/py/it.py\"; fi\n",
            ),
            ("hooks/lib/common.sh", "f() { node \"$1\"; ../deep.sh; }\n"),
            (
                "hooks/py/it.py",
                "import os, helper as h\nfrom .near import thing\nfrom pkg import part\n",
            ),
            ("hooks/py/helper.py", ""),
            ("hooks/py/near.py", ""),
            ("pkg/part.py", ""),
            ("tools/run.sh", "node ./go.mjs\n"),
            ("tools/go.mjs", ""),
            ("go.mjs", "import x from './rules'; require(\"../out\"); const a = `./n${b}`"),
            ("rules.js", ""),
            ("app.js", ""),
            ("log.txt", ""),
        ] {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let mut files = vec![project.join("hooks/check.sh")];
        follow(&mut files, project);
        let mut names: Vec<_> = files
            .iter()
            .map(|file| file.strip_prefix(project).expect("within").display().to_string())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "go.mjs",
                "hooks/check.sh",
                "hooks/lib/common.sh",
                "hooks/py/helper.py",
                "hooks/py/it.py",
                "hooks/py/near.py",
                "pkg/part.py",
                "rules.js",
                "tools/go.mjs",
                "tools/run.sh"
            ]
        );
        // A cycle terminates.
        std::fs::write(project.join("a.sh"), "./b.sh").expect("written");
        std::fs::write(project.join("b.sh"), "./a.sh").expect("written");
        let mut files = vec![project.join("a.sh")];
        follow(&mut files, project);
        assert_eq!(files.len(), 2);
    }
}
