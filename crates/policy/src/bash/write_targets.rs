//! Paths that a command is known to write or delete.

use super::arguments::{has_letter, has_long_option, operands, part, values};
use super::git::git_subcommand;
use super::line::{Command, Word};

/// Returns the paths that the command writes, deletes, or changes, as named by its words, including
/// words known only at run time. Redirections are listed in the line. For an unknown program the
/// list is empty, which does not mean that the program writes nothing.
pub fn written_paths(command: &Command) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    for word in named_paths(command) {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// Returns the paths where the command puts existing files or whole directories, together with
/// their contents.
pub fn placed_paths(command: &Command) -> Vec<Word> {
    let moves = git_subcommand(command).is_some_and(|call| call.name == "mv");
    match command.name() {
        Some("cp" | "mv" | "ln" | "install" | "rsync" | "scp") => written_paths(command),
        Some("git") if moves => written_paths(command),
        _ => Vec::new(),
    }
}

fn named_paths(command: &Command) -> Vec<Word> {
    let Some(name) = command.name() else { return Vec::new() };
    match name {
        "rm" | "rmdir" | "unlink" | "shred" | "touch" | "mkdir" | "mkfifo" | "tee" | "truncate" => {
            operands(
                command,
                if matches!(name, "touch" | "truncate") {
                    "drst"
                } else if name == "mkdir" {
                    "m"
                } else {
                    ""
                },
                &["--date", "--reference", "--size", "--mode", "--time"],
            )
        }
        "mv" => {
            let mut found = operands(command, "tS", &["--suffix"]);
            found.extend(values(command, 't', "target-directory"));
            found
        }
        "cp" | "install" | "ln" | "link" | "rsync" | "scp" => {
            let letters = match name {
                "install" => "tSmog",
                "rsync" => "ef",
                "scp" => "FiloPcSJ",
                _ => "tS",
            };
            let mut found = values(command, 't', "target-directory");
            if matches!(name, "rsync" | "scp") {
                found.clear();
            }
            let all = operands(
                command,
                letters,
                &["--suffix", "--mode", "--owner", "--group", "--rsh", "--exclude", "--include"],
            );
            let directories = name == "install" && has_letter(command, &['d']);
            if directories {
                found.extend(all);
            } else if found.is_empty() {
                // The last operand is a file, or a directory that receives the others.
                found.extend(target_paths(&all));
            } else {
                for directory in found.clone() {
                    found.extend(all.iter().map(|source| join_directory(&directory, source)));
                }
            }
            found
        }
        "sed" | "gsed"
            if has_letter(command, &['i']) || has_long_option(command, "--in-place", "--i") =>
        {
            let mut all = operands(command, "elf", &["--expression", "--file", "--line-length"]);
            let script_given = !values(command, 'e', "expression").is_empty()
                || !values(command, 'f', "file").is_empty();
            if !script_given && !all.is_empty() {
                all.remove(0);
            }
            all
        }
        "perl" | "ruby" if has_letter(command, &['i']) => operands(command, "eEnI", &[]),
        "chmod" | "chown" | "chgrp" => {
            let all = operands(command, "", &[]);
            let skipped = usize::from(!has_long_option(command, "--reference", "--ref"));
            all.into_iter().skip(skipped).collect()
        }
        "chattr" | "setfacl" => operands(command, "mMxX", &[]),
        "dd" => assignments_with_prefix(command, "of="),
        "tar" | "bsdtar" | "gtar" => tar(command),
        "unzip" => {
            let directories = values(command, 'd', "");
            if directories.is_empty() { current_directory_words() } else { directories }
        }
        "curl" => {
            let mut found = values(command, 'o', "output");
            found.extend(values(command, 'D', "dump-header"));
            found.extend(values(command, 'c', "cookie-jar"));
            found.extend(values(command, '\0', "output-dir"));
            found.extend(values(command, '\0', "trace"));
            found.extend(remote_names(command, &['O', 'J'], "--remote-name"));
            found
        }
        "wget" => {
            let mut found = values(command, 'O', "output-document");
            found.extend(values(command, 'P', "directory-prefix"));
            found.extend(values(command, 'o', "output-file"));
            found.extend(values(command, 'a', "append-output"));
            if found.is_empty() {
                found.extend(current_directory_words());
            }
            found
        }
        "patch" => {
            let mut found =
                operands(command, "pdiorBDFVYz", &["--input", "--directory", "--strip"]);
            found.truncate(1);
            found.extend(values(command, 'o', "output"));
            if found.is_empty() {
                found.extend(current_directory_words());
            }
            found
        }
        "sort" => values(command, 'o', "output"),
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" => {
            operands(command, "S", &[])
        }
        "split" | "csplit" => operands(command, "abCln", &[]).into_iter().skip(1).collect(),
        "git" => git(command),
        "xxd" | "uniq" => operands(command, "clsfw", &[]).into_iter().skip(1).collect(),
        "ed" | "ex" | "vi" | "vim" | "nano" | "emacs" => operands(command, "ceS", &[]),
        _ => Vec::new(),
    }
}

