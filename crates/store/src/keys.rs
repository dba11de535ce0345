//! The key that encrypts sessions, stored in the system keychain or, if configured, in a file.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use parallax_keychain::{Keychain, KeychainError};
use parallax_protocol::secret::{Redact, Secret};
use parallax_protocol::store::Record;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use crate::private_files::{create_private_dir, set_mode};

/// The name of the key in the keychain.
const NAME: &str = "session-key";
/// The label that keychain programs show.
const LABEL: &str = "Parallax: key of encrypted sessions";
/// The name of the key file in the Parallax home directory.
const FILE: &str = "session-key";
/// Length of a key in bytes.
pub(crate) const KEY: usize = 32;

/// Where a new key is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStorage {
    /// In the system keychain.
    Keychain,
    /// In a file in the Parallax home directory that only its owner can read.
    File,
}

/// Why a key is not available.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// The keychain could not be read.
    #[error(
        "failed to read the key of encrypted sessions: {0}. Unlock the keychain or run where it is \
         available; or set `general.sessionEncryption` to `file` (the key is stored in a file) or \
         `off` for new sessions"
    )]
    Keychain(KeychainError),
    /// The key does not match or no longer exists.
    #[error(
        "it was encrypted with a key (`{id}`) that is neither in the keychain nor in `{}`",
        .file.display()
    )]
    Missing {
        /// The ID of the key.
        id: String,
        /// The key file that was checked.
        file: PathBuf,
    },
    /// The key is not in the file, and the keychain is not accessible.
    #[error(
        "it was encrypted with a key (`{id}`) that is not in `{}`{}, and {keychain}. Restore the \
         file, or run where the keychain is available",
        .file.display(),
        if *.exists { "" } else { " (file not found)" }
    )]
    NotInFile {
        /// The ID of the key.
        id: String,
        /// The key file that was checked.
        file: PathBuf,
        /// Whether the file exists, with a different key.
        exists: bool,
        /// Why the keychain is not accessible.
        keychain: KeychainError,
    },
    /// The key file cannot be used.
    #[error("the key of encrypted sessions in `{}` cannot be used: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The system provides no random bytes.
    #[error("failed to create a key: no random data available")]
    NoRandom,
}

/// Keys of encrypted sessions, and whether new sessions are encrypted. Also redacts text before it
/// is written, encrypted or not.
///
/// Without a keychain ([`Default`]), nothing is encrypted and nothing can be decrypted. Cheap to
/// clone; no key is looked up before it is needed.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keychain: Keychain,
    home: Option<PathBuf>,
    preferred_place: Option<KeyStorage>,
    redact: Option<Arc<dyn Redact>>,
}

/// A master key.
#[derive(Clone)]
pub(crate) struct MasterKey([u8; KEY]);

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

impl MasterKey {
    /// Returns the bytes that keys of single sessions are derived from.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the ID of the key, which reveals nothing about the key.
    pub(crate) fn id(&self) -> String {
        let mut digest = Sha256::new_with_prefix(b"parallax session key\0");
        digest.update(self.0);
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        BASE64.decode(text.trim()).ok()?.try_into().ok().map(Self)
    }
}

impl Keys {
    /// Creates the keys for a Parallax home directory. `preferred_place` is where the key of new
    /// sessions is stored; `None` leaves them unencrypted.
    pub fn new(keychain: Keychain, home: &Path, preferred_place: Option<KeyStorage>) -> Self {
        Self { keychain, home: Some(home.to_owned()), preferred_place, redact: None }
    }

    /// Sets a redactor that removes secrets from everything that is written.
    #[must_use]
    pub fn redacting(self, redact: Option<Arc<dyn Redact>>) -> Self {
        Self { redact, ..self }
    }

    /// Returns the redactor.
    pub fn redact(&self) -> Option<Arc<dyn Redact>> {
        self.redact.clone()
    }

