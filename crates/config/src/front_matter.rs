//! Parses Markdown files that begin with YAML front matter between two `---` lines.

use parallax_protocol::Object;
use serde_json::Value;

/// Maximum size of the YAML in bytes; typical files have a few hundred.
const MAX_BYTES: usize = 64 * 1024;
const NOT_A_MAPPING: &str = "the front matter does not consist of `key: value` lines";

/// A parsed file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FrontMatter {
    /// The settings; empty if there is no front matter.
    pub(crate) fields: Object,
    /// The text after the front matter.
    pub(crate) body: String,
}

/// An invalid front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrontMatterError {
    /// The line in the file, counted from 1.
    pub(crate) line: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
}

/// Parses a file strictly.
///
/// # Errors
/// Returns an error if the front matter is not valid YAML or not a mapping.
pub(crate) fn read(text: &str) -> Result<FrontMatter, FrontMatterError> {
    let Some((yaml, body)) = split(text) else {
        return Ok(FrontMatter { fields: Object::new(), body: text.to_owned() });
    };
    Ok(FrontMatter { fields: parse(yaml)?, body: body.to_owned() })
}

/// Parses a file strictly, except that values for display are strings, which need no quotes:
/// `argument-hint: [a] [b]`, `description: Use when: asked`, `description: "a" or 'b'`. `is_text`
/// says which top-level keys have such values.
///
/// # Errors
/// Returns an error if the front matter is otherwise not valid YAML or not a mapping.
pub(crate) fn read_with_display_strings(
    text: &str,
    is_text: impl Fn(&str) -> bool,
) -> Result<FrontMatter, FrontMatterError> {
    let Some((yaml, body)) = split(text) else { return read(text) };
    let body = body.to_owned();
    let broken = match parse(yaml) {
        Ok(mut fields) => {
            restore_plain_strings(yaml, &is_text, &mut fields);
            return Ok(FrontMatter { fields, body });
        }
        Err(broken) => broken,
    };
    if yaml.len() > MAX_BYTES {
        return Err(broken);
    }
    let Some(entries) = entries(yaml) else { return Err(broken) };
    let mut fields = Object::new();
    for Entry { line, key, text } in entries {
        let parsed = match parse(&text) {
            Ok(entry) if entry.len() == 1 => Ok(entry),
            Ok(_) => {
                Err(FrontMatterError { line: None, message: format!("`{key}` cannot be read") })
            }
            Err(error) => Err(error),
        };
        let value = match parsed {
            Ok(entry) => entry.into_iter().next().map(|(_, value)| value).unwrap_or_default(),
            Err(_) if is_text(&key) => Value::String(entry_text(&text)),
            Err(error) => {
                let inner = error.line.map_or(0, |line| line.saturating_sub(2));
                let message = format!("`{key}`: {}", error.message);
                // The first line of the file is the `---`.
                return Err(FrontMatterError { line: Some(line + inner + 2), message });
            }
        };
        if fields.insert(key.clone(), value).is_some() {
            let message = format!("duplicate key `{key}`");
            return Err(FrontMatterError { line: Some(line + 2), message });
        }
    }
    restore_plain_strings(yaml, &is_text, &mut fields);
    Ok(FrontMatter { fields, body })
}

/// A top-level key with its lines.
struct Entry {
    /// The index of its first line.
    line: usize,
    key: String,
    text: String,
}

/// Splits YAML at its top-level keys; `None` if it has other top-level content.
fn entries(yaml: &str) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    // All keys may be indented alike.
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    let first = yaml.lines().find(is_content)?;
    let indentation = first.len() - first.trim_start_matches(' ').len();
    for (number, line) in yaml.lines().enumerate() {
        let own = line.get(indentation..).unwrap_or_default();
        let is_key = !own.starts_with([' ', '\t', '#', '-']) && !own.trim().is_empty();
        if is_key {
            let (key, _) = own.split_once(':')?;
            let key = key.trim().trim_matches(['"', '\'']).to_owned();
            entries.push(Entry { line: number, key, text: format!("{}\n", own.trim_end()) });
        } else if let Some(last) = entries.last_mut() {
            last.text.push_str(own.trim_end().trim_start_matches(|_| own.starts_with('#')));
            last.text.push('\n');
        } else if is_content(&line) {
            return None;
        }
    }
    Some(entries)
}

