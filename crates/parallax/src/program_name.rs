//! The name by which the program was called, used in help, completions, man pages, and usage
//! errors.

use std::borrow::Cow;
use std::path::Path;

/// The name used in text.
const NAME: &str = "parallax";

/// Returns the name by which the program was called.
pub(crate) fn called_name() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().map(|name| name.to_string_lossy().into_owned());
    // Only names that need no quoting in a script or a page.
    let is_plain = |name: &String| {
        !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || "._-".contains(it))
    };
    name.filter(is_plain).unwrap_or_else(|| "parallax".to_owned())
}

/// Replaces the program name in text by the one with which it was called.
pub(crate) fn with_called_name(text: &str) -> Cow<'_, str> {
    let called = called_name();
    if called == NAME {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(replace_program_name(text, &called))
    }
}

/// Replaces the name where it is a command: at the beginning of a word, and before a space or the
/// end of code.
fn replace_program_name(text: &str, called: &str) -> String {
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(offset) = rest.find(NAME) {
        let (before, found) = rest.split_at(offset);
        let after = found.get(NAME.len()..).unwrap_or_default();
        renamed.push_str(before);
        let is_start = !renamed.ends_with(|it: char| it.is_alphanumeric() || "._-/~:".contains(it));
        let is_command = is_start && (after.is_empty() || after.starts_with([' ', '`', '\n']));
        renamed.push_str(if is_command { called } else { NAME });
        rest = after;
    }
    renamed + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_are_renamed() {
        let text = "Usage: parallax [X]\n`parallax` and `parallax auth`, ~/.parallax/x, parallax-x";
        let expected = "Usage: gemini [X]\n`gemini` and `gemini auth`, ~/.parallax/x, parallax-x";
        assert_eq!(replace_program_name(text, "gemini"), expected);
    }
}
