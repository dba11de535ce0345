//! Informational slash commands in non-interactive mode: `parallax -p /tools`, as text or as data
//! with `-o json`.

use parallax_commands::command_groups;
use parallax_commands::{
    TABLE, equivalent_command, is_alias, is_parallax_only, is_reserved, strip_parallax_prefix,
};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::model::Usage;
use parallax_protocol::policy::Decision;
use parallax_protocol::store::Record;
use parallax_sdk::HookInfo;
use parallax_sdk::OpenSession;
use parallax_sdk::about::{About, INBOX, PRIVACY};
use parallax_sdk::ide::{
    Companion, CompanionSnapshot, DisconnectReason, diagnosis_text, status_text,
};
use parallax_sessions::stats::Tokens;
use serde_json::{Value, json};

use restore_points::restore_points;

mod engine_answer;
mod recorded_work;
mod restore_points;

pub use engine_answer::{EngineAnswer, ask_engine, engine_answer, engine_request};

/// Output of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandOutput {
    /// Lines of text for the user.
    pub text: String,
    /// The same as data for programs.
    pub data: Value,
}

/// Returns the commands that work without a terminal, as in the help.
fn without_terminal() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|command| command.headless).filter(|usage| !usage.is_empty())
}

/// Returns whether the argument of `/plan` is text to plan rather than a subcommand.
pub fn plans(arguments: &str) -> bool {
    !matches!(arguments.trim(), "" | "copy")
}

/// Runs a typed line (`/name arguments`). Returns `None` if the name is not a built-in command
/// or is one that sends a prompt (`/commit`). Blocking.
///
/// # Errors
/// Returns an error if the command needs a terminal or fails.
pub fn run(
    session: &OpenSession,
    name: &str,
    arguments: &str,
) -> Option<Result<CommandOutput, Failure>> {
    // Custom commands can override built-in commands that Gemini CLI does not have.
    if !is_reserved(name) && session.commands.has_command(name) {
        return None;
    }
    if !is_reserved(name)
        && let Some(text) = session.commands.prompt_help(name, arguments)
    {
        return Some(Ok(CommandOutput { data: json!({"text": text}), text: format!("{text}\n") }));
    }
    let name = strip_parallax_prefix(name).unwrap_or(name);
    if let Some(equivalent) = equivalent_command(name) {
        let (name, first) = equivalent.split_once(' ').unwrap_or((equivalent, ""));
        return run(session, name, format!("{first} {arguments}").trim());
    }
    let word = arguments.split_whitespace().next().unwrap_or_default();
    let result = match (name, word) {
        ("about", _) => Ok(about(session)),
        ("agents", "" | "list") => Ok(agents(session)),
        ("chat" | "resume", "list") => Ok(chats(session)),
        ("commands", "" | "list") => Ok(custom_commands(session)),
        ("directory" | "dir", "" | "show") => Ok(directories(session)),
        ("extensions" | "extension", "" | "list") => Ok(extensions(session)),
        ("help" | "?", _) => Ok(help()),
        ("hooks", "" | "list" | "show" | "panel") => hooks(session),
        ("ide", "" | "status") => Ok(companion(session)),
        ("ide", "doctor") => diagnose_companion(session),
        ("mcp", "" | "list" | "ls" | "nodesc" | "desc" | "schema") => {
            Ok(mcp_servers(session, word))
        }
        ("memory", "" | "show" | "list") => Ok(memory(session, word != "list")),
        ("memory", "inbox") => {
            Ok(CommandOutput { text: format!("{INBOX}\n"), data: json!({"waiting": []}) })
        }
        ("model", "") => Ok(model(session)),
        ("model", "why") => Ok(recorded_work::model_reason(session)),
        ("permissions", "") => trust(session),
        ("policies", "" | "list") => Ok(policies(session)),
        ("privacy", _) => {
            Ok(CommandOutput { text: PRIVACY.to_owned(), data: json!({"text": PRIVACY}) })
        }
        ("restore", "" | "list") => restore_points(session),
        ("skills", "" | "list") => Ok(skills(session)),
        ("todos", _) => Ok(recorded_work::todos_command(session)),
        ("stats" | "usage" | "cost", "" | "session" | "model" | "tools") => Ok(stats(session)),
        ("tools", "" | "desc" | "descriptions" | "nodesc") => {
            Ok(tools(session, word.starts_with("desc")))
        }
        ("plan", _) if plans(arguments) => return None,
        ("init" | "parallax" | "commit" | "commit:no-push" | "commit:pr", _) => return None,
        _ if is_reserved(name) || is_parallax_only(name) || is_alias(name) => {
            Err(terminal_required_failure(name, word))
        }
        _ => return None,
    };
    Some(result)
}

