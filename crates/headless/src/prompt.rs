//! Runs a single prompt.

use parallax_protocol::event::{EndReason, EventBody};
use parallax_protocol::op::{ApprovalResponse, Op, Prompt, RequestDecision};
use parallax_sdk::{EventReader, OpSender};

use crate::answer_schema::{AnswerCheck, AnswerSchema};
use crate::exit::ExitCode;
use crate::failure::RunOutcome;
use crate::options::{OutputWriters, RunOptions};
use crate::runner::{Runner, RunnerStep};
use crate::signals::Signals;

/// Sends the prompt, prints the events of its turn in the format of the options, and returns the
/// exit code. `display_prompt` is the prompt as the user typed it.
///
/// On SIGINT, SIGQUIT, SIGTERM, or SIGHUP the turn is interrupted and has one second to end; the
/// output that the format requires is still printed. If the reader of stdout goes away, the turn is
/// interrupted and the exit code is 0.
pub async fn run_prompt(
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    prompt: Prompt,
    display_prompt: String,
    options: RunOptions,
) -> ExitCode {
    run_prompt_with(Signals::listen(), io, ops, events, prompt, display_prompt, options).await
}

/// Like [`run_prompt`], but continues an interrupted turn.
pub async fn continue_turn(
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    options: RunOptions,
) -> ExitCode {
    run_op(Signals::listen(), io, ops, events, Op::Continue, None, options).await
}

pub(crate) async fn run_prompt_with(
    signals: Signals,
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    prompt: Prompt,
    display_prompt: String,
    options: RunOptions,
) -> ExitCode {
    run_op(signals, io, ops, events, Op::Prompt(prompt), Some(display_prompt), options).await
}

async fn run_op(
    signals: Signals,
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    op: Op,
    display_prompt: Option<String>,
    options: RunOptions,
) -> ExitCode {
    let mut runner = Runner::new(io, ops, signals, &options, display_prompt);
    runner.begin().await;
    let outcome = match runner.forced_outcome() {
        Some(outcome) => outcome,
        None => turns(&mut runner, events, op, options.schema.map(AnswerSchema::new)).await,
    };
    runner.end_session(events).await;
    runner.end(&outcome).await;
    runner.exit(outcome).await
}

/// Runs the prompt's turn, and further turns while the answer does not match the schema.
async fn turns(
    runner: &mut Runner,
    events: &mut EventReader,
    first: Op,
    mut schema: Option<AnswerSchema>,
) -> RunOutcome {
    let mut op = first;
    loop {
        if !runner.send(op).await {
            return RunOutcome::internal("The session accepts no prompts");
        }
        let outcome = turn(runner, events).await;
        let Some(schema) = schema.as_mut().filter(|_| !runner.is_interrupted()) else {
            return outcome;
        };
        match schema.check(outcome, runner.summary.answer_text()) {
            AnswerCheck::Finished(outcome, value) => {
                runner.summary.structured = value;
                return outcome;
            }
            AnswerCheck::AskAgain(correction) => op = correction,
        }
    }
}

