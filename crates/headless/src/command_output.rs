//! Prints the output of a slash command in the format of the run.

use std::sync::Arc;

use parallax_protocol::event::{EndReason, Event, EventBody, ItemDone, ItemStart, TurnEnded};
use parallax_protocol::ids::ItemId;
use parallax_sdk::{EventReader, OpSender};

use crate::exit::ExitCode;
use crate::failure::RunOutcome;
use crate::info_commands::CommandOutput;
use crate::options::{OutputFormat, OutputWriters, RunOptions};
use crate::runner::Runner;
use crate::signals::Signals;

/// Returns the events of a turn in which the text answers the typed line.
fn to_turn_events(input: String, text: &str) -> impl Iterator<Item = Event> {
    let text = text.trim_end();
    let item = ItemId::new("told");
    let done = ItemDone::Text { text: Arc::new(text.to_owned()), is_dropped: false };
    let end = TurnEnded { reason: EndReason::Done, duration_ms: 0, is_removed: false };
    let bodies = [
        EventBody::TurnStarted { prompt: input },
        EventBody::ItemStarted { item: item.clone(), start: ItemStart::Text },
        EventBody::ItemDelta { item: item.clone(), text: text.into() },
        EventBody::ItemDone { item, done },
        EventBody::TurnEnded(end),
    ];
    (1..).zip(bodies).map(|(seq, body)| Event { seq, turn: 1, body })
}

/// Prints the output of a command between two turns of a conversation: the text as an answer, and
/// the data as `structured` of its `result` line.
pub(crate) async fn print_between_turns(
    runner: &mut Runner,
    events: &mut EventReader,
    input: String,
    output: CommandOutput,
) {
    for event in to_turn_events(input, &output.text) {
        runner.process_event(event, events, |_| true);
    }
    runner.summary.structured = Some(output.data);
    runner.end(&RunOutcome::success()).await;
    runner.summary.structured = None;
}

/// Prints the output of a command as an answer, after the events that came before it. In the JSON
/// formats, its data is printed as `structured`. `input` is the line with the command.
pub async fn print_command_output(
    io: OutputWriters,
    ops: OpSender,
    events: &mut EventReader,
    (output, before): (CommandOutput, Vec<Event>),
    input: String,
    options: RunOptions,
) -> ExitCode {
    let signals = Signals::listen();
    let mut runner = Runner::new(io, ops, signals, &options, Some(input.clone()));
    runner.begin().await;
    for event in before {
        runner.process_event(event, events, |_| true);
    }
    for event in to_turn_events(input, &output.text) {
        runner.process_event(event, events, |_| true);
    }
    // In text format, the data would replace the text.
    runner.summary.structured = (options.format != OutputFormat::Text).then_some(output.data);
    let outcome = runner.forced_outcome().unwrap_or_else(RunOutcome::success);
    runner.end_session(events).await;
    runner.end(&outcome).await;
    runner.exit(outcome).await
}
