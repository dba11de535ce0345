//! The encrypted secrets file `gemini-credentials.json`. Gemini CLI uses it if there is no
//! keychain; Parallax uses the same format in its home directory.
//!
//! Encrypted with AES-256-GCM; scrypt derives the key from the host name and the user name, which
//! are not secret. This protects against casual inspection and copies of the directory, but not
//! against programs that run as this user.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{Aead as _, KeyInit as _};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use serde_json::{Map, Value};

use crate::hexadecimal::{from_hexadecimal, hexadecimal};
use crate::location::SecretLocation;

/// The file name in a home directory.
const FILE: &str = "gemini-credentials.json";
const LIMIT: u64 = 4 * 1024 * 1024;
/// The password for the key derivation; host and user names are the salt.
const PASSWORD: &str = "gemini-cli-oauth";
/// scrypt's cost: 2^14 rounds over blocks of 8.
const COST: (u8, u32, u32) = (14, 8, 1);
const TAG: usize = 16;

type KeyBytes = [u8; 32];

/// Services with their accounts and secrets.
type Secrets = Map<String, Value>;

/// The file of one home directory.
#[derive(Debug, Clone)]
pub(crate) struct EncryptedFile {
    path: PathBuf,
}

impl EncryptedFile {
    pub(crate) fn in_home(home: &Path) -> Self {
        Self { path: home.join(FILE) }
    }

    /// Returns the secret, if it exists. Blocking; slow for the first call in a process.
    pub(crate) fn get(&self, at: SecretLocation<'_>) -> Result<Option<String>, String> {
        let Some(secrets) = self.read()? else { return Ok(None) };
        let found = secrets.get(at.service).and_then(|accounts| accounts.get(at.account));
        Ok(found.and_then(Value::as_str).map(str::to_owned))
    }

    /// Stores a secret. A file that cannot be decrypted is set aside.
    pub(crate) fn set(&self, at: SecretLocation<'_>, secret: &str) -> Result<(), String> {
        let _held = self.lock()?;
        let mut secrets = match self.read() {
            Ok(secrets) => secrets.unwrap_or_default(),
            Err(error_message) => {
                let aside = self.path.with_extension("json.unreadable");
                tracing::warn!(error_message, aside = %aside.display(), "a damaged secrets file \
                    was renamed");
                std::fs::rename(&self.path, aside).map_err(|error| self.error(&error))?;
                Secrets::new()
            }
        };
        let accounts = secrets.entry(at.service).or_insert_with(|| Map::new().into());
        if !accounts.is_object() {
            *accounts = Map::new().into();
        }
        if let Value::Object(accounts) = accounts {
            accounts.insert(at.account.to_owned(), secret.into());
        }
        self.write(&secrets)
    }

    /// Deletes a secret. Returns `false` if it did not exist.
    pub(crate) fn delete(&self, at: SecretLocation<'_>) -> Result<bool, String> {
        if !self.path.exists() {
            return Ok(false);
        }
        let _held = self.lock()?;
        let Some(mut secrets) = self.read()? else { return Ok(false) };
        let Some(Value::Object(accounts)) = secrets.get_mut(at.service) else { return Ok(false) };
        if accounts.shift_remove(at.account).is_none() {
            return Ok(false);
        }
        if accounts.is_empty() {
            secrets.shift_remove(at.service);
        }
        match secrets.is_empty() {
            true => std::fs::remove_file(&self.path).map_err(|error| self.error(&error))?,
            false => self.write(&secrets)?,
        }
        Ok(true)
    }

