//! Runs slash commands.

use std::path::PathBuf;

use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::about::{INBOX, PRIVACY};
use parallax_sdk::commands::{COMMIT, COMMIT_NO_PUSH, COMMIT_PR, Init};
use parallax_sdk::terminal_setup::EditorKeys;
use parallax_sdk::trust::TrustLevel;
use parallax_sdk::{Launch, OpenSession};
use parallax_sessions::SessionChoice;
use serde_json::Value;

use super::App;
use super::mcp::Detail;
use super::telling::plain_rows;
use crate::commands::Command;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;
use crate::stats_view;

impl App {
    pub(super) fn run_command(&mut self, command: Command, arguments: &str) {
        let arguments = arguments.trim();
        match command {
            Command::About => self.about(),
            Command::Agents => self.list_agents(),
            Command::AgentsAccept => self.accept_agents(arguments),
            Command::AgentsConfig => self.agent_config(arguments),
            Command::AgentsDisable => self.switch_agent(arguments, false),
            Command::AgentsEnable => self.switch_agent(arguments, true),
            Command::AgentsReload => self.reload_agents(),
            Command::Auth => self.auth_dialog(None),
            Command::AuthSignOut => self.sign_out(),
            Command::Budget => self.budget(arguments),
            Command::Bug => self.bug(arguments),
            Command::Chat => self.sessions_dialog(),
            Command::ChatList => self.tags_dialog(),
            Command::ChatSave => self.save_chat(arguments),
            Command::ChatResume if arguments.is_empty() => self.tags_dialog(),
            Command::ChatResume => self.resume_tag(arguments),
            Command::ChatDelete => self.delete_chat(arguments),
            Command::ChatShare => self.share_chat(arguments),
            Command::Clear => {
                self.scroll_away();
                self.effect(Effect::Open(SessionChoice::Clear));
            }
            Command::Commit => self.submit_for_command(COMMIT.to_owned()),
            Command::CommitNoPush => self.submit_for_command(COMMIT_NO_PUSH.to_owned()),
            Command::CommitPr => self.submit_for_command(COMMIT_PR.to_owned()),
            Command::Compress => {
                let focus = (!arguments.is_empty()).then(|| arguments.to_owned());
                self.compact(focus);
            }
            Command::CommandsList => self.commands_list(false),
            Command::CommandsReload => self.commands_list(true),
            Command::CompressUndo => self.effect(Effect::Send(Op::UndoCompaction)),
            Command::Context => self.context(),
            Command::Continue => self.effect(Effect::Send(Op::Continue)),
            Command::Copy => match self.turn.last_answer() {
                "" => self.info("No answer to copy yet."),
                answer => self.effect(Effect::Copy(answer.to_owned())),
            },
            Command::Debug => self.debug.toggle(),
            Command::DevTools => self.devtools(arguments),
            Command::Diff => self.diff(),
            Command::Directory => self.directories(),
            Command::DirectoryAdd => self.add_directories(arguments),
            Command::Docs => self.docs(arguments),
            Command::Editor => self.editor_dialog(),
            Command::Extensions
            | Command::ExtensionsConfig
            | Command::ExtensionsDisable
            | Command::ExtensionsEnable
            | Command::ExtensionsExplore
            | Command::ExtensionsInstall
            | Command::ExtensionsLink
            | Command::ExtensionsReload
            | Command::ExtensionsUninstall
            | Command::ExtensionsUpdate => self.extensions(command, arguments),
            Command::ExportSession => self.export_session(arguments),
            Command::Footer => self.footer_dialog(),
            Command::Fork => self.fork(arguments),
            Command::Help => self.help(),
            Command::Hooks => self.hooks_dialog(),
            Command::HooksAccept => self.hooks_accept(),
            Command::HooksDisable => self.hooks_switch(Some(arguments), false),
            Command::HooksDisableAll => self.hooks_switch(None, false),
            Command::HooksTrace => self.hooks_trace(),
            Command::HooksEnable => self.hooks_switch(Some(arguments), true),
            Command::HooksEnableAll => self.hooks_switch(None, true),
            Command::Ide => self.ide_status(),
            Command::IdeDisable => self.connect_ide(false),
            Command::IdeDoctor => self.ide_doctor(),
            Command::IdeEnable => self.connect_ide(true),
            Command::IdeInstall => self.ide_install(),
            Command::Init => self.init(),
            Command::Load => self.load(arguments),
            Command::Mcp => self.mcp_list(Detail::Names),
            Command::McpAuth => self.mcp_auth(arguments),
            Command::McpDescriptions => self.mcp_list(Detail::Descriptions),
            Command::McpDisable => self.mcp_switch(arguments, false),
            Command::McpEnable => self.mcp_switch(arguments, true),
            Command::McpReload => self.mcp_reload(),
            Command::McpSchemas => self.mcp_list(Detail::Schemas),
            Command::Memory => self.memory(true),
            Command::MemoryList => self.memory(false),
            Command::MemoryAdd => self.add_memory(arguments),
            Command::MemoryInbox => self.info(INBOX),
            Command::MemoryReload => self.reload_memory(),
            Command::Mode => self.mode_dialog(),
            Command::Model => self.model_dialog(),
            Command::ModelWhy => self.model_why(),
            Command::ModelSet => match arguments.strip_suffix("--persist") {
                Some(name) => self.use_model(name.trim(), true),
                None => self.use_model(arguments, false),
            },
            Command::Parallax => self.coordinate(arguments),
            Command::Permissions => self.permissions_dialog(),
            Command::PermissionsTrust => self.permissions_chosen(match arguments {
                "" => "trust",
                folder => folder,
            }),
            Command::Plan => self.plan(arguments),
            Command::PlanCopy => self.copy_plan(arguments),
            Command::Policies => self.policies(),
            Command::Privacy => self.say_wrapped(plain_rows(PRIVACY)),
            Command::Quit => match arguments {
                "" | "--delete" => self.effect(Effect::Quit { delete: !arguments.is_empty() }),
                other => {
                    self.error(format!("Unknown argument `{other}` of `/quit`; nothing was done"))
                }
            },
            Command::Restore => self.restore(arguments),
            Command::Rewind => self.rewind_dialog(),
            Command::Settings => self.settings_dialog(),
            Command::Shortcuts => self.hints.toggle_shortcuts(),
            Command::Skills => self.skills_list(arguments),
            Command::SkillsDisable => self.skills_switch(arguments, false),
            Command::SkillsEnable => self.skills_switch(arguments, true),
            Command::SkillsUnload => self.skills_unload(arguments),
            Command::SkillsLink => self.skills_link(arguments),
            Command::SkillsReload => self.skills_reload(),
            Command::Stats => self.stats_rows(stats_view::Part::Session),
            Command::StatsModel => self.stats_rows(stats_view::Part::Models),
            Command::StatsTools => self.stats_rows(stats_view::Part::Tools),
            Command::Tasks => self.tasks_dialog(),
            Command::TerminalSetup => self.terminal_setup(),
            Command::Theme if arguments.is_empty() => self.theme_dialog(),
            Command::Theme => self.use_theme(arguments),
            Command::Todos => {
                let rows = self.todos.rows(self.window.width(), &self.theme);
                self.say(rows);
            }
            Command::Tools => self.tools(false),
            Command::ToolsDescriptions => self.tools(true),
            Command::Transcript => self.open_pager(),
            Command::Undo => self.undo(arguments),
            Command::Vim => {
                let on = !self.settings.vim;
                self.keep_setting("general.vimMode", Some(Value::Bool(on)));
                self.toast(if on { "vi keys" } else { "standard keys" });
            }
        }
    }

