//! Predicts the permissions that a command needs beyond its sandbox, so that one approval request
//! covers them all.

use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, Command, Redirection, RedirectionKind, ShellLine, Word};
use parallax_protocol::paths::join_lexically;
use parallax_protocol::permissions::{FilePermissions, Permissions};
use parallax_sandbox::Plan;

use super::denied_access::{Confinement as _, DeniedAccess, SandboxRun};
use super::granted_paths::{is_too_broad, path_to_grant};
use super::repository;

/// Programs that read the files given as operands.
const READERS: &[&str] = &[
    "awk",
    "base64",
    "bat",
    "cat",
    "cmp",
    "comm",
    "cp",
    "cut",
    "diff",
    "grep",
    "head",
    "hexdump",
    "jq",
    "less",
    "md5sum",
    "more",
    "nl",
    "od",
    "paste",
    "rg",
    "sed",
    "sha1sum",
    "sha256sum",
    "sort",
    "source",
    "strings",
    "tac",
    "tail",
    "uniq",
    "wc",
    "xxd",
    ".",
];

/// Programs that list the directories given as operands.
const LISTERS: &[&str] = &["du", "find", "ls", "tree"];

/// Programs that change a directory rather than file contents: they need permission for the
/// containing directory, not for the file.
const OF_FOLDERS: [&str; 7] = ["install", "ln", "mkdir", "mv", "rm", "rmdir", "unlink"];

/// Maximum number of paths in one approval request.
const MAX_COUNT: usize = 8;

/// Returns permissions for the restricted files that the line names, or permission to run outside
/// of the sandbox if file permissions would not suffice. Blocking: checks whether the files exist.
pub(super) fn permissions(
    line: &ShellLine,
    directory: &Path,
    home: &Path,
    plan: Plan,
) -> Permissions {
    let mut found = FilePermissions::default();
    let mut outside = false;
    let moved_home = may_reassign_home(line);
    let Some(directory) = working_directory(line, directory, home, moved_home) else {
        return Permissions::default();
    };
    let directory = directory.as_path();
    let ran = SandboxRun { plan, needed_network: false };
    let mut note = |word: &Word, access: DeniedAccess| {
        let Some(path) = word_path(word, directory, home, moved_home) else { return };
        let list = match access {
            DeniedAccess::Read => &mut found.read,
            DeniedAccess::Write => &mut found.write,
        };
        let closed = ran.denies(&path, access) && (access == DeniedAccess::Write || path.exists());
        if let Some(path) = path_to_grant(&path, home).filter(|path| closed && !list.contains(path))
            && list.len() < MAX_COUNT
        {
            list.push(path);
        }
    };
    let targets = |kinds: &[RedirectionKind]| -> Vec<&Redirection> {
        let has_kind = |found: &&Redirection| kinds.contains(&found.kind);
        let counts = |found: &&Redirection| !bash::is_harmless_redirection(found);
        line.redirections.iter().filter(has_kind).filter(counts).collect()
    };
    for written in targets(&[RedirectionKind::Write, RedirectionKind::Append]) {
        note(&written.target, DeniedAccess::Write);
    }
    for read in targets(&[RedirectionKind::Read]) {
        note(&read.target, DeniedAccess::Read);
    }
    let changes_folder =
        |command: &Command| command.name().is_some_and(|name| OF_FOLDERS.contains(&name));
    // The files that git itself reads and writes are handled separately.
    for command in line.commands.iter().filter(|command| command.name() != Some("git")) {
        if !changes_folder(command) {
            bash::written_paths(command).iter().for_each(|word| note(word, DeniedAccess::Write));
        }
        if command.name().is_some_and(|name| READERS.contains(&name)) {
            command.arguments().iter().for_each(|word| note(word, DeniedAccess::Read));
        }
        if command.name().is_some_and(|name| LISTERS.contains(&name)) {
            let is_directory = |word: &&Word| {
                word_path(word, directory, home, moved_home).is_some_and(|path| path.is_dir())
            };
            command
                .arguments()
                .iter()
                .filter(is_directory)
                .for_each(|word| note(word, DeniedAccess::Read));
        }
    }
    for command in line.commands.iter().filter(|command| changes_folder(command)) {
        for word in bash::written_paths(command) {
            let Some(path) = word_path(&word, directory, home, moved_home) else { continue };
            // In the workspace, files are protected and opened individually.
            let folder = path.ancestors().skip(1).find(|directory| directory.is_dir());
            let Some(closed) =
                folder.filter(|directory| ran.denies(directory, DeniedAccess::Write))
            else {
                continue;
            };
            // For a hard link, an individually opened path is a separate file system.
            outside |= is_too_broad(closed, home) || is_hard_link(command);
            let list = &mut found.write;
            if let Some(folder) = path_to_grant(closed, home)
                && !list.contains(&folder)
                && list.len() < MAX_COUNT
            {
                list.push(folder);
            }
        }
    }
    // A hard link to a file is that file: creating one requires write access to it, which no mount
    // passes on.
    outside |= line.commands.iter().filter(|command| is_hard_link(command)).any(|command| {
        command.arguments().iter().any(|word| {
            let path = word_path(word, directory, home, moved_home);
            path.is_some_and(|path| path.is_file() && ran.denies(&path, DeniedAccess::Write))
        })
    });
    match outside {
        // Running outside of the sandbox includes all other permissions.
        true => Permissions { outside, ..Permissions::default() },
        false => Permissions { file_system: found, ..Permissions::default() },
    }
}

