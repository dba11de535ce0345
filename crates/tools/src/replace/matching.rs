//! Finding the text that is to be replaced: exactly, then with more and more
//! tolerance for blanks and small slips.

use std::ops::Range;

use regex::RegexBuilder;

use super::fuzzy;
use super::source::{Source, plain_ends};

/// How the text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// As it stands.
    Exact,
    /// Line by line, blanks at both ends of a line left out.
    Flexible,
    /// Token by token, with any blanks between them.
    Regex,
    /// With a few wrong characters.
    Fuzzy,
}

impl Strategy {
    /// What is said of an approximate match.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Flexible => Some("Applied flexible match (leading and trailing blanks differ)"),
            Self::Regex => Some("Applied regex match (blanks between tokens differ)"),
            Self::Fuzzy => Some("Applied fuzzy match"),
        }
    }
}

/// One place to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Where it is in [`Source::text`].
    pub range: Range<usize>,
    /// What is to stand there.
    pub new: String,
    /// Its first and last line, from 1.
    pub lines: (usize, usize),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How.
    pub strategy: Strategy,
    /// Where, sorted, not overlapping. Empty when nothing fits.
    pub hits: Vec<Hit>,
    /// Whether there are more places than are ever changed at once.
    pub more: bool,
    /// Places that fit nearly as well as the only hit (lines, from 1): which
    /// one is meant cannot be told.
    pub rivals: Vec<(usize, usize)>,
}

/// Old and new text as the model gave them, with `\n` line ends.
pub(crate) struct Wanted {
    pub(crate) old: String,
    pub(crate) new: String,
}

impl Wanted {
    pub(crate) fn old_ends_line(&self) -> bool {
        self.old.ends_with('\n')
    }

    /// The lines of the old text; a final line end begins no further line.
    pub(crate) fn old_lines(&self) -> Vec<&str> {
        self.old.strip_suffix('\n').unwrap_or(&self.old).split('\n').collect()
    }
}

/// Places changed at once.
const MAX_HITS: usize = 100_000;
/// Bytes of new text in one file.
const MAX_NEW: usize = 32 * 1024 * 1024;
/// In longer files only exact matches are looked for.
const MAX_LINES: usize = 500_000;

/// Finds `old` in the text; the first strategy that finds anything decides.
pub fn find(source: &Source<'_>, old: &str, new: &str) -> Found {
    let wanted = Wanted { old: plain_ends(old), new: plain_ends(new) };
    let room = (MAX_NEW / wanted.new.len().max(1)).clamp(1, MAX_HITS);
    let found = |strategy, mut hits: Vec<Hit>| {
        let more = hits.len() > room;
        hits.truncate(room);
        Found { strategy, hits, more, rivals: Vec::new() }
    };
    if wanted.old.is_empty() {
        return found(Strategy::Exact, Vec::new());
    }
    let hits = exact(source, &wanted, room + 1);
    if !hits.is_empty() {
        return found(Strategy::Exact, hits);
    }
    // Blanks alone say nothing about a place.
    if wanted.old.trim().is_empty() || source.line_count() > MAX_LINES {
        return found(Strategy::Exact, Vec::new());
    }
    let hits = flexible(source, &wanted, room + 1);
    if !hits.is_empty() {
        return found(Strategy::Flexible, hits);
    }
    let hits = by_tokens(source, &wanted, room + 1);
    if !hits.is_empty() {
        return found(Strategy::Regex, hits);
    }
    let (hits, rivals) = fuzzy::find(source, &wanted);
    Found { rivals, ..found(Strategy::Fuzzy, hits) }
}

fn exact(source: &Source<'_>, wanted: &Wanted, most: usize) -> Vec<Hit> {
    source
        .text()
        .match_indices(&wanted.old)
        .take(most)
        .map(|(at, text)| {
            let range = at..at + text.len();
            // A line end at the end of the match belongs to the line before.
            let last = range.end.saturating_sub(1).max(range.start);
            let lines = (source.line_number(range.start), source.line_number(last));
            Hit { range, new: wanted.new.clone(), lines }
        })
        .collect()
}

fn flexible(source: &Source<'_>, wanted: &Wanted, most: usize) -> Vec<Hit> {
    let lines: Vec<&str> = source.text().split('\n').map(str::trim).collect();
    let old: Vec<&str> = wanted.old_lines().into_iter().map(str::trim).collect();
    let mut hits = Vec::new();
    let mut index = 0;
    while let Some(window) = lines.get(index..index + old.len()) {
        if hits.len() >= most {
            break;
        }
        if window == old {
            hits.push(block(source, wanted, index, old.len()));
            index += old.len();
        } else {
            index += 1;
        }
    }
    hits
}

