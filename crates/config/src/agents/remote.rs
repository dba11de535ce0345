//! Definitions of remote agents, which another program serves over Agent2Agent. The keys are those
//! of Gemini CLI (`docs/core/remote-agents.md` there).

use std::fmt;

use parallax_protocol::Object;
use parallax_protocol::secret::{Secret, SecretRecipient, SecretVariables};
use serde_json::Value;
use url::{Host, Url};

use super::values::{DESCRIPTION, checked_name, positive_minutes, text};
use super::{Agent, AgentTier};
use crate::commands::one_line;

/// The keys of a definition.
const KEYS: [&str; 8] = [
    "kind",
    "name",
    "description",
    "display_name",
    "agent_card_url",
    "agent_card_json",
    "auth",
    "timeout_mins",
];
/// Time limit of a task in minutes, unless the definition sets one.
const MINUTES: u64 = 30;
/// The header of an API key, unless the definition names one.
const KEY_HEADER: &str = "X-API-Key";

/// A remote agent: where its card is, and what it asks of its callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteDefinition {
    /// The card.
    pub card: CardSource,
    /// The credentials to send; `None` for none.
    pub auth: Option<RemoteAuth>,
}

/// Where the card of an agent comes from. It names the addresses of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardSource {
    /// A URL.
    Url(Url),
    /// The definition itself: the text of the card.
    Json(String),
}

/// How requests to a remote agent are authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteAuth {
    /// A key in a header.
    ApiKey {
        /// The header.
        header: String,
        /// The key.
        key: DynamicValue,
    },
    /// `Authorization: Basic`.
    Basic {
        /// The name of the user.
        username: DynamicValue,
        /// The password.
        password: DynamicValue,
    },
    /// `Authorization` with another scheme, such as `Bearer`.
    Scheme {
        /// The scheme.
        scheme: String,
        /// What follows it.
        value: DynamicValue,
    },
    /// Google's application default credentials.
    Google {
        /// OAuth scopes; empty for the default.
        scopes: Vec<String>,
    },
}

impl RemoteAuth {
    /// Registers the environment variables that hold secrets.
    pub fn register_variables(&self, secrets: &SecretVariables) {
        let values = match self {
            Self::ApiKey { key, .. } => vec![key],
            Self::Basic { username, password } => vec![username, password],
            Self::Scheme { value, .. } => vec![value],
            Self::Google { .. } => Vec::new(),
        };
        for value in values {
            if let DynamicValue::Variable(name) = value {
                secrets.insert(name, SecretRecipient::Service);
            }
        }
    }
}

/// A secret of a definition, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DynamicValue {
    /// The definition itself.
    Literal(Secret),
    /// An environment variable.
    Variable(String),
    /// The output of a shell command.
    Command(String),
}

impl DynamicValue {
    /// Reads a value: `$NAME`, `!command`, or a literal, in which a first `$$` or `!!` is one
    /// character.
    fn read(text: &str) -> Self {
        let literal = |text: &str| Self::Literal(Secret::new(text));
        match text.as_bytes() {
            [b'$', b'$', ..] | [b'!', b'!', ..] => literal(text.get(1..).unwrap_or_default()),
            [b'$', _, ..] => Self::Variable(text.get(1..).unwrap_or_default().to_owned()),
            [b'!', _, ..] => Self::Command(text.get(1..).unwrap_or_default().to_owned()),
            _ => literal(text),
        }
    }
}

impl fmt::Display for DynamicValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("the value in the file"),
            Self::Variable(name) => write!(f, "the variable `{name}`"),
            Self::Command(command) => write!(f, "the output of `{command}`"),
        }
    }
}

impl RemoteDefinition {
    /// Returns the address that the definition names, for display.
    pub fn address(&self) -> String {
        match &self.card {
            CardSource::Url(url) => url.to_string(),
            CardSource::Json(text) => {
                let card: Value = serde_json::from_str(text).unwrap_or_default();
                let interfaces = card.get("supportedInterfaces").and_then(Value::as_array);
                let first = interfaces.and_then(|list| list.first()?.get("url"));
                first.or(card.get("url")).and_then(Value::as_str).unwrap_or_default().to_owned()
            }
        }
    }

    /// Describes what is sent with each request, for users who accept the agent; empty if nothing
    /// is.
    pub fn credentials(&self) -> String {
        match &self.auth {
            None => String::new(),
            Some(RemoteAuth::ApiKey { header, key }) => format!("`{header}` with {key}"),
            Some(RemoteAuth::Basic { username, password }) => {
                format!("`Authorization: Basic` with {username} and {password}")
            }
            Some(RemoteAuth::Scheme { scheme, value }) => {
                format!("`Authorization: {scheme}` with {value}")
            }
            Some(RemoteAuth::Google { .. }) => {
                "a token for your Google Cloud credentials".to_owned()
            }
        }
    }
}

