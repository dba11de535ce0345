//! Walks directories with the ignore rules applied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{DirEntry, WalkBuilder};

use crate::hidden_file_tracker::MovedFiles;
use crate::ignore_rules::{IgnoreFlags, IgnoreRules, RuleSource};
use crate::real_path::real_path;
use crate::workspace::Workspace;

/// Options of a walk.
#[derive(Debug, Clone, Default)]
pub struct WalkOptions {
    /// Overrides `respectGitIgnore` for this walk.
    pub respect_git_ignore: Option<bool>,
    /// Overrides `respectGeminiIgnore` for this walk.
    pub respect_gemini_ignore: Option<bool>,
    /// Whether to disable git's ignore files. What the user hides from agents (`.geminiignore`,
    /// custom files) and `.git` stay excluded.
    pub no_ignore: bool,
    /// Names of directories that are not entered, such as `node_modules`.
    pub exclude_folders: Vec<String>,
    /// Number of threads of a parallel walk; 0 lets the walker choose.
    pub threads: usize,
    /// Depth limit; 1 means only the entries of the start directories.
    pub max_depth: Option<usize>,
    /// Collects what a walk with `no_ignore` and without `exclude_folders` would enter.
    pub skipped: Option<Arc<Mutex<SkippedEntries>>>,
    /// Counts ignored entries (a directory counts as one entry).
    pub ignored: Option<Arc<AtomicU64>>,
}

/// Entries that a walk skipped.
#[derive(Debug, Default)]
pub struct SkippedEntries {
    /// Directories with these names.
    pub folders: BTreeSet<String>,
    /// Entries that git ignores.
    pub ignored: u64,
    /// Entries that `.geminiignore` or a custom ignore file hides.
    pub hidden: u64,
    /// Files and directories that no tool may read, such as `.env`.
    pub protected: u64,
}

/// Returns a walker over `roots` that skips ignored files and moved hidden files, includes dot
/// files, and follows no links. Build it serial or parallel. Another `filter_entry` would replace
/// the ignore rules, so filter the results instead.
pub fn walk(workspace: &Workspace, roots: &[PathBuf], options: &WalkOptions) -> WalkBuilder {
    let mut flags = IgnoreFlags::from_settings(workspace.ignore_options());
    flags.git = options.respect_git_ignore.unwrap_or(flags.git);
    flags.gemini = options.respect_gemini_ignore.unwrap_or(flags.gemini);
    if options.no_ignore {
        flags.git = false;
    }
    let rules = Arc::new(workspace.ignore_rules(flags));
    let moved = workspace.moved_files();
    let mut builder = WalkBuilder::from_iter(roots);
    builder
        .standard_filters(false)
        .follow_links(false)
        .threads(options.threads)
        .max_depth(options.max_depth);
    let excluded = options.exclude_folders.clone();
    let (counter, passed) = (options.ignored.clone(), options.skipped.clone());
    builder.filter_entry(move |entry| {
        // Enter directories that were named explicitly, regardless of the rules.
        if entry.depth() == 0 {
            return true;
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        if let Some(name) =
            excluded.iter().find(|name| is_directory && entry.file_name() == name.as_str())
        {
            if let Some(passed) = &passed {
                let mut passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
                passed.folders.insert(name.clone());
            }
            return false;
        }
        let reason = rules.entry(entry.path(), is_directory);
        if let (Some(passed), Some(reason)) = (&passed, &reason) {
            let mut passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
            match reason.source {
                RuleSource::Git => passed.ignored += 1,
                RuleSource::Gemini | RuleSource::Custom => passed.hidden += 1,
                // Each repository has a `.git`; no search is about it.
                RuleSource::BuiltIn => {}
            }
        }
        let was_closed = reason.is_none()
            && (moved.may_contain(entry.ino()) && moved.former_path(entry.path()).is_some()
                || target_is_ignored(&rules, &moved, entry));
        if let (Some(passed), true) = (&passed, was_closed) {
            passed.lock().unwrap_or_else(PoisonError::into_inner).protected += 1;
        }
        let ignored = reason.is_some() || was_closed;
        if ignored && let Some(counter) = &counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        !ignored
    });
    builder
}

/// Whether the entry is a link whose target is ignored.
fn target_is_ignored(rules: &IgnoreRules, moved: &MovedFiles, entry: &DirEntry) -> bool {
    entry.path_is_symlink()
        && real_path(entry.path()).is_some_and(|real: PathBuf| {
            real.as_path() != entry.path()
                && (rules.ignored_by(Path::new(&real)).is_some()
                    || moved.former_path_with_parents(&real).is_some())
        })
}
