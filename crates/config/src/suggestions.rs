//! Suggestions for unknown names.

/// Maximum number of suggestions.
const MAX_COUNT: usize = 3;
/// Maximum length in bytes of a name that may be a typo.
const MAX_BYTES: usize = 256;

/// Returns known names similar to the typed one, closest first: names that differ by a few typos
/// (at most two, fewer for short names) or that begin with it as whole words (`git` and
/// `git:push`).
pub fn similar_names<'a>(input: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    if input.len() > MAX_BYTES {
        return Vec::new();
    }
    // Names are lowercase; case differences are not typos.
    let input = input.to_lowercase();
    let input = input.as_str();
    let allowed = (input.chars().count() / 3).clamp(1, 2);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|name| {
            let slips =
                if is_transposition(input, name) { 1 } else { strsim::levenshtein(input, name) };
            let rest = name.strip_prefix(input).filter(|_| input.len() > 1);
            let starts = rest.is_some_and(|rest| rest.starts_with(['-', ':', '.', '_', ' ']));
            // One typo in one or two letters makes a different word.
            let close = slips <= allowed && slips < input.chars().count().max(2) - 1;
            (close || starts).then_some((slips, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(MAX_COUNT).map(|(_, name)| name).collect()
}

/// Returns whether the names differ only by two swapped neighboring characters.
fn is_transposition(one: &str, other: &str) -> bool {
    let differences: Vec<(usize, (char, char))> =
        one.chars().zip(other.chars()).enumerate().filter(|(_, (a, b))| a != b).collect();
    match differences.as_slice() {
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
    fn typos_and_prefixes_are_similar() {
        let known = ["git:commit", "git:push", "review", "fix", "about", "at", "cat", "stats"];
        assert_eq!(similar_names("git:comit", known.into_iter()), ["git:commit"]);
        assert_eq!(similar_names("git", known.into_iter()), ["git:push", "git:commit"]);
        assert_eq!(similar_names("abuot", known.into_iter()), ["about"]);
        assert_eq!(similar_names("stat", known.into_iter()), ["stats"]);
        assert_eq!(similar_names("STATS", known.into_iter()), ["stats"]);
        assert!(similar_names("zzz", known.into_iter()).is_empty());
        assert!(similar_names("x", known.into_iter()).is_empty());
    }
}
