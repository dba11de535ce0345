//! Redacts secrets in recordings, even when a secret is split across several parts whose text
//! a reader joins.

use std::borrow::Cow;

use parallax_protocol::Object;
use parallax_protocol::content::{Part, PartView};
use parallax_protocol::secret::Secret;
use serde_json::Value;

/// Minimum length of a secret: redacting shorter ones would garble the line.
const MIN_LENGTH: usize = 8;
/// Replaces a secret.
const REDACTED: &str = "[redacted]";

/// The strings that are never written.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Secret>);

/// Kinds of parts whose text belongs together.
#[derive(Clone, Copy, PartialEq)]
enum PartKind {
    Text,
    Thought,
    Call,
    Other,
}

impl Secrets {
    pub(crate) fn new(mut secrets: Vec<Secret>) -> Self {
        secrets.retain(|secret| secret.expose().len() >= MIN_LENGTH);
        // Longer secrets first, so that a secret that contains another is removed completely.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        Self(secrets)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a string, possibly JSON, without the secrets.
    pub(crate) fn redact<'a>(&self, mut text: Cow<'a, str>) -> Cow<'a, str> {
        for secret in &self.0 {
            let plain = secret.expose();
            // JSON may contain the secret with escapes.
            let escaped = serde_json::to_string(plain).unwrap_or_default();
            for form in [plain, escaped.trim_matches('"')] {
                if text.contains(form) {
                    text = Cow::Owned(text.replace(form, REDACTED));
                }
            }
        }
        text
    }

    /// Redacts the parts of one response: afterwards neither a string nor the joined strings of one
    /// kind contain a secret. Parts without a piece of a secret keep their bytes, and all parts
    /// keep their signatures. Returns whether there was a secret.
    pub(crate) fn redact_parts(&self, parts: &mut [&mut Part]) -> bool {
        let mut found = false;
        for kind in [PartKind::Text, PartKind::Thought, PartKind::Call, PartKind::Other] {
            found |= self.redact_kind(parts, kind);
        }
        found
    }

    fn redact_kind(&self, parts: &mut [&mut Part], kind: PartKind) -> bool {
        let mut pieces = Vec::new();
        for part in parts.iter().filter(|part| kind_of(part) == kind) {
            collect_pieces(part.object(), kind, &mut pieces);
        }
        let joined = pieces.concat();
        if !self.0.iter().any(|secret| joined.contains(secret.expose())) {
            return false;
        }
        let mut pieces: Vec<String> = pieces.into_iter().map(str::to_owned).collect();
        for secret in &self.0 {
            redact_pieces(&mut pieces, secret.expose());
        }
        let mut pieces = pieces.into_iter();
        for part in parts.iter_mut().filter(|part| kind_of(part) == kind) {
            let mut object = part.object().clone();
            if restore(&mut object, kind, &mut pieces) {
                **part = Part::from(object);
            }
        }
        true
    }
}

fn kind_of(part: &Part) -> PartKind {
    match part.view() {
        PartView::Text(_) => PartKind::Text,
        PartView::Thought(_) => PartKind::Thought,
        PartView::Call(_) => PartKind::Call,
        _ => PartKind::Other,
    }
}

/// Whether a value of a part contains text of its kind, except the signature, which readers do
/// not join.
fn has_text_key(kind: PartKind, key: &str) -> bool {
    match kind {
        PartKind::Text | PartKind::Thought => key == "text",
        PartKind::Call => key == "functionCall",
        PartKind::Other => key != "thoughtSignature",
    }
}

fn collect_pieces<'a>(object: &'a Object, kind: PartKind, pieces: &mut Vec<&'a str>) {
    for (_, value) in object.iter().filter(|(key, _)| has_text_key(kind, key)) {
        let value = if kind == PartKind::Call { value.get("args") } else { Some(value) };
        if let Some(value) = value {
            gather_value(value, pieces);
        }
    }
}

fn gather_value<'a>(value: &'a Value, pieces: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => pieces.push(text),
        Value::Array(items) => items.iter().for_each(|item| gather_value(item, pieces)),
        Value::Object(object) => object.values().for_each(|item| gather_value(item, pieces)),
        _ => {}
    }
}

/// Sets the strings to the pieces, in the order of collection; returns whether any changed.
fn restore(object: &mut Object, kind: PartKind, pieces: &mut impl Iterator<Item = String>) -> bool {
    let mut changed = false;
    for (_, value) in object.iter_mut().filter(|(key, _)| has_text_key(kind, key)) {
        let value = if kind == PartKind::Call { value.get_mut("args") } else { Some(value) };
        if let Some(value) = value {
            restore_value(value, pieces, &mut changed);
        }
    }
    changed
}

fn restore_value(value: &mut Value, pieces: &mut impl Iterator<Item = String>, changed: &mut bool) {
    match value {
        Value::String(text) => {
            if let Some(piece) = pieces.next() {
                *changed |= *text != piece;
                *text = piece;
            }
        }
        Value::Array(items) => {
            for item in items {
                restore_value(item, pieces, changed);
            }
        }
        Value::Object(object) => {
            for item in object.values_mut() {
                restore_value(item, pieces, changed);
            }
        }
        _ => {}
    }
}

/// Replaces a secret in the pieces of a string; the replacement goes where it began.
fn redact_pieces(pieces: &mut [String], secret: &str) {
    let joined = pieces.concat();
    let mut found =
        joined.match_indices(secret).map(|(offset, _)| (offset, offset + secret.len())).peekable();
    let mut start = 0;
    for piece in pieces {
        let end = start + piece.len();
        let mut retained = String::new();
        let mut at = start;
        while let Some(&(from, to)) = found.peek() {
            if from >= end {
                break;
            }
            if from >= start {
                retained.push_str(joined.get(at..from).unwrap_or_default());
                retained.push_str(REDACTED);
            }
            at = to.min(end);
            if to > end {
                break;
            }
            found.next();
        }
        if at > start {
            retained.push_str(joined.get(at..end).unwrap_or_default());
            *piece = retained;
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn split_secret_is_replaced_where_it_began() {
        let mut pieces = ["a SEC", "", "RET", "KEY b SECRETKEY", " c"].map(str::to_owned);
        redact_pieces(&mut pieces, "SECRETKEY");
        assert_eq!(pieces, ["a [redacted]", "", "", " b [redacted]", " c"]);
    }

    proptest! {
        #[test]
        fn secret_is_redacted_under_any_chunking(
            words in prop::collection::vec("(SECRETKEY|SECRET|KEY|é|x){0,4}", 0..5),
            cuts in prop::collection::vec(1..9usize, 1..9),
        ) {
            let text: Vec<char> = words.concat().chars().collect();
            let mut rest = text.as_slice();
            let mut pieces = Vec::new();
            for count in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*count).min(rest.len()));
                pieces.push(piece.iter().collect::<String>());
                rest = after;
            }
            redact_pieces(&mut pieces, "SECRETKEY");
            let whole: String = text.iter().collect();
            prop_assert_eq!(pieces.concat(), whole.replace("SECRETKEY", REDACTED));
        }
    }
}
