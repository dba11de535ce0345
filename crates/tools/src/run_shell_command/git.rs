//! The environment that keeps git from running programs of a repository: its hooks and the programs
//! named in its configuration. The user's own configuration (name, credentials, keys) stays in
//! effect.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::granted_paths::resolve_links;
use super::repository;
use crate::repository_variables::is_repository_variable;
use crate::small_files::bytes_of;

mod listing;
#[cfg(test)]
mod program_keys;

/// Limits on listing a configuration: time and size.
const TIME: Duration = Duration::from_secs(5);
const SIZE: u64 = 1024 * 1024;
/// Maximum number of overrides. If a repository names more programs, none is overridden and the
/// command is rejected.
const MAX_PAIRS: usize = 2_000;

/// A replacement of a repository's `diff.external`: a plain diff.
const PLAIN_DIFF: &str = "sh -c 'a=a/$1 b=b/$1; printf \"diff --git %s %s\\n\" \"$a\" \"$b\"; \
     test \"$2\" = /dev/null && a=/dev/null; test \"$5\" = /dev/null && b=/dev/null; \
     diff -u -L \"$a\" -L \"$b\" -- \"$2\" \"$5\" || true' -";

/// A program setting of a repository that cannot be overridden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnoverridableConfig {
    /// The configuration file.
    pub(super) file: PathBuf,
    /// The key; `None` if the file cannot be read.
    pub(super) key: Option<String>,
}

impl std::fmt::Display for UnoverridableConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.file.display();
        match &self.key {
            Some(key) => write!(formatter, "the key `{key}` in `{file}`"),
            None => write!(formatter, "`{file}`, which cannot be read"),
        }
    }
}

/// Returns the settings of the repository around `directory` that would run programs despite
/// overrides.
pub(super) fn unoverridable_configs(directory: &Path) -> Vec<UnoverridableConfig> {
    overrides(&mut Vec::new(), directory, &[]).1
}

/// Adds variables to a command's environment that keep git from running programs of the
/// repositories around `directory`.
///
/// # Errors
/// Returns the settings that cannot be overridden; the environment is then unchanged.
pub(super) fn neutralize(
    environment: &mut Vec<(OsString, OsString)>,
    directory: &Path,
    others: &[PathBuf],
) -> Result<(), Vec<UnoverridableConfig>> {
    let (pairs, obstacles) = overrides(environment, directory, others);
    append(environment, pairs);
    if obstacles.is_empty() { Ok(()) } else { Err(obstacles) }
}

/// Returns this process's environment for a git process that Parallax itself runs in `directory`:
/// programs of the repository are disabled, and variables that select another repository are
/// removed. Blocking.
///
/// # Errors
/// Returns the path of a configuration file that cannot be read.
pub fn own_git_environment(directory: &Path) -> Result<Vec<(OsString, OsString)>, PathBuf> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| name != "GIT_EXTERNAL_DIFF" && !is_repository_variable(name))
        .collect();
    for (name, value) in [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("LC_ALL", "C"),
    ] {
        environment.retain(|(other, _)| other != name);
        environment.push((name.into(), value.into()));
    }
    let directory = repository::resolve_like_git(directory);
    let (pairs, obstacles) = overrides(&mut environment, &directory, &[]);
    append(&mut environment, pairs);
    // Programs for network access do not matter here, because nothing is fetched.
    match obstacles.into_iter().find(|obstacle| obstacle.key.is_none()) {
        Some(unreadable) => Err(unreadable.file),
        None => Ok(environment),
    }
}

