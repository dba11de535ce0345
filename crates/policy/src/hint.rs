//! What would allow a call that nobody can be asked about.

use parallax_protocol::tool::ToolKind;

use crate::call::{Call, Line};
use crate::names::SHELL;
use crate::paths;
use crate::shell::{Part, Word};

/// More are no advice.
const MOST_PREFIXES: usize = 6;

/// The flags that would let the call through, as the end of a sentence that
/// begins with "it needs".
pub(crate) fn needs(call: &Call<'_>) -> String {
    if let Some(line) = &call.shell {
        return match prefixes(line) {
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
    let ordinary_edit = query.kind == ToolKind::Edit
        && !query.effects.writes.is_empty()
        && query
            .effects
            .writes
            .iter()
            .all(|path| paths::inside(path, roots) && !paths::is_protected(path, roots));
    if ordinary_edit || query.kind == ToolKind::Fetch || name == "save_memory" {
        format!("`--approval-mode auto_edit` or `--allowed-tools {name}`")
    } else {
        format!("`--approval-mode yolo` or `--allowed-tools {name}`")
    }
}

/// One prefix for each command that is not known to be harmless; `None` when
/// prefixes would not do.
fn prefixes(line: &Line<'_>) -> Option<Vec<String>> {
    let mut prefixes = Vec::new();
    for part in line.plain()?.iter().filter(|part| !line.is_safe_part(part)) {
        let prefix = prefix(part)?;
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    (1..=MOST_PREFIXES).contains(&prefixes.len()).then_some(prefixes)
}

/// The narrowest useful prefix: the program, and its subcommand if the second
/// word looks like one.
fn prefix(part: &Part) -> Option<String> {
    let (program, rest) = part.split_first()?;
    if !is_plain(program) {
        return None;
    }
    match rest.first() {
        Some(second) if is_subcommand(second) => Some(format!("{} {}", program.text, second.text)),
        _ => Some(program.text.clone()),
    }
}

fn is_plain(word: &Word) -> bool {
    !word.quoted && !word.glob && !word.text.is_empty() && !word.text.contains([',', '('])
}

fn is_subcommand(word: &Word) -> bool {
    is_plain(word)
        && word.text.starts_with(|first: char| first.is_ascii_lowercase())
        && word.text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}
