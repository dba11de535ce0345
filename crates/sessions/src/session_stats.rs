//! Statistics of a session for `/stats` and the exit summary, accumulated from events.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parallax_protocol::event::{Event, EventBody, ModelCall};
use parallax_protocol::price::Price;
use parallax_protocol::store::Record;

use crate::stats::{Stats, Tokens};

/// Statistics of a session.
#[derive(Debug, Clone)]
pub struct SessionStats {
    /// Totals by model and tool, and of files.
    pub totals: Stats,
    /// Statistics of each turn, in order.
    pub turns: Vec<TurnStats>,
    /// Tokens of the last prompt of the main model, which is the context usage.
    pub context: u64,
    /// Usage before this process; included in the totals.
    pub before: PriorUsage,
    started: Instant,
    agent: Duration,
    /// Indexes of turns by number.
    turn_indexes: HashMap<u64, usize>,
}

/// Usage of a resumed session before this process.
#[derive(Debug, Clone, Default)]
pub struct PriorUsage {
    /// Tokens of all answers.
    pub tokens: Tokens,
    /// US dollars, as far as prices are known.
    pub cost: f64,
    /// Model of the last answer.
    pub model: Option<String>,
}

/// Statistics of one turn.
#[derive(Debug, Clone, Default)]
pub struct TurnStats {
    /// Number of the turn, from 1.
    pub turn: u64,
    /// Number of model requests.
    pub requests: u64,
    /// Total tokens.
    pub tokens: Tokens,
    /// Cost in US dollars.
    pub cost: f64,
    /// Duration of a finished turn.
    pub duration: Option<Duration>,
}

impl Default for SessionStats {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

impl SessionStats {
    /// Creates empty statistics of a session that began at this time.
    pub fn new(started: Instant) -> Self {
        Self {
            totals: Stats::default(),
            turns: Vec::new(),
            context: 0,
            before: PriorUsage::default(),
            started,
            agent: Duration::ZERO,
            turn_indexes: HashMap::new(),
        }
    }

    /// Creates statistics from the records of earlier processes.
    pub fn from_records(records: &[Record], price: impl Fn(&str) -> Option<Price>) -> Self {
        let mut stats = Self::default();
        crate::usage_totals::requests(records, price)
            .iter()
            .for_each(|sum| stats.totals.count_requests(sum));
        records.iter().for_each(|record| stats.totals.record(record));
        let model = records.iter().rev().find_map(|record| match record {
            Record::Content(content) if content.usage.is_some() => content.model.clone(),
            _ => None,
        });
        stats.before = PriorUsage { tokens: stats.tokens(), cost: stats.totals.cost.usd, model };
        stats
    }

    /// Counts an event.
    pub fn count_event(&mut self, event: &Event) {
        self.totals.count_event(event);
        match &event.body {
            EventBody::TurnStarted { .. } => drop(self.turn(event.turn)),
            EventBody::ModelCall(call) => self.count_model_call(event.turn, call),
            EventBody::TurnEnded(ended) => {
                let duration = Duration::from_millis(ended.duration_ms);
                self.agent += duration;
                if let Some(turn) = self.turn(event.turn) {
                    turn.duration = Some(duration);
                }
            }
            _ => {}
        }
    }

    fn count_model_call(&mut self, turn: u64, call: &ModelCall) {
        if call.role == "main" && call.usage.prompt > 0 {
            self.context = call.usage.prompt;
        }
        if let Some(turn) = self.turn(turn) {
            turn.requests += 1;
            turn.tokens.add(&call.usage);
            turn.cost += call.cost.map_or(0.0, |cost| cost.total());
        }
    }

    /// Returns the statistics of a turn; `None` before the first.
    fn turn(&mut self, number: u64) -> Option<&mut TurnStats> {
        if number == 0 {
            return None;
        }
        let at = *self.turn_indexes.entry(number).or_insert_with(|| {
            self.turns.push(TurnStats { turn: number, ..TurnStats::default() });
            self.turns.len() - 1
        });
        self.turns.get_mut(at)
    }