fn about(session: &OpenSession) -> CommandOutput {
    let about = About::collect(session.launch());
    let commit = about.commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    let rows = [
        ("version", format!("{}{commit}", about.version)),
        ("model", format!("{} ({})", about.model.0, about.model.1)),
        ("sandbox", about.sandbox.clone()),
        ("system", about.os.clone()),
        ("signed in", about.auth.clone()),
        ("session", session.id.as_str().to_owned()),
    ];
    let text = rows.iter().map(|(name, value)| format!("{name:<10} {value}")).collect();
    CommandOutput {
        text: join_lines(text),
        data: json!({
            "version": about.version, "commit": about.commit, "model": about.model.0,
            "resolvedModel": about.model.1, "sandbox": about.sandbox, "os": about.os,
            "auth": about.auth, "sessionId": session.id.as_str(),
        }),
    }
}

fn companion(session: &OpenSession) -> CommandOutput {
    let snapshot = session.companion().map(Companion::snapshot);
    let text = snapshot
        .as_ref()
        .map_or_else(|| format!("🔴 Disconnected: {}", DisconnectReason::Disabled), status_text);
    let files = snapshot.iter().flat_map(|snapshot| &snapshot.files.files);
    let data = json!({
        "connected": snapshot.as_ref().is_some_and(CompanionSnapshot::is_connected),
        "editor": snapshot.as_ref().and_then(|it| it.editor.as_ref()).map(|it| &it.name),
        "openFiles": files.map(|file| &file.path).collect::<Vec<_>>(),
    });
    CommandOutput { text: format!("{text}\n"), data }
}

fn diagnose_companion(session: &OpenSession) -> Result<CommandOutput, Failure> {
    let diagnosis = session.launch().companion_manager().diagnose()?;
    let servers = diagnosis.servers.iter();
    let data = json!({
        "reachable": diagnosis.is_reachable,
        "editor": diagnosis.editor,
        "servers": servers.map(|(server, result)| json!({"server": server, "result": result}))
            .collect::<Vec<_>>(),
        "omitted": diagnosis.omitted,
        "fix": diagnosis.fix,
    });
    Ok(CommandOutput { text: format!("{}\n", diagnosis_text(&diagnosis)), data })
}

fn agents(session: &OpenSession) -> CommandOutput {
    let agents = session.launch().agent_library().agents().agents;
    let rows = agents.iter().map(|agent| {
        let off = if agent.disabled { " (off)" } else { "" };
        format!("{}{off}: {}", agent.name, first_line(&agent.description))
    });
    let data = agents.iter().map(|agent| {
        json!({"name": agent.name, "description": agent.description, "enabled": !agent.disabled,
            "file": agent.file, "model": agent.model})
    });
    CommandOutput { text: join_lines(rows.collect()), data: data.collect() }
}

fn chats(session: &OpenSession) -> CommandOutput {
    let chats = session.launch().session_library().chats();
    let rows = chats.iter().map(|chat| format!("{} ({})", chat.tag, chat.age()));
    let data = chats.iter().map(|chat| json!({"tag": chat.tag, "path": chat.path}));
    CommandOutput { text: lines_or_none(rows.collect(), "Nothing is saved."), data: data.collect() }
}

fn custom_commands(session: &OpenSession) -> CommandOutput {
    let (catalog, prompts) = (session.commands.catalog(), session.commands.prompts());
    let mut rows = Vec::new();
    let mut data = Vec::new();
    for (title, names) in command_groups(&catalog, &prompts) {
        rows.push(format!("{title}:"));
        for (name, what) in names {
            rows.push(format!("  /{name} {what}"));
            data.push(json!({"name": name, "description": what, "source": title}));
        }
    }
    rows.extend(session.commands.notices());
    rows.extend(catalog.problems().map(str::to_owned));
    CommandOutput { text: lines_or_none(rows, "No custom commands."), data: data.into() }
}

fn directories(session: &OpenSession) -> CommandOutput {
    let directories = session.directories();
    let rows = directories.iter().map(|directory| directory.display().to_string()).collect();
    CommandOutput { text: join_lines(rows), data: json!(directories) }
}

fn extensions(session: &OpenSession) -> CommandOutput {
    let extensions = session.launch().extensions();
    let mut rows = Vec::new();
    let mut data = Vec::new();
    for extension in &extensions.all {
        let (name, version) = (extension.name(), &extension.manifest.version);
        let off = if extension.active { "" } else { " (off)" };
        rows.push(format!("{name} {version}{off}"));
        data.push(json!({"name": name, "version": version, "enabled": extension.active,
            "path": extension.folder}));
    }
    CommandOutput { text: lines_or_none(rows, "No extensions are installed."), data: data.into() }
}