    /// Runs `work` with the launch on a thread, then `then` with its result.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Launch) -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        self.effect(Effect::Run(Box::new(move || {
            let told = work(&launch);
            Box::new(move |app| then(app, told))
        })));
    }

    /// Runs `work` with the open session, then `then` with its result.
    pub(super) fn ask_session<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&OpenSession) -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        self.effect(Effect::AskSession(Box::new(move |session| {
            let told = work(session);
            Box::new(move |app| then(app, told))
        })));
    }

    /// Scrolls the conversation out of view; it stays in the scrollback.
    fn scroll_away(&mut self) {
        if !self.settings.screen_reader {
            self.say(vec![Line::EMPTY; self.window.rows()]);
        }
    }

    fn sign_out(&mut self) {
        self.ask(Launch::forget_key, |app, forgotten| match forgotten {
            Ok(true) => app.auth_dialog(Some("API key deleted.")),
            Ok(false) => {
                app.info("No saved API key. A key in an environment variable stays in use.")
            }
            Err(failure) => app.error(failure.message),
        });
    }

    fn add_directories(&mut self, paths: &str) {
        if paths.is_empty() {
            return self.error("No directory given: use `/directory add PATH[,PATH…]`.");
        }
        let paths: Vec<String> = paths.split(',').map(|path| path.trim().to_owned()).collect();
        self.ask(
            move |launch| {
                let path = |typed: &String| launch.folder_and_trust(typed);
                paths.iter().map(path).collect::<Vec<_>>()
            },
            |app, folders| {
                let mut strange = Vec::new();
                for folder in folders {
                    match folder {
                        Ok((path, true)) => app.add_directory(path),
                        Ok((path, false)) => strange.push(path),
                        Err(failure) => app.error(failure.message),
                    }
                }
                app.ask_folder_trust(strange);
            },
        );
    }

    fn add_directory(&mut self, path: PathBuf) {
        self.info(format!("Added {}", path.display()));
        self.effect(Effect::Send(Op::AddDirectory(path)));
    }

    /// Asks about untrusted directories, one after the other.
    fn ask_folder_trust(&mut self, folders: Vec<PathBuf>) {
        let Some(folder) = folders.first() else { return };
        let items = vec![
            ListItem::new("yes", "Trust it and add it", "files in it can be read as instructions"),
            ListItem::new("no", "Do not add it", ""),
        ];
        let title = format!("Do you want to trust this folder? {}", folder.display());
        let list = ListDialog::new(title, items);
        self.open(Overlay::list(Purpose::AddFolder(folders), list));
    }

    /// Handles the answer for the first directory.
    pub(super) fn folder_trust_said(&mut self, mut folders: Vec<PathBuf>, trusted: bool) {
        self.dialogs.close();
        if folders.is_empty() {
            return;
        }
        let folder = folders.remove(0);
        if !trusted {
            self.info(format!("{} was not added.", folder.display()));
            return self.ask_folder_trust(folders);
        }
        self.ask(
            move |launch| launch.set_trust(&folder, Some(TrustLevel::TrustFolder)).map(|_| folder),
            |app, said| {
                match said {
                    Ok(folder) => app.add_directory(folder),
                    Err(failure) => app.error(failure.message),
                }
                app.ask_folder_trust(folders);
            },
        );
    }

    fn init(&mut self) {
        self.ask(Launch::init, |app, init| match init {
            Ok(Init::There(path)) => {
                app.info(format!("{} already exists; nothing was changed.", path.display()));
            }
            Ok(Init::Prompt(prompt)) => app.submit_for_command(prompt.to_owned()),
            Err(failure) => app.error(failure.message),
        });
    }

    fn add_memory(&mut self, fact: &str) {
        if fact.is_empty() {
            return self.error("No text given: use `/memory add TEXT`.");
        }
        let fact = fact.to_owned();
        self.ask(
            move |launch| launch.add_memory(&fact),
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

    /// Reopens the session with the current context files, which are part of every request.
    pub(super) fn reload(&mut self) {
        self.reload_then(|_| {});
    }

    /// Reopens the session, then runs `then`.
    pub(super) fn reload_then(&mut self, then: impl FnOnce(&mut Self) + Send + 'static) {
        self.ask_session(OpenSession::is_kept, |app, is_kept| {
            app.session.set_shown(true);
            app.effect(Effect::Open(match is_kept {
                true => SessionChoice::Resume(app.session.id().to_owned()),
                false => SessionChoice::New,
            }));
            app.ask_session(|_| (), |app, ()| then(app));
        });
    }

    fn reload_memory(&mut self) {
        if self.is_busy() {
            return self.toast("Not available while the agent is running (Esc to stop)");
        }
        self.reload_then(|app| {
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

    fn terminal_setup(&mut self) {
        let setup = |launch: &Launch| {
            let editor = launch.terminal_editor()?;
            Some((editor, launch.set_up_terminal(editor)))
        };
        self.ask(setup, |app, done| match done {
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

    fn undo(&mut self, prompt: &str) {
        let (prompt, force) = match prompt.strip_suffix("--force") {
            Some(prompt) => (prompt.trim(), true),
            None => (prompt, false),
        };
        let prompt = match prompt {
            "" => None,
            typed => match typed.parse() {
                Ok(number) => Some(number),
                Err(_) => {
                    return self
                        .error(format!("Unknown prompt `{typed}`; `/rewind` lists the prompts."));
                }
            },
        };
        self.effect(Effect::Send(Op::Undo { prompt, force }));
    }
}
