//! Commands that show information: version, help, diffs, memory, rules, tools, statistics.

use std::sync::Arc;

use parallax_protocol::built_in_tools::built_in_tool;
use parallax_protocol::policy::{ApprovalMode, Decision};
use parallax_screen::{GraphicsCapabilities, GraphicsProtocol, Line, Span, wrap};
use parallax_sdk::OpenSession;
use parallax_sdk::RuleRow;
use parallax_sdk::about::{About, ToolRow};
use parallax_sdk::agents::GUIDE;
use parallax_sessions::usage_text;

use crate::app::App;
use crate::app::effect::Effect;
use crate::commands::{NAME_COLUMNS, TABLE, available_names};
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem, Panel, PanelText, RowLayout, wrap_entries};
use crate::keymap::KeyCommand;
use crate::layout::{plain_rows, two_columns};
use crate::sanitize::sanitize;
use crate::stats_view::{self, StatsOptions};
use crate::status_line::mode_name;
use crate::theme::Theme;

/// Maximum number of turns plotted at exit.
const LAST_PLOTTED: usize = 8;
/// Number of columns of a panel that its text cannot use.
const PANEL_EDGES: usize = 4;
/// Width of the names on the first help page in columns.
const BASIC_COLUMNS: usize = 14;
/// The pages of the panel of tools.
const BUILT_IN: &str = "Built in";
const MCP_SERVERS: &str = "MCP servers";
const OTHER: &str = "Other";
/// Number of conversation rows to keep visible above the exit summary, if possible.
const CONVERSATION_ROWS: usize = 8;

pub(crate) fn about(app: &mut App) {
    let session = app.session.id().to_owned();
    app.run_with_config(About::collect, move |app, about| {
        app.queue_effect(Effect::AskPictures(Box::new(move |app, drawing| {
            show_about(app, about, session, drawing);
        })));
    });
}

fn show_about(app: &mut App, about: About, session: String, drawing: Option<GraphicsCapabilities>) {
    let row = |label: &str, value: String| {
        Line::styled(format!("{label:<10}"), app.theme.secondary).with_span(value, app.theme.text)
    };
    let (requested, means) = &about.model;
    let mut model =
        if requested == means { requested.clone() } else { format!("{requested} ({means})") };
    if let Some(answers) = app.status_data.routed_model.as_ref().filter(|routed| *routed != means) {
        model.push_str(&format!("; currently {answers} (`/model why`)"));
    }
    let pictures = match drawing {
        Some(GraphicsCapabilities { graphics, cell: (width, height), .. }) => {
            let name = match graphics {
                GraphicsProtocol::Kitty => "kitty graphics",
                GraphicsProtocol::Iterm => "iTerm2 inline images",
                GraphicsProtocol::Sixel => "sixels",
            };
            format!("{name}, cells of {width}×{height} pixels")
        }
        None => "shown as text (`ui.inlineImages`)".to_owned(),
    };
    let mut rows = vec![
        Line::styled("Parallax", app.theme.accent.bold()),
        row("version", about.version.clone()),
        row("model", model),
        row("sandbox", about.sandbox.clone()),
        row("system", about.os.clone()),
        row("pictures", pictures),
        row("sign-in", about.auth.clone()),
        row("session", session),
    ];
    if let Some(commit) = about.commit {
        rows.insert(2, row("commit", commit.to_owned()));
    }
    app.show_rows(rows);
}

