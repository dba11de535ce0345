//! Settings of Gemini CLI that are read and change nothing here: said where a file
//! sets one to something else than it does anyway.

use serde_json::Value;

use crate::settings::Settings;

/// The key, and what happens in any case.
const KEYS: [(&str, &str); 2] = [
    (
        "model.skipNextSpeakerCheck",
        "nobody is asked whether the model has more to say; its last answer ends the turn",
    ),
    (
        "model.summarizeToolOutput",
        "long outputs are cut, with the whole in a file (`tools.truncateToolOutputThreshold`), and \
         no model is asked to sum them up",
    ),
];

/// What people should know of such settings.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let told = KEYS.iter().filter(|(key, _)| match settings.get(key) {
        None | Some(Value::Null | Value::Bool(true)) => false,
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
    });
    told.map(|(key, why)| format!("the setting `{key}` has no effect here: {why}")).collect()
}
