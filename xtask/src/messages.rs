//! `cargo xtask messages`: prints the strings of the product that a user can see, with file and
//! line, so that they can be read in one piece.
//!
//! What a user sees is guessed from the form of a string: prose in an expression, in an error or
//! in the help of an option. Strings that programs read (keys, paths, patterns, SQL) and strings of
//! tests and logs are left out.

mod visitor;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use visitor::MessageCollector;

/// Crates that are not part of the product.
const OTHER_CRATES: &[&str] = &["testkit"];

/// The options of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct MessagesOptions {
    /// Files or directories to read instead of all crates of the product
    paths: Vec<PathBuf>,
}

/// The role of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    /// The help of a subcommand, option, or value.
    Help,
    /// The message of an error type.
    Error,
    /// The name or the message of a policy rule.
    Rule,
    /// Any other text.
    Text,
}

impl MessageKind {
    fn name(self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::Error => "error",
            Self::Rule => "rule",
            Self::Text => "text",
        }
    }
}

/// A string and where it begins.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    line: usize,
    kind: MessageKind,
    text: String,
}

/// Prints the messages.
///
/// # Errors
/// Returns an error if a file cannot be read or parsed.
#[expect(clippy::print_stdout, reason = "this is the output of the task")]
pub(crate) fn run(options: &MessagesOptions) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    if options.paths.is_empty() {
        for entry in std::fs::read_dir(root.join("crates"))? {
            let entry = entry?;
            if !OTHER_CRATES.iter().any(|name| entry.file_name() == *name) {
                collect(&entry.path().join("src"), &mut files)?;
            }
        }
    }
    for path in &options.paths {
        collect(path, &mut files)?;
    }
    files.sort();
    for file in files {
        let display_path = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        let source = std::fs::read_to_string(&file).with_context(|| display_path.clone())?;
        let messages = match file.extension().is_some_and(|extension| extension == "toml") {
            true => rule_messages(&source),
            false => source_messages(&source).with_context(|| display_path.clone())?,
        };
        for Message { line, kind, text } in messages {
            println!("{display_path}:{line}: {}: {}", kind.name(), one_line(&text));
        }
    }
    Ok(())
}

/// Escapes control characters, so that a message stays on its line.
fn one_line(text: &str) -> String {
    let escaped = text.chars().map(|char| match char.is_control() {
        true => char.escape_default().to_string(),
        false => char.to_string(),
    });
    escaped.collect()
}

/// Adds the files below a path that can contain messages.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    if !path.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "tests" | "bin") {
                collect(&path, files)?;
            }
        } else if is_read(&path, &name) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_read(path: &Path, name: &str) -> bool {
    let is_test = name == "tests.rs" || name.ends_with("_tests.rs") || name == "harness.rs";
    let is_rules = path.parent().is_some_and(|folder| folder.ends_with("policy/src/defaults"));
    name.ends_with(".rs") && !is_test || name.ends_with(".toml") && is_rules
}

/// Returns the messages of a Rust file.
fn source_messages(source: &str) -> Result<Vec<Message>> {
    let file = syn::parse_file(source)?;
    let mut found = MessageCollector::default().collect(&file);
    found.sort_by_key(|message| message.line);
    Ok(found)
}

/// Returns the names and messages of a rule file.
fn rule_messages(source: &str) -> Vec<Message> {
    let lines = source.lines().enumerate();
    let found = lines.filter_map(|(index, line)| {
        let (key, value) = line.split_once(" = ")?;
        let text = value.strip_prefix('"')?.strip_suffix('"')?.to_owned();
        matches!(key, "name" | "denyMessage").then_some(Message {
            line: index + 1,
            kind: MessageKind::Rule,
            text,
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_messages(source: &str) -> Vec<String> {
        let found = source_messages(source).expect("Rust");
        let line = |it: Message| format!("{} {} {}", it.line, it.kind.name(), it.text);
        found.into_iter().map(line).collect()
    }

    #[test]
    fn prose_is_listed_and_strings_for_programs_are_not() {
        let found = format_messages(
            r#"
            fn f(app: &mut App, value: &Value) -> Result<(), String> {
                app.warn("The file is missing");
                app.say(format!("Saved to {path}. Restart to apply it."));
                let label = "Enabled";
                let key = value.get("some_key");
                if text.contains("no such file") || text == "two words" {}
                match text { "a b" => {} _ => {} }
                tracing::warn!("not for users here");
                let json = json!({"two words": 1, "message": "Sent to programs"});
                db.execute("DELETE FROM sessions");
                let paths = ["/usr/share/a", "{}: {}", "https://example.com/a"];
                Err("it went wrong".to_owned())
            }
            #[cfg(test)]
            mod tests { const A: &str = "text of a test"; }
            #[test]
            fn t() { f("text of a test"); }
            "#,
        );
        let expected = [
            "3 text The file is missing",
            "4 text Saved to {path}. Restart to apply it.",
            "5 text Enabled",
            "10 text Sent to programs",
            "13 text it went wrong",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn help_and_errors_are_listed_and_other_documentation_is_not() {
        let found = format_messages(
            r#"
            /// Not for users.
            #[derive(Debug)]
            struct Plain { /** Not for users. */ field: u8 }
            /// Run the agent
            #[derive(Debug, Args)]
            #[command(after_help = "See the manual")]
            struct Options {
                /// Model to use
                #[arg(long, help_heading = "Models and so on", value_name = "NAME")]
                model: String,
            }
            #[derive(Debug, Error)]
            enum Failure {
                /// Not for users.
                #[error("failed to read `{0}`")]
                Read(String),
            }
            "#,
        );
        let expected = [
            "5 help Run the agent",
            "7 help See the manual",
            "9 help Model to use",
            "10 help Models and so on",
            "16 error failed to read `{0}`",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn rule_names_and_messages_are_listed() {
        let found = rule_messages("[[rule]]\nname = \"edits ask\"\ntoolName = \"replace\"\n");
        let text = "edits ask".to_owned();
        assert_eq!(found, [Message { line: 2, kind: MessageKind::Rule, text }]);
    }

    #[test]
    fn every_file_of_the_product_is_parsed() {
        let mut files = Vec::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/tui/src"), &mut files)
            .expect("the files");
        let all: usize = files
            .iter()
            .map(|file| {
                let source = std::fs::read_to_string(file).expect("a file");
                source_messages(&source).expect("Rust").len()
            })
            .sum();
        assert!(all > 500, "{all} messages");
    }
}
