//! The table of destructive commands, for every approval mode: commands that discard work that is
//! stored nowhere else. Deleting a single file is not listed, because undo restores it; force flags
//! make no difference.

use super::super::arguments::{has_letter, has_long_option, literal_arguments, operands};
use super::super::git::git_subcommand;
use super::super::line::{Command, Word};
use super::super::wrappers::starts_other_programs;

/// Maximum number of words at which another command may begin.
const MAX_STARTS: usize = 64;

/// The rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestructionKind {
    /// Directories, or the files that a pattern matches.
    Files,
    /// Work that git would keep or could restore.
    GitWork,
    /// A file system, or the permissions of a whole file system.
    System,
}

impl DestructionKind {
    /// All rows.
    pub const ALL: [Self; 3] = [Self::Files, Self::GitWork, Self::System];

    /// Returns the description of the row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "recursive deletes",
            Self::GitWork => "git commands that discard work",
            Self::System => "changes to whole file systems",
        }
    }
}

/// What a command destroys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destruction {
    /// The row of the table.
    pub loss_kind: DestructionKind,
    /// The reason, for display.
    pub reason: &'static str,
    /// The affected operands, for comparison with files the agent created. Empty if anything may be
    /// affected.
    pub operands: Vec<Word>,
}

/// Returns what the command destroys if it discards work that is stored nowhere else.
pub fn destruction(command: &Command) -> Option<Destruction> {
    let name = command.name()?;
    let row = |loss_kind: DestructionKind, reason: &'static str, operands: Vec<Word>| {
        Some(Destruction { loss_kind, reason, operands })
    };
    match name {
        "git" => git(command),
        "rm" if has_letter(command, &['r', 'R'])
            || has_long_option(command, "--recursive", "--r")
            || command
                .arguments()
                .iter()
                .any(|word| word.glob || (word.text.is_none() && !word.quoted)) =>
        {
            let operands = operands(command, "", &[]);
            let operands = operands.iter().map(pattern_directory).collect();
            row(DestructionKind::Files, "it deletes more than one file", operands)
        }
        "rimraf" | "del-cli" | "premove"
            if !literal_arguments(command)
                .any(|text| matches!(text, "--help" | "-h" | "--version")) =>
        {
            row(DestructionKind::Files, "it deletes directories", operands(command, "", &[]))
        }
        "find" | "gfind" if literal_arguments(command).any(|text| text == "-delete") => {
            row(DestructionKind::Files, "`find` deletes files", Vec::new())
        }
        "rsync"
            if has_long_option(command, "--delete", "--del")
                || literal_arguments(command).any(|text| {
                    text.starts_with("--delete") || text == "--remove-source-files"
                }) =>
        {
            row(
                DestructionKind::Files,
                "`rsync` deletes files that are not in the source",
                Vec::new(),
            )
        }
        "tar" | "gtar" | "bsdtar" if has_long_option(command, "--remove-files", "--remove-f") => {
            row(DestructionKind::Files, "`tar` deletes the archived files", Vec::new())
        }
        "zip"
            if has_letter(command, &['m']) && has_letter(command, &['r'])
                || has_long_option(command, "--move", "--mov") =>
        {
            row(DestructionKind::Files, "`zip` deletes the archived files", Vec::new())
        }
        "dd" if literal_arguments(command).any(|text| text.starts_with("of=/dev/")) => {
            row(DestructionKind::System, "`dd` overwrites a device", Vec::new())
        }
        "shred" if operands(command, "", &[]).iter().any(is_device) => {
            row(DestructionKind::System, "`shred` overwrites a device", Vec::new())
        }
        "chmod" | "chown" | "chgrp"
            if has_letter(command, &['R']) || has_long_option(command, "--recursive", "--rec") =>
        {
            let top: Vec<Word> =
                operands(command, "", &[]).into_iter().filter(is_top_directory).collect();
            if top.is_empty() {
                return None;
            }
            row(
                DestructionKind::System,
                "it changes the permissions of the whole system or home directory",
                top,
            )
        }
        "svn" if literal_arguments(command).any(|text| matches!(text, "revert" | "cleanup")) => {
            row(DestructionKind::Files, "`svn` discards changes", Vec::new())
        }
        "hg" if literal_arguments(command)
            .any(|text| matches!(text, "revert" | "purge" | "strip"))
            || has_letter(command, &['C'])
            || has_long_option(command, "--clean", "--cl") =>
        {
            row(DestructionKind::Files, "`hg` discards changes", Vec::new())
        }
        "wipefs" | "mkswap" | "fdisk" | "parted" => {
            row(DestructionKind::System, "it destroys a file system", Vec::new())
        }
        _ if name.starts_with("mkfs") => {
            row(DestructionKind::System, "it destroys a file system", Vec::new())
        }
        _ => None,
    }
}

