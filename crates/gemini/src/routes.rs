//! Which models `auto` chooses among, and the chains of models that stand in
//! for one another.

use parallax_protocol::routing::{Routes, Scale, Substitute, Unasked};

use crate::models::{ModelTable, Version, version};

/// Attempts of the strong model where another is chosen for the person anyway.
const FEW: u32 = 3;
const OLD_PRO: &str = "gemini-2.5-pro";
const OLD_FLASH: &str = "gemini-2.5-flash";
const OLD_LITE: &str = "gemini-2.5-flash-lite";

/// What kind of model a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pro,
    Flash,
    Lite,
}

fn kind(model: &str) -> Option<Kind> {
    let name = model.to_ascii_lowercase();
    [("flash-lite", Kind::Lite), ("flash", Kind::Flash), ("pro", Kind::Pro)]
        .into_iter()
        .find_map(|(word, kind)| name.contains(word).then_some(kind))
}

/// Whether it is of the generation before 3.
fn is_old(model: &str) -> Option<bool> {
    match version(model) {
        Version::Foreign => None,
        Version::Newest => Some(false),
        Version::Number(number) => Some(number < (3, 0)),
    }
}

impl ModelTable {
    /// The models among which a name chooses; `None` when it means one.
    pub fn routes(&self, name: &str) -> Option<Routes> {
        let old = match name {
            "auto" | "auto-gemini-3" => false,
            "auto-gemini-2.5" => true,
            _ => return None,
        };
        let strong = self.resolve(name);
        let (fast, classifier) = match old {
            true => (OLD_FLASH.to_owned(), OLD_LITE.to_owned()),
            false => (self.resolve("flash"), self.resolve("flash-lite")),
        };
        let classifier = self.set_utility("classifier").unwrap_or(classifier);
        let scale = if old { Scale::Choice } else { Scale::Score };
        // A user's alias `auto` may mean one model of theirs.
        (kind(&strong) == Some(Kind::Pro)).then_some(Routes { strong, fast, classifier, scale })
    }

    /// Who stands in for a model, in order. `chosen`: the program chose it.
    pub fn substitutes(&self, model: &str, chosen: bool) -> Vec<Substitute> {
        let (Some(kind), Some(old)) = (kind(model), is_old(model)) else { return Vec::new() };
        let (pro, flash) = match old {
            true => (OLD_PRO.to_owned(), OLD_FLASH.to_owned()),
            false => (self.resolve("pro"), self.resolve("flash")),
        };
        let (models, unasked) = match kind {
            Kind::Pro if chosen => (vec![flash], Unasked::Passing),
            Kind::Pro => (vec![flash], Unasked::Never),
            Kind::Flash if chosen => (vec![pro], Unasked::Passing),
            Kind::Flash if old => (Vec::new(), Unasked::Never),
            Kind::Flash => (vec![pro], Unasked::Never),
            Kind::Lite => (vec![flash, pro], Unasked::Always),
        };
        let others = models.into_iter().filter(|other| other != model);
        others.map(|model| Substitute { model, unasked }).collect()
    }

    /// The most attempts of a request where another model could answer.
    pub fn attempts(&self, model: &str, chosen: bool) -> Option<u32> {
        (chosen && kind(model) == Some(Kind::Pro)).then_some(FEW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_chooses_and_other_names_mean_one_model() {
        let table = ModelTable::default();
        let routes = table.routes("auto").expect("routes");
        assert_eq!((routes.strong.as_str(), routes.scale), ("gemini-3-pro-preview", Scale::Score));
        assert_eq!(routes.fast, "gemini-3.8-flash");
        let old = table.routes("auto-gemini-2.5").expect("routes");
        assert_eq!((old.strong.as_str(), old.scale), ("gemini-2.5-pro", Scale::Choice));
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
    fn chains() {
        let table = ModelTable::default();
        let chain = |model: &str, chosen| {
            let chain = table.substitutes(model, chosen).into_iter();
            chain.map(|it| (it.model, it.unasked)).collect::<Vec<_>>()
        };
        let flash = || "gemini-3.8-flash".to_owned();
        assert_eq!(chain("gemini-3-pro-preview", false), [(flash(), Unasked::Never)]);
        assert_eq!(chain("gemini-3-pro-preview", true), [(flash(), Unasked::Passing)]);
        assert_eq!(chain("gemini-2.5-pro", false), [(OLD_FLASH.to_owned(), Unasked::Never)]);
        assert_eq!(chain("gemini-2.5-flash", false), []);
        let lite = chain("gemini-3.5-flash-lite", false);
        assert_eq!(
            lite.iter().map(|(_, unasked)| *unasked).collect::<Vec<_>>(),
            [Unasked::Always; 2]
        );
        assert_eq!(chain("llama", true), []);
        assert_eq!(table.attempts("gemini-3-pro-preview", true), Some(3));
        assert_eq!(table.attempts("gemini-3-pro-preview", false), None);
    }
}
