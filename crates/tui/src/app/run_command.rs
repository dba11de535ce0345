//! Runs slash commands.

use std::path::PathBuf;

use parallax_commands::built_in::{COMMIT, COMMIT_NO_PUSH, COMMIT_PR, InitResult};
use parallax_config::EditorKeys;
use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::SessionConfig;
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
use crate::app::commands::explain_model;
use crate::app::commands::extensions;
use crate::app::commands::info;
use crate::app::commands::lists;
use crate::app::commands::mcp;
use crate::app::commands::mcp::DetailLevel;
use crate::app::commands::plan;
use crate::app::commands::rewind;
use crate::app::commands::saved_chats;
use crate::app::commands::sessions;
use crate::app::commands::settings;
use crate::app::commands::sign_in;
use crate::app::commands::skills_and_hooks;
use crate::app::commands::status_line_items;
use crate::app::commands::welcome;
use crate::app::effect::Effect;
use crate::app::pager;
use crate::commands::SlashCommand;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::layout::plain_rows;
use crate::stats_view;
use crate::terminal_setup;

pub(crate) fn run(app: &mut App, command: SlashCommand, arguments: &str) {
    let arguments = arguments.trim();
    match command {
        SlashCommand::About => info::about(app),
        SlashCommand::Agents => agents::list(app),
        SlashCommand::AgentsPanel => agents::open_dialog(app),
        SlashCommand::AgentsAccept => accept::ask(app, arguments),
        SlashCommand::AgentsConfig => config::configure(app, arguments),
        SlashCommand::AgentsDisable => agents::set_enabled(app, arguments, false),
        SlashCommand::AgentsEnable => agents::set_enabled(app, arguments, true),
        SlashCommand::AgentsReload => agents::reload(app),
        SlashCommand::Auth => sign_in::open(app, None),
        SlashCommand::AuthSignOut => sign_out(app),
        SlashCommand::Budget => budget::run(app, arguments),
        SlashCommand::Bug => info::bug(app, arguments),
        SlashCommand::Chat => sessions::open(app),
        SlashCommand::ChatList => saved_chats::open(app),
        SlashCommand::ChatSave => saved_chats::save(app, arguments),
        SlashCommand::ChatResume if arguments.is_empty() => saved_chats::open(app),
        SlashCommand::ChatResume => saved_chats::resume(app, arguments),
        SlashCommand::ChatDelete => saved_chats::delete(app, arguments),
        SlashCommand::ChatShare => saved_chats::share(app, arguments),
        SlashCommand::Clear => {
            scroll_away(app);
            welcome::short_header(app);
            app.queue_effect(Effect::Open(SessionChoice::Clear));
        }
        SlashCommand::Commit => app.submit_for_command(COMMIT.to_owned()),
        SlashCommand::CommitNoPush => app.submit_for_command(COMMIT_NO_PUSH.to_owned()),
        SlashCommand::CommitPr => app.submit_for_command(COMMIT_PR.to_owned()),
        SlashCommand::Compress => {
            let focus = (!arguments.is_empty()).then(|| arguments.to_owned());
            app.compact(focus);
        }
        SlashCommand::CommandsList => skills_and_hooks::list_commands(app, false),
        SlashCommand::CommandsReload => skills_and_hooks::list_commands(app, true),
        SlashCommand::CompressUndo => app.queue_effect(Effect::Send(Op::UndoCompaction)),
        SlashCommand::Context => context::request(app),
        SlashCommand::Continue => app.queue_effect(Effect::Send(Op::Continue)),
        SlashCommand::Copy => match app.turn.last_answer() {
            "" => app.info("No answer to copy yet."),
            answer => app.queue_effect(Effect::Copy(answer.to_owned())),
        },
        SlashCommand::Debug => app.debug.toggle(),
        SlashCommand::DevTools => devtools::run(app, arguments),
        SlashCommand::Diff => info::diff(app),
        SlashCommand::Directory => info::directories(app),
        SlashCommand::DirectoryAdd => add_directories(app, arguments),
        SlashCommand::Docs => info::docs(app, arguments),
        SlashCommand::Editor => choices::open_editor_dialog(app),
        SlashCommand::Extensions
        | SlashCommand::ExtensionsPanel
        | SlashCommand::ExtensionsConfig
        | SlashCommand::ExtensionsDisable
        | SlashCommand::ExtensionsEnable
        | SlashCommand::ExtensionsExplore
        | SlashCommand::ExtensionsInstall
        | SlashCommand::ExtensionsLink
        | SlashCommand::ExtensionsReload
        | SlashCommand::ExtensionsUninstall
        | SlashCommand::ExtensionsUpdate => extensions::run(app, command, arguments),
        SlashCommand::ExportSession => saved_chats::export(app, arguments),
        SlashCommand::Footer => status_line_items::open(app),
        SlashCommand::Fork => sessions::fork(app, arguments),
        SlashCommand::Help => info::help(app),
        SlashCommand::Hooks => skills_and_hooks::open_hooks_dialog(app),
        SlashCommand::HooksAccept => skills_and_hooks::accept_hooks(app),
        SlashCommand::HooksDisable => skills_and_hooks::switch_hooks(app, Some(arguments), false),
        SlashCommand::HooksDisableAll => skills_and_hooks::switch_hooks(app, None, false),
        SlashCommand::HooksTrace => skills_and_hooks::trace_hooks(app),
        SlashCommand::HooksEnable => skills_and_hooks::switch_hooks(app, Some(arguments), true),
        SlashCommand::HooksEnableAll => skills_and_hooks::switch_hooks(app, None, true),
        SlashCommand::Ide => editor::status(app),
        SlashCommand::IdeDisable => editor::connect(app, false),
        SlashCommand::IdeDoctor => editor::doctor(app),
        SlashCommand::IdeEnable => editor::connect(app, true),
        SlashCommand::IdeInstall => editor::install(app),
        SlashCommand::Init => init(app),
        SlashCommand::Load => sessions::load(app, arguments),
        SlashCommand::Mcp => mcp::list(app, DetailLevel::Names),
        SlashCommand::McpPanel => mcp::open_panel(app),
        SlashCommand::McpAuth => mcp::sign_in(app, arguments),
        SlashCommand::McpDescriptions => mcp::list(app, DetailLevel::Descriptions),
        SlashCommand::McpDisable => mcp::set_enabled(app, arguments, false),
        SlashCommand::McpEnable => mcp::set_enabled(app, arguments, true),
        SlashCommand::McpReload => mcp::reload(app),
        SlashCommand::McpSchemas => mcp::list(app, DetailLevel::Schemas),
        SlashCommand::Memory => info::memory(app, true),
        SlashCommand::MemoryList => info::memory(app, false),
        SlashCommand::MemoryAdd => add_memory(app, arguments),
        SlashCommand::MemoryInbox => app.info(INBOX),
        SlashCommand::MemoryReload => reload_memory(app),
        SlashCommand::Mode => lists::open_mode_dialog(app),
        SlashCommand::Model => sign_in::open_model_dialog(app),
        SlashCommand::ModelWhy => explain_model::run(app),
        SlashCommand::ModelSet => match arguments.strip_suffix("--persist") {
            Some(name) => choices::use_model(app, name.trim(), true),
            None => choices::use_model(app, arguments, false),
        },
        SlashCommand::Parallax => agents::coordinate(app, arguments),
        SlashCommand::Permissions => choices::open_permissions_dialog(app),
        SlashCommand::PermissionsTrust => choices::set_trust(
            app,
            match arguments {
                "" => "trust",
                folder => folder,
            },
        ),
        SlashCommand::Plan => plan::run(app, arguments),
        SlashCommand::PlanCopy => plan::copy(app, arguments),
        SlashCommand::Policies => info::policies(app),
        SlashCommand::PoliciesPanel => info::open_policies_panel(app),
        SlashCommand::Privacy => app.show_wrapped_rows(plain_rows(PRIVACY)),
        SlashCommand::Quit => match arguments {
            "" | "--delete" => app.queue_effect(Effect::Quit { delete: !arguments.is_empty() }),
            other => app.error(format!("Unknown argument `{other}` of `/quit`; nothing was done")),
        },
        SlashCommand::Restore => rewind::restore(app, arguments),
        SlashCommand::Rewind => rewind::request(app),
        SlashCommand::Settings => settings::open(app),
        SlashCommand::Shortcuts => app.hints.toggle_shortcuts(),
        SlashCommand::SkillsPanel if arguments.is_empty() => {
            skills_and_hooks::open_skills_dialog(app)
        }
        SlashCommand::Skills | SlashCommand::SkillsPanel => {
            skills_and_hooks::list_skills(app, arguments)
        }
        SlashCommand::SkillsDisable => skills_and_hooks::switch_skill(app, arguments, false),
        SlashCommand::SkillsEnable => skills_and_hooks::switch_skill(app, arguments, true),
        SlashCommand::SkillsUnload => skills_and_hooks::unload_skill(app, arguments),
        SlashCommand::SkillsLink => skills_and_hooks::link_skill(app, arguments),
        SlashCommand::SkillsReload => skills_and_hooks::reload_skills(app),
        SlashCommand::StatsPanel => info::open_stats_panel(app),
        SlashCommand::Stats => info::stats(app, stats_view::StatsPart::Session),
        SlashCommand::StatsModel => info::stats(app, stats_view::StatsPart::Models),
        SlashCommand::StatsTools => info::stats(app, stats_view::StatsPart::Tools),
        SlashCommand::Tasks => lists::open_tasks_dialog(app),
        SlashCommand::TerminalSetup => set_up_terminal(app),
        SlashCommand::Theme if arguments.is_empty() => choices::open_theme_dialog(app),
        SlashCommand::Theme => choices::use_theme(app, arguments),
        SlashCommand::Todos => {
            let rows = app.todos.rows(app.window.width(), &app.theme);
            app.show_rows(rows);
        }
        SlashCommand::Tools => info::tools(app, false),
        SlashCommand::ToolsPanel => info::open_tools_panel(app),
        SlashCommand::ToolsDescriptions => info::tools(app, true),
        SlashCommand::Transcript => pager::open(app),
        SlashCommand::Undo => undo(app, arguments),
        SlashCommand::Vim => {
            let on = !app.settings.vim;
            app.save_setting("general.vimMode", Some(Value::Bool(on)));
            app.toast(if on { "vi keys" } else { "standard keys" });
        }
    }
}