/// Returns the names of the filters whose programs turn files into what git stores, but do not run
/// in `directory`, because the repository configures them. Blocking.
pub fn overridden_filters(directory: &Path) -> Vec<String> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let directory = repository::resolve_like_git(directory);
    let (pairs, _) = overrides(&mut environment, &directory, &[]);
    let name = |(key, _): &(String, String)| {
        let (name, last) = key.strip_prefix("filter.")?.rsplit_once('.')?;
        matches!(last, "clean" | "process").then(|| name.to_owned())
    };
    let mut names: Vec<String> = pairs.iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn overrides(
    environment: &mut Vec<(OsString, OsString)>,
    directory: &Path,
    others: &[PathBuf],
) -> (Vec<(String, String)>, Vec<UnoverridableConfig>) {
    let mut pairs = vec![
        ("core.hooksPath".to_owned(), "/dev/null".to_owned()),
        ("core.fsmonitor".to_owned(), "false".to_owned()),
        ("protocol.ext.allow".to_owned(), "never".to_owned()),
    ];
    let mut obstacles = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut entries = Vec::new();
    for folder in std::iter::once(directory).chain(others.iter().map(PathBuf::as_path)) {
        let found = repository::configurations(folder);
        let unreadable = found.unreadable.into_iter();
        obstacles.extend(unreadable.map(|file| UnoverridableConfig { file, key: None }));
        for file in found.program_files {
            if seen.contains(&file) {
                continue;
            }
            match listing::entries(&file, directory) {
                Some(found) => {
                    for (key, _) in found.iter().filter(|(key, _)| is_first_wins(key)) {
                        obstacles.push(UnoverridableConfig {
                            file: file.clone(),
                            key: Some(key.clone()),
                        });
                    }
                    entries.extend(found);
                }
                None => obstacles.push(UnoverridableConfig { file: file.clone(), key: None }),
            }
            seen.push(file);
        }
    }
    let keeps_filters = entries.iter().all(|(key, _)| is_harmless_beside_lfs(key))
        && path_avoids_repository(directory);
    for (key, value) in &entries {
        if !(keeps_filters && is_own_entry(key, value, directory)) {
            push_override(key, value, directory, environment, &mut pairs);
        }
    }
    if pairs.len() > MAX_PAIRS {
        pairs.truncate(MAX_PAIRS);
        obstacles.push(UnoverridableConfig { file: directory.join(".git/config"), key: None });
    }
    obstacles.dedup();
    (pairs, obstacles)
}

/// Keeps git from updating the lists in the repository's `info` directory. Only servers for dumb
/// transports need them, and the directory is read-only in the sandbox, so `gc` and `repack` would
/// fail.
pub(super) fn disable_info_updates(environment: &mut Vec<(OsString, OsString)>) {
    append(environment, vec![("repack.updateServerInfo".to_owned(), "false".to_owned())]);
}

/// Keeps git from repacking a repository of which only a worktree's part is writable.
pub(super) fn disable_maintenance(environment: &mut Vec<(OsString, OsString)>) {
    let pairs = [("maintenance.auto", "false"), ("gc.auto", "0")];
    append(environment, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec());
}

/// Makes git compare files by size and modification time only, because the placeholder of a hidden
/// file differs in its other attributes.
pub(super) fn compare_by_time(environment: &mut Vec<(OsString, OsString)>) {
    let pairs = [("core.checkStat", "minimal"), ("core.trustctime", "false")];
    append(environment, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec());
}

/// Keeps git from using bare repositories without a `.git` unless one already exists: a repository
/// created while the line runs was not checked.
pub(super) fn forbid_bare_repositories(
    environment: &mut Vec<(OsString, OsString)>,
    directory: &Path,
    others: &[PathBuf],
) {
    let mut directories = std::iter::once(directory).chain(others.iter().map(PathBuf::as_path));
    if !directories.any(|directory| repository::find_bare_repository(directory).is_some()) {
        append(environment, vec![("safe.bareRepository".to_owned(), "explicit".to_owned())]);
    }
}

/// Returns a file in the workspace that the configuration of a repository around `directory`
/// includes: write access to that file gives control over what git runs.
pub(super) fn uncontrolled_include(
    directory: &Path,
    others: &[PathBuf],
    roots: &[PathBuf],
) -> Option<UnoverridableConfig> {
    let directories = std::iter::once(directory).chain(others.iter().map(PathBuf::as_path));
    for file in
        directories.flat_map(|directory| repository::configurations(directory).program_files)
    {
        for (key, value) in listing::entries(&file, directory).into_iter().flatten() {
            let folded = key.to_ascii_lowercase();
            let includes = folded == "include.path"
                || (folded.starts_with("includeif.") && folded.ends_with(".path"));
            let named = file.parent().unwrap_or(directory).join(&value);
            let named = resolve_links(&named);
            let in_git = named.components().any(|part| part.as_os_str() == ".git");
            if includes && !in_git && roots.iter().any(|root| named.starts_with(root)) {
                return Some(UnoverridableConfig { file, key: Some(key) });
            }
        }
    }
    None
}

