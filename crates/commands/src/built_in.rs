//! Prompts and URLs of built-in commands: `/init`, `/commit`, `/parallax`, `/bug`, and `/docs`.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parallax_config::Config;
use parallax_protocol::agent::COORDINATION;
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

/// `/commit`: review the changes, commit, and push.
pub const COMMIT: &str = include_str!("../prompts/commit.md");
/// `/commit:no-push`.
pub const COMMIT_NO_PUSH: &str = include_str!("../prompts/commit_no_push.md");
/// `/commit:pr`: create a branch or fork and a pull request.
pub const COMMIT_PR: &str = include_str!("../prompts/commit_pr.md");

/// Returns the prompt of `/parallax GOAL`, which delegates the work to subagents.
pub fn coordination(goal: &str) -> String {
    format!("{COORDINATION}\n\n{}\n\n{goal}", include_str!("../prompts/coordinate.md").trim_end())
}

const INIT: &str = include_str!("../prompts/init.md");
/// The file that `/init` creates.
const CONTEXT_FILE: &str = "GEMINI.md";
/// Maximum URL length, because browsers reject longer ones.
const MAX_URL_LENGTH: usize = 8000;

/// Result of `/init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitResult {
    /// The file exists already; nothing was done.
    AlreadyExists(PathBuf),
    /// The empty file was created; send this prompt.
    Prompt(&'static str),
}

/// `/init`: creates an empty `GEMINI.md` in the working directory unless it exists. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be created.
pub fn init(directory: &Path) -> Result<InitResult, Failure> {
    let path = directory.join(CONTEXT_FILE);
    let small = directory.join(CONTEXT_FILE.to_lowercase());
    // A lowercase file would be ignored if both existed.
    if !path.exists() && small.is_file() {
        return Ok(InitResult::AlreadyExists(small));
    }
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(_) => Ok(InitResult::Prompt(INIT)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok(InitResult::AlreadyExists(path))
        }
        Err(error) => Err(Failure::new(
            FailureKind::Input,
            format!("failed to create `{}`: {error}", path.display()),
        )),
    }
}

/// `/bug TITLE`: returns the URL of a report form, made from `advanced.bugCommand.urlTemplate`
/// by filling in `{title}`, `{info}`, and `{problem}`; `None` without that setting. `info` is
/// the text of `About`.
///
/// # Errors
/// Returns an error if the setting is not a web URL.
pub fn bug_url(config: &Config, title: &str, info: &str) -> Result<Option<String>, Failure> {
    let template = config.settings.get("advanced.bugCommand");
    let template = template.and_then(|object| object.get("urlTemplate")).and_then(Value::as_str);
    let Some(template) = template else { return Ok(None) };
    if !["https://", "http://"].iter().any(|start| template.starts_with(start)) {
        return Err(Failure::new(
            FailureKind::Config,
            "`advanced.bugCommand.urlTemplate` must be a URL that begins with `https://`"
                .to_owned(),
        ));
    }
    let mut url = fill(template, title, info);
    if url.len() > MAX_URL_LENGTH {
        url = fill(template, title, "");
    }
    Ok(Some(url))
}

/// Location of the documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocsLocation {
    /// On the web (`advanced.docsUrl`).
    Url(String),
    /// On this machine: the first page.
    File(PathBuf),
}

/// `/docs`: returns the URL from settings, otherwise the pages installed with the program;
/// `None` if there are neither. Blocking.
pub fn docs(config: &Config) -> Option<DocsLocation> {
    let set = config.settings.text("advanced.docsUrl");
    let is_web = |url: &String| ["https://", "http://"].iter().any(|it| url.starts_with(it));
    if let Some(url) = set.filter(is_web) {
        return Some(DocsLocation::Url(url));
    }
    let program = std::env::current_exe().and_then(std::fs::canonicalize).ok()?;
    // Installed, unpacked next to the program, or built from source.
    let candidates = ["../share/doc/parallax/index.md", "docs/index.md", "../../docs/index.md"];
    let directory = program.parent()?;
    let pages = candidates.into_iter().map(|candidate| directory.join(candidate));
    pages
        .filter_map(|page| page.canonicalize().ok())
        .find(|page| page.is_file())
        .map(DocsLocation::File)
}

/// Fills in placeholders in one pass, so that inserted text is not expanded again.
fn fill(template: &str, title: &str, info: &str) -> String {
    let mut url = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(offset) = rest.find('{') {
        let (before, from) = rest.split_at(offset);
        url.push_str(before);
        let fields = [("{title}", title), ("{info}", info), ("{problem}", title)];
        match fields.iter().find(|(name, _)| from.starts_with(name)) {
            Some((name, text)) => {
                url.push_str(&percent_encoded(text));
                rest = from.get(name.len()..).unwrap_or_default();
            }
            None => {
                url.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    url.push_str(rest);
    url
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_argument_is_encoded_once() {
        assert_eq!(
            fill("https://x/?t={title}&i={info}&p={problem}&{y}", "a {info} & ü", "1\n2"),
            "https://x/?t=a%20%7Binfo%7D%20%26%20%C3%BC&i=1%0A2&p=a%20%7Binfo%7D%20%26%20%C3%BC&{y}"
        );
    }
}