/// A hit on whole lines, the new text indented like the old block.
pub(crate) fn block(source: &Source<'_>, wanted: &Wanted, first: usize, count: usize) -> Hit {
    let last = first + count - 1;
    let mut range = source.line(first).start..source.line(last).end;
    let lines = (first + 1, last + 1);
    let target = (first..=last)
        .map(|line| source.text().get(source.line(line)).unwrap_or_default())
        .find(|line| !line.trim().is_empty())
        .map_or("", indent_of);
    let mut new = reindent(&wanted.new, target);
    if wanted.old_ends_line() {
        if range.end < source.text().len() {
            range.end += 1;
        } else if new.ends_with('\n') {
            // The file does not have the final line end that the old text has.
            new.pop();
        }
    }
    Hit { range, new, lines }
}

fn indent_of(line: &str) -> &str {
    let text = line.trim_start_matches([' ', '\t']);
    line.get(..line.len() - text.len()).unwrap_or_default()
}

/// Swaps the indent of the first line that is not blank for `target`; the
/// others keep theirs relative to it, blank lines become empty.
fn reindent(text: &str, target: &str) -> String {
    let own = text.split('\n').find(|line| !line.trim().is_empty()).map_or("", indent_of);
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            if line.trim().is_empty() {
                return String::new();
            }
            let rest = line.strip_prefix(own);
            format!("{target}{}", rest.unwrap_or_else(|| line.trim_start_matches([' ', '\t'])))
        })
        .collect();
    lines.join("\n")
}

/// Longer texts make patterns that cost more than they find.
const MAX_TOKENS: usize = 2_000;

