//! The counters of a session: as the machine outputs print them, and what a
//! person is shown of it.

use std::collections::BTreeMap;

use parallax_protocol::event::{CallDecision, Event, EventBody, ItemDone, ToolDone, ToolStatus};
use parallax_protocol::model::Usage;
use parallax_protocol::requests::Requests;
use parallax_protocol::routing::{Fallback, Route, RouteSource};
use parallax_protocol::store::Record;
use parallax_protocol::tool::Display;
use serde::{Deserialize as _, Serialize};

/// Entries that are kept of choices of models.
const MOST_ENTRIES: usize = 100;

/// Everything counted so far. Serialises as `stats` of the json output.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// By model.
    pub models: BTreeMap<String, ModelStats>,
    /// Of all calls.
    pub tools: ToolStats,
    /// Of changed files.
    pub files: FileStats,
    /// How the models of prompts were chosen, where the program chose; the
    /// newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<Route>,
    /// Models that took the place of others; the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Fallback>,
    /// In money; left out where nothing was paid for.
    #[serde(skip_serializing_if = "CostStats::is_nothing")]
    pub cost: CostStats,
}

/// A conversation may last: only the newest entries are kept.
fn keep<T: Clone>(list: &mut Vec<T>, entry: &T) {
    if list.len() >= MOST_ENTRIES {
        list.remove(0);
    }
    list.push(entry.clone());
}

/// What was spent, in US dollars by the table of prices.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostStats {
    /// All of it.
    #[serde(serialize_with = "dollars")]
    pub usd: f64,
    /// For tokens of prompts that were not cached.
    #[serde(serialize_with = "dollars")]
    pub input_usd: f64,
    /// For those that were.
    #[serde(serialize_with = "dollars")]
    pub cached_usd: f64,
    /// For answers, thinking included.
    #[serde(serialize_with = "dollars")]
    pub output_usd: f64,
    /// The share of the prompts' tokens that were cached, 0 to 1.
    #[serde(serialize_with = "share")]
    pub cached_share: f64,
    /// Models that were asked and whose price is not known: the sum lacks them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<String>,
    #[serde(skip)]
    prompt: u64,
    #[serde(skip)]
    cached: u64,
}

impl CostStats {
    fn is_nothing(&self) -> bool {
        self.usd == 0.0 && self.unpriced.is_empty()
    }

    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn add(&mut self, asked: &Requests) {
        self.prompt += asked.usage.prompt;
        self.cached += asked.usage.cached;
        self.cached_share = self.cached as f64 / self.prompt.max(1) as f64;
        self.input_usd += asked.cost.input;
        self.cached_usd += asked.cost.cached;
        self.output_usd += asked.cost.output;
        self.usd += asked.cost.total();
        if asked.unpriced && !self.unpriced.contains(&asked.model) {
            self.unpriced.push(asked.model.clone());
        }
    }
}

/// Without the noise of sums of binary fractions.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's way")]
fn dollars<S: serde::Serializer>(amount: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((amount * 1e9).round() / 1e9)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's way")]
fn share<S: serde::Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((share * 1e4).round() / 1e4)
}

/// What one model was asked.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelStats {
    /// Requests.
    pub api: ApiStats,
    /// Their tokens.
    pub tokens: Tokens,
    /// What they cost, in US dollars.
    #[serde(skip)]
    pub cost: f64,
    /// By purpose (`main`, `web_search`, …).
    pub roles: BTreeMap<String, RoleStats>,
}

/// Requests to a model.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiStats {
    /// How many.
    pub total_requests: u64,
    /// How many failed.
    pub total_errors: u64,
    /// How long they took together, in milliseconds.
    pub total_latency_ms: u64,
    /// The failed ones by class.
    pub errors_by_type: BTreeMap<String, u64>,
    /// Those of an earlier process, which left no time.
    #[serde(skip)]
    untimed: u64,
}

impl ApiStats {
    /// How long a request took, in milliseconds.
    pub fn mean_ms(&self) -> u64 {
        self.total_latency_ms / self.total_requests.saturating_sub(self.untimed).max(1)
    }

    /// How many failed by themselves: one that a person stopped did not.
    pub fn failures(&self) -> u64 {
        self.total_errors - self.errors_by_type.get(STOPPED).copied().unwrap_or_default()
    }
}

/// The class of requests that were stopped.
const STOPPED: &str = "AbortError";

/// What one model was asked for one purpose.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleStats {
    /// How many.
    pub total_requests: u64,
    /// How many failed.
    pub total_errors: u64,
    /// How long they took together, in milliseconds.
    pub total_latency_ms: u64,
    /// Their tokens.
    pub tokens: Tokens,
}

