//! Passes events through an output format to the streams, while watching for signals and broken
//! pipes.

use std::io;
use std::time::Duration;

use parallax_protocol::event::{Event, EventBody, ItemDone, ItemStart, Level};
use parallax_protocol::op::Op;
use parallax_sdk::{EventReader, OpSender};
use tokio::time::{Instant, sleep_until, timeout};

use crate::exit::ExitCode;
use crate::failure::{RunOutcome, push_error_document};
use crate::formats::create_formatter;
use crate::options::{OutputFormat, OutputWriters, RunOptions};
use crate::output::{MessageStyle, OutputStreams};
use crate::output_formatter::{FlushState, OutputFormatter, Summary};
use crate::signals::Signals;

/// Number of pending bytes above which a batch of events is written.
const BATCH: usize = 64 * 1024;
/// How long an interrupted turn may take to end.
const GRACE: Duration = Duration::from_secs(1);
/// How long writing the final output may take after an interruption.
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);
/// Delay before a message says that the turn is being cancelled.
const HINT: Duration = Duration::from_millis(200);
/// Timeout of sending an operation to the session.
const SEND: Duration = Duration::from_millis(200);

/// Why the run is being stopped from outside.
#[derive(Debug)]
pub(crate) enum InterruptionCause {
    Signal(u8),
    /// The reader of stdout is gone.
    ReaderGone,
    /// Writing to stdout failed.
    WriteFailed(io::Error),
}

struct Interruption {
    cause: InterruptionCause,
    give_up_at: Instant,
    hint_time: Option<Instant>,
}

/// Why [`Runner::next`] returned.
pub(crate) enum RunnerStep {
    Event(Box<Event>),
    /// There will be no more events.
    Closed,
    /// Something was handled; call again.
    Continue,
    /// The interrupted turn did not end in time.
    GiveUp,
}

pub(crate) struct Runner {
    ops: OpSender,
    pub(crate) formatter: Box<dyn OutputFormatter>,
    pub(crate) summary: Summary,
    output: OutputStreams,
    signals: Signals,
    interruption: Option<Interruption>,
    format: OutputFormat,
    session_id: String,
    color: bool,
    quiet: bool,
    hints: bool,
    compatible_signals: bool,
    stdin_is_terminal: bool,
    ends_session: bool,
    finishes_tool_calls: bool,
    /// Number of running tool calls.
    open_calls: usize,
    /// A signal deferred until the tool calls end.
    deferred_signal: Option<u8>,
}

impl Runner {
    pub(crate) fn new(
        io: OutputWriters,
        ops: OpSender,
        signals: Signals,
        options: &RunOptions,
        display_prompt: Option<String>,
    ) -> Self {
        Self {
            ops,
            formatter: create_formatter(options, display_prompt),
            summary: Summary::new(options),
            output: OutputStreams::new(io, options.shared_terminal),
            signals,
            interruption: None,
            format: options.format,
            session_id: options.session_text().to_owned(),
            color: options.stderr_color,
            quiet: options.quiet,
            hints: options.format == OutputFormat::Text
                && options.stdin_is_terminal
                && !options.quiet,
            compatible_signals: options.compatible_signals,
            stdin_is_terminal: options.stdin_is_terminal,
            ends_session: options.has_end_hooks && options.format != OutputFormat::Text,
            finishes_tool_calls: options.finishes_tool_calls,
            open_calls: 0,
            deferred_signal: None,
        }
    }

    /// Writes the output that comes before the first event.
    pub(crate) async fn begin(&mut self) {
        self.formatter.begin(&self.summary, &mut self.output.pending);
        self.flush().await;
    }

