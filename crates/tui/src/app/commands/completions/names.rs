//! Names for completing command arguments: saved conversations, servers, skills. They are collected
//! when the command name is typed, so that the list is current and nothing is read before it is
//! needed.

use std::sync::Arc;

use parallax_sdk::{OpenSession, SessionConfig};

use crate::app::App;
use crate::app::commands::completions;
use crate::app::effect::Effect;
use crate::completion::{ArgumentValue, CommandInfo, Completer};
use crate::sanitize::sanitize;

/// Maximum number of sessions offered.
const MAX_SESSIONS: usize = 100;

/// Commands that take names, with the subcommands that come before the name; `""` means none.
const NAMED: &[(&str, &[&str])] = &[
    ("agents", &["enable", "disable", "config"]),
    ("chat", &["resume", "delete"]),
    ("extensions", &["update", "uninstall", "enable", "disable", "config"]),
    ("hooks", &["enable", "disable"]),
    ("load", &[""]),
    ("mcp", &["auth", "enable", "disable"]),
    ("restore", &[""]),
    ("resume", &["resume", "delete"]),
    ("skills", &["enable", "disable", "unload"]),
];

fn argument(value: &str, description: impl AsRef<str>) -> ArgumentValue {
    ArgumentValue { value: sanitize(value), description: sanitize(description.as_ref()) }
}

/// Collects the names for the command being typed, once per command.
pub(crate) fn collect(app: &mut App) {
    let line = app.composer.buffer().text().line(0);
    let typed = line.strip_prefix('/').and_then(|line| line.split_once(' '));
    let of = typed.and_then(|(word, _)| NAMED.iter().find(|(name, _)| *name == word));
    let of = of.map_or("", |(name, _)| *name);
    if !app.catalog.collect_arguments(of) {
        return;
    }
    match of {
        "agents" => {
            let set = app.extensions.agent_set();
            let names = set.iter().flat_map(|set| &set.agents);
            let names = names.map(|it| argument(&it.name, &it.description)).collect();
            handle_collected(app, of, names);
        }
        "mcp" => {
            let names = |open: &OpenSession| open.mcp_view().map(|view| view.rows());
            ask_session_if_open(app, names, |app, rows| {
                let rows = rows.unwrap_or_default();
                let names = rows.iter().map(|row| argument(&row.name, row.status)).collect();
                handle_collected(app, "mcp", names);
            });
        }
        "restore" if !app.settings.checkpointing => {}
        "restore" => ask_session_if_open(app, OpenSession::rewind_preview, |app, back| {
            app.queue_effect(Effect::Run(Box::new(move || {
                let points = back.restore_points().unwrap_or_default();
                let name =
                    |it: &parallax_sdk::rewind_preview::RestorePoint| argument(&it.name, &it.tool);
                let names = points.iter().rev().map(name).collect();
                Box::new(move |app| handle_collected(app, "restore", names))
            })));
        }),
        of => {
            let Some(launch) = app.launch.clone() else { return };
            app.queue_effect(Effect::Run(Box::new(move || {
                let names = stored_names(of, &launch);
                Box::new(move |app| handle_collected(app, of, names))
            })));
        }
    }
}

/// Queries the session if one is open.
fn ask_session_if_open<T: Send + 'static>(
    app: &mut App,
    work: impl FnOnce(&OpenSession) -> T + Send + 'static,
    then: impl FnOnce(&mut App, T) + Send + 'static,
) {
    if app.session.is_ready() && !app.session.is_attached() {
        app.run_with_session(work, then);
    }
}

fn handle_collected(app: &mut App, of: &str, names: Vec<ArgumentValue>) {
    if app.catalog.set_arguments(of, names) {
        completions::set_commands(app);
    }
}

/// Adds the collected names to the completions of their command.
pub(crate) fn add_names(app: &App, commands: &mut [CommandInfo]) {
    let (of, names) = app.catalog.arguments();
    let Some((name, words)) = NAMED.iter().find(|(name, _)| *name == of) else { return };
    let completer = complete_names(names.to_vec());
    let Some(command) = commands.iter_mut().find(|command| command.name == *name) else {
        return;
    };
    if words.contains(&"") {
        command.completer = Some(completer);
        return;
    }
    for sub in command.subcommands.iter_mut().filter(|sub| words.contains(&&*sub.name)) {
        sub.completer = Some(Arc::clone(&completer));
    }
}

/// Returns the names stored in files. Blocking.
fn stored_names(of: &str, launch: &SessionConfig) -> Vec<ArgumentValue> {
    match of {
        "chat" | "resume" => {
            let chats = launch.session_library().chats();
            chats.iter().rev().map(|chat| argument(&chat.tag, chat.age())).collect()
        }
        "load" => {
            let mut sessions = launch.session_library().sessions();
            sessions.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
            let newest = sessions.iter().take(MAX_SESSIONS);
            newest.map(|it| argument(&it.id, format!("{} · {}", it.title, it.age()))).collect()
        }
        "skills" => {
            let (skills, _) = launch.skill_library().infos();
            skills.iter().map(|skill| argument(&skill.name, &skill.description)).collect()
        }
        "hooks" => {
            let hooks = launch.hook_library().infos().map(|(hooks, _)| hooks).unwrap_or_default();
            hooks.iter().map(|hook| argument(&hook.title, hook.event)).collect()
        }
        "extensions" => {
            let known = launch.extensions();
            known.all.iter().map(|extension| argument(extension.name(), "")).collect()
        }
        _ => Vec::new(),
    }
}

/// Completes names that contain the typed text; names that start with it come first.
pub(super) fn complete_names(names: Vec<ArgumentValue>) -> Completer {
    Arc::new(move |typed| {
        let prefix = typed.to_lowercase();
        let mut matches: Vec<(bool, &ArgumentValue)> = names
            .iter()
            .filter_map(|name| {
                let value = name.value.to_lowercase();
                value.contains(&prefix).then(|| (!value.starts_with(&prefix), name))
            })
            .collect();
        matches.sort_by_key(|(inside, _)| *inside);
        matches.into_iter().map(|(_, name)| name.clone()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_matches_come_first() {
        let names = ["my-fix", "fix-it", "other"].map(|name| argument(name, ""));
        let completer = complete_names(names.to_vec());
        let offered = |typed: &str| -> Vec<String> {
            completer(typed).into_iter().map(|it| it.value).collect()
        };
        assert_eq!(offered("FIX"), ["fix-it", "my-fix"]);
        assert_eq!(offered("").len(), 3);
    }

    #[test]
    fn every_command_with_completed_names_exists() {
        for (name, words) in NAMED {
            let command = crate::commands::TABLE.iter().find(|it| it.name == *name);
            let command = command.unwrap_or_else(|| panic!("no /{name}"));
            for word in words.iter().filter(|word| !word.is_empty()) {
                assert!(command.subcommands.iter().any(|sub| sub.name == *word), "{name} {word}");
            }
        }
    }
}