/// Token counts; `input` is what of the prompt was not cached.
#[derive(Debug, Clone, Copy, Default, Serialize, schemars::JsonSchema)]
pub struct Tokens {
    /// Of the prompts, what was not cached.
    pub input: u64,
    /// Of the prompts.
    pub prompt: u64,
    /// Of the answers.
    pub candidates: u64,
    /// All.
    pub total: u64,
    /// Of the prompts, what was cached.
    pub cached: u64,
    /// Of thinking.
    pub thoughts: u64,
    /// Of the service's own tools.
    pub tool: u64,
}

impl Tokens {
    /// Adds other counts.
    pub fn add_tokens(&mut self, other: &Self) {
        self.input += other.input;
        self.prompt += other.prompt;
        self.candidates += other.candidates;
        self.total += other.total;
        self.cached += other.cached;
        self.thoughts += other.thoughts;
        self.tool += other.tool;
    }

    /// Adds what a request used.
    pub fn add(&mut self, usage: &Usage) {
        self.prompt += usage.prompt;
        self.candidates += usage.output;
        self.total += usage.total;
        self.cached += usage.cached;
        self.thoughts += usage.thought;
        self.tool += usage.tool_prompt;
        self.input = self.prompt.saturating_sub(self.cached);
    }
}

impl From<&Usage> for Tokens {
    fn from(usage: &Usage) -> Self {
        let mut tokens = Self::default();
        tokens.add(usage);
        tokens
    }
}

/// All calls.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStats {
    /// How many.
    pub total_calls: u64,
    /// How many did what they should.
    pub total_success: u64,
    /// How many failed or were refused.
    pub total_fail: u64,
    /// How long they ran together, in milliseconds.
    pub total_duration_ms: u64,
    /// Who let them run.
    pub total_decisions: Decisions,
    /// By tool.
    pub by_name: ByName,
}

/// The name of a failure's class as readers of the statistics know it: all that
/// the service answered is one class to them.
fn error_type(class: &str) -> String {
    match class {
        "cancelled" => STOPPED,
        "network" | "timeout" | "connect" => "NetworkError",
        "broken_stream" | "stream" => "InvalidStreamError",
        "script" => "ScriptError",
        _ => "ApiError",
    }
    .to_owned()
}

/// Counters by tool, in the order of the first calls.
#[derive(Debug, Clone, Default)]
pub struct ByName(pub Vec<(String, NamedToolStats)>);

impl ByName {
    fn update(&mut self, name: &str, change: impl FnOnce(&mut NamedToolStats)) {
        if let Some((_, stats)) = self.0.iter_mut().find(|(known, _)| known == name) {
            return change(stats);
        }
        let mut stats = NamedToolStats::default();
        change(&mut stats);
        self.0.push((name.to_owned(), stats));
    }
}

impl Serialize for ByName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, stats)| (name, stats)))
    }
}

/// The calls of one tool.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedToolStats {
    /// How many.
    pub count: u64,
    /// How many did what they should.
    pub success: u64,
    /// How many failed or were refused.
    pub fail: u64,
    /// How long, in milliseconds.
    pub duration_ms: u64,
    /// Who let them run.
    pub decisions: Decisions,
    /// Those of an earlier process, which left no time.
    #[serde(skip)]
    untimed: u64,
}

impl NamedToolStats {
    /// How long a call took, in milliseconds.
    pub fn mean_ms(&self) -> u64 {
        self.duration_ms / self.count.saturating_sub(self.untimed).max(1)
    }
}

/// Who let calls run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Decisions {
    /// A rule or a person.
    pub accept: u64,
    /// Nobody: a rule or a person refused.
    pub reject: u64,
    /// Nothing changes a call between its approval and its run; readers expect
    /// the field.
    pub modify: u64,
    /// A person, for this call and its like.
    pub auto_accept: u64,
}

impl Decisions {
    fn add(&mut self, decision: CallDecision) {
        match decision {
            CallDecision::Accept => self.accept += 1,
            CallDecision::Reject => self.reject += 1,
            CallDecision::AutoAccept => self.auto_accept += 1,
        }
    }
}

/// Changes of files.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStats {
    /// Lines added.
    pub total_lines_added: u64,
    /// Lines removed.
    pub total_lines_removed: u64,
}

/// The short form that ends a stream-json run.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct StreamStats {
    #[serde(flatten)]
    sum: StreamTokens,
    duration_ms: u64,
    tool_calls: u64,
    models: BTreeMap<String, StreamTokens>,
    #[serde(skip_serializing_if = "CostStats::is_nothing")]
    cost: CostStats,
}

impl StreamStats {
    /// With what was spent, which version 1 does not tell.
    #[must_use]
    pub fn with_cost(mut self, cost: &CostStats) -> Self {
        self.cost = cost.clone();
        self
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, schemars::JsonSchema)]
struct StreamTokens {
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached: u64,
    input: u64,
}