    /// Returns a string with secrets redacted.
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact.as_ref().map_or(Cow::Borrowed(text), |redact| redact.redact(text))
    }

    /// Returns a record with secrets redacted, or `None` if the redacted record is invalid.
    pub(crate) fn redacted_record<'a>(&self, record: &'a Record) -> Option<Cow<'a, Record>> {
        match &self.redact {
            None => Some(Cow::Borrowed(record)),
            Some(redact) => crate::redact::redact_record(record, redact.as_ref()),
        }
    }

    /// Whether new sessions are encrypted.
    pub fn is_enabled(&self) -> bool {
        self.preferred_place.is_some()
    }

    /// Checks that the key for new sessions is available and creates it if necessary, so that
    /// problems are reported before the session starts. Blocking.
    ///
    /// # Errors
    /// Returns an error if the key can neither be read nor created.
    pub fn check(&self) -> Result<(), KeyError> {
        self.key_for_new_sessions().map(drop)
    }

    /// Returns the path of the file that may contain the key.
    pub fn file(home: &Path) -> PathBuf {
        home.join(FILE)
    }

    /// Returns the key for new sessions, creating it if there is none, or `None` if new sessions
    /// are not encrypted.
    pub(crate) fn key_for_new_sessions(&self) -> Result<Option<MasterKey>, KeyError> {
        match self.preferred_place {
            None => Ok(None),
            Some(KeyStorage::Keychain) => self.load_from_keychain().map(Some),
            Some(KeyStorage::File) => match self.in_file()? {
                Some(key) => Ok(Some(key)),
                None => self.make_file().map(Some),
            },
        }
    }

    /// Returns the key with this ID.
    pub(crate) fn find(&self, id: &str) -> Result<MasterKey, KeyError> {
        let in_file = self.in_file()?;
        let exists = in_file.is_some();
        if let Some(key) = in_file.filter(|key| key.id() == id) {
            return Ok(key);
        }
        let stored = self.keychain.get(NAME).map_err(|keychain| {
            let (id, file) = (id.to_owned(), self.key_file());
            KeyError::NotInFile { id, file, exists, keychain }
        })?;
        let key = stored.and_then(|text| MasterKey::parse(text.expose()));
        key.filter(|key| key.id() == id)
            .ok_or_else(|| KeyError::Missing { id: id.to_owned(), file: self.key_file() })
    }

    fn key_file(&self) -> PathBuf {
        self.home.as_deref().map(Self::file).unwrap_or_default()
    }

    fn load_from_keychain(&self) -> Result<MasterKey, KeyError> {
        let read = |text: Option<Secret>| match text {
            None => Ok(None),
            Some(text) => MasterKey::parse(text.expose()).map(Some).ok_or_else(|| {
                let reason = format!("its entry `{NAME}` is not a key");
                KeyError::Keychain(KeychainError::Failed(reason))
            }),
        };
        let stored = self.keychain.get(NAME).map_err(KeyError::Keychain)?;
        if let Some(key) = read(stored)? {
            return Ok(key);
        }
        // If two processes start at once, only one creates the key.
        let _turn = self.lock_creation()?;
        let stored = self.keychain.get_uncached(NAME).map_err(KeyError::Keychain)?;
        if let Some(key) = read(stored)? {
            return Ok(key);
        }
        let key = random_key()?;
        let text = Secret::new(BASE64.encode(key.0));
        self.keychain.set(NAME, LABEL, &text).map_err(KeyError::Keychain)?;
        Ok(key)
    }

    fn in_file(&self) -> Result<Option<MasterKey>, KeyError> {
        let file = self.key_file();
        match fs::read_to_string(&file) {
            Ok(text) => match MasterKey::parse(&text) {
                Some(key) => Ok(Some(key)),
                None => Err(KeyError::File { file, reason: "it contains no key".to_owned() }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(KeyError::File { file, reason: error.to_string() }),
        }
    }

    fn make_file(&self) -> Result<MasterKey, KeyError> {
        let _turn = self.lock_creation()?;
        if let Some(key) = self.in_file()? {
            return Ok(key);
        }
        let key = random_key()?;
        let file = self.key_file();
        let new = file.with_extension("new");
        let written = (|| {
            let _ = fs::remove_file(&new);
            let mut out = open_private_file(&new, true)?;
            writeln!(out, "{}", BASE64.encode(key.0))?;
            out.sync_all()?;
            fs::rename(&new, &file)
        })();
        written.map_err(|error| KeyError::File { file, reason: error.to_string() })?;
        Ok(key)
    }

    /// Locks key creation until the returned file is dropped.
    fn lock_creation(&self) -> Result<File, KeyError> {
        let file = self.key_file();
        let lock = file.parent().map_or(Ok(()), create_private_dir);
        let lock = lock.and_then(|()| open_private_file(&file.with_extension("lock"), false));
        let locked = lock.and_then(|lock| lock.lock().map(|()| lock));
        locked.map_err(|error| KeyError::File { file, reason: error.to_string() })
    }
}

fn random_key() -> Result<MasterKey, KeyError> {
    let mut key = [0; KEY];
    SystemRandom::new().fill(&mut key).map_err(|_| KeyError::NoRandom)?;
    Ok(MasterKey(key))
}

fn open_private_file(path: &Path, new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).create_new(new).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    set_mode(path, 0o600)?;
    Ok(file)
}
