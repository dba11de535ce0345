//! Sample rows for previewing a theme.

use std::path::PathBuf;

use parallax_protocol::tool::FileDiff;
use parallax_screen::Line;

use crate::diff_view::{self, DiffOptions};
use crate::theme::Theme;

/// The diff in the sample.
const DIFF: &str = "@@ -1,1 +1,1 @@\n-let text = format!(\"hello {name}\");\n+let text = \
                    format!(\"good day {name}\");\n";

/// Returns the sample rows. The diff is first, because few rows fit.
pub(crate) fn rows(theme: &Theme, width: usize) -> Vec<Line> {
    let diff = FileDiff {
        file_path: PathBuf::from("greet.rs"),
        diff: DIFF.to_owned(),
        lines_added: 1,
        lines_removed: 1,
        is_new_file: false,
        texts: None,
    };
    let mut rows = diff_view::rows(&diff, &DiffOptions::new(theme, width));
    rows.extend([
        Line::styled("> a prompt", theme.user),
        Line::styled("✦ ", theme.accent)
            .with_span("an answer with ", theme.response)
            .with_span("code", theme.code)
            .with_span(" and a ", theme.response)
            .with_span("link", theme.link),
    ]);
    let code = [
        ("let ", theme.keyword),
        ("total", theme.text),
        (": ", theme.text),
        ("u64", theme.type_name),
        (" = ", theme.text),
        ("sum", theme.function),
        ("(", theme.text),
        ("\"all\"", theme.string),
        (", ", theme.text),
        ("42", theme.number),
        (");", theme.text),
        ("  // why", theme.comment),
    ];
    let code = code.iter().fold(Line::EMPTY, |line, (text, style)| line.with_span(*text, *style));
    rows.push(code);
    rows.push(
        Line::styled("✓ done  ", theme.success)
            .with_span("⚠ warning  ", theme.warning)
            .with_span("✕ failed", theme.error),
    );
    rows
}
