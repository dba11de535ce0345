//! Detects changes of installed extensions with three hashes: of the files that give the extension
//! capabilities, of the programs that its servers run, and of its text files.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::manifest::Manifest;
use super::metadata::capability_hash;
use super::variables::ExtensionVariables;
use crate::hook_definitions::hooks_of_folder;
use crate::json_state_file::digest;
use crate::read::read_at_most;

/// Files up to this many bytes are hashed.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of files per hash.
const MAX_FILES: usize = 500;
/// Maximum directory depth.
const DEPTH: usize = 8;
/// Separates the hashes. Older records hold only the first one.
const SEPARATOR: char = '.';

/// Extensions of files that an interpreter or the system runs or loads.
const ENDS: &[&str] = &[
    "sh",
    "bash",
    "zsh",
    "fish",
    "ksh",
    "command",
    "ps1",
    "psm1",
    "bat",
    "cmd",
    "vbs",
    "wsf",
    "py",
    "pyw",
    "pyc",
    "pyz",
    "pth",
    "whl",
    "js",
    "mjs",
    "cjs",
    "jsx",
    "ts",
    "mts",
    "cts",
    "tsx",
    "node",
    "rb",
    "pl",
    "pm",
    "php",
    "lua",
    "tcl",
    "r",
    "go",
    "rs",
    "java",
    "kts",
    "groovy",
    "awk",
    "exs",
    "jar",
    "class",
    "wasm",
    "exe",
    "com",
    "dll",
    "so",
    "dylib",
    "scpt",
    "applescript",
    "deb",
];
/// Files that define what a program loads or starts.
const NAMES: &[&str] = &[
    "package.json",
    "makefile",
    "justfile",
    "rakefile",
    "gemfile",
    "dockerfile",
    "pyproject.toml",
    "setup.cfg",
    "cargo.toml",
    "deno.json",
    "deno.jsonc",
    "taskfile.yml",
    "node_modules",
];

/// Whether an interpreter or the system runs or loads files with this lowercase name.
pub fn is_executable_name(name: &str) -> bool {
    let end = name.rsplit_once('.').map(|(_, end)| end).unwrap_or_default();
    ENDS.contains(&end) || NAMES.contains(&name)
}

/// Returns the hashes of the capabilities, programs, and text of a directory. Blocking; reads a
/// few small files.
pub fn fingerprint(directory: &Path) -> String {
    [capability_hash(directory), programs(directory), hash_text_files(directory)]
        .join(&SEPARATOR.to_string())
}

/// What changed in an extension since its installation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExtensionChanges {
    /// Whether its manifest, hooks, agents, or rules changed.
    pub(crate) has_code_changes: bool,
    /// Whether the programs of its servers changed.
    pub(crate) programs: bool,
    /// Whether its commands, context files, or skills changed.
    pub(crate) texts: bool,
}

impl ExtensionChanges {
    /// Compares a directory with the recorded hashes ([`fingerprint`]). Blocking.
    pub(crate) fn detect(noted: &str, directory: &Path) -> Self {
        let mut noted = noted.split(SEPARATOR);
        let mut differs = |now: &dyn Fn(&Path) -> String| {
            // A hash that was not recorded counts as unchanged.
            noted.next().is_some_and(|noted| noted != now(directory))
        };
        Self {
            has_code_changes: differs(&capability_hash),
            programs: differs(&programs),
            texts: differs(&hash_text_files),
        }
    }
}

/// Hashes the files named in server command lines, and the code files next to and below them that
/// they may load.
fn programs(folder: &Path) -> String {
    let Ok(manifest) = Manifest::read(folder) else { return String::new() };
    let variables = ExtensionVariables::new(folder, Path::new(""), &[], &[]);
    let mut named: Vec<PathBuf> = Vec::new();
    for server in manifest.servers.values() {
        let text = |key: &str| server.get(key).and_then(Value::as_str);
        let directory = text("cwd").map(|cwd| folder.join(variables.fill(cwd)));
        let directory = directory
            .as_deref()
            .filter(|directory| directory.starts_with(folder))
            .unwrap_or(folder);
        let args = server.get("args").and_then(Value::as_array).into_iter().flatten();
        for word in text("command").into_iter().chain(args.filter_map(Value::as_str)) {
            // `--require=x.js`
            for word in [Some(word), word.split_once('=').map(|(_, value)| value)] {
                let path =
                    word.map(|word| normalize_lexically(&directory.join(variables.fill(word))));
                named.extend(path.filter(|path| path.starts_with(folder) && path.is_file()));
            }
        }
    }
    let mut files = named.clone();
    for path in &named {
        let Some(parent) = path.parent() else { continue };
        collect(parent, 0, &mut files, &|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            is_executable_name(&name) && !name.ends_with(".pyc")
        });
    }
    // Hook scripts are already part of the capabilities.
    let hooks = hooks_of_folder(folder, &mut Vec::new());
    let scripts: Vec<PathBuf> = hooks.iter().flat_map(|hook| hook.scripts(folder)).collect();
    files.retain(|file| !scripts.contains(file) && !file.starts_with(folder.join("hooks")));
    hash(folder, files)
}

