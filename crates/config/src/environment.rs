//! The environment variables of a run: those of the process plus those of one `.env` file.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_protocol::secret::{Secret, SecretRecipient, SecretVariables};

/// A snapshot of the process environment and the variables that a `.env` file added. The
/// environment of the process itself is never changed.
#[derive(Clone, Default)]
pub struct Environment {
    process: HashMap<String, String>,
    dotenv: BTreeMap<String, String>,
    file: Option<PathBuf>,
    /// Whether that file belongs to a project.
    is_project_file: bool,
    /// Variables from which the configuration takes secrets.
    secrets: SecretVariables,
}

/// Prints names only, because values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("process", &self.process.len())
            .field("dotenv", &self.dotenv.keys())
            .field("file", &self.file)
            .finish()
    }
}

impl Environment {
    /// Takes a snapshot of the given variables (`std::env::vars_os()` in a program). Skips
    /// variables that are not Unicode; Parallax uses none.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let process = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { process, ..Self::default() }
    }

    /// Returns the value of a variable; an empty value counts as unset. For a `GEMINI_` name, the
    /// `PARALLAX_` variant has precedence.
    pub fn get(&self, name: &str) -> Option<&str> {
        let ours = name.strip_prefix("GEMINI_").map(|rest| format!("PARALLAX_{rest}"));
        ours.and_then(|ours| self.set(&ours)).or_else(|| self.set(name))
    }

    /// Returns the value in the process environment, ignoring the `.env` file; names are handled as
    /// in [`Environment::get`].
    pub fn process_variable(&self, name: &str) -> Option<&str> {
        let ours = name.strip_prefix("GEMINI_").map(|rest| format!("PARALLAX_{rest}"));
        let process_variable = |name: &str| self.process.get(name).map(String::as_str);
        let set = |name: &str| process_variable(name).filter(|value| !value.is_empty());
        ours.and_then(|ours| set(&ours)).or_else(|| set(name))
    }

    /// Whether the variable is `true` or `1`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    fn set(&self, name: &str) -> Option<&str> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// Returns the variable with exactly this name, even if it is empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.process.get(name).or_else(|| self.dotenv.get(name)).map(String::as_str)
    }

    /// Sets variables that override those of the process.
    pub(crate) fn set_variables(&mut self, variables: &[(String, String)]) {
        self.process.extend(variables.iter().cloned());
    }

    /// Returns the names that only the `.env` file sets.
    pub fn dotenv_names(&self) -> impl Iterator<Item = &str> {
        self.dotenv.keys().map(String::as_str)
    }

    /// Returns the names set by a project's `.env` file. They are used by Parallax only and not
    /// passed to child processes.
    pub fn names_of_project(&self) -> impl Iterator<Item = &str> {
        self.dotenv.keys().map(String::as_str).filter(|_| self.is_project_file)
    }

    /// Returns the variables of the user's own `.env` file, which child processes inherit like
    /// those of the process.
    pub fn user_file_variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.dotenv.iter().filter(|_| !self.is_project_file);
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the registry of variables from which the configuration takes secrets. Child
    /// processes do not inherit them.
    pub fn secrets(&self) -> &SecretVariables {
        &self.secrets
    }

    /// Returns the values of the variables that `recipient` gets as secrets, such as those in
    /// `headers`.
    pub fn secret_values(&self, recipient: SecretRecipient) -> Vec<Secret> {
        let secrets = self.secrets.snapshot();
        let names = self.process.keys().chain(self.dotenv.keys());
        names
            .filter(|name| secrets.get(&name.to_uppercase()) == Some(&recipient))
            .filter_map(|name| self.get(name))
            .map(Secret::new)
            .collect()
    }

    /// Moves the registered variables to the registry of another environment and uses that one.
    pub(crate) fn share_secrets(&mut self, secrets: &SecretVariables) {
        for (name, recipient) in self.secrets.snapshot() {
            secrets.insert(&name, recipient);
        }
        self.secrets = secrets.clone();
    }

    /// Returns the `.env` file that was read, if any.
    pub fn dotenv_file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Adds the variables of a file. Returns the names that this file may not set.
    pub(crate) fn add(
        &mut self,
        file: PathBuf,
        variables: Vec<(String, String)>,
        excluded: &[String],
        from_project: bool,
    ) -> Vec<String> {
        let names: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
        let mut rejected = Vec::new();
        for (name, value) in variables {
            if self.process.contains_key(&name) || excluded.contains(&name) {
                continue;
            }
            let is_refused = is_for_the_user(&name)
                || own_name(&name).is_some_and(|rest| rest.starts_with("PROMPT_"))
                || names_a_prompt_file(&name, &value)
                || self.redirects_api_key(&name, &names);
            if from_project && is_refused {
                rejected.push(name);
                continue;
            }
            self.dotenv.insert(name, value);
        }
        self.file = Some(file);
        self.is_project_file = from_project;
        rejected
    }

    /// Whether only a project file sets the variable.
    pub(crate) fn is_set_by_project(&self, name: &str) -> bool {
        self.is_project_file && self.process_variable(name).is_none() && self.get(name).is_some()
    }

    /// Whether the variable sets the destination of requests while the API key comes from another
    /// source.
    fn redirects_api_key(&self, name: &str, file: &[String]) -> bool {
        let keys: &[&str] = match name {
            "GOOGLE_GEMINI_BASE_URL" => &["GEMINI_API_KEY", "PARALLAX_API_KEY"],
            "GOOGLE_VERTEX_BASE_URL" => &["GOOGLE_API_KEY"],
            _ => return false,
        };
        !keys.iter().any(|key| file.iter().any(|name| name == key))
            || keys.iter().any(|key| self.process.contains_key(*key))
    }
}

/// Whether the variable controls the sandbox, trust, or the location of settings. A project may not
/// set it.
fn is_for_the_user(name: &str) -> bool {
    let rest = own_name(name).unwrap_or(name);
    rest.starts_with("SANDBOX")
        || matches!(name, "SEATBELT_PROFILE" | "BUILD_SANDBOX")
        // The destination of session telemetry.
        || name.starts_with("OTEL_")
        || (rest != name && rest.starts_with("TELEMETRY_"))
        || (rest != name
            && matches!(
                rest,
                "TRUST_WORKSPACE" | "HOME" | "SYSTEM_SETTINGS_PATH" | "SYSTEM_DEFAULTS_PATH"
            ))
}

/// Returns the name after the product prefix, whichever prefix it has; the prefixes are equivalent.
fn own_name(name: &str) -> Option<&str> {
    let prefixes = ["PARALLAX_CLI_", "PARALLAX_", "GEMINI_CLI_", "GEMINI_"];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Whether the variable names a file to read the system prompt from or to write it to. A project
/// may enable its own file (`1`), but may not select other files of the user.
fn names_a_prompt_file(name: &str, value: &str) -> bool {
    let switch = value.trim().to_ascii_lowercase();
    own_name(name).is_some_and(|rest| matches!(rest, "SYSTEM_MD" | "WRITE_SYSTEM_MD"))
        && !matches!(switch.as_str(), "" | "0" | "1" | "true" | "false")
}
