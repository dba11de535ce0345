//! Hooks of tool calls, approval requests, plans, and changed files.

use std::path::Path;

use parallax_protocol::event::{ApprovalRequest, Level};
use parallax_protocol::hooks::{HookCall, HookDecision, HookEvent};
use parallax_protocol::observer::SpanSubject;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{FileDiff, ToolError, ToolErrorKind, ToolResult};
use parallax_protocol::{CancellationToken, Object};
use serde_json::{Value, json};

use super::views::{approval_notification, tool_response};
use super::{HookRunner, object};
use crate::inbox::Inbox;
use crate::registry::Registry;
use crate::tool_call::ToolCall;
use crate::tool_notes::add_note;

/// Prefix of the reason in the result of a call that ends the run.
pub(crate) const STOP_PREFIX: &str = "Agent execution stopped by hook: ";

/// What `BeforeTool` hooks changed about a call.
#[derive(Default)]
pub(crate) struct BeforeToolResult {
    /// The arguments, if they were changed.
    pub(crate) arguments: Option<Object>,
    /// Why approval is required.
    pub(crate) approval_reason: Option<String>,
}

/// A finished call, for `AfterTool` hooks.
pub(crate) struct AfterToolInput<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) call: &'a ToolCall,
    /// The arguments, if they were changed.
    pub(crate) arguments: Option<&'a Object>,
    /// Whether changing a file changes what the next build runs.
    pub(crate) is_build_file: fn(&Path) -> bool,
}

impl HookRunner {
    /// Makes a hook part of a call's span.
    fn with_call_trace(&self, call: &ToolCall, hook: HookCall) -> HookCall {
        HookCall { trace: self.bus.trace_headers(SpanSubject::Call(&call.item())), ..hook }
    }

    /// Runs the `BeforeTool` hooks.
    ///
    /// # Errors
    /// Returns the result of a call that they rejected.
    pub(crate) async fn before_tool(
        &self,
        registry: &Registry,
        call: &ToolCall,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Result<BeforeToolResult, ToolError> {
        let mut input = registry.tool_input(call);
        input.insert("tool_input".to_owned(), Value::Object(call.args.clone().unwrap_or_default()));
        let subject = registry.declared_name(&call.name);
        let hook = self.with_call_trace(call, HookCall::new(HookEvent::BeforeTool, subject, input));
        let outcome = self.run(hook, inbox, cancel).await;
        if let Some(stop) = &outcome.stop {
            let message = format!("{STOP_PREFIX}{}", outcome.with_hook_names(stop));
            return Err(ToolError::new(ToolErrorKind::StopExecution, message));
        }
        if let Some(why) = outcome.denial() {
            let message = format!("Tool execution blocked: {}", outcome.with_hook_names(why));
            return Err(ToolError::new(ToolErrorKind::PolicyViolation, message));
        }
        let approval_reason =
            (outcome.decision == Some(HookDecision::Ask)).then(|| match outcome.reason.as_str() {
                "" => "a hook requires approval".to_owned(),
                reason => reason.to_owned(),
            });
        let arguments = outcome.field("tool_input").and_then(Value::as_object).map(|changed| {
            let mut arguments = call.args.clone().unwrap_or_default();
            arguments.extend(changed.clone());
            arguments
        });
        Ok(BeforeToolResult { arguments, approval_reason })
    }

    /// Runs the `AfterTool` hooks, which may change the result. Returns the replacement call that
    /// they request, if any.
    pub(crate) async fn after_tool(
        &self,
        finished: AfterToolInput<'_>,
        outcome: &mut ToolResult,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Option<(String, Object)> {
        if !self.has_subscriber(HookEvent::AfterTool, false) {
            return None;
        }
        let AfterToolInput { registry, call, arguments, is_build_file } = finished;
        let mut input = registry.tool_input(call);
        let used = arguments.or(call.args.as_ref().ok()).cloned().unwrap_or_default();
        input.insert("tool_input".to_owned(), Value::Object(used));
        let subject = registry.declared_name(&call.name);
        let response = tool_response(outcome, &subject, is_build_file);
        input.insert("tool_response".to_owned(), Value::Object(response));
        let hook = self.with_call_trace(call, HookCall::new(HookEvent::AfterTool, subject, input));
        let hooked = self.run(hook, inbox, cancel).await;
        if let Some(stop) = &hooked.stop {
            // As with a denial, the tool's output is not used.
            let message = format!("{STOP_PREFIX}{}", hooked.with_hook_names(stop));
            *outcome = ToolResult::failure(ToolError::new(ToolErrorKind::StopExecution, message));
            return None;
        }
        if hooked.decision == Some(HookDecision::Deny) {
            let message =
                format!("Tool result blocked: {}", hooked.with_hook_names(&hooked.reason));
            *outcome = ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, message));
        } else if let Some(request) = hooked.field("tailToolCallRequest") {
            match replacement_call(request) {
                Some(tail) => return Some(tail),
                None => {
                    let text = "A hook requested a tool call without a `name`; it was ignored";
                    self.notices.show(Level::Warning, text);
                }
            }
        }
        if let Some(context) = hooked.context {
            add_note(outcome, &context);
        }
        None
    }

    /// Notifies hooks of an approval request, without waiting for them. `tool` is the declared name
    /// of the tool.
    pub(crate) fn notify_of_approval(&mut self, request: &ApprovalRequest, tool: &str) {
        if !self.has_subscriber(HookEvent::Notification, false) {
            return;
        }
        let (message, details) = approval_notification(request, tool);
        let input = object(json!({
            "notification_type": "ToolPermission",
            "message": message,
            "details": details,
        }));
        self.spawn(HookCall::new(HookEvent::Notification, "ToolPermission", input));
    }

    /// Notifies hooks of an approved plan, without waiting for them.
    pub(crate) fn notify_of_plan(&mut self, plan: &Path, mode: ApprovalMode) {
        let input = object(json!({"plan_path": plan.to_string_lossy(), "mode": mode.as_str()}));
        self.spawn(HookCall::new(HookEvent::PlanApproved, mode.as_str(), input));
    }

    /// Notifies hooks of a changed file, without waiting for them.
    pub(crate) fn notify_of_file(&mut self, tool: &str, diff: &FileDiff) {
        let path = diff.file_path.to_string_lossy().into_owned();
        let input =
            object(json!({"file_path": path, "tool_name": tool, "is_new": diff.is_new_file}));
        self.spawn(HookCall::new(HookEvent::FileChanged, path, input));
    }
}

impl Registry {
    /// Returns the hook input that describes the tool.
    fn tool_input(&self, call: &ToolCall) -> Object {
        let name = self.declared_name(&call.name);
        let mut input = object(json!({"tool_name": name}));
        let requested_name = call.replaced_name.as_ref().unwrap_or(&call.name);
        if name != *requested_name {
            input.insert("original_request_name".to_owned(), requested_name.clone().into());
        }
        if let Some(origin) = self.get(&call.name).and_then(|tool| tool.mcp_origin()) {
            let mut context =
                object(json!({"server_name": origin.server, "tool_name": origin.tool}));
            context.extend(origin.endpoint.clone());
            input.insert("mcp_context".to_owned(), Value::Object(context));
        }
        input
    }
}

/// Returns the replacement call that a hook requests.
fn replacement_call(request: &Value) -> Option<(String, Object)> {
    let name = request.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let args = request.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    Some((name.to_owned(), args))
}
