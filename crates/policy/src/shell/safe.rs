//! Commands that only read inside the workspace, and so need no question.

use std::path::{Component, Path, PathBuf};

use super::git;
use super::plain::{Part, Word, plain};
use crate::paths;

/// Where a command runs and what it may read.
pub(crate) struct Place<'a> {
    /// The working directory, resolved.
    pub(crate) directory: &'a Path,
    /// The workspace.
    pub(crate) roots: &'a [PathBuf],
    /// A `cd` comes first, so `..` says nothing.
    pub(crate) moved: bool,
}

/// Whether the command only reads files below `roots` when run in `directory`.
/// Judged by its text alone and in doubt `false`: an expansion, a redirection,
/// an unknown program or option is a doubt. Symbolic links are not looked at.
pub fn known_safe(command: &str, directory: &Path, roots: &[PathBuf]) -> bool {
    let Some(parts) = plain(command) else { return false };
    let place = Place { directory, roots, moved: changes_directory(&parts) };
    parts.iter().all(|part| part_is_safe(part, &place))
}

pub(crate) fn changes_directory(parts: &[Part]) -> bool {
    parts.iter().any(|part| part.first().is_some_and(|name| name.text == "cd"))
}

/// Whether one simple command is known to be harmless.
pub(crate) fn part_is_safe(part: &Part, place: &Place<'_>) -> bool {
    // What a glob becomes is known to the disk alone.
    if part.iter().any(|word| word.glob) || !paths::inside(place.directory, place.roots) {
        return false;
    }
    let Some((name, arguments)) = part.split_first() else { return false };
    if arguments.iter().any(|word| follows(&name.text, &word.text)) {
        return false;
    }
    let stays = |words: &[Word]| words.iter().all(|word| stays_inside(word, place));
    let no_option = |refused: fn(&str) -> bool| !arguments.iter().any(|word| refused(&word.text));
    match name.text.as_str() {
        // No file operands.
        "echo" | "expr" | "true" | "false" | "pwd" | "whoami" | "uname" | "id" | "tr"
        | "numfmt" => arguments
            .iter()
            .all(|word| word.quoted || !word.text.contains('~') || stays_inside(word, place)),
        "seq" => counts_not_far(arguments),
        // No option of these writes or runs anything.
        "cat" | "head" | "ls" | "nl" | "paste" | "rev" | "stat" | "tac" | "tail" | "which" => {
            stays(arguments)
        }
        // A list of files would name any file.
        "wc" => no_option(|word| word.starts_with("--f")) && stays(arguments),
        "cut" => {
            arguments.iter().all(|word| word.text.starts_with("-d") || stays_inside(word, place))
        }
        "grep" => no_option(takes_patterns_of_file) && pattern_and_paths_stay(arguments, place),
        "cd" => matches!(arguments, [folder] if !folder.text.starts_with('-')) && stays(arguments),
        // The second operand of uniq is its output; `-` is one too.
        "uniq" => {
            let is_operand = |word: &&Word| word.text == "-" || !word.text.starts_with('-');
            arguments.iter().filter(is_operand).count() <= 1 && stays(arguments)
        }
        "sed" => sed_prints_lines(arguments) && stays(arguments.get(2..).unwrap_or_default()),
        "find" => no_option(find_acts) && stays(arguments),
        "rg" => {
            no_option(rg_runs_programs)
                && no_option(takes_patterns_of_file)
                && pattern_and_paths_stay(arguments, place)
        }
        "git" => git::only_looks(arguments) && stays(arguments),
        "base64" => {
            no_option(|word| word.starts_with('-') && !base64_reads(word)) && stays(arguments)
        }
        _ => false,
    }
}

/// Whether an option makes the program follow links out of the workspace, or
/// a file for ever.
fn follows(program: &str, word: &str) -> bool {
    // Long options may be shortened.
    let long = |full: &str, shortest: &str| {
        let name = word.split('=').next().unwrap_or(word);
        name.starts_with(shortest) && full.starts_with(name)
    };
    let short = |letters: &[char]| {
        word.strip_prefix('-')
            .is_some_and(|flags| !flags.starts_with('-') && flags.contains(letters))
    };
    match program {
        "tail" => {
            short(&['f', 'F'])
                || word.starts_with('+') && word.contains('f')
                || long("--follow", "--f")
                || long("--retry", "--r")
        }
        "ls" => short(&['L', 'H']) || word.starts_with("--de"),
        "stat" => short(&['L']) || word.starts_with("--de"),
        "grep" => short(&['R']) || word.starts_with("--de"),
        "rg" => short(&['L']) || word.starts_with("--fo"),
        "find" => matches!(word, "-L" | "-H" | "-follow"),
        _ => false,
    }
}

