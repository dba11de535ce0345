//! Turns observations into log records, metrics, and spans.

mod call;
mod messages;
mod request;

use std::collections::HashMap;
use std::time::SystemTime;

use parallax_protocol::Object;
use parallax_protocol::event::{Compaction, EndReason};
use parallax_protocol::hooks::HookEvent;
use parallax_protocol::ids::ItemId;
use parallax_protocol::observer::{EventScope, HookRun, SubagentScope};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::Route;
use serde_json::Value;

use crate::content_policy::ContentPolicy;
use crate::input::{InputKind, TelemetryInput};
use crate::metrics::{self, Metrics};
use crate::options::TelemetryOptions;
use crate::record::{AttributeSet, LogRecord};
use crate::spans::{Span, SpanKind};
use crate::trace_context::TraceContext;
use request::{OpenRequest, bare_name};

/// Maximum number of running calls and requests that are tracked; others get no span.
const MAX_OPEN: usize = 4096;

/// The facts that all records share.
pub(crate) struct CommonAttributes {
    pub(crate) session: String,
    pub(crate) contents: ContentPolicy,
    pub(crate) traces: bool,
    pub(crate) auth_type: Option<String>,
    pub(crate) interactive: bool,
    pub(crate) installation: String,
    pub(crate) parent: Option<TraceContext>,
    pub(crate) seed: [u8; 16],
}

impl CommonAttributes {
    pub(crate) fn new(options: &TelemetryOptions, seed: [u8; 16]) -> Self {
        Self {
            session: options.session.clone(),
            contents: ContentPolicy::new(options.log_prompts),
            traces: options.traces,
            auth_type: options.auth_type.clone(),
            interactive: options.interactive,
            installation: options.installation.clone(),
            parent: options.parent.as_ref().map(|parent| parent.context),
            seed,
        }
    }
}

/// A running turn of the session or of a subagent.
struct OpenTurn {
    context: TraceContext,
    parent: Option<[u8; 8]>,
    start: SystemTime,
    /// The model of its last request.
    model: Option<String>,
}

/// What observations are converted to.
pub(crate) enum TelemetryOutput {
    Log(LogRecord),
    Span(Span),
    /// A turn of the session ended: the metrics must be written.
    TurnEnd,
}

/// The state from which observations are converted to telemetry records.
pub(crate) struct TelemetryState {
    attributes: CommonAttributes,
    metrics: Metrics,
    mode: ApprovalMode,
    /// The turn of the session, which decides the trace.
    turn: u64,
    turns: HashMap<Vec<ItemId>, OpenTurn>,
    calls: HashMap<(Vec<ItemId>, ItemId), SystemTime>,
    requests: HashMap<u64, OpenRequest>,
    outputs: Vec<TelemetryOutput>,
}

