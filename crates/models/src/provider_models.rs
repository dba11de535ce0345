//! The limits of models of other providers.

use parallax_protocol::model::Limits;

use crate::listed_models::listed_model;
use crate::providers::{DEFAULT_SOURCE, Provider, ProviderModel, WireKind};

/// The window of models that are not known: most hosted ones have more, and a request that is too
/// long compacts the history.
const HOSTED_WINDOW: u64 = 128_000;
/// The window that local servers are asked for, or are expected to have.
const LOCAL_WINDOW: u64 = 32_768;
const OUTPUT: u64 = 16_384;
/// Providers that are servers of the user's own.
const LOCAL_SERVERS: &[&str] = &["ollama", "lmstudio", "llamacpp", "vllm"];

impl Provider {
    /// Whether it has a key or an address of the user's, so that it is expected to answer.
    pub fn is_configured(&self) -> bool {
        self.needs_key || !self.base_url_source.starts_with(DEFAULT_SOURCE)
    }

    /// Whether it is a server on this machine or one of the well-known servers for it.
    pub fn is_local(&self) -> bool {
        let host = self.base_url.split_once("://").map_or("", |(_, rest)| rest);
        let is_here = ["127.", "localhost", "[::1]"].iter().any(|start| host.starts_with(start));
        !self.needs_key && (is_here || LOCAL_SERVERS.contains(&self.name.as_str()))
    }

    /// The model of this id, if the settings describe it.
    pub fn model(&self, id: &str) -> Option<&ProviderModel> {
        self.models.iter().find(|model| model.id == id)
    }
}

/// The limits of a model.
pub(crate) fn provider_limits(provider: &Provider, id: &str) -> Limits {
    let known = provider.model(id);
    let listed = listed_model(&provider.name, id);
    let window = match (listed, provider.needs_key) {
        (Some(listed), _) => listed.context,
        (None, true) => hosted_window(provider, id),
        (None, false) => LOCAL_WINDOW,
    };
    let output = listed.map(|listed| listed.output).filter(|output| *output > 0);
    Limits {
        context: known.and_then(|model| model.context_window).unwrap_or(window),
        output: known.and_then(|model| model.max_output).or(output).unwrap_or(OUTPUT),
        // The adapters put media where the wire wants them.
        multimodal_tool_results: true,
    }
}

/// The windows of well-known families.
fn hosted_window(provider: &Provider, id: &str) -> u64 {
    let name = id.rsplit('/').next().unwrap_or(id);
    match provider.wire {
        WireKind::Anthropic => 200_000,
        _ if name.starts_with("claude") => 200_000,
        _ if name.starts_with("gpt-5") || name.starts_with("gpt-6") => 400_000,
        _ if name.starts_with("gemini") => 1_048_576,
        _ => HOSTED_WINDOW,
    }
}
