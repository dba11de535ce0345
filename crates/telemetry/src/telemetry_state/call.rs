//! Tool calls.

use std::time::{Duration, SystemTime};

use parallax_protocol::event::{CallDecision, ToolStatus};
use parallax_protocol::observer::EventScope;
use parallax_protocol::tool::{Display, FileDiff, ToolKind};
use serde_json::json;

use super::{TelemetryState, path, to_float};
use crate::input::EndedCall;
use crate::metrics;
use crate::record::AttributeSet;
use crate::spans::{Span, SpanKind};

impl TelemetryState {
    pub(super) fn call_ended(&mut self, scope: &EventScope, time: SystemTime, ended: EndedCall) {
        let EndedCall { item, result, tool, arguments, server } = ended;
        let contents = self.attributes.contents;
        let tool = contents.identifier(&tool).to_owned();
        let success = result.status == ToolStatus::Success;
        // A call that failed before its decision (an unknown tool, invalid arguments, a hook) counts
        // as rejected.
        let decision = match result.decision {
            Some(CallDecision::Accept) => "accept",
            Some(CallDecision::Reject) => "reject",
            Some(CallDecision::AutoAccept) => "auto_accept",
            None if success => "auto_accept",
            None => "reject",
        };
        let tool_type = if server.is_some() { "mcp" } else { "native" };
        let counted = AttributeSet::default()
            .with("function_name", tool.clone())
            .with("success", success)
            .with("decision", decision)
            .with("tool_type", tool_type);
        self.count(&metrics::TOOL_CALL_COUNT, 1.0, counted);
        let named = AttributeSet::default().with("function_name", tool.clone());
        self.count(&metrics::TOOL_CALL_LATENCY, to_float(result.duration_ms), named);
        let error_type = result.error.as_ref().map(|(kind, _)| kind.as_str());
        let error = result.error.as_ref();
        let error = error.map(|(kind, text)| contents.error_message(kind.as_str(), text));
        let measured = AttributeSet::default()
            .with("gen_ai.tool.name", tool.clone())
            .with_optional("error.type", error_type);
        let seconds = Duration::from_millis(result.duration_ms).as_secs_f64();
        self.count(&metrics::GEN_AI_TOOL_DURATION, seconds, measured);
        let diff = match &result.display {
            Some(Display::Diff(diff)) if success => Some(diff),
            _ => None,
        };
        self.record_file_operation(scope, time, &tool, result.kind, success, diff);
        let metadata = diff.map(|diff| {
            json!({
                "model_added_lines": diff.lines_added, "model_removed_lines": diff.lines_removed,
                "user_added_lines": 0, "user_removed_lines": 0,
            })
            .to_string()
        });
        let length = result.for_model.chars().count();
        let attributes = AttributeSet::default()
            .with("function_name", tool.clone())
            .with("function_args", Self::pretty_json(arguments.as_ref()))
            .with("duration_ms", result.duration_ms)
            .with("success", success)
            .with("decision", decision)
            .with_optional("error", error.clone())
            .with_optional("error_type", error_type)
            .with("tool_type", tool_type)
            .with_optional("mcp_server_name", server.clone())
            .with_optional("content_length", (success && server.is_none()).then_some(length))
            .with_optional("metadata", metadata);
        let body =
            format!("Tool call: {tool}. Success: {success}. Duration: {} ms.", result.duration_ms);
        self.log(scope, time, "gemini_cli.tool_call", body, attributes);
        let details =
            contents.content(|| (Self::pretty_json(arguments.as_ref()), result.for_model.clone()));
        let attributes = AttributeSet::default()
            .with("gen_ai.operation.name", "execute_tool")
            .with("gen_ai.tool.name", tool.clone())
            .with("gen_ai.tool.type", if server.is_some() { "extension" } else { "function" })
            .with("gen_ai.tool.call.id", contents.identifier(result.call.as_str()))
            .with("gen_ai.conversation.id", self.attributes.session.clone())
            .with_optional("error.type", error_type)
            .with_optional("gen_ai.tool.call.arguments", details.as_ref().map(|it| it.0.clone()))
            .with_optional("gen_ai.tool.call.result", details.map(|it| it.1))
            .into_object();
        let (context, parent) = self.child_span(scope, item.as_str());
        let ran = time.checked_sub(Duration::from_millis(result.duration_ms)).unwrap_or(time);
        let start = self.calls.remove(&(path(scope), item)).unwrap_or(ran);
        if let Some(server) = server {
            let attributes = AttributeSet::default()
                .with("mcp.method.name", "tools/call")
                .with("gen_ai.operation.name", "execute_tool")
                .with("gen_ai.tool.name", tool.clone())
                .with("mcp.server.name", server)
                .with_optional("error.type", error_type)
                .into_object();
            self.push_span(Span {
                context: context.mcp_request(),
                parent: Some(context.span),
                name: format!("tools/call {tool}"),
                kind: SpanKind::Client,
                start: start.max(ran),
                end: time,
                attributes,
                error: error.clone(),
            });
        }
        self.push_span(Span {
            context,
            parent,
            name: format!("execute_tool {tool}"),
            kind: SpanKind::Internal,
            start,
            end: time,
            attributes,
            error,
        });
    }

    fn record_file_operation(
        &mut self,
        scope: &EventScope,
        time: SystemTime,
        tool: &str,
        kind: Option<ToolKind>,
        success: bool,
        diff: Option<&FileDiff>,
    ) {
        let operation = match (kind, diff) {
            (_, Some(diff)) if diff.is_new_file => "create",
            (_, Some(_)) => "update",
            (Some(ToolKind::Read), None) if success => "read",
            _ => return,
        };
        let extension = diff.and_then(|diff| diff.file_path.extension()).map(|extension| {
            let extension = extension.to_string_lossy();
            format!(".{}", self.attributes.contents.identifier(&extension))
        });
        let attributes = AttributeSet::default()
            .with("tool_name", tool)
            .with("operation", operation)
            .with_optional("extension", extension);
        self.count(&metrics::FILE_OPERATIONS, 1.0, attributes.clone());
        if let Some(diff) = diff {
            for (kind, lines) in [("added", diff.lines_added), ("removed", diff.lines_removed)] {
                let named = AttributeSet::default().with("function_name", tool).with("type", kind);
                self.count(&metrics::LINES_CHANGED, to_float(lines), named);
            }
        }
        let body = format!("File operation: {operation}.");
        self.log(scope, time, "gemini_cli.file_operation", body, attributes);
    }
}
