//! Properties of tolerant edits, checked with generated files and edits.

use proptest::prelude::{Just, any, prop_assert_eq, prop_assume, prop_oneof, proptest};

use super::matching::{MatchResult, Strategy, find};
use super::source::SourceText;

/// A token as the file has it and as the model quotes it.
type Piece = (String, String);

#[derive(Debug, Clone)]
struct Line {
    /// The line of the file that it comes from.
    origin: Option<usize>,
    level: usize,
    pieces: Vec<Piece>,
}

impl Line {
    fn file_text(&self, unit: &str) -> String {
        let text: String = self.pieces.iter().map(|piece| piece.0.as_str()).collect();
        format!("{}{text}", unit.repeat(self.level))
    }

    fn model_text(&self, unit: &str) -> String {
        let text: String = self.pieces.iter().map(|piece| piece.1.as_str()).collect();
        format!("{}{text}", unit.repeat(self.level))
    }

    /// Returns a line that the model wrote, which the file gets unchanged.
    fn new(level: usize, text: &str) -> Self {
        Self { origin: None, level, pieces: vec![(text.to_owned(), text.to_owned())] }
    }

    /// Replaces one word. Quotation marks around it stay; other characters of the file next to it
    /// do not.
    fn replace_word(&mut self, choice: usize, text: &str) {
        let is_word = |piece: &Piece| piece.0.starts_with('w');
        let words: Vec<usize> =
            (0..self.pieces.len()).filter(|i| is_word(&self.pieces[*i])).collect();
        // What is between two new words belongs to the model.
        let is_changed = self.pieces.iter().any(|piece| piece.0.starts_with('n'));
        if words.len() < 2 || is_changed {
            return;
        }
        let index = words[choice % words.len()];
        self.pieces[index] = (text.to_owned(), text.to_owned());
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            if at.abs_diff(index) == 1 && !piece.0.is_ascii() && !"“”".contains(&piece.0) {
                piece.0.clone_from(&piece.1);
            }
        }
    }
}

/// One change of the lines: its kind, the line, and a second choice.
type Change = (usize, usize, usize);

/// Applies a change; the new text is unlike any text of the file.
fn change(lines: &mut Vec<Line>, (kind, at, choice): Change, number: usize) {
    let at = at % lines.len();
    let level = lines[at].level;
    let new = format!("n{number}(\"x\", 'y') -- z...");
    match kind {
        0 => lines[at] = Line::new(level, &new),
        1 => lines.insert(at, Line::new(level, &new)),
        2 => lines[at].replace_word(choice, &format!("n{number}")),
        3 => {
            let line = lines[at].clone();
            lines.insert(choice % lines.len(), line);
        }
        4 => {
            let other = choice % lines.len();
            lines.swap(at, other);
        }
        5 => {
            lines.remove(at);
        }
        _ => {
            let mut line = lines[at].clone();
            line.replace_word(choice, &format!("n{number}"));
            lines.insert(choice % lines.len(), line);
        }
    }
}

/// Gives the changed form of a line that also stays the characters of the model. Returns whether
/// each other line has at most one changed form.
fn settle_changed_lines(before: &[Line], after: &mut [Line]) -> bool {
    let is_same = |line: &Line, other: &Line| line.pieces == other.pieces;
    let mut is_settled = true;
    for line in before {
        let stays = after.iter().any(|other| is_same(line, other));
        let changed =
            after.iter_mut().filter(|other| other.origin == line.origin && !is_same(line, other));
        let mut count = 0;
        for changed in changed {
            count += 1;
            if stays {
                changed.pieces.iter_mut().for_each(|piece| piece.0.clone_from(&piece.1));
            }
        }
        is_settled &= stays || count < 2;
    }
    is_settled
}

fn line() -> impl proptest::strategy::Strategy<Value = (usize, Vec<usize>)> {
    (0usize..3, proptest::collection::vec(0usize..8, 1..6))
}