fn hooks(session: &OpenSession) -> Result<CommandOutput, Failure> {
    let (hooks, notes) = session.launch().hook_library().infos()?;
    let row = |hook: &HookInfo| {
        let (event, title, source, state) = (hook.event, &hook.title, &hook.source, hook.state());
        format!("{event} {title} ({source}, {state}): {}", hook.command)
    };
    let rows = hooks.iter().map(row).chain(notes).collect();
    let data = hooks.iter().map(|hook| {
        json!({"title": hook.title, "event": hook.event, "source": hook.source,
            "matcher": hook.matcher, "command": hook.command, "enabled": hook.enabled,
            "accepted": hook.accepted, "running": hook.running, "file": hook.file})
    });
    Ok(CommandOutput { text: lines_or_none(rows, "No hooks."), data: data.collect() })
}

fn mcp_servers(session: &OpenSession, detail: &str) -> CommandOutput {
    let rows = session.mcp_view().map(|view| view.rows()).unwrap_or_default();
    let mut lines = Vec::new();
    for row in &rows {
        let error = row.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        lines.push(format!("{} ({}, {}){error}", row.name, row.kind, row.status));
        if row.error.is_some() && !row.last_stderr_line.is_empty() {
            lines.push(format!("  last output: {}", row.last_stderr_line));
        }
        lines.extend(row.notes.iter().map(|note| format!("  note: {note}")));
        for tool in &row.tools {
            match detail {
                "desc" | "schema" => {
                    lines.push(format!("  {}: {}", tool.name, first_line(&tool.description)));
                }
                _ => lines.push(format!("  {}", tool.name)),
            }
            if detail == "schema" {
                lines.push(format!("    {}", tool.schema));
            }
        }
        lines.extend(row.prompts.iter().map(|prompt| format!("  /{}", prompt.name)));
    }
    let data = rows.iter().map(|row| {
        let tools = row.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "schema": tool.schema})
        });
        let prompts = row
            .prompts
            .iter()
            .map(|prompt| json!({"name": prompt.name, "description": prompt.description}));
        json!({"name": row.name, "type": row.kind, "status": row.status, "target": row.target,
            "extension": row.extension, "error": row.error, "notes": row.notes,
            "handshake_ms": row.handshake.and_then(|time| u64::try_from(time).ok()),
            "last_words": row.last_stderr_line,
            "tools": tools.collect::<Value>(), "prompts": prompts.collect::<Value>()})
    });
    CommandOutput {
        text: lines_or_none(lines, "No MCP servers are configured."),
        data: data.collect(),
    }
}

fn memory(session: &OpenSession, whole: bool) -> CommandOutput {
    let files = session.context_files();
    let mut lines = Vec::new();
    for file in &files {
        let path = file.path.display();
        lines.push(format!("{path} ({}, {} tokens)", file.tier.describe(), file.tokens));
        if whole {
            lines.push(file.text.trim_end().to_owned());
            lines.push(String::new());
        }
    }
    let data = files.iter().map(|file| {
        json!({"path": file.path, "tier": file.tier.describe(), "tokens": file.tokens,
            "text": whole.then_some(&file.text)})
    });
    CommandOutput {
        text: lines_or_none(lines, "No context files are loaded."),
        data: data.collect(),
    }
}

fn model(session: &OpenSession) -> CommandOutput {
    let about = About::collect(session.launch());
    let choices = session.launch().provider_manager().model_choices();
    let mut lines = vec![format!("{} is set", session.model)];
    lines.extend(choices.iter().map(|choice| match choice.model == choice.name {
        true => format!("  {}", choice.name),
        false => format!("  {} ({})", choice.name, choice.model),
    }));
    let names: Vec<&String> = choices.iter().map(|choice| &choice.name).collect();
    CommandOutput {
        text: join_lines(lines),
        data: json!({"model": session.model, "resolvedModel": about.model.1, "choices": names}),
    }
}

fn trust(session: &OpenSession) -> Result<CommandOutput, Failure> {
    let directory = &session.launch().options().directory;
    let trusted = session.launch().trust_manager().trust(directory)?.trusted;
    let word = if trusted { "trusted" } else { "not trusted" };
    Ok(CommandOutput {
        text: format!("{} is {word}.\n", directory.display()),
        data: json!({"folder": directory, "trusted": trusted}),
    })
}

