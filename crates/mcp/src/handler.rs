//! Handles requests and notifications of servers.

#![expect(deprecated, reason = "current servers still request roots")]

use std::sync::Weak;

use parallax_protocol::Object;
use rmcp::model::{
    CancelledNotificationParam, ClientCapabilities, ClientConfig, CreateMessageRequestParams,
    CreateMessageResult, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProtocolVersion, Root, RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;

use crate::inbound::InboundContext;
use crate::user_requests::{TIMEOUT, UserRequest, UserResponse};
use crate::{CLIENT_NAME, schema};

/// Handles the messages of one server.
#[derive(Clone)]
pub(crate) struct Handler {
    server: Weak<InboundContext>,
    can_ask: bool,
    can_sample: bool,
}

impl Handler {
    /// Creates a handler. `can_ask` and `can_sample` state whether the user can answer elicitation
    /// requests and the model can answer sampling requests.
    pub(crate) fn new(server: Weak<InboundContext>, can_ask: bool, can_sample: bool) -> Self {
        Self { server, can_ask, can_sample }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some({
            let mut roots = RootsCapabilities::default();
            roots.list_changed = Some(true);
            roots
        });
        if self.can_ask {
            capabilities.elicitation = Some(
                ElicitationCapability::new()
                    .with_form(FormElicitationCapability::new())
                    .with_url(UrlElicitationCapability::default()),
            );
        }
        if self.can_ask && self.can_sample {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        let us = Implementation::new(CLIENT_NAME, env!("CARGO_PKG_VERSION"));
        // The newest version that starts with a handshake; servers answer with the version they
        // support.
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let directories = self.server.upgrade().map(|server| (server.roots)()).unwrap_or_default();
        let root = |directory: std::path::PathBuf| {
            let address = url::Url::from_directory_path(&directory).ok()?;
            let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(address.as_str().trim_end_matches('/'));
            Some(match name {
                Some(name) => root.with_name(name),
                None => root,
            })
        };
        Ok(ListRootsResult::new(directories.into_iter().filter_map(root).collect()))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(server) = self.server.upgrade() else {
            return Err(ErrorData::internal_error("the session has ended", None));
        };
        let (asker, sampling) = (server.prompter.clone(), server.sampling.clone());
        let cancel = context.ct.child_token();
        let answer = server.allowance.answer(&server.name, params, asker, sampling, cancel.clone());
        tokio::select! {
            biased;
            answer = answer => answer,
            () = server.requests.wait_for_calls() => {
                cancel.cancel();
                Err(ErrorData::invalid_request("its tool call has ended", None))
            }
        }
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(server) = self.server.upgrade() else { return Ok(decline()) };
        let Some(asker) = server.prompter.clone() else { return Ok(decline()) };
        let mut check = None;
        let question = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema).unwrap_or(Value::Null);
                check = schema::validator(&schema);
                UserRequest::Form { message, schema }
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                UserRequest::Url { message, url }
            }
            _ => return Ok(decline()),
        };
        let Some(_place) = server.requests.acquire() else { return Ok(decline()) };
        let user_request = asker.ask(&server.name, question);
        let answer = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            () = server.requests.wait_for_calls() => {
                return Ok(ElicitResult::new(ElicitationAction::Cancel));
            }
            answer = tokio::time::timeout(TIMEOUT, user_request) => answer.unwrap_or(UserResponse::Cancel),
        };
        if answer == UserResponse::Never {
            server.requests.stop();
        }
        Ok(match answer {
            UserResponse::Decline | UserResponse::Always | UserResponse::Never => decline(),
            UserResponse::Cancel => ElicitResult::new(ElicitationAction::Cancel),
            UserResponse::Accept(values) => accept_values(values, check.as_ref()),
        })
    }

    /// Receives requests that the library cannot parse, such as unsupported forms.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let reason = match request.method.as_str() {
            "elicitation/create" => {
                "the form is not valid: its fields must be strings, numbers, booleans, or choices, \
                 and cannot be nested"
            }
            "sampling/createMessage" => "the sampling request is not valid",
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        };
        if let Some(server) = self.server.upgrade() {
            let name = &server.name;
            server
                .listeners
                .warn(&format!("a request from the MCP server `{name}` cannot be shown: {reason}"));
        }
        Err(ErrorData::invalid_params(reason, None))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some(server) = self.server.upgrade() {
            server.listeners.report(&params);
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some(server) = self.server.upgrade() {
            let text: String = params.data.to_string().chars().take(2_000).collect();
            server.stderr_tail.push(text.as_bytes());
            server.stderr_tail.push(b"\n");
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.notify_changed();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.notify_changed();
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.notify_changed();
    }

    async fn on_cancelled(
        &self,
        _params: CancelledNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
    }
}

impl Handler {
    fn notify_changed(&self) {
        if let Some(server) = self.server.upgrade() {
            server.changed.notify_one();
        }
    }
}

fn decline() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

/// Values that do not match the form are not sent.
fn accept_values(values: Object, check: Option<&jsonschema::Validator>) -> ElicitResult {
    let values = Value::Object(values);
    match check.is_none_or(|check| check.is_valid(&values)) {
        true => ElicitResult::new(ElicitationAction::Accept).with_content(values),
        false => ElicitResult::new(ElicitationAction::Cancel),
    }
}
