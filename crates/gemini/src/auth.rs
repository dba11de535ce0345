//! Selects the credentials of a session.

use parallax_protocol::secret::Secret;

/// Credentials that this program can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// A key for the Developer API (also behind a custom base URL).
    ApiKey(Secret),
    /// Vertex AI in express mode: a key, no project.
    VertexExpress(Secret),
    /// Vertex AI with application default credentials.
    VertexProject {
        /// The project.
        project: String,
        /// The location: a region, `us`, `eu`, or `global`.
        location: String,
    },
    /// A gateway that implements the Developer API; its key is optional.
    Gateway(Option<Secret>),
}

impl Auth {
    /// Returns the key, if there is a non-empty one.
    pub fn key(&self) -> Option<&Secret> {
        match self {
            Self::ApiKey(key) | Self::VertexExpress(key) => Some(key),
            Self::VertexProject { .. } => None,
            Self::Gateway(key) => key.as_ref(),
        }
        .filter(|key| !key.is_empty())
    }

    /// Returns the kind of the credentials.
    pub fn kind(&self) -> AuthKind {
        match self {
            Self::ApiKey(_) => AuthKind::ApiKey,
            Self::VertexExpress(_) | Self::VertexProject { .. } => AuthKind::VertexAi,
            Self::Gateway(_) => AuthKind::Gateway,
        }
    }
}

/// The values of `security.auth.selectedType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthKind {
    /// `gemini-api-key`
    ApiKey,
    /// `vertex-ai`
    VertexAi,
    /// `gateway`
    Gateway,
    /// `oauth-personal`: not supported.
    OauthPersonal,
    /// `compute-default-credentials` (also `cloud-shell`): not supported.
    Compute,
}

impl AuthKind {
    /// Returns the name in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "gemini-api-key",
            Self::VertexAi => "vertex-ai",
            Self::Gateway => "gateway",
            Self::OauthPersonal => "oauth-personal",
            Self::Compute => "compute-default-credentials",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "gemini-api-key" => Self::ApiKey,
            "vertex-ai" => Self::VertexAi,
            "gateway" => Self::Gateway,
            "oauth-personal" => Self::OauthPersonal,
            "compute-default-credentials" | "cloud-shell" => Self::Compute,
            _ => return None,
        })
    }
}

/// No usable credentials (exit code 41). Every message states what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Nothing is selected or found.
    #[error(
        "no credentials are configured: please set an auth method (`security.auth.selectedType`) in `~/.parallax/settings.json` or `~/.gemini/settings.json`, run `parallax auth add gemini`, or set one of these environment variables: `GEMINI_API_KEY` (a key of the Gemini API), `GOOGLE_GENAI_USE_VERTEXAI=true` with `GOOGLE_API_KEY` (Vertex AI), `GOOGLE_GEMINI_BASE_URL` (a gateway)"
    )]
    NotConfigured,
    /// The selected kind is unknown.
    #[error(
        "unknown auth method `{value}`: set `security.auth.selectedType` in `~/.parallax/settings.json` to `gemini-api-key`, `vertex-ai` or `gateway`"
    )]
    Unknown {
        /// The configured value.
        value: String,
    },
    /// The settings enforce another kind.
    #[error(
        "the settings enforce the auth method `{enforced}` (`security.auth.enforcedType`), but `{selected}` is selected: set `security.auth.selectedType` in `~/.parallax/settings.json` to `{enforced}`"
    )]
    Enforced {
        /// The enforced kind.
        enforced: String,
        /// The selected kind.
        selected: String,
    },
    /// The kind's variables are missing.
    #[error(
        "the auth method `{kind}` needs {requirement}, selected by `security.auth.selectedType` in `~/.parallax/settings.json` (or `~/.gemini/settings.json`) or by the environment"
    )]
    Missing {
        /// The kind.
        kind: &'static str,
        /// What it needs.
        requirement: &'static str,
    },
    /// The kind is not supported.
    #[error(
        "the auth method `{kind}` is not supported: {reason}. Set `GEMINI_API_KEY`, or `GOOGLE_GENAI_USE_VERTEXAI=true` with `GOOGLE_API_KEY` for Vertex AI, and `security.auth.selectedType` in `~/.parallax/settings.json` to `gemini-api-key` or `vertex-ai`"
    )]
    Unsupported {
        /// The kind.
        kind: &'static str,
        /// The reason.
        reason: &'static str,
    },
}

