//! Requests from MCP servers to the user, as `elicitation/create`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parallax_protocol::BoxFuture;
use parallax_sdk::mcp_view::{McpView, UserRequest, UserRequestHandler, UserResponse};
use serde_json::{Value, json};

use crate::client_files::ClientFiles;
use crate::clients::SessionClients;
use crate::connection::ClientConnection;
use crate::elicitation_answer::read_answer;
use crate::updates::ClientFeatures;

/// Sends the questions of MCP servers to a client.
struct ClientRequestHandler {
    connection: ClientConnection,
    features: ClientFeatures,
    files: Arc<ClientFiles>,
}

/// Returns who asks the client's user; `None` if the client can show no questions.
pub(crate) fn create_prompter(
    connection: ClientConnection,
    features: ClientFeatures,
    files: &Arc<ClientFiles>,
) -> Option<Arc<dyn UserRequestHandler>> {
    let files = files.clone();
    (features.elicitation || features.opens_urls).then(|| {
        Arc::new(ClientRequestHandler { connection, features, files })
            as Arc<dyn UserRequestHandler>
    })
}

impl UserRequestHandler for ClientRequestHandler {
    fn ask(&self, server: &str, question: UserRequest) -> BoxFuture<'static, UserResponse> {
        let request = self.files.session.get().and_then(|id| self.request(id, server, &question));
        let connection = self.connection.clone();
        Box::pin(async move {
            let Some(request) = request else { return UserResponse::Decline };
            match connection.request("elicitation/create", request).await {
                Ok(answer) => read_answer(&answer),
                Err(_) => UserResponse::Cancel,
            }
        })
    }
}

impl ClientRequestHandler {
    /// Returns the parameters of the request; `None` if the client cannot show the question.
    fn request(&self, session: &str, server: &str, question: &UserRequest) -> Option<Value> {
        let form = |message: String, schema: Value| {
            self.features.elicitation.then(|| {
                json!({"sessionId": session, "mode": "form", "message": message,
                    "requestedSchema": schema})
            })
        };
        let consent = json!({"type": "object", "properties": {}});
        match question {
            UserRequest::Form { message, schema } => {
                form(format!("{server}: {message}"), schema.clone())
            }
            UserRequest::Url { message, url } => self
                .features
                .opens_urls
                .then(|| url_request(session, &new_id(), &format!("{server}: {message}"), url)),
            // Sign-ins begin without a question: see [`sign_in`].
            UserRequest::SignIn { .. } => None,
            UserRequest::Sample { system, prompt, tokens, remaining_tokens } => form(
                format!(
                    "The MCP server `{server}` asks the model (at most {tokens} tokens; {remaining_tokens} \
                     left in this session): {}",
                    [system.as_str(), prompt].join("\n").trim()
                ),
                consent,
            ),
        }
    }
}

/// Lets the client open the URL of a sign-in.
pub(crate) async fn sign_in(
    view: McpView,
    clients: SessionClients,
    session: String,
    server: String,
) {
    let id = new_id();
    let (clients_of_server, name) = (clients.clone(), server.clone());
    let elicitation = id.clone();
    let show = move |url: &str| {
        let message = format!("Sign in to the MCP server `{name}`");
        let request = url_request(&session, &elicitation, &message, url);
        let clients = clients_of_server.clone();
        // The sign-in ends by the redirect of the browser, not by the client's answer.
        tokio::spawn(async move { clients.elicit(request, |offers| offers.opens_urls).await });
    };
    let sign_in_task = tokio::task::spawn_blocking(move || view.sign_in_by_url(&server, show));
    match sign_in_task.await {
        Ok(Ok(_)) => {
            let params = json!({"elicitationId": id});
            let opens_urls = |offers: ClientFeatures| offers.opens_urls;
            clients.notify("elicitation/complete", params, opens_urls).await;
        }
        Ok(Err(failure)) => tracing::warn!("{}", failure.message),
        Err(error) => tracing::warn!("{error}"),
    }
}

fn url_request(session: &str, id: &str, message: &str, url: &str) -> Value {
    json!({"sessionId": session, "mode": "url", "message": message, "elicitationId": id,
        "url": url})
}

/// Returns an id that is unique in this process.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("elicitation-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
