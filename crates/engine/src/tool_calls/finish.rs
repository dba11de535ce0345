//! Finishes calls: every call of a batch gets a result, even when the user interrupts or denies.

use std::time::Duration;

use parallax_protocol::event::{CallDecision, EventBody, ItemDone, ToolDone, ToolStatus};
use parallax_protocol::image::Image;
use parallax_protocol::observer::{CallEnd, Observation};
use parallax_protocol::policy::Decision;
use parallax_protocol::store::{CallDetails, Record, ResultRecord};
use parallax_protocol::tool::{Display, ToolError, ToolErrorKind, ToolResult};
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;

use super::ToolRunner;
use super::batch::{CallSummary, ToolBatch};
use crate::agents::resume_hint;
use crate::environment::SessionEnvironment;
use crate::function_response::{ResponseTarget, respond};
use crate::history::now;
use crate::hooks::STOP_PREFIX;
use crate::tool_call::ToolCall;

/// How long cancelled tools may take to return what they have.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum bytes of a title in the journal, which has the arguments anyway.
const MAX_TITLE: usize = 400;

impl ToolRunner<'_> {
    /// Cancels a batch: running tools return what they have; the other calls are answered as
    /// cancelled.
    pub(super) async fn cancel_batch(&mut self, batch: &mut ToolBatch<'_>) {
        for (index, ask, mut prepared) in batch.take_all_awaiting() {
            self.bus.send(EventBody::ApprovalClosed { ask, outcome: None });
            // Keep what a command did before it needed approval again.
            if let Some(denial) = prepared.rerun.denial.take() {
                self.finish(batch, index, denial.outcome, denial.summary);
            }
        }
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let deadline = tokio::time::sleep(GRACE);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                biased;
                () = self.inbox.receive() => {}
                ended = batch.tasks.join_next_with_id() => match ended {
                    Some(ended) => self.handle_end(batch, ended, &cancelled).await,
                    None => break,
                },
                () = &mut deadline => {
                    batch.tasks.abort_all();
                    break;
                }
            }
        }
        for index in batch.open_calls() {
            let mut message =
                "[Operation Cancelled] The user interrupted before this call finished.".to_owned();
            let item = batch.requested_call(index).map(ToolCall::item);
            let subagents = self.subagents;
            if let Some(id) = item.and_then(|item| subagents?.take_journal(&item)) {
                message.push('\n');
                message.push_str(&resume_hint(&id));
            }
            self.finish_cancelled(batch, index, message);
        }
    }

    /// Skips the calls that have not started because the user denied an earlier one.
    pub(super) fn skip_queued(&mut self, batch: &mut ToolBatch<'_>) {
        for index in batch.take_queued() {
            let message = "[Operation Cancelled] The user denied an earlier call.".to_owned();
            self.finish_cancelled(batch, index, message);
        }
    }

    fn finish_cancelled(&mut self, batch: &mut ToolBatch<'_>, index: usize, report: String) {
        let title = batch.requested_call(index).map_or_else(String::new, |call| call.name.clone());
        let summary = CallSummary { cancelled: true, ..CallSummary::without_decision(None, title) };
        let error = ToolError::new(ToolErrorKind::ExecutionFailed, report);
        self.finish(batch, index, ToolResult::failure(error), summary);
    }

    /// Gives a call its result: journal first, then the front ends.
    pub(super) fn finish(
        &mut self,
        batch: &mut ToolBatch<'_>,
        index: usize,
        outcome: ToolResult,
        summary: CallSummary,
    ) {
        let Some(call) = batch.requested_call(index) else { return };
        self.inbox.processes().remove(&call.item());
        let mut outcome = outcome;
        self.environment.redact(&mut outcome.for_model.output);
        match &mut outcome.for_user {
            Some(Display::Text { text }) => self.environment.redact(text),
            // Hooks have read them; full files are not kept.
            Some(Display::Diff(diff)) if !self.environment.includes_file_texts => diff.texts = None,
            _ => {}
        }
        if let Some(error) = &mut outcome.error {
            self.environment.redact(&mut error.message);
        }
        let status = match (&outcome.error, summary.cancelled) {
            (_, true) => ToolStatus::Cancelled,
            (Some(_), false) => ToolStatus::Error,
            (None, false) => ToolStatus::Success,
        };
        batch.executed += usize::from(status != ToolStatus::Cancelled);
        let error = outcome.error.clone();
        if let Some(error) = &error {
            if error.kind.is_fatal() {
                batch.fatal = Some(error.clone());
            } else if error.kind == ToolErrorKind::StopExecution {
                let reason = error.message.strip_prefix(STOP_PREFIX).unwrap_or(&error.message);
                batch.stopped = Some(reason.to_owned());
            }
        }
        let display = outcome.for_user.clone();
        if let (ToolStatus::Success, Some(Display::Diff(diff))) = (status, &display) {
            self.conversation.count_lines(diff);
            let tool = call.name.clone();
            self.hooks.notify_of_file(&tool, diff);
        }
        let data = outcome.data.clone();
        let mut details = display_data(self.environment, &summary, data.as_ref());
        let change = outcome.change.take().filter(|_| status == ToolStatus::Success);
        let ran = batch.call(index).unwrap_or(call);
        let tool = self.registry.get(&ran.name);
        let spec_name = tool.map_or("", |tool| &tool.spec().name);
        details.server = tool.and_then(|tool| tool.mcp_origin()).map(|it| it.server.clone());
        details.tool = (ran.name != call.name).then(|| ran.name.clone());
        details.arguments = changed_arguments(self.environment, call, ran, &summary);
        details.sandbox = outcome.sandbox_overhead;
        details.error = error.as_ref().map(|error| error.kind.as_str().to_owned());
        let images = match status {
            ToolStatus::Success => {
                Image::from_parts(&outcome.for_model.media, Some(&summary.title))
            }
            ToolStatus::Error | ToolStatus::Cancelled => Vec::new(),
        };
        let response = respond(
            &ResponseTarget {
                wire_id: call.wire_id.as_deref(),
                name: &call.name,
                nested_media: self.model.1.multimodal_tool_results,
                allows_media: matches!(spec_name, "read_file" | "read_many_files"),
            },
            outcome,
        );
        self.conversation.history_mut().record(&Record::Result(ResultRecord {
            time: now(),
            call: call.id.clone(),
            index,
            name: call.name.clone(),
            wire: response.to_raw(),
            status: match status {
                ToolStatus::Success => "success",
                ToolStatus::Error => "error",
                ToolStatus::Cancelled => "cancelled",
            }
            .to_owned(),
            display: display.as_ref().and_then(|display| serde_json::to_value(display).ok()),
            details: Some(Box::new(details)),
        }));
        let item = call.item();
        let done = Box::new(ToolDone {
            call: call.id.clone(),
            index,
            name: call.name.clone(),
            kind: summary.kind,
            title: summary.title,
            status,
            decision: summary.decision,
            policy_decision: summary.policy_decision,
            display,
            error: error.map(|error| (error.kind, error.message)),
            for_model: response.text.clone(),
            data,
            duration_ms: summary.duration_ms,
        });
        if self.bus.has_observers() {
            let ran = batch.call(index).unwrap_or(call);
            let tool = self.registry.get(&ran.name);
            self.bus.observe(&Observation::CallEnded(CallEnd {
                item: &item,
                done: &done,
                tool: tool.as_ref().map_or(&ran.name, |tool| &tool.spec().name),
                arguments: summary.arguments.as_ref().or(ran.args.as_ref().ok()),
                server: tool
                    .as_ref()
                    .and_then(|tool| tool.mcp_origin())
                    .map(|it| it.server.as_str()),
            }));
        }
        self.bus.send(EventBody::ItemDone { item, done: ItemDone::Tool(done) });
        for image in batch.record_result(index, response, images) {
            self.bus.send(EventBody::Image(image));
        }
        if let Some(change) = change {
            self.apply_change(change);
        }
    }
}

