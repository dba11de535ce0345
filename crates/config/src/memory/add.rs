//! Adding a fact to the user's memory: a list of ours in a file of ours.

use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::homes::Homes;
use crate::state;

/// The heading of the list.
const HEADING: &str = "## Parallax Added Memories";

/// Adds a fact to the user's memory file (`~/.parallax/GEMINI.md`, or the first
/// of `names` there); what else is in it stays. Gives the file. Blocking.
///
/// # Errors
/// The file cannot be used or written.
pub fn add_memory(homes: &Homes, names: &[String], fact: &str) -> Result<PathBuf, ConfigError> {
    let plain =
        |name: &&String| Path::new(name).file_name().is_some_and(|file| file == name.as_str());
    let name = names.iter().find(plain).map_or("GEMINI.md", String::as_str);
    let file = homes.parallax.join(name);
    state::rewrite(&file, |text| Ok(with_fact(text, fact)))?;
    Ok(file)
}

/// The text with one more entry in the list.
fn with_fact(text: &str, fact: &str) -> String {
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
    let Some((heading, _)) = start.into_iter().find(|(_, line)| line.trim_end() == HEADING) else {
        let gap = match text.trim_end() {
            "" => "",
            _ if text.ends_with("\n\n") => "",
            _ if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        return format!("{text}{gap}{HEADING}\n\n{entry}");
    };
    // The list ends where the next section begins.
    let body = heading + HEADING.len();
    let rest = text.get(body..).unwrap_or_default();
    let end = rest.find("\n#").map_or(text.len(), |at| body + at + 1);
    let (list, after) = text.split_at(end);
    let list = list.trim_end();
    let gap = if list.ends_with(HEADING) { "\n\n" } else { "\n" };
    let after = if after.is_empty() { String::new() } else { format!("\n{after}") };
    format!("{list}{gap}{entry}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn facts_go_to_the_end_of_the_list() {
        let first = with_fact("", "- I like\ntabs");
        assert_eq!(first, "## Parallax Added Memories\n\n- I like tabs\n");
        let second = with_fact(&first, "two");
        assert_eq!(second, "## Parallax Added Memories\n\n- I like tabs\n- two\n");
        let mine = with_fact("# Mine\n\nbe brief", "x");
        assert_eq!(mine, "# Mine\n\nbe brief\n\n## Parallax Added Memories\n\n- x\n");
        let between = "## Parallax Added Memories\n\n- a\n\n## Other\n\ntext\n";
        assert_eq!(
            with_fact(between, "b"),
            "## Parallax Added Memories\n\n- a\n- b\n\n## Other\n\ntext\n"
        );
        assert_eq!(with_fact("x", " \n"), "x");
    }

    proptest! {
        #[test]
        fn nothing_of_the_file_is_lost(text in "(\\PC|[\n\r#]|## Parallax Added Memories\n){0,40}") {
            let changed = with_fact(&text, "the fact");
            let mut rest = changed.as_str();
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let at = rest.find(line);
                prop_assert!(at.is_some(), "{:?} is not in {:?}", line, rest);
                rest = &rest[at.unwrap_or(0) + line.len()..];
            }
        }
    }
}
