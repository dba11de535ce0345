//! Builds the sandbox plan of one command: what it may write, what is hidden from it, and its
//! network access.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_files::{
    GeminiIgnore, SensitivePaths, TrackedPaths, link_targets, real_path, remove_nested_paths,
};
use parallax_policy::bash::{self, ShellLine};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::protected_names::{OF_GIT, inaccessible_path_patterns};
use parallax_sandbox::{Network, Plan, Support};

use super::printing::only_prints;
use super::secrets;
use super::{git_programs, placeholders, tracked};
use crate::git_directories::{self, linked_folder};
use crate::sandbox_options::SandboxOptions;

/// Directories in the home directory that package managers write. Writes by commands go to a
/// session layer.
const CACHES: &[&str] = &[
    ".cargo",
    ".rustup",
    ".npm",
    ".cache",
    ".yarn",
    ".pnpm-store",
    ".local/share/pnpm",
    ".bun",
    ".deno",
    ".node-gyp",
    ".gradle",
    ".m2",
    ".ivy2",
    ".sbt",
    ".nuget",
    ".dotnet",
    ".composer",
    ".gem",
    ".bundle",
    ".local/share/virtualenvs",
    "go",
];

/// The parts of these directories that contain only caches.
const CACHE_SUBDIRECTORIES: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".npm/_cacache",
    ".npm/_logs",
    ".cache",
    ".yarn/cache",
    ".pnpm-store",
    ".gradle/caches",
    ".m2/repository",
    ".nuget/packages",
    "go/pkg/mod",
];

/// Variables that name such directories elsewhere.
const CACHE_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOMODCACHE",
    "GOCACHE",
    "npm_config_cache",
    "NPM_CONFIG_CACHE",
    "PIP_CACHE_DIR",
    "UV_CACHE_DIR",
    "XDG_CACHE_HOME",
    "PNPM_HOME",
    "YARN_CACHE_FOLDER",
    "GRADLE_USER_HOME",
];

/// Variables that lead to the user's SSH and GPG agents.
const AGENT_VARIABLES: &[&str] = &["SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO"];

/// The properties of a command that determine its sandbox.
pub(super) struct ConfinedCommand<'a> {
    pub(super) line: &'a ShellLine,
    pub(super) roots: &'a [PathBuf],
    /// Whether writes to caches go to a session layer.
    pub(super) layers: bool,
    pub(super) mode: ApprovalMode,
    pub(super) permissions: &'a Permissions,
}

impl ConfinedCommand<'_> {
    /// Whether the line runs only git. Git may then write the repository's data in `.git` and use
    /// the user's agents.
    pub(super) fn is_git(&self) -> bool {
        let commands = &self.line.commands;
        self.line.unanalyzable_reason.is_none()
            && bash::uses_git(self.line)
            && commands.iter().all(|command| {
                command.name() == Some("git")
                    || only_prints(command.name())
                    || commands.iter().any(|inner| is_wrapper(command.name(), inner))
            })
    }
}

/// Whether the program only wraps the other command.
fn is_wrapper(name: Option<&str>, inner: &bash::Command) -> bool {
    const WRAPPERS: &[&str] =
        &["bash", "sh", "dash", "zsh", "env", "timeout", "nice", "time", "command", "nohup"];
    name.is_some_and(|name| {
        WRAPPERS.contains(&name) && inner.wrappers.iter().any(|wrapper| wrapper == name)
    })
}

/// A plan, and the hidden files that it cannot hide, because they were moved to an unknown place.
#[derive(Debug)]
pub(super) struct BuiltPlan {
    pub(super) plan: Plan,
    pub(super) unlocated: Vec<PathBuf>,
}