/// Whether the command creates hard links.
fn is_hard_link(command: &Command) -> bool {
    let symbolic = |word: &Word| {
        let text = word.text.as_deref().unwrap_or_default();
        let letters = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        text == "--symbolic" || letters.is_some_and(|letters| letters.contains('s'))
    };
    command.name() == Some("ln") && !command.arguments().iter().any(symbolic)
}

/// Returns the working directory of the line's commands if its text shows it: that of the call, or
/// the target of a `cd` at its beginning.
fn working_directory(
    line: &ShellLine,
    directory: &Path,
    home: &Path,
    moved_home: bool,
) -> Option<PathBuf> {
    let moves = |command: &Command| {
        matches!(command.name(), None | Some("cd" | "pushd" | "popd" | "eval" | "builtin"))
    };
    let (first, rest) = line.commands.split_first()?;
    if line.unanalyzable_reason.is_some() || rest.iter().any(moves) {
        return None;
    }
    match first.name() {
        Some("cd") => match first.arguments() {
            [folder] => word_path(folder, directory, home, moved_home).filter(|path| path.is_dir()),
            _ => None,
        },
        _ => (!moves(first)).then(|| directory.to_owned()),
    }
}

/// Returns the possible working directories of the line's commands: that of the call, then the
/// targets of each `cd` and `pushd`, and the directories that `-C` names to git, make, and others.
pub(super) fn directories(line: &ShellLine, directory: &Path, home: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    let moved_home = may_reassign_home(line);
    for command in &line.commands {
        let words = command.arguments();
        let led = match command.name() {
            Some("cd" | "pushd") => words.first(),
            _ => {
                let option = words.iter().position(|word| word.text.as_deref() == Some("-C"));
                option.and_then(|option| words.get(option + 1))
            }
        };
        let led = led.and_then(|word| word_path(word, directory, home, moved_home));
        found.extend(led.filter(|path| path.is_dir()));
    }
    found.truncate(MAX_COUNT);
    found
}

/// Returns the paths that the words of the line could name, in each of the working directories, for
/// a line that failed to write a path that its output does not name.
pub(super) fn written_paths(
    line: &ShellLine,
    directories: &[PathBuf],
    home: &Path,
) -> Vec<PathBuf> {
    let moved_home = may_reassign_home(line);
    let words = line.commands.iter().flat_map(|command| command.arguments());
    // A plain name is a file of the workspace, or no file at all.
    let could_lead_out = |word: &&Word| {
        word.text.as_deref().unwrap_or(&word.source).contains('/') || word.source.contains("..")
    };
    let words: Vec<&Word> = words.filter(could_lead_out).take(MAX_COUNT).collect();
    let paths =
        directories.iter().flat_map(|directory| words.iter().map(move |word| (directory, word)));
    paths.filter_map(|(directory, word)| word_path(word, directory, home, moved_home)).collect()
}

