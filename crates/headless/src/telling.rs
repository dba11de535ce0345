//! What a command told, in the format of the run.

use std::sync::Arc;

use parallax_protocol::event::{EndReason, Event, EventBody, ItemDone, ItemStart, TurnEnded};
use parallax_protocol::ids::ItemId;
use parallax_sdk::telling::Told;
use parallax_sdk::{EventReader, OpSender};

use crate::conductor::Conductor;
use crate::exit::ExitCode;
use crate::failure::Outcome;
use crate::options::{Io, OutputFormat, RunOptions};
use crate::signals::Signals;

/// Prints it as an answer: the text, and in the json format the data as
/// `structured`, behind the events that came until then. `typed` is the line that
/// asked for it.
pub async fn print_told(
    io: Io,
    ops: OpSender,
    events: &mut EventReader,
    (told, before): (Told, Vec<Event>),
    typed: String,
    options: RunOptions,
) -> ExitCode {
    let signals = Signals::listen();
    let mut conductor = Conductor::new(io, ops, signals, &options, Some(typed.clone()));
    conductor.begin().await;
    for event in before {
        conductor.take(event, events, |_| true);
    }
    let item = ItemId::new("told");
    let done = ItemDone::Text { text: Arc::new(told.text.trim_end().to_owned()), dropped: false };
    let bodies = [
        EventBody::TurnStarted { prompt: typed },
        EventBody::ItemStarted { item: item.clone(), start: ItemStart::Text },
        EventBody::ItemDelta { item: item.clone(), text: told.text.trim_end().into() },
        EventBody::ItemDone { item, done },
        EventBody::TurnEnded(TurnEnded {
            reason: EndReason::Done,
            duration_ms: 0,
            taken_back: false,
        }),
    ];
    for (seq, body) in (1..).zip(bodies) {
        conductor.take(Event { seq, turn: 1, body }, events, |_| true);
    }
    // In text format, the data would replace the text.
    conductor.summary.structured = (options.format != OutputFormat::Text).then_some(told.data);
    let outcome = conductor.forced_outcome().unwrap_or_else(Outcome::success);
    conductor.end_session(events).await;
    conductor.end(&outcome).await;
    conductor.exit(outcome).await
}
