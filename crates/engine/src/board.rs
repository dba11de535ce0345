//! The state of a round: which call stands where.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::event::{CallDecision, EventBody, ItemDone, Level};
use parallax_protocol::ids::{AskId, CallId, ItemId};
use parallax_protocol::image::Image;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{RuleDraft, Verdict};
use parallax_protocol::shell::{ProcessControl, Screen};
use parallax_protocol::tool::{
    Advance, Effects, Invocation, Outcome, Progress, Tool, ToolError, ToolKind,
};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use crate::hub::EventHub;
use crate::reach::Reach;
use crate::respond::Response;
use crate::results::Pending;

/// How often one call may be followed by another in its place.
const MOST_TAILS: u32 = 5;

/// A call of the model, with our id.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) wire_id: Option<String>,
    pub(crate) name: String,
    /// `None` when the model sent something that is no object.
    pub(crate) args: Option<Object>,
    /// The name that the model called, when a hook put this call in its place.
    pub(crate) replaces: Option<String>,
}

impl Call {
    pub(crate) fn item(&self) -> ItemId {
        ItemId::new(format!("tool-{}", self.id))
    }
}

/// Results of calls that ran before, by the place of their call.
pub(crate) type Finished = BTreeMap<usize, Response>;

/// The finished round.
pub(crate) struct Round {
    /// One for each call, in call order.
    pub(crate) results: Vec<Box<RawValue>>,
    /// What the model reads of each, for the loop guard.
    pub(crate) texts: Vec<String>,
    /// Audio and video to be injected behind the round.
    pub(crate) injected: Vec<parallax_protocol::content::Part>,
    /// A failure that ends the run.
    pub(crate) fatal: Option<ToolError>,
    /// A tool asked for the end.
    pub(crate) stopped: Option<String>,
    /// The person refused all of it, without a word for the model.
    pub(crate) declined: bool,
}

/// What a call is to be prepared with, when it is not the first time.
#[derive(Default)]
pub(crate) struct Again {
    /// Arguments that a person changed.
    pub(crate) arguments: Option<Object>,
    /// Whether a person changed them: the model is told.
    pub(crate) changed: bool,
    /// What a hook changed of them, for the model.
    pub(crate) hooked: Option<String>,
    /// What the sandbox refused before, and earlier approvals gave.
    pub(crate) permissions: Permissions,
    /// What the call came to without it.
    pub(crate) refused: Option<Box<Refused>>,
    /// How often the call was run already.
    pub(crate) runs: u32,
}

/// A run that the sandbox cut short: what the model gets when it stays at that.
pub(crate) struct Refused {
    pub(crate) outcome: Outcome,
    pub(crate) finish: Finish,
}

/// What the policy is asked with, beside the tool and the call's effects.
pub(crate) struct Asked {
    pub(crate) args: Object,
    pub(crate) workspace: Vec<PathBuf>,
    /// What the agent itself made in this session.
    pub(crate) made: Vec<PathBuf>,
}

/// A prepared call with what was decided about it.
pub(crate) struct Prepared {
    pub(crate) index: usize,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) invocation: Box<dyn Invocation>,
    /// With the permissions asked for now.
    pub(crate) effects: Effects,
    pub(crate) title: String,
    pub(crate) verdict: Verdict,
    /// Rules that would spare the question.
    pub(crate) rules: Vec<RuleDraft>,
    /// Why there are none, when it is asked about.
    pub(crate) no_rule: Option<String>,
    pub(crate) asked: Asked,
    /// What may be answered, once asked.
    pub(crate) outcomes: Vec<AskOutcome>,
    /// What a person answered, once they did.
    pub(crate) decided: Option<AskOutcome>,
    pub(crate) again: Again,
}

/// What is known of a call that runs.
pub(crate) struct Running {
    pub(crate) index: usize,
    pub(crate) begun: Instant,
    /// How long questions to the user were open by then.
    pub(crate) waited: Duration,
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) verdict: Verdict,
    pub(crate) decision: CallDecision,
    pub(crate) cancel: CancellationToken,
    pub(crate) effects: Effects,
    pub(crate) arguments: Option<Object>,
    pub(crate) permissions: Permissions,
    /// A person changed the arguments.
    pub(crate) changed: bool,
    /// A hook did, and what the model is told of it.
    pub(crate) hooked: Option<String>,
    pub(crate) runs: u32,
}

/// What a call came to before it is told.
pub(crate) struct Finish {
    pub(crate) kind: Option<ToolKind>,
    pub(crate) title: String,
    pub(crate) decision: Option<CallDecision>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) duration_ms: u64,
    pub(crate) cancelled: bool,
}

impl Finish {
    /// A call that never came to be judged.
    pub(crate) fn unjudged(kind: Option<ToolKind>, title: String) -> Self {
        Self { kind, title, decision: None, verdict: None, duration_ms: 0, cancelled: false }
    }

    /// A call that was not let through.
    pub(crate) fn rejected(prepared: &Prepared, cancelled: bool) -> Self {
        Self {
            kind: Some(prepared.tool.spec().kind),
            title: prepared.title.clone(),
            decision: Some(CallDecision::Reject),
            verdict: Some(prepared.verdict.clone()),
            duration_ms: 0,
            cancelled,
        }
    }
}

