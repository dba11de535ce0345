//! Maps the indentation that a model wrote to the indentation of the file.

/// The indentation of one line as the model quoted it and as the file has it.
#[derive(Debug, Clone)]
pub(super) struct IndentPair {
    /// The line number in the old text.
    pub(super) line: usize,
    pub(super) model: String,
    pub(super) file: String,
}

/// Maximum number of lines of the file that are sampled for its indentation unit.
const SAMPLED_LINES: usize = 20_000;
/// Tab width in text that mixes tabs and spaces.
const TAB: usize = 4;
/// Maximum number of spaces in one level that a model writes.
const MAX_LEVEL: usize = 4;

/// How a file indents its lines.
#[derive(Debug)]
pub(super) struct FileStyle {
    /// Whether more lines begin with a tab than with spaces.
    tabs: bool,
    /// The width of one level, in columns; `None` if no line is indented.
    unit: Option<usize>,
}

impl FileStyle {
    pub(super) fn detect(text: &str) -> Self {
        let starting =
            |with: &str| text.lines().take(SAMPLED_LINES).filter(|l| l.starts_with(with)).count();
        Self {
            tabs: starting("\t") > starting("  "),
            unit: common_unit(&steps(text.lines().take(SAMPLED_LINES))),
        }
    }
}

/// A line of the new text and the indentation that was written for it.
#[derive(Debug)]
pub(super) struct LineIndent<'a> {
    /// The line as the model wrote it.
    pub(super) line: &'a str,
    pub(super) model: &'a str,
    pub(super) file: String,
    /// Whether the line is aligned with text of a line above.
    pub(super) is_continuation: bool,
}

/// Translates indentation from the model's style to the file's.
#[derive(Debug)]
pub(super) struct Indentation {
    pairs: Vec<IndentPair>,
    /// The width of one level in the model's text, in columns.
    model_unit: usize,
    /// One level in the file.
    file_unit: String,
}

impl Indentation {
    /// Learns from the lines that both strings contain. `edit` holds the model's strings.
    pub(super) fn learn(pairs: Vec<IndentPair>, style: &FileStyle, edit: &[&str]) -> Self {
        let with_tabs = pairs.iter().any(|pair| pair.file.contains('\t'));
        let with_spaces = pairs.iter().any(|pair| pair.file.contains(' '));
        let is_model_tabs = edit.iter().any(|text| text.lines().any(|line| line.starts_with('\t')));
        let tabs = with_tabs || (!with_spaces && style.tabs);
        let file_width = if tabs { Some(TAB) } else { style.unit };
        let model_unit =
            if is_model_tabs { TAB } else { model_unit(&pairs, file_width, tabs, edit) };
        let file_unit = match file_width {
            _ if tabs => "\t".to_owned(),
            Some(width) => " ".repeat(width),
            // The file has no indented line.
            None if is_model_tabs => "\t".to_owned(),
            None => " ".repeat(model_unit),
        };
        Self { pairs, model_unit, file_unit }
    }

    /// Whether a line is aligned with text of the line above, or with lines that are.
    pub(super) fn is_continuation(&self, above: &LineIndent<'_>, model: &str) -> bool {
        let deeper = columns(model).saturating_sub(columns(above.model));
        is_aligned(above.line, model)
            || !deeper.is_multiple_of(self.model_unit)
            || (above.is_continuation && above.model == model)
    }

    /// Translates the model's indentation; `line` is the closest line of the old text, `above` the
    /// preceding line of the new text.
    pub(super) fn translate(
        &self,
        model: &str,
        line: usize,
        above: Option<&LineIndent<'_>>,
    ) -> String {
        let width = columns(model);
        // Alignment is kept as spaces after the indentation of the line above.
        if let Some(above) = above.filter(|above| self.is_continuation(above, model)) {
            let deeper = width.saturating_sub(columns(above.model));
            return format!("{}{}", above.file, " ".repeat(deeper));
        }
        let far = |pair: &&IndentPair| pair.line.abs_diff(line);
        if let Some(pair) = self.pairs.iter().filter(|pair| pair.model == model).min_by_key(far) {
            return pair.file.clone();
        }
        // Models often omit the indentation of only the first line.
        let cut = |pair: &IndentPair| pair.line == 0 && pair.model.is_empty();
        let all_cut = self.pairs.iter().all(cut);
        let nearest = self
            .pairs
            .iter()
            .filter(|pair| all_cut || !cut(pair))
            .min_by_key(|pair| (columns(&pair.model).abs_diff(width), far(pair)));
        let (known, indent) =
            nearest.map_or((0, ""), |pair| (columns(&pair.model), pair.file.as_str()));
        if width > known {
            self.deepen(indent, width - known)
        } else {
            self.lift(indent, known - width)
        }
    }

