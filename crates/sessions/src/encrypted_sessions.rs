//! Encryption of stored sessions, enabled in the user's settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_config::Config;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::secret::Redact;
use parallax_store::{KeyStorage, Keys, SessionDirs};

use crate::SessionLibrary;

/// The encryption setting. Ignored in project settings.
const SETTING: &str = "general.sessionEncryption";

/// The redaction setting. Ignored in project settings.
const REDACTION: &str = "general.sessionRedaction";

/// Returns where sessions are stored and with which keys.
pub fn dirs(config: &Config) -> SessionDirs {
    let mut dirs = SessionDirs::new(&config.dirs.parallax, &config.dirs.gemini);
    let new = match config.settings.text(SETTING).as_deref() {
        Some("keychain") => Some(KeyStorage::Keychain),
        Some("file") => Some(KeyStorage::File),
        _ => None,
    };
    dirs.keys =
        Keys::new(config.keychain.clone(), &config.dirs.parallax, new).redacting(redactor(config));
    match new {
        None => dirs.with_fallback_place(&std::env::temp_dir()),
        Some(_) => dirs.in_memory(config.environment.get("XDG_RUNTIME_DIR").map(Path::new)),
    }
}

/// Returns the redactor for stored sessions, if enabled. It removes values that look like secrets
/// and the values of secret variables.
fn redactor(config: &Config) -> Option<Arc<dyn Redact>> {
    if !config.settings.flag(REDACTION) {
        return None;
    }
    let settings = config.settings.environment_redaction();
    let redaction = parallax_exec::environment::Redaction {
        enabled: true,
        allowed: settings.allowed,
        blocked: settings.blocked,
        dotenv_names: Vec::new(),
        credentials: settings.credentials,
    };
    let environment = &config.environment;
    let dotenv_variables = environment.dotenv_names().filter_map(|name| {
        environment.get(name).map(|value| (OsString::from(name), OsString::from(value)))
    });
    let variables = std::env::vars_os().chain(dotenv_variables);
    let values = parallax_exec::environment::secret_values(variables, &redaction);
    Some(Arc::new(parallax_exec::Redactor::new(values)))
}

/// Removes the files of a session outside the home directory. Tool outputs that a resumed session
/// may need are stored encrypted first.
pub fn remove_session_files(dirs: &SessionDirs, directory: &Path, id: &SessionId) {
    if !dirs.is_temporary_at_home() {
        let artifacts = dirs.artifacts(directory, id);
        if dirs.keys.is_enabled() && dirs.journal(directory, id).is_file() {
            let encrypted = dirs.encrypted_outputs(directory, id);
            parallax_store::encrypt_outputs(&artifacts.tool_outputs(), &encrypted, &dirs.keys);
        }
        // The directory may not exist.
        let _ = parallax_files::remove_tree(artifacts.root());
        for directory in artifacts.root().ancestors().skip(1).take(2) {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

impl SessionLibrary<'_> {
    /// Checks that the encryption key is available before the session begins, because nothing may
    /// be written unencrypted otherwise. Blocking.
    pub fn check_keys(&self) -> Result<(), Failure> {
        if self.ephemeral {
            return Ok(());
        }
        let checked = self.dirs().keys.check();
        checked.map_err(|error| Failure::new(FailureKind::Config, error.to_string()))
    }

    /// Creates the directory for temporary files if it is outside the home directory. Blocking.
    pub fn make_temporary(&self) -> Result<(), Failure> {
        let dirs = self.dirs();
        dirs.make_temporary().map_err(|error| {
            let path = dirs.temporary.display();
            let reason = format!("cannot use `{path}` for temporary files: {error}");
            Failure::new(FailureKind::Config, reason)
        })
    }

    /// Returns the directory for clipboard images. With encrypted sessions, it is in memory and
    /// removed with the session; `None` if this system has no such directory.
    pub fn images_folder(&self, session: &SessionId) -> Option<PathBuf> {
        let (dirs, project) = (self.dirs(), self.directory);
        match (dirs.keys.is_enabled(), dirs.is_temporary_at_home()) {
            (false, _) => {
                let project = parallax_store::project_folder(project);
                Some(dirs.parallax.join("images").join(project))
            }
            (true, false) => Some(dirs.artifacts(project, session).root().join("images")),
            (true, true) => None,
        }
    }

    /// Returns the directory for files that are open in an editor. With encrypted sessions, it is
    /// in memory if the system has such a directory.
    pub fn editing_folder(&self) -> PathBuf {
        let dirs = self.dirs();
        let in_memory = dirs.keys.is_enabled() && !dirs.is_temporary_at_home();
        match in_memory && dirs.make_temporary().is_ok() {
            true => dirs.temporary,
            false => std::env::temp_dir(),
        }
    }

    /// Returns whether session contents may be written to the session's temporary directory.
    pub fn allows_clear_text(&self) -> bool {
        let dirs = self.dirs();
        let is_open = !dirs.keys.is_enabled() || !dirs.is_temporary_at_home();
        is_open && !self.ephemeral
    }
}