/// Builds the plan. Searches the workspace for names. Blocking.
pub(super) fn plan(options: &SandboxOptions, subject: &ConfinedCommand<'_>) -> BuiltPlan {
    let permissions = subject.permissions;
    let mut plan = Plan {
        confine: options.enabled && !permissions.outside,
        overlay_store: options.overlays.clone(),
        tier: options.tier,
        network: network(options, subject),
        ..Plan::new(options.temporary.clone())
    };
    if !plan.confine {
        plan.network = Network::Host;
        return BuiltPlan { plan, unlocated: Vec::new() };
    }
    let yolo = subject.mode == ApprovalMode::Yolo;
    let rules = options.closed_names.rules(subject.roots);
    let found = options.closed_names.find(subject.roots, rules.as_ref());
    let row = options.table.mode(subject.mode);
    let approved = |command: &bash::Command| {
        command.name().is_some_and(|name| row.approved_tools.iter().any(|tool| tool == name))
    };
    let line = subject.line;
    let all_approved = line.unanalyzable_reason.is_none()
        && !line.commands.is_empty()
        && line.own_commands().all(approved);
    // The root directory is never opened: a workspace there is read-only.
    let may_open = |root: &&PathBuf| root.parent().is_some() && !is_kernel_path(root);
    if !row.readonly || all_approved {
        plan.writable.extend(subject.roots.iter().filter(may_open).cloned());
    }
    // Secrets in the home directory and in `~/.parallax` stay hidden even if the workspace holds
    // them.
    let holds_home =
        |root: &&PathBuf| options.home.starts_with(root) || options.parallax_home.starts_with(root);
    let closed_home = subject.roots.iter().filter(|root| !holds_home(root));
    plan.workspace = closed_home.filter(may_open).cloned().collect();
    plan.writable.extend(options.writable.iter().cloned());
    plan.writable.extend(permissions.file_system.write.iter().cloned());
    plan.writable.extend(allowed_paths(options, subject));
    plan.readable.extend(options.readable.iter().cloned());
    plan.readable.extend(permissions.file_system.read.iter().cloned());
    plan.readable.extend(permissions.file_system.write.iter().cloned());

    plan.hidden = secrets::hidden_home_paths(&options.home, &options.parallax_home);
    for other in &options.other_home_directories {
        plan.hidden.extend(secrets::hidden_home_paths(other, &other.join(".parallax")));
    }
    plan.hidden.extend(options.hidden.iter().cloned());
    let followed = follow(options, subject.roots, &found, rules.as_ref(), &plan.hidden);
    plan.readable
        .push(secrets::session_directory(&options.temporary, &options.parallax_home).to_owned());
    let tree = options.worktree.iter().map(|worktree| &worktree.path);
    // A writable directory needs no further access.
    let closed_tree: Vec<PathBuf> =
        tree.filter(|tree| !plan.writable.contains(tree)).cloned().collect();
    plan.readable.extend(closed_tree);
    secrets::add_targets(&mut plan.hidden, &plan.readable, subject.roots);
    let dirs: Vec<&PathBuf> =
        options.other_home_directories.iter().chain([&options.home]).collect();
    for home in &dirs {
        plan.filtered.extend(secrets::directories_with_hidden(home, &plan.hidden));
    }
    plan.filtered.extend(secrets::parents_outside_homes(&plan.hidden, &dirs));
    plan.filtered.sort();
    plan.filtered.dedup();
    let mut left_alone = found.ignored_files.clone();
    left_alone.extend(followed.hidden);
    // Paths below a hidden path need no entry.
    remove_nested_paths(&mut left_alone);
    if tracked::runs_only_git(line) {
        left_alone = tracked::still_hidden(left_alone);
        options.hidden_places.record(&left_alone);
    }
    left_alone.extend(found.secrets.iter().cloned());
    secrets::add_targets(&mut left_alone, &plan.readable, subject.roots);
    let readable = plan.readable.clone();
    left_alone.retain(|path| !readable.contains(path));
    if bash::uses_git(line) {
        plan.placeholders = placeholders::find(&mut left_alone);
    }
    plan.hidden.extend(left_alone);
    plan.hidden.extend(main_worktree_secrets(options, subject.roots));
    plan.hidden.extend(secrets::possible_environment_files(subject.roots));
    // The ignore file determines what is hidden, so it is read-only even in YOLO mode.
    let ignores = subject.roots.iter().map(|root| root.join(".geminiignore"));
    plan.read_only.extend(ignores.filter(|_| options.hides_ignored).filter(|path| path.exists()));
    // Files that also affect later sessions, if the workspace holds them.
    let holds_ours = subject.roots.iter().any(|root| options.parallax_home.starts_with(root));
    plan.read_only.extend(holds_ours.then(|| options.parallax_home.clone()));
    if tracked::removes_worktrees(line) {
        // Mount points must not block the removal of a working tree.
        let trees = linked_trees(&found);
        plan.hidden.retain(|path| !trees.iter().any(|tree| path.starts_with(tree)));
    }
    open_git_directories(options, subject, &found, yolo && !row.readonly, &mut plan);
    if !yolo {
        protect(options, subject, &found, &mut plan);
    }
    if may_use_agents(subject) {
        provide_agent_sockets(&options.home, &mut plan);
    }
    let caches = caches(&options.home);
    if permissions.caches {
        plan.writable.extend(caches);
    } else {
        // Without a session layer, only the caches proper are writable in YOLO mode, but not the
        // files next to them (programs, settings, tokens).
        let proper = match options.table.mode(subject.mode).caches {
            true => CACHE_SUBDIRECTORIES.iter().map(|name| options.home.join(name)).collect(),
            false => Vec::new(),
        };
        match subject.layers {
            true => (plan.overlays, plan.without_overlay) = (caches, proper),
            false => plan.writable.extend(proper),
        }
    }
    // A missing path cannot be opened; the rest of the plan still applies.
    plan.writable.retain(|path| path.exists());
    // A granted path is neither read-only nor hidden. A read-only path inside a granted directory
    // stays read-only.
    let granted = permissions.file_system.write.clone();
    let leads_to_granted = |path: &Path| {
        path.is_symlink() && real_path(path).is_some_and(|real| granted.contains(&real))
    };
    plan.read_only
        .retain(|path| granted.is_empty() || !(granted.contains(path) || leads_to_granted(path)));
    plan.hidden.retain(|path| !readable.contains(path));
    if let Some(own) = &options.worktree {
        // Parallax and the user's git rely on these files: no permission opens them.
        let is_closed =
            |path: &PathBuf| own.read_only.iter().any(|closed| path.starts_with(closed));
        plan.writable.retain(|path| !is_closed(path));
        plan.read_only.retain(|path| !is_closed(path));
        plan.read_only.extend(own.read_only.iter().cloned());
    }
    BuiltPlan { plan, unlocated: followed.unlocated }
}

