//! Feeds the completion list next to the composer and routes its keys.

pub(crate) mod argument_hints;
pub(crate) mod names;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_commands::{Expander, FileSearch};
use parallax_screen::Key;

use crate::app::App;
use crate::app::effect::JobContinuation;
use crate::commands::{CommandSpec, SlashCommand, TABLE, available_names};
use crate::completion::{
    ArgumentValue, CommandInfo, Completer, CompletionAction, FileSource, Finder, FinderResults,
};

/// Maximum number of directories offered.
const MAX_FOLDERS: usize = 200;

/// The session's files as the source of the finder thread.
struct SessionFiles {
    expander: Expander,
    known_names: Vec<String>,
}

impl FileSource for SessionFiles {
    fn list(&self, piece: &mut dyn FnMut(Vec<String>) -> bool) {
        self.expander.list_files(piece);
    }

    fn known_names(&self) -> Vec<String> {
        self.known_names.clone()
    }

    fn search(&self) -> FileSearch {
        self.expander.file_search()
    }
}

/// Updates the completions after the text changed.
pub(crate) fn update(app: &mut App) {
    names::collect(app);
    app.completion.update(&app.composer);
}

/// Passes a key to the list. Returns whether the list used it.
pub(crate) fn key(app: &mut App, key: Key) -> bool {
    match app.completion.key(key, &app.keymap, &mut app.composer) {
        CompletionAction::Ignored => false,
        CompletionAction::Changed => {
            update(app);
            true
        }
        CompletionAction::Run => {
            let action = app.composer.send();
            app.handle_composer_action(action, key);
            true
        }
    }
}

/// Starts the file search of the session that was opened. The model has received `context_files`.
pub(crate) fn find_files(
    app: &mut App,
    expander: Expander,
    context_files: &[PathBuf],
    deliver: crate::app::effect::ResultSender,
) {
    let root = expander.root();
    let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let known_names = context_files.iter().filter_map(name).collect();
    let source = Arc::new(SessionFiles { expander, known_names });
    let on_results = move |found: FinderResults| {
        let then: JobContinuation = Box::new(move |app| {
            app.completion.receive(found);
        });
        deliver.send(then);
    };
    match Finder::start(root, source, on_results) {
        Ok(finder) => app.completion.set_finder(finder),
        Err(error) => app.warn(format!("File completion failed: {error}")),
    }
    set_commands(app);
}

/// Sets the commands that `/` completes.
pub(crate) fn set_commands(app: &mut App) {
    let is_used = |name: &str| app.catalog.has_custom(name);
    let ours = |spec| {
        let (name, aliases) = available_names(spec, is_used);
        let disabled = spec.command == SlashCommand::Restore && !app.settings.checkpointing;
        CommandInfo { name, aliases, disabled, ..info(spec) }
    };
    let mut commands: Vec<CommandInfo> = TABLE.iter().map(ours).collect();
    for (name, description) in app.catalog.custom_commands() {
        commands.push(CommandInfo {
            name: name.clone(),
            description: crate::sanitize::sanitize(description),
            ..CommandInfo::default()
        });
    }
    for prompt in app.catalog.prompts() {
        let arguments: Vec<ArgumentValue> = prompt
            .arguments
            .iter()
            .map(|(name, what, _)| ArgumentValue {
                value: format!("--{name}=\""),
                description: crate::sanitize::sanitize(what),
            })
            .collect();
        commands.push(CommandInfo {
            name: prompt.name.clone(),
            description: crate::sanitize::sanitize(&prompt.description),
            completer: (!arguments.is_empty()).then(|| prompt_arguments(arguments)),
            ..CommandInfo::default()
        });
    }
    if let Some(launch) = &app.launch {
        let manager = launch.provider_manager();
        let mut names: Vec<ArgumentValue> = manager
            .model_choices()
            .into_iter()
            .map(|choice| ArgumentValue { value: choice.name, description: choice.model })
            .collect();
        let provider_models = manager.models_of_providers().into_iter();
        names.extend(provider_models.map(|name| ArgumentValue {
            value: crate::sanitize::sanitize(&name),
            description: String::new(),
        }));
        if let Some(set) = subcommand(&mut commands, "model", "set") {
            set.completer = Some(Arc::new(move |typed| {
                names.iter().filter(|name| name.value.starts_with(typed)).cloned().collect()
            }));
        }
    }
    if let Some(launch) = &app.launch {
        let root = launch.options().directory.clone();
        let mut paths = |name: &str, sub: &str, of: fn(&Path, &str) -> Vec<ArgumentValue>| {
            if let Some(command) = subcommand(&mut commands, name, sub) {
                let root = root.clone();
                command.completer = Some(Arc::new(move |typed| of(&root, typed)));
            }
        };
        paths("directory", "add", directories);
        paths("permissions", "trust", |root, typed| paths_of(root, typed, true));
        for name in ["chat", "resume"] {
            paths(name, "share", |root, typed| paths_of(root, typed, false));
        }
    }
    if let Some(accept) = subcommand(&mut commands, "agents", "accept")
        && let Some(set) = app.extensions.agent_set()
    {
        let names = set.unacknowledged.iter().map(|agent| ArgumentValue {
            value: crate::sanitize::sanitize(&agent.name),
            description: crate::sanitize::sanitize(&agent.description),
        });
        accept.completer = Some(names::complete_names(names.collect()));
    }
    names::add_names(app, &mut commands);
    argument_hints::add_words(app, &mut commands);
    app.completion.set_commands(commands);
    // The text being typed may be one of them.
    update(app);
}

