//! `parallax sessions`: manages the sessions of all projects.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use parallax_headless::{ExitCode, OutputFormat, Sanitizer, one_line};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::SessionConfig;
use parallax_sessions::export::{ENDINGS, ExportFormat};
use parallax_sessions::moves::{MoveResult, NewSession};
use parallax_sessions::recorded_items::RecordedItem;
use parallax_sessions::retention::CleanupResult;
use parallax_sessions::search::{MARKS, SearchRequest, SearchResult};
use parallax_sessions::tree;
use parallax_sessions::{SessionEntry, SessionOrigin};
use serde_json::{Value, json};

use crate::command_result::{CommandResult, print_result};
use crate::extension_commands::launch;
use crate::index_progress::IndexProgress;
use crate::sessions_arguments::{SessionsAction, SessionsArguments};

/// Number of characters of an ID that are almost always unique.
const SHORT_ID: usize = 8;
/// Maximum number of lines shown of an output.
const OUTPUT_LINES: usize = 6;

/// Runs the subcommand and prints its result.
///
/// # Errors
/// Returns an error if the session is unknown, or on an I/O error.
pub(crate) fn run(arguments: &SessionsArguments) -> Result<ExitCode, Failure> {
    let launch = launch()?;
    let result = match &arguments.action {
        SessionsAction::List { here, tree, limit } => list(&launch, *here, *tree, *limit),
        SessionsAction::Show { session } => show(&launch, session)?,
        SessionsAction::Search { words, here, limit, rebuild } => {
            let (text, project_only, limit, rebuild) = (words.join(" "), *here, *limit, *rebuild);
            search(&launch, &SearchRequest { text, project_only, limit, rebuild })?
        }
        SessionsAction::Export { session, format, output, out, .. } => {
            let form = format.map(ExportFormat::from);
            match (session, out) {
                (Some(session), _) => export(&launch, session, form, output.as_deref())?,
                (None, out) => export_all(&launch, form, out.as_deref().unwrap_or(Path::new(".")))?,
            }
        }
        SessionsAction::Import { file } => {
            new_session_result(&launch.session_library().import_session(file)?, "imported")
        }
        SessionsAction::Fork { session, at } => {
            new_session_result(&launch.session_library().fork_session(session, *at)?, "copied")
        }
        SessionsAction::Move { session, from, to } => {
            let to = to.clone().unwrap_or_else(|| PathBuf::from("."));
            move_result(&match (session, from) {
                (Some(session), _) => launch.session_library().move_session(session, &to)?,
                (None, from) => {
                    launch.session_library().move_project(from.as_deref().unwrap_or(&to), &to)?
                }
            })
        }
        SessionsAction::Gc { dry_run } => {
            cleanup_result(&launch.session_library().collect_sessions(*dry_run)?, *dry_run)
        }
    };
    Ok(print_result(&result, format(arguments)))
}

/// Returns the output format, which applies to failures, too.
pub(crate) fn format(arguments: &SessionsArguments) -> OutputFormat {
    if arguments.json { OutputFormat::Json } else { OutputFormat::Text }
}

fn origin(origin: SessionOrigin) -> &'static str {
    match origin {
        SessionOrigin::Parallax => "parallax",
        SessionOrigin::GeminiCli => "gemini-cli",
        SessionOrigin::ParallaxCli => "parallax-cli",
    }
}

fn entry_json(entry: &SessionEntry) -> Value {
    json!({
        "id": entry.id,
        "title": entry.title,
        "project": entry.project,
        "startTime": entry.start.to_string(),
        "lastUsed": entry.last_used.to_string(),
        "origin": origin(entry.origin),
        "path": entry.path,
        "forkedFrom": entry.forked_from,
    })
}

