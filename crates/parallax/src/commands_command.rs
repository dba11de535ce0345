//! `parallax commands`: lists custom slash commands and checks their files.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use parallax_commands::{Catalog, CommandInfo, CommandSource};
use parallax_headless::{ExitCode, one_line};
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::Failure;
use parallax_sdk::SessionConfig;
use serde_json::{Value, json};

use crate::command_result::{CommandResult, input_failure};
use crate::scope_option::UserScopeOption;

#[derive(Debug, Subcommand)]
pub(crate) enum CommandsAction {
    /// List the commands by source, with their files
    List,
    /// Show the file behind a name, and the other files with that name
    Which {
        /// Name of the command, with or without the slash
        name: String,
    },
    /// Check all command files; exits 1 if any is invalid
    Check,
    /// Create a command from a template
    New {
        /// Name of the command; `git:commit` creates `git/commit.toml`
        name: String,
        #[command(flatten)]
        scope: UserScopeOption,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// Fails on an unknown name or a file that cannot be written.
pub(crate) fn run(
    launch: &SessionConfig,
    action: &CommandsAction,
) -> Result<CommandResult, Failure> {
    let catalog = parallax_commands::catalog(launch.config(), &launch.extensions());
    match action {
        CommandsAction::List => Ok(list(&catalog)),
        CommandsAction::Which { name } => show_command(&catalog, name),
        CommandsAction::Check => Ok(check(&catalog)),
        CommandsAction::New { name, scope } => {
            let path = parallax_commands::new_command(launch.config(), name, (*scope).into())?;
            let display_path = one_line(&path.display().to_string());
            Ok(CommandResult::new(
                format!("Created {display_path}\n"),
                json!({"file": path.to_string_lossy()}),
            ))
        }
    }
}

fn source(command: &CommandInfo) -> String {
    match &command.source {
        CommandSource::Project => "workspace".to_owned(),
        CommandSource::User => "user".to_owned(),
        CommandSource::Extension(name) => format!("extension {name}"),
    }
}

fn to_json(command: &CommandInfo) -> Value {
    json!({
        "name": command.name,
        "aliases": command.aliases,
        "description": command.description,
        "source": source(command),
        "arguments": command.argument_hint,
        "file": command.path.to_string_lossy(),
        "unused": command.ignored_fields,
    })
}

fn list(catalog: &Catalog) -> CommandResult {
    let mut text = String::new();
    let mut sources: Vec<String> = catalog.commands().iter().map(source).collect();
    sources.sort();
    sources.dedup();
    for group in &sources {
        let _ = writeln!(text, "{}:", one_line(group));
        for command in catalog.commands().iter().filter(|command| source(command) == *group) {
            let usage = format!("/{} {}", command.name, command.argument_hint);
            let _ =
                writeln!(text, "  {}  {}", one_line(usage.trim()), code_text(&command.description));
            let _ = writeln!(text, "      {}", one_line(&command.path.display().to_string()));
        }
    }
    if text.is_empty() {
        text.push_str("No custom commands. Create one with `parallax commands new NAME`.\n");
    }
    for notice in catalog.notices() {
        let _ = writeln!(text, "{}", one_line(notice));
    }
    for problem in catalog.problems() {
        let _ = writeln!(text, "broken: {}", one_line(problem));
    }
    let json = json!({
        "commands": catalog.commands().iter().map(to_json).collect::<Vec<_>>(),
        "problems": catalog.problems().collect::<Vec<_>>(),
    });
    CommandResult::new(text, json)
}

fn show_command(catalog: &Catalog, name: &str) -> Result<CommandResult, Failure> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let Some(command) = catalog.find(name) else {
        let near: Vec<String> =
            catalog.similar_names(name).iter().map(|name| format!("`/{name}`")).collect();
        let near = if near.is_empty() {
            String::new()
        } else {
            format!(". Similar commands: {}", near.join(", "))
        };
        return Err(input_failure(format!("Unknown custom command `/{name}`{near}")));
    };
    let file = |command: &CommandInfo| one_line(&command.path.display().to_string());
    let mut text = format!("/{} is {} ({})\n", name, file(command), source(command));
    let stem = command.path.file_stem();
    let others: Vec<&CommandInfo> = catalog
        .commands()
        .iter()
        .filter(|other| other.path != command.path && other.path.file_stem() == stem)
        .filter(|other| other.name.ends_with(name.trim_start_matches("workspace.")))
        .collect();
    for other in &others {
        let _ = writeln!(text, "/{} is {} ({})", other.name, file(other), source(other));
    }
    let mut json = to_json(command);
    if let Value::Object(fields) = &mut json {
        let others = others.iter().map(|other| to_json(other)).collect();
        fields.insert("others".to_owned(), Value::Array(others));
    }
    Ok(CommandResult::new(text, json))
}

fn check(catalog: &Catalog) -> CommandResult {
    let mut text = String::new();
    for problem in catalog.problems() {
        let _ = writeln!(text, "{}", one_line(problem));
    }
    let broken = !text.is_empty();
    for clash in catalog.conflicts() {
        let _ = writeln!(text, "{}", one_line(clash));
    }
    for command in catalog.commands().iter().filter(|command| !command.ignored_fields.is_empty()) {
        let path: PathBuf = command.path.clone();
        let fields = command.ignored_fields.join("`, `");
        let line = format!("{}: ignored fields: `{fields}`", path.display());
        let _ = writeln!(text, "{}", one_line(&line));
    }
    if text.is_empty() {
        let count = catalog.commands().len();
        text = format!("{count} command(s) checked, no problems found\n");
    }
    let unused: Vec<Value> = catalog
        .commands()
        .iter()
        .filter(|command| !command.ignored_fields.is_empty())
        .map(|command| json!({"file": command.path.to_string_lossy(), "fields": command.ignored_fields}))
        .collect();
    let json = json!({
        "problems": catalog.problems().collect::<Vec<_>>(),
        "clashes": catalog.conflicts(),
        "unused": unused,
    });
    let code = if broken { ExitCode::GENERAL } else { ExitCode::SUCCESS };
    CommandResult { code, ..CommandResult::new(text, json) }
}
