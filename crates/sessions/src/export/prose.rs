//! Renders the model's Markdown on exported pages. HTML stays text, images become links, and links
//! may only lead to web pages and mail addresses.

use std::fmt::Write as _;

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd,
};

use super::diff::write_diff;
use super::escaped::EscapedText;
use super::syntax_colors::{SyntaxHighlighter, write_code};
use parallax_markdown::literal::{
    escape_link_definitions, is_line_break, literal, retains_brackets,
};

/// Maximum URL length of a link in bytes.
const MAX_ADDRESS: usize = 2_000;

/// Renders text.
pub(super) fn write_prose(html: &mut String, text: &str, highlighter: Option<SyntaxHighlighter>) {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let text = escape_link_definitions(text, Parser::new_ext(text, options).into_offset_iter());
    let text = text.as_ref();
    let mut writer = HtmlWriter { html, highlighter, code: None, links: Vec::new(), table: None };
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        if matches!(event, Event::HardBreak)
            && text.get(range.clone()).is_some_and(|text| text.starts_with('\\'))
        {
            // A backslash that continues a shell line is part of the text.
            writer.write_text("\\");
        }
        writer.event(literal(event, text, &range));
    }
}

struct HtmlWriter<'a> {
    html: &'a mut String,
    highlighter: Option<SyntaxHighlighter>,
    /// The language and text of the open code block.
    code: Option<(String, String)>,
    /// The closing text of each open link and image.
    links: Vec<&'static str>,
    table: Option<OpenTable>,
}

#[derive(Default)]
struct OpenTable {
    columns: Vec<Alignment>,
    column: usize,
    in_head: bool,
}

impl HtmlWriter<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.write_text(&text),
            },
            Event::InlineHtml(html) if self.table.is_some() && is_line_break(&html) => {
                self.html.push_str("<br>");
            }
            Event::Html(text) | Event::InlineHtml(text) => self.write_text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let _ = write!(self.html, "<code>{}</code>", EscapedText(&text));
            }
            // A line break of the model is kept, as in the terminal.
            Event::SoftBreak | Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>\n"),
            Event::TaskListMarker(done) => self.write_checkbox(done),
            Event::FootnoteReference(name) => self.write_text(&name),
        }
    }

    fn write_text(&mut self, text: &str) {
        let _ = write!(self.html, "{}", EscapedText(text));
    }

    /// Writes the checkbox of a task, which replaces the bullet of its list item.
    fn write_checkbox(&mut self, done: bool) {
        if self.html.ends_with("<li>") {
            self.html.truncate(self.html.len() - ">".len());
            self.html.push_str(" class=\"task\">");
        }
        self.html.push_str(if done { "☑ " } else { "☐ " });
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.html.push_str("<p>"),
            Tag::Heading { level, .. } => {
                let _ = write!(self.html, "<h{}>", heading_level(level as usize));
            }
            Tag::BlockQuote(_) => self.html.push_str("<blockquote>\n"),
            Tag::CodeBlock(kind) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => first_word(info),
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((language.to_owned(), String::new()));
            }
            Tag::HtmlBlock => self.html.push_str("<p class=\"raw\">"),
            Tag::List(Some(first)) => {
                let _ = writeln!(self.html, "<ol start=\"{first}\">");
            }
            Tag::List(None) => self.html.push_str("<ul>\n"),
            Tag::Item => self.html.push_str("<li>"),
            Tag::Table(columns) => {
                self.table = Some(OpenTable { columns, ..OpenTable::default() });
                self.html.push_str("<div class=\"wide\"><table>\n");
            }
            Tag::TableHead => {
                self.set_head(true);
                self.start_row();
            }
            Tag::TableRow => self.start_row(),
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.html.push_str("<em>"),
            Tag::Strong => self.html.push_str("<strong>"),
            Tag::Strikethrough => self.html.push_str("<del>"),
            Tag::Link { dest_url, link_type, .. } => self.link(&dest_url, link_type),
            Tag::Image { dest_url, link_type, .. } => {
                self.link(&dest_url, link_type);
                self.html.push_str("[picture] ");
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.html.push_str("</p>\n"),
            TagEnd::Heading(level) => {
                let _ = writeln!(self.html, "</h{}>", heading_level(level as usize));
            }
            TagEnd::BlockQuote(_) => self.html.push_str("</blockquote>\n"),
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    write_block(self.html, &language, &code, self.highlighter);
                }
            }
            TagEnd::List(true) => self.html.push_str("</ol>\n"),
            TagEnd::List(false) => self.html.push_str("</ul>\n"),
            TagEnd::Item => self.html.push_str("</li>\n"),
            TagEnd::Table => {
                self.table = None;
                self.html.push_str("</table></div>\n");
            }
            TagEnd::TableHead => {
                self.set_head(false);
                self.html.push_str("</tr>\n");
            }
            TagEnd::TableRow => self.html.push_str("</tr>\n"),
            TagEnd::TableCell => {
                self.html.push_str(if self.is_head() { "</th>" } else { "</td>" });
            }
            TagEnd::Emphasis => self.html.push_str("</em>"),
            TagEnd::Strong => self.html.push_str("</strong>"),
            TagEnd::Strikethrough => self.html.push_str("</del>"),
            TagEnd::Link | TagEnd::Image => {
                self.html.push_str(self.links.pop().unwrap_or_default());
            }
            _ => {}
        }
    }

    fn start_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.column = 0;
        }
        self.html.push_str("<tr>");
    }

    fn is_head(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.in_head)
    }

    fn set_head(&mut self, in_head: bool) {
        if let Some(table) = &mut self.table {
            table.in_head = in_head;
        }
    }

    fn cell(&mut self) {
        let name = if self.is_head() { "th" } else { "td" };
        let Some(table) = &mut self.table else { return };
        let class = match table.columns.get(table.column) {
            Some(Alignment::Right) => " class=\"right\"",
            Some(Alignment::Center) => " class=\"center\"",
            _ => "",
        };
        table.column += 1;
        let _ = write!(self.html, "<{name}{class}>");
    }

    /// Writes a link. A link within a link, such as a linked image, is not rendered as a separate
    /// one.
    fn link(&mut self, address: &CowStr<'_>, link_type: LinkType) {
        let brackets = retains_brackets(link_type, address);
        let opens = is_safe(address) && !self.links.iter().any(|end| end.starts_with("</a>"));
        if brackets {
            self.write_text("<");
        }
        if opens {
            let _ = write!(
                self.html,
                "<a href=\"{}\" rel=\"noopener noreferrer nofollow\">",
                EscapedText(address)
            );
        }
        self.links.push(match (opens, brackets) {
            (true, true) => "</a>&gt;",
            (true, false) => "</a>",
            (false, true) => "&gt;",
            (false, false) => "",
        });
    }
}

