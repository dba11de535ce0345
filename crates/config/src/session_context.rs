//! The session context that the model receives at the start of a conversation.

use std::fmt::Write;
use std::path::PathBuf;

/// The parts of the block. They are fixed when the conversation starts, so that the provider's
/// prompt cache stays valid.
#[derive(Debug, Clone, Default)]
pub struct SessionContext {
    /// Today in the long local format (`Sunday, November 22, 2026`).
    pub date: String,
    /// The operating system (`linux`); empty to omit it.
    pub os: String,
    /// The project's temporary directory, if it has one.
    pub temp_dir: Option<PathBuf>,
    /// The workspace directories.
    pub directories: Vec<PathBuf>,
    /// Their rendered trees; empty to omit them.
    pub tree: String,
    /// The project memory with its wrapper ([`crate::Memory::project_block`]).
    pub memory: String,
}

/// Returns the `<session_context>` block.
pub fn session_context(context: &SessionContext) -> String {
    let mut text = String::from("<session_context>\n");
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{label}: {value}");
    };
    if !context.date.is_empty() {
        line("Date", &context.date);
    }
    if !context.os.is_empty() {
        line("Operating system", &context.os);
    }
    if let Some(folder) = &context.temp_dir {
        line("Temporary files of this project", &folder.display().to_string());
    }
    let directories: Vec<String> =
        context.directories.iter().map(|directory| directory.display().to_string()).collect();
    match directories.as_slice() {
        [] => {}
        [folder] => line("Workspace folder", folder),
        several => line("Workspace folders", &several.join(", ")),
    }
    for block in [&context.tree, &context.memory] {
        let block = block.trim_end();
        if !block.is_empty() {
            text.push('\n');
            text.push_str(block);
            text.push('\n');
        }
    }
    text.push_str("</session_context>");
    text
}

#[cfg(test)]
mod tests {
    use super::{SessionContext, session_context};

    #[test]
    fn session_context_contains_only_known_facts() {
        let mut context = SessionContext {
            date: "Sunday".into(),
            os: "linux".into(),
            ..SessionContext::default()
        };
        assert_eq!(
            session_context(&context),
            "<session_context>\nDate: Sunday\nOperating system: linux\n</session_context>"
        );
        let added = SessionContext { directories: vec!["/w".into()], ..SessionContext::default() };
        assert_eq!(
            session_context(&added),
            "<session_context>\nWorkspace folder: /w\n</session_context>"
        );
        context.temp_dir = Some("/t".into());
        context.directories = vec!["/w".into(), "/v".into()];
        context.tree = "/w/\n└───a\n".into();
        context.memory = "<project_context>\nx\n</project_context>".into();
        assert_eq!(
            session_context(&context),
            "<session_context>\nDate: Sunday\nOperating system: linux\nTemporary files of this project: /t\n\
             Workspace folders: /w, /v\n\n/w/\n└───a\n\n<project_context>\nx\n</project_context>\n</session_context>"
        );
    }
}