    /// Returns how long the session has been open.
    pub fn wall_time(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the total duration of turns.
    pub fn agent(&self) -> Duration {
        self.agent
    }

    /// Returns the total latency of model requests.
    pub fn api(&self) -> Duration {
        let times = self.totals.models.values().map(|model| model.api.total_latency_ms);
        Duration::from_millis(times.sum())
    }

    /// Returns the total duration of tool calls.
    pub fn tools(&self) -> Duration {
        Duration::from_millis(self.totals.tools.total_duration_ms)
    }

    /// Returns the share of successful tool calls; `None` if there are none.
    #[expect(clippy::cast_precision_loss, reason = "a percentage for display")]
    pub fn success_rate(&self) -> Option<f64> {
        let tools = &self.totals.tools;
        (tools.total_calls > 0).then(|| tools.total_success as f64 / tools.total_calls as f64)
    }

    /// Returns the share of approved decisions; `None` if there are none.
    #[expect(clippy::cast_precision_loss, reason = "a percentage for display")]
    pub fn approval_rate(&self) -> Option<f64> {
        let decisions = &self.totals.tools.total_decisions;
        let agreed = decisions.accept + decisions.auto_accept;
        let all = agreed + decisions.reject;
        (all > 0).then(|| agreed as f64 / all as f64)
    }

    /// Returns the tokens of all models.
    pub fn tokens(&self) -> Tokens {
        let mut sum = Tokens::default();
        self.totals.models.values().for_each(|model| sum.add_tokens(&model.tokens));
        sum
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::event::{EndReason, ItemDone, ToolDone, ToolStatus, TurnEnded};
    use parallax_protocol::ids::{CallId, ItemId};
    use parallax_protocol::model::Usage;
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_are_counted_separately_and_in_total() {
        let mut stats = SessionStats::default();
        let mut seq = 0;
        let mut say = |turn: u64, body: EventBody| {
            seq += 1;
            stats.count_event(&Event { seq, turn, body });
        };
        let call = |role: &str, prompt: u64, cached: u64, error: Option<&str>| {
            let usage = Usage { prompt, cached, output: 5, total: prompt + 5, ..Usage::default() };
            EventBody::ModelCall(ModelCall {
                model: "m".into(),
                role: role.into(),
                usage,
                cost: None,
                latency_ms: 7,
                request_bytes: 0,
                error: error.map(str::to_owned),
            })
        };
        let end = || {
            EventBody::TurnEnded(TurnEnded {
                reason: EndReason::Done,
                duration_ms: 30,
                is_removed: false,
            })
        };
        say(1, EventBody::TurnStarted { prompt: "a".into() });
        say(1, call("main", 100, 0, None));
        say(1, call("main", 150, 100, None));
        say(1, end());
        say(2, EventBody::TurnStarted { prompt: "b".into() });
        say(2, call("web_search", 10, 0, Some("network")));
        say(2, end());
        let [first, second] = stats.turns.as_slice() else { unreachable!("two turns") };
        assert_eq!((first.requests, first.tokens.input, first.tokens.cached), (2, 150, 100));
        assert_eq!((second.requests, second.tokens.prompt), (1, 10));
        assert_eq!((stats.context, stats.tokens().prompt), (150, 260));
        assert_eq!((stats.agent().as_millis(), stats.api().as_millis()), (60, 21));
        assert_eq!((stats.success_rate(), stats.approval_rate()), (None, None));
    }

    #[test]
    fn command_with_an_exit_code_counts_as_failed_live_and_from_the_journal() {
        let done = |code: i64| ToolDone {
            call: CallId::new("c"),
            index: 0,
            name: "run_shell_command".into(),
            kind: None,
            title: String::new(),
            status: ToolStatus::Success,
            decision: None,
            policy_decision: None,
            display: None,
            error: None,
            for_model: String::new(),
            data: Some(json!({"exitCode": code})),
            duration_ms: 5,
        };
        let result = |code: i64| -> Record {
            let result = json!({"time": "", "call": "c", "index": 0, "name": "run_shell_command",
                "wire": [], "status": "success", "told": {"exitCode": code}});
            Record::Result(serde_json::from_value(result).unwrap())
        };
        let mut stats = SessionStats::from_records(&[result(0), result(2)], |_| None);
        for (seq, code) in [0, 2].into_iter().enumerate() {
            let done = ItemDone::Tool(Box::new(done(code)));
            let body = EventBody::ItemDone { item: ItemId::new("i"), done };
            stats.count_event(&Event { seq: seq as u64, turn: 1, body });
        }
        let tools = &stats.totals.tools;
        assert_eq!((tools.total_calls, tools.total_success, tools.total_fail), (4, 2, 2));
    }

    #[test]
    fn journal_totals_are_continued() {
        let usage = json!({"promptTokenCount": 1000, "cachedContentTokenCount": 250,
            "candidatesTokenCount": 10, "totalTokenCount": 1010});
        let wire = json!({"role": "model", "parts": [{"text": "x"}]});
        let content = json!({"time": "", "wire": wire, "model": "m", "usage": usage});
        let result = json!({"time": "", "call": "c", "index": 0, "name": "ls", "wire": [],
            "status": "error"});
        let records = [
            Record::Content(serde_json::from_value(content).unwrap()),
            Record::Result(serde_json::from_value(result).unwrap()),
        ];
        let mut stats = SessionStats::from_records(&records, |_| None);
        let call = ModelCall {
            model: "m".into(),
            role: "main".into(),
            usage: Usage { prompt: 500, ..Usage::default() },
            cost: None,
            latency_ms: 40,
            request_bytes: 0,
            error: Some("cancelled".into()),
        };
        stats.count_event(&Event { seq: 1, turn: 1, body: EventBody::ModelCall(call) });
        assert_eq!((stats.tokens().prompt, stats.before.tokens.prompt), (1500, 1000));
        assert_eq!((stats.totals.tools.total_calls, stats.totals.tools.total_fail), (1, 1));
        let api = &stats.totals.models["m"].api;
        assert_eq!((api.total_requests, api.mean_ms()), (2, 40));
        assert_eq!((api.total_errors, api.failures()), (1, 0), "nobody's failure");
        assert_eq!(stats.turns.len(), 1, "only what was seen");
    }
}
