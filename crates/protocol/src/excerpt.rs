//! Length-limited excerpts of foreign text for messages.

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 2000;

/// Returns the beginning of a string: at most `limit` bytes, cut at a character boundary.
pub fn truncate(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Returns the text in one line, without control characters and truncated.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_LINE {
            line.truncate(truncate(&line, MAX_LINE).len());
            line.push('…');
            break;
        }
    }
    line
}
