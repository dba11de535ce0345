//! Renders Mermaid diagrams as text: flowcharts as trees, sequence diagrams as columns. Diagrams
//! that are not understood or do not fit stay code.

mod canvas;
mod flowchart;
mod sequence;

use parallax_screen::Line;

use crate::render_options::RenderOptions;

/// Maximum number of nodes or steps; larger diagrams are not readable as boxes.
const MAX_COUNT: usize = 60;

/// Whether the code block is a diagram.
pub(super) fn is_diagram(language: &str) -> bool {
    language.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("mermaid"))
}

/// Returns the rows of a diagram if it fits the columns.
pub(super) fn rows(code: &str, columns: usize, options: &RenderOptions<'_>) -> Option<Vec<Line>> {
    // A screen reader cannot read a drawn diagram.
    if options.plain {
        return None;
    }
    let lines = code.lines().flat_map(|line| line.split(';'));
    let mut lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("%%"));
    let head = lines.next()?;
    let canvas = match head.split_whitespace().next()? {
        "graph" | "flowchart" => flowchart::draw(lines)?,
        "sequenceDiagram" => sequence::draw(lines)?,
        _ => return None,
    };
    (canvas.width() <= columns).then(|| canvas.rows(options.theme.border, options.base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_screen::theme::Theme;

    fn drawn(code: &str, columns: usize) -> Option<String> {
        let theme = Theme::default();
        let rows = rows(code, columns, &RenderOptions::new(&theme, columns))?;
        Some(rows.iter().map(|row| format!("{}\n", row.text().trim_end())).collect())
    }

    #[test]
    fn flowchart_is_drawn_as_a_tree_of_boxes() {
        let code = "graph TD\n  A[Start] --> B{Is it open?}\n  B -->|yes| C(Write)\n  B -- no --> D\n  C --> B\n";
        let shown = drawn(code, 60).expect("a diagram");
        for part in
            ["│ Start │", "│ Is it open? │", "yes", "no", "│ Write │", "│ D │", "↩ Is it open?"]
        {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        let widest = shown.lines().map(parallax_screen::text_width).max().unwrap_or(0);
        assert!(drawn(code, widest).is_some() && drawn(code, widest - 1).is_none());
    }

    #[test]
    fn chain_is_drawn_exactly() {
        let shown = drawn("flowchart LR\n A[One] --> B[Three]", 40).expect("a diagram");
        let expected =
            [" ┌─────┐", " │ One │", " └──┬──┘", "    ▼", "┌───────┐", "│ Three │", "└───────┘"];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn long_label_is_drawn_in_full_or_the_code_is_shown() {
        let label = "a label of more than forty columns that a window has space for";
        let code = format!("graph TD\n A[{label}] --> B");
        assert!(drawn(&code, 80).is_some_and(|shown| shown.contains(label)));
        assert_eq!(drawn(&code, 50), None);
    }

    #[test]
    fn sequence_diagram_is_drawn_in_columns() {
        let code = "sequenceDiagram\n participant U as User\n U->>S: GET /\n S-->>U: 200\n Note over S: cached";
        let shown = drawn(code, 60).expect("a diagram");
        for part in ["│ User │", "│ S │", "GET /", "▶", "◀", "200", "cached"] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
    }

    #[test]
    fn unsupported_diagram_is_shown_as_code() {
        for code in ["pie\n \"a\": 1", "graph TD\n subgraph x\n A-->B\n end", "graph TD", ""] {
            assert_eq!(drawn(code, 80), None, "{code}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_diagram_fits_the_columns_or_is_not_drawn(
            head in "(graph TD|sequenceDiagram)",
            body in "(?s)([A-D](\\[[a世 ]{0,6}\\])?( ?(-->|->>|---|-- x -->) ?(\\|y\\|)?[A-D]){0,3}(: [a-z]{0,5})?\n){0,9}.{0,20}",
            columns in 4usize..60,
        ) {
            let theme = Theme::default();
            if let Some(rows) = rows(&format!("{head}\n{body}"), columns, &RenderOptions::new(&theme, columns)) {
                for row in rows {
                    proptest::prop_assert!(row.width() <= columns, "{}", row.text());
                }
            }
        }
    }
}
