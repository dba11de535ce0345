//! `parallax batch plan`: a plan with one task for each line that a command prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use parallax_exec::shell::quote_word;
use serde_json::{Map, Value};

use crate::error::BatchError;
use crate::plan::{MAX_ID_LENGTH, slug};

/// Maximum number of bytes that the command may print.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;
/// Time limit of the command.
const LIST_TIME: Duration = Duration::from_secs(10 * 60);
/// The placeholder for the line.
const PLACE: &str = "{item}";

/// The fields that all tasks of such a plan share.
#[derive(Debug, Clone, Default)]
pub struct PlanTemplate {
    /// The prompt, with `{item}`.
    pub prompt: String,
    /// Other fields of a task, with `{item}` in text. In commands (`setup`, `check`), the item is
    /// quoted for a shell.
    pub fields: Map<String, Value>,
}

/// What a command printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemList {
    /// The lines, in order.
    pub items: Vec<String>,
    /// Lines that are not UTF-8, which a plan cannot contain, with replacements.
    pub skipped: Vec<String>,
}

impl ItemList {
    fn parse(output: &[u8]) -> Self {
        // Lists such as that of `git ls-files -z` end each item with a NUL.
        let separator = if output.contains(&0) { 0 } else { b'\n' };
        let mut list = Self::default();
        for line in output.split(|byte| *byte == separator) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match std::str::from_utf8(line) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => list.items.push(text.to_owned()),
                Err(_) => list.skipped.push(String::from_utf8_lossy(line).into_owned()),
            }
        }
        list
    }
}

/// Runs a command of the user in `directory` and returns the lines that it prints. Blocking.
///
/// # Errors
/// Returns an error if the command fails or prints nothing.
pub fn items(command: &str, directory: &Path) -> Result<ItemList, BatchError> {
    let environment: Vec<_> = std::env::vars_os().collect();
    let output = parallax_exec::program::capture(
        "/bin/sh",
        ["-c", command],
        directory,
        &environment,
        MAX_LIST_BYTES,
        LIST_TIME,
    );
    let output =
        output.map_err(|error| BatchError::Input(format!("Failed to run `{command}`: {error}")))?;
    if !output.succeeded {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reason = parallax_protocol::excerpt::one_line(stderr.trim());
        return Err(BatchError::Input(format!("`{command}` failed: {reason}")));
    }
    let list = ItemList::parse(&output.stdout);
    match (list.items.is_empty(), list.skipped.is_empty()) {
        (false, _) => Ok(list),
        (true, true) => Err(BatchError::Input(format!("`{command}` printed nothing"))),
        (true, false) => {
            Err(BatchError::Input(format!("`{command}` printed text that is not UTF-8")))
        }
    }
}

/// Returns the plan as JSON Lines.
///
/// # Errors
/// Returns an error if a shell would interpret an item in a command that quotes more than the item.
pub fn plan_lines(items: &[String], template: &PlanTemplate) -> Result<String, BatchError> {
    let mut ids = BTreeSet::new();
    let mut text = String::new();
    for item in items {
        let mut task = Map::new();
        task.insert("id".to_owned(), unique_id(item, &mut ids).into());
        task.insert("prompt".to_owned(), template.prompt.replace(PLACE, item).into());
        for (key, value) in &template.fields {
            let is_command = matches!(key.as_str(), "setup" | "check");
            task.insert(key.clone(), substitute_item(value, item, is_command)?);
        }
        let labels = BTreeMap::from([("item", item)]);
        task.insert("labels".to_owned(), serde_json::json!(labels));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", Value::Object(task));
    }
    Ok(text)
}

