//! Distinguishes Markdown markup from literal characters in a model's text.
//!
//! CommonMark parses `*.rs files in a*b*c` and `src/__init__.py` as emphasis and drops the
//! characters. Answers about code contain many such names, so emphasis applies only around whole
//! words. Everything else is shown as written.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Tag, TagEnd};

/// Returns the event, or literal text in its place: emphasis characters that are part of a name,
/// pattern, calculation, or URL, and the brackets of something that only looks like a link. `range`
/// is its position in `source`; both ends of emphasis have the same range.
pub fn literal<'e>(event: Event<'e>, source: &str, range: &Range<usize>) -> Event<'e> {
    let length = match &event {
        Event::Start(Tag::Emphasis) | Event::End(TagEnd::Emphasis) => 1,
        Event::Start(Tag::Strong) | Event::End(TagEnd::Strong) => 2,
        Event::Start(Tag::Strikethrough) | Event::End(TagEnd::Strikethrough) => {
            let is_double = source.get(range.clone()).is_some_and(|text| text.starts_with("~~"));
            if is_double { 2 } else { 1 }
        }
        Event::Start(Tag::Link { link_type: LinkType::Inline, .. }) if is_call(source, range) => {
            return Event::Text("[".into());
        }
        Event::End(TagEnd::Link) if is_call(source, range) => {
            let call = source.get(range.clone()).and_then(|text| text.get(text.rfind("](")?..));
            return Event::Text(call.unwrap_or_default().to_owned().into());
        }
        Event::Text(text) if is_dropped_backslash(source, range.start) => {
            return Event::Text(format!("\\{text}").into());
        }
        _ => return event,
    };
    match literal_markers(source, range, length) {
        Some(delimiters) => Event::Text(delimiters.to_owned().into()),
        None => event,
    }
}

/// Returns whether the angle brackets around a link text are kept. They are removed for web URLs
/// only, so `Name <me@example.org>` and `vector<std::string>` keep theirs.
pub fn retains_brackets(link_type: LinkType, address: &str) -> bool {
    let is_web = ["http://", "https://", "ftp://", "file://", "mailto:"].iter().any(|scheme| {
        address.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme))
    });
    match link_type {
        LinkType::Email => true,
        LinkType::Autolink => !is_web,
        _ => false,
    }
}

/// Returns whether HTML is a line break, which table cells in Markdown need.
pub fn is_line_break(html: &str) -> bool {
    html.trim_matches(['<', '>', '/', ' ']).eq_ignore_ascii_case("br")
}

/// Returns whether a range only looks like a link: the end of an expression, as in
/// `handlers[0](event)`, unless it leads to an address with a scheme, or a link without text.
fn is_call(source: &str, range: &Range<usize>) -> bool {
    let Some(text) = source.get(range.clone()).filter(|text| text.ends_with(')')) else {
        return false;
    };
    let Some((label, target)) = text.rsplit_once("](") else { return false };
    let is_value = |char: char| is_word(char) || matches!(char, '_' | ']' | ')' | '`' | '$' | '@');
    // Otherwise it is a quote marker.
    let is_generic = |text: &str| text.strip_suffix('>').is_some_and(|it| it.ends_with(is_word));
    let follows_value = |before: &str| before.ends_with(is_value) || is_generic(before);
    let has_scheme = target.contains("://") || target.starts_with("mailto:");
    label == "[" || !has_scheme && source.get(..range.start).is_some_and(follows_value)
}

/// Returns the emphasis characters of a range if they are literal.
fn literal_markers<'s>(source: &'s str, range: &Range<usize>, length: usize) -> Option<&'s str> {
    let text = source.get(range.clone())?;
    let delimiter = text.chars().next()?;
    let delimiters = text.get(..length)?;
    let inner = text.strip_prefix(delimiters)?.strip_suffix(delimiters)?.trim_matches(delimiter);
    let before = source.get(..range.start)?.trim_end_matches(delimiter);
    let after = source.get(range.end..)?.trim_start_matches(delimiter);
    let is_markup = match (delimiter, length) {
        _ if ends_in_url(before) => false,
        _ if is_quoted(before, inner) || is_quoted(inner, after) => false,
        _ if crosses_delimiters(before, inner, after) => false,
        ('~', 1) => false,
        (_, 2) => is_strong_markup(delimiter, before, inner, after),
        _ => is_emphasis_markup(before, inner, after),
    };
    (!is_markup).then_some(delimiters)
}

