//! The tool calls of a history with their results.

use std::collections::BTreeMap;

use parallax_protocol::Object;
use parallax_protocol::content::{PartView, SealedContent};
use serde_json::Value;

/// A call and its result.
#[derive(Debug)]
pub(crate) struct CallResult {
    /// The index of the content with the result.
    pub(crate) content: usize,
    /// The index of the part in that content.
    pub(crate) part: usize,
    /// The tool.
    pub(crate) name: String,
    pub(crate) args: Object,
    /// The text that the model read.
    pub(crate) text: String,
    /// Whether it was an error.
    pub(crate) failed: bool,
}

impl CallResult {
    /// Returns the file that the arguments name, if any.
    pub(crate) fn path(&self) -> Option<&str> {
        let named = ["file_path", "absolute_path", "path"].into_iter();
        named.filter_map(|key| self.args.get(key)).find_map(Value::as_str)
    }
}

/// Returns all calls with results, in order.
pub(crate) fn answered_calls<'a>(
    contents: impl Iterator<Item = &'a SealedContent>,
) -> Vec<CallResult> {
    let mut found = Vec::new();
    let mut open: Vec<(String, Object)> = Vec::new();
    for (index, sealed) in contents.enumerate() {
        let json = sealed.json();
        if !json.contains("\"functionCall\"") && !json.contains("\"functionResponse\"") {
            open.clear();
            continue;
        }
        let Ok(content) = sealed.open() else { continue };
        let mut calls = std::mem::take(&mut open).into_iter();
        for (part, view) in content.parts.iter().map(|part| part.view()).enumerate() {
            let PartView::Response(response) = view else { continue };
            let args = calls.next().map(|(_, args)| args).unwrap_or_default();
            let (text, failed) = text_of(response.response);
            let name = response.name.to_owned();
            found.push(CallResult { content: index, part, name, args, text, failed });
        }
        open = content
            .calls()
            .map(|call| (call.name.to_owned(), call.args.cloned().unwrap_or_default()))
            .collect();
    }
    found
}

/// Returns the text that the model reads of a response, and whether it is an error.
fn text_of(response: Option<&Value>) -> (String, bool) {
    let Some(response) = response else { return (String::new(), false) };
    let field = |key: &str| response.get(key).and_then(Value::as_str);
    match (field("output"), field("error")) {
        (Some(output), None) => (output.to_owned(), false),
        (Some(output), Some(error)) => (format!("{error}\n{output}"), true),
        (None, Some(error)) => (error.to_owned(), true),
        (None, None) => (response.to_string(), false),
    }
}

/// How often each file was read and changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileActivity {
    pub(crate) read_count: usize,
    pub(crate) changes: usize,
}

/// Returns the files that calls used, by path. `changes` tells whether a tool changes files.
pub(crate) fn files(
    calls: &[CallResult],
    changes: impl Fn(&str) -> bool,
) -> BTreeMap<String, FileActivity> {
    let mut files: BTreeMap<String, FileActivity> = BTreeMap::new();
    for call in calls.iter().filter(|call| !call.failed) {
        let Some(path) = call.path() else { continue };
        if changes(&call.name) {
            files.entry(path.to_owned()).or_default().changes += 1;
        } else if call.name.starts_with("read_") {
            files.entry(path.to_owned()).or_default().read_count += 1;
        }
    }
    files
}