fn list(launch: &SessionConfig, here: bool, as_tree: bool, limit: usize) -> CommandResult {
    let mut sessions = if here {
        launch.session_library().sessions()
    } else {
        launch.session_library().all_sessions()
    };
    sessions.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
    let all = sessions.len();
    sessions.truncate(limit);
    let json = sessions.iter().map(entry_json).collect::<Vec<_>>().into();
    let more = match all.saturating_sub(limit) {
        0 => String::new(),
        more => format!("… {more} more; use `--limit {all}` to list all\n"),
    };
    if sessions.is_empty() {
        return CommandResult::new("No sessions.\n", json);
    }
    let mut text = String::new();
    let mut project: Option<&Path> = None;
    for (depth, entry) in if as_tree { tree(&sessions) } else { flat_list(&sessions) } {
        if project != Some(&entry.project) && depth == 0 {
            project = Some(&entry.project);
            let _ = writeln!(text, "{}", display_path(&entry.project));
        }
        let id = entry.short_id();
        let foreign = match entry.origin {
            SessionOrigin::Parallax => String::new(),
            other => format!(" · {}", origin(other)),
        };
        let indent = "  ".repeat(depth + 1);
        let title = one_line(&entry.title);
        let _ = writeln!(text, "{indent}{id}  {title} ({}{foreign})", entry.age());
    }
    text.push_str(&more);
    CommandResult { note: more, ..CommandResult::new(text, json) }
}

fn display_path(project: &Path) -> String {
    match project.as_os_str().is_empty() {
        true => "(no project)".to_owned(),
        false => one_line(&project.to_string_lossy()),
    }
}

fn flat_list(sessions: &[SessionEntry]) -> Vec<(usize, &SessionEntry)> {
    // Sort the projects by their newest session.
    let mut projects: Vec<&Path> = Vec::new();
    for entry in sessions {
        if !projects.contains(&entry.project.as_path()) {
            projects.push(&entry.project);
        }
    }
    let mut rows: Vec<(usize, &SessionEntry)> = sessions.iter().map(|entry| (0, entry)).collect();
    // The sort is stable: within a project the order is kept.
    rows.sort_by_key(|(_, entry)| projects.iter().position(|one| *one == entry.project));
    rows
}

fn show(launch: &SessionConfig, selector: &str) -> Result<CommandResult, Failure> {
    let entry = launch.session_library().any_session(selector)?;
    let items = launch.session_library().session_items(&entry)?;
    let mut json = entry_json(&entry);
    if let Some(object) = json.as_object_mut() {
        object.insert("items".to_owned(), items.iter().map(item_json).collect());
    }
    let mut text = format!("{}\n", one_line(&entry.title));
    let _ = writeln!(
        text,
        "{} · {} · {} · {}",
        entry.id,
        display_path(&entry.project),
        entry.start,
        entry.age()
    );
    for item in &items {
        write_item(&mut text, item);
    }
    Ok(CommandResult::new(text, json))
}

fn item_json(item: &RecordedItem) -> Value {
    match item {
        RecordedItem::User { text, turn, time, .. } => {
            json!({"type": "user", "turn": turn, "time": time, "text": text})
        }
        RecordedItem::Steer { text } => json!({"type": "steer", "text": text}),
        RecordedItem::Continued(continuation) => {
            json!({"type": "hook", "hooks": continuation.hooks, "text": continuation.text})
        }
        RecordedItem::Shell { command, output, code } => {
            json!({"type": "shell", "command": command, "output": output, "code": code})
        }
        RecordedItem::Thought { text } => json!({"type": "thought", "text": text}),
        RecordedItem::Text { text, partial } => {
            json!({"type": "text", "text": text, "partial": partial})
        }
        RecordedItem::Tool { name, args, status, output, .. } => json!({
            "type": "tool", "name": name, "args": args, "status": status, "output": output,
        }),
        RecordedItem::Image(image) => {
            json!({"type": "image", "name": image.name, "mimeType": image.mime_type})
        }
        RecordedItem::Ended { reason, detail } => {
            json!({"type": "ended", "reason": reason, "detail": detail})
        }
    }
}