/// Returns the secrets of the main working tree for a command in a linked one: what is hidden in
/// sessions of the project is hidden in its worktrees, too.
fn main_worktree_secrets(options: &SandboxOptions, roots: &[PathBuf]) -> Vec<PathBuf> {
    let Some(main) = options.worktree.as_ref().and_then(|own| own.main.clone()) else {
        return Vec::new();
    };
    let roots_of_main = [main];
    let rules = options.closed_names.rules(&roots_of_main);
    let found = options.closed_names.find(&roots_of_main, rules.as_ref());
    let mut secrets = [found.secrets, found.ignored_files].concat();
    let is_open = |path: &PathBuf| {
        options.readable.contains(path) || roots.iter().any(|root| path.starts_with(root))
    };
    secrets.retain(|path| !is_open(path));
    secrets
}

/// Whether the kernel provides the files there.
fn is_kernel_path(path: &Path) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|top| path == Path::new(top))
}

/// Returns additional workspace paths to hide: previously hidden files at their current locations,
/// and where the hidden paths of the home directories lead.
fn follow(
    options: &SandboxOptions,
    roots: &[PathBuf],
    found: &SensitivePaths,
    rules: Option<&GeminiIgnore>,
    home_paths: &[PathBuf],
) -> TrackedPaths {
    let is_configured = |path: &Path| options.hidden.iter().any(|hidden| hidden == path);
    let in_workspace = |path: &&PathBuf| roots.iter().any(|root| path.starts_with(root));
    let hidden = found.secrets.iter().chain(&found.ignored_files);
    // A hidden link is also identified by its target, which a command can move. The link itself may
    // be in the home directory.
    let home_targets = home_paths.iter().flat_map(|path| link_targets(path));
    let mut hidden: Vec<PathBuf> = hidden
        .chain(options.hidden.iter())
        .filter(|path| in_workspace(path) && !options.readable.contains(path))
        .cloned()
        .collect();
    let targets: Vec<PathBuf> = hidden.iter().flat_map(|path| link_targets(path)).collect();
    let targets = targets.into_iter().chain(home_targets);
    let targets = targets.filter(|path| in_workspace(&path) && !options.readable.contains(path));
    let is_root = |path: &PathBuf| roots.iter().any(|root| root.starts_with(path));
    let targets: Vec<PathBuf> = targets.filter(|path| !is_root(path)).collect();
    // Where links cannot be mounted, a command can remove one.
    let earlier = options.hidden_places.previous_targets(&targets);
    hidden.extend(targets);
    hidden.extend(earlier.iter().cloned());
    let mut tracked = options.hidden_places.track(roots, &hidden, |path| {
        !options.readable.iter().any(|open| open == path)
            && (is_configured(path)
                || path.file_name().is_some_and(secrets::is_secret_name)
                || rules.is_some_and(|rules| rules.matches(path)))
    });
    tracked.hidden.extend(earlier.into_iter().filter(|path| path.symlink_metadata().is_ok()));
    tracked
}