/// Returns the value of an entry as one line of text.
fn entry_text(entry: &str) -> String {
    let value = entry.split_once(':').map_or("", |(_, value)| value);
    let words: Vec<&str> = value.split_whitespace().collect();
    words.join(" ")
}

/// Keeps strings as written that are valid YAML with another meaning: `{args}` is a mapping, `&x`
/// an anchor, and `!x` a tag.
fn restore_plain_strings(yaml: &str, is_text: &impl Fn(&str) -> bool, fields: &mut Object) {
    for line in yaml.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let is_other = value.starts_with(['{', '&', '!']) && !value.ends_with(['{', ',']);
        if is_other
            && is_text(key)
            && let Some(field) = fields.get_mut(key)
            && (field.is_object() || !value.starts_with('{'))
        {
            *field = Value::from(value);
        }
    }
}

/// A parsed file whose front matter may be a list.
pub(crate) struct FrontMatterList {
    /// The items, or the one mapping; empty if there is no front matter.
    pub(crate) fields: Vec<Object>,
    /// The text after the front matter.
    pub(crate) body: String,
}

/// Parses a file strictly, whose front matter is a mapping or a list of mappings. The strings of a
/// mapping need no quotes, as for [`read_with_display_strings`].
///
/// # Errors
/// Returns an error if the front matter is not valid YAML or something else.
pub(crate) fn read_list(
    text: &str,
    is_text: impl Fn(&str) -> bool,
) -> Result<FrontMatterList, FrontMatterError> {
    let Some((yaml, body)) = split(text) else {
        return Ok(FrontMatterList { fields: Vec::new(), body: text.to_owned() });
    };
    let broken = |message: &str| FrontMatterError { line: Some(1), message: message.to_owned() };
    let parsed = match parse_value(yaml) {
        Ok(Value::Array(items)) => Value::Array(items),
        _ => Value::Object(read_with_display_strings(text, is_text)?.fields),
    };
    let fields = match parsed {
        Value::Object(fields) if fields.is_empty() => Vec::new(),
        Value::Object(fields) => vec![fields],
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::Object(fields) => Ok(fields),
                _ => Err(broken("the items of the front matter are not mappings")),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err(broken(NOT_A_MAPPING)),
    };
    Ok(FrontMatterList { fields, body: body.to_owned() })
}

/// Parses a file leniently: if the YAML is invalid (because of a colon in a description, for
/// example), `key: value` lines are read literally.
pub(crate) fn read_leniently(text: &str) -> FrontMatter {
    let Some((yaml, body)) = split(text) else {
        return FrontMatter { fields: Object::new(), body: text.to_owned() };
    };
    let fields = parse(yaml).unwrap_or_else(|_| parse_lines(yaml));
    FrontMatter { fields, body: body.to_owned() }
}

/// Splits the front matter from the rest; `None` if there is none.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---")?;
    let starts = rest.find('\n')?;
    if !rest.get(..starts)?.trim().is_empty() {
        return None;
    }
    let rest = rest.get(starts + 1..)?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((rest.get(..at)?, rest.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

fn parse(yaml: &str) -> Result<Object, FrontMatterError> {
    match parse_value(yaml)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(FrontMatterError { line: Some(1), message: NOT_A_MAPPING.to_owned() }),
    }
}

fn parse_value(yaml: &str) -> Result<Value, FrontMatterError> {
    let broken = |line, message: &str| FrontMatterError { line, message: message.to_owned() };
    if yaml.len() > MAX_BYTES {
        return Err(broken(None, "the front matter is too long"));
    }
    if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Object(Object::new()));
    }
    // The parser limits depth, aliases, and size. `y` is a string, not a boolean.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options::<Value>(yaml, options).map_err(|error| {
        // The first line of the file is the `---`.
        let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        broken(line.map(|line| line + 1), first)
    })
}

