//! The model table: families by version number, aliases, limits, and the additions from
//! settings (`modelConfigs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use parallax_protocol::Object;
use parallax_protocol::model::{Limits, Request};
use parallax_protocol::price::Price;
use serde_json::{Value, json};

use crate::discovered::{DescriptionCache, DiscoveredModels, ReadDiscovered};
use crate::families::{Family, ModelVersion, Thinking, builtin_family, version};
use crate::listed_models::{listed_ids, listed_model};
use crate::model_capabilities::{ModelCapabilities, ThinkingControl};
use crate::provider_models::provider_limits;
use crate::providers::Providers;
use crate::settings::{Definition, ModelConfigError, ModelConfigs};
use crate::utility_requests::{builtin_generation, is_utility, settings_name, utility_name};

/// Aliases. `auto` is resolved here, without any request.
const ALIASES: &[(&str, &str)] = &[
    ("auto", "gemini-3.1-pro-preview"),
    ("pro", "gemini-3.1-pro-preview"),
    ("flash", "gemini-3.8-flash"),
    ("flash-lite", "gemini-3.5-flash-lite"),
    ("auto-gemini-3", "gemini-3.1-pro-preview"),
    ("auto-gemini-2.5", "gemini-2.5-pro"),
    // Presets of Gemini CLI contain only settings; as a model name they select the default.
    ("base", "gemini-3.1-pro-preview"),
    ("chat-base", "gemini-3.1-pro-preview"),
    ("chat-base-3", "gemini-3.1-pro-preview"),
    ("chat-base-2.5", "gemini-2.5-pro"),
];

/// The explicit prefix of the models of the Gemini API.
const GEMINI_PREFIX: &str = "gemini:";

/// Models to choose from, with a description: aliases first.
const CHOICES: &[(&str, &str)] = &[
    ("auto", "Selected automatically"),
    ("pro", "For difficult tasks"),
    ("flash", "Fast, for most tasks"),
    ("flash-lite", "Fastest, for small tasks"),
    ("gemini-3.1-pro-preview", "Preview"),
    ("gemini-3-pro-preview", "Preview"),
    ("gemini-3-flash-preview", "Preview"),
    ("gemini-4-argon", "Longest answers"),
    ("gemini-3.8-flash", ""),
    ("gemini-3.5-flash-lite", ""),
    ("gemini-2.5-pro", "Older"),
    ("gemini-2.5-flash", "Older"),
    ("gemini-2.5-flash-lite", "Older"),
];

/// A model to choose.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelChoice {
    /// The name or alias.
    pub name: String,
    /// The model that it resolves to now.
    pub model: String,
    /// A short description; may be empty.
    pub doc: String,
    /// The context window in tokens.
    pub context: u64,
    /// The price, if it is known.
    pub price: Option<Price>,
}

/// Replacements for models of utility requests that do not exist.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("gemini-3.1-pro-preview", "gemini-3-pro-preview"),
    ("gemini-3.8-flash", "gemini-3-flash-preview"),
    ("gemini-3-flash-preview", "gemini-2.5-flash"),
    ("gemini-3.5-flash-lite", "gemini-3.1-flash-lite"),
    ("gemini-3.1-flash-lite", "gemini-2.5-flash-lite"),
];

/// Models that are known but not offered: those of gateways, and special ones.
const UNLISTED_MODELS: &[&str] = &["gemini-3.5-flash", "gemini-3.1-pro-preview-customtools"];

/// The utility request that summarizes a conversation.
const COMPRESSION: &str = "chat-compression";

/// Utility requests that use a flash model, whatever the main model.
const FLASH_UTILITIES: &[&str] = &["web-search", "web-fetch", "web-fetch-fallback"];

/// The model table: built-in rows and the additions from settings.
#[derive(Debug, Clone, Default)]
pub struct ModelTable {
    pub(crate) configs: ModelConfigs,
    /// `general.maxAttempts`; the table's own numbers never exceed it.
    pub(crate) max_attempts: Option<u32>,
    /// The other providers and their models.
    pub(crate) providers: std::sync::Arc<Providers>,
    /// Context windows that services stated, by full name.
    pub(crate) reported_windows: std::sync::Arc<std::sync::Mutex<BTreeMap<String, u64>>>,
    /// Models that services described.
    pub(crate) discovered: DescriptionCache,
    /// Models that the Gemini API described, by name.
    pub(crate) discovered_gemini: DescriptionCache,
}

