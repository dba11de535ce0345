//! Runs slash commands.

use std::path::PathBuf;

use parallax_commands::built_in::{COMMIT, COMMIT_NO_PUSH, COMMIT_PR, Init};
use parallax_config::EditorKeys;
use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::Launch;
use parallax_sdk::about::{INBOX, PRIVACY};
use parallax_sdk::trust::TrustLevel;
use parallax_sessions::SessionChoice;
use serde_json::Value;

use super::App;
use crate::app::commands::agents;
use crate::app::commands::agents::accept;
use crate::app::commands::agents::config;
use crate::app::commands::budget;
use crate::app::commands::choices;
use crate::app::commands::context;
use crate::app::commands::devtools;
use crate::app::commands::editor;
use crate::app::commands::extensions;
use crate::app::commands::info;
use crate::app::commands::lists;
use crate::app::commands::mcp;
use crate::app::commands::mcp::Detail;
use crate::app::commands::model_why;
use crate::app::commands::plan;
use crate::app::commands::rewind;
use crate::app::commands::saved_chats;
use crate::app::commands::sessions;
use crate::app::commands::settings;
use crate::app::commands::sign_in;
use crate::app::commands::skills_and_hooks;
use crate::app::commands::status_line_items;
use crate::app::effect::Effect;
use crate::app::pager;
use crate::commands::Command;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::layout::plain_rows;
use crate::stats_view;
use crate::terminal_setup;

