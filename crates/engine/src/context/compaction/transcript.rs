//! A part of the history as plain text for the model that writes the summary: as data, so that
//! nothing in it is taken as an instruction.

use std::fmt::Write as _;

use parallax_protocol::content::{PartView, Role};
use serde_json::Value;

use super::masking::truncate_middle;
use crate::view::ViewEntry;

/// Characters at each end of one result, from generous to minimal.
const LIMITS: [usize; 5] = [10_000, 2_500, 600, 150, 40];

/// Returns the transcript of entries in about `characters` characters at most.
pub(crate) fn transcript<'a>(
    entries: impl Iterator<Item = &'a ViewEntry> + Clone,
    characters: usize,
) -> String {
    let mut text = String::new();
    for limit in LIMITS {
        text = with_limit(entries.clone(), limit);
        if text.len() <= characters {
            return text;
        }
    }
    truncate_middle(&text, characters / 2)
}

fn with_limit<'a>(entries: impl Iterator<Item = &'a ViewEntry>, limit: usize) -> String {
    let mut text = String::new();
    for entry in entries {
        let Ok(content) = entry.content.open() else { continue };
        let who = match content.role {
            Role::User => "user",
            Role::Model => "model",
        };
        for part in &content.parts {
            // Writing to a string cannot fail.
            let _ = match part.view() {
                PartView::Text(output) => {
                    writeln!(
                        text,
                        "[{who}]\n{}\n",
                        truncate_middle(output, limit.saturating_mul(2))
                    )
                }
                PartView::Call(call) => {
                    let args = call.args.cloned().map(Value::Object).unwrap_or_default();
                    writeln!(
                        text,
                        "[call {}] {}\n",
                        call.name,
                        truncate_middle(&args.to_string(), limit)
                    )
                }
                PartView::Response(response) => {
                    let result = response.response.map(response_text).unwrap_or_default();
                    writeln!(
                        text,
                        "[result of {}]\n{}\n",
                        response.name,
                        truncate_middle(&result, limit)
                    )
                }
                PartView::Inline { mime_type, .. } => writeln!(text, "[{who}: {mime_type}]\n"),
                _ => Ok(()),
            };
        }
    }
    text
}

fn response_text(response: &Value) -> String {
    let field = |key: &str| response.get(key).and_then(Value::as_str);
    match (field("error"), field("output")) {
        (Some(error), Some(output)) => format!("error: {error}\n{output}"),
        (Some(error), None) => format!("error: {error}"),
        (None, Some(output)) => output.to_owned(),
        (None, None) => response.to_string(),
    }
}
