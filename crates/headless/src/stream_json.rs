//! The stream-json format: one JSON object per line for each event.
//!
//! Version 1 has the fields and order that existing scripts expect: results of a batch of tool
//! calls are printed together, in the order of the calls, and printed text is never revoked.
//! Version 2 prints more events, earlier: thoughts, live output, usage, each result as soon as its
//! call ends (`seq` numbers the calls), and `retry` with the number of characters (Unicode scalar
//! values) of the answer to drop.

use parallax_protocol::event::{
    ApprovalRequest, Event, EventBody, ItemDone, ItemStart, Level, ModelCall, Question,
    SessionReady, ToolDone, ToolStart, ToolStatus,
};
use parallax_protocol::ids::ItemId;
use parallax_protocol::routing::RouteSource;
use parallax_protocol::tool::{Display, ProgressUpdate, ToolErrorKind};
use serde::Serialize;

use crate::answer::{TextItems, TextStep};
use crate::continuation::Continuation;
use crate::failure::RunOutcome;
use crate::options::RunOptions;
use crate::output::PendingOutput;
use crate::output_formatter::{FlushState, OutputFormatter, SCRIPTED, Summary, retry_words};
use crate::repeated_notices::RepeatedNotices;
use crate::stream_lines::{
    AgentLine, ApprovalClosedLine, ApprovalRequestLine, Init, MessageLine, NoticeLine,
    ProgressLine, ResultLine, RetryLine, SessionLine, Thought, ToolFailure, ToolResultLine,
    ToolUse, UsageLine,
};
use crate::timestamp::TimestampFormatter;
use crate::wire;
use parallax_sessions::stats::Tokens;

pub(crate) struct StreamJsonFormatter {
    lines: LineWriter,
    session_id: String,
    model: String,
    warnings: Vec<String>,
    repetitions: RepeatedNotices,
    display_prompt: Option<String>,
    version_2: bool,
    /// The prompt of the running turn, until its own user item is received.
    prompt_item: Option<String>,
    items: TextItems,
    message: Continuation,
    surplus_text: String,
    /// Number of characters sent of the open text item (version 2).
    sent_chars: usize,
    tools: Tools,
}

/// Tool calls of the running batch.
#[derive(Default)]
struct Tools {
    /// Number of the next call.
    next_seq: u64,
    open: Vec<OpenTool>,
    /// Results held back until the batch is complete (version 1).
    pending_results: Vec<(usize, ToolResultLine)>,
}

struct OpenTool {
    item: ItemId,
    id: String,
    seq: u64,
}

/// Writes lines, each starting with its type and time.
#[derive(Default)]
struct LineWriter {
    clock: TimestampFormatter,
}

#[derive(Serialize)]
struct StampedLine<'a, T> {
    r#type: &'static str,
    timestamp: &'a str,
    #[serde(flatten)]
    body: T,
}

impl LineWriter {
    fn push(&mut self, pending: &mut PendingOutput, r#type: &'static str, body: impl Serialize) {
        let line = StampedLine { r#type, timestamp: self.clock.now(), body };
        wire::push_line(&mut pending.stdout, &line);
    }
}

impl StreamJsonFormatter {
    pub(crate) fn new(options: &RunOptions, display_prompt: Option<String>) -> Self {
        Self {
            lines: LineWriter::default(),
            session_id: options.session_text().to_owned(),
            model: options.model.clone(),
            warnings: options.warnings.clone(),
            repetitions: RepeatedNotices::default(),
            display_prompt,
            version_2: options.stream_version >= 2,
            prompt_item: None,
            items: TextItems::default(),
            message: Continuation::default(),
            surplus_text: String::new(),
            sent_chars: 0,
            tools: Tools::default(),
        }
    }

    fn push_problem(&mut self, severity: &'static str, message: &str, pending: &mut PendingOutput) {
        self.lines.push(pending, "error", NoticeLine { severity, message, line: None });
    }

    fn push_user(&mut self, content: &str, pending: &mut PendingOutput) {
        self.lines.push(pending, "message", MessageLine { role: "user", content, delta: false });
    }

    /// Skips the item of the prompt itself, but not of steering messages.
    fn push_user_item(&mut self, text: &str, pending: &mut PendingOutput) {
        if self.prompt_item.take().is_none_or(|prompt| prompt != text) {
            self.push_user(text, pending);
        }
    }

