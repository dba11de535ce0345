//! Checkpoints around a command, which may change anything: compares the workspace before and after
//! it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parallax_files::{IgnoreFlags, IgnoreRules, real_path};
use parallax_protocol::checkpoint::WriteScope;

use super::command_snapshot::{CommandSnapshot, PreviousContent};
use super::compare::{Comparison, is_in_new_repository};
use super::confined_root::{ConfinedPath, EntryHandle};
use super::copy_budget::{CopyBudget, time_limit};
use super::edit::unrestorable_message;
use super::fixed_files::is_fixed;
use super::git::TrackedState;
use super::listing::{EntryKind, WalkResult, WorkspaceEntry};
use super::moved_folders::{MovedFolders, restore_place};
use super::objects::{StoreResult, file_blob_id};
use super::protected::{is_in_planted_repository, is_instruction, is_protected};
use super::record::{FileRecord, Record};
use super::repositories::{self, MovedRepository};
use super::set_id;
use super::state::{EncodedPath, GitId, PathState, Stamp, human_size};
use super::walk::{WalkLimits, walk};
use super::{ChangeOrigin, CheckpointError, Checkpoints, lock};

/// Size limit in bytes for ignored files, to save local settings but not build products.
const IGNORED_BYTES: u64 = 4 * 1024 * 1024;
/// For repositories inside a workspace directory: the size limit in bytes up to which files are
/// copied although git has them.
const MOVABLE_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum number of files named in [`CommandSnapshot::irreversible_changes`].
const MAX_NAMED: usize = 3;

/// What a command changed in the workspace.
#[derive(Debug, Default)]
pub struct Changes {
    /// New paths.
    pub created: Vec<PathBuf>,
    /// Changed paths.
    pub changed: Vec<PathBuf>,
    /// Deleted paths.
    pub deleted: Vec<PathBuf>,
    /// Those of the above that are protected: they run something, or are instructions for agents.
    pub protected: Vec<PathBuf>,
    /// Those of the protected paths that are only instructions for agents.
    pub instructions: Vec<PathBuf>,
    /// Directories in which changed protected files may not have been found, with the reasons.
    pub unsearched: Vec<(PathBuf, String)>,
    /// Changed setuid and setgid programs.
    pub set_id: Vec<PathBuf>,
    /// `.git` directories that did not exist before.
    pub new_repositories: Vec<PathBuf>,
    /// `.git` directories that are no longer at their original path.
    pub moved_repositories: Vec<MovedRepository>,
    pub(super) turn: u64,
    pub(super) started_at: i64,
    pub(super) before: HashMap<PathBuf, PathState>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.deleted.is_empty()
    }
}

/// Files whose old contents are not copied because git has them.
enum GitCopyPolicy {
    Nothing,
    /// Files of all repositories except these.
    Except(HashSet<Arc<Path>>),
}

impl GitCopyPolicy {
    fn has(&self, top: Option<&Arc<Path>>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Except(repositories) => {
                repositories.is_empty() || top.is_none_or(|top| !repositories.contains(top))
            }
        }
    }
}

/// Returns the small repositories below workspace directories: a command that removes or moves such
/// a directory takes the objects of git with it.
fn movable_repositories(walked: &WalkResult) -> HashSet<Arc<Path>> {
    let parent_directory = |(location, _): &(ConfinedPath, u64)| {
        let directory =
            location.relative.parent().filter(|directory| !directory.as_os_str().is_empty())?;
        Some(location.root.join(directory))
    };
    let tops: HashSet<PathBuf> = walked.repositories.iter().filter_map(parent_directory).collect();
    if tops.is_empty() {
        return HashSet::new();
    }
    let mut sizes: HashMap<Arc<Path>, u64> = HashMap::new();
    for entry in &walked.entries {
        if let EntryKind::File { top: Some(top), .. } = &entry.kind
            && tops.contains(&**top)
        {
            *sizes.entry(Arc::clone(top)).or_default() += entry.stamp.size;
        }
    }
    let mut sizes: Vec<(Arc<Path>, u64)> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, size)| *size);
    let mut remaining = MOVABLE_BYTES;
    let fit = sizes.into_iter().take_while(|(_, size)| {
        let fits = *size <= remaining;
        remaining = remaining.saturating_sub(*size);
        fits
    });
    fit.map(|(top, _)| top).collect()
}

