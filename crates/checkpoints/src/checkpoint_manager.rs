//! Checkpoints for the engine: stores file versions before changes, and reverts changes of
//! protected files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_files::SeenFiles;
use parallax_policy::bash;
use parallax_protocol::checkpoint::{
    CheckpointGuard, Checkpoints, PendingChange, RevertedFiles, WriteScope,
};
use parallax_protocol::event::UndoResult;
use parallax_protocol::ids::SessionId;
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::protected_links::FindLinkTargets;
use parallax_protocol::tool::Effects;
use parallax_store::{
    BlobReader, CheckpointError, CheckpointOptions, CommandSnapshot, EditSnapshot,
    IGNORED_DIRECTORIES, PendingRestore, UnfinishedCommandGuard,
};

use crate::protected_changes::{
    AllowedProtectedWrites, disallowed_changes, may_change_protected, remove_set_id,
    restore_repositories, revert, unsearched_directories,
};

/// Timeout of reading one file from git.
const BLOB_TIME: Duration = Duration::from_secs(20);
/// Maximum size of a file read from git. Larger files are not stored either.
const BLOB_SIZE: u64 = 256 * 1024 * 1024;

/// Shown because checkpoints do not cover git's own data.
const GIT_STATE: &str = "the state of git (commits, branches, the index): only files are restored";

/// The checkpoints of a session.
pub struct CheckpointManager {
    store: Arc<parallax_store::Checkpoints>,
    shared: Arc<CommandTracker>,
    seen_files: Arc<SeenFiles>,
}

/// State shared by the commands of a session.
#[derive(Default)]
struct CommandTracker {
    /// Notices already shown, so that each is shown once.
    shown_notices: Mutex<HashSet<String>>,
    /// The workspace before the first command. Changes to protected files by background processes
    /// are detected against it when the session ends.
    baseline: Mutex<Option<CommandSnapshot>>,
    /// Protected paths that were changed with permission.
    open: Mutex<HashSet<PathBuf>>,
    /// Whether a confined MCP server runs for the whole session.
    has_server: AtomicBool,
    /// Paths that MCP servers may write.
    server_paths: Mutex<Vec<PathBuf>>,
    /// What each MCP server could write when it started.
    server_scopes: Mutex<Vec<WriteScope>>,
    /// What commands could write. Background processes that they left can still write it.
    write_scopes: Mutex<Vec<WriteScope>>,
    commands: Mutex<RunningCommands>,
}

/// The running commands. Their permissions are known only when they end, so a watch that ends
/// earlier waits for them.
#[derive(Default)]
struct RunningCommands {
    running: usize,
    waiting_watches: Vec<WorkspaceWatch>,
}

/// A running command; it counts as ended when this is dropped.
struct CommandWatch(Arc<CommandTracker>);

