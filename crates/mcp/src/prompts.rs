//! Server prompts as slash commands.

use base64::Engine as _;
use parallax_protocol::content::Part;
use parallax_protocol::media::sendable_type;
use parallax_protocol::untrusted::sanitize;
use rmcp::model::{GetPromptRequest, GetPromptRequestParams};
use serde_json::Value;

use crate::call::RequestOptions;
use crate::catalog::PromptEntry;
use crate::servers::Servers;

/// The parsed arguments of a prompt command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptArguments {
    /// Named values.
    pub named: Vec<(String, String)>,
    /// Positional values, in order.
    pub positional: Vec<String>,
}

/// Parses `--name="value"`, `--name=value`, and positional values. Quotes and backslashes preserve
/// spaces.
pub fn parse_prompt_line(line: &str) -> PromptArguments {
    let mut parsed = PromptArguments::default();
    for (word, quoted) in split_words(line) {
        let named =
            word.strip_prefix("--").filter(|_| !quoted).and_then(|rest| rest.split_once('='));
        match named {
            Some((name, value)) if !name.is_empty() => {
                parsed.named.push((name.to_owned(), value.to_owned()));
            }
            _ => parsed.positional.push(word),
        }
    }
    parsed
}

/// Splits a line into words, each with whether it starts with a quote.
fn split_words(line: &str) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let mut word: Option<(String, bool)> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('"') | None, '\\') => {
                if let Some(next) = letters.next() {
                    word.get_or_insert_with(Default::default).0.push(next);
                }
            }
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_with(|| (String::new(), true));
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_with(Default::default).0.push(letter),
        }
    }
    words.extend(word);
    words
}

impl PromptEntry {
    /// Returns the name of the slash command.
    pub fn command(&self) -> String {
        self.name.split_whitespace().collect::<Vec<_>>().join("-")
    }

    /// Returns the values for the arguments.
    ///
    /// # Errors
    /// Returns a message that names missing required arguments or unexpected values.
    pub fn fill(&self, line: &PromptArguments) -> Result<Vec<(String, String)>, String> {
        let known = |name: &str| self.arguments.iter().any(|argument| argument.name == name);
        let mut values = Vec::new();
        for (name, value) in &line.named {
            if !known(name) {
                return Err(format!("`{}` has no argument `{name}`", self.name));
            }
            values.retain(|(other, _): &(String, String)| other != name);
            values.push((name.clone(), value.clone()));
        }
        // Required arguments come first.
        let open = |required: bool| {
            let of = self.arguments.iter().filter(move |argument| argument.required == required);
            let names = of.map(|argument| argument.name.as_str());
            names
                .filter(|name| !values.iter().any(|(provided, _)| provided == name))
                .collect::<Vec<_>>()
        };
        let (required, optional) = (open(true), open(false));
        let open = [required.as_slice(), optional.as_slice()].concat();
        match (required.as_slice(), optional.as_slice()) {
            // A single argument takes all words.
            ([only], _) | ([], [only]) if !line.positional.is_empty() => {
                values.push(((*only).to_owned(), line.positional.join(" ")));
            }
            _ if line.positional.len() > open.len() => {
                return Err(format!("`{}` takes {} values", self.name, self.arguments.len()));
            }
            _ => values.extend(
                open.iter()
                    .zip(&line.positional)
                    .map(|(name, value)| ((*name).to_owned(), value.clone())),
            ),
        }
        let missing: Vec<String> = self
            .arguments
            .iter()
            .filter(|it| it.required && !values.iter().any(|(name, _)| *name == it.name))
            .map(|it| format!("--{}", it.name))
            .collect();
        match missing.is_empty() {
            true => Ok(values),
            false => Err(format!("missing: {}", missing.join(", "))),
        }
    }
}

impl Servers {
    /// Returns the prompts of all servers, with the server names.
    pub fn prompts(&self) -> Vec<(String, PromptEntry)> {
        let of = |server: &std::sync::Arc<crate::server::Server>| {
            let name = server.config.name.clone();
            let prompts = server.catalog().prompts.clone();
            prompts.into_iter().map(move |prompt| (name.clone(), prompt)).collect::<Vec<_>>()
        };
        self.open().flat_map(of).collect()
    }

