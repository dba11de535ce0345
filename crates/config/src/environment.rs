//! The variables a run sees: those of the process, and those of one `.env`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::dotenv;
use crate::homes::Homes;
use crate::read::{ReadError, read_at_most, to_text};

const LIMIT: u64 = 256 * 1024;

/// A snapshot of the process's variables and what a `.env` file added. The
/// process itself is never changed.
#[derive(Clone, Default)]
pub struct Environment {
    process: HashMap<String, String>,
    dotenv: BTreeMap<String, String>,
    file: Option<PathBuf>,
    /// Whether that file is one of a project.
    of_project: bool,
}

/// Names only: values may be secrets.
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
    /// A snapshot of the given variables (`std::env::vars_os()` in a program).
    /// Those that are not Unicode are left out: none of ours is.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let process = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { process, ..Self::default() }
    }

    /// The value of a variable; an empty one counts as not set. For a
    /// `GEMINI_` name the same name with `PARALLAX_` comes first.
    pub fn get(&self, name: &str) -> Option<&str> {
        let ours = name.strip_prefix("GEMINI_").map(|rest| format!("PARALLAX_{rest}"));
        ours.and_then(|ours| self.set(&ours)).or_else(|| self.set(name))
    }

    /// The value that the process itself has, whatever a `.env` file says; with
    /// names as in [`Environment::get`].
    pub fn of_process(&self, name: &str) -> Option<&str> {
        let ours = name.strip_prefix("GEMINI_").map(|rest| format!("PARALLAX_{rest}"));
        let own = |name: &str| self.process.get(name).map(String::as_str);
        let set = |name: &str| own(name).filter(|value| !value.is_empty());
        ours.and_then(|ours| set(&ours)).or_else(|| set(name))
    }

    /// Whether the variable says yes: `true` or `1`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    fn set(&self, name: &str) -> Option<&str> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// The variable of exactly this name, empty or not.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.process.get(name).or_else(|| self.dotenv.get(name)).map(String::as_str)
    }

    /// Sets variables over those of the process.
    pub(crate) fn put(&mut self, variables: &[(String, String)]) {
        self.process.extend(variables.iter().cloned());
    }

    /// Names that only the `.env` file brought.
    pub fn dotenv_names(&self) -> impl Iterator<Item = &str> {
        self.dotenv.keys().map(String::as_str)
    }

    /// Of these the names that a project's file brought. They are for this program
    /// and go to no child process.
    pub fn names_of_project(&self) -> impl Iterator<Item = &str> {
        self.dotenv.keys().map(String::as_str).filter(|_| self.of_project)
    }

    /// The variables that the user's own `.env` brought: children get them like
    /// those of the process.
    pub fn of_users_file(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.dotenv.iter().filter(|_| !self.of_project);
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The `.env` file that was read, if any.
    pub fn dotenv_file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Takes the variables of a file. Gives the names that this one may not set.
    fn add(
        &mut self,
        file: PathBuf,
        variables: Vec<(String, String)>,
        excluded: &[String],
        of_project: bool,
    ) -> Vec<String> {
        let names: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
        let mut refused = Vec::new();
        for (name, value) in variables {
            if self.process.contains_key(&name) || excluded.contains(&name) {
                continue;
            }
            let is_refused = is_for_the_user(&name)
                || own_name(&name).is_some_and(|rest| rest.starts_with("PROMPT_"))
                || names_a_prompt_file(&name, &value)
                || self.sends_keys_away(&name, &names);
            if of_project && is_refused {
                refused.push(name);
                continue;
            }
            self.dotenv.insert(name, value);
        }
        self.file = Some(file);
        self.of_project = of_project;
        refused
    }

    /// Whether a file of the project says it, and nobody else does.
    pub(crate) fn is_of_project(&self, name: &str) -> bool {
        self.of_project && self.of_process(name).is_none() && self.get(name).is_some()
    }

    /// Whether the variable says where requests go, and the key that goes with
    /// them is not of the same file.
    fn sends_keys_away(&self, name: &str, file: &[String]) -> bool {
        let keys: &[&str] = match name {
            "GOOGLE_GEMINI_BASE_URL" => &["GEMINI_API_KEY", "PARALLAX_API_KEY"],
            "GOOGLE_VERTEX_BASE_URL" => &["GOOGLE_API_KEY"],
            _ => return false,
        };
        !keys.iter().any(|key| file.iter().any(|name| name == key))
            || keys.iter().any(|key| self.process.contains_key(*key))
    }
}