/// The state of one round.
pub(crate) struct Board<'a> {
    pub(crate) calls: &'a [Call],
    pub(crate) slots: Vec<Option<Response>>,
    pub(crate) asking: HashMap<AskId, Prepared>,
    pub(crate) running: HashMap<Id, Running>,
    pub(crate) tasks: JoinSet<Outcome>,
    /// Whether an exclusive call runs or is asked about.
    pub(crate) exclusive: bool,
    pub(crate) fatal: Option<ToolError>,
    pub(crate) stopped: Option<String>,
    /// A person refused a call and said nothing else: what was not begun is not
    /// wanted either.
    pub(crate) declined: bool,
    /// And the model is not asked what else it could do.
    pub(crate) ends: bool,
    /// How many calls came to more than a refusal.
    pub(crate) acted: usize,
    /// Calls that hooks put in the place of those of the model, by index, and
    /// how often that was done.
    tails: HashMap<usize, (Call, u32)>,
    /// Those of them that wait to begin.
    pub(crate) tailed: VecDeque<usize>,
    /// Pictures among results, by index, until those of all calls before are told.
    images: BTreeMap<usize, Vec<Image>>,
}

/// Takes what stands before a place, in order.
fn take_before<T>(found: &mut BTreeMap<usize, Vec<T>>, place: usize) -> Vec<T> {
    let later = found.split_off(&place);
    std::mem::replace(found, later).into_values().flatten().collect()
}

impl<'a> Board<'a> {
    pub(crate) fn new(calls: &'a [Call], mut finished: Finished) -> Self {
        Self {
            calls,
            slots: (0..calls.len()).map(|index| finished.remove(&index)).collect(),
            asking: HashMap::new(),
            running: HashMap::new(),
            tasks: JoinSet::new(),
            exclusive: false,
            fatal: None,
            stopped: None,
            declined: false,
            ends: false,
            acted: 0,
            tails: HashMap::new(),
            tailed: VecDeque::new(),
            images: BTreeMap::new(),
        }
    }

    /// Takes in a result with its pictures. Gives the pictures that come next in the
    /// order of the calls: calls that run together end in any order.
    pub(crate) fn take_in(
        &mut self,
        index: usize,
        response: Response,
        images: Vec<Image>,
    ) -> Vec<Image> {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(response);
        }
        self.images.insert(index, images);
        let open = self.slots.iter().position(Option::is_none);
        take_before(&mut self.images, open.unwrap_or(self.slots.len()))
    }

    /// The results that stand beside one that is taken in now.
    pub(crate) fn pending(&self) -> Pending {
        let results = self.slots.iter().flatten();
        let open = self.slots.iter().filter(|slot| slot.is_none()).count();
        Pending {
            tokens: results.map(|response| crate::tokens::of_text(&response.text)).sum(),
            to_come: (open as u64).saturating_sub(1),
        }
    }

    /// The call that is to be made: that of the model, or the one that took its
    /// place. It keeps its id, and is answered under the name that the model
    /// used.
    pub(crate) fn call(&self, index: usize) -> Option<&Call> {
        match self.tails.get(&index) {
            Some((call, _)) => Some(call),
            None => self.calls.get(index),
        }
    }

    /// Puts another call in the place of one, and before all that wait. `false`:
    /// that was done too often.
    pub(crate) fn tail(&mut self, index: usize, name: String, args: Object) -> bool {
        let Some(call) = self.calls.get(index) else { return false };
        let number = self.tails.get(&index).map_or(0, |(_, number)| *number);
        if number >= MOST_TAILS {
            return false;
        }
        let replaces = Some(call.name.clone());
        let tail = Call { name, args: Some(args), replaces, ..call.clone() };
        self.tails.insert(index, (tail, number + 1));
        self.tailed.push_back(index);
        true
    }

    /// Whether the call needs nothing any more.
    pub(crate) fn is_finished(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(Option::is_some)
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.asking.is_empty()
    }
}

/// Live output of a call, to the faces.
pub(crate) struct CallProgress {
    pub(crate) hub: EventHub,
    pub(crate) item: ItemId,
    pub(crate) reach: Reach,
}

impl Progress for CallProgress {
    fn output(&self, text: &str) {
        self.hub.send(EventBody::ItemDelta { item: self.item.clone(), text: text.to_owned() });
    }

    fn advance(&self, advance: &Advance) {
        let (item, advance) = (self.item.clone(), advance.clone());
        self.hub.send(EventBody::ItemAdvanced { item, advance });
    }

    fn aside(&self, text: &str) {
        self.hub.send(EventBody::Aside { text: text.to_owned() });
    }

    fn screen(&self, screen: Screen) {
        let screen = Arc::new(screen);
        self.hub.send(EventBody::ItemScreen { item: self.item.clone(), screen });
    }

    fn control(&self, control: Arc<dyn ProcessControl>) {
        self.reach.control(&self.item, control);
    }

    fn notice(&self, level: Level, text: &str) {
        let item = ItemId::new(format!("{}-notice", self.item.as_str()));
        self.hub.send(EventBody::ItemDone {
            item,
            done: ItemDone::Notice { level, text: text.to_owned() },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_early_waits_for_what_stands_before_it() {
        let mut found = BTreeMap::from([(2, vec!["c"])]);
        assert!(take_before(&mut found, 0).is_empty());
        found.insert(0, vec!["a", "b"]);
        assert_eq!(take_before(&mut found, 1), ["a", "b"]);
        assert_eq!(take_before(&mut found, 3), ["c"]);
    }
}
