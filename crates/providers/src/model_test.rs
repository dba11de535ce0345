//! Tests the capabilities of a model and its server with small requests.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::content::{Content, Part, PartView};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::{Answer, Model as _, ModelError, Request, ToolSet};
use parallax_protocol::{CancellationToken, Object};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::credential::model_failure;
use crate::model_listing::KnownModel;
use crate::{ProviderManager, ProviderModels, failure};

/// Timeout of one request. A local server may have to load the model first.
const STEP_LIMIT: Duration = Duration::from_secs(180);

/// The tool that the model is asked to call.
const TOOL: &str = "report_color";

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

impl ProviderManager {
    /// Returns a model with what its provider reports about it.
    ///
    /// # Errors
    /// Returns an error if the provider is unknown or the request fails.
    pub async fn describe_model(&self, name: &str, limit: Duration) -> Result<KnownModel, Failure> {
        let table = self.checked_model_table()?;
        let name = table.resolve(name);
        let Some((provider, _)) = table.providers().split(&name) else {
            if let Some(prefix) = table.providers().unknown_prefix(&name) {
                self.require_provider(prefix)?;
            }
            return Ok(self.known_model("gemini", name, String::new(), None));
        };
        let of_settings = self.known_models().into_iter().find(|it| it.name == name);
        let listed = self.list_models(Some(&provider.name), limit).await.pop();
        let listed = match listed.map(|it| it.models) {
            Some(Ok(models)) => models.into_iter().find(|it| it.name == name),
            Some(Err(failure))
                if of_settings.is_none()
                    && !table.is_discovered(&name)
                    && !table.is_listed(&name) =>
            {
                return Err(failure);
            }
            _ => None,
        };
        let unknown = || self.known_model(&provider.name, name.clone(), String::new(), None);
        Ok(of_settings.or(listed).unwrap_or_else(unknown))
    }

    /// Sends a few small requests to a model.
    ///
    /// # Errors
    /// Returns an error if the provider is unknown or has no usable credentials.
    pub async fn test_model(&self, name: &str) -> Result<Vec<TestStep>, Failure> {
        let table = Arc::new(self.checked_model_table()?);
        let name = table.resolve(name);
        let models = ProviderModels::new(self.clone(), table, &SessionId(String::new()));
        models.model(&name)?;
        let text = self.step(&models, request(&name, "Reply with the word: ready", None)?).await;
        let mut steps = vec![TestStep {
            name: "text",
            passed: text.as_ref().is_ok_and(|answer| !answer.text().trim().is_empty()),
            detail: describe(&text, Answer::text),
        }];
        if text.is_err() {
            return Ok(steps);
        }
        let tool = json!([{"name": TOOL, "description": "Reports a color.",
            "parametersJsonSchema": {"type": "object",
                "properties": {"color": {"type": "string"}}, "required": ["color"]}}]);
        let tool = to_raw_value(&tool)
            .map_err(|error| failure(FailureKind::Internal, error.to_string()))?;
        let prompt = "Call the tool `report_color` with the color `blue`.";
        let called = self.step(&models, request(&name, prompt, Some(tool))?).await;
        steps.push(TestStep {
            name: "tools",
            passed: called.as_ref().is_ok_and(|answer| call_of(answer).is_some()),
            detail: describe(&called, |answer| {
                call_of(answer).unwrap_or_else(|| {
                    "the model did not call the tool; an agent cannot work with it".to_owned()
                })
            }),
        });
        let mut json_request = request(&name, "Give the color of the sky as JSON.", None)?;
        json_request.generation.insert(
            "responseJsonSchema".to_owned(),
            json!({"type": "object", "properties": {"color": {"type": "string"}},
                "required": ["color"], "additionalProperties": false}),
        );
        json_request.generation.insert("responseMimeType".to_owned(), json!("application/json"));
        let answer = self.step(&models, json_request).await;
        let is_json =
            |answer: &Answer| serde_json::from_str::<Object>(answer.text().trim()).is_ok();
        steps.push(TestStep {
            name: "json",
            passed: answer.as_ref().is_ok_and(is_json),
            detail: describe(&answer, Answer::text),
        });
        Ok(steps)
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

fn call_of(answer: &Answer) -> Option<String> {
    answer.parts.iter().find_map(|part| match part.view() {
        PartView::Call(call) if call.name == TOOL => {
            let args = call.args.map(|args| serde_json::to_string(args).unwrap_or_default());
            Some(format!("{}({})", call.name, args?))
        }
        _ => None,
    })
}

fn request(model: &str, prompt: &str, tool: Option<Box<RawValue>>) -> Result<Request, Failure> {
    Ok(Request {
        model: model.to_owned(),
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
    })
}
