//! Plans: TOML or JSON Lines, read into tasks.

mod expand;

pub(crate) use expand::slug;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_protocol::policy::ApprovalMode;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::BatchError;
use expand::RawPlan;

/// Maximum size in bytes of a plan or a prompt file.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of characters of an id.
pub(crate) const MAX_ID_LENGTH: usize = 100;

/// Tasks that run as one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where it was read from.
    pub file: PathBuf,
    /// The tasks, in order, with different ids.
    pub tasks: Vec<PlannedTask>,
}

/// One prompt in one repository.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTask {
    /// Its name, and the name of its result directory.
    pub id: String,
    /// The repository.
    pub repository: Repository,
    /// The revision that the work starts from; `None`: `HEAD`.
    pub reference: Option<String>,
    /// The prompt.
    pub prompt: String,
    /// The model; `None`: that of the settings.
    pub model: Option<String>,
    /// The approval mode; `None`: that of the settings.
    pub approval_mode: Option<ApprovalMode>,
    /// Cost limit in US dollars.
    pub max_cost: Option<f64>,
    /// Time limit of the agent.
    pub timeout: Option<Duration>,
    /// Commands before the agent.
    pub setup: Vec<String>,
    /// Commands after the agent, all of which must succeed.
    pub check: Vec<String>,
    /// Variables to set when the task runs in another environment.
    pub env: Vec<String>,
    /// Labels of the user, repeated in the result.
    pub labels: BTreeMap<String, String>,
}

/// The source of the files of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repository {
    /// A directory.
    Directory(PathBuf),
    /// Something that `git clone` takes.
    Url(String),
}

/// A task as written in the plan. Every field but `id` may come from the defaults.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTask {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_mode: Option<ApprovalMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    setup: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, String>>,
}

/// A duration: a number of seconds, or text such as `10m`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seconds(f64);

impl Serialize for Seconds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum DurationValue {
            Number(f64),
            Text(String),
        }
        let seconds = match DurationValue::deserialize(deserializer)? {
            DurationValue::Number(seconds) => Some(seconds),
            DurationValue::Text(text) => seconds_of(&text),
        };
        let valid = seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        valid.map(Seconds).ok_or_else(|| {
            serde::de::Error::custom("expected a duration such as 90, \"90s\", \"10m\", or \"1h\"")
        })
    }
}

/// Parses a duration such as `90`, `10m`, or `1h` as seconds.
pub fn seconds_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0)];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    number.parse::<f64>().ok().map(|number| number * factor)
}

impl Plan {
    /// Reads a plan. Paths in it are relative to its directory. The plan of a directory consists of
    /// all of its `*.jsonl` files in order. Blocking.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is not a plan.
    pub fn load(file: &Path) -> Result<Self, BatchError> {
        let text = if file.is_dir() { read_parts(file)? } else { read_text(file)? };
        Self::parse(file, &text)
    }

    /// Reads the text of a plan that is, or will be, in this file.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid or names a file that cannot be read.
    pub fn parse(file: &Path, text: &str) -> Result<Self, BatchError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let is_toml = file.extension().is_some_and(|extension| extension == "toml");
        let raw = if is_toml { RawPlan::from_toml(text) } else { RawPlan::from_json_lines(text) };
        let invalid = |message: String| BatchError::Plan { file: file.to_owned(), message };
        let directory = match file.parent() {
            _ if file.is_dir() => file.to_owned(),
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let directory = directory
            .canonicalize()
            .map_err(|source| BatchError::Read { file: directory.clone(), source })?;
        let mut tasks = Vec::new();
        let mut ids = BTreeSet::new();
        for (number, raw) in raw.and_then(RawPlan::expand).map_err(invalid)?.into_iter().enumerate()
        {
            let name = raw.id.clone().unwrap_or_else(|| format!("number {}", number + 1));
            let task = raw.finish(&directory).map_err(|error| match error {
                TaskError::Invalid(message) => invalid(format!("task `{name}`: {message}")),
                TaskError::Read(error) => error,
            })?;
            if !ids.insert(task.id.to_lowercase()) {
                return Err(invalid(format!("two tasks have the id `{}`", task.id)));
            }
            tasks.push(task);
        }
        if tasks.is_empty() {
            return Err(invalid("the plan has no tasks".to_owned()));
        }
        Ok(Self { file: file.to_owned(), tasks })
    }
}

