//! Requests to models.

use std::time::SystemTime;

use parallax_protocol::content::{Part, PartView};
use parallax_protocol::model::{Request, Usage};
use parallax_protocol::observer::EventScope;
use serde_json::Value;

use super::messages::RequestContents;
use super::{MAX_OPEN, TelemetryState, path, to_float};
use crate::input::EndedRequest;
use crate::metrics;
use crate::record::AttributeSet;
use crate::spans::{Span, SpanKind};

/// A request that was sent.
pub(crate) struct OpenRequest {
    start: SystemTime,
    model: String,
    role: String,
    /// The contents, where they are recorded.
    contents: Option<RequestContents>,
}

/// Returns the role of a request as readers expect it: a subagent's own requests, which have its
/// name as their role, are those of a `subagent`.
fn role(scope: &EventScope, role: &str) -> String {
    match scope.subagents.last() {
        Some(subagent) if role == "main" || role == subagent.name => "subagent".to_owned(),
        _ => role.to_owned(),
    }
}

impl EndedRequest {
    /// Returns the model that answered; the requested one, if the service does not say.
    fn response_model(&self) -> &str {
        self.answered_by.as_deref().unwrap_or_else(|| bare_name(&self.call.model))
    }
}

impl TelemetryState {
    pub(super) fn request_started(
        &mut self,
        scope: &EventScope,
        start: SystemTime,
        id: u64,
        request: &Request,
    ) {
        let text = self.attributes.contents.content(|| contents_json(request));
        let (model, role) = (request.model.clone(), role(scope, &request.role));
        let attributes = AttributeSet::default()
            .with("model", model.clone())
            .with("role", role.clone())
            .with_optional("request_text", text);
        let body = format!("API request to {model}.");
        self.log(scope, start, "gemini_cli.api_request", body, attributes);
        if let Some(turn) = self.turns.get_mut(&path(scope)) {
            turn.model = Some(model.clone());
        }
        if self.requests.len() < MAX_OPEN {
            let contents = self.attributes.contents.content(|| RequestContents::new(request));
            self.requests.insert(id, OpenRequest { start, model, role, contents });
        }
    }

    pub(super) fn request_ended(
        &mut self,
        scope: &EventScope,
        time: SystemTime,
        mut ended: EndedRequest,
    ) {
        let open = self.requests.remove(&ended.id);
        let requested_model =
            open.as_ref().map_or_else(|| ended.call.model.clone(), |it| it.model.clone());
        // The service chose these.
        let contents = self.attributes.contents;
        let identifier = |text: &mut String| *text = contents.identifier(text).to_owned();
        if ended.call.model != requested_model {
            identifier(&mut ended.call.model);
        }
        let is_other = |model: &String| model.as_str() != bare_name(&requested_model);
        if ended.answered_by.as_ref().is_some_and(is_other) {
            ended.answered_by.iter_mut().for_each(identifier);
        }
        ended.finish.iter_mut().chain(&mut ended.response_id).for_each(identifier);
        let role =
            open.as_ref().map_or_else(|| role(scope, &ended.call.role), |it| it.role.clone());
        let start = open.as_ref().map_or(time, |it| it.start);
        self.count_request(&requested_model, &ended);
        match &ended.call.error {
            None => self.log_response(scope, time, &role, &ended),
            Some(class) => {
                let status = ended.status.map(u64::from);
                let attributes = AttributeSet::default()
                    .with("model", requested_model.clone())
                    .with("role", role.clone())
                    .with("error", class.clone())
                    .with("error_type", class.clone())
                    .with_optional("status_code", status)
                    .with("duration_ms", ended.call.latency_ms);
                let body = format!("API error of {requested_model}: {class}.");
                self.log(scope, time, "gemini_cli.api_error", body, attributes);
            }
        }
        let (context, parent) = self.child_span(scope, &format!("request-{}", ended.id));
        let agent = scope.subagents.last().map(|subagent| subagent.name.clone());
        let mut attributes = self
            .gen_ai_attributes(&requested_model, &role, &ended)
            .with_optional("gen_ai.agent.name", agent);
        if let Some(contents) = open.as_ref().and_then(|it| it.contents.as_ref()) {
            let messages = contents.messages(&ended.parts, ended.finish.as_deref());
            attributes = attributes
                .with("gen_ai.input.messages", messages.input)
                .with_count("parallax.input.messages.omitted", messages.omitted as u64)
                .with("gen_ai.output.messages", messages.output)
                .with_optional("gen_ai.system_instructions", messages.system);
        }
        if self.attributes.traces {
            let body = "GenAI operation details.".to_owned();
            let details = attributes.clone();
            let name = "gen_ai.client.inference.operation.details";
            self.log(scope, time, name, body, details);
        }
        self.push_span(Span {
            context,
            parent,
            name: format!("chat {}", bare_name(&requested_model)),
            kind: SpanKind::Client,
            start,
            end: time,
            attributes: attributes.into_object(),
            error: ended.call.error.clone(),
        });
    }

