//! The fields of an MCP elicitation form (SEP-1330 and `requestedSchema` of protocol 2025-11-25).

use std::collections::VecDeque;

use serde_json::{Number, Value};

/// The maximum number of fields of a form.
const MAX_COUNT: usize = 30;
/// The maximum number of characters of a server's text.
const MAX_LENGTH: usize = 2_000;

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FormField {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) required: bool,
    pub(super) kind: FieldKind,
    /// The default value as typed; for multiple choices, each of them.
    pub(super) default: Vec<String>,
    bounds: FieldLimits,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FieldKind {
    Text,
    Number { whole: bool },
    Choice(Vec<FieldChoice>),
    Several(Vec<FieldChoice>),
    YesNo,
}

/// One of the choices of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldChoice {
    /// The value sent to the server.
    pub(super) value: String,
    /// The title shown to the user.
    pub(super) title: String,
}

/// Limits of a value: the range of a number, the length of a string, or the number of choices.
#[derive(Debug, Clone, Default, PartialEq)]
struct FieldLimits {
    least: Option<f64>,
    maximum: Option<f64>,
    format: String,
}

impl FieldLimits {
    fn from_schema(property: &Value, kind: &FieldKind) -> Self {
        let number = |key: &str| property.get(key).and_then(Value::as_f64);
        let (least, max_key) = match kind {
            FieldKind::Number { .. } => ("minimum", "maximum"),
            FieldKind::Several(_) => ("minItems", "maxItems"),
            _ => ("minLength", "maxLength"),
        };
        let format = property.get("format").and_then(Value::as_str).unwrap_or_default();
        Self { least: number(least), maximum: number(max_key), format: format.to_owned() }
    }

    /// Checks a size against the limits; `of` names its unit.
    fn check_size(&self, size: f64, of: &str) -> Result<(), String> {
        match (self.least, self.maximum) {
            (Some(least), _) if size < least => Err(format!("must be at least {least}{of}")),
            (_, Some(most)) if size > most => Err(format!("must be at most {most}{of}")),
            _ => Ok(()),
        }
    }

    /// Checks the format of a string.
    fn check_format(&self, text: &str) -> Result<(), String> {
        let (fits, what) = match self.format.as_str() {
            "email" => (is_email(text), "an email address such as name@example.org"),
            "uri" => (url::Url::parse(text).is_ok(), "a URL such as https://example.org"),
            "date" => (text.parse::<jiff::civil::Date>().is_ok(), "a date such as 2026-01-31"),
            "date-time" => (
                text.parse::<jiff::Timestamp>().is_ok(),
                "a date and time such as 2026-01-31T12:00:00Z",
            ),
            _ => return Ok(()),
        };
        if fits { Ok(()) } else { Err(format!("must be {what}")) }
    }
}

fn is_email(text: &str) -> bool {
    let blank = text.chars().any(|char| char.is_whitespace() || char.is_control());
    text.split_once('@').is_some_and(|(name, host)| {
        !blank && !name.is_empty() && !host.is_empty() && !host.contains('@')
    })
}

impl FormField {
    /// Parses a typed or chosen value. Returns `None` if it was left empty.
    ///
    /// # Errors
    /// Returns the violated requirement as text for the user.
    pub(super) fn read(&self, input: &str) -> Result<Option<Value>, String> {
        let trimmed = input.trim();
        if trimmed.is_empty() {
            let reason = "required".to_owned();
            return if self.required { Err(reason) } else { Ok(None) };
        }
        Ok(Some(match &self.kind {
            FieldKind::Text => {
                // Text lengths are far below the numbers that lose precision.
                let length = u32::try_from(input.chars().count()).unwrap_or(u32::MAX);
                self.bounds.check_size(f64::from(length), " characters long")?;
                self.bounds.check_format(input)?;
                Value::String(input.to_owned())
            }
            FieldKind::Choice(_) => Value::String(input.to_owned()),
            FieldKind::Several(_) => return self.read_several(&[input.to_owned()]),
            FieldKind::YesNo => Value::Bool(trimmed == "true"),
            FieldKind::Number { whole } => {
                let what = if *whole { "must be an integer" } else { "must be a number" };
                let number = trimmed.parse::<f64>().ok().and_then(Number::from_f64);
                let number = match (whole, trimmed.parse::<i64>()) {
                    (true, Ok(number)) => Some(Number::from(number)),
                    (true, Err(_)) => None,
                    (false, _) => number,
                };
                let number = number.ok_or(what)?;
                self.bounds.check_size(number.as_f64().unwrap_or_default(), "")?;
                Value::Number(number)
            }
        }))
    }

