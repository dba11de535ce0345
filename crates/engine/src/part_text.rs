//! The text of a response's parts.

use parallax_protocol::content::{Part, PartView};

/// Returns the text of parts, without thoughts.
pub(crate) fn visible_text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part.view() {
        PartView::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Replaces the text of parts; other parts stay. `false`: there was no text to replace.
pub(crate) fn replace_text(parts: &mut Vec<Part>, text: &str) -> bool {
    let mut new = Some(text).filter(|text| !text.is_empty()).map(Part::text);
    let mut joined = Vec::with_capacity(parts.len());
    let mut had = false;
    for part in parts.drain(..) {
        // An empty text part may only carry a signature.
        if !matches!(part.view(), PartView::Text(text) if !text.is_empty()) {
            joined.push(part);
            continue;
        }
        had = true;
        // A signature moves to the replacement text.
        if let Some(new) = new.take() {
            joined.push(match part.signature() {
                Some(signature) => new.with_signature(signature),
                None => new,
            });
        }
    }
    *parts = joined;
    had
}