impl Stats {
    /// Counts what the event tells.
    pub fn event(&mut self, event: &Event) {
        match &event.body {
            EventBody::ModelCall(call) => self.requests(&Requests::from(call)),
            EventBody::ItemDone { done: ItemDone::Tool(done), .. } => self.tool_call(done),
            EventBody::Routed(route) if route.source != RouteSource::Override => {
                keep(&mut self.routing, route);
            }
            EventBody::FellBack(fallback) => keep(&mut self.fallbacks, fallback),
            _ => {}
        }
    }

    /// Counts requests to a model for one purpose.
    pub(crate) fn requests(&mut self, asked: &Requests) {
        self.cost.add(asked);
        let model = self.models.entry(asked.model.clone()).or_default();
        model.cost += asked.cost.total();
        let role = model.roles.entry(asked.role.clone()).or_default();
        model.api.total_requests += asked.count;
        model.api.untimed += asked.untimed;
        model.api.total_latency_ms += asked.latency_ms;
        role.total_requests += asked.count;
        role.total_latency_ms += asked.latency_ms;
        model.tokens.add(&asked.usage);
        role.tokens.add(&asked.usage);
        for (class, count) in &asked.errors {
            model.api.total_errors += count;
            role.total_errors += count;
            *model.api.errors_by_type.entry(error_type(class)).or_default() += count;
        }
    }

    fn tool_call(&mut self, done: &ToolDone) {
        let tools = &mut self.tools;
        let succeeded = done.status == ToolStatus::Success;
        tools.total_calls += 1;
        tools.total_duration_ms += done.duration_ms;
        tools.total_success += u64::from(succeeded);
        tools.total_fail += u64::from(!succeeded);
        if let Some(decision) = done.decision {
            tools.total_decisions.add(decision);
        }
        tools.by_name.update(&done.name, |named| {
            named.count += 1;
            named.duration_ms += done.duration_ms;
            named.success += u64::from(succeeded);
            named.fail += u64::from(!succeeded);
            if let Some(decision) = done.decision {
                named.decisions.add(decision);
            }
        });
        if succeeded && let Some(Display::Diff(diff)) = &done.display {
            self.files.total_lines_added += diff.lines_added;
            self.files.total_lines_removed += diff.lines_removed;
        }
    }

    /// Counts a call that the journal of an earlier process tells of.
    pub(crate) fn record(&mut self, record: &Record) {
        let Record::Result(result) = record else { return };
        let told = result.told.as_ref();
        let succeeded = result.status == "success";
        let duration = told.map(|told| told.duration_ms);
        // Journals of before tell only of refusals.
        let refused = told.filter(|told| told.refused).map(|_| CallDecision::Reject);
        let decision = told.and_then(|told| told.decision).or(refused);
        let tools = &mut self.tools;
        tools.total_calls += 1;
        tools.total_duration_ms += duration.unwrap_or_default();
        tools.total_success += u64::from(succeeded);
        tools.total_fail += u64::from(!succeeded);
        if let Some(decision) = decision {
            tools.total_decisions.add(decision);
        }
        tools.by_name.update(&result.name, |named| {
            named.count += 1;
            named.duration_ms += duration.unwrap_or_default();
            named.untimed += u64::from(duration.is_none());
            named.success += u64::from(succeeded);
            named.fail += u64::from(!succeeded);
            if let Some(decision) = decision {
                named.decisions.add(decision);
            }
        });
        let display = result.display.as_ref().filter(|_| succeeded);
        let changed = display.filter(|shown| shown["type"] == "diff");
        if let Some(Ok(Display::Diff(diff))) = changed.map(Display::deserialize) {
            self.files.total_lines_added += diff.lines_added;
            self.files.total_lines_removed += diff.lines_removed;
        }
    }

    /// The short form.
    pub fn for_stream(&self, duration_ms: u64) -> StreamStats {
        let mut stats = StreamStats {
            duration_ms,
            tool_calls: self.tools.total_calls,
            ..StreamStats::default()
        };
        for (name, model) in &self.models {
            let tokens = &model.tokens;
            let short = StreamTokens {
                total_tokens: tokens.total,
                input_tokens: tokens.prompt,
                output_tokens: tokens.candidates,
                cached: tokens.cached,
                input: tokens.input,
            };
            stats.sum.total_tokens += short.total_tokens;
            stats.sum.input_tokens += short.input_tokens;
            stats.sum.output_tokens += short.output_tokens;
            stats.sum.cached += short.cached;
            stats.sum.input += short.input;
            stats.models.insert(name.clone(), short);
        }
        stats
    }
}
