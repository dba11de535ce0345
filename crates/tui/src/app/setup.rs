//! Applies settings, configurations, and opened sessions to the state.

use parallax_protocol::tool::{Display, Todo};
use parallax_screen::Line;
use parallax_sdk::SessionConfig;
use parallax_sdk::settings::{SettingScope, UiSettings};
use parallax_sessions::recorded_items::RecordedItem;
use serde_json::{Value, json};

use super::App;
use crate::app::commands::agents;
use crate::app::commands::completions;
use crate::app::commands::custom_commands;
use crate::app::commands::editor;
use crate::app::commands::rewind;
use crate::app::commands::settings;
use crate::app::commands::status_line_items;
use crate::app::commands::welcome;
use crate::app::effect::{Effect, Job};
use crate::app::opened_session::OpenedSession;
use crate::components::dialog_stack::DialogPurpose;
use crate::status_line_command::StatusLineCommand;
use crate::theme_choice as theme;
use crate::transcript::{ThoughtDisplay, ViewOptions};

/// Maximum number of prompts in the input history.
const HISTORY: usize = 1_000;
/// Maximum number of prompts shown of a resumed session; the number of older ones is printed.
const SHOWN_PROMPTS: usize = 50;

/// Maximum columns of the first prompt in the report about another session.
const RESUMED_COLUMNS: usize = 60;

/// Returns the transcript options for the settings, keeping those toggled by keys.
pub(super) fn view_options(settings: &UiSettings, now: ViewOptions) -> ViewOptions {
    ViewOptions {
        boxes_results: !settings.compact_tool_output,
        full_errors: settings.full_errors,
        is_static: !settings.spinner,
        thoughts: if settings.thoughts { ThoughtDisplay::Full } else { ThoughtDisplay::Subject },
        line_numbers: settings.line_numbers,
        screen_reader: settings.screen_reader,
        ..now
    }
}

/// Returns a job that reads the current Git branch of the directory.
fn branch_of(directory: Option<std::path::PathBuf>) -> Job {
    Box::new(move || {
        let head = directory.as_deref().and_then(parallax_files::git_head::head);
        let name = head.map(|head| head.name().to_owned());
        Box::new(move |app| app.status_data.branch = name)
    })
}

impl App {
    /// Applies the facts of a session before it opens.
    pub(crate) fn apply_launch(&mut self, launch: &SessionConfig) {
        self.settings = UiSettings {
            screen_reader: self.settings.screen_reader,
            ..launch.settings_manager().ui()
        };
        self.transcript.options = view_options(&self.settings, self.transcript.options);
        self.composer.set_vim(self.settings.vim);
        self.composer.set_escape_at_signs(self.settings.escape_pasted_at);
        self.status_data.mode = launch.mode();
        self.status_data.model = launch.model_name();
        self.status_data.trusted = launch.is_trusted();
        self.status_data.warn_at = launch.facts().compression_threshold();
        self.status_data.workspace = launch.facts().folder_name();
        self.status_data.directory =
            crate::sanitize::one_row(&launch.facts().short_directory()).into_owned();
        for warning in launch.warnings.clone() {
            self.warn_once(warning);
        }
        if self.settings.home_directory_warning && launch.is_in_home() {
            self.warn(
                "You are in your home directory, so all your files belong to the project. Start \
                 Parallax in the directory of a project instead."
                    .to_owned(),
            );
        }
        let config = launch.clone();
        self.queue_effect(Effect::Run(Box::new(move || {
            let sandbox = config.facts().short_sandbox();
            let auth = config.facts().auth_name();
            let inputs = config.session_library().input_history(HISTORY);
            let commands = config.shell_history().lines();
            let own_prompt = config.facts().has_own_prompt();
            let news = crate::welcome::update_notes(&config);
            Box::new(move |app| {
                welcome::show_news(app, news);
                // Those of an attached session may differ.
                if !app.session.is_attached() {
                    (app.status_data.sandbox, app.status_data.confined) = sandbox;
                    app.status_data.auth = auth;
                    app.status_data.has_custom_prompt = own_prompt;
                }
                app.composer.set_history(inputs, commands);
            })
        })));
        // The launch is not stored in the state yet.
        self.queue_effect(Effect::Run(branch_of(Some(launch.options().directory.clone()))));
        self.update_title();
    }

    /// Returns a job that reads the current Git branch.
    pub(super) fn read_branch(&self) -> Job {
        branch_of(self.launch.as_ref().map(|launch| launch.options().directory.clone()))
    }

