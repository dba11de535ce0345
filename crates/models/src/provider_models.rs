//! The limits of models of other providers.

use parallax_protocol::Object;
use parallax_protocol::generation::{ThinkingSettings, remove_thinking_level};
use parallax_protocol::local_host::{host_of_url, is_this_machine};
use parallax_protocol::model::Limits;

use crate::listed_models::listed_model;
use crate::providers::{DEFAULT_SOURCE, Provider, ProviderModel, WireKind};

/// The context window of unknown hosted models: most have more, and a request that is too long
/// triggers a compaction.
const HOSTED_WINDOW: u64 = 128_000;
/// The context window that local servers are requested to use, or are assumed to have.
const LOCAL_WINDOW: u64 = 32_768;
const OUTPUT: u64 = 16_384;
/// Providers that run on the user's own machines.
const LOCAL_SERVERS: &[&str] = &["ollama", "lmstudio", "llamacpp", "vllm"];

impl Provider {
    /// Whether the user configured a key or a base URL, so that the provider is expected to
    /// respond.
    pub fn is_configured(&self) -> bool {
        self.needs_key || !self.base_url_source.starts_with(DEFAULT_SOURCE)
    }

    /// Whether it is a server on this machine, or one of the well-known local servers.
    pub fn is_local(&self) -> bool {
        !self.needs_key && (self.is_on_loopback() || LOCAL_SERVERS.contains(&self.name.as_str()))
    }

    /// Whether its base URL is on this machine.
    pub fn is_on_loopback(&self) -> bool {
        is_this_machine(host_of_url(&self.base_url))
    }

    /// Returns the model of this id, if the settings describe it.
    pub fn model(&self, id: &str) -> Option<&ProviderModel> {
        self.models.iter().find(|model| model.id == id)
    }
}

impl ProviderModel {
    /// Removes a thinking level that the model does not support, so that the service chooses one.
    pub(crate) fn drop_unlisted_level(&self, generation: &mut Object) {
        let level = ThinkingSettings::read(generation).level;
        let is_unlisted = |level: &str| {
            !self.thinking.is_empty()
                && !self.thinking.iter().any(|it| it.eq_ignore_ascii_case(level))
        };
        if level.is_some_and(is_unlisted) {
            remove_thinking_level(generation);
        }
    }
}

/// Whether a model accepts data of this MIME type: `input` contains its kind, or is empty.
pub(crate) fn accepts_mime<T: AsRef<str>>(input: &[T], mime: &str) -> bool {
    let kind = match mime.split_once('/') {
        Some((_, "pdf")) => "pdf",
        Some((kind, _)) => kind,
        None => mime,
    };
    input.is_empty() || input.iter().any(|it| [kind, mime].contains(&it.as_ref()))
}

/// Returns the limits of a model.
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
        // The adapters place media as the wire format requires.
        multimodal_tool_results: true,
        shared_window: true,
    }
}

/// Returns the windows of well-known families.
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

#[cfg(test)]
mod tests {
    use parallax_protocol::generation::set_thinking_level;

    use super::*;

    #[test]
    fn input_and_levels_of_settings_limit_what_is_sent() {
        let model = ProviderModel {
            id: "m".to_owned(),
            input: vec!["text".to_owned(), "image".to_owned()],
            thinking: vec!["low".to_owned(), "high".to_owned()],
            ..ProviderModel::default()
        };
        assert!(
            accepts_mime(&model.input, "image/png")
                && !accepts_mime(&model.input, "application/pdf")
        );
        assert!(
            !accepts_mime(&model.input, "audio/wav")
                && accepts_mime::<&str>(&[], "application/pdf")
        );
        let after = |level: &str| {
            let mut settings = Object::new();
            set_thinking_level(&mut settings, level);
            model.drop_unlisted_level(&mut settings);
            ThinkingSettings::read(&settings).level.map(str::to_owned)
        };
        assert_eq!(after("MEDIUM"), None);
        assert_eq!(after("HIGH"), Some("HIGH".to_owned()));
    }
}
