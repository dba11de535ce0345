//! Encryption of journal lines.
//!
//! The first line identifies the key. The second, the seal, contains a lower bound of the number of
//! records, so that a truncated end is detected. Every other line is one record, encrypted and
//! bound to its number and session, so that lines that were modified, reordered, removed, or copied
//! from elsewhere cannot be decrypted.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::keys::{KeyError, Keys, MasterKey};

/// The prefix of the first line of an encrypted journal.
const BEGINNING: &[u8] = b"{\"encrypted\":{";
/// The version of the format described here.
const VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FirstLine {
    encrypted: CipherHeader,
}

/// The unencrypted header.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CipherHeader {
    version: u32,
    session: String,
    /// The ID of the key.
    key: String,
    /// The salt for deriving the key of this file.
    salt: String,
}

#[derive(Serialize, Deserialize)]
struct EncryptedLine<'a> {
    n: u64,
    #[serde(borrow)]
    encrypted: std::borrow::Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct Seal<'a> {
    #[serde(borrow)]
    seal: std::borrow::Cow<'a, str>,
}

/// Why a file cannot be encrypted or decrypted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CipherError {
    /// The key is not available.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The first line is invalid.
    #[error("its first line is damaged, so it cannot be decrypted")]
    Damaged,
    /// The format version is not supported.
    #[error("it was encrypted by a newer version")]
    Newer,
}

/// Encrypts and decrypts the lines of one journal.
#[derive(Debug, Clone)]
pub(crate) struct Cipher {
    head: CipherHeader,
    key: Arc<LessSafeKey>,
}

/// Whether a file with this prefix is an encrypted journal.
pub(crate) fn is_encrypted(beginning: &[u8]) -> bool {
    beginning.starts_with(BEGINNING)
}

impl Cipher {
    /// Creates the cipher of a new journal.
    pub(crate) fn new(session: &str, key: &MasterKey) -> Result<Self, CipherError> {
        let mut salt = [0; 16];
        SystemRandom::new().fill(&mut salt).map_err(|_| KeyError::NoRandom)?;
        let head = CipherHeader {
            version: VERSION,
            session: session.to_owned(),
            key: key.id(),
            salt: BASE64.encode(salt),
        };
        Self::derive(head, &salt, key)
    }

    /// Creates the cipher of an existing journal from its first line.
    pub(crate) fn open(first: &[u8], keys: &Keys) -> Result<Self, CipherError> {
        let first: FirstLine = serde_json::from_slice(first).map_err(|_| CipherError::Damaged)?;
        let head = first.encrypted;
        if head.version > VERSION {
            return Err(CipherError::Newer);
        }
        let salt = BASE64.decode(&head.salt).map_err(|_| CipherError::Damaged)?;
        let key = keys.find(&head.key)?;
        Self::derive(head, &salt, &key)
    }

    fn derive(head: CipherHeader, salt: &[u8], key: &MasterKey) -> Result<Self, CipherError> {
        // Each file has its own key, so that nonces of different files never collide.
        let master = Salt::new(HKDF_SHA256, salt).extract(key.bytes());
        let info: [&[u8]; 1] = [b"parallax journal"];
        let key = master.expand(&info, &AES_256_GCM).map_err(|_| CipherError::Damaged)?;
        Ok(Self { head, key: Arc::new(LessSafeKey::new(UnboundKey::from(key))) })
    }

    /// Returns the ID of the key.
    pub(crate) fn key_id(&self) -> &str {
        &self.head.key
    }

    /// Returns the first line of the file, including the line ending.
    pub(crate) fn first_line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&FirstLine { encrypted: self.head.clone() })?;
        line.push(b'\n');
        Ok(line)
    }

    /// Encrypts a record as a line of the file, including the line ending. Returns `None` if the
    /// system provides no random bytes.
    pub(crate) fn encrypt_record(&self, number: u64, record: &[u8]) -> Option<Vec<u8>> {
        let encrypted = self.encrypt_text(record, self.record_aad(number))?.into();
        let mut line = serde_json::to_vec(&EncryptedLine { n: number, encrypted }).ok()?;
        line.push(b'\n');
        Some(line)
    }

    /// Returns the seal of a journal with this many records, including the line ending. Its length
    /// does not depend on the number. Returns `None` if the system provides no random bytes.
    pub(crate) fn seal(&self, records: u64) -> Option<Vec<u8>> {
        let seal = self.encrypt_text(&records.to_be_bytes(), self.seal_aad())?.into();
        let mut line = serde_json::to_vec(&Seal { seal }).ok()?;
        line.push(b'\n');
        Some(line)
    }

    /// Returns the number of records in a seal, or `None` if the line is not a valid seal.
    pub(crate) fn read_seal(&self, line: &[u8]) -> Option<u64> {
        let line: Seal<'_> = serde_json::from_slice(line).ok()?;
        let records = self.decrypt_text(&line.seal, self.seal_aad())?;
        Some(u64::from_be_bytes(records.try_into().ok()?))
    }

    fn encrypt_text(&self, text: &[u8], associated_data: Aad<Vec<u8>>) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut bytes = Vec::with_capacity(NONCE_LEN + text.len() + AES_256_GCM.tag_len());
        bytes.extend_from_slice(text);
        let nonce_of_key = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce_of_key, associated_data, &mut bytes).ok()?;
        bytes.splice(0..0, nonce);
        Some(BASE64.encode(bytes))
    }

    fn decrypt_text(&self, text: &str, associated_data: Aad<Vec<u8>>) -> Option<Vec<u8>> {
        let mut bytes = BASE64.decode(text.as_bytes()).ok()?;
        let nonce: [u8; NONCE_LEN] = bytes.get(..NONCE_LEN)?.try_into().ok()?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length =
            self.key.open_within(nonce, associated_data, &mut bytes, NONCE_LEN..).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }

    /// Returns the number and the record of a line, or `None` if the line was modified.
    pub(crate) fn decrypt_line(&self, line: &[u8]) -> Option<(u64, Vec<u8>)> {
        let line: EncryptedLine<'_> = serde_json::from_slice(line).ok()?;
        Some((line.n, self.decrypt_text(&line.encrypted, self.record_aad(line.n))?))
    }

    /// Returns the additional authenticated data of a record.
    fn record_aad(&self, number: u64) -> Aad<Vec<u8>> {
        let mut associated_data = b"parallax journal 1\0".to_vec();
        associated_data.extend_from_slice(self.head.session.as_bytes());
        associated_data.push(0);
        associated_data.extend_from_slice(&number.to_be_bytes());
        Aad::from(associated_data)
    }

    /// Returns the additional authenticated data of the seal.
    fn seal_aad(&self) -> Aad<Vec<u8>> {
        let mut associated_data = b"parallax journal 1 seal\0".to_vec();
        associated_data.extend_from_slice(self.head.session.as_bytes());
        Aad::from(associated_data)
    }
}