    /// Handles an opened session and shows its history.
    pub(crate) fn handle_opened_session(&mut self, opened: OpenedSession) {
        let stats = opened.stats.clone();
        self.session.adopt_session(&opened.id, || stats);
        self.update_counts();
        self.turn.resume(opened.route.clone());
        let was_shown = self.session.is_shown();
        self.session.set_shown(false);
        // Extensions may have added or removed themes.
        if let Some(launch) = &self.launch {
            self.settings.custom_themes = launch.settings_manager().ui().custom_themes;
        }
        if opened.is_scripted && !was_shown && self.session.reports_script() {
            self.info("The model's answers are scripted.");
        }
        // In full screen, all of it can be scrolled and only visible rows are rendered; rows for
        // the scrollback are rendered at once.
        let limit = if self.settings.alternate_buffer { usize::MAX } else { SHOWN_PROMPTS };
        let (items, skipped) =
            parallax_sessions::recorded_items::items_of_recent_prompts(&opened.records, limit);
        let is_prompt = |item: &RecordedItem| matches!(item, RecordedItem::User { .. });
        let was_prompted = self.session.has_prompt();
        self.session.set_has_prompt(skipped > 0 || items.iter().any(is_prompt));
        if let Some(todos) = last_todos(&items) {
            self.todos.resume(todos, opened.is_cut_off);
        }
        if skipped > 0 && !was_shown {
            let prompts = if skipped == 1 { "prompt" } else { "prompts" };
            self.info(format!(
                "{skipped} earlier {prompts} of this session are not shown here; `/chat share \
                 FILE.md` exports all of it"
            ));
        }
        if !was_shown {
            // Until the next response reports it.
            self.status_data.routed_model.clone_from(&self.session.stats().before.model);
            self.status_data.quota = None;
            self.print_summary(&opened, was_prompted);
            self.report_resumed(&items, was_prompted);
            // An attached session reports its use by itself.
            if !items.is_empty() && !opened.is_attached {
                // The footer shows the context usage.
                self.queue_effect(Effect::Send(parallax_protocol::op::Op::DescribeContext));
            }
            self.transcript.resume(items);
        }
        if opened.is_cut_off {
            rewind::offer_to_continue(self);
        }
        let Some(inputs) = opened.inputs else {
            return completions::set_commands(self);
        };
        self.extensions.adopt_session(inputs.agents, inputs.skills);
        agents::adopt_session(self);
        self.catalog.adopt_session(inputs.commands);
        custom_commands::load(self);
    }

    /// Reports that what follows belongs to another session than the prompts above.
    fn report_resumed(&mut self, items: &[RecordedItem], was_prompted: bool) {
        let first = items.iter().find_map(|item| match item {
            RecordedItem::User { text, .. } => Some(crate::sanitize::one_row(text).into_owned()),
            _ => None,
        });
        if let Some(first) = first.filter(|_| was_prompted) {
            let first = crate::layout::truncate_text(&first, RESUMED_COLUMNS);
            self.info(format!("You are now in the session that began with: {first}"));
        }
    }

