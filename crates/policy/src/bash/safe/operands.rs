//! Operands of safe commands: paths inside the workspace, patterns, and numbers.

use std::path::{Component, Path, PathBuf};

use super::Argument;
use crate::paths;

/// The working directory and the directories that a command may read.
pub(super) struct ReadContext<'a> {
    pub(super) directory: &'a Path,
    pub(super) roots: &'a [PathBuf],
    /// Whether a `cd` comes first, so that `..` cannot be resolved.
    pub(super) has_changed_directory: bool,
}

impl ReadContext<'_> {
    /// Whether no part of the word names a file outside the workspace.
    pub(super) fn is_inside(&self, word: &Argument<'_>) -> bool {
        let text = word.text;
        if !word.quoted && (text.contains("=~") || text.contains(":~")) {
            return false;
        }
        let Some(option) = text.strip_prefix('-') else { return self.is_path_inside(text) };
        let value = match option.split_once('=') {
            Some((_, value)) => value,
            // A value attached to a short option: `-f/etc/passwd`, `-f../x`.
            None => match option.find('/').into_iter().chain(option.find("..")).min() {
                Some(start) => option.get(start..).unwrap_or_default(),
                None => return true,
            },
        };
        self.is_path_inside(value)
    }

    fn is_path_inside(&self, text: &str) -> bool {
        if text.starts_with('~') {
            return false;
        }
        let path = Path::new(text);
        // `..` after a symbolic link to a directory leads somewhere other than the text says, and
        // so does any `..` after a `cd`.
        let rest = path
            .components()
            .skip_while(|part| *part == Component::ParentDir && !self.has_changed_directory);
        if rest.into_iter().any(|part| part == Component::ParentDir) {
            return false;
        }
        let resolved = paths::resolve(self.directory, path);
        resolved == Path::new("/dev/null") || paths::is_inside(&resolved, self.roots)
    }
}

/// Whether `seq` terminates soon.
pub(super) fn is_short_sequence(arguments: &[Argument<'_>]) -> bool {
    const MAX_COUNT: f64 = 10_000_000.0;
    const MAX_LENGTH: usize = 8;
    if arguments.iter().any(|word| word.text.len() > MAX_LENGTH) {
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
    step != 0.0 && (last - first) / step <= MAX_COUNT
}

/// Whether the arguments are `-n` and one sed script that prints lines by number.
pub(super) fn sed_prints_lines(arguments: &[Argument<'_>]) -> bool {
    let [flag, script, files @ ..] = arguments else { return false };
    let Some(range) = script.text.strip_suffix('p') else { return false };
    let is_number = |text: &str| {
        text == "$" || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_range = match range.split_once(',') {
        Some((first, last)) => is_number(first) && is_number(last),
        None => is_number(range),
    };
    flag.text == "-n" && is_range && files.iter().all(|file| !file.text.starts_with('-'))
}

/// For `grep` and `rg`: whether all files are inside the workspace; the pattern may look like any
/// path. The pattern is recognized only next to options without a value.
pub(super) fn pattern_and_paths_stay(
    arguments: &[Argument<'_>],
    context: &ReadContext<'_>,
) -> bool {
    let simple =
        arguments.iter().all(|word| !word.text.starts_with('-') || takes_no_value(word.text));
    let pattern =
        if simple { arguments.iter().position(|word| !word.text.starts_with('-')) } else { None };
    arguments.iter().enumerate().all(|(index, word)| {
        let is_pattern = pattern == Some(index) && (word.quoted || !word.text.starts_with('~'));
        is_pattern || context.is_inside(word)
    })
}

fn takes_no_value(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => {
            matches!(
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
            ) || long.starts_with("include=")
                || long.starts_with("exclude=")
        }
        None => word.chars().skip(1).all(|flag| "rRnioEFlLHhwvcxsqSI".contains(flag)),
    }
}
