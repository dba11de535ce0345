//! Exports a session as a self-contained web page with the views of the inspector. Session contents
//! are data of the page's script, which displays them as text; the page's content security policy
//! blocks all loading and other scripts. Without scripts, the page is a plain transcript.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use parallax_protocol::store::Record;
use parallax_protocol::tool::Display;
use parallax_store::LoadedSession;
use serde_json::Value;

use super::call::ExportedCall;
use super::escaped::EscapedText;
use super::first_line;
use super::prose::write_prose;
use super::syntax_colors::SyntaxHighlighter;
use crate::recorded_items::{self, RecordedItem};
use parallax_devtools::{InlineElement, json_for_script};

const STYLE: &str = include_str!("page.css");
/// Number of prompts above which the page starts with a list of them.
const LISTED: usize = 3;
/// Maximum characters of a title and of a line in the list.
const TITLE: usize = 120;

/// Returns the page: the inspector views of all lines of the journal, and the transcript for readers
/// without scripts.
pub(super) fn page(
    session: &LoadedSession,
    title: &str,
    by: Option<SyntaxHighlighter>,
    journal: &str,
) -> String {
    let title = if title.trim().is_empty() { "A session" } else { title };
    let (style, script) = (
        InlineElement::new(parallax_devtools::STYLE),
        InlineElement::new(parallax_devtools::SCRIPT),
    );
    let plain_style = InlineElement::new(STYLE);
    let mut head = String::new();
    let _ = writeln!(
        head,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; \
         style-src {} {}; base-uri 'none'; form-action 'none'\">",
        script.source, style.source, plain_style.source
    );
    let _ = writeln!(head, "<title>{}</title>\n<style>{}</style>", EscapedText(title), style.text);
    let mut end = format!("<noscript>\n<style>{}</style>\n", plain_style.text);
    write_transcript(&mut end, session, title, by);
    end.push_str("</noscript>\n<script type=\"application/json\" id=\"session-data\">\n");
    end.push_str(&json_for_script(journal));
    let _ = writeln!(end, "</script>\n<script>{}</script>", script.text);
    parallax_devtools::document(&head, &end)
}

/// Writes the transcript, which needs no scripts.
fn write_transcript(
    page: &mut String,
    session: &LoadedSession,
    title: &str,
    by: Option<SyntaxHighlighter>,
) {
    page.push_str("<main>\n");
    let items = recorded_items::items(&session.records);
    write_head(page, session, title, &items);
    for item in &items {
        write_item(page, item, &session.head.project, by);
    }
    let _ = writeln!(
        page,
        "<footer>Parallax · session {}</footer>\n</main>",
        EscapedText(session.head.session_id.as_str())
    );
}

/// Writes the title, facts about the session, and a list of prompts if there are several.
fn write_head(page: &mut String, session: &LoadedSession, title: &str, items: &[RecordedItem]) {
    let _ = writeln!(page, "<header>\n<h1>{}</h1>", EscapedText(&truncate(title)));
    page.push_str("<ul class=\"facts\">");
    let mut fact = |text: &str| {
        let _ = write!(page, "<li>{}</li>", EscapedText(text));
    };
    let head = &session.head;
    fact(&format_time(&head.start_time));
    fact(&head.project);
    models(&session.records).iter().for_each(|model| fact(model));
    let sums = SessionTotals::from_items(items);
    fact(&plural(sums.prompts, "prompt"));
    if sums.calls > 0 {
        fact(&plural(sums.calls, "tool call"));
    }
    if sums.added + sums.removed > 0 {
        let _ = write!(
            page,
            "<li><span class=\"add\">+{}</span> <span class=\"del\">−{}</span> lines</li>",
            sums.added, sums.removed
        );
    }
    page.push_str("</ul>\n");
    if sums.prompts >= LISTED {
        page.push_str("<nav><ol>");
        for item in items {
            if let RecordedItem::User { text, turn, .. } = item {
                let line = truncate(first_line(text));
                let _ =
                    write!(page, "<li><a href=\"#prompt-{turn}\">{}</a></li>", EscapedText(&line));
            }
        }
        page.push_str("</ol></nav>\n");
    }
    page.push_str("</header>\n");
}