fn write_item(text: &mut String, item: &RecordedItem) {
    match item {
        RecordedItem::User { text: said, turn, .. } => {
            let _ = write!(text, "\n[{turn}] > {}\n", indent_lines(said, "    "));
        }
        RecordedItem::Steer { text: said } => {
            let _ = write!(text, "\n    > {}\n", indent_lines(said, "    "));
        }
        RecordedItem::Continued(continuation) => {
            let sentence = continuation.to_string();
            let _ = write!(text, "\n  ({})\n", indent_lines(&sentence, "   "));
        }
        RecordedItem::Shell { command, output, .. } => {
            let _ = write!(text, "\n    ! {}\n", indent_lines(command, "      "));
            for line in output.lines().take(OUTPUT_LINES) {
                let _ = writeln!(text, "    {}", one_line(line));
            }
        }
        RecordedItem::Image(_) | RecordedItem::Thought { .. } => {}
        RecordedItem::Ended { reason, detail } => {
            let detail = detail.as_deref().map(|it| format!(": {}", one_line(it)));
            let _ = write!(text, "\n  ({reason}{})\n", detail.unwrap_or_default());
        }
        RecordedItem::Text { text: said, .. } => {
            let _ =
                write!(text, "\n{}\n", indent_lines(said.trim_end().trim_start_matches('\n'), ""));
        }
        RecordedItem::Tool { name, args, status, output, .. } => {
            let status = status.as_deref().unwrap_or("no result");
            match args.get("command").and_then(Value::as_str) {
                Some(command) => {
                    let _ = write!(text, "\n  * {}: {status}\n", one_line(name));
                    let _ = writeln!(text, "    $ {}", indent_lines(command.trim_end(), "      "));
                }
                None => {
                    let arguments = Value::Object(args.clone()).to_string();
                    let arguments: String = one_line(&arguments).chars().take(120).collect();
                    let _ = write!(text, "\n  * {} {arguments}: {status}\n", one_line(name));
                }
            }
            for line in output.lines().take(OUTPUT_LINES) {
                let _ = writeln!(text, "    {}", one_line(line));
            }
            let more = output.lines().count().saturating_sub(OUTPUT_LINES);
            if more > 0 {
                let _ = writeln!(text, "    … {more} more lines");
            }
        }
    }
}

/// Removes control characters and indents all lines after the first.
fn indent_lines(text: &str, indent: &str) -> String {
    /// Maximum indentation of a line that is kept.
    const MAX_DEPTH: usize = 40;
    let line = |line: &str| {
        let spaces = line.chars().take_while(|char| matches!(char, ' ' | '\t'));
        let spaces = spaces.map(|char| if char == '\t' { 4 } else { 1 }).sum::<usize>();
        format!("{}{}", " ".repeat(spaces.min(MAX_DEPTH)), one_line(line))
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join(&format!("\n{indent}"))
}

fn search(launch: &SessionConfig, search: &SearchRequest) -> Result<CommandResult, Failure> {
    let progress = IndexProgress::new();
    let SearchResult { hits, skipped_notice } =
        launch.session_library().search_sessions(search, &|step| progress.update(step))?;
    progress.end();
    let errors = skipped_notice.map(|report| one_line(&report) + "\n").unwrap_or_default();
    let json = hits.iter().map(|hit| {
        json!({
            "id": hit.id,
            "title": hit.title,
            "project": hit.project,
            "path": hit.path.to_string_lossy(),
            "origin": origin(hit.origin),
            "lastUsed": hit.last_used.to_string(),
            "turn": hit.turn,
            "snippet": hit.snippet.replace(MARKS, ""),
        })
    });
    let json: Value = json.collect();
    if hits.is_empty() {
        let output = CommandResult::new("No results.\n", json);
        return Ok(CommandResult { code: ExitCode::GENERAL, errors, ..output });
    }
    let mut text = String::new();
    for hit in &hits {
        let id = hit.short_id();
        let _ = writeln!(text, "{id}  {} · {}", one_line(&hit.title), display_path(&hit.project));
        let snippet = hit.snippet.replace(MARKS[0], "[").replace(MARKS[1], "]");
        let _ = writeln!(text, "          prompt {}: {}", hit.turn, one_line(&snippet));
    }
    Ok(CommandResult { errors, ..CommandResult::new(text, json) })
}

fn export(
    launch: &SessionConfig,
    selector: &str,
    form: Option<ExportFormat>,
    output: Option<&Path>,
) -> Result<CommandResult, Failure> {
    let entry = launch.session_library().any_session(selector)?;
    // As for other programs, `-` is the standard output.
    let output = output.filter(|file| *file != Path::new("-"));
    let form = match (form, output) {
        (Some(form), _) => form,
        (None, Some(file)) if file.extension().is_some() => ExportFormat::from_path(file)
            .ok_or_else(|| {
                let extension = file.extension().unwrap_or_default().display();
                let message = format!(
                    "Unknown export format for `.{extension}`: use `--format`, or a file name that \
                     ends in {ENDINGS}"
                );
                Failure { kind: FailureKind::Input, message, status: None }
            })?,
        _ => ExportFormat::Markdown,
    };
    let document = launch.session_library().export_document(&entry, form)?;
    let Some(file) = output else {
        // Prints the document itself, regardless of the output format. Text from a model or a tool
        // must not control the terminal.
        let document = match std::io::stdout().is_terminal() {
            true => Sanitizer::sanitize(&document),
            false => document,
        };
        return Ok(CommandResult { raw: true, ..CommandResult::new(document, Value::Null) });
    };
    let path = launch.session_library().write_export(file, &document)?;
    let json = json!({"id": entry.id, "file": path, "bytes": document.len()});
    Ok(CommandResult::new(format!("Written to {}\n", path.display()), json))
}

/// Exports the sessions of all projects; reports the sessions that cannot be read.
fn export_all(
    launch: &SessionConfig,
    form: Option<ExportFormat>,
    out: &Path,
) -> Result<CommandResult, Failure> {
    let done =
        launch.session_library().export_all(form.unwrap_or(ExportFormat::GeminiJson), out)?;
    let count = done.files.len();
    let mut text =
        format!("Exported {count} sessions to {}\n", one_line(&out.display().to_string()));
    for (id, reason) in &done.failed {
        let _ = writeln!(text, "Failed to export {}: {}", one_line(id), one_line(reason));
    }
    let json = json!({
        "files": done.files,
        "failed": done.failed.iter().map(|(id, reason)| json!({"id": id, "why": reason}))
            .collect::<Value>(),
    });
    let code = if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::GENERAL };
    Ok(CommandResult { code, ..CommandResult::new(text, json) })
}

