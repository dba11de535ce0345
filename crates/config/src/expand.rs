//! Expands `$NAME`, `${NAME}`, and `${NAME:-default}` in the values of settings.

use serde_json::Value;

use crate::environment::Environment;

/// Maximum number of bytes that all expansions of one load may add.
const BUDGET: usize = 4 * 1024 * 1024;

/// Replaces variables in strings; unknown names are kept.
pub(crate) struct Expander<'a> {
    environment: &'a Environment,
    remaining: usize,
    /// Whether unset variables become empty.
    or_empty: bool,
}

impl<'a> Expander<'a> {
    pub(crate) fn new(environment: &'a Environment) -> Self {
        Self { environment, remaining: BUDGET, or_empty: false }
    }

    /// Expands every string in the value; keys are not expanded.
    pub(crate) fn expand_value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if text.contains('$') {
                    *text = self.text(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.expand_value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.expand_value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Like [`Self::expand_value`], but unset variables become empty.
    pub(crate) fn expand_value_or_empty(&mut self, value: &mut Value) {
        self.or_empty = true;
        self.expand_value(value);
        self.or_empty = false;
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let (written, value) = match reference(from) {
                Some((written, name, default)) => {
                    let value = self.environment.variable(name).or(default);
                    (written, value.or(self.or_empty.then_some("")))
                }
                None => ("$", None),
            };
            match value.filter(|value| value.len() <= self.remaining) {
                Some(value) => {
                    self.remaining -= value.len();
                    out.push_str(value);
                }
                None => out.push_str(written),
            }
            rest = from.get(written.len()..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }
}

/// Returns the names of all variables that a string refers to.
pub(crate) fn referenced_names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('$').filter_map(|(start, _)| {
        let (_, name, _) = reference(text.get(start..)?)?;
        Some(name)
    })
}

/// Parses a reference at the start of a string that begins with `$`. Returns its source text, the
/// name, and the default.
fn reference(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let after = text.get(1..)?;
    if let Some(inner) = after.strip_prefix('{') {
        let end = inner.find('}')?;
        let inner = inner.get(..end)?;
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        return (name_length(name) == name.len() && !name.is_empty()).then_some((
            text.get(..end + 3)?,
            name,
            default,
        ));
    }
    let length = name_length(after);
    (length > 0).then_some((text.get(..=length)?, after.get(..length)?, None))
}

fn name_length(text: &str) -> usize {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::Expander;
    use crate::environment::Environment;

    #[test]
    fn all_variable_forms_are_expanded() {
        let environment = Environment::new([("A".into(), "x".into()), ("E".into(), "".into())]);
        let expand = |text: &str| Expander::new(&environment).text(text);
        for (text, expected) in [
            ("$A", "x"),
            ("a${A}b", "axb"),
            ("$A$A/$B", "xx/$B"),
            ("${B:-y}", "y"),
            ("${A:-y}", "x"),
            ("${B:-}", ""),
            ("$E", ""),
            ("${B}", "${B}"),
            ("$", "$"),
            ("$$A", "$x"),
            ("$1", "$1"),
            ("${A", "${A"),
            ("${a b}", "${a b}"),
            ("$Ä", "$Ä"),
        ] {
            assert_eq!(expand(text), expected, "{text}");
        }
    }

    #[test]
    fn expansion_uses_bounded_memory() {
        let environment = Environment::new([("A".into(), "x".repeat(100_000).into())]);
        assert!(Expander::new(&environment).text(&"$A".repeat(100_000)).len() < 5_000_000);
    }
}