/// `grep` and `rg` words with a file glued to a short option (`-fFILE`).
fn takes_patterns_of_file(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains('f')
}

/// Whether `seq` comes to an end soon.
fn counts_not_far(arguments: &[Word]) -> bool {
    const MOST: f64 = 10_000_000.0;
    const LONGEST: usize = 8;
    if arguments.iter().any(|word| word.text.len() > LONGEST) {
        return false;
    }
    let mut numbers = Vec::new();
    for word in arguments {
        match word.text.parse::<f64>() {
            Ok(number) if number.is_finite() => numbers.push(number),
            Ok(_) => return false,
            Err(_) if word.text == "-w" || word.text.starts_with("-s") => {}
            Err(_) => return false,
        }
    }
    let (first, step, last) = match numbers[..] {
        [last] => (1.0, 1.0, last),
        [first, last] => (first, 1.0, last),
        [first, step, last] => (first, step, last),
        _ => return false,
    };
    step != 0.0 && (last - first) / step <= MOST
}

/// `find` words that run programs, delete, or write files.
pub(crate) fn find_acts(word: &str) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"]
        .iter()
        .any(|action| word.starts_with(action))
}

/// `rg` words that make it start other programs.
pub(crate) fn rg_runs_programs(word: &str) -> bool {
    word.starts_with("--pre")
        || word.starts_with("--hostname-bin")
        || word.starts_with("--search-zip")
        || (word.starts_with('-') && !word.starts_with("--") && word.contains('z'))
}

fn base64_reads(word: &str) -> bool {
    matches!(word, "-" | "-d" | "-D" | "-i" | "-w" | "-w0" | "--decode" | "--ignore-garbage")
        || word.starts_with("--wrap")
}

/// `-n` and one script that prints lines by number.
fn sed_prints_lines(arguments: &[Word]) -> bool {
    let Some([flag, script, files @ ..]) = arguments.get(..) else { return false };
    let Some(range) = script.text.strip_suffix('p') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = match range.split_once(',') {
        Some((first, last)) => is_number(first) && is_number(last),
        None => is_number(range),
    };
    flag.text == "-n" && is_range && files.iter().all(|file| !file.text.starts_with('-'))
}

/// For `grep` and `rg`: the pattern may look like any path, files must stay.
/// The pattern is recognised only beside options that take no value.
fn pattern_and_paths_stay(arguments: &[Word], place: &Place<'_>) -> bool {
    let simple =
        arguments.iter().all(|word| !word.text.starts_with('-') || takes_no_value(&word.text));
    let pattern =
        if simple { arguments.iter().position(|word| !word.text.starts_with('-')) } else { None };
    arguments.iter().enumerate().all(|(index, word)| {
        let is_pattern = pattern == Some(index) && (word.quoted || !word.text.starts_with('~'));
        is_pattern || stays_inside(word, place)
    })
}

fn takes_no_value(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => matches!(
            long,
            "line-number"
                | "ignore-case"
                | "recursive"
                | "count"
                | "fixed-strings"
                | "files-with-matches"
                | "word-regexp"
                | "no-heading"
                | "hidden"
                | "color=never"
        ),
        None => word.chars().skip(1).all(|flag| "rRnioEFlLHhwvcxsqSI".contains(flag)),
    }
}

/// Whether nothing in the word names a file outside the workspace.
fn stays_inside(word: &Word, place: &Place<'_>) -> bool {
    let text = word.text.as_str();
    if !word.quoted && (text.contains("=~") || text.contains(":~")) {
        return false;
    }
    if let Some(option) = text.strip_prefix('-') {
        let value = match option.split_once('=') {
            Some((_, value)) => value,
            // A value glued to a short option: `-f/etc/passwd`, `-f../x`.
            None => match option.find('/').into_iter().chain(option.find("..")).min() {
                Some(start) => option.get(start..).unwrap_or_default(),
                None => return true,
            },
        };
        return path_stays(value, place);
    }
    path_stays(text, place)
}

fn path_stays(text: &str, place: &Place<'_>) -> bool {
    if text.starts_with('~') {
        return false;
    }
    let path = Path::new(text);
    // `..` behind a folder that is a link leads elsewhere than the text says,
    // and so does any `..` behind a `cd`.
    let below = path.components().skip_while(|part| *part == Component::ParentDir && !place.moved);
    if below.into_iter().any(|part| part == Component::ParentDir) {
        return false;
    }
    let resolved = paths::resolve(place.directory, path);
    resolved == Path::new("/dev/null") || paths::inside(&resolved, place.roots)
}