impl Checkpoints {
    /// Saves what a command could change. Show [`CommandSnapshot::irreversible_changes`] before it
    /// runs.
    ///
    /// # Errors
    /// Returns an error if the records cannot be written. Files that cannot be read are listed in
    /// the mark instead.
    pub fn begin_command(&self, turn: u64) -> Result<CommandSnapshot, CheckpointError> {
        self.begin(turn, false)
    }

    /// Like [`begin_command`](Self::begin_command), for a command that may delete the objects of
    /// git: also copies files that git has.
    ///
    /// # Errors
    /// See [`begin_command`](Self::begin_command).
    pub fn begin_command_without_git(&self, turn: u64) -> Result<CommandSnapshot, CheckpointError> {
        self.begin(turn, true)
    }

    fn begin(&self, turn: u64, without_git: bool) -> Result<CommandSnapshot, CheckpointError> {
        self.recover_first();
        let started_at = self.next_timestamp();
        let mut walked = self.walk(Some(self.options.command_time / 2));
        if let (Some(links), Some((_, workspace))) =
            (&self.options.links, self.roots_and_workspace())
        {
            walked.mark_linked(links.link_targets(&workspace.roots()));
        }
        lock(&self.caches).too_large.clone_from(&walked.too_large);
        let old = self.save_contents(&walked, without_git);
        let stored_ids = old.iter().filter_map(|old| match old {
            Some(PreviousContent::Stored(id)) => Some(*id),
            _ => None,
        });
        self.retain_objects(stored_ids)?;
        let protected = walked.entries.iter().filter(|entry| entry.protected);
        let protected = protected.map(|entry| entry.path.path()).collect();
        let mut mark = CommandSnapshot {
            turn,
            started_at,
            walk_result: Arc::new(walked),
            previous_contents: Arc::new(old),
            protected,
            not_undoable: Vec::new(),
        };
        mark.not_undoable = self.irreversible_changes(&mark);
        Ok(mark)
    }

    /// Finds and records what changed since the mark, except for paths that the command could not
    /// write to.
    ///
    /// # Errors
    /// Returns an error if the records cannot be written.
    pub fn end_command(
        &self,
        mark: CommandSnapshot,
        write_scope: &WriteScope,
    ) -> Result<Changes, CheckpointError> {
        let (changes, files) = self.changes_since(&mark, write_scope);
        if !files.is_empty() {
            let (turn, began, ended) = (mark.turn, mark.started_at, self.next_timestamp());
            let by = ChangeOrigin::Command;
            self.append(&Record::Changed { turn, began, ended, by, files })?;
        }
        Ok(changes)
    }

    /// Finds what changed since the mark, for a program that is not a command of the agent. The
    /// changes are not recorded and cannot be undone.
    pub fn end_program(&self, mark: &CommandSnapshot, write_scope: &WriteScope) -> Changes {
        self.changes_since(mark, write_scope).0
    }