/// Returns the values of the given lowercase keys in the configuration of a repository, each with
/// the base directory for relative values.
pub(super) fn files_of_configuration(
    repository: &Path,
    keys: &[&str],
    directory: &Path,
) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for file in ["config", "config.worktree"].map(|name| repository.join(name)) {
        let names = bytes_of(&file, SIZE).map(|bytes| {
            let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
            let last = |key: &&str| key.rsplit('.').next().is_some_and(|name| text.contains(name));
            keys.iter().any(last) || text.contains("[include")
        });
        if names != Some(true) {
            continue;
        }
        for (key, value) in listing::entries(&file, directory).into_iter().flatten() {
            if keys.contains(&key.to_ascii_lowercase().as_str()) && !value.starts_with('~') {
                found.push((repository.to_owned(), value));
            }
        }
    }
    found
}

/// Whether a later entry cannot override this one, because git uses the first.
fn is_first_wins(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let remote_key = key.strip_prefix("remote.").and_then(|rest| rest.rsplit('.').next());
    matches!(key.as_str(), "core.gitproxy" | "gc.recentobjectshook")
        || matches!(remote_key, Some("uploadpack" | "receivepack"))
}

/// Adds an override that neutralizes one entry of a repository's configuration.
fn push_override(
    key: &str,
    value: &str,
    directory: &Path,
    environment: &mut Vec<(OsString, OsString)>,
    pairs: &mut Vec<(String, String)>,
) {
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    let (_, last) = rest.rsplit_once('.').unwrap_or(("", rest));
    let mut set = |value: &str| pairs.push((key.to_owned(), value.to_owned()));
    match (section, last) {
        ("core", "pager") | ("pager", _) | ("interactive", "difffilter") => set("cat"),
        ("core", "editor") | ("sequence", "editor") => set("true"),
        ("core", "askpass") => set(""),
        ("core", "sshcommand") => {
            let own = first(&["--global", "--get", "core.sshCommand"], directory);
            set_variable(environment, "GIT_SSH_COMMAND", &own.unwrap_or_else(|| "ssh".into()));
        }
        ("core", "alternaterefscommand") => set("true"),
        ("gpg", "defaultkeycommand") => set("false"),
        ("diff", "external") | ("diff", "command") => set(PLAIN_DIFF),
        // `cat` leaves the text unchanged.
        ("diff", "textconv") | ("filter", "clean" | "smudge") => set("cat"),
        ("filter", "process") => set(""),
        ("filter", "required") => set("false"),
        ("merge", "driver") => set("git merge-file --quiet %A %O %B"),
        ("mergetool" | "difftool", "cmd" | "path") => set("false"),
        ("gpg", "program") => set(&default_of_user("gpg.program", "gpg", directory)),
        ("gpg", _) if last == "program" => set("false"),
        ("credential", "helper") => {
            // An empty value removes the earlier helpers; the user's are added again.
            set("");
            for own in values(&["--global", "--get-all", "credential.helper"], directory) {
                pairs.push(("credential.helper".to_owned(), own));
            }
        }
        ("alias", _) if value.trim_start().starts_with('!') => set("help"),
        ("remote", "vcs" | "proxy") => set(""),
        ("submodule", "update") if value.trim_start().starts_with('!') => set("none"),
        ("uploadpack", "packobjectshook") => set(""),
        ("sendemail" | "imap" | "browser" | "man" | "web" | "guitool" | "instaweb", _) => {
            set("false");
        }
        ("tar", "command") => set(match rest {
            "tgz.command" | "tar.gz.command" => "gzip -cn",
            _ => "cat",
        }),
        ("svn", "authorsprog") => set("false"),
        ("trailer", "command" | "cmd") | ("hook", "command") => set("true"),
        _ => {}
    }
}

