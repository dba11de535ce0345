//! Records without their secrets, where the user wants sessions to be written so.

use std::borrow::Cow;

use parallax_protocol::secret::Redact;
use parallax_protocol::store::Record;
use serde_json::Value;

/// The record without what is a secret in its texts, also where one lies across
/// texts that a reader joins; borrowed when there is none. `None`: it is no record
/// then.
pub(crate) fn record<'a>(record: &'a Record, redact: &dyn Redact) -> Option<Cow<'a, Record>> {
    let mut value = serde_json::from_str(&serde_json::to_string(record).ok()?).ok()?;
    if !walk(&mut value, redact) {
        return Some(Cow::Borrowed(record));
    }
    serde_json::from_str(&value.to_string()).ok().map(Cow::Owned)
}

/// Whether there was one.
fn walk(value: &mut Value, redact: &dyn Redact) -> bool {
    match value {
        Value::String(text) => match redact.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
        },
        Value::Array(items) => {
            let joined = items.chunk_by_mut(|one, next| is_text(one) && is_text(next));
            let across = joined.fold(false, |found, run| across(run, redact) | found);
            items.iter_mut().fold(across, |found, item| walk(item, redact) | found)
        }
        Value::Object(fields) => {
            // Bytes of a picture or a page, and what only the service can read.
            let is_blob = fields.contains_key("mimeType");
            let told = |name: &str| name != "thoughtSignature" && !(is_blob && name == "data");
            let told = fields.iter_mut().filter(|(name, _)| told(name));
            told.fold(false, |found, (_, field)| walk(field, redact) | found)
        }
        _ => false,
    }
}

fn is_text(part: &Value) -> bool {
    part.get("text").is_some_and(Value::is_string)
}

/// Parts of text whose secrets are seen only when they are joined: the first of them
/// holds the text then, and the others keep what else they hold.
fn across(run: &mut [Value], redact: &dyn Redact) -> bool {
    let texts: Vec<&str> = run.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    if texts.len() < 2 {
        return false;
    }
    let whole = texts.concat();
    let Cow::Owned(redacted) = redact.redact(&whole) else { return false };
    let alone: String = texts.iter().map(|text| redact.redact(text)).collect();
    if alone == redacted {
        return false;
    }
    let mut redacted = Some(redacted);
    for text in run.iter_mut().filter_map(|part| part.get_mut("text")) {
        *text = Value::String(redacted.take().unwrap_or_default());
    }
    true
}