    fn changes_since(
        &self,
        mark: &CommandSnapshot,
        write_scope: &WriteScope,
    ) -> (Changes, Vec<FileRecord>) {
        let rules = mark.walk_result.rules.as_deref();
        let after = self.walk_after_command(&mark.walk_result.unvisited, rules);
        let mut found =
            Comparison { checkpoints: self, mark, after: &after, budget: 0, new_protected: 0 };
        let mut records = found.run();
        records.retain(|(location, ..)| {
            write_scope.contains(&location.path())
                || mark.walk_result.hard_linked.contains(location)
        });
        let mut changes =
            Changes { turn: mark.turn, started_at: mark.started_at, ..Changes::default() };
        let newly = after.unsearched.iter().filter(|(location, _)| {
            !mark.walk_result.unsearched.contains_key(location)
                && !mark.walk_result.unvisited.contains(location)
        });
        changes.unsearched =
            newly.map(|(location, reason)| (location.path(), (*reason).to_owned())).collect();
        changes.set_id = set_id::changed_programs(&mark.walk_result, &after);
        changes.set_id.retain(|path| write_scope.contains(path));
        let mut files = Vec::new();
        let before = mark.walk_result.repositories.iter();
        let before: HashSet<&ConfinedPath> = before.map(|(location, _)| location).collect();
        let new = after.repositories.iter().filter(|(location, _)| !before.contains(location));
        changes.new_repositories = new.map(|(location, _)| location.path()).collect();
        changes.moved_repositories = repositories::moved_repositories(&mark.walk_result, &after);
        changes.moved_repositories.retain(|moved| write_scope.contains(&moved.path));
        // A new link may lead a protected link, or a missing target of one, elsewhere.
        let is_link = |state: &PathState| matches!(state, PathState::Link { .. });
        let makes_link = records.iter().any(|(.., after)| is_link(after));
        let linked_now = match (&self.options.links, self.roots_and_workspace()) {
            (Some(links), Some((_, workspace))) if makes_link => {
                Some(links.link_targets_now(&workspace.roots()))
            }
            _ => None,
        };
        let protected = |location: &ConfinedPath| {
            let path = location.path();
            is_protected(&location.relative)
                || is_in_planted_repository(location)
                || mark.walk_result.linked.contains(&path)
                || linked_now.as_ref().is_some_and(|linked| linked.contains(&path))
        };
        let moved = records.iter().any(|(location, ..)| protected(location));
        let moved = moved.then(|| MovedFolders::compare(&mark.walk_result, &after));
        for (location, before, after) in records {
            let path = location.path();
            let list = match (before.is_absent(), after.is_absent()) {
                (true, _) => &mut changes.created,
                (_, true) => &mut changes.deleted,
                _ => &mut changes.changed,
            };
            list.push(path.clone());
            changes.before.insert(path.clone(), before.clone());
            if let Some(moved) = moved.as_ref().filter(|_| protected(&location)) {
                let protected = restore_place(&location, &after, mark, moved, &mut changes.before);
                if let Some(path) = &protected
                    && path.strip_prefix(&location.root).is_ok_and(is_instruction)
                {
                    changes.instructions.push(path.clone());
                }
                changes.protected.extend(protected);
            }
            if !is_in_new_repository(&location, &before, &mark.walk_result) {
                files.push(FileRecord {
                    path: EncodedPath::from_path(&path),
                    before,
                    after: Some(after),
                });
            }
        }
        (changes, files)
    }

    /// Walks the workspace before a command.
    pub(super) fn walk(&self, added_time: Option<Duration>) -> WalkResult {
        self.walk_with(added_time, None, None)
    }

    /// Walks the workspace after a command and makes directories readable that were not closed
    /// before. Directories that are ignored only since then, unlike by `rules_before`, are searched
    /// for protected files.
    pub(super) fn walk_after_command(
        &self,
        closed_before: &HashSet<ConfinedPath>,
        rules_before: Option<&IgnoreRules>,
    ) -> WalkResult {
        self.walk_with(None, Some(closed_before), rules_before)
    }

    fn walk_with(
        &self,
        added_time: Option<Duration>,
        opening: Option<&HashSet<ConfinedPath>>,
        rules_before: Option<&IgnoreRules>,
    ) -> WalkResult {
        let Some((roots, workspace)) = self.roots_and_workspace() else {
            return WalkResult::default();
        };
        let flags = IgnoreFlags { git: true, gemini: false, custom: false };
        let rules = workspace.ignore_rules(flags);
        // Exclude the Parallax home directory, which is inside the workspace if that is the home
        // directory of the user.
        let excluded = self.options.folder.parent().unwrap_or(&self.options.folder);
        let excluded = real_path(excluded).unwrap_or_else(|| excluded.to_path_buf());
        let mut caches = lock(&self.caches);
        let limits = WalkLimits {
            excluded: &excluded,
            quarantine: caches.quarantine.clone(),
            entries: self.options.entries,
            too_large: caches.too_large.clone(),
            added_time,
            opening,
            rules_before,
        };
        walk(&roots, Arc::new(rules), &mut caches.indexes, limits)
    }

