//! Decides whether an exact match may be edited in a file that changed since the model saw it.

use std::ops::Range;

use super::source::{SourceText, plain_ends};

/// Whether the matched text is what the model has seen, although the file changed. `old` is the
/// text that the model saw, if it is known. The match is unique in the changed text.
pub(crate) fn is_current(old: Option<&str>, source: &SourceText<'_>, range: &Range<usize>) -> bool {
    let text = source.text();
    let quoted = text.get(range.clone()).unwrap_or_default();
    if quoted.trim().is_empty() {
        return false;
    }
    let Some(old) = old.map(plain_ends) else { return covers_whole_lines(text, range) };
    let mut ranges = old.match_indices(quoted).map(|(offset, _)| offset..offset + quoted.len());
    match (ranges.next(), ranges.next()) {
        // The quoted text is newer than what was read: a formatter or the model's own command
        // wrote it.
        (None, _) => {
            neighbor_before(text, range).rest_of_word.is_empty()
                && neighbor_after(text, range).rest_of_word.is_empty()
        }
        (Some(place), None) => {
            contains_lines(&old, touched_lines(text, range))
                || has_same_context(&old, &place, text, range)
        }
        // One of several equal places was changed: which one the model means is unknown.
        (Some(_), Some(_)) => false,
    }
}

/// Whether the words at both edges of the match, and the tokens next to it in its lines, are those
/// of the text that the model saw.
fn has_same_context(old: &str, old_range: &Range<usize>, text: &str, range: &Range<usize>) -> bool {
    let (was, now) = (neighbor_before(old, old_range), neighbor_before(text, range));
    let same_start =
        was.rest_of_word == now.rest_of_word && (!now.same_line || was.token == now.token);
    let (was, now) = (neighbor_after(old, old_range), neighbor_after(text, range));
    let same_end = was.rest_of_word == now.rest_of_word
        && (!now.same_line || was.token == now.token || is_at_line_ending(now.rest));
    same_start && same_end
}

/// The text next to one edge of a match.
struct Neighbor<'a> {
    /// The rest of the word that the match begins or ends in.
    rest_of_word: &'a str,
    /// The next token, on whatever line.
    token: &'a str,
    /// Whether that token is on the line of the match.
    same_line: bool,
    /// That token and everything beyond it, away from the match.
    rest: &'a str,
}

fn neighbor_before<'a>(text: &'a str, range: &Range<usize>) -> Neighbor<'a> {
    let head = text.get(..range.start).unwrap_or_default();
    let starts_in_word =
        text.get(range.start..).and_then(|tail| tail.chars().next()).is_some_and(is_word);
    let rest_of_word = if starts_in_word { word_at_end(head) } else { "" };
    let rest = head.get(..head.len() - rest_of_word.len()).unwrap_or_default();
    let gap = rest.get(rest.trim_end().len()..).unwrap_or_default();
    let rest = rest.trim_end();
    let token = match word_at_end(rest) {
        "" => rest
            .char_indices()
            .next_back()
            .and_then(|(offset, _)| rest.get(offset..))
            .unwrap_or_default(),
        word => word,
    };
    Neighbor { rest_of_word, token, same_line: !token.is_empty() && !gap.contains('\n'), rest }
}

fn neighbor_after<'a>(text: &'a str, range: &Range<usize>) -> Neighbor<'a> {
    let tail = text.get(range.end..).unwrap_or_default();
    let quoted = text.get(range.clone()).unwrap_or_default();
    let ends_in_word = quoted.chars().next_back().is_some_and(is_word);
    let rest_of_word = if ends_in_word { word_at_start(tail) } else { "" };
    let rest = tail.get(rest_of_word.len()..).unwrap_or_default();
    let gap = rest.get(..rest.len() - rest.trim_start().len()).unwrap_or_default();
    let rest = rest.trim_start();
    let token = match word_at_start(rest) {
        "" => rest.chars().next().and_then(|c| rest.get(..c.len_utf8())).unwrap_or_default(),
        word => word,
    };
    let same_line = !token.is_empty() && !gap.contains('\n') && !quoted.ends_with('\n');
    Neighbor { rest_of_word, token, same_line, rest }
}

/// Names with dots and hyphens and decimal numbers are one word.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '$')
}

fn word_at_end(text: &str) -> &str {
    text.get(text.trim_end_matches(is_word).len()..).unwrap_or_default()
}

fn word_at_start(text: &str) -> &str {
    text.get(..text.len() - text.trim_start_matches(is_word).len()).unwrap_or_default()
}

/// Whether the rest of a line is only what formatters and linters add there: a separator, or a
/// comment.
fn is_at_line_ending(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let line = line.strip_prefix([';', ',']).unwrap_or(line).trim_start();
    line.is_empty() || ["#", "//", "--", "/*", "<!--"].iter().any(|mark| line.starts_with(mark))
}

