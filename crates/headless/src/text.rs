//! The text format: the answer on stdout, as it arrives or message by message, and one line per
//! event on stderr.

use parallax_protocol::event::{Event, EventBody, ItemDone, Level, ToolDone, ToolStatus};
use parallax_protocol::similar_texts::merge_similar;

use crate::answer::{TextItems, TextStep};
use crate::continuation::Continuation;
use crate::failure::RunOutcome;
use crate::options::RunOptions;
use crate::output::{MessageStyle, PendingOutput};
use crate::output_formatter::{FlushState, OutputFormatter, SCRIPTED, Summary, retry_words};
use crate::repeated_notices::RepeatedNotices;
use crate::sanitize::Sanitizer;
use crate::wire;

pub(crate) struct TextFormatter {
    raw: bool,
    quiet: bool,
    color: bool,
    /// Whether to print nothing until the answer has passed its schema.
    hold_output: bool,
    /// The current message if messages are printed only when complete; `None` if they are printed
    /// as they arrive.
    buffered_message: Option<String>,
    warnings: Vec<String>,
    repetitions: RepeatedNotices,
    items: TextItems,
    sanitizer: Sanitizer,
    message: Continuation,
    at_line_start: bool,
    sanitized: String,
    shown_text: String,
}

impl TextFormatter {
    pub(crate) fn new(options: &RunOptions) -> Self {
        Self {
            raw: options.raw_output,
            quiet: options.quiet,
            color: options.stderr_color,
            hold_output: options.schema.is_some(),
            buffered_message: options.whole_messages.then(String::new),
            warnings: options.warnings.clone(),
            repetitions: RepeatedNotices::default(),
            items: TextItems::default(),
            sanitizer: Sanitizer::new(),
            message: Continuation::default(),
            at_line_start: true,
            sanitized: String::new(),
            shown_text: String::new(),
        }
    }

    fn write_message(&self, tone: MessageStyle, text: &str, pending: &mut PendingOutput) {
        if tone == MessageStyle::Error || !self.quiet {
            pending.write_message(tone, self.color, text);
        }
    }

    fn push_piece(&mut self, text: &str, pending: &mut PendingOutput) {
        if self.hold_output || text.is_empty() {
            return;
        }
        let text = if self.raw {
            text
        } else {
            self.sanitized.clear();
            self.sanitizer.push(text, &mut self.sanitized);
            &self.sanitized
        };
        self.shown_text.clear();
        self.message.push(text, &mut self.shown_text);
        self.print_shown(pending);
    }

    /// Prints what was held back of the streamed message, which is complete.
    fn finish_piece(&mut self, pending: &mut PendingOutput) {
        self.sanitized.clear();
        self.sanitizer.finish(&mut self.sanitized);
        self.shown_text.clear();
        self.message.push(&self.sanitized, &mut self.shown_text);
        self.print_shown(pending);
    }

    /// Prints a complete message, which may be large, without copying it.
    fn print_message(&mut self, text: String, pending: &mut PendingOutput) {
        if self.hold_output {
            return;
        }
        let text = if self.raw { text } else { Sanitizer::sanitize_owned(text) };
        if let Some(last) = text.as_bytes().last() {
            self.at_line_start = *last == b'\n';
        }
        match pending.stdout.is_empty() {
            true => pending.stdout = text.into_bytes(),
            false => pending.stdout.extend_from_slice(text.as_bytes()),
        }
    }

    fn print_shown(&mut self, pending: &mut PendingOutput) {
        if let Some(last) = self.shown_text.as_bytes().last() {
            self.at_line_start = *last == b'\n';
            pending.stdout.extend_from_slice(self.shown_text.as_bytes());
        }
    }

    /// Ends the message, so that what follows starts on its own line.
    fn finish_message(&mut self, pending: &mut PendingOutput) {
        self.message.finish();
        if !self.at_line_start {
            pending.stdout.push(b'\n');
            self.at_line_start = true;
        }
    }

    fn push_tool_done(&self, done: &ToolDone, pending: &mut PendingOutput) {
        if let Some(line) = tool_error(done) {
            // Output of programs may be colored.
            self.write_message(MessageStyle::Note, &Sanitizer::sanitize(&line), pending);
        }
    }
}

