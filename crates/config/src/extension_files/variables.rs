//! Expands `${extensionPath}` and similar variables in the files of an extension.

use std::path::Path;

use serde_json::Value;

/// The number of path variables; they come first.
const PATHS: usize = 4;
/// The number of path variables that are separators; they come last.
const SEPARATORS: usize = 2;

/// The values of an extension's variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtensionVariables {
    /// Paths, then visible values, then secrets.
    pairs: Vec<(String, String)>,
    /// The number of visible values.
    visible_values: usize,
}

impl ExtensionVariables {
    /// Creates the variables of an extension in `directory`, used in `workspace`. `values` holds
    /// its settings by variable, and `secrets` its sensitive settings.
    pub(crate) fn new(
        directory: &Path,
        workspace: &Path,
        values: &[(String, String)],
        secrets: &[(String, String)],
    ) -> Self {
        let separator = std::path::MAIN_SEPARATOR.to_string();
        let mut pairs = vec![
            ("extensionPath".to_owned(), directory.to_string_lossy().into_owned()),
            ("workspacePath".to_owned(), workspace.to_string_lossy().into_owned()),
            ("/".to_owned(), separator.clone()),
            ("pathSeparator".to_owned(), separator),
        ];
        pairs.extend(values.iter().cloned());
        let visible_values = pairs.len();
        pairs.extend(secrets.iter().cloned());
        Self { pairs, visible_values }
    }

    /// Returns only the path separators, which are the same for every extension.
    pub(crate) fn separators() -> Self {
        let all = Self::new(Path::new(""), Path::new(""), &[], &[]);
        let pairs: Vec<_> = all.pairs.into_iter().skip(PATHS - SEPARATORS).collect();
        Self { visible_values: pairs.len(), pairs }
    }

    /// Expands text in one pass: values are not expanded again. Unknown names are kept.
    pub fn fill(&self, text: &str) -> String {
        fill(text, &self.pairs)
    }

    /// Expands text that the model reads, without secrets.
    pub fn expand_for_model(&self, text: &str) -> String {
        fill(text, self.pairs.get(..self.visible_values).unwrap_or_default())
    }

    /// Expands paths only, for a shell command. The values of settings are passed in the
    /// environment, so that the shell does not parse them.
    pub fn fill_command(&self, text: &str) -> String {
        fill(text, self.pairs.get(..PATHS).unwrap_or_default())
    }

    /// Expands every string in a value; keys are not expanded.
    pub fn fill_value(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains("${") => *text = self.fill(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill_value(field)),
            _ => {}
        }
    }
}

fn fill(text: &str, pairs: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let inner = from.get(2..).unwrap_or_default();
        let name = inner.find('}').and_then(|end| inner.get(..end));
        let value = name.and_then(|name| {
            let pair = pairs.iter().find(|(known, _)| known == name)?;
            Some((name.len() + 3, pair.1.as_str()))
        });
        let (length, value) = value.unwrap_or((2, "${"));
        out.push_str(value);
        rest = from.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_separators_are_expanded_without_an_extension() {
        let separators = ExtensionVariables::separators();
        let text = "${extensionPath}${/}docs${pathSeparator}a.md";
        assert_eq!(separators.fill(text), "${extensionPath}/docs/a.md");
    }

    #[test]
    fn known_variables_are_expanded_once() {
        let values = [("KEY".to_owned(), "${extensionPath}".to_owned())];
        let variables = ExtensionVariables::new(Path::new("/e"), Path::new("/w"), &values, &[]);
        assert_eq!(variables.fill_command("${extensionPath}${KEY}"), "/e${KEY}");
        for (text, filled) in [
            ("${extensionPath}${/}x", "/e/x"),
            ("${workspacePath}:${pathSeparator}", "/w:/"),
            ("${KEY}", "${extensionPath}"),
            ("${other} $KEY ${", "${other} $KEY ${"),
            ("${${KEY}}", "${${extensionPath}}"),
        ] {
            assert_eq!(variables.fill(text), filled, "{text}");
        }
    }
}