pub(crate) fn run(app: &mut App, command: Command, arguments: &str) {
    let arguments = arguments.trim();
    match command {
        Command::About => info::about(app),
        Command::Agents => agents::list(app),
        Command::AgentsPanel => agents::panel(app),
        Command::AgentsAccept => accept::ask(app, arguments),
        Command::AgentsConfig => config::configure(app, arguments),
        Command::AgentsDisable => agents::switch(app, arguments, false),
        Command::AgentsEnable => agents::switch(app, arguments, true),
        Command::AgentsReload => agents::reload(app),
        Command::Auth => sign_in::open(app, None),
        Command::AuthSignOut => sign_out(app),
        Command::Budget => budget::run(app, arguments),
        Command::Bug => info::bug(app, arguments),
        Command::Chat => sessions::open(app),
        Command::ChatList => saved_chats::open(app),
        Command::ChatSave => saved_chats::save(app, arguments),
        Command::ChatResume if arguments.is_empty() => saved_chats::open(app),
        Command::ChatResume => saved_chats::resume(app, arguments),
        Command::ChatDelete => saved_chats::delete(app, arguments),
        Command::ChatShare => saved_chats::share(app, arguments),
        Command::Clear => {
            scroll_away(app);
            app.effect(Effect::Open(SessionChoice::Clear));
        }
        Command::Commit => app.submit_for_command(COMMIT.to_owned()),
        Command::CommitNoPush => app.submit_for_command(COMMIT_NO_PUSH.to_owned()),
        Command::CommitPr => app.submit_for_command(COMMIT_PR.to_owned()),
        Command::Compress => {
            let focus = (!arguments.is_empty()).then(|| arguments.to_owned());
            app.compact(focus);
        }
        Command::CommandsList => skills_and_hooks::list_commands(app, false),
        Command::CommandsReload => skills_and_hooks::list_commands(app, true),
        Command::CompressUndo => app.effect(Effect::Send(Op::UndoCompaction)),
        Command::Context => context::request(app),
        Command::Continue => app.effect(Effect::Send(Op::Continue)),
        Command::Copy => match app.turn.last_answer() {
            "" => app.info("No answer to copy yet."),
            answer => app.effect(Effect::Copy(answer.to_owned())),
        },
        Command::Debug => app.debug.toggle(),
        Command::DevTools => devtools::run(app, arguments),
        Command::Diff => info::diff(app),
        Command::Directory => info::directories(app),
        Command::DirectoryAdd => add_directories(app, arguments),
        Command::Docs => info::docs(app, arguments),
        Command::Editor => choices::editor_dialog(app),
        Command::Extensions
        | Command::ExtensionsPanel
        | Command::ExtensionsConfig
        | Command::ExtensionsDisable
        | Command::ExtensionsEnable
        | Command::ExtensionsExplore
        | Command::ExtensionsInstall
        | Command::ExtensionsLink
        | Command::ExtensionsReload
        | Command::ExtensionsUninstall
        | Command::ExtensionsUpdate => extensions::run(app, command, arguments),
        Command::ExportSession => saved_chats::export(app, arguments),
        Command::Footer => status_line_items::open(app),
        Command::Fork => sessions::fork(app, arguments),
        Command::Help => info::help(app),
        Command::Hooks => skills_and_hooks::hooks_dialog(app),
        Command::HooksAccept => skills_and_hooks::accept_hooks(app),
        Command::HooksDisable => skills_and_hooks::switch_hooks(app, Some(arguments), false),
        Command::HooksDisableAll => skills_and_hooks::switch_hooks(app, None, false),
        Command::HooksTrace => skills_and_hooks::trace_hooks(app),
        Command::HooksEnable => skills_and_hooks::switch_hooks(app, Some(arguments), true),
        Command::HooksEnableAll => skills_and_hooks::switch_hooks(app, None, true),
        Command::Ide => editor::status(app),
        Command::IdeDisable => editor::connect(app, false),
        Command::IdeDoctor => editor::doctor(app),
        Command::IdeEnable => editor::connect(app, true),
        Command::IdeInstall => editor::install(app),
        Command::Init => init(app),
        Command::Load => sessions::load(app, arguments),
        Command::Mcp => mcp::list(app, Detail::Names),
        Command::McpPanel => mcp::panel(app),
        Command::McpAuth => mcp::sign_in(app, arguments),
        Command::McpDescriptions => mcp::list(app, Detail::Descriptions),
        Command::McpDisable => mcp::switch(app, arguments, false),
        Command::McpEnable => mcp::switch(app, arguments, true),
        Command::McpReload => mcp::reload(app),
        Command::McpSchemas => mcp::list(app, Detail::Schemas),
        Command::Memory => info::memory(app, true),
        Command::MemoryList => info::memory(app, false),
        Command::MemoryAdd => add_memory(app, arguments),
        Command::MemoryInbox => app.info(INBOX),
        Command::MemoryReload => reload_memory(app),
        Command::Mode => lists::mode_dialog(app),
        Command::Model => sign_in::model_dialog(app),
        Command::ModelWhy => model_why::run(app),
        Command::ModelSet => match arguments.strip_suffix("--persist") {
            Some(name) => choices::use_model(app, name.trim(), true),
            None => choices::use_model(app, arguments, false),
        },
        Command::Parallax => agents::coordinate(app, arguments),
        Command::Permissions => choices::permissions_dialog(app),
        Command::PermissionsTrust => choices::set_trust(
            app,
            match arguments {
                "" => "trust",
                folder => folder,
            },
        ),
        Command::Plan => plan::run(app, arguments),
        Command::PlanCopy => plan::copy(app, arguments),
        Command::Policies => info::policies(app),
        Command::Privacy => app.say_wrapped(plain_rows(PRIVACY)),
        Command::Quit => match arguments {
            "" | "--delete" => app.effect(Effect::Quit { delete: !arguments.is_empty() }),
            other => app.error(format!("Unknown argument `{other}` of `/quit`; nothing was done")),
        },
        Command::Restore => rewind::restore(app, arguments),
        Command::Rewind => rewind::request(app),
        Command::Settings => settings::open(app),
        Command::Shortcuts => app.hints.toggle_shortcuts(),
        Command::SkillsPanel if arguments.is_empty() => skills_and_hooks::skills_panel(app),
        Command::Skills | Command::SkillsPanel => skills_and_hooks::list_skills(app, arguments),
        Command::SkillsDisable => skills_and_hooks::switch_skill(app, arguments, false),
        Command::SkillsEnable => skills_and_hooks::switch_skill(app, arguments, true),
        Command::SkillsUnload => skills_and_hooks::unload_skill(app, arguments),
        Command::SkillsLink => skills_and_hooks::link_skill(app, arguments),
        Command::SkillsReload => skills_and_hooks::reload_skills(app),
        Command::StatsPanel => info::stats_panel(app),
        Command::Stats => info::stats(app, stats_view::Part::Session),
        Command::StatsModel => info::stats(app, stats_view::Part::Models),
        Command::StatsTools => info::stats(app, stats_view::Part::Tools),
        Command::Tasks => lists::tasks_dialog(app),
        Command::TerminalSetup => set_up_terminal(app),
        Command::Theme if arguments.is_empty() => choices::theme_dialog(app),
        Command::Theme => choices::use_theme(app, arguments),
        Command::Todos => {
            let rows = app.todos.rows(app.window.width(), &app.theme);
            app.say(rows);
        }
        Command::Tools => info::tools(app, false),
        Command::ToolsDescriptions => info::tools(app, true),
        Command::Transcript => pager::open(app),
        Command::Undo => undo(app, arguments),
        Command::Vim => {
            let on = !app.settings.vim;
            app.keep_setting("general.vimMode", Some(Value::Bool(on)));
            app.toast(if on { "vi keys" } else { "standard keys" });
        }
    }
}

/// Scrolls the conversation out of view; it stays in the scrollback.
fn scroll_away(app: &mut App) {
    if !app.settings.screen_reader {
        app.say(vec![Line::EMPTY; app.window.rows()]);
    }
}