fn network(options: &SandboxOptions, subject: &ConfinedCommand<'_>) -> Network {
    let row = options.table.mode(subject.mode);
    let permissions = subject.permissions;
    let by_command = subject.line.unanalyzable_reason.is_none()
        && !subject.line.commands.is_empty()
        && subject.line.own_commands().all(|command| {
            let row = command.name().and_then(|name| options.table.command(name));
            row.is_some_and(|row| row.allow_network)
        });
    let others = row.network || permissions.network || by_command;
    let own = row.reaches_this_machine() || permissions.host_loopback;
    match (others, own) {
        (false, false) => Network::Isolated,
        // If the two cannot be distinguished, permission for one includes the other.
        (true, false) if Support::separates_server_permissions() => Network::External,
        (false, true) if Support::separates_server_permissions() => Network::Loopback,
        // The mode permits local servers by default. That must not restore network access that the
        // configuration removed.
        (false, true) if subject.mode == ApprovalMode::Yolo && !permissions.host_loopback => {
            Network::Isolated
        }
        _ => Network::Host,
    }
}

/// Returns the paths that `sandbox.toml` grants, if it grants them to all commands of the line.
fn allowed_paths(options: &SandboxOptions, subject: &ConfinedCommand<'_>) -> Vec<PathBuf> {
    let mut paths: Option<Vec<PathBuf>> = None;
    for command in subject.line.own_commands() {
        let row = command.name().and_then(|name| options.table.command(name));
        let extra: Vec<PathBuf> = row.map_or_else(Vec::new, |row| {
            row.allowed_paths.iter().map(|path| expand(path, &options.home)).collect()
        });
        paths = Some(match paths {
            None => extra,
            Some(paths) => paths.into_iter().filter(|path| extra.contains(path)).collect(),
        });
    }
    match subject.line.unanalyzable_reason {
        None => paths.unwrap_or_default(),
        Some(_) => Vec::new(),
    }
}

fn expand(path: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => path.to_owned(),
    }
}