fn substitute_item(value: &Value, item: &str, is_command: bool) -> Result<Value, BatchError> {
    Ok(match value {
        Value::String(text) if is_command => substitute_in_command(text, item)?.into(),
        Value::String(text) => text.replace(PLACE, item).into(),
        Value::Array(values) => {
            let values = values.iter().map(|value| substitute_item(value, item, is_command));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

/// Returns a command for a shell with the item as one word or a part of one.
fn substitute_in_command(command: &str, item: &str) -> Result<String, BatchError> {
    let quoted = quote_word(item);
    let bare = ["'", "\""].iter().fold(command.to_owned(), |text, quote| {
        text.replace(&format!("{quote}{PLACE}{quote}"), PLACE)
    });
    if quoted == item {
        return Ok(command.replace(PLACE, item));
    }
    if !is_plain_command(&bare) {
        return Err(BatchError::Input(format!(
            "The item `{item}` cannot be inserted into `{command}`, where a shell would interpret \
             it; leave `{PLACE}` out of commands with other quotes, here-documents, and commands \
             for another shell"
        )));
    }
    Ok(bare.replace(PLACE, &quoted))
}

/// Whether a word can be inserted anywhere in the command as it is: nothing is quoted there, and no
/// other shell interprets its words again.
fn is_plain_command(command: &str) -> bool {
    const SHELLS: &[&str] =
        &["eval", "sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "ssh", "su", "watch", "xargs"];
    let is_quoted = command.contains(['\'', '"', '`', '\\', '\n']) || command.contains("<<");
    let mut words =
        command.split(|char: char| !(char.is_ascii_alphanumeric() || "-_.".contains(char)));
    !is_quoted && !words.any(|word| SHELLS.contains(&word))
}

/// Returns an id that names the item.
fn unique_id(item: &str, ids: &mut BTreeSet<String>) -> String {
    let slug = slug(item);
    let slug = slug.trim_start_matches(|char: char| !char.is_ascii_alphanumeric());
    let base: String = slug.chars().take(MAX_ID_LENGTH - 8).collect();
    let base = if base.is_empty() { "item".to_owned() } else { base };
    let mut id = base.clone();
    let mut number = 2;
    while !ids.insert(id.to_lowercase()) {
        id = format!("{base}-{number}");
        number += 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_utf8_are_skipped() {
        let list = ItemList::parse(b"a b\r\n\n lat\xe9n\nc");
        assert_eq!((list.items, list.skipped.len()), (vec!["a b".to_owned(), "c".to_owned()], 1));
        let list = ItemList::parse(b"a\nb\0\xff\0");
        assert_eq!((list.items, list.skipped.len()), (vec!["a\nb".to_owned()], 1));
    }

    #[test]
    fn items_become_tasks_with_different_ids() {
        let items = ["src/a b.py", "src/a/b.py", "SRC/a-b.py", "…"].map(str::to_owned);
        let mut fields = Map::new();
        fields.insert("check".to_owned(), serde_json::json!(["test -f '{item}'"]));
        let template = PlanTemplate { prompt: "Fix {item}".to_owned(), fields };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("p.jsonl");
        std::fs::write(&file, plan_lines(&items, &template).expect("lines")).expect("a plan");
        let plan = crate::Plan::load(&file).expect("a plan");
        let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["src-a-b.py", "src-a-b.py-2", "SRC-a-b.py-3", "item"]);
        assert_eq!(plan.tasks[0].prompt, "Fix src/a b.py");
        assert_eq!(plan.tasks[0].check, ["test -f 'src/a b.py'"]);
    }

    #[test]
    fn items_are_words_of_a_command() {
        let item = "$(touch x) 'a'.py";
        for (command, expected) in [
            ("mypy {item}", Some("mypy '$(touch x) '\\''a'\\''.py'")),
            ("mypy \"{item}\"", Some("mypy '$(touch x) '\\''a'\\''.py'")),
            ("mypy --file={item}", Some("mypy --file='$(touch x) '\\''a'\\''.py'")),
            ("sh -c \"mypy {item}\"", None),
            ("sh -c 'mypy {item}'", None),
            ("bash -c \"echo \\\"{item}\\\"\"", None),
            ("cat <<E\n{item}\nE", None),
            ("eval mypy {item}", None),
            ("/bin/sh -c {item}", None),
            ("echo \\{item}", None),
        ] {
            assert_eq!(substitute_in_command(command, item).ok().as_deref(), expected, "{command}");
        }
        let plain = substitute_in_command("sh -c 'mypy {item}'", "a.py").expect("a command");
        assert_eq!(plain, "sh -c 'mypy a.py'");
    }

    #[test]
    fn command_that_fails_is_an_error() {
        let failed = items("echo why >&2; exit 3", Path::new("/")).expect_err("an error");
        assert!(failed.to_string().contains("why"), "{failed}");
        assert!(items("true", Path::new("/")).is_err());
        assert_eq!(items("printf 'a\\n\\nb\\n'", Path::new("/")).expect("items").items, ["a", "b"]);
        let odd = items("printf 'a\\nb\\000\"c\"\\000'", Path::new("/")).expect("items");
        assert_eq!(odd.items, ["a\nb", "\"c\""]);
    }
}
