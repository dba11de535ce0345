//! Renders sequence diagrams: a column for each participant, arrows from top to bottom.

use parallax_screen::text_width;

use super::MAX_COUNT;
use super::canvas::Canvas;
use parallax_screen::layout::truncate_text;
use parallax_screen::sanitize;

/// Minimum columns between two participants.
const GAP: usize = 4;
/// Maximum columns of text: more than windows have, so that nothing is truncated in a diagram that
/// fits.
const TEXT: usize = 400;

/// Arrows, longer ones first, and whether the line is dashed.
const ARROWS: [(&str, bool); 8] = [
    ("-->>", true),
    ("->>", false),
    ("--x", true),
    ("-x", false),
    ("--)", true),
    ("-)", false),
    ("-->", true),
    ("->", false),
];

enum SequenceStep {
    Message { from: usize, to: usize, text: String, dashed: bool },
    Note { over: usize, text: String },
}

#[derive(Default)]
struct Sequence {
    ids: Vec<String>,
    names: Vec<String>,
    steps: Vec<SequenceStep>,
}

/// Draws the lines after the header.
pub(super) fn draw<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Canvas> {
    let mut sequence = Sequence::default();
    for line in lines {
        sequence.read(line)?;
        if sequence.steps.len() > MAX_COUNT || sequence.ids.len() > MAX_COUNT {
            return None;
        }
    }
    (!sequence.ids.is_empty()).then(|| sequence.canvas())
}

impl Sequence {
    fn read(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "participant" | "actor" => {
                let (id, name) = rest.split_once(" as ").unwrap_or((rest, rest));
                let at = self.participant(id)?;
                self.names[at] = display_label(name);
                return Some(());
            }
            "activate" | "deactivate" | "autonumber" | "title" => return Some(()),
            "Note" | "note" => {
                let (participants, text) = rest.split_once(':')?;
                let id = ["over ", "right of ", "left of "]
                    .iter()
                    .find_map(|before| participants.trim().strip_prefix(before))?;
                let over = self.participant(id.split(',').next()?)?;
                self.steps.push(SequenceStep::Note { over, text: display_label(text) });
                return Some(());
            }
            _ => {}
        }
        // Blocks (`loop`, `alt`) are not supported.
        let (participants, text) = line.split_once(':').unwrap_or((line, ""));
        let (at, (arrow, dashed)) =
            ARROWS.iter().find_map(|arrow| Some((participants.find(arrow.0)?, *arrow)))?;
        let from = self.participant(&participants[..at])?;
        let to =
            self.participant(participants[at + arrow.len()..].trim_start_matches(['+', '-']))?;
        self.steps.push(SequenceStep::Message { from, to, text: display_label(text), dashed });
        Some(())
    }

    /// Returns the column of a participant, which may be new.
    fn participant(&mut self, id: &str) -> Option<usize> {
        let id = id.trim();
        if id.is_empty() || id.contains(['-', '>', ' ']) {
            return None;
        }
        if let Some(index) = self.ids.iter().position(|known| known == id) {
            return Some(index);
        }
        self.ids.push(id.to_owned());
        self.names.push(display_label(id));
        Some(self.ids.len() - 1)
    }

    /// Returns the middle of each column.
    fn column_centers(&self) -> Vec<usize> {
        let half = |at: usize| self.names.get(at).map_or(0, |name| text_width(name) + 4) / 2;
        let mut middles = vec![half(0)];
        for index in 1..self.ids.len() {
            let mut distance = half(index - 1) + half(index) + GAP;
            for step in &self.steps {
                let (left, right, text) = match step {
                    SequenceStep::Message { from, to, text, .. } => {
                        (*from.min(to), *from.max(to), text)
                    }
                    SequenceStep::Note { over, text } => (*over, over + 1, text),
                };
                if left < index && index <= right.max(left + 1) {
                    let columns = right.saturating_sub(left).max(1);
                    distance = distance.max((text_width(text) + 4).div_ceil(columns));
                }
            }
            middles.push(middles[index - 1] + distance);
        }
        middles
    }

    fn canvas(&self) -> Canvas {
        let middles = self.column_centers();
        let mut canvas = Canvas::default();
        for (name, middle) in self.names.iter().zip(&middles) {
            let start = middle.saturating_sub((text_width(name) + 4) / 2);
            canvas.draw_box(start, 0, name);
        }
        let mut row = 3;
        for step in &self.steps {
            let lines = |canvas: &mut Canvas, row| {
                middles.iter().for_each(|middle| canvas.write_text(*middle, row, "│"));
            };
            lines(&mut canvas, row);
            match step {
                SequenceStep::Note { over, text } => {
                    canvas.write_text(middles[*over] + 2, row, text)
                }
                SequenceStep::Message { from, to, text, .. } if from == to => {
                    canvas.write_text(middles[*from] + 2, row, &format!("↩ {text}"));
                }
                SequenceStep::Message { from, to, text, dashed } => {
                    let (left, right) = (middles[*from.min(to)], middles[*from.max(to)]);
                    canvas.write_text(left + 2, row, text);
                    row += 1;
                    lines(&mut canvas, row);
                    let line = if *dashed { "┄" } else { "─" };
                    canvas.write_text(left + 1, row, &line.repeat(right - left - 1));
                    match from < to {
                        true => canvas.write_text(right - 1, row, "▶"),
                        false => canvas.write_text(left + 1, row, "◀"),
                    }
                }
            }
            row += 1;
        }
        debug_assert!(canvas.height() >= 3);
        canvas
    }
}

fn display_label(text: &str) -> String {
    let text = sanitize::one_row(text.trim()).into_owned();
    truncate_text(text.trim(), TEXT)
}
