//! The requests of both versions and both bindings.

use parallax_http::reqwest::Method;
use parallax_http::url::Url;
use parallax_protocol::trace_headers::TraceHeaders;
use serde_json::{Value, json};

use crate::card::{AgentCard, Binding, Version};

/// A request to an agent.
#[derive(Debug, PartialEq)]
pub(crate) struct A2aRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<Value>,
    /// The trace context that is passed on.
    pub(crate) trace: Option<TraceHeaders>,
}

impl A2aRequest {
    fn new(method: Method, url: Url, body: Option<Value>) -> Self {
        Self { method, url, body, trace: None }
    }

    /// Fetches a document.
    pub(crate) fn get(url: Url) -> Self {
        Self::new(Method::GET, url, None)
    }

    /// Passes a trace context on.
    pub(crate) fn with_trace(mut self, trace: Option<&TraceHeaders>) -> Self {
        self.trace = trace.cloned();
        self
    }
}

/// A message, and the conversation that it belongs to.
#[derive(Debug, Default, Clone)]
pub(crate) struct OutgoingMessage {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) context: Option<String>,
    /// The task that waits for this message.
    pub(crate) task: Option<String>,
}

impl AgentCard {
    /// Sends a message, for a stream of events or for one answer.
    pub(crate) fn send(&self, message: &OutgoingMessage, streaming: bool) -> A2aRequest {
        let mut params = json!({
            "message": self.message(message),
            "configuration": {"acceptedOutputModes": ["text/plain", "application/json"]},
        });
        match (self.binding, self.version, streaming) {
            (Binding::Http, _, true) => self.http(Method::POST, "message:stream", Some(params)),
            (Binding::Http, _, false) => self.http(Method::POST, "message:send", Some(params)),
            (Binding::JsonRpc, Version::V10, true) => self.rpc("SendStreamingMessage", params),
            (Binding::JsonRpc, Version::V10, false) => self.rpc("SendMessage", params),
            (Binding::JsonRpc, Version::V03, true) => self.rpc("message/stream", params),
            (Binding::JsonRpc, Version::V03, false) => {
                params["configuration"]["blocking"] = json!(true);
                self.rpc("message/send", params)
            }
        }
    }

    /// Asks for the state of a task.
    pub(crate) fn get_task(&self, task: &str) -> A2aRequest {
        match (self.binding, self.version) {
            (Binding::Http, _) => self.http(Method::GET, &format!("tasks/{}", path(task)), None),
            (Binding::JsonRpc, Version::V10) => self.rpc("GetTask", json!({"id": task})),
            (Binding::JsonRpc, Version::V03) => self.rpc("tasks/get", json!({"id": task})),
        }
    }

    /// Cancels a task.
    pub(crate) fn cancel_task(&self, task: &str) -> A2aRequest {
        match (self.binding, self.version) {
            (Binding::Http, _) => {
                let endpoint = format!("tasks/{}:cancel", path(task));
                self.http(Method::POST, &endpoint, Some(json!({})))
            }
            (Binding::JsonRpc, Version::V10) => self.rpc("CancelTask", json!({"id": task})),
            (Binding::JsonRpc, Version::V03) => self.rpc("tasks/cancel", json!({"id": task})),
        }
    }

    fn message(&self, message: &OutgoingMessage) -> Value {
        let text = &message.text;
        let mut value = match (self.version, self.binding) {
            (Version::V10, _) => json!({"role": "ROLE_USER", "parts": [{"text": text}]}),
            (Version::V03, Binding::JsonRpc) => json!({
                "kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}],
            }),
            // The JSON form of its Protocol Buffers, in which parts had another name.
            (Version::V03, Binding::Http) => {
                json!({"role": "ROLE_USER", "content": [{"text": text}]})
            }
        };
        value["messageId"] = json!(message.id);
        if let Some(context) = &message.context {
            value["contextId"] = json!(context);
        }
        if let Some(task) = &message.task {
            value["taskId"] = json!(task);
        }
        value
    }

    fn rpc(&self, method: &str, mut params: Value) -> A2aRequest {
        if let Some(tenant) = &self.tenant {
            params["tenant"] = json!(tenant);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        A2aRequest::new(Method::POST, self.url.clone(), Some(body))
    }

    fn http(&self, method: Method, endpoint: &str, body: Option<Value>) -> A2aRequest {
        let mut url = self.url.clone();
        let mut base = url.path().trim_end_matches('/').to_owned();
        if self.version == Version::V03 && !base.ends_with("/v1") {
            base.push_str("/v1");
        }
        if let Some(tenant) = &self.tenant {
            base.push('/');
            base.push_str(&path(tenant));
        }
        url.set_path(&format!("{base}/{endpoint}"));
        A2aRequest::new(method, url, body)
    }
}

/// Returns an identifier of an agent as one segment of a path.
fn path(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escaped = id.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(version: Version, binding: Binding, tenant: Option<&str>) -> AgentCard {
        AgentCard {
            url: Url::parse("https://x.example/a2a/").expect("a URL"),
            binding,
            version,
            tenant: tenant.map(str::to_owned),
            is_streaming: true,
            credentials: Vec::new(),
        }
    }

    #[test]
    fn each_version_and_binding_has_its_own_request() {
        let message = OutgoingMessage {
            id: "m".into(),
            text: "do".into(),
            context: Some("c".into()),
            task: Some("t".into()),
        };
        for (version, binding, url, method, role) in [
            (Version::V10, Binding::JsonRpc, "/a2a/", Some("SendStreamingMessage"), "ROLE_USER"),
            (Version::V03, Binding::JsonRpc, "/a2a/", Some("message/stream"), "user"),
            (Version::V10, Binding::Http, "/a2a/message:stream", None, "ROLE_USER"),
            (Version::V03, Binding::Http, "/a2a/v1/message:stream", None, "ROLE_USER"),
        ] {
            let request = card(version, binding, None).send(&message, true);
            let body = request.body.expect("a body");
            assert_eq!(request.url.path(), url);
            assert_eq!(body.get("method").and_then(Value::as_str), method);
            let sent = body.get("params").unwrap_or(&body);
            assert_eq!(sent["message"]["role"], role);
            assert_eq!(
                (&sent["message"]["taskId"], &sent["message"]["contextId"]),
                (&json!("t"), &json!("c"))
            );
        }
    }

    #[test]
    fn agent_identifiers_stay_in_one_path_segment() {
        let card = card(Version::V10, Binding::Http, Some("team/1"));
        for (id, path) in [("a/../b", "a%2F..%2Fb"), ("x?y#z", "x%3Fy%23z")] {
            let url = card.get_task(id).url;
            assert!(url.query().is_none() && url.fragment().is_none());
            assert_eq!(url.path(), format!("/a2a/team%2F1/tasks/{path}"));
        }
        assert!(card.cancel_task("t").url.path().ends_with("/tasks/t:cancel"));
    }
}
