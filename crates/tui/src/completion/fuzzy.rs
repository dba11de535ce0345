//! Fuzzy matching of strings against the typed query.

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// A fuzzy matcher that reuses its buffers.
#[derive(Debug)]
pub struct FuzzyMatcher {
    matcher: Matcher,
    chars: Vec<char>,
    scores: Vec<(u16, u32)>,
    kind: AtomKind,
}

impl FuzzyMatcher {
    /// Creates a matcher for words: commands and names.
    pub fn for_words() -> Self {
        Self::with(Config::DEFAULT)
    }

    /// Creates a matcher for paths: matches at the start of a name score higher.
    pub fn paths() -> Self {
        Self::with(Config::DEFAULT.match_paths())
    }

    /// Creates a matcher for paths that contain the query as a substring.
    pub fn for_paths() -> Self {
        Self { kind: AtomKind::Substring, ..Self::paths() }
    }

    fn with(config: Config) -> Self {
        let (chars, scores, kind) = (Vec::new(), Vec::new(), AtomKind::Fuzzy);
        Self { matcher: Matcher::new(config), chars, scores, kind }
    }

    /// Returns the score of a string, or `None` if it does not match. Uppercase in the query makes
    /// the match case-sensitive.
    pub fn score(&mut self, text: &str, query: &str) -> Option<u16> {
        let atom = atom(query, self.kind);
        atom.score(Utf32Str::new(text, &mut self.chars), &mut self.matcher)
    }

    /// Returns the indexes of the best `limit` strings, best first, shorter ones first among
    /// equals. `within` restricts the search to these indexes and receives all matches, so that a
    /// longer query only needs to search those.
    pub fn best_matches(
        &mut self,
        texts: &[String],
        query: &str,
        limit: usize,
        within: Option<&mut Vec<u32>>,
    ) -> Vec<u32> {
        let atom = atom(query, self.kind);
        let mut scored = std::mem::take(&mut self.scores);
        scored.clear();
        let mut look = |number: u32| {
            let text = texts.get(number as usize)?;
            let score = atom.score(Utf32Str::new(text, &mut self.chars), &mut self.matcher)?;
            Some((score, number))
        };
        match &within {
            Some(within) if !within.is_empty() => {
                scored.extend(within.iter().filter_map(|number| look(*number)));
            }
            _ => scored.extend((0..u32::try_from(texts.len()).unwrap_or(0)).filter_map(look)),
        }
        if let Some(within) = within {
            within.clear();
            within.extend(scored.iter().map(|(_, number)| *number));
        }
        let length = |number: u32| texts.get(number as usize).map_or(0, String::len);
        let order = |one: &(u16, u32), other: &(u16, u32)| {
            let lengths = length(one.1).cmp(&length(other.1));
            other.0.cmp(&one.0).then(lengths).then(one.1.cmp(&other.1))
        };
        if scored.len() > limit && limit > 0 {
            scored.select_nth_unstable_by(limit - 1, order);
            scored.truncate(limit);
        }
        scored.sort_unstable_by(order);
        let best = scored.iter().map(|(_, number)| *number).collect();
        self.scores = scored;
        best
    }
}

fn atom(query: &str, kind: AtomKind) -> Atom {
    Atom::new(query, CaseMatching::Smart, Normalization::Smart, kind, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_matches_come_first() {
        let paths: Vec<String> =
            ["src/domain.rs", "docs/maintaining.md", "src/main.rs", "readme.md", "src/Main.kt"]
                .map(str::to_owned)
                .to_vec();
        let mut fuzzy = FuzzyMatcher::paths();
        let mut within = Vec::new();
        assert_eq!(fuzzy.best_matches(&paths, "main", 3, Some(&mut within)), [2, 4, 1]);
        assert_eq!(within, [0, 1, 2, 4]);
        assert_eq!(fuzzy.best_matches(&paths, "main.rs", 9, Some(&mut within)), [2, 0]);
        assert_eq!(fuzzy.best_matches(&paths, "Main", 9, None), [4]);
        assert_eq!(fuzzy.best_matches(&paths, "zzz", 9, None), [] as [u32; 0]);
        let mut parts = FuzzyMatcher::for_paths();
        assert_eq!(parts.score("src/main.rs", "smain"), None);
        assert!(parts.score("src/main.rs", "main").is_some());
    }
}