/// Checks a command whose program or git subcommand is known only at run time: returns a value if
/// the arguments match a destructive command of the table. Only options that few other programs
/// have are considered, so `"$CC" -c x.c` does not match.
pub fn may_destroy(command: &Command) -> Option<Destruction> {
    let row = |loss_kind| {
        let reason = "the program is known only at run time, and the options look like a deletion";
        Some(Destruction { loss_kind, reason, operands: Vec::new() })
    };
    let with = |words: &[&str], rest: &[Word]| {
        let named =
            words.iter().map(|text| Word { text: Some((*text).to_owned()), ..Word::default() });
        Command { words: named.chain(rest.iter().cloned()).collect(), ..Command::default() }
    };
    match command.words.first()?.text.as_deref() {
        None => {
            if git(&with(&["git"], command.arguments())).is_some_and(|_| is_git_only(command)) {
                return row(DestructionKind::GitWork);
            }
            deletes_by_force(command).then(|| row(DestructionKind::Files)).flatten()
        }
        Some(name) if name.rsplit('/').next() == Some("git") => {
            let unknown = command.arguments().iter().position(|word| word.text.is_none())?;
            let (before, rest) = command.arguments().split_at_checked(unknown)?;
            // After a subcommand, the word is an operand.
            if git_subcommand(&with(&["git"], before)).is_some() {
                return None;
            }
            let rest = rest.get(1..).unwrap_or_default();
            let found = ["reset", "push", "branch", "stash", "reflog"];
            found
                .iter()
                .any(|name| git(&with(&["git", name], rest)).is_some())
                .then(|| row(DestructionKind::GitWork))
                .flatten()
        }
        // Their options are not analyzed, so every word may begin the command that they start.
        Some(name) if starts_other_programs(name.rsplit('/').next().unwrap_or(name)) => {
            let starts = 1..command.words.len().min(MAX_STARTS);
            starts.into_iter().find_map(|start| {
                let words = command.words.get(start..)?.to_vec();
                destruction(&Command { words, ..Command::default() })
            })
        }
        Some(_) => None,
    }
}

/// Whether `rm` deletes by force: `-rf`, `-r -f`, `--recursive --force`, and no option that `rm`
/// does not know.
fn deletes_by_force(command: &Command) -> bool {
    let mut letters = String::new();
    for text in literal_arguments(command).take_while(|text| *text != "--") {
        match text.strip_prefix('-') {
            Some("-recursive") => letters.push('r'),
            Some("-force") => letters.push('f'),
            Some(flags) if flags.chars().all(|flag| "rRfvdiI".contains(flag)) => {
                letters.push_str(flags);
            }
            Some(_) => return false,
            None => {}
        }
    }
    letters.contains(['r', 'R']) && letters.contains('f')
}

/// Whether the first word is a git subcommand that other programs do not have.
fn is_git_only(command: &Command) -> bool {
    match literal_arguments(command).next() {
        Some("reset" | "checkout" | "stash" | "reflog") => true,
        // `$MAKE clean`
        Some("clean") => has_letter(command, &['f', 'd', 'x']),
        _ => false,
    }
}

/// Returns the directory of a pattern such as `directory/*`.
fn pattern_directory(word: &Word) -> Word {
    let parts = word.text.as_deref().filter(|_| word.glob).and_then(|text| text.rsplit_once('/'));
    match parts {
        Some((folder, _)) if !folder.is_empty() && !folder.contains(['*', '?', '[', '{', '~']) => {
            Word { glob: false, ..super::super::arguments::part(word, folder) }
        }
        _ => word.clone(),
    }
}

fn is_device(word: &Word) -> bool {
    word.text.as_deref().is_none_or(|text| text.starts_with("/dev/"))
}

fn is_top_directory(word: &Word) -> bool {
    match word.text.as_deref() {
        Some(text) => {
            let text = text.trim_end_matches(['/', '*', '.']);
            text.is_empty()
                || text == "~"
                || matches!(text, "/home" | "/etc" | "/usr" | "/var" | "/root")
        }
        None => word.source.contains("HOME"),
    }
}

/// Whether `git checkout` without `--` names files: after a branch, or with a word that looks like
/// a file name.
fn names_files(words: &[&str]) -> bool {
    let makes_branch =
        words.iter().any(|word| matches!(*word, "-b" | "--orphan" | "--track" | "-t"));
    let mut names = words.iter().filter(|word| !word.starts_with('-'));
    match (names.next(), names.next()) {
        (Some(_), Some(_)) => !makes_branch,
        (Some(name), None) => !makes_branch && looks_like_file(name),
        _ => false,
    }
}

/// Whether the name looks like a file, as `src/a.rs`, `README.md`, and `src/` do, unlike
/// `feature/x` and `v1.2`.
fn looks_like_file(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let extension = last.rsplit_once('.').map(|(_, extension)| extension);
    name.ends_with('/')
        || name.starts_with("./")
        || name.contains(['*', '?'])
        || extension.is_some_and(|extension| {
            (1..=10).contains(&extension.len())
                && extension.starts_with(|c: char| c.is_ascii_alphabetic())
        })
}