/// Returns a subcommand in the completion list.
fn subcommand<'a>(
    commands: &'a mut [CommandInfo],
    name: &str,
    sub: &str,
) -> Option<&'a mut CommandInfo> {
    let command = commands.iter_mut().find(|command| command.name == name)?;
    command.subcommands.iter_mut().find(|it| it.name == sub)
}

/// Returns the paths that start with the typed text. If only directories are wanted, their trailing
/// `/` is removed.
fn paths_of(root: &Path, input: &str, only_directories: bool) -> Vec<ArgumentValue> {
    let entries = crate::completion::entries(root, input, MAX_FOLDERS);
    let fits = |path: &String| {
        (!only_directories || path.ends_with('/')) && !path.contains(char::is_control)
    };
    let shown = |path: String| match only_directories {
        true => path.trim_end_matches('/').to_owned(),
        false => path,
    };
    let paths = entries.into_iter().filter(fits).map(shown);
    paths.map(|value| ArgumentValue { value, description: String::new() }).collect()
}

/// Completes the last entry of a comma-separated list of directories.
fn directories(root: &Path, input: &str) -> Vec<ArgumentValue> {
    let (before, last) = match input.rfind(',') {
        Some(at) => input.split_at(at + 1),
        None => ("", input),
    };
    let prefix = last.trim_start();
    let before = format!("{before}{}", &last[..last.len() - prefix.len()]);
    let directories = paths_of(root, prefix, true).into_iter();
    directories
        .map(|directory| ArgumentValue {
            value: format!("{before}{}", directory.value),
            ..directory
        })
        .collect()
}

/// Completes the arguments that are not given yet.
fn prompt_arguments(arguments: Vec<ArgumentValue>) -> Completer {
    Arc::new(move |typed| {
        let (before, last) = match typed.rfind(' ') {
            Some(at) => typed.split_at(at + 1),
            None => ("", typed),
        };
        let is_open =
            |it: &&ArgumentValue| !before.contains(&it.value) && it.value.starts_with(last);
        let whole = |it: &ArgumentValue| ArgumentValue {
            value: format!("{before}{}", it.value),
            ..it.clone()
        };
        arguments.iter().filter(is_open).map(whole).collect()
    })
}

fn info(spec: &CommandSpec) -> CommandInfo {
    CommandInfo {
        name: spec.name.to_owned(),
        aliases: spec.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        description: spec.summary.to_owned(),
        auto_execute: spec.runs_on_enter(),
        section: (!spec.section.is_empty()).then(|| spec.section.to_owned()),
        subcommands: spec.subcommands.iter().filter(|sub| !sub.hidden).map(info).collect(),
        ..CommandInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_completed_after_the_last_comma() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sub/inner")).unwrap();
        std::fs::write(root.path().join("sum.txt"), "").unwrap();
        let offered = |typed: &str| -> Vec<String> {
            directories(root.path(), typed).into_iter().map(|it| it.value).collect()
        };
        assert_eq!(offered("su"), ["sub"]);
        assert_eq!(offered("sub/"), ["sub/inner"]);
        assert_eq!(offered("a, su"), ["a, sub"]);
        assert_eq!(offered("nothing"), [] as [&str; 0]);
        let files = paths_of(root.path(), "su", false);
        assert_eq!(files.iter().map(|it| &*it.value).collect::<Vec<_>>(), ["sub/", "sum.txt"]);
    }
}