    /// Returns whether the run is being stopped from outside.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interruption.is_some()
    }

    /// Waits for the next event, a signal, or the end of the grace period.
    pub(crate) async fn next(&mut self, events: &mut EventReader) -> RunnerStep {
        if self.open_calls == 0
            && let Some(number) = self.deferred_signal.take()
        {
            self.interrupt(InterruptionCause::Signal(number)).await;
            return RunnerStep::Continue;
        }
        tokio::select! {
            biased;
            number = self.signals.next() => {
                self.signal(number).await;
                RunnerStep::Continue
            }
            step = exit_timeout(self.interruption.as_ref()) => self.handle_exit_timeout(step).await,
            event = events.next() => event.map_or(RunnerStep::Closed, |event| RunnerStep::Event(Box::new(event))),
        }
    }

    /// Ends the turn, immediately or when the running tool calls have ended.
    async fn signal(&mut self, number: u8) {
        let waits = self.finishes_tool_calls && self.open_calls > 0 && matches!(number, 2 | 15);
        if waits && self.deferred_signal.is_none() && !self.is_interrupted() {
            self.deferred_signal = Some(number);
            // Otherwise, the model could be asked before this notices the end of the calls.
            self.send(Op::ShutdownAfterCalls).await;
        } else {
            self.interrupt(InterruptionCause::Signal(number)).await;
        }
    }

    async fn handle_exit_timeout(&mut self, step: ExitTimeout) -> RunnerStep {
        match step {
            ExitTimeout::Hint => {
                if let Some(interruption) = &mut self.interruption {
                    interruption.hint_time = None;
                }
                self.output.pending.write_message(MessageStyle::Note, self.color, "Cancelling…");
                self.output.flush_stderr().await;
                RunnerStep::Continue
            }
            ExitTimeout::Elapsed => RunnerStep::GiveUp,
        }
    }

    /// Processes an event and those already waiting behind it, until there is enough output to
    /// write or `stop` returns `true` for an event.
    pub(crate) fn process_event(
        &mut self,
        mut event: Event,
        events: &mut EventReader,
        stop: fn(&EventBody) -> bool,
    ) -> Event {
        loop {
            self.summary.event(&event);
            match &event.body {
                EventBody::ItemStarted { start: ItemStart::Tool(_), .. } => self.open_calls += 1,
                EventBody::ItemDone { done: ItemDone::Tool(_), .. } => {
                    self.open_calls = self.open_calls.saturating_sub(1);
                }
                _ => {}
            }
            self.formatter.event(&event, &mut self.output.pending);
            if let EventBody::Aside { text } = &event.body
                && !self.quiet
            {
                match self.format {
                    OutputFormat::Text => {
                        self.output.pending.write_message(MessageStyle::Warning, self.color, text);
                    }
                    // In these formats, stderr is reserved for failures.
                    _ => {
                        self.formatter.notice(Level::Warning, None, text, &mut self.output.pending)
                    }
                }
            }
            let pending = &self.output.pending;
            if stop(&event.body) || pending.stdout.len() + pending.stderr.len() >= BATCH {
                return event;
            }
            match events.try_next() {
                Some(next) => event = next,
                None => return event,
            }
        }
    }

    /// Prints an event that is not one of the session.
    pub(crate) fn print_event(&mut self, event: &Event) {
        self.formatter.event(event, &mut self.output.pending);
    }

    /// Reports a line of the input that cannot be carried out.
    pub(crate) fn reject_line(&mut self, number: u64, problem: &str) {
        self.formatter.report_rejected_line(number, problem, &mut self.output.pending);
    }

    /// Sends an operation to the session. Returns `false` if the session does not accept it.
    pub(crate) async fn send(&mut self, op: Op) -> bool {
        matches!(timeout(SEND, self.ops.send(op)).await, Ok(Ok(())))
    }

    /// Ends the running turn. A second signal ends the grace period.
    pub(crate) async fn interrupt(&mut self, cause: InterruptionCause) {
        let now = Instant::now();
        if let Some(interruption) = &mut self.interruption {
            interruption.give_up_at = now;
            if !matches!(cause, InterruptionCause::Signal(_)) {
                interruption.cause = cause;
            }
            return;
        }
        let hint = self.hints && matches!(cause, InterruptionCause::Signal(_));
        self.interruption = Some(Interruption {
            cause,
            give_up_at: now + GRACE,
            hint_time: hint.then(|| now + HINT),
        });
        // A session that does not accept this is treated like one that does not end. An interrupt
        // alone would let queued prompts begin.
        self.send(Op::Shutdown).await;
    }

    /// Writes pending output. Gives up when interrupted and out of time.
    pub(crate) async fn flush(&mut self) {
        loop {
            if let Some(Interruption {
                cause: InterruptionCause::ReaderGone | InterruptionCause::WriteFailed(_),
                ..
            }) = self.interruption
            {
                self.output.discard_stdout();
                self.output.flush_stderr().await;
                return;
            }
            let cause = tokio::select! {
                biased;
                number = self.signals.next() => {
                    self.signal(number).await;
                    continue;
                }
                step = exit_timeout(self.interruption.as_ref()) => {
                    if let RunnerStep::GiveUp = self.handle_exit_timeout(step).await {
                        return;
                    }
                    continue;
                }
                result = self.output.flush() => match result {
                    Ok(()) => return,
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => InterruptionCause::ReaderGone,
                    Err(error) => InterruptionCause::WriteFailed(error),
                },
            };
            self.interrupt(cause).await;
        }
    }

    /// Returns the outcome that the interruption determines, if there is one.
    pub(crate) fn forced_outcome(&self) -> Option<RunOutcome> {
        Some(match &self.interruption.as_ref()?.cause {
            InterruptionCause::Signal(number) => {
                // Ctrl+C at a terminal exits with 130 in compatible mode, too.
                let compatible =
                    self.compatible_signals && !(*number == 2 && self.stdin_is_terminal);
                RunOutcome::signal(*number, compatible)
            }
            InterruptionCause::ReaderGone => RunOutcome::success(),
            InterruptionCause::WriteFailed(error) => {
                RunOutcome::internal(&format!("Failed to write the answer to stdout: {error}"))
            }
        })
    }

    /// Ends the session before the output ends, if the output should include reports of
    /// `SessionEnd` hooks. The answer is complete, so a signal only ends the hooks. An interrupted
    /// run does not wait for them.
    pub(crate) async fn end_session(&mut self, events: &mut EventReader) {
        if !self.ends_session || self.is_interrupted() || !self.send(Op::Shutdown).await {
            return;
        }
        let mut give_up_at = None;
        loop {
            let given_up = async {
                match give_up_at {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.signals.next() => {
                    self.send(Op::Interrupt).await;
                    give_up_at = Some(Instant::now() + GRACE);
                }
                () = given_up => return,
                event = events.next() => match event {
                    Some(event) => drop(self.process_event(event, events, |_| false)),
                    None => return,
                },
            }
        }
    }

    /// Writes the end of a run or turn.
    pub(crate) async fn end(&mut self, outcome: &RunOutcome) {
        if let Some(interruption) = &mut self.interruption {
            interruption.give_up_at = Instant::now() + FINAL_OUTPUT_TIMEOUT;
            interruption.hint_time = None;
        }
        while self.formatter.end(outcome, &self.summary, &mut self.output.pending)
            == FlushState::Yes
        {
            self.flush().await;
        }
        self.flush().await;
    }

    /// Writes the error document if the format requires it, and returns the exit code. Failures
    /// while writing the end are taken into account.
    pub(crate) async fn exit(mut self, outcome: RunOutcome) -> ExitCode {
        let has_error = outcome.error.is_some();
        let outcome = self.forced_outcome().unwrap_or(outcome);
        if let Some(error) = &outcome.error {
            let pending = &mut self.output.pending;
            if self.format != OutputFormat::Text {
                push_error_document(pending, &self.session_id, error, self.format);
            } else if !has_error {
                pending.write_message(MessageStyle::Error, self.color, &error.message);
            }
            self.flush().await;
        }
        outcome.exit
    }
}

enum ExitTimeout {
    Hint,
    Elapsed,
}

async fn exit_timeout(interruption: Option<&Interruption>) -> ExitTimeout {
    let Some(interruption) = interruption else { return std::future::pending().await };
    match interruption.hint_time {
        Some(hint_at) if hint_at < interruption.give_up_at => {
            sleep_until(hint_at).await;
            ExitTimeout::Hint
        }
        _ => {
            sleep_until(interruption.give_up_at).await;
            ExitTimeout::Elapsed
        }
    }
}