fn by_tokens(source: &Source<'_>, wanted: &Wanted, most: usize) -> Vec<Hit> {
    let mut spaced = String::with_capacity(wanted.old.len() * 2);
    for character in wanted.old.chars() {
        if matches!(character, '(' | ')' | ':' | '[' | ']' | '{' | '}' | '>' | '<' | '=') {
            spaced.extend([' ', character, ' ']);
        } else {
            spaced.push(character);
        }
    }
    let tokens: Vec<String> = spaced.split_whitespace().map(regex::escape).collect();
    if tokens.is_empty() || tokens.len() > MAX_TOKENS {
        return Vec::new();
    }
    let pattern = format!("^([ \\t]*){}", tokens.join("\\s*"));
    let Ok(regex) = RegexBuilder::new(&pattern).multi_line(true).build() else {
        return Vec::new();
    };
    let text = source.text();
    regex
        .captures_iter(text)
        .take(most)
        .filter_map(|captures| {
            let (whole, indent) = (captures.get(0)?, captures.get(1)?);
            let mut range = whole.range();
            let mut new = reindent(&wanted.new, indent.as_str());
            let lines =
                (source.line_number(range.start), source.line_number(range.end.saturating_sub(1)));
            if wanted.old_ends_line() {
                let rest = text.get(range.end..).unwrap_or_default();
                let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
                if rest.get(blanks..).is_some_and(|rest| rest.starts_with('\n')) {
                    range.end += blanks + 1;
                } else if new.ends_with('\n') {
                    new.pop();
                }
            }
            Some(Hit { range, new, lines })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_assume, proptest};

    fn edit(text: &str, old: &str, new: &str) -> (Strategy, String) {
        let source = Source::new(text);
        let found = find(&source, old, new);
        (found.strategy, applied(&source, text, &found))
    }

    fn applied(source: &Source<'_>, raw: &str, found: &Found) -> String {
        let mut out = String::new();
        let mut at = 0;
        for hit in &found.hits {
            let splice = source.splice(&hit.range, &hit.new);
            out.push_str(&raw[at..splice.range.start]);
            out.push_str(&splice.text);
            at = splice.range.end;
        }
        out + &raw[at..]
    }

    #[test]
    fn flexible_keeps_indent_and_the_blank_line_behind() {
        let text = "class A {\n\tone() {\n\t\treturn 1;\n\t}\n\n\ttwo() {}\n}\n";
        let (strategy, new) =
            edit(text, "  one() {\n    return 1;\n  }\n", "  one() {\n    return 2;\n  }\n");
        assert_eq!(strategy, Strategy::Flexible);
        assert_eq!(new, "class A {\n\tone() {\n\t  return 2;\n\t}\n\n\ttwo() {}\n}\n");
        // The last line of the file has no line end; none is added.
        let (_, new) = edit("a\n  b", "b\n\n".trim_end_matches('\n'), "c");
        assert_eq!(new, "a\n  c");
        let (strategy, new) = edit("a\n  b  x", " b  x\n", " c\n");
        assert_eq!((strategy, new.as_str()), (Strategy::Flexible, "a\n  c"));
    }

    #[test]
    fn tokens_may_stand_apart() {
        let (strategy, new) =
            edit("  if(a==b){go();}\nend\n", "if (a == b) { go(); }\n", "if (b) {\n  stay();\n}\n");
        assert_eq!(
            (strategy, new.as_str()),
            (Strategy::Regex, "  if (b) {\n    stay();\n  }\nend\n")
        );
    }

    #[test]
    fn fuzzy_takes_a_slip_but_no_rival() {
        let text = "let first_value = compute_something(1);\nlet other = 2;\n";
        let (strategy, new) =
            edit(text, "let first_valeu = compute_something(1);", "let first = 1;");
        assert_eq!((strategy, new.as_str()), (Strategy::Fuzzy, "let first = 1;\nlet other = 2;\n"));

        let text = "assert_equal(value_one, 1, \"a\");\nassert_equal(value_one, 2, \"b\");\n";
        let source = Source::new(text);
        let found = find(&source, "assert_equal(value_one, 3, \"c\");", "x");
        assert!(found.hits.len() != 1 || !found.rivals.is_empty(), "{found:?}");
    }

    #[test]
    fn mixed_line_ends_stay_where_nothing_changed() {
        let text = "a\r\nb\nc\r\nd\n";
        assert_eq!(edit(text, "b\nc", "b\nx\nc").1, "a\r\nb\nx\r\nc\r\nd\n");
        assert_eq!(edit(text, "b", "B").1, "a\r\nB\nc\r\nd\n");
        assert_eq!(edit(text, "a\nb\nc\nd\n", "a\nb\nC\nd\n").1, "a\r\nb\nC\r\nd\n");
        assert_eq!(edit("a\r\nb\r\n", "a\nb", "a\nx\ny").1, "a\r\nx\r\ny\r\n");
        assert_eq!(edit("a\nb", "b", "b\n").1, "a\nb\n");
        assert_eq!(edit("a\nb\n", "b\n", "b").1, "a\nb");
        assert_eq!(edit("$x $1", "$1", "$&$2").1, "$x $&$2");
    }

    proptest! {
        #[test]
        fn exact_is_the_plain_replacement(
            text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,3}",
        ) {
            prop_assume!(text.contains(&old));
            let (strategy, result) = edit(&text, &old, &new);
            prop_assert_eq!(strategy, Strategy::Exact);
            prop_assert_eq!(result, text.replace(&old, &new));
        }

        #[test]
        fn bytes_outside_of_the_lines_named_stay(
            lines in proptest::collection::vec("[ \ta-d(){}é\u{1F600}]{0,14}(\r?)", 0..14),
            from in 0usize..14, count in 1usize..4, noise in "[ a-dé]{0,2}", new in "[ a-d\r\n]{0,12}", old_end in any::<bool>(),
        ) {
            let text = lines.join("\n");
            let mut old = lines.iter().skip(from).take(count).map(|line| line.trim()).collect::<Vec<_>>().join("\n");
            old.push_str(&noise);
            if old_end { old.push('\n'); }
            let source = Source::new(&text);
            let found = find(&source, &old, &new);
            let result = applied(&source, &text, &found);
            if let (Some(first), Some(last)) = (found.hits.first(), found.hits.last()) {
                let raw: Vec<&str> = text.split_inclusive('\n').collect();
                let head = raw[..first.lines.0 - 1].concat();
                let tail = raw[last.lines.1.min(raw.len())..].concat();
                prop_assert!(result.starts_with(&head), "{:?} {:?}", found, result);
                prop_assert!(result.ends_with(&tail), "{:?} {:?}", found, result);
            } else {
                prop_assert_eq!(result, text);
            }
            for pair in found.hits.windows(2) {
                prop_assert!(pair[0].range.end <= pair[1].range.start);
            }
        }

        #[test]
        fn no_text_is_too_strange(text: String, old: String, new: String) {
            let _ = edit(&text, &old, &new);
            let _ = edit(&format!("{text}{old}\r\n{text}"), &format!(" {old}"), &new);
        }
    }
}