/// Whether the variable decides how the program is confined, whom it trusts, or
/// where its settings lie: a project does not say so.
fn is_for_the_user(name: &str) -> bool {
    let rest = own_name(name).unwrap_or(name);
    rest.starts_with("SANDBOX")
        || matches!(name, "SEATBELT_PROFILE" | "BUILD_SANDBOX")
        // Where records of the session go.
        || name.starts_with("OTEL_")
        || (rest != name && rest.starts_with("TELEMETRY_"))
        || (rest != name
            && matches!(
                rest,
                "TRUST_WORKSPACE" | "HOME" | "SYSTEM_SETTINGS_PATH" | "SYSTEM_DEFAULTS_PATH"
            ))
}

/// The name behind our prefix, whichever of them it is: all say the same.
fn own_name(name: &str) -> Option<&str> {
    let own = ["PARALLAX_CLI_", "PARALLAX_", "GEMINI_CLI_", "GEMINI_"];
    own.iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Whether the variable names a file to read the system prompt from, or to write
/// it to. A project may switch its own file on (`1`); which other files of the
/// user's are read or written is not for it to say.
fn names_a_prompt_file(name: &str, value: &str) -> bool {
    let switch = value.trim().to_ascii_lowercase();
    own_name(name).is_some_and(|rest| matches!(rest, "SYSTEM_MD" | "WRITE_SYSTEM_MD"))
        && !matches!(switch.as_str(), "" | "0" | "1" | "true" | "false")
}

/// What decides which `.env` counts.
pub(crate) struct DotenvSearch<'a> {
    pub(crate) cwd: &'a Path,
    /// The folder and those above it that are trusted, upwards.
    pub(crate) folders: &'a [PathBuf],
    pub(crate) homes: &'a Homes,
    /// Plain `.env` files outside the home directory do not count.
    pub(crate) ignore_local: bool,
    /// Names that a plain `.env` may not set.
    pub(crate) excluded: &'a [String],
}

impl DotenvSearch<'_> {
    /// Reads the first `.env` file there is. Returns a warning when one is
    /// there and cannot be used.
    pub(crate) fn read_into(&self, environment: &mut Environment) -> Vec<String> {
        let mut warnings = Vec::new();
        for (path, of_ours, of_project) in self.candidates() {
            match read_at_most(&path, LIMIT) {
                Ok(None) => {}
                Ok(Some(read)) if read.cut => {
                    warnings.push(format!(
                        "`{}` is larger than {LIMIT} bytes and is not used",
                        path.display()
                    ));
                }
                Ok(Some(read)) if !self.is_ours_to_trust(&read.metadata) => {
                    warnings.push(format!(
                        "`{}` belongs to another user and is not used",
                        path.display()
                    ));
                }
                Ok(Some(read)) => {
                    let excluded = if of_ours { &[] } else { self.excluded };
                    let variables = dotenv::parse(&to_text(&read.bytes));
                    let refused = environment.add(path.clone(), variables, excluded, of_project);
                    warnings.extend(refused.iter().map(|name| {
                        format!(
                            "`{}` may not set `{name}`: it is for you to say, in your environment or \
                             in the `.env` of your home",
                            path.display()
                        )
                    }));
                    break;
                }
                // A folder of that name (Python's usual one) is no error.
                Err(ReadError::NotAFile | ReadError::TooLarge) => {}
                Err(ReadError::Io(error)) => {
                    warnings
                        .push(format!("Cannot read `{}`: {error}; it is not used", path.display()));
                }
            }
        }
        warnings
    }

    /// Paths in the order of search, each with whether it is a file of ours, and
    /// whether it is one of a project.
    fn candidates(&self) -> Vec<(PathBuf, bool, bool)> {
        let mut paths = Vec::new();
        for folder in self.folders {
            let of_project = *folder != self.homes.user;
            paths.push((folder.join(".parallax/.env"), true, of_project));
            paths.push((folder.join(".gemini/.env"), true, of_project));
            if !self.ignore_local || !of_project {
                paths.push((folder.join(".env"), false, of_project));
            }
        }
        paths.push((self.homes.parallax.join(".env"), true, false));
        paths.push((self.homes.gemini.join(".env"), true, false));
        paths.push((self.homes.user.join(".env"), false, false));
        paths
    }

    /// Somebody else's `.env` in a shared parent folder could redirect our
    /// requests, with the key in them.
    #[cfg(unix)]
    fn is_ours_to_trust(&self, metadata: &std::fs::Metadata) -> bool {
        use std::os::unix::fs::MetadataExt;
        let owner = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.uid());
        let uid = metadata.uid();
        uid == 0 || owner(self.cwd) == Some(uid) || owner(&self.homes.user) == Some(uid)
    }

    #[cfg(not(unix))]
    fn is_ours_to_trust(&self, _metadata: &std::fs::Metadata) -> bool {
        true
    }
}
