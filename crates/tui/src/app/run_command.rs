//! What the commands of `/` do.

use parallax_protocol::ids::SessionId;
use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::about::PRIVACY;
use parallax_sdk::commands::{COMMIT, COMMIT_NO_PUSH, COMMIT_PR, Init};
use parallax_sdk::terminal_setup::EditorKeys;
use parallax_sdk::trust::TrustLevel;
use parallax_sdk::{Launch, OpenSession, SessionChoice};
use serde_json::Value;

use super::App;
use super::lists::clean;
use super::mcp::Detail;
use super::overlay::{Overlay, Purpose};
use super::theme_choice as theme;
use crate::commands::{Command, TABLE};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;
use crate::stats_view;

/// Where the documentation is.
const DOCS: &str = "docs/index.md in the source of Parallax; `/help` has the short form";

impl App {
    pub(super) fn run_command(&mut self, command: Command, arguments: &str) {
        let arguments = arguments.trim();
        match command {
            Command::About => self.about(),
            Command::Agents => self.list_agents(),
            Command::AgentsConfig => self.agent_config(arguments),
            Command::AgentsDisable => self.switch_agent(arguments, false),
            Command::AgentsEnable => self.switch_agent(arguments, true),
            Command::AgentsReload => self.reload_agents(),
            Command::Auth => self.auth_dialog(None),
            Command::AuthSignOut => self.sign_out(),
            Command::Bug => self.bug(arguments),
            Command::Chat => self.sessions_dialog(),
            Command::ChatList => self.tags_dialog(),
            Command::ChatSave => self.save_chat(arguments),
            Command::ChatResume if arguments.is_empty() => self.tags_dialog(),
            Command::ChatResume => self.resume_tag(arguments),
            Command::ChatDelete => self.delete_chat(arguments),
            Command::ChatShare => self.share_chat(arguments),
            Command::Clear => self.effect(Effect::Open(SessionChoice::New)),
            Command::Commit => self.submit(COMMIT.to_owned()),
            Command::CommitNoPush => self.submit(COMMIT_NO_PUSH.to_owned()),
            Command::CommitPr => self.submit(COMMIT_PR.to_owned()),
            Command::Compress => {
                let focus = (!arguments.is_empty()).then(|| arguments.to_owned());
                self.toast("the history is being made shorter");
                self.effect(Effect::Send(Op::Compact { focus }));
            }
            Command::CommandsList => self.commands_list(false),
            Command::CommandsReload => self.commands_list(true),
            Command::CompressUndo => self.effect(Effect::Send(Op::UndoCompaction)),
            Command::Context => self.context(),
            Command::Continue => self.effect(Effect::Send(Op::Continue)),
            Command::Copy => match self.last_answer.is_empty() {
                true => self.info("There is no answer to copy yet."),
                false => self.effect(Effect::Copy(self.last_answer.clone())),
            },
            Command::Diff => self.diff(),
            Command::Directory => self.directories(),
            Command::DirectoryAdd => self.add_directories(arguments),
            Command::Docs => self.info(DOCS),
            Command::Editor => self.editor_dialog(),
            Command::Extensions
            | Command::ExtensionsConfig
            | Command::ExtensionsDisable
            | Command::ExtensionsEnable
            | Command::ExtensionsInstall
            | Command::ExtensionsLink
            | Command::ExtensionsReload
            | Command::ExtensionsUninstall
            | Command::ExtensionsUpdate => self.extensions(command, arguments),
            Command::ExportSession => self.export_session(arguments),
            Command::Fork => self.fork(arguments),
            Command::Help => self.help(),
            Command::Hooks => self.hooks_dialog(),
            Command::HooksDisable => self.hooks_switch(Some(arguments), false),
            Command::HooksDisableAll => self.hooks_switch(None, false),
            Command::HooksEnable => self.hooks_switch(Some(arguments), true),
            Command::HooksEnableAll => self.hooks_switch(None, true),
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
            Command::MemoryReload => self.reload(),
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
            Command::Privacy => self.say(plain_rows(PRIVACY)),
            Command::Quit => self.effect(Effect::Quit { delete: arguments == "--delete" }),
            Command::Restore => self.restore(arguments),
            Command::Rewind => self.rewind_dialog(),
            Command::Settings => self.settings_dialog(),
            Command::Shortcuts => self.show_shortcuts = !self.show_shortcuts,
            Command::Skills => self.skills_list(arguments),
            Command::SkillsDisable => self.skills_switch(arguments, false),
            Command::SkillsEnable => self.skills_switch(arguments, true),
            Command::SkillsLink => self.skills_link(arguments),
            Command::SkillsReload => self.read_all_again(),
            Command::Stats => self.stats_rows(stats_view::Part::Session),
            Command::StatsModel => self.stats_rows(stats_view::Part::Models),
            Command::StatsTools => self.stats_rows(stats_view::Part::Tools),
            Command::Tasks => self.tasks_dialog(),
            Command::TerminalSetup => self.terminal_setup(),
            Command::Theme => self.theme_dialog(),
            Command::Todos => {
                let rows = self.todo_rows();
                self.say(rows);
            }
            Command::Tools => self.tools(false),
            Command::ToolsDescriptions => self.tools(true),
            Command::Undo => self.undo(arguments),
            Command::Vim => {
                let on = !self.settings.vim;
                self.keep_setting("general.vimMode", Some(Value::Bool(on)));
                self.toast(if on { "keys of vim" } else { "ordinary keys" });
            }
        }
    }