impl CommandWatch {
    fn new(shared: &Arc<CommandTracker>) -> Self {
        lock(&shared.commands).running += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for CommandWatch {
    fn drop(&mut self) {
        let mut commands = lock(&self.0.commands);
        commands.running = commands.running.saturating_sub(1);
    }
}

impl CommandTracker {
    /// Returns whether a program of the session could write the path.
    fn may_write(&self, path: &Path) -> bool {
        let scopes = [lock(&self.write_scopes).clone(), lock(&self.server_scopes).clone()].concat();
        any_can_write(&scopes, path)
    }

    /// Returns the watches that waited for commands, if no command is running.
    fn waiting(&self) -> Vec<WorkspaceWatch> {
        let mut commands = lock(&self.commands);
        match commands.running {
            0 => std::mem::take(&mut commands.waiting_watches),
            _ => Vec::new(),
        }
    }
}

fn note(write_scopes: &Mutex<Vec<WriteScope>>, write_scope: &WriteScope) {
    let mut write_scopes = lock(write_scopes);
    if !write_scopes.contains(write_scope) {
        write_scopes.push(write_scope.clone());
    }
}

/// Returns whether one of these programs could write the path. Without any known program, it is
/// assumed writable.
fn any_can_write(write_scopes: &[WriteScope], path: &Path) -> bool {
    write_scopes.is_empty() || write_scopes.iter().any(|write_scope| write_scope.contains(path))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the checkpoint store of a session; `links` is needed if commands will run. The disk is not
/// accessed before the first use.
pub fn open(
    dirs: &parallax_store::SessionDirs,
    project: &Path,
    session: SessionId,
    roots: Vec<PathBuf>,
    total_bytes: Option<u64>,
    links: Option<Arc<dyn FindLinkTargets>>,
) -> parallax_store::Checkpoints {
    let directory = dirs.parallax.join("checkpoints");
    let project = parallax_store::project_folder(project);
    let mut options = CheckpointOptions::new(directory, project, session, roots);
    options.total_bytes = total_bytes.unwrap_or(options.total_bytes);
    options.blobs = Some(BlobReader::new(read_blob));
    options.links = links;
    parallax_store::Checkpoints::open(options)
}

/// Returns whether the command may delete git objects: it names a `.git` directory, or makes git
/// drop objects.
fn may_delete_objects(command: &str) -> bool {
    let drops = [" gc", "prune", "repack"].iter().any(|word| command.contains(word));
    if command.contains("git") && drops {
        return true;
    }
    let goes_on = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let mut pieces = command.split(".git");
    let before = pieces.next().unwrap_or_default();
    let mut starts = !before.ends_with(goes_on);
    pieces.any(|after| {
        let is_name = starts && !after.starts_with(goes_on);
        starts = !after.ends_with(goes_on);
        is_name
    })
}

/// Reads a blob from git. No filter or hook of the repository runs.
fn read_blob(top: &Path, id: &str) -> std::io::Result<Vec<u8>> {
    let arguments = ["cat-file", "blob", id];
    let variables = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1")];
    parallax_exec::program::output("git", arguments, top, &variables, BLOB_SIZE, BLOB_TIME)
        .ok_or_else(|| std::io::Error::other(format!("git could not read its object {id}")))
}

impl CheckpointManager {
    pub fn new(store: parallax_store::Checkpoints, seen_files: Arc<SeenFiles>) -> Self {
        Self { store: Arc::new(store), shared: Arc::default(), seen_files }
    }

    /// Returns the checkpoint store.
    pub fn store(&self) -> Arc<parallax_store::Checkpoints> {
        Arc::clone(&self.store)
    }

    /// Records that a confined MCP server is about to start. Its changes to protected files, except
    /// those in `server_paths`, are detected when the session ends, as far as `write_scope` allows
    /// it to write them. Blocking.
    pub fn serve(&self, granted: &[PathBuf], write_scope: &WriteScope) {
        note(&self.shared.server_scopes, write_scope);
        lock(&self.shared.server_paths).extend(granted.iter().cloned());
        self.shared.has_server.store(true, Ordering::Relaxed);
        let mut baseline = lock(&self.shared.baseline);
        if baseline.is_none() {
            *baseline = self.store.begin_command(0).ok();
        }
    }

    /// Called when all programs of the session have ended. Reverts protected files that a
    /// background process changed in the meantime, or only lists them. Does nothing without a
    /// background process (`background`) or an MCP server ([`serve`](Self::serve)). Blocking.
    pub fn finish_session(&self, background: bool, has_user: bool) -> Vec<String> {
        // Watches of commands that never reported their end.
        let waiting = std::mem::take(&mut lock(&self.shared.commands).waiting_watches);
        waiting.into_iter().for_each(|watch| drop(watch.revert()));
        let serves = self.shared.has_server.load(Ordering::Relaxed);
        if !serves && !background {
            return Vec::new();
        }
        let Some(baseline) = lock(&self.shared.baseline).take() else { return Vec::new() };
        let none = Permissions::default();
        let granted = to_write(lock(&self.shared.server_paths).clone());
        let mut changes = self.store.end_program(&baseline, &WriteScope::default());
        changes.moved_repositories.retain(|moved| self.shared.may_write(&moved.path));
        let open: HashSet<PathBuf> = lock(&self.shared.open).iter().cloned().collect();
        let mut closed =
            disallowed_changes(&changes, &AllowedProtectedWrites::from_effects(None, &granted));
        closed.retain(|path| !open.contains(path) && self.shared.may_write(path));
        // In an interactive session, the user may have changed such files as well.
        if serves && has_user && !background {
            let moved = changes.moved_repositories.iter().map(|moved| &moved.path);
            let paths: Vec<String> =
                moved.chain(&closed).map(|path| format!("`{}`", path.display())).collect();
            return match paths.is_empty() {
                true => Vec::new(),
                false => vec![format!(
                    "protected files changed while a confined MCP server ran; check those that you \
                     did not change yourself: {}",
                    paths.join(", ")
                )],
            };
        }
        let repositories = restore_repositories(&changes, &none);
        let mut reverted = revert(&self.store, &changes, &closed).combine(repositories);
        if !has_user {
            reverted = reverted.combine(remove_set_id(&self.store, &changes));
        }
        reverted.combine(unsearched_directories(&changes)).note().into_iter().collect()
    }

    /// Reverts the changes to protected files by commands whose Parallax process was killed.
    /// Blocking.
    pub fn revert_abandoned(&self) -> Option<String> {
        let mut all_reverted = RevertedFiles::default();
        for abandoned in self.store.abandoned_changes() {
            // An unreadable entry allows nothing.
            let allowance: AllowedProtectedWrites =
                serde_json::from_value(abandoned.allowed.clone()).unwrap_or_default();
            let closed = disallowed_changes(&abandoned.changes, &allowance);
            let reverted = revert(&self.store, &abandoned.changes, &closed);
            // Changes that could not be reverted are tried again at the next start.
            if reverted.unrestored.is_empty() {
                abandoned.finish();
            }
            all_reverted = all_reverted.combine(reverted);
        }
        all_reverted
            .note()
            .map(|note| format!("An earlier session was killed during a command: {note}"))
    }

    /// Records the workspace before a confined program that is not a command runs: a hook, a
    /// discovery command, or a call to an MCP server. Blocking.
    pub fn watch(&self) -> Option<WorkspaceWatch> {
        let mark = self.store.begin_command(0).ok()?;
        Some(WorkspaceWatch {
            store: Arc::clone(&self.store),
            shared: Arc::clone(&self.shared),
            mark,
            command: String::new(),
            permissions: Permissions::default(),
            is_server: false,
        })
    }

    /// Makes the model read restored files again, so that its next edit is based on the restored
    /// contents.
    fn forget_restored(&self, undone: &UndoResult) {
        undone.restored.iter().for_each(|path| self.seen_files.forget(path));
    }

    /// Returns the messages that were not shown before.
    fn filter_new(&self, texts: &[String]) -> Vec<String> {
        let mut output = lock(&self.shared.shown_notices);
        texts.iter().filter(|text| output.insert(key_of(text).to_owned())).cloned().collect()
    }
}

/// Returns what identifies text that is shown once: the names of ignored directories change.
fn key_of(text: &str) -> &str {
    if text.starts_with(IGNORED_DIRECTORIES) { IGNORED_DIRECTORIES } else { text }
}

impl Checkpoints for CheckpointManager {
    fn irreversible_changes(&self, change: PendingChange<'_>) -> Vec<String> {
        let command = match change {
            PendingChange::Files(paths) => return self.store.unrestorable_changes(paths),
            PendingChange::Command(command) => command,
        };
        // Begins a checkpoint only to list what cannot be undone; files stored by it are reused
        // later.
        let Ok(mark) = self.store.begin_command(0) else { return Vec::new() };
        // The notice about ignored files appears once, and again before a command that deletes.
        let deletes =
            bash::analyze(command).commands.iter().any(|it| bash::destruction(it).is_some());
        let output = lock(&self.shared.shown_notices);
        let is_due = |text: &&String| {
            deletes || !text.starts_with(IGNORED_DIRECTORIES) || !output.contains(key_of(text))
        };
        mark.irreversible_changes().iter().filter(is_due).cloned().collect()
    }

    fn save_before(
        &self,
        turn: u64,
        change: PendingChange<'_>,
    ) -> Result<Box<dyn CheckpointGuard>, String> {
        let to_error = |error: CheckpointError| error.to_string();
        let store = Arc::clone(&self.store);
        Ok(match change {
            PendingChange::Files(paths) => {
                let mark = store.begin_edit(turn, paths).map_err(to_error)?;
                lock(&self.shared.open).extend(paths.iter().cloned());
                let not_undoable = self.filter_new(mark.irreversible_changes());
                Box::new(EditGuard { store, mark, not_undoable })
            }
            PendingChange::Command(command) => {
                let running = CommandWatch::new(&self.shared);
                let mark = match may_delete_objects(command) {
                    true => store.begin_command_without_git(turn),
                    false => store.begin_command(turn),
                };
                let mark = mark.map_err(to_error)?;
                let mut baseline = lock(&self.shared.baseline);
                if baseline.is_none() {
                    *baseline = store.begin_command(turn).ok();
                }
                drop(baseline);
                let mut not_undoable = mark.irreversible_changes().to_vec();
                if bash::changes_git(&bash::analyze(command)) || command.contains(".git") {
                    not_undoable.push(GIT_STATE.to_owned());
                }
                let not_undoable = self.filter_new(&not_undoable);
                let _unfinished = store.protect_command(&mark);
                let pending = None;
                Box::new(CommandGuard { store, mark, not_undoable, running, pending, _unfinished })
            }
        })
    }

    fn created_paths(&self) -> Vec<PathBuf> {
        self.store.created_paths()
    }

    fn changes(&self) -> Vec<(u64, Vec<PathBuf>)> {
        let turns = self.store.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to list the previous versions of files");
            Vec::new()
        });
        let changed = turns.into_iter().filter(|turn| !turn.files.is_empty());
        changed
            .map(|turn| (turn.turn, turn.files.into_iter().map(|file| file.path).collect()))
            .collect()
    }

    fn undo(&self, turn: Option<u64>, force: bool) -> Result<UndoResult, String> {
        let undone = self.store.undo(turn, force).map_err(|error| error.to_string())?;
        self.forget_restored(&undone);
        Ok(undone)
    }

    fn restore(&self, moment: i64, turn: u64, force: bool) -> Result<UndoResult, String> {
        let restored = self.store.restore_before(moment, turn, force);
        let restored = restored.map_err(|error| error.to_string())?;
        self.forget_restored(&restored);
        Ok(restored)
    }
}

fn to_write(paths: Vec<PathBuf>) -> Permissions {
    let file_system = FilePermissions { read: Vec::new(), write: paths };
    Permissions { file_system, ..Permissions::default() }
}

/// The workspace before a program ran.
pub struct WorkspaceWatch {
    store: Arc<parallax_store::Checkpoints>,
    shared: Arc<CommandTracker>,
    mark: CommandSnapshot,
    /// The command that ran.
    command: String,
    permissions: Permissions,
    /// Whether the program is an MCP server that runs for the whole session.
    is_server: bool,
}

impl WorkspaceWatch {
    /// Sets the paths that an MCP server ([`serve`](CheckpointManager::serve)) may write.
    pub fn with_writable_paths(self, paths: Vec<PathBuf>) -> Self {
        Self { permissions: to_write(paths), is_server: true, ..self }
    }

