//! Decides which variables of the parent process a child may have.

use std::collections::{BTreeMap, HashSet};

use parallax_protocol::secret::SecretRecipient;

use super::names::{ALWAYS_ALLOWED, ALWAYS_ALLOWED_PREFIXES, NEVER_ALLOWED, OWN_CREDENTIALS};
use super::secrets::{is_bare_secret, is_secret_value, secret_name_part};
use super::{DropReason, Redaction};

/// The rules for variables of one parent process.
pub(super) struct VariableFilter {
    enabled: bool,
    strict: bool,
    allowed: HashSet<String>,
    blocked: HashSet<String>,
    dotenv: HashSet<String>,
    credentials: BTreeMap<String, SecretRecipient>,
}

impl VariableFilter {
    pub fn new(redaction: &Redaction, strict: bool) -> Self {
        let upper = |names: &[String]| -> HashSet<String> {
            names.iter().map(|name| name.to_uppercase()).collect()
        };
        Self {
            enabled: redaction.enabled || strict,
            strict,
            allowed: upper(&redaction.allowed),
            blocked: upper(&redaction.blocked),
            dotenv: upper(&redaction.dotenv_names),
            credentials: redaction.credentials.snapshot(),
        }
    }

    /// Returns why a variable is withheld. The first matching rule decides.
    pub fn drop_reason(&self, name: &str, value: &str) -> Option<DropReason> {
        let name = name.to_uppercase();
        let name = name.as_str();
        if is_own_credential(name) {
            return Some(DropReason::OwnCredential);
        }
        // A header with `$USER` or `$HOME` must not break every command.
        match self.credentials.get(name).filter(|_| !ALWAYS_ALLOWED.contains(&name)) {
            Some(SecretRecipient::Provider) => return Some(DropReason::OwnCredential),
            Some(SecretRecipient::Service) if !self.allowed.contains(name) => {
                return Some(DropReason::ServiceCredential);
            }
            Some(SecretRecipient::Service) | None => {}
        }
        if self.dotenv.contains(name) && !self.allowed.contains(name) {
            return Some(DropReason::Dotenv);
        }
        if !self.enabled || name.starts_with("GEMINI_CLI_") {
            return None;
        }
        if is_secret_value(value) {
            return Some(DropReason::SecretValue);
        }
        if name.starts_with("GIT_CONFIG_") || self.allowed.contains(name) {
            return None;
        }
        if self.blocked.contains(name) {
            return Some(DropReason::Blocked);
        }
        if name.starts_with("BASH_FUNC_") {
            return Some(DropReason::Function);
        }
        if ALWAYS_ALLOWED.contains(&name)
            || ALWAYS_ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        {
            return None;
        }
        if NEVER_ALLOWED.contains(&name) {
            return Some(DropReason::KnownName);
        }
        if self.strict {
            return Some(DropReason::Runner);
        }
        if is_bare_secret(name, value) {
            return Some(DropReason::SecretValue);
        }
        secret_name_part(name).map(DropReason::NamePart)
    }
}

fn is_own_credential(name: &str) -> bool {
    let is = |name: &str| OWN_CREDENTIALS.contains(&name);
    is(name)
        || name
            .strip_prefix("PARALLAX_")
            .is_some_and(|rest| is(rest) || is(&format!("GEMINI_{rest}")))
}
