//! What a person leaves out of the context, and what they hold on to.

use std::collections::HashMap;

use parallax_protocol::context::ResultPlace;
use parallax_protocol::event::{Compaction, CompactionCause, CompactionHow, Level};

use super::calls::answered;
use super::shorten::{place_of, with_notes};
use super::unchanged;
use super::whole::kept;
use crate::session::Session;

/// How the result of `activate_skill` begins, before the name.
const ACTIVATED: &str = "<activated_skill name=\"";
/// How the note of a result that was left out begins.
const LEFT_OUT: &str = "[The user left this result out.";

impl Session {
    /// Puts notes in the place of results. It is a compaction: recorded, told,
    /// and taken back like one.
    pub(super) async fn leave_out_results(&mut self, places: Vec<ResultPlace>) {
        for place in &places {
            // Nobody can want both.
            self.history.pin(*place, false);
        }
        let view = self.history.view().to_vec();
        let keep_output = self.compacting.room.keep_output.clone();
        let noting = tokio::task::spawn_blocking(move || {
            let calls = answered(view.iter().map(|entry| &entry.content));
            let mut notes: HashMap<usize, Vec<(usize, String)>> = HashMap::new();
            for call in calls {
                let is_meant = place_of(&view, &call).is_some_and(|place| places.contains(&place));
                if is_meant && !call.text.starts_with(LEFT_OUT) {
                    let whole = kept(&call.name, &call.text, keep_output.as_ref());
                    let note = format!("{LEFT_OUT} The whole output{whole}.]");
                    notes.entry(call.content).or_default().push((call.part, note));
                }
            }
            (with_notes(&view, notes), view)
        });
        let noted = self.inbox.during(noting).await;
        let before = self.tokens_now();
        let Ok((shorter, view)) = noted else {
            let why = "noting that crashed; this is a defect";
            return self.tell_compaction(unchanged(CompactionCause::Manual, before, why));
        };
        let saved: u64 =
            view.iter().zip(&shorter).map(|(old, new)| old.tokens.saturating_sub(new.tokens)).sum();
        if saved == 0 {
            let why = "the results named are short already, or not there any more";
            return self.tell_compaction(unchanged(CompactionCause::Manual, before, why));
        }
        let after = before.saturating_sub(saved);
        let how = CompactionHow::Results;
        self.take(shorter, how, before, after);
        self.tell_compaction(Compaction {
            cause: CompactionCause::Manual,
            how: Some(how),
            before,
            after,
            remark: Some("results were left out as you wished".to_owned()),
        });
    }

    /// Leaves out what activations of a skill told the model.
    pub(super) async fn unload_skill(&mut self, name: &str) {
        let view = self.history.view();
        let is_meant = |text: &str| {
            let rest = text.strip_prefix(ACTIVATED).unwrap_or_default();
            rest.split('"').next().is_some_and(|it| it.eq_ignore_ascii_case(name))
        };
        let places: Vec<ResultPlace> = answered(view.iter().map(|entry| &entry.content))
            .into_iter()
            .filter(|call| is_meant(&call.text))
            .filter_map(|call| place_of(view, &call))
            .collect();
        if places.is_empty() {
            let text = format!("the skill `{name}` is not loaded: no result of a tool holds it");
            return self.inbox.notice(Level::Error, text);
        }
        self.leave_out_results(places).await;
        self.inbox.notice(Level::Info, format!("the skill `{name}` is unloaded"));
    }

    /// Holds on to a result, or lets go of it.
    pub(super) fn pin(&mut self, place: ResultPlace, on: bool) {
        let calls = answered(self.history.contents().iter());
        let is_there = |place: ResultPlace| {
            calls.iter().any(|call| call.content == place.content && call.part == place.part)
        };
        if is_there(place) {
            self.history.pin(place, on);
            self.tell_trouble();
        } else {
            self.inbox.notice(Level::Error, "there is no such result to hold on to");
        }
    }
}
