//! Finds local repositories that a git command would write to or archive from. There, git starts
//! another git process without our overrides, which runs that repository's hooks.

use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, GitCall, ShellLine, Word};

use super::tracked::{LIST, QUIET, TIME};

/// The path of a repository, as the line or the configuration names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathRemote(pub(super) String);

/// Returns the first local repository that a command of the line would write to or archive from.
/// `directories` are the possible working directories. Blocking.
pub(super) fn find(line: &ShellLine, directories: &[PathBuf]) -> Option<PathRemote> {
    let calls = line.commands.iter().filter_map(bash::git_subcommand);
    calls.filter(|call| matches!(call.name, "push" | "send-pack" | "archive" | "subtree")).find_map(
        |call| {
            let directories = directories.iter().map(PathBuf::as_path);
            directories
                .filter(|directory| directory.is_dir())
                .find_map(|directory| from_call(&call, directory))
        },
    )
}

fn from_call(call: &GitCall<'_>, directory: &Path) -> Option<PathRemote> {
    let words: Vec<Option<&str>> = call.words.iter().map(text_of).collect();
    let remote = match call.name {
        "archive" | "subtree" => {
            let index = words.iter().position(|word| {
                word.is_some_and(|word| word == "push" || word.starts_with("--remote"))
            })?;
            match words.get(index).copied().flatten().and_then(|word| word.split_once('=')) {
                Some((_, remote)) => Some(Some(remote)),
                None => operands(words.get(index + 1..).unwrap_or_default()),
            }
        }
        _ => {
            let named = words.iter().flatten().find_map(|word| word.strip_prefix("--repo="));
            operands(&words).or(named.map(Some))
        }
    };
    let unknown = || Some(PathRemote("a repository that is known only at run time".to_owned()));
    // A name that the command line configures may be any path.
    if call.configured {
        return unknown();
    }
    if call.name == "push" && pushes_submodules(&words, directory) {
        return Some(PathRemote("repositories of submodules".to_owned()));
    }
    match remote {
        Some(None) => unknown(),
        Some(Some(remote)) => from_name(remote, directory),
        None => {
            configured_remotes(directory).iter().find_map(|remote| from_name(remote, directory))
        }
    }
}

fn text_of(word: &Word) -> Option<&str> {
    word.text.as_deref().filter(|_| !word.glob)
}

/// Returns the first operand. Options with a separate value do not precede the remote of these
/// commands, or their value is taken for the operand, which is then checked.
fn operands<'a>(words: &[Option<&'a str>]) -> Option<Option<&'a str>> {
    words.iter().copied().find(|word| word.is_none_or(|word| !word.starts_with('-')))
}

/// Returns the remotes that a push without an operand may use.
fn configured_remotes(directory: &Path) -> Vec<String> {
    let mut names = lines(directory, &["remote"]);
    let keys = r"^(branch\..*\.(remote|pushremote)|remote\.pushdefault)$";
    let set = lines(directory, &["config", "--get-regexp", keys]);
    names.extend(
        set.iter().filter_map(|line| line.split_once(' ').map(|(_, name)| name.to_owned())),
    );
    names
}

/// Returns the remote if its URL, or its name itself, is a path.
fn from_name(name: &str, directory: &Path) -> Option<PathRemote> {
    let mut addresses = lines(directory, &["remote", "get-url", "--push", "--all", "--", name]);
    if addresses.is_empty() {
        let legacy = ["remotes", "branches"].iter().any(|folder| {
            super::repository::directories(directory)
                .iter()
                .any(|git| git.join(folder).join(name).exists())
        });
        if legacy {
            return Some(PathRemote(name.to_owned()));
        }
        addresses.push(name.to_owned());
    }
    let rewritten: Vec<String> =
        addresses.iter().flat_map(|address| rewrite_url(address, directory)).collect();
    addresses
        .into_iter()
        .chain(rewritten)
        .find(|address| is_path(address, directory))
        .map(PathRemote)
}