    /// Runs `work` with the launch on a thread and goes on with what came of it.
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

    /// The same with the open session, which answers at once.
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

    pub(super) fn width(&self) -> usize {
        usize::from(self.size.0).saturating_sub(1).max(1)
    }

    fn about(&mut self) {
        let session = self.session.clone();
        self.ask(Launch::about, move |app, about| {
            let row = |label: &str, value: String| {
                Line::styled(format!("{label:<10}"), app.theme.secondary).and(value, app.theme.text)
            };
            let (asked, means) = &about.model;
            let model = if asked == means { asked.clone() } else { format!("{asked} ({means})") };
            let mut rows = vec![
                Line::styled("Parallax", app.theme.accent.bold()),
                row("version", about.version.clone()),
                row("model", model),
                row("sandbox", about.sandbox.clone()),
                row("system", about.os.clone()),
                row("sign-in", about.auth.clone()),
                row("session", session),
            ];
            if let Some(commit) = about.commit {
                rows.insert(2, row("commit", commit.to_owned()));
            }
            app.say(rows);
        });
    }

    fn sign_out(&mut self) {
        self.ask(Launch::forget_key, |app, forgotten| match forgotten {
            Ok(true) => app.auth_dialog(Some("The key is forgotten.")),
            Ok(false) => app
                .info("No key is kept here; one of the environment is used as long as it is set."),
            Err(failure) => app.error(failure.message),
        });
    }

