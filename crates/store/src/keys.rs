//! The key that encrypts sessions: in the system's keychain, or in a file where
//! the person says so.

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

use crate::paths::{create_private_dir, set_mode};

/// The key's name in the keychain.
const NAME: &str = "session-key";
/// What people see in the programs of the keychain.
const LABEL: &str = "Parallax: key of encrypted sessions";
/// The key's file in our home.
const FILE: &str = "session-key";
/// Bytes of a key.
pub(crate) const KEY: usize = 32;

/// Where a new key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// In the system's keychain.
    Keychain,
    /// In a file of our home that only its owner can read.
    File,
}

/// A key that is not to be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// The keychain says no.
    #[error(
        "the key of encrypted sessions cannot be read: {0}. Unlock the keychain or run where it can \
         be reached; or set `general.sessionEncryption` to `file` (the key lies in a file) or `off` \
         for new sessions"
    )]
    Keychain(KeychainError),
    /// It is another one, or gone.
    #[error(
        "it was encrypted with a key (`{id}`) that is neither in the keychain nor in `{}`",
        .file.display()
    )]
    Missing {
        /// What tells the key from others.
        id: String,
        /// The file that was looked into.
        file: PathBuf,
    },
    /// It is not in the file, and nobody can say whether it is in the keychain.
    #[error(
        "it was encrypted with a key (`{id}`) that is not in `{}`{}, and {keychain}. Put the file \
         back, or run where the keychain can be reached",
        .file.display(),
        if *.is_there { "" } else { " (there is no such file)" }
    )]
    NotInFile {
        /// What tells the key from others.
        id: String,
        /// The file that was looked into.
        file: PathBuf,
        /// Whether it is there, with another key.
        is_there: bool,
        /// Why the keychain says nothing.
        keychain: KeychainError,
    },
    /// The file of the key cannot be used.
    #[error("the key of encrypted sessions in `{}` cannot be used: {why}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// The system gives no random bytes.
    #[error("no key can be made: the system gives no random bytes")]
    NoRandom,
}

/// What opens encrypted sessions, and whether new ones are encrypted. Without a
/// keychain ([`Default`]) nothing is encrypted and nothing can be opened. Cheap to
/// clone; no key is looked for before it is needed. Also what is taken out of texts
/// before they are written, encrypted or not.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keychain: Keychain,
    home: Option<PathBuf>,
    new: Option<KeyPlace>,
    redact: Option<Arc<dyn Redact>>,
}

/// A key.
#[derive(Clone)]
pub(crate) struct MasterKey([u8; KEY]);

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey")
    }
}

impl MasterKey {
    /// The bytes that keys of single sessions are derived from.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What tells it from others, and gives nothing of it away.
    pub(crate) fn id(&self) -> String {
        let mut digest = Sha256::new_with_prefix(b"parallax session key\0");
        digest.update(self.0);
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn of_text(text: &str) -> Option<Self> {
        BASE64.decode(text.trim()).ok()?.try_into().ok().map(Self)
    }
}

impl Keys {
    /// The keys of a home of ours. `new`: where the key of new sessions is kept;
    /// `None`: these are not encrypted.
    pub fn new(keychain: Keychain, home: &Path, new: Option<KeyPlace>) -> Self {
        Self { keychain, home: Some(home.to_owned()), new, redact: None }
    }

    /// The same; secrets are taken out of all that is written.
    #[must_use]
    pub fn redacting(self, redact: Option<Arc<dyn Redact>>) -> Self {
        Self { redact, ..self }
    }

    /// What takes the secrets out.
    pub fn redact(&self) -> Option<Arc<dyn Redact>> {
        self.redact.clone()
    }

    /// A text as it may be written.
    pub fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact.as_ref().map_or(Cow::Borrowed(text), |redact| redact.redact(text))
    }