impl ModelTable {
    /// Returns the built-in table extended by `modelConfigs` from the settings (`customAliases`,
    /// `customOverrides`, `modelDefinitions`, `modelChains`, `contextWindow`). `null` and an empty
    /// object add nothing.
    ///
    /// # Errors
    /// Returns an error if an alias extends itself or a value has the wrong type.
    pub fn from_settings(model_configs: &Value) -> Result<Self, ModelConfigError> {
        Ok(Self { configs: ModelConfigs::read(model_configs)?, ..Self::default() })
    }

    /// Sets the other providers.
    #[must_use]
    pub fn with_providers(mut self, providers: std::sync::Arc<Providers>) -> Self {
        self.providers = providers;
        self
    }

    /// Sets the function that reads descriptions stored by earlier sessions.
    #[must_use]
    pub fn with_discovered(mut self, read: ReadDiscovered) -> Self {
        self.discovered = DescriptionCache::from_stored(read);
        self
    }

    /// Sets the function that reads what the Gemini API described in earlier sessions.
    #[must_use]
    pub fn with_discovered_gemini(mut self, read: ReadDiscovered) -> Self {
        self.discovered_gemini = DescriptionCache::from_stored(read);
        self
    }

    /// Adds descriptions from a service.
    pub fn discover(&self, models: DiscoveredModels) {
        self.discovered.extend(models);
    }

    /// Returns the names of the models of providers that are known without a request: those of the
    /// settings, those that providers listed before, and, for the providers that `is_used`
    /// accepts, those of the built-in table.
    pub fn provider_model_names(&self, is_used: impl Fn(&str) -> bool) -> Vec<String> {
        let configured = self.providers.iter().flat_map(|provider| {
            provider.models.iter().map(|model| format!("{}:{}", provider.name, model.id))
        });
        let built_in = self.providers.iter().filter(|it| is_used(&it.name)).flat_map(|provider| {
            listed_ids(&provider.name).into_iter().map(|id| format!("{}:{id}", provider.name))
        });
        let names: BTreeSet<String> =
            configured.chain(built_in).chain(self.discovered.names()).collect();
        names.into_iter().collect()
    }

    /// Whether the service described the model.
    pub fn is_discovered(&self, model: &str) -> bool {
        self.providers.split(model).is_some() && self.discovered.get(model).is_some()
    }

    /// Returns the context window that a server stated for its model when it was asked.
    pub fn reported_window(&self, model: &str) -> Option<u64> {
        let windows = self.reported_windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.get(model).copied()
    }

    /// Whether the service described the model with its context window.
    pub fn has_discovered_window(&self, model: &str) -> bool {
        let described = self.discovered.get(model);
        self.providers.split(model).is_some()
            && described.is_some_and(|described| described.context_window.is_some())
    }

    /// Returns the other providers.
    pub fn providers(&self) -> &std::sync::Arc<Providers> {
        &self.providers
    }

    /// Sets the configured number of attempts (`general.maxAttempts`).
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Resolves an alias to a model; other names are returned unchanged.
    pub fn resolve(&self, name: &str) -> String {
        let model = match self.configs.model_of(name) {
            Some(model) => model,
            None => name.to_owned(),
        };
        let model = lookup(ALIASES, &model).map_or(model, str::to_owned);
        let model = model.strip_prefix(GEMINI_PREFIX).map(str::to_owned).unwrap_or(model);
        self.configs
            .override_model(name)
            .or_else(|| self.configs.override_model(&model))
            .unwrap_or(model)
    }

    /// Warnings about likely mistakes in the settings' aliases. `requested`: the name of the
    /// session's model.
    pub fn warnings_for(&self, requested: &str) -> Vec<String> {
        self.configs.warnings_for(requested, |name| {
            lookup(ALIASES, name).is_some()
                || builtin_generation(name).is_some()
                || version(name) != ModelVersion::Foreign
        })
    }

