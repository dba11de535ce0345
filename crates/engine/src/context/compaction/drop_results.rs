//! Results that the user drops from the context or pins.

use std::collections::HashMap;

use parallax_protocol::context::ResultLocation;
use parallax_protocol::event::{Compaction, CompactionCause, CompactionMethod, Level};

use super::call_results::answered_calls;
use super::full_output::save_full_output;
use super::masking::{position_of_result, with_replacements};
use super::{Compactor, unchanged};

/// The prefix of an `activate_skill` result, before the name.
const ACTIVATED: &str = "<activated_skill name=\"";
/// The prefix of the note that replaces a dropped result.
const DROPPED_NOTE: &str = "[The user dropped this result.";

impl Compactor<'_> {
    /// Replaces results with notes. This is a compaction: it is recorded, reported, and can be
    /// undone.
    pub(super) async fn drop_results(&mut self, locations: Vec<ResultLocation>) {
        for location in &locations {
            // A dropped result cannot stay pinned.
            self.conversation.history_mut().pin(*location, false);
        }
        let view = self.conversation.history().view().to_vec();
        let save_output = self.context.compaction.options.save_output.clone();
        let drop_task = tokio::task::spawn_blocking(move || {
            let calls = answered_calls(view.iter().map(|entry| &entry.content));
            let mut notes: HashMap<usize, Vec<(usize, String)>> = HashMap::new();
            for call in calls {
                let is_requested = position_of_result(&view, &call)
                    .is_some_and(|position| locations.contains(&position));
                if is_requested && !call.text.starts_with(DROPPED_NOTE) {
                    let whole = save_full_output(&call.name, &call.text, save_output.as_ref());
                    let note = format!("{DROPPED_NOTE} The full output{whole}.]");
                    notes.entry(call.content).or_default().push((call.part, note));
                }
            }
            (with_replacements(&view, notes), view)
        });
        let noted = self.inbox.while_receiving(drop_task).await;
        let before = self.current_tokens();
        let Ok((shorter, view)) = noted else {
            let reason = "dropping the results crashed (this is a bug)";
            return self.emit_compaction(unchanged(CompactionCause::Manual, before, reason));
        };
        let saved: u64 =
            view.iter().zip(&shorter).map(|(old, new)| old.tokens.saturating_sub(new.tokens)).sum();
        if saved == 0 {
            let reason = "the results are already short or no longer in the context";
            return self.emit_compaction(unchanged(CompactionCause::Manual, before, reason));
        }
        let after = before.saturating_sub(saved);
        let how = CompactionMethod::Results;
        self.apply_view(shorter, how, before, after);
        self.emit_compaction(Compaction {
            cause: CompactionCause::Manual,
            how: Some(how),
            before,
            after,
            remark: Some("the results were dropped".to_owned()),
        });
    }

    /// Drops the instructions that activations of a skill added.
    pub(super) async fn unload_skill(&mut self, name: &str) {
        let view = self.conversation.history().view();
        let is_requested = |text: &str| {
            let rest = text.strip_prefix(ACTIVATED).unwrap_or_default();
            rest.split('"').next().is_some_and(|it| it.eq_ignore_ascii_case(name))
        };
        let locations: Vec<ResultLocation> =
            answered_calls(view.iter().map(|entry| &entry.content))
                .into_iter()
                .filter(|call| is_requested(&call.text))
                .filter_map(|call| position_of_result(view, &call))
                .collect();
        if locations.is_empty() {
            let text = format!("Skill `{name}` is not loaded: no tool result contains it");
            return self.inbox.notice(Level::Error, text);
        }
        self.drop_results(locations).await;
        self.inbox.notice(Level::Info, format!("Skill `{name}` unloaded"));
    }

    /// Pins or unpins a result.
    pub(super) fn pin(&mut self, position: ResultLocation, on: bool) {
        let calls = answered_calls(self.conversation.history().contents().iter());
        let is_there = |location: ResultLocation| {
            calls.iter().any(|call| call.content == location.content && call.part == location.part)
        };
        if is_there(position) {
            self.conversation.history_mut().pin(position, on);
            self.conversation.report_storage_error(self.inbox.notices());
        } else {
            self.inbox.notice(Level::Error, "Cannot pin the result: it does not exist");
        }
    }
}
