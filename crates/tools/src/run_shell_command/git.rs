//! What git gets so that nothing a repository brings runs: not its hooks, not
//! the programs its configuration names. The user's own configuration (name,
//! credentials, keys) stays in force.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::repository;

/// How long git may take to list a configuration, and how large that may be.
const TIME: Duration = Duration::from_secs(2);
const SIZE: u64 = 1024 * 1024;
/// Pairs that are set at most; a repository that names more programs gets none
/// of them set back, and is refused.
const MOST_PAIRS: usize = 2_000;

/// A stand-in for a repository's `diff.external`: the plain difference.
const PLAIN_DIFF: &str =
    "sh -c 'git --no-pager diff --no-index --no-ext-diff --no-textconv -- \"$2\" \"$5\" || true' -";

/// Sets, in the environment of a command, what keeps git from running what the
/// repositories around `directory` bring. `false` when that cannot be promised.
pub(super) fn neutralise(
    environment: &mut Vec<(OsString, OsString)>,
    directory: &Path,
    others: &[PathBuf],
) -> bool {
    let mut pairs = vec![
        ("core.hooksPath".to_owned(), "/dev/null".to_owned()),
        ("core.fsmonitor".to_owned(), "false".to_owned()),
        ("protocol.ext.allow".to_owned(), "never".to_owned()),
    ];
    let mut configurations = repository::running_configurations(directory);
    for folder in others {
        for file in repository::running_configurations(folder) {
            if !configurations.contains(&file) {
                configurations.push(file);
            }
        }
    }
    let mut all_read = true;
    for file in configurations.iter().filter(|file| file.file_name().is_some()) {
        let is_configuration =
            file.file_name().is_some_and(|name| name == "config" || name == "config.worktree");
        if !is_configuration || !file.is_file() {
            continue;
        }
        match list(&["--file", &file.to_string_lossy(), "--includes"], directory) {
            Some(entries) => {
                for (key, value) in entries {
                    all_read &= !is_stubborn(&key, &value);
                    neutral(&key, &value, directory, environment, &mut pairs);
                }
            }
            None => all_read = false,
        }
    }
    if pairs.len() > MOST_PAIRS {
        return false;
    }
    append(environment, pairs);
    all_read
}

/// Whether no other entry can take the meaning of this one away.
fn is_stubborn(key: &str, value: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let last = key.rsplit('.').next().unwrap_or_default();
    let runs = value.trim_start().starts_with('!');
    (runs && (key.starts_with("alias.") || key.starts_with("submodule.")))
        || (key.starts_with("remote.") && ["uploadpack", "receivepack", "vcs"].contains(&last))
        || (key.starts_with("trailer.") && ["cmd", "command"].contains(&last))
        || (key.starts_with("tar.") && last == "command")
        || (key.starts_with("gpg.") && last == "defaultkeycommand")
        || ["core.alternaterefscommand", "core.gitproxy", "uploadpack.packobjectshook"]
            .contains(&key.as_str())
}

/// What takes the meaning of one entry of a repository's configuration away.
fn neutral(
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
        ("core", "gitproxy") => set("none"),
        ("diff", "external") | ("diff", "command") => set(PLAIN_DIFF),
        // A text is its own text.
        ("diff", "textconv") | ("filter", "clean" | "smudge") => set("cat"),
        ("filter", "process") => set(""),
        ("filter", "required") => set("false"),
        ("merge", "driver") => set("git merge-file --quiet %A %O %B"),
        ("mergetool" | "difftool", "cmd" | "path") => set("false"),
        ("gpg", "program") => set(&default_of_user("gpg.program", "gpg", directory)),
        ("gpg", _) if last == "program" => set("false"),
        ("credential", "helper") => {
            // An empty helper drops those before it; the user's come again.
            set("");
            for own in values(&["--global", "--get-all", "credential.helper"], directory) {
                pairs.push(("credential.helper".to_owned(), own));
            }
        }
        ("alias", _) if value.trim_start().starts_with('!') => set("help"),
        ("remote", "uploadpack") => set("git-upload-pack"),
        ("remote", "receivepack") => set("git-receive-pack"),
        ("remote", "vcs" | "proxy") => set(""),
        ("submodule", "update") if value.trim_start().starts_with('!') => set("none"),
        ("uploadpack", "packobjectshook") => set(""),
        ("sendemail" | "imap" | "browser" | "man" | "web" | "guitool" | "instaweb", _) => {
            set("false");
        }
        ("trailer", "command" | "cmd") => set("true"),
        _ => {}
    }
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

/// The entries of a configuration: keys in lower case but for their middle.
fn list(arguments: &[&str], directory: &Path) -> Option<Vec<(String, String)>> {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--list"]).collect();
    let bytes = git_config(&arguments, directory)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let entries = text.split('\0').filter(|entry| !entry.is_empty());
    Some(
        entries
            .map(|entry| {
                let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
                (key.to_owned(), value.to_owned())
            })
            .collect(),
    )
}

/// Reading a configuration starts nothing.
fn git_config(arguments: &[&str], directory: &Path) -> Option<Vec<u8>> {
    let arguments = ["config", "--null"].into_iter().chain(arguments.iter().copied());
    let variables = [("GIT_PAGER", "cat"), ("GIT_CONFIG_COUNT", "0")];
    parallax_exec::program::output("git", arguments, directory, &variables, SIZE, TIME)
}

fn set_variable(environment: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    // What the user set in the environment comes before any configuration.
    if !environment.iter().any(|(other, _)| other == name) {
        environment.push((name.into(), value.into()));
    }
}

/// Adds pairs behind those that are there.
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

    /// A repository all of whose programs write into a file beside it.
    struct Hostile {
        folder: tempfile::TempDir,
    }

    impl Hostile {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let this = Self { folder };
            let root = this.root();
            fs::create_dir(&root).expect("a folder");
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
            fs::create_dir_all(root.join(".git/hooks")).expect("a folder");
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

        fn ran(&self) -> String {
            fs::read_to_string(self.folder.path().join("ran")).unwrap_or_default()
        }
    }

    #[test]
    fn nothing_of_the_repository_runs_and_the_commands_work() {
        let hostile = Hostile::new();
        let mut environment = Vec::new();
        assert!(neutralise(&mut environment, &hostile.root(), &[]));
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
        // Making the repository ran its filters; that was before.
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
            assert_eq!(hostile.ran(), "", "{arguments:?}");
        }
        // From elsewhere too; and what cannot be taken back is refused.
        let mut environment = Vec::new();
        assert!(neutralise(&mut environment, std::path::Path::new("/"), &[hostile.root()]));
        assert!(environment.iter().any(|(_, value)| value == "diff.external"));
        hostile.plain(&["config", "alias.hey", "!true"]);
        assert!(!neutralise(&mut Vec::new(), &hostile.root(), &[]));
    }
}
