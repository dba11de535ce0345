//! The json format: a single JSON object at the end.

use parallax_protocol::event::{
    Compaction, Event, EventBody, ItemDone, ItemStart, Level, ToolDone, ToolStatus,
};
use parallax_protocol::{Object, ids::CallId};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{TextItems, TextStep};
use crate::failure::{ErrorObject, RunOutcome};
use crate::options::RunOptions;
use crate::output::PendingOutput;
use crate::output_formatter::{FlushState, OutputFormatter, Summary, retry_words};
use crate::repeated_notices::RepeatedNotices;
use crate::wire;
use parallax_sessions::stats::Stats;

/// Maximum number of warnings, so that a long run with many retries stays bounded.
const MAX_WARNINGS: usize = 100;
/// Maximum number of reported compactions; later ones are dropped.
const MAX_COMPACTIONS: usize = 1_000;
/// Number of bytes of the answer written at once.
const PIECE: usize = 64 * 1024;

pub(crate) struct JsonFormatter {
    session_id: String,
    warnings: Vec<String>,
    repetitions: RepeatedNotices,
    compactions: Vec<Compaction>,
    transcript: Option<ConversationText>,
    /// Number of written bytes of the answer, while the end is being written.
    written_bytes: Option<usize>,
}

impl JsonFormatter {
    pub(crate) fn new(options: &RunOptions, display_prompt: Option<String>) -> Self {
        Self {
            session_id: options.session_text().to_owned(),
            warnings: options.warnings.clone(),
            repetitions: RepeatedNotices::default(),
            compactions: Vec::new(),
            transcript: options
                .verbose_json
                .then(|| ConversationText { display_prompt, ..ConversationText::default() }),
            written_bytes: None,
        }
    }

    fn warn(&mut self, text: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(text);
        } else if self.warnings.len() == MAX_WARNINGS {
            self.warnings.push("further warnings were omitted".to_owned());
        }
    }
}

/// The fields after `response`.
#[derive(Serialize)]
struct JsonTail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<&'a Value>,
    stats: &'a Stats,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "<[Compaction]>::is_empty")]
    compactions: &'a [Compaction],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorObject>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    scripted: bool,
    #[serde(flatten)]
    transcript: Option<TranscriptTail<'a>>,
}

#[derive(Serialize)]
struct TranscriptTail<'a> {
    messages: &'a [TranscriptMessage],
    tool_calls: &'a [TranscriptCall],
    exit_reason: &'static str,
}

impl OutputFormatter for JsonFormatter {
    fn begin(&mut self, _summary: &Summary, _pending: &mut PendingOutput) {}

    fn event(&mut self, event: &Event, pending: &mut PendingOutput) {
        match &event.body {
            EventBody::ItemDone { done: ItemDone::Notice { level, text, kind }, .. } => {
                self.notice(*level, kind.as_deref(), text, pending);
            }
            EventBody::Retry(retry) => {
                self.notice(Level::Warning, Some("retry"), &retry_words(retry), pending);
            }
            EventBody::Compaction(compaction) if self.compactions.len() < MAX_COMPACTIONS => {
                self.compactions.push(compaction.clone());
            }
            _ => {}
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.event(event);
        }
    }

    fn notice(
        &mut self,
        level: Level,
        kind: Option<&str>,
        text: &str,
        _pending: &mut PendingOutput,
    ) {
        if level == Level::Error || self.repetitions.should_report(kind, text) {
            self.warn(text.to_owned());
        }
    }

