//! The error object of a failed run, and writing it.

use std::io::{self, Write};

use parallax_protocol::event::{EndReason, ExhaustedBudget, Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use serde::Serialize;

use crate::exit::ExitCode;
use crate::options::OutputFormat;
use crate::output::{MessageStyle, PendingOutput};
use crate::timestamp::TimestampFormatter;
use crate::wire;
use parallax_sessions::stats::Stats;

/// The field `error` of the JSON formats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ErrorObject {
    /// The class (`FatalInputError`, `ApiError`, …).
    pub r#type: &'static str,
    /// What happened, to which thing, and what to do.
    pub message: String,
    /// The exit code, or the HTTP status of an API error.
    pub code: u16,
    /// The HTTP status of the provider's response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl From<&Failure> for ErrorObject {
    fn from(failure: &Failure) -> Self {
        let r#type = match failure.kind {
            FailureKind::Auth => "FatalAuthenticationError",
            FailureKind::Input => "FatalInputError",
            FailureKind::Config => "FatalConfigError",
            FailureKind::Sandbox => "FatalSandboxError",
            FailureKind::Untrusted => "FatalUntrustedWorkspaceError",
            FailureKind::Tool => "FatalToolExecutionError",
            FailureKind::Api => "ApiError",
            FailureKind::Quota => "TerminalQuotaError",
            FailureKind::InvalidStream => "INVALID_STREAM",
            FailureKind::Blocked => "BLOCKED",
            FailureKind::Continuations => "BUDGET_SPENT",
            FailureKind::Overflow => "CONTEXT_OVERFLOW",
            FailureKind::Internal => "InternalError",
        };
        let exit_code = u16::from(ExitCode::for_failure(failure).0);
        let code = match failure.kind {
            FailureKind::Api | FailureKind::Quota => failure.status.unwrap_or(exit_code),
            FailureKind::Auth if failure.status == Some(403) => 403,
            _ => exit_code,
        };
        Self { r#type, message: failure.message.clone(), code, status: failure.status }
    }
}

/// How a run, or one turn of a conversation, ended.
#[derive(Debug, Clone)]
pub(crate) struct RunOutcome {
    pub(crate) exit: ExitCode,
    /// One word for programs.
    pub(crate) reason: &'static str,
    pub(crate) error: Option<ErrorObject>,
    /// A warning about an end that is not a failure.
    pub(crate) warning: Option<String>,
}

impl RunOutcome {
    pub(crate) fn success() -> Self {
        Self { exit: ExitCode::SUCCESS, reason: "done", error: None, warning: None }
    }

