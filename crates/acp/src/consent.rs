//! Requests for the user's consent that no tool call of the model waits for: to read a file, to run
//! the shell commands of a custom command, or to install an extension.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::clients::SessionClients;
use crate::rpc::RpcError;

/// Asks the clients of a session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ConsentRequests {
    clients: SessionClients,
    session: String,
    /// The ids of the requests that are open.
    open: Arc<Mutex<Vec<String>>>,
}

impl ConsentRequests {
    pub(crate) fn new(clients: SessionClients, session: String) -> Self {
        Self { clients, session, open: Arc::default() }
    }

    /// Asks the user for consent once.
    pub(crate) async fn request_consent(
        &self,
        mut call: Value,
        agree: &str,
        decline: &str,
    ) -> bool {
        let id = new_id();
        call["toolCallId"] = json!(id);
        call["status"] = json!("pending");
        let request = json!({
            "sessionId": self.session,
            "toolCall": call,
            "options": [
                {"optionId": "proceed_once", "name": agree, "kind": "allow_once"},
                {"optionId": "cancel", "name": decline, "kind": "reject_once"},
            ],
        });
        let is_agreed = |answer: &Value| answer["outcome"]["optionId"] == json!("proceed_once");
        let answer = self.request(id, request, is_agreed).await;
        answer.is_ok_and(|answer| is_agreed(&answer))
    }

    /// Sends a permission request for a tool call that exists only in it, and tells all clients
    /// when it is resolved: only one of them has answered.
    pub(crate) async fn request(
        &self,
        id: String,
        request: Value,
        is_agreed: impl Fn(&Value) -> bool,
    ) -> Result<Value, RpcError> {
        self.with_open(|open| open.push(id.clone()));
        let answer = self.clients.request("session/request_permission", request).await;
        if self.with_open(|open| {
            let index = open.iter().position(|open| *open == id);
            index.map(|index| open.swap_remove(index)).is_some()
        }) {
            self.resolve(&id, answer.as_ref().is_ok_and(is_agreed)).await;
        }
        answer
    }

    /// Notifies the clients that the open requests are cancelled.
    pub(crate) async fn cancel(&self) {
        for id in self.with_open(std::mem::take) {
            self.resolve(&id, false).await;
        }
    }

    async fn resolve(&self, id: &str, is_agreed: bool) {
        let status = if is_agreed { "completed" } else { "failed" };
        let update =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status});
        self.clients.update(&self.session, update).await;
    }

    fn with_open<T>(&self, change: impl FnOnce(&mut Vec<String>) -> T) -> T {
        change(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns an id that no other request has, also not one of an earlier process.
pub(crate) fn new_id() -> String {
    format!("consent-{:016x}", RandomState::new().hash_one(()))
}