    fn read(&self) -> Result<Option<Secrets>, String> {
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => {
                let read = file.take(LIMIT + 1).read_to_string(&mut text);
                read.map_err(|error| self.error(&error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(&error)),
        }
        if text.len() as u64 > LIMIT {
            return Err(self.error(&"it is too large"));
        }
        let plain = users().iter().find_map(|user| decrypt(text.trim(), &key(user)));
        let secrets = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        let error_message =
            "it is damaged or belongs to another machine or user; remove it and sign in again";
        secrets.map(Some).ok_or_else(|| self.error(&error_message))
    }

    /// Replaces the file atomically, readable by its owner only.
    fn write(&self, secrets: &Secrets) -> Result<(), String> {
        let text = serde_json::to_string_pretty(secrets).map_err(|error| self.error(&error))?;
        let user = users().into_iter().next().unwrap_or_default();
        let encrypted_file =
            encrypt(text.as_bytes(), &key(&user)).ok_or_else(|| self.error(&"no cipher"))?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(encrypted_file.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        write().map(drop).map_err(|error| self.error(&error))
    }

    /// Locks the file against other Parallax processes.
    fn lock(&self) -> Result<File, String> {
        let held = || {
            let directory = self.path.parent().unwrap_or(Path::new("."));
            private_directory(directory)?;
            let file = File::create(self.path.with_extension("lock"))?;
            file.lock()?;
            Ok(file)
        };
        held().map_err(|error: io::Error| self.error(&error))
    }

    fn error(&self, error_message: &impl std::fmt::Display) -> String {
        format!("`{}`: {error_message}", self.path.display())
    }
}

fn private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Decrypts nonce, tag, and ciphertext. New files have a nonce of 12 bytes, those of older
/// versions one of 16.
fn decrypt(text: &str, key: &KeyBytes) -> Option<Vec<u8>> {
    let mut parts = text.split(':').map(from_hexadecimal);
    let (nonce, tag, mut encrypted_file) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || tag.len() != TAG {
        return None;
    }
    encrypted_file.extend(tag);
    let (key, encrypted_file) = (key.into(), encrypted_file.as_slice());
    match nonce.len() {
        12 => {
            let nonce = Nonce::<U12>::try_from(nonce.as_slice()).ok()?;
            AesGcm::<Aes256, U12>::new(key).decrypt(&nonce, encrypted_file).ok()
        }
        16 => {
            let nonce = Nonce::<U16>::try_from(nonce.as_slice()).ok()?;
            AesGcm::<Aes256, U16>::new(key).decrypt(&nonce, encrypted_file).ok()
        }
        _ => None,
    }
}

fn encrypt(plain: &[u8], key: &KeyBytes) -> Option<String> {
    let mut nonce = [0; 12];
    getrandom::fill(&mut nonce).ok()?;
    let cipher = AesGcm::<Aes256, U12>::new(key.into());
    let encrypted_file = cipher.encrypt(&Nonce::<U12>::from(nonce), plain).ok()?;
    let (encrypted_file, tag) =
        encrypted_file.split_at_checked(encrypted_file.len().checked_sub(TAG)?)?;
    Some([&nonce, tag, encrypted_file].map(hexadecimal).join(":"))
}

/// Returns the key for a user of this host. Cached, because deriving it takes about 50 ms.
fn key(user: &str) -> KeyBytes {
    static KEYS: LazyLock<Mutex<HashMap<String, KeyBytes>>> = LazyLock::new(Mutex::default);
    let salt =
        format!("{}-{user}-gemini-cli", rustix::system::uname().nodename().to_string_lossy());
    let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    *keys.entry(salt).or_insert_with_key(|salt| {
        let mut key = KeyBytes::default();
        let (log_n, r, p) = COST;
        if let Ok(params) = scrypt::Params::new(log_n, r, p) {
            // Fails only for other key lengths.
            let _ = scrypt::scrypt(PASSWORD.as_bytes(), salt.as_bytes(), &params, &mut key);
        }
        key
    })
}

/// Returns the possible user names at the time the file was written, the likeliest first.
fn users() -> Vec<String> {
    let id = rustix::process::geteuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let system_user = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    let variables = ["USER", "LOGNAME"].map(|name| std::env::var(name).ok());
    let mut users: Vec<String> = Vec::new();
    for user in std::iter::once(system_user).chain(variables).flatten() {
        if !user.is_empty() && !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by Gemini CLI 0.61.0 as `root` on a host named `vm`.
    const OF_REFERENCE: &str = "dd5e734f6e2d136ad13c326b:7292810562ca9eb6e7e459ec9bc5499d:f402d7a14e6341771d468f\
        a077a7445ca6bd3417f72bbdb2bfc04e6c3acbd1d37dff81d00343c92c15e4b5eec1b595f2fb320a\
        78662204ef1301ed6055d3278fcdf44c66b10c47f30731aa2a77a3f401e94c19d56b82f472296a75\
        6df6365797a92b4d43fcb3e6a88d606569b08cf5bc6d1b3a429d8629a1997a7dd3cd30eefc3ba688\
        d43260c14cd9f6d06a4e22ddd692dad5fbdbc1c16306691792fb7467bfac8482599703d75809eba6\
        aa0253795ef5e24f4580231fd09c693274902cc25e3ae0";
    /// The same text with a nonce of 16 bytes, as written by earlier versions.
    const OLDER: &str = "000102030405060708090a0b0c0d0e0f:4ad3231fc02fa6197b3fd5e602e3c206:8fe39d69e8c364\
        1b484579293e01d577be73522464b5001479efd9ee8581063ecf89546916a2b7ff81b9952ee01cf2\
        015d42bd360e8469349fe7aa199cff4b669e7bff423ba57188e95eac578dadc1070a939d8bc0722f\
        42baa42bd5e3cff481b84579a84034119ad47d65496c98c4900e0180dda9b6956c59ca36fbde1e83\
        de888e81e98101d60b1f427c41600e90b04fd426ec0914fb61128665aef7a4ae7c061524ccef8967\
        f00dfc532567829545cc333838022a8f7bb3203b2565b5994db099";

    fn key_of(salt: &str) -> KeyBytes {
        let params = scrypt::Params::new(COST.0, COST.1, COST.2).expect("parameters");
        let mut key = KeyBytes::default();
        scrypt::scrypt(PASSWORD.as_bytes(), salt.as_bytes(), &params, &mut key).expect("a key");
        key
    }

    #[test]
    fn gemini_cli_keychain_file_is_opened() {
        let key = key_of("vm-root-gemini-cli");
        for text in [OF_REFERENCE, OLDER] {
            let plain = decrypt(text, &key).expect("opened");
            let secrets: Secrets = serde_json::from_slice(&plain).expect("secrets");
            let stored = secrets["gemini-cli-api-key"]["default-api-key"].as_str().expect("a text");
            assert!(stored.contains(r#""accessToken":"REFKEY--12345""#), "{stored}");
        }
        assert!(decrypt(OF_REFERENCE, &key_of("other-root-gemini-cli")).is_none());
        for damaged in ["", "a:b", "zz:zz:zz", "é:é:é", &OF_REFERENCE.replace(':', ";")] {
            assert!(decrypt(damaged, &key).is_none(), "{damaged}");
        }
    }

    #[test]
    fn secret_is_saved_next_to_others_and_unreadable_file_is_renamed() {
        let home = tempfile::tempdir().expect("a directory");
        let file = EncryptedFile::in_home(&home.path().join("home"));
        let (one, two) =
            (SecretLocation::for_parallax("one"), SecretLocation { service: "s", account: "two" });
        assert_eq!(file.get(one), Ok(None));
        assert_eq!(file.delete(one), Ok(false));
        file.set(one, "first ü").expect("kept");
        file.set(two, "second").expect("kept");
        assert_eq!(file.get(one), Ok(Some("first ü".to_owned())));
        let text = std::fs::read_to_string(&file.path).expect("the file");
        assert!(!text.contains("first") && text.split(':').count() == 3, "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&file.path).expect("metadata").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!((file.delete(one), file.delete(one)), (Ok(true), Ok(false)));
        assert_eq!(file.get(two), Ok(Some("second".to_owned())));
        std::fs::write(&file.path, "00:00:00").expect("written");
        assert!(
            file.get(two).is_err_and(|error_message| error_message.contains("another machine"))
        );
        file.set(one, "again").expect("kept");
        assert_eq!(file.get(one), Ok(Some("again".to_owned())));
        assert!(file.path.with_extension("json.unreadable").exists());
        assert_eq!(file.delete(one), Ok(true));
        assert!(!file.path.exists());
    }
}
