//! Brace expansion: `{rm,-rf,src}` becomes three words.

/// Maximum number of words produced from one; longer expansions are not performed.
const MAX_COUNT: usize = 64;
const MAX_LENGTH: usize = 4096;

/// Returns the source of the words that braces produce from this word, or the word itself if
/// it has no braces.
pub(super) fn expand(word: &str) -> Vec<String> {
    if word.len() > MAX_LENGTH {
        return vec![word.to_owned()];
    }
    let mut done = Vec::new();
    let mut waiting = vec![word.to_owned()];
    while let Some(word) = waiting.pop() {
        match expand_first_braces(&word) {
            Some(words) if done.len() + waiting.len() + words.len() <= MAX_COUNT => {
                waiting.extend(words.into_iter().rev());
            }
            _ => done.push(word),
        }
    }
    done
}

/// Returns the words that the first braces produce.
fn expand_first_braces(word: &str) -> Option<Vec<String>> {
    let mut from = 0;
    while let Some(open) = find(word, from, '{') {
        let behind_dollar = word.get(..open)?.ends_with('$');
        if let Some((close, commas)) = alternatives(word, open)
            && !behind_dollar
            && !commas.is_empty()
        {
            let starts = std::iter::once(open + 1).chain(commas.iter().map(|comma| comma + 1));
            let ends = commas.iter().copied().chain([close]);
            let (before, behind) = (word.get(..open)?, word.get(close + 1..)?);
            let parts = starts.zip(ends).filter_map(|(start, end)| word.get(start..end));
            return Some(parts.map(|part| format!("{before}{part}{behind}")).collect());
        }
        from = open + 1;
    }
    None
}

/// Returns the end of the brace opened at `open` and the positions of the commas inside it.
fn alternatives(word: &str, open: usize) -> Option<(usize, Vec<usize>)> {
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, character) in unquoted_characters(word, open) {
        match character {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((at, commas));
                }
            }
            ',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}

fn find(word: &str, from: usize, brace: char) -> Option<usize> {
    unquoted_characters(word, from)
        .find(|(_, character)| *character == brace)
        .map(|(offset, _)| offset)
}

/// Returns the characters from `from` that are outside quotes and substitutions.
fn unquoted_characters(word: &str, from: usize) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut escaped = false;
    let mut parentheses = 0_usize;
    word.char_indices().filter(move |(offset, character)| {
        let plain = quote.is_none() && !escaped && parentheses == 0;
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (None, '\'' | '"' | '`') => quote = Some(*character),
            (Some(open), close) if open == *close => quote = None,
            (None, '(') => parentheses += 1,
            (None, ')') => parentheses = parentheses.saturating_sub(1),
            _ => {}
        }
        plain && *offset >= from
    })
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn brace_expansion_matches_bash() {
        for (word, expected) in [
            ("{rm,-rf,src}", "rm -rf src"),
            ("a{b,c{d,e}}f", "abf acdf acef"),
            ("{a,b}{c,d}", "ac ad bc bd"),
            ("{}", "{}"),
            ("{a}", "{a}"),
            ("${a,b}", "${a,b}"),
            ("'{a,b}'", "'{a,b}'"),
            ("\\{a,b}", "\\{a,b}"),
            ("$(x {a,b})", "$(x {a,b})"),
            ("{,x}", " x"),
        ] {
            assert_eq!(expand(word).join(" "), expected, "{word}");
        }
        assert!(expand(&"{a,b}".repeat(20)).len() <= 64);
    }
}