    /// Called when the program has ended. Reverts protected files that it changed without
    /// permission. While a command is running, it is unknown which of the two changed a file; the
    /// check then happens when the command ends. Blocking.
    pub fn end(mut self, command: &str) -> RevertedFiles {
        command.clone_into(&mut self.command);
        let shared = Arc::clone(&self.shared);
        let mut commands = lock(&shared.commands);
        if commands.running > 0 {
            commands.waiting_watches.push(self);
            return RevertedFiles::default();
        }
        drop(commands);
        self.revert()
    }

    fn revert(self) -> RevertedFiles {
        let server_scopes = lock(&self.shared.server_scopes).clone();
        let could_write = |path: &Path| !self.is_server || any_can_write(&server_scopes, path);
        let mut changes = self.store.end_program(&self.mark, &WriteScope::default());
        changes.moved_repositories.retain(|moved| could_write(&moved.path));
        let repositories = restore_repositories(&changes, &self.permissions);
        let effects = Effects { runs: vec![self.command.clone()], ..Effects::default() };
        let mut closed = disallowed_changes(
            &changes,
            &AllowedProtectedWrites::from_effects(Some(&effects), &self.permissions),
        );
        closed.retain(|path| could_write(path));
        let open: HashSet<PathBuf> = lock(&self.shared.open).iter().cloned().collect();
        closed.retain(|path| !open.contains(path));
        changes.set_id.retain(|path| could_write(path));
        let reverted = revert(&self.store, &changes, &closed).combine(repositories);
        reverted
            .combine(remove_set_id(&self.store, &changes))
            .combine(unsearched_directories(&changes))
    }
}

struct EditGuard {
    store: Arc<parallax_store::Checkpoints>,
    mark: EditSnapshot,
    not_undoable: Vec<String>,
}

impl CheckpointGuard for EditGuard {
    fn irreversible_changes(&self) -> Vec<String> {
        self.not_undoable.clone()
    }