    fn push_assistant(&mut self, content: &str, pending: &mut PendingOutput) {
        if !content.is_empty() {
            let message = MessageLine { role: "assistant", content, delta: true };
            self.lines.push(pending, "message", message);
        }
    }

    fn push_text(&mut self, event: &Event, pending: &mut PendingOutput) {
        match self.items.read(event) {
            TextStep::Other => {}
            TextStep::Begin => self.sent_chars = 0,
            TextStep::More(piece) | TextStep::End { rest: piece, .. } => {
                if self.version_2 {
                    self.sent_chars += piece.chars().count();
                    self.push_assistant(piece, pending);
                } else {
                    let mut surplus = std::mem::take(&mut self.surplus_text);
                    surplus.clear();
                    self.message.push(piece, &mut surplus);
                    self.push_assistant(&surplus, pending);
                    self.surplus_text = surplus;
                }
            }
            TextStep::Dropped { text } => {
                if self.version_2 {
                    let drop_chars = std::mem::take(&mut self.sent_chars);
                    self.lines.push(pending, "retry", RetryLine { drop_chars, retry: None });
                } else {
                    self.message.invalidate(text);
                }
            }
            TextStep::Boundary => self.message.finish(),
        }
    }

    fn push_tool_start(&mut self, item: &ItemId, start: &ToolStart, pending: &mut PendingOutput) {
        let seq = self.tools.next_seq;
        self.tools.next_seq += 1;
        let id = start.call.as_str();
        self.tools.open.push(OpenTool { item: item.clone(), id: id.to_owned(), seq });
        let tool_use = ToolUse {
            tool_name: &start.name,
            tool_id: id,
            parameters: &start.args,
            seq: self.version_2.then_some(seq),
        };
        self.lines.push(pending, "tool_use", tool_use);
    }

    fn push_tool_done(&mut self, item: &ItemId, done: &ToolDone, pending: &mut PendingOutput) {
        let open = self.tools.open.iter().position(|open| open.item == *item);
        let seq = open.map(|at| self.tools.open.swap_remove(at).seq);
        let result = ToolResultLine {
            tool_id: done.call.as_str().to_owned(),
            status: if done.status == ToolStatus::Success { "success" } else { "error" },
            output: match &done.display {
                Some(Display::Text { text }) => Some(text.clone()),
                Some(Display::Agent(progress)) => Some(progress.result.clone()),
                _ => None,
            },
            error: tool_failure(done),
            seq: seq.filter(|_| self.version_2),
        };
        if self.version_2 {
            self.lines.push(pending, "tool_result", result);
            return;
        }
        self.tools.pending_results.push((done.index, result));
        if self.tools.open.is_empty() {
            self.release_results(pending);
        }
    }

    fn release_results(&mut self, pending: &mut PendingOutput) {
        let mut held = std::mem::take(&mut self.tools.pending_results);
        held.sort_by_key(|(index, _)| *index);
        for (_, result) in held {
            self.lines.push(pending, "tool_result", result);
        }
    }

    fn push_progress(
        &mut self,
        item: &ItemId,
        output: &str,
        advance: Option<&ProgressUpdate>,
        pending: &mut PendingOutput,
    ) {
        if let Some(open) = self.tools.open.iter().find(|open| open.item == *item) {
            let line = ProgressLine { tool_id: &open.id, output, advance };
            self.lines.push(pending, "tool_progress", line);
        }
    }

    fn push_usage(&mut self, call: &ModelCall, pending: &mut PendingOutput) {
        let line = UsageLine {
            model: &call.model,
            role: &call.role,
            tokens: Tokens::from(&call.usage),
            cost_usd: call.cost.map(|cost| (cost.total() * 1e9).round() / 1e9),
            latency_ms: call.latency_ms,
            error: call.error.as_deref(),
        };
        self.lines.push(pending, "usage", line);
    }

    fn push_session(&mut self, ready: &SessionReady, pending: &mut PendingOutput) {
        let line = SessionLine {
            session_id: ready.session.as_str(),
            model: &ready.model,
            mode: ready.mode.as_str(),
            resumed: Some(ready.resumed),
        };
        self.lines.push(pending, "session", line);
    }