    /// Prints a row with the authentication and the inputs of the session besides prompts. If
    /// `requested` is false (not requested by the user), an unchanged row is not printed again.
    fn print_summary(&mut self, opened: &OpenedSession, requested: bool) {
        if self.settings.hide_banner || self.settings.screen_reader {
            return;
        }
        let many = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {one}s"),
        };
        let mut words = Vec::new();
        if self.settings.user_identity
            && !opened.is_scripted
            && let Some(launch) = &self.launch
        {
            words.push(format!("signed in: {}", launch.facts().auth_name()));
        }
        let inputs = opened.inputs.as_ref().filter(|_| !self.settings.hide_context_summary);
        if let Some(inputs) = inputs {
            match inputs.context_files.as_slice() {
                [] => {}
                [file] => {
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    words.push(format!("reads {}", crate::sanitize::one_row(&name)));
                }
                files => words.push(format!("reads {}", many(files.len(), "context file"))),
            }
            if inputs.mcp_servers > 0 {
                words.push(many(inputs.mcp_servers, "MCP server"));
            }
        }
        let text = format!("  {}", words.join(" · "));
        if !words.is_empty() && (self.session.is_new_summary(&text) || requested) {
            self.show_rows(vec![Line::styled(text, self.theme.secondary)]);
        }
    }

    /// Updates the counts in the footer.
    pub(super) fn update_counts(&mut self) {
        let stats = self.session.stats();
        let tokens = stats.tokens();
        let files = &stats.totals.files;
        self.status_data.sent_tokens = (tokens.prompt, tokens.cached);
        self.status_data.received = tokens.candidates + tokens.thoughts;
        self.status_data.cost = stats.totals.cost.usd;
        self.status_data.lines_added = files.total_lines_added;
        self.status_data.lines_removed = files.total_lines_removed;
    }

    /// Clears everything that belongs to the previous session.
    pub(crate) fn clear_session(&mut self) {
        self.session.close();
        self.turn.clear();
        self.dialogs.clear_approvals();
        editor::close_all(self);
        self.prompt_queue.clear();
        self.todos.clear();
        self.shell.clear();
        self.status_data.background = 0;
        if !self.session.is_shown() {
            self.status_data.context = (0, self.status_data.context.1);
            self.status_data.routed_model = None;
        }
        self.transcript.end_session();
        self.pane.scroll_to_bottom();
    }

    /// Handles the reported background color, which may select the theme.
    pub(super) fn handle_background_color(&mut self, red: u8, green: u8, blue: u8) {
        self.window.set_background((red, green, blue));
        if self.settings.auto_theme
            && !matches!(self.dialogs.purpose(), Some(DialogPurpose::Theme(_)))
        {
            let (theme, _) = theme::choose(&self.settings, self.window.colors());
            self.theme = theme;
        }
    }

    /// Previews a theme while the list is open.
    pub(super) fn show_theme(&mut self, name: &str) {
        if let Ok(theme) = theme::find_theme(name, &self.settings.custom_themes) {
            self.theme = theme::adapt_theme(theme, &self.settings, self.window.colors());
        }
    }

    pub(super) fn save_theme(&mut self, name: &str) {
        self.show_theme(name);
        self.settings.theme = Some(name.to_owned());
        self.save_setting_in(
            self.settings_view.scope(),
            "ui.theme",
            Some(Value::String(name.to_owned())),
        );
    }

    /// Saves a user setting and applies it.
    pub(super) fn save_setting(&mut self, key: &str, value: Option<Value>) {
        self.save_setting_in(SettingScope::User, key, value);
    }

    /// Saves a setting in the given scope and applies it.
    pub(super) fn save_setting_in(&mut self, scope: SettingScope, key: &str, value: Option<Value>) {
        let Some(launch) = self.launch.clone() else { return self.report_not_ready() };
        let key = key.to_owned();
        self.queue_effect(Effect::Run(Box::new(move || {
            let written = launch.settings_manager().set(scope, &key, value.as_ref());
            let fresh = written.and_then(|file| launch.reload().map(|launch| (file, launch)));
            Box::new(move |app| match fresh {
                Ok((_, launch)) => app.settings_changed(launch),
                Err(failure) => app.error(failure.message),
            })
        })));
    }

    /// Applies changed settings of the user interface.
    pub(crate) fn settings_changed(&mut self, launch: SessionConfig) {
        let plain = self.settings.screen_reader;
        self.settings = launch.settings_manager().ui();
        self.settings.screen_reader |= plain;
        self.transcript.options = view_options(&self.settings, self.transcript.options);
        self.composer.set_vim(self.settings.vim);
        self.composer.set_escape_at_signs(self.settings.escape_pasted_at);
        let (theme, problem) = theme::choose(&self.settings, self.window.colors());
        self.theme = theme;
        if let Some(problem) = problem {
            self.warn(problem);
        }
        self.launch = Some(launch);
        settings::refresh(self);
        status_line_items::refresh(self);
        self.refresh_status_line();
    }

    /// Runs the user's status line command if its input has changed.
    pub(super) fn refresh_status_line(&mut self) {
        if self.settings.status_line.is_none() || self.status_line_command.is_running() {
            return;
        }
        let Some(command) = self.launch.as_ref().and_then(StatusLineCommand::from_config) else {
            return;
        };
        let status = self.status_facts();
        if !self.status_line_command.begin(&status) {
            return;
        }
        self.queue_effect(Effect::Run(Box::new(move || {
            let result = command.run(&status);
            Box::new(move |app| {
                if let Some(reason) = app.status_line_command.handle_result(result) {
                    app.warn(reason);
                }
                // The facts may have changed in the meantime.
                app.refresh_status_line();
            })
        })));
    }

    fn status_facts(&self) -> Value {
        let status = &self.status_data;
        let directory =
            self.launch.as_ref().map(|launch| launch.options().directory.display().to_string());
        json!({
            "session": self.session.id(),
            "version": self.launch.as_ref().map(|launch| launch.options().version),
            "directory": directory,
            "branch": status.branch,
            "mode": status.mode.as_str(),
            "model": status.routed_model.as_ref().unwrap_or(&status.model),
            "context": {"tokens": status.context.0, "window": status.context.1, "percent": status.percent()},
            "tokens": {"sent": status.sent_tokens.0, "cached": status.sent_tokens.1, "received": status.received},
            "cost_usd": status.cost,
            "lines": {"added": status.lines_added, "removed": status.lines_removed},
            "sandbox": status.confined,
            "trusted": status.trusted,
            "working": self.is_busy(),
        })
    }
}

/// Returns the last todo list of the session.
fn last_todos(items: &[RecordedItem]) -> Option<Vec<Todo>> {
    items.iter().rev().find_map(|item| match item {
        RecordedItem::Tool { display: Some(display), .. } if display["type"] == "todos" => {
            match serde_json::from_value(display.clone()) {
                Ok(Display::Todos { todos }) => Some(todos),
                _ => None,
            }
        }
        _ => None,
    })
}
