//! A session as one page that needs nothing else: no script, no picture, no
//! font from anywhere. Everything that was said is text, escaped; the page's
//! policy lets nothing be loaded and nothing run.

use std::fmt::Write as _;

use base64::Engine as _;
use parallax_store::LoadedSession;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::past::{self, PastItem};

const STYLE: &str = include_str!("page.css");

/// The page.
pub(super) fn page(session: &LoadedSession, title: &str) -> String {
    let title = if title.trim().is_empty() { "A session" } else { title };
    let mut page = String::with_capacity(64 * 1024);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
    let _ = writeln!(
        page,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'sha256-{hash}'; base-uri 'none'; form-action 'none'\">"
    );
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.push_str("<meta name=\"referrer\" content=\"no-referrer\">\n");
    let _ = writeln!(page, "<title>{}</title>\n<style>{STYLE}</style>", Escaped(title));
    page.push_str("</head>\n<body>\n<main>\n");
    let _ = writeln!(page, "<h1>{}</h1>", Escaped(title));
    let head = &session.head;
    let _ = writeln!(
        page,
        "<p class=\"facts\"><time>{}</time> · {} · session {}</p>",
        Escaped(&head.start_time),
        Escaped(&head.project),
        Escaped(head.session_id.as_str())
    );
    for item in past::items(&session.records) {
        write_item(&mut page, &item);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn write_item(page: &mut String, item: &PastItem) {
    match item {
        PastItem::User { text, turn, time, .. } => {
            let _ = write!(
                page,
                "<section class=\"user\" id=\"prompt-{turn}\"><h2>You <time>{}</time></h2>",
                Escaped(time)
            );
            let _ = writeln!(page, "<div class=\"said\">{}</div></section>", Escaped(text));
        }
        PastItem::Steer { text } => {
            page.push_str("<section class=\"user\"><h2>You, meanwhile</h2>");
            let _ = writeln!(page, "<div class=\"said\">{}</div></section>", Escaped(text));
        }
        PastItem::Thought { text } => {
            let _ = writeln!(
                page,
                "<details class=\"thought\"><summary>{}</summary><div class=\"said\">{}</div>\
                 </details>",
                Escaped(&first_line(text).replace("**", "")),
                Escaped(text)
            );
        }
        PastItem::Text { text, partial } => {
            page.push_str("<section class=\"model\">");
            write_answer(page, text);
            if *partial {
                page.push_str("<p class=\"facts\">cut off</p>");
            }
            page.push_str("</section>\n");
        }
        PastItem::Tool { name, args, status, output, .. } => {
            let status = status.as_deref().unwrap_or("no result");
            // The class is one of ours: a status may be anybody's word.
            let class = if status == "success" { "success" } else { "error" };
            let _ = write!(
                page,
                "<details class=\"tool {class}\"><summary><b>{}</b> <span>{}</span> \
                 <i>{}</i></summary>",
                Escaped(name),
                Escaped(&short(args)),
                Escaped(status)
            );
            let arguments = format!("{:#}", Value::Object(args.clone()));
            let _ = writeln!(
                page,
                "<pre>{}</pre><pre>{}</pre></details>",
                Escaped(&arguments),
                Escaped(output)
            );
        }
    }
}

/// An answer: fenced blocks as they are, the rest as running text.
fn write_answer(page: &mut String, text: &str) {
    let mut fence: Option<String> = None;
    let mut piece = String::new();
    for line in text.lines() {
        let marks: String = line.trim_start().chars().take_while(|char| *char == '`').collect();
        let ends = fence.as_ref().is_some_and(|open| {
            marks.len() >= open.len() && line.trim_start().trim_end().len() == marks.len()
        });
        if ends || (fence.is_none() && marks.len() >= 3) {
            flush(page, &mut piece, fence.is_some());
            fence = if ends { None } else { Some(marks) };
            continue;
        }
        piece.push_str(line);
        piece.push('\n');
    }
    flush(page, &mut piece, fence.is_some());
}

fn flush(page: &mut String, piece: &mut String, is_code: bool) {
    let text = piece.trim_end_matches('\n');
    if !text.trim().is_empty() {
        let _ = match is_code {
            true => writeln!(page, "<pre>{}</pre>", Escaped(text)),
            false => writeln!(
                page,
                "<div class=\"said\">{}</div>",
                Escaped(text.trim_start_matches('\n'))
            ),
        };
    }
    piece.clear();
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// The first argument that is a text, in one line.
fn short(args: &parallax_protocol::Object) -> String {
    let text = args.values().find_map(Value::as_str).unwrap_or_default();
    first_line(text).chars().take(100).collect()
}

/// Text that cannot be markup, wherever it stands. Control characters that no
/// page may hold are left out, and those that turn the direction of text
/// around, which could show what is not there.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(char)?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                char if char.is_control() => {}
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_is_markup() {
        let text = Escaped("<script>'\"&\u{1b}[0m\u{202e}\n</b>").to_string();
        assert_eq!(text, "&lt;script&gt;&#39;&quot;&amp;[0m\n&lt;/b&gt;");
    }

    #[test]
    fn fences_are_blocks_and_an_open_one_ends_with_the_text() {
        let mut page = String::new();
        write_answer(&mut page, "see\n```rust\na < b\n```\nand\n````\n```\nx");
        assert_eq!(
            page,
            "<div class=\"said\">see</div>\n<pre>a &lt; b</pre>\n<div class=\"said\">and</div>\n\
             <pre>```\nx</pre>\n"
        );
    }
}