    fn log_response(
        &mut self,
        scope: &EventScope,
        time: SystemTime,
        role: &str,
        ended: &EndedRequest,
    ) {
        let usage = ended.call.usage;
        let text = self.attributes.contents.content(|| text_of(&ended.parts));
        let reasons: Vec<Value> = ended.finish.iter().map(|word| word.clone().into()).collect();
        let attributes = AttributeSet::default()
            .with("model", ended.call.model.clone())
            .with("role", role)
            .with("status_code", 200)
            .with("duration_ms", ended.call.latency_ms)
            .with("input_token_count", usage.prompt)
            .with("output_token_count", usage.output)
            .with("cached_content_token_count", usage.cached)
            .with("thoughts_token_count", usage.thought)
            .with("tool_token_count", usage.tool_prompt)
            .with("total_token_count", usage.total)
            .with("finish_reasons", reasons)
            .with_optional("response_text", text);
        let body = format!(
            "API response from {}. Duration: {} ms.",
            ended.call.model, ended.call.latency_ms
        );
        self.log(scope, time, "gemini_cli.api_response", body, attributes);
    }

    fn count_request(&mut self, requested_model: &str, ended: &EndedRequest) {
        let call = &ended.call;
        let status = match &call.error {
            None => Some(200),
            Some(_) => ended.status.map(u64::from),
        };
        let attributes = AttributeSet::default()
            .with("model", requested_model)
            .with_optional("status_code", status)
            .with_optional("error_type", call.error.clone());
        self.count(&metrics::API_REQUEST_COUNT, 1.0, attributes);
        let named = AttributeSet::default().with("model", requested_model);
        self.count(&metrics::API_REQUEST_LATENCY, to_float(call.latency_ms), named);
        let Usage { prompt, output, cached, thought, tool_prompt, .. } = call.usage;
        let types = [
            ("input", prompt),
            ("output", output),
            ("cache", cached),
            ("thought", thought),
            ("tool", tool_prompt),
        ];
        for (kind, tokens) in types.into_iter().filter(|(_, tokens)| *tokens > 0) {
            let named = AttributeSet::default().with("model", requested_model).with("type", kind);
            self.count(&metrics::TOKEN_USAGE, to_float(tokens), named);
        }
        let shared = AttributeSet::default()
            .with("gen_ai.operation.name", "chat")
            .with("gen_ai.provider.name", self.provider(requested_model))
            .with("gen_ai.request.model", bare_name(requested_model))
            .with("gen_ai.response.model", ended.response_model());
        for (kind, tokens) in [("input", prompt), ("output", output + thought)] {
            if tokens > 0 {
                let typed = shared.clone().with("gen_ai.token.type", kind);
                self.count(&metrics::GEN_AI_TOKENS, to_float(tokens), typed);
            }
        }
        let seconds = std::time::Duration::from_millis(call.latency_ms).as_secs_f64();
        let timed = shared.clone().with_optional("error.type", call.error.clone());
        self.count(&metrics::GEN_AI_DURATION, seconds, timed);
        if let Some(first) = ended.first_chunk {
            self.count(&metrics::GEN_AI_FIRST_CHUNK, first.as_secs_f64(), shared);
        }
    }

    fn gen_ai_attributes(
        &self,
        requested_model: &str,
        role: &str,
        ended: &EndedRequest,
    ) -> AttributeSet {
        let call = &ended.call;
        let usage = call.usage;
        let reasons: Option<Vec<Value>> =
            ended.finish.as_ref().map(|word| vec![word.clone().into()]);
        AttributeSet::default()
            .with("gen_ai.operation.name", "chat")
            .with("gen_ai.provider.name", self.provider(requested_model))
            .with("gen_ai.request.model", bare_name(requested_model))
            .with("gen_ai.response.model", ended.response_model())
            .with_optional("gen_ai.response.id", ended.response_id.clone())
            .with_optional("gen_ai.response.finish_reasons", reasons)
            .with("gen_ai.usage.input_tokens", usage.prompt)
            .with("gen_ai.usage.output_tokens", usage.output + usage.thought)
            .with_count("gen_ai.usage.cache_read.input_tokens", usage.cached)
            .with_count("gen_ai.usage.cache_creation.input_tokens", usage.cache_write)
            .with_count("gen_ai.usage.reasoning.output_tokens", usage.thought)
            .with("gen_ai.conversation.id", self.attributes.session.clone())
            .with("parallax.request.role", role)
            .with_optional(
                "gen_ai.response.time_to_first_chunk",
                ended.first_chunk.map(|first| first.as_secs_f64()),
            )
            .with_optional("error.type", call.error.clone())
            .with_optional("http.response.status_code", ended.status.map(u64::from))
            .with_optional(
                "server.address",
                ended.server.as_ref().map(|server| server.host.clone()),
            )
            .with_optional("server.port", ended.server.as_ref().and_then(|server| server.port))
    }
}

/// Returns the model's name without our prefix, which is in `gen_ai.provider.name`.
pub(super) fn bare_name(model: &str) -> &str {
    match model.split_once(':') {
        Some((prefix, name)) if prefix != "script" => name,
        _ => model,
    }
}

/// Returns the contents as they are sent, as one JSON array.
fn contents_json(request: &Request) -> String {
    let length: usize = request.contents.iter().map(|content| content.json().len() + 1).sum();
    let mut text = String::with_capacity(length + 2);
    text.push('[');
    for (index, content) in request.contents.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(content.json());
    }
    text.push(']');
    text
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part.view() {
        PartView::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}
