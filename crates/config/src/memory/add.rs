//! Adds a fact to the list at the end of a memory file.

use std::path::{Path, PathBuf};

use super::discovery::find_exact_name;
use crate::error::ConfigError;
use crate::json_state_file;
use crate::user_dirs::UserDirs;

/// The heading of the list, which other programs also use.
const HEADING: &str = "## Gemini Added Memories";
/// A heading that older versions wrote.
const OLD_HEADING: &str = "## Parallax Added Memories";

/// Adds a fact to the user's memory file (`~/.parallax/GEMINI.md`, or the first of `names` in that
/// directory) and keeps its other contents. Returns the file. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be used or written.
pub fn add_memory(dirs: &UserDirs, names: &[String], fact: &str) -> Result<PathBuf, ConfigError> {
    let file = user_memory_file(dirs, names);
    json_state_file::rewrite(&file, |text| Ok(add_fact(text, fact)))?;
    Ok(file)
}

/// Returns the file for facts about the user: `~/.parallax/GEMINI.md`, or the first of `names` in
/// that directory. Blocking.
pub fn user_memory_file(dirs: &UserDirs, names: &[String]) -> PathBuf {
    dirs.parallax.join(plain_names(names).next().unwrap_or("GEMINI.md"))
}

/// Returns the file for facts about the project: the first of `names` that exists in the directory,
/// or else the first one. Blocking.
pub fn project_memory_file(directory: &Path, names: &[String]) -> PathBuf {
    let there = plain_names(names)
        .filter_map(|name| find_exact_name(directory, name))
        .find(|file| file.is_file());
    let first = || directory.join(plain_names(names).next().unwrap_or("GEMINI.md"));
    there.unwrap_or_else(first)
}

/// Returns the names that are not paths.
fn plain_names(names: &[String]) -> impl Iterator<Item = &str> {
    let plain = |name: &&str| Path::new(name).file_name().is_some_and(|file| file == *name);
    names.iter().map(String::as_str).filter(plain)
}

/// Returns the text of a memory file with another entry in its list. A fact is one line.
pub fn add_fact(text: &str, fact: &str) -> String {
    // Users print these files, so a fact must not contain terminal control characters.
    let fact = fact.replace(|char: char| char.is_control(), " ");
    let words: Vec<&str> = fact.split_whitespace().collect();
    let fact = words.join(" ");
    let fact = fact.trim_start_matches(['-', '*', ' ']);
    if fact.is_empty() {
        return text.to_owned();
    }
    let entry = format!("- {fact}\n");
    let start = text.lines().scan(0, |at, line| {
        let here = *at;
        *at += line.len() + 1;
        Some((here, line))
    });
    let is_heading = |line: &str| [HEADING, OLD_HEADING].contains(&line.trim_end());
    let Some((heading, line)) = start.into_iter().find(|(_, line)| is_heading(line)) else {
        let gap = match text.trim_end() {
            "" => "",
            _ if text.ends_with("\n\n") => "",
            _ if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return format!("{text}{gap}{HEADING}\n\n{entry}");
    };
    // The list ends where the next section begins.
    let title = line.trim_end();
    let body = heading + title.len();
    let rest = text.get(body..).unwrap_or_default();
    let end = rest.find("\n#").map_or(text.len(), |offset| body + offset + 1);
    let (list, after) = text.split_at(end);
    let list = list.trim_end();
    let gap = if list.ends_with(title) { "\n\n" } else { "\n" };
    let after = if after.is_empty() { String::new() } else { format!("\n{after}") };
    format!("{list}{gap}{entry}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memories_are_appended_to_the_list() {
        let first = add_fact("", "- I like\ntabs");
        assert_eq!(first, "## Gemini Added Memories\n\n- I like tabs\n");
        let second = add_fact(&first, "two");
        assert_eq!(second, "## Gemini Added Memories\n\n- I like tabs\n- two\n");
        let mine = add_fact("# Mine\n\nbe brief", "x");
        assert_eq!(mine, "# Mine\n\nbe brief\n\n## Gemini Added Memories\n\n- x\n");
        let between = "## Gemini Added Memories\n\n- a\n\n## Other\n\ntext\n";
        assert_eq!(
            add_fact(between, "b"),
            "## Gemini Added Memories\n\n- a\n- b\n\n## Other\n\ntext\n"
        );
        assert_eq!(add_fact("x", " \n"), "x");
        assert!(add_fact("", "\u{1b}[31mred\u{7}").ends_with("- [31mred\n"));
        let old = "## Parallax Added Memories\n\n- a\n";
        assert_eq!(add_fact(old, "b"), format!("{old}- b\n"));
    }

    proptest! {
        #[test]
        fn memory_file_content_is_preserved(text in "(\\PC|[\n\r#]|## Gemini Added Memories\n){0,40}") {
            let changed = add_fact(&text, "the fact");
            let mut rest = changed.as_str();
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let offset = rest.find(line);
                prop_assert!(offset.is_some(), "{:?} is not in {:?}", line, rest);
                rest = &rest[offset.unwrap_or(0) + line.len()..];
            }
        }
    }
}
