//! Detects commands that read or copy a whole directory with secrets in it, and programs that print
//! secrets.

use std::path::{Path, PathBuf};

use parallax_protocol::protected_names::SECRETS_OF_HOME;

use crate::bash::{self, Command, Word};
use crate::call::ShellCall;
use crate::paths;
use crate::secret_printers::prints_credential;
use crate::sensitive_names::is_above_secret;

/// Programs that copy or search whole directories.
const WALKERS: &[&str] =
    &["7z", "borg", "cp", "cpio", "diff", "ditto", "mv", "rclone", "restic", "rsync", "scp", "zip"];

/// Programs that search for a pattern, which is their first operand.
const SEARCHERS: &[&str] = &["ag", "egrep", "fgrep", "grep", "rg"];
/// Short options of these with a value.
const VALUES_OF_SEARCHERS: &str = "ABCDdEgjMmTt";
/// Directories with the home directories of users.
const HOMES: &[&str] = &["/home", "/Users", "/root", "/var/root"];

/// Returns the directories above secrets of a home directory that the line copies or searches.
pub(crate) fn copied_directories(shell: &ShellCall<'_>, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(home) = home else { return Vec::new() };
    let commands = &shell.line.commands;
    let has_xargs = commands.iter().any(|command| command.name() == Some("xargs"));
    let sources = commands.iter().flat_map(|command| sources(shell, command, home, has_xargs));
    sources.filter(|path| contains_secrets(path, home)).collect()
}

/// Whether a directory contains secrets of a home directory, or whole home directories.
fn contains_secrets(path: &Path, home: &Path) -> bool {
    let is_above_home =
        home.starts_with(path) || HOMES.iter().any(|it| Path::new(it).starts_with(path));
    let is_home = path
        .parent()
        .is_some_and(|parent| parent == Path::new("/home") || parent == Path::new("/Users"));
    is_above_home
        || is_home
        || path.strip_prefix(home).is_ok_and(|relative| {
            SECRETS_OF_HOME.iter().any(|secret| Path::new(secret).starts_with(relative))
        })
        || strip_home(path, home).is_some_and(is_above_secret)
}

/// Returns the part of a path with a pattern below the home directory.
fn strip_home<'a>(path: &'a Path, home: &Path) -> Option<&'a str> {
    let relative = path.strip_prefix(home).or_else(|_| path.strip_prefix("~")).ok()?.to_str()?;
    relative.contains(['*', '?', '[']).then_some(relative)
}

