//! The system's own store of secrets, where there is one: the Secret Service of
//! a Linux desktop (by `secret-tool`), the keychain of macOS (by `security`).
//!
//! Nothing is started before a secret is kept or needed. A secret goes to these
//! programs on their standard input, never as an argument, which others could
//! read. Where secrets are kept without such a store is the business of callers.

mod backend;
mod program;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use backend::Backend;
use parallax_protocol::secret::Secret;

/// A store that takes longer to say what it has is as good as none: nobody
/// should wait for a desktop that is not there.
const PROBE: Duration = Duration::from_millis(300);

/// Why the store did not do it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeychainError {
    /// There is none here.
    #[error("the keychain of the system cannot be reached from here")]
    Missing,
    /// It refused, or gave no answer in time.
    #[error("the keychain of the system: {0}")]
    Failed(String),
}

/// The store, for the secrets of one home of ours. Cheap to clone; what was read
/// once is remembered.
#[derive(Clone, Default)]
pub struct Keychain {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    home: String,
    find: Find,
    backend: OnceLock<Option<Backend>>,
    usable: OnceLock<bool>,
    known: Mutex<HashMap<String, Option<Secret>>>,
}

enum Find {
    /// On this `PATH`.
    On(Option<OsString>),
    Known(Backend),
}

impl std::fmt::Debug for Keychain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keychain").field("is_off", &self.inner.is_none()).finish()
    }
}

impl Keychain {
    /// The store of this system for the secrets of `home`. `variable` gives the
    /// variables of the process; nothing is looked for yet.
    pub fn of_system(home: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let named = variable("DBUS_SESSION_BUS_ADDRESS").is_some_and(|value| !value.is_empty());
        let usual =
            || variable("XDG_RUNTIME_DIR").is_some_and(|it| Path::new(&it).join("bus").exists());
        let has_bus = named || usual();
        if !cfg!(target_os = "macos") && !has_bus {
            return Self::default();
        }
        Self::made(home, Find::On(variable("PATH")))
    }

    /// The Secret Service by this `secret-tool`.
    pub fn secret_tool(home: &Path, program: PathBuf) -> Self {
        Self::made(home, Find::Known(Backend::SecretTool(program)))
    }

    /// The keychain of macOS by this `security`.
    pub fn security(home: &Path, program: PathBuf) -> Self {
        Self::made(home, Find::Known(Backend::Security(program)))
    }

    fn made(home: &Path, find: Find) -> Self {
        let inner = Inner {
            home: home.to_string_lossy().into_owned(),
            find,
            backend: OnceLock::new(),
            usable: OnceLock::new(),
            known: Mutex::default(),
        };
        Self { inner: Some(Arc::new(inner)) }
    }

    /// Whether secrets can be kept there. Asks the store, once. Blocking, for a
    /// third of a second at most.
    pub fn is_usable(&self) -> bool {
        let Some(inner) = &self.inner else { return false };
        *inner.usable.get_or_init(|| {
            let asked = inner.backend().map(|backend| backend.get(&inner.account("probe"), PROBE));
            match asked {
                None => false,
                Some(Ok(_)) => true,
                Some(Err(why)) => {
                    tracing::debug!(why, "no keychain: secrets are kept in files");
                    false
                }
            }
        })
    }

    /// The secret of a name, if it is there. Blocking: the person may be asked to
    /// unlock the store.
    ///
    /// # Errors
    /// There is no store, or it gave no answer.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, KeychainError> {
        let inner = self.inner.as_ref().ok_or(KeychainError::Missing)?;
        if let Some(known) = inner.known().get(name) {
            return Ok(known.clone());
        }
        let backend = inner.backend().ok_or(KeychainError::Missing)?;
        let found = backend
            .get(&inner.account(name), backend::PATIENCE)
            .map_err(KeychainError::Failed)?
            .map(Secret::new);
        inner.known().insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// Keeps a secret in the place of what has the name, and reads it back. `label`
    /// is what people see in the programs of the store. Blocking.
    ///
    /// # Errors
    /// There is no store, or it does not hold the secret now.
    pub fn set(&self, name: &str, label: &str, secret: &Secret) -> Result<(), KeychainError> {
        let inner = self.inner.as_ref().ok_or(KeychainError::Missing)?;
        let backend = inner.backend().ok_or(KeychainError::Missing)?;
        let account = inner.account(name);
        inner.known().remove(name);
        backend.set(&account, label, secret.expose()).map_err(KeychainError::Failed)?;
        let kept = backend.get(&account, backend::PATIENCE).map_err(KeychainError::Failed)?;
        if kept.as_deref() != Some(secret.expose()) {
            return Err(KeychainError::Failed("it did not keep the secret".to_owned()));
        }
        inner.known().insert(name.to_owned(), Some(secret.clone()));
        Ok(())
    }

    /// Forgets a secret; one that is not there is forgotten already. Blocking.
    ///
    /// # Errors
    /// There is no store, or it refused.
    pub fn forget(&self, name: &str) -> Result<(), KeychainError> {
        let inner = self.inner.as_ref().ok_or(KeychainError::Missing)?;
        let backend = inner.backend().ok_or(KeychainError::Missing)?;
        inner.known().remove(name);
        backend.forget(&inner.account(name)).map_err(KeychainError::Failed)
    }
}

impl Inner {
    fn backend(&self) -> Option<&Backend> {
        let found = self.backend.get_or_init(|| match &self.find {
            Find::Known(backend) => Some(backend.clone()),
            Find::On(path) => Backend::find(path.as_deref()),
        });
        found.as_ref()
    }

    /// Two homes of one person do not share secrets.
    fn account(&self, name: &str) -> String {
        format!("{name} {}", self.home)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<Secret>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::Instant;

    use testkit::keychain as fake;

    use super::*;

    #[test]
    fn a_secret_is_kept_read_and_forgotten_and_is_no_argument() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Path::new("/home/me/.parallax");
        let tool = fake::secret_tool(folder.path()).expect("a program");
        let security = fake::security(folder.path()).expect("a program");
        let again = |program: &Path| match program == tool {
            true => Keychain::secret_tool(home, tool.clone()),
            false => Keychain::security(home, security.clone()),
        };
        for program in [&tool, &security] {
            let keychain = again(program);
            assert!(keychain.is_usable());
            assert_eq!(keychain.get("key \"of\" $x").expect("asked"), None);
            for text in ["hunter2", "two\nlines 'and' \"quotes\" $HOME ü"] {
                let secret = Secret::new(text);
                again(program).set("key \"of\" $x", "A label", &secret).expect("kept");
                let read = again(program).get("key \"of\" $x").expect("asked");
                assert_eq!(read.expect("there").expose(), text);
            }
            let keychain = again(program);
            keychain.forget("key \"of\" $x").expect("forgotten");
            keychain.forget("key \"of\" $x").expect("nothing left");
            assert_eq!(keychain.get("key \"of\" $x").expect("asked"), None);
        }
        let calls = fake::calls(folder.path());
        assert!(
            !calls.is_empty() && !calls.contains("hunter2") && !calls.contains("68756e74657232"),
            "{calls}"
        );
    }

    #[test]
    fn a_store_that_hangs_refuses_or_forgets_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let keychain = |name: &str, text: &str| {
            let program = fake::program(folder.path(), name, text).expect("a program");
            Keychain::secret_tool(Path::new("/h"), program)
        };
        let begun = Instant::now();
        assert!(!keychain("hangs", fake::HANGS).is_usable());
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
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
