//! Breaks a line of the input into rows. Unlike in displayed text, no space is dropped, because the
//! cursor can be on each.

use std::borrow::Cow;
use std::ops::Range;

use parallax_screen::{grapheme_width, text_width, truncate};
use unicode_segmentation::UnicodeSegmentation;

/// A tab is shown as these spaces in any column.
const TAB: &str = "    ";

/// A displayed unit that the cursor passes in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom<'a> {
    /// The start in the line, in bytes.
    pub byte: usize,
    /// The displayed text; a tab as spaces.
    pub display_text: Cow<'a, str>,
    /// The width in columns.
    pub width: usize,
    /// The kind of atom.
    pub kind: AtomKind,
}

/// The kind of an atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomKind {
    /// A grapheme cluster.
    Plain,
    /// Whitespace, after which a row may end.
    Space,
    /// A label for pasted text or an image.
    Label,
}

impl<'a> Atom<'a> {
    /// Creates an atom for a grapheme cluster.
    pub fn cluster(byte: usize, cluster: &'a str) -> Self {
        match cluster {
            "\t" => {
                Self { byte, display_text: TAB.into(), width: TAB.len(), kind: AtomKind::Space }
            }
            " " => Self { byte, display_text: " ".into(), width: 1, kind: AtomKind::Space },
            _ => Self {
                byte,
                display_text: cluster.into(),
                width: grapheme_width(cluster),
                kind: AtomKind::Plain,
            },
        }
    }

    /// Creates a label, truncated to the columns of a row.
    pub fn label(byte: usize, label: impl Into<Cow<'a, str>>, columns: usize) -> Self {
        let mut display_text = label.into();
        if text_width(&display_text) > columns {
            display_text =
                format!("{}…", truncate(&display_text, columns.saturating_sub(1))).into();
        }
        Self { byte, width: text_width(&display_text), display_text, kind: AtomKind::Label }
    }
}

/// Returns the byte positions where the rows of a line begin; the first is 0. Breaks after spaces
/// if possible, and before or after wide characters.
pub fn row_starts<'a>(atoms: impl Iterator<Item = Atom<'a>>, columns: usize) -> Vec<usize> {
    let columns = columns.max(1);
    let mut starts = vec![0];
    let mut used = 0;
    // The last possible line break, and the columns that would move to the next row.
    let mut chance: Option<(usize, usize)> = None;
    let mut row = 0;
    for atom in atoms {
        if atom.width == 2 && atom.byte > row {
            chance = Some((atom.byte, 0));
        }
        if used + atom.width > columns && atom.byte > row {
            let (start, rest) = match chance {
                Some((at, rest)) if at > row => (at, rest),
                _ => (atom.byte, 0),
            };
            starts.push(start);
            row = start;
            used = rest;
            chance = None;
            // The moved part may be too long for a row.
            if used + atom.width > columns && atom.byte > row {
                starts.push(atom.byte);
                row = atom.byte;
                used = 0;
            }
        }
        used += atom.width;
        match (&mut chance, atom.kind) {
            // A space or a tab is one byte.
            (_, AtomKind::Space) => chance = Some((atom.byte + 1, 0)),
            (_, AtomKind::Plain) if atom.width == 2 => {
                chance = Some((atom.byte + atom.display_text.len(), 0));
            }
            (Some((_, rest)), _) => *rest += atom.width,
            (None, _) => {}
        }
    }
    starts
}

/// Whether a line is plain ASCII without tabs, labels, and images.
pub fn is_simple(line: &str) -> bool {
    line.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'[' && byte != b'@')
}

/// Like [`row_starts`], for a [simple](is_simple) line of any length.
pub fn simple_row_starts(line: &str, columns: usize) -> Vec<usize> {
    let columns = columns.max(1);
    let bytes = line.as_bytes();
    let mut starts = vec![0];
    let mut row = 0;
    while bytes.len() - row > columns {
        let full = bytes.get(row..row + columns).unwrap_or_default();
        row += memchr::memrchr(b' ', full).map_or(columns, |space| space + 1);
        starts.push(row);
    }
    starts
}

/// Returns the atoms of a line, left to right. `labels` are the ranges that are one atom, in order;
/// a string replaces what is shown. `columns` is the width of a row.
pub fn atoms<'a>(
    line: &'a str,
    labels: Vec<(Range<usize>, Option<String>)>,
    columns: usize,
) -> Box<dyn Iterator<Item = Atom<'a>> + 'a> {
    let clusters = move |range: Range<usize>| {
        let start = range.start;
        let text = line.get(range).unwrap_or("");
        text.grapheme_indices(true)
            .map(move |(offset, cluster)| Atom::cluster(start + offset, cluster))
    };
    if labels.is_empty() {
        return Box::new(clusters(0..line.len()));
    }
    let behind_last = labels.last().map_or(0, |(range, _)| range.end);
    let mut from = 0;
    let labelled = labels.into_iter().flat_map(move |(range, shown)| {
        let before = clusters(from..range.start);
        from = range.end;
        let label = match shown {
            Some(shown) => Atom::label(range.start, shown, columns),
            None => Atom::label(range.start, line.get(range).unwrap_or(""), columns),
        };
        before.chain([label])
    });
    Box::new(labelled.chain(clusters(behind_last..line.len())))
}

/// Returns the index of the row that contains `byte`.
pub fn row_of(starts: &[usize], byte: usize) -> usize {
    starts.partition_point(|start| *start <= byte).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(line: &str, columns: usize) -> Vec<&str> {
        let mut ends = row_starts(atoms(line, Vec::new(), columns), columns);
        ends.push(line.len());
        ends.windows(2).map(|pair| &line[pair[0]..pair[1]]).collect()
    }

    #[test]
    fn rows_break_after_spaces_and_inside_long_words() {
        for (line, columns, expected) in [
            ("", 5, vec![""]),
            ("hello", 5, vec!["hello"]),
            ("hello world", 7, vec!["hello ", "world"]),
            ("hello world", 6, vec!["hello ", "world"]),
            ("hello world", 5, vec!["hello", " ", "world"]),
            ("abcdefgh", 3, vec!["abc", "def", "gh"]),
            ("a bcdefgh", 3, vec!["a ", "bcd", "efg", "h"]),
            ("漢字漢字", 5, vec!["漢字", "漢字"]),
            ("ab漢字", 3, vec!["ab", "漢", "字"]),
            ("漢", 1, vec!["漢"]),
            ("a\tb", 4, vec!["a", "\t", "b"]),
        ] {
            assert_eq!(rows(line, columns), expected, "{line} in {columns}");
        }
    }

    proptest! {
        #[test]
        fn fast_path_breaks_lines_like_the_general_path(line in "[a-c ]{0,60}", columns in 1usize..12) {
            prop_assert!(is_simple(&line));
            let starts = row_starts(atoms(&line, Vec::new(), columns), columns);
            prop_assert_eq!(simple_row_starts(&line, columns), starts);
        }
    }
}
