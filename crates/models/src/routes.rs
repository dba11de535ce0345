//! The models that `auto` chooses from, and the fallback chains.

use parallax_protocol::routing::{
    AutoFallback, ClassifierAnswerFormat, FallbackCause, FallbackModel, Routes,
};

use crate::fallback_chains::ChainEntry;
use crate::families::{ModelVersion, version};
use crate::table::ModelTable;

/// Maximum number of attempts with the strong model when a fallback needs no approval.
const FEW_ATTEMPTS: u32 = 3;
const OLD_PRO: &str = "gemini-2.5-pro";
const OLD_FLASH: &str = "gemini-2.5-flash";
/// The flash fallback for an older model that the user named.
const BASE_FLASH: &str = "gemini-3.5-flash";
const OLD_LITE: &str = "gemini-2.5-flash-lite";
/// Models that a key or a gateway may not have yet, and their predecessors.
const PREDECESSORS: &[(&str, &str)] = &[("gemini-3.1-pro-preview", "gemini-3-pro-preview")];

/// The kind of a model by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelTier {
    Pro,
    Flash,
    Lite,
}

fn kind(model: &str) -> Option<ModelTier> {
    let name = model.to_ascii_lowercase();
    [("flash-lite", ModelTier::Lite), ("flash", ModelTier::Flash), ("pro", ModelTier::Pro)]
        .into_iter()
        .find_map(|(word, kind)| name.contains(word).then_some(kind))
}

/// Whether the model belongs to a generation before 3.
fn is_old(model: &str) -> Option<bool> {
    match version(model) {
        ModelVersion::Foreign => None,
        ModelVersion::Newest => Some(false),
        ModelVersion::Number(number) => Some(number < (3, 0)),
    }
}

impl ModelTable {
    /// Returns the models that a name chooses from; `None` when it means a single one.
    pub fn routes(&self, name: &str) -> Option<Routes> {
        let old = match name {
            "auto" | "auto-gemini-3" => false,
            "auto-gemini-2.5" => true,
            _ => return None,
        };
        let strong_model = self.resolve(name);
        let (fast, classifier) = match old {
            true => (OLD_FLASH.to_owned(), OLD_LITE.to_owned()),
            false => (self.resolve("flash"), self.resolve("flash-lite")),
        };
        let classifier = self.set_utility("classifier").unwrap_or(classifier);
        let scale =
            if old { ClassifierAnswerFormat::Choice } else { ClassifierAnswerFormat::Score };
        // The user's alias `auto` may mean a single model.
        (kind(&strong_model) == Some(ModelTier::Pro)).then_some(Routes {
            strong_model,
            fast,
            classifier,
            scale,
        })
    }

    /// Returns the fallbacks of a model, in order. `chosen`: the program selected it. Chains of the
    /// settings override the built-in ones.
    pub fn fallback_models(&self, model: &str, chosen: bool) -> Vec<FallbackModel> {
        if let Some((chain, at)) = self.chain(model, chosen) {
            return self.models_after(chain, at, model, chosen);
        }
        let (Some(kind), Some(old)) = (kind(model), is_old(model)) else { return Vec::new() };
        let (pro, flash) = match old {
            // A model selected by the program falls back within its generation, whose signatures
            // are valid.
            true if chosen => (OLD_PRO.to_owned(), OLD_FLASH.to_owned()),
            true => (OLD_PRO.to_owned(), BASE_FLASH.to_owned()),
            false => (self.resolve("pro"), self.resolve("flash")),
        };
        let (models, auto_fallback) = match kind {
            ModelTier::Pro if chosen => (vec![flash], AutoFallback::PASSING),
            ModelTier::Pro => (vec![flash], AutoFallback::NEVER),
            ModelTier::Flash if chosen => (vec![pro], AutoFallback::PASSING),
            ModelTier::Flash if old => (Vec::new(), AutoFallback::NEVER),
            ModelTier::Flash => (vec![pro], AutoFallback::NEVER),
            ModelTier::Lite => (vec![flash, pro], AutoFallback::ALWAYS),
        };
        let before = PREDECESSORS.iter().find(|(newer, _)| *newer == model);
        let before = before.map(|(_, before)| FallbackModel {
            model: (*before).to_owned(),
            auto_fallback: AutoFallback { not_found: true, ..AutoFallback::NEVER },
            last_resort: false,
            only_for: Some(FallbackCause::NotFound),
        });
        let others = models.into_iter().filter(|other| other != model);
        let others = others.map(|model| FallbackModel {
            model,
            auto_fallback,
            last_resort: false,
            only_for: None,
        });
        before.into_iter().chain(others).collect()
    }