/// Whether the user's own configuration contains the same entry, or the entry is one that `git lfs
/// install --local` writes for the installed program.
fn is_own_entry(key: &str, value: &str, directory: &Path) -> bool {
    const OF_LFS: &[(&str, &str)] = &[
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.required", "true"),
    ];
    if !key.starts_with("filter.") {
        return false;
    }
    OF_LFS.contains(&(key, value))
        || first(&["--global", "--get", key], directory).as_deref() == Some(value)
}

/// Whether the key makes `git lfs` start no other program. Extensions and transfer agents are
/// programs.
fn is_harmless_beside_lfs(key: &str) -> bool {
    const HARMLESS: [&str; 8] = [
        "repositoryformatversion",
        "url",
        "pushurl",
        "access",
        "locksverify",
        "fetchinclude",
        "fetchexclude",
        "concurrenttransfers",
    ];
    !key.starts_with("lfs.") || key.rsplit('.').next().is_some_and(|last| HARMLESS.contains(&last))
}

/// Whether a program name without a path cannot resolve to a file of the repository.
fn path_avoids_repository(directory: &Path) -> bool {
    let top = directory.ancestors().find(|directory| directory.join(".git").exists());
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).all(|directory| {
        directory.is_absolute() && !top.is_some_and(|top| directory.starts_with(top))
    })
}

fn default_of_user(key: &str, otherwise: &str, directory: &Path) -> String {
    first(&["--global", "--get", key], directory).unwrap_or_else(|| otherwise.to_owned())
}

fn first(arguments: &[&str], directory: &Path) -> Option<String> {
    values(arguments, directory).into_iter().next()
}

