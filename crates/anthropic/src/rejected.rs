//! Remembers what a service rejected and omits it from later requests, so that a missing feature of
//! a model or gateway, or an invalid signature, costs one request instead of the session.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use parallax_protocol::Object;
use serde_json::Value;
use serde_json::value::RawValue;

/// A request field that a service may not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OptionalField {
    ThinkingDisplay,
    Thinking,
    /// Thinking that is disabled.
    ThinkingOff,
    Effort,
    Format,
    CacheControl,
}

impl OptionalField {
    /// All fields, from the most to the least specific.
    pub(crate) const ALL: [Self; 6] = [
        Self::ThinkingDisplay,
        Self::Effort,
        Self::Format,
        Self::CacheControl,
        Self::ThinkingOff,
        Self::Thinking,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ThinkingDisplay => "thinking.display",
            Self::Thinking | Self::ThinkingOff => "thinking",
            Self::Effort => "output_config.effort",
            Self::Format => "output_config.format",
            Self::CacheControl => "cache_control",
        }
    }

    /// Returns the words that error messages use.
    pub(crate) fn error_words(self) -> &'static [&'static str] {
        match self {
            Self::ThinkingDisplay => &["display"],
            Self::Thinking | Self::ThinkingOff => &["thinking"],
            Self::Effort => &["effort", "output_config:"],
            Self::Format => &["output_config", "output format", "structured output", "schema"],
            Self::CacheControl => &["cache_control"],
        }
    }

    /// Whether a request with these generation fields contains it.
    pub(crate) fn is_part_of(self, generation: &Object) -> bool {
        let thinking = generation.get("thinking");
        let is_off = thinking.is_some_and(|it| it["type"] == "disabled");
        let has = |key: &str| generation.get("output_config").is_some_and(|it| !it[key].is_null());
        match self {
            Self::ThinkingDisplay => thinking.is_some_and(|it| !it["display"].is_null()),
            Self::Thinking => thinking.is_some() && !is_off,
            Self::ThinkingOff => is_off,
            Self::Effort => has("effort"),
            Self::Format => has("format"),
            Self::CacheControl => true,
        }
    }
}

/// What is omitted from requests.
#[derive(Debug, Default)]
pub(crate) struct OmittedContent {
    /// Hashes of provider data: thinking whose signature is invalid.
    pub(crate) thoughts: HashSet<u64>,
    /// Hashes of images and documents.
    pub(crate) media: HashSet<u64>,
    /// Names of tools, as sent.
    pub(crate) tools: BTreeSet<String>,
    /// Fields, each for one model.
    pub(crate) fields: BTreeSet<(String, OptionalField)>,
}

impl OmittedContent {
    pub(crate) fn has_thought(&self, data: &RawValue) -> bool {
        !self.thoughts.is_empty() && self.thoughts.contains(&hash(data.get()))
    }

    pub(crate) fn has_media(&self, data: &str) -> bool {
        !self.media.is_empty() && self.media.contains(&hash(data))
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools.contains(name)
    }

    pub(crate) fn has_field(&self, model: &str, field: OptionalField) -> bool {
        self.fields.iter().any(|(known, of)| known == model && *of == field)
    }

    /// Removes the fields that the model does not accept.
    pub(crate) fn filter(&self, model: &str, generation: &mut Object) {
        for field in OptionalField::ALL {
            if !self.has_field(model, field) || !field.is_part_of(generation) {
                continue;
            }
            match (field.name().split_once('.'), field) {
                (_, OptionalField::CacheControl) => {}
                (None, _) => {
                    generation.shift_remove(field.name());
                }
                (Some((outer, inner)), _) => {
                    if let Some(Value::Object(fields)) = generation.get_mut(outer) {
                        fields.shift_remove(inner);
                        if fields.is_empty() {
                            generation.shift_remove(outer);
                        }
                    }
                }
            }
        }
    }
}

/// Returns the hash of provider data or of media, as the sets contain it.
pub(crate) fn hash(data: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}
