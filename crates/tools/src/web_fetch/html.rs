//! Converts an HTML page to text for the model.

use html2text::render::TextDecorator;
use parallax_http::url::Url;

/// Maximum number of bytes of a page that are parsed; the text is limited to much less.
const MAX_HTML: usize = 4 * 1024 * 1024;
/// Maximum number of simultaneously open elements; a page with more is not parsed.
const MAX_DEPTH: usize = 400;
/// Maximum number of elements that a parser would create; a page with more is not parsed.
const MAX_ELEMENTS: usize = 2_000_000;
/// Larger than any relevant line, so that lines are not wrapped.
const WIDTH: usize = 100_000;

/// Returns the text of a page. With `base`, links keep their targets as absolute URLs; without it,
/// only their text. CPU-intensive: call it on a blocking thread.
pub(crate) fn to_text(html: &str, base: Option<&Url>) -> String {
    let end = (0..=MAX_HTML.min(html.len())).rev().find(|offset| html.is_char_boundary(*offset));
    let html = html.get(..end.unwrap_or(0)).unwrap_or("");
    if !is_cheap_to_parse(html) {
        return strip_tags(html);
    }
    let decorator = Markdown { base: base.cloned(), links: Vec::new() };
    let rendered = html2text::config::with_decorator(decorator)
        .raw_mode(true)
        .link_footnotes(false)
        .allow_width_overflow()
        .string_from_read(html.as_bytes(), WIDTH);
    match rendered {
        Ok(text) => remove_extra_whitespace(&text),
        Err(_) => strip_tags(html),
    }
}

/// Renders plain Markdown: headings, lists, quotes, and code; emphasis is dropped.
struct Markdown {
    base: Option<Url>,
    /// The targets of the open links.
    links: Vec<String>,
}

impl TextDecorator for Markdown {
    type Annotation = ();

    fn decorate_link_start(&mut self, url: &str) -> (String, ()) {
        let Some(base) = &self.base else { return (String::new(), ()) };
        let target = base.join(url).map_or_else(|_| url.to_owned(), String::from);
        self.links.push(target);
        ("[".to_owned(), ())
    }
    fn decorate_link_end(&mut self) -> String {
        self.links.pop().map_or_else(String::new, |target| format!("]({target})"))
    }
    fn decorate_em_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_em_end(&self) -> String {
        String::new()
    }
    fn decorate_strong_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_strong_end(&self) -> String {
        String::new()
    }
    fn decorate_strikeout_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_strikeout_end(&self) -> String {
        String::new()
    }
    fn decorate_code_start(&self) -> (String, ()) {
        ("`".to_owned(), ())
    }
    fn decorate_code_end(&self) -> String {
        "`".to_owned()
    }
    fn decorate_preformat_first(&self) {}
    fn decorate_preformat_cont(&self) {}
    fn decorate_image(&mut self, _src: &str, _title: &str) -> (String, ()) {
        (String::new(), ())
    }
    fn header_prefix(&self, level: usize) -> String {
        "#".repeat(level.min(6)) + " "
    }
    fn quote_prefix(&self) -> String {
        "> ".to_owned()
    }
    fn unordered_item_prefix(&self) -> String {
        "* ".to_owned()
    }
    fn ordered_item_prefix(&self, number: i64) -> String {
        format!("{number}. ")
    }
    fn decorate_superscript_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_superscript_end(&self) -> String {
        String::new()
    }
    fn make_subblock_decorator(&self) -> Self {
        Self { base: self.base.clone(), links: Vec::new() }
    }
}

/// Removes trailing whitespace and repeated empty lines.
fn remove_extra_whitespace(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines().map(str::trim_end) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty > 1 {
            continue;
        }
        tidied.push_str(line);
        tidied.push('\n');
    }
    tidied.trim().to_owned()
}

/// Elements that a parser reopens in each new block if they are not closed: a short page can
/// produce millions of them.
const FORMATTING: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];
/// Void elements, and elements that the next one of the same kind closes.
const SHALLOW: [&str; 25] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr", "p", "li", "td", "th", "tr", "dt", "dd", "option", "html", "head", "body",
];

