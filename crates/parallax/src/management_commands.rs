//! Slash commands of editors that change what sessions use: `/memory reload`, `/extensions install`,
//! `/restore NAME`. The terminal has its own with dialogs.

use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use parallax_acp::{CommandReply, ManagementCommand};
use parallax_commands::{ParsedLine, SlashCommand, parse};
use parallax_extensions::GALLERY;
use parallax_headless::one_line;
use parallax_protocol::event::Failure;
use parallax_protocol::op::Op;
use parallax_sdk::rewind_preview::RewindPreviewer;
use parallax_sdk::{OpenSession, SessionConfig};

use crate::command_result::{CommandResult, input_failure};
use crate::extensions_command::{self, EditorPrompter, ExtensionsAction};

/// Returns the command of a typed line, if it is one of these.
pub(crate) fn command(session: &OpenSession, line: &str) -> Option<ManagementCommand> {
    let catalog = session.commands.catalog();
    let others: Vec<String> = catalog.commands().iter().map(|it| it.name.clone()).collect();
    let (spec, arguments) = match parse(line.trim_end(), &others) {
        ParsedLine::Command(spec, arguments) => (spec, arguments),
        ParsedLine::UnknownArgument { command, word, near } => {
            return reject_word(&command, &word, &near);
        }
        _ => return None,
    };
    let arguments = arguments.trim().to_owned();
    let launch = session.launch().clone();
    Some(match spec.command {
        SlashCommand::MemoryReload => reload("Reloaded the context files.", "/memory list"),
        SlashCommand::ExtensionsReload => reload("Reloaded the extensions.", "/extensions list"),
        // They are not ready yet.
        SlashCommand::McpReload => Box::new(|_, _| {
            let text = "Restarted the MCP servers; `/mcp` lists them.".to_owned();
            Ok(CommandReply::Reopen { text, then: None })
        }),
        SlashCommand::SkillsReload => reload("Reloaded the skills.", "/skills list"),
        SlashCommand::AgentsReload => reload("Reloaded the subagents.", "/agents list"),
        SlashCommand::CommandsReload => reload("Reloaded the commands.", "/commands list"),
        SlashCommand::ExtensionsExplore => {
            Box::new(|_, _| Ok(CommandReply::Text(format!("Extension gallery: {GALLERY}"))))
        }
        SlashCommand::MemoryAdd => Box::new(move |_, _| add_memory(&launch, &arguments)),
        SlashCommand::ExtensionsInstall
        | SlashCommand::ExtensionsLink
        | SlashCommand::ExtensionsUninstall
        | SlashCommand::ExtensionsUpdate
        | SlashCommand::ExtensionsEnable
        | SlashCommand::ExtensionsDisable => {
            let verb = spec.name;
            Box::new(move |ask, cancel| {
                change_extensions(&launch.with_cancellation(cancel), verb, &arguments, ask)
            })
        }
        SlashCommand::Restore if !matches!(arguments.as_str(), "" | "list") => {
            let preview = session.rewind_preview();
            Box::new(move |_, _| restore(&preview, &arguments))
        }
        _ => return None,
    })
}

/// The commands whose words are checked here: others are commands of the terminal.
const CHECKED: [&str; 7] =
    ["agents", "commands", "extensions", "mcp", "memory", "restore", "skills"];

/// Refuses a word that a command does not take. `near` are the words that it takes.
fn reject_word(command: &str, word: &str, near: &[String]) -> Option<ManagementCommand> {
    if !CHECKED.contains(&command.split(' ').next().unwrap_or_default()) {
        return None;
    }
    let word = one_line(word);
    let text = match near {
        [] => {
            format!("`/{command}` takes no arguments, but `{word}` follows. Nothing was changed.")
        }
        near => format!("`/{command}` has no `{word}`. Available: {}.", near.join(", ")),
    };
    Some(Box::new(move |_, _| Err(input_failure(text))))
}

fn reload(text: &'static str, then: &'static str) -> ManagementCommand {
    Box::new(move |_, _| Ok(CommandReply::Reopen { text: format!("{text}\n\n"), then: Some(then) }))
}

fn add_memory(launch: &SessionConfig, fact: &str) -> Result<CommandReply, Failure> {
    if fact.is_empty() {
        return Err(input_failure("No text given: use `/memory add TEXT`.".to_owned()));
    }
    let path = launch.context_sources().add_memory(fact)?;
    let text = format!("Saved to {}.\n\n", path.display());
    Ok(CommandReply::Reopen { text, then: Some("/memory list") })
}

/// The arguments of `/extensions`.
#[derive(Debug, Parser)]
#[command(name = "/extensions", disable_help_flag = true, disable_version_flag = true)]
struct ExtensionsCommandLine {
    #[command(subcommand)]
    action: ExtensionsAction,
}

/// Runs a subcommand of `parallax extensions`, whose consent the user gives in the editor.
fn change_extensions(
    launch: &SessionConfig,
    verb: &str,
    arguments: &str,
    ask: &mut dyn FnMut(&str) -> bool,
) -> Result<CommandReply, Failure> {
    let mut words = shell_words::split(arguments)
        .map_err(|error| input_failure(format!("`{arguments}` cannot be read: {error}")))?;
    // As in the terminal: `/extensions disable NAME workspace`.
    let has_flag = words.iter().any(|word| word.starts_with('-'));
    if matches!(verb, "enable" | "disable") && words.len() == 2 && !has_flag {
        words.insert(1, "--scope".to_owned());
    }
    if let (Some(source), "install" | "link") = (words.first_mut(), verb) {
        *source = path_in(launch.directory(), source);
    }
    let typed = ["/extensions", verb].map(str::to_owned).into_iter().chain(words);
    let line = ExtensionsCommandLine::command()
        .try_get_matches_from(typed)
        .and_then(|matches| ExtensionsCommandLine::from_arg_matches(&matches))
        .map_err(|error| input_failure(error.render().to_string().trim_end().to_owned()))?;
    let CommandResult { text, errors, .. } =
        extensions_command::run_with(launch, &line.action, &mut EditorPrompter::new(ask))?;
    // A partial failure has changed something as well.
    if text.is_empty() {
        return Err(input_failure(errors.trim_end().to_owned()));
    }
    Ok(CommandReply::Reopen { text: format!("{text}{errors}\n"), then: Some("/extensions list") })
}

/// Returns the path of a directory or an archive below the project; other sources stay.
fn path_in(directory: &Path, source: &str) -> String {
    let path = directory.join(source);
    match path.exists() {
        true => path.to_string_lossy().into_owned(),
        false => source.to_owned(),
    }
}

fn restore(preview: &RewindPreviewer, name: &str) -> Result<CommandReply, Failure> {
    if !preview.checkpointing {
        let text = "To restore single changes, enable `general.checkpointing.enabled`.";
        return Err(input_failure(text.to_owned()));
    }
    let points = preview.restore_points().map_err(input_failure)?;
    match points.iter().find(|point| point.name == name) {
        Some(point) => Ok(CommandReply::Turn(Op::Restore(point.restore_request))),
        None => Err(input_failure(format!(
            "Unknown change `{name}`; `/restore list` lists the changes."
        ))),
    }
}