    /// Returns the chain of the settings for a model, and its position in the chain. The chain is
    /// that of its own name, the chain that Gemini CLI uses for its kind, or any chain that
    /// contains it.
    fn chain(&self, model: &str, chosen: bool) -> Option<(&[ChainEntry], usize)> {
        let chains = &self.configs.chains;
        let route_models: &[&str] = match (kind(model), is_old(model), chosen) {
            (Some(ModelTier::Lite), ..) => &["lite"],
            (Some(_), Some(false), true) => &["auto-preview", "preview"],
            (Some(_), Some(false), false) => &["preview"],
            (Some(_), Some(true), true) => &["auto-default", "default"],
            (Some(_), Some(true), false) => &["default"],
            _ => &[],
        };
        let named = std::iter::once(model).chain(route_models.iter().copied());
        let others = chains.keys().map(String::as_str).filter(|name| !name.starts_with("auto-"));
        named.chain(others).find_map(|name| {
            let chain = chains.get(name)?;
            let index = chain.iter().position(|entry| self.resolve(&entry.model) == model)?;
            Some((chain.as_slice(), index))
        })
    }

    /// Returns the models after a position in a chain; chains of `auto` and of generation 3 wrap
    /// around.
    fn models_after(
        &self,
        chain: &[ChainEntry],
        at: usize,
        model: &str,
        chosen: bool,
    ) -> Vec<FallbackModel> {
        let auto_fallback = chain.get(at).map(ChainEntry::auto_fallback).unwrap_or_default();
        let round = chosen || is_old(model) == Some(false);
        let before = chain.iter().take(if round { at } else { 0 });
        let entries = chain.iter().skip(at + 1).chain(before);
        let entries = entries.map(|entry| (self.resolve(&entry.model), entry.is_last_resort));
        entries
            .filter(|(other, _)| other != model && !other.is_empty())
            .map(|(model, last_resort)| FallbackModel {
                model,
                auto_fallback,
                last_resort,
                only_for: None,
            })
            .collect()
    }

    /// Whether a model that had no capacity is tried once at the next prompt.
    pub fn retries_next_prompt(&self, model: &str, chosen: bool) -> bool {
        match self.chain(model, chosen) {
            Some((chain, at)) => chain.get(at).is_some_and(ChainEntry::retries_next_prompt),
            None => chosen,
        }
    }