    fn bug(&mut self, title: &str) {
        let title = if title.is_empty() { "a defect" } else { title }.to_owned();
        self.ask(
            move |launch| {
                let about = launch.about();
                let commit = about.commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
                let info = format!(
                    "Parallax {}{commit} · {} · {} · {}",
                    about.version, about.os, about.model.1, about.sandbox
                );
                let url = launch.bug_url(&title, &info);
                (title, info, url)
            },
            |app, (title, info, url)| match url {
                Ok(Some(url)) => app.info(format!("Report it here: {url}")),
                Ok(None) => {
                    let report = format!("{title}\n\n{info}\n\nWhat I did, what came, what should come:\n");
                    app.info(format!(
                        "A report to fill in is in the clipboard. `advanced.bugCommand.urlTemplate` \
                         would name where reports go.\n{title}\n{info}"
                    ));
                    app.effect(Effect::Copy(report));
                }
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn tags_dialog(&mut self) {
        self.ask(
            |launch| {
                let chats = launch.chats();
                let item = |chat: &parallax_sdk::chats::SavedChat| {
                    ListItem::new(chat.tag.clone(), clean(&chat.tag), chat.age())
                };
                chats.iter().map(item).collect::<Vec<_>>()
            },
            |app, items| {
                if items.is_empty() {
                    return app.info("Nothing is saved; `/chat save TAG` saves this conversation.");
                }
                let list = ListDialog::new("Saved conversations", items).searched();
                app.open(Overlay::list(Purpose::Tags, list));
            },
        );
    }

    fn save_chat(&mut self, tag: &str) {
        if tag.is_empty() {
            return self.error("Say under which tag: `/chat save TAG`.");
        }
        let (tag, session) = (tag.to_owned(), SessionId::new(self.session.clone()));
        let replace = self.confirmed(&format!("save {tag}"));
        let again = tag.clone();
        self.ask(
            move |launch| match launch.has_chat(&tag) && !replace {
                true => None,
                false => Some(launch.save_chat(&session, &tag, replace)),
            },
            move |app, saved| match saved {
                None => {
                    app.confirm = Some(format!("save {again}"));
                    app.warn(format!("`{again}` is taken; the same command again replaces it."));
                }
                Some(Ok(_)) => app.info(format!("Saved as `{again}`.")),
                Some(Err(failure)) => app.error(failure.message),
            },
        );
    }

    /// Whether this was asked for once before, just now.
    fn confirmed(&mut self, what: &str) -> bool {
        self.confirm.take().is_some_and(|asked| asked == what)
    }

    pub(super) fn resume_tag(&mut self, tag: &str) {
        let tag = tag.to_owned();
        self.ask(
            move |launch| launch.find_chat(&tag),
            |app, found| match found {
                Ok(chat) => app.effect(Effect::Open(SessionChoice::Import(chat.path))),
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn delete_chat(&mut self, tag: &str) {
        if tag.is_empty() {
            return self.error("Say which: `/chat delete TAG`.");
        }
        let tag = tag.to_owned();
        self.ask(
            move |launch| launch.delete_chat(&tag),
            |app, deleted| match deleted {
                Ok(chat) => app.info(format!("Deleted `{}`.", chat.tag)),
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn share_chat(&mut self, file: &str) {
        let (file, session) = (file.to_owned(), SessionId::new(self.session.clone()));
        self.ask(
            move |launch| launch.share_chat(&session, Some(&file)),
            |app, written| match written {
                Ok(path) => app.info(format!("Written to {}", path.display())),
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn export_session(&mut self, file: &str) {
        if file.is_empty() {
            return self.error("Say where to: `/export-session FILE`.");
        }
        let (file, session) = (file.to_owned(), SessionId::new(self.session.clone()));
        self.ask(
            move |launch| launch.export_session(&session, &file),
            |app, written| match written {
                Ok(path) => app.info(format!("Written to {}", path.display())),
                Err(failure) => app.error(failure.message),
            },
        );
    }

    /// Diffs of this session, as its edits told them.
    fn diff(&mut self) {
        let width = self.width();
        let rows = self.transcript.diffs(width, &self.theme);
        match rows.is_empty() {
            true => self.info("No file was edited in this session; commands are not counted."),
            false => self.say(rows),
        }
    }

    fn directories(&mut self) {
        self.ask_session(OpenSession::directories, |app, folders| {
            let mut rows = vec![Line::styled("Folders of the workspace", app.theme.text.bold())];
            rows.extend(folders.iter().map(|path| Line::raw(format!("  {}", path.display()))));
            app.say(rows);
        });
    }

    fn add_directories(&mut self, paths: &str) {
        if paths.is_empty() {
            return self.error("Say which: `/directory add PATH[,PATH…]`.");
        }
        let paths: Vec<String> = paths.split(',').map(|path| path.trim().to_owned()).collect();
        self.ask(
            move |launch| {
                let path = |typed: &String| launch.folder_to_add(typed);
                paths.iter().map(path).collect::<Vec<_>>()
            },
            |app, folders| {
                for folder in folders {
                    match folder {
                        Ok(path) => {
                            app.info(format!("Added {}", path.display()));
                            app.effect(Effect::Send(Op::AddDirectory(path)));
                        }
                        Err(failure) => app.error(failure.message),
                    }
                }
            },
        );
    }

    fn editor_dialog(&mut self) {
        self.ask(Launch::editors, |app, editors| {
            let items = editors.iter().map(|(editor, installed)| {
                let mut item = ListItem::new(editor.id, editor.name, "");
                if !installed {
                    "not installed".clone_into(&mut item.detail);
                    item.disabled = Some(format!("{} is not on the search path", editor.name));
                }
                item
            });
            let list = ListDialog::new("Which editor?", items.collect());
            let now = app.settings.preferred_editor.clone().unwrap_or_default();
            app.open(Overlay::list(Purpose::Editor, list.at(&now)));
        });
    }

    fn help(&mut self) {
        let theme = &self.theme;
        let mut rows = vec![
            Line::styled("Basics", theme.accent.bold()),
            Line::raw(
                "  @path adds a file or folder, !command runs in your own shell, /command is one of these:",
            ),
            Line::EMPTY,
            Line::styled("Commands", theme.accent.bold()),
        ];
        let row = |name: String, arguments: &str, summary: &str| {
            let head = format!("  /{name} {arguments}");
            Line::styled(format!("{head:<34} "), theme.accent).and(summary.to_owned(), theme.text)
        };
        for spec in TABLE {
            rows.push(row(spec.name.to_owned(), spec.arguments, spec.summary));
            for sub in spec.subcommands {
                rows.push(row(format!("{} {}", spec.name, sub.name), sub.arguments, sub.summary));
            }
        }
        rows.extend(self.custom_help());
        rows.push(Line::EMPTY);
        rows.extend(self.keymap.help_rows(&self.theme));
        let width = self.width();
        let rows = rows.iter().map(|row| super::cut(row.clone(), width)).collect();
        self.say(rows);
    }

    fn init(&mut self) {
        self.ask(Launch::init, |app, init| match init {
            Ok(Init::There(path)) => {
                app.info(format!("{} is there already; nothing was changed.", path.display()));
            }
            Ok(Init::Prompt(prompt)) => app.submit(prompt.to_owned()),
            Err(failure) => app.error(failure.message),
        });
    }

    fn memory(&mut self, whole: bool) {
        self.ask_session(OpenSession::context_files, move |app, files| {
            if files.is_empty() {
                return app.info("No context file is read; `/init` writes one for the project.");
            }
            let mut rows = Vec::new();
            for file in files {
                let origin = format!(
                    " ({}, about {} tokens)",
                    file.tier.words(),
                    super::lists::number(file.tokens)
                );
                let path = file.path.display().to_string();
                rows.push(Line::styled(path, app.theme.accent).and(origin, app.theme.secondary));
                if whole {
                    rows.extend(plain_rows(&file.text));
                    rows.push(Line::EMPTY);
                }
            }
            app.say_wrapped(rows);
        });
    }

    fn add_memory(&mut self, fact: &str) {
        if fact.is_empty() {
            return self.error("Say what to keep: `/memory add TEXT`.");
        }
        let fact = fact.to_owned();
        self.ask(
            move |launch| launch.add_memory(&fact),
            |app, kept| match kept {
                Ok(path) => {
                    app.info(format!(
                        "Kept in {}; it counts from the next session on.",
                        path.display()
                    ));
                }
                Err(failure) => app.error(failure.message),
            },
        );
    }

    /// What people wrote is part of every request's beginning: the session is
    /// opened anew, and goes on with what the files say now.
    pub(super) fn reload(&mut self) {
        let is_fresh = |open: &OpenSession| open.past().is_empty();
        self.ask_session(is_fresh, |app, is_fresh| {
            // Of one without a prompt nothing is on disk.
            app.effect(Effect::Open(match is_fresh && app.stats.turns.is_empty() {
                true => SessionChoice::New,
                false => SessionChoice::Resume(app.session.clone()),
            }));
        });
    }

    fn model_dialog(&mut self) {
        let Some(launch) = &self.launch else { return self.too_early() };
        let items = launch.model_choices().into_iter().map(|choice| {
            let means = if choice.model == choice.name { String::new() } else { choice.model };
            let window = format!("{} tokens", super::lists::number(choice.context));
            let detail: Vec<String> =
                [means, window, choice.doc].into_iter().filter(|part| !part.is_empty()).collect();
            ListItem::new(choice.name.clone(), choice.name, detail.join(" · "))
        });
        let list = ListDialog::new("Which model?", items.collect())
            .searched()
            .hint("enter uses it now · ctrl+s also from now on · esc back")
            .at(&self.facts.model);
        self.open(Overlay::list(Purpose::Model, list));
    }

    pub(super) fn use_model(&mut self, name: &str, persist: bool) {
        if name.is_empty() {
            return self.error("Say which: `/model set NAME`.");
        }
        self.effect(Effect::Send(Op::SetModel(name.to_owned())));
        self.facts.model = name.to_owned();
        self.facts.routed = None;
        if persist {
            self.keep_setting("model.name", Some(Value::String(name.to_owned())));
        }
        self.toast(format!("model: {name}"));
    }

    fn permissions_dialog(&mut self) {
        self.ask(
            |launch| launch.trust_of(&launch.options().directory.clone()),
            |app, trust| match trust {
                Err(failure) => app.error(failure.message),
                Ok(trust) => {
                    let now = if trust.trusted { "It is trusted." } else { "It is not trusted." };
                    let items = vec![
                        ListItem::new("trust", "Trust this folder", ""),
                        ListItem::new("parent", "Trust the folder above and all in it", ""),
                        ListItem::new("deny", "Do not trust it", "nothing of it is read"),
                        ListItem::new("forget", "Ask again next time", ""),
                    ];
                    let list = ListDialog::new("Trust of this folder", items)
                        .intro(vec![Line::styled(now, app.theme.text)]);
                    app.open(Overlay::list(Purpose::Permissions, list));
                }
            },
        );
    }

    pub(super) fn permissions_chosen(&mut self, id: &str) {
        let id = id.to_owned();
        self.ask(
            move |launch| {
                let here = launch.options().directory.clone();
                let (folder, level) = match id.as_str() {
                    "trust" => (here, Some(TrustLevel::TrustFolder)),
                    "parent" => {
                        let parent = here.parent().map(std::path::Path::to_owned);
                        (parent.unwrap_or(here), Some(TrustLevel::TrustFolder))
                    }
                    "deny" => (here, Some(TrustLevel::DoNotTrust)),
                    "forget" => (here, None),
                    other => (here.join(other), Some(TrustLevel::TrustFolder)),
                };
                launch.set_trust(&folder, level)
            },
            |app, said| match said {
                Ok(_) => {
                    app.info("Kept; it counts from the next session on (`/clear` begins one).")
                }
                Err(failure) => app.error(failure.message),
            },
        );
    }

    fn policies(&mut self) {
        self.ask(Launch::rule_rows, |app, groups| {
            let mut rows = Vec::new();
            for (mode, rules) in groups {
                let title = mode.map_or("In all modes", |mode| mode.as_str());
                rows.push(Line::styled(title.to_owned(), app.theme.accent.bold()));
                for rule in rules {
                    let (word, style) = match rule.decision {
                        parallax_protocol::policy::Decision::Allow => ("allow", app.theme.success),
                        parallax_protocol::policy::Decision::Ask => ("ask  ", app.theme.warning),
                        parallax_protocol::policy::Decision::Deny => ("deny ", app.theme.error),
                    };
                    rows.push(
                        Line::styled(format!("  {:>7} ", rule.priority), app.theme.secondary)
                            .and(format!("{word} "), style)
                            .and(rule.rule, app.theme.text),
                    );
                }
            }
            app.say_wrapped(rows);
        });
    }

    fn stats_rows(&mut self, part: stats_view::Part) {
        let rows = stats_view::rows(&self.stats, part, self.width(), &self.theme);
        self.say(rows);
    }

    fn terminal_setup(&mut self) {
        let setup = |launch: &Launch| {
            let editor = launch.terminal_editor()?;
            Some((editor, launch.set_up_terminal(editor)))
        };
        self.ask(setup, |app, done| match done {
            None => app.info(
                "Nothing to set up: this is not the terminal of VS Code, Cursor or Windsurf. \
                 Ctrl+J and `\\` with Enter begin a new line everywhere.",
            ),
            Some((editor, Ok((file, keys)))) => app.info(match keys {
                EditorKeys::There => format!("{} has the keys already.", editor.name()),
                EditorKeys::Added { keys, .. } => {
                    format!("Added {} to {}", keys.join(" and "), file.display())
                }
                EditorKeys::Taken { keys } => format!(
                    "{} is bound to something else in {}; nothing was changed",
                    keys.join(" and "),
                    file.display()
                ),
            }),
            Some((_, Err(failure))) => app.error(failure.message),
        });
    }

    pub(super) fn theme_dialog(&mut self) {
        if theme::is_without_colour() {
            return self.error("NO_COLOR is set: there are no themes without colours.");
        }
        let items = theme::names(&self.settings.custom_themes).into_iter().map(|(name, light)| {
            let sample = theme::named(&name, &self.settings.custom_themes)
                .map(|theme| super::theme_sample::rows(&theme, self.width().min(72)))
                .unwrap_or_default();
            let item = ListItem::new(name.clone(), name, if light { "light" } else { "dark" });
            item.previewed(sample)
        });
        let list = ListDialog::new("Colours", items.collect())
            .searched()
            .hint("↑↓ shows it at once · enter keeps it · esc as before")
            .at(&self.theme.name);
        let before = Box::new(self.theme.clone());
        self.open(Overlay::list(Purpose::Theme(before), list));
    }

    fn tools(&mut self, described: bool) {
        self.ask_session(OpenSession::tools, move |app, tools| {
            let mut rows = Vec::new();
            for tool in tools {
                rows.push(
                    Line::styled(format!("  {}", tool.display_name), app.theme.accent)
                        .and(format!(" ({})", tool.name), app.theme.secondary),
                );
                if described {
                    rows.extend(plain_rows(&tool.description));
                }
            }
            app.say_wrapped(rows);
        });
    }

    fn undo(&mut self, turn: &str) {
        let (turn, force) = match turn.strip_suffix("--force") {
            Some(turn) => (turn.trim(), true),
            None => (turn, false),
        };
        let turn = match turn {
            "" => None,
            turn => match turn.parse() {
                Ok(turn) => Some(turn),
                Err(_) => return self.error(format!("`{turn}` is no turn; `/rewind` lists them.")),
            },
        };
        self.effect(Effect::Send(Op::Undo { turn, force }));
    }

    /// Rows into the transcript, wrapped.
    pub(super) fn say_wrapped(&mut self, rows: Vec<Line>) {
        let width = self.width();
        let indent = [parallax_screen::Span::raw("  ")];
        let rows = rows.iter().flat_map(|row| parallax_screen::wrap(row, width, &indent));
        let rows = rows.collect();
        self.say(rows);
    }

    /// The last words: what the session was, and how to go on with it.
    pub(crate) fn farewell(&mut self, deleted: bool) -> Vec<Line> {
        let mut rows = Vec::new();
        if !self.stats.turns.is_empty() {
            rows =
                stats_view::rows(&self.stats, stats_view::Part::Session, self.width(), &self.theme);
            let hint = match deleted {
                true => "this session is deleted".to_owned(),
                false => format!("go on with: parallax --resume {}", self.session),
            };
            rows.push(Line::styled(hint, self.theme.secondary));
        }
        rows
    }
}

/// Text as rows, untouched but for tabs.
fn plain_rows(text: &str) -> Vec<Line> {
    text.lines().map(|line| Line::raw(format!("  {}", line.replace('\t', "    ")))).collect()
}
