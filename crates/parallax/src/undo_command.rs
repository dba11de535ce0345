//! `parallax undo`: undoes the file changes of a turn.

use std::io::{self, BufRead, IsTerminal, Write};

use parallax_checkpoints::undo::{ChangeKind, TurnChanges, UndoSession, UndoStore, local_time};
use parallax_headless::{ExitCode, OutputFormat, json_document, one_line};
use parallax_protocol::event::{Failure, FailureKind, UndoResult};

use serde_json::{Value, json};

use crate::arguments::UndoArguments;

/// Maximum number of files listed for a turn.
const MAX_SHOWN: usize = 20;
/// Maximum number of characters of a prompt in the list.
const PROMPT: usize = 100;

/// Runs the subcommand and prints its result.
///
/// # Errors
/// Returns an error if there is nothing to undo, or if the undo fails.
pub(crate) fn run(arguments: &UndoArguments) -> Result<ExitCode, Failure> {
    let directory = std::env::current_dir().map_err(|error| Failure {
        kind: FailureKind::Input,
        message: format!("Failed to read the current directory: {error}"),
        status: None,
    })?;
    let session = match &arguments.session {
        Some(selector) => UndoSession::Selected(selector),
        None if arguments.redo => UndoSession::LastUndo,
        None => UndoSession::LastChange,
    };
    let undo = UndoStore::open_project(&directory, std::env::vars_os().collect(), session)?;
    if arguments.list {
        let turns = undo.list()?;
        return Ok(print_text(&match format(arguments) {
            OutputFormat::Text => list(&turns, &undo),
            _ => to_pretty_json(turns.iter().map(|turn| turn_json(turn, &undo)).collect()),
        }));
    }
    if arguments.redo {
        let redone = undo.redo(arguments.force)?;
        print_text(&match format(arguments) {
            OutputFormat::Text => format_result(&redone, &undo, arguments),
            _ => to_pretty_json(result_json(&redone, &undo)),
        });
        return Ok(if redone.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::GENERAL });
    }
    let mut undone = undo.undo(arguments.prompt, arguments.force)?;
    if !arguments.force && undone.force_helps && can_ask(arguments) && confirm(&undone) {
        let forced = undo.undo_forced(&undone)?;
        undone.restored.retain(|path| !forced.restored.contains(path));
        undone.restored.extend(forced.restored);
        undone.skipped = forced.skipped;
        undone.force_helps = false;
    }
    print_text(&match format(arguments) {
        OutputFormat::Text => format_result(&undone, &undo, arguments),
        _ => to_pretty_json(result_json(&undone, &undo)),
    });
    // Skipped files make the exit code a failure.
    Ok(if undone.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::GENERAL })
}

fn format(arguments: &UndoArguments) -> OutputFormat {
    if arguments.json { OutputFormat::Json } else { OutputFormat::Text }
}