fn sign_out(app: &mut App) {
    app.ask(
        |launch| launch.provider_manager().forget_key(),
        |app, forgotten| match forgotten {
            Ok(true) => sign_in::open(app, Some("API key deleted.")),
            Ok(false) => {
                app.info("No saved API key. A key in an environment variable stays in use.")
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

fn add_directories(app: &mut App, paths: &str) {
    if paths.is_empty() {
        return app.error("No directory given: use `/directory add PATH[,PATH…]`.");
    }
    let paths: Vec<String> = paths.split(',').map(|path| path.trim().to_owned()).collect();
    app.ask(
        move |launch| {
            let path = |typed: &String| launch.folder_and_trust(typed);
            paths.iter().map(path).collect::<Vec<_>>()
        },
        |app, folders| {
            let mut strange = Vec::new();
            for folder in folders {
                match folder {
                    Ok((path, true)) => add_directory(app, path),
                    Ok((path, false)) => strange.push(path),
                    Err(failure) => app.error(failure.message),
                }
            }
            ask_folder_trust(app, strange);
        },
    );
}

fn add_directory(app: &mut App, path: PathBuf) {
    app.info(format!("Added {}", path.display()));
    app.effect(Effect::Send(Op::AddDirectory(path)));
}

/// Asks about untrusted directories, one after the other.
fn ask_folder_trust(app: &mut App, folders: Vec<PathBuf>) {
    let Some(folder) = folders.first() else { return };
    let items = vec![
        ListItem::new("yes", "Trust it and add it", "files in it can be read as instructions"),
        ListItem::new("no", "Do not add it", ""),
    ];
    let title = format!("Do you want to trust this folder? {}", folder.display());
    let list = ListDialog::new(title, items);
    app.open(Overlay::list(Purpose::AddFolder(folders), list));
}

/// Handles the answer for the first directory.
pub(crate) fn folder_trust_said(app: &mut App, mut folders: Vec<PathBuf>, trusted: bool) {
    app.dialogs.close();
    if folders.is_empty() {
        return;
    }
    let folder = folders.remove(0);
    if !trusted {
        app.info(format!("{} was not added.", folder.display()));
        return ask_folder_trust(app, folders);
    }
    app.ask(
        move |launch| launch.set_trust(&folder, Some(TrustLevel::TrustFolder)).map(|_| folder),
        |app, said| {
            match said {
                Ok(folder) => add_directory(app, folder),
                Err(failure) => app.error(failure.message),
            }
            ask_folder_trust(app, folders);
        },
    );
}

fn init(app: &mut App) {
    app.ask(
        |launch| parallax_commands::built_in::init(launch.directory()),
        |app, init| match init {
            Ok(Init::There(path)) => {
                app.info(format!("{} already exists; nothing was changed.", path.display()));
            }
            Ok(Init::Prompt(prompt)) => app.submit_for_command(prompt.to_owned()),
            Err(failure) => app.error(failure.message),
        },
    );
}

fn add_memory(app: &mut App, fact: &str) {
    if fact.is_empty() {
        return app.error("No text given: use `/memory add TEXT`.");
    }
    let fact = fact.to_owned();
    app.ask(
        move |launch| launch.context_sources().add_memory(&fact),
        |app, kept| match kept {
            Ok(path) => {
                app.info(format!(
                    "Saved to {}. It takes effect with the next session or after `/memory \
                     reload`.",
                    path.display()
                ));
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

fn reload_memory(app: &mut App) {
    if app.is_busy() {
        return app.toast("Not available while the agent is running (Esc to stop)");
    }
    app.reload_then(|app| {
        app.ask_session(
            |session| session.context_files.len(),
            |app, files| match files {
                0 => app.info("Reloaded: no context files."),
                1 => app.info("Reloaded: one context file."),
                files => app.info(format!("Reloaded: {files} context files.")),
            },
        );
    });
}

fn set_up_terminal(app: &mut App) {
    let setup = |launch: &Launch| {
        let editor = terminal_setup::terminal_editor(launch)?;
        Some((editor, terminal_setup::set_up(launch, editor)))
    };
    app.ask(setup, |app, done| match done {
        None => app.info(
            "Nothing to configure: this is not the terminal of VS Code, Cursor, or Windsurf. \
             Ctrl+J, or `\\` followed by Enter, starts a new line in every terminal.",
        ),
        Some((editor, Ok((file, keys)))) => app.info(match keys {
            EditorKeys::There => format!("{} already has the key bindings.", editor.name()),
            EditorKeys::Added { keys, .. } => {
                format!("Added {} to {}", keys.join(" and "), file.display())
            }
            EditorKeys::Taken { keys } => format!(
                "{} is bound to another command in {}; nothing was changed",
                keys.join(" and "),
                file.display()
            ),
        }),
        Some((_, Err(failure))) => app.error(failure.message),
    });
}

fn undo(app: &mut App, prompt: &str) {
    let (prompt, force) = match prompt.strip_suffix("--force") {
        Some(prompt) => (prompt.trim(), true),
        None => (prompt, false),
    };
    let prompt = match prompt {
        "" => None,
        typed => match typed.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                return app
                    .error(format!("Unknown prompt `{typed}`; `/rewind` lists the prompts."));
            }
        },
    };
    app.effect(Effect::Send(Op::Undo { prompt, force }));
}