    /// Saves the contents of every file, as far as the limits allow.
    fn save_contents(
        &self,
        walked: &WalkResult,
        without_git: bool,
    ) -> Vec<Option<PreviousContent>> {
        let git = match (without_git, self.options.blobs.is_some()) {
            (false, true) => GitCopyPolicy::Except(movable_repositories(walked)),
            _ => GitCopyPolicy::Nothing,
        };
        let mut old: Vec<Option<PreviousContent>> = vec![None; walked.entries.len()];
        let mut pending: Vec<(usize, &WorkspaceEntry, Option<GitId>)> = Vec::new();
        {
            let caches = lock(&self.caches);
            for (at, (entry, slot)) in walked.entries.iter().zip(&mut old).enumerate() {
                let EntryKind::File { git_state, ignored, top } = &entry.kind else {
                    continue;
                };
                let from_git = git.has(top.as_ref());
                if let (TrackedState::Clean(blob), true) = (git_state, from_git) {
                    *slot = Some(PreviousContent::Git(*blob));
                    continue;
                }
                let cached = caches.contents.get(&entry.path);
                let cached = cached.filter(|(stamp, old)| {
                    *stamp == entry.stamp && (from_git || !matches!(old, PreviousContent::Git(_)))
                });
                *slot = match (git_state, from_git, cached) {
                    (_, _, Some((_, old))) => Some(*old),
                    _ if *ignored && entry.stamp.size > IGNORED_BYTES => {
                        Some(PreviousContent::Ignored)
                    }
                    _ if entry.stamp.size > self.options.file_bytes => {
                        Some(PreviousContent::TooLarge)
                    }
                    (TrackedState::PossiblyModified(blob), true, _) => {
                        pending.push((at, entry, Some(*blob)));
                        None
                    }
                    _ => {
                        pending.push((at, entry, None));
                        None
                    }
                };
            }
        }
        let mut directories = HashMap::new();
        pending.retain(|(at, entry, _)| {
            let fixed = is_fixed(&entry.path, &mut directories);
            if let (true, Some(slot)) = (fixed, old.get_mut(*at)) {
                *slot = Some(PreviousContent::Fixed);
            }
            !fixed
        });
        // Protected and small files take precedence if not everything fits.
        pending.sort_by_key(|(_, entry, _)| (!entry.protected, entry.stamp.size));
        let bytes = pending.iter().map(|(_, entry, _)| entry.stamp.size).sum::<u64>();
        // Do not remove all older contents for a single command.
        let max_bytes = self.options.command_bytes.min(self.options.total_bytes / 2);
        self.contents.free_space(bytes.min(max_bytes));
        let results = self.copy_all(&pending);
        let mut caches = lock(&self.caches);
        if caches.contents.len() > 2 * self.options.entries {
            caches.contents.clear();
        }
        for (at, result, stamp) in results {
            let Some(entry) = walked.entries.get(at) else { continue };
            let is_safe = matches!(result, PreviousContent::Stored(_) | PreviousContent::Git(_));
            if is_safe
                && stamp == Some(entry.stamp)
                && !entry.stamp.may_change_unnoticed(walked.started_at)
            {
                caches.contents.insert(entry.path.clone(), (entry.stamp, result));
            }
            if let Some(slot) = old.get_mut(at) {
                *slot = Some(result);
            }
        }
        old
    }