    fn finish(
        self: Box<Self>,
        _effects: &Effects,
        _granted: &Permissions,
        _mode: ApprovalMode,
        _reach: &WriteScope,
    ) -> RevertedFiles {
        if let Err(error) = self.store.end_edit(self.mark) {
            tracing::warn!(%error, "failed to record the end of an edit");
        }
        RevertedFiles::default()
    }
}

struct CommandGuard {
    store: Arc<parallax_store::Checkpoints>,
    mark: CommandSnapshot,
    not_undoable: Vec<String>,
    running: CommandWatch,
    /// Dropped when protected files have been reverted.
    pending: Option<PendingRestore>,
    /// Dropped when the end has been recorded.
    _unfinished: UnfinishedCommandGuard,
}

impl CheckpointGuard for CommandGuard {
    fn irreversible_changes(&self) -> Vec<String> {
        self.not_undoable.clone()
    }

    fn expect(&mut self, effects: &Effects, granted: &Permissions, mode: ApprovalMode) {
        if effects.may_change_files || may_change_protected(granted, mode) {
            return;
        }
        if let Err(error) = self.store.reserve_protected(&self.mark) {
            tracing::warn!(%error, "failed to reserve space for protected files");
        }
        let allowance = AllowedProtectedWrites::from_effects(Some(effects), granted);
        let saved = serde_json::to_value(allowance).map_err(std::io::Error::from);
        let saved = saved.and_then(|allowed| self.store.save_protected(&self.mark, allowed));
        match saved {
            Ok(pending) => self.pending = Some(pending),
            Err(error) => tracing::warn!(%error, "failed to save the state of protected files"),
        }
    }

