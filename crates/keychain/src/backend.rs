//! The programs that access the system stores.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::hexadecimal::{from_hexadecimal, hexadecimal};
use crate::location::SecretLocation;
use crate::program::{ProgramResult, run};

/// Time limit for a store that is known to respond: the user may have to unlock it.
pub(crate) const UNLOCK_TIMEOUT: Duration = Duration::from_secs(20);
/// Exit code of `security` when the item does not exist.
const NOT_FOUND: i32 = 44;

/// A system store.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// The Secret Service, through this `secret-tool`.
    SecretTool(PathBuf),
    /// The macOS keychain, through this `security`.
    Security(PathBuf),
}

impl Backend {
    /// Finds the store of this system.
    pub(crate) fn find(path: Option<&OsStr>) -> Option<Self> {
        if cfg!(target_os = "macos") {
            // Not from `PATH`, because this program receives passwords.
            let program = Path::new("/usr/bin/security");
            return program.is_file().then(|| Self::Security(program.to_owned()));
        }
        std::env::split_paths(path?)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("secret-tool"))
            .find(|program| program.is_file())
            .map(Self::SecretTool)
    }

    /// Returns the secret of an account, if it exists.
    pub(crate) fn get(
        &self,
        at: SecretLocation<'_>,
        limit: Duration,
    ) -> Result<Option<String>, String> {
        match self {
            Self::SecretTool(program) => {
                let ended = run(program, &attributes("lookup", at), "", limit)?;
                match (ended.code, ended.stderr.trim()) {
                    (Some(0), _) => Ok(Some(ended.stdout)),
                    // Not found; a store that cannot be reached prints an error.
                    (Some(1), "") => Ok(None),
                    _ => Err(ended.error_message()),
                }
            }
            Self::Security(program) => {
                let (service, account) = (at.service, plain(at.account));
                let words = ["find-generic-password", "-s", service, "-a", &account, "-w"];
                let ended = run(program, &words, "", limit)?;
                match ended.code {
                    Some(0) => {
                        let error = ended.stdout.trim_end_matches('\n');
                        // Other programs store the text without encoding.
                        if at.is_own() { text(error) } else { Ok(error.to_owned()) }.map(Some)
                    }
                    Some(NOT_FOUND) => Ok(None),
                    _ => Err(ended.error_message()),
                }
            }
        }
    }

    /// Stores a secret. The caller must verify it by reading.
    pub(crate) fn set(
        &self,
        at: SecretLocation<'_>,
        label: &str,
        secret: &str,
    ) -> Result<(), String> {
        match self {
            Self::SecretTool(program) => {
                let label = format!("--label={label}");
                let mut words = attributes("store", at);
                words.insert(1, &label);
                run(program, &words, secret, UNLOCK_TIMEOUT)?.into_result()
            }
            Self::Security(program) => {
                // Only hexadecimal digits and plain words, so that nothing must be quoted.
                let (service, account, label) = (at.service, plain(at.account), plain(label));
                let secret = hexadecimal(secret.as_bytes());
                let command = format!(
                    "add-generic-password -U -s {service} -a {account} -l {label} -w {secret}\n"
                );
                run(program, &["-i"], &command, UNLOCK_TIMEOUT)?.into_result()
            }
        }
    }

    /// Deletes a secret, if it exists.
    pub(crate) fn delete(&self, at: SecretLocation<'_>) -> Result<(), String> {
        match self {
            Self::SecretTool(program) => {
                let ended = run(program, &attributes("clear", at), "", UNLOCK_TIMEOUT)?;
                match (ended.code, ended.stderr.trim()) {
                    (Some(1), "") => Ok(()),
                    _ => ended.into_result(),
                }
            }
            Self::Security(program) => {
                let (service, account) = (at.service, plain(at.account));
                let words = ["delete-generic-password", "-s", service, "-a", &account];
                let ended = run(program, &words, "", UNLOCK_TIMEOUT)?;
                if ended.code == Some(NOT_FOUND) { Ok(()) } else { ended.into_result() }
            }
        }
    }
}

impl ProgramResult {
    fn into_result(self) -> Result<(), String> {
        if self.code == Some(0) { Ok(()) } else { Err(self.error_message()) }
    }

    /// Returns the error message of the program.
    fn error_message(&self) -> String {
        let words: String =
            self.stderr.trim().chars().filter(|char| !char.is_control()).take(300).collect();
        match (words.as_str(), self.code) {
            ("", Some(code)) => format!("it exited with code {code}"),
            ("", None) => "it was terminated by a signal".to_owned(),
            (words, _) => words.to_owned(),
        }
    }
}

fn attributes<'a>(command: &'a str, at: SecretLocation<'a>) -> Vec<&'a str> {
    vec![command, "service", at.service, "account", at.account]
}

/// Converts a name to one plain word.
fn plain(name: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "._-:/@".contains(char);
    let mut word = String::new();
    for char in name.chars() {
        if is_plain(char) {
            word.push(char);
        } else {
            word.push_str(&format!("%{:x}", u32::from(char)));
        }
    }
    word
}

/// Decodes hexadecimal digits.
fn text(digits: &str) -> Result<String, String> {
    let bytes = from_hexadecimal(digits);
    let bytes = bytes.ok_or("the stored value was not written by this program")?;
    String::from_utf8(bytes).map_err(|_| "the stored value is not text".to_owned())
}
