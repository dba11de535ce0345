//! A temporary home directory and project for one test.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The API key of child processes; the server reports it where it must not appear.
pub const API_KEY: &str = "test-key-5f0e1d2c3b4a";

/// The settings with the lowest precedence.
const DEFAULTS: &str = "defaults.json";

/// A temporary home directory next to a temporary project, removed when dropped.
#[derive(Debug)]
pub struct TestHome {
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl TestHome {
    /// Creates an empty home directory and an empty project.
    ///
    /// # Errors
    /// Returns an error if the temporary directory cannot be created.
    pub fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("testkit-").tempdir()?;
        // The real path, because child processes report it.
        let root = directory.path().canonicalize()?;
        for name in ["home", "project", "tmp"] {
            std::fs::create_dir(root.join(name))?;
        }
        // Scripts answer prompts in order, so no routing request may precede them.
        std::fs::write(root.join(DEFAULTS), r#"{"model": {"routing": "off"}}"#)?;
        Ok(Self { root, _folder: directory })
    }

    /// Creates a home directory and a project with these files (path in the project, text).
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn with_files(files: &[(&str, &str)]) -> io::Result<Self> {
        let home = Self::new()?;
        for (path, text) in files {
            home.write(path, text)?;
        }
        Ok(home)
    }

    /// Returns the directory that contains everything.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Returns the home directory.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }
    /// Returns `~/.gemini`.
    pub fn gemini(&self) -> PathBuf {
        self.home().join(".gemini")
    }
    /// Returns `~/.parallax`.
    pub fn parallax(&self) -> PathBuf {
        self.home().join(".parallax")
    }
    /// Returns the project directory.
    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Writes a file of the project and creates its parent directories.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, path: &str, text: &str) -> io::Result<PathBuf> {
        write(&self.project().join(path), text)
    }

    /// Writes a file in the home directory.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_home(&self, path: &str, text: &str) -> io::Result<PathBuf> {
        write(&self.home().join(path), text)
    }

    /// Returns the complete environment of a child process, which inherits only `PATH`.
    pub fn env(&self, server: &str) -> Vec<(OsString, OsString)> {
        let home = self.home().into_os_string();
        vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), home.clone()),
            ("GEMINI_CLI_HOME".into(), home),
            ("TMPDIR".into(), self.root.join("tmp").into_os_string()),
            ("GEMINI_CLI_SYSTEM_DEFAULTS_PATH".into(), self.root.join(DEFAULTS).into_os_string()),
            ("GEMINI_API_KEY".into(), API_KEY.into()),
            ("GOOGLE_GEMINI_BASE_URL".into(), server.into()),
            ("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into()),
            // Retries do not wait for seconds.
            ("PARALLAX_RETRY_BASE_MS".into(), "5".into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("TZ".into(), "UTC".into()),
            ("TERM".into(), "dumb".into()),
        ]
    }

    /// Returns a command in the project with that environment.
    #[expect(clippy::disallowed_methods, reason = "tests start the program themselves")]
    pub fn command(&self, program: &Path, server: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.env(server)).current_dir(self.project());
        command
    }
}

fn write(path: &Path, text: &str) -> io::Result<PathBuf> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text)?;
    Ok(path.to_owned())
}