    /// Returns the maximum number of attempts of a request when there is a fallback.
    pub fn attempts(&self, model: &str, chosen: bool) -> Option<u32> {
        let attempts = match self.chain(model, chosen) {
            Some((chain, at)) => {
                chain.get(at)?.max_attempts.filter(|attempt_limit| *attempt_limit > 0)
            }
            None => (chosen && kind(model) == Some(ModelTier::Pro)).then_some(FEW_ATTEMPTS),
        };
        attempts.map(|few| self.max_attempts.map_or(few, |maximum| few.min(maximum)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_routed_and_other_names_select_one_model() {
        let table = ModelTable::default();
        let routes = table.routes("auto").expect("routes");
        assert_eq!(
            (routes.strong_model.as_str(), routes.scale),
            ("gemini-3.1-pro-preview", ClassifierAnswerFormat::Score)
        );
        assert_eq!(routes.fast, "gemini-3.8-flash");
        let old = table.routes("auto-gemini-2.5").expect("routes");
        assert_eq!(
            (old.strong_model.as_str(), old.scale),
            ("gemini-2.5-pro", ClassifierAnswerFormat::Choice)
        );
        for name in ["pro", "flash", "gemini-3-pro-preview", "local"] {
            assert_eq!(table.routes(name), None, "{name}");
        }
        let settings = serde_json::json!({"customAliases": {
            "auto": {"modelConfig": {"model": "local"}},
            "classifier": {"modelConfig": {"model": "tiny"}}}});
        let own = ModelTable::from_settings(&settings).expect("settings");
        assert_eq!(own.routes("auto"), None);
        assert_eq!(own.routes("auto-gemini-3").expect("routes").classifier, "tiny");
    }

    #[test]
    fn configured_chains_have_precedence() {
        let prompts = serde_json::json!({"terminal": "prompt", "transient": "silent",
            "not_found": "prompt", "unknown": "prompt"});
        let settings = serde_json::json!({"modelChains": {
            "auto-preview": [
                {"model": "pro", "maxAttempts": 2, "actions": prompts,
                    "stateTransitions": {"transient": "sticky_retry", "unknown": "terminal"}},
                {"model": "flash"},
                {"model": "gemini-2.5-pro", "isLastResort": true, "maxAttempts": 10}],
            "own": [{"model": "local", "actions": {"not_found": "silent"}}, {"model": "flash-lite"}],
        }});
        let table = ModelTable::from_settings(&settings).expect("settings");
        let chain = |model: &str, chosen| {
            let chain = table.fallback_models(model, chosen).into_iter();
            chain.map(|it| (it.model, it.auto_fallback, it.last_resort)).collect::<Vec<_>>()
        };
        let pro = "gemini-3.1-pro-preview";
        assert_eq!(
            chain(pro, true),
            [
                ("gemini-3.8-flash".to_owned(), AutoFallback::PASSING, false),
                ("gemini-2.5-pro".to_owned(), AutoFallback::PASSING, true)
            ]
        );
        // It wraps around.
        let names: Vec<_> = chain("gemini-3.8-flash", true).into_iter().map(|it| it.0).collect();
        assert_eq!(names, ["gemini-2.5-pro", pro]);
        assert_eq!(
            (table.attempts(pro, true), table.retries_next_prompt(pro, true)),
            (Some(2), true)
        );
        assert!(!table.retries_next_prompt("gemini-3.8-flash", true));
        // A model that the user named still has the built-in chain.
        let missing = AutoFallback { not_found: true, ..AutoFallback::NEVER };
        assert_eq!(
            chain(pro, false),
            [
                ("gemini-3-pro-preview".to_owned(), missing, false),
                ("gemini-3.8-flash".to_owned(), AutoFallback::NEVER, false)
            ]
        );
        assert_eq!(chain("local", false), [("gemini-3.5-flash-lite".to_owned(), missing, false)]);
        let invalid =
            serde_json::json!({"modelChains": {"x": [{"actions": {"transient": "maybe"}}]}});
        let error = ModelTable::from_settings(&invalid).expect_err("no such action").to_string();
        assert!(error.contains("modelConfigs.modelChains") && error.contains("maybe"), "{error}");
    }

    #[test]
    fn built_in_chains_are_followed() {
        let table = ModelTable::default();
        let chain = |model: &str, chosen| {
            let chain = table.fallback_models(model, chosen).into_iter();
            chain.map(|it| (it.model, it.auto_fallback)).collect::<Vec<_>>()
        };
        let flash = || "gemini-3.8-flash".to_owned();
        assert_eq!(chain("gemini-3-pro-preview", false), [(flash(), AutoFallback::NEVER)]);
        assert_eq!(chain("gemini-3-pro-preview", true), [(flash(), AutoFallback::PASSING)]);
        // A model that does not exist yet falls back to its predecessor, for that cause alone.
        let newest = table.fallback_models("gemini-3.1-pro-preview", true);
        let newest: Vec<_> = newest.into_iter().map(|it| (it.model, it.only_for)).collect();
        let missing = Some(FallbackCause::NotFound);
        assert_eq!(newest, [("gemini-3-pro-preview".to_owned(), missing), (flash(), None)]);
        assert_eq!(chain("gemini-2.5-pro", false), [(BASE_FLASH.to_owned(), AutoFallback::NEVER)]);
        assert_eq!(chain("gemini-2.5-pro", true), [(OLD_FLASH.to_owned(), AutoFallback::PASSING)]);
        assert_eq!(chain("gemini-2.5-flash", false), []);
        let lite = chain("gemini-3.5-flash-lite", false);
        assert_eq!(
            lite.iter().map(|(_, auto_fallback)| *auto_fallback).collect::<Vec<_>>(),
            [AutoFallback::ALWAYS; 2]
        );
        assert_eq!(chain("llama", true), []);
        assert_eq!(table.attempts("gemini-3-pro-preview", true), Some(3));
        assert_eq!(table.attempts("gemini-3-pro-preview", false), None);
    }
}
