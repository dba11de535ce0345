//! Runs git for worktrees.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_exec::program::{capture, detached_capture};
use parallax_protocol::event::Failure;

use crate::failure;

/// Timeout of a git command. Checking out a large repository takes a while.
const TIME: Duration = Duration::from_secs(15 * 60);
/// Maximum bytes of output.
const LIMIT: u64 = 64 * 1024 * 1024;

/// Runs git in a directory without running anything that the repository configures.
#[derive(Clone)]
pub(crate) struct Git {
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Git {
    pub(crate) fn at(directory: &Path) -> Result<Self, Failure> {
        let environment = parallax_tools::run_shell_command::own_git_environment(directory)
            .map_err(|file| {
                failure(format!("Failed to read the configuration `{}`", file.display()))
            })?;
        Ok(Self { directory: directory.to_owned(), environment })
    }

    /// Adds an environment variable.
    pub(crate) fn with_variable(mut self, name: &str, value: OsString) -> Self {
        self = self.without_variable(name);
        self.environment.push((name.into(), value));
        self
    }

    /// Removes an environment variable.
    pub(crate) fn without_variable(mut self, name: &str) -> Self {
        self.environment.retain(|(other, _)| other != name);
        self
    }

    /// Returns the directory in which it runs.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs git and returns its output.
    pub(crate) fn bytes<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, Failure> {
        let words = arguments.iter().map(AsRef::as_ref);
        let (directory, environment) = (&self.directory, &self.environment);
        // ssh may ask for a passphrase in the terminal.
        let done = match arguments.first().and_then(|word| word.as_ref().to_str()) {
            Some("clone" | "fetch") => capture("git", words, directory, environment, LIMIT, TIME),
            _ => detached_capture("git", words, directory, environment, LIMIT, TIME),
        };
        let done = done.map_err(|error| failure(format!("Failed to run git: {error}")))?;
        if done.succeeded {
            return Ok(done.stdout);
        }
        let what = arguments.first().map(|word| word.as_ref().to_string_lossy());
        let stderr = String::from_utf8_lossy(&done.stderr);
        let lines: Vec<String> = stderr.lines().map(parallax_protocol::excerpt::one_line).collect();
        let what = what.unwrap_or_default();
        Err(failure(format!("`git {what}` failed: {}", lines.join("; "))))
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<(), Failure> {
        self.bytes(arguments).map(drop)
    }

    /// Runs git and returns its output as one line.
    pub(crate) fn line<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, Failure> {
        let bytes = self.bytes(arguments)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }

    /// Runs git and returns its output as NUL-terminated paths.
    pub(crate) fn paths<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<PathBuf>, Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let bytes = self.bytes(arguments)?;
        let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
    }
}

/// Explains why git found no working tree around a directory. `otherwise`: the usual reason.
pub(crate) fn no_working_tree_failure(error: &Failure, otherwise: String) -> Failure {
    if !error.message.contains("dubious ownership") {
        return failure(otherwise);
    }
    const REMEDY: &str = "git config --global --add safe.directory ";
    let path = error.message.split_once(REMEDY).map(|(_, rest)| rest);
    let path = path.and_then(|rest| rest.split("; ").next()).unwrap_or("PATH").trim();
    failure(format!(
        "git does not use this repository, because another user owns it. If you trust it, run \
         `{REMEDY}{path}`"
    ))
}
