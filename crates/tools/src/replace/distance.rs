//! Edit distance with a limit, in time proportional to length × limit.

/// Returns the Levenshtein distance of two character sequences if it is at most `limit`.
pub fn distance(one: &[char], two: &[char], limit: usize) -> Option<usize> {
    let (short, long) = if one.len() <= two.len() { (one, two) } else { (two, one) };
    if long.len() - short.len() > limit {
        return None;
    }
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short, long) = (short.get(same..)?, long.get(same..)?);
    let same = short.iter().rev().zip(long.iter().rev()).take_while(|(a, b)| a == b).count();
    let (short, long) = (short.get(..short.len() - same)?, long.get(..long.len() - same)?);
    if short.is_empty() {
        return Some(long.len());
    }
    // Only cells near the diagonal can be within the limit.
    const FAR: usize = usize::MAX / 2;
    let mut row: Vec<usize> =
        (0..=short.len()).map(|cell| if cell <= limit { cell } else { FAR }).collect();
    for (index, character) in long.iter().enumerate() {
        let line = index + 1;
        let first = line.saturating_sub(limit).max(1);
        let last = (line + limit).min(short.len());
        // The cells to the left of the band, in the previous row and in this one.
        let mut diagonal = row.get(first - 1).copied().unwrap_or(FAR);
        let mut left = if first == 1 && line <= limit { line } else { FAR };
        if let Some(cell) = row.get_mut(first - 1) {
            *cell = left;
        }
        let mut best = left;
        let band = row.get_mut(first..=last).unwrap_or_default();
        let letters = short.get(first - 1..last).unwrap_or_default();
        for (cell, letter) in band.iter_mut().zip(letters) {
            let above = *cell;
            let replaced = diagonal + usize::from(letter != character);
            left = replaced.min(above + 1).min(left + 1);
            *cell = left;
            diagonal = above;
            best = best.min(left);
        }
        if best > limit {
            return None;
        }
        // The next row reads one more cell, which is stale.
        if let Some(cell) = row.get_mut(last + 1) {
            *cell = FAR;
        }
    }
    row.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(one: &[char], two: &[char]) -> usize {
        let mut row: Vec<usize> = (0..=two.len()).collect();
        for (i, a) in one.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i + 1;
            for (j, b) in two.iter().enumerate() {
                let next = (diagonal + usize::from(a != b)).min(row[j] + 1).min(row[j + 1] + 1);
                diagonal = std::mem::replace(&mut row[j + 1], next);
            }
        }
        row[two.len()]
    }

    proptest! {
        #[test]
        fn the_limit_changes_nothing_else(one in "[abc]{0,14}", two in "[abc]{0,14}", limit in 0usize..16) {
            let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
            let wanted = plain(&one, &two);
            prop_assert_eq!(distance(&one, &two, limit), (wanted <= limit).then_some(wanted));
        }
    }
}