    /// A record as it may be written; `None`: it cannot be made.
    pub(crate) fn redacted_record<'a>(&self, record: &'a Record) -> Option<Cow<'a, Record>> {
        match &self.redact {
            None => Some(Cow::Borrowed(record)),
            Some(redact) => crate::redact::record(record, redact.as_ref()),
        }
    }

    /// Whether what is written is encrypted.
    pub fn encrypts(&self) -> bool {
        self.new.is_some()
    }

    /// Makes sure of the key that new sessions are encrypted with, so that what is
    /// wrong is told before anything was said. Blocking.
    ///
    /// # Errors
    /// It can be neither read nor made.
    pub fn check(&self) -> Result<(), KeyError> {
        self.for_new().map(drop)
    }

    /// The file that may hold the key.
    pub fn file(home: &Path) -> PathBuf {
        home.join(FILE)
    }

    /// The key that new sessions are encrypted with, made where there is none;
    /// `None`: they are not encrypted.
    pub(crate) fn for_new(&self) -> Result<Option<MasterKey>, KeyError> {
        match self.new {
            None => Ok(None),
            Some(KeyPlace::Keychain) => self.of_keychain().map(Some),
            Some(KeyPlace::File) => match self.in_file()? {
                Some(key) => Ok(Some(key)),
                None => self.make_file().map(Some),
            },
        }
    }

    /// The key of this id.
    pub(crate) fn find(&self, id: &str) -> Result<MasterKey, KeyError> {
        let in_file = self.in_file()?;
        let is_there = in_file.is_some();
        if let Some(key) = in_file.filter(|key| key.id() == id) {
            return Ok(key);
        }
        let kept = self.keychain.get(NAME).map_err(|keychain| {
            let (id, file) = (id.to_owned(), self.key_file());
            KeyError::NotInFile { id, file, is_there, keychain }
        })?;
        let key = kept.and_then(|text| MasterKey::of_text(text.expose()));
        key.filter(|key| key.id() == id)
            .ok_or_else(|| KeyError::Missing { id: id.to_owned(), file: self.key_file() })
    }

    fn key_file(&self) -> PathBuf {
        self.home.as_deref().map(Self::file).unwrap_or_default()
    }

    fn of_keychain(&self) -> Result<MasterKey, KeyError> {
        let read = |text: Option<Secret>| match text {
            None => Ok(None),
            Some(text) => MasterKey::of_text(text.expose()).map(Some).ok_or_else(|| {
                let why = format!("what it holds as `{NAME}` is no key");
                KeyError::Keychain(KeychainError::Failed(why))
            }),
        };
        let kept = self.keychain.get(NAME).map_err(KeyError::Keychain)?;
        if let Some(key) = read(kept)? {
            return Ok(key);
        }
        // Of two processes that begin at once one makes it.
        let _turn = self.turn()?;
        let kept = self.keychain.get_uncached(NAME).map_err(KeyError::Keychain)?;
        if let Some(key) = read(kept)? {
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
            Ok(text) => match MasterKey::of_text(&text) {
                Some(key) => Ok(Some(key)),
                None => Err(KeyError::File { file, why: "it holds no key".to_owned() }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(KeyError::File { file, why: error.to_string() }),
        }
    }

    fn make_file(&self) -> Result<MasterKey, KeyError> {
        let _turn = self.turn()?;
        if let Some(key) = self.in_file()? {
            return Ok(key);
        }
        let key = random_key()?;
        let file = self.key_file();
        let new = file.with_extension("new");
        let written = (|| {
            let _ = fs::remove_file(&new);
            let mut out = private(&new, true)?;
            writeln!(out, "{}", BASE64.encode(key.0))?;
            out.sync_all()?;
            fs::rename(&new, &file)
        })();
        written.map_err(|error| KeyError::File { file, why: error.to_string() })?;
        Ok(key)
    }

    /// Until it is dropped nobody else makes a key.
    fn turn(&self) -> Result<File, KeyError> {
        let file = self.key_file();
        let lock = file.parent().map_or(Ok(()), create_private_dir);
        let lock = lock.and_then(|()| private(&file.with_extension("lock"), false));
        let locked = lock.and_then(|lock| lock.lock().map(|()| lock));
        locked.map_err(|error| KeyError::File { file, why: error.to_string() })
    }
}

fn random_key() -> Result<MasterKey, KeyError> {
    let mut key = [0; KEY];
    SystemRandom::new().fill(&mut key).map_err(|_| KeyError::NoRandom)?;
    Ok(MasterKey(key))
}

fn private(path: &Path, new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).create_new(new).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    set_mode(path, 0o600)?;
    Ok(file)
}