/// Totals of a session.
#[derive(Default)]
struct SessionTotals {
    prompts: usize,
    calls: usize,
    added: u64,
    removed: u64,
}

impl SessionTotals {
    fn from_items(items: &[RecordedItem]) -> Self {
        let mut sums = Self::default();
        for item in items {
            match item {
                RecordedItem::User { .. } => sums.prompts += 1,
                RecordedItem::Tool { display, .. } => {
                    sums.calls += 1;
                    if let Some(Display::Diff(change)) = display.as_ref().and_then(read_display) {
                        sums.added += change.lines_added;
                        sums.removed += change.lines_removed;
                    }
                }
                _ => {}
            }
        }
        sums
    }
}

fn write_item(
    page: &mut String,
    item: &RecordedItem,
    project: &str,
    by: Option<SyntaxHighlighter>,
) {
    match item {
        RecordedItem::User { text, turn, time, read, .. } => {
            let _ = write!(page, "<section class=\"user\" id=\"prompt-{turn}\"><h2>You");
            if !time.is_empty() {
                let _ = write!(page, " <time>{}</time>", EscapedText(&format_time(time)));
            }
            let _ = write!(page, "</h2><div class=\"said\">{}</div>", EscapedText(text.trim_end()));
            if !read.is_empty() {
                let _ =
                    write!(page, "<p class=\"read\">with {}</p>", EscapedText(&read.join(", ")));
            }
            page.push_str("</section>\n");
        }
        RecordedItem::Steer { text } => {
            page.push_str("<section class=\"user\"><h2>You (steering)</h2>");
            let _ = writeln!(page, "<div class=\"said\">{}</div></section>", EscapedText(text));
        }
        RecordedItem::Continued(continuation) => {
            let text = continuation.to_string();
            let _ = writeln!(page, "<p class=\"cut\">{}</p>", EscapedText(text.trim_end()));
        }
        RecordedItem::Shell { command, output, .. } => {
            page.push_str("<section class=\"user\"><h2>You ran</h2>");
            let _ = write!(page, "<pre>$ {}</pre>", EscapedText(command));
            let _ = writeln!(page, "<pre>{}</pre></section>", EscapedText(output));
        }
        RecordedItem::Thought { text } => {
            let subject = first_line(text).replace("**", "");
            let _ = write!(
                page,
                "<details class=\"thought\"><summary>{}</summary><div class=\"prose\">",
                EscapedText(&truncate(&subject))
            );
            write_prose(page, text, by);
            page.push_str("</div></details>\n");
        }
        RecordedItem::Text { text, partial } => {
            page.push_str("<section class=\"prose\">");
            write_prose(page, text, by);
            if *partial {
                page.push_str("<p class=\"cut\">The answer was cut off here.</p>");
            }
            page.push_str("</section>\n");
        }
        RecordedItem::Image(_) => {}
        RecordedItem::Ended { reason, detail } => {
            let how = EscapedText(detail.as_deref().unwrap_or(reason));
            let _ = writeln!(page, "<p class=\"cut\">The turn ended here: {how}</p>");
        }
        RecordedItem::Tool { name, args, status, display, output, details, .. } => ExportedCall {
            name,
            args,
            status: status.as_deref(),
            exit_code: details.as_ref().and_then(|details| details.exit_code),
            display: display.as_ref().and_then(read_display),
            output,
            project,
        }
        .write(page),
    }
}

fn read_display(display: &Value) -> Option<Display> {
    serde_json::from_value(display.clone()).ok()
}

/// Returns the models that answered.
fn models(records: &[Record]) -> BTreeSet<String> {
    let model = |record: &Record| match record {
        Record::Content(content) => content.model.clone(),
        _ => None,
    };
    records.iter().filter_map(model).collect()
}

/// Formats a time of a record; invalid times are returned unchanged.
fn format_time(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => time.to_owned(),
    }
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(TITLE) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}
