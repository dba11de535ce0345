//! Regular expressions of rules: linear time, bounded size.

use regex::{Regex, RegexBuilder};

const MAX_LENGTH: usize = 2048;
const MAX_BYTES: usize = 1 << 20;

/// Compiles a pattern of a rule.
///
/// # Errors
/// Returns why the pattern is invalid, for display.
pub(crate) fn compile(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    if has_nested_quantifiers(text) {
        return Err(
            "a repeated group cannot contain a repetition, as in `(a+)+`; remove the outer one"
                .to_owned(),
        );
    }
    build(&nul_escapes(text)).map_err(|error| explain(text, &error))
}

/// Compiles a pattern that must match from the first character.
pub(crate) fn compile_from_start(text: &str) -> Result<Regex, String> {
    compile(text)?;
    build(&format!("^(?:{})", nul_escapes(text))).map_err(|error| explain(text, &error))
}

fn build(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(MAX_BYTES).dfa_size_limit(MAX_BYTES).build()
}

fn explain(text: &str, error: &regex::Error) -> String {
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| text.contains(look)) {
        return "look-around (`(?=`, `(?!`, `(?<=`, `(?<!`) is not supported because patterns are \
            matched in linear time; use a second rule for what must not match"
            .to_owned();
    }
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large when compiled".to_owned(),
        error => {
            let text = error.to_string();
            if text.contains("backreferences") {
                "back-references (`\\1`) are not supported because patterns are matched in linear \
                 time"
                    .to_owned()
            } else {
                // The last line contains the message; the lines before it show the position.
                text.lines().last().unwrap_or("it is not a valid pattern").trim().to_owned()
            }
        }
    }
}

/// Translates `\0`, which other engines read as the NUL byte and which occurs in files written by
/// other programs.
fn nul_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        out.push(character);
        if character != '\\' {
            continue;
        }
        match characters.next() {
            Some('0') if !characters.peek().is_some_and(char::is_ascii_digit) => {
                out.push_str("x00");
            }
            Some(escaped) => out.push(escaped),
            None => {}
        }
    }
    out
}

/// Whether an unbounded repetition contains another unbounded repetition.
fn has_nested_quantifiers(text: &str) -> bool {
    let mut open: Vec<bool> = vec![false];
    let mut characters = text.chars().peekable();
    let mut class = false;
    let mut closed = None;
    while let Some(character) = characters.next() {
        let group = closed.take();
        match character {
            '\\' => {
                characters.next();
            }
            _ if class => class = character != ']',
            '[' => {
                class = true;
                characters.next_if_eq(&'^');
                characters.next_if_eq(&']');
            }
            '(' => {
                open.push(false);
                characters.next_if_eq(&'?');
            }
            ')' => closed = open.pop(),
            '*' | '+' | '{' => {
                let endless = character != '{' || {
                    let bounds: String =
                        characters.clone().take_while(|next| *next != '}').collect();
                    bounds.ends_with(',')
                };
                if endless {
                    if group == Some(true) {
                        return true;
                    }
                    if let Some(inner) = open.last_mut() {
                        *inner = true;
                    }
                }
            }
            _ => {}
        }
        // An enclosing group also contains what an inner group contains.
        if closed == Some(true)
            && let Some(outer) = open.last_mut()
        {
            *outer = true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{compile, has_nested_quantifiers};

    #[test]
    fn javascript_patterns_are_converted_or_rejected_with_a_reason() {
        let nul = compile(r#"\0"file_path":"a\.rs"\0"#).expect("compiles");
        assert!(nul.is_match("{\0\"file_path\":\"a.rs\"\0}"));
        assert!(compile(r"\\0").expect("compiles").is_match(r"\0"));
        for (pattern, reason) in [
            ("(?!x)", "look-around"),
            (r"(a)\1", "back-references"),
            ("(a+)+", "repetition"),
            ("(", "unclosed group"),
            ("(?:[a-z]{1000}){1000}", "too large"),
        ] {
            let why = compile(pattern).expect_err(pattern);
            assert!(why.contains(reason), "{pattern}: {why}");
        }
        assert!(compile(&"a".repeat(2049)).is_err());
    }

    #[test]
    fn only_nested_unbounded_repetitions_are_rejected() {
        for nested in ["(a*)*", "((a+))+", "(?:x|y+)*", "(a{2,})+", "([)]+)*"] {
            assert!(has_nested_quantifiers(nested), "{nested}");
        }
        for flat in ["(a+)", "(ab)+", "(a+)?", "[(+)]+", r"(\+)*", "(a{2})+", "a+b+", "(a+)(b)+"] {
            assert!(!has_nested_quantifiers(flat), "{flat}");
        }
    }
}