    fn failed(exit: ExitCode, reason: &'static str, r#type: &'static str, message: String) -> Self {
        let error = ErrorObject { r#type, message, code: u16::from(exit.0), status: None };
        Self { exit, reason, error: Some(error), warning: None }
    }

    pub(crate) fn failure(failure: &Failure) -> Self {
        let error = Some(ErrorObject::from(failure));
        Self { exit: ExitCode::for_failure(failure), reason: "failed", error, warning: None }
    }

    pub(crate) fn internal(message: &str) -> Self {
        Self::failure(&Failure {
            kind: FailureKind::Internal,
            message: message.to_owned(),
            status: None,
        })
    }

    /// Creates the outcome of a signal. In compatible mode the process exits with 0.
    pub(crate) fn signal(number: u8, compatible: bool) -> Self {
        let name = match number {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            15 => "SIGTERM",
            _ => "a signal",
        };
        let code = ExitCode::signal(number);
        let mut outcome = Self::failed(
            code,
            "cancelled",
            "FatalCancellationError",
            format!("The run was cancelled by {name}"),
        );
        if compatible {
            outcome.exit = ExitCode::SUCCESS;
        }
        outcome
    }

    pub(crate) fn schema_mismatch(problems: &str) -> Self {
        Self::failed(
            ExitCode::GENERAL,
            "schema_mismatch",
            "SCHEMA_MISMATCH",
            format!("The answer does not match the output schema: {problems}"),
        )
    }
}

impl From<&EndReason> for RunOutcome {
    fn from(reason: &EndReason) -> Self {
        match reason {
            EndReason::Done => Self::success(),
            EndReason::Cancelled => Self::failed(
                ExitCode::CANCELLED,
                "cancelled",
                "FatalCancellationError",
                "The run was cancelled".to_owned(),
            ),
            EndReason::MaxTurns { limit } => Self::failed(
                ExitCode::TURN_LIMIT,
                "max_turns",
                "FatalTurnLimitedError",
                format!(
                    "Reached the limit of {limit} model requests; raise `--max-turns` or \
                     `model.maxSessionTurns` to continue"
                ),
            ),
            EndReason::Budget(spent) => {
                Self::failed(ExitCode::BUDGET, "budget", "BUDGET_SPENT", describe_exhausted(spent))
            }
            EndReason::Loop { detail } => Self::failed(
                ExitCode::LOOP,
                "loop",
                "LOOP_DETECTED",
                format!(
                    "Loop detected: the model is repeating itself, so the run was stopped: {detail}"
                ),
            ),
            EndReason::Stopped { reason, blocked: true } => Self::failed(
                ExitCode::GENERAL,
                "stopped",
                "HOOK_BLOCKED",
                format!("Agent execution blocked: {reason}"),
            ),
            EndReason::Stopped { reason, blocked: false } => Self {
                reason: "stopped",
                warning: Some(format!("Agent execution stopped: {reason}")),
                ..Self::success()
            },
            EndReason::Failed(failure) => Self::failure(failure),
        }
    }
}

/// Describes a used-up budget as a sentence.
fn describe_exhausted(spent: &ExhaustedBudget) -> String {
    let text = spent.to_string();
    text.replacen("the budget", "The budget", 1)
}

/// The error object on stderr in the JSON formats.
#[derive(Serialize)]
pub(crate) struct ErrorDocument<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) error: &'a ErrorObject,
}

/// Reports a failure before the run began, in the given format, and returns the exit code. Write
/// errors are ignored.
pub fn report_failure(
    format: OutputFormat,
    session_id: Option<&SessionId>,
    failure: &Failure,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> ExitCode {
    let error = ErrorObject::from(failure);
    report_error(format, session_id, &error, stdout, stderr);
    ExitCode::for_failure(failure)
}

/// Reports that a budget was used up before the first prompt, in the given format, and returns the
/// exit code. Write errors are ignored.
pub fn report_exhausted_budget(
    format: OutputFormat,
    session_id: Option<&SessionId>,
    budget: &ExhaustedBudget,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> ExitCode {
    let outcome = RunOutcome::from(&EndReason::Budget(*budget));
    if let Some(error) = &outcome.error {
        report_error(format, session_id, error, stdout, stderr);
    }
    outcome.exit
}

/// Writes an error object to the stream that the format requires.
pub fn report_error(
    format: OutputFormat,
    session_id: Option<&SessionId>,
    error: &ErrorObject,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) {
    let session_id = session_id.map_or("", SessionId::as_str);
    let mut pending = PendingOutput::default();
    match format {
        OutputFormat::Text => {
            // The message may have a hint on a separate line.
            for (index, line) in error.message.lines().enumerate() {
                let tone = if index == 0 { MessageStyle::Error } else { MessageStyle::Note };
                pending.write_message(tone, false, line);
            }
        }
        OutputFormat::Json => {
            #[derive(Serialize)]
            struct FailureDocument<'a> {
                session_id: &'a str,
                response: &'static str,
                stats: Stats,
                error: &'a ErrorObject,
            }
            let document =
                FailureDocument { session_id, response: "", stats: Stats::default(), error };
            wire::push_pretty(&mut pending.stdout, &document);
            push_error_document(&mut pending, session_id, error, format);
        }
        OutputFormat::StreamJson => {
            #[derive(Serialize)]
            struct FailureLine<'a> {
                r#type: &'static str,
                timestamp: &'a str,
                status: &'static str,
                error: &'a ErrorObject,
                stats: parallax_sessions::stats::StreamStats,
            }
            let mut clock = TimestampFormatter::default();
            let line = FailureLine {
                r#type: "result",
                timestamp: clock.now(),
                status: "error",
                error,
                stats: Stats::default().for_stream(0),
            };
            wire::push_line(&mut pending.stdout, &line);
            push_error_document(&mut pending, session_id, error, format);
        }
    }
    let write = |stream: &mut dyn Write, bytes: &[u8]| -> io::Result<()> {
        stream.write_all(bytes)?;
        stream.flush()
    };
    // A failed write to a closed stream cannot be reported.
    let _ = write(stdout, &pending.stdout);
    let _ = write(stderr, &pending.stderr);
}

