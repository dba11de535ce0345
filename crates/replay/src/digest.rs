//! The digest of a recorded request, to detect whether a replayed request is the same.

use std::borrow::Cow;
use std::path::Path;

use parallax_protocol::content::{Role, SealedContent};
use parallax_protocol::model::Request;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::recording_redaction::Secrets;
use crate::scene::{ScriptScene, is_session_context};
use crate::volatile::VolatileText;
use parallax_protocol::excerpt::truncate;

/// The digest of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Digest {
    pub(crate) model: String,
    /// SHA-256 of all contents.
    pub(crate) contents: String,
    /// Prefixes of the hashes of the individual contents.
    #[serde(default)]
    pub(crate) hashes: Vec<String>,
    #[serde(default)]
    pub(crate) last_user_text: String,
    /// How contents are hashed: see [`DigestMode`]. Earlier versions hashed them as they are.
    #[serde(default, skip_serializing_if = "is_exact")]
    pub(crate) form: u32,
}

/// How contents are hashed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DigestMode<'a> {
    /// As they are: 0.
    Exact,
    /// Without what differs in every run: 1.
    Reproducible(&'a VolatileText),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_exact(form: &u32) -> bool {
    *form == 0
}

impl Digest {
    /// Computes the digest of a request whose responses are recorded without `secrets`.
    pub(crate) fn for_request(request: &Request, secrets: &Secrets, form: DigestMode<'_>) -> Self {
        let mut whole = Sha256::new();
        let mut hashes = Vec::with_capacity(request.contents.len());
        for content in &request.contents {
            let json = reproducible_content(content, secrets, form);
            let bytes = json.as_bytes();
            whole.update((bytes.len() as u64).to_le_bytes());
            whole.update(bytes);
            hashes.push(hex(&Sha256::digest(bytes), 4));
        }
        // Redacted before it is truncated, because a truncated secret would not be recognized.
        let text = secrets.redact(ScriptScene::new(request, Path::new("")).prompt().into());
        Self {
            model: request.model.clone(),
            contents: hex(&whole.finalize(), 32),
            hashes,
            last_user_text: truncate(&text, 300).to_owned(),
            form: match form {
                DigestMode::Exact => 0,
                DigestMode::Reproducible(_) => 1,
            },
        }
    }
}

/// Returns a content in a form that a replay can reproduce. The session context is omitted, since
/// date, paths, and directory tree differ in every session. Secrets are redacted in model contents,
/// as in the recording.
pub(crate) fn reproducible_content<'a>(
    content: &'a SealedContent,
    secrets: &Secrets,
    form: DigestMode<'_>,
) -> Cow<'a, str> {
    let json = without_session_values(content, secrets);
    match form {
        DigestMode::Exact => json,
        DigestMode::Reproducible(volatile) => volatile.replace(json),
    }
}

fn without_session_values<'a>(content: &'a SealedContent, secrets: &Secrets) -> Cow<'a, str> {
    let json = content.json();
    let may_differ = match content.role() {
        Role::User => json.contains("session_context>"),
        Role::Model => !secrets.is_empty(),
    };
    if !may_differ {
        return Cow::Borrowed(json);
    }
    let Ok(mut open) = content.open() else { return Cow::Borrowed(json) };
    let before = open.parts.len();
    let changed = match open.role {
        Role::User => {
            open.parts.retain(|part| !is_session_context(part));
            open.parts.len() != before
        }
        Role::Model => secrets.redact_parts(&mut open.parts.iter_mut().collect::<Vec<_>>()),
    };
    if changed { Cow::Owned(open.seal().json().to_owned()) } else { Cow::Borrowed(json) }
}

fn hex(bytes: &[u8], count: usize) -> String {
    bytes.iter().take(count).map(|byte| format!("{byte:02x}")).collect()
}
