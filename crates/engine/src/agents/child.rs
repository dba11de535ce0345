//! Runs one sub-agent: starts its session, watches it, and makes its result
//! from what it hands over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::agent::{AgentDefinition, AgentEnd, AgentKit, AgentResult, CloseAgent};
use parallax_protocol::event::{
    EndReason, Event, EventBody, ItemDone, Level, ModelCall, TurnEnded,
};
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome};
use parallax_protocol::ids::{AskId, ItemId};
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::tool::{Display, Outcome, ToolError, ToolErrorKind};
use serde_json::{Value, json};

use super::clock::Clock;
use super::family::Family;
use super::progress::Picture;
use super::role::AgentRole;
use crate::hub::{EventHub, EventReader};
use crate::session::{self, SessionHandle, SessionOptions};

/// How long the last chance may take.
const LAST_CHANCE: Duration = Duration::from_secs(60);
/// How long an agent may take to end once it is cancelled.
const FAREWELL: Duration = Duration::from_millis(1500);
/// Characters of a result that the calling model gets; the whole of a longer
/// one goes to a file.
const RESULT: usize = 40_000;
/// What an agent that goes on reads first.
const GO_ON: &str = "[Your work was interrupted; this goes on where it was. A call without a result \
                     was cut off.]\n\n";
/// What requests of sub-agents are for, in statistics.
pub(crate) const SUBAGENT: &str = "subagent";

/// How the work ended, with what was wrong.
struct Ending {
    end: AgentEnd,
    /// The result, or what happened.
    text: String,
}

/// How one turn of the agent ended.
enum Turn {
    Ended(EndReason),
    TimeIsUp,
    Cancelled,
    /// Its session is gone.
    Gone,
}

/// A sub-agent at work.
pub(super) struct Child {
    family: Arc<Family>,
    agent: Arc<AgentDefinition>,
    /// The call that started it.
    item: ItemId,
    cancel: CancellationToken,
    result: AgentResult,
    picture: Picture,
    open: HashSet<AskId>,
    /// The words of the calling model, without what hooks add: the work is known by them.
    task: Option<String>,
    /// The work that it is to go on with.
    resume: Option<String>,
    /// What its journal is called by.
    journal: Option<String>,
    /// What a calling model goes on with the work by, once it was interrupted.
    kept: Option<String>,
}

impl Child {
    pub(super) fn new(
        family: Arc<Family>,
        agent: Arc<AgentDefinition>,
        item: ItemId,
        resume: Option<String>,
        cancel: CancellationToken,
    ) -> Self {
        let picture = Picture::new(&agent.name);
        let result = AgentResult::default();
        let (open, task, journal, kept) = (HashSet::new(), None, None, None);
        Self { family, agent, item, cancel, result, picture, open, task, resume, journal, kept }
    }

    /// Does the work; always gives a result that the calling model can read.
    pub(super) async fn work(mut self, prompt: String) -> Outcome {
        let family = Arc::clone(&self.family);
        let place = tokio::select! {
            place = family.places.acquire() => place.ok(),
            () = self.cancel.cancelled() => None,
        };
        let ending = match place {
            Some(_) => self.run(prompt).await,
            None => aborted(),
        };
        self.family.forget_work(&self.item);
        self.outcome(ending)
    }

    async fn run(&mut self, mut prompt: String) -> Ending {
        self.task = Some(prompt.clone());
        let started = json!({"agent_name": self.agent.name, "prompt": prompt});
        let hooked = self.hook(HookEvent::SubagentStart, started).await;
        if let Some(why) = hooked.stop.as_deref().or(hooked.denial()) {
            let text = format!("a hook does not let it begin: {}", hooked.named(why));
            return Ending { end: AgentEnd::Error, text };
        }
        if let Some(context) = &hooked.context {
            prompt.push_str("\n\n");
            prompt.push_str(context);
        }
        let ending = self.run_hooked(prompt.clone()).await;
        let ended = json!({
            "agent_name": self.agent.name, "prompt": prompt,
            "terminate_reason": ending.end.as_str(), "result": ending.text,
        });
        self.hook(HookEvent::SubagentEnd, ended).await;
        ending
    }

