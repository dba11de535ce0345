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

/// The beginning of the title of a report.
const TITLE: &str = "<title>Evaluation: ";

/// Returns whether a page that begins like this is a report.
pub fn is_report(start: &str) -> bool {
    start.contains(TITLE)
}

/// Returns the page. `style` is the DevTools style sheet; `sessions` maps session IDs to the
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
            {TITLE}{} of {} runs passed</title>\n<style>{style}{STYLE}</style>\n</head>\n\
            <body class=\"evaluation\">\n",
        report.total.passed, report.total.runs
    );
    let _ = writeln!(page, "<h1>Evaluation</h1>");
    let _ = writeln!(
        page,
        "<p class=\"muted\">{} of {} runs passed. Bars show the share of passed runs, frames its \
            95 % interval.</p>",
        report.total.passed, report.total.runs
    );
    if let Some(judges) = &report.judges {
        let (tokens, cost) = (with_thousands_separators(judges.tokens), dollars(judges.cost));
        let _ =
            writeln!(page, "<p class=\"muted\">Judges used {tokens} more tokens, cost {cost}.</p>");
    }
    write_groups(&mut page, "Models", &report.models, &report);
    write_groups(&mut page, "Tags", &report.tags, &report);
    runs(&mut page, results, sessions);
    page.push_str("</body>\n</html>\n");
    page
}

