//! Under which names secrets lie.

/// What our own secrets are filed under.
const OURS: &str = "parallax";
/// The reference's names: a service and an account in it.
const API_KEYS: &str = "gemini-cli-api-key";
const API_KEY: &str = "default-api-key";
const SIGN_INS: &str = "gemini-cli-oauth";

/// Where a store has a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) service: &'a str,
    pub(crate) account: &'a str,
}

impl<'a> Place<'a> {
    /// One of ours.
    pub(crate) fn ours(account: &'a str) -> Self {
        Self { service: OURS, account }
    }

    pub(crate) fn is_ours(self) -> bool {
        self.service == OURS
    }
}

/// The name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// The key to the model's service.
    ApiKey,
    /// The tokens of a sign-in to this MCP server.
    SignIn(String),
    /// One that only this program knows.
    Own(String),
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self::Own(name.to_owned())
    }
}

impl From<&String> for Name {
    fn from(name: &String) -> Self {
        Self::Own(name.clone())
    }
}

impl Name {
    /// The name in the system's store, unique in one home.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::ApiKey => "api-key".to_owned(),
            Self::SignIn(server) => format!("mcp-oauth {server}"),
            Self::Own(name) => name.clone(),
        }
    }

    /// Service and account as all programs of the family have them.
    pub(crate) fn of_family(&self) -> (&'static str, String) {
        match self {
            Self::ApiKey => (API_KEYS, API_KEY.to_owned()),
            Self::SignIn(server) => (SIGN_INS, plain(server)),
            Self::Own(name) => (OURS, name.clone()),
        }
    }
}

/// A server's name as an account.
fn plain(server: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    server.chars().map(|char| if plain(char) { char } else { '_' }).collect()
}
