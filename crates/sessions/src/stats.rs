//! The counters of a session, for machine-readable output and for display.

use std::collections::BTreeMap;

use parallax_protocol::event::{CallDecision, Event, EventBody, ItemDone, ToolDone, ToolStatus};
use parallax_protocol::model::Usage;
use parallax_protocol::requests::Requests;
use parallax_protocol::routing::{Fallback, Route, RouteSource};
use parallax_protocol::store::Record;
use parallax_protocol::tool::Display;
use serde::{Deserialize as _, Serialize};

/// Maximum number of recorded routing decisions and fallbacks.
const MAX_ENTRIES: usize = 100;

/// All counters of a session. Serializes as `stats` of the JSON output.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Statistics by model.
    pub models: BTreeMap<String, ModelStats>,
    /// Statistics of tool calls.
    pub tools: ToolStats,
    /// Statistics of changed files.
    pub files: FileStats,
    /// Routing decisions, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<Route>,
    /// Fallbacks to other models, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Fallback>,
    /// Cost. Omitted if there was none.
    #[serde(skip_serializing_if = "CostStats::is_empty")]
    pub cost: CostStats,
}

/// Appends an entry and drops the oldest ones over the limit.
fn push_limited<T: Clone>(list: &mut Vec<T>, entry: &T) {
    if list.len() >= MAX_ENTRIES {
        list.remove(0);
    }
    list.push(entry.clone());
}

/// Cost in US dollars according to the price table.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostStats {
    /// Total cost.
    #[serde(serialize_with = "dollars")]
    pub usd: f64,
    /// Cost of prompt tokens that were not cached.
    #[serde(serialize_with = "dollars")]
    pub input_usd: f64,
    /// Cost of cached prompt tokens.
    #[serde(serialize_with = "dollars")]
    pub cached_usd: f64,
    /// Cost of output tokens, including thinking.
    #[serde(serialize_with = "dollars")]
    pub output_usd: f64,
    /// Share of prompt tokens that were cached, from 0 to 1.
    #[serde(serialize_with = "share")]
    pub cached_share: f64,
    /// Models that were used but have no known price. The totals do not include them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<String>,
    #[serde(skip)]
    prompt: u64,
    #[serde(skip)]
    cached: u64,
}

impl CostStats {
    fn is_empty(&self) -> bool {
        self.usd == 0.0 && self.unpriced.is_empty()
    }

    #[expect(clippy::cast_precision_loss, reason = "a percentage for display")]
    fn add(&mut self, requests: &Requests) {
        self.prompt += requests.usage.prompt;
        self.cached += requests.usage.cached;
        self.cached_share = self.cached as f64 / self.prompt.max(1) as f64;
        self.input_usd += requests.cost.input;
        self.cached_usd += requests.cost.cached;
        self.output_usd += requests.cost.output;
        self.usd += requests.cost.total();
        if requests.unpriced && !self.unpriced.contains(&requests.model) {
            self.unpriced.push(requests.model.clone());
        }
    }
}

/// Rounds away floating-point noise.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's way")]
fn dollars<S: serde::Serializer>(amount: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((amount * 1e9).round() / 1e9)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's way")]
fn share<S: serde::Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((share * 1e4).round() / 1e4)
}

/// Statistics of one model.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelStats {
    /// Statistics of requests.
    pub api: ApiStats,
    /// Token counts.
    pub tokens: Tokens,
    /// Cost in US dollars.
    #[serde(skip)]
    pub cost: f64,
    /// Statistics by purpose (`main`, `web_search`, …).
    pub roles: BTreeMap<String, RoleStats>,
}

/// Statistics of requests to a model.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiStats {
    /// Number of requests.
    pub total_requests: u64,
    /// Number of failed requests.
    pub total_errors: u64,
    /// Total latency in milliseconds.
    pub total_latency_ms: u64,
    /// Failed requests by class.
    pub errors_by_type: BTreeMap<String, u64>,
    /// Requests of an earlier process, whose latency is unknown.
    #[serde(skip)]
    untimed: u64,
}

impl ApiStats {
    /// Returns the mean latency of a request in milliseconds.
    pub fn mean_ms(&self) -> u64 {
        self.total_latency_ms / self.total_requests.saturating_sub(self.untimed).max(1)
    }

    /// Returns the number of failed requests, not counting those the user cancelled.
    pub fn failures(&self) -> u64 {
        self.total_errors - self.errors_by_type.get(STOPPED).copied().unwrap_or_default()
    }
}

/// The error class of cancelled requests.
const STOPPED: &str = "AbortError";

/// Statistics of one model for one purpose.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleStats {
    /// Number of requests.
    pub total_requests: u64,
    /// Number of failed requests.
    pub total_errors: u64,
    /// Total latency in milliseconds.
    pub total_latency_ms: u64,
    /// Token counts.
    pub tokens: Tokens,
}

/// Token counts.
#[derive(Debug, Clone, Copy, Default, Serialize, schemars::JsonSchema)]
pub struct Tokens {
    /// Prompt tokens that were not cached.
    pub input: u64,
    /// Prompt tokens.
    pub prompt: u64,
    /// Output tokens.
    pub candidates: u64,
    /// All tokens.
    pub total: u64,
    /// Prompt tokens that were cached.
    pub cached: u64,
    /// Thinking tokens.
    pub thoughts: u64,
    /// Tokens of the provider's own tools.
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

