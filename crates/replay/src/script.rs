//! The file format of scripted and recorded models.
//!
//! One JSON object per line; empty lines are skipped. The format is that of Gemini CLI's testing
//! flags, with additions:
//!
//! | key | meaning |
//! | --- | --- |
//! | `method` | `generateContentStream` or `generateContent` (`countTokens` and `embedContent` are accepted but never requested) |
//! | `response` | for a stream, a list of chunks (at least one), otherwise one object, in the format of the API; an `{"error": …}` object among the chunks is an error of the service |
//! | `when` | conditions, all of which must be true: `lastToolResultContains`, `lastToolResultLacks`, `promptContains` (strings). A line whose conditions are false is skipped for this request and can be used later |
//! | `vars` | values for this and later lines: name → JSON pointer into the last tool result (`"/path/0"`), or a regular expression whose first group is taken from its text (`"id=(\\d+)"`), or `{"from": "prompt", "regex": …}` |
//! | `delayMs` | a delay before each chunk (a number), or before the first, second, … chunk (a list) |
//! | `request`, `error`, `retries` | written by recordings; no other keys are allowed |
//!
//! In the strings of a response, these placeholders are replaced: `${cwd}`, `${prompt}` (the last
//! prompt as typed), `${result.N}` and `${result.last}` (the text of a tool result, counted from
//! 1), `${result.N.some.key}` (a value inside it), and `${var.NAME}`. A string that consists of a
//! single placeholder takes the type of the value. `$${` is an escaped `${`; other `${…}` are
//! unchanged.
//!
//! A request uses the first unused line of its method.

mod read;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use parallax_protocol::model::{ModelError, Request};
use regex::Regex;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::digest::{Digest, DigestMode, reproducible_content};
use crate::recorded_error::RecordedError;
use crate::recording_redaction::Secrets;
use crate::regular_file::{self, FileReadError};
use crate::scene::{self, ScriptScene};
use parallax_protocol::excerpt::truncate;

/// Maximum size of a script.
const MAX_BYTES: u64 = 512 << 20;
/// Maximum delay of a chunk.
const MAX_DELAY: u64 = 600_000;