/// Makes paths read-only that other programs execute or read configuration from.
fn protect(
    options: &SandboxOptions,
    subject: &ConfinedCommand<'_>,
    found: &SensitivePaths,
    plan: &mut Plan,
) {
    plan.read_only.extend(found.protected.iter().cloned());
    for root in subject.roots {
        plan.read_only.extend(inaccessible_path_patterns().map(|name| root.join(name)));
    }
    plan.read_only.extend(secrets::start_up(&options.home));
    // The parts of a repository that run programs or redirect git stay read-only in either case.
    let git = subject.line.unanalyzable_reason.is_none() && bash::uses_git(subject.line);
    let granted = &subject.permissions.file_system.write;
    for repository in repositories(options, subject.roots, found) {
        if !git && !granted.contains(&repository) {
            // A git directory elsewhere in the workspace (`--separate-git-dir`) is one as well.
            plan.read_only.extend(git_directories::named_in_workspace(&repository, subject.roots));
            plan.read_only.push(repository);
            continue;
        }
        if let Some(folder) = git_directories::named_in_workspace(&repository, subject.roots) {
            plan.read_only.extend(OF_GIT.iter().map(|name| folder.join(name)));
        }
        for directory in written_by_git(options, &repository, subject.roots) {
            plan.read_only.extend(OF_GIT.iter().map(|name| directory.join(name)));
            let modules = directory.join("modules");
            if modules.is_dir() {
                plan.read_only.push(modules);
            }
            plan.writable.push(directory);
        }
        let own = options.worktree.iter().filter(|own| own.path.join(".git") == repository);
        plan.read_only.extend(own.flat_map(|own| own.read_only.iter().cloned()));
        if repository.is_file() {
            plan.read_only.push(repository);
        }
    }
    plan.read_only.extend(found.link_targets.iter().cloned());
    // What is hidden cannot be written, and two mounts on one path would be in each other's way. It
    // must only stay in place.
    let hidden: HashSet<&Path> = plan.hidden.iter().map(PathBuf::as_path).collect();
    let is_below_hidden = |path: &Path| path.ancestors().skip(1).any(|it| hidden.contains(it));
    plan.read_only.retain(|path| !is_below_hidden(path));
    let (pinned, read_only) =
        std::mem::take(&mut plan.read_only).into_iter().partition(|it| hidden.contains(&**it));
    (plan.pinned, plan.read_only) = (pinned, read_only);
    if bash::moves_worktrees(subject.line) {
        // Git itself removes them, so nothing in them may be a mount point.
        let tops = linked_trees(found);
        let is_root = |top: &Path| subject.roots.iter().any(|root| root.starts_with(top));
        for paths in [&mut plan.read_only, &mut plan.pinned] {
            paths.retain(|path| !tops.iter().any(|top| path.starts_with(top) && !is_root(top)));
        }
    }
}

/// Returns the `.git` of each repository in and around the workspace.
fn repositories(
    options: &SandboxOptions,
    roots: &[PathBuf],
    found: &SensitivePaths,
) -> Vec<PathBuf> {
    let mut repositories = options.git_directories.for_roots(roots);
    repositories.retain(|git| !found.repositories.contains(git));
    repositories.extend(found.repositories.iter().cloned());
    repositories
}