    /// Returns the choices of a dialog: built-in names, then the user's.
    pub fn choices(&self) -> Vec<ModelChoice> {
        let built_in = CHOICES.iter().map(|(name, doc)| ((*name).to_owned(), *doc));
        let alias_names = self.configs.names().into_iter().filter(|name| {
            builtin_generation(name).is_none() && CHOICES.iter().all(|(known, _)| known != name)
        });
        let all = built_in.chain(alias_names.map(|name| (name, "From settings")));
        all.map(|(name, doc)| {
            let model = self.resolve(&name);
            let context = self.limits(&model).context;
            let price = self.price(&model);
            ModelChoice { model, doc: doc.to_owned(), context, price, name }
        })
        .collect()
    }

    /// Whether the table, the settings, a script, or the provider define the name.
    pub fn is_known_name(&self, name: &str) -> bool {
        if let Some((provider, id)) = self.providers.split(name)
            && (listed_model(&provider.name, id).is_some()
                || provider.models.iter().any(|model| model.id == id)
                || self.is_discovered(name))
        {
            return true;
        }
        let names = CHOICES.iter().chain(ALIASES).chain(REPLACEMENTS);
        let mut names = names.flat_map(|(one, other)| [*one, *other]);
        name.starts_with("script:")
            || names.any(|known| known == name)
            || UNLISTED_MODELS.contains(&name)
            || self.configs.is_known_name(name)
            || self.configs.definitions.contains_key(name)
            || self.configs.prices.contains_key(name)
    }

    /// Returns the model for a utility request.
    pub fn utility(&self, name: &str, main: &str) -> String {
        let name = self.utility_alias(name, main);
        let model = match self.configs.model_of(&name) {
            Some(model) => self.resolve(&model),
            None if !FLASH_UTILITIES.contains(&name.as_str()) => main.to_owned(),
            None => match version(main) {
                ModelVersion::Foreign => main.to_owned(),
                ModelVersion::Number(number) if number < (3, 0) => "gemini-2.5-flash".to_owned(),
                ModelVersion::Number(_) | ModelVersion::Newest => self.resolve("flash"),
            },
        };
        self.configs.override_model(&name).unwrap_or(model)
    }

    /// Returns the name that settings use for a utility request. Summaries have a name for each
    /// family of the main model, and a general one.
    pub fn utility_alias(&self, name: &str, main: &str) -> String {
        let name = utility_name(name);
        if name != COMPRESSION {
            return name;
        }
        let family = format!("{COMPRESSION}-{}", compression_family(main));
        let standard = format!("{COMPRESSION}-default");
        let names = [family.as_str(), &standard, COMPRESSION, "context-snapshotter"];
        let set = names.into_iter().find(|name| self.configs.is_known_name(name));
        set.map_or(family.clone(), str::to_owned)
    }

    /// Returns the model that the settings assign to a utility request.
    pub(crate) fn set_utility(&self, name: &str) -> Option<String> {
        self.configs.model_of(name).map(|model| self.resolve(&model))
    }