    /// Tells the hooks of the session, and people what those say.
    async fn hook(&self, event: HookEvent, input: Value) -> HookOutcome {
        let hooks = self.family.hooks.clone().filter(|hooks| hooks.listens(event, false));
        let (Some(hooks), Value::Object(input)) = (hooks, input) else {
            return HookOutcome::default();
        };
        let call = HookCall::new(event, &self.agent.name, input);
        let outcome = hooks.run(call, self.cancel.clone()).await;
        for (index, (level, text)) in outcome.messages.iter().enumerate() {
            let item = ItemId::new(format!("{}-{}-{index}", self.item, event.as_str()));
            let done = ItemDone::Notice { level: *level, text: text.clone() };
            self.family.hub.send(EventBody::ItemDone { item, done });
        }
        outcome
    }

    async fn run_hooked(&mut self, mut prompt: String) -> Ending {
        let role = AgentRole::new(&self.agent.name, self.result.clone(), self.cancel.child_token());
        let _end_with_me = role.cancel.clone().drop_guard();
        let (options, close) = match self.options(&prompt).await {
            Ok(equipped) => equipped,
            Err(ending) => return ending,
        };
        if self.resume.is_some() {
            prompt.insert_str(0, GO_ON);
        }
        let keep = options.room.keep_output.clone();
        let hub = EventHub::new();
        let mut events = hub.subscribe();
        let handle = session::launch(options, Some(role.clone()), hub);
        self.family.enter(self.item.clone(), handle.ops.clone());
        self.tell();
        let mut ending = self.converse(prompt, &role, &handle, &mut events).await;
        self.family.leave(&self.item);
        // It has nothing more to do: what is left of it ends by itself.
        let _ = handle.ops.try_send(Op::Shutdown);
        let _ = tokio::time::timeout(FAREWELL, handle.join()).await;
        if let Some(close) = close {
            close().await;
        }
        self.keep_or_forget(&ending).await;
        if ending.text.len() > RESULT {
            let name = self.agent.name.clone();
            let cutting = tokio::task::spawn_blocking(move || {
                let cut = &ending.text[..ending.text.floor_char_boundary(RESULT)];
                let kept = keep.and_then(|keep| keep(&name, &ending.text).ok());
                let rest = match kept {
                    Some(path) => format!("the whole result is in `{}`", path.display()),
                    None => "the rest is left out".to_owned(),
                };
                Ending { text: format!("{cut}\n[… {rest}]"), ..ending }
            });
            ending = cutting.await.unwrap_or_else(|error| Ending {
                end: AgentEnd::Error,
                text: format!("the result could not be read: {error}"),
            });
        }
        ending
    }

    /// Work that was interrupted can be gone on with; of what came to its end only the
    /// result is kept.
    async fn keep_or_forget(&mut self, ending: &Ending) {
        let Some(id) = self.journal.take() else { return };
        let is_cut_off = matches!(ending.end, AgentEnd::Aborted | AgentEnd::Error);
        if is_cut_off && self.picture.has_begun() {
            self.kept = Some(id);
            return;
        }
        let family = Arc::clone(&self.family);
        let forgetting = tokio::task::spawn_blocking(move || family.agents.forget(&id));
        if let Err(error) = forgetting.await {
            tracing::warn!(%error, "the journal of an agent stays");
        }
    }

    async fn options(
        &mut self,
        prompt: &str,
    ) -> Result<(SessionOptions, Option<CloseAgent>), Ending> {
        let mut options = self.family.options();
        let (family, agent) = (Arc::clone(&self.family), Arc::clone(&self.agent));
        let (result, prompt) = (self.result.clone(), prompt.to_owned());
        let resume = self.resume.clone();
        let mut equipping = tokio::task::spawn_blocking(move || {
            let journal = family.agents.journal(&agent.name, resume.as_deref());
            // What it is to do is what it was told at first.
            let task = journal.as_ref().and_then(|journal| journal.task.clone());
            let task = task.unwrap_or(prompt);
            (family.agents.equip(&agent, &task, family.tools(), result), journal)
        });
        // Its servers may take their time.
        let (kit, journal) = tokio::select! {
            kit = &mut equipping => kit.map_err(|error| Ending {
                end: AgentEnd::Error,
                text: format!("the agent cannot start: {error}"),
            })?,
            () = self.cancel.cancelled() => {
                tokio::spawn(async move {
                    if let Ok((AgentKit { close: Some(close), .. }, _)) = equipping.await {
                        close().await;
                    }
                });
                return Err(aborted());
            }
        };
        options.preface = kit.preface;
        match (journal, &self.resume) {
            (Some(journal), resume) => {
                if resume.is_some() {
                    self.picture.resume();
                    self.family.note_work(self.item.clone(), journal.id.clone());
                    options.preface = None;
                }
                options.store = journal.store;
                options.history = journal.contents;
                options.compactions = journal.compactions;
                options.pending = journal.pending;
                self.journal = Some(journal.id);
            }
            (None, Some(id)) => {
                if let Some(close) = kit.close {
                    close().await;
                }
                let (end, agent) = (AgentEnd::Error, &self.agent.name);
                let text = format!(
                    "no interrupted work of `{agent}` is kept as `{id}`: call it without \
                     `resume` to begin anew"
                );
                return Err(Ending { end, text });
            }
            (None, None) => {}
        }
        options.tools = kit.tools;
        options.system = Box::new(move |_, _| Arc::clone(&kit.system));
        options.max_turns = Some(self.agent.max_turns);
        if self.agent.may_delegate {
            options.agents = Some(Arc::clone(&self.family.agents));
        }
        if let Some(model) = &self.agent.model {
            options.model_name.clone_from(model);
            options.generation.clear();
        }
        options.generation.extend(self.agent.generation.clone());
        for (index, text) in kit.problems.into_iter().enumerate() {
            let item = ItemId::new(format!("{}-problem-{index}", self.item));
            let done = ItemDone::Notice { level: Level::Warning, text };
            self.family.hub.send(EventBody::ItemDone { item, done });
        }
        Ok((options, kit.close))
    }

