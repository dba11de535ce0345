//! `/mcp`: shows the state of MCP servers and controls them.

use parallax_screen::Line;
use parallax_sdk::OpenSession;
use parallax_sdk::mcp_view::{McpItem, McpRow, McpState, McpView};

use crate::app::App;
use crate::app::commands::{completions, info};
use crate::app::effect::{Effect, JobContinuation};
use crate::sanitize::sanitize;
use crate::theme::Theme;
use crate::tokens::{CURRENT, DONE, FAILED, IDLE};

/// Maximum number of names listed per kind.
const MAX_SHOWN: usize = 60;

/// The level of detail of the server list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetailLevel {
    /// Names.
    Names,
    /// With descriptions.
    Descriptions,
    /// With tool schemas.
    Schemas,
}

/// Prints the servers.
pub(crate) fn list(app: &mut App, detail: DetailLevel) {
    with_rows(app, move |app, rows| {
        let lines = rows.iter().flat_map(|row| server_rows(row, detail, &app.theme)).collect();
        app.show_wrapped_rows(lines);
    });
}

/// Opens the servers in a panel with a page for each level of detail.
pub(crate) fn open_panel(app: &mut App) {
    if app.settings.screen_reader {
        return list(app, DetailLevel::Names);
    }
    with_rows(app, |app, rows| {
        let pages = [
            ("Servers", DetailLevel::Names),
            ("Descriptions", DetailLevel::Descriptions),
            ("Schemas", DetailLevel::Schemas),
        ];
        let lines = |detail| -> Vec<Line> {
            rows.iter().flat_map(|row| server_rows(row, detail, &app.theme)).collect()
        };
        let pages = pages.map(|(title, detail)| (title, lines(detail)));
        info::show_pages(app, "MCP servers", pages.into());
    });
}

fn with_rows(app: &mut App, show: impl FnOnce(&mut App, Vec<McpRow>) + Send + 'static) {
    let shown = move |app: &mut App, rows: Option<Vec<McpRow>>| match rows {
        Some(rows) if !rows.is_empty() => show(app, rows),
        _ => app.info("No MCP servers configured. Add one with `parallax mcp add`."),
    };
    app.run_with_session(|open: &OpenSession| open.mcp_view().map(|view| view.rows()), shown);
}

/// Notifies the user about servers that are still starting, because the first prompt does not
/// wait for them.
pub(crate) fn report_starting_servers(app: &mut App) {
    if app.session.is_attached() {
        return;
    }
    let names = |open: &OpenSession| open.mcp_view().map(|view| view.starting());
    app.run_with_session(names, |app, names| {
        let names: Vec<String> =
            names.iter().flatten().map(|name| format!("`{}`", sanitize(name))).collect();
        let (are, their) = match names.as_slice() {
            [] => return,
            [_] => ("server is", "Its"),
            _ => ("servers are", "Their"),
        };
        app.info(format!(
            "MCP {are} still starting: {}. {their} tools are not available in this request.",
            names.join(", ")
        ));
    });
}

/// Reports a server that rejects requests until the user signs in.
pub(crate) fn report_sign_in_required(app: &mut App, server: &str, is_renewal: bool) {
    let server = sanitize(server);
    let reason = match is_renewal {
        true => "requires you to sign in again",
        false => "requires authentication",
    };
    app.info(format!("MCP server `{server}` {reason}. Run `/mcp auth {server}`."));
}

/// Reconnects all servers.
pub(crate) fn reload(app: &mut App) {
    app.toast("restarting the MCP servers");
    with_servers(
        app,
        |view| view.reload(),
        |app, done| match done {
            Ok(()) => list(app, DetailLevel::Names),
            Err(failure) => app.error(failure.message),
        },
    );
}

