//! Escapes text for exported pages.

use std::fmt::Write as _;

/// Displays text so that it cannot be markup in any position. Removes terminal control sequences,
/// control characters that are invalid in HTML, and characters that change the text direction,
/// which could disguise text.
pub(super) struct EscapedText<'a>(pub(super) &'a str);

impl std::fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0.chars();
        while let Some(char) = rest.next() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(char)?,
                '\u{1b}' => rest = after_sequence(rest),
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                char if char.is_control() => {}
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Skips a control sequence (such as a color) after its ESC. If none follows, only the ESC is
/// dropped.
fn after_sequence(rest: std::str::Chars<'_>) -> std::str::Chars<'_> {
    let mut after = rest.clone();
    if after.next() != Some('[') {
        return rest;
    }
    loop {
        match after.next() {
            Some(' '..='?') => {}
            Some('@'..='~') => return after,
            _ => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn session_text_is_never_markup() {
        let text = EscapedText("<script>'\"&\u{1b}[1;31mred\u{1b}[0m\u{202e}\n</b>").to_string();
        assert_eq!(text, "&lt;script&gt;&#39;&quot;&amp;red\n&lt;/b&gt;");
        assert_eq!(EscapedText("\u{1b}x \u{1b}[1").to_string(), "x [1");
    }

    proptest! {
        #[test]
        fn escaped_text_contains_no_markup(text in "(?s).{0,200}") {
            let output = EscapedText(&text).to_string();
            let is_free = !output.contains(['<', '>', '"', '\'', '\u{1b}']);
            prop_assert!(is_free, "{}", output);
        }
    }
}
