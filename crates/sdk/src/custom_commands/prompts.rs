//! Prompts of MCP servers as commands.

use std::collections::HashMap;
use std::sync::Arc;

use parallax_mcp::{PromptEntry, parse_prompt_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::tool::ToolSource as _;

use super::{Commands, Prepared, is_own, is_reserved};
use crate::launch::failure;

/// A prompt of a server, as a command.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptCommand {
    /// What is typed behind the slash.
    pub name: String,
    /// Its server.
    pub server: String,
    /// What it is for, as the server says it.
    pub description: String,
    /// What it takes: name, what it is, whether it must be given.
    pub arguments: Vec<(String, String, bool)>,
    entry: PromptEntry,
}

impl Commands {
    /// The prompts of the servers, as far as they are known now. One whose name
    /// is taken is called `SERVER.NAME`.
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
                let taken = is_reserved(&plain)
                    || is_own(&plain)
                    || catalog.find(&plain).is_some()
                    || count.get(&plain) > Some(&1);
                PromptCommand {
                    name: if taken { format!("{server}.{plain}") } else { plain },
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

    /// The prompt of a name. Where a single answer is wanted, servers that are
    /// starting are waited for, as long as the first request would. Blocking.
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
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let _inside = runtime.enter();
            servers.expect_all();
            if servers.are_starting() {
                runtime.block_on(servers.settled());
                return find();
            }
        }
        found
    }

    /// What a prompt of a server takes, for `/NAME help`; `None` for every other
    /// line. Blocking.
    pub fn prompt_help(&self, name: &str, arguments: &str) -> Option<String> {
        if arguments.trim() != "help" || self.takes(name) {
            return None;
        }
        let prompt = self.prompt_of(name)?;
        let what = match prompt.description.trim() {
            "" => String::new(),
            what => format!("{what}\n"),
        };
        Some(format!("`/{name}`: {what}{}", help(&prompt)))
    }

    /// Prepares the line of a prompt; `None` when no prompt has the name.
    ///
    /// # Errors
    /// Arguments that are missing or too many.
    pub(super) fn prepare_prompt(
        &self,
        name: &str,
        arguments: &str,
    ) -> Option<Result<Prepared, Failure>> {
        let prompt = self.prompt_of(name)?;
        let refused = |why: String| failure(FailureKind::Input, format!("`/{name}`: {why}"));
        let values = prompt.entry.fill(&parse_prompt_line(arguments));
        Some(match values {
            Ok(values) => Ok(Prepared::of_prompt(
                Arc::clone(&self.shared),
                prompt.name,
                prompt.server,
                prompt.entry.name,
                values,
            )),
            Err(why) => Err(refused(format!("{why}; {}", help(&prompt)))),
        })
    }

    /// Whether prompts may still come.
    pub(super) fn may_come(&self) -> bool {
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