/// Whether the cost of parsing is proportional to the page's size: hostile pages nest deeply or
/// make the parser multiply elements.
fn is_cheap_to_parse(html: &str) -> bool {
    let (mut depth, mut formatting, mut elements) = (0_usize, 0_usize, 0_usize);
    let mut foreign = 0_usize;
    // Text inside a script may look like tags.
    let mut raw: Option<&str> = None;
    for piece in html.split('<').skip(1) {
        let (closes, name) = match piece.strip_prefix('/') {
            Some(name) => (true, name),
            None => (false, piece),
        };
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(name.len());
        let name = name.get(..end).unwrap_or("");
        if name.is_empty() {
            continue;
        }
        if let Some(open) = raw {
            if closes && name.eq_ignore_ascii_case(open) {
                raw = None;
            }
            continue;
        }
        if !closes {
            raw = ["script", "style"].into_iter().find(|raw| raw.eq_ignore_ascii_case(name));
        }
        let is = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
        let step = |count: usize| if closes { count.saturating_sub(1) } else { count + 1 };
        if is(&FORMATTING) {
            formatting = step(formatting);
        }
        // In SVG and MathML no element closes another, and all may nest.
        if is(&["svg", "math"]) {
            foreign = step(foreign);
        }
        let closed = foreign > 0 && piece.split('>').next().is_some_and(|tag| tag.ends_with('/'));
        if !closed && (foreign > 0 || !is(&SHALLOW)) {
            depth = step(depth);
        }
        elements += 1 + formatting;
        if depth > MAX_DEPTH || elements > MAX_ELEMENTS {
            return false;
        }
    }
    true
}

/// Removes tags, scripts, and styles from a page that is not parsed.
fn strip_tags(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some(offset) = rest.find('<') {
        let (before, tag) = rest.split_at(offset);
        text.push_str(before);
        text.push(' ');
        let skip = ["script", "style"].iter().find_map(|name| {
            let named = tag.get(1..=name.len())?;
            named.eq_ignore_ascii_case(name).then(|| {
                let close = tag.find(&format!("</{name}")).unwrap_or(tag.len());
                tag.get(close..).unwrap_or("")
            })
        });
        let tail = skip.unwrap_or(tag);
        rest = tail.find('>').and_then(|end| tail.get(end + 1..)).unwrap_or("");
    }
    text.push_str(rest);
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = "<html><head><title>T</title><style>p{}</style></head><body><h1>Head</h1>\
        <p>One <b>two</b> <a href='/x'>three</a> <img src=y alt=pic></p><ul><li>a<li>b</ul><hr>\
        <table><tr><td>c1<td>c2</table><script>evil()</script></body></html>";

    #[test]
    fn html_is_converted_to_text_with_or_without_link_targets() {
        let plain = to_text(PAGE, None);
        assert!(plain.starts_with("# Head\n\nOne two three"), "{plain}");
        assert!(plain.contains("* a\n* b\n"), "{plain}");
        assert!(!plain.contains("evil") && !plain.contains("p{}"), "{plain}");
        let base = "https://a.example/dir/".parse().expect("a URL");
        assert!(to_text(PAGE, Some(&base)).contains("[three](https://a.example/x)"));
    }

    #[test]
    fn hostile_html_is_converted_in_bounded_time() {
        let formats: String = (0..300).map(|n| format!("<b id={n}>")).collect();
        for page in [
            "<div>".repeat(100_000),
            "<table><tr><td>".repeat(20_000),
            // The maximum depth that is parsed must not overflow the stack.
            "<table><tr><td>".repeat(MAX_DEPTH),
            "<blockquote>x".repeat(MAX_DEPTH),
            "<svg>".to_owned() + &"<tr>".repeat(20_000),
            "<svg>".to_owned() + &"<link>".repeat(20_000),
            formats + &"<p>x".repeat(100_000),
            "<ul><li>".repeat(20_000),
            format!(
                "<table><tr><td colspan=4000000000 rowspan=4000000000>x{}",
                "<td>y".repeat(500)
            ),
            "<".repeat(300_000),
            "<script>".repeat(20_000),
            "<a href=".repeat(20_000),
            "<!--".repeat(20_000),
        ] {
            let start = Instant::now();
            let _ = to_text(&page, None);
            assert!(start.elapsed() < Duration::from_secs(20), "{}", &page[..40]);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_html_does_not_panic(page in "(<(/)?(b|p|div|table|td|a|li|pre|h1)( [a-z]+=['\"]?)?>|\\PC|&#?[0-9a-z]{0,9};?){0,60}") {
            let _ = to_text(&page, None);
            let _ = strip_tags(&page);
        }
    }
}