pub(crate) fn bug(app: &mut App, title: &str) {
    let title = if title.is_empty() { "a defect" } else { title }.to_owned();
    app.run_with_config(
        move |launch| {
            let about = About::collect(launch);
            let commit = about.commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
            let info = format!(
                "Parallax {}{commit} · {} · {} · {}",
                about.version, about.os, about.model.1, about.sandbox
            );
            let url = parallax_commands::built_in::bug_url(launch.config(), &title, &info);
            (title, info, url)
        },
        |app, (title, info, url)| match url {
            Ok(Some(url)) => app.info(format!("Report it here: {url}")),
            Ok(None) => {
                let template = format!(
                    "{title}\n\n{info}\n\nSteps to reproduce, actual result, expected \
                     result:\n"
                );
                app.info(format!(
                    "Bug report template, copied to the clipboard if possible. To use an \
                     issue tracker, set `advanced.bugCommand.urlTemplate`.\n{title}\n{info}"
                ));
                app.queue_effect(Effect::Copy(template));
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Shows the diffs of the edits in this session.
pub(crate) fn diff(app: &mut App) {
    let width = app.window.width();
    let rows = app.transcript.diffs(width, &app.theme);
    match rows.is_empty() {
        true => {
            app.info("No files were edited in this session. Changes by commands are not shown.")
        }
        false => app.show_rows(rows),
    }
}

pub(crate) fn directories(app: &mut App) {
    app.run_with_session(OpenSession::directories, |app, folders| {
        let mut rows = vec![Line::styled("Workspace directories", app.theme.text.bold())];
        rows.extend(folders.iter().map(|path| Line::raw(format!("  {}", path.display()))));
        app.show_rows(rows);
    });
}

pub(crate) fn help(app: &mut App) {
    let (theme, width) = (&app.theme, app.window.width());
    let heading = |text: &'static str| Line::styled(text, theme.accent.bold());
    let row = |name: String, arguments: &str, summary: &str| {
        let head = format!("  /{name} {arguments}");
        let name = Line::styled(head.trim_end().to_owned(), theme.accent);
        two_columns(name, Line::styled(summary.to_owned(), theme.text), NAME_COLUMNS, width)
    };
    let mut commands = vec![heading("Commands")];
    let mut subcommands = vec![heading("Subcommands")];
    for spec in TABLE {
        let (name, _) = available_names(spec, |name| app.catalog.has_custom(name));
        commands.extend(row(name.clone(), spec.arguments, spec.summary));
        for sub in spec.subcommands.iter().filter(|sub| !sub.hidden) {
            subcommands.extend(row(format!("{name} {}", sub.name), sub.arguments, sub.summary));
        }
    }
    commands.extend(app.catalog.help(width, theme));
    let keys = app.keymap.help_rows(width, &app.theme);
    let basics = basic_rows(app, width);
    let pages = [
        ("Basics", basics),
        ("Commands", commands),
        ("Subcommands", subcommands),
        ("Keys", keys),
        ("About", version_rows(app)),
    ];
    let pages = pages.map(|(title, rows)| (title.to_owned(), PanelText::Rows(rows))).into();
    app.open(Overlay::panel(DialogPurpose::Help, Panel::new("Help", pages)));
}

/// The commands of the first help page.
const BASIC_COMMANDS: [&str; 10] =
    ["model", "resume", "undo", "rewind", "clear", "compact", "settings", "mcp", "stats", "docs"];

/// Returns the rows of the first help page: what can be typed, and the most useful keys and
/// commands.
fn basic_rows(app: &App, width: usize) -> Vec<Line> {
    let theme = &app.theme;
    let row = |name: String, what: &str| {
        let name = Line::styled(format!("  {name}"), theme.accent);
        two_columns(name, Line::styled(what.to_owned(), theme.text), BASIC_COLUMNS, width)
    };
    let mut rows = vec![Line::styled("Type", theme.accent.bold())];
    for (marker, what) in [
        ("@path", "to add a file or directory to the prompt"),
        ("!command", "to run a command in your shell"),
        ("/command", "to run one of the commands of the next page"),
        ("?", "to see the keys of the input"),
    ] {
        rows.extend(row(marker.to_owned(), what));
    }
    rows.push(Line::EMPTY);
    rows.push(Line::styled("Commands to know", theme.accent.bold()));
    for name in BASIC_COMMANDS {
        if let Some(spec) = TABLE.iter().find(|spec| spec.name == name) {
            let (name, _) = available_names(spec, |name| app.catalog.has_custom(name));
            rows.extend(row(format!("/{name}"), spec.summary));
        }
    }
    rows.push(Line::EMPTY);
    rows.push(Line::styled("Keys to know", theme.accent.bold()));
    let keys = [
        (KeyCommand::Cancel, "stops the agent; press twice to go back to an earlier prompt"),
        (KeyCommand::CycleApprovalMode, "changes the approval mode"),
        (KeyCommand::SelectModel, "selects a model"),
        (KeyCommand::ShowMoreLines, "shows what was truncated"),
        (KeyCommand::ShowTranscript, "shows the whole conversation"),
    ];
    for (command, what) in keys {
        let key = app.keymap.hint_key(command);
        if !key.is_empty() {
            rows.extend(row(key, what));
        }
    }
    rows
}

/// Returns the rows of the last help page.
fn version_rows(app: &App) -> Vec<Line> {
    let theme = &app.theme;
    let row = |name: &str, text: String| {
        Line::styled(format!("  {name:<12}"), theme.accent).with_span(text, theme.text)
    };
    vec![
        Line::styled("Parallax", theme.accent.bold()),
        Line::styled("A terminal AI agent that works on your files.", theme.text),
        Line::EMPTY,
        row("version", env!("CARGO_PKG_VERSION").to_owned()),
        row("model", app.status_data.model.clone()),
        row("directory", app.status_data.directory.clone()),
        row("session", app.session.id().to_owned()),
        Line::EMPTY,
        Line::styled(
            "  /about shows version information, /docs opens the documentation, /bug reports \
             a bug.",
            theme.secondary,
        ),
    ]
}

/// `/docs`: lists the guide pages, or opens the named page.
pub(crate) fn docs(app: &mut App, name: &str) {
    if !name.is_empty() {
        return open_docs_page(app, name);
    }
    let title = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches('#').trim().to_owned()
    };
    // Decisions are for contributors to Parallax.
    let pages = GUIDE.iter().filter(|(path, _)| !path.starts_with("decisions/"));
    let mut items: Vec<ListItem> =
        pages.map(|(path, text)| ListItem::new(*path, title(text), *path)).collect();
    items.sort_by_key(|item| (item.id != "index.md", item.label.clone()));
    let list =
        ListDialog::new("Documentation", items).with_search().hint("enter open a page · esc close");
    app.open(Overlay::list(DialogPurpose::Docs, list));
}

/// Opens a guide page.
pub(crate) fn open_docs_page(app: &mut App, name: &str) {
    let is_path = |path: &str| path == name || path.strip_suffix(".md") == Some(name);
    // Pages in directories are found by their own name, too.
    let is_name = |path: &str| path.rsplit_once('/').is_some_and(|(_, file)| is_path(file));
    let found = GUIDE.iter().find(|(path, _)| is_path(path));
    let Some((path, text)) = found.or_else(|| GUIDE.iter().find(|(path, _)| is_name(path))) else {
        return app.error(format!("Unknown page `{name}`; `/docs` lists the pages."));
    };
    let page = vec![((*path).to_owned(), PanelText::Markdown(text))];
    app.open(Overlay::panel(DialogPurpose::DocsPage, Panel::new("Documentation", page)));
}

pub(crate) fn memory(app: &mut App, whole: bool) {
    app.run_with_session(OpenSession::context_files, move |app, files| {
        if files.is_empty() {
            return app.info("No context files. `/init` creates one for the project.");
        }
        let mut rows = Vec::new();
        for file in files {
            let origin = format!(
                " ({}, about {} tokens)",
                file.tier.describe(),
                crate::status_line::count(file.tokens)
            );
            let path = file.path.display().to_string();
            rows.push(Line::styled(path, app.theme.accent).with_span(origin, app.theme.secondary));
            if whole {
                rows.extend(plain_rows(&file.text));
                rows.push(Line::EMPTY);
            }
        }
        app.show_wrapped_rows(rows);
    });
}

/// Prints the rules in effect, grouped by mode.
pub(crate) fn policies(app: &mut App) {
    app.run_with_config(parallax_sdk::policy_rules, |app, groups| {
        let mut rows = Vec::new();
        for (mode, rules) in groups {
            rows.push(Line::styled(mode_title(mode), app.theme.accent.bold()));
            rows.extend(rules.into_iter().map(|rule| rule_row(rule, &app.theme)));
        }
        app.show_wrapped_rows(rows);
    });
}

/// Opens the rules in effect in a panel with a page for each mode.
pub(crate) fn open_policies_panel(app: &mut App) {
    if app.settings.screen_reader {
        return policies(app);
    }
    app.run_with_config(parallax_sdk::policy_rules, |app, groups| {
        let pages = groups.into_iter().map(|(mode, rules)| {
            let rows = rules.into_iter().map(|rule| rule_row(rule, &app.theme)).collect();
            (mode_title(mode), rows)
        });
        let pages = pages.collect();
        show_pages(app, "Rules", pages);
    });
}

fn mode_title(mode: Option<ApprovalMode>) -> &'static str {
    mode.map_or("all modes", mode_name)
}

fn rule_row(rule: RuleRow, theme: &Theme) -> Line {
    let (word, style) = match rule.decision {
        Decision::Allow => ("allow", theme.success),
        Decision::Ask => ("ask  ", theme.warning),
        Decision::Deny => ("deny ", theme.error),
    };
    Line::styled(format!("  {word} "), style).with_span(rule.rule, theme.text)
}

/// Shows pages of rows in a panel, or one after the other for screen readers.
pub(crate) fn show_pages(
    app: &mut App,
    title: &'static str,
    pages: Vec<(&'static str, Vec<Line>)>,
) {
    if app.settings.screen_reader {
        for (page, rows) in pages {
            let head = Line::styled(format!("{title}: {page}"), app.theme.text.bold());
            app.show_wrapped_rows(std::iter::once(head).chain(rows).collect());
        }
        return;
    }
    let pages = pages.into_iter().map(|(title, rows)| (title.to_owned(), PanelText::Rows(rows)));
    let panel = Panel::new(title, pages.collect());
    app.open(Overlay::panel(DialogPurpose::Pages, panel));
}

/// Prints a part of the statistics of the session.
pub(crate) fn stats(app: &mut App, part: stats_view::StatsPart) {
    let rows = stats_view::rows(app.session.stats(), part, stats_options(app));
    app.show_rows(rows);
}

/// `/stats`: the session, its models and tools, and all sessions.
pub(crate) fn open_stats_panel(app: &mut App) {
    if app.settings.screen_reader {
        return stats(app, stats_view::StatsPart::Session);
    }
    app.run_with_config(
        |launch| launch.session_library().usage_report(None),
        |app, all| {
            let stats = Arc::new(app.session.stats().clone());
            let (session, auth) = (app.session.id().to_owned(), app.status_data.auth.clone());
            let page = |part| {
                let (stats, session, auth) = (stats.clone(), session.clone(), auth.clone());
                PanelText::Layout(RowLayout::new(move |width, theme| {
                    let (plain, plotted) = (false, stats_view::PLOTTED);
                    let (session, auth) = (session.as_str(), auth.as_str());
                    let options = StatsOptions { width, theme, plain, plotted, session, auth };
                    stats_view::rows(&stats, part, options)
                }))
            };
            let all = RowLayout::new(move |width, _| {
                let text = usage_text::format_report(&all, width.saturating_sub(PANEL_EDGES));
                wrap_entries(&plain_rows(&text), width)
            });
            let pages = vec![
                ("Session".to_owned(), page(stats_view::StatsPart::Session)),
                ("Models".to_owned(), page(stats_view::StatsPart::Models)),
                ("Tools".to_owned(), page(stats_view::StatsPart::Tools)),
                ("All sessions".to_owned(), PanelText::Layout(all)),
            ];
            app.open(Overlay::panel(DialogPurpose::Pages, Panel::new("Statistics", pages)));
        },
    );
}

fn stats_options(app: &App) -> StatsOptions<'_> {
    let plain = app.settings.screen_reader;
    let (session, auth) = (app.session.id(), app.status_data.auth.as_str());
    let (width, theme, plotted) = (app.window.width(), &app.theme, stats_view::PLOTTED);
    StatsOptions { width, theme, plain, plotted, session, auth }
}

/// Prints the tools of the model.
pub(crate) fn tools(app: &mut App, described: bool) {
    app.run_with_session(OpenSession::tools, move |app, tools| {
        let mut rows = Vec::new();
        for tool in tools {
            rows.push(tool_name_row(&tool, &app.theme));
            if described {
                rows.extend(plain_rows(&tool.description));
            }
        }
        app.show_wrapped_rows(rows);
    });
}

/// Opens the tools of the model in a panel with a page for each origin, each tool with the first
/// sentence of its description.
pub(crate) fn open_tools_panel(app: &mut App) {
    if app.settings.screen_reader {
        return tools(app, false);
    }
    app.run_with_session(OpenSession::tools, |app, tools| {
        let mut pages = [BUILT_IN, MCP_SERVERS, OTHER].map(|origin| (origin, Vec::new()));
        for tool in &tools {
            let what = format!("    {}", first_sentence(&tool.description));
            let rows = [tool_name_row(tool, &app.theme), Line::styled(what, app.theme.text)];
            let origin = tool_origin(&tool.name);
            for (_, page) in pages.iter_mut().filter(|(title, _)| *title == origin) {
                page.extend(rows.clone());
            }
        }
        let pages = pages.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
        show_pages(app, "Tools", pages);
    });
}

/// Returns where a tool comes from: a page of the panel of tools.
fn tool_origin(name: &str) -> &'static str {
    match built_in_tool(name) {
        Some(_) => BUILT_IN,
        None if name.starts_with("mcp_") => MCP_SERVERS,
        // Subagents, and tools that a command of the project lists.
        None => OTHER,
    }
}

fn tool_name_row(tool: &ToolRow, theme: &Theme) -> Line {
    Line::styled(format!("  {}", sanitize(&tool.display_name)), theme.accent)
        .with_span(format!(" ({})", sanitize(&tool.name)), theme.secondary)
}

/// Returns the first sentence of a description, in one line.
fn first_sentence(text: &str) -> String {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = words.find(". ").map_or(words.len(), |end| end + 1);
    sanitize(words.get(..end).unwrap_or(&words))
}

/// Returns the exit statistics. The plot is shortened so that the end of the conversation stays
/// visible.
fn last_stats(app: &App) -> Vec<Line> {
    let rows = |plotted| {
        let options = StatsOptions { plotted, ..stats_options(app) };
        stats_view::rows(app.session.stats(), stats_view::StatsPart::Session, options)
    };
    let all = rows(LAST_PLOTTED);
    let room = app.window.rows().saturating_sub(CONVERSATION_ROWS);
    let over = all.len().saturating_sub(room);
    match over {
        0 => all,
        over => match LAST_PLOTTED.min(app.session.stats().turns.len()).saturating_sub(over) {
            // Too few rows for a plot below its heading.
            0..3 => rows(0),
            fewer => rows(fewer),
        },
    }
}

/// Returns the rows printed at exit: a summary of the session and how to resume it.
pub(crate) fn exit_summary(app: &mut App, deleted: bool) -> Vec<Line> {
    let mut rows = Vec::new();
    if !app.session.id().is_empty() {
        rows.push(Line::styled("Goodbye!", app.theme.accent));
    }
    let is_resumable = |id: &&String| {
        let id = parallax_protocol::ids::SessionId::new((*id).clone());
        app.launch.as_ref().is_none_or(|launch| launch.is_resumable(&id))
    };
    let has_turns = app.session.has_turns();
    let last = app.session.to_resume();
    if has_turns {
        rows.extend(last_stats(app));
    }
    let unsent = unsent_rows(app);
    rows.extend(unsent);
    let hint = match (deleted, last.filter(is_resumable)) {
        (true, _) => has_turns.then(|| "this session was deleted".to_owned()),
        (false, id) => id.map(|id| format!("To resume it, run: parallax --resume {id}")),
    };
    let hint = hint.map(|hint| Line::styled(hint, app.theme.secondary));
    rows.extend(hint.iter().flat_map(|hint| wrap(hint, app.window.width(), &[])));
    rows
}

/// Returns the rows to leave behind when the program leaves a session of another process. `end` is
/// how the session ended, if it did.
pub(crate) fn detach_summary(app: &App, end: Option<&str>) -> Vec<Line> {
    let id = app.session.id();
    let mut rows = unsent_rows(app);
    let (what, hint) = match end {
        Some(end) => (
            format!("The session {id} {end}."),
            format!("To resume it, run: parallax --resume {id}"),
        ),
        None if app.is_busy() => (
            format!("Detached. The session {id} keeps running."),
            format!("To attach again, run: parallax attach {id}"),
        ),
        // It has nothing left to do.
        None => (
            format!("Detached. The session {id} ends, unless another terminal is attached to it."),
            format!("To continue it, run: parallax --resume {id}"),
        ),
    };
    rows.push(Line::styled(what, app.theme.accent));
    rows.push(Line::styled(hint, app.theme.secondary));
    rows.iter().flat_map(|row| wrap(row, app.window.width(), &[])).collect()
}

/// Returns rows with prompts that were never sent: queued ones, and those that returned when
/// the program ended the turn.
fn unsent_rows(app: &App) -> Vec<Line> {
    let written = app.composer.buffer().expanded_text();
    let texts = app.prompt_queue.unsent_prompts().chain([written.as_str()]);
    let mut rows = Vec::new();
    for text in texts.filter(|text| !text.trim().is_empty()) {
        if rows.is_empty() {
            rows.push(Line::styled("Not sent:", app.theme.warning));
        }
        for line in crate::sanitize::lines(text).lines() {
            let line = crate::sanitize::expand_tabs(line, &mut 0).into_owned();
            let line = Line::styled(format!("  {line}"), app.theme.text);
            rows.extend(wrap(&line, app.window.width(), &[Span::raw("  ")]));
        }
    }
    rows
}