    /// Returns the messages of a prompt, as parts for the model.
    ///
    /// # Errors
    /// Returns a message for the user if the prompt cannot be read.
    pub async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        values: &[(String, String)],
    ) -> Result<Vec<Part>, String> {
        let of = self.find(server).ok_or_else(|| format!("unknown MCP server `{server}`"))?;
        let request = || {
            let arguments = values.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            let params = GetPromptRequestParams::new(prompt).with_arguments(arguments.collect());
            GetPromptRequest::new(params).into()
        };
        let prompt_request = of.ask(request, RequestOptions::with_timeout(of.config.timeout), true);
        let (result, _) = prompt_request.await;
        let result = result.map_err(|error| format!("`{prompt}` of `{server}`: {error}"))?;
        let messages = result.get("messages").and_then(Value::as_array);
        let parts = convert_messages(messages.map_or(&[], Vec::as_slice));
        match parts.is_empty() {
            true => Err(format!("`{prompt}` of `{server}` is empty")),
            false => Ok(parts),
        }
    }
}

/// Returns the contents of all messages as separate parts. Roles are labeled if they differ.
fn convert_messages(messages: &[Value]) -> Vec<Part> {
    let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
    let mixed = messages.iter().any(|message| role(message).as_deref() == Some("assistant"));
    let mut all = Vec::new();
    for message in messages {
        let content = parts(message);
        if content.is_empty() {
            continue;
        }
        if !all.is_empty() {
            all.push(Part::text("\n\n"));
        }
        if mixed {
            let is_model = role(message).as_deref() == Some("assistant");
            all.push(Part::text(if is_model { "Assistant: " } else { "User: " }));
        }
        all.extend(content);
    }
    all
}

/// Returns media whose content can be sent.
fn media_part(declared: &str, data: &str) -> Option<Part> {
    // MIME encoders wrap lines.
    let data: String = data.split_ascii_whitespace().collect();
    let bytes = base64::prelude::BASE64_STANDARD.decode(&data).ok()?;
    Some(Part::inline_data(sendable_type(declared, &bytes)?, data))
}

/// Returns the content of one message: one block or several.
fn parts(message: &Value) -> Vec<Part> {
    let part = |block: &Value| {
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match text("type") {
            Some("text") => text("text").map(|text| Part::text(sanitize(text))),
            Some(kind @ ("image" | "audio")) => Some(
                media_part(text("mimeType").unwrap_or_default(), text("data").unwrap_or_default())
                    .unwrap_or_else(|| Part::text(format!("[{kind} omitted: cannot be decoded]"))),
            ),
            Some("resource") => {
                let text = block.get("resource")?.get("text").and_then(Value::as_str)?;
                Some(Part::text(sanitize(text)))
            }
            Some("resource_link") => {
                text("uri").map(|uri| Part::text(sanitize(&format!("Resource Link: {uri}"))))
            }
            _ => None,
        }
    };
    match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().filter_map(part).collect(),
        Some(block) => part(block).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::PromptArgument;

    fn prompt(arguments: &[(&str, bool)]) -> PromptEntry {
        let argument = |(name, required): &(&str, bool)| PromptArgument {
            name: (*name).to_owned(),
            required: *required,
            ..PromptArgument::default()
        };
        PromptEntry {
            name: "my prompt".into(),
            arguments: arguments.iter().map(argument).collect(),
            ..PromptEntry::default()
        }
    }

    #[test]
    fn prompt_arguments_are_named_or_positional() {
        let entry = prompt(&[("a", true), ("b", false)]);
        assert_eq!(entry.command(), "my-prompt");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (line, values) in [
            ("--a=\"x y\" z", Ok(vec![pair("a", "x y"), pair("b", "z")])),
            ("x 'y z'", Ok(vec![pair("a", "x y z")])),
            ("--b=1 some words", Ok(vec![pair("b", "1"), pair("a", "some words")])),
            ("\"--a=x\"", Ok(vec![pair("a", "--a=x")])),
            ("x\\ y", Ok(vec![pair("a", "x y")])),
            ("", Err("missing: --a".to_owned())),
            ("--c=1", Err("`my prompt` has no argument `c`".to_owned())),
            ("--b=1 x y z", Ok(vec![pair("b", "1"), pair("a", "x y z")])),
        ] {
            assert_eq!(entry.fill(&parse_prompt_line(line)), values, "{line}");
        }
        let entry = prompt(&[("a", true), ("b", false), ("c", true)]);
        for (line, values) in [
            ("x y", Ok(vec![pair("a", "x"), pair("c", "y")])),
            ("x y z", Ok(vec![pair("a", "x"), pair("c", "y"), pair("b", "z")])),
            ("w x y z", Err("`my prompt` takes 3 values".to_owned())),
        ] {
            assert_eq!(entry.fill(&parse_prompt_line(line)), values, "{line}");
        }
    }
}
