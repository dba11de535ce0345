//! Logs the messages to and from servers for `--debug`: one line per message, without secrets.

use std::borrow::Cow;
use std::sync::Arc;

use parallax_config::mcp::{Endpoint, McpServer};
use parallax_exec::environment::is_secret;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::Value;

/// The log target.
const TARGET: &str = "parallax_mcp::wire";
/// Maximum characters logged of a message.
const LONGEST: usize = 8_000;
/// Minimum length of a variable or header value that is redacted: shorter ones would match
/// everywhere.
const SHORTEST: usize = 6;
const HIDDEN: &str = "[hidden]";

/// A transport whose messages are logged.
pub(crate) struct LoggedTransport<T> {
    inner: T,
    log: Option<Arc<MessageLog>>,
}

struct MessageLog {
    server: String,
    secrets: Vec<String>,
}

impl<T> LoggedTransport<T> {
    /// Wraps a transport. Messages are logged only if the log target is enabled.
    pub(crate) fn wrap(inner: T, server: &McpServer) -> Self {
        let wanted = tracing::enabled!(target: TARGET, tracing::Level::DEBUG);
        let log = wanted.then(|| Arc::new(MessageLog::for_server(server)));
        Self { inner, log }
    }
}

impl MessageLog {
    fn for_server(server: &McpServer) -> Self {
        let pairs = match &server.endpoint {
            Endpoint::Stdio { env, .. } => env,
            Endpoint::Http { headers, .. }
            | Endpoint::Sse { headers, .. }
            | Endpoint::HttpThenSse { headers, .. } => headers,
        };
        let values = pairs.iter().map(|(_, value)| value.trim());
        let secrets = values.filter(|value| value.len() >= SHORTEST).map(str::to_owned).collect();
        Self { server: server.name.clone(), secrets }
    }

    fn write(&self, direction: &str, message: &impl Serialize) {
        let message = self.masked_text(message);
        tracing::debug!(target: TARGET, "{} {direction} {message}", self.server);
    }

    /// Returns the message as it may be logged.
    fn masked_text(&self, message: &impl Serialize) -> String {
        let Ok(mut value) = serde_json::to_value(message) else { return String::new() };
        self.mask("", &mut value);
        let text = value.to_string();
        match text.char_indices().nth(LONGEST) {
            None => text,
            Some((at, _)) => format!("{}… ({} bytes)", text.get(..at).unwrap_or(""), text.len()),
        }
    }

    fn mask(&self, name: &str, value: &mut Value) {
        match value {
            Value::String(text) if is_secret(name, text) => HIDDEN.clone_into(text),
            Value::String(text) => {
                let mut masked = Cow::Borrowed(text.as_str());
                for secret in &self.secrets {
                    if masked.contains(secret.as_str()) {
                        masked = Cow::Owned(masked.replace(secret.as_str(), HIDDEN));
                    }
                }
                if let Cow::Owned(masked) = masked {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask(name, item)),
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(name, field)| self.mask(name, field));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for LoggedTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let Some(log) = &self.log {
            log.write("<-", &item);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await;
        if let Some(log) = &self.log {
            match &message {
                Some(message) => log.write("->", message),
                None => tracing::debug!(target: TARGET, "{} is gone", log.server),
            }
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use parallax_config::mcp::McpSource;
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_not_logged() {
        let server = json!({"command": "c", "env": {"A": "s3cret-value", "B": "1"}});
        let log = MessageLog::for_server(
            &McpServer::read("s", &server, McpSource::User).expect("a server"),
        );
        let message = json!({"id": 1, "params": {"arguments": {
            "text": "it is s3cret-value, 1", "password": "hunter2", "apiKey": "k", "keep": "this",
            "list": ["ghp_0123456789abcdefghijklmnopqrstuvwxyz0123"]}}});
        assert_eq!(
            log.masked_text(&message),
            json!({"id": 1, "params": {"arguments": {"text": "it is [hidden], 1",
                "password": "[hidden]", "apiKey": "[hidden]", "keep": "this",
                "list": ["[hidden]"]}}})
            .to_string()
        );
        let long = log.masked_text(&json!("ä".repeat(20_000)));
        assert!(long.chars().count() < 8_100 && long.ends_with("bytes)"), "{}", long.len());
    }
}