/// Reads `key: value` lines; an indented line continues the previous value.
fn parse_lines(yaml: &str) -> Object {
    let mut fields = Object::new();
    let mut last: Option<String> = None;
    for line in yaml.lines().take(1_000) {
        let is_deeper = line.starts_with([' ', '\t']);
        if let (true, Some(Value::String(text))) =
            (is_deeper, last.as_ref().and_then(|key| fields.get_mut(key)))
        {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(line.trim());
            continue;
        }
        let Some((key, value)) = line.split_once(':').filter(|_| !is_deeper) else { continue };
        let value = value.trim();
        let folded = matches!(value, "|" | ">" | "|-" | ">-");
        let value = if folded { "" } else { unquote(value) };
        fields.insert(key.trim().to_owned(), Value::String(value.to_owned()));
        last = Some(key.trim().to_owned());
    }
    fields
}

fn unquote(text: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_is_split_from_the_text() {
        let file = read("---\nname: a\ntools: [x, y]\n---\nBody\n---\nmore").expect("read");
        assert_eq!(Value::Object(file.fields), json!({"name": "a", "tools": ["x", "y"]}));
        assert_eq!(file.body, "Body\n---\nmore");
        for text in ["no settings", "--- x\n---\n", "---\nnever: ends\n", ""] {
            assert_eq!(read(text).expect("read").body, text);
        }
        assert_eq!(read("---\r\na: b\r\n---\r\nc").expect("read").fields["a"], "b");
    }

    #[test]
    fn invalid_front_matter_is_reported_with_its_line() {
        let broken = read("---\na: b\nc: [1,\n---\n").expect_err("broken");
        assert!(broken.line.is_some_and(|line| line >= 3), "{broken:?}");
        assert!(read("---\n- a\n---\n").is_err());
    }

    #[test]
    fn unquoted_description_is_accepted() {
        let text = "---\nname: \"x\"\ndescription: Use when: asked\n  or not\nother: | \n---\n";
        let file = read_leniently(text);
        assert_eq!(file.fields["name"], "x");
        assert_eq!(file.fields["description"], "Use when: asked or not");
    }

    #[test]
    fn display_strings_need_no_quotes() {
        let is_text = |key: &str| key != "tools";
        for (yaml, key, expected) in [
            ("description: \"a\" b", "description", "\"a\" b"),
            ("description: 'a' and 'b'", "description", "'a' and 'b'"),
            ("description: {a} b", "description", "{a} b"),
            ("description: {{args}} x", "description", "{{args}} x"),
            ("description: {args}", "description", "{args}"),
            ("argument-hint: \"[a]\" [b]", "argument-hint", "\"[a]\" [b]"),
            ("argument-hint: [a] [b]\ntools: [x]", "argument-hint", "[a] [b]"),
            ("description: a: b\n  more: c", "description", "a: b more: c"),
            ("description : a: b", "description", "a: b"),
            ("  description: a: b\n  title: x", "description", "a: b"),
            ("Description: a: b", "Description", "a: b"),
            ("title: a: b\ndescription: ok", "description", "ok"),
            ("when_to_use: Use when: x", "when_to_use", "Use when: x"),
            ("name: [x] y", "name", "[x] y"),
            ("description: &x y", "description", "&x y"),
            ("description: !important", "description", "!important"),
            ("description: *bold* x", "description", "*bold* x"),
            ("description: a: b # c\n# comment: d", "description", "a: b # c"),
        ] {
            let file = read_with_display_strings(&format!("---\n{yaml}\n---\nBody"), is_text);
            assert_eq!(file.expect(yaml).fields[key], expected, "{yaml}");
        }
        for (yaml, line, message) in [
            ("description: a: b\ntools: [x", 3, "`tools`: "),
            ("description: a: b\n\ntools: {", 4, "`tools`: "),
            ("a: b: c\na: d", 3, "duplicate key `a`"),
            ("- a\nb: c: d", 2, ""),
        ] {
            let broken = read_with_display_strings(&format!("---\n{yaml}\n---\n"), is_text);
            let broken = broken.expect_err(yaml);
            assert!(broken.line.is_some_and(|at| at.abs_diff(line) <= 1), "{yaml}: {broken:?}");
            assert!(broken.message.starts_with(message), "{yaml}: {broken:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_front_matter_does_not_panic(text in "(---\n)?[-:a-z&*!|>{}\\[\\]\"' \n\t#]{0,200}(\n---\n)?.{0,20}") {
            let _ = read(&text);
            let _ = read_with_display_strings(&text, |key| key.len() > 2);
            let _ = read_leniently(&text);
        }
    }
}
