//! Old versions of files, for the engine: what `store` keeps, with what may not
//! be changed put back.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_files::SeenFiles;
use parallax_policy::bash;
use parallax_protocol::checkpoint::{Change, Checkpoints, Kept};
use parallax_protocol::event::Undone;
use parallax_protocol::ids::SessionId;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::Effects;
use parallax_store::{
    BlobReader, Changes, CheckpointError, CheckpointOptions, CommandMark, EditMark,
    is_of_lost_repository,
};

/// How long git may take to give one file's bytes.
const BLOB_TIME: Duration = Duration::from_secs(20);
/// Files of git that were larger are not kept anyway.
const BLOB_SIZE: u64 = 256 * 1024 * 1024;

/// What git keeps for itself is git's to give back.
const GIT_STATE: &str =
    "git's own state (commits, branches, the index): files come back, that does not";

/// The old versions of a session.
pub(crate) struct Versions {
    store: Arc<parallax_store::Checkpoints>,
    shared: Arc<Shared>,
    seen: Arc<SeenFiles>,
}

/// What the commands of a session have in common.
#[derive(Default)]
struct Shared {
    /// What was said already, so that it is said once.
    said: Mutex<HashSet<String>>,
    /// The workspace before the first command: what a process in the background
    /// did to protected files is seen against it in the end.
    baseline: Mutex<Option<CommandMark>>,
    /// Protected paths that changed with leave.
    open: Mutex<HashSet<PathBuf>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the store keeps for a session. Touches no disk before its first use.
pub(crate) fn open(
    homes: &parallax_store::Homes,
    project: &Path,
    session: SessionId,
    roots: Vec<PathBuf>,
    total_bytes: Option<u64>,
) -> parallax_store::Checkpoints {
    let folder = homes.parallax.join("checkpoints");
    let project = parallax_store::project_folder(project);
    let mut options = CheckpointOptions::new(folder, project, session, roots);
    options.total_bytes = total_bytes.unwrap_or(options.total_bytes);
    options.blobs = Some(BlobReader::new(read_blob));
    parallax_store::Checkpoints::open(options)
}

/// The bytes of a file as git has them. Nothing of the repository runs: blobs
/// are read as they are.
fn read_blob(top: &Path, id: &str) -> std::io::Result<Vec<u8>> {
    let arguments = ["cat-file", "blob", id];
    let variables = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1")];
    parallax_exec::program::output("git", arguments, top, &variables, BLOB_SIZE, BLOB_TIME)
        .ok_or_else(|| std::io::Error::other(format!("git could not read its object {id}")))
}

impl Versions {
    pub(crate) fn new(store: parallax_store::Checkpoints, seen: Arc<SeenFiles>) -> Self {
        Self { store: Arc::new(store), shared: Arc::default(), seen }
    }

    /// What the store keeps.
    pub(crate) fn store(&self) -> Arc<parallax_store::Checkpoints> {
        Arc::clone(&self.store)
    }

    /// All commands of the session have ended: gives protected files back that
    /// one left running has changed meanwhile. Blocking.
    pub(crate) fn settle(&self) -> Vec<PathBuf> {
        let Some(baseline) = lock(&self.shared.baseline).take() else { return Vec::new() };
        let Ok(changes) = self.store.end_command(baseline) else { return Vec::new() };
        let open = lock(&self.shared.open).clone();
        let mut closed = closed(&changes, None, &Permissions::default());
        closed.retain(|path| !open.contains(path));
        put_back(&self.store, &changes, &closed)
    }

    /// What was not said before.
    fn unsaid(&self, texts: &[String]) -> Vec<String> {
        let mut said = lock(&self.shared.said);
        texts.iter().filter(|text| said.insert((*text).clone())).cloned().collect()
    }
}

impl Checkpoints for Versions {
    fn not_undoable(&self) -> Vec<String> {
        // Looking is the same as keeping, and what is kept is found again.
        let looked = self.store.begin_command(0);
        looked.map(|mark| mark.not_undoable().to_vec()).unwrap_or_default()
    }

    fn before(&self, turn: u64, change: Change<'_>) -> Result<Box<dyn Kept>, String> {
        let wrong = |error: CheckpointError| error.to_string();
        let store = Arc::clone(&self.store);
        Ok(match change {
            Change::Files(paths) => {
                let mark = store.begin_edit(turn, paths).map_err(wrong)?;
                lock(&self.shared.open).extend(paths.iter().cloned());
                Box::new(KeptEdit { store, mark })
            }
            Change::Command(command) => {
                let mark = store.begin_command(turn).map_err(wrong)?;
                let mut baseline = lock(&self.shared.baseline);
                if baseline.is_none() {
                    *baseline = store.begin_command(turn).ok();
                }
                drop(baseline);
                let mut not_undoable = mark.not_undoable().to_vec();
                if bash::uses_git(&bash::analyse(command)) || command.contains(".git") {
                    not_undoable.push(GIT_STATE.to_owned());
                }
                let not_undoable = self.unsaid(&not_undoable);
                let shared = Arc::clone(&self.shared);
                Box::new(KeptCommand { store, mark, not_undoable, shared })
            }
        })
    }

