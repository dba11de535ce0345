//! `report.html`: a single self-contained page.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};

use super::{Summary, SummaryRow, checks};
use crate::directory::BatchDirectory;
use crate::error::BatchError;
use crate::result::TaskState;

/// Maximum number of bytes shown of one patch.
const MAX_PATCH_LENGTH: u64 = 200 * 1024;
/// Maximum number of bytes of all patches.
const MAX_PATCHES: usize = 20 * 1024 * 1024;
/// Maximum number of bars in the cost plot.
const MAX_BARS: usize = 400;
/// Size of the cost plot.
const PLOT: (f64, f64) = (960.0, 160.0);

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;max-width:75rem;\
color:#1f2328;background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.25rem .6rem;\
text-align:left;border-bottom:1px solid #d0d7de;vertical-align:top}td.n{text-align:right;\
font-variant-numeric:tabular-nums}pre{overflow:auto;padding:.75rem;background:#f6f8fa;font-size:12px}\
.a{color:#116329}.d{color:#82071e}.h{color:#6639ba}.succeeded{color:#116329}.failed,.timeout,\
.over_budget{color:#b3261e}.cancelled{color:#6e7781}rect{fill:#0969da}rect.failed,rect.timeout,\
rect.over_budget{fill:#cf222e}rect.cancelled{fill:#8c959f}@media(prefers-color-scheme:dark){body{\
color:#e6edf3;background:#0d1117}pre{background:#161b22}th,td{border-color:#30363d}.a,.succeeded{\
color:#3fb950}.d,.failed,.timeout,.over_budget{color:#ff7b72}.h{color:#d2a8ff}}";

/// Writes the page. Patches are read one at a time.
pub(super) fn write(summary: &Summary, directory: &BatchDirectory) -> Result<(), BatchError> {
    let file = directory.file("report.html");
    let new = directory.file("report.html.new");
    let failed = |source| BatchError::Write { file: file.clone(), source };
    let page = File::create(&new).map(BufWriter::new);
    page.and_then(|mut page| {
        page_of(&mut page, summary, directory)?;
        page.flush()
    })
    .and_then(|()| std::fs::rename(&new, &file))
    .map_err(failed)
}

fn page_of(page: &mut impl Write, summary: &Summary, directory: &BatchDirectory) -> io::Result<()> {
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\"><title>Batch</title><style>{STYLE}</style></head><body>\n\
         <h1>Batch</h1>\n<p>{}</p>\n",
        HtmlText(&summary.line())
    )?;
    write_bars(page, &summary.results)?;
    writeln!(
        page,
        "<table><thead><tr><th>Task<th>State<th>Model<th>Files<th>Checks<th>Tokens<th>Cost\
         <th>Time<th>Reason</thead><tbody>"
    )?;
    for row in &summary.results {
        let state = row.state.as_str();
        writeln!(
            page,
            "<tr><td><a href=\"#{id}\">{id}</a><br><small>{}</small><td class=\"{state}\">{state}\
             <td>{}<td class=\"n\">{}<td>{}<td class=\"n\">{}<td class=\"n\">${:.4}\
             <td class=\"n\">{:.1} s<td>{}",
            HtmlText(&row.title),
            HtmlText(row.model.as_deref().unwrap_or_default()),
            row.files_changed,
            checks(row.checks),
            row.tokens,
            row.cost,
            row.seconds,
            HtmlText(&row.reason),
            id = HtmlText(&row.id),
        )?;
    }
    writeln!(page, "</tbody></table>")?;
    let mut remaining = MAX_PATCHES;
    for row in &summary.results {
        patch(page, row, directory, &mut remaining)?;
    }
    writeln!(page, "</body></html>")
}

/// Writes a bar for the cost of each task.
fn write_bars(page: &mut impl Write, rows: &[SummaryRow]) -> io::Result<()> {
    let largest = rows.iter().map(|row| row.cost).fold(0.0, f64::max);
    if largest <= 0.0 {
        return Ok(());
    }
    let (width, height) = PLOT;
    let bars = rows.len().min(MAX_BARS);
    let step = width / bars as f64;
    writeln!(
        page,
        "<h2>Cost</h2>\n<svg viewBox=\"0 0 {width} {height}\" width=\"100%\" role=\"img\" \
         aria-label=\"Cost of each task, at most ${largest:.4}\">"
    )?;
    for (number, row) in rows.iter().take(bars).enumerate() {
        let tall = (row.cost / largest * (height - 2.0)).max(0.5);
        writeln!(
            page,
            "<rect class=\"{}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{tall:.2}\">\
             <title>{}: ${:.4}</title></rect>",
            row.state.as_str(),
            number as f64 * step,
            height - tall,
            (step * 0.85).max(0.5),
            HtmlText(&row.id),
            row.cost,
        )?;
    }
    writeln!(page, "</svg>")?;
    if rows.len() > bars {
        writeln!(page, "<p>The first {bars} of {} tasks.</p>", rows.len())?;
    }
    Ok(())
}

/// Writes the changes of a task.
fn patch(
    page: &mut impl Write,
    row: &SummaryRow,
    directory: &BatchDirectory,
    remaining: &mut usize,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(directory.task(&row.id).file("patch.diff")) {
        file.take(MAX_PATCH_LENGTH + 1).read_to_end(&mut bytes)?;
    }
    let open = if row.state == TaskState::Succeeded { "" } else { " open" };
    writeln!(
        page,
        "<details id=\"{id}\"{open}><summary>{id}: {} files changed</summary>",
        row.files_changed,
        id = HtmlText(&row.id)
    )?;
    if bytes.len() > *remaining {
        writeln!(page, "<p>The page has too many changes already; see patch.diff.</p></details>")?;
        return Ok(());
    }
    *remaining -= bytes.len();
    let is_cut = bytes.len() as u64 > MAX_PATCH_LENGTH;
    writeln!(page, "<pre>")?;
    for line in String::from_utf8_lossy(&bytes).lines() {
        let class = match line.as_bytes().first() {
            Some(b'+') => "a",
            Some(b'-') => "d",
            Some(b'@') => "h",
            _ => "",
        };
        if class.is_empty() {
            writeln!(page, "{}", HtmlText(line))?;
        } else {
            writeln!(page, "<span class=\"{class}\">{}</span>", HtmlText(line))?;
        }
    }
    writeln!(
        page,
        "</pre>{}</details>",
        if is_cut { "<p>See patch.diff for the rest.</p>" } else { "" }
    )
}

/// Text escaped for HTML, including attribute values.
struct HtmlText<'a>(&'a str);

impl std::fmt::Display for HtmlText<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write as _;
        for char in self.0.chars() {
            match char {
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '&' => formatter.write_str("&amp;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                char if char.is_control() && char != '\t' => {
                    formatter.write_char('\u{fffd}')?;
                }
                char => formatter.write_char(char)?,
            }
        }
        Ok(())
    }
}
