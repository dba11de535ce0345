//! Parses Markdown files that begin with YAML front matter between two `---` lines.

use parallax_protocol::Object;
use serde_json::Value;

/// Maximum size of the YAML in bytes; typical files have a few hundred.
const LARGEST: usize = 64 * 1024;
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
pub(crate) struct Broken {
    /// The line in the file, counted from 1.
    pub(crate) line: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
}

/// Parses a file strictly.
///
/// # Errors
/// Returns an error if the front matter is not valid YAML or not a mapping.
pub(crate) fn read(text: &str) -> Result<FrontMatter, Broken> {
    let Some((yaml, body)) = split(text) else {
        return Ok(FrontMatter { fields: Object::new(), body: text.to_owned() });
    };
    Ok(FrontMatter { fields: parse(yaml)?, body: body.to_owned() })
}

/// Parses a file strictly, except that the values of the named top-level keys are display texts,
/// which need no quotes: `argument-hint: [a] [b]`, `description: Use when: asked`.
///
/// # Errors
/// Returns an error if the front matter is otherwise not valid YAML or not a mapping.
pub(crate) fn read_with_texts(text: &str, keys: &[&str]) -> Result<FrontMatter, Broken> {
    read(text).or_else(|broken| {
        let Some((yaml, body)) = split(text) else { return Err(broken) };
        let quoted: String =
            yaml.split_inclusive('\n').map(|line| quote_text(line, keys)).collect();
        let fields = parse(&quoted).map_err(|_| broken)?;
        Ok(FrontMatter { fields, body: body.to_owned() })
    })
}

/// Puts the value of a `key: value` line in quotes if the key is one of `keys`.
fn quote_text<'a>(line: &'a str, keys: &[&str]) -> std::borrow::Cow<'a, str> {
    let parts = line.split_once(':').filter(|(key, _)| keys.contains(key));
    let Some((key, value)) = parts.map(|(key, value)| (key, value.trim())) else {
        return line.into();
    };
    match value.starts_with(['"', '\'', '|', '>', '{']) || value.is_empty() {
        true => line.into(),
        // A JSON string is a YAML string.
        false => format!("{key}: {}\n", Value::from(value)).into(),
    }
}

/// A parsed file whose front matter may be a list.
pub(crate) struct FrontMatterList {
    /// The items, or the one mapping; empty if there is no front matter.
    pub(crate) fields: Vec<Object>,
    /// The text after the front matter.
    pub(crate) body: String,
}

/// Parses a file strictly, whose front matter is a mapping or a list of mappings.
///
/// # Errors
/// Returns an error if the front matter is not valid YAML or something else.
pub(crate) fn read_list(text: &str) -> Result<FrontMatterList, Broken> {
    let Some((yaml, body)) = split(text) else {
        return Ok(FrontMatterList { fields: Vec::new(), body: text.to_owned() });
    };
    let broken = |message: &str| Broken { line: Some(1), message: message.to_owned() };
    let fields = match parse_value(yaml)? {
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
    let fields = parse(yaml).unwrap_or_else(|_| by_lines(yaml));
    FrontMatter { fields, body: body.to_owned() }
}

/// Splits the front matter from the rest; `None` if there is none.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---")?;
    let begins = rest.find('\n')?;
    if !rest.get(..begins)?.trim().is_empty() {
        return None;
    }
    let rest = rest.get(begins + 1..)?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((rest.get(..at)?, rest.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

fn parse(yaml: &str) -> Result<Object, Broken> {
    match parse_value(yaml)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(Broken { line: Some(1), message: NOT_A_MAPPING.to_owned() }),
    }
}

fn parse_value(yaml: &str) -> Result<Value, Broken> {
    let broken = |line, message: &str| Broken { line, message: message.to_owned() };
    if yaml.len() > LARGEST {
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
fn by_lines(yaml: &str) -> Object {
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
        let value = if folded { "" } else { unquoted(value) };
        fields.insert(key.trim().to_owned(), Value::String(value.to_owned()));
        last = Some(key.trim().to_owned());
    }
    fields
}

fn unquoted(text: &str) -> &str {
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

    proptest::proptest! {
        #[test]
        fn any_header_text_is_parsed(text in "(---\n)?[-:a-z&*!|>{}\\[\\]\"' \n\t#]{0,200}(\n---\n)?.{0,20}") {
            let _ = read(&text);
            let _ = read_leniently(&text);
        }
    }
}
