//! Prompts of MCP servers as slash commands.

use std::collections::HashMap;
use std::sync::Arc;

use parallax_mcp::{PromptEntry, parse_prompt_line};
use parallax_protocol::event::{Failure, FailureKind};

use crate::{Commands, PreparedCommand, is_parallax_only, is_reserved};

/// A prompt of an MCP server as a slash command.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptCommand {
    /// Name to type after the slash.
    pub name: String,
    /// Name of its server.
    pub server: String,
    /// The description from the server.
    pub description: String,
    /// Its arguments: name, description, and whether it is required.
    pub arguments: Vec<(String, String, bool)>,
    entry: PromptEntry,
}

impl Commands {
    /// Returns the currently known prompts of the servers. A prompt whose name is taken is called
    /// `SERVER.NAME`.
    pub fn prompts(&self) -> Vec<PromptCommand> {
        let catalog = self.catalog();
        let Some(servers) = &self.shared.servers else { return Vec::new() };
        let found = servers.prompts();
        let mut count: HashMap<String, usize> = HashMap::new();
        for (_, entry) in &found {
            *count.entry(entry.command()).or_default() += 1;
        }
        found
            .into_iter()
            .map(|(server, entry)| {
                let plain = entry.command();
                let is_used = is_reserved(&plain)
                    || is_parallax_only(&plain)
                    || catalog.find(&plain).is_some()
                    || count.get(&plain) > Some(&1);
                PromptCommand {
                    name: if is_used { format!("{server}.{plain}") } else { plain },
                    server,
                    description: entry.description.clone(),
                    arguments: entry
                        .arguments
                        .iter()
                        .map(|it| (it.name.clone(), it.description.clone(), it.required))
                        .collect(),
                    entry,
                }
            })
            .collect()
    }

    /// Returns the prompt with a name. A headless run waits for starting servers as long as its
    /// first request would. Blocking.
    fn prompt_of(&self, name: &str) -> Option<PromptCommand> {
        let find = || {
            let mut prompts = self.prompts().into_iter();
            prompts.find(|prompt| {
                prompt.name == name
                    || name
                        .strip_prefix(prompt.server.as_str())
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|rest| rest == prompt.entry.command())
            })
        };
        let found = find();
        let servers = self.shared.servers.as_ref()?;
        if found.is_none()
            && !self.shared.interactive
            && !name.contains('/')
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let _inside = runtime.enter();
            servers.require_all();
            // A server of an earlier session may have new prompts.
            runtime.block_on(servers.wait_until_connected());
            return find();
        }
        found
    }

    /// Returns the help text of `/NAME help` for a prompt, and `None` for other lines. Blocking.
    pub fn prompt_help(&self, name: &str, arguments: &str) -> Option<String> {
        if arguments.trim() != "help" || self.has_command(name) {
            return None;
        }
        let prompt = self.prompt_of(name)?;
        let what = match prompt.description.trim() {
            "" => String::new(),
            what => format!("{what}\n"),
        };
        Some(format!("`/{name}`: {what}{}", help(&prompt)))
    }

    /// Prepares the line of a prompt; `None` if no prompt has the name.
    ///
    /// # Errors
    /// Returns an error if there are missing or surplus arguments.
    pub(crate) fn prepare_prompt(
        &self,
        name: &str,
        arguments: &str,
    ) -> Option<Result<PreparedCommand, Failure>> {
        let prompt = self.prompt_of(name)?;
        let input_failure =
            |reason: String| Failure::new(FailureKind::Input, format!("`/{name}`: {reason}"));
        let values = prompt.entry.fill(&parse_prompt_line(arguments));
        Some(match values {
            Ok(values) => Ok(PreparedCommand::from_prompt(
                Arc::clone(&self.shared),
                prompt.name,
                prompt.server,
                prompt.entry.name,
                values,
            )),
            Err(reason) => Err(input_failure(format!("{reason}; {}", help(&prompt)))),
        })
    }

    /// Returns whether servers are still starting, so that more prompts may appear.
    pub(crate) fn may_gain_prompts(&self) -> bool {
        self.shared.servers.as_ref().is_some_and(parallax_mcp::Servers::are_starting)
    }
}

fn help(prompt: &PromptCommand) -> String {
    let argument = |(name, what, required): &(String, String, bool)| {
        let mark = if *required { ", required" } else { "" };
        let what = if what.is_empty() { "a text" } else { what };
        format!("`--{name}=\"…\"` ({what}{mark})")
    };
    match prompt.arguments.is_empty() {
        true => "it takes no arguments".to_owned(),
        false => {
            let all: Vec<String> = prompt.arguments.iter().map(argument).collect();
            format!("it takes {}", all.join(", "))
        }
    }
}
