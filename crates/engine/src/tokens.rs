//! Token estimates for what the service has not counted yet.

use serde_json::Value;

/// Longer strings, in bytes, are estimated by length only.
const LONG: usize = 100_000;
/// The cost of an image, by the service's tables.
const IMAGE: u64 = 3_000;
/// Maximum estimate of a PDF.
const PDF: u64 = 25_800;
/// Minimum estimate of a PDF: two pages.
const SMALL_PDF: u64 = 600;

/// Estimates text: a quarter token per ASCII character, one and a half per other character.
pub fn estimate_text(text: &str) -> u64 {
    if text.len() > LONG || text.is_ascii() {
        return (text.len() / 4) as u64;
    }
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.chars().count() as u64 - ascii;
    ascii / 4 + other * 3 / 2
}

/// Estimates a content from its JSON. Media count by type, not by bytes.
pub fn estimate_content(json: &str) -> u64 {
    if !json.contains("\"inlineData\"") {
        return estimate_text(json);
    }
    serde_json::from_str::<Value>(json)
        .map_or_else(|_| estimate_text(json), |value| estimate_value(&value, 0))
}

fn estimate_value(value: &Value, depth: u8) -> u64 {
    match value {
        Value::String(text) => estimate_text(text),
        Value::Array(items) if depth < 8 => {
            items.iter().map(|item| estimate_value(item, depth + 1)).sum()
        }
        Value::Object(fields) if depth < 8 => {
            if let Some(mime) = fields.get("mimeType").and_then(Value::as_str)
                && let Some(data) = fields.get("data")
            {
                let size = data.as_str().map_or(0, str::len) as u64;
                return match mime {
                    "application/pdf" => (SMALL_PDF + size / 8).min(PDF),
                    _ => IMAGE,
                };
            }
            fields
                .iter()
                .map(|(key, item)| estimate_text(key) + estimate_value(item, depth + 1))
                .sum()
        }
        other => estimate_text(&other.to_string()),
    }
}

/// Returns the estimated tokens of a request of this size.
pub(crate) fn estimate_request(request_bytes: u64) -> u64 {
    request_bytes / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_tokens_depend_on_kind_and_text_tokens_on_length() {
        assert_eq!(estimate_text("abcdefgh"), 2);
        assert_eq!(estimate_text("日本"), 3);
        let image = format!(
            r#"{{"role":"user","parts":[{{"inlineData":{{"mimeType":"image/png","data":"{}"}}}}]}}"#,
            "A".repeat(90_000)
        );
        assert!((3_000..3_020).contains(&estimate_content(&image)));
        let pdf = |bytes: usize| {
            image
                .replace("image/png", "application/pdf")
                .replace(&"A".repeat(90_000), &"A".repeat(bytes))
        };
        assert!((600..700).contains(&estimate_content(&pdf(300))));
        assert!((25_800..25_830).contains(&estimate_content(&pdf(900_000))));
    }
}
