//! Checks the result of a run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use parallax_exec::ProcessExit;
use serde_json::Value;

use crate::agent::{AgentRun, describe_exit, run_confined};
use crate::case::Case;
use crate::check::{Check, expression, schema};
use crate::results::CheckResult;

/// Maximum size in bytes of a checked file.
const MAX_FILE: u64 = 16 << 20;
/// Time limit of a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);
/// Maximum number of characters of a detail.
const MAX_DETAIL: usize = 400;

/// The result of a run.
pub(crate) struct CaseOutcome<'a> {
    pub(crate) case: &'a Case,
    /// The path of the agent program, which sandboxes commands.
    pub(crate) program: &'a Path,
    pub(crate) workspace: &'a Path,
    pub(crate) conversation: &'a AgentRun,
}

impl CaseOutcome<'_> {
    /// Runs all checks of the case.
    pub(crate) async fn check(&self) -> Vec<CheckResult> {
        let mut results = Vec::new();
        for check in &self.case.checks {
            let found = self.problem(check).await;
            results.push(CheckResult {
                kind: check.kind().to_owned(),
                pass: found.is_none(),
                detail: found.map(|text| text.chars().take(MAX_DETAIL).collect()),
            });
        }
        results
    }

    /// Returns what is wrong; `None` if the check passed.
    async fn problem(&self, check: &Check) -> Option<String> {
        let tools: Vec<&str> =
            self.conversation.calls.iter().map(|call| call.tool.as_str()).collect();
        let calls = |tool: &str| tools.iter().filter(|it| **it == tool).count();
        match check {
            Check::FileEquals { path, content } => match self.read(path) {
                Err(problem) => Some(problem),
                Ok(bytes) if bytes == content.as_bytes() => None,
                Ok(bytes) => Some(first_difference(content, &String::from_utf8_lossy(&bytes))),
            },
            Check::FileMatches { path, pattern } => match self.read(path) {
                Err(problem) => Some(problem),
                Ok(bytes) => mismatch(pattern, &String::from_utf8_lossy(&bytes)),
            },
            Check::Command { run } => self.run(run).await,
            Check::ToolCalled { tool } => (calls(tool) == 0)
                .then(|| format!("`{tool}` was not called; called tools: {}", list(&tools))),
            Check::ToolNotCalled { tool } => {
                let count = calls(tool);
                (count > 0).then(|| format!("`{tool}` was called {count} times"))
            }
            Check::ToolOrder { tools: wanted } => {
                let mut called = tools.iter();
                let missing = wanted.iter().find(|tool| !called.any(|it| it == tool));
                missing.map(|tool| {
                    format!("`{tool}` was not called in order; called tools: {}", list(&tools))
                })
            }
            Check::ToolAtMost { tool, n } => {
                let count = calls(tool);
                (count > *n).then(|| format!("`{tool}` was called {count} times"))
            }
            Check::AnswerMatches { pattern } => mismatch(pattern, &self.conversation.answer),
            Check::AnswerSchema { schema: file } => {
                let answer = json_of(&self.conversation.answer);
                let validator = match schema(&self.case.directory.join(file)) {
                    Ok(validator) => validator,
                    Err(problem) => return Some(problem),
                };
                match answer {
                    Err(error) => Some(format!("the answer is not JSON: {error}")),
                    Ok(answer) => validator
                        .iter_errors(&answer)
                        .next()
                        .map(|error| format!("{} at `{}`", error, error.instance_path())),
                }
            }
            Check::TokensAtMost { n } => {
                let used = self.conversation.tokens;
                (used > *n).then(|| format!("the run used {used} tokens"))
            }
            Check::CostAtMost { usd } => match self.conversation.cost {
                None => Some("the price of the model is unknown".to_owned()),
                Some(cost) => (cost > *usd).then(|| format!("the run cost ${cost:.4}")),
            },
        }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let to_error = |problem: String| format!("`{}`: {problem}", path.display());
        let actual_path = self.workspace.join(path);
        // The agent may have created a link to another place.
        let real = actual_path.canonicalize().map_err(|error| to_error(error.to_string()))?;
        if !real.starts_with(self.workspace) || !real.is_file() {
            return Err(to_error("it is not a file of the project".to_owned()));
        }
        let mut bytes = Vec::new();
        let read = File::open(real).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(|error| to_error(error.to_string()))
    }

    /// Runs a command in the agent's sandbox, because a model wrote files in the project.
    async fn run(&self, command: &str) -> Option<String> {
        match run_confined(self.program, self.workspace, command, COMMAND_LIMIT).await {
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                Some(format!("`{command}` ran for more than {} s", COMMAND_LIMIT.as_secs()))
            }
            Err(error) => Some(format!("`{command}` cannot be run: {error}")),
            Ok(output) if output.exit == (ProcessExit::Exited { code: 0 }) => None,
            Ok(output) => {
                let texts = [&output.stderr, &output.stdout];
                let first_text = texts.into_iter().find(|text| !text.is_empty());
                let output_text =
                    String::from_utf8_lossy(first_text.map_or(&[], Vec::as_slice)).into_owned();
                let lines: Vec<&str> = output_text.trim().lines().collect();
                let end = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default();
                Some(format!("`{command}`: {}: {}", describe_exit(output.exit), end.join(" / ")))
            }
        }
    }
}

fn list(tools: &[&str]) -> String {
    match tools {
        [] => "none".to_owned(),
        tools => tools.join(", "),
    }
}

fn mismatch(pattern: &str, text: &str) -> Option<String> {
    match expression(pattern) {
        Err(error) => Some(error.to_string()),
        Ok(expression) if expression.is_match(text) => None,
        Ok(_) => {
            let end: Vec<char> = text.trim().chars().rev().take(200).collect();
            let end: String = end.into_iter().rev().collect();
            Some(format!("nothing matches `{pattern}`; the end is: {end}"))
        }
    }
}

fn first_difference(expected: &str, found: &str) -> String {
    let lines = expected.lines().zip(found.lines());
    match lines.enumerate().find(|(_, (requested, found))| requested != found) {
        Some((number, (wanted, found))) => {
            format!("line {} is {found:?} instead of {wanted:?}", number + 1)
        }
        None => format!("the content has {} bytes instead of {}", found.len(), expected.len()),
    }
}

/// Parses the JSON of an answer, which may be in a fenced block.
pub(crate) fn json_of(answer: &str) -> Result<Value, serde_json::Error> {
    let text = answer.trim();
    let fenced = text.split_once("```").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once('\n')?;
        rest.rsplit_once("```").map(|(inside, _)| inside)
    });
    serde_json::from_str(text).or_else(|error| match fenced {
        Some(inside) => serde_json::from_str(inside),
        None => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_fences_are_read() {
        for text in ["{\"a\": 1}", " {\"a\": 1}\n", "Here:\n```json\n{\"a\": 1}\n```\n"] {
            let value = json_of(text).expect("JSON");
            assert_eq!(value["a"], 1);
        }
        assert!(json_of("a: 1").is_err());
    }

    #[test]
    fn differences_are_reported() {
        assert!(first_difference("a\nb\n", "a\nc\n").contains("line 2 is \"c\""));
        assert!(first_difference("a\n", "a").contains("1 bytes instead of 2"));
        assert_eq!(mismatch("^b$", "a\nb\nc"), None);
        assert!(mismatch("^d$", "a").expect("a problem").contains("nothing matches"));
    }
}
