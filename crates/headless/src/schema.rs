//! The schema of the final answer: loading it, and validating answers.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

/// Maximum bytes of a schema file.
const MAX_BYTES: u64 = 1024 * 1024;
/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 10;

/// A compiled JSON Schema.
pub struct OutputSchema {
    source: Value,
    validator: jsonschema::Validator,
}

impl std::fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.source).finish()
    }
}

fn schema_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

impl OutputSchema {
    /// Loads and compiles a schema file. References to other files or URLs are not followed.
    ///
    /// # Errors
    /// [`FailureKind::Input`] if the file cannot be read, is not a regular file, is larger than 1
    /// MiB, or is not a JSON Schema.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let unreadable = |reason: String| {
            schema_failure(format!("Invalid output schema `{}`: {reason}", path.display()))
        };
        // Checked first, because opening a pipe would wait for its writer.
        let metadata = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !metadata.is_file() {
            return Err(unreadable("not a regular file".to_owned()));
        }
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(unreadable("larger than 1 MiB".to_owned()));
        }
        Self::parse(&text).map_err(unreadable)
    }

    /// Compiles a schema from JSON text.
    ///
    /// # Errors
    /// Returns why the text is not a JSON Schema.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source: Value =
            serde_json::from_str(text).map_err(|error| format!("invalid JSON: {error}"))?;
        if !source.is_object() && !source.is_boolean() {
            return Err("not a JSON Schema: expected an object".to_owned());
        }
        let validator = jsonschema::options()
            .build(&source)
            .map_err(|error| format!("not a JSON Schema: {error}"))?;
        Ok(Self { source, validator })
    }

    /// Returns the schema as written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Returns the instruction about the schema for the prompt.
    pub fn instruction(&self) -> String {
        format!(
            "Give your final answer as one JSON document that matches this JSON Schema, with no \
             other text around it:\n{}",
            self.source
        )
    }

    /// Parses and validates an answer. A Markdown code fence around it is ignored.
    ///
    /// # Errors
    /// Returns at most ten problems, one per line.
    pub fn validate(&self, answer: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(without_fence(answer))
            .or_else(|error| match last_fence(answer) {
                Some(document) => serde_json::from_str(document),
                None => Err(error),
            })
            .map_err(|error| format!("invalid JSON: {error}"))?;
        let mut problems = String::new();
        for error in self.validator.iter_errors(&value).take(MAX_PROBLEMS) {
            let location = error.instance_path().to_string();
            let location = if location.is_empty() {
                "the document".to_owned()
            } else {
                format!("`{location}`")
            };
            if !problems.is_empty() {
                problems.push('\n');
            }
            // The message quotes the value, which may be as long as the answer.
            let output = error.to_string();
            let end = output.char_indices().nth(300).map_or(output.len(), |(offset, _)| offset);
            problems.push_str(&format!("{location}: {}", output.get(..end).unwrap_or("")));
        }
        if problems.is_empty() { Ok(value) } else { Err(problems) }
    }
}

/// Returns the content of a Markdown code fence around the whole text.
fn without_fence(answer: &str) -> &str {
    let text = answer.trim();
    let Some((first, rest)) = text.split_once('\n') else { return text };
    let Some(language) = first.trim_end().strip_prefix("```") else { return text };
    match rest.trim_end().strip_suffix("```") {
        Some(inside) if language.is_empty() || language.eq_ignore_ascii_case("json") => {
            inside.trim()
        }
        _ => text,
    }
}

/// Returns the content of the last Markdown code fence, because models often write a sentence
/// before it.
fn last_fence(answer: &str) -> Option<&str> {
    let (before, _) = answer.trim_end().rsplit_once("```")?;
    let (_, inside) = before.rsplit_once("```")?;
    Some(inside.strip_prefix("json").unwrap_or(inside).trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> OutputSchema {
        OutputSchema::parse(
            r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#,
        )
        .unwrap()
    }

    #[test]
    fn answers_are_checked_with_or_without_a_fence() {
        let schema = schema();
        for answer in [
            r#"{"n":1}"#,
            " \n{\"n\":1}\n",
            "```json\n{\"n\":1}\n```\n",
            "```\n{\"n\":1}```",
            "Sure:\n```json\n{\"n\":1}\n```",
        ] {
            assert_eq!(schema.validate(answer), Ok(json!({"n": 1})), "{answer}");
        }
        assert!(schema.validate("Sure! {\"n\":1}").unwrap_err().contains("invalid JSON"));
        let error = schema.validate(r#"{"n":"x"}"#).unwrap_err();
        assert!(error.starts_with("`/n`: "), "{error}");
        assert!(
            schema.validate(&format!("{{\"n\":\"{}\"}}", "x".repeat(100_000))).unwrap_err().len()
                < 1000
        );
    }

    #[test]
    fn invalid_schema_is_rejected_with_the_reason() {
        for (text, reason) in [
            ("{", "invalid JSON"),
            ("[1]", "expected an object"),
            (r#"{"type":"objekt"}"#, "not a JSON Schema"),
            (r#"{"$ref":"http://localhost/x.json"}"#, "not a JSON Schema"),
            (r##"{"$ref":"#/nowhere"}"##, "not a JSON Schema"),
        ] {
            let error =
                OutputSchema::parse(text).and_then(|schema| schema.validate("{}").map(|_| ()));
            assert!(error.as_ref().is_err_and(|error| error.contains(reason)), "{text}: {error:?}");
        }
    }

    #[test]
    fn recursive_schema_does_not_hang() {
        for text in [r##"{"$ref":"#"}"##, r##"{"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"}]}]}"##]
        {
            let _ = OutputSchema::parse(text).map(|schema| schema.validate("{}"));
        }
    }

    #[test]
    fn only_small_regular_schema_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            let failure = OutputSchema::load(path).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Input);
            failure.message
        };
        assert!(refused(directory.path()).contains("not a regular file"));
        assert!(refused(&directory.path().join("none")).contains("none"));
        let large = directory.path().join("large");
        fs::write(&large, " ".repeat(2 * 1024 * 1024)).unwrap();
        assert!(refused(&large).contains("larger than 1 MiB"));
        let good = directory.path().join("good");
        fs::write(&good, "{}").unwrap();
        assert!(OutputSchema::load(&good).is_ok());
    }
}