/// Builds a remote agent from the fields of its definition.
pub(super) fn read(fields: &Object, tier: &AgentTier) -> Result<Agent, String> {
    if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "unknown key `{unknown}` of a remote agent; known keys: {}",
            KEYS.join(", ")
        ));
    }
    if fields.get("kind").is_some_and(|kind| kind != "remote") {
        return Err("`kind` must be `remote` for an agent with a card".to_owned());
    }
    let name = checked_name(fields)?;
    let (url, json) = (text(fields, "agent_card_url")?, text(fields, "agent_card_json")?);
    let card = match (url, json) {
        (Some(url), None) => CardSource::Url(address(url, "agent_card_url")?),
        (None, Some(json)) => CardSource::Json(checked_card(json)?.to_owned()),
        (None, None) => return Err("`agent_card_url` or `agent_card_json` is missing".to_owned()),
        (Some(_), Some(_)) => {
            return Err("`agent_card_url` and `agent_card_json` cannot be used together".to_owned());
        }
    };
    let auth = fields.get("auth").map(auth).transpose()?;
    let remote = RemoteDefinition { card, auth };
    let described = match text(fields, "description")? {
        Some(description) => description.to_owned(),
        None => description_of(&remote),
    };
    let mut agent = Agent::new(name, &described, tier.clone(), "");
    agent.display_name = text(fields, "display_name")?.map(|name| one_line(name, 64));
    agent.description = one_line(&agent.description, DESCRIPTION);
    agent.time = positive_minutes(fields, "timeout_mins", MINUTES)?;
    agent.remote = Some(remote);
    Ok(agent)
}

/// Whether nothing that is sent to a URL can be read on the way: it is encrypted, or stays on this
/// machine.
pub fn is_private_to_peer(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_on_this_machine(url),
        _ => false,
    }
}

/// Whether a URL names this machine by a loopback address or name.
pub fn is_on_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(host)) => host == "localhost" || host.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn address(text: &str, key: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{key}` is not a URL: {error}"))?;
    match is_private_to_peer(&url) {
        true => Ok(url),
        false => {
            Err(format!("`{key}` must be an `https://` URL, or an `http://` URL of this machine"))
        }
    }
}

fn checked_card(text: &str) -> Result<&str, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => Ok(text),
        Ok(_) => Err("`agent_card_json` must be a JSON object".to_owned()),
        Err(error) => Err(format!("`agent_card_json` is invalid JSON: {error}")),
    }
}

fn description_of(remote: &RemoteDefinition) -> String {
    if let CardSource::Json(text) = &remote.card
        && let Ok(card) = serde_json::from_str::<Value>(text)
        && let Some(description) = card.get("description").and_then(Value::as_str)
        && !description.trim().is_empty()
    {
        return description.to_owned();
    }
    format!("An agent at {}.", remote.address())
}

