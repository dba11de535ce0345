//! The secret store of the system, if there is one: the Secret Service of a Linux desktop (through
//! `secret-tool`) or the macOS keychain (through `security`).
//!
//! No program is started before a secret is stored or needed. Secrets are passed to these programs
//! on standard input, never as an argument, which other users could read.
//!
//! Without a system store, an encrypted file can be used if the user requests it; otherwise callers
//! decide where secrets are stored. Secrets that Gemini CLI stored in such a file or in the system
//! store can be read.

mod backend;
mod encrypted_file;
mod hexadecimal;
mod location;
mod program;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use backend::Backend;
use encrypted_file::EncryptedFile;
use location::SecretLocation;
pub use location::SecretName;
use parallax_protocol::secret::Secret;

/// Time limit for the first response of a store; a slower store counts as missing, for example
/// because no desktop is running.
const PROBE: Duration = Duration::from_millis(300);

/// Why a store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeychainError {
    /// No store is available.
    #[error("the system keychain is not available")]
    Missing,
    /// The store reported an error or did not respond in time.
    #[error("system keychain: {0}")]
    Failed(String),
}

/// The store for the secrets of one home directory. Cheap to clone; secrets are cached after
/// the first read.
#[derive(Clone, Default)]
pub struct Keychain {
    inner: Option<Arc<KeychainState>>,
}

struct KeychainState {
    home: String,
    /// Where to find the system store; `None` if it is not used.
    find: Option<BackendSource>,
    backend: OnceLock<Option<Backend>>,
    is_usable: OnceLock<bool>,
    /// Used if the system has no store.
    encrypted_file: Option<EncryptedFile>,
    /// Files of other programs, which are only read.
    reference_files: Vec<EncryptedFile>,
    cached_secrets: Mutex<HashMap<SecretName, Option<Secret>>>,
}

/// Where secrets may be stored.
#[derive(Debug, Clone, Copy)]
pub struct KeychainLocations<'a> {
    /// The directory of this program's files, which identifies the secrets.
    pub home: &'a Path,
    /// Whether to use the system store, if there is one.
    pub system: bool,
    /// Whether to use an encrypted file in `home` instead.
    pub encrypted_file: bool,
    /// Home directories of compatible programs, whose encrypted files are read.
    pub other_homes: &'a [PathBuf],
}

enum BackendSource {
    /// Search this `PATH`.
    On(Option<OsString>),
    Known(Backend),
}

impl std::fmt::Debug for Keychain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keychain").field("is_off", &self.inner.is_none()).finish()
    }
}

impl Keychain {
    /// Creates a keychain for these locations. `variable` returns environment variables. Nothing is
    /// searched yet.
    pub fn from_locations(
        locations: KeychainLocations<'_>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Self {
        let named = variable("DBUS_SESSION_BUS_ADDRESS").is_some_and(|value| !value.is_empty());
        let usual =
            || variable("XDG_RUNTIME_DIR").is_some_and(|it| Path::new(&it).join("bus").exists());
        let reached = locations.system && (cfg!(target_os = "macos") || named || usual());
        let find = reached.then(|| BackendSource::On(variable("PATH")));
        let encrypted_file =
            locations.encrypted_file.then(|| EncryptedFile::in_home(locations.home));
        let reference_files =
            locations.other_homes.iter().map(|home| EncryptedFile::in_home(home)).collect();
        Self::create(locations.home, find, encrypted_file, reference_files)
    }

    /// Uses the Secret Service through this `secret-tool`.
    pub fn secret_tool(home: &Path, program: PathBuf) -> Self {
        Self::create(
            home,
            Some(BackendSource::Known(Backend::SecretTool(program))),
            None,
            Vec::new(),
        )
    }

    /// Uses the macOS keychain through this `security`.
    pub fn security(home: &Path, program: PathBuf) -> Self {
        Self::create(home, Some(BackendSource::Known(Backend::Security(program))), None, Vec::new())
    }

    fn create(
        home: &Path,
        find: Option<BackendSource>,
        encrypted_file: Option<EncryptedFile>,
        reference_files: Vec<EncryptedFile>,
    ) -> Self {
        let inner = KeychainState {
            home: home.to_string_lossy().into_owned(),
            find,
            backend: OnceLock::new(),
            is_usable: OnceLock::new(),
            encrypted_file,
            reference_files,
            cached_secrets: Mutex::default(),
        };
        Self { inner: Some(Arc::new(inner)) }
    }

    /// Whether secrets can be stored. Queries the store once. Blocks for at most 300 ms.
    pub fn is_usable(&self) -> bool {
        self.inner
            .as_ref()
            .is_some_and(|inner| inner.encrypted_file.is_some() || inner.has_system())
    }

