//! Cases: `case.toml` and the files next to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::check::Check;
use crate::error::EvalError;

/// The file that makes a directory a case.
const FILE: &str = "case.toml";
/// Maximum size of this file in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum depth of the search for cases.
const MAX_DEPTH: usize = 6;
const APPROVAL_MODES: &[&str] = &["default", "auto_edit", "yolo", "plan"];

/// A task and the checks of its result.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name: the path of its directory relative to the searched path.
    pub name: String,
    /// The directory.
    pub directory: PathBuf,
    /// The prompts, sent in order.
    pub prompts: Vec<String>,
    /// Shell commands that prepare the project.
    pub setup: Vec<String>,
    /// The approval mode.
    pub approval_mode: String,
    /// Tags to group results by.
    pub tags: Vec<String>,
    /// The limits of a run.
    pub limits: CaseLimits,
    /// The checks of the result.
    pub checks: Vec<Check>,
    /// The model that judges the answer, if any.
    pub judge: Option<Judge>,
}

/// `[limits]`: the limits of a run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseLimits {
    /// The time limit: seconds, or a string such as `90s` or `5m`.
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    /// Maximum number of model requests.
    pub max_turns: Option<u32>,
    /// Maximum cost in US dollars.
    pub max_cost: Option<f64>,
    /// Maximum number of tokens.
    pub max_tokens: Option<u64>,
}

/// `[judge]`: a model that judges the prompt, the answer, and the changes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// The model; `None` for that of the run.
    pub model: Option<String>,
    /// The criteria.
    pub rubric: String,
}

/// The contents of `case.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    prompt: Option<String>,
    #[serde(default)]
    prompts: Vec<String>,
    #[serde(default, deserialize_with = "deserialize_one_or_many")]
    setup: Vec<String>,
    approval_mode: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    limits: CaseLimits,
    #[serde(default)]
    checks: Vec<Check>,
    judge: Option<Judge>,
}

fn deserialize_one_or_many<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Setup {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Setup::deserialize(source)? {
        Setup::One(command) => vec![command],
        Setup::Many(commands) => commands,
    })
}

fn duration<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Time {
        Seconds(f64),
        Text(String),
    }
    let seconds = match Time::deserialize(source)? {
        Time::Seconds(seconds) => Some(seconds),
        Time::Text(text) => {
            let text = text.trim();
            let (number, unit) = match text.strip_suffix("ms") {
                Some(number) => (number, 0.001),
                None => match text.chars().last() {
                    Some('s') => (text.trim_end_matches('s'), 1.0),
                    Some('m') => (text.trim_end_matches('m'), 60.0),
                    Some('h') => (text.trim_end_matches('h'), 3600.0),
                    _ => (text, 1.0),
                },
            };
            number.trim().parse::<f64>().ok().map(|number| number * unit)
        }
    };
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| !time.is_zero());
    time.map(Some).ok_or_else(|| {
        serde::de::Error::custom(
            "a duration must be a number of seconds, or a string such as `90s` or \
            `5m`",
        )
    })
}