pub(crate) fn set_enabled(app: &mut App, arguments: &str, on: bool) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let session = words.contains(&"--session");
    let names: Vec<&str> = words.into_iter().filter(|word| *word != "--session").collect();
    let verb = if on { "enable" } else { "disable" };
    let [name] = names.as_slice() else {
        return app.error(format!("No server given: use `/mcp {verb} SERVER [--session]`."));
    };
    let name = (*name).to_owned();
    with_servers(
        app,
        move |view| view.set_enabled(&name, on, session),
        move |app, done| match done {
            Ok(name) => {
                let until = if session { "for this session" } else { "for all sessions" };
                app.info(format!("MCP server `{name}` {verb}d {until}."));
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Signs in to a server in the browser.
pub(crate) fn sign_in(app: &mut App, name: &str) {
    if name.is_empty() {
        let wanting =
            |open: &OpenSession| open.mcp_view().map(|view| view.servers_requiring_sign_in());
        return app.run_with_session(wanting, |app, names| match names.as_deref() {
            Some([only]) => sign_in(app, only),
            Some([]) | None => app.info("No MCP server requires authentication."),
            Some(names) => app.info(format!(
                "These MCP servers require authentication: {}. Run `/mcp auth SERVER` for one \
                 of them.",
                names.join(", ")
            )),
        });
    }
    let name = name.to_owned();
    app.queue_effect(Effect::RunWithSession(Box::new(move |open| {
        let view = open.mcp_view();
        Box::new(move |app| {
            let Some(view) = view else { return app.info("No MCP servers configured.") };
            app.queue_effect(Effect::ReportProgress(Box::new(move |deliver| {
                let sender = deliver.clone();
                let show = move |address: &str| {
                    let text = format!("To sign in, open this URL if no browser opens: {address}");
                    let then: JobContinuation = Box::new(move |app| {
                        app.toast("opening the browser to sign in");
                        app.info(text);
                    });
                    sender.send_soon(then);
                };
                let signed = view.sign_in(&name, show);
                deliver.send(Box::new(move |app| match signed {
                    Ok(name) => app.info(format!("Signed in to `{name}`.")),
                    Err(failure) => app.error(failure.message),
                }));
            })));
        })
    })));
}

/// Runs work with the MCP servers on a thread.
fn with_servers<T: Send + 'static>(
    app: &mut App,
    work: impl FnOnce(&McpView) -> T + Send + 'static,
    then: impl FnOnce(&mut App, T) + Send + 'static,
) {
    app.run_with_session(OpenSession::mcp_view, move |app, view| {
        let Some(view) = view else {
            return app.info("No MCP servers configured. Add one with `parallax mcp add`.");
        };
        app.queue_effect(Effect::Run(Box::new(move || {
            let result = work(&view);
            Box::new(move |app| then(app, result))
        })));
    });
}

/// Updates what servers provide: prompts become commands, resources can be mentioned.
pub(crate) fn servers_changed(app: &mut App, resources: Vec<(String, String)>) {
    app.completion.mention_resources(resources);
    completions::update(app);
    let Some(commands) = app.catalog.commands().cloned() else { return };
    app.queue_effect(Effect::Run(Box::new(move || {
        let prompts = commands.prompts();
        Box::new(move |app| {
            app.catalog.set_prompts(prompts);
            completions::set_commands(app);
        })
    })));
}

fn server_rows(row: &McpRow, detail: DetailLevel, theme: &Theme) -> Vec<Line> {
    let (marker, style) = match row.state {
        McpState::Ready => (DONE, theme.success),
        McpState::Starting => (CURRENT, theme.warning),
        McpState::Down => (FAILED, theme.error),
        McpState::Off => (IDLE, theme.secondary),
    };
    let count = |items: &[McpItem], one: &str| match items.len() {
        0 => None,
        1 => Some(format!("1 {one}")),
        many => Some(format!("{many} {one}s")),
    };
    let counts: Vec<String> = [
        count(&row.tools, "tool"),
        count(&row.prompts, "prompt"),
        count(&row.resources, "resource"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut head =
        Line::styled(format!("{marker} "), style).with_span(sanitize(&row.name), theme.text.bold());
    if let Some(extension) = &row.extension {
        head = head.with_span(format!(" (from {})", sanitize(extension)), theme.secondary);
    }
    head = head.with_span(format!(" · {}", row.status), style);
    if !counts.is_empty() {
        head = head.with_span(format!(" · {}", counts.join(", ")), theme.secondary);
    }
    if let Some(time) = row.handshake.filter(|_| detail != DetailLevel::Names) {
        head = head.with_span(format!(" · started in {time} ms"), theme.secondary);
    }
    let mut rows = vec![head];
    let mut more = |text: String, style| rows.push(Line::styled(format!("  {text}"), style));
    if detail != DetailLevel::Names {
        more(format!("{}: {}", row.kind, sanitize(&row.target)), theme.secondary);
        for text in [&row.implementation, &row.description] {
            if !text.is_empty() {
                more(sanitize(text), theme.secondary);
            }
        }
    }
    if let Some(error) = row.error.as_ref().filter(|_| row.state == McpState::Down) {
        more(sanitize(error), theme.error);
        if !row.last_stderr_line.is_empty() {
            more(format!("last output: {}", sanitize(&row.last_stderr_line)), theme.secondary);
        }
    }
    for note in &row.notes {
        more(sanitize(note), theme.warning);
    }
    for (title, items) in
        [("Tools", &row.tools), ("Prompts", &row.prompts), ("Resources", &row.resources)]
    {
        if items.is_empty() {
            continue;
        }
        rows.push(Line::styled(format!("  {title}:"), theme.secondary));
        for item in items.iter().take(MAX_SHOWN) {
            rows.extend(item_rows(item, detail, theme));
        }
        if let Some(left) = items.len().checked_sub(MAX_SHOWN).filter(|left| *left > 0) {
            rows.push(Line::styled(format!("    … {left} more"), theme.secondary));
        }
    }
    rows
}

fn item_rows(item: &McpItem, detail: DetailLevel, theme: &Theme) -> Vec<Line> {
    let mut rows = vec![Line::styled(format!("    {}", sanitize(&item.name)), theme.accent)];
    if detail != DetailLevel::Names && !item.description.trim().is_empty() {
        let lines = item.description.trim().lines();
        rows.extend(
            lines.map(|line| Line::styled(format!("      {}", sanitize(line)), theme.text)),
        );
    }
    if detail == DetailLevel::Schemas && !item.schema.is_null() {
        let schema = format!("{:#}", item.schema);
        rows.extend(
            schema.lines().map(|line| Line::styled(format!("      {line}"), theme.secondary)),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_server_shows_the_reason() {
        let row = McpRow {
            name: "s".into(),
            state: McpState::Down,
            status: "disconnected",
            extension: Some("e".into()),
            description: String::new(),
            kind: "stdio",
            target: "node x".into(),
            implementation: String::new(),
            error: Some("it ended at once".into()),
            handshake: None,
            last_stderr_line: "no module\tx".into(),
            notes: Vec::new(),
            tools: vec![McpItem {
                name: "t".into(),
                description: "does\nit".into(),
                schema: serde_json::json!({"type": "object"}),
            }],
            prompts: Vec::new(),
            resources: Vec::new(),
        };
        let text = |detail| {
            let rows = server_rows(&row, detail, &Theme::no_color());
            let text = |row: &Line| row.spans.iter().map(|span| span.text.as_ref()).collect();
            rows.iter().map(text).collect::<Vec<String>>().join("\n")
        };
        assert_eq!(
            text(DetailLevel::Names),
            "✕ s (from e) · disconnected · 1 tool\n  it ended at once\n  last output: no \
             module    x\n  Tools:\n    t"
        );
        let schemas = text(DetailLevel::Schemas);
        assert!(schemas.contains("stdio: node x") && schemas.contains("      it"), "{schemas}");
        assert!(schemas.contains("\"type\": \"object\""), "{schemas}");
    }
}
