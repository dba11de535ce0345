//! Collects the files that a set of paths and globs names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use parallax_files::{Access, AllowedPath, IgnoreFlags, WalkOptions, Workspace, walk};
use parallax_protocol::CancellationToken;
use parallax_protocol::tool::{ToolError, ToolErrorKind};

use super::ReadRequest;
use crate::kind::BINARY;
use crate::literal_names;

/// Maximum number of files of one call.
const MAX_FILES: usize = 2_000;
/// Directories that are never relevant.
const FOLDERS: [&str; 5] = ["node_modules", ".git", "bower_components", ".svn", ".hg"];
const FOLDERS_OF_TOOLS: [&str; 7] =
    [".vscode", ".idea", "dist", "build", "coverage", "__pycache__", "target"];

/// The files by path, and what was skipped.
#[derive(Default)]
pub(crate) struct CollectedFiles {
    pub(crate) files: BTreeMap<PathBuf, AllowedPath>,
    pub(crate) skipped: Vec<(PathBuf, String)>,
    /// The patterns that match no file.
    pub(crate) unmatched_patterns: Vec<String>,
}

pub(crate) fn collect_files(
    workspace: &Workspace,
    selection: &ReadRequest,
    cancel: &CancellationToken,
) -> Result<CollectedFiles, ToolError> {
    let mut gathered = CollectedFiles::default();
    let mut patterns = Vec::new();
    for pattern in &selection.include {
        if !literal(workspace, selection, pattern, &mut gathered) {
            patterns.push(pattern.as_str());
        }
    }
    if patterns.is_empty() {
        return Ok(gathered);
    }
    let exclude = exclusion_globs(selection)?;
    let mut directories: Vec<String> = Vec::new();
    if selection.use_default_excludes {
        directories.extend(FOLDERS.iter().chain(&FOLDERS_OF_TOOLS).map(|name| (*name).to_owned()));
        // A directory that a pattern names explicitly is entered.
        directories.retain(|name| !selection.include.iter().any(|pattern| pattern.contains(name)));
    }
    let options = WalkOptions {
        respect_git_ignore: selection.respect_git_ignore,
        respect_gemini_ignore: selection.respect_gemini_ignore,
        exclude_folders: directories,
        ..WalkOptions::default()
    };
    let mut matched = vec![false; patterns.len()];
    for root in workspace.roots() {
        let include = relative_to(&root, &patterns)?;
        for entry in walk(workspace, std::slice::from_ref(&root), &options).build() {
            if cancel.is_cancelled() {
                return Ok(gathered);
            }
            let Ok(entry) = entry else { continue };
            if entry.file_type().is_none_or(|kind| kind.is_dir()) {
                continue;
            }
            let Ok(rest) = entry.path().strip_prefix(&root) else { continue };
            let by = include.matches(rest);
            if by.is_empty() || exclude.is_match(rest) {
                continue;
            }
            for index in by {
                matched.get_mut(index).into_iter().for_each(|it| *it = true);
            }
            add(workspace, entry.path(), &mut gathered);
        }
    }
    let unmatched = patterns.iter().zip(&matched).filter(|(_, matched)| !**matched);
    gathered.unmatched_patterns = unmatched.map(|(pattern, _)| (*pattern).to_owned()).collect();
    Ok(gathered)
}

/// Handles a pattern that names an existing path: a file is read, and a directory means all files
/// below it.
fn literal(
    workspace: &Workspace,
    selection: &ReadRequest,
    pattern: &str,
    gathered: &mut CollectedFiles,
) -> bool {
    let mut found = false;
    for root in workspace.roots() {
        let path = root.join(pattern);
        if !path.is_file() {
            continue;
        }
        found = true;
        let filtering = workspace.ignore_options();
        let mut flags = IgnoreFlags::from_settings(filtering);
        flags.git = selection.respect_git_ignore.unwrap_or(flags.git);
        flags.gemini = selection.respect_gemini_ignore.unwrap_or(flags.gemini);
        match workspace.ignore_rules(flags).ignored_by(&path) {
            Some(reason) => gathered
                .skipped
                .push((path, format!("ignored by the pattern `{}`", reason.pattern))),
            None => add(workspace, &path, gathered),
        }
        if Path::new(pattern).is_absolute() {
            break;
        }
    }
    found
}

fn add(workspace: &Workspace, path: &Path, gathered: &mut CollectedFiles) {
    if gathered.files.len() >= MAX_FILES {
        gathered.skipped.push((path.to_path_buf(), format!("more than {MAX_FILES} files")));
        gathered.skipped.truncate(MAX_FILES);
        return;
    }
    match workspace.confine(path, Access::Read) {
        // Keyed by the real path, so that a link and its target appear once.
        Ok(target) if target.path().is_file() => {
            let real = target.path().to_path_buf();
            gathered.files.entry(real).or_insert(target);
        }
        Ok(_) => {}
        Err(error) => gathered.skipped.push((path.to_path_buf(), error.to_string())),
    }
}

/// Returns the patterns relative to one workspace directory.
fn relative_to(root: &Path, patterns: &[&str]) -> Result<GlobSet, ToolError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let rest = Path::new(pattern);
        let rest = rest.strip_prefix(root).unwrap_or(rest);
        let text = rest.to_string_lossy();
        let text = text.trim_start_matches("./").trim_end_matches('/');
        if root.join(text).is_dir() {
            let glob_text =
                if text.is_empty() { "**".to_owned() } else { format!("{}/**", escape_glob(text)) };
            set.add(glob(&glob_text)?);
        } else {
            set.add(glob(&literal_names::escape_existing(root, text))?);
        }
    }
    set.build().map_err(|error| glob_error(&error))
}

fn exclusion_globs(selection: &ReadRequest) -> Result<GlobSet, ToolError> {
    let mut set = GlobSetBuilder::new();
    for pattern in &selection.exclude {
        set.add(glob(pattern)?);
    }
    if selection.use_default_excludes {
        for extension in BINARY {
            set.add(glob(&format!("**/*.{extension}"))?);
        }
        for name in [".DS_Store", ".env"] {
            set.add(glob(&format!("**/{name}"))?);
        }
        for name in &selection.context_names {
            set.add(glob(&format!("**/{}", escape_glob(name)))?);
        }
    }
    set.build().map_err(|error| glob_error(&error))
}

fn escape_glob(text: &str) -> String {
    globset::escape(text)
}

/// Whether a pattern can be compiled.
pub(crate) fn is_valid(pattern: &str) -> bool {
    glob(pattern).is_ok()
}

fn glob(pattern: &str) -> Result<globset::Glob, ToolError> {
    GlobBuilder::new(pattern)
        .case_insensitive(true)
        .literal_separator(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| glob_error(&error))
}

fn glob_error(error: &globset::Error) -> ToolError {
    ToolError::new(ToolErrorKind::ReadManyFilesSearchError, format!("Invalid glob: {error}"))
}