/// A script that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("failed to read the script `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// It is a directory, a pipe, or a device.
    #[error("failed to read the script `{path}`: it is {kind}, not a regular file")]
    NotAFile {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// It is too large.
    #[error("failed to read the script `{path}`: it is larger than 512 MiB")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// It has no lines.
    #[error("the script `{name}` is empty: it requires a line for each call of the model")]
    Empty {
        /// The script's name.
        name: String,
    },
    /// A line is invalid.
    #[error("{name}:{line}: {reason}")]
    ScriptLine {
        /// The script's name.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

impl From<ScriptError> for ModelError {
    fn from(error: ScriptError) -> Self {
        Self::Script { message: error.to_string() }
    }
}

/// One line of a script.
#[derive(Debug)]
pub(crate) struct ScriptLine {
    pub(crate) number: usize,
    method: String,
    chunks: Vec<Box<RawValue>>,
    conditions: ScriptConditions,
    vars: Vec<(String, Capture)>,
    delays: Vec<u64>,
    delay: u64,
    pub(crate) error: Option<RecordedError>,
    pub(crate) digest: Option<Digest>,
}

#[derive(Debug, Default)]
struct ScriptConditions {
    last_tool_result_contains: Option<String>,
    last_tool_result_lacks: Option<String>,
    prompt_contains: Option<String>,
}

#[derive(Debug)]
enum Capture {
    Pointer(String),
    Regex { regex: Regex, from_prompt: bool },
}

impl ScriptConditions {
    fn are_met(&self, scene: &ScriptScene<'_>) -> bool {
        let result_has = |text: &String| {
            scene.last_result().is_some_and(|result| {
                scene::text_of(&result).contains(text) || result.to_string().contains(text)
            })
        };
        self.last_tool_result_contains.as_ref().is_none_or(result_has)
            && !self.last_tool_result_lacks.as_ref().is_some_and(result_has)
            && self.prompt_contains.as_ref().is_none_or(|text| scene.prompt().contains(text))
    }
}

/// The reply of a line, with its placeholders replaced.
pub(crate) struct ScriptReply {
    /// Each chunk's JSON and the delay before it.
    pub(crate) chunks: Vec<(Duration, String)>,
    pub(crate) error: Option<RecordedError>,
}

/// A loaded script and its state.
#[derive(Debug)]
pub(crate) struct Script {
    name: String,
    lines: Vec<ScriptLine>,
    state: Mutex<ScriptState>,
}

#[derive(Debug, Default)]
struct ScriptState {
    used_lines: Vec<bool>,
    vars: BTreeMap<String, Value>,
}

impl Script {
    pub(crate) fn from_file(path: &Path) -> Result<Self, ScriptError> {
        let name = path.display().to_string();
        let bytes = regular_file::read(path, MAX_BYTES).map_err(|error| match error {
            FileReadError::Special(kind) => ScriptError::NotAFile { path: name.clone(), kind },
            FileReadError::TooLarge => ScriptError::TooLarge { path: name.clone() },
            FileReadError::Io(source) => ScriptError::Read { path: name.clone(), source },
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
            let line = good.filter(|byte| **byte == b'\n').count() + 1;
            ScriptError::ScriptLine {
                name: name.clone(),
                line,
                reason: "this is not UTF-8 text".to_owned(),
            }
        })?;
        Self::from_text(&name, &text)
    }

    pub(crate) fn from_text(name: &str, text: &str) -> Result<Self, ScriptError> {
        let mut lines = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let line = read::parse_script_line(line, index + 1).map_err(|reason| {
                ScriptError::ScriptLine { name: name.to_owned(), line: index + 1, reason }
            })?;
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(ScriptError::Empty { name: name.to_owned() });
        }
        let state = ScriptState { used_lines: vec![false; lines.len()], ..ScriptState::default() };
        Ok(Self { name: name.to_owned(), lines, state: Mutex::new(state) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Uses the first unused line of the method that matches, and returns its reply. `matches_call`
    /// may add a condition.
    pub(crate) fn take_reply(
        &self,
        method: &str,
        request: &Request,
        cwd: &Path,
        matches_call: &dyn Fn(&ScriptLine) -> bool,
    ) -> Result<Option<ScriptReply>, ModelError> {
        let scene = ScriptScene::new(request, cwd);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ScriptState { used_lines, vars } = &mut *state;
        let unused = self.lines.iter().zip(used_lines.iter_mut()).filter(|(_, used)| !**used);
        let found = unused
            .filter(|(line, _)| line.method == method)
            .find(|(line, _)| matches_call(line) && line.conditions.are_met(&scene));
        let Some((line, used)) = found else { return Ok(None) };
        *used = true;
        let fail = |reason: String| ModelError::Script {
            message: format!("{}:{}: {reason}{}", self.name, line.number, last_content(request)),
        };
        for (name, capture) in &line.vars {
            let value = capture.evaluate(&scene);
            let value = value.ok_or_else(|| {
                fail(format!("the variable `{name}` matches nothing in the last tool result"))
            })?;
            vars.insert(name.clone(), value);
        }
        let mut chunks = Vec::with_capacity(line.chunks.len());
        for (index, raw) in line.chunks.iter().enumerate() {
            let text = scene::fill(raw.get(), &scene, vars).map_err(fail)?;
            let delay = line.delays.get(index).copied().unwrap_or(line.delay).min(MAX_DELAY);
            chunks.push((Duration::from_millis(delay), text));
        }
        Ok(Some(ScriptReply { chunks, error: line.error.clone() }))
    }

    /// Passes the first unused line of a method to `describe`, to report what was expected.
    pub(crate) fn with_next<T>(
        &self,
        method: &str,
        describe: impl Fn(&ScriptLine) -> T,
    ) -> Option<T> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = self.lines.iter().zip(&state.used_lines).filter(|(_, used)| !**used);
        unused.map(|(line, _)| line).find(|line| line.method == method).map(describe)
    }

    /// Returns the error for a request without a matching line.
    pub(crate) fn exhausted_error(
        &self,
        method: &str,
        request: &Request,
        flag: &str,
    ) -> ModelError {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |used: bool, same: bool| {
            let lines = self.lines.iter().zip(&state.used_lines);
            lines.filter(|(line, is)| **is == used && (line.method == method) == same).count()
        };
        let (left, others) = (count(false, true), count(false, false));
        let used = count(true, true) + count(true, false);
        let reason = if left > 0 {
            format!("none of the {left} unused `{method}` lines matches the request")
        } else {
            format!(
                "no unused `{method}` line is left ({used} lines used, {others} unused of other methods)"
            )
        };
        ModelError::Script {
            message: format!(
                "the script `{}` ({flag}) has no answer: {reason}{}",
                self.name,
                last_content(request)
            ),
        }
    }
}

impl Capture {
    fn evaluate(&self, scene: &ScriptScene<'_>) -> Option<Value> {
        match self {
            Self::Pointer(pointer) => {
                let result = scene.last_result()?;
                let inside = scene::output_json(&result);
                let found = inside.as_ref().and_then(|inside| inside.pointer(pointer));
                found.or_else(|| result.pointer(pointer)).cloned()
            }
            Self::Regex { regex, from_prompt } => {
                let text = if *from_prompt {
                    scene.prompt()
                } else {
                    scene::text_of(&scene.last_result()?)
                };
                let found = regex.captures(&text)?;
                let group = found.get(1).or_else(|| found.get(0))?;
                Some(Value::String(group.as_str().to_owned()))
            }
        }
    }
}

fn last_content(request: &Request) -> String {
    match request.contents.last() {
        Some(content) => {
            let json = reproducible_content(content, &Secrets::default(), DigestMode::Exact);
            format!("; the request ended with {}", truncate(&json, 600))
        }
        None => "; the request was empty".to_owned(),
    }
}
