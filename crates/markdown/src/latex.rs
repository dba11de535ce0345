//! Converts the LaTeX that models write into answers to Unicode, as far as possible.

mod symbols;

use std::borrow::Cow;

use symbols::{ABOVE, BELOW, DOUBLE_STRUCK, SYMBOLS};

/// Commands that only set the look of their argument or the size of a bracket.
const DROPPED: &[&str] = &[
    "text",
    "mathrm",
    "mathbf",
    "mathit",
    "mathcal",
    "mathsf",
    "mathtt",
    "operatorname",
    "textbf",
    "textit",
    "boxed",
    "left",
    "right",
    "big",
    "Big",
    "bigg",
    "Bigg",
    "displaystyle",
    "limits",
    "mathop",
    "begin",
    "end",
];

/// Maximum nesting depth of braces.
const MAX_DEPTH: usize = 16;

fn symbol(name: &str) -> Option<&'static str> {
    SYMBOLS.iter().find(|(command, _)| *command == name).map(|(_, symbol)| *symbol)
}

/// Whether the text between two dollar signs is a formula, and not two amounts of money or two
/// shell variables.
pub(super) fn is_formula(math: &str) -> bool {
    let mut chars = math.chars();
    let one_letter = chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none();
    let command = math
        .match_indices('\\')
        .any(|(at, _)| math[at + 1..].starts_with(|char: char| char.is_ascii_alphabetic()));
    one_letter || command || math.contains('^')
}

/// Converts a formula to Unicode as far as possible; the rest is unchanged.
pub(super) fn to_unicode(math: &str) -> String {
    let mut out = String::with_capacity(math.len());
    convert(math, &mut out, 0);
    out
}

fn convert(math: &str, out: &mut String, depth: usize) {
    let mut rest = math;
    while let Some(char) = rest.chars().next() {
        let after = &rest[char.len_utf8()..];
        rest = match char {
            '\\' => command(after, out, depth),
            '^' => script(after, '^', ABOVE, out, depth),
            '_' => script(after, '_', BELOW, out, depth),
            '{' | '}' => after,
            '~' => {
                out.push(' ');
                after
            }
            other => {
                out.push(other);
                after
            }
        };
    }
}

fn inner(math: &str, depth: usize) -> String {
    let mut out = String::new();
    if depth < MAX_DEPTH {
        convert(math, &mut out, depth + 1);
    } else {
        out.push_str(math);
    }
    out
}

/// Converts a command after a backslash and returns the text after it.
fn command<'a>(after: &'a str, out: &mut String, depth: usize) -> &'a str {
    let length = after.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(after.len());
    if length == 0 {
        // `\{`, `\,` and similar.
        let Some(char) = after.chars().next() else {
            out.push('\\');
            return after;
        };
        match char {
            ',' | ';' | ':' | ' ' | '\\' => out.push(' '),
            '!' => {}
            other => out.push(other),
        }
        return &after[char.len_utf8()..];
    }
    let (name, rest) = after.split_at(length);
    match name {
        "frac" | "dfrac" | "tfrac" => {
            let (above, rest) = argument(rest);
            let (below, rest) = argument(rest);
            let (above, below) = (inner(above, depth), inner(below, depth));
            let bracket = |text: String| {
                if text.chars().all(char::is_alphanumeric) { text } else { format!("({text})") }
            };
            out.push_str(&format!("{}/{}", bracket(above), bracket(below)));
            rest
        }
        "sqrt" => {
            let (under, rest) = argument(rest);
            let under = inner(under, depth);
            out.push('√');
            match under.chars().count() {
                0 | 1 => out.push_str(&under),
                _ => out.push_str(&format!("({under})")),
            }
            rest
        }
        "mathbb" => {
            let (letters, rest) = argument(rest);
            for letter in letters.chars() {
                match DOUBLE_STRUCK.iter().find(|(plain, _)| *plain == letter) {
                    Some((_, struck)) => out.push_str(struck),
                    None => out.push(letter),
                }
            }
            rest
        }
        name if DROPPED.contains(&name) => rest,
        name => {
            match symbol(name) {
                Some(symbol) => out.push_str(symbol),
                None if matches!(
                    name,
                    "log"
                        | "ln"
                        | "exp"
                        | "sin"
                        | "cos"
                        | "tan"
                        | "min"
                        | "max"
                        | "lim"
                        | "det"
                        | "gcd"
                        | "mod"
                ) =>
                {
                    out.push_str(name);
                }
                None => {
                    out.push('\\');
                    out.push_str(name);
                }
            }
            rest
        }
    }
}