/// Appends the error document to stderr.
pub(crate) fn push_error_document(
    pending: &mut PendingOutput,
    session_id: &str,
    error: &ErrorObject,
    format: OutputFormat,
) {
    let document = ErrorDocument { session_id, error };
    if format == OutputFormat::Json {
        wire::push_pretty(&mut pending.stderr, &document);
        pending.stderr.push(b'\n');
    } else {
        wire::push_line(&mut pending.stderr, &document);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn report(
        format: OutputFormat,
        kind: FailureKind,
        status: Option<u16>,
    ) -> (u8, String, String) {
        let failure = Failure { kind, message: "no key\nset `GEMINI_API_KEY`".into(), status };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = report_failure(format, Some(&"s1".into()), &failure, &mut out, &mut err);
        (code.0, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn startup_failure_is_reported_in_every_format() {
        let (code, out, err) = report(OutputFormat::Text, FailureKind::Auth, None);
        assert_eq!((code, out.as_str()), (41, ""));
        assert_eq!(err, "error: no key\nset `GEMINI_API_KEY`\n");

        let expected = json!({"type": "FatalAuthenticationError",
            "message": "no key\nset `GEMINI_API_KEY`", "code": 41});
        let (code, out, err) = report(OutputFormat::Json, FailureKind::Auth, None);
        assert_eq!(code, 41);
        let (out, err): (Value, Value) =
            (serde_json::from_str(&out).unwrap(), serde_json::from_str(&err).unwrap());
        assert_eq!(out["error"], expected);
        assert_eq!(out["response"], "");
        assert_eq!(err, json!({"session_id": "s1", "error": expected}));

        let (code, out, err) = report(OutputFormat::StreamJson, FailureKind::Untrusted, None);
        assert_eq!((code, out.lines().count(), err.lines().count()), (55, 1, 1));
        let line: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(line["type"], "result");
        assert_eq!(line["error"]["type"], "FatalUntrustedWorkspaceError");
    }

    #[test]
    fn denial_by_a_hook_fails_and_a_stop_does_not() {
        let of = |blocked| RunOutcome::from(&EndReason::Stopped { reason: "no".into(), blocked });
        let denied = of(true);
        assert_eq!(
            (denied.exit, denied.reason, denied.warning),
            (ExitCode::GENERAL, "stopped", None)
        );
        let message = denied.error.map(|error| error.message);
        assert_eq!(message.as_deref(), Some("Agent execution blocked: no"));
        let stopped = of(false);
        assert_eq!(stopped.exit, ExitCode::SUCCESS);
        assert_eq!(stopped.warning.as_deref(), Some("Agent execution stopped: no"));
    }

    #[test]
    fn service_status_is_kept_and_exit_code_is_mapped() {
        let of = |kind, status| {
            let (code, out, _) = report(OutputFormat::Json, kind, status);
            let out: Value = serde_json::from_str(&out).unwrap();
            (code, out["error"]["code"].as_u64().unwrap(), out["error"]["status"].clone())
        };
        assert_eq!(of(FailureKind::Api, Some(500)), (1, 500, json!(500)));
        assert_eq!(of(FailureKind::Api, Some(429)), (75, 429, json!(429)));
        assert_eq!(of(FailureKind::Quota, Some(429)), (75, 429, json!(429)));
        assert_eq!(of(FailureKind::Auth, Some(401)), (41, 41, json!(401)));
        assert_eq!(of(FailureKind::Auth, Some(403)), (1, 403, json!(403)));
        assert_eq!(of(FailureKind::Api, None), (1, 1, Value::Null));
    }
}
