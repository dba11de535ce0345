//! Parses TOML commands: `prompt`, `description`, and `args`, which is specific to Parallax.

use toml::de::{DeTable, DeValue};

use super::markdown_format::split_at_outer_commas;
use super::{CommandArgument, CommandParseError, ParsedCommand};

/// Maximum number of arguments of one command.
const MAX_COUNT: usize = 20;

/// Parses the text of a file.
///
/// # Errors
/// Returns an error if the TOML is invalid, the prompt is missing, or the prompt or description has
/// the wrong type.
pub(super) fn read(text: &str) -> Result<ParsedCommand, CommandParseError> {
    let at = |start: usize| {
        let before = text.get(..start).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    };
    let table = DeTable::parse(text).map_err(|error| CommandParseError {
        line: error.span().map(|span| at(span.start).0),
        column: error.span().map(|span| at(span.start).1),
        message: format!("invalid TOML: {}", error.message().trim()),
    })?;
    let mut written = ParsedCommand::default();
    let mut prompt = None;
    for (key, value) in table.get_ref() {
        let to_error = |what: &str| CommandParseError {
            line: Some(at(value.span().start).0),
            column: Some(at(value.span().start).1),
            message: format!("`{}` must be {what}", key.get_ref()),
        };
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("prompt", DeValue::String(template)) => {
                prompt = Some(template.to_string());
                written.template_position = at(string_content_start(text, value.span().start));
            }
            ("prompt", _) => return Err(to_error("a string")),
            ("description", DeValue::String(text)) => written.description = text.to_string(),
            // As in front matter.
            ("description", DeValue::Integer(number)) => {
                number.as_str().clone_into(&mut written.description)
            }
            ("description", DeValue::Float(number)) => {
                number.as_str().clone_into(&mut written.description)
            }
            ("description", DeValue::Boolean(is)) => written.description = is.to_string(),
            ("description", DeValue::Datetime(time)) => written.description = time.to_string(),
            ("description", _) => return Err(to_error("a string")),
            ("args", DeValue::Array(items)) => {
                let arguments = items.iter().take(MAX_COUNT).map(|item| argument(item.get_ref()));
                let arguments = arguments.collect::<Option<Vec<_>>>();
                written.arguments = arguments.ok_or_else(|| to_error("a list of arguments"))?;
            }
            // Only a hint for display, such as `<file>`.
            ("args", DeValue::String(text)) => written.argument_hint = text.to_string(),
            ("args", _) => return Err(to_error("a list of arguments")),
            ("model" | "agent", DeValue::String(name)) => {
                let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
                match key.get_ref().as_ref() {
                    "model" => written.overrides.model = name.filter(|name| name != "inherit"),
                    _ => written.overrides.agent = name,
                }
            }
            ("model" | "agent", _) => return Err(to_error("a string")),
            ("tools", DeValue::String(names)) => {
                written.overrides.tools = Some(split_at_outer_commas(names));
            }
            ("tools", DeValue::Array(items)) => {
                let names = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                let names = names.collect::<Option<Vec<String>>>();
                written.overrides.tools =
                    Some(names.ok_or_else(|| to_error("a list of tool names"))?);
            }
            // Without the list, the command could use all tools.
            ("tools", _) => return Err(to_error("a list of tool names")),
            (
                key @ ("mode" | "timeout"),
                DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_),
            ) => {
                let text = match value.get_ref() {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Integer(number) => number.as_str().to_owned(),
                    DeValue::Float(number) => number.as_str().to_owned(),
                    _ => String::new(),
                };
                written.overrides.parse_field(key, &text).map_err(&to_error)?;
            }
            ("mode" | "timeout", _) => return Err(to_error("a string")),
            // Possibly meant for another program.
            (other, _) => written.unknown_fields.push(other.to_owned()),
        }
    }
    written.prompt = prompt.ok_or_else(|| CommandParseError {
        line: Some(1),
        column: Some(1),
        message: "the field `prompt` is missing; it contains the text for the model".to_owned(),
    })?;
    if written.argument_hint.is_empty() {
        written.argument_hint = hint(&written.arguments);
    }
    Ok(written)
}

/// Returns where the content of a string begins, given where its quotes begin.
fn string_content_start(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let long = rest.starts_with("\"\"\"") || rest.starts_with("'''");
    let quotes = if long { 3 } else { 1 };
    // A line break right after the quotes of a multi-line string is not part of it.
    let rest = rest.get(quotes..).unwrap_or_default();
    let dropped = ["\r\n", "\n"].into_iter().find(|end| long && rest.starts_with(end));
    start + quotes + dropped.map_or(0, str::len)
}

fn argument(value: &DeValue<'_>) -> Option<CommandArgument> {
    match value {
        DeValue::String(name) => {
            Some(CommandArgument { name: name.to_string(), ..CommandArgument::default() })
        }
        DeValue::Table(table) => {
            let choices = match table.get("enum").map(|value| value.get_ref()) {
                None => Vec::new(),
                Some(DeValue::Array(items)) => items
                    .iter()
                    .map(|item| item.get_ref().as_str().map(str::to_owned))
                    .collect::<Option<Vec<String>>>()?,
                Some(_) => return None,
            };
            let required = match table.get("required").map(|value| value.get_ref()) {
                None => false,
                Some(value) => value.as_bool()?,
            };
            let name = table.get("name")?.get_ref().as_str()?.to_owned();
            Some(CommandArgument { name, required, choices })
        }
        _ => None,
    }
}

/// `<file> [level]`.
fn hint(arguments: &[CommandArgument]) -> String {
    let shown = arguments.iter().map(|argument| match argument.required {
        true => format!("<{}>", argument.name),
        false => format!("[{}]", argument.name),
    });
    shown.collect::<Vec<_>>().join(" ")
}
