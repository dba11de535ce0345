//! What is remembered of prompts that were sent: what was typed for them, and the files that were
//! read for them.

use std::path::PathBuf;

use parallax_protocol::event::{EventBody, ItemStart};

/// Facts about prompts that were sent.
#[derive(Debug, Default)]
pub(crate) struct SentPrompts {
    /// Prompts in progress, with the files that were read for them.
    files_in_progress: Vec<(String, Vec<String>)>,
    /// Paths outside the workspace that the user does not allow to read.
    not_read: Vec<PathBuf>,
    /// The command typed last; it is in the transcript already.
    echoed_command: Option<String>,
    /// The prompts that built-in commands expanded to, with what was typed.
    expanded: Vec<(String, String)>,
}

impl SentPrompts {
    /// Records which files were read for a prompt that will be reported.
    pub(crate) fn note_read(&mut self, prompt: String, names: Vec<String>) {
        self.files_in_progress.push((prompt, names));
    }

    /// Takes the files that were read for a prompt.
    pub(crate) fn take_read(&mut self, prompt: &str) -> Option<Vec<String>> {
        let index = self.files_in_progress.iter().position(|(known, _)| known == prompt)?;
        Some(self.files_in_progress.remove(index).1)
    }

    /// Records paths that must not be read.
    pub(crate) fn decline(&mut self, paths: Vec<PathBuf>) {
        self.not_read.extend(paths);
    }

    /// Whether the user declined that a path is read.
    pub(crate) fn is_declined(&self, path: &PathBuf) -> bool {
        self.not_read.contains(path)
    }

    /// Records a command that is in the transcript already.
    pub(crate) fn echo(&mut self, text: &str) {
        self.echoed_command = Some(text.trim().to_owned());
    }

    /// Whether this event reports the command that was typed last.
    pub(crate) fn is_echoed(&mut self, event: &EventBody) -> bool {
        let EventBody::ItemStarted { start: ItemStart::User { text }, .. } = event else {
            return false;
        };
        self.echoed_command.take_if(|echoed| echoed == text).is_some()
    }

    /// Records the prompt that the command typed last expanded to.
    pub(crate) fn note_expanded(&mut self, prompt: &str) {
        if let Some(typed) = self.echoed_command.clone() {
            self.expanded.retain(|(known, _)| known != prompt);
            self.expanded.push((prompt.to_owned(), typed));
        }
    }

    /// Returns the command that a prompt came from.
    pub(crate) fn command_for(&self, prompt: &str) -> Option<&str> {
        let found = self.expanded.iter().find(|(known, _)| known == prompt);
        found.map(|(_, typed)| typed.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_a_command_is_recognized_once() {
        let mut sent = SentPrompts::default();
        sent.echo(" /commit\n");
        sent.note_expanded("Commit the changes");
        assert_eq!(sent.command_for("Commit the changes"), Some("/commit"));
        let start = ItemStart::User { text: "/commit".to_owned() };
        let event = EventBody::ItemStarted { item: "u".into(), start };
        assert!(sent.is_echoed(&event) && !sent.is_echoed(&event));
    }

    #[test]
    fn files_belong_to_one_prompt() {
        let mut sent = SentPrompts::default();
        sent.note_read("a".to_owned(), vec!["f".to_owned()]);
        assert_eq!(sent.take_read("b"), None);
        assert_eq!(sent.take_read("a"), Some(vec!["f".to_owned()]));
        assert_eq!(sent.take_read("a"), None);
    }
}
