//! Facts of a session that do not change, and the redaction of its secrets.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::content::Content;

use crate::agents::AgentRole;
use crate::options::DescribeDirectories;

/// Minimum length of redacted values: shorter ones may occur in text by chance.
const MIN_SECRET_LENGTH: usize = 8;

/// Facts of the session that do not change.
pub(crate) struct SessionEnvironment {
    pub(crate) interactive: bool,
    pub(crate) includes_file_texts: bool,
    pub(crate) is_replacement: bool,
    pub(crate) trusted: bool,
    pub(crate) workspace: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    pub(crate) describe_directories: DescribeDirectories,
    pub(crate) secrets: Vec<String>,
    /// The role of the session, if it is a subagent.
    pub(crate) role: Option<AgentRole>,
}

impl SessionEnvironment {
    /// Redacts the program's keys in text.
    pub(crate) fn redact(&self, text: &mut String) {
        for secret in self.secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LENGTH) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "[key removed]");
            }
        }
    }

    /// Redacts keys in model contents; parts without a key keep their bytes.
    pub(crate) fn redact_parts(&self, content: &mut Content) {
        let change = |text: &str| {
            let holds = |secret: &String| {
                secret.len() >= MIN_SECRET_LENGTH && text.contains(secret.as_str())
            };
            self.secrets.iter().any(holds).then(|| {
                let mut text = text.to_owned();
                self.redact(&mut text);
                text
            })
        };
        for part in &mut content.parts {
            if let Some(other) = part.map_text(&change) {
                *part = other;
            }
            // The provider accepts its data only unchanged.
            if part.opaque_data().is_some_and(|data| change(data.get()).is_some()) {
                *part = part.clone().with_opaque(None);
            }
        }
    }

    /// Redacts keys in text.
    pub(crate) fn redact_all(&self, mut thoughts: Vec<String>) -> Vec<String> {
        thoughts.iter_mut().for_each(|thought| self.redact(thought));
        thoughts
    }
}
