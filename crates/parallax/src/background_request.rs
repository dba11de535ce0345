//! A request of a background session as text, and the lines of stream-json that answer it.

use std::fmt::Write as _;

use parallax_background::BackgroundError;
use parallax_headless::one_line;
use parallax_protocol::code_text::code_text;
use parallax_protocol::permissions::Permissions;
use parallax_protocol::question::{QuestionKind, UserQuestion};
use parallax_protocol::tool::Preview;
use serde_json::{Map, Value, json};

/// A choice of an approval request.
struct Choice {
    label: &'static str,
    outcome: String,
}

/// Returns the questions from the model that a request contains; none for an approval request.
pub(crate) fn questions(ask: &Value) -> Vec<UserQuestion> {
    if ask.get("kind").and_then(Value::as_str) != Some("question") {
        return Vec::new();
    }
    match preview(ask) {
        Some(Preview::Questions { questions }) => questions,
        _ => Vec::new(),
    }
}

/// Formats a request with its choices. Nothing that is approved is omitted.
pub(crate) fn format_request(ask: &Value) -> String {
    let text = |key: &str| one_line(ask.get(key).and_then(Value::as_str).unwrap_or_default());
    let mut shown = format!("{}\n", text("title"));
    let questions = questions(ask);
    for (number, question) in questions.iter().enumerate() {
        if questions.len() > 1 {
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "Question {} of {}", number + 1, questions.len());
        }
        shown.push_str(&format_question(question));
    }
    if !questions.is_empty() {
        return shown;
    }
    if let Some(preview) = preview(ask) {
        push_preview(&mut shown, &preview);
    }
    let permissions = ask.get("permissions").cloned().unwrap_or_default();
    let permissions: Permissions = serde_json::from_value(permissions).unwrap_or_default();
    if !permissions.is_empty() {
        let _ = writeln!(shown, "Beyond the sandbox: {}", code_text(&permissions.describe()));
    }
    for change in ask.get("not_undoable").and_then(Value::as_array).into_iter().flatten() {
        let _ =
            writeln!(shown, "Cannot be undone: {}", one_line(change.as_str().unwrap_or_default()));
    }
    let reason = text("reason");
    if !reason.is_empty() {
        let _ = writeln!(shown, "Reason: {reason}");
    }
    for (number, choice) in choices(ask).iter().enumerate() {
        let _ = writeln!(shown, "  {}  {}", number + 1, choice.label);
    }
    shown
}

/// Formats one question from the model with its numbered options.
pub(crate) fn format_question(question: &UserQuestion) -> String {
    let mut text = String::new();
    push_lines(&mut text, "", &question.question);
    for (number, option) in options(question).iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}  {}", number + 1, one_line(option));
    }
    text
}

/// Returns the line that answers a request. Several questions need one answer each.
///
/// # Errors
/// Returns an error if the request has no such choice.
pub(crate) fn line_of(ask: &Value, answers: &[&str]) -> Result<Value, BackgroundError> {
    let id = ask.get("id").cloned().unwrap_or_default();
    let (first, rest) = answers.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
    let questions = questions(ask);
    if ask.get("kind").and_then(Value::as_str) == Some("question") {
        let value = match questions.as_slice() {
            _ if first == "deny" && rest.is_empty() => Value::Null,
            [] => json!(answers.join(" ")),
            [question] => json!(answer_to(question, &answers.join(" "))?),
            several if several.len() == answers.len() => {
                let mut value = Map::new();
                for (index, (question, answer)) in several.iter().zip(answers).enumerate() {
                    value.insert(index.to_string(), json!(answer_to(question, answer)?));
                }
                Value::Object(value)
            }
            several => {
                return Err(BackgroundError::Rejected(format!(
                    "there are {} questions: give {0} answers, each in quotes if it has several \
                     words",
                    several.len()
                )));
            }
        };
        return Ok(json!({"type": "answer", "id": id, "value": value}));
    }
    let decide = |outcome: &str| json!({"type": "decide", "id": id, "outcome": outcome});
    let choices = choices(ask);
    if let Some(choice) = first.parse::<usize>().ok().and_then(|it| it.checked_sub(1)) {
        return choices.get(choice).map(|choice| decide(&choice.outcome)).ok_or_else(|| {
            BackgroundError::Rejected(format!("there are {} choices", choices.len()))
        });
    }
    match first {
        "allow" => Ok(decide("proceed_once")),
        "deny" if rest.is_empty() => Ok(decide("cancel")),
        "deny" => {
            let mut line = decide("cancel");
            line["feedback"] = json!(rest.join(" "));
            Ok(line)
        }
        _ => Err(BackgroundError::Rejected(format!(
            "`{}`: use `allow`, `deny`, or the number of a choice",
            one_line(first)
        ))),
    }
}

fn preview(ask: &Value) -> Option<Preview> {
    serde_json::from_value(ask.get("preview")?.clone()).ok()
}

fn options(question: &UserQuestion) -> Vec<String> {
    match question.kind {
        QuestionKind::Choice => question.options.iter().map(|it| it.label.clone()).collect(),
        QuestionKind::YesNo => vec!["Yes".to_owned(), "No".to_owned()],
        QuestionKind::Text => Vec::new(),
    }
}

/// Returns what the model reads for an answer: the labels of numbers, or the text.
fn answer_to(question: &UserQuestion, answer: &str) -> Result<String, BackgroundError> {
    let answer = answer.trim();
    let options = options(question);
    let numbers: Option<Vec<usize>> =
        answer.split(',').map(|number| number.trim().parse().ok()).collect();
    let Some(numbers) = numbers.filter(|_| !options.is_empty()) else {
        return Ok(answer.to_owned());
    };
    if numbers.len() > 1 && !question.multi_select {
        return Ok(answer.to_owned());
    }
    let label = |number: &usize| number.checked_sub(1).and_then(|it| options.get(it)).cloned();
    let labels: Option<Vec<String>> = numbers.iter().map(label).collect();
    labels
        .map(|labels| labels.join(", "))
        .ok_or_else(|| BackgroundError::Rejected(format!("there are {} choices", options.len())))
}