    fn push_approval_request(&mut self, request: &ApprovalRequest, pending: &mut PendingOutput) {
        let line = ApprovalRequestLine {
            id: request.id.as_str(),
            // Determines whether the response is a line of type `answer` or `decide`.
            kind: if request.question == Question::AskUser { "question" } else { "approval" },
            agent: request.agent.as_deref(),
            tool_id: request.call.as_str(),
            tool_name: &request.name,
            tool_kind: request.kind,
            title: &request.title,
            preview: request.preview.as_ref(),
            reason: &request.policy_decision.reason,
            rule: &request.policy_decision.rule,
            outcomes: &request.outcomes,
            question: request.question,
            rules: &request.rules,
            permissions: &request.permissions,
            broader_permissions: &request.broader_permissions,
            not_undoable: &request.not_undoable,
        };
        self.lines.push(pending, "ask", line);
    }

    /// Handles events that only version 2 prints.
    fn write_version_2_event(&mut self, event: &Event, pending: &mut PendingOutput) {
        match &event.body {
            EventBody::SessionReady(ready) => self.push_session(ready, pending),
            EventBody::StateChanged { model, mode } => {
                let session_id = std::mem::take(&mut self.session_id);
                let line = SessionLine {
                    session_id: &session_id,
                    model,
                    mode: mode.as_str(),
                    resumed: None,
                };
                self.lines.push(pending, "session", line);
                self.session_id = session_id;
            }
            EventBody::ModelCall(call) => self.push_usage(call, pending),
            EventBody::Routed(route) if route.source != RouteSource::Override => {
                self.lines.push(pending, "model", route.as_ref());
            }
            EventBody::FellBack(fallback) => {
                self.lines.push(pending, "fallback", fallback.as_ref());
            }
            EventBody::Compaction(compaction) => self.lines.push(pending, "compaction", compaction),
            EventBody::ItemDelta { item, text } => self.push_progress(item, text, None, pending),
            EventBody::ItemAdvanced { item, advance } => {
                self.push_progress(item, &format!("{advance}\n"), Some(advance), pending);
            }
            EventBody::Agent { item, progress } => {
                if let Some(open) = self.tools.open.iter().find(|open| open.item == *item) {
                    let line = AgentLine { tool_id: &open.id, progress };
                    self.lines.push(pending, "agent", line);
                }
            }
            EventBody::ItemDone { done: ItemDone::Thought { text }, .. } => {
                let (subject, description) = split_thought(text);
                let thought = Thought { subject, description: &description };
                self.lines.push(pending, "thought", thought);
            }
            _ => {}
        }
    }
}

impl OutputFormatter for StreamJsonFormatter {
    fn begin(&mut self, summary: &Summary, pending: &mut PendingOutput) {
        let init =
            Init { session_id: &self.session_id, model: &self.model, scripted: summary.scripted };
        self.lines.push(pending, "init", init);
        for warning in std::mem::take(&mut self.warnings) {
            self.push_problem("warning", &warning, pending);
        }
        if summary.scripted && self.version_2 {
            self.push_problem("warning", SCRIPTED, pending);
        }
    }

    fn event(&mut self, event: &Event, pending: &mut PendingOutput) {
        self.push_text(event, pending);
        match &event.body {
            EventBody::TurnStarted { prompt } => {
                let content = self.display_prompt.take().unwrap_or_else(|| prompt.clone());
                self.push_user(&content, pending);
                self.prompt_item = Some(prompt.clone());
            }
            EventBody::ItemStarted { start: ItemStart::User { text }, .. } => {
                self.push_user_item(text, pending);
            }
            EventBody::ItemStarted { item, start: ItemStart::Tool(start) } => {
                self.push_tool_start(item, start, pending);
            }
            EventBody::ItemDone { item, done: ItemDone::Tool(done) } => {
                self.push_tool_done(item, done, pending);
            }
            EventBody::ItemDone { done: ItemDone::Notice { level, text, kind }, .. } => {
                self.notice(*level, kind.as_deref(), text, pending);
            }
            EventBody::ApprovalRequested(ask) => self.push_approval_request(ask, pending),
            EventBody::ApprovalClosed { ask, outcome } => {
                let line = ApprovalClosedLine { id: ask.as_str(), outcome: *outcome };
                self.lines.push(pending, "ask_closed", line);
            }
            EventBody::Undone(undone) => self.lines.push(pending, "undone", undone),
            EventBody::ContextBreakdown(picture) => self.lines.push(pending, "context", picture),
            EventBody::Retry(retry) if self.version_2 => {
                let line = RetryLine { drop_chars: 0, retry: Some(retry) };
                self.lines.push(pending, "retry", line);
            }
            EventBody::Retry(retry) => self.push_problem("warning", &retry_words(retry), pending),
            _ => {}
        }
        if self.version_2 {
            self.write_version_2_event(event, pending);
        }
    }