/// Scrolls the conversation out of view; it stays in the scrollback.
fn scroll_away(app: &mut App) {
    if !app.settings.screen_reader {
        app.show_rows(vec![Line::EMPTY; app.window.rows()]);
    }
}

fn sign_out(app: &mut App) {
    app.run_with_config(
        |launch| launch.provider_manager().forget_key(None),
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
    app.run_with_config(
        move |launch| {
            let path = |typed: &String| launch.trust_manager().resolve_folder(typed);
            paths.iter().map(path).collect::<Vec<_>>()
        },
        |app, folders| {
            let mut strange = Vec::new();
            for directory in folders {
                match directory {
                    Ok((path, true)) => add_directory(app, path),
                    Ok((path, false)) => strange.push(path),
                    Err(failure) => app.error(failure.message),
                }
            }
            ask_for_folder_trust(app, strange);
        },
    );
}

fn add_directory(app: &mut App, path: PathBuf) {
    app.info(format!("Added {}", path.display()));
    app.queue_effect(Effect::Send(Op::AddDirectory(path)));
}

/// Asks about untrusted directories, one after the other.
fn ask_for_folder_trust(app: &mut App, folders: Vec<PathBuf>) {
    let Some(folder) = folders.first() else { return };
    let items = vec![
        ListItem::new("yes", "Trust it and add it", "files in it can be read as instructions"),
        ListItem::new("no", "Do not add it", ""),
    ];
    let title = format!("Do you want to trust this folder? {}", folder.display());
    let list = ListDialog::new(title, items);
    app.open(Overlay::list(DialogPurpose::AddFolder(folders), list));
}

/// Handles the answer for the first directory.
pub(crate) fn handle_folder_trust(app: &mut App, mut folders: Vec<PathBuf>, trusted: bool) {
    app.dialogs.close();
    if folders.is_empty() {
        return;
    }
    let directory = folders.remove(0);
    if !trusted {
        app.info(format!("{} was not added.", directory.display()));
        return ask_for_folder_trust(app, folders);
    }
    app.run_with_config(
        move |launch| {
            launch.trust_manager().set(&directory, Some(TrustLevel::TrustFolder)).map(|_| directory)
        },
        |app, output| {
            match output {
                Ok(directory) => add_directory(app, directory),
                Err(failure) => app.error(failure.message),
            }
            ask_for_folder_trust(app, folders);
        },
    );
}

fn init(app: &mut App) {
    app.run_with_config(
        |launch| parallax_commands::built_in::init(launch.directory()),
        |app, init| match init {
            Ok(InitResult::AlreadyExists(path)) => {
                app.info(format!("{} already exists; nothing was changed.", path.display()));
            }
            Ok(InitResult::Prompt(prompt)) => app.submit_for_command(prompt.to_owned()),
            Err(failure) => app.error(failure.message),
        },
    );
}

fn add_memory(app: &mut App, fact: &str) {
    if fact.is_empty() {
        return app.error("No text given: use `/memory add TEXT`.");
    }
    let fact = fact.to_owned();
    app.run_with_config(
        move |launch| launch.context_sources().add_memory(&fact),
        |app, saved| match saved {
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
        return app.toast("Not available while the agent is running (esc to stop)");
    }
    app.reload_and_then(|app| {
        app.run_with_session(
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
    let setup = |launch: &SessionConfig| {
        let editor = terminal_setup::terminal_editor(launch)?;
        Some((editor, terminal_setup::set_up(launch, editor)))
    };
    app.run_with_config(setup, |app, done| match done {
        None => app.info(
            "Nothing to configure: this is not the terminal of VS Code, Cursor, or Windsurf. \
             Ctrl+J, or `\\` followed by Enter, starts a new line in every terminal.",
        ),
        Some((editor, Ok((file, keys)))) => app.info(match keys {
            EditorKeys::AlreadyBound => format!("{} already has the key bindings.", editor.name()),
            EditorKeys::Added { keys, .. } => {
                format!("Added {} to {}", keys.join(" and "), file.display())
            }
            EditorKeys::Conflict { keys } => format!(
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
    app.queue_effect(Effect::Send(Op::Undo { prompt, force }));
}