/// Returns the possible answers to an approval request.
fn choices(ask: &Value) -> Vec<Choice> {
    let outcomes = ask.get("outcomes").and_then(Value::as_array);
    let outcomes = outcomes.into_iter().flatten().filter_map(Value::as_str);
    outcomes
        .filter_map(|outcome| {
            let label = match outcome {
                "proceed_once" => "Allow once",
                "proceed_always" => "Always allow in this session",
                "proceed_always_and_save" => "Always allow, and save the rule",
                "proceed_always_tool" => "Always allow this tool",
                "proceed_always_server" => "Always allow all tools of this server",
                "retry" => "Try again",
                "cancel" => "Deny",
                _ => return None,
            };
            Some(Choice { label, outcome: outcome.to_owned() })
        })
        .collect()
}

fn push_preview(shown: &mut String, preview: &Preview) {
    // Writing to a string cannot fail.
    match preview {
        Preview::Command { command, directory } => {
            push_lines(shown, "  ", command);
            let _ = writeln!(shown, "In: {}", code_text(&directory.to_string_lossy()));
        }
        Preview::Diff(change) => {
            let _ = writeln!(
                shown,
                "{} (+{} −{})",
                code_text(&change.file_path.to_string_lossy()),
                change.lines_added,
                change.lines_removed
            );
            push_lines(shown, "  ", &change.diff);
        }
        Preview::Urls { prompt, urls } => {
            for url in urls {
                push_lines(shown, "  ", url);
            }
            push_lines(shown, "  ", prompt);
        }
        Preview::Mcp { server, tool, arguments, .. } => {
            let _ = writeln!(shown, "{} of the server {}", code_text(tool), code_text(server));
            push_lines(shown, "  ", &serde_json::to_string_pretty(arguments).unwrap_or_default());
        }
        Preview::Skill { description, folder, files } => {
            let _ = writeln!(shown, "{}", code_text(&folder.to_string_lossy()));
            push_lines(shown, "  ", description);
            for file in files {
                push_lines(shown, "  ", file);
            }
        }
        Preview::Plan { path, text } => {
            let _ = writeln!(shown, "{}", code_text(&path.to_string_lossy()));
            push_lines(shown, "  ", text);
        }
        Preview::Questions { .. } | Preview::Budget(_) => {}
    }
}

/// Adds the lines of untrusted text with all characters made visible.
fn push_lines(shown: &mut String, indent: &str, text: &str) {
    for line in text.trim_end_matches('\n').split('\n') {
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "{indent}{}", code_text(line.strip_suffix('\r').unwrap_or(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(preview: Value) -> Value {
        json!({"id": "a", "kind": "approval", "title": "Do it", "preview": preview,
            "outcomes": ["proceed_once", "cancel"]})
    }

    fn two_questions() -> Value {
        json!({"id": "a", "kind": "question", "title": "Questions", "preview":
            {"type": "questions", "questions": [
                {"question": "Which color?", "header": "Color", "type": "choice",
                    "options": [{"label": "red"}, {"label": "blue"}]},
                {"question": "Which sizes?", "header": "Size", "type": "choice",
                    "multiSelect": true, "options": [{"label": "S"}, {"label": "M"}]}]}})
    }

    #[test]
    fn long_command_is_shown_in_full_with_line_breaks() {
        let command = format!("echo {}\ntouch \u{1b}[31mHIDDEN", "a".repeat(9_000));
        let ask = approval(json!({"type": "command", "command": command, "directory": "/work"}));
        let text = format_request(&ask);
        assert!(text.contains("\n  touch ␛[31mHIDDEN\nIn: /work\n"), "{text}");
        assert!(text.ends_with("  1  Allow once\n  2  Deny\n"), "{text}");
    }

    #[test]
    fn edit_is_shown_with_its_diff() {
        let diff = "--- a\n+++ b\n@@ -1 +1 @@\n-one\n+two\n";
        let ask = approval(json!({"type": "diff", "filePath": "/work/a.txt", "diff": diff,
            "linesAdded": 1, "linesRemoved": 1, "isNewFile": false}));
        let text = format_request(&ask);
        assert!(text.contains("/work/a.txt (+1 −1)\n  --- a\n") && text.contains("\n  +two\n"));
    }

    #[test]
    fn each_question_needs_its_answer() {
        let ask = two_questions();
        let text = format_request(&ask);
        assert!(text.contains("Question 2 of 2\nWhich sizes?\n  1  S\n"), "{text}");
        let value = |answers: &[&str]| line_of(&ask, answers).map(|line| line["value"].clone());
        assert_eq!(value(&["2", "1,2"]).expect("a line"), json!({"0": "blue", "1": "S, M"}));
        assert_eq!(value(&["green", "any"]).expect("a line"), json!({"0": "green", "1": "any"}));
        assert_eq!(value(&["deny"]).expect("a line"), Value::Null);
        assert!(value(&["blue"]).is_err() && value(&["3", "1"]).is_err());
    }

    #[test]
    fn single_question_takes_a_number_or_words() {
        let mut ask = two_questions();
        ask["preview"]["questions"].as_array_mut().expect("questions").truncate(1);
        let value = |answers: &[&str]| line_of(&ask, answers).map(|line| line["value"].clone());
        assert_eq!(value(&["2"]).expect("a line"), json!("blue"));
        assert_eq!(value(&["light", "blue"]).expect("a line"), json!("light blue"));
    }
}
