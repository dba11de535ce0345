//! Folds warnings of one kind into one line with a count.

use std::collections::HashMap;

/// Up to this number, warnings of one kind are all shown.
const ALL_SHOWN: usize = 3;

/// Returns the strings in their order; of more than three that differ only in names, paths, and
/// numbers, only the first, with the number of the others.
pub fn merge_similar(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    merge_similar_by(texts.into_iter().collect(), |text| text)
}

/// Like [`merge_similar`], for values with text.
pub fn merge_similar_by<T>(mut all: Vec<T>, text_of: impl Fn(&mut T) -> &mut String) -> Vec<T> {
    if all.len() <= ALL_SHOWN {
        return all;
    }
    let kinds: Vec<String> = all.iter_mut().map(|one| kind(text_of(one))).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for kind in &kinds {
        *counts.entry(kind).or_default() += 1;
    }
    let mut found = Vec::new();
    for (mut one, kind) in all.into_iter().zip(&kinds) {
        match counts.get_mut(kind.as_str()) {
            Some(0) => {}
            Some(count) if *count > ALL_SHOWN => {
                text_of(&mut one).push_str(&format!(" (and {} more like it)", *count - 1));
                found.push(one);
                *count = 0;
            }
            _ => found.push(one),
        }
    }
    found
}

/// Returns the text without what is in backticks, words that contain a slash, and digits.
fn kind(text: &str) -> String {
    let plain: Vec<&str> = text.split('`').step_by(2).collect();
    let words = plain.join("`");
    let words = words.split_whitespace().filter(|word| !word.contains('/'));
    words.flat_map(|word| word.chars().filter(|char| !char.is_ascii_digit()).chain([' '])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_warnings_of_one_kind_become_one_with_a_count() {
        let texts = |count: usize| {
            let file_warnings = (0..count)
                .map(|n| format!("`/h/e{n}` is invalid: error in /h/e{n}:1:2; correct it"));
            file_warnings.chain(["other".to_owned()]).collect::<Vec<_>>()
        };
        assert_eq!(merge_similar(texts(3)), texts(3));
        let first = &texts(1)[0];
        assert_eq!(
            merge_similar(texts(12)),
            [format!("{first} (and 11 more like it)"), "other".to_owned()]
        );
        let different = ["a: x", "b: x", "c: x", "d: x"].map(str::to_owned);
        assert_eq!(merge_similar(different.clone()), different);
    }
}