    /// Appends the given number of the model's columns.
    fn deepen(&self, indent: &str, columns: usize) -> String {
        let (levels, rest) = (columns / self.model_unit, columns % self.model_unit);
        // Spaces never precede tabs.
        let base = if levels > 0 && self.file_unit == "\t" {
            indent.trim_end_matches(' ')
        } else {
            indent
        };
        format!("{base}{}{}", self.file_unit.repeat(levels), " ".repeat(rest))
    }

    /// Removes the given number of the model's columns.
    fn lift(&self, indent: &str, columns: usize) -> String {
        let mut indent = indent;
        for _ in 0..columns % self.model_unit {
            indent = indent.strip_suffix(' ').unwrap_or(indent);
        }
        for _ in 0..columns / self.model_unit {
            indent = indent
                .strip_suffix(self.file_unit.as_str())
                .or_else(|| indent.strip_suffix('\t'))
                .unwrap_or_else(|| indent.trim_end_matches(' '));
        }
        indent.to_owned()
    }
}

/// Whether a line with this indentation is aligned with the text after a bracket that the line
/// above leaves open.
pub(super) fn is_aligned(above: &str, indent: &str) -> bool {
    let above = above.trim_end();
    let mut open = Vec::new();
    let mut column = 0;
    for (offset, character) in above.char_indices() {
        column += if character == '\t' { TAB } else { 1 };
        match character {
            '(' | '[' | '{' => open.push((offset, column)),
            ')' | ']' | '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    open.last()
        .is_some_and(|(offset, column)| offset + 1 < above.len() && columns(indent) == *column)
}

fn columns(indent: &str) -> usize {
    indent.chars().map(|character| if character == '\t' { TAB } else { 1 }).sum()
}

/// Returns the width of one level in the model's text, in columns. `file_width` is the width of one
/// level in the file.
fn model_unit(pairs: &[IndentPair], file_width: Option<usize>, tabs: bool, edit: &[&str]) -> usize {
    let levels = |indent: &str| {
        let width = if tabs { indent.matches('\t').count() * TAB } else { columns(indent) };
        file_width.filter(|unit| width.is_multiple_of(*unit)).map(|unit| width / unit)
    };
    let unit = |width: usize, levels: usize| {
        (levels > 0 && width > 0 && width.is_multiple_of(levels)).then(|| width / levels)
    };
    // Two lines with different indentation are the best evidence. The indentation of the first line
    // may be missing.
    let whole = pairs.iter().skip_while(|pair| pair.line == 0 && pair.model.is_empty());
    let whole: Vec<&IndentPair> = whole.collect();
    let from_pairs = whole.windows(2).filter_map(|two| match two {
        [one, two] => unit(
            columns(&two.model).abs_diff(columns(&one.model)),
            levels(&two.file)?.abs_diff(levels(&one.file)?),
        ),
        _ => None,
    });
    if let Some(unit) = from_pairs.min() {
        return unit;
    }
    let step = edit.iter().flat_map(|text| steps(text.lines())).min();
    let from_line = || {
        pairs.iter().find_map(|pair| {
            unit(columns(&pair.model), levels(&pair.file)?).filter(|unit| *unit >= 2)
        })
    };
    step.filter(|step| tabs || *step <= MAX_LEVEL || file_width.is_none())
        .or_else(from_line)
        .or(file_width)
        .unwrap_or(TAB)
}

/// Returns the changes of the indentation between lines, in columns, without changes of one column.
fn steps<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut steps = Vec::new();
    let (mut above, mut before) = ("", None);
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let indent = line.get(..indent).unwrap_or_default();
        if is_aligned(above, indent) {
            continue;
        }
        let width = columns(indent);
        let step = before.map_or(0, |before| width.abs_diff(before));
        if step >= 2 {
            steps.push(step);
        }
        (above, before) = (line, Some(width));
    }
    steps
}

/// Returns the largest common indentation unit that fits almost all changes of the indentation.
fn common_unit(steps: &[usize]) -> Option<usize> {
    let fitting = |unit: usize| steps.iter().filter(|step| step.is_multiple_of(unit)).count();
    let fits = |unit: &usize| fitting(*unit) * 5 >= steps.len() * 4;
    let wide = (steps.len() > 2 && fitting(8) == steps.len()).then_some(8);
    let fallback =
        || (2..=8).rev().max_by_key(|unit| steps.iter().filter(|step| *step == unit).count());
    if steps.is_empty() {
        return None;
    }
    wide.or_else(|| [4, 3, 2].into_iter().find(fits)).or_else(fallback)
}