    /// Whether the user requires encryption, regardless of whether there is a system store.
    pub fn must_encrypt(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.encrypted_file.is_some())
    }

    /// Returns the secret with this name, if it exists. Blocking: the user may have to unlock the
    /// store.
    ///
    /// # Errors
    /// Returns an error if there is no store, or it did not respond.
    pub fn get(&self, name: impl Into<SecretName>) -> Result<Option<Secret>, KeychainError> {
        let inner = self.inner.as_ref().ok_or(KeychainError::Missing)?;
        let name = name.into();
        if let Some(known) = inner.lock_cache().get(&name) {
            return Ok(known.clone());
        }
        let found = inner.find(&name)?.map(Secret::new);
        inner.lock_cache().insert(name, found.clone());
        Ok(found)
    }

    /// Like [`get`](Self::get), without the cache, because another process may have stored the
    /// secret since. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no store, or it did not respond.
    pub fn get_uncached(
        &self,
        name: impl Into<SecretName>,
    ) -> Result<Option<Secret>, KeychainError> {
        let name = name.into();
        if let Some(inner) = &self.inner {
            inner.lock_cache().remove(&name);
        }
        self.get(name)
    }

    /// Stores or replaces a secret and reads it back. `label` is shown in the store's programs.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no store, or it does not return the secret.
    pub fn set(
        &self,
        name: impl Into<SecretName>,
        label: &str,
        secret: &Secret,
    ) -> Result<(), KeychainError> {
        let inner = self.inner.as_ref().ok_or(KeychainError::Missing)?;
        let name = name.into();
        inner.lock_cache().remove(&name);
        let (service, reference_account) = name.reference_location();
        let in_file = SecretLocation { service: &service, account: &reference_account };
        match &inner.encrypted_file {
            Some(file) if !inner.has_system() => file.set(in_file, secret.expose()),
            encrypted_file => {
                // Check the file first: it must not retain an old secret.
                let forgotten =
                    encrypted_file.as_ref().map_or(Ok(false), |file| file.delete(in_file));
                forgotten.and_then(|_| inner.store_in_system(&name, label, secret))
            }
        }
        .map_err(KeychainError::Failed)?;
        inner.lock_cache().insert(name, Some(secret.clone()));
        Ok(())
    }

    /// Deletes a secret. Deleting a secret that does not exist is not an error. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no store, or it reported an error.
    pub fn delete(&self, name: impl Into<SecretName>) -> Result<(), KeychainError> {
        let inner = self.inner.as_ref().ok_or(KeychainError::Missing)?;
        let name = name.into();
        inner.lock_cache().remove(&name);
        if let Some(file) = &inner.encrypted_file {
            let (service, account) = name.reference_location();
            let forgotten = file.delete(SecretLocation { service: &service, account: &account });
            let was_there = forgotten.map_err(KeychainError::Failed)?;
            if was_there || inner.backend().is_none() {
                return Ok(());
            }
        }
        let backend = inner.backend().ok_or(KeychainError::Missing)?;
        backend
            .delete(SecretLocation::for_parallax(&inner.account(&name)))
            .map_err(KeychainError::Failed)
    }

    /// Returns the secret that Gemini CLI stored under this name: in an encrypted file of its home
    /// directory or, if `in_system`, in the system store. Unreadable secrets count as missing.
    /// Blocking.
    pub fn reference_secret(&self, name: &SecretName, in_system: bool) -> Option<Secret> {
        let inner = self.inner.as_ref()?;
        let (service, account) = name.reference_location();
        let at = SecretLocation { service: &service, account: &account };
        let read = |found: Result<Option<String>, String>| {
            found
                .inspect_err(|error_message| tracing::warn!(error_message, "secrets of Gemini CLI"))
                .ok()
                .flatten()
        };
        let in_files = inner.reference_files.iter().find_map(|file| read(file.get(at)));
        let ask = || match in_system && inner.has_system() {
            true => read(inner.backend()?.get(at, backend::UNLOCK_TIMEOUT)),
            false => None,
        };
        in_files.or_else(ask).map(Secret::new)
    }
}

impl KeychainState {
    /// Whether the system store responds; checked once.
    fn has_system(&self) -> bool {
        *self.is_usable.get_or_init(|| {
            let probe = SecretName::from("probe");
            let probed = self.backend().map(|backend| {
                backend.get(SecretLocation::for_parallax(&self.account(&probe)), PROBE)
            });
            match probed {
                None => false,
                Some(Ok(_)) => true,
                Some(Err(error_message)) => {
                    tracing::debug!(error_message, "no keychain: secrets are stored in files");
                    false
                }
            }
        })
    }