/// Returns the argument at the start: in braces, or one character.
fn argument(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else { return ("", "") };
    if first != '{' {
        return text.split_at(first.len_utf8());
    }
    let mut depth = 0usize;
    for (offset, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..offset], &text[offset + 1..]);
        }
    }
    (&text[1..], "")
}

fn script<'a>(
    after: &'a str,
    character: char,
    table: (&str, &str),
    out: &mut String,
    depth: usize,
) -> &'a str {
    let (script, rest) = if let Some(after) = after.strip_prefix('\\') {
        let mut one = String::new();
        let rest = command(after, &mut one, depth);
        (one, rest)
    } else {
        let (script, rest) = argument(after);
        (inner(script, depth), rest)
    };
    let small = |char: char| {
        table
            .0
            .chars()
            .zip(table.1.chars())
            .find(|(plain, _)| *plain == char)
            .map(|(_, small)| small)
    };
    match script.chars().map(small).collect::<Option<String>>() {
        Some(small) => out.push_str(&small),
        None if script.chars().count() == 1 => {
            out.push(character);
            out.push_str(&script);
        }
        None => out.push_str(&format!("{character}({script})")),
    }
    rest
}

/// Replaces single commands such as `\rightarrow` that are separate words. (A path such as
/// `C:\to\x` keeps its backslashes.)
pub(super) fn fragments(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut done = 0;
    for (offset, _) in text.match_indices('\\') {
        let joined = |char: char| char.is_alphanumeric() || matches!(char, ':' | '\\' | '/' | '.');
        if offset < done || text[..offset].ends_with(joined) {
            continue;
        }
        let after = &text[offset + 1..];
        let length = after.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(after.len());
        // Before another backslash, `\in` and `\to` are too short to be certain.
        let Some(symbol) = symbol(&after[..length]).filter(|_| !after[length..].starts_with('\\'))
        else {
            continue;
        };
        out.push_str(&text[done..offset]);
        out.push_str(symbol);
        done = offset + 1 + length;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_converted_to_unicode() {
        for (math, out) in [
            (r"\alpha \to \beta", "α → β"),
            (r"x^2 + y_{10}", "x² + y₁₀"),
            (r"\frac{a+b}{2}", "(a+b)/2"),
            (r"\sqrt{n} \leq \mathbb{R}", "√n ≤ ℝ"),
            (r"O(n \log n)", "O(n log n)"),
            (r"e^{i\pi}", "e^(iπ)"),
            (r"\text{if } \unknown", r"if  \unknown"),
            (r"\frac{a", "a/"),
            (r"a^", "a"),
        ] {
            assert_eq!(to_unicode(math), out, "{math}");
        }
    }

    #[test]
    fn amounts_and_variables_are_not_formulas() {
        assert!(is_formula("x") && is_formula(r"\pi r") && is_formula("n^2"));
        assert!(!is_formula("5 and ") && !is_formula("HOME_DIR/"));
    }

    #[test]
    fn paths_keep_their_backslashes() {
        assert_eq!(fragments(r"a \rightarrow b"), "a → b");
        assert_eq!(fragments(r"C:\to\alpha \to\x"), r"C:\to\alpha \to\x");
    }
}