/// Returns whether double characters are markup. They are literal only within words and around path
/// patterns.
fn is_strong_markup(delimiter: char, before: &str, inner: &str, after: &str) -> bool {
    let is_path = |char: char| matches!(char, '/' | '.' | '\\');
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    !before.ends_with(is_word)
        && !after.starts_with(is_word)
        && !inner.starts_with(is_path)
        && !inner.ends_with(['/', '\\'])
        && (delimiter != '_'
            || !(inner.chars().all(is_name) || before.ends_with(is_path) || continues(after)))
}

/// Returns whether characters between these strings stand alone in quotes, as in `"*", "*"`.
fn is_quoted(before: &str, after: &str) -> bool {
    let is_quote = |char: char| matches!(char, '"' | '\'' | '“' | '”' | '‘' | '’' | '«' | '»');
    before.ends_with(is_quote) && after.starts_with(is_quote)
}

/// Returns whether a pair of quotes or brackets begins on one side of an emphasis character and
/// ends on the other, as in `"*a" or "b*"` and `f(*a) or g(a*)`. Emphasis does not do that.
fn crosses_delimiters(before: &str, inner: &str, after: &str) -> bool {
    let mut open = OpenDelimiters::default();
    open.read(before.rsplit('\n').next().unwrap_or(before), None);
    let outside = open.stack.len();
    open.lowest = outside;
    open.read(inner, before.chars().next_back());
    if open.lowest < outside {
        return true;
    }
    let inside = open.stack.len();
    open.lowest = inside;
    open.read(after.split('\n').next().unwrap_or(after), inner.chars().next_back());
    open.lowest < inside && inside > outside
}

/// The quotes and brackets that are open in text.
#[derive(Default)]
struct OpenDelimiters {
    /// The characters that close them.
    stack: Vec<char>,
    /// The smallest number of open ones since it was last set.
    lowest: usize,
}

impl OpenDelimiters {
    /// Reads text that follows a character.
    fn read(&mut self, text: &str, mut previous: Option<char>) {
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let after_word = previous.is_some_and(is_word);
            let before_word = chars.peek().is_some_and(|next| is_word(*next));
            let closing = match char {
                '(' => Some(')'),
                '[' => Some(']'),
                '{' => Some('}'),
                '“' => Some('”'),
                '«' => Some('»'),
                '"' if !self.stack.contains(&'"') => Some('"'),
                // Elsewhere it is an apostrophe.
                '\'' if !after_word && !self.stack.contains(&'\'') => Some('\''),
                _ => None,
            };
            let is_apostrophe = char == '\'' && after_word && before_word;
            if let Some(closing) = closing {
                self.stack.push(closing);
            } else if !is_apostrophe
                && let Some(index) = self.stack.iter().rposition(|open| *open == char)
            {
                self.stack.truncate(index);
                self.lowest = self.lowest.min(index);
            }
            previous = Some(char);
        }
    }
}

fn is_emphasis_markup(before: &str, inner: &str, after: &str) -> bool {
    let opens = |char: char| {
        char.is_whitespace()
            || !char.is_ascii() && !char.is_alphanumeric()
            || "([{\"'*_~|:".contains(char)
    };
    let closes = |char: char| {
        char.is_whitespace()
            || !char.is_ascii() && !char.is_alphanumeric()
            || ")]}\"'*_~.,;:!?-<|".contains(char)
    };
    let first =
        |char: char| char.is_alphanumeric() || !char.is_ascii() || "\"'([`*_~$<".contains(char);
    let last = |char: char| {
        char.is_alphanumeric() || !char.is_ascii() || "\"')]`*_~.,;:!?%>".contains(char)
    };
    let is_pattern = inner.ends_with('.') && !inner.contains(char::is_whitespace);
    // The arguments of a call.
    let is_argument = before.strip_suffix('(').is_some_and(|name| name.ends_with(is_word));
    before.chars().next_back().is_none_or(opens)
        && after.chars().next().is_none_or(closes)
        && !continues(after)
        && inner.starts_with(first)
        && inner.ends_with(last)
        && !is_pattern
        && !is_argument
}

