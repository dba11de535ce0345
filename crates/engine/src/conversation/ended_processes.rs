//! Tells the model after a resume that background commands of earlier runs have ended.

use std::collections::BTreeSet;

use parallax_protocol::content::{Content, PartView};
use serde_json::Value;

use super::Conversation;

/// The beginning of the note, in the context before a prompt.
const NOTE: &str =
    "<session_context>\nThe session was resumed. Its background commands from before";
/// The beginning of other notes about processes that ended.
const REPORT: &str = "[System]";
/// What precedes the PID in the results of commands, and in reports on those of the user.
const STARTED: [&str; 3] = [
    "runs in the background with PID ",
    "moved this command to the background (PID: ",
    "Command moved to background (PID: ",
];

impl Conversation {
    /// Notifies the model with the next prompt that background commands of earlier runs have ended,
    /// unless it knows already. Background commands end with the process that started them.
    pub(crate) fn record_ended_processes(&mut self) {
        let mut running = BTreeSet::new();
        for content in self.history.contents().iter().filter_map(|sealed| sealed.open().ok()) {
            update(&mut running, &content);
        }
        if running.is_empty() {
            return;
        }
        let pids: Vec<String> = running.iter().map(|pid| format!("PID {pid}")).collect();
        self.add_to_preface(&format!(
            "{NOTE} have ended: {}.\n</session_context>",
            pids.join(", ")
        ));
    }
}

/// Adds the processes that a content started, and removes those whose end it reports.
fn update(running: &mut BTreeSet<u32>, content: &Content) {
    for part in &content.parts {
        match part.view() {
            PartView::Text(text) if text.starts_with(NOTE) || text.starts_with(REPORT) => {
                for pid in pids_after(&head(text), "PID ") {
                    running.remove(&pid);
                }
            }
            PartView::Text(text) => add_started(running, text),
            PartView::Response(response) if response.name == "run_shell_command" => {
                let output = response.response.and_then(|response| response.get("output"));
                add_started(running, output.and_then(Value::as_str).unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// Adds the process that the text reports in its first lines.
fn add_started(running: &mut BTreeSet<u32>, text: &str) {
    let head = head(text);
    for start in STARTED {
        running.extend(pids_after(&head, start));
    }
}

/// Returns the first lines of a string: output of commands follows them.
fn head(text: &str) -> String {
    text.lines().take(2).collect::<Vec<_>>().join("\n")
}

fn pids_after(text: &str, start: &str) -> Vec<u32> {
    let number = |rest: &str| {
        let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    text.split(start).skip(1).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use parallax_protocol::content::Part;

    use super::*;
    use crate::history::ContentMetadata;
    use crate::test_parts::conversation;

    fn result(text: &str) -> Content {
        let output = format!("<untrusted_context>\n{text}\n</untrusted_context>");
        let wire = serde_json::json!({"role": "user", "parts": [{"functionResponse": {
            "name": "run_shell_command", "response": {"output": output}}}]});
        serde_json::from_str(&wire.to_string()).expect("a content")
    }

    #[test]
    fn ended_processes_are_reported_once() {
        let mut conversation = conversation();
        let push = |conversation: &mut Conversation, content: &Content| {
            conversation.history_mut().push(content, ContentMetadata::default());
        };
        for content in [
            result("The command runs in the background with PID 12. Read its output"),
            result("The user moved this command to the background (PID: 34); it is still"),
            result("The command runs in the background with PID 56."),
            Content::user(vec![Part::text("[System] Background command `x` (PID 56) ended.")]),
            result("one\ntwo\nruns in the background with PID 78"),
        ] {
            push(&mut conversation, &content);
        }
        conversation.record_ended_processes();
        let note = conversation.take_preface().expect("a note");
        assert!(note.contains(" have ended: PID 12, PID 34.\n"), "{note}");
        push(&mut conversation, &Content::user(vec![Part::text(note), Part::text("go on")]));
        conversation.record_ended_processes();
        assert_eq!(conversation.take_preface(), None);
    }
}
