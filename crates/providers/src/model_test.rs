//! Tests the capabilities of a model and its server with small requests.

use std::sync::Arc;
use std::time::Duration;

use parallax_models::{ModelTable, Quirks, WireKind};
use parallax_protocol::content::{Content, Part, PartView};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::{Answer, FinishReason, Model as _, ModelError, Request, ToolSet};
use parallax_protocol::{CancellationToken, Object};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::credential::model_failure;
use crate::model_listing::{KnownModel, to_known_model};
use crate::provider_models::invalid_name;
use crate::{ProviderManager, ProviderModels, failure};

/// Timeout of one request. A local server may have to load the model first.
const STEP_LIMIT: Duration = Duration::from_secs(180);

/// The tool that the model is asked to call.
const TOOL: &str = "report_color";

/// Output limits of the requests in tokens, for a local server, which may generate only a few
/// tokens per second.
const TEXT_TOKENS: u32 = 64;
const TOOL_TOKENS: u32 = 256;
const JSON_TOKENS: u32 = 128;
/// How much more a hosted model may generate, because its hidden reasoning counts.
const HOSTED_FACTOR: u32 = 16;
/// How much more a model may generate that was still thinking at the limit.
const THINKING_FACTOR: u32 = 4;

/// The detail of a step that shows nothing: the limit was too low.
const STILL_THINKING: &str = "the model was still thinking at the output limit of the test";

/// Result of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStep {
    /// What was tested.
    pub name: &'static str,
    /// Whether it works.
    pub passed: bool,
    /// The response, or why it failed.
    pub detail: String,
}

/// The result of testing a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTestReport {
    /// The requests.
    pub steps: Vec<TestStep>,
    /// The provider and the switches of its `quirks` setting that the requests needed.
    pub needed_quirks: Option<(String, Vec<(&'static str, bool)>)>,
}

/// A switch of the `quirks` setting.
type Switch = (&'static str, bool);

/// Switches that a request without a history may need.
const QUIRKS_OF_PROMPTS: [Switch; 2] = [("usageInStream", false), ("developerRole", true)];
/// Switches that a request with tools may need.
const QUIRKS_OF_TOOLS: [Switch; 3] =
    [("parallelToolCalls", false), QUIRKS_OF_PROMPTS[0], QUIRKS_OF_PROMPTS[1]];
/// Switches that the results of tools may need.
const QUIRKS_OF_RESULTS: [Switch; 6] = [
    ("echoReasoning", true),
    ("nonNullAssistantContent", true),
    ("toolResultName", true),
    ("assistantAfterToolResult", true),
    ("emptyToolsWithHistory", true),
    ("shortCallIds", true),
];

/// Tests one model.
struct Probe<'p> {
    manager: &'p ProviderManager,
    table: ModelTable,
    name: String,
    /// The provider, if switches apply to it.
    provider: Option<String>,
    /// The switches that were needed.
    quirks: Vec<Switch>,
    /// Factor of the output limits.
    factor: u32,
}

impl Probe<'_> {
    /// Returns the clients with these switches and those needed so far.
    fn models(&self, more: &[Switch]) -> Result<ProviderModels, Failure> {
        let mut table = self.table.clone();
        if let Some(provider) = &self.provider {
            let switches = self.quirks.iter().chain(more);
            let switches: Object =
                switches.map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
            let quirks: Quirks = serde_json::from_value(Value::Object(switches))
                .map_err(|error| failure(FailureKind::Internal, error.to_string()))?;
            let providers = self.table.providers().with_quirks(provider, &quirks);
            table = table.with_providers(Arc::new(providers));
        }
        let session = SessionId(String::new());
        let models = ProviderModels::new(self.manager.clone(), Arc::new(table), &session);
        models.model(&self.name)?;
        Ok(models)
    }

    /// Sends a request; if the service rejects it, with each of the switches, then with all.
    async fn send_with_switches(
        &mut self,
        request: Request,
        switches: &[Switch],
    ) -> Result<Answer, Failure> {
        let plain = self.send(&request, &[]).await;
        let Err(rejected) = &plain else { return plain };
        if self.provider.is_none() || rejected.kind != FailureKind::Api {
            return plain;
        }
        let all = (switches.len() > 1).then_some(switches);
        for some in switches.chunks(1).chain(all) {
            if let Ok(answer) = self.send(&request, some).await {
                self.quirks.extend(some);
                return Ok(answer);
            }
        }
        plain
    }

    /// Like [`Self::send_with_switches`], and sends the request again with a higher output limit if the model
    /// was still thinking at `tokens`.
    async fn send_with_higher_limit(
        &mut self,
        request: Request,
        switches: &[Switch],
        tokens: u32,
    ) -> Result<Answer, Failure> {
        let answer = self.send_with_switches(request.clone(), switches).await?;
        if !is_cut_while_thinking(&answer) {
            return Ok(answer);
        }
        let mut request = request;
        self.limit_output(&mut request, tokens.saturating_mul(THINKING_FACTOR));
        self.send(&request, &[]).await
    }

    fn request(&self, prompt: &str, tool: Option<Box<RawValue>>, tokens: u32) -> Request {
        let mut request = Request {
            model: self.name.clone(),
            system: "You are a test. Answer briefly.".into(),
            contents: vec![Content::user(vec![Part::text(prompt)]).seal()],
            tools: tool.map_or(ToolSet::None, |tool| ToolSet::Functions(Arc::from(tool))),
            generation: Object::new(),
            role: "main".to_owned(),
            alias: String::new(),
            max_attempts: Some(2),
            has_fallback: false,
            is_retry: false,
            continuation: None,
        };
        self.limit_output(&mut request, tokens);
        request
    }

    fn limit_output(&self, request: &mut Request, tokens: u32) {
        let limit = json!(tokens.saturating_mul(self.factor));
        request.generation.insert("maxOutputTokens".to_owned(), limit);
    }

    async fn send(&self, request: &Request, switches: &[Switch]) -> Result<Answer, Failure> {
        self.manager.step(&self.models(switches)?, request.clone()).await
    }

    fn report(self, steps: Vec<TestStep>) -> ModelTestReport {
        let needed = self.provider.filter(|_| !self.quirks.is_empty());
        ModelTestReport { steps, needed_quirks: needed.map(|provider| (provider, self.quirks)) }
    }
}

