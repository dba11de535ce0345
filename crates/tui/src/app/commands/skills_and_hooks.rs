//! `/skills`, `/hooks` and `/commands`: lists, enables, and disables user extensions of these
//! kinds.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::HookInfo;
use parallax_sdk::settings::SettingScope;
use parallax_sdk::skills::SkillInfo;

use crate::app::App;
use crate::app::commands::agents;
use crate::app::commands::custom_commands;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;

/// Reopens the session, which reloads everything that the user added.
pub(crate) fn reload_all(app: &mut App) {
    if app.is_busy() {
        return app
            .info("The change takes effect when the agent is done and the session is reopened.");
    }
    app.reload();
}

/// Like [`reload_all`], with a confirmation message.
pub(crate) fn reload_all_and_confirm(app: &mut App) {
    if app.is_busy() {
        return reload_all(app);
    }
    app.reload_and_then(|app| {
        app.info("Reloaded extensions, skills, agents, hooks, and commands.")
    });
}

/// `list [nodesc] [all]`.
pub(crate) fn list_skills(app: &mut App, arguments: &str) {
    let has = |word: &str| arguments.split_whitespace().any(|it| it == word);
    let (described, all) = (!has("nodesc"), has("all"));
    with_skills(app, move |app, skills, notes| {
        let listed = skills.iter().filter(|skill| all || skill.enabled);
        let mut rows: Vec<Line> =
            listed.flat_map(|skill| skill_rows(app, skill, described)).collect();
        let off: Vec<String> = (skills.iter().filter(|skill| !skill.enabled && !all))
            .map(|skill| format!("`{}`", sanitize(&skill.name)))
            .collect();
        if !off.is_empty() {
            let text = format!("  Disabled: {} (`/skills enable NAME`)", off.join(", "));
            rows.push(Line::styled(text, app.theme.secondary));
        }
        rows.extend(warning_rows(app, notes));
        app.show_wrapped_rows(rows);
    });
}

/// Opens the list of skills: Enter enables or disables one.
pub(crate) fn open_skills_dialog(app: &mut App) {
    if app.settings.screen_reader {
        return list_skills(app, "");
    }
    with_skills(app, |app, skills, notes| {
        let list = ListDialog::new("Skills", skills.iter().map(skill_item).collect())
            .with_search()
            .warnings(warning_rows(app, notes))
            .hint("enter enable or disable · esc close");
        app.open(Overlay::list(DialogPurpose::Skills, list));
    });
}

fn skill_item(skill: &SkillInfo) -> ListItem {
    let detail = format!("{} · {}", skill.source, ListItem::state(skill.enabled));
    ListItem::new(skill.name.clone(), &skill.name, detail).with_description(&skill.description)
}

