//! `modelConfigs` of the settings: aliases that extend one another, overrides by model and
//! role, model definitions.

use std::collections::BTreeMap;

use parallax_protocol::Object;
use serde::Deserialize;
use serde_json::Value;

use crate::fallback_chains::ChainEntry;
use crate::prices::PriceSetting;
use crate::utility_requests::utility_name;

/// Maximum length of an `extends` chain.
const MAX_CHAIN: usize = 100;

/// `modelConfigs` in the settings is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ModelConfigError {
    /// An alias extends itself, directly or indirectly.
    #[error("the model alias `{alias}` in `modelConfigs` extends itself: remove the cycle")]
    Circle {
        /// The name.
        alias: String,
    },
    /// A value has the wrong type.
    #[error("invalid `modelConfigs.{key}` in the settings: {source}")]
    Shape {
        /// The key in `modelConfigs`.
        key: String,
        /// The type error.
        source: serde_json::Error,
    },
}

/// The parsed `modelConfigs`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelConfigs {
    aliases: BTreeMap<String, Alias>,
    /// The overrides, from general to specific.
    overrides: Vec<Override>,
    pub(crate) definitions: BTreeMap<String, Definition>,
    /// Fallback chains by name.
    pub(crate) chains: BTreeMap<String, Vec<ChainEntry>>,
    /// Prices by name or name prefix.
    pub(crate) prices: BTreeMap<String, PriceSetting>,
    /// The context windows, for all models or by name.
    windows: BTreeMap<String, u64>,
    window: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Alias {
    extends: Option<String>,
    model_config: AliasConfig,
    context_window: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AliasConfig {
    model: Option<String>,
    generate_content_config: Object,
    context_window: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Override {
    #[serde(rename = "match")]
    matches: OverrideMatch,
    model_config: AliasConfig,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OverrideMatch {
    model: Option<String>,
    override_scope: Option<String>,
    is_retry: Option<bool>,
}

/// A model defined by the user.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionSetting {
    family: Option<String>,
    features: Features,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Features {
    thinking: Option<bool>,
    multimodal_tool_use: Option<bool>,
}

/// A model defined by the user, in the form that the table needs.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// The model or family whose row it uses (`gemini-3`).
    pub(crate) family: Option<String>,
    pub(crate) thinking: Option<bool>,
    pub(crate) multimodal_tool_results: Option<bool>,
    pub(crate) context: Option<u64>,
    pub(crate) output: Option<u64>,
}

impl From<DefinitionSetting> for Definition {
    fn from(text: DefinitionSetting) -> Self {
        // "custom" has no version: it uses the row of other models anyway.
        Self {
            family: text.family,
            thinking: text.features.thinking,
            multimodal_tool_results: text.features.multimodal_tool_use,
            context: text.context_window,
            output: text.max_output_tokens,
        }
    }
}

impl ModelConfigs {
    pub(crate) fn read(settings: &Value) -> Result<Self, ModelConfigError> {
        fn take<T: serde::de::DeserializeOwned + Default>(
            settings: &Value,
            key: &str,
        ) -> Result<T, ModelConfigError> {
            match settings.get(key) {
                None | Some(Value::Null) => Ok(T::default()),
                Some(value) => T::deserialize(value)
                    .map_err(|source| ModelConfigError::Shape { key: key.to_owned(), source }),
            }
        }
        let mut aliases: BTreeMap<String, Alias> = take(settings, "aliases")?;
        aliases.extend(take::<BTreeMap<String, Alias>>(settings, "customAliases")?);
        let mut overrides: Vec<Override> = take(settings, "overrides")?;
        overrides.extend(take::<Vec<Override>>(settings, "customOverrides")?);
        overrides.sort_by_key(|item| {
            let OverrideMatch { model, override_scope, is_retry } = &item.matches;
            u8::from(model.is_some())
                + u8::from(override_scope.is_some())
                + u8::from(is_retry.is_some())
        });
        let definitions: BTreeMap<String, DefinitionSetting> = take(settings, "modelDefinitions")?;
        let (window, windows) = match settings.get("contextWindow") {
            Some(Value::Number(number)) => (number.as_u64(), BTreeMap::new()),
            _ => (None, take(settings, "contextWindow")?),
        };
        let configs = Self {
            aliases,
            overrides,
            definitions: definitions.into_iter().map(|(id, text)| (id, text.into())).collect(),
            chains: take(settings, "modelChains")?,
            prices: take(settings, "prices")?,
            windows,
            window,
        };
        for name in configs.aliases.keys() {
            let chain = configs.chain(name);
            let last_extends = chain.last().and_then(|alias| alias.extends.as_ref());
            if last_extends.is_some_and(|parent| configs.aliases.contains_key(parent)) {
                return Err(ModelConfigError::Circle { alias: name.clone() });
            }
        }
        Ok(configs)
    }

    /// Returns the names that the settings define: aliases, then definitions.
    pub(crate) fn names(&self) -> Vec<String> {
        let aliases = self.aliases.keys().filter(|name| !is_preset(name));
        aliases.chain(self.definitions.keys()).cloned().collect()
    }

    /// Returns the alias and those it extends, leaf first; stops at a cycle.
    fn chain(&self, name: &str) -> Vec<&Alias> {
        let mut chain: Vec<&Alias> = Vec::new();
        let mut seen = vec![name];
        let mut next = self.aliases.get(name);
        while let Some(alias) = next {
            chain.push(alias);
            if chain.len() > MAX_CHAIN {
                break;
            }
            next = match alias.extends.as_deref() {
                Some(parent) if !seen.contains(&parent) => {
                    seen.push(parent);
                    self.aliases.get(parent)
                }
                _ => None,
            };
        }
        chain
    }

    /// Returns the model that an alias resolves to.
    pub(crate) fn model_of(&self, name: &str) -> Option<String> {
        let chain = self.chain(name);
        let named = chain.iter().find_map(|alias| alias.model_config.model.clone());
        // An alias may extend a model, or a built-in alias.
        named.or_else(|| chain.last()?.extends.clone().filter(|parent| !is_preset(parent)))
    }

    /// Returns likely mistakes in aliases: those that extend a name unknown to `is_known`, and the
    /// requested one if it resolves to no model.
    pub(crate) fn warnings_for(&self, asked: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let missing = self.aliases.iter().filter_map(|(name, alias)| {
            let parent = alias.extends.as_deref()?;
            let known = self.aliases.contains_key(parent)
                || self.definitions.contains_key(parent)
                || is_preset(parent)
                || is_known(parent);
            (!known).then(|| {
                format!(
                    "the model alias `{name}` extends `{parent}`, which is neither an alias nor \
                        a known model; it is used as a model name"
                )
            })
        });
        let mut warnings_for: Vec<String> = missing.collect();
        if self.aliases.contains_key(asked) && !is_known(asked) && self.model_of(asked).is_none() {
            warnings_for.push(format!(
                "the model alias `{asked}` resolves to no model (`modelConfig.model`), so \
                    `{asked}` is requested from the service"
            ));
        }
        warnings_for
    }

    /// Whether an alias or an override of the settings concerns the name.
    pub(crate) fn is_known_name(&self, name: &str) -> bool {
        let named = |item: &Override| item.matches.model.as_deref() == Some(name);
        self.aliases.contains_key(name) || self.overrides.iter().any(named)
    }

    /// Returns the name and those that it extends, root first. The settings may not define the
    /// root.
    pub(crate) fn ancestors<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let parents = self.chain(name).into_iter().filter_map(|alias| alias.extends.as_deref());
        let mut names: Vec<&str> = std::iter::once(name).chain(parents).collect();
        names.reverse();
        names
    }

    /// Applies the aliases of these names in order.
    pub(crate) fn apply_aliases(&self, generation: &mut Object, names: &[&str]) {
        for alias in names.iter().filter_map(|name| self.aliases.get(*name)) {
            merge(generation, &alias.model_config.generate_content_config);
        }
    }

    /// Applies the overrides for these names, which go from general to specific.
    pub(crate) fn apply_overrides(
        &self,
        generation: &mut Object,
        names: &[&str],
        role: &str,
        is_retry: bool,
    ) {
        let rank = |item: &Override| match &item.matches.model {
            None => Some(0),
            Some(model) => names.iter().position(|name| name == model).map(|index| index + 1),
        };
        let matches =
            self.overrides.iter().filter(|item| item.matches.matches_call(role, is_retry));
        let mut matches: Vec<_> = matches.filter_map(|item| Some((rank(item)?, item))).collect();
        matches.sort_by_key(|(rank, _)| *rank);
        for (_, item) in matches {
            merge(generation, &item.model_config.generate_content_config);
        }
    }

    /// Returns the model that an override substitutes for a name.
    pub(crate) fn override_model(&self, name: &str) -> Option<String> {
        let lineage = self.ancestors(name);
        let matches = self.overrides.iter().filter(|item| {
            let model = item.matches.model.as_deref();
            model.is_some_and(|model| lineage.contains(&model) && !is_preset(model))
                && item.matches.matches_call("main", false)
        });
        matches.filter_map(|item| item.model_config.model.clone()).next_back()
    }

    pub(crate) fn differs_on_retry(&self) -> bool {
        self.overrides.iter().any(|item| item.matches.is_retry.is_some())
    }

    pub(crate) fn context_window(&self, model: &str) -> Option<u64> {
        let definition_context = self.definitions.get(model).and_then(|d| d.context);
        let alias_context = || {
            let leading_here = |alias: &&Alias| alias.model_config.model.as_deref() == Some(model);
            let by_name = self.aliases.get(model);
            by_name
                .into_iter()
                .chain(self.aliases.values().filter(leading_here))
                .find_map(|alias| alias.context_window.or(alias.model_config.context_window))
        };
        let override_context = || {
            let matches = self.overrides.iter().rev();
            matches
                .filter(|item| item.matches.model.as_deref().is_none_or(|name| name == model))
                .find_map(|item| item.model_config.context_window)
        };
        definition_context
            .or_else(|| self.windows.get(model).copied())
            .or_else(alias_context)
            .or_else(override_context)
            .or(self.window)
            .filter(|window| *window > 0)
    }
}

impl OverrideMatch {
    /// Whether it matches the request's role and retry state; the model is checked elsewhere.
    fn matches_call(&self, role: &str, is_retry: bool) -> bool {
        let scope = |scope: &String| {
            (scope == "core" && role == "main") || utility_name(scope) == utility_name(role)
        };
        self.override_scope.as_ref().is_none_or(scope)
            && self.is_retry.is_none_or(|expected| expected == is_retry)
    }
}

/// Whether this is a Gemini CLI preset: presets have settings but no model. Their initial values
/// are the defaults of the model families.
fn is_preset(name: &str) -> bool {
    matches!(name, "base" | "chat-base" | "chat-base-2.5" | "chat-base-3" | "custom")
}

/// Merges `over` into `base`: objects are merged, other values are replaced.
pub fn merge(base: &mut Object, over: &Object) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::Object;
    use parallax_protocol::model::{Request, ToolSet};
    use serde_json::{Value, json};

    use crate::table::ModelTable;

    fn table(settings: Value) -> ModelTable {
        ModelTable::from_settings(&settings).expect("good settings")
    }

    fn request(alias: &str, model: &str, role: &str) -> Request {
        Request {
            model: model.to_owned(),
            system: "".into(),
            contents: Vec::new(),
            tools: ToolSet::None,
            generation: Object::new(),
            role: role.to_owned(),
            alias: alias.to_owned(),
            max_attempts: None,
            has_fallback: false,
            is_retry: false,
            continuation: None,
        }
    }

    fn settings(table: &ModelTable, alias: &str, model: &str) -> Value {
        Value::Object(table.generation(&request(alias, model, "main"), false))
    }

    #[test]
    fn presets_are_the_roots_of_requested_aliases() {
        let set =
            |n: u32| json!({"modelConfig": {"generateContentConfig": {"seed": n, "topK": n}}});
        let table = table(json!({"customAliases": {
            "base": set(1), "chat-base": set(2), "chat-base-3": set(3),
            "my": {"extends": "chat-base-3", "modelConfig": {"model": "gemini-3-x",
                "generateContentConfig": {"seed": 4}}},
        }}));
        assert_eq!(settings(&table, "my", "gemini-3-x"), json!({"seed": 4, "topK": 3}));
        assert_eq!(settings(&table, "auto", "gemini-3-x"), json!({"seed": 3, "topK": 3}));
        assert_eq!(settings(&table, "", "gemini-2.5-pro"), json!({"seed": 2, "topK": 2}));
        assert_eq!(settings(&table, "web-search", "gemini-3-x"), json!({"seed": 1, "topK": 1}));
    }

    #[test]
    fn overrides_match_every_name_of_the_chain() {
        let over = |name: &str, n: u32| {
            json!({"match": {"model": name},
                "modelConfig": {"generateContentConfig": {"seed": n}}})
        };
        let seed = |overrides: Value, alias: &str| {
            let table = table(json!({"customOverrides": overrides, "customAliases": {
                "root": {"modelConfig": {"model": "gemini-3-x"}}, "my": {"extends": "root"}}}));
            settings(&table, alias, "gemini-3-x").get("seed").and_then(Value::as_u64)
        };
        for name in ["base", "chat-base", "chat-base-3", "gemini-3-x", "root", "my"] {
            assert_eq!(seed(json!([over(name, 7)]), "my"), Some(7), "{name}");
        }
        assert_eq!(seed(json!([over("my", 7)]), "root"), None);
        assert_eq!(seed(json!([over("my", 2), over("chat-base", 1)]), "my"), Some(2));
        assert_eq!(seed(json!([over("web-search", 5)]), "web-search"), Some(5));
    }

    #[test]
    fn utility_models_follow_alias_override_and_family() {
        let table = table(json!({
            "customAliases": {"chat-compression-2.5-pro": {"modelConfig": {"model": "small"}},
                "chat-compression-default": {"modelConfig": {"model": "other"}}},
            "customOverrides": [{"match": {"model": "web-search"}, "modelConfig": {"model": "s"}}],
        }));
        assert_eq!(table.utility("chat-compression", "gemini-2.5-pro"), "small");
        assert_eq!(table.utility("chat-compression", "gemini-3-pro-preview"), "other");
        assert_eq!(table.utility("web-search", "gemini-3-pro-preview"), "s");
        let plain = ModelTable::default();
        assert_eq!(plain.utility("chat-compression", "m"), "m");
        assert_eq!(
            plain.utility_alias("chat_compression", "gemini-3.5-flash"),
            "chat-compression-3-flash"
        );
    }

    #[test]
    fn aliases_extend_and_merge_from_root_to_leaf() {
        let table = table(json!({"customAliases": {
            "root": {"modelConfig": {"model": "flash", "generateContentConfig":
                {"temperature": 1, "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": true}}}},
            "leaf": {"extends": "root", "modelConfig": {"generateContentConfig":
                {"thinkingConfig": {"thinkingLevel": "HIGH"}}}},
            "mine": {"extends": "gemini-2.5-pro"},
            "web-search": {"extends": "base", "modelConfig": {"model": "my-search"}},
        }}));
        assert_eq!(table.resolve("leaf"), "gemini-3.8-flash");
        assert_eq!(
            settings(&table, "leaf", "gemini-3.8-flash"),
            json!({"temperature": 1, "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": true}})
        );
        assert_eq!(table.resolve("mine"), "gemini-2.5-pro");
        assert_eq!(table.utility("web_search", "gemini-3-x"), "my-search");
    }

    #[test]
    fn aliases_of_unknown_models_are_reported() {
        let table = table(json!({"customAliases": {
            "a": {"extends": "nope"}, "b": {"extends": "chat-base-3"},
            "good": {"extends": "flash"}, "better": {"extends": "good"},
            "web-search": {"extends": "base"}, "old": {"extends": "gemini-2.5-pro"},
        }}));
        let warnings_for = table.warnings_for("flash");
        assert_eq!(warnings_for.len(), 1, "{warnings_for:?}");
        assert!(warnings_for[0].contains("`a` extends `nope`"));
        assert_eq!(table.warnings_for("better").len(), 1);
        let warnings_for = table.warnings_for("b");
        assert!(
            warnings_for.len() == 2 && warnings_for[1].contains("`b` resolves to no model"),
            "{warnings_for:?}"
        );
    }

    #[test]
    fn alias_cycles_and_invalid_shapes_are_errors() {
        let circle = json!({"customAliases": {"a": {"extends": "b"}, "b": {"extends": "a"}}});
        let error = ModelTable::from_settings(&circle).expect_err("a circle").to_string();
        assert!(error.contains("extends itself"), "{error}");
        assert!(
            ModelTable::from_settings(&json!({"customAliases": {"a": {"extends": "a"}}})).is_err()
        );
        let error = ModelTable::from_settings(&json!({"customOverrides": 7})).expect_err("shape");
        assert!(error.to_string().contains("modelConfigs.customOverrides"));
        assert!(ModelTable::from_settings(&Value::Null).is_ok());
    }

    #[test]
    fn specific_overrides_win() {
        let set = |n: u32| json!({"generateContentConfig": {"seed": n}});
        let table = table(json!({"customOverrides": [
            {"match": {"model": "m", "overrideScope": "core", "isRetry": true}, "modelConfig": set(3)},
            {"match": {"model": "m", "overrideScope": "core"}, "modelConfig": set(2)},
            {"match": {"model": "m"}, "modelConfig": set(1)},
        ]}));
        let seed = |model: &str, role: &str, retry| {
            let generation = table.generation(&request("", model, role), retry);
            generation.get("seed").and_then(Value::as_u64)
        };
        assert_eq!(seed("m", "main", true), Some(3));
        assert_eq!(seed("m", "main", false), Some(2));
        assert_eq!(seed("m", "reviewer", false), Some(1));
        assert_eq!(seed("other", "main", true), None);
        assert!(table.differs_on_retry());
    }

    #[test]
    fn definitions_change_limits() {
        let table = table(json!({
            "modelDefinitions": {"local": {"family": "gemini-3", "features": {"thinking": false,
                "multimodalToolUse": true}, "contextWindow": 9000, "maxOutputTokens": 100}},
            "contextWindow": {"gemini-3-pro-preview": 5000},
        }));
        let limits = table.limits("local");
        assert_eq!(
            (limits.context, limits.output, limits.multimodal_tool_results),
            (9000, 100, true)
        );
        assert_eq!(table.limits("gemini-3-pro-preview").context, 5000);
        assert_eq!(table.limits("gemini-2.5-pro").context, 1_048_576);
    }
}
