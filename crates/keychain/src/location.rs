//! The names under which secrets are stored.

use std::borrow::Cow;

/// The service of Parallax secrets.
const OUR_SERVICE: &str = "parallax";
/// The names that Gemini CLI uses: a service and its account.
const API_KEYS: &str = "gemini-cli-api-key";
const API_KEY: &str = "default-api-key";
const SIGN_INS: &str = "gemini-cli-oauth";
const EXTENSIONS: &str = "Gemini CLI Extensions";
/// Account prefix of single secrets in that service.
const SECRET: &str = "__secret__";

/// The location of a secret in a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretLocation<'a> {
    pub(crate) service: &'a str,
    pub(crate) account: &'a str,
}

impl<'a> SecretLocation<'a> {
    /// Returns a location of a Parallax secret.
    pub(crate) fn for_parallax(account: &'a str) -> Self {
        Self { service: OUR_SERVICE, account }
    }

    pub(crate) fn is_own(self) -> bool {
        self.service == OUR_SERVICE
    }
}

/// The name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretName {
    /// The API key of the model service.
    ApiKey,
    /// The OAuth tokens for this MCP server.
    SignIn(String),
    /// A setting of an extension, as Gemini CLI stores it.
    ExtensionSetting {
        /// The name of the extension.
        extension: String,
        /// Its ID.
        id: String,
        /// The workspace that it applies to; `None` for all workspaces of the user.
        workspace: Option<String>,
        /// The environment variable.
        variable: String,
    },
    /// A secret that only Parallax uses.
    ParallaxOnly(String),
}

impl From<&str> for SecretName {
    fn from(name: &str) -> Self {
        Self::ParallaxOnly(name.to_owned())
    }
}

impl From<&String> for SecretName {
    fn from(name: &String) -> Self {
        Self::ParallaxOnly(name.clone())
    }
}

impl SecretName {
    /// Returns the name in the system store, unique within one home directory.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::ApiKey => "api-key".to_owned(),
            Self::SignIn(server) => format!("mcp-oauth {server}"),
            Self::ExtensionSetting { variable, .. } => {
                format!("{} {variable}", self.reference_location().0)
            }
            Self::ParallaxOnly(name) => name.clone(),
        }
    }

    /// Returns service and account as all compatible programs use them.
    pub(crate) fn reference_location(&self) -> (Cow<'static, str>, String) {
        match self {
            Self::ApiKey => (API_KEYS.into(), API_KEY.to_owned()),
            Self::SignIn(server) => (SIGN_INS.into(), plain(server)),
            Self::ExtensionSetting { extension, id, workspace, variable } => {
                let mut service = format!("{EXTENSIONS} {extension} {id}");
                if let Some(workspace) = workspace {
                    service.push(' ');
                    service.push_str(workspace);
                }
                (service.into(), format!("{SECRET}{variable}"))
            }
            Self::ParallaxOnly(name) => (OUR_SERVICE.into(), name.clone()),
        }
    }
}

/// Converts a server name to an account name.
fn plain(server: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    server.chars().map(|char| if plain(char) { char } else { '_' }).collect()
}
