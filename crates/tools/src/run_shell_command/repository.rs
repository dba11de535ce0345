//! Finds the configuration files of the repository that git would use, including those of its
//! submodules, and which of them may name programs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_files::git_files::{linked_directory, read_git_file};

use crate::small_files::{bytes_of, line_of};

/// Limits: size of one configuration, parent directories searched, and submodule directories.
const MAX_BYTES: u64 = 256 * 1024;
const HIGHEST: usize = 128;
const MAX_MODULES: usize = 256;

/// Parts of section and key names that configure programs or other files.
const PROGRAM_KEY_PARTS: &[&str] = &[
    "fsmonitor",
    "external",
    "textconv",
    "command",
    "clean",
    "smudge",
    "process",
    "sshcommand",
    "pager",
    "hookspath",
    "include",
    "askpass",
    "editor",
    "helper",
    "program",
    "driver",
    "uploadpack",
    "vcs",
    "protocol",
    "receivepack",
    "cmd",
    "alternaterefs",
    "gitproxy",
    "alias",
    "update",
    "tool",
    "browser",
    "instaweb",
    "sendemail",
    "tunnel",
    "lfs",
    "hook",
    "difffilter",
    "man",
    "authorsprog",
];

/// The configuration files of a repository that may configure programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RepositoryConfigs {
    /// Files in which a key may name a program.
    pub(super) program_files: Vec<PathBuf>,
    /// Files that git would read but that cannot be examined here.
    pub(super) unreadable: Vec<PathBuf>,
}

/// Returns the path by which git goes up from a directory: absolute and without links. A relative
/// path would have no directory above its first one.
pub(super) fn resolve_like_git(directory: &Path) -> PathBuf {
    let resolved = directory.canonicalize().or_else(|_| std::path::absolute(directory));
    resolved.unwrap_or_else(|_| directory.to_owned())
}

/// Returns the directories of the repository around `directory`, as git finds them.
pub(super) fn directories(directory: &Path) -> Vec<PathBuf> {
    let directory = resolve_like_git(directory);
    let repository = directory.ancestors().take(HIGHEST).find_map(repository_at);
    let Some(Ok(directory)) = repository else { return Vec::new() };
    let common = line_of(&directory.join("commondir")).map(|common| directory.join(common));
    std::iter::once(directory).chain(common).collect()
}

/// Returns the directories of the repository around `directory` and the targets of the links in
/// them.
pub(super) fn linked_parts(directory: &Path) -> Vec<PathBuf> {
    const MAX_LINKS: usize = 64;
    let directories = directories(directory);
    let entries =
        directories.iter().filter_map(|directory| directory.read_dir().ok()).flatten().flatten();
    let links = entries.filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        Some(entry.path().parent()?.join(target))
    });
    let links: Vec<PathBuf> = links.take(MAX_LINKS).collect();
    directories.into_iter().chain(links).collect()
}

/// Returns the remotes of the repository around `directory` that are directories on this machine,
/// existing or not.
pub(super) fn local_remotes(directory: &Path) -> Vec<PathBuf> {
    let Some(config) = configuration(directory) else { return Vec::new() };
    let directory = resolve_like_git(directory);
    let Some(top) = directory.ancestors().take(HIGHEST).find(|top| top.join(".git").exists())
    else {
        return Vec::new();
    };
    let text = bytes_of(&config, MAX_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let urls = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().to_ascii_lowercase();
        let value = value.trim().trim_matches('"');
        let value = value.strip_prefix("file://").unwrap_or(value);
        (matches!(key.as_str(), "url" | "pushurl") && !value.contains(':')).then_some(value)
    });
    urls.map(|url| top.join(url)).collect()
}

/// Returns the configuration file that git writes in `directory`, if it exists.
pub(super) fn configuration(directory: &Path) -> Option<PathBuf> {
    let config = directories(directory).pop()?.join("config");
    config.canonicalize().ok().filter(|config| config.is_file())
}

/// Returns the configuration file of the repository whose working tree is `directory` itself.
pub(super) fn configuration_in(directory: &Path) -> Option<PathBuf> {
    let config = directory.join(".git/config");
    config.canonicalize().ok().filter(|config| config.is_file())
}

/// Returns the bare repository that git would find from `directory`: any directory with the right
/// file names is one, and its configuration is an ordinary file.
pub(super) fn find_bare_repository(directory: &Path) -> Option<PathBuf> {
    let directory = resolve_like_git(directory);
    let directory = if directory.is_file() { directory.parent()? } else { &directory };
    let found = directory.ancestors().take(HIGHEST).find_map(|directory| {
        Some((directory, repository_at(directory)?.ok().is_some_and(|git| git == directory)))
    });
    found.filter(|(_, is_bare)| *is_bare).map(|(directory, _)| directory.to_owned())
}