/// Returns whether the text continues a name before the characters: `.py`, `/x`, `:8080`.
fn continues(after: &str) -> bool {
    let mut chars = after.chars();
    matches!(chars.next(), Some('.' | ':' | '-' | '/' | '\\' | '('))
        && chars.next().is_some_and(is_word)
        || after.starts_with(['/', '\\'])
}

/// Returns whether the character belongs to words separated by spaces. Wide characters of Chinese,
/// Japanese, and Korean do not.
fn is_word(char: char) -> bool {
    let is_wide = matches!(u32::from(char), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3
        | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xffe6 | 0x20000..=0x3fffd);
    char.is_alphanumeric() && !is_wide
}

/// Returns whether a string ends within a URL.
fn ends_in_url(before: &str) -> bool {
    let ends = |char: char| char.is_whitespace() || matches!(char, '<' | '>' | '"' | '`' | '|');
    before.rsplit(ends).next().is_some_and(|word| word.contains("://"))
}

/// Returns whether the backslash dropped before this position was not a Markdown escape, as in
/// `\d+\.\d+` or `C:\.git`.
fn is_dropped_backslash(source: &str, at: usize) -> bool {
    let before = source.get(..at).unwrap_or("");
    let Some(before) = before.strip_suffix('\\') else { return false };
    let Some(escaped) = source.get(at..).and_then(|rest| rest.chars().next()) else { return false };
    if !escaped.is_ascii_punctuation() || before.ends_with('\\') {
        return false;
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or("");
    let word = word.trim_start_matches(['"', '\'', '(']);
    let is_drive =
        |word: &[u8]| matches!(word, [drive, b':', b'\\', ..] if drive.is_ascii_alphabetic());
    if is_drive(word.as_bytes()) || is_drive(format!("{word}\\").as_bytes()) {
        return true;
    }
    let line = before.rsplit('\n').next().unwrap_or("").trim_start();
    match escaped {
        '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '$' | '!' => false,
        // `\(` and `\)` delimit formulas.
        '(' => false,
        ')' if before.contains("\\(") => false,
        // The marker of a list item.
        '.' | ')' => line.is_empty() || !line.chars().all(|char| char.is_ascii_digit()),
        '+' | '-' => !line.is_empty(),
        _ => true,
    }
}

/// Adds a backslash before each link definition that is meant as text, so that a parser does not
/// drop the line: log lines such as `[INFO]: done`, and definitions that no link refers to.
/// `events` are the parse events of the source.
pub fn escape_link_definitions<'s, 'e>(
    source: &'s str,
    events: impl Iterator<Item = (Event<'e>, Range<usize>)>,
) -> Cow<'s, str> {
    if !source.contains("]:") {
        return Cow::Borrowed(source);
    }
    // A line that starts with `[` and belongs to no event is a definition.
    let mut lines: Vec<(usize, bool)> = line_starts(source)
        .map(|at| (at, true))
        .filter(|(at, _)| is_label_start(source, *at))
        .collect();
    let mut used = HashSet::new();
    for (event, range) in events {
        let shown = match &event {
            Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) => {
                used.insert(label_key(id));
                range
            }
            Event::Start(Tag::FootnoteDefinition(_)) => range.start..range.start + 1,
            Event::Start(_) | Event::End(_) => continue,
            _ => range,
        };
        let first = lines.partition_point(|(at, _)| *at < shown.start);
        for (at, is_definition) in lines.iter_mut().skip(first) {
            if *at >= shown.end {
                break;
            }
            *is_definition = false;
        }
    }
    lines.retain(|(_, is_definition)| *is_definition);
    let mut text = String::new();
    let (mut copied, mut after_text) = (0, false);
    for (at, _) in lines {
        let Some((label, target)) = definition(source, at) else { continue };
        let is_used = used.contains(&label_key(label)) && is_target(target);
        let Some(before) = source.get(copied..at) else { continue };
        text.push_str(before);
        if !is_used {
            text.push('\\');
        } else if after_text && before.trim_start_matches(|char| char != '\n') == "\n" {
            // Directly after text it would not be parsed as a definition.
            text.push('\n');
        }
        (copied, after_text) = (at, !is_used);
    }
    match text.is_empty() {
        true => Cow::Borrowed(source),
        false => Cow::Owned(text + source.get(copied..).unwrap_or("")),
    }
}