    fn end(
        &mut self,
        outcome: &RunOutcome,
        summary: &Summary,
        pending: &mut PendingOutput,
    ) -> FlushState {
        let out = &mut pending.stdout;
        let answer = summary.answer_text();
        let written = match self.written_bytes {
            Some(written) => written,
            None => {
                out.extend_from_slice(b"{\n  \"session_id\": \"");
                wire::push_string_body(out, &self.session_id);
                out.extend_from_slice(b"\",\n  \"response\": \"");
                0
            }
        };
        let mut end = answer.len().min(written + PIECE);
        while !answer.is_char_boundary(end) {
            end += 1;
        }
        wire::push_string_body(out, answer.get(written..end).unwrap_or(""));
        self.written_bytes = Some(end);
        if end < answer.len() {
            return FlushState::Yes;
        }
        out.push(b'"');
        for warning in self.repetitions.take() {
            self.warn(warning);
        }
        if let Some(warning) = &outcome.warning {
            self.warn(warning.clone());
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.close_message();
        }
        let tail = JsonTail {
            structured: summary.structured.as_ref(),
            stats: &summary.stats,
            warnings: &self.warnings,
            compactions: &self.compactions,
            error: outcome.error.as_ref(),
            scripted: summary.scripted,
            transcript: self.transcript.as_ref().map(|transcript| TranscriptTail {
                messages: &transcript.messages,
                tool_calls: &transcript.tool_calls,
                exit_reason: outcome.reason,
            }),
        };
        // The tail is a separate object; its opening brace is replaced by a comma.
        let brace = pending.stdout.len();
        wire::push_pretty(&mut pending.stdout, &tail);
        if let Some(byte) = pending.stdout.get_mut(brace) {
            *byte = b',';
        }
        FlushState::No
    }
}

/// The whole conversation, for `--verbose-json`.
#[derive(Default)]
struct ConversationText {
    items: TextItems,
    text: String,
    display_prompt: Option<String>,
    messages: Vec<TranscriptMessage>,
    tool_calls: Vec<TranscriptCall>,
}

#[derive(Serialize)]
struct TranscriptMessage {
    role: &'static str,
    content: String,
}

#[derive(Serialize)]
struct TranscriptCall {
    tool_id: CallId,
    tool_name: String,
    parameters: Object,
    status: Option<ToolStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TranscriptCallError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    duration_ms: u64,
}

#[derive(Serialize)]
struct TranscriptCallError {
    r#type: &'static str,
    message: String,
}

impl ConversationText {
    fn event(&mut self, event: &Event) {
        match self.items.read(event) {
            TextStep::Other | TextStep::Begin => {}
            TextStep::Boundary => self.close_message(),
            TextStep::More(piece) | TextStep::End { rest: piece, .. } => self.text.push_str(piece),
            TextStep::Dropped { text } => {
                let keep = self.text.len().saturating_sub(text.len());
                self.text.truncate(keep);
            }
        }
        match &event.body {
            EventBody::TurnStarted { prompt } => {
                let content = self.display_prompt.take().unwrap_or_else(|| prompt.clone());
                self.messages.push(TranscriptMessage { role: "user", content });
            }
            EventBody::ItemStarted { start: ItemStart::Tool(start), .. } => {
                self.tool_calls.push(TranscriptCall {
                    tool_id: start.call.clone(),
                    tool_name: start.name.clone(),
                    parameters: start.args.clone(),
                    status: None,
                    output: None,
                    error: None,
                    data: None,
                    duration_ms: 0,
                });
            }
            EventBody::ItemDone { done: ItemDone::Tool(done), .. } => self.record_tool_done(done),
            _ => {}
        }
    }

    fn record_tool_done(&mut self, done: &ToolDone) {
        let open = self.tool_calls.iter_mut().rev().find(|call| call.tool_id == done.call);
        let Some(call) = open else { return };
        call.status = Some(done.status);
        call.duration_ms = done.duration_ms;
        call.output = Some(done.for_model.clone());
        call.data.clone_from(&done.data);
        call.error = done.error.as_ref().map(|(kind, message)| TranscriptCallError {
            r#type: kind.as_str(),
            message: message.clone(),
        });
    }