impl TelemetryState {
    pub(crate) fn new(attributes: CommonAttributes) -> Self {
        Self {
            attributes,
            metrics: Metrics::new(SystemTime::now()),
            mode: ApprovalMode::Default,
            turn: 0,
            turns: HashMap::new(),
            calls: HashMap::new(),
            requests: HashMap::new(),
            outputs: Vec::new(),
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the outputs since the last call.
    pub(crate) fn take_outputs(&mut self) -> Vec<TelemetryOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Converts an observation.
    pub(crate) fn observe(&mut self, observed: TelemetryInput) {
        let TelemetryInput { scope, time, kind } = observed;
        match kind {
            InputKind::Ready(ready) => {
                if scope.subagents.is_empty() {
                    self.mode = ready.mode;
                    self.count(&metrics::SESSION_COUNT, 1.0, AttributeSet::default());
                    let attributes = AttributeSet::default()
                        .with("model", ready.model)
                        .with("approval_mode", ready.mode.as_str())
                        .with("resumed", ready.resumed);
                    let body = "Session started.".to_owned();
                    self.log(&scope, time, "gemini_cli.config", body, attributes);
                }
            }
            InputKind::Mode(mode) if scope.subagents.is_empty() => self.mode = mode,
            InputKind::TurnStarted { prompt } => self.turn_started(&scope, time, &prompt),
            InputKind::TurnEnded(reason) => self.turn_ended(&scope, time, &reason),
            InputKind::CallStarted(item) | InputKind::CallExecuting(item) => {
                if self.calls.len() < MAX_OPEN {
                    self.calls.insert((path(&scope), item), time);
                }
            }
            InputKind::CallEnded(ended) => self.call_ended(&scope, time, *ended),
            InputKind::RequestStarted { id, time, request } => {
                self.request_started(&scope, time, id, &request);
            }
            InputKind::RequestEnded(ended) => self.request_ended(&scope, time, *ended),
            InputKind::Hook(run) => self.hook_ended(&scope, time, *run),
            InputKind::Command(name) => {
                let name = self.attributes.contents.identifier(&name).to_owned();
                let body = format!("Slash command: {name}.");
                let attributes = AttributeSet::default().with("command", name);
                self.log(&scope, time, "gemini_cli.slash_command", body, attributes);
            }
            InputKind::Compacted(compaction) => self.record_compaction(&scope, time, &compaction),
            InputKind::Routed(route) => self.record_route(&scope, time, &route),
            InputKind::Retried { model, class, attempt } => {
                let attributes = AttributeSet::default()
                    .with("model", model)
                    .with("error_type", class)
                    .with("attempt", attempt);
                self.count(&metrics::RETRIES, 1.0, attributes.clone());
                let body = "A request is retried after a failure.".to_owned();
                self.log(&scope, time, "gemini_cli.network_retry_attempt", body, attributes);
            }
            InputKind::Mode(_) | InputKind::Tick | InputKind::Flush(_) => {}
        }
    }

    /// Returns the attributes of all metrics.
    fn common_attributes(&self) -> AttributeSet {
        AttributeSet::default()
            .with("session.id", self.attributes.session.clone())
            .with("installation.id", self.attributes.installation.clone())
            .with("interactive", self.attributes.interactive)
    }

    fn count(
        &mut self,
        instrument: &'static metrics::Instrument,
        value: f64,
        attributes: AttributeSet,
    ) {
        let attributes = self.common_attributes().extended(&attributes.into_object());
        self.metrics.add(instrument, value, attributes.into_object());
    }

    fn log(
        &mut self,
        scope: &EventScope,
        time: SystemTime,
        name: &'static str,
        body: String,
        attributes: AttributeSet,
    ) {
        let context = self.turn_of(scope).or(self.attributes.parent);
        let stamp = jiff::Timestamp::try_from(time).unwrap_or_default();
        let attributes = self
            .common_attributes()
            .with("active_approval_mode", self.mode.as_str())
            .with("event.name", name)
            .with("event.timestamp", format!("{stamp:.3}"))
            .with_optional("auth_type", self.attributes.auth_type.clone())
            .with("prompt_id", self.prompt_id(scope))
            .with_optional("agent_name", scope.subagents.last().map(|it| it.name.clone()))
            .extended(&attributes.into_object())
            .into_object();
        let record = LogRecord { time, name, body, attributes, context };
        self.outputs.push(TelemetryOutput::Log(record));
    }

    fn push_span(&mut self, span: Span) {
        if span.context.is_sampled {
            self.outputs.push(TelemetryOutput::Span(span));
        }
    }

    fn prompt_id(&self, scope: &EventScope) -> String {
        let mut id = format!("{}########{}", self.attributes.session, self.turn);
        for SubagentScope { item, .. } in scope.subagents.iter() {
            id.push('#');
            id.push_str(item.as_str());
        }
        id
    }

    /// Returns the span of the session's running turn.
    fn root(&self) -> TraceContext {
        TraceContext::for_turn(self.attributes.parent, &self.attributes.seed, self.turn)
    }

    /// Returns the span of the turn that a scope belongs to.
    fn turn_of(&self, scope: &EventScope) -> Option<TraceContext> {
        self.turns.get(&path(scope)).map(|turn| turn.context)
    }

    /// Returns the parent of the spans of a scope.
    fn context(&self, scope: &EventScope) -> TraceContext {
        self.turn_of(scope).unwrap_or_else(|| self.root())
    }

    /// Returns a new span of a scope, and its parent. Between turns, the parent is the span that
    /// the session was started in, if any.
    fn child_span(&self, scope: &EventScope, name: &str) -> (TraceContext, Option<[u8; 8]>) {
        if self.turn_of(scope).is_none() && scope.subagents.is_empty() {
            let parent = self.attributes.parent;
            let context = TraceContext::outside_turns(parent, &self.attributes.seed, name);
            return (context, parent.map(|parent| parent.span));
        }
        let turn = self.context(scope);
        (turn.child(name), Some(turn.span))
    }

    fn turn_started(&mut self, scope: &EventScope, time: SystemTime, prompt: &str) {
        let (context, parent) = match scope.subagents.split_last() {
            None => {
                self.turn = scope.turn;
                (self.root(), self.attributes.parent.map(|parent| parent.span))
            }
            Some((subagent, outer)) => {
                let outer = EventScope { turn: 0, subagents: outer.into() };
                let call = self.context(&outer).child(subagent.item.as_str());
                (call.subagent_turn(scope.turn), Some(call.span))
            }
        };
        let turn = OpenTurn { context, parent, start: time, model: None };
        if self.turns.len() < MAX_OPEN {
            self.turns.insert(path(scope), turn);
        }
        if let Some(subagent) = scope.subagents.last() {
            let attributes = AttributeSet::default().with("agent_name", subagent.name.clone());
            self.count(&metrics::AGENT_RUNS, 1.0, attributes.clone());
            let body = format!("Agent {} started.", subagent.name);
            self.log(scope, time, "gemini_cli.agent.start", body, attributes);
        } else {
            let length = prompt.chars().count();
            let text = self.attributes.contents.content(|| prompt.to_owned());
            let attributes =
                AttributeSet::default().with("prompt_length", length).with_optional("prompt", text);
            let body = format!("User prompt. Length: {length}.");
            self.log(scope, time, "gemini_cli.user_prompt", body, attributes);
        }
    }

    fn turn_ended(&mut self, scope: &EventScope, time: SystemTime, reason: &EndReason) {
        let word = reason.as_str();
        let error = match reason {
            EndReason::Failed(failure) => {
                let class = serde_json::to_value(failure.kind).unwrap_or_default();
                let class = class.as_str().unwrap_or(word);
                Some(self.attributes.contents.error_message(class, &failure.message))
            }
            _ => None,
        };
        if let Some(subagent) = scope.subagents.last() {
            let start = self.turns.get(&path(scope)).map_or(time, |turn| turn.start);
            let attributes = AttributeSet::default()
                .with("agent_name", subagent.name.clone())
                .with("duration_ms", millis(start, time))
                .with("terminate_reason", word);
            let name = AttributeSet::default().with("agent_name", subagent.name.clone());
            self.count(&metrics::AGENT_DURATION, to_float(millis(start, time)), name);
            let body = format!("Agent {} ended: {word}.", subagent.name);
            self.log(scope, time, "gemini_cli.agent.finish", body, attributes);
        } else {
            let attributes = AttributeSet::default()
                .with("approvalMode", self.mode.as_str())
                .with("turnCount", self.turn)
                .with("reason", word);
            let body = format!("Conversation finished: {word}.");
            self.log(scope, time, "gemini_cli.conversation_finished", body, attributes);
        }
        if let Some(turn) = self.turns.remove(&path(scope)) {
            let agent = scope.subagents.last().map_or("parallax", |it| it.name.as_str());
            let attributes = AttributeSet::default()
                .with("gen_ai.operation.name", "invoke_agent")
                .with("gen_ai.agent.name", agent)
                .with("gen_ai.conversation.id", self.attributes.session.clone())
                .with_optional(
                    "gen_ai.provider.name",
                    turn.model.as_deref().map(|it| self.provider(it)),
                )
                .with_optional("gen_ai.request.model", turn.model.as_deref().map(bare_name))
                .with_optional("error.type", error.as_ref().map(|_| word))
                .into_object();
            let name = format!("invoke_agent {agent}");
            let kind = SpanKind::Internal;
            let OpenTurn { context, parent, start, .. } = turn;
            self.push_span(Span {
                context,
                parent,
                name,
                kind,
                start,
                end: time,
                attributes,
                error,
            });
        }
        if scope.subagents.is_empty() {
            self.measure_memory();
            self.outputs.push(TelemetryOutput::TurnEnd);
        }
    }

    /// Adds the resident memory of the process.
    pub(crate) fn measure_memory(&mut self) {
        // Only Linux has the file.
        let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return };
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let Some(kibibytes) = kibibytes else { return };
        let attributes =
            AttributeSet::default().with("memory_type", "rss").with("component", "session");
        self.count(&metrics::MEMORY_USAGE, to_float(kibibytes.saturating_mul(1024)), attributes);
    }

    fn hook_ended(&mut self, scope: &EventScope, time: SystemTime, run: HookRun) {
        let HookRun { event, kind, name, duration_ms, success, exit_code, .. } = &run;
        let attributes = AttributeSet::default()
            .with("hook_event_name", event.as_str())
            .with("hook_name", name.clone())
            .with("success", *success);
        self.count(&metrics::HOOK_CALLS, 1.0, attributes.clone());
        self.count(&metrics::HOOK_LATENCY, to_float(*duration_ms), attributes.clone());
        let body = format!(
            "Hook call {}. Success: {success}. Duration: {duration_ms} ms.",
            event.as_str()
        );
        let contents = self.attributes.contents;
        let error = run.error.as_deref();
        let attributes = attributes
            .with("hook_type", *kind)
            .with("duration_ms", *duration_ms)
            .with_optional("exit_code", *exit_code)
            .with_optional("error", error.map(|text| contents.error_message("hook_failed", text)));
        let details = contents.content(|| {
            let output = run.output.as_ref().and_then(|output| serde_json::to_string(output).ok());
            AttributeSet::default()
                .with("hook_input", serde_json::to_string(&run.input).unwrap_or_default())
                .with_optional("hook_output", output)
                .with("stdout", run.stdout)
                .with("stderr", run.stderr)
                .into_object()
        });
        let attributes = attributes.extended(&details.unwrap_or_default());
        // The end of the session comes after its last turn.
        let is_late = run.event == HookEvent::SessionEnd;
        self.log(scope, time, "gemini_cli.hook_call", body, attributes);
        if is_late {
            self.outputs.push(TelemetryOutput::TurnEnd);
        }
    }

    fn record_compaction(&mut self, scope: &EventScope, time: SystemTime, compaction: &Compaction) {
        if compaction.how.is_none() {
            return;
        }
        let Compaction { before, after, .. } = compaction;
        let attributes =
            AttributeSet::default().with("tokens_before", *before).with("tokens_after", *after);
        self.count(&metrics::COMPRESSIONS, 1.0, attributes.clone());
        let body = format!("Chat compression. From {before} to {after} tokens.");
        self.log(scope, time, "gemini_cli.chat_compression", body, attributes);
    }

    fn record_route(&mut self, scope: &EventScope, time: SystemTime, route: &Route) {
        let source = serde_json::to_value(route.source).unwrap_or(Value::Null);
        // The classifier's reason describes the prompt.
        let contents = self.attributes.contents;
        let error = route.error.as_deref();
        let attributes = AttributeSet::default()
            .with("decision_model", route.model.clone())
            .with("decision_source", source)
            .with("routing_latency_ms", route.latency_ms)
            .with_optional("reasoning", contents.content(|| route.reason.clone()))
            .with("failed", error.is_some())
            .with_optional(
                "error_message",
                error.map(|text| contents.error_message("classifier_failed", text)),
            );
        let named = AttributeSet::default().with("routing.decision_model", route.model.clone());
        self.count(&metrics::ROUTING_LATENCY, to_float(route.latency_ms), named);
        let body = format!("Model routing. Chosen model: {}.", route.model);
        self.log(scope, time, "gemini_cli.model_routing", body, attributes);
    }

    /// `gen_ai.provider.name` of a model: the prefix of its name, as the semantic conventions spell
    /// it.
    fn provider(&self, model: &str) -> String {
        match model.split_once(':') {
            None | Some(("gemini", _)) => {
                let is_vertex = self.attributes.auth_type.as_deref() == Some("vertex-ai");
                if is_vertex { "gcp.vertex_ai" } else { "gcp.gemini" }.to_owned()
            }
            Some(("vertex", _)) => "gcp.vertex_ai".to_owned(),
            Some((prefix, _)) => prefix.to_owned(),
        }
    }

    /// Returns an object as a string with an indent of two spaces, as readers expect it.
    fn pretty_json(object: Option<&Object>) -> String {
        let empty = Object::new();
        serde_json::to_string_pretty(object.unwrap_or(&empty)).unwrap_or_default()
    }
}

/// Returns the calls that started the subagents of a scope.
fn path(scope: &EventScope) -> Vec<ItemId> {
    scope.subagents.iter().map(|subagent| subagent.item.clone()).collect()
}

/// Milliseconds from one time to another.
fn millis(start: SystemTime, end: SystemTime) -> u64 {
    let took = end.duration_since(start).unwrap_or_default();
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn to_float(number: u64) -> f64 {
    number as f64
}