    fn find(&self, name: &SecretName) -> Result<Option<String>, KeychainError> {
        if let Some(file) = &self.encrypted_file {
            let (service, account) = name.reference_location();
            let found = file.get(SecretLocation { service: &service, account: &account });
            let found = found.map_err(KeychainError::Failed)?;
            if found.is_some() || self.backend().is_none() {
                return Ok(found);
            }
        }
        let backend = self.backend().ok_or(KeychainError::Missing)?;
        let found =
            backend.get(SecretLocation::for_parallax(&self.account(name)), backend::UNLOCK_TIMEOUT);
        found.map_err(KeychainError::Failed)
    }

    fn store_in_system(
        &self,
        name: &SecretName,
        label: &str,
        secret: &Secret,
    ) -> Result<(), String> {
        let backend = self.backend().ok_or("it is not available")?;
        let account = self.account(name);
        let at = SecretLocation::for_parallax(&account);
        backend.set(at, label, secret.expose())?;
        let stored = backend.get(at, backend::UNLOCK_TIMEOUT)?;
        match stored.as_deref() == Some(secret.expose()) {
            true => Ok(()),
            false => Err("it did not store the secret".to_owned()),
        }
    }

    fn backend(&self) -> Option<&Backend> {
        let found = self.backend.get_or_init(|| match self.find.as_ref()? {
            BackendSource::Known(backend) => Some(backend.clone()),
            BackendSource::On(path) => Backend::find(path.as_deref()),
        });
        found.as_ref()
    }

    /// Returns the account, which includes the home directory so that two home directories of one
    /// user do not share secrets.
    fn account(&self, name: &SecretName) -> String {
        format!("{} {}", name.text(), self.home)
    }

    fn lock_cache(&self) -> std::sync::MutexGuard<'_, HashMap<SecretName, Option<Secret>>> {
        self.cached_secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::Instant;

    use testkit::keychain as fake;

    use super::*;

    #[test]
    fn secret_is_saved_read_and_deleted_without_appearing_in_arguments() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Path::new("/home/me/.parallax");
        let tool = fake::secret_tool(directory.path()).expect("a program");
        let security = fake::security(directory.path()).expect("a program");
        let reopen = |program: &Path| match program == tool {
            true => Keychain::secret_tool(home, tool.clone()),
            false => Keychain::security(home, security.clone()),
        };
        for program in [&tool, &security] {
            let keychain = reopen(program);
            assert!(keychain.is_usable());
            assert_eq!(keychain.get("key \"of\" $x").expect("asked"), None);
            for text in ["hunter2", "two\nlines 'and' \"quotes\" $HOME ü"] {
                let secret = Secret::new(text);
                reopen(program).set("key \"of\" $x", "A label", &secret).expect("kept");
                let read = reopen(program).get("key \"of\" $x").expect("asked");
                assert_eq!(read.expect("there").expose(), text);
            }
            let keychain = reopen(program);
            keychain.delete("key \"of\" $x").expect("forgotten");
            keychain.delete("key \"of\" $x").expect("nothing left");
            assert_eq!(keychain.get("key \"of\" $x").expect("asked"), None);
        }
        let calls = fake::calls(directory.path());
        assert!(
            !calls.is_empty() && !calls.contains("hunter2") && !calls.contains("68756e74657232"),
            "{calls}"
        );
    }

    #[test]
    fn unusable_secret_store_is_ignored() {
        let directory = tempfile::tempdir().expect("a directory");
        let keychain = |name: &str, text: &str| {
            let program = fake::program(directory.path(), name, text).expect("a program");
            Keychain::secret_tool(Path::new("/h"), program)
        };
        let started_at = Instant::now();
        assert!(!keychain("hangs", fake::HANGS).is_usable());
        assert!(started_at.elapsed() < Duration::from_secs(3), "{:?}", started_at.elapsed());
        let complains = "#!/bin/sh\necho 'Cannot autolaunch D-Bus' >&2\nexit 1\n";
        assert!(!keychain("complains", complains).is_usable());
        assert!(!Keychain::secret_tool(Path::new("/h"), "/no/such/program".into()).is_usable());
        let forgetful = keychain("forgetful", "#!/bin/sh\n[ $1 = lookup ] && exit 1\ncat\n");
        assert!(forgetful.is_usable());
        forgetful.set("a", "b", &Secret::new("c")).expect_err("not kept");
        assert!(!Keychain::default().is_usable());
        assert!(matches!(Keychain::default().get("a"), Err(KeychainError::Missing)));
    }
}
