//! Where the credentials for Google's services come from.

use parallax_gemini::{Auth, AuthKind};

use crate::ProviderManager;
use crate::credential::CredentialSource;
use crate::provider_credentials::{KeySource, ProviderCredential};

impl ProviderManager {
    /// Returns where the credentials of the Gemini API and of Vertex AI are. Blocking: may read a key
    /// from a keychain.
    pub fn google_credentials(&self) -> Vec<ProviderCredential> {
        type Row<'a> = (&'a str, AuthKind, &'a [&'a str], &'a str);
        let rows: [Row<'_>; 2] = [
            (
                "gemini",
                AuthKind::ApiKey,
                &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                "generativelanguage.googleapis.com",
            ),
            ("vertex", AuthKind::VertexAi, &["GOOGLE_API_KEY"], "aiplatform.googleapis.com"),
        ];
        let is_set = |name: &&&str| self.config.environment.get(name).is_some();
        let row = |(name, kind, variables, host): Row<'_>| {
            let variable = variables.iter().find(is_set).or(variables.first());
            let variable = (*variable.unwrap_or(&"")).to_owned();
            let source = match self.auth_of(Some(kind.as_str())) {
                Ok((Auth::VertexProject { .. }, _)) => KeySource::Project,
                Ok((auth, _)) if auth.key().is_none() => KeySource::NotNeeded,
                Ok((_, CredentialSource::Stored)) => KeySource::Stored,
                Ok((_, CredentialSource::Environment)) => KeySource::Variable(variable),
                Err(_) => KeySource::Missing,
            };
            ProviderCredential {
                provider: name.to_owned(),
                base_url: format!("https://{host}"),
                variables: variables.iter().map(|name| (*name).to_owned()).collect(),
                source,
            }
        };
        rows.into_iter().map(row).collect()
    }
}