/// Normalizes a label as CommonMark does for comparison.
pub fn label_key(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns whether a link can lead there: a URL, a path, or a fragment.
pub fn is_target(target: &str) -> bool {
    target.starts_with('#') || target.starts_with("mailto:") || target.contains(['/', '.'])
}

/// Returns where the text of each line begins, after quote and list markers.
fn line_starts(source: &str) -> impl Iterator<Item = usize> {
    let mut next = 0;
    source.split_inclusive('\n').map(move |line| {
        let mut rest = line;
        loop {
            let text = rest.trim_start_matches([' ', '\t', '>']);
            let digits = text.trim_start_matches(|char: char| char.is_ascii_digit());
            let item = text
                .strip_prefix(['-', '*', '+'])
                .or_else(|| digits.strip_prefix(['.', ')']).filter(|_| digits.len() < text.len()));
            match item.filter(|item| item.starts_with([' ', '\t'])) {
                Some(item) => rest = item,
                None => {
                    rest = text;
                    break;
                }
            }
        }
        let at = next + line.len() - rest.len();
        next += line.len();
        at
    })
}

fn is_label_start(source: &str, at: usize) -> bool {
    source.get(at..).is_some_and(|rest| rest.starts_with('['))
}

/// Parses the label and target of a definition.
fn definition(source: &str, at: usize) -> Option<(&str, &str)> {
    let rest = source.get(at + 1..)?;
    let end = rest
        .match_indices("]:")
        .map(|(end, _)| end)
        .find(|end| rest.get(..*end).is_some_and(|label| !label.ends_with('\\')))?;
    let target = rest.get(end + 2..)?.trim_start();
    let target = match target.strip_prefix('<') {
        Some(target) => target.split(['>', '\n']).next(),
        None => target.split_whitespace().next(),
    };
    Some((rest.get(..end)?, target.unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Options, Parser};

    use super::*;

    /// Shows the text with `{…}` around emphasis.
    fn mark_emphasis(source: &str) -> String {
        let parser = Parser::new_ext(source, Options::ENABLE_STRIKETHROUGH);
        let text =
            parser.into_offset_iter().map(|(event, range)| match literal(event, source, &range) {
                Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough) => "{".to_owned(),
                Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => {
                    "}".to_owned()
                }
                Event::Text(text) | Event::InlineHtml(text) => text.to_string(),
                Event::Code(code) => format!("`{code}`"),
                Event::Start(Tag::Link { dest_url, .. }) => format!("<{dest_url}>"),
                _ => String::new(),
            });
        text.collect()
    }

    #[test]
    fn markup_characters_in_names_patterns_and_urls_are_text() {
        for text in [
            "src/wordcount/__init__.py and *.rs files in a*b*c",
            "call __init__ of obj.__dict__ if __name__ == \"__main__\"",
            "lib/__tests__/x.js, __pycache__/ and __init__(self)",
            "*.js, *.ts and *.{jsx,tsx}",
            "src/*.py and tests/*.py",
            "src/**/*.rs, lib/**/*.rs and **/*.toml",
            "\"*.txt\" or '*.md' or (*.c)",
            "2*3*4 and 2**3**4 and x**2 + y**2",
            "日本*語*です and 价格*数量*税率",
            "f(*args, **kwargs) and g(*args, **kwargs)",
            "count(*) and sum(*)",
            "https://a.b/*/c/*/d and https://a.b/x*y*z and https://a.b/?q=*foo*",
            "https://a.b/_x_/__y__/z",
            "a~b~c and ~/x, ~/y and 1~2~3",
            "/*comment*/ and config.* and *config.*",
            "snake_case_name, _private and $_GET_x",
            "a***b***c",
            "p->_x_->y and foo._bar_.baz",
            r"\d+\.\d+ matches C:\.git and a\/b",
            r"C:\Users\_x\*.txt and (D:\#y\[z])",
            r#"{"Action":"*","Resource":"*"} and Action: '*', Resource: '*'"#,
            r#"--include="*" --exclude="*", ("*", "*") and a="*";b="*""#,
            r#""**" and "**", "__" and "__", "_" and '_', "~~" and "~~""#,
            "“*” and “*”",
            "handlers[0](event), arr[i](j) and f()[k](*x)",
            "handlers[name](...args), this.handlers[type](event.data) and m[k](x.md)",
            "fns[i](a/b), t[i](#x), Foo::<T>[1](2), `a`[0](1), $[a](b), @[a](b) and []()",
            r#"filters: "*admin" or "root*", LIKE '*name' or 'name*'"#,
            r#"globs "*_test" and "test_*", names "_id" and "id_", "__init" and "exit__""#,
            "f(*args) or g(args*), f(_a, b_) and (*a) or (b*)",
            r#"("*a", "b*"), "**a" and "b**", "~~a" and "b~~""#,
            r#"search "*term" (suffix), "term*" (prefix)"#,
        ] {
            assert_eq!(mark_emphasis(text), text);
        }
    }

    #[test]
    fn markup_characters_around_complete_words_are_markup() {
        for (text, expected) in [
            ("**bold** and *italic* and _italic_", "{bold} and {italic} and {italic}"),
            ("***both*** and __two words__", "{{both}} and {two words}"),
            (
                "(*see below*), \"*quoted*\" and *really?*",
                "({see below}), \"{quoted}\" and {really?}",
            ),
            ("**Note:** *this is done.* _So is this._", "{Note:} {this is done.} {So is this.}"),
            ("- **src/main.rs**: *`code`*", "{src/main.rs}: {`code`}"),
            ("**https://a.b/c** and ~~gone~~", "{https://a.b/c} and {gone}"),
            ("这是**重点**内容 と *強調*。", "这是{重点}内容 と {強調}。"),
            ("2 *x* **3** 4, *one* *two*", "2 {x} {3} 4, {one} {two}"),
            ("*a **b** c* and **a *b* c**", "{a {b} c} and {a {b} c}"),
            (r"\*kept\* 1\. \_x\_", "*kept* 1\\. _x_"),
            (r"1\. no list", "1. no list"),
            ("\"*all* of it\" and *\"this\"*", "\"{all} of it\" and {\"this\"}"),
            ("see[1](https://a.b/c) and [x](y)", "see<https://a.b/c>1 and <y>x"),
            (">[x](y)", "<y>x"),
            (
                "**a) First** and *the users' \"own\" (new) files*",
                "{a) First} and {the users' \"own\" (new) files}",
            ),
            (
                "It's *not* the user's (or *their*) \"real *word*\"",
                "It's {not} the user's (or {their}) \"real {word}\"",
            ),
            ("'tis *nice* :) *really*", "'tis {nice} :) {really}"),
        ] {
            assert_eq!(mark_emphasis(text), expected, "{text}");
        }
    }

    #[test]
    fn definition_without_a_link_to_it_is_text() {
        let as_text = |source: &str| {
            escape_link_definitions(source, Parser::new(source).into_offset_iter()).into_owned()
        };
        for (source, expected) in [
            ("[INFO]: done", "\\[INFO]: done"),
            ("[INFO]: a\n[INFO]: b\n\n[INFO]: c", "\\[INFO]: a\n\\[INFO]: b\n\n\\[INFO]: c"),
            ("- [WARN]: x\n  1. [E]: y\n> [Q]: z", "- \\[WARN]: x\n  1. \\[E]: y\n> \\[Q]: z"),
            ("[1]: https://a.b 'title'", "\\[1]: https://a.b 'title'"),
            ("[a\nb]: c", "\\[a\nb]: c"),
            // A plain word is not a link target, even if the label appears again.
            ("[INFO]: done\n\nSee [INFO].", "\\[INFO]: done\n\nSee [INFO]."),
            ("[2]: /b\n[1]: /a\n\n[x][1]", "\\[2]: /b\n\n[1]: /a\n\n[x][1]"),
        ] {
            assert_eq!(as_text(source), expected);
        }
        for unchanged in [
            "See [a][1].\n\n[1]: https://a.b",
            "See [INFO].\n\n[info]: <docs/a.md>",
            "```\n[INFO]: done\n```",
            "    [INFO]: done",
            "text\n[INFO]: done",
            "`code\n[INFO]: done`",
            "[a](b): c",
            "<pre>\n[INFO]: done\n</pre>",
            "- [ ] open",
        ] {
            assert_eq!(as_text(unchanged), unchanged);
        }
    }

    #[test]
    fn only_web_urls_lose_their_brackets() {
        assert!(!retains_brackets(LinkType::Autolink, "https://a.b"));
        assert!(retains_brackets(LinkType::Autolink, "std::string"));
        assert!(retains_brackets(LinkType::Email, "me@example.org"));
        assert!(!retains_brackets(LinkType::Inline, "std::string"));
    }
}
