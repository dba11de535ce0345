//! What a model accepts besides text, and how its thinking is controlled.

use crate::families::Thinking;

/// What a model accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelCapabilities {
    /// The kinds of input (`text`, `image`, `pdf`, `audio`, `video`); empty: unknown.
    pub input: Vec<String>,
    /// How its thinking is controlled.
    pub thinking: ThinkingControl,
}

/// How the thinking of a model is controlled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ThinkingControl {
    /// Neither the settings, the service, nor the built-in table states it.
    #[default]
    Unknown,
    /// The model does not think, or its thinking cannot be controlled.
    Off,
    /// By a number of tokens.
    Budget,
    /// By one of these levels.
    Levels(Vec<String>),
}

impl ModelCapabilities {
    /// Returns the abilities of a model of the Gemini API.
    pub(crate) fn for_gemini(model: &str, thinking: Thinking) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let input = match model.starts_with("gemma-") {
            true => owned(&["text", "image"]),
            false => owned(&["text", "image", "pdf", "audio", "video"]),
        };
        let thinking = match thinking {
            Thinking::Silent => ThinkingControl::Off,
            Thinking::Budget(_) => ThinkingControl::Budget,
            Thinking::Level(_) => ThinkingControl::Levels(owned(gemini_levels(model))),
        };
        Self { input, thinking }
    }
}

/// Returns the levels of a Gemini model.
fn gemini_levels(model: &str) -> &'static [&'static str] {
    match supports_minimal(model) {
        true => &["minimal", "low", "medium", "high"],
        false => &["low", "medium", "high"],
    }
}

/// Whether a Gemini model supports the level `MINIMAL`: flash models before 3.7.
pub fn supports_minimal(model: &str) -> bool {
    let version = model.strip_prefix("gemini-").and_then(|rest| rest.split('-').next());
    let Some(version) = version else { return false };
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let before = major == "3" && minor.parse::<u32>().is_ok_and(|minor| minor < 7);
    before && model.contains("flash")
}