/// Describes a failed tool call. Scripts look for this text.
fn tool_error(done: &ToolDone) -> Option<String> {
    if done.status == ToolStatus::Success {
        return None;
    }
    let reason = done.error.as_ref().map_or("cancelled", |(_, message)| message);
    Some(format!("Error executing tool {}: {}", done.name, unwrap_markers(reason)))
}

impl OutputFormatter for TextFormatter {
    fn begin(&mut self, summary: &Summary, pending: &mut PendingOutput) {
        for warning in merge_similar(std::mem::take(&mut self.warnings)) {
            self.write_message(MessageStyle::Warning, &warning, pending);
        }
        if summary.scripted {
            self.write_message(MessageStyle::Note, SCRIPTED, pending);
        }
    }

    fn event(&mut self, event: &Event, pending: &mut PendingOutput) {
        match self.items.read(event) {
            TextStep::Other => {}
            TextStep::Boundary => self.finish_message(pending),
            TextStep::Begin => {
                self.sanitizer = Sanitizer::new();
                self.buffered_message.iter_mut().for_each(String::clear);
            }
            TextStep::More(piece) => match &mut self.buffered_message {
                Some(whole) => whole.push_str(piece),
                None => self.push_piece(piece, pending),
            },
            TextStep::End { rest, .. } => {
                match self.buffered_message.as_mut().map(std::mem::take) {
                    Some(mut whole) => {
                        whole.push_str(rest);
                        self.print_message(whole, pending);
                    }
                    None => {
                        self.push_piece(rest, pending);
                        self.finish_piece(pending);
                    }
                }
            }
            TextStep::Dropped { .. } if self.buffered_message.is_some() => {}
            TextStep::Dropped { text } if self.raw => self.message.invalidate(text),
            TextStep::Dropped { text } => {
                // Sanitized as a whole instead of in pieces, which gives the same result.
                self.sanitized.clear();
                Sanitizer::new().push(text, &mut self.sanitized);
                self.message.invalidate(&self.sanitized);
            }
        }
        match &event.body {
            EventBody::ItemDone { done: ItemDone::Tool(done), .. } => {
                self.push_tool_done(done, pending)
            }
            EventBody::ItemDone { done: ItemDone::Notice { level, text, kind }, .. } => {
                self.notice(*level, kind.as_deref(), text, pending);
            }
            EventBody::Retry(retry) => {
                self.write_message(MessageStyle::Note, &retry_words(retry), pending)
            }
            _ => {}
        }
    }

    fn notice(
        &mut self,
        level: Level,
        kind: Option<&str>,
        text: &str,
        pending: &mut PendingOutput,
    ) {
        if level == Level::Warning && !self.repetitions.should_report(kind, text) {
            return;
        }
        let tone = match level {
            Level::Info => MessageStyle::Note,
            Level::Warning => MessageStyle::Warning,
            Level::Error => MessageStyle::Error,
        };
        self.write_message(tone, text, pending);
    }

    fn end(
        &mut self,
        outcome: &RunOutcome,
        summary: &Summary,
        pending: &mut PendingOutput,
    ) -> FlushState {
        if let Some(structured) = &summary.structured {
            wire::push_pretty(&mut pending.stdout, structured);
            pending.stdout.push(b'\n');
        }
        self.finish_message(pending);
        for warning in self.repetitions.take() {
            self.write_message(MessageStyle::Warning, &warning, pending);
        }
        if let Some(warning) = &outcome.warning {
            self.write_message(MessageStyle::Warning, warning, pending);
        }
        if let Some(error) = &outcome.error {
            self.write_message(MessageStyle::Error, &error.message, pending);
        }
        FlushState::No
    }
}

