//! A command as TOML: `prompt`, `description`, and `args`, which is ours.

use toml::de::{DeTable, DeValue};

use super::{CommandArgument, Written, Wrong};

/// Arguments of one command.
const MOST: usize = 20;

/// Reads the text of a file.
///
/// # Errors
/// TOML that is none, a missing prompt, a field of another type.
pub(super) fn read(text: &str) -> Result<Written, Wrong> {
    let at = |start: usize| {
        let before = text.get(..start).unwrap_or(text);
        Some(before.bytes().filter(|byte| *byte == b'\n').count() + 1)
    };
    let table = DeTable::parse(text).map_err(|error| Wrong {
        line: error.span().and_then(|span| at(span.start)),
        message: format!("this is not valid TOML: {}", error.message().trim()),
    })?;
    let mut written = Written::default();
    let mut prompt = None;
    for (key, value) in table.get_ref() {
        let wrong = |what: &str| Wrong {
            line: at(value.span().start),
            message: format!("`{}` must be {what}", key.get_ref()),
        };
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("prompt", DeValue::String(text)) => prompt = Some(text.to_string()),
            ("prompt", _) => return Err(wrong("a text")),
            ("description", DeValue::String(text)) => written.description = text.to_string(),
            ("description", _) => return Err(wrong("a text")),
            ("args", DeValue::Array(items)) => {
                const WHAT: &str = "a list of names, or of tables with `name`, `required`, `enum`";
                for item in items.iter().take(MOST) {
                    let argument = argument(item.get_ref()).ok_or_else(|| wrong(WHAT))?;
                    written.arguments.push(argument);
                }
            }
            // Of another program, perhaps.
            (other, _) => written.unused.push(other.to_owned()),
        }
    }
    written.prompt = prompt.ok_or_else(|| Wrong {
        line: None,
        message: "the field `prompt` is missing: give it the text for the model".to_owned(),
    })?;
    written.argument_hint = hint(&written.arguments);
    Ok(written)
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