/// Makes git directories outside of the workspace visible where commands have a private directory,
/// and writable like an inner `.git` if `writable`. The repository around a package directory is
/// writable only if all git commands are in the line: what a script changes with git in the files
/// around the directory cannot be written, and the next commit would undo it.
fn open_git_directories(
    options: &SandboxOptions,
    subject: &ConfinedCommand<'_>,
    found: &SensitivePaths,
    writable: bool,
    plan: &mut Plan,
) {
    let roots = subject.roots;
    plan.readable.extend(options.git_directories.borrowed_object_directories(roots));
    for repository in repositories(options, roots, found) {
        let directories = options.git_directories.for_repository(&repository, roots);
        plan.readable.extend(git_directories::directories_to_show(
            &repository,
            &directories,
            roots,
        ));
        if writable && (starts_only_known_git(subject.line) || !is_around(&repository, roots)) {
            let is_inside =
                |directory: &PathBuf| roots.iter().any(|root| directory.starts_with(root));
            let mut written = written_by_git(options, &repository, roots);
            written.retain(|directory| !is_inside(directory));
            plan.read_only
                .extend(written.iter().flat_map(|it| git_programs::closed_files(subject.line, it)));
            plan.writable.extend(written);
            let own = options.worktree.iter().filter(|own| own.path.join(".git") == repository);
            plan.read_only.extend(own.flat_map(|own| own.read_only.iter().cloned()));
        }
    }
}

/// Programs that start no others in everyday use.
const FILE_UTILITIES: [&str; 35] = [
    ":", "[", "awk", "basename", "cat", "cd", "chmod", "cp", "cut", "date", "diff", "dirname",
    "echo", "exit", "export", "false", "grep", "head", "ln", "ls", "mkdir", "mv", "printf", "pwd",
    "rm", "rmdir", "sed", "sleep", "sort", "tail", "test", "touch", "tr", "true", "wc",
];

/// Whether the line starts git, and nothing else that may start it.
pub(super) fn starts_only_known_git(line: &ShellLine) -> bool {
    let names = || line.commands.iter().map(|command| command.name());
    line.unanalyzable_reason.is_none()
        && names().any(|name| name == Some("git"))
        && names()
            .all(|name| name.is_some_and(|name| name == "git" || FILE_UTILITIES.contains(&name)))
}

/// Whether the working tree of a repository reaches beyond a workspace root in it.
fn is_around(repository: &Path, roots: &[PathBuf]) -> bool {
    let top = repository.parent();
    top.is_some_and(|top| roots.iter().any(|root| root != top && root.starts_with(top)))
        && !top.is_some_and(|top| roots.iter().any(|root| top.starts_with(root)))
}

/// Returns the directories that git may write for a repository of the workspace: the whole
/// repository or, in a worktree of Parallax, the part that belongs to that worktree.
fn written_by_git(options: &SandboxOptions, repository: &Path, roots: &[PathBuf]) -> Vec<PathBuf> {
    let own = options.worktree.as_ref().filter(|own| own.path.join(".git") == repository);
    own.map_or_else(
        || options.git_directories.for_repository(repository, roots),
        |own| own.git.clone(),
    )
}

/// Returns the working trees in the workspace that belong to a repository elsewhere.
fn linked_trees(found: &SensitivePaths) -> Vec<&Path> {
    let linked = found.repositories.iter().filter(|git| linked_folder(git).is_some());
    linked.filter_map(|git| git.parent()).collect()
}

/// Whether the command may use the user's agents: only git, and only with approval.
fn may_use_agents(subject: &ConfinedCommand<'_>) -> bool {
    subject.is_git() && (subject.permissions.agents || subject.mode == ApprovalMode::Yolo)
}

/// Maximum number of files in `~/.ssh` that are searched for public keys.
const MAX_KEYS: usize = 200;