/// Formats an error for the user: removes the markers of untrusted content, which are meant for the
/// model.
fn unwrap_markers(message: &str) -> String {
    let is_mark =
        |line: &&str| matches!(line.trim(), "<untrusted_context>" | "</untrusted_context>");
    message.lines().filter(|line| !is_mark(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use crate::OutputFormat;
    use crate::harness::{SessionScript, run};

    fn text() -> SessionScript {
        SessionScript::new(OutputFormat::Text)
    }

    #[test]
    fn answer_is_sanitized_and_ends_with_one_newline() {
        let result = run(text().text(&["Hel\x1b[3", "1mlo", " world"]).done());
        assert_eq!(
            (result.code, result.stdout.as_str(), result.stderr.as_str()),
            (0, "Hello world\n", "")
        );
        let result = run(text().text(&["a\n"]).done());
        assert_eq!(result.stdout, "a\n");
        let mut script = text().text(&["\x1b[31mred"]).done();
        script.options.raw_output = true;
        assert_eq!(run(script).stdout, "\x1b[31mred\n");
    }

    #[test]
    fn untrusted_content_markers_are_not_shown() {
        let wrapped = "<untrusted_context>\nbad thing\n</untrusted_context>\n(MCP tool `t`)";
        let result = run(text().tools(&[("a", Err(wrapped))]).text(&["Found."]).done());
        assert_eq!(result.stderr, "Error executing tool a: bad thing (MCP tool `t`)\n");
    }

    #[test]
    fn stdout_has_no_tools_thoughts_or_results() {
        let result = run(text()
            .thought("**Plan** first")
            .text(&["Looking"])
            .tools(&[("a", Ok("one")), ("b", Err("no\nfile\x1b[2J"))])
            .text(&["Found."])
            .done());
        assert_eq!(result.stdout, "Looking\nFound.\n");
        assert_eq!(result.stderr, "Error executing tool b: no file\n");
    }

    #[test]
    fn retried_answer_is_printed_once() {
        let result = run(text().dropped(&["One two"]).text(&["One ", "two three"]).done());
        assert_eq!(result.stdout, "One two three\n");
        let result = run(text().dropped(&["One two"]).text(&["One", " 2"]).done());
        assert_eq!(result.stdout, "One two\nOne 2\n");
    }

    #[test]
    fn final_message_contains_no_text_of_a_dropped_message() {
        let mut script = text().dropped(&["Hello wor"]).text(&["Other ", "text"]).done();
        script.options.whole_messages = true;
        assert_eq!(run(script).stdout, "Other text\n");
        let mut script = text()
            .text(&["Look\x1b[3", "1ming"])
            .tools(&[("a", Ok("one"))])
            .text(&["Found."])
            .done();
        script.options.whole_messages = true;
        assert_eq!(run(script).stdout, "Looking\nFound.\n");
    }

    #[test]
    fn repeated_warnings_are_counted() {
        let mut script = text().notice("again");
        for _ in 0..9 {
            script = script.notice("again").notice("info");
        }
        script.options.warnings = (0..12).map(|n| format!("`/e{n}` is invalid")).collect();
        let result = run(script.done());
        assert_eq!(result.stderr.matches("again").count(), 4, "{}", result.stderr);
        assert!(result.stderr.contains("warning: 7 more times: again\n"), "{}", result.stderr);
        assert!(result.stderr.starts_with("warning: `/e0` is invalid (and 11 more like it)\n"));
    }

    #[test]
    fn warnings_of_one_kind_with_different_wording_are_counted() {
        let mut script = text();
        for number in 0..9 {
            script = script.notice_of("hook", &format!("again {number}"));
        }
        let result = run(script.done());
        let expected = "warning: again 0\nwarning: again 1\nwarning: again 2\n\
                        warning: 6 more of this kind, the last one: again 8\n";
        assert_eq!(result.stderr, expected);
    }

    #[test]
    fn quiet_keeps_errors_only() {
        let script = |quiet| {
            let mut script = text().retry().notice("odd").failed();
            script.options.warnings = vec!["start".into()];
            script.options.quiet = quiet;
            script
        };
        let loud = run(script(false));
        assert_eq!(loud.stderr.lines().count(), 4, "{}", loud.stderr);
        assert!(loud.stderr.starts_with("warning: start\nretrying in 1.5 s (attempt 2 of 3"));
        let quiet = run(script(true));
        assert_eq!((quiet.code, quiet.stderr.as_str()), (1, "error: the service failed\n"));
    }
}