/// Writes a code block with the name of its language.
fn write_block(page: &mut String, language: &str, code: &str, by: Option<SyntaxHighlighter>) {
    page.push_str("<figure class=\"code\">");
    if !language.is_empty() {
        let _ = write!(page, "<figcaption>{}</figcaption>", EscapedText(language));
    }
    let code = code.trim_end_matches('\n');
    if matches!(language, "diff" | "patch") && code.lines().any(|line| line.starts_with("@@ -")) {
        write_diff(page, code);
    } else {
        page.push_str("<pre><code>");
        write_code(page, language, code, by);
        page.push_str("</code></pre>");
    }
    page.push_str("</figure>\n");
}

/// Returns the level of a heading on the page, where level 1 is the title and level 2 a prompt.
fn heading_level(level: usize) -> usize {
    (level + 2).min(6)
}

fn first_word(info: &str) -> &str {
    info.split([' ', ',', '{', '\t']).next().unwrap_or_default()
}

/// Returns whether a URL is safe to link to.
fn is_safe(address: &str) -> bool {
    let scheme = address.split(':').next().unwrap_or_default().to_ascii_lowercase();
    matches!(scheme.as_str(), "http" | "https" | "mailto")
        && address.len() <= MAX_ADDRESS
        && address.len() > scheme.len() + 1
        && !address.contains(|char: char| char.is_whitespace() || char.is_control())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(text: &str) -> String {
        let mut page = String::new();
        write_prose(&mut page, text, None);
        page
    }

    #[test]
    fn markdown_is_converted_to_html() {
        assert_eq!(
            page("# A\nb **c** `d<`"),
            "<h3>A</h3>\n<p>b <strong>c</strong> <code>d&lt;</code></p>\n"
        );
        assert_eq!(page("3. x\n4. y"), "<ol start=\"3\">\n<li>x</li>\n<li>y</li>\n</ol>\n");
        assert_eq!(page("- [x] z"), "<ul>\n<li class=\"task\">☑ z</li>\n</ul>\n");
        assert_eq!(
            page("```rust ignore\na < b\n```"),
            "<figure class=\"code\"><figcaption>rust</figcaption><pre><code>a &lt; b</code></pre>\
             </figure>\n"
        );
        let table = page("|a|b|\n|-|-:|\n|1|2|");
        assert!(table.contains("<tr><th>a</th><th class=\"right\">b</th></tr>"), "{table}");
        assert!(table.contains("<tr><td>1</td><td class=\"right\">2</td></tr>"), "{table}");
        assert!(page("```diff\n@@ -1 +1 @@\n-a\n```").contains("class=\"diff\""));
    }

    #[test]
    fn definitions_without_links_are_text() {
        assert_eq!(page("[INFO]: done\n[WARN]: x"), "<p>[INFO]: done<br>\n[WARN]: x</p>\n");
        assert_eq!(page("[^1]: note\n\nSee [^1]."), "<p>[^1]: note</p>\n<p>See [^1].</p>\n");
        assert!(page("[a][1]\n\n[1]: https://a.b").contains("<a href=\"https://a.b\""));
    }

    #[test]
    fn html_is_shown_as_text_and_unsafe_links_are_removed() {
        let output = page("<script>x()</script>\n\na <img src=x> [b](javascript:alert(1))");
        assert!(output.contains("&lt;script&gt;x()&lt;/script&gt;"), "{output}");
        assert!(output.contains("&lt;img src=x&gt; b"), "{output}");
        let output = page("[![alt](https://a.example/x.png)](https://b.example/\"q)");
        assert_eq!(output.matches("<a ").count(), 1, "{output}");
        assert!(!output.contains("<img") && output.contains("[picture] alt</a>"), "{output}");
        assert!(page("[x](data:text/html,hi) [y](//z)").contains("<p>x y</p>"));
    }

    proptest! {
        #[test]
        fn rendered_prose_has_balanced_tags_and_no_raw_html(text in "(?s)[-#*_`<>\\[\\]()|!:a \n\"'&~+@]{0,120}") {
            let output = page(&text);
            prop_assert!(!output.contains("<img") && !output.contains("<script"));
            for name in ["p", "em", "strong", "del", "a", "blockquote", "ul", "ol", "li", "figure"] {
                let opened = output.matches(&format!("<{name}>")).count()
                    + output.matches(&format!("<{name} ")).count();
                prop_assert_eq!(opened, output.matches(&format!("</{name}>")).count(), "{}: {}", name, output);
            }
        }
    }
}