/// Returns the current directory: any name in it may be written.
fn current_directory_words() -> Vec<Word> {
    vec![Word { text: Some(".".to_owned()), source: ".".to_owned(), ..Word::default() }]
}

/// Returns the last operand, and the names that the others would have inside it.
fn target_paths(all: &[Word]) -> Vec<Word> {
    let Some((target, sources)) = all.split_last() else { return Vec::new() };
    if sources.is_empty() {
        return vec![target.clone()];
    }
    let mut found = vec![target.clone()];
    found.extend(sources.iter().map(|source| join_directory(target, source)));
    found
}

fn join_directory(directory: &Word, source: &Word) -> Word {
    let (Some(folder_text), Some(name)) = (&directory.text, last_component(source)) else {
        // Its text is not one of the source, which the command does not write.
        let text = format!("{}/{}", directory.source, source.source);
        return Word { text: None, source: text, ..source.clone() };
    };
    let mut word = part(source, &format!("{}/{name}", folder_text.trim_end_matches('/')));
    word.glob |= directory.glob;
    word
}

/// Returns the last component of a path; of one known only at run time, if an expansion cannot be
/// part of it.
fn last_component(word: &Word) -> Option<&str> {
    let path = word.text.as_deref().unwrap_or(&word.source).trim_end_matches('/');
    if word.text.is_some() {
        return path.rsplit('/').next();
    }
    let (_, name) = path.rsplit_once('/')?;
    let name = name.trim_end_matches('"');
    let plain = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn assignments_with_prefix(command: &Command, prefix: &str) -> Vec<Word> {
    command
        .arguments()
        .iter()
        .filter_map(|word| Some(part(word, word.text.as_deref()?.strip_prefix(prefix)?)))
        .collect()
}

fn remote_names(command: &Command, letters: &[char], long: &str) -> Vec<Word> {
    if has_letter(command, letters) || has_long_option(command, long, long) {
        current_directory_words()
    } else {
        Vec::new()
    }
}

fn tar(command: &Command) -> Vec<Word> {
    // The letters may be given without a dash.
    let mode = command.arguments().first().and_then(|word| word.text.clone()).unwrap_or_default();
    let old = !mode.starts_with('-') && !mode.is_empty();
    let has = |letter: char, long: &str| {
        old && mode.contains(letter)
            || has_letter(command, &[letter])
            || has_long_option(command, long, long)
    };
    let directories = values(command, 'C', "directory");
    if has('x', "--extract") || has('x', "--get") {
        return if directories.is_empty() { current_directory_words() } else { directories };
    }
    if has('c', "--create") || has('r', "--append") || has('u', "--update") {
        let mut archives = values(command, 'f', "file");
        if archives.is_empty() {
            archives.extend(command.arguments().get(1).cloned());
        }
        return archives;
    }
    Vec::new()
}

/// Returns the directories and files besides the repository that git writes.
fn git(command: &Command) -> Vec<Word> {
    let Some(call) = git_subcommand(command) else { return Vec::new() };
    let rest = Command {
        words: std::iter::once(Word::default()).chain(call.words.iter().cloned()).collect(),
        ..Command::default()
    };
    let mut found = values(&rest, '\0', "output");
    match call.name {
        "clone" => {
            let long = [
                "--branch",
                "--origin",
                "--config",
                "--depth",
                "--reference",
                "--template",
                "--jobs",
            ];
            let mut operands = operands(&rest, "bocuj", &long).into_iter();
            let source = operands.next();
            found.extend(operands.next().or_else(|| source.map(|source| clone_target(&source))));
        }
        "init" => found
            .extend(operands(&rest, "b", &["--initial-branch", "--template"]).into_iter().take(1)),
        "rm" | "mv" | "restore" => found.extend(operands(&rest, "s", &["--source"])),
        "checkout" => {
            let paths =
                call.words.iter().skip_while(|word| word.text.as_deref() != Some("--")).skip(1);
            found.extend(paths.cloned());
        }
        "archive" | "format-patch" | "bundle" => {
            found.extend(values(&rest, 'o', "output-directory"))
        }
        "worktree"
            if call
                .words
                .first()
                .is_some_and(|word| matches!(word.text.as_deref(), Some("add" | "move"))) =>
        {
            found.extend(operands(&rest, "bB", &["--reason"]).into_iter().skip(1).take(2));
        }
        "config" => found.extend(values(&rest, 'f', "file")),
        _ => {}
    }
    found
}

/// Returns the directory that `git clone` derives from the repository: the last part of its path,
/// without `.git` or `.bundle`.
fn clone_target(source: &Word) -> Word {
    let path = source.text.as_deref().unwrap_or(source.source.trim_matches(['"', '\'']));
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix("/.git").unwrap_or(path).trim_end_matches('/');
    let name = path.rsplit(['/', ':']).next().unwrap_or_default();
    let name = name.strip_suffix(".git").or_else(|| name.strip_suffix(".bundle")).unwrap_or(name);
    if name.is_empty() || (source.text.is_none() && name.contains(['$', '`', ')'])) {
        return source.clone();
    }
    Word { text: Some(name.to_owned()), source: name.to_owned(), ..Word::default() }
}