    fn made(&self) -> Vec<PathBuf> {
        self.store.made()
    }

    fn changes(&self) -> Vec<(u64, Vec<PathBuf>)> {
        let turns = self.store.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "the old versions of files cannot be listed");
            Vec::new()
        });
        let changed = turns.into_iter().filter(|turn| !turn.files.is_empty());
        changed
            .map(|turn| (turn.turn, turn.files.into_iter().map(|file| file.path).collect()))
            .collect()
    }

    fn undo(&self, turn: Option<u64>, force: bool) -> Result<Undone, String> {
        self.store.undo(turn, force).map_err(|error| error.to_string())
    }

    fn restore(&self, moment: i64, turn: u64, force: bool) -> Result<Undone, String> {
        let restored = self.store.restore_before(moment, turn, force);
        let restored = restored.map_err(|error| error.to_string())?;
        // The call that is run again was made to what is there now.
        restored.restored.iter().for_each(|path| self.seen.forget(path));
        Ok(restored)
    }
}

struct KeptEdit {
    store: Arc<parallax_store::Checkpoints>,
    mark: EditMark,
}

impl Kept for KeptEdit {
    fn not_undoable(&self) -> Vec<String> {
        Vec::new()
    }

    fn after(
        self: Box<Self>,
        _effects: &Effects,
        _granted: &Permissions,
        _mode: ApprovalMode,
    ) -> Vec<PathBuf> {
        if let Err(error) = self.store.end_edit(self.mark) {
            tracing::warn!(%error, "the end of an edit is not recorded");
        }
        Vec::new()
    }
}

struct KeptCommand {
    store: Arc<parallax_store::Checkpoints>,
    mark: CommandMark,
    not_undoable: Vec<String>,
    shared: Arc<Shared>,
}

impl Kept for KeptCommand {
    fn not_undoable(&self) -> Vec<String> {
        self.not_undoable.clone()
    }

    fn after(
        self: Box<Self>,
        effects: &Effects,
        granted: &Permissions,
        mode: ApprovalMode,
    ) -> Vec<PathBuf> {
        let changes = match self.store.end_command(self.mark) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(%error, "the end of a command is not recorded");
                return Vec::new();
            }
        };
        let closed = match mode == ApprovalMode::Yolo || granted.outside {
            true => Vec::new(),
            false => closed(&changes, Some(effects), granted),
        };
        let with_leave = changes.protected.iter().filter(|path| !closed.contains(path));
        lock(&self.shared.open).extend(with_leave.cloned());
        put_back(&self.store, &changes, &closed)
    }
}

fn put_back(
    store: &parallax_store::Checkpoints,
    changes: &Changes,
    closed: &[PathBuf],
) -> Vec<PathBuf> {
    if closed.is_empty() {
        return Vec::new();
    }
    match store.restore(changes, closed) {
        Ok(undone) => undone.restored,
        Err(error) => {
            tracing::warn!(%error, "protected files could not be put back");
            Vec::new()
        }
    }
}

/// Files that tell agents what to do: protected when they are made, free to be
/// changed.
const AGENT_RULES: [&str; 5] =
    ["gemini.md", "agents.md", "claude.md", ".cursorrules", "copilot-instructions.md"];

fn is_agent_rule(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    name.is_some_and(|name| AGENT_RULES.contains(&name.as_str()))
}

/// The protected paths among the changes that the command had no leave for.
/// Without effects: nobody knows which command it was.
fn closed(changes: &Changes, effects: Option<&Effects>, granted: &Permissions) -> Vec<PathBuf> {
    let makes = effects
        .is_none_or(|effects| effects.runs.iter().all(|command| makes_repositories(command)));
    let new_repositories = if makes { new_repositories(changes) } else { Vec::new() };
    let is_free =
        |path: &Path| is_agent_rule(path) && !changes.created.iter().any(|new| new == path);
    let is_open = |path: &Path| {
        granted.file_system.write.iter().any(|open| path.starts_with(open))
            || new_repositories.iter().any(|repository| path.starts_with(repository))
    };
    let closed = changes.protected.iter().filter(|path| !is_open(path) && !is_free(path));
    closed.filter(|path| !is_of_lost_repository(path)).cloned().collect()
}

/// Whether the line makes repositories, and starts nothing but git: what git
/// puts into one that it makes is its own.
fn makes_repositories(command: &str) -> bool {
    let line = bash::analyse(command);
    let is_git = |command: &bash::Command| matches!(command.name(), Some("git" | "cd" | "mkdir"));
    line.trouble.is_none()
        && line.commands.iter().all(is_git)
        && line.commands.iter().any(|command| {
            command.words.iter().any(|word| {
                matches!(word.text.as_deref(), Some("init" | "clone" | "worktree" | "submodule"))
            })
        })
}

/// Each `.git` whose `HEAD` is new.
fn new_repositories(changes: &Changes) -> Vec<PathBuf> {
    let heads = changes.created.iter().filter(|path| path.ends_with(".git/HEAD"));
    heads.filter_map(|path| path.parent()).map(Path::to_owned).collect()
}