    /// Reads files on several threads.
    fn copy_all(&self, open: &[(usize, &WorkspaceEntry, Option<GitId>)]) -> Vec<TakeResult> {
        let results = Mutex::new(Vec::with_capacity(open.len()));
        let next = AtomicUsize::new(0);
        let was_late = self.exceeded_time_limit.load(Ordering::Relaxed);
        let budget = CopyBudget::new(time_limit(&self.options, was_late, open.len()));
        let work = || {
            let mut mine = Vec::new();
            while let Some((at, entry, blob)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (old, stamp) = match self.copy_one(entry, *blob, &budget) {
                    Ok((old, stamp)) => (old, Some(stamp)),
                    Err(_) => (PreviousContent::Unreadable, None),
                };
                mine.push((*at, old, stamp));
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        if threads == 1 || open.len() < 64 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 1..threads {
                    scope.spawn(work);
                }
                work();
            });
        }
        self.exceeded_time_limit.store(budget.was_exceeded.into_inner(), Ordering::Relaxed);
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where the contents are, and the stamp of the file that was read.
    fn copy_one(
        &self,
        entry: &WorkspaceEntry,
        blob: Option<GitId>,
        budget: &CopyBudget,
    ) -> io::Result<(PreviousContent, Stamp)> {
        if Instant::now() >= budget.deadline {
            budget.was_exceeded.store(true, Ordering::Relaxed);
            return Ok((PreviousContent::Budget, entry.stamp));
        }
        let (file, stamp) = EntryHandle::open(&entry.path, false)?.file()?;
        let cap = self.options.command_bytes;
        if let Some(blob) = blob {
            // Reading is cheaper than copying.
            if budget.compared.fetch_add(stamp.size, Ordering::Relaxed) > cap.saturating_mul(4) {
                return Ok((PreviousContent::Budget, stamp));
            }
            if file_blob_id(&mut &file, stamp.size)? == Some(blob) {
                return Ok((PreviousContent::Git(blob), stamp));
            }
            io::Seek::seek(&mut &file, io::SeekFrom::Start(0))?;
        }
        if budget.copied.fetch_add(stamp.size, Ordering::Relaxed).saturating_add(stamp.size) > cap {
            return Ok((PreviousContent::Budget, stamp));
        }
        if !self.contents.has_space_for(stamp.size) {
            return Ok((PreviousContent::Full, stamp));
        }
        let old = match self.contents.objects.store(&file, stamp.size, self.options.file_bytes)? {
            StoreResult::Stored(id) => PreviousContent::Stored(id),
            StoreResult::TooLarge => PreviousContent::TooLarge,
        };
        Ok((old, stamp))
    }

    fn irreversible_changes(&self, mark: &CommandSnapshot) -> Vec<String> {
        let mut lines = Vec::new();
        let mut lost: Vec<&WorkspaceEntry> = Vec::new();
        for (entry, old) in mark.walk_result.entries.iter().zip(mark.previous_contents.iter()) {
            let is_file = matches!(entry.kind, EntryKind::File { .. });
            if is_file
                && !matches!(
                    old,
                    Some(
                        PreviousContent::Stored(_)
                            | PreviousContent::Git(_)
                            | PreviousContent::Fixed
                    )
                )
            {
                lost.push(entry);
            }
        }
        lost.sort_by_key(|entry| std::cmp::Reverse(entry.stamp.size));
        for entry in lost.iter().take(MAX_NAMED) {
            lines.push(unrestorable_message(&entry.path, entry.stamp.size));
        }
        let more = lost.get(MAX_NAMED..).unwrap_or_default();
        if !more.is_empty() {
            let bytes = more.iter().map(|entry| entry.stamp.size).sum();
            lines.push(format!("{} more files ({}) are not saved", more.len(), human_size(bytes)));
        }
        for root in &mark.walk_result.too_large {
            lines.push(format!(
                "{} is too large to be scanned before each command; none of its files are saved",
                root.display()
            ));
        }
        if mark.walk_result.is_truncated {
            lines.push(format!(
                "the workspace has more than {} files and directories; the rest is not saved",
                self.options.entries
            ));
        }
        for (location, reason) in &mark.walk_result.unsearched {
            lines.push(format!("{}: {reason}", location.path().display()));
        }
        let names = &mark.walk_result.ignored_names;
        if !names.is_empty() {
            let some: Vec<&str> = names.iter().take(MAX_NAMED).map(String::as_str).collect();
            let dots = if names.len() > MAX_NAMED { ", …" } else { "" };
            lines.push(format!("{IGNORED_DIRECTORIES} ({}{dots}) are not saved", some.join(", ")));
        }
        lines
    }
}

/// Start of the text about directories that git ignores, among what cannot be undone.
pub const IGNORED_DIRECTORIES: &str = "files in ignored directories";

/// The index of an entry, where its contents are, and the stamp of the file that was read.
type TakeResult = (usize, PreviousContent, Option<Stamp>);
