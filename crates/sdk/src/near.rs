//! Names near a name that nobody knows.

/// Names that an error offers.
const MOST: usize = 3;
/// A longer text, in bytes, is no slip in a name.
const LONGEST: usize = 256;

/// Names that differ little from the one typed, by two slips and 60 % of its letters
/// at most, or begin with it as whole words (`git` and `git:push`), nearest first. What
/// is little grows with the length: in four letters two slips leave nothing of the word.
pub fn near<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    if typed.len() > LONGEST {
        return Vec::new();
    }
    // Names are written small; capitals are no slip.
    let typed = typed.to_lowercase();
    let typed = typed.as_str();
    let allowed = (typed.chars().count() / 3).clamp(1, 2);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|name| {
            let slips = if is_swap(typed, name) { 1 } else { strsim::levenshtein(typed, name) };
            let rest = name.strip_prefix(typed).filter(|_| typed.len() > 1);
            let begins = rest.is_some_and(|rest| rest.starts_with(['-', ':', '.', '_', ' ']));
            // One slip in one or two letters is another word.
            let close = slips <= allowed && slips < typed.chars().count().max(2) - 1;
            (close || begins).then_some((slips, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Whether two neighbours changed their places, and nothing else.
fn is_swap(one: &str, other: &str) -> bool {
    let differing: Vec<(usize, (char, char))> =
        one.chars().zip(other.chars()).enumerate().filter(|(_, (a, b))| a != b).collect();
    match differing.as_slice() {
        [(at, (a, b)), (next, (c, d))] => {
            *next == at + 1 && a == d && b == c && one.chars().count() == other.chars().count()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_beginnings_are_near() {
        let known = ["git:commit", "git:push", "review", "fix", "about", "at", "cat", "stats"];
        assert_eq!(near("git:comit", known.into_iter()), ["git:commit"]);
        assert_eq!(near("git", known.into_iter()), ["git:push", "git:commit"]);
        assert_eq!(near("abuot", known.into_iter()), ["about"]);
        assert_eq!(near("stat", known.into_iter()), ["stats"]);
        assert_eq!(near("STATS", known.into_iter()), ["stats"]);
        assert!(near("zzz", known.into_iter()).is_empty());
        assert!(near("x", known.into_iter()).is_empty());
    }
}
