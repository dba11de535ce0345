//! Link targets, and URLs in plain text.

use std::sync::Arc;

/// Maximum length in bytes of a URL sent to the terminal.
const MAX_ADDRESS: usize = 2_000;

/// Returns the URL for the terminal if its scheme is safe to open. `target` must not contain
/// control characters.
pub fn href(target: &str) -> Option<Arc<str>> {
    let scheme = target.split(':').next()?.to_ascii_lowercase();
    let safe = matches!(scheme.as_str(), "http" | "https" | "mailto" | "file" | "ftp");
    let fits = target.len() <= MAX_ADDRESS && !target.contains(char::is_whitespace);
    (safe && fits && target.len() > scheme.len() + 1).then(|| Arc::from(target))
}

/// Splits text into pieces, with URLs as separate linked pieces.
pub(super) fn split_urls(text: &str) -> Vec<(&str, Option<Arc<str>>)> {
    if !text.contains("://") {
        return vec![(text, None)];
    }
    let mut pieces = Vec::new();
    let (mut begin, mut from) = (0, 0);
    while let Some(found) = text[from..].find("://").map(|offset| from + offset) {
        from = found + 3;
        let scheme = ["https", "http"].into_iter().find(|name| text[begin..found].ends_with(name));
        let Some(scheme) = scheme else { continue };
        let start = found - scheme.len();
        // `xhttp://` is not a URL.
        if text[..start].ends_with(|char: char| char.is_alphanumeric()) {
            continue;
        }
        let end = from + address_length(&text[from..]);
        if end == from {
            continue;
        }
        if begin < start {
            pieces.push((&text[begin..start], None));
        }
        pieces.push((&text[start..end], href(&text[start..end])));
        (begin, from) = (end, end);
    }
    if begin < text.len() {
        pieces.push((&text[begin..], None));
    }
    pieces
}

/// Returns the length in bytes of a URL in `rest`: up to whitespace or a bracket, without trailing
/// punctuation of the sentence.
fn address_length(rest: &str) -> usize {
    let ends = |char: char| char.is_whitespace() || matches!(char, '<' | '>' | '"' | '`' | '|');
    let mut address = &rest[..rest.find(ends).unwrap_or(rest.len())];
    loop {
        let shorter = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '*', '_', '…']);
        let closes = |open: char, close: char| {
            shorter.ends_with(close)
                && shorter.matches(close).count() > shorter.matches(open).count()
        };
        let shorter = if closes('(', ')') || closes('[', ']') || closes('{', '}') {
            &shorter[..shorter.len() - 1]
        } else {
            shorter
        };
        if shorter.len() == address.len() {
            return address.len();
        }
        address = shorter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_without_surrounding_punctuation() {
        let found = |text: &'static str| -> Vec<&str> {
            split_urls(text)
                .into_iter()
                .filter(|(_, href)| href.is_some())
                .map(|(text, _)| text)
                .collect()
        };
        assert_eq!(found("see https://a.b/c."), ["https://a.b/c"]);
        assert_eq!(found("(http://a.b/c_(d)), http://x"), ["http://a.b/c_(d)", "http://x"]);
        assert_eq!(found("xhttp://a http:// ://"), Vec::<&str>::new());
    }

    #[test]
    fn only_safe_url_schemes_are_opened() {
        assert!(href("https://a").is_some());
        assert!(href("javascript:alert(1)").is_none());
        assert!(href("src/main.rs").is_none());
        assert!(href("http:").is_none());
    }
}
