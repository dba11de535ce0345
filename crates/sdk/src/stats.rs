//! The counters of a session: as the machine outputs print them, and what a
//! person is shown of it.

use std::collections::BTreeMap;

use parallax_protocol::event::{
    CallDecision, Event, EventBody, ItemDone, ModelCall, ToolDone, ToolStatus,
};
use parallax_protocol::model::Usage;
use parallax_protocol::tool::Display;
use serde::Serialize;

/// Everything counted so far. Serialises as `stats` of the json output.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// By model.
    pub models: BTreeMap<String, ModelStats>,
    /// Of all calls.
    pub tools: ToolStats,
    /// Of changed files.
    pub files: FileStats,
}

/// What one model was asked.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ModelStats {
    /// Requests.
    pub api: ApiStats,
    /// Their tokens.
    pub tokens: Tokens,
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
}

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
#[derive(Debug, Clone, Copy, Default, Serialize)]
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
        self.prompt += usage.prompt_token_count;
        self.candidates += usage.candidates_token_count;
        self.total += usage.total_token_count;
        self.cached += usage.cached_content_token_count;
        self.thoughts += usage.thoughts_token_count;
        self.tool += usage.tool_use_prompt_token_count;
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
        "cancelled" => "AbortError",
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
#[derive(Debug, Clone, Default, Serialize)]
pub struct StreamStats {
    #[serde(flatten)]
    sum: StreamTokens,
    duration_ms: u64,
    tool_calls: u64,
    models: BTreeMap<String, StreamTokens>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
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
            EventBody::ModelCall(call) => self.model_call(call),
            EventBody::ItemDone { done: ItemDone::Tool(done), .. } => self.tool_call(done),
            _ => {}
        }
    }

    fn model_call(&mut self, call: &ModelCall) {
        let model = self.models.entry(call.model.clone()).or_default();
        let role = model.roles.entry(call.role.clone()).or_default();
        model.api.total_requests += 1;
        model.api.total_latency_ms += call.latency_ms;
        role.total_requests += 1;
        role.total_latency_ms += call.latency_ms;
        model.tokens.add(&call.usage);
        role.tokens.add(&call.usage);
        if let Some(class) = &call.error {
            model.api.total_errors += 1;
            role.total_errors += 1;
            *model.api.errors_by_type.entry(error_type(class)).or_default() += 1;
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