impl ProviderManager {
    /// Returns a model with what its provider reports about it.
    ///
    /// # Errors
    /// Returns an error if the provider is unknown or the request fails.
    pub async fn describe_model(&self, name: &str, limit: Duration) -> Result<KnownModel, Failure> {
        let table = self.checked_model_table()?;
        let name = table.resolve(name);
        if let Some(reason) = invalid_name(&table, &name) {
            return Err(failure(FailureKind::Input, reason));
        }
        let Some((provider, id)) = table.providers().split(&name) else {
            return Ok(to_known_model(&table, "gemini", name, String::new(), None));
        };
        let configured_model = self.models_without_request().into_iter().find(|it| it.name == name);
        let listed = self.list_models(Some(&provider.name), limit).await.pop();
        let listed = match listed.map(|it| it.models) {
            Some(Ok(models)) => models.into_iter().find(|it| it.name == name),
            // A service without a model list may still have models.
            Some(Err(failure))
                if failure.status != Some(404)
                    && configured_model.is_none()
                    && !table.is_discovered(&name)
                    && !table.is_listed(&name) =>
            {
                return Err(failure);
            }
            _ => None,
        };
        let unknown = || to_known_model(&table, &provider.name, name.clone(), String::new(), None);
        let mut known = configured_model.or(listed).unwrap_or_else(unknown);
        let is_stated = provider.model(id).is_some_and(|it| it.context_window.is_some());
        if provider.is_local() && !is_stated {
            // The list of a local server may not contain the window that it serves.
            let clients = ProviderModels::new(
                self.clone(),
                Arc::new(table.clone()),
                &SessionId(String::new()),
            );
            let owned = provider.clone();
            let client_task = tokio::task::spawn_blocking(move || clients.http_model(&owned));
            if let Ok(Ok(Ok(Some(client)))) = tokio::time::timeout(limit, client_task).await {
                client.inspect(&name).await;
            }
            if let Some(window) = table.reported_window(&name) {
                (known.context_window, known.context_is_known) = (window, true);
            }
        }
        Ok(known)
    }