impl Case {
    /// Reads the case in a directory. Blocking.
    ///
    /// # Errors
    /// Returns an error if `case.toml` cannot be read or is invalid.
    pub fn load(directory: &Path, name: String) -> Result<Self, EvalError> {
        let file = directory.join(FILE);
        let to_error = |problem: String| EvalError::path(&file, problem);
        let size = std::fs::metadata(&file).map_err(|error| to_error(error.to_string()))?.len();
        if size > MAX_BYTES {
            return Err(to_error(format!("the file has more than {MAX_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| to_error(error.to_string()))?;
        let read: CaseFile =
            toml::from_str(&text).map_err(|error| to_error(error.to_string().trim().to_owned()))?;
        let prompts = match (read.prompt, read.prompts) {
            (Some(prompt), prompts) if prompts.is_empty() => vec![prompt],
            (None, prompts) if !prompts.is_empty() => prompts,
            _ => return Err(to_error("set either `prompt` or `prompts`".to_owned())),
        };
        if prompts.iter().any(|prompt| prompt.trim().is_empty()) {
            return Err(to_error("a prompt is empty".to_owned()));
        }
        let approval_mode = read.approval_mode.unwrap_or_else(|| "yolo".to_owned());
        if !APPROVAL_MODES.contains(&approval_mode.as_str()) {
            let known = APPROVAL_MODES.join("`, `");
            return Err(to_error(format!("`approval_mode` must be one of `{known}`")));
        }
        if read.checks.is_empty() && read.judge.is_none() {
            return Err(to_error("nothing is checked: add `[[checks]]` or a `[judge]`".to_owned()));
        }
        for (number, check) in read.checks.iter().enumerate() {
            if let Some(problem) = check.problem(directory) {
                let kind = check.kind();
                return Err(to_error(format!("check {} (`{kind}`): {problem}", number + 1)));
            }
        }
        Ok(Self {
            name,
            directory: directory.to_owned(),
            prompts,
            setup: read.setup,
            approval_mode,
            tags: read.tags,
            limits: read.limits,
            checks: read.checks,
            judge: read.judge,
        })
    }

    /// Returns the path of its recording.
    pub fn recording(&self) -> PathBuf {
        self.directory.join("recording.jsonl")
    }

    /// Returns the path of the recording of its judge.
    pub(crate) fn judge_recording_path(&self) -> PathBuf {
        self.directory.join("judge.jsonl")
    }
}

/// Finds the cases in files and directories: a `case.toml`, a directory with one, or a directory
/// with such directories below it. Blocking.
///
/// # Errors
/// Returns an error if there is no case, if one is invalid, or if two have the same name.
pub fn find_cases(paths: &[PathBuf]) -> Result<Vec<Case>, EvalError> {
    let mut cases: Vec<Case> = Vec::new();
    let mut directories = BTreeSet::new();
    for path in paths {
        let real = path.canonicalize().map_err(|error| EvalError::path(path, error))?;
        let mut is_case = false;
        if real.is_file() {
            if real.file_name().is_none_or(|name| name != FILE) {
                return Err(EvalError::path(path, "a case is a directory or its `case.toml`"));
            }
            let directory = real.parent().unwrap_or(&real).to_owned();
            if directories.insert(directory.clone()) {
                cases.push(Case::load(&directory, name_of(&directory))?);
            }
            continue;
        }
        let mut waiting = vec![(real.clone(), 0)];
        while let Some((directory, depth)) = waiting.pop() {
            if directory.join(FILE).is_file() {
                is_case = true;
                if directories.insert(directory.clone()) {
                    let relative = directory.strip_prefix(&real).unwrap_or(&directory);
                    let name = match relative.as_os_str().is_empty() {
                        true => name_of(&directory),
                        false => relative.to_string_lossy().into_owned(),
                    };
                    cases.push(Case::load(&directory, name)?);
                }
                continue;
            }
            if depth == MAX_DEPTH {
                continue;
            }
            let entries = std::fs::read_dir(&directory)
                .map_err(|error| EvalError::path(&directory, error))?;
            let subdirectories = entries.flatten().filter(|entry| {
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
                !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir())
            });
            waiting.extend(subdirectories.map(|entry| (entry.path(), depth + 1)));
        }
        if !is_case {
            return Err(EvalError::path(
                path,
                "no case found: a case is a directory with `case.toml`",
            ));
        }
    }
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    let twice = cases.windows(2).find(|pair| pair[0].name == pair[1].name);
    if let Some([one, other]) = twice {
        return Err(EvalError::Usage(format!(
            "two cases have the name `{}`: `{}` and `{}`",
            one.name,
            one.directory.display(),
            other.directory.display()
        )));
    }
    Ok(cases)
}

fn name_of(directory: &Path) -> String {
    directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Case, String> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join(FILE), text).expect("written");
        Case::load(directory.path(), "c".to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn complete_case_is_parsed() {
        let case = load(
            r#"
            prompts = ["one", "two"]
            setup = ["true"]
            approval_mode = "plan"
            tags = ["edit"]
            [limits]
            timeout = "2m"
            max_turns = 9
            max_cost = 0.5
            max_tokens = 1000
            [[checks]]
            kind = "file_equals"
            path = "a.txt"
            content = "x"
            [[checks]]
            kind = "tool_order"
            tools = ["read_file", "replace"]
            [[checks]]
            kind = "tool_at_most"
            tool = "read_file"
            n = 2
            [judge]
            model = "flash"
            rubric = "It is polite."
            "#,
        )
        .expect("valid");
        assert_eq!(case.prompts, ["one", "two"]);
        assert_eq!(case.limits.timeout, Some(Duration::from_secs(120)));
        assert_eq!(case.checks.iter().map(Check::kind).next_back(), Some("tool_at_most"));
    }

    #[test]
    fn invalid_cases_name_the_problem() {
        let check = "[[checks]]\nkind = \"command\"\nrun = \"true\"\n";
        for (text, words) in [
            (check.to_owned(), "`prompt`"),
            (format!("prompt = \"x\"\nprompts = [\"y\"]\n{check}"), "either"),
            ("prompt = \"x\"".to_owned(), "nothing is checked"),
            (format!("prompt = \"x\"\nsetupp = 1\n{check}"), "setupp"),
            (format!("prompt = \"x\"\napproval_mode = \"all\"\n{check}"), "auto_edit"),
            ("prompt = \"x\"\n[[checks]]\nkind = \"smell\"".to_owned(), "smell"),
            (
                "prompt = \"x\"\n[[checks]]\nkind = \"file_matches\"\npath = \"../a\"\npattern = \"\"".to_owned(),
                "inside the project",
            ),
            (
                "prompt = \"x\"\n[[checks]]\nkind = \"answer_matches\"\npattern = \"(\"".to_owned(),
                "check 1",
            ),
            (format!("prompt = \"x\"\n{check}[limits]\ntimeout = \"soon\""), "90s"),
        ] {
            let error = load(&text).expect_err("invalid");
            assert!(error.contains(words), "{text}: {error}");
            assert!(error.contains(FILE), "{error}");
        }
    }
}