/// Enables or disables a skill from the list, which stays open.
pub(crate) fn skill_chosen(app: &mut App, name: &str) {
    let name = name.to_owned();
    app.run_with_config(
        move |launch| {
            let library = launch.skill_library();
            let on = library.infos().0.iter().any(|skill| skill.name == name && !skill.enabled);
            library.set_enabled(&name, on, SettingScope::User).map(drop)
        },
        |app, done| match done {
            Ok(()) => {
                read_skills(app, false);
                with_skills(app, |app, skills, _| {
                    if let Some(list) = app.dialogs.list_for(&DialogPurpose::Skills) {
                        list.replace(skills.iter().map(skill_item).collect());
                    }
                });
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

fn with_skills(
    app: &mut App,
    show: impl FnOnce(&mut App, &[SkillInfo], &[String]) + Send + 'static,
) {
    app.run_with_config(
        |launch| launch.skill_library().infos(),
        |app, (skills, notes)| match skills.as_slice() {
            [] => app.info("No skills. Install some with `parallax skills install SOURCE`."),
            skills => show(app, skills, &notes),
        },
    );
}

fn skill_rows(app: &App, skill: &SkillInfo, described: bool) -> Vec<Line> {
    let off = if skill.enabled { "" } else { ", disabled" };
    let mut rows = vec![
        Line::styled(format!("  {}", sanitize(&skill.name)), app.theme.accent)
            .with_span(format!(" ({}{off})", skill.source), app.theme.secondary),
    ];
    if described {
        let text = format!("    {}", sanitize(&skill.description));
        rows.push(Line::styled(text, app.theme.text));
    }
    rows
}

fn warning_rows(app: &App, notes: &[String]) -> Vec<Line> {
    notes.iter().map(|note| Line::styled(format!("  {note}"), app.theme.warning)).collect()
}

/// Reloads the skill files and their settings.
pub(crate) fn reload_skills(app: &mut App) {
    read_skills(app, true);
}

/// Reloads the skills; `counted` shows their number. The model is informed with its next
/// request.
fn read_skills(app: &mut App, counted: bool) {
    let Some(skills) = app.extensions.skills().cloned() else { return app.report_not_ready() };
    app.queue_effect(Effect::Run(Box::new(move || {
        let result = skills.reload();
        Box::new(move |app| match result {
            Ok(result) => {
                if counted {
                    app.info(format!("{} skills are enabled.", skills.count()));
                    result.into_iter().for_each(|(_, line)| app.info(line));
                }
                refresh_completions(app);
            }
            Err(failure) => app.error(failure.message),
        })
    })));
}

/// Updates the completions after files changed.
pub(crate) fn refresh_completions(app: &mut App) {
    if let Some(set) = app.extensions.agent_set() {
        agents::mention(app, &set);
    }
    if app.extensions.skills_changed() {
        custom_commands::load(app);
    }
}

pub(crate) fn switch_skill(app: &mut App, name: &str, on: bool) {
    let verb = if on { "enable" } else { "disable" };
    if name.is_empty() {
        return app.error(format!("No skill given: use `/skills {verb} NAME`."));
    }
    let name = name.to_owned();
    app.run_with_config(
        move |launch| {
            launch
                .skill_library()
                .set_enabled(&name, on, SettingScope::User)
                .map(|file| (name, file))
        },
        move |app, done| match done {
            Ok((name, _)) => {
                app.info(format!("Skill `{name}` {verb}d."));
                read_skills(app, false);
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Removes a skill's instructions from the context.
pub(crate) fn unload_skill(app: &mut App, name: &str) {
    if name.is_empty() {
        return app.error("No skill given: use `/skills unload NAME`.");
    }
    app.queue_effect(Effect::Send(Op::UnloadSkill(name.to_owned())));
}

/// `PATH [--scope user|workspace]`.
pub(crate) fn link_skill(app: &mut App, arguments: &str) {
    let (path, scope) = match arguments.split_once("--scope") {
        Some((path, "")) => (path, SettingScope::User),
        Some((path, scope)) if ["workspace", "project"].contains(&scope.trim()) => {
            (path, SettingScope::Workspace)
        }
        Some((path, _)) => (path, SettingScope::User),
        None => (arguments, SettingScope::User),
    };
    let path = path.trim().to_owned();
    if path.is_empty() {
        return app
            .error("No directory given: use `/skills link DIRECTORY [--scope user|workspace]`.");
    }
    app.run_with_config(
        move |launch| {
            let skills =
                parallax_extensions::skill_files::fetch_skills(launch.config(), &path, None)?;
            parallax_extensions::skill_files::link_skills(launch.config(), &skills, scope)
        },
        |app, done| match done {
            Ok(links) => {
                for link in links {
                    app.info(format!("Linked: {}", link.display()));
                }
                read_skills(app, false);
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Opens the hooks dialog: each hook with its command; Enter enables or disables it.
pub(crate) fn open_hooks_dialog(app: &mut App) {
    app.run_with_config(
        |launch| launch.hook_library().infos(),
        |app, report| {
            let (hooks, notes) = match report {
                Ok(report) => report,
                Err(failure) => return app.error(failure.message),
            };
            for note in notes {
                app.warn(note);
            }
            if hooks.is_empty() {
                app.dialogs.close();
                return app.info(
                    "No hooks. Define them under `hooks` in a settings file; see `/docs hooks`.",
                );
            }
            let mut sources: Vec<&String> = hooks.iter().map(|hook| &hook.source).collect();
            sources.sort();
            sources.dedup();
            let item = |hook: &HookInfo| {
                let tab = sources.iter().position(|source| **source == hook.source);
                ListItem { tab: tab.unwrap_or(0), ..hook_item(app, hook) }
            };
            let items: Vec<ListItem> = hooks.iter().map(item).collect();
            let tabs: Vec<String> = sources.into_iter().map(|source| capitalize(source)).collect();
            // After a change in the dialog, keep the cursor position.
            if let Some(list) = app.dialogs.list_for(&DialogPurpose::Hooks) {
                return list.replace_with_tabs(items, tabs);
            }
            let list = ListDialog::new("Hooks", items)
                .with_search()
                .with_tabs(tabs)
                .hint("enter enable or disable · esc close");
            app.open(Overlay::list(DialogPurpose::Hooks, list));
        },
    );
}

/// Shows the most recent hook runs of this session.
pub(crate) fn trace_hooks(app: &mut App) {
    const MAX_SHOWN: usize = 40;
    let session = app.session.id().to_owned();
    app.run_with_config(
        move |launch| {
            parallax_hooks::hook_trace(&launch.dirs(), launch.directory(), Some(&session))
        },
        |app, report| match report {
            Ok(entries) => {
                let first = entries.len().saturating_sub(MAX_SHOWN);
                let last = entries.get(first..).unwrap_or_default();
                let lines: Vec<String> =
                    last.iter().map(|entry| format!("- {}", sanitize(&entry.line()))).collect();
                app.info(lines.join("\n"));
            }
            Err(_) => app.info("No hook has run in this session yet."),
        },
    );
}

/// Returns a word as the title of a tab.
fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect::<String>())
}

fn hook_item(app: &App, hook: &HookInfo) -> ListItem {
    let detail = format!("{} · {} · {}", hook.event, hook.source, hook.state());
    let line = |text: String| Line::styled(text, app.theme.secondary);
    let mut preview = vec![line(format!("$ {}", sanitize(&hook.shown_command)))];
    if !hook.matcher.is_empty() {
        preview.push(line(format!("for: {}", sanitize(&hook.matcher))));
    }
    if !hook.description.is_empty() {
        preview.push(line(sanitize(&hook.description)));
    }
    preview.push(line(format!("in {}", hook.file.display())));
    ListItem::new(hook.title.clone(), sanitize(&hook.title), detail).with_preview(preview)
}

/// Accepts the project's current hooks, which run from now on.
pub(crate) fn accept_hooks(app: &mut App) {
    let trusted = app.status_data.trusted;
    app.run_with_config(
        |launch| {
            let library = launch.hook_library();
            let count = library.accept()?;
            let (hooks, _) = library.infos()?;
            Ok((count, hooks.iter().any(|hook| hook.is_removed)))
        },
        move |app, done: Result<(usize, bool), Failure>| match done {
            Ok((0, true)) => {
                app.info("The project has no hooks now; removed hooks are stopped.");
                reload_all(app);
            }
            Ok((0, _)) if !trusted => {
                app.error(
                    "The folder is not trusted, so its hooks are ignored (see /permissions).",
                );
            }
            Ok((0, _)) => app.info("The project has no hooks."),
            Ok((count, _)) => {
                let hooks = crate::layout::count(count, "hook");
                app.info(format!("Accepted {hooks} of the project as they are now."));
                reload_all(app);
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Handles Enter in the hooks dialog.
pub(crate) fn hook_chosen(app: &mut App, title: &str) {
    let title = title.to_owned();
    app.run_with_config(
        move |launch| {
            let (hooks, _) = launch.hook_library().infos()?;
            if !hooks.iter().any(|hook| hook.title == title && !hook.is_removed) {
                let message =
                    "no settings file defines this hook: run `/hooks accept` to remove it";
                return Err(Failure::new(FailureKind::Input, message.to_owned()));
            }
            let on = hooks.iter().any(|hook| hook.title == title && !hook.enabled);
            launch.hook_library().set_enabled(&title, on, SettingScope::User).map(drop)
        },
        |app, done| match done {
            Ok(()) => {
                app.extensions.note_hook_change();
                open_hooks_dialog(app);
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Applies the changes when the hooks dialog closes.
pub(crate) fn apply_hook_changes(app: &mut App) {
    if app.extensions.take_hook_change() {
        reload_all(app);
    }
}

/// Enables or disables one hook by name or command, or all hooks.
pub(crate) fn switch_hooks(app: &mut App, name: Option<&str>, on: bool) {
    let verb = if on { "enable" } else { "disable" };
    if name == Some("") {
        return app.error(format!("No hook given: use `/hooks {verb} NAME`."));
    }
    let name = name.map(str::to_owned);
    app.run_with_config(
        move |launch| {
            let (hooks, _) = launch.hook_library().infos()?;
            let mut switched = Vec::new();
            for hook in hooks.into_iter().filter(|hook| !hook.is_removed) {
                let is_requested = match &name {
                    Some(name) => hook.title == *name || hook.command == *name,
                    None => hook.enabled != on,
                };
                if is_requested && !switched.contains(&hook.title) {
                    launch.hook_library().set_enabled(&hook.title, on, SettingScope::User)?;
                    switched.push(hook.title);
                }
            }
            Ok(switched)
        },
        move |app, done: Result<Vec<String>, Failure>| match done {
            Ok(switched) if switched.is_empty() => {
                app.error("Unknown hook; `/hooks` lists the hooks.")
            }
            Ok(switched) => {
                app.info(format!("Hooks {verb}d: `{}`.", switched.join("`, `")));
                reload_all(app);
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Lists the command files, grouped by their source.
pub(crate) fn list_commands(app: &mut App, is_reload: bool) {
    let Some(commands) = app.catalog.commands().cloned() else { return app.report_not_ready() };
    app.queue_effect(Effect::Run(Box::new(move || {
        let catalog = if is_reload { commands.reload() } else { commands.catalog() };
        let prompts = commands.prompts();
        Box::new(move |app| {
            let mut rows = Vec::new();
            for (title, names) in parallax_commands::command_groups(&catalog, &prompts) {
                rows.push(Line::styled(title, app.theme.accent.bold()));
                for (name, what) in names {
                    rows.push(
                        Line::styled(format!("  /{}", sanitize(&name)), app.theme.accent)
                            .with_span(format!(" {}", sanitize(&what)), app.theme.secondary),
                    );
                }
            }
            let problems =
                catalog.problems().map(|text| format!("Cannot use a command file: {text}"));
            let warnings: Vec<String> =
                problems.chain(catalog.conflicts().iter().cloned()).collect();
            if rows.is_empty() && warnings.is_empty() {
                app.info("No custom commands. Create one with `parallax commands new NAME`.");
            }
            app.show_wrapped_rows(rows);
            warnings.into_iter().for_each(|text| app.warn(text));
            custom_commands::load(app);
        })
    })));
}