fn auth(value: &Value) -> Result<RemoteAuth, String> {
    let fields = value.as_object().ok_or("`auth` must be a mapping")?;
    let known = |keys: &[&str]| match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => {
            Err(format!("unknown key `auth.{unknown}`; known keys: {}", keys.join(", ")))
        }
        None => Ok(()),
    };
    let word = |key: &str| text(fields, key).map_err(|reason| reason.replacen('`', "`auth.", 1));
    let needed = |key: &str| word(key)?.ok_or_else(|| format!("`auth.{key}` is missing"));
    let secret = |key: &str| match DynamicValue::read(needed(key)?) {
        DynamicValue::Command(command) if command.contains(char::is_control) => {
            Err(format!("the command in `auth.{key}` contains a control character"))
        }
        value => Ok(value),
    };
    match word("type")? {
        Some("apiKey") => {
            known(&["type", "key", "name"])?;
            let header = word("name")?.unwrap_or(KEY_HEADER);
            let is_token = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            if !header.chars().all(is_token) {
                return Err("`auth.name` must be the name of an HTTP header".to_owned());
            }
            Ok(RemoteAuth::ApiKey { header: header.to_owned(), key: secret("key")? })
        }
        Some("http") => {
            known(&["type", "scheme", "token", "username", "password", "value"])?;
            let scheme = needed("scheme")?;
            if !scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
                return Err("`auth.scheme` must be one word, such as `Bearer`".to_owned());
            }
            match scheme.to_ascii_lowercase().as_str() {
                "basic" if fields.get("value").is_none() => Ok(RemoteAuth::Basic {
                    username: secret("username")?,
                    password: secret("password")?,
                }),
                "bearer" if fields.get("value").is_none() => {
                    Ok(RemoteAuth::Scheme { scheme: "Bearer".to_owned(), value: secret("token")? })
                }
                _ => Ok(RemoteAuth::Scheme { scheme: scheme.to_owned(), value: secret("value")? }),
            }
        }
        Some("google-credentials") => {
            known(&["type", "scopes"])?;
            let scopes = match fields.get("scopes") {
                None => Vec::new(),
                Some(list) => super::fields::string_list(list)
                    .ok_or("`auth.scopes` must be a list of strings")?,
            };
            Ok(RemoteAuth::Google { scopes })
        }
        Some("oauth") => Err("`auth.type: oauth` is not supported; use `http` with \
                              `scheme: Bearer` and a `token` that a command prints (`!command`)"
            .to_owned()),
        Some(other) => Err(format!(
            "unknown `auth.type` `{}`; known types: apiKey, http, google-credentials",
            one_line(other, 40)
        )),
        None => Err("`auth.type` is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(fields: Value) -> Result<Agent, String> {
        let Value::Object(fields) = fields else { panic!("an object") };
        read(&fields, &AgentTier::User)
    }

    fn with_auth(auth: Value) -> Result<RemoteAuth, String> {
        let fields = json!({"name": "a", "agent_card_url": "https://x.example/card", "auth": auth});
        Ok(agent(fields)?.remote.expect("remote").auth.expect("credentials"))
    }

    #[test]
    fn remote_definition_names_card_and_limits() {
        let remote = agent(json!({
            "kind": "remote", "name": "far", "description": "helps", "timeout_mins": 2,
            "agent_card_url": "https://x.example/.well-known/agent-card.json"
        }))
        .expect("an agent");
        assert_eq!((remote.description.as_str(), remote.time.as_secs()), ("helps", 120));
        let card = r#"{"description":"from its card","url":"https://y.example/a2a"}"#;
        let inline = agent(json!({"name": "far", "agent_card_json": card})).expect("an agent");
        assert_eq!((inline.description.as_str(), inline.time.as_secs()), ("from its card", 1800));
        assert_eq!(inline.remote.expect("remote").address(), "https://y.example/a2a");
    }

    #[test]
    fn credentials_come_from_literals_variables_and_commands() {
        let literal = |text: &str| DynamicValue::Literal(Secret::new(text));
        for (auth, expected) in [
            (
                json!({"type": "apiKey", "key": "$KEY"}),
                RemoteAuth::ApiKey {
                    header: "X-API-Key".into(),
                    key: DynamicValue::Variable("KEY".into()),
                },
            ),
            (
                json!({"type": "http", "scheme": "bearer", "token": "!print token"}),
                RemoteAuth::Scheme {
                    scheme: "Bearer".into(),
                    value: DynamicValue::Command("print token".into()),
                },
            ),
            (
                json!({"type": "http", "scheme": "Basic", "username": "!!me", "password": "$$x"}),
                RemoteAuth::Basic { username: literal("!me"), password: literal("$x") },
            ),
            (
                json!({"type": "http", "scheme": "Digest", "value": "v"}),
                RemoteAuth::Scheme { scheme: "Digest".into(), value: literal("v") },
            ),
            (
                json!({"type": "google-credentials", "scopes": ["s"]}),
                RemoteAuth::Google { scopes: vec!["s".into()] },
            ),
        ] {
            assert_eq!(with_auth(auth).expect("credentials"), expected);
        }
    }

    #[test]
    fn invalid_remote_definitions_are_reported() {
        let card = "https://x.example/card";
        for (fields, part) in [
            (json!({"name": "a"}), "is missing"),
            (json!({"name": "a", "agent_card_url": "x"}), "not a URL"),
            (json!({"name": "a", "agent_card_url": "http://x.example/card"}), "https"),
            (json!({"name": "a", "agent_card_url": "file:///etc/passwd"}), "https"),
            (json!({"name": "a", "agent_card_json": "{"}), "invalid JSON"),
            (json!({"name": "a", "agent_card_url": card, "agent_card_json": "{}"}), "together"),
            (json!({"name": "a", "agent_card_url": card, "tools": ["*"]}), "unknown key `tools`"),
            (json!({"name": "a", "agent_card_url": card, "kind": "local"}), "`kind` must be"),
            (json!({"name": "A b", "agent_card_url": card}), "lowercase"),
        ] {
            let reason = agent(fields).expect_err("invalid");
            assert!(reason.contains(part), "{reason}");
        }
        for (auth, part) in [
            (json!("x"), "mapping"),
            (json!({"type": "apiKey"}), "`auth.key` is missing"),
            (json!({"type": "apiKey", "key": "k", "name": "a\nb"}), "HTTP header"),
            (json!({"type": "http", "scheme": "Bearer"}), "`auth.token` is missing"),
            (json!({"type": "http", "scheme": "a b", "value": "v"}), "one word"),
            (json!({"type": "magic"}), "unknown `auth.type`"),
            (json!({"type": "apiKey", "key": "k", "x": 1}), "unknown key `auth.x`"),
        ] {
            let reason = with_auth(auth).expect_err("invalid");
            assert!(reason.contains(part), "{reason}");
        }
    }
}