    /// Sends a few small requests to a model, and calls `on_step` with each result. Where one
    /// fails, tries the known deviations of servers.
    ///
    /// # Errors
    /// Returns an error if the provider is unknown or has no usable credentials.
    pub async fn test_model(
        &self,
        name: &str,
        on_step: impl Fn(&TestStep),
    ) -> Result<ModelTestReport, Failure> {
        let table = self.checked_model_table()?;
        let name = table.resolve(name);
        let provider = table.providers().split(&name).map(|(provider, _)| provider);
        let is_chat = provider.is_some_and(|provider| provider.wire == WireKind::OpenAiChat);
        let is_local = provider.is_some_and(|it| it.is_local() || it.is_on_loopback());
        let factor = if is_local { 1 } else { HOSTED_FACTOR };
        let mut steps = Vec::new();
        let mut add = |step: TestStep| {
            on_step(&step);
            steps.push(step);
        };
        let provider = provider.filter(|_| is_chat).map(|provider| provider.name.clone());
        let mut probe = Probe { manager: self, table, name, provider, quirks: Vec::new(), factor };
        probe.models(&[])?;
        let text = probe.request("Reply with the word: ready", None, TEXT_TOKENS);
        let text = probe.send_with_switches(text, &QUIRKS_OF_PROMPTS).await;
        add(TestStep {
            name: "text",
            passed: text.as_ref().is_ok_and(|answer| {
                !answer.text().trim().is_empty() || is_cut_while_thinking(answer)
            }),
            detail: describe(&text, |answer| match is_cut_while_thinking(answer) {
                true => STILL_THINKING.to_owned(),
                false => answer.text(),
            }),
        });
        if text.is_err() {
            return Ok(probe.report(steps));
        }
        let tool = json!([{"name": TOOL, "description": "Reports a color.",
            "parametersJsonSchema": {"type": "object",
                "properties": {"color": {"type": "string"}}, "required": ["color"]}}]);
        let tool = to_raw_value(&tool)
            .map_err(|error| failure(FailureKind::Internal, error.to_string()))?;
        let prompt = "Call the tool `report_color` with the color `blue`.";
        let request = probe.request(prompt, Some(tool), TOOL_TOKENS);
        let called =
            probe.send_with_higher_limit(request.clone(), &QUIRKS_OF_TOOLS, TOOL_TOKENS).await;
        add(TestStep {
            name: "tools",
            passed: called
                .as_ref()
                .is_ok_and(|answer| call_of(answer).is_some() || is_cut_while_thinking(answer)),
            detail: describe(&called, |answer| match call_of(answer) {
                Some(call) => call,
                None if is_cut_while_thinking(answer) => STILL_THINKING.to_owned(),
                None => {
                    "the model did not call the tool, and the agent requires tool calls".to_owned()
                }
            }),
        });
        if let Some(mut request_after_call) =
            called.ok().and_then(|answer| with_tool_result(request, &answer))
        {
            probe.limit_output(&mut request_after_call, TEXT_TOKENS);
            let answer = probe.send_with_switches(request_after_call, &QUIRKS_OF_RESULTS).await;
            add(TestStep {
                name: "results",
                passed: answer.is_ok(),
                detail: describe(&answer, Answer::text),
            });
        }
        let mut json_request =
            probe.request("Give the color of the sky as JSON.", None, JSON_TOKENS);
        json_request.generation.insert(
            "responseJsonSchema".to_owned(),
            json!({"type": "object", "properties": {"color": {"type": "string"}},
                "required": ["color"], "additionalProperties": false}),
        );
        json_request.generation.insert("responseMimeType".to_owned(), json!("application/json"));
        let answer = probe.send_with_higher_limit(json_request, &[], JSON_TOKENS).await;
        let is_json = |answer: &Answer| {
            is_cut_while_thinking(answer)
                || serde_json::from_str::<Object>(answer.text().trim()).is_ok()
        };
        add(TestStep {
            name: "json",
            passed: answer.as_ref().is_ok_and(is_json),
            detail: describe(&answer, |answer| match is_cut_while_thinking(answer) {
                true => STILL_THINKING.to_owned(),
                false => answer.text(),
            }),
        });
        Ok(probe.report(steps))
    }

    async fn step(&self, models: &ProviderModels, request: Request) -> Result<Answer, Failure> {
        let cancel = CancellationToken::new();
        let answer = models.generate(request, cancel.clone());
        let answer = tokio::time::timeout(STEP_LIMIT, answer).await.unwrap_or_else(|_| {
            cancel.cancel();
            Err(ModelError::Unavailable {
                status: None,
                delay: None,
                class: "timeout",
                message: format!("no response within {} s", STEP_LIMIT.as_secs()),
            })
        });
        answer.map_err(model_failure)
    }
}

fn describe(answer: &Result<Answer, Failure>, of: impl Fn(&Answer) -> String) -> String {
    match answer {
        Ok(answer) => of(answer).trim().chars().take(100).collect(),
        Err(failure) => failure.message.clone(),
    }
}

/// Whether the output limit ended an answer of which only thoughts were received.
fn is_cut_while_thinking(answer: &Answer) -> bool {
    let finish = answer.metadata.finish.as_ref();
    answer.text().trim().is_empty()
        && call_of(answer).is_none()
        && finish.is_some_and(|finish| finish.reason == FinishReason::MaxTokens)
}

fn call_of(answer: &Answer) -> Option<String> {
    answer.parts.iter().find_map(|part| match part.view() {
        PartView::Call(call) if call.name == TOOL => {
            let args = call.args.map(|args| serde_json::to_string(args).unwrap_or_default());
            Some(format!("{}({})", call.name, args?))
        }
        _ => None,
    })
}

/// Returns the request after the call: with the call and its result.
fn with_tool_result(mut request: Request, answer: &Answer) -> Option<Request> {
    let call = answer.parts.iter().find_map(|part| match part.view() {
        PartView::Call(call) if call.name == TOOL => Some(call),
        _ => None,
    })?;
    let mut response = Object::new();
    response.insert("output".to_owned(), json!("reported"));
    let result = Part::function_response(call.id, TOOL, response, Vec::new());
    let called = Content::model(answer.parts.clone()).seal_for(&request.model);
    request.contents.extend([called, Content::user(vec![result]).seal()]);
    Some(request)
}