/// Processes events until the turn ends.
async fn turn(runner: &mut Runner, events: &mut EventReader) -> RunOutcome {
    loop {
        let ended = match runner.next(events).await {
            RunnerStep::Continue => None,
            RunnerStep::GiveUp => Some(EndReason::Cancelled),
            RunnerStep::Closed => {
                return runner.forced_outcome().unwrap_or_else(|| {
                    RunOutcome::internal("The session ended before the answer was complete")
                });
            }
            RunnerStep::Event(event) => {
                let needs_reaction = |body: &EventBody| {
                    matches!(body, EventBody::TurnEnded(_) | EventBody::ApprovalRequested(_))
                };
                match runner.process_event(*event, events, needs_reaction).body {
                    EventBody::TurnEnded(end) => Some(end.reason),
                    EventBody::ApprovalRequested(ask) => {
                        // Without a user to respond, the approval request would wait forever.
                        runner
                            .send(Op::Decide(Box::new(RequestDecision {
                                feedback: Some(
                                    "No user is available to answer questions in this run".into(),
                                ),
                                ..RequestDecision::new(ask.id, ApprovalResponse::Cancel)
                            })))
                            .await;
                        None
                    }
                    _ => None,
                }
            }
        };
        if let Some(reason) = ended {
            return runner.forced_outcome().unwrap_or_else(|| RunOutcome::from(&reason));
        }
        runner.flush().await;
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::event::EndReason;
    use serde_json::Value;

    use crate::harness::{SessionScript, Stdout, run};
    use crate::{OutputFormat, OutputSchema};

    #[test]
    fn answer_that_violates_the_schema_is_requested_again() {
        let schema = || OutputSchema::parse(r#"{"type":"object","required":["n"]}"#).ok();
        let mut script = SessionScript::new(OutputFormat::Json)
            .text(&["no json"])
            .done()
            .text(&["```json\n{\"n\":2}\n```"])
            .done();
        script.options.schema = schema();
        let result = run(script);
        let out: Value = serde_json::from_str(&result.stdout).unwrap();
        assert_eq!((result.code, &out["structured"]["n"]), (0, &Value::from(2)));
        assert_eq!(result.prompts.len(), 2);
        assert!(result.prompts[1].contains("invalid JSON"), "{:?}", result.prompts);

        let mut script = SessionScript::new(OutputFormat::Text);
        for _ in 0..3 {
            script = script.text(&["no json"]).done();
        }
        script.options.schema = schema();
        let result = run(script);
        assert_eq!((result.code, result.stdout.as_str(), result.prompts.len()), (1, "", 3));
        assert!(result.stderr.contains("does not match the output schema"), "{}", result.stderr);
    }

    #[test]
    fn signal_ends_the_turn_with_valid_output() {
        for (number, name) in [(2, "SIGINT"), (3, "SIGQUIT"), (15, "SIGTERM"), (1, "SIGHUP")] {
            let mut script =
                SessionScript::new(OutputFormat::Json).text(&["so far"]).end_on_interrupt();
            script.signals = vec![number];
            let result = run(script);
            let out: Value = serde_json::from_str(&result.stdout).unwrap();
            assert_eq!(result.code, 128 + number);
            assert_eq!(out["response"], "so far");
            assert_eq!(out["error"]["type"], "FatalCancellationError");
            assert!(out["error"]["message"].as_str().unwrap().contains(name));
        }
    }

    #[test]
    fn hanging_turn_is_abandoned_after_a_second() {
        let mut script = SessionScript::new(OutputFormat::Text).text(&["x"]).hang();
        script.signals = vec![15];
        let result = run(script);
        assert_eq!((result.code, result.stdout.as_str()), (143, "x\n"));
        assert!(result.seconds >= 1.0 && result.seconds < 1.5, "{}", result.seconds);
    }

    #[test]
    fn legacy_flag_requests_exit_code_0() {
        let code = |number, terminal| {
            let mut script = SessionScript::new(OutputFormat::Text).end_on_interrupt();
            script.signals = vec![number];
            script.options.compatible_signals = true;
            script.options.stdin_is_terminal = terminal;
            run(script).code
        };
        assert_eq!((code(15, true), code(2, false), code(2, true)), (0, 0, 130));
    }

    #[test]
    fn closed_output_ends_the_turn_quietly() {
        let mut script =
            SessionScript::new(OutputFormat::StreamJson).text(&["x"]).end_on_interrupt();
        script.stdout = Stdout::Broken;
        let result = run(script);
        assert_eq!((result.code, result.stderr.as_str()), (0, ""));
    }

    #[test]
    fn full_disk_is_reported() {
        for format in [OutputFormat::Text, OutputFormat::Json, OutputFormat::StreamJson] {
            let mut script = SessionScript::new(format).text(&["x"]).done();
            script.stdout = Stdout::Closed;
            let result = run(script);
            assert_eq!(result.code, 1);
            assert_eq!(result.stderr.matches("Failed to write").count(), 1, "{}", result.stderr);
        }
    }

    #[test]
    fn blocked_output_does_not_delay_a_signal() {
        let mut script = SessionScript::new(OutputFormat::Text).text(&["x"]).end_on_interrupt();
        script.stdout = Stdout::Blocked;
        script.signals = vec![15];
        assert_eq!(run(script).code, 143);
    }

    #[test]
    fn user_question_is_denied_without_a_user() {
        let result = run(SessionScript::new(OutputFormat::Text).ask("a1").end(EndReason::Done));
        assert_eq!((result.code, result.decisions), (0, vec!["a1".to_owned()]));
    }

    #[test]
    fn dead_session_is_a_failure() {
        let result = run(SessionScript::new(OutputFormat::Text).text(&["x"]).exit_abruptly());
        assert_eq!((result.code, result.stdout.as_str()), (1, "x\n"));
    }
}
