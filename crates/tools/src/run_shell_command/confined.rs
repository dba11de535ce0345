//! Prepares a command for its sandbox and determines afterwards what the sandbox denied.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_exec::{FinishedCommand, ProcessExit};
use parallax_policy::bash::{self, ShellLine};
use parallax_protocol::checkpoint::WriteScope;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::ApprovalMode;
use parallax_sandbox::{Network, Plan, SupervisorError, Support, Tier};

use super::concealed;
use super::confinement::{self, BuiltPlan, ConfinedCommand};
use super::denial_evidence;
use super::denied_access::{Confinement as _, DeniedAccess, SandboxRun};
use super::git;
use super::git_path_remotes::{self, PathRemote};
use super::git_worktree_writes;
use super::granted_paths::{path_to_grant, resolve_links};
use super::npm_registries;
use super::precreated_path::{self, PrecreatedPath};
use super::predicted_permissions;
use super::printing::may_write_beside_git;
use super::repository;
use super::tracked;
use crate::sandbox_options::SandboxOptions;

/// A command that is about to run in the sandbox.
pub(super) struct StartingCommand {
    pub(super) line: ShellLine,
    pub(super) directory: PathBuf,
    pub(super) roots: Vec<PathBuf>,
    /// Directories named in the line, whose repositories git may use.
    pub(super) named_directories: Vec<PathBuf>,
    pub(super) layers: bool,
    pub(super) mode: ApprovalMode,
    pub(super) permissions: Permissions,
    /// Paths that the call asked to write; missing ones are created. Paths granted by rules are not
    /// created.
    pub(super) requested_writes: Vec<PathBuf>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// The prepared sandbox of a command.
pub(super) struct PreparedSandbox {
    pub(super) plan: Option<Plan>,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Paths that were created so that they can be opened.
    pub(super) precreated: Vec<PrecreatedPath>,
    /// What the command can write, if mounts enforce it.
    pub(super) write_scope: WriteScope,
}

impl StartingCommand {
    /// Builds the plan and the environment. Blocking: accesses the file system.
    ///
    /// # Errors
    /// Returns the reason, for the model, if the command may not run.
    pub(super) fn prepare(
        self,
        options: Option<&SandboxOptions>,
    ) -> Result<PreparedSandbox, String> {
        let Self {
            line,
            directory,
            roots,
            named_directories,
            layers,
            mode,
            permissions,
            requested_writes,
            mut environment,
        } = self;
        // Any program may call git. Programs of a repository run only in commands that the user
        // approved.
        if !permissions.repository_programs
            && let Err(obstacles) =
                git::neutralize(&mut environment, &directory, &named_directories)
            && bash::uses_git(&line)
        {
            let named: Vec<String> = obstacles.iter().take(4).map(ToString::to_string).collect();
            return Err(format!(
                "git would run a program that the repository configures and that cannot be \
                 disabled: {}; ask the user to approve the command",
                named.join(", ")
            ));
        }
        if !permissions.repository_programs && bash::uses_git(&line) {
            let near: Vec<PathBuf> =
                std::iter::once(&directory).chain(&named_directories).cloned().collect();
            if let Some(PathRemote(path)) = git_path_remotes::find(&line, &near) {
                let which = match is_own_repository(&path, &near) {
                    true => "this repository in another git process, which a local push starts",
                    false => "another repository on this machine",
                };
                return Err(format!(
                    "the sandbox does not allow git to run the hooks and programs of {which} \
                     ({path}); ask the user to approve the command"
                ));
            }
        }
        let is_info_directory = |path: &PathBuf| path.ends_with(".git/info");
        if mode != ApprovalMode::Yolo
            && bash::uses_git(&line)
            && !permissions.file_system.write.iter().any(is_info_directory)
        {
            git::disable_info_updates(&mut environment);
        }
        if options.is_some_and(|options| options.worktree.is_some()) && bash::uses_git(&line) {
            git::disable_maintenance(&mut environment);
        }
        if !permissions.repository_programs && bash::uses_git(&line) {
            // While the line runs, it may write files that control git.
            git::forbid_bare_repositories(&mut environment, &directory, &named_directories);
            if mode != ApprovalMode::Yolo
                && may_write_beside_git(&line)
                && let Some(obstacle) =
                    git::uncontrolled_include(&directory, &named_directories, &roots)
            {
                return Err(format!(
                    "the command line may write a file that git reads its configuration from \
                     ({obstacle}); run git in a separate call, or ask the user to approve the \
                     command"
                ));
            }
        }
        let subject =
            ConfinedCommand { line: &line, roots: &roots, layers, mode, permissions: &permissions };
        let mut precreated = Vec::new();
        let plan = match options {
            Some(options) => {
                confinement::add_agent_variables(&mut environment, &subject);
                confinement::provide_caches(&mut environment, options, layers);
                make_private(&options.temporary)?;
                if options.enabled && !permissions.outside {
                    let files = &permissions.file_system;
                    let readable =
                        [files.read.as_slice(), &files.write, &options.readable].concat();
                    npm_registries::add(
                        &mut environment,
                        &options.home,
                        &options.temporary,
                        &readable,
                    );
                }
                let makes = !git_worktree_writes::creates_own_files(&line);
                if options.enabled && !permissions.outside && makes {
                    precreated = precreated_path::create(&requested_writes, &line, &directory);
                }
                let BuiltPlan { plan, unlocated } = confinement::plan(options, &subject);
                if !unlocated.is_empty() {
                    return Err(unlocated_files_message(&unlocated));
                }
                if !plan.placeholders.is_empty() {
                    git::compare_by_time(&mut environment);
                }
                Some(plan)
            }
            None => None,
        };
        let network = match &plan {
            Some(plan) => matches!(plan.network, Network::Host | Network::External),
            None => permissions.network || mode == ApprovalMode::Yolo,
        };
        if !network && !permissions.repository_programs {
            // To read a missing object, git would contact a remote, which may be a program in the
            // repository.
            environment.push(("GIT_NO_LAZY_FETCH".into(), "1".into()));
        }
        // Only mounts can protect paths inside a writable directory; layers need them too.
        let mounts = layers && options.is_some_and(|options| mounts(options.tier));
        let write_scope = plan.as_ref().map(|plan| write_scope(plan, mounts)).unwrap_or_default();
        Ok(PreparedSandbox { plan, environment, precreated, write_scope })
    }
}

/// Whether a tier uses mounts to protect files in writable directories.
pub fn mounts(tier: Tier) -> bool {
    matches!(tier, Tier::Best | Tier::Namespaces | Tier::Bubblewrap)
}

/// Returns what a command can write with this plan, if mounts enforce it: existing protected paths
/// can be neither changed nor replaced, but missing ones can be created. Blocking.
pub fn write_scope(plan: &Plan, mounts: bool) -> WriteScope {
    if !mounts || !plan.confine {
        return WriteScope::default();
    }
    let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
    let trees = || plan.writable.iter().chain(&plan.overlays);
    // A directory around a hidden path can be moved, unless the path is pinned.
    let stays = |path: &&PathBuf| {
        let movable = |directory: &Path| {
            trees().any(|tree| directory.starts_with(tree))
                && !trees().any(|tree| directory == tree)
        };
        plan.pinned.contains(path) || !path.parent().is_some_and(movable)
    };
    let hidden = plan.hidden.iter().filter(stays);
    let there = plan.read_only.iter().chain(hidden).filter(is_there).cloned();
    let open = plan.writable.iter().chain(&plan.overlays).cloned();
    WriteScope { read_only: there.chain([PathBuf::from("/")]).collect(), open: open.collect() }
}

/// Returns the message about hidden files whose current location in the workspace is unknown.
fn unlocated_files_message(lost: &[PathBuf]) -> String {
    let named: Vec<String> = lost.iter().take(4).map(|path| path.display().to_string()).collect();
    format!(
        "a file that the sandbox hides was moved, and the workspace is too large or not readable \
         enough to find it: {}; move it back, or ask the user to approve the command outside the \
         sandbox",
        named.join(", ")
    )
}

fn make_private(directory: &Path) -> Result<(), String> {
    parallax_exec::create_private_folder(directory).map_err(|error| {
        format!(
            "failed to create the directory `{}` for temporary files: {error}",
            directory.display()
        )
    })
}

/// The note for the model about a denied write whose path neither the line nor the output names.
const UNNAMED: &str = "\n[The sandbox denied a write: outside of the workspace, file systems are \
                       read-only for commands. Write inside the workspace, or name the path in \
                       the command so that its permission can be requested]";

/// The note for the model about a directory that cannot be moved because of its contents.
const PINNED: &str = "\n[The sandbox does not let protected and hidden files, such as `.vscode`, \
                      `.git`, and `.envrc`, be moved: a directory that contains one cannot be \
                      moved or removed. Move what else is in it, or ask the user to do it]";

/// The note for the model about a program that started git in a package directory.
const OTHER_PROGRAMS: &str = "\n[The repository around this directory is read-only for lines that \
                              run other programs, because git could change files that cannot be \
                              written. Run git in a line with nothing but git and file utilities]";

const LINKED_ALTERNATE: &str = "\n[Commands have a private `/tmp`, without the symbolic links \
                                through which `.git/objects/info/alternates` names objects of \
                                another repository. Ask the user to write the real path into that \
                                file]";

/// Whether the path leads to the repository around one of the directories.
fn is_own_repository(path: &str, directories: &[PathBuf]) -> bool {
    let git =
        |directory: &Path| directory.ancestors().map(|it| it.join(".git")).find(|it| it.exists());
    let path = path.strip_prefix("file://").unwrap_or(path);
    directories.iter().any(|directory| {
        let named = directory.join(path);
        let git_directory = if named.ends_with(".git") { named } else { named.join(".git") };
        git(directory).is_some_and(|own| resolve_links(&own) == resolve_links(&git_directory))
    })
}

/// Evidence of a sandbox denial besides the plan and the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenialEvidence {
    /// Whether the kernel counted packets without a route.
    pub(super) needed_network: bool,
    /// Whether hidden files are covered by placeholders.
    pub(super) has_placeholders: bool,
}