    fn finish(
        self: Box<Self>,
        effects: &Effects,
        granted: &Permissions,
        mode: ApprovalMode,
        write_scope: &WriteScope,
    ) -> RevertedFiles {
        let Self { store, mark, running, pending, _unfinished, .. } = *self;
        let shared = Arc::clone(&running.0);
        note(&shared.write_scopes, write_scope);
        let reverted = end_command(&store, &shared, mark, effects, granted, mode, write_scope);
        drop((running, pending, _unfinished));
        let waiting = shared.waiting().into_iter().map(WorkspaceWatch::revert);
        waiting.fold(reverted, RevertedFiles::combine)
    }
}

/// Finishes a command: reverts what it changed without permission.
fn end_command(
    store: &parallax_store::Checkpoints,
    shared: &CommandTracker,
    mark: CommandSnapshot,
    effects: &Effects,
    granted: &Permissions,
    mode: ApprovalMode,
    write_scope: &WriteScope,
) -> RevertedFiles {
    // Without a record, the changes can still be reverted.
    let changes = store.end_command(mark.clone(), write_scope).unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to record the end of a command");
        store.end_program(&mark, write_scope)
    });
    // Programs that were already running have their own watch, and give no permission to others.
    if effects.may_change_files {
        return RevertedFiles::default();
    }
    let (repositories, closed) = match may_change_protected(granted, mode) {
        true => (RevertedFiles::default(), Vec::new()),
        false => {
            let repositories = restore_repositories(&changes, granted);
            (
                repositories,
                disallowed_changes(
                    &changes,
                    &AllowedProtectedWrites::from_effects(Some(effects), granted),
                ),
            )
        }
    };
    let denied: HashSet<&PathBuf> = closed.iter().collect();
    let permitted = changes.protected.iter().filter(|path| !denied.contains(path));
    lock(&shared.open).extend(permitted.cloned());
    let reverted = revert(store, &changes, &closed).combine(repositories);
    let reverted = match granted.outside {
        true => reverted,
        false => reverted.combine(remove_set_id(store, &changes)),
    };
    match may_change_protected(granted, mode) {
        true => reverted,
        false => reverted.combine(unsearched_directories(&changes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_may_delete_git_objects_are_recognized() {
        for line in ["rm -rf .git", "mv n/.git /tmp", "python3 -c 'rmtree(\".git\")'", "git gc"] {
            assert!(may_delete_objects(line), "{line}");
        }
        for line in ["cat .gitignore", "ls .github/x", "echo x > a.gitx", "git status"] {
            assert!(!may_delete_objects(line), "{line}");
        }
    }

    #[test]
    fn protected_file_watch_waits_for_commands_with_permission() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        let (root, kept) = (top.join("w"), top.join("kept"));
        std::fs::create_dir(&root).expect("a directory");
        let options = CheckpointOptions::new(kept, "p".into(), "s".into(), vec![root.clone()]);
        let checkpoint_manager =
            CheckpointManager::new(parallax_store::Checkpoints::open(options), Arc::default());
        let (open, closed) = (root.join(".envrc"), root.join(".mcp.json"));
        for path in [&open, &closed] {
            std::fs::write(path, "mine").expect("a file");
        }
        let command =
            checkpoint_manager.save_before(1, PendingChange::Command("sh x")).expect("kept");
        let watch = checkpoint_manager.watch().expect("a watch");
        for path in [&open, &closed] {
            std::fs::write(path, "changed").expect("a file");
        }
        assert_eq!(watch.end(""), RevertedFiles::default());
        let granted = to_write(vec![open.clone()]);
        let reverted = command.finish(
            &Effects::default(),
            &granted,
            ApprovalMode::Default,
            &WriteScope::default(),
        );
        assert_eq!(reverted.restored.as_slice(), std::slice::from_ref(&closed));
        let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
        assert_eq!((read(&open), read(&closed)), ("changed".into(), "mine".into()));
        // A change that nothing had permission for is reverted at once.
        let watch = checkpoint_manager.watch().expect("a watch");
        std::fs::write(&closed, "changed").expect("a file");
        assert_eq!(watch.end("").restored, [closed]);
    }
}
