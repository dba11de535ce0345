//! Checks keys before they are stored.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::secret::Secret;

use crate::failure;

/// Checks that a header can contain a key.
///
/// # Errors
/// Returns an error if the key is empty or contains other characters.
pub(crate) fn require_valid_key(key: &Secret) -> Result<(), Failure> {
    if key.is_empty() {
        return Err(failure(FailureKind::Input, "the key is empty".to_owned()));
    }
    if key.expose().chars().all(|char| matches!(char, ' '..='~')) {
        return Ok(());
    }
    Err(failure(
        FailureKind::Auth,
        "the API key contains characters that are invalid in an HTTP header (control characters, \
         or characters outside of ASCII), so it was not stored; copy the key again"
            .to_owned(),
    ))
}