/// Returns the results of `url.<base>.insteadOf` and `pushInsteadOf` for a URL. Git applies the
/// longest match; here every match counts.
fn rewrite_url(address: &str, directory: &Path) -> Vec<String> {
    let rules = lines(directory, &["config", "--get-regexp", r"^url\..*\.(push)?insteadof$"]);
    let rules = rules.iter().filter_map(|rule| {
        let (key, prefix) = rule.split_once(' ')?;
        let (base, _) = key.strip_prefix("url.")?.rsplit_once('.')?;
        let rest = address.strip_prefix(prefix)?;
        Some(format!("{base}{rest}"))
    });
    rules.collect()
}

/// Whether a push also pushes submodules, each to its own remote.
fn pushes_submodules(words: &[Option<&str>], directory: &Path) -> bool {
    let is_on = |value: &str| matches!(value, "on-demand" | "only" | "yes" | "true");
    let mut typed =
        words.iter().flatten().filter_map(|word| word.strip_prefix("--recurse-submodules="));
    match typed.next_back() {
        Some(value) => is_on(value),
        None => {
            let keys = r"^(push\.recursesubmodules|submodule\.recurse)$";
            let set = lines(directory, &["config", "--get-regexp", keys]);
            set.iter().filter_map(|line| line.split_once(' ')).any(|(_, value)| is_on(value))
        }
    }
}

/// Whether git treats the URL as a path: it has no scheme except `file`, and no colon before its
/// first slash.
fn is_path(address: &str, directory: &Path) -> bool {
    if let Some((scheme, _)) = address.split_once("://") {
        return scheme.eq_ignore_ascii_case("file");
    }
    let host = address.split('/').next().unwrap_or_default();
    !host.contains(':') || directory.join(address).exists()
}

/// Returns the lines that git prints; these commands start no other program.
fn lines(directory: &Path, arguments: &[&str]) -> Vec<String> {
    let words = QUIET.iter().chain(arguments);
    let variables = [("GIT_PAGER", "cat"), ("GIT_CONFIG_COUNT", "0")];
    let printed = parallax_exec::program::output("git", words, directory, &variables, LIST, TIME);
    let printed = printed.unwrap_or_default();
    String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_to_paths_are_found_however_they_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("w");
        std::fs::create_dir(&root).expect("a directory");
        let git = |arguments: &[&str]| {
            let output = parallax_exec::program::output("git", arguments, &root, &[], LIST, TIME);
            assert!(output.is_some(), "{arguments:?}");
        };
        git(&["init", "-q"]);
        git(&["init", "-q", "--bare", "bare"]);
        git(&["remote", "add", "origin", "https://example.com/x"]);
        git(&["remote", "add", "near", "./bare"]);
        git(&["remote", "add", "rewritten", "https://near.example/bare"]);
        git(&["config", "url.bare.pushInsteadOf", "https://near.example/bare"]);
        let found = |line: &str| find(&bash::analyze(line), std::slice::from_ref(&root)).is_some();
        for line in [
            "git push near",
            "git push near HEAD:x",
            "git push -f ./bare HEAD:x",
            "git push bare HEAD:x",
            "git push file://$PWD/bare",
            "git push FILE:///x",
            "git push rewritten",
            "git push",
            "git push .",
            "git push --repo=bare",
            "git push \"$X\"",
            "git status; git push near",
            "git -c remote.origin.pushurl=bare push origin",
            "git archive --remote=bare HEAD",
            "git archive --remote bare HEAD",
            "git send-pack bare",
            "git subtree push --prefix=a bare x",
            "git push https://near.example/bare main",
            "git push --repo=https://near.example/bare",
            "git push --recurse-submodules=on-demand origin main",
        ] {
            assert!(found(line), "{line}");
        }
        for line in [
            "git push origin",
            "git push -u origin main",
            "git push --recurse-submodules=check origin main",
            "git push https://far.example/bare main",
            "git push git@example.com:x/y main",
            "git fetch near",
            "git clone bare copy",
            "git archive HEAD",
            "git status",
        ] {
            assert!(!found(line), "{line}");
        }
        git(&["remote", "remove", "near"]);
        git(&["remote", "remove", "rewritten"]);
        assert!(!found("git push"));
        git(&["config", "remote.pushDefault", "./bare"]);
        assert!(found("git push"));
    }
}
