//! Removes secrets from records if the user enabled it.

use std::borrow::Cow;

use parallax_protocol::secret::Redact;
use parallax_protocol::store::Record;
use serde_json::Value;

/// Returns the record with secrets in its text redacted, including secrets that span strings that a
/// reader joins. Borrowed if there are none. Returns `None` if the redacted value is not a valid
/// record.
pub(crate) fn redact_record<'a>(
    record: &'a Record,
    redact: &dyn Redact,
) -> Option<Cow<'a, Record>> {
    let mut value = serde_json::from_str(&serde_json::to_string(record).ok()?).ok()?;
    if !walk(&mut value, redact) {
        return Some(Cow::Borrowed(record));
    }
    serde_json::from_str(&value.to_string()).ok().map(Cow::Owned)
}

/// Redacts the strings of a value and returns whether it contained a secret.
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
            let across = joined.fold(false, |found, run| redact_across_parts(run, redact) | found);
            items.iter_mut().fold(across, |found, item| walk(item, redact) | found)
        }
        Value::Object(fields) => {
            // Skip image and document data, and signatures that only the service can read.
            let is_blob = fields.contains_key("mimeType");
            let is_redactable =
                |name: &str| name != "thoughtSignature" && !(is_blob && name == "data");
            let fields = fields.iter_mut().filter(|(name, _)| is_redactable(name));
            fields.fold(false, |found, (_, field)| walk(field, redact) | found)
        }
        _ => false,
    }
}

fn is_text(part: &Value) -> bool {
    part.get("text").is_some_and(Value::is_string)
}

/// Redacts secrets that become visible only when consecutive text parts are joined. The first part
/// then contains the whole text; the others keep their other fields.
fn redact_across_parts(run: &mut [Value], redact: &dyn Redact) -> bool {
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