fn can_ask(arguments: &UndoArguments) -> bool {
    !arguments.json && !arguments.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks whether to discard later changes.
fn confirm(undone: &UndoResult) -> bool {
    let mut stderr = io::stderr();
    let mut text = String::new();
    for (path, reason) in undone.skipped.iter().take(MAX_SHOWN) {
        text.push_str(&format!("  {}: {}\n", one_line(&path.to_string_lossy()), one_line(reason)));
    }
    text.push_str("Also revert these files and discard their current contents? [y/N] ");
    if stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).is_err() {
        return false;
    }
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

fn to_pretty_json(value: serde_json::Result<Value>) -> String {
    json_document(&value.unwrap_or_default())
}

/// Returns the JSON object of a turn, with the number that `parallax undo NUMBER` takes.
fn turn_json(
    (number, turn): &(Option<u64>, TurnChanges),
    undo: &UndoStore,
) -> serde_json::Result<Value> {
    let mut json = serde_json::to_value(turn)?;
    if let Some(object) = json.as_object_mut() {
        object.insert("session".to_owned(), json!(undo.session));
        object.insert("turn".to_owned(), json!(number));
        object.insert("prompt".to_owned(), json!(undo.prompt(turn.turn)));
    }
    Ok(json)
}

/// Returns the JSON object of a result, with the session.
fn result_json(undone: &UndoResult, undo: &UndoStore) -> serde_json::Result<Value> {
    let mut json = serde_json::to_value(undone)?;
    if let Some(object) = json.as_object_mut() {
        object.insert("session".to_owned(), json!(undo.session));
    }
    Ok(json)
}

/// Returns a heading that names the turn of the changes.
fn heading(prompt: Option<u64>) -> String {
    prompt.map_or_else(|| "A rewound prompt".to_owned(), |number| format!("Turn {number}"))
}

fn list(turns: &[(Option<u64>, TurnChanges)], undo: &UndoStore) -> String {
    if turns.is_empty() {
        return "Nothing to undo.\n".to_owned();
    }
    let mut text = format!("Session {}\n", undo.short_id());
    for (number, turn) in turns {
        let prompt = match undo.prompt(turn.turn) {
            Some(prompt) => format!(": {}", shorten_prompt(prompt)),
            None => String::new(),
        };
        let time = local_time(&turn.time);
        text.push_str(&format!("{} ({time}){prompt}\n", heading(*number)));
        for file in turn.files.iter().take(MAX_SHOWN) {
            let what = match file.kind {
                ChangeKind::Created => "created",
                ChangeKind::Changed => "changed",
                ChangeKind::Deleted => "deleted",
            };
            let path = one_line(&file.path.to_string_lossy());
            match &file.not_undoable {
                None => text.push_str(&format!("  {what} {path}\n")),
                Some(reason) => text.push_str(&format!(
                    "  {what} {path} (cannot be undone: {})\n",
                    one_line(reason)
                )),
            }
        }
        if let Some(more) = turn.files.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
            text.push_str(&format!("  … {more} more\n"));
        }
        if !turn.undone.is_empty() {
            text.push_str(&format!("  already undone: {} files\n", turn.undone.len()));
        }
    }
    text
}

/// Returns the beginning of a prompt on one line.
fn shorten_prompt(prompt: &str) -> String {
    let line = one_line(prompt);
    match line.char_indices().nth(PROMPT) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

fn format_result(undone: &UndoResult, undo: &UndoStore, arguments: &UndoArguments) -> String {
    let (turn, session) = (heading(undone.prompt), undo.short_id());
    let mut text =
        format!("{turn} of session {session}: {} restored", count(undone.restored.len()));
    if !undone.skipped.is_empty() {
        text.push_str(&format!(", {} skipped", count(undone.skipped.len())));
    }
    text.push_str(".\n");
    for path in undone.restored.iter().take(MAX_SHOWN) {
        text.push_str(&format!("  {}\n", one_line(&path.to_string_lossy())));
    }
    for (path, reason) in undone.skipped.iter().take(MAX_SHOWN) {
        text.push_str(&format!(
            "  skipped: {} ({})\n",
            one_line(&path.to_string_lossy()),
            one_line(reason)
        ));
    }
    if undone.force_helps {
        text.push_str(&format!(
            "Use `{}` to also revert files that changed since, discarding their current \
             contents.\n",
            forced_command(arguments)
        ));
    }
    text
}

/// Returns the command that repeats this one with `--force`.
fn forced_command(arguments: &UndoArguments) -> String {
    let mut command = "parallax undo".to_owned();
    if let Some(prompt) = arguments.prompt {
        command.push_str(&format!(" {prompt}"));
    }
    if let Some(session) = &arguments.session {
        command.push_str(&format!(" --session {}", one_line(session)));
    }
    if arguments.redo {
        command.push_str(" --redo");
    }
    command + " --force"
}

fn count(files: usize) -> String {
    match files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    }
}

/// Prints text. A closed pipe is not an error.
fn print_text(text: &str) -> ExitCode {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::GENERAL,
        _ => ExitCode::SUCCESS,
    }
}