/// Returns what the sandbox denied a finished command, and the note for the model about hidden
/// files that git tracks. Blocking.
pub(super) fn denied_permissions(
    plan: Plan,
    line: &ShellLine,
    directory: &Path,
    home: &Path,
    done: &FinishedCommand,
    evidence: DenialEvidence,
) -> (Permissions, String) {
    let ProcessExit::Exited { code } = done.exit else { return <_>::default() };
    if done.stop.is_some() || !plan.confine {
        return <_>::default();
    }
    let captured = &done.output.captured;
    let output = match &captured.tail {
        Some(tail) => format!("{}\n{tail}", captured.head),
        None => captured.head.clone(),
    };
    if SupervisorError::read(code, &output).is_some() {
        return (Permissions { outside: true, ..Permissions::default() }, String::new());
    }
    let stumbled = tracked::encountered_hidden_files(
        &plan,
        line,
        directory,
        &output,
        evidence.has_placeholders,
    );
    let ran = SandboxRun { plan, needed_network: evidence.needed_network };
    let directories = predicted_permissions::directories(line, directory, home);
    let sources: Vec<&str> = line.commands.iter().map(|command| command.source.as_str()).collect();
    let command = sources.join("\n");
    // A command that only reads may print such messages from files.
    let anywhere = [PathBuf::from("/")];
    let only_reads = bash::is_safe(line, &bash::SafeReadRoots { directory, roots: &anywhere });
    let mut missing = match only_reads && code == 0 {
        true => Permissions::default(),
        false => denial_evidence::missing_permissions(
            &command,
            &output,
            code != 0,
            &directories,
            home,
            &ran,
        ),
    };
    if only_reads {
        // Such words are in what it prints, not about it.
        missing.file_system.write.clear();
    }
    let unnamed =
        missing.is_empty() && !only_reads && denial_evidence::is_read_only(&output, code != 0);
    if unnamed && code != 0 {
        // Programs such as `zip` name the path in another line, or not at all.
        let named = predicted_permissions::written_paths(line, &directories, home);
        let closed = named.into_iter().filter(|path| ran.denies(path, DeniedAccess::Write));
        missing.file_system.write.extend(closed);
    }
    if bash::uses_git(line) && denial_evidence::reports_repository_write_failure(&output) {
        let remotes = directories.iter().flat_map(|directory| repository::local_remotes(directory));
        let named = predicted_permissions::named_paths(line, &directories);
        for path in remotes.chain(named).map(|path| resolve_links(&path)) {
            let is_repository = path.join("objects").is_dir() || path.join(".git").exists();
            if is_repository && ran.denies(&path, DeniedAccess::Write) {
                missing.file_system.write.push(path);
            }
        }
    }
    if (missing.network || missing.host_loopback) && !Support::separates_server_permissions() {
        // Here one permission includes the other, and the approval request says so.
        (missing.network, missing.host_loopback) = (true, true);
    }
    let copied = denial_evidence::copied_hidden_files(&output, &ran.plan.hidden);
    let files = &mut missing.file_system;
    if code == 0 && bash::uses_git(line) {
        // `git commit` in a worktree tries this in vain for a missing ref, and succeeds.
        files.write.retain(|path| !path.ends_with("packed-refs.lock"));
    }
    if code != 0 {
        files.read.extend(stumbled.iter().cloned().chain(copied));
    }
    let named = !files.read.is_empty() || !files.write.is_empty();
    for paths in [&mut files.read, &mut files.write] {
        *paths = paths.iter().filter_map(|path| path_to_grant(path, home)).collect();
        paths.sort();
        paths.dedup();
    }
    let mut words = match stumbled.is_empty() {
        true => String::new(),
        false => tracked::note(&stumbled, directory),
    };
    let around = |path: &PathBuf| repository_around(path, directory, &ran);
    if !confinement::starts_only_known_git(line)
        && let Some(top) = files.write.iter().find_map(around)
    {
        files.write.retain(|path| !path.starts_with(&top));
        files.write.extend(path_to_grant(&top, home));
        words.push_str(OTHER_PROGRAMS);
    }
    // A directory that cannot be granted, such as one around the home directory, is not named.
    if (unnamed || named && code != 0) && missing.is_empty() && words.is_empty() {
        words.push_str(UNNAMED);
    }
    if code != 0
        && missing.is_empty()
        && words.is_empty()
        && denial_evidence::is_mount_point(&output)
    {
        words.push_str(PINNED);
    }
    if bash::uses_git(line) && denial_evidence::is_unreachable_alternate(&output) {
        words.push_str(LINKED_ALTERNATE);
    }
    if code != 0 && evidence.has_placeholders && missing.is_empty() && words.is_empty() {
        let missed = concealed::missed_path(line, &directories, home, &ran, &output);
        words = missed.map(|path| concealed::note(&path)).unwrap_or_default();
    }
    if code == 0 && evidence.has_placeholders && missing.is_empty() && words.is_empty() {
        let written = concealed::private_target(line, &directories, home, &ran);
        words = written.map(|path| concealed::private_note(&path)).unwrap_or_default();
    }
    (missing, words)
}