fn policies(session: &OpenSession) -> CommandOutput {
    let mut lines = Vec::new();
    let mut data = Vec::new();
    for (mode, rows) in parallax_sdk::policy_rules(session.launch()) {
        let mode = mode.map_or("all modes", |mode| mode.as_str());
        lines.push(format!("{mode}:"));
        for row in rows {
            let decision = match row.decision {
                Decision::Allow => "allow",
                Decision::Ask => "ask",
                Decision::Deny => "deny",
            };
            lines.push(format!("  {} {decision} {}", row.priority, row.rule));
            data.push(json!({"mode": mode, "priority": row.priority, "decision": decision,
                "rule": row.rule}));
        }
    }
    CommandOutput { text: join_lines(lines), data: data.into() }
}

fn skills(session: &OpenSession) -> CommandOutput {
    let (skills, notes) = session.launch().skill_library().infos();
    let rows = skills.iter().map(|skill| {
        let off = if skill.enabled { "" } else { ", off" };
        format!("{} ({}{off}): {}", skill.name, skill.source, first_line(&skill.description))
    });
    let data = skills.iter().map(|skill| {
        json!({"name": skill.name, "description": skill.description, "source": skill.source,
            "enabled": skill.enabled})
    });
    let rows = rows.chain(notes).collect();
    CommandOutput { text: lines_or_none(rows, "No skills."), data: data.collect() }
}

/// Uses the journal, or the records of a resumed session as long as nothing was appended.
fn stats(session: &OpenSession) -> CommandOutput {
    let mut models: Vec<(String, u64, Tokens)> = Vec::new();
    let (mut calls, mut failed) = (0_u64, 0_u64);
    let written = session.journal_reader()();
    let past = session.initial_records();
    let records = if written.is_empty() { &*past } else { &*written };
    for record in records {
        match record {
            Record::Content(content) => {
                let Some(usage) = &content.usage else { continue };
                count(&mut models, content.model.as_deref().unwrap_or("unknown"), usage);
            }
            Record::Result(result) => {
                calls += 1;
                failed += u64::from(result.status != "success");
            }
            _ => {}
        }
    }
    let mut lines = vec![format!("session    {}", session.id.as_str())];
    for (model, requests, tokens) in &models {
        lines.push(format!(
            "{model}: {requests} requests, {} tokens in ({} cached), {} out",
            tokens.prompt, tokens.cached, tokens.candidates
        ));
    }
    lines.push(format!("tools      {calls} calls, {failed} of them failed"));
    let by_model: serde_json::Map<String, Value> = models
        .iter()
        .map(|(model, requests, tokens)| {
            (model.clone(), json!({"requests": requests, "tokens": tokens}))
        })
        .collect();
    CommandOutput {
        text: join_lines(lines),
        data: json!({"sessionId": session.id.as_str(), "models": by_model,
            "tools": {"totalCalls": calls, "totalFail": failed}}),
    }
}

fn tools(session: &OpenSession, described: bool) -> CommandOutput {
    let tools = session.tools();
    let rows = tools.iter().map(|tool| match described {
        true => format!("{} ({}): {}", tool.name, tool.display_name, tool.description.trim()),
        false => format!("{} ({})", tool.name, tool.display_name),
    });
    let data = tools.iter().map(|tool| {
        json!({"name": tool.name, "displayName": tool.display_name,
            "description": tool.description})
    });
    CommandOutput { text: join_lines(rows.collect()), data: data.collect() }
}

fn count(models: &mut Vec<(String, u64, Tokens)>, model: &str, usage: &Usage) {
    let index = models.iter().position(|(name, ..)| name == model).unwrap_or_else(|| {
        models.push((model.to_owned(), 0, Tokens::default()));
        models.len() - 1
    });
    if let Some((_, requests, tokens)) = models.get_mut(index) {
        *requests += 1;
        tokens.add(usage);
    }
}

fn help() -> CommandOutput {
    let commands: Vec<&str> = without_terminal().collect();
    let text = format!(
        "These commands work without a terminal, and with `-o json` they print data:\n  \
         {}\n`parallax --help` lists the flags; custom commands and skills also work.\n",
        commands.join("\n  ")
    );
    CommandOutput { text, data: json!({ "commands": commands }) }
}

fn terminal_required_failure(name: &str, word: &str) -> Failure {
    // The command may work here without this subcommand.
    let answers = without_terminal().any(|known| {
        known.strip_prefix('/').and_then(|known| known.split(' ').next()) == Some(name)
    });
    let line = if answers && !word.is_empty() { format!("{name} {word}") } else { name.to_owned() };
    let message = format!(
        "`/{line}` works only in the interactive terminal (`parallax` without a prompt). Commands that \
         work here: {}",
        without_terminal().collect::<Vec<_>>().join(", ")
    );
    Failure::new(FailureKind::Input, message)
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

fn join_lines(lines: Vec<String>) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

fn lines_or_none(lines: Vec<String>, none: &str) -> String {
    if lines.is_empty() { format!("{none}\n") } else { join_lines(lines) }
}
