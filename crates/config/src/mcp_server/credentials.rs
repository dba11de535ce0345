//! Authentication at MCP servers: OAuth, or Google Cloud credentials.

use parallax_protocol::Object;
use parallax_protocol::secret::Secret;
use serde_json::Value;

use super::endpoint::{Endpoint, McpSource};
use super::values::{flag, strings, text};

/// The `oauth` object of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// Whether a 401 response starts the OAuth flow.
    pub enabled: bool,
    /// The ID of a client registered in advance.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// The authorization endpoint.
    pub authorization_url: Option<String>,
    /// The issuer, whose metadata provides the other endpoints.
    pub issuer: Option<String>,
    /// The token endpoint.
    pub token_url: Option<String>,
    /// The client registration endpoint.
    pub registration_url: Option<String>,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The audiences of the tokens.
    pub audiences: Vec<String>,
    /// The redirect URI.
    pub redirect_uri: Option<String>,
    /// The query parameter that carries the token instead of a header; only for SSE.
    pub token_param_name: Option<String>,
}

/// The source of the credentials for a server (`authProviderType`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuthProvider {
    /// OAuth in the browser, if the server requires it.
    #[default]
    Discovery,
    /// The application default credentials of Google Cloud, only for Google's own services, with
    /// the scopes of `oauth.scopes`.
    Google,
    /// An identity token of a service account that those credentials may impersonate.
    Impersonation {
        /// The audience of the token.
        audience: String,
        /// The e-mail address of the account.
        account: String,
    },
}

/// Reads the `oauth` object.
pub(super) fn oauth(fields: &Object) -> OAuthSettings {
    let Some(oauth) = fields.get("oauth").and_then(Value::as_object) else {
        return OAuthSettings::default();
    };
    OAuthSettings {
        enabled: flag(oauth, "enabled"),
        client_id: text(oauth, "clientId"),
        client_secret: text(oauth, "clientSecret").map(Secret::new),
        authorization_url: text(oauth, "authorizationUrl"),
        issuer: text(oauth, "issuer"),
        token_url: text(oauth, "tokenUrl"),
        registration_url: text(oauth, "registrationUrl"),
        scopes: oauth.get("scopes").map(strings).unwrap_or_default(),
        audiences: oauth.get("audiences").map(strings).unwrap_or_default(),
        redirect_uri: text(oauth, "redirectUri"),
        token_param_name: text(oauth, "tokenParamName"),
    }
}

/// Reads `authProviderType` and the fields that belong to it.
pub(super) fn provider(
    fields: &Object,
    endpoint: &Endpoint,
    oauth: &OAuthSettings,
    source: &McpSource,
) -> Result<AuthProvider, String> {
    let Some(kind) = text(fields, "authProviderType") else { return Ok(AuthProvider::Discovery) };
    let url = || {
        let url = endpoint.url().and_then(|url| url::Url::parse(url).ok());
        url.ok_or_else(|| format!("`authProviderType`: `{kind}` requires a server with a URL"))
    };
    match kind.as_str() {
        "dynamic_discovery" => Ok(AuthProvider::Discovery),
        "google_credentials" => {
            let url = url()?;
            let host = url.host_str().unwrap_or_default();
            // The credentials may give access to everything that the user has there.
            if !is_google_host(host) || url.scheme() != "https" {
                return Err(format!(
                    "`google_credentials` are sent only to `https` URLs of `googleapis.com` and \
                     `luci.app`, not to `{host}`"
                ));
            }
            if oauth.scopes.is_empty() {
                return Err("`google_credentials` require `oauth.scopes`".to_owned());
            }
            Ok(AuthProvider::Google)
        }
        "service_account_impersonation" => {
            let url = url()?;
            if source.is_foreign() {
                return Err("service account impersonation is allowed only in user settings \
                    (`service_account_impersonation`)"
                    .to_owned());
            }
            if url.scheme() != "https" && !is_local_url(&url) {
                return Err("service account tokens are not sent over plain `http`".to_owned());
            }
            let needed = |key: &str| {
                text(fields, key)
                    .ok_or_else(|| format!("`service_account_impersonation` requires `{key}`"))
            };
            Ok(AuthProvider::Impersonation {
                audience: needed("targetAudience")?,
                account: needed("targetServiceAccount")?,
            })
        }
        other => Err(format!("unknown `authProviderType` `{other}`")),
    }
}

fn is_google_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "luci.app" || [".luci.app", ".googleapis.com"].iter().any(|end| host.ends_with(end))
}

/// Whether a URL refers to this machine (`localhost` or a loopback address).
pub fn is_local_url(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::McpServer;
    use super::*;

    fn read(value: &Value, source: McpSource) -> Result<AuthProvider, String> {
        let server = McpServer::read("s", value, source);
        server.map(|server| server.provider).map_err(|error| error.reason)
    }

    #[test]
    fn google_credentials_are_sent_only_to_google() {
        let server = |url: &str, scopes: Value| json!({"url": url, "authProviderType": "google_credentials", "oauth": {"scopes": scopes}});
        let some = json!(["https://www.googleapis.com/auth/cloud-platform"]);
        for url in ["https://a.googleapis.com/mcp", "https://luci.app/", "https://X.LUCI.app/mcp"] {
            let read = read(&server(url, some.clone()), McpSource::Workspace);
            assert_eq!(read, Ok(AuthProvider::Google), "{url}");
        }
        for url in [
            "https://googleapis.com.evil.example/",
            "https://evilgoogleapis.com/",
            "https://evil.example/?a.googleapis.com",
            "http://a.googleapis.com/mcp",
        ] {
            assert!(read(&server(url, some.clone()), McpSource::User).is_err(), "{url}");
        }
        let none = read(&server("https://a.googleapis.com/", json!([])), McpSource::User);
        assert!(none.is_err_and(|reason| reason.contains("oauth.scopes")));
        let program = json!({"command": "c", "authProviderType": "google_credentials"});
        assert!(read(&program, McpSource::User).is_err());
    }

    #[test]
    fn only_user_settings_can_impersonate_a_service_account() {
        let server = |url: &str| {
            json!({"url": url, "authProviderType": "service_account_impersonation",
                "targetAudience": "aud", "targetServiceAccount": "a@p.iam.gserviceaccount.com"})
        };
        let url = "https://run.example/mcp";
        assert!(matches!(
            read(&server(url), McpSource::User),
            Ok(AuthProvider::Impersonation { audience, .. }) if audience == "aud"
        ));
        assert!(read(&server(url), McpSource::Workspace).is_err());
        assert!(read(&server("http://run.example/mcp"), McpSource::User).is_err());
        assert!(read(&server("http://127.0.0.1:1/mcp"), McpSource::User).is_ok());
        let bare = json!({"url": url, "authProviderType": "service_account_impersonation"});
        assert!(
            read(&bare, McpSource::User).is_err_and(|reason| reason.contains("targetAudience"))
        );
        let other = json!({"url": url, "authProviderType": "other"});
        assert!(read(&other, McpSource::User).is_err());
    }
}