/// Returns the arguments that a call ran with, if they are not those that the model wrote.
fn changed_arguments(
    environment: &SessionEnvironment,
    call: &ToolCall,
    ran: &ToolCall,
    summary: &CallSummary,
) -> Option<Object> {
    fn redact(environment: &SessionEnvironment, value: &mut Value) {
        match value {
            Value::String(text) => environment.redact(text),
            Value::Array(values) => values.iter_mut().for_each(|value| redact(environment, value)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| redact(environment, value));
            }
            _ => {}
        }
    }
    let used = summary.arguments.as_ref().or(ran.args.as_ref().ok())?;
    if call.args.as_ref().ok() == Some(used) {
        return None;
    }
    let mut used = used.clone();
    used.values_mut().for_each(|value| redact(environment, value));
    Some(used)
}

/// Returns the display data of a call for later processes.
fn display_data(
    environment: &SessionEnvironment,
    summary: &CallSummary,
    data: Option<&Value>,
) -> CallDetails {
    let mut title = summary.title.clone();
    environment.redact(&mut title);
    title.truncate(title.floor_char_boundary(MAX_TITLE));
    let denied = summary.policy_decision.as_ref().filter(|it| it.kind == Decision::Deny);
    CallDetails {
        title,
        duration_ms: summary.duration_ms,
        exit_code: data.and_then(|data| data.get("exitCode")?.as_i64()),
        was_rejected: summary.decision == Some(CallDecision::Reject),
        decision: summary.decision,
        denied: denied
            .map(|policy_decision| (policy_decision.rule.clone(), policy_decision.reason.clone())),
        rule: summary.policy_decision.as_ref().map(|policy_decision| policy_decision.rule.clone()),
        ..CallDetails::default()
    }
}
