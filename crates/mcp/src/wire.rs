//! Passes on the messages to and from servers, without secrets: one line per message to the log for
//! `--debug`, and each message to the observer of the session.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_config::mcp::{Endpoint, McpServer};
use parallax_exec::environment::is_secret;
use parallax_protocol::observer::{EventScope, McpMessage, Observation, Observer, is_mcp_startup};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::Value;

/// The log target.
const TARGET: &str = "parallax_mcp::wire";
/// Maximum characters logged of a message.
const MAX_LENGTH: usize = 8_000;
/// Minimum length of a variable or header value that is redacted: shorter ones would match
/// everywhere.
const MIN_LENGTH: usize = 6;
const HIDDEN: &str = "[hidden]";

/// The first messages of a connection, among which are those of the start.
const STARTUP_MESSAGES: usize = 24;
/// Maximum number of unanswered requests whose methods are remembered.
const MAX_PENDING: usize = 256;

/// A transport whose messages are logged and observed.
pub(crate) struct LoggedTransport<T> {
    inner: T,
    log: Option<Arc<MessageLog>>,
}

struct MessageLog {
    server: String,
    secrets: Vec<String>,
    is_logged: bool,
    observer: Option<Arc<dyn Observer>>,
    /// The number of messages so far.
    count: AtomicUsize,
    /// The methods of requests without a response, by direction and id.
    pending: Mutex<HashMap<(bool, String), String>>,
}

impl<T> LoggedTransport<T> {
    /// Wraps a transport. Messages are logged only if the log target is enabled.
    pub(crate) fn wrap(inner: T, server: &McpServer, observer: Option<&Arc<dyn Observer>>) -> Self {
        let is_logged = tracing::enabled!(target: TARGET, tracing::Level::DEBUG);
        let log = (is_logged || observer.is_some()).then(|| {
            let mut log = MessageLog::for_server(server);
            log.is_logged = is_logged;
            log.observer = observer.cloned();
            Arc::new(log)
        });
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
        let secrets = values.filter(|value| value.len() >= MIN_LENGTH).map(str::to_owned).collect();
        Self {
            server: server.name.clone(),
            secrets,
            is_logged: true,
            observer: None,
            count: AtomicUsize::new(0),
            pending: Mutex::default(),
        }
    }

    fn observe_message(&self, is_sent: bool, message: &impl Serialize) {
        if self.is_logged {
            let direction = if is_sent { "<-" } else { "->" };
            let message = self.masked_text(message);
            tracing::debug!(target: TARGET, "{} {direction} {message}", self.server);
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(observer) = &self.observer
            && (observer.is_active()
                || (count < STARTUP_MESSAGES && observer.observes_mcp_startup()))
        {
            self.observe(observer.as_ref(), is_sent, message);
        }
    }

    fn observe(&self, observer: &dyn Observer, is_sent: bool, message: &impl Serialize) {
        let Ok(mut value) = serde_json::to_value(message) else { return };
        let method = self.method(is_sent, &value);
        if observer.is_active() || is_mcp_startup(&method) {
            self.mask("", &mut value);
            let (server, method) = (self.server.as_str(), method.as_str());
            let message = McpMessage { server, is_sent, method, message: &value };
            observer.observe(&EventScope::default(), &Observation::McpMessage(message));
        }
    }

    /// Returns the method of a message, or of the request that it answers; empty if unknown.
    fn method(&self, is_sent: bool, message: &Value) -> String {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let id = message.get("id").map(Value::to_string);
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => {
                if pending.len() == MAX_PENDING {
                    // Their responses came while nothing was observed.
                    pending.clear();
                }
                pending.insert((is_sent, id), method.to_owned());
                method.to_owned()
            }
            (Some(method), None) => method.to_owned(),
            (None, Some(id)) => pending.remove(&(!is_sent, id)).unwrap_or_default(),
            (None, None) => String::new(),
        }
    }

    /// Returns the message as it may be logged.
    fn masked_text(&self, message: &impl Serialize) -> String {
        let Ok(mut value) = serde_json::to_value(message) else { return String::new() };
        self.mask("", &mut value);
        let text = value.to_string();
        match text.char_indices().nth(MAX_LENGTH) {
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
            log.observe_message(true, &item);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await;
        if let Some(log) = &self.log {
            match &message {
                Some(message) => log.observe_message(false, message),
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
    use std::sync::atomic::AtomicBool;

    use parallax_config::mcp::McpSource;
    use serde_json::json;

    use super::*;

    /// What an observer saw: direction, method, and message.
    #[derive(Default)]
    struct ObservedMessage {
        is_active: AtomicBool,
        messages: Mutex<Vec<(bool, String, Value)>>,
    }

    impl Observer for ObservedMessage {
        fn is_active(&self) -> bool {
            self.is_active.load(Ordering::Relaxed)
        }

        fn observes_mcp_startup(&self) -> bool {
            true
        }

        fn observe(&self, _scope: &EventScope, observation: &Observation<'_>) {
            let Observation::McpMessage(it) = observation else { return };
            let message = (it.is_sent, it.method.to_owned(), it.message.clone());
            self.messages.lock().expect("not poisoned").push(message);
        }
    }

    #[test]
    fn messages_are_observed_with_the_method_that_they_answer() {
        let server = json!({"command": "c", "env": {"A": "s3cret-value"}});
        let server = McpServer::read("s", &server, McpSource::User).expect("a server");
        let seen = Arc::new(ObservedMessage::default());
        let mut log = MessageLog::for_server(&server);
        log.is_logged = false;
        log.observer = Some(Arc::clone(&seen) as Arc<dyn Observer>);
        let call = json!({"id": 3, "method": "tools/call", "params": {"text": "s3cret-value"}});
        let answer = json!({"id": 3, "result": {}});
        log.observe_message(true, &json!({"id": 1, "method": "initialize"}));
        log.observe_message(false, &json!({"id": 1, "result": {"of": "s3cret-value"}}));
        log.observe_message(true, &call);
        log.observe_message(false, &answer);
        seen.is_active.store(true, Ordering::Relaxed);
        log.observe_message(true, &call);
        log.observe_message(false, &json!({"method": "notifications/progress"}));
        // A request from the server with the same id.
        log.observe_message(false, &json!({"id": 3, "method": "ping"}));
        log.observe_message(true, &json!({"id": 3, "result": {}}));
        log.observe_message(false, &answer);
        let seen = seen.messages.lock().expect("not poisoned");
        let methods: Vec<(bool, &str)> =
            seen.iter().map(|(is_sent, method, _)| (*is_sent, method.as_str())).collect();
        let expected = [
            (true, "initialize"),
            (false, "initialize"),
            (true, "tools/call"),
            (false, "notifications/progress"),
            (false, "ping"),
            (true, "ping"),
            (false, "tools/call"),
        ];
        assert_eq!(methods, expected);
        assert_eq!(seen[1].2["result"]["of"], HIDDEN);
        assert_eq!(seen[2].2["params"]["text"], HIDDEN);
    }

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