/// Hashes its commands, context files, and skills.
fn hash_text_files(directory: &Path) -> String {
    let mut files = Vec::new();
    let ends = |ends: &'static [&'static str]| {
        move |path: &Path| path.extension().is_some_and(|it| ends.iter().any(|end| it == *end))
    };
    collect(&directory.join("commands"), 0, &mut files, &ends(&["toml", "md"]));
    collect(&directory.join("skills"), 0, &mut files, &|path: &Path| path.ends_with("SKILL.md"));
    if let Ok(manifest) = Manifest::read(directory) {
        files.extend(manifest.context_paths(directory).0);
    }
    hash(directory, files)
}

/// Removes `.` and `..` from the path.
fn normalize_lexically(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Collects the files below a directory for which `counts` returns true, without downloaded or
/// generated files.
fn collect(
    directory: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    counts: &dyn Fn(&Path) -> bool,
) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name == "node_modules" || name == "__pycache__" {
            continue;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH => collect(&path, depth + 1, files, counts),
            Ok(kind) if !kind.is_dir() && counts(&path) && files.len() < MAX_FILES => {
                files.push(path);
            }
            _ => {}
        }
    }
}

fn hash(directory: &Path, mut files: Vec<PathBuf>) -> String {
    files.sort();
    files.dedup();
    // Context files are returned with their links resolved.
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for path in files {
        let name = path.strip_prefix(directory).or_else(|_| path.strip_prefix(&real));
        let name = name.unwrap_or(&path);
        pieces.push(name.as_os_str().as_encoded_bytes().to_vec());
        if let Ok(Some(read)) = read_at_most(&path, MAX_BYTES) {
            pieces.push(read.bytes);
        }
    }
    digest(pieces.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_classified_and_older_records_stay_valid() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            std::fs::write(path, text).expect("written");
        };
        write(
            "gemini-extension.json",
            r#"{"name": "a", "version": "1", "mcpServers": {"s": {"command": "node",
                "args": ["${extensionPath}${/}dist/s.js"]}}}"#,
        );
        for name in ["dist/s.js", "dist/lib/l.js", "GEMINI.md", "skills/s/SKILL.md", "README.md"] {
            write(name, "1");
        }
        write("commands/c.toml", "prompt = 'x'");
        let noted = fingerprint(root);
        assert_eq!(ExtensionChanges::detect(&noted, root), ExtensionChanges::default());
        for (name, changes) in [
            ("dist/s.js", ExtensionChanges { programs: true, ..ExtensionChanges::default() }),
            ("dist/lib/l.js", ExtensionChanges { programs: true, ..ExtensionChanges::default() }),
            ("commands/c.toml", ExtensionChanges { texts: true, ..ExtensionChanges::default() }),
            ("GEMINI.md", ExtensionChanges { texts: true, ..ExtensionChanges::default() }),
            ("skills/s/SKILL.md", ExtensionChanges { texts: true, ..ExtensionChanges::default() }),
            (
                "hooks/hooks.json",
                ExtensionChanges { has_code_changes: true, ..ExtensionChanges::default() },
            ),
            ("README.md", ExtensionChanges::default()),
            ("dist/s.log", ExtensionChanges::default()),
        ] {
            let before = std::fs::read_to_string(root.join(name));
            write(name, "{}");
            assert_eq!(ExtensionChanges::detect(&noted, root), changes, "{name}");
            match before {
                Ok(text) => write(name, &text),
                Err(_) => std::fs::remove_file(root.join(name)).expect("removed"),
            }
        }
        let older = noted.split(SEPARATOR).next().expect("one");
        write("dist/s.js", "2");
        assert_eq!(ExtensionChanges::detect(older, root), ExtensionChanges::default());
    }
}