fn new_session_result(new: &NewSession, how: &str) -> CommandResult {
    let mut text = format!("{}: {how}, {} contents\n", new.id, new.contents);
    for notice in &new.notices {
        let _ = writeln!(text, "  {}", one_line(notice));
    }
    let _ = writeln!(text, "To resume it, run: parallax --resume {}", new.id);
    let json = json!({
        "id": new.id, "path": new.path.to_string_lossy(), "contents": new.contents, "notices": new.notices,
    });
    CommandResult::new(text, json)
}

fn move_result(moved: &MoveResult) -> CommandResult {
    let mut text = String::new();
    for (id, path) in &moved.sessions {
        let _ = writeln!(text, "{id}: {}", path.display());
    }
    for (id, reason) in &moved.skipped {
        let _ = writeln!(text, "{} was not moved: {}", one_line(id), one_line(reason));
    }
    if moved.other_files > 0 {
        let _ = writeln!(text, "{} other files moved", moved.other_files);
    }
    let pair =
        |name: &'static str| move |(id, what): (&String, String)| json!({"id": id, name: what});
    let sessions = moved.sessions.iter().map(|(id, path)| (id, path.display().to_string()));
    let skipped = moved.skipped.iter().map(|(id, reason)| (id, reason.clone()));
    let json = json!({
        "sessions": sessions.map(pair("path")).collect::<Value>(),
        "kept": skipped.map(pair("why")).collect::<Value>(),
        "otherFiles": moved.other_files,
    });
    let code = if moved.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::GENERAL };
    CommandResult { code, ..CommandResult::new(text, json) }
}

fn cleanup_result(collected: &CleanupResult, dry: bool) -> CommandResult {
    let mut text = String::new();
    for session in &collected.sessions {
        let id: String = session.id.chars().take(SHORT_ID).collect();
        let title = one_line(&session.title);
        let _ = writeln!(text, "  {id}  {title} ({}, {} bytes)", session.reason, session.bytes);
    }
    let count = collected.sessions.len();
    let _ = match dry {
        true => writeln!(text, "{count} sessions would be moved to the trash"),
        false => writeln!(
            text,
            "{count} sessions moved to the trash, {} deleted permanently; {} output directories \
             without a session deleted",
            collected.emptied, collected.removed_outputs
        ),
    };
    for reason in &collected.failed {
        let _ = writeln!(text, "{}", one_line(reason));
    }
    let code = if collected.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::GENERAL };
    CommandResult {
        code,
        ..CommandResult::new(text, serde_json::to_value(collected).unwrap_or_default())
    }
}
