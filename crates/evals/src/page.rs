//! Renders results as one self-contained HTML page.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Write as _};

use crate::report::{Report, RunGroup};
use crate::results::RunResult;

const STYLE: &str = include_str!("page.css");

/// Escaped text without control and bidirectional characters.
struct PageText<'a>(&'a str);

impl Display for PageText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' => f.write_char(' ')?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                char if char.is_control() => {}
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Returns the page. `style` is the style sheet of DevTools; `sessions` maps session IDs to the
/// paths of exported session pages, relative to this page.
pub fn page(results: &[RunResult], style: &str, sessions: &BTreeMap<String, String>) -> String {
    let report = Report::from_results(results);
    let mut page =
        String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
            <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
            'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
            <title>Evaluation: {} of {} runs passed</title>\n<style>{style}{STYLE}</style>\n</head>\n<body>\n",
        report.total.passed, report.total.runs
    );
    let _ = writeln!(page, "<h1>Evaluation</h1>");
    let _ = writeln!(
        page,
        "<p class=\"muted\">{} of {} runs passed. Bars show the share of passed runs, frames its \
            95 % interval.</p>",
        report.total.passed, report.total.runs
    );
    groups(&mut page, "Models", &report.models, &report);
    groups(&mut page, "Tags", &report.tags, &report);
    runs(&mut page, results, sessions);
    page.push_str("</body>\n</html>\n");
    page
}

fn groups(page: &mut String, title: &str, groups: &[RunGroup], report: &Report) {
    if groups.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<h2>{title}</h2>\n<div class=\"wide\"><table>\n<tr><th></th><th>Passed</th><th></th>\
            <th class=\"number\">pass^{}</th><th class=\"number\">Tokens</th>\
            <th class=\"number\">Cost</th><th class=\"number\">Median time</th>\
            <th class=\"number\">Tool calls</th></tr>\n",
        report.runs_per_case
    );
    for group in groups {
        let (low, high) = group.interval;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}/{} ({:.1} %, {:.1}–{:.1} %)</td><td><div class=\"bar\">\
                <i style=\"width:{:.1}%\"></i><u style=\"left:{:.1}%;right:{:.1}%\"></u></div></td>\
                <td class=\"number\">{:.1} %</td><td class=\"number\">{}</td>\
                <td class=\"number\">{}</td><td class=\"number\">{}</td>\
                <td class=\"number\">{}</td></tr>",
            PageText(&group.name),
            group.passed,
            group.runs,
            group.pass_rate * 100.0,
            low * 100.0,
            high * 100.0,
            group.pass_rate * 100.0,
            low * 100.0,
            (1.0 - high) * 100.0,
            group.all_runs_pass * 100.0,
            group.tokens,
            dollars(group.cost),
            time(group.median_duration_ms),
            group.tool_calls
        );
    }
    page.push_str("</table></div>\n");
}

fn runs(page: &mut String, results: &[RunResult], sessions: &BTreeMap<String, String>) {
    page.push_str(
        "<h2>Runs</h2>\n<div class=\"wide\"><table>\n<tr><th>Case</th><th>Model</th><th>Result</th>\
            <th>Checks</th><th class=\"number\">Tokens</th><th class=\"number\">Cost</th>\
            <th class=\"number\">Time</th><th class=\"number\">Tool calls</th><th>Session</th></tr>\n",
    );
    for result in results {
        let (class, word) =
            if result.pass { ("pass", "✓ passed") } else { ("fail", "✕ failed") };
        let _ = write!(
            page,
            "<tr><td>{} <span class=\"muted\">#{}</span></td><td>{}</td>\
                <td class=\"{class}\">{word}</td><td>",
            PageText(&result.case),
            result.run,
            PageText(&result.model)
        );
        let passed = result.checks.iter().filter(|check| check.pass).count();
        let _ = write!(page, "{passed}/{}", result.checks.len());
        let details = result.checks.iter().filter(|check| !check.pass).map(|check| {
            (check.kind.as_str(), check.detail.as_deref().unwrap_or("it did not pass"))
        });
        let details: Vec<_> =
            result.error.iter().map(|error| ("run", error.as_str())).chain(details).collect();
        if !details.is_empty() {
            page.push_str("<ul>");
            for (kind, detail) in details {
                let _ =
                    write!(page, "<li><code>{}</code>: {}</li>", PageText(kind), PageText(detail));
            }
            page.push_str("</ul>");
        }
        let _ = write!(
            page,
            "</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
                <td class=\"number\">{}</td><td class=\"number\">{}</td><td>",
            result.tokens,
            dollars(result.cost),
            time(result.duration_ms),
            result.tool_calls
        );
        if let Some(id) = &result.session_id {
            match sessions.get(id) {
                Some(file) => {
                    let _ = write!(page, "<a href=\"{}\">open</a>", PageText(file));
                }
                None => {
                    let _ = write!(page, "<code>{}</code>", PageText(id));
                }
            }
        }
        page.push_str("</td></tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn dollars(cost: Option<f64>) -> String {
    cost.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.4}"))
}

#[expect(clippy::cast_precision_loss, reason = "no run takes 2^52 ms")]
fn time(milliseconds: u64) -> String {
    format!("{:.1} s", milliseconds as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::CheckResult;

    #[test]
    fn page_shows_text_as_text() {
        let check = CheckResult {
            kind: "command".to_owned(),
            pass: false,
            detail: Some("<script>alert(1)</script>\u{202e}".to_owned()),
        };
        let result = RunResult {
            case: "a&b".to_owned(),
            model: "m".to_owned(),
            run: 1,
            pass: false,
            tokens: 7,
            cost: None,
            duration_ms: 1500,
            tool_calls: 2,
            checks: vec![check],
            session_id: Some("id".to_owned()),
            tags: vec!["\"t".to_owned()],
            error: None,
        };
        let sessions = BTreeMap::from([("id".to_owned(), "sessions/id.html".to_owned())]);
        let page = page(&[result], "", &sessions);
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
        assert!(page.contains("a&amp;b") && page.contains("0 of 1 runs passed"));
        assert!(page.contains("href=\"sessions/id.html\"") && page.contains("1.5 s"));
    }
}