/// Returns the paths that a command copies, searches, or hands to a command that reads them.
fn sources(shell: &ShellCall<'_>, command: &Command, home: &Path, has_xargs: bool) -> Vec<PathBuf> {
    let Some(name) = command.name() else { return Vec::new() };
    let text = |word: &Word| word.text.as_deref().unwrap_or(&word.source).to_owned();
    let has = |wanted: &[&str]| command.arguments().iter().any(|it| wanted.contains(&&*text(it)));
    let words = command.arguments();
    let paths_of = |word: &Word| possible_paths(shell, word, home, None);
    match name {
        "tar" | "bsdtar" => tar_sources(shell, command, home),
        "find" => {
            let reads = has_xargs || has(&["-exec", "-execdir", "-ok", "-okdir", "-fprint0"]);
            let roots = words.iter().skip_while(|word| is_global_option_of_find(&text(word)));
            let roots = roots.take_while(|word| !text(word).starts_with(['-', '(', '!']));
            if reads { roots.flat_map(paths_of).collect() } else { Vec::new() }
        }
        "fd" | "fdfind" if has_xargs || has(&["-x", "-X", "--exec", "--exec-batch"]) => {
            let roots = words.iter().take_while(|word| !matches!(&*text(word), "-x" | "-X"));
            roots.flat_map(paths_of).collect()
        }
        "docker" | "podman" | "nerdctl" => container_sources(shell, words, home),
        "diff" if !has(&["-r", "--recursive"]) => Vec::new(),
        _ if SEARCHERS.contains(&name) => {
            searched_paths(words).into_iter().flat_map(paths_of).collect()
        }
        _ if WALKERS.contains(&name) => {
            let written = bash::placed_paths(command);
            words.iter().filter(|word| !written.contains(word)).flat_map(paths_of).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the word is an option of `find` before its directories.
fn is_global_option_of_find(text: &str) -> bool {
    matches!(text, "-H" | "-L" | "-P") || text.starts_with("-O") || text == "-D"
}

/// Returns the files and directories that a search names, without its pattern.
fn searched_paths(words: &[Word]) -> Vec<&Word> {
    let text = |word: &Word| word.text.as_deref().unwrap_or_default().to_owned();
    let (mut operands, mut has_pattern, mut is_value, mut only_operands) =
        (Vec::new(), false, false, false);
    for word in words {
        let text = text(word);
        if std::mem::take(&mut is_value) {
            continue;
        }
        match text.strip_prefix('-').filter(|rest| !rest.is_empty() && !only_operands) {
            Some("-") => only_operands = true,
            Some(long) if long.starts_with('-') => {
                has_pattern |= ["-regexp", "-file", "-files"].iter().any(|it| long.starts_with(it));
                is_value = matches!(long, "-regexp" | "-file" | "-glob" | "-type");
            }
            Some(letters) => {
                let last = letters.chars().last().unwrap_or_default();
                has_pattern |= letters.contains(['e', 'f']);
                is_value = matches!(last, 'e' | 'f') || VALUES_OF_SEARCHERS.contains(last);
            }
            None => operands.push(word),
        }
    }
    if !has_pattern && !operands.is_empty() {
        operands.remove(0);
    }
    operands
}

/// Returns the paths that `tar` names, relative to the directory of `-C`.
fn tar_sources(shell: &ShellCall<'_>, command: &Command, home: &Path) -> Vec<PathBuf> {
    let (mut found, mut base) = (Vec::new(), None::<PathBuf>);
    let mut words = command.arguments().iter();
    let is_extraction = |(at, word): (usize, &Word)| {
        word.text
            .as_deref()
            .is_some_and(|text| (at == 0 || text.starts_with('-')) && is_extraction(text))
    };
    if command.arguments().iter().enumerate().any(is_extraction) {
        return found;
    }
    while let Some(word) = words.next() {
        let glued = word.source.strip_prefix("--directory=").or(word.source.strip_prefix("-C"));
        let directory = match word.text.as_deref() {
            Some("-C" | "--directory" | "--cd") => words.next().cloned(),
            _ => glued.filter(|glued| !glued.is_empty()).map(|glued| Word {
                text: word.text.as_deref().and_then(|text| {
                    let value = text.strip_prefix("--directory=").or(text.strip_prefix("-C"));
                    value.map(str::to_owned)
                }),
                source: glued.to_owned(),
                ..word.clone()
            }),
        };
        match directory {
            Some(directory) => {
                base = possible_paths(shell, &directory, home, None).into_iter().next()
            }
            None => found.extend(possible_paths(shell, word, home, base.as_deref())),
        }
    }
    found
}

/// Whether options of `tar` say that it extracts or lists an archive.
fn is_extraction(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or(text);
    matches!(text, "--extract" | "--get" | "--list")
        || !letters.starts_with('-')
            && letters.len() <= 6
            && letters.starts_with(['x', 't'])
            && letters.chars().all(|letter| letter.is_ascii_alphabetic())
}

/// Returns the paths that a container gets: the operands of `cp`, and mounted directories.
fn container_sources(shell: &ShellCall<'_>, words: &[Word], home: &Path) -> Vec<PathBuf> {
    let text = |word: &Word| word.text.as_deref().unwrap_or(&word.source).to_owned();
    let Some(index) = words.iter().position(|word| matches!(&*text(word), "cp" | "run" | "create"))
    else {
        return Vec::new();
    };
    let rest = words.get(index + 1..).unwrap_or_default();
    if words.get(index).is_some_and(|word| text(word) == "cp") {
        // The destination is the last word.
        let sources = rest.split_last().map_or(&[][..], |(_, sources)| sources);
        return sources.iter().flat_map(|word| possible_paths(shell, word, home, None)).collect();
    }
    let mounted = |pair: &[Word]| {
        let [option, value] = pair else { return None };
        let is_volume = matches!(&*text(option), "-v" | "--volume");
        let source =
            |text: &str| text.split(':').next().unwrap_or_default().trim_matches('"').to_owned();
        is_volume.then(|| Word {
            text: value.text.as_deref().map(source),
            source: source(&value.source),
            ..value.clone()
        })
    };
    let volumes: Vec<Word> = rest.windows(2).filter_map(mounted).collect();
    volumes.iter().flat_map(|word| possible_paths(shell, word, home, None)).collect()
}

/// Returns the paths that the word may name, relative to `base` if there is one.
fn possible_paths(
    shell: &ShellCall<'_>,
    word: &Word,
    home: &Path,
    base: Option<&Path>,
) -> Vec<PathBuf> {
    if matches!(word.source.as_str(), "~" | "$HOME" | "\"$HOME\"" | "${HOME}" | "\"${HOME}\"") {
        return vec![home.to_owned()];
    }
    // A pattern below the home directory stays one.
    if let Some(text) = word
        .text
        .as_deref()
        .filter(|text| word.glob && text.starts_with("~/") && text.contains(['*', '?', '[']))
    {
        return vec![PathBuf::from(text)];
    }
    match (base, word.text.as_deref()) {
        (Some(base), Some(text)) if !word.glob => vec![paths::resolve(base, Path::new(text))],
        _ => shell.paths_for(word).iter().filter_map(|target| target.path().cloned()).collect(),
    }
}

/// Returns the commands of the line that print keys or passwords.
pub(crate) fn secret_printing_commands<'a>(
    shell: &'a ShellCall<'_>,
) -> impl Iterator<Item = &'a str> {
    let prints = |command: &&Command| prints_credential(command);
    shell.line.commands.iter().filter(prints).map(|command| command.source.as_str())
}