    /// Adds the usage of a request.
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

/// Statistics of all tool calls.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStats {
    /// Number of tool calls.
    pub total_calls: u64,
    /// Number of successful tool calls.
    pub total_success: u64,
    /// Number of failed or denied tool calls.
    pub total_fail: u64,
    /// Total duration in milliseconds.
    pub total_duration_ms: u64,
    /// How the calls were approved.
    pub total_decisions: Decisions,
    /// Statistics by tool.
    pub by_name: ToolStatsByName,
}

/// Returns the name of an error class that readers of Gemini CLI's statistics expect. All error
/// responses of the provider share one class there.
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

/// Statistics by tool, in the order of their first calls.
#[derive(Debug, Clone, Default)]
pub struct ToolStatsByName(pub Vec<(String, NamedToolStats)>);

impl ToolStatsByName {
    fn update(&mut self, name: &str, change: impl FnOnce(&mut NamedToolStats)) {
        if let Some((_, stats)) = self.0.iter_mut().find(|(known, _)| known == name) {
            return change(stats);
        }
        let mut stats = NamedToolStats::default();
        change(&mut stats);
        self.0.push((name.to_owned(), stats));
    }
}

impl Serialize for ToolStatsByName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, stats)| (name, stats)))
    }
}

/// Statistics of one tool.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedToolStats {
    /// Number of tool calls.
    pub count: u64,
    /// Number of successful tool calls.
    pub success: u64,
    /// Number of failed or denied tool calls.
    pub fail: u64,
    /// Total duration in milliseconds.
    pub duration_ms: u64,
    /// How the calls were approved.
    pub decisions: Decisions,
    /// Calls of an earlier process, whose duration is unknown.
    #[serde(skip)]
    untimed: u64,
}

impl NamedToolStats {
    /// Returns the mean duration of a call in milliseconds.
    pub fn mean_ms(&self) -> u64 {
        self.duration_ms / self.count.saturating_sub(self.untimed).max(1)
    }
}

/// Decisions about tool calls.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Decisions {
    /// Allowed by a rule or the user.
    pub accept: u64,
    /// Denied by a rule or the user.
    pub reject: u64,
    /// Always 0, because calls are not modified after their approval. Readers expect the field.
    pub modify: u64,
    /// Allowed by the user for this and similar calls.
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

/// Statistics of file changes.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStats {
    /// Lines added.
    pub total_lines_added: u64,
    /// Lines removed.
    pub total_lines_removed: u64,
}

/// The statistics in the `result` line of stream-json.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct StreamStats {
    #[serde(flatten)]
    sum: StreamTokens,
    duration_ms: u64,
    tool_calls: u64,
    models: BTreeMap<String, StreamTokens>,
    #[serde(skip_serializing_if = "CostStats::is_empty")]
    cost: CostStats,
}

impl StreamStats {
    /// Adds the cost, which stream-json version 1 does not report.
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
    /// Counts an event.
    pub fn count_event(&mut self, event: &Event) {
        match &event.body {
            EventBody::ModelCall(call) => self.count_requests(&Requests::from(call)),
            EventBody::ItemDone { done: ItemDone::Tool(done), .. } => self.count_tool_call(done),
            EventBody::Routed(route) if route.source != RouteSource::Override => {
                push_limited(&mut self.routing, route);
            }
            EventBody::FellBack(fallback) => push_limited(&mut self.fallbacks, fallback),
            _ => {}
        }
    }

    /// Counts requests to a model for one purpose.
    pub(crate) fn count_requests(&mut self, requests: &Requests) {
        self.cost.add(requests);
        let model = self.models.entry(requests.model.clone()).or_default();
        model.cost += requests.cost.total();
        let role = model.roles.entry(requests.role.clone()).or_default();
        model.api.total_requests += requests.count;
        model.api.untimed += requests.untimed;
        model.api.total_latency_ms += requests.latency_ms;
        role.total_requests += requests.count;
        role.total_latency_ms += requests.latency_ms;
        model.tokens.add(&requests.usage);
        role.tokens.add(&requests.usage);
        for (class, count) in &requests.errors {
            model.api.total_errors += count;
            role.total_errors += count;
            *model.api.errors_by_type.entry(error_type(class)).or_default() += count;
        }
    }

    fn count_tool_call(&mut self, done: &ToolDone) {
        let tools = &mut self.tools;
        let succeeded = done.shown_status() == ToolStatus::Success;
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

    /// Counts a tool call from the journal of an earlier process.
    pub(crate) fn record(&mut self, record: &Record) {
        let Record::Result(result) = record else { return };
        let details = result.details.as_ref();
        let succeeded = result.shown_status() == ToolStatus::Success;
        let duration = details.map(|details| details.duration_ms);
        // Older journals record only denials.
        let refused = details.filter(|details| details.was_rejected).map(|_| CallDecision::Reject);
        let decision = details.and_then(|details| details.decision).or(refused);
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

    /// Returns the short statistics for stream-json.
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