/// Returns the paths that the line is known to write, in each of the working directories.
pub(super) fn known_targets(
    line: &ShellLine,
    directories: &[PathBuf],
    home: &Path,
) -> Vec<PathBuf> {
    let moved_home = may_reassign_home(line);
    let is_write = |found: &&Redirection| {
        matches!(found.kind, RedirectionKind::Write | RedirectionKind::Append)
            && !bash::is_harmless_redirection(found)
    };
    let redirected = line.redirections.iter().filter(is_write).map(|found| found.target.clone());
    let named = line.commands.iter().flat_map(bash::written_paths);
    let words: Vec<Word> = redirected.chain(named).take(MAX_COUNT).collect();
    let paths =
        directories.iter().flat_map(|directory| words.iter().map(move |word| (directory, word)));
    paths.filter_map(|(directory, word)| word_path(word, directory, home, moved_home)).collect()
}

/// Returns the directories that git commands of the line name.
pub(super) fn named_paths(line: &ShellLine, directories: &[PathBuf]) -> Vec<PathBuf> {
    let git_commands = line.commands.iter().filter(|command| command.name() == Some("git"));
    let words =
        git_commands.flat_map(|command| command.arguments()).filter_map(|it| it.text.as_deref());
    let words = words.map(|word| word.strip_prefix("file://").unwrap_or(word));
    let paths =
        words.flat_map(|word| directories.iter().map(move |directory| directory.join(word)));
    paths.filter(|path| path.is_dir()).take(MAX_COUNT).collect()
}

/// Whether `$HOME` may be reassigned before it is used.
fn may_reassign_home(line: &ShellLine) -> bool {
    let is_reassigned = line.commands.iter().any(|command| {
        command.assignments.iter().any(|assignment| assignment.name == "HOME")
            // `export HOME=x`, `read HOME`, `for HOME in …`: detected by the word itself.
            || command.words.iter().any(|word| {
                let text = word.text.as_deref().unwrap_or(&word.source);
                text == "HOME" || text.starts_with("HOME=")
            })
    });
    is_reassigned || line.commands.is_empty()
}

/// Returns the protected files of the repository around `directory` that git commands of the line
/// write. Git reports a denial late, after half of its work. Blocking.
pub(super) fn protected_repository_files(line: &ShellLine, directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let writing = || line.commands.iter().filter(|command| bash::writes_git_configuration(command));
    let Some(configuration) = repository::configuration(directory) else { return found };
    // The command creates a repository here, regardless of a surrounding one.
    let writes_elsewhere = || writing().any(|command| !bash::makes_repository(command));
    let here = || repository::configuration_in(directory).as_ref() == Some(&configuration);
    if writing().next().is_some() && (writes_elsewhere() || here()) {
        found.push(configuration);
    }
    if writing().any(bash::writes_sparse_patterns)
        && let Some(own) = repository::directories(directory).first()
    {
        found.push(own.join("config.worktree"));
        found.extend(Some(own.join("info")).filter(|info| info.is_dir()));
    }
    found.iter().filter_map(|path| path_of(path)).collect()
}

/// Returns the path with the links of its existing part resolved.
fn path_of(path: &Path) -> Option<PathBuf> {
    let real = path.parent()?.canonicalize().ok()?;
    Some(real.join(path.file_name()?))
}

/// Adds read permission for hidden files that the command may write: a program that may rename a
/// secret could read it under its new name.
pub(super) fn add_hidden_reads(files: &mut FilePermissions, plan: Plan) {
    let ran = SandboxRun { plan, needed_network: false };
    for path in &files.write {
        if ran.denies(path, DeniedAccess::Read) && !files.read.contains(path) {
            files.read.push(path.clone());
        }
    }
}

/// Returns the path that the word names, if its text alone shows it.
fn word_path(word: &Word, directory: &Path, home: &Path, moved_home: bool) -> Option<PathBuf> {
    if word.text.is_none() {
        let relative = strip_home(&word.source).filter(|_| !moved_home)?;
        return Some(join_lexically(home, Path::new(relative)));
    }
    let text = word.text.as_deref().filter(|text| !text.is_empty() && !text.starts_with('-'))?;
    if let Some(below) = text.strip_prefix("~/").filter(|_| !word.quoted) {
        let plain = !below.contains(['*', '?', '[', '{']);
        return plain.then(|| join_lexically(home, Path::new(below)));
    }
    (!word.glob).then(|| join_lexically(directory, Path::new(text)))
}