    /// Returns the replacement for a utility model that does not exist.
    pub fn replacement(&self, model: &str) -> Option<&'static str> {
        lookup(REPLACEMENTS, model)
    }

    /// Returns the price of the model: the user's, otherwise the built-in one. Local servers are
    /// free.
    pub fn price(&self, model: &str) -> Option<Price> {
        let price = crate::prices::price(model, &self.configs.prices);
        let provider = || {
            let (provider, id) = self.providers.split(model)?;
            let configured_price = provider.model(id).and_then(|model| model.price);
            let listed = || listed_model(&provider.name, id)?.price;
            configured_price.or_else(listed).or(provider.is_local().then_some(Price::FREE))
        };
        price.or_else(provider)
    }

    /// Whether the limits of a model of another provider are in the built-in table.
    pub fn is_listed(&self, model: &str) -> bool {
        let split = self.providers.split(model);
        split.is_some_and(|(provider, id)| listed_model(&provider.name, id).is_some())
    }

    /// Returns the maximum output of a model of another provider, if it is known.
    pub(crate) fn known_output(&self, model: &str) -> Option<u64> {
        let (provider, id) = self.providers.split(model)?;
        let defined = self.definition(model).and_then(|definition| definition.output);
        let stated = provider.model(id).and_then(|model| model.max_output);
        let described = || self.discovered.get(model)?.max_output;
        let listed = || listed_model(&provider.name, id).map(|listed| listed.output);
        let known = defined.or(stated).or_else(described).or_else(listed);
        known.filter(|output| *output > 0)
    }

    /// Returns the limits of the model.
    pub fn limits(&self, model: &str) -> Limits {
        let family = self.family(model);
        let definition = self.definition(model);
        if let Some((provider, id)) = self.providers.split(model) {
            let mut limits = provider_limits(provider, id);
            let defined = definition.and_then(|definition| definition.context);
            let noted = self
                .reported_windows
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(model)
                .copied();
            let stated = provider.model(id).and_then(|model| model.context_window);
            let described = self.discovered.get(model).unwrap_or_default();
            let window = self.configs.context_window(model).or(defined).or(stated).or(noted);
            limits.context = window.or(described.context_window).unwrap_or(limits.context);
            limits.output = self.known_output(model).unwrap_or(limits.output);
            return limits;
        }
        let described = self.discovered_gemini.get(model).unwrap_or_default();
        let window = self.configs.context_window(model).or(described.context_window);
        let output = definition.and_then(|d| d.output).or(described.max_output);
        Limits {
            context: window.unwrap_or(family.context),
            output: output.unwrap_or(family.output),
            multimodal_tool_results: family.multimodal_tool_results,
            shared_window: family.shared_window,
        }
    }

    /// Returns the settings for a request: those of presets and aliases, root first, then the
    /// overrides.
    pub fn generation(&self, request: &Request, is_retry: bool) -> Object {
        let name = settings_name(request);
        let built_in = builtin_generation(&name);
        let presets: &[&str] = match (&built_in, self.family(&request.model).thinking) {
            (Some(_), _) => &["base"],
            (None, Thinking::Silent) => &["base", "chat-base"],
            (None, Thinking::Budget(_)) => &["base", "chat-base", "chat-base-2.5"],
            (None, Thinking::Level(_)) => &["base", "chat-base", "chat-base-3"],
        };
        let mut names = presets.to_vec();
        for name in [request.model.as_str(), &name] {
            for link in self.configs.ancestors(name) {
                names.retain(|known| *known != link);
                names.push(link);
            }
        }
        let mut generation = built_in.unwrap_or_default();
        self.configs.apply_aliases(&mut generation, &names);
        self.configs.apply_overrides(&mut generation, &names, &request.role, is_retry);
        generation
    }

    /// Returns the settings for a request from the user's aliases and overrides only.
    pub(crate) fn configured_settings(&self, request: &Request) -> Object {
        let mut names: Vec<&str> = Vec::new();
        let name = settings_name(request);
        for name in [request.model.as_str(), &name] {
            for link in self.configs.ancestors(name) {
                names.retain(|known| *known != link);
                names.push(link);
            }
        }
        let mut generation = Object::new();
        self.configs.apply_aliases(&mut generation, &names);
        self.configs.apply_overrides(&mut generation, &names, &request.role, request.is_retry);
        generation
    }

    /// Returns what the model accepts: from the settings, the service, or the built-in table.
    pub fn capabilities(&self, model: &str) -> ModelCapabilities {
        let Some((provider, id)) = self.providers.split(model) else {
            return ModelCapabilities::for_gemini(model, self.family(model).thinking);
        };
        let listed = listed_model(&provider.name, id);
        let stated = provider.model(id).cloned().unwrap_or_default();
        let discovered = || self.discovered.get(model).unwrap_or_default().input;
        let owned =
            |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect();
        let mut input = stated.input;
        if input.is_empty() {
            input = discovered();
        }
        if input.is_empty() {
            input = listed.map(|row| owned(&mut row.input())).unwrap_or_default();
        }
        let is_off = self.definition(model).is_some_and(|it| it.thinking == Some(false));
        let thinking = match (stated.thinking, listed) {
            _ if is_off => ThinkingControl::Off,
            (levels, _) if !levels.is_empty() => ThinkingControl::Levels(levels),
            (_, Some(row)) if row.levels().next().is_none() => ThinkingControl::Off,
            (_, Some(row)) => ThinkingControl::Levels(owned(&mut row.levels())),
            (_, None) => ThinkingControl::Unknown,
        };
        ModelCapabilities { input, thinking }
    }

    /// Whether a retry may need a different body than the first attempt.
    pub fn differs_on_retry(&self) -> bool {
        self.configs.differs_on_retry()
    }

    /// Returns the family of a model.
    pub fn family(&self, model: &str) -> Family {
        let definition = self.definition(model);
        let mut family =
            builtin_family(definition.and_then(|d| d.family.as_deref()).unwrap_or(model));
        if let Some(definition) = definition {
            if let Some(multimodal) = definition.multimodal_tool_results {
                family.multimodal_tool_results = multimodal;
            }
            if definition.thinking == Some(false) {
                family.thinking = Thinking::Silent;
            }
        }
        family
    }

    fn definition(&self, model: &str) -> Option<&Definition> {
        self.configs.definitions.get(model)
    }
}

