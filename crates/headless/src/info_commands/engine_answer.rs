//! Commands answered by the engine with an event: the context breakdown and compaction.

use parallax_commands::{is_alias, is_parallax_only, strip_parallax_prefix};
use parallax_protocol::context::ContextBreakdown;
use parallax_protocol::event::{
    Compaction, CompactionCause, Event, EventBody, NOTHING_TO_COMPRESS,
};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::Op;
use parallax_sdk::{EventReader, OpenSession};
use serde_json::json;

use super::{CommandOutput, join_lines};

/// Output of a command, and the events that came before it.
pub type EngineAnswer = (CommandOutput, Vec<Event>);

/// Returns the engine operation of a typed line (`/name arguments`); `None` for other lines.
/// [`engine_answer`] recognizes its answer.
pub fn engine_request(session: &OpenSession, name: &str, arguments: &str) -> Option<Op> {
    // Custom commands may override built-in names.
    let name = match strip_parallax_prefix(name) {
        Some(plain_name) => plain_name,
        None if (is_parallax_only(name) || is_alias(name))
            && session.commands.has_command(name) =>
        {
            return None;
        }
        None => name,
    };
    Some(match (name, arguments.trim()) {
        ("context", "") => Op::DescribeContext,
        ("compress" | "compact" | "summarize", "undo") => Op::UndoCompaction,
        ("compress" | "compact" | "summarize", focus) => {
            Op::Compact { focus: (!focus.is_empty()).then(|| focus.to_owned()) }
        }
        _ => return None,
    })
}

/// Sends the engine operation of a typed line and waits for its answer; `None` for other lines.
/// Compaction may send a request to the model.
///
/// # Errors
/// Returns an error if the session ends meanwhile.
pub async fn ask_engine(
    session: &OpenSession,
    events: &mut EventReader,
    name: &str,
    arguments: &str,
) -> Option<Result<EngineAnswer, Failure>> {
    let op = engine_request(session, name, arguments)?;
    let mut earlier_events = Vec::new();
    if session.ops().send(op).await.is_ok() {
        while let Some(event) = events.next().await {
            let answer = engine_answer(&event.body);
            earlier_events.push(event);
            if let Some(answer) = answer {
                return Some(Ok((answer, earlier_events)));
            }
        }
    }
    Some(Err(Failure::new(FailureKind::Internal, "the session ended before it responded".into())))
}

/// Returns the answer in an event to an operation of [`engine_request`].
pub fn engine_answer(event: &EventBody) -> Option<CommandOutput> {
    match event {
        EventBody::ContextBreakdown(picture) => Some(context(picture)),
        EventBody::Compaction(compaction) if is_user_requested(compaction) => {
            Some(compaction_output(compaction))
        }
        _ => None,
    }
}

/// Returns whether the user requested the compaction.
fn is_user_requested(compaction: &Compaction) -> bool {
    matches!(compaction.cause, CompactionCause::Manual | CompactionCause::Undo)
}

fn context(picture: &ContextBreakdown) -> CommandOutput {
    let ContextBreakdown { tokens, window, mark, blocks, .. } = picture;
    let share = (tokens * 100).checked_div(*window).unwrap_or(0);
    let mut lines = vec![format!("{tokens} of {window} tokens ({share}%); compacted at {mark}")];
    lines.extend(blocks.iter().filter(|block| block.tokens > 0).map(|block| {
        let kind = block.kind.display_name();
        let name = block.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{:>9}  {kind}{name}", block.tokens)
    }));
    CommandOutput { text: join_lines(lines), data: json!(picture) }
}

fn compaction_output(compaction: &Compaction) -> CommandOutput {
    let Compaction { before, after, remark, .. } = compaction;
    if let (None, Some(reason)) = (compaction.how, remark)
        && reason.starts_with(NOTHING_TO_COMPRESS)
    {
        return CommandOutput { text: format!("{reason}\n"), data: json!(compaction) };
    }
    let words = match before == after {
        true => format!("The history is unchanged, with {before} tokens"),
        false => format!("The history was compacted from {before} to {after} tokens"),
    };
    let remark = remark.as_deref().map(|remark| format!(": {remark}")).unwrap_or_default();
    CommandOutput { text: format!("{words}{remark}.\n"), data: json!(compaction) }
}
