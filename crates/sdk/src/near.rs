//! Names near a name that nobody knows.

use crate::distance;

/// Names that an error offers.
const MOST: usize = 3;

/// Names that differ little from the one typed or begin with it, nearest first.
pub(crate) fn near<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let allowed = (typed.chars().count() / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|name| {
            let distance = distance(typed, name);
            let begins = typed.len() > 1 && name.starts_with(typed);
            (distance <= allowed || begins).then_some((distance, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_beginnings_are_near() {
        let known = ["git:commit", "git:push", "review", "fix"];
        assert_eq!(near("git:comit", known.into_iter()), ["git:commit"]);
        assert_eq!(near("git", known.into_iter()), ["git:push", "git:commit"]);
        assert!(near("zzz", known.into_iter()).is_empty());
    }
}
