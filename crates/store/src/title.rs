//! Titles of sessions.

/// Maximum length of a title in characters.
const TITLE: usize = 100;

/// Returns one line without control characters, at most 100 characters.
pub(crate) fn sanitize_title(text: &str) -> String {
    let is_hidden = |char: char| {
        char.is_control()
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut title = String::new();
    let mut count = 0;
    for word in text.split(|char: char| char.is_whitespace() || is_hidden(char)) {
        if word.is_empty() {
            continue;
        }
        if count > 0 {
            title.push(' ');
            count += 1;
        }
        for char in word.chars() {
            title.push(char);
            count += 1;
        }
        if count > TITLE {
            let cut: String = title.chars().take(TITLE - 3).collect();
            return cut + "...";
        }
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(sanitize_title("  fix\n\tthe \u{1b}[31mbüg\u{202e} "), "fix the [31mbüg");
        let long = sanitize_title(&"ü".repeat(101));
        assert_eq!((long.chars().count(), long.ends_with("ü...")), (100, true));
        assert_eq!(sanitize_title(&"x".repeat(100)), "x".repeat(100));
    }
}