    async fn converse(
        &mut self,
        prompt: String,
        role: &AgentRole,
        handle: &SessionHandle,
        events: &mut EventReader,
    ) -> Ending {
        let time = self.agent.time;
        let turn = self.turn(prompt, time, handle, events).await;
        let Some(ending) = self.judge(turn) else { return aborted() };
        let hopeful = matches!(
            ending.end,
            AgentEnd::Timeout | AgentEnd::MaxTurns | AgentEnd::ErrorNoCompleteTaskCall
        );
        if !hopeful {
            return ending;
        }
        role.give_last_chance();
        let urge = format!(
            "You have come to your end: {}. This is your last turn. Call `complete_task` now with \
             what you have found, and say what is missing. No other call will be run.",
            ending.text
        );
        let turn = self.turn(urge, LAST_CHANCE, handle, events).await;
        match self.judge(turn) {
            Some(last) if last.end == AgentEnd::Goal => last,
            Some(_) => ending,
            None => aborted(),
        }
    }

    /// One prompt and what comes of it.
    async fn turn(
        &mut self,
        text: String,
        time: Duration,
        handle: &SessionHandle,
        events: &mut EventReader,
    ) -> Turn {
        let typed = self.task.clone();
        let prompt = Prompt { text, typed, ..Prompt::default() };
        if handle.ops.send(Op::Prompt(prompt)).await.is_err() {
            return Turn::Gone;
        }
        let mut clock = Clock::new(time);
        let mut is_up = false;
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Turn::Cancelled,
                event = events.next() => event,
                () = clock.run_out(), if !is_up => {
                    is_up = true;
                    let _ = handle.ops.send(Op::Interrupt).await;
                    continue;
                }
            };
            let Some(Event { body, .. }) = event else { return Turn::Gone };
            if let EventBody::TurnEnded(TurnEnded { reason, .. }) = body {
                self.close_asks();
                return if is_up { Turn::TimeIsUp } else { Turn::Ended(reason) };
            }
            self.take(body);
            if self.open.is_empty() {
                clock.go_on();
            } else {
                clock.pause();
            }
        }
    }

    /// Passes on what the person should see of it.
    fn take(&mut self, body: EventBody) {
        let had_begun = self.picture.has_begun();
        let mut changed = self.picture.take(&body);
        if !had_begun && self.picture.has_begun() {
            self.note_work();
        }
        match body {
            EventBody::ModelCall(call) => {
                let role = if call.role == "main" { SUBAGENT.to_owned() } else { call.role };
                self.family.hub.send(EventBody::ModelCall(ModelCall { role, ..call }));
            }
            EventBody::Ask(ask) => {
                self.open.insert(ask.id.clone());
                changed |= self.picture.waits(true);
                self.family.put(&self.item, &self.agent.name, *ask);
            }
            EventBody::AskClosed { ask, outcome } => {
                self.open.remove(&ask);
                changed |= self.picture.waits(!self.open.is_empty());
                self.family.close(&self.item, &ask, outcome);
            }
            EventBody::StateChanged { mode, .. } => self.family.lead(mode),
            EventBody::Aside { text } => self.family.hub.send(EventBody::Aside { text }),
            EventBody::Retry(retry) => self.family.hub.send(EventBody::Retry(retry)),
            EventBody::FellBack(fallback) => self.family.hub.send(EventBody::FellBack(fallback)),
            EventBody::ItemDone { item, done: ItemDone::Notice { level, text } } => {
                let text = format!("{}: {text}", self.agent.name);
                self.family.hub.send(EventBody::ItemDone {
                    item: ItemId::new(format!("{}-{item}", self.item)),
                    done: ItemDone::Notice { level, text },
                });
            }
            _ => {}
        }
        if changed {
            self.tell();
        }
    }

    /// Who is interrupted and does not end in time is gone on with all the same.
    fn note_work(&self) {
        if let Some(id) = &self.journal {
            self.family.note_work(self.item.clone(), id.clone());
        }
    }

    /// Questions that nobody will answer any more.
    fn close_asks(&mut self) {
        for ask in std::mem::take(&mut self.open) {
            self.family.close(&self.item, &ask, None);
        }
    }

    fn tell(&mut self) {
        let progress = Arc::new(self.picture.now());
        self.family.hub.send(EventBody::Agent { item: self.item.clone(), progress });
    }

    /// What a turn came to; `None` when it was cancelled.
    fn judge(&mut self, turn: Turn) -> Option<Ending> {
        if let Some(result) = self.result.get() {
            return Some(Ending { end: AgentEnd::Goal, text: words(&result) });
        }
        let said = std::mem::take(&mut self.picture.text);
        let (end, text) = match turn {
            Turn::Cancelled | Turn::Ended(EndReason::Cancelled) => {
                self.close_asks();
                return None;
            }
            Turn::Ended(EndReason::Done) if !self.agent.has_schema && !said.trim().is_empty() => {
                (AgentEnd::Goal, said)
            }
            Turn::Ended(EndReason::Done) => (
                AgentEnd::ErrorNoCompleteTaskCall,
                "it stopped without handing over a result with `complete_task`".to_owned(),
            ),
            Turn::Ended(EndReason::MaxTurns { .. }) => (
                AgentEnd::MaxTurns,
                format!("it made as many requests as it may ({})", self.agent.max_turns),
            ),
            Turn::TimeIsUp => {
                (AgentEnd::Timeout, format!("its time is up ({} s)", self.agent.time.as_secs()))
            }
            Turn::Ended(EndReason::Loop { detail }) => {
                (AgentEnd::Error, format!("it went in circles and was stopped: {detail}"))
            }
            Turn::Ended(EndReason::Stopped { reason, .. }) => {
                (AgentEnd::Error, format!("it was stopped: {reason}"))
            }
            Turn::Ended(EndReason::Budget(spent)) => (AgentEnd::Error, spent.to_string()),
            Turn::Ended(EndReason::Failed(failure)) => (AgentEnd::Error, failure.message),
            Turn::Gone => (AgentEnd::Error, "it crashed; this is a defect".to_owned()),
        };
        Some(Ending { end, text })
    }

    fn outcome(mut self, ending: Ending) -> Outcome {
        let Ending { end, text } = ending;
        let progress = self.picture.ended(end, &text);
        let mut data = json!({
            "agent": self.agent.name,
            "result": text,
            "terminate_reason": end.as_str(),
            "turn_count": progress.turns,
            "duration_ms": progress.duration_ms,
            "total_tokens": progress.tokens,
        });
        let mut answer = format!(
            "Subagent '{}' finished.\nTermination Reason: {}\nResult:\n{text}",
            self.agent.name,
            end.as_str(),
        );
        if let Some(id) = &self.kept {
            answer.push_str(&format!("\n{}", how_to_go_on(id)));
            data["resume"] = json!(id);
        }
        let mut outcome = match end {
            AgentEnd::Goal => Outcome::text(answer),
            _ => Outcome::failure(ToolError::new(ToolErrorKind::ExecutionFailed, answer)),
        };
        outcome.for_user = Some(Display::Agent(progress));
        outcome.data = Some(data);
        outcome
    }
}

/// How the calling model goes on with work that was interrupted.
pub(crate) fn how_to_go_on(id: &str) -> String {
    format!(
        "Its work so far is kept: call `invoke_agent` with `resume`: \"{id}\" and it goes on \
         where it was."
    )
}

fn aborted() -> Ending {
    Ending { end: AgentEnd::Aborted, text: "it was interrupted before it was done".to_owned() }
}

/// A result as a text: words as they are, all else as JSON.
fn words(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}