/// Returns the top directory of the repository whose git directory contains the path, if the
/// command ran in a directory of it and cannot write all of its files.
fn repository_around(path: &Path, directory: &Path, ran: &SandboxRun) -> Option<PathBuf> {
    let git =
        path.ancestors().find(|ancestor| ancestor.file_name().is_some_and(|it| it == ".git"))?;
    let top = git.parent()?;
    let is_around =
        resolve_links(directory).starts_with(top) && ran.denies(top, DeniedAccess::Write);
    is_around.then(|| top.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_ignores_configuration_written_by_the_same_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let git = |line: &[&str]| {
            let time = std::time::Duration::from_secs(5);
            let output = parallax_exec::program::output("git", line, &root, &[], 1 << 20, time);
            assert!(output.is_some(), "{line:?}");
        };
        let prepared = |line: &str, directories: &[&str]| {
            let entry = StartingCommand {
                line: bash::analyze(line),
                directory: root.clone(),
                roots: vec![root.clone()],
                named_directories: directories
                    .iter()
                    .map(|directory| root.join(directory))
                    .collect(),
                layers: false,
                mode: ApprovalMode::Default,
                permissions: Permissions::default(),
                requested_writes: Vec::new(),
                environment: Vec::new(),
            };
            entry.prepare(None).map(|prepared| {
                prepared.environment.iter().any(|(_, value)| value == "safe.bareRepository")
            })
        };
        git(&["init", "-q"]);
        let mixed = "cp a inc.cfg; git diff";
        assert_eq!(prepared(mixed, &[]), Ok(true));
        assert_eq!(prepared("make", &[]), Ok(false));
        // An existing bare repository was checked.
        git(&["init", "-q", "--bare", "bare"]);
        assert_eq!(prepared("cd bare && git log", &["bare"]), Ok(false));
        git(&["config", "include.path", "../inc.cfg"]);
        assert_eq!(prepared("git diff | head", &[]), Ok(true));
        for line in [mixed, "echo x > inc.cfg; git diff", "git diff; make"] {
            assert!(prepared(line, &[]).unwrap_err().contains("include.path"), "{line}");
        }
    }

    #[test]
    fn git_does_not_fetch_missing_objects_without_network() {
        let directory = tempfile::tempdir().unwrap();
        let fetches = |mode, network, repository_programs| {
            let entry = StartingCommand {
                line: bash::analyze("git show x"),
                directory: directory.path().to_owned(),
                roots: vec![directory.path().to_owned()],
                named_directories: Vec::new(),
                layers: false,
                mode,
                permissions: Permissions { network, repository_programs, ..Permissions::default() },
                requested_writes: Vec::new(),
                environment: Vec::new(),
            };
            let environment = entry.prepare(None).unwrap().environment;
            !environment.iter().any(|(name, value)| name == "GIT_NO_LAZY_FETCH" && value == "1")
        };
        assert!(!fetches(ApprovalMode::Default, false, false));
        assert!(fetches(ApprovalMode::Default, true, false));
        assert!(fetches(ApprovalMode::Default, false, true));
        assert!(fetches(ApprovalMode::Yolo, false, false));
    }
}