/// Returns the part after the home directory in `$HOME/x`, `"${HOME}/x"`, and `"$HOME"/x`, if it
/// contains no other expansion.
fn strip_home(source: &str) -> Option<&str> {
    let (quoted, inner) = match source.strip_prefix('"') {
        Some(rest) => (true, rest),
        None => (false, source),
    };
    let rest = inner.strip_prefix("$HOME").or_else(|| inner.strip_prefix("${HOME}"))?;
    let rest = match quoted {
        true => rest.strip_suffix('"').or_else(|| rest.strip_prefix('"'))?,
        false => rest,
    };
    let relative = rest.strip_prefix('/')?;
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+@%,:".contains(letter);
    relative.chars().all(plain).then_some(relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensitive_paths_named_by_the_line_are_predicted_permissions() {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path().canonicalize().expect("a path");
        let (work, home) = (root.join("w"), root.join("home"));
        for directory in [&work, &home, &root.join("other")] {
            std::fs::create_dir(directory).expect("a directory");
        }
        std::fs::create_dir(home.join(".ssh")).expect("a directory");
        let there = root.join("other/there");
        for path in [work.join(".env"), work.join("a"), home.join(".npmrc"), there] {
            std::fs::write(path, "x").expect("a file");
        }
        let predicted = |command: &str| {
            let mut plan = Plan::new(root.join("tmp"));
            plan.confine = true;
            plan.writable.push(work.clone());
            plan.read_only.push(work.join(".mcp.json"));
            plan.hidden.extend([work.join(".env"), home.join(".npmrc"), home.join(".ssh")]);
            let found = permissions(&bash::analyze(command), &work, &home, plan);
            if found.outside {
                return ("outside".to_owned(), String::new());
            }
            let found = found.file_system;
            let shown = |paths: Vec<PathBuf>| {
                let short = |path: &PathBuf| path.strip_prefix(&root).map(Path::to_path_buf);
                let texts = paths.iter().filter_map(|path| short(path).ok());
                texts.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
            };
            (shown(found.read), shown(found.write))
        };
        for (command, read, write) in [
            ("cat .env", "w/.env", ""),
            ("cat a; head -n 3 ~/.npmrc", "home/.npmrc", ""),
            ("wc -l < .env", "w/.env", ""),
            ("cp $HOME/.npmrc a; cp \"$HOME/.npmrc\" .", "home/.npmrc", ""),
            ("echo x > ../other/z", "", "other/z"),
            ("echo x > .mcp.json", "", "w/.mcp.json"),
            ("echo x > b 2>/dev/null; cp a b", "", ""),
            ("cp a ../other/b; rm .env; touch ../other/c", "", "other/b other/c"),
            // Creating, removing, and renaming change the directory.
            ("mkdir ../other/c", "", "other"),
            ("mkdir -p ../other/c/d", "", "other"),
            ("rm -rf ../other/d; mv a ../other/b", "", "other"),
            ("rm a; mkdir b", "", ""),
            // A whole home directory is never granted, and hard links cannot leave the writable
            // paths.
            ("mkdir ~/new", "outside", ""),
            ("mv a ~/b; rm -rf ~/c", "outside", ""),
            ("ln a ../other/b", "outside", ""),
            ("ln ../other/there a; ln a b", "outside", ""),
            ("ln -s ../other/there a", "", ""),
            ("mv ../other/there a", "", "other"),
            ("ln -sf a ../other/b", "", "other"),
            ("ln a b; touch ~/x", "", "home/x"),
            ("cd ../other && touch z", "", "other/z"),
            ("cd ../other && rm z", "", "other"),
            ("(cd ../other); cd x; touch z", "", ""),
            ("cp .env ../other/b", "w/.env", "other/b"),
            ("ls ../home/.ssh", "home/.ssh", ""),
            ("ls .env", "", ""),
            ("cat \"$HOME/.npmrc\" $HOME/.ssh/../.npmrc", "home/.npmrc", ""),
            ("cat \"${HOME}/.npmrc\"", "home/.npmrc", ""),
            ("HOME=/x; cat $HOME/.npmrc", "", ""),
            ("cat \"$HOME/$X\" \"$HOMES/.npmrc\"", "", ""),
            // The command does not read the file, or the file is known only at run time.
            ("echo .env", "", ""),
            ("cd sub && cat .env", "", ""),
            ("cat \"$X\"; cat none", "", ""),
        ] {
            assert_eq!(predicted(command), (read.to_owned(), write.to_owned()), "{command}");
        }
    }
}
