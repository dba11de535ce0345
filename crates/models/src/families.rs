//! Model families, by the version in a model's name.

/// How thinking is configured for a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// Not configured.
    Silent,
    /// A number of tokens.
    Budget(u32),
    /// A level.
    Level(&'static str),
}

/// The properties of a model family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// How thinking is configured.
    pub thinking: Thinking,
    /// Whether temperature, topP, and topK are sent by default.
    pub sampling: bool,
    pub(crate) multimodal_tool_results: bool,
    pub(crate) context: u64,
    pub(crate) output: u64,
    /// Whether thoughts and output also count towards the context window.
    pub(crate) shared_window: bool,
}

const WINDOW: u64 = 1_048_576;

const OUTPUT: u64 = 65_536;

const SILENT: Family = Family {
    thinking: Thinking::Silent,
    sampling: true,
    multimodal_tool_results: false,
    context: WINDOW,
    output: OUTPUT,
    shared_window: false,
};

const BUDGET: Family = Family { thinking: Thinking::Budget(8192), ..SILENT };

const LEVEL: Family =
    Family { thinking: Thinking::Level("HIGH"), multimodal_tool_results: true, ..SILENT };

/// From version 3.5 on, custom sampling settings are ignored or rejected.
const MODERN: Family = Family { sampling: false, ..LEVEL };

const SHARED: Family = Family { shared_window: true, ..MODERN };

/// `gemini-MAJOR.MINOR…`, newest first: a model belongs to the first row whose version is not
/// newer. Names without a version (`gemini-flash-latest`) and unknown versions count as the
/// newest.
const GEMINI: &[((u32, u32), Family)] =
    &[((4, 0), SHARED), ((3, 5), MODERN), ((3, 0), LEVEL), ((2, 5), BUDGET), ((0, 0), SILENT)];

/// Other names, by prefix.
const OTHERS: &[(&str, Family)] = &[("gemma-", Family { context: 256_000, ..SILENT })];

/// The version in a model name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelVersion {
    Number((u32, u32)),
    /// A Gemini model without a number in its name.
    Newest,
    /// Not a Gemini model.
    Foreign,
}

/// Returns the version in a model name.
pub(crate) fn version(model: &str) -> ModelVersion {
    let name = model.rsplit(['/', ':']).next().unwrap_or(model).to_ascii_lowercase();
    let Some(rest) = name.strip_prefix("gemini-") else { return ModelVersion::Foreign };
    let number = rest.split('-').next().unwrap_or_default();
    let mut pieces = number.split('.').map(str::parse::<u32>);
    match (pieces.next(), pieces.next()) {
        (Some(Ok(major)), None) => ModelVersion::Number((major, 0)),
        (Some(Ok(major)), Some(Ok(minor))) => ModelVersion::Number((major, minor)),
        _ => ModelVersion::Newest,
    }
}

/// Returns the built-in family of a model.
pub(crate) fn builtin_family(model: &str) -> Family {
    match version(model) {
        ModelVersion::Newest => MODERN,
        ModelVersion::Number(number) => {
            GEMINI.iter().find(|(since, _)| number >= *since).map_or(MODERN, |(_, family)| *family)
        }
        ModelVersion::Foreign => {
            let name = model.rsplit('/').next().unwrap_or(model);
            OTHERS
                .iter()
                .find(|(start, _)| name.starts_with(start))
                .map_or(SILENT, |(_, family)| *family)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_families_are_ordered_by_version() {
        for (model, want) in [
            ("gemini-2.0-flash", SILENT),
            ("gemini-2.5-pro", BUDGET),
            ("gemini-3-pro-preview", LEVEL),
            ("gemini-3.1-pro-preview-customtools", LEVEL),
            ("models/gemini-3.8-flash", MODERN),
            ("gemini-3.10-flash", MODERN),
            ("gemini-4-argon", SHARED),
            ("gemini-12.1-x", SHARED),
            ("gemini-flash-latest", MODERN),
            ("some-model", SILENT),
            ("gemma-4-31b-it", Family { context: 256_000, ..SILENT }),
        ] {
            assert_eq!(builtin_family(model), want, "{model}");
        }
    }
}