    fn notice(
        &mut self,
        level: Level,
        kind: Option<&str>,
        text: &str,
        pending: &mut PendingOutput,
    ) {
        match level {
            Level::Info => {}
            Level::Warning if !self.repetitions.should_report(kind, text) => {}
            Level::Warning => self.push_problem("warning", text, pending),
            Level::Error => self.push_problem("error", text, pending),
        }
    }

    fn report_rejected_line(&mut self, number: u64, problem: &str, pending: &mut PendingOutput) {
        let message = &format!("line {number}: {problem}");
        let notice = NoticeLine { severity: "error", message, line: Some(number) };
        self.lines.push(pending, "error", notice);
    }

    fn end(
        &mut self,
        outcome: &RunOutcome,
        summary: &Summary,
        pending: &mut PendingOutput,
    ) -> FlushState {
        self.message.finish();
        self.release_results(pending);
        self.tools.open.clear();
        for warning in self.repetitions.take() {
            self.push_problem("warning", &warning, pending);
        }
        if let Some(warning) = &outcome.warning {
            self.push_problem("warning", warning, pending);
        }
        if let Some(error) = &outcome.error {
            match outcome.reason {
                "loop" => self.push_problem("warning", &error.message, pending),
                "max_turns" | "budget" => self.push_problem("error", &error.message, pending),
                _ if error.r#type == "INVALID_STREAM" => {
                    self.push_problem("error", &error.message, pending);
                }
                _ => {}
            }
        }
        let stats = summary.stats.for_stream(summary.duration_ms);
        let result = ResultLine {
            status: if outcome.error.is_some() { "error" } else { "success" },
            error: outcome.error.as_ref(),
            stats: match self.version_2 {
                true => stats.with_cost(&summary.stats.cost),
                false => stats,
            },
            structured: summary.structured.as_ref(),
        };
        self.lines.push(pending, "result", result);
        FlushState::No
    }
}

