//! Edit distance with a limit.

/// Returns the Levenshtein distance of two strings in characters if it is at most `limit`.
pub(crate) fn edit_distance(one: &str, two: &str, limit: usize) -> Option<usize> {
    // The difference of the lengths is a lower bound, and cheap.
    if one.chars().count().abs_diff(two.chars().count()) > limit {
        return None;
    }
    Some(strsim::levenshtein(one, two)).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_returned_up_to_the_limit() {
        assert_eq!(edit_distance("kitten", "sitting", 3), Some(3));
        assert_eq!(edit_distance("kitten", "sitting", 2), None);
        assert_eq!(edit_distance("kitten", "kit", 2), None);
        assert_eq!(edit_distance("naïve", "naive", 1), Some(1));
        assert_eq!(edit_distance("same", "same", 0), Some(0));
    }
}