/// Why a task cannot be used.
enum TaskError {
    Invalid(String),
    Read(BatchError),
}

impl RawTask {
    /// Takes unset fields from `defaults`.
    fn with_defaults(self, defaults: &Self) -> Self {
        let has_prompt = self.prompt.is_some() || self.prompt_file.is_some();
        let prompt_of = |value: &Self| if has_prompt { None } else { value.prompt.clone() };
        let file_of = |value: &Self| if has_prompt { None } else { value.prompt_file.clone() };
        let mut labels = defaults.labels.clone().unwrap_or_default();
        labels.extend(self.labels.unwrap_or_default());
        Self {
            id: self.id.or_else(|| defaults.id.clone()),
            repo: self.repo.or_else(|| defaults.repo.clone()),
            r#ref: self.r#ref.or_else(|| defaults.r#ref.clone()),
            prompt: self.prompt.or_else(|| prompt_of(defaults)),
            prompt_file: self.prompt_file.or_else(|| file_of(defaults)),
            model: self.model.or_else(|| defaults.model.clone()),
            approval_mode: self.approval_mode.or(defaults.approval_mode),
            max_cost: self.max_cost.or(defaults.max_cost),
            timeout: self.timeout.or(defaults.timeout),
            setup: self.setup.or_else(|| defaults.setup.clone()),
            check: self.check.or_else(|| defaults.check.clone()),
            env: self.env.or_else(|| defaults.env.clone()),
            labels: Some(labels),
        }
    }

    fn finish(self, directory: &Path) -> Result<PlannedTask, TaskError> {
        let invalid = |message: &str| TaskError::Invalid(message.to_owned());
        let id = self.id.ok_or_else(|| invalid("`id` is missing"))?;
        if !is_valid_id(&id) {
            return Err(TaskError::Invalid(format!(
                "an id must consist of at most {MAX_ID_LENGTH} letters, digits, `-`, `_`, and `.`, \
                 and begin with a letter or digit"
            )));
        }
        let prompt = match (self.prompt, self.prompt_file) {
            (Some(_), Some(_)) => {
                return Err(invalid("`prompt` and `prompt_file` cannot be used together"));
            }
            (Some(prompt), None) => prompt,
            (None, Some(file)) => read_text(&directory.join(file)).map_err(TaskError::Read)?,
            (None, None) => return Err(invalid("`prompt` or `prompt_file` is missing")),
        };
        if prompt.trim().is_empty() {
            return Err(invalid("the prompt is empty"));
        }
        if self.max_cost.is_some_and(|cost| !(cost.is_finite() && cost > 0.0)) {
            return Err(invalid("`max_cost` must be greater than zero"));
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !self.env.iter().flatten().all(is_name) {
            return Err(invalid("`env` must list names of variables"));
        }
        let has_nul =
            |lines: &Option<Vec<String>>| lines.iter().flatten().any(|it| it.contains('\0'));
        if has_nul(&self.setup) || has_nul(&self.check) {
            return Err(invalid("`setup` and `check` must not contain NUL characters"));
        }
        let repository = match self.repo {
            Some(repo) if is_url(&repo) => Repository::Url(repo),
            Some(repo) if repo.starts_with('-') || repo.trim().is_empty() => {
                return Err(invalid("`repo` must be a path or a URL"));
            }
            Some(repo) => Repository::Directory(directory.join(repo)),
            None => Repository::Directory(directory.to_owned()),
        };
        let timeout = self.timeout.map(|Seconds(seconds)| Duration::try_from_secs_f64(seconds));
        Ok(PlannedTask {
            id,
            repository,
            reference: self.r#ref,
            prompt,
            model: self.model.filter(|model| !model.trim().is_empty()),
            approval_mode: self.approval_mode,
            max_cost: self.max_cost,
            timeout: timeout.transpose().map_err(|_| invalid("`timeout` is too long"))?,
            setup: self.setup.unwrap_or_default(),
            check: self.check.unwrap_or_default(),
            env: self.env.unwrap_or_default(),
            labels: self.labels.unwrap_or_default(),
        })
    }
}

impl PlannedTask {
    /// Identifies what the task does, as hexadecimal digits: a result with the same hash need not
    /// be computed again.
    pub fn input_hash(&self) -> String {
        let input = serde_json::json!({
            "id": self.id,
            "repository": self.repository,
            "ref": self.reference,
            "prompt": self.prompt,
            "model": self.model,
            "approval_mode": self.approval_mode.map(ApprovalMode::as_str),
            "max_cost": self.max_cost,
            "timeout": self.timeout.map(|time| time.as_secs_f64()),
            "setup": self.setup,
            "check": self.check,
            "env": self.env,
        });
        hex(&Sha256::digest(input.to_string()))
    }

