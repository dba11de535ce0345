//! The context breakdown as rows: a bar and its legend.

use parallax_protocol::context::{BlockKind, ContextBlock, ContextBreakdown};
use parallax_screen::{Line, Span, Style, wrap};

use crate::layout::{truncate_text, truncate_with_mark};
use crate::status_line::count;
use crate::theme::Theme;

/// Maximum number of memory files and tools listed one by one; the rest share a row.
const MAX_NAMED: usize = 4;
/// Maximum columns of the bar.
const BAR: usize = 80;

/// Returns the rows of the breakdown.
pub(crate) fn rows(picture: &ContextBreakdown, width: usize, theme: &Theme) -> Vec<Line> {
    let share = (picture.tokens * 100).checked_div(picture.window).unwrap_or(0);
    let head = format!(
        "{} of {} tokens ({share}%); compacted at {}",
        count(picture.tokens),
        count(picture.window),
        count(picture.mark)
    );
    let head =
        Line::styled("Context", theme.accent.bold()).with_span(format!("  {head}"), theme.text);
    let mut rows = wrap(&head, width, &[Span::raw("  ")]);
    rows.push(bar(picture, width.min(BAR), theme));
    for (block, others) in group_blocks(&picture.blocks) {
        rows.push(row(&block, others, theme));
    }
    let free = picture.window.saturating_sub(picture.tokens);
    rows.push(
        Line::styled("  · ", theme.secondary)
            .with_span(format!("{:>8}  free", count(free)), theme.secondary),
    );
    rows.into_iter().map(|row| truncate_with_mark(row, width)).collect()
}

/// Returns the bar for the whole context window. It is not empty if the context is not; parts too
/// small for a cell are not drawn.
fn bar(picture: &ContextBreakdown, width: usize, theme: &Theme) -> Line {
    let mut line = Line::EMPTY;
    let rounded = |part: u64, whole: u64, cells: usize| {
        let (part, whole) = (u128::from(part), u128::from(whole.max(1)));
        usize::try_from((part * cells as u128 + whole / 2) / whole).unwrap_or(cells).min(cells)
    };
    let used = rounded(picture.tokens, picture.window, width);
    let used = if picture.tokens > 0 { used.max(1) } else { 0 };
    // The parts are estimates; together they fill the length given by the service's count.
    let estimated: u64 = picture.blocks.iter().map(|block| block.tokens).sum();
    let (mut sum, mut drawn) = (0, 0);
    for block in &picture.blocks {
        sum += block.tokens;
        let cells = rounded(sum, estimated, used) - drawn;
        drawn += cells;
        if cells > 0 {
            line.push(Span::styled(symbol(block.kind).repeat(cells), style(block.kind, theme)));
        }
    }
    let left = width - drawn;
    line.push(Span::styled("·".repeat(left), theme.secondary));
    line
}

/// Groups the blocks: only the largest memory files and tools have their own row. Returns each with
/// the number of other blocks in its row.
fn group_blocks(blocks: &[ContextBlock]) -> Vec<(ContextBlock, u64)> {
    let mut grouped: Vec<(ContextBlock, u64)> = Vec::new();
    let (mut kind, mut seen) = (None, 0);
    for block in blocks.iter().filter(|block| block.tokens > 0) {
        seen = if kind == Some(block.kind) { seen + 1 } else { 1 };
        kind = Some(block.kind);
        match grouped.last_mut().filter(|_| seen > MAX_NAMED) {
            Some((last, others)) if seen > MAX_NAMED + 1 => {
                last.tokens += block.tokens;
                last.count += block.count;
                *others += 1;
            }
            _ => grouped.push((block.clone(), u64::from(seen > MAX_NAMED))),
        }
    }
    grouped
}

fn row(block: &ContextBlock, others: u64, theme: &Theme) -> Line {
    let what = match (&block.name, others) {
        (_, others @ 1..) => format!("{} ({others} more)", block.kind.display_name()),
        (Some(name), _) => {
            let name: String = name.chars().filter(|char| !char.is_control()).collect();
            format!("{} {}", block.kind.display_name(), truncate_text(&name, 60))
        }
        (None, _) => block.kind.display_name().to_owned(),
    };
    let pieces = match block.count {
        0 | 1 => String::new(),
        pieces => format!(" × {pieces}"),
    };
    Line::styled(format!("  {} ", symbol(block.kind)), style(block.kind, theme))
        .with_span(format!("{:>8}  ", count(block.tokens)), theme.text)
        .with_span(what, theme.text)
        .with_span(pieces, theme.secondary)
}

/// Returns the sign of a part: without colors, neighbors differ, too.
fn symbol(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::System | BlockKind::Accounts => "█",
        BlockKind::Tools | BlockKind::Prompts => "▒",
        BlockKind::Memory | BlockKind::Answers => "▓",
        BlockKind::Environment | BlockKind::Results => "░",
    }
}

fn style(kind: BlockKind, theme: &Theme) -> Style {
    match kind {
        BlockKind::System => theme.link,
        BlockKind::Tools => theme.type_name,
        BlockKind::Memory => theme.success,
        BlockKind::Environment => theme.secondary,
        BlockKind::Accounts => theme.keyword,
        BlockKind::Prompts => theme.user,
        BlockKind::Answers => theme.accent,
        BlockKind::Results => theme.warning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: BlockKind, name: Option<&str>, tokens: u64) -> ContextBlock {
        ContextBlock { kind, name: name.map(str::to_owned), tokens, count: 1 }
    }

    #[test]
    fn context_bar_matches_usage_and_every_part_has_a_row() {
        let mut blocks = vec![
            block(BlockKind::System, None, 2_000),
            block(BlockKind::Memory, Some("/w/GEMINI.md"), 10),
            block(BlockKind::Answers, None, 0),
        ];
        blocks.extend((0..7).map(|number| {
            block(BlockKind::Results, Some(&format!("tool{number}")), 1_000 - number)
        }));
        let picture = ContextBreakdown {
            tokens: 20_000,
            window: 100_000,
            mark: 50_000,
            blocks,
            items: Vec::new(),
        };
        let rows = rows(&picture, 80, &Theme::default());
        let texts: Vec<String> = rows.iter().map(Line::text).collect();
        assert_eq!(texts[0], "Context  20.0k of 100.0k tokens (20%); compacted at 50.0k");
        let narrow: Vec<String> =
            super::rows(&picture, 40, &Theme::default()).iter().map(Line::text).collect();
        assert!(narrow[1].contains("compacted at 50.0k"), "{narrow:?}");
        let drawn = |bar: &str| bar.chars().filter(|character| "█▓▒░".contains(*character)).count();
        let full = drawn(&texts[1]);
        assert!(texts[1].contains("█") && texts[1].contains("░"), "{}", texts[1]);
        assert!(texts[1].chars().count() == 80 && full == 16, "{}", texts[1]);
        let little = ContextBreakdown { tokens: 5_600, window: 1_000_000, ..picture.clone() };
        let bar = bar(&little, 80, &Theme::default()).text();
        assert_eq!(drawn(&bar), 1, "{bar}");
        let all = texts.join("\n");
        assert!(all.contains("memory /w/GEMINI.md") && all.contains("results of tool3"), "{all}");
        assert!(all.contains("results of (3 more)") && !all.contains("tool4"), "{all}");
        assert!(!all.contains("answers"), "{all}");
        for width in 1..100 {
            for row in super::rows(&picture, width, &Theme::default()) {
                assert!(row.width() <= width);
            }
        }
    }
}