/// Returns the configuration files of the repository around `directory` and of its submodules.
pub(super) fn configurations(directory: &Path) -> RepositoryConfigs {
    let mut found = RepositoryConfigs::default();
    let mut directories = Vec::new();
    let directory = &*resolve_like_git(directory);
    // For a file, use its directory.
    let directory =
        if directory.is_file() { directory.parent().unwrap_or(directory) } else { directory };
    let mut working = vec![directory.to_owned()];
    while let Some(place) = working.pop() {
        let Some(repository) = place.ancestors().take(HIGHEST).find_map(repository_at) else {
            continue;
        };
        let directory = match repository {
            Ok(directory) => directory,
            Err(unreadable) => {
                found.unreadable.push(unreadable);
                continue;
            }
        };
        if directories.contains(&directory) {
            continue;
        }
        if directories.len() > MAX_MODULES {
            found.unreadable.push(directory.join("config"));
            return found;
        }
        // In submodules, git runs the programs named in their own configurations.
        let index = directory.join("index");
        if may_hold_submodules(&index) {
            match submodules(&place) {
                Some(places) => working.extend(places),
                None => found.unreadable.push(index),
            }
        }
        if let Some(common) = line_of(&directory.join("commondir")) {
            directories.push(directory.join(common));
        }
        directories.push(directory);
    }
    add_modules(&mut directories, &mut found);
    for name in ["config", "config.worktree"] {
        for path in directories.iter().map(|directory| directory.join(name)) {
            match runs_programs(&path) {
                Some(true) => found.program_files.push(path),
                Some(false) => {}
                None => found.unreadable.push(path),
            }
        }
    }
    found
}

/// Adds the submodule repositories stored in the given ones, whether or not they are checked out.
fn add_modules(directories: &mut Vec<PathBuf>, found: &mut RepositoryConfigs) {
    let mut modules: Vec<PathBuf> =
        directories.iter().map(|directory| directory.join("modules")).collect();
    let mut seen = 0;
    while let Some(module) = modules.pop() {
        let Ok(entries) = std::fs::read_dir(&module) else { continue };
        seen += 1;
        if seen > MAX_MODULES {
            found.unreadable.push(module.join("config"));
            return;
        }
        if module.join("HEAD").exists() {
            modules.push(module.join("modules"));
            if !directories.contains(&module) {
                directories.push(module);
            }
        } else {
            modules.extend(entries.flatten().take(MAX_MODULES).map(|entry| entry.path()));
        }
    }
}

/// Limits on listing an index: time and size.
const TIME: Duration = Duration::from_secs(5);
const LIST: u64 = 32 * 1024 * 1024;

/// Returns the directories of the submodules in the index; `None` if git cannot list them.
fn submodules(directory: &Path) -> Option<Vec<PathBuf>> {
    let git = |arguments: &[&str]| {
        let quiet = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];
        let arguments = quiet.iter().chain(arguments);
        parallax_exec::program::output(
            "git",
            arguments,
            directory,
            &[("GIT_OPTIONAL_LOCKS", "0")],
            LIST,
            TIME,
        )
    };
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let top = PathBuf::from(OsString::from_vec(top.strip_suffix(b"\n")?.to_vec()));
    let listed = git(&["ls-files", "--stage", "-z", "--full-name", "--", ":/"])?;
    let submodule_path = |entry: &[u8]| {
        let path = entry.strip_prefix(b"160000 ")?.splitn(2, |byte| *byte == b'\t').nth(1)?;
        let full_path = top.join(OsStr::from_bytes(path));
        // A submodule that is not checked out cannot run anything.
        full_path.join(".git").symlink_metadata().is_ok().then_some(full_path)
    };
    Some(listed.split(|byte| *byte == 0).filter_map(submodule_path).collect())
}

/// Returns the repository with this working tree or git directory; `Err` holds a file that cannot
/// be read.
fn repository_at(directory: &Path) -> Option<Result<PathBuf, PathBuf>> {
    let git = directory.join(".git");
    match std::fs::metadata(&git) {
        Ok(data) if data.is_dir() => return Some(Ok(git)),
        Ok(_) => {
            // A name that is not UTF-8 cannot be checked.
            let text = read_git_file(&git).filter(|text| !text.contains('\u{fffd}'));
            let target = text.and_then(|text| linked_directory(directory, &text));
            return Some(target.ok_or(git));
        }
        Err(_) => {}
    }
    let is_bare = directory.join("HEAD").exists() && directory.join("objects").is_dir();
    is_bare.then(|| Ok(directory.to_owned()))
}

/// Maximum size in bytes of an index that is searched; a larger one is treated as a match.
const MAX_INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// The mode of a submodule in an index: octal 160000, big-endian.
const SUBMODULE: [u8; 4] = [0, 0, 0xE0, 0];