fn provide_agent_sockets(home: &Path, plan: &mut Plan) {
    let socket = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
    plan.sockets.extend(socket.filter(|path| path.is_absolute()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let directories = [Some(home.join(".gnupg")), runtime.map(|directory| directory.join("gnupg"))];
    for directory in directories.into_iter().flatten() {
        for name in ["S.gpg-agent", "S.keyboxd"] {
            plan.sockets.push(directory.join(name));
        }
    }
    // Public keys may be read by all; git names the one that signs commits.
    let keys = std::fs::read_dir(home.join(".ssh")).into_iter().flatten().flatten();
    let keys = keys.take(MAX_KEYS).map(|entry| entry.path());
    plan.readable.extend(keys.filter(|path| path.extension().is_some_and(|it| it == "pub")));
    // Files that ssh, gpg, and git read; the keys stay with the agents.
    for name in [
        ".ssh/config",
        ".ssh/known_hosts",
        ".ssh/allowed_signers",
        ".gnupg/pubring.kbx",
        ".gnupg/trustdb.gpg",
        ".gnupg/gpg.conf",
        ".gnupg/common.conf",
    ] {
        plan.readable.push(home.join(name));
    }
}

fn caches(home: &Path) -> Vec<PathBuf> {
    let home_caches = CACHES.iter().map(|name| home.join(name));
    let cache_paths = CACHE_VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let named = cache_paths.filter(|path| path.is_absolute() && path.components().count() > 2);
    let mut caches: Vec<PathBuf> = home_caches.chain(named).filter(|path| path.is_dir()).collect();
    caches.sort();
    caches.dedup();
    caches
}

/// Passes the agent variables to the command if it may use the agents; redaction removes them for
/// all others.
pub(super) fn add_agent_variables(
    environment: &mut Vec<(OsString, OsString)>,
    subject: &ConfinedCommand<'_>,
) {
    if !may_use_agents(subject) {
        return;
    }
    for name in AGENT_VARIABLES {
        if let Some(value) = std::env::var_os(name)
            && !environment.iter().any(|(other, _)| other == name)
        {
            environment.push((name.into(), value));
        }
    }
}

/// Caches that a home directory may lack: the directory, the variable that moves it, and its name
/// in the private directory.
const MISSING_CACHES: &[(&str, &str, &str)] = &[
    (".npm", "npm_config_cache", "npm"),
    (".cache", "XDG_CACHE_HOME", "cache"),
    (".cargo", "CARGO_HOME", "cargo"),
    ("go", "GOPATH", "go"),
    (".gradle", "GRADLE_USER_HOME", "gradle"),
];

/// Provides private cache directories for those missing in the home directory: a missing directory
/// cannot be layered over, and the home directory is read-only.
pub(super) fn provide_caches(
    environment: &mut Vec<(OsString, OsString)>,
    options: &SandboxOptions,
    layers: bool,
) {
    if !options.enabled {
        return;
    }
    let private = match layers {
        true => PathBuf::from("/tmp"),
        false => options.temporary.join("tmp"),
    };
    for (folder, variable, name) in MISSING_CACHES {
        let is_set = environment.iter().any(|(other, _)| other == variable);
        if !is_set && !options.home.join(folder).exists() {
            environment.push(((*variable).into(), private.join(".caches").join(name).into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_approved_git_commands_reach_the_key_agents() {
        let may = |command: &str, mode, agents| {
            let line = bash::analyze(command);
            let permissions = Permissions { agents, ..Permissions::default() };
            let subject = ConfinedCommand {
                line: &line,
                roots: &[],
                layers: false,
                mode,
                permissions: &permissions,
            };
            let mut environment = Vec::new();
            add_agent_variables(&mut environment, &subject);
            // The variable of the user who runs the tests, if it is set.
            let provided = environment.iter().any(|(name, _)| name == "SSH_AUTH_SOCK");
            let may = may_use_agents(&subject);
            assert_eq!(provided, may && std::env::var_os("SSH_AUTH_SOCK").is_some(), "{command}");
            may
        };
        let (default, yolo) = (ApprovalMode::Default, ApprovalMode::Yolo);
        for command in ["git push", "git fetch && git status | head", "timeout 9 git pull"] {
            assert!(may(command, default, true) && may(command, yolo, false), "{command}");
            assert!(!may(command, default, false), "{command}");
        }
        for command in ["ssh-add -l", "git push; ssh-add -l", "git push | sh", "make", "git $X; $Y"]
        {
            assert!(!may(command, default, true) && !may(command, yolo, true), "{command}");
        }
    }
}
