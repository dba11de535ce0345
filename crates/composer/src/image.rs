//! Shows `@…/long/name.png` in the input as `[Image …name.png]`.

use std::ops::Range;

use parallax_screen::text_width;
use unicode_segmentation::UnicodeSegmentation;

/// Extensions of files that are sent as images.
const EXTENSIONS: [&str; 6] = ["png", "jpg", "jpeg", "webp", "heic", "heif"];

/// Maximum columns of the displayed name.
const MAX_COLUMNS: usize = 20;

/// Maximum length in bytes of a word that is shown as a label.
const MAX_WORD: usize = 4096;

/// Returns the `@` words of a line that name images, left to right.
pub fn ranges(line: &str) -> Vec<Range<usize>> {
    memchr::memchr_iter(b'@', line.as_bytes()).filter_map(|at| word(line, at)).collect()
}

fn word(line: &str, at: usize) -> Option<Range<usize>> {
    let before = line.get(..at)?.chars().next_back();
    if before.is_some_and(|char| !char.is_whitespace()) {
        return None;
    }
    let mut end = at;
    let mut escaped = false;
    for (offset, char) in line.get(at..)?.char_indices() {
        if offset > MAX_WORD || (char.is_whitespace() && !escaped) {
            break;
        }
        escaped = char == '\\' && !escaped;
        end = at + offset + char.len_utf8();
    }
    let (stem, extension) = line.get(at + 1..end)?.rsplit_once('.')?;
    let known = EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known));
    (known && !stem.is_empty()).then_some(at..end)
}

/// Returns the label for such a word.
pub fn label(word: &str) -> String {
    let path = word.trim_start_matches('@').replace('\\', "");
    let name = path.rsplit('/').next().unwrap_or(&path);
    let mut columns = 0;
    let mut start = name.len();
    for (offset, cluster) in name.grapheme_indices(true).rev() {
        columns += text_width(cluster);
        if columns > MAX_COLUMNS {
            break;
        }
        start = offset;
    }
    let dots = if start > 0 || name.len() < path.len() { "…" } else { "" };
    format!("[Image {dots}{}]", name.get(start..).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_paths_are_detected_and_abbreviated() {
        let line = r"see @a/b\ c/shot.PNG and @notes.md, x@y.png @e.jpg";
        let words: Vec<&str> = ranges(line).into_iter().map(|range| &line[range]).collect();
        assert_eq!(words, [r"@a/b\ c/shot.PNG", "@e.jpg"]);
        assert_eq!(label(words[0]), "[Image …shot.PNG]");
        assert_eq!(label(words[1]), "[Image e.jpg]");
        assert_eq!(label("@clipboard-1234567890123456.png"), "[Image …1234567890123456.png]");
    }
}