fn write_groups(page: &mut String, title: &str, groups: &[RunGroup], report: &Report) {
    if groups.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<h2>{title}</h2>\n<div class=\"frame\"><table class=\"results\">\n<thead><tr>\
            <th scope=\"col\">Name</th><th scope=\"col\">Passed</th>\
            <th scope=\"col\" class=\"share\">Share</th><th scope=\"col\" class=\"figure\">95 % interval</th>\
            <th scope=\"col\" class=\"figure\">pass^{}</th>",
        report.runs_per_case
    );
    write_figures(page, "th", ["Tokens", "Cost", "Median time", "Tool calls"].map(str::to_owned));
    page.push_str("</tr></thead>\n<tbody>\n");
    for group in groups {
        let (low, high) = group.interval;
        let _ = write!(
            page,
            "<tr><th scope=\"row\" class=\"name\">{}</th><td>{} of {}</td><td class=\"share\">\
                <span class=\"rate\" role=\"img\" aria-label=\"{:.1} %\"><i style=\"width:{:.1}%\"></i>\
                <u style=\"left:{:.1}%;right:{:.1}%\"></u></span></td>\
                <td class=\"figure\">{:.1}–{:.1} %</td><td class=\"figure\">{:.1} %</td>",
            PageText(&group.name),
            group.passed,
            group.runs,
            group.pass_rate * 100.0,
            group.pass_rate * 100.0,
            low * 100.0,
            (1.0 - high) * 100.0,
            low * 100.0,
            high * 100.0,
            group.all_runs_pass * 100.0,
        );
        let median = time(group.median_duration_ms);
        let counts = [
            with_thousands_separators(group.tokens),
            dollars(group.cost),
            median,
            with_thousands_separators(group.tool_calls),
        ];
        write_figures(page, "td", counts);
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// Writes cells with figures.
fn write_figures(page: &mut String, tag: &str, figures: [String; 4]) {
    for figure in figures {
        let _ = write!(page, "<{tag} class=\"figure\">{figure}</{tag}>");
    }
}

fn runs(page: &mut String, results: &[RunResult], sessions: &BTreeMap<String, String>) {
    page.push_str(
        "<h2>Runs</h2>\n<div class=\"frame\"><table class=\"results\">\n<thead><tr>\
            <th scope=\"col\">Case</th><th scope=\"col\">Run</th><th scope=\"col\">Model</th>\
            <th scope=\"col\">Result</th><th scope=\"col\">Checks</th>",
    );
    write_figures(page, "th", ["Tokens", "Cost", "Time", "Tool calls"].map(str::to_owned));
    page.push_str("<th scope=\"col\">Session</th></tr></thead>\n<tbody>\n");
    for result in results {
        let badge = match result.pass {
            true => "<span class=\"badge passed\">✓ passed</span>",
            false => "<span class=\"badge failed\">✕ failed</span>",
        };
        let passed = result.checks.iter().filter(|check| check.pass).count();
        let _ = write!(
            page,
            "<tr><th scope=\"row\" class=\"name\">{}</th><td>{}</td><td>{}</td><td>{badge}</td>\
                <td>{passed} of {}</td>",
            PageText(&result.case),
            result.run,
            PageText(&result.model),
            result.checks.len(),
        );
        let (cost, time) = (dollars(result.cost), time(result.duration_ms));
        write_figures(
            page,
            "td",
            [
                with_thousands_separators(result.tokens),
                cost,
                time,
                with_thousands_separators(result.tool_calls),
            ],
        );
        let file = result.session_id.as_ref().and_then(|id| sessions.get(id));
        page.push_str("<td>");
        if let Some(file) = file {
            let _ = write!(page, "<a href=\"{}\">DevTools</a>", PageText(file));
        }
        page.push_str("</td></tr>\n");
        if !result.pass {
            write_reasons(page, result, file);
        }
    }
    page.push_str("</tbody></table></div>\n");
}

/// Writes the row that says why a run failed. `file` is the page of its session.
fn write_reasons(page: &mut String, result: &RunResult, file: Option<&String>) {
    page.push_str("<tr class=\"why\"><td colspan=\"10\"><dl>");
    if let Some(wrong_step) = &result.wrong_step {
        let tool = wrong_step.tool.as_deref().unwrap_or("the answer");
        let _ = write!(
            page,
            "<dt>First wrong step</dt><dd>Step {}, <code>{}</code>: {}",
            wrong_step.step,
            PageText(tool),
            PageText(&wrong_step.problem)
        );
        if let Some(file) = file {
            let address = format!("{file}{}", wrong_step.fragment());
            let _ = write!(page, " <a href=\"{}\">Open in DevTools</a>", PageText(&address));
        }
        page.push_str("</dd>");
    }
    if let Some(error) = &result.error {
        let _ = write!(page, "<dt>Run</dt><dd>{}</dd>", PageText(error));
    }
    for check in result.checks.iter().filter(|check| !check.pass) {
        let detail = check.detail.as_deref().unwrap_or("it did not pass");
        let (kind, detail) = (PageText(&check.kind), PageText(detail));
        let _ = write!(page, "<dt><code>{kind}</code></dt><dd>{detail}</dd>");
    }
    if let Some(command) = &result.devtools {
        let _ = write!(page, "<dt>Live view</dt><dd><code>{}</code></dd>", PageText(command));
    }
    page.push_str("</dl></td></tr>\n");
}

/// Returns a number with its thousands separated.
fn with_thousands_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
    use crate::results::FailedStep;

    #[test]
    fn numbers_have_thousands_separators() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_thousands_separators(number), text);
        }
    }

    #[test]
    fn page_escapes_text() {
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
            judge: None,
            session_id: Some("id".to_owned()),
            tags: vec!["\"t".to_owned()],
            wrong_step: Some(FailedStep {
                step: 2,
                call: Some(3),
                tool: Some("<b>".to_owned()),
                problem: "<i>no match".to_owned(),
            }),
            devtools: Some("parallax devtools id".to_owned()),
            error: None,
        };
        let sessions = BTreeMap::from([("id".to_owned(), "sessions/id.html".to_owned())]);
        let page = page(&[result], "", &sessions);
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
        assert!(page.contains("a&amp;b") && page.contains("0 of 1 runs passed"));
        assert!(page.contains("href=\"sessions/id.html\"") && page.contains("1.5 s"));
        assert!(page.contains("Step 2, <code>&lt;b&gt;</code>: &lt;i&gt;no match"), "{page}");
        assert!(page.contains("href=\"sessions/id.html#call=3\""), "{page}");
        assert!(page.contains("parallax devtools id"), "{page}");
    }
}