    fn close_message(&mut self) {
        if !self.text.is_empty() {
            let content = std::mem::take(&mut self.text);
            self.messages.push(TranscriptMessage { role: "assistant", content });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::OutputFormat;
    use crate::harness::{SessionScript, run};

    fn json_script() -> SessionScript {
        SessionScript::new(OutputFormat::Json)
    }

    #[test]
    fn json_object_has_the_known_fields_and_stands_alone() {
        let result = run(json_script()
            .text(&["Looking"])
            .tools(&[("read", Ok("one"))])
            .model_call("m1", 100, 40, 7)
            .dropped(&["Dro"])
            .text(&["Fou", "nd \u{9b}31m\u{7f}"])
            .done());
        assert_eq!((result.code, result.stderr.as_str()), (0, ""));
        assert_eq!(
            result.stdout,
            r#"{
  "session_id": "s1",
  "response": "Found \u009b31m\u007f",
  "stats": {
    "models": {
      "m1": {
        "api": {
          "totalRequests": 1,
          "totalErrors": 0,
          "totalLatencyMs": 20,
          "errorsByType": {}
        },
        "tokens": {
          "input": 60,
          "prompt": 100,
          "candidates": 7,
          "total": 107,
          "cached": 40,
          "thoughts": 0,
          "tool": 0
        },
        "roles": {
          "main": {
            "totalRequests": 1,
            "totalErrors": 0,
            "totalLatencyMs": 20,
            "tokens": {
              "input": 60,
              "prompt": 100,
              "candidates": 7,
              "total": 107,
              "cached": 40,
              "thoughts": 0,
              "tool": 0
            }
          }
        }
      }
    },
    "tools": {
      "totalCalls": 1,
      "totalSuccess": 1,
      "totalFail": 0,
      "totalDurationMs": 3,
      "totalDecisions": {
        "accept": 0,
        "reject": 0,
        "modify": 0,
        "auto_accept": 1
      },
      "byName": {
        "read": {
          "count": 1,
          "success": 1,
          "fail": 0,
          "durationMs": 3,
          "decisions": {
            "accept": 0,
            "reject": 0,
            "modify": 0,
            "auto_accept": 1
          }
        }
      }
    },
    "files": {
      "totalLinesAdded": 0,
      "totalLinesRemoved": 0
    }
  }
}"#
        );
    }

    #[test]
    fn failure_is_reported_on_both_streams() {
        let result = run(json_script().retry().text(&["par"]).failed());
        assert_eq!(result.code, 1);
        let out: Value = serde_json::from_str(&result.stdout).unwrap();
        let error = json!({"type": "ApiError", "message": "the service failed", "code": 500, "status": 500});
        assert_eq!((&out["error"], &out["response"]), (&error, &json!("par")));
        assert_eq!(out["warnings"].as_array().unwrap().len(), 1);
        let err: Value = serde_json::from_str(&result.stderr).unwrap();
        assert_eq!(err, json!({"session_id": "s1", "error": error}));
    }

    #[test]
    fn warnings_of_one_kind_are_counted() {
        let mut script = json_script();
        for number in 0..9 {
            script = script.notice_of("hook", &format!("again {number}")).retry();
        }
        let out: Value = serde_json::from_str(&run(script.done()).stdout).unwrap();
        let warnings: Vec<&str> =
            out["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(warnings.len(), 8, "{warnings:?}");
        assert!(warnings.contains(&"6 more of this kind, the last one: again 8"), "{warnings:?}");
    }

    #[test]
    fn verbose_json_contains_the_complete_conversation() {
        let mut script = json_script()
            .text(&["Looking"])
            .tools(&[("read", Err("gone"))])
            .text(&["Sorry"])
            .done();
        script.options.verbose_json = true;
        let out: Value = serde_json::from_str(&run(script).stdout).unwrap();
        assert_eq!(
            out["messages"],
            json!([{"role": "user", "content": "typed"},
                {"role": "assistant", "content": "Looking"},
                {"role": "assistant", "content": "Sorry"}])
        );
        assert_eq!(
            out["tool_calls"][0]["error"],
            json!({"type": "file_not_found", "message": "gone"})
        );
        assert_eq!(out["exit_reason"], "done");
    }

    #[test]
    fn long_answer_is_written_completely() {
        let long = "ä\"\n€".repeat(60_000);
        let out: Value =
            serde_json::from_str(&run(json_script().text(&[&long]).done()).stdout).unwrap();
        assert_eq!(out["response"], long.as_str());
    }
}