fn lookup(table: &'static [(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

/// Adds the family's sampling defaults where nothing is set.
pub fn add_sampling(settings: &mut Object, request: &Request, table: &ModelTable) {
    if !table.family(&request.model).sampling {
        return;
    }
    let defaults: &[(&str, Value)] = if is_utility(request) {
        &[("temperature", json!(0)), ("topP", json!(1))]
    } else {
        &[("temperature", json!(1)), ("topP", json!(0.95)), ("topK", json!(64))]
    };
    for (key, value) in defaults {
        settings.entry(*key).or_insert_with(|| value.clone());
    }
}

/// Returns the name that Gemini CLI uses for the model family in `chat-compression-…`.
fn compression_family(model: &str) -> &'static str {
    let name = model.to_ascii_lowercase();
    let is = |word: &str| name.contains(word);
    match version(model) {
        ModelVersion::Foreign => "default",
        ModelVersion::Number(number) if number < (2, 5) => "default",
        ModelVersion::Number((2, _)) if is("flash-lite") => "2.5-flash-lite",
        ModelVersion::Number((2, _)) if is("flash") => "2.5-flash",
        ModelVersion::Number((2, _)) if is("pro") => "2.5-pro",
        ModelVersion::Number((2, _)) => "default",
        _ if is("flash-lite") => "3.1-flash-lite",
        _ if is("flash") => "3-flash",
        _ => "3-pro",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_resolve_without_a_request() {
        let table = ModelTable::default();
        assert_eq!(table.resolve("auto"), "gemini-3.1-pro-preview");
        for (name, known) in [("pro", true), ("gemini-3.1-flash-lite", true), ("nosuch", false)] {
            assert_eq!(table.is_known_name(name), known, "{name}");
        }
        assert_eq!(table.resolve("flash-lite"), "gemini-3.5-flash-lite");
        assert_eq!(table.resolve("gemini-9-x"), "gemini-9-x");
        assert_eq!(table.resolve("chat-base-2.5"), "gemini-2.5-pro");
    }

    #[test]
    fn model_choices_are_built_in_and_user_names() {
        let settings = serde_json::json!({
            "customAliases": {"mine": {"extends": "flash"}, "web-search": {"extends": "pro"}, "base": {}},
            "modelDefinitions": {"local": {"contextWindow": 9000}},
        });
        let table = ModelTable::from_settings(&settings).expect("good settings");
        let choices = table.choices();
        let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
        assert!(names.starts_with(&["auto", "pro", "flash", "flash-lite"]), "{names:?}");
        assert!(names.ends_with(&["gemini-2.5-flash-lite", "mine", "local"]), "{names:?}");
        let last = choices.last().expect("local");
        assert_eq!((last.model.as_str(), last.context), ("local", 9000));
    }

    #[test]
    fn web_utilities_go_to_a_flash_of_the_same_generation() {
        let table = ModelTable::default();
        assert_eq!(table.utility("web_search", "gemini-3-pro-preview"), "gemini-3.8-flash");
        assert_eq!(table.utility("web-fetch", "gemini-2.5-pro"), "gemini-2.5-flash");
        assert_eq!(table.utility("web-fetch", "llama"), "llama");
        assert_eq!(table.utility("chat-compression", "gemini-3-x"), "gemini-3-x");
    }
}