/// Returns the words of `git checkout` that name a branch, or files that it overwrites.
pub fn checked_out(command: &Command) -> Vec<&Word> {
    let Some(call) = git_subcommand(command).filter(|call| call.name == "checkout") else {
        return Vec::new();
    };
    let texts = || call.words.iter().filter_map(|word| word.text.as_deref());
    // Creating a branch overwrites nothing.
    if texts().any(|text| {
        text.starts_with("--orph") || text.starts_with("-b") || text.starts_with("--track")
    }) {
        return Vec::new();
    }
    let is_operand = |word: &&Word| word.text.as_deref().is_none_or(|text| !text.starts_with('-'));
    call.words.iter().filter(is_operand).collect()
}

fn git(command: &Command) -> Option<Destruction> {
    let call = git_subcommand(command)?;
    let words: Vec<&str> = call.words.iter().filter_map(|word| word.text.as_deref()).collect();
    let letter = |letters: &[char]| {
        words.iter().take_while(|word| **word != "--").any(|word| {
            word.strip_prefix('-')
                .is_some_and(|flags| !flags.starts_with('-') && flags.contains(letters))
        })
    };
    // Git accepts unambiguous abbreviations of long options.
    let long = |option: &str, shortest: &str| {
        words.iter().any(|word| {
            let name = word.split('=').next().unwrap_or(word);
            name.starts_with(shortest) && option.starts_with(name)
        })
    };
    let operand = |text: &str| words.contains(&text);
    let everything = || {
        words.iter().any(|word| matches!(*word, "." | "./" | ":/" | "*" | "./*" | ":(top)" | ":"))
    };
    let first = words.first().copied();
    let reason = match call.name {
        "reset" if long("--hard", "--h") || long("--merge", "--mer") || long("--keep", "--k") => {
            "`git reset` discards changes"
        }
        // Whether git requires `--force` is a setting.
        "clean"
            if !letter(&['n']) && !long("--dry-run", "--d") || long("--no-dry-run", "--no-d") =>
        {
            "`git clean` deletes untracked files"
        }
        "checkout"
            if letter(&['f'])
                || long("--force", "--f")
                || operand("--")
                || everything()
                || letter(&['B'])
                || long("--pathspec-from-file", "--pathspec-fr")
                || names_files(&words) =>
        {
            "`git checkout` discards changes"
        }
        "switch"
            if letter(&['f', 'C'])
                || long("--force", "--f")
                || long("--discard-changes", "--di") =>
        {
            "`git switch` discards changes"
        }
        "restore"
            if !(operand("--staged") || operand("-S"))
                || operand("--worktree")
                || operand("-W") =>
        {
            "`git restore` discards changes"
        }
        "stash" if matches!(first, Some("drop" | "clear")) => "`git stash` discards changes",
        "branch"
            if letter(&['D', 'M', 'C', 'f'])
                || (letter(&['d']) || long("--delete", "--d")) && long("--force", "--f") =>
        {
            "it deletes a branch by force"
        }
        "tag" if letter(&['d', 'f']) || long("--delete", "--d") => "it deletes or moves a tag",
        "push"
            if letter(&['f', 'd'])
                || long("--force", "--f")
                || words.iter().any(|word| word.starts_with("--force"))
                || long("--delete", "--d")
                || long("--mirror", "--m")
                || long("--prune", "--pru")
                || words.iter().any(|word| word.starts_with('+') || word.starts_with(':')) =>
        {
            "it overwrites the remote history"
        }
        "submodule"
            if matches!(first, Some("update" | "deinit"))
                && (letter(&['f']) || long("--force", "--f")) =>
        {
            "it discards changes in submodules"
        }
        "reflog" if matches!(first, Some("expire" | "delete")) => {
            "it deletes objects that git could restore"
        }
        "gc" if long("--prune", "--p") || long("--aggressive", "--a") && long("--prune", "--p") => {
            "it deletes objects that git could restore"
        }
        "prune" | "filter-branch" | "filter-repo" => "it rewrites or deletes history",
        "pull" | "fetch"
            if letter(&['f'])
                || long("--force", "--fo")
                || words.iter().any(|word| word.starts_with('+')) =>
        {
            "it overwrites local changes"
        }
        "update-ref" => "it moves or deletes a reference",
        "worktree" if first == Some("remove") && (letter(&['f']) || long("--force", "--f")) => {
            "it deletes a worktree"
        }
        "rm" if letter(&['f', 'r']) || long("--force", "--f") => "`git rm` deletes files",
        "read-tree" if letter(&['u']) || long("--reset", "--re") => "it discards changes",
        "merge" | "rebase" | "cherry-pick" | "revert" | "am"
            if long("--abort", "--ab") || long("--skip", "--sk") =>
        {
            "it discards the conflicts resolved so far"
        }
        "checkout-index" if letter(&['f']) || long("--force", "--f") => "it discards changes",
        _ => return None,
    };
    Some(Destruction { loss_kind: DestructionKind::GitWork, reason, operands: Vec::new() })
}
