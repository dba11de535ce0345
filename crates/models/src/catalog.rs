//! The table as the catalog of a session.

use std::sync::PoisonError;

use parallax_protocol::Object;
use parallax_protocol::model::{HostedTools, Limits, ModelCatalog, Request};
use parallax_protocol::price::Price;
use parallax_protocol::routing::{FallbackModel, Routes};
use serde_json::Value;

use crate::model_capabilities::ThinkingControl;
use crate::provider_models::accepts_mime;
use crate::providers::WireKind;
use crate::settings::merge;
use crate::table::{ModelTable, add_sampling};

impl ModelCatalog for ModelTable {
    fn limits(&self, model: &str) -> Limits {
        self.limits(model)
    }

    fn resolve(&self, name: &str) -> String {
        self.resolve(name)
    }

    fn generation(&self, request: &Request) -> Object {
        let mut settings = self.generation(request, false);
        merge(&mut settings, &request.generation);
        add_sampling(&mut settings, request, self);
        settings
    }

    fn configured_generation(&self, request: &Request) -> Object {
        let mut settings = self.configured_settings(request);
        merge(&mut settings, &request.generation);
        if let Some((provider, id)) = self.providers.split(&request.model)
            && let Some(model) = provider.model(id)
        {
            model.drop_unlisted_level(&mut settings);
        }
        // The settings may fit another model, and services reject a larger number.
        let set = settings.get("maxOutputTokens").and_then(Value::as_u64);
        if let (Some(set), Some(limit)) = (set, self.known_output(&request.model))
            && set > limit
        {
            settings.insert("maxOutputTokens".to_owned(), limit.into());
        }
        settings
    }

    fn utility(&self, name: &str, main: &str) -> String {
        self.utility(name, main)
    }

    fn utility_alias(&self, name: &str, main: &str) -> String {
        self.utility_alias(name, main)
    }

    fn accepts_mime(&self, model: &str, mime: &str) -> bool {
        self.providers.split(model).is_none() || accepts_mime(&self.capabilities(model).input, mime)
    }

    fn thinks(&self, model: &str) -> Option<bool> {
        match self.capabilities(model).thinking {
            ThinkingControl::Unknown => None,
            ThinkingControl::Off => Some(false),
            ThinkingControl::Budget | ThinkingControl::Levels(_) => Some(true),
        }
    }

    fn note_context(&self, model: &str, tokens: u64) {
        let mut noted = self.reported_windows.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(model.to_owned(), tokens);
    }

    fn hosted_tools(&self, model: &str) -> HostedTools {
        let Some((provider, _)) = self.providers.split(model) else {
            return HostedTools { search: true, page_reader: true };
        };
        let is_router = provider.name == "openrouter";
        let search = match provider.wire {
            WireKind::Gemini | WireKind::OpenAiResponses | WireKind::Anthropic => true,
            WireKind::OpenAiChat => is_router,
            WireKind::Ollama => false,
        };
        HostedTools { search, page_reader: provider.wire == WireKind::Gemini }
    }

    fn routes(&self, name: &str) -> Option<Routes> {
        self.routes(name)
    }

    fn fallback_models(&self, model: &str, chosen: bool) -> Vec<FallbackModel> {
        self.fallback_models(model, chosen)
    }

    fn attempts(&self, model: &str, chosen: bool) -> Option<u32> {
        self.attempts(model, chosen)
    }

    fn retries_next_prompt(&self, model: &str, chosen: bool) -> bool {
        self.retries_next_prompt(model, chosen)
    }

    fn price(&self, model: &str) -> Option<Price> {
        self.price(model)
    }
}