    /// Returns the value of a multiple choice, or `None` if it was left empty.
    ///
    /// # Errors
    /// See [`FormField::read`].
    pub(super) fn read_several(&self, chosen: &[String]) -> Result<Option<Value>, String> {
        if chosen.is_empty() && !self.required {
            return Ok(None);
        }
        let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        self.bounds.check_size(f64::from(count), " of them")?;
        Ok(Some(chosen.iter().cloned().map(Value::String).collect()))
    }
}

/// Parses the fields of a flat form schema. Returns `None` if the schema is not supported.
pub(super) fn fields(schema: &Value) -> Option<VecDeque<FormField>> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    if properties.len() > MAX_COUNT {
        return None;
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let field = |(name, property): (&String, &Value)| {
        let kind = kind(property)?;
        let text = |key: &str| property.get(key).and_then(Value::as_str).unwrap_or_default();
        let title = if text("title").is_empty() { name } else { text("title") };
        Some(FormField {
            title: title.to_owned(),
            description: text("description").chars().take(MAX_LENGTH).collect(),
            required: required.contains(&name.as_str()),
            name: name.clone(),
            default: default(property, &kind),
            bounds: FieldLimits::from_schema(property, &kind),
            kind,
        })
    };
    properties.iter().map(field).collect()
}

fn kind(property: &Value) -> Option<FieldKind> {
    let declared = property.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(choices) = choices(property, "oneOf")? {
        return Some(FieldKind::Choice(choices));
    }
    Some(match declared {
        "array" => FieldKind::Several(choices(property.get("items")?, "anyOf")??),
        "boolean" => FieldKind::YesNo,
        "integer" => FieldKind::Number { whole: true },
        "number" => FieldKind::Number { whole: false },
        "string" => FieldKind::Text,
        _ => return None,
    })
}

/// Parses the choices of a schema, which lists values or, under `titled`, values with titles. The
/// outer `None` means that they are invalid.
#[expect(clippy::option_option, reason = "no choices are not choices that cannot be read")]
fn choices(schema: &Value, titled: &str) -> Option<Option<Vec<FieldChoice>>> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if let Some(values) = schema.get("enum") {
        let titles = schema.get("enumNames");
        let choice = |(at, value): (usize, &Value)| {
            let value = text(Some(value))?;
            let title = text(titles.and_then(|titles| titles.get(at)));
            Some(FieldChoice { title: title.unwrap_or_else(|| value.clone()), value })
        };
        return values.as_array()?.iter().enumerate().map(choice).collect::<Option<_>>().map(Some);
    }
    let Some(values) = schema.get(titled) else { return Some(None) };
    let choice = |item: &Value| {
        let value = text(item.get("const"))?;
        Some(FieldChoice { title: text(item.get("title")).unwrap_or_else(|| value.clone()), value })
    };
    values.as_array()?.iter().map(choice).collect::<Option<_>>().map(Some)
}

