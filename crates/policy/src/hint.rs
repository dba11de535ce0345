//! Hints about what would allow a call when no user is available for approval.

use parallax_protocol::tool::ToolKind;

use crate::bash::{Command, Word};
use crate::call::{CallQuery, ShellCall};
use crate::command_prefix::is_settled;
use crate::names::SHELL;
use crate::paths;
use crate::transparent::is_transparent;

/// Maximum number of prefixes; a longer list is not useful.
const MAX_PREFIXES: usize = 6;

/// Returns the flags that would allow the call, as the end of a sentence that begins with "it
/// needs".
pub(crate) fn needs(call: &CallQuery<'_>) -> String {
    if let Some(shell) = &call.shell {
        return match prefixes(shell) {
            Some(prefixes) => {
                let flags: Vec<String> = prefixes
                    .iter()
                    .map(|prefix| format!("--allowed-tools \"{SHELL}({prefix})\""))
                    .collect();
                format!("`--approval-mode yolo` or `{}`", flags.join(" "))
            }
            None => "`--approval-mode yolo`".to_owned(),
        };
    }
    let query = call.query;
    let name = query.tool;
    let roots = query.workspace;
    let ordinary_edit =
        query.kind == ToolKind::Edit
            && !query.effects.writes.is_empty()
            && query.effects.writes.iter().all(|path| {
                paths::is_inside(path, roots) && !call.folders.protected.restrict(path)
            });
    if ordinary_edit || query.kind == ToolKind::Fetch || name == "save_memory" {
        format!("`--approval-mode auto_edit` or `--allowed-tools {name}`")
    } else {
        format!("`--approval-mode yolo` or `--allowed-tools {name}`")
    }
}

/// Returns one prefix for each command that is not known to be harmless, or `None` if prefixes are
/// not sufficient.
fn prefixes(shell: &ShellCall<'_>) -> Option<Vec<String>> {
    if shell.unanalyzable_reason().is_some() || shell.redirections().next().is_some() {
        return None;
    }
    let mut prefixes = Vec::new();
    for (index, command) in shell.line.commands.iter().enumerate() {
        if command.is_passed_on || shell.is_safe(index) || is_transparent(&shell.line, index) {
            continue;
        }
        let prefix = is_settled(command).then(|| narrowest_prefix(command)).flatten()?.join(" ");
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    (1..=MAX_PREFIXES).contains(&prefixes.len()).then_some(prefixes)
}

/// Returns the narrowest useful prefix: the program, and its subcommand if the second word looks
/// like one.
pub(crate) fn narrowest_prefix(command: &Command) -> Option<Vec<String>> {
    let (program, rest) = command.words.split_first()?;
    let program = plain_text(program)?;
    match rest.first().and_then(subcommand) {
        Some(second) => Some(vec![program.to_owned(), second.to_owned()]),
        None => Some(vec![program.to_owned()]),
    }
}

/// Returns the text of a word that can be used in a flag without quoting.
fn plain_text(word: &Word) -> Option<&str> {
    let text = word.text.as_deref()?;
    let fits = !word.quoted && !word.glob && !text.is_empty() && !text.contains([',', '(']);
    fits.then_some(text)
}

fn subcommand(word: &Word) -> Option<&str> {
    plain_text(word).filter(|text| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b':'))
    })
}
