//! The counters of a session as the outputs print them.

use std::collections::BTreeMap;

use parallax_protocol::event::{
    CallDecision, Event, EventBody, ItemDone, ModelCall, ToolDone, ToolStatus,
};
use parallax_protocol::model::Usage;
use parallax_protocol::tool::Display;
use serde::Serialize;

/// Everything counted so far. Serialises as `stats` of the json output.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Stats {
    models: BTreeMap<String, ModelStats>,
    tools: ToolStats,
    files: FileStats,
}

#[derive(Debug, Clone, Default, Serialize)]
struct ModelStats {
    api: ApiStats,
    tokens: Tokens,
    roles: BTreeMap<String, RoleStats>,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiStats {
    total_requests: u64,
    total_errors: u64,
    total_latency_ms: u64,
    errors_by_type: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RoleStats {
    total_requests: u64,
    total_errors: u64,
    total_latency_ms: u64,
    tokens: Tokens,
}

/// Token counts; `input` is what of the prompt was not cached.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Tokens {
    input: u64,
    prompt: u64,
    candidates: u64,
    total: u64,
    cached: u64,
    thoughts: u64,
    tool: u64,
}

impl Tokens {
    fn add(&mut self, usage: &Usage) {
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

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolStats {
    total_calls: u64,
    total_success: u64,
    total_fail: u64,
    total_duration_ms: u64,
    total_decisions: Decisions,
    by_name: ByName,
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
struct ByName(Vec<(String, NamedToolStats)>);

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

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct NamedToolStats {
    count: u64,
    success: u64,
    fail: u64,
    duration_ms: u64,
    decisions: Decisions,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Decisions {
    accept: u64,
    reject: u64,
    /// Nothing changes a call between its approval and its run; readers expect
    /// the field.
    modify: u64,
    auto_accept: u64,
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

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileStats {
    total_lines_added: u64,
    total_lines_removed: u64,
}

/// The short form that ends a stream-json run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct StreamStats {
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
    pub(crate) fn event(&mut self, event: &Event) {
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
    pub(crate) fn for_stream(&self, duration_ms: u64) -> StreamStats {
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