fn values(arguments: &[&str], directory: &Path) -> Vec<String> {
    let Some(bytes) = git_config(arguments, directory) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split('\0').filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

/// Runs `git config`, which starts no other programs.
fn git_config(arguments: &[&str], directory: &Path) -> Option<Vec<u8>> {
    let arguments = ["config", "--null"].into_iter().chain(arguments.iter().copied());
    let variables = [("GIT_PAGER", "cat"), ("GIT_CONFIG_COUNT", "0")];
    parallax_exec::program::detached_output("git", arguments, directory, &variables, SIZE, TIME)
}

/// Returns the aliases of the effective configuration in a directory.
pub(super) fn aliases(directory: &Path) -> Vec<(String, String)> {
    let entries = values(&["--get-regexp", r"^alias\."], directory);
    let alias = |entry: &String| {
        let (key, text) = entry.split_once('\n')?;
        let (_, name) = key.split_once('.')?;
        Some((name.to_owned(), text.to_owned()))
    };
    entries.iter().filter_map(alias).collect()
}

fn set_variable(environment: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    // Variables set by the user have precedence.
    if !environment.iter().any(|(other, _)| other == name) {
        environment.push((name.into(), value.into()));
    }
}

/// Appends configuration pairs to the existing ones.
fn append(environment: &mut Vec<(OsString, OsString)>, pairs: Vec<(String, String)>) {
    let count = environment
        .iter()
        .find(|(name, _)| name == "GIT_CONFIG_COUNT")
        .and_then(|(_, value)| value.to_str()?.parse::<usize>().ok())
        .unwrap_or(0);
    environment.retain(|(name, _)| name != "GIT_CONFIG_COUNT");
    environment.push(("GIT_CONFIG_COUNT".into(), (count + pairs.len()).to_string().into()));
    for (number, (key, value)) in pairs.into_iter().enumerate() {
        let number = count + number;
        environment.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
        environment.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A test repository in which every configured program writes to a file next to it.
    struct HostileRepository {
        folder: tempfile::TempDir,
    }

    impl HostileRepository {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let this = Self { folder: directory };
            let root = this.root();
            fs::create_dir(&root).expect("a directory");
            let evil = this.folder.path().join("evil");
            let script = "#!/bin/sh\necho \"$0 $*\" >> \"$(dirname \"$0\")/ran\"\ncat\n";
            fs::write(&evil, script).expect("a script");
            fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).expect("mode");
            this.plain(&["init", "-q"]);
            fs::write(root.join("f"), "a\n").expect("a file");
            fs::write(root.join(".gitattributes"), "* diff=ev filter=fi merge=me\n")
                .expect("a file");
            this.plain(&["add", "-A"]);
            this.plain(&["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "one"]);
            fs::write(root.join("f"), "b\n").expect("a file");
            let path = evil.to_string_lossy().into_owned();
            for key in [
                "core.fsmonitor",
                "core.pager",
                "diff.external",
                "diff.ev.textconv",
                "filter.fi.clean",
                "filter.fi.smudge",
                "core.sshCommand",
                "gpg.program",
                "core.editor",
                "pager.log",
                "interactive.diffFilter",
                "credential.helper",
            ] {
                this.plain(&["config", key, &path]);
            }
            let hook = root.join(".git/hooks/pre-commit");
            fs::create_dir_all(root.join(".git/hooks")).expect("a directory");
            fs::copy(&evil, &hook).expect("a hook");
            this
        }

        fn root(&self) -> std::path::PathBuf {
            self.folder.path().join("project")
        }

        fn plain(&self, arguments: &[&str]) {
            let home = self.folder.path().to_string_lossy().into_owned();
            let run = parallax_exec::program::output(
                "git",
                arguments,
                &self.root(),
                &[("HOME", &home)],
                SIZE,
                TIME,
            );
            assert!(run.is_some(), "{arguments:?}");
        }

        fn programs_run(&self) -> String {
            fs::read_to_string(self.folder.path().join("ran")).unwrap_or_default()
        }
    }

    /// Returns the variables with which git runs in a command that was not approved.
    fn neutral_variables(hostile: &HostileRepository) -> Vec<(String, String)> {
        let mut environment = Vec::new();
        assert_eq!(neutralize(&mut environment, &hostile.root(), &[]), Ok(()));
        let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
        let mut variables: Vec<(String, String)> =
            environment.into_iter().map(|(name, value)| (text(name), text(value))).collect();
        let home = hostile.folder.path().to_string_lossy().into_owned();
        variables.push(("HOME".to_owned(), home));
        variables
    }

    #[test]
    fn repository_programs_of_husky_lfs_and_submodules_do_not_run() {
        let hostile = HostileRepository::new();
        let root = hostile.root();
        let evil = hostile.folder.path().join("evil").to_string_lossy().into_owned();
        // A hooks directory, as husky creates it, with all hooks that git knows.
        fs::create_dir(root.join(".husky")).expect("a directory");
        for hook in ["post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"] {
            fs::copy(&evil, root.join(".husky").join(hook)).expect("a hook");
            fs::copy(&evil, root.join(".git/hooks").join(hook)).expect("a hook");
        }
        // A nested repository with its own filters.
        let inner = root.join("inner");
        fs::create_dir(&inner).expect("a directory");
        let in_inner = |arguments: &[&str]| {
            let path_text = inner.to_string_lossy().into_owned();
            let line: Vec<&str> =
                ["-C", &path_text].into_iter().chain(arguments.iter().copied()).collect();
            hostile.plain(&line);
        };
        in_inner(&["init", "-q"]);
        fs::write(inner.join("g"), "a\n").expect("a file");
        fs::write(inner.join(".gitattributes"), "* filter=inner diff=inner\n").expect("a file");
        in_inner(&["add", "-A"]);
        in_inner(&["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "one"]);
        hostile.plain(&["-c", "core.fsmonitor=false", "add", "inner"]);
        fs::write(inner.join("g"), "b\n").expect("a file");
        for key in
            ["filter.inner.clean", "filter.inner.process", "diff.inner.textconv", "core.fsmonitor"]
        {
            in_inner(&["config", key, &evil]);
        }
        // Conditional configuration, and programs that git lfs would start.
        let conditional = hostile.folder.path().join("more");
        fs::write(&conditional, format!("[diff \"c\"]\ncommand = {evil}\n")).expect("a file");
        hostile.plain(&["config", "includeIf.onbranch:**.path", "../../more"]);
        hostile.plain(&["config", "core.hooksPath", ".husky"]);
        hostile.plain(&["config", "filter.lfs.clean", "git-lfs clean -- %f"]);
        hostile.plain(&["config", "lfs.extension.x.clean", &evil]);
        hostile.plain(&["config", "alias.hey", &format!("!{evil}")]);
        hostile.plain(&["config", "submodule.inner.update", &format!("!{evil}")]);
        hostile.plain(&["config", "log.showSignature", "true"]);
        fs::write(root.join("c"), "1").expect("a file");
        fs::write(root.join(".gitattributes"), "c diff=c\n* diff=ev filter=fi\nl filter=lfs\n")
            .expect("a file");
        let own = neutral_variables(&hostile);
        assert!(own.iter().any(|(_, value)| value == "filter.lfs.clean"), "{own:?}");
        let variables: Vec<(&str, &str)> =
            own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let _ = fs::remove_file(hostile.folder.path().join("ran"));
        for arguments in [
            &["status"][..],
            &["status", "--porcelain=v2"],
            &["diff"],
            &["diff", "--submodule=diff"],
            &["diff", "--cached"],
            &["log", "-p", "--submodule=log"],
            &["show", "HEAD"],
            &["branch", "-a"],
            &["hey"],
            &["submodule", "status"],
        ] {
            let run =
                parallax_exec::program::output("git", arguments, &root, &variables, SIZE, TIME);
            // `git submodule` fails without `.gitmodules`, which is fine.
            assert!(run.is_some() || arguments[0] == "submodule", "{arguments:?}");
            assert_eq!(hostile.programs_run(), "", "{arguments:?}");
        }
        hostile.plain(&["status"]);
        assert_ne!(hostile.programs_run(), "", "the repository is not hostile");
    }

    #[test]
    fn repository_programs_do_not_run_and_git_commands_work() {
        let hostile = HostileRepository::new();
        let mut environment = Vec::new();
        assert_eq!(neutralize(&mut environment, &hostile.root(), &[]), Ok(()));
        assert_eq!(unoverridable_configs(&hostile.root()), []);
        let home = hostile.folder.path().to_string_lossy().into_owned();
        let own: Vec<(String, String)> = environment
            .iter()
            .map(|(name, value)| {
                (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
            })
            .collect();
        let mut variables: Vec<(&str, &str)> =
            own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        variables.extend([
            ("HOME", home.as_str()),
            ("GIT_AUTHOR_NAME", "x"),
            ("GIT_AUTHOR_EMAIL", "x@y"),
        ]);
        variables.extend([("GIT_COMMITTER_NAME", "x"), ("GIT_COMMITTER_EMAIL", "x@y")]);
        // Creating the repository ran its filters, so clear the evidence.
        let _ = fs::remove_file(hostile.folder.path().join("ran"));
        for arguments in [
            &["status"][..],
            &["diff"],
            &["log", "-p"],
            &["show"],
            &["stash", "list"],
            &["commit", "-qam", "two"],
            &["checkout", "HEAD~1", "--", "f"],
        ] {
            let run = parallax_exec::program::output(
                "git",
                arguments,
                &hostile.root(),
                &variables,
                SIZE,
                TIME,
            );
            assert!(run.is_some(), "{arguments:?}");
            assert_eq!(hostile.programs_run(), "", "{arguments:?}");
        }
        // Also from another directory. Settings that cannot be overridden are refused.
        let mut environment = Vec::new();
        assert!(neutralize(&mut environment, Path::new("/"), &[hostile.root()]).is_ok());
        assert!(environment.iter().any(|(_, value)| value == "diff.external"));
        for key in ["core.gitproxy", "remote.origin.uploadpack", "remote.a.b.receivepack"] {
            hostile.plain(&["config", key, "evil"]);
            let found = unoverridable_configs(&hostile.root());
            let found_text = found.iter().map(UnoverridableConfig::to_string).collect::<String>();
            assert!(found_text.starts_with(&format!("the key `{key}` in `/")), "{found_text}");
            hostile.plain(&["config", "--unset", key]);
        }
    }
}