/// Builds lines whose words occur once.
fn build(lines: Vec<(usize, Vec<usize>)>) -> Vec<Line> {
    let mut count = 0;
    let mut build_line = |(number, (level, kinds)): (usize, (usize, Vec<usize>))| {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut push = |file: &str, model: &str| pieces.push((file.to_owned(), model.to_owned()));
        for (index, kind) in kinds.into_iter().enumerate() {
            if index > 0 {
                let (file, model) =
                    [(" ", " "), ("\u{a0}", " "), ("   ", " "), (" ", " ")][kind % 4];
                push(file, model);
            }
            count += 1;
            let word = format!("w{count}");
            match kind {
                0 => {
                    push("“", "\"");
                    push(&word, &word);
                    push("”", "\"");
                }
                1 => {
                    push(&word, &word);
                    push("’", "'");
                    let ending = format!("s{count}");
                    push(&ending, &ending);
                }
                2 => {
                    push(&word, &word);
                    push("…", "...");
                }
                3 => {
                    push(&word, &word);
                    push(" ", " ");
                    push("–", "-");
                }
                _ => push(&word, &word),
            }
        }
        Line { origin: Some(number), level, pieces }
    };
    lines.into_iter().enumerate().map(&mut build_line).collect()
}

fn unit() -> impl proptest::strategy::Strategy<Value = &'static str> {
    prop_oneof![Just("\t"), Just("  "), Just("   "), Just("    ")]
}

/// Returns what the model appends to an old string without its final line ending.
fn end() -> impl proptest::strategy::Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("")), Just(Some(" end"))]
}

fn applied(source: &SourceText<'_>, raw: &str, found: &MatchResult) -> String {
    let hit = &found.hits[0];
    let splice = source.splice(&hit.range, &hit.new);
    format!("{}{}{}", &raw[..splice.range.start], splice.text, &raw[splice.range.end..])
}

proptest! {
    #[test]
    fn only_changed_tokens_of_the_file_change(
        lines in proptest::collection::vec(line(), 2..8),
        changes in proptest::collection::vec((0usize..7, any::<usize>(), any::<usize>()), 1..3),
        file_unit in unit(), model_unit in unit(), end in end(), adds_line in any::<bool>(),
    ) {
        let join = |lines: &[Line], text: &dyn Fn(&Line) -> String| -> String {
            lines.iter().map(|line| text(line) + "\n").collect()
        };
        let before = build(lines);
        let mut after = before.clone();
        for (number, one) in changes.into_iter().enumerate() {
            change(&mut after, one, number);
            prop_assume!(!after.is_empty());
        }
        prop_assume!(settle_changed_lines(&before, &mut after));
        let head = format!("head:\n{file_unit}one:\n{file_unit}{file_unit}two\nend\n");
        if adds_line && let Some(last) = after.last() {
            after.push(Line::new(last.level, "end 'x' - y"));
        }
        // Text appended at the end of an old string without its final line ending.
        let last = after.last().map(|line| &line.pieces);
        let stays = before.iter().any(|line| Some(&line.pieces) == last);
        let is_unique = after.iter().filter(|line| Some(&line.pieces) == last).count() == 1;
        prop_assume!(stays && is_unique || end.is_none_or(|end| !end.starts_with(' ')));
        let with_end = |text: String| match end {
            Some(end) => text.trim_end_matches('\n').to_owned() + end,
            None => text,
        };
        let file = head.clone() + &join(&before, &|line| line.file_text(file_unit));
        let mut old = join(&before, &|line| line.model_text(model_unit));
        if end.is_some() {
            old.pop();
        }
        let new = with_end(join(&after, &|line| line.model_text(model_unit)));
        let source = SourceText::new(&file);
        let found = find(&source, &old, &new);
        prop_assume!(found.strategy == Strategy::Tolerant);
        prop_assert_eq!(found.hits.len(), 1);
        let mut expected = head + &with_end(join(&after, &|line| line.file_text(file_unit)));
        if end.is_some() {
            expected.push('\n');
        }
        prop_assert_eq!(applied(&source, &file, &found), expected, "{:?}\n{:?}", old, new);
    }
}