/// Whether the mode of a submodule occurs in the index. Other bytes may match by chance, which only
/// causes an unnecessary approval request.
fn may_hold_submodules(index: &Path) -> bool {
    match std::fs::metadata(index) {
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        Ok(_) => bytes_of(index, MAX_INDEX_BYTES)
            .is_none_or(|bytes| memchr::memmem::find(&bytes, &SUBMODULE).is_some()),
    }
}

/// Whether a key of the file may name a program; `None` if the file cannot be read.
fn runs_programs(path: &Path) -> Option<bool> {
    if let Err(error) = std::fs::metadata(path) {
        return (error.kind() == std::io::ErrorKind::NotFound).then_some(false);
    }
    bytes_of(path, MAX_BYTES).map(|bytes| names_programs(&String::from_utf8_lossy(&bytes)))
}

/// Whether the configuration contains a section or key that may name programs. A line in an unusual
/// form is treated as such a key.
fn names_programs(text: &str) -> bool {
    text.split(['\n', '\r']).any(|line| {
        let mut rest = line.trim_start_matches('\u{feff}').trim_start();
        while let Some(header) = rest.strip_prefix('[') {
            let name = header.split(['"', ']']).next().unwrap_or_default();
            if may_name_program(name) {
                return true;
            }
            rest = after_header(header).trim_start();
        }
        may_name_program(rest.split(['=', '#', ';']).next().unwrap_or_default())
    })
}

/// Returns what follows the closing `]`; a quoted part may contain one too.
fn after_header(header: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (offset, character) in header.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return header.get(offset + 1..).unwrap_or_default(),
            _ => {}
        }
    }
    ""
}

/// Whether a section or key may name a program or another file.
pub(super) fn may_name_program(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PROGRAM_KEY_PARTS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn config_programs_are_found_in_keys_and_sections_only() {
        for text in [
            "[core]\n\tfsmonitor = x",
            "[CORE]\nFSMonitor=x",
            "[core] hooksPath = x",
            "[diff \"a]b\"] textconv = x",
            "[diff \"a\\\"]\"] command = x",
            "[filter \"lfs\"]\r\n\tprocess = x",
            "[filter.x]\nclean",
            "[include]\npath = x",
            "[includeIf \"gitdir:/\"]\npath = x",
            "[pager]\nlog = x",
            "[a] [gpg] program = x",
        ] {
            assert!(names_programs(text), "{text}");
        }
        for text in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tautocrlf = input",
            "[remote \"editor\"]\n\turl = https://x/editor-program.git\n\tfetch = +refs/heads/*",
            "[branch \"fix-pager\"]\n\tremote = origin\n\tmerge = refs/heads/fix-pager",
            "# editor = x\n; [include]",
        ] {
            assert!(!names_programs(text), "{text}");
        }
    }

    #[test]
    fn submodule_configuration_is_read_from_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let git = |line: &[&str]| {
            let output = parallax_exec::program::output("git", line, root, &[], LIST, TIME);
            assert!(output.is_some(), "{line:?}");
        };
        git(&["init", "-q"]);
        fs::write(root.join("a"), "").expect("a file");
        let link = "160000,1111111111111111111111111111111111111111,sub";
        git(&["update-index", "--add", "--cacheinfo", link]);
        for subdirectory in ["", "a"] {
            assert_eq!(
                configurations(&root.join(subdirectory)).unreadable,
                [""; 0].map(PathBuf::from)
            );
        }
    }

    #[test]
    fn repository_configuration_is_found_like_git_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("folders");
            fs::write(path, text).expect("a file");
        };
        let found = |path: &str| configurations(&root.join(path)).program_files;
        write(".git/config", "[core]\nbare = false\n");
        write("src/a", "");
        assert!(found("src").is_empty());
        write(".git/modules/x/y/HEAD", "ref");
        write(".git/modules/x/y/config", "[filter \"a\"]\nclean = x");
        assert_eq!(found("src"), [root.join(".git/modules/x/y/config")]);
        write("tree/.git", "gitdir: ../.git/worktrees/tree\n");
        write(".git/worktrees/tree/commondir", "../..\n");
        write(".git/config", "[core]\nfsmonitor = x\n");
        assert!(found("tree").contains(&root.join("tree/../.git/worktrees/tree/../../config")));
        write("odd/.git", "what");
        let unreadable = |path: &str| configurations(&root.join(path)).unreadable;
        assert_eq!(unreadable("odd"), [root.join("odd/.git")]);
        write("bare/HEAD", "ref");
        write("bare/objects/x", "");
        write("bare/config", "[core]\nfsmonitor = x");
        assert_eq!(found("bare"), [root.join("bare/config")]);
        write("large/.git/config", &"# x\n".repeat(100_000));
        assert_eq!(unreadable("large"), [root.join("large/.git/config")]);
    }
}
