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

/// How a file indents its lines.
#[derive(Debug)]
pub(super) struct FileStyle {
    /// Whether more lines begin with a tab than with spaces.
    tabs: bool,
    /// The smallest indentation step, in columns.
    step: Option<usize>,
}

impl FileStyle {
    pub(super) fn detect(text: &str) -> Self {
        let starting =
            |with: &str| text.lines().take(SAMPLED_LINES).filter(|l| l.starts_with(with)).count();
        Self {
            tabs: starting("\t") > starting("  "),
            step: smallest_step(text.lines().take(SAMPLED_LINES)),
        }
    }
}

/// Translates indentation from the model's style to the file's.
#[derive(Debug)]
pub(super) struct Indentation {
    pairs: Vec<IndentPair>,
    /// The width of one level in the model's text, in columns.
    model_unit: usize,
    /// One level in the file.
    file_unit: String,
    /// Whether both differ at most by a constant number of spaces.
    literal: bool,
}

impl Indentation {
    /// Learns from the lines that both strings contain. `edit` holds the model's strings.
    pub(super) fn learn(pairs: Vec<IndentPair>, style: &FileStyle, edit: &[&str]) -> Self {
        let model_unit = model_unit(&pairs, edit);
        let file_unit = file_unit(&pairs, style, model_unit);
        let spaces = |indent: &str| indent.bytes().all(|byte| byte == b' ');
        let shift = |pair: &IndentPair| pair.file.len().wrapping_sub(pair.model.len());
        let constant = pairs.windows(2).all(|two| match two {
            [one, two] => shift(one) == shift(two),
            _ => true,
        });
        let literal = constant
            && pairs.iter().all(|pair| spaces(&pair.model) && spaces(&pair.file))
            && !file_unit.starts_with('\t');
        Self { pairs, model_unit, file_unit, literal }
    }

    /// Translates the model's indentation; `line` is the closest line of the old text.
    pub(super) fn translate(&self, model: &str, line: usize) -> String {
        let far = |pair: &&IndentPair| pair.line.abs_diff(line);
        if let Some(pair) = self.pairs.iter().filter(|pair| pair.model == model).min_by_key(far) {
            return pair.file.clone();
        }
        // Models often omit the indentation of only the first line.
        let cut = |pair: &IndentPair| pair.line == 0 && pair.model.is_empty();
        let all_cut = self.pairs.iter().all(cut);
        let width = columns(model);
        let nearest = self
            .pairs
            .iter()
            .filter(|pair| all_cut || !cut(pair))
            .min_by_key(|pair| (columns(&pair.model).abs_diff(width), far(pair)));
        let Some(pair) = nearest else { return model.to_owned() };
        let known = columns(&pair.model);
        let mut indent = pair.file.clone();
        let difference = known.abs_diff(width);
        if self.literal {
            if width > known {
                indent.push_str(&" ".repeat(difference));
            } else {
                indent.truncate(indent.len().saturating_sub(difference));
            }
            return indent;
        }
        let (levels, rest) = (difference / self.model_unit, difference % self.model_unit);
        if width > known {
            indent.push_str(&self.file_unit.repeat(levels));
            indent.push_str(&" ".repeat(rest));
            return indent;
        }
        for _ in 0..levels {
            let end = indent
                .strip_suffix(self.file_unit.as_str())
                .or_else(|| indent.strip_suffix('\t'))
                .map_or(indent.trim_end_matches(' ').len(), str::len);
            indent.truncate(end);
        }
        indent
    }
}

fn columns(indent: &str) -> usize {
    indent.chars().map(|character| if character == '\t' { TAB } else { 1 }).sum()
}

/// Returns the width of one level in the model's text, in columns.
fn model_unit(pairs: &[IndentPair], edit: &[&str]) -> usize {
    let tabs = |indent: &str| indent.bytes().filter(|byte| *byte == b'\t').count();
    if edit.iter().any(|text| text.lines().any(|line| line.starts_with('\t'))) {
        return TAB;
    }
    // Two lines that the file indents with tabs are the best evidence. The indentation of the first
    // line may be missing.
    let whole = pairs.iter().skip_while(|pair| pair.line == 0 && pair.model.is_empty());
    let whole: Vec<&IndentPair> = whole.collect();
    let steps = whole.windows(2).filter_map(|two| match two {
        [one, two] => {
            let levels = tabs(&two.file).abs_diff(tabs(&one.file));
            let width = columns(&two.model).abs_diff(columns(&one.model));
            (levels > 0 && width > 0 && width.is_multiple_of(levels)).then(|| width / levels)
        }
        _ => None,
    });
    if let Some(unit) = steps.min() {
        return unit;
    }
    let step = edit.iter().filter_map(|text| smallest_step(text.lines())).min();
    let from_tabs = || {
        pairs.iter().find_map(|pair| {
            let (width, levels) = (columns(&pair.model), tabs(&pair.file));
            (levels > 0 && width >= 2 * levels && width.is_multiple_of(levels))
                .then(|| width / levels)
        })
    };
    step.or_else(from_tabs).unwrap_or(TAB)
}

/// Returns one indentation level in the file.
fn file_unit(pairs: &[IndentPair], style: &FileStyle, model_unit: usize) -> String {
    let with_tabs = pairs.iter().any(|pair| pair.file.contains('\t'));
    let with_spaces = pairs.iter().any(|pair| pair.file.contains(' '));
    if with_tabs || (!with_spaces && style.tabs) {
        return "\t".to_owned();
    }
    " ".repeat(style.step.unwrap_or(model_unit))
}

/// Returns the smallest indentation step between two lines, at least two columns.
fn smallest_step<'a>(lines: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut before = None;
    let mut smallest: Option<usize> = None;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        let width = columns(line.get(..indent).unwrap_or_default());
        let step = before.map_or(0, |before| width.saturating_sub(before));
        if step >= 2 {
            smallest = Some(smallest.map_or(step, |smallest| smallest.min(step)));
        }
        before = Some(width);
    }
    smallest
}