/// Selects the credentials: `selectedType` in the settings, otherwise by environment, checked
/// against `enforcedType`. `env` should return a key found elsewhere (a keychain) as
/// `GEMINI_API_KEY`. `external`: requests are authenticated by other means, so the user's own
/// server needs no key.
///
/// # Errors
/// Returns an error if there are no usable credentials.
pub fn resolve_auth(
    env: &dyn Fn(&str) -> Option<String>,
    selected_type: Option<&str>,
    enforced_type: Option<&str>,
    external: bool,
) -> Result<Auth, AuthError> {
    let env = |name: &str| env(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    let is_true =
        |name: &str| env(name).is_some_and(|v| v.eq_ignore_ascii_case("true") || v == "1");
    let parse = |word: &str| {
        AuthKind::parse(word).ok_or_else(|| AuthError::Unknown { value: word.to_owned() })
    };
    let description =
        |word: Option<&str>| word.map(str::trim).filter(|word| !word.is_empty()).map(parse);

    let gemini_key = env("GEMINI_API_KEY");
    let google_key = env("GOOGLE_API_KEY");
    let has_base = env("GOOGLE_GEMINI_BASE_URL").is_some();
    let detect = || {
        if is_true("GOOGLE_GENAI_USE_GCA") {
            Some(AuthKind::OauthPersonal)
        } else if is_true("GOOGLE_GENAI_USE_VERTEXAI") {
            Some(AuthKind::VertexAi)
        } else if has_base && gemini_key.is_none() && google_key.is_none() {
            Some(AuthKind::Gateway)
        } else if gemini_key.is_some() || google_key.is_some() {
            Some(AuthKind::ApiKey)
        } else if is_true("CLOUD_SHELL") || is_true("GEMINI_CLI_USE_COMPUTE_ADC") {
            Some(AuthKind::Compute)
        } else {
            env("GEMINI_DEFAULT_AUTH_TYPE").and_then(|word| AuthKind::parse(&word))
        }
    };
    let enforced = description(enforced_type).transpose()?;
    let selected = description(selected_type).transpose()?;
    let mut kind = selected.or_else(detect).or(enforced).ok_or(AuthError::NotConfigured)?;
    if let Some(enforced) = enforced {
        // A key with a base URL is also a gateway.
        if enforced == AuthKind::Gateway && kind == AuthKind::ApiKey && has_base {
            kind = AuthKind::Gateway;
        }
        if enforced != kind {
            return Err(AuthError::Enforced {
                enforced: enforced.as_str().to_owned(),
                selected: kind.as_str().to_owned(),
            });
        }
    }
    match kind {
        AuthKind::ApiKey => match gemini_key.or(google_key) {
            Some(key) => Ok(Auth::ApiKey(Secret::new(key))),
            None if external && has_base => Ok(Auth::Gateway(None)),
            None => Err(AuthError::Missing {
                kind: kind.as_str(),
                requirement: "the environment variable `GEMINI_API_KEY` (or `GOOGLE_API_KEY`), or a key stored by `parallax auth add gemini`",
            }),
        },
        AuthKind::VertexAi => match google_key {
            Some(key) => Ok(Auth::VertexExpress(Secret::new(key))),
            None => {
                let project =
                    env("GOOGLE_CLOUD_PROJECT").or_else(|| env("GOOGLE_CLOUD_PROJECT_ID"));
                match (project, env("GOOGLE_CLOUD_LOCATION")) {
                    (Some(project), Some(location)) => {
                        Ok(Auth::VertexProject { project, location })
                    }
                    _ => Err(AuthError::Missing {
                        kind: kind.as_str(),
                        requirement: "the environment variable `GOOGLE_API_KEY` or a key stored by \
                            `parallax auth add vertex` (express mode), or `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION` with application \
                            default credentials (`gcloud auth application-default login`)",
                    }),
                }
            }
        },
        AuthKind::Gateway if !has_base => Err(AuthError::Missing {
            kind: kind.as_str(),
            requirement: "the environment variable `GOOGLE_GEMINI_BASE_URL`",
        }),
        AuthKind::Gateway => Ok(Auth::Gateway(gemini_key.or(google_key).map(Secret::new))),
        AuthKind::OauthPersonal => Err(AuthError::Unsupported {
            kind: kind.as_str(),
            reason: "the terms of \"Login with Google\" permit it only in Google's own programs",
        }),
        AuthKind::Compute => Err(AuthError::Unsupported {
            kind: kind.as_str(),
            reason: "credentials of a metadata server cannot be used",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        env: &[(&str, &str)],
        selected: Option<&str>,
        enforced: Option<&str>,
    ) -> Result<Auth, AuthError> {
        let get = |name: &str| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        resolve_auth(&get, selected, enforced, false)
    }

    #[test]
    fn auth_type_with_other_credentials_needs_no_key() {
        let resolve = |env: &[(&str, &str)]| {
            let get = |name: &str| {
                env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            resolve_auth(&get, Some("gemini-api-key"), None, true)
        };
        let base = ("GOOGLE_GEMINI_BASE_URL", "http://localhost:1");
        assert_eq!(resolve(&[base]), Ok(Auth::Gateway(None)));
        assert_eq!(resolve(&[base, ("GEMINI_API_KEY", "k")]), Ok(Auth::ApiKey(key())));
        // Google's own service needs one.
        assert!(matches!(resolve(&[]), Err(AuthError::Missing { .. })));
    }

    fn key() -> Secret {
        Secret::new("k")
    }

    #[test]
    fn environment_variables_decide_in_order() {
        let base = ("GOOGLE_GEMINI_BASE_URL", "http://x");
        let gemini = ("GEMINI_API_KEY", " k ");
        let google = ("GOOGLE_API_KEY", "k");
        let vertex = ("GOOGLE_GENAI_USE_VERTEXAI", "true");
        assert_eq!(resolve(&[gemini], None, None), Ok(Auth::ApiKey(key())));
        assert_eq!(resolve(&[google], None, None), Ok(Auth::ApiKey(key())));
        assert_eq!(resolve(&[base, gemini], None, None), Ok(Auth::ApiKey(key())));
        assert_eq!(resolve(&[base], None, None), Ok(Auth::Gateway(None)));
        assert_eq!(resolve(&[vertex, google, base], None, None), Ok(Auth::VertexExpress(key())));
        assert_eq!(resolve(&[("GEMINI_API_KEY", " ")], None, None), Err(AuthError::NotConfigured));
    }

    #[test]
    fn selected_auth_type_has_precedence() {
        let both =
            [("GEMINI_API_KEY", "k"), ("GOOGLE_API_KEY", "g"), ("GOOGLE_GEMINI_BASE_URL", "x")];
        assert_eq!(
            resolve(&both, Some("vertex-ai"), None),
            Ok(Auth::VertexExpress(Secret::new("g")))
        );
        assert_eq!(resolve(&both, Some("gateway"), None), Ok(Auth::Gateway(Some(key()))));
        assert!(matches!(resolve(&both, Some("x"), None), Err(AuthError::Unknown { .. })));
    }

    #[test]
    fn enforced_auth_type_rejects_others() {
        let both = [("GEMINI_API_KEY", "k"), ("GOOGLE_GEMINI_BASE_URL", "x")];
        assert!(matches!(resolve(&both, None, Some("vertex-ai")), Err(AuthError::Enforced { .. })));
        assert_eq!(resolve(&both, None, Some("gateway")), Ok(Auth::Gateway(Some(key()))));
        assert_eq!(resolve(&both, None, Some("gemini-api-key")), Ok(Auth::ApiKey(key())));
    }

    #[test]
    fn unusable_auth_type_names_the_alternatives() {
        let project = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "eu")];
        let expected = Auth::VertexProject { project: "p".into(), location: "eu".into() };
        assert_eq!(resolve(&project, Some("vertex-ai"), None), Ok(expected));
        for error in [
            resolve(&[], Some("oauth-personal"), None),
            resolve(&[("CLOUD_SHELL", "true")], None, None),
            resolve(&[], None, None),
            resolve(&[], Some("gemini-api-key"), None),
        ] {
            let text = error.expect_err("an error").to_string();
            assert!(text.contains("GEMINI_API_KEY") && text.contains("settings.json"), "{text}");
        }
        assert!(!format!("{:?}", Auth::ApiKey(Secret::new("hunter2"))).contains("hunter2"));
    }
}