/// Returns the whole lines that a range touches, without the last line ending.
fn touched_lines<'a>(text: &'a str, range: &Range<usize>) -> &'a str {
    let head = text.get(..range.start).unwrap_or_default();
    let start = head.rfind('\n').map_or(0, |offset| offset + 1);
    // A line ending at the end of the match belongs to the previous line.
    let last = range.end.saturating_sub(1).max(range.start);
    let tail = text.as_bytes().get(last..).unwrap_or_default();
    let end = tail.iter().position(|byte| *byte == b'\n').map_or(text.len(), |index| last + index);
    text.get(start..end).unwrap_or_default()
}

fn contains_lines(text: &str, lines: &str) -> bool {
    text.match_indices(lines).any(|(offset, _)| {
        let end = offset + lines.len();
        (offset == 0 || text.get(..offset).is_some_and(|head| head.ends_with('\n')))
            && (end == text.len() || text.get(end..).is_some_and(|tail| tail.starts_with('\n')))
    })
}

/// Whether only whitespace is next to the match in its lines.
fn covers_whole_lines(text: &str, range: &Range<usize>) -> bool {
    let quoted = text.get(range.clone()).unwrap_or_default();
    touched_lines(text, range).trim() == quoted.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: Option<&str>, new: &str, quoted: &str) -> bool {
        let source = SourceText::new(new);
        let offset = source.text().find(quoted).expect("the quoted text");
        is_current(old, &source, &(offset..offset + quoted.len()))
    }

    #[test]
    fn text_within_a_changed_word_or_after_new_text_is_rejected() {
        for (old, new, quoted) in [
            ("timeout = 3\n", "timeout = 30\n", "timeout = 3"),
            ("def foo():\n", "def foobar():\n", "def foo"),
            ("x = 1\ny\n", "max_x = 1\ny\n", "x = 1"),
            ("a\nb\nc = 1\n", "a\nb\nc = 12\n", "b\nc = 1"),
            ("y\nx = 1\n", "y\n# x = 1\n", "x = 1"),
            ("x = 1\n", "// x = 1\n", "x = 1"),
            ("v = 1\n", "v = 1.5\n", "v = 1"),
            ("v = 1.5\n", "v = 1.55\n", "v = 1"),
            ("x = 1\n", "x = 1 + y\n", "x = 1"),
            ("f(a)\n", "f(a, b)\n", "f(a"),
            ("host: app\n", "host: app-2\n", "host: app"),
            ("é = 1\n", "né = 1\n", "é = 1"),
            ("x = 1\nx = 1\n", "x = 2\nx = 1\n", "x = 1"),
            ("a = 1\r\n", "a = 11\r\n", "a = 1"),
            ("v = 40\n", "v = 41\n", "v = 4"),
            ("one\n", "twenty\n", "wen"),
            ("a\n\nb\n", "a\nb\n", "\n"),
        ] {
            assert!(!check(Some(old), new, quoted), "{old:?} {new:?} {quoted:?}");
        }
    }

    #[test]
    fn unchanged_text_is_edited_wherever_it_is_now() {
        for (old, new, quoted) in [
            ("x = 1\ny\n", "x = 1  # keep\ny\n", "x = 1"),
            ("x = 1\ny = 2\n", "x = 1;\ny = 2;\n", "x = 1"),
            ("x = 1\ny = 2\n", "x = 5\ny = 2\n", "y = 2"),
            ("x = 1\ny\nz\n", "y\nz\nx = 1\n", "x = 1"),
            ("b = 2\nc\n", "b = 2\r\nc\r\n", "b = 2"),
            ("f(a, b, c)\n", "f(\n  a,\n  b,\n  c\n)\n", "b"),
            ("x = 1\n", "if a:\n    x = 1\n", "x = 1"),
            ("let a = 1, b = 2;\n", "let a = 7, b = 2;\n", "b = 2"),
            ("let a = 1, b = 2;\n", "let a = 1, b = 7;\n", "a = 1"),
            ("b = 2\nc = 3\n", "b=2\nc=3\n", "b=2"),
            ("foo()\n", "bar()\n", "bar()"),
            ("timeout = 30\nx\n", "timeout = 30\ny\n", "timeout = 3"),
            ("a\nb\nc", "a\nb\nd", "b\n"),
        ] {
            assert!(check(Some(old), new, quoted), "{old:?} {new:?} {quoted:?}");
        }
    }

    #[test]
    fn without_a_copy_only_complete_lines_are_edited() {
        assert!(check(None, "a\n  x = 1\nb\n", "x = 1"));
        assert!(check(None, "a\nx = 1\nb\n", "a\nx = 1\n"));
        assert!(!check(None, "a\nx = 12\nb\n", "x = 1"));
        assert!(!check(None, "a\n# x = 1\nb\n", "x = 1"));
    }
}