    /// Returns the task as a line of a plan.
    pub(crate) fn line(&self) -> String {
        let labels = Some(&self.labels).filter(|labels| !labels.is_empty());
        let list = |list: &Vec<String>| Some(list.clone()).filter(|list| !list.is_empty());
        let raw = RawTask {
            id: Some(self.id.clone()),
            repo: Some(match &self.repository {
                Repository::Directory(path) => path.display().to_string(),
                Repository::Url(url) => url.clone(),
            }),
            r#ref: self.reference.clone(),
            prompt: Some(self.prompt.clone()),
            prompt_file: None,
            model: self.model.clone(),
            approval_mode: self.approval_mode,
            max_cost: self.max_cost,
            timeout: self.timeout.map(|time| Seconds(time.as_secs_f64())),
            setup: list(&self.setup),
            check: list(&self.check),
            env: list(&self.env),
            labels: labels.cloned(),
        };
        // All parts of a task can be expressed in JSON.
        serde_json::to_string(&raw).unwrap_or_default()
    }

    /// Returns a hash of the fields that are the same for all models that are compared on a task.
    pub fn question_hash(&self) -> String {
        let input = serde_json::json!({
            "repository": self.repository,
            "ref": self.reference,
            "prompt": self.prompt,
            "setup": self.setup,
            "check": self.check,
        });
        hex(&Sha256::digest(input.to_string()))
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a task may have this id: it becomes the name of a directory.
pub(crate) fn is_valid_id(id: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    id.len() <= MAX_ID_LENGTH
        && id.starts_with(|char: char| char.is_ascii_alphanumeric())
        && id.chars().all(is_allowed)
}

pub(crate) fn is_url(repo: &str) -> bool {
    let has_scheme = ["https://", "http://", "ssh://", "git://", "file://"]
        .iter()
        .any(|scheme| repo.starts_with(scheme));
    // As in `git@host:path`; a path with a colon would have a slash before it.
    let is_scp = repo.split_once(':').is_some_and(|(host, _)| {
        host.contains('@') && !host.contains('/') && !host.starts_with('-')
    });
    has_scheme || is_scp
}

/// Reads a plan that is divided into files.
fn read_parts(directory: &Path) -> Result<String, BatchError> {
    let failed = |source| BatchError::Read { file: directory.to_owned(), source };
    let entries = std::fs::read_dir(directory).map_err(failed)?.flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    if files.is_empty() {
        let message = "it is a directory without files `*.jsonl`".to_owned();
        return Err(BatchError::Plan { file: directory.to_owned(), message });
    }
    files.sort();
    let mut text = String::new();
    for file in files {
        text.push_str(&read_text(&file)?);
        text.push('\n');
    }
    Ok(text)
}

/// Reads the user's text, up to a limit.
pub(crate) fn read_text(file: &Path) -> Result<String, BatchError> {
    use std::io::Read as _;
    let failed = |source| BatchError::Read { file: file.to_owned(), source };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(std::io::Error::other("it is larger than 64 MiB")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
