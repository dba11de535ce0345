//! A unified diff on an exported page, with line numbers.

use std::fmt::Write as _;

use super::escaped::EscapedText;

/// Writes a diff. Text before the first hunk (file names) is omitted.
pub(super) fn write_diff(page: &mut String, diff: &str) {
    page.push_str("<pre class=\"diff\">");
    let mut numbers: Option<(u64, u64)> = None;
    let mut is_first = true;
    for line in diff.lines() {
        if let Some(start) = hunk(line) {
            numbers = Some(start);
            if !std::mem::take(&mut is_first) {
                page.push_str("<span class=\"gap\">⋯</span>");
            }
            continue;
        }
        let Some((old, new)) = &mut numbers else { continue };
        let (class, number) = match line.chars().next() {
            Some('+') => ("line add", bump(new)),
            Some('-') => ("line del", bump(old)),
            Some('\\') => {
                let _ = write!(page, "<span class=\"gap\">{}</span>", EscapedText(line));
                continue;
            }
            _ => {
                bump(old);
                ("line", bump(new))
            }
        };
        let _ = write!(
            page,
            "<span class=\"{class}\"><i>{number:>4}</i> {}\n</span>",
            EscapedText(if line.is_empty() { " " } else { line })
        );
    }
    page.push_str("</pre>\n");
}

/// Parses the first line numbers of a hunk in the old and the new file.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let first = |range: &str| range.split(',').next().and_then(|number| number.parse().ok());
    Some((first(old)?, first(new)?))
}

fn bump(number: &mut u64) -> u64 {
    let current = *number;
    *number = number.saturating_add(1);
    current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_lines_are_numbered_and_classified() {
        let mut page = String::new();
        write_diff(
            &mut page,
            "--- a\n+++ b\n@@ -9,2 +9,2 @@\n same\n-old <b>\n+new\n@@ -30 +30 @@\n+x",
        );
        assert!(!page.contains("--- a"), "{page}");
        assert!(page.contains("<span class=\"line\"><i>   9</i>  same\n</span>"), "{page}");
        assert!(page.contains("<span class=\"line del\"><i>  10</i> -old &lt;b&gt;\n</span>"));
        assert!(page.contains("<span class=\"line add\"><i>  10</i> +new\n</span>"));
        assert!(page.contains("⋯") && page.contains("<i>  30</i> +x"), "{page}");
    }
}