/// Returns the default of a field if it is valid for its type.
fn default(property: &Value, kind: &FieldKind) -> Vec<String> {
    let known = |choices: &[FieldChoice], value: &str| choices.iter().any(|it| it.value == value);
    let Some(default) = property.get("default") else { return Vec::new() };
    let provided: Vec<String> = match (kind, default) {
        (FieldKind::Text | FieldKind::Choice(_), Value::String(text)) => vec![text.clone()],
        (FieldKind::YesNo, Value::Bool(_)) | (FieldKind::Number { .. }, Value::Number(_)) => {
            vec![default.to_string()]
        }
        (FieldKind::Several(_), Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    let fits = |value: &String| match kind {
        FieldKind::Choice(choices) | FieldKind::Several(choices) => known(choices, value),
        // A field is a single line.
        _ => !value.contains(char::is_control) && value.chars().count() <= MAX_LENGTH,
    };
    provided.into_iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(properties: &Value, required: &[&str]) -> VecDeque<FormField> {
        fields(&json!({"type": "object", "required": required, "properties": properties}))
            .expect("a form")
    }

    #[test]
    fn flat_form_is_parsed_with_typed_values() {
        let properties = json!({
            "s": {"type": "string", "title": "Name"}, "n": {"type": "integer"},
            "x": {"type": "number"}, "b": {"type": "boolean"},
            "c": {"type": "string", "enum": ["a", "b"]}});
        let fields = form(&properties, &["n", "s"]);
        let read = |name: &str, input: &str| {
            fields.iter().find(|field| field.name == name).expect("a field").read(input)
        };
        assert_eq!(read("s", " a "), Ok(Some(json!(" a "))));
        assert!(read("s", "").is_err() && read("n", "1.5").is_err());
        assert_eq!(read("n", " 7 "), Ok(Some(json!(7))));
        assert_eq!((read("x", "1.5"), read("x", "")), (Ok(Some(json!(1.5))), Ok(None)));
        assert_eq!(read("b", "false"), Ok(Some(json!(false))));
        assert_eq!(read("c", "b"), Ok(Some(json!("b"))));
        for broken in [json!({"o": {"type": "object"}}), json!({"a": {"type": "array"}})] {
            assert_eq!(super::fields(&json!({"properties": broken})), None);
        }
    }

    #[test]
    fn form_values_are_bounded() {
        let properties = json!({
            "age": {"type": "integer", "minimum": 1, "maximum": 9},
            "nick": {"type": "string", "minLength": 2, "maxLength": 3},
            "mail": {"type": "string", "format": "email"}, "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"}, "page": {"type": "string", "format": "uri"}});
        let fields = form(&properties, &[]);
        for (name, bad, good) in [
            ("age", "55", "9"),
            ("age", "0", "1"),
            ("nick", "x", "xy"),
            ("nick", "日本語x", "日本語"),
            ("mail", "notmail", "a@b"),
            ("mail", "a b@c", "a@b.c"),
            ("day", "2026-02-30", "2026-02-28"),
            ("at", "noon", "2026-02-28T10:00:00+01:00"),
            ("page", "x y", "https://a.b/c"),
        ] {
            let field = fields.iter().find(|field| field.name == name).expect("a field");
            assert!(field.read(bad).is_err(), "{name}: {bad}");
            assert!(field.read(good).is_ok(), "{name}: {good}");
        }
    }

    #[test]
    fn form_multi_select_has_defaults() {
        let properties = json!({
            "colours": {"type": "array", "minItems": 1, "maxItems": 2, "default": ["red", "mauve"],
                "items": {"type": "string", "enum": ["red", "green", "blue"]}},
            "sizes": {"type": "array", "items": {"anyOf": [{"const": "s", "title": "Small"}]}},
            "one": {"type": "string", "oneOf": [{"const": "l", "title": "Large"}], "default": "l"},
            "name": {"type": "string", "default": "Ada"}, "n": {"type": "integer", "default": 3},
            "b": {"type": "boolean", "default": true}, "odd": {"type": "integer", "default": "x"}});
        let fields = form(&properties, &["colours"]);
        let of = |name: &str| fields.iter().find(|field| field.name == name).expect("a field");
        assert_eq!(of("colours").default, ["red"]);
        assert!(of("colours").read_several(&[]).is_err());
        let three = ["red", "green", "blue"].map(str::to_owned);
        assert!(of("colours").read_several(&three).is_err());
        assert_eq!(of("colours").read_several(&three[..2]), Ok(Some(json!(["red", "green"]))));
        assert_eq!(of("sizes").read_several(&[]), Ok(None));
        let FieldKind::Several(sizes) = &of("sizes").kind else { panic!("several") };
        assert_eq!(sizes[0].title, "Small");
        for (name, default) in [("one", "l"), ("name", "Ada"), ("n", "3"), ("b", "true")] {
            assert_eq!(of(name).default, [default], "{name}");
        }
        assert!(of("odd").default.is_empty());
    }
}