fn tool_failure(done: &ToolDone) -> Option<ToolFailure> {
    match (&done.error, done.status) {
        (Some((ToolErrorKind::ExecutionFailed, message)), ToolStatus::Cancelled) => {
            Some(ToolFailure { r#type: "cancelled", message: message.clone() })
        }
        (Some((kind, message)), _) => {
            Some(ToolFailure { r#type: kind.as_str(), message: message.clone() })
        }
        (None, ToolStatus::Success) => None,
        (None, ToolStatus::Error | ToolStatus::Cancelled) => {
            Some(ToolFailure { r#type: "cancelled", message: "The call was cancelled".to_owned() })
        }
    }
}

/// Splits a thought into its first bold text and the rest.
fn split_thought(text: &str) -> (&str, String) {
    let Some((before, rest)) = text.split_once("**") else { return ("", text.trim().to_owned()) };
    let Some((subject, after)) = rest.split_once("**") else { return ("", text.trim().to_owned()) };
    (subject.trim(), format!("{before}{after}").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::split_thought;
    use crate::OutputFormat;
    use crate::harness::{SessionScript, run};

    fn stream() -> SessionScript {
        SessionScript::new(OutputFormat::StreamJson)
    }

    fn stream_version_2() -> SessionScript {
        let mut script = stream();
        script.options.stream_version = 2;
        script
    }

    /// Parses the lines, after checking and removing their times.
    fn lines(stdout: &str) -> Vec<Value> {
        stdout
            .lines()
            .map(|line| {
                assert!(line.starts_with("{\"type\":\""), "{line}");
                let mut value: Value = serde_json::from_str(line).unwrap();
                let time = value.as_object_mut().unwrap().shift_remove("timestamp").unwrap();
                assert_eq!(time.as_str().unwrap().len(), 24);
                value
            })
            .collect()
    }

    #[test]
    fn version_1_has_the_known_lines_in_the_known_order() {
        let output = run(stream()
            .text(&["Look", "ing"])
            .thought("**Plan** first")
            .tools_done_in_reverse(&[("a", Ok("one")), ("b", Err("gone"))])
            .model_call("m1", 100, 40, 7)
            .text(&["Done"])
            .done());
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        let expected = json!([
            {"type": "init", "session_id": "s1", "model": "auto"},
            {"type": "message", "role": "user", "content": "typed"},
            {"type": "message", "role": "assistant", "content": "Look", "delta": true},
            {"type": "message", "role": "assistant", "content": "ing", "delta": true},
            {"type": "tool_use", "tool_name": "a", "tool_id": "call0", "parameters": {"path": "x"}},
            {"type": "tool_use", "tool_name": "b", "tool_id": "call1", "parameters": {"path": "x"}},
            {"type": "tool_result", "tool_id": "call0", "status": "success", "output": "one"},
            {"type": "tool_result", "tool_id": "call1", "status": "error", "output": "gone",
             "error": {"type": "file_not_found", "message": "gone"}},
            {"type": "message", "role": "assistant", "content": "Done", "delta": true},
            {"type": "result", "status": "success", "stats": {
                "total_tokens": 107, "input_tokens": 100, "output_tokens": 7, "cached": 40,
                "input": 60, "duration_ms": 5, "tool_calls": 2,
                "models": {"m1": {"total_tokens": 107, "input_tokens": 100, "output_tokens": 7,
                                  "cached": 40, "input": 60}}}},
        ]);
        assert_eq!(Value::from(lines(&output.stdout)), expected);
    }

    #[test]
    fn version_1_sends_only_text_beyond_a_dropped_answer() {
        let result = run(stream().dropped(&["One tw"]).text(&["One", " two", "!"]).done());
        let texts: Vec<Value> = lines(&result.stdout)
            .into_iter()
            .filter(|line| line["role"] == "assistant")
            .map(|line| line["content"].clone())
            .collect();
        assert_eq!(texts, ["One tw", "o", "!"]);
    }

    #[test]
    fn version_2_sends_more_and_earlier_events() {
        let output = run(stream_version_2()
            .thought("**Plan** it well")
            .dropped(&["Öne"])
            .retry()
            .tools_done_in_reverse(&[("a", Ok("one")), ("b", Ok("two"))])
            .model_call("m1", 1, 0, 1)
            .done());
        let lines = lines(&output.stdout);
        let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(
            types,
            [
                "init",
                "message",
                "thought",
                "message",
                "retry",
                "retry",
                "tool_use",
                "tool_use",
                "tool_progress",
                "tool_result",
                "tool_progress",
                "tool_result",
                "usage",
                "result"
            ]
        );
        assert_eq!(
            lines[2],
            json!({"type": "thought", "subject": "Plan", "description": "it well"})
        );
        assert_eq!(lines[4], json!({"type": "retry", "dropChars": 3}));
        assert_eq!((&lines[5]["dropChars"], &lines[5]["delayMs"]), (&json!(0), &json!(1500)));
        assert_eq!((&lines[9]["tool_id"], &lines[9]["seq"]), (&json!("call1"), &json!(1)));
        assert_eq!(lines[11]["seq"], 0);
    }

    #[test]
    fn turn_without_an_answer_is_an_error() {
        use parallax_protocol::event::EndReason;
        let result = run(stream().end(EndReason::Loop { detail: "x".into() }));
        let seen = lines(&result.stdout);
        assert_eq!((result.code, &seen[2]["severity"]), (56, &json!("warning")));
        assert_eq!(seen[3]["error"]["type"], "LOOP_DETECTED");
        let err: Value = serde_json::from_str(&result.stderr).unwrap();
        assert_eq!(err["error"]["code"], 56);
        let result = run(stream().end(EndReason::MaxTurns { limit: 3 }));
        assert_eq!(result.code, 53);
        let result =
            run(stream().end(EndReason::Stopped { reason: "enough".into(), blocked: false }));
        let seen = lines(&result.stdout);
        assert_eq!((result.code, &seen[3]["status"]), (0, &json!("success")));
    }

    #[test]
    fn thought_is_split_at_its_first_bold_span() {
        assert_eq!(split_thought("**A b**\nrest **c**"), ("A b", "rest **c**".into()));
        assert_eq!(split_thought("no ** bold"), ("", "no ** bold".into()));
    }
}
