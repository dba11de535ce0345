//! Announcements for screen readers about a running command: its lines as soon as they are
//! complete, up to a limit, and at its end the lines that were not announced.

use std::collections::HashMap;

use parallax_protocol::ids::ItemId;
use parallax_screen::Line;

use super::Transcript;
use super::output::CommandOutput;
use crate::sanitize::{self, TextSegment};
use crate::theme::Theme;

/// The maximum number of lines of one command that are announced while it runs.
const MAX_COUNT: usize = 100;
/// Number of announced lines used to find the position in the whole output.
const REMEMBERED: usize = 3;
/// Maximum length in bytes of an incomplete line before it is announced.
const MAX_BYTES: usize = 4_000;

const MORE: &str = "More output follows; the end is announced when the command is done.";

/// What was announced of each running command, and what is pending.
#[derive(Debug, Default)]
pub(super) struct CommandAnnouncer {
    open: HashMap<ItemId, CommandAnnouncements>,
    pending_lines: Vec<(ItemId, String)>,
}

/// What was announced of one command.
#[derive(Debug, Default)]
struct CommandAnnouncements {
    is_started: bool,
    /// The incomplete line.
    incomplete_line: String,
    count: usize,
    last: Vec<String>,
    /// No further announcements.
    is_over: bool,
}

impl CommandAnnouncer {
    /// Handles output of a command.
    pub(super) fn handle_output(&mut self, id: &ItemId, text: &str) {
        let announcement = self.open.entry(id.clone()).or_default();
        for piece in text.split_inclusive('\n') {
            if announcement.is_over {
                return;
            }
            announcement.incomplete_line.push_str(piece);
            if !piece.ends_with('\n') && announcement.incomplete_line.len() < MAX_BYTES {
                return;
            }
            let line = final_line(&std::mem::take(&mut announcement.incomplete_line));
            if line.is_empty() {
                continue;
            }
            if announcement.count == MAX_COUNT {
                announcement.is_over = true;
                self.pending_lines.push((id.clone(), MORE.into()));
                return;
            }
            announcement.count += 1;
            if announcement.last.len() == REMEMBERED {
                announcement.last.remove(0);
            }
            announcement.last.push(line.clone());
            self.pending_lines.push((id.clone(), line));
        }
    }

    /// Announces a command that starts.
    pub(super) fn runs(&mut self, id: &ItemId, title: &str) {
        let announcement = self.open.entry(id.clone()).or_default();
        if !std::mem::replace(&mut announcement.is_started, true) {
            self.pending_lines.push((id.clone(), format!("Running: {title}")));
        }
    }

    /// Stops announcing a command that draws on the whole screen.
    pub(super) fn stop_announcing(&mut self, id: &ItemId) {
        self.open.entry(id.clone()).or_default().is_over = true;
    }

    /// Handles the end of a command with its output: removes what was announced. Returns the
    /// pending lines if the start of the command was announced.
    pub(super) fn handle_end(
        &mut self,
        id: &ItemId,
        output: &mut CommandOutput,
    ) -> Option<Vec<String>> {
        let (late, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending_lines).into_iter().partition(|(of, _)| of == id);
        self.pending_lines = others;
        let late: Vec<String> =
            late.into_iter().map(|(_, line)| line).filter(|line| line != MORE).collect();
        let announcement = self.open.remove(id)?;
        if announcement.count == 0 {
            return announcement.is_started.then_some(late);
        }
        let lines: Vec<&str> = output.text().split('\n').collect();
        let plain: Vec<(usize, String)> = lines
            .iter()
            .enumerate()
            .map(|(at, line)| (at, final_line(line)))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        let is_there = |part: &&[(usize, String)]| {
            part.iter().map(|(_, line)| line).eq(announcement.last.iter())
        };
        let heard =
            plain.windows(announcement.last.len()).rfind(is_there).and_then(|part| part.last());
        if let Some((at, _)) = heard {
            let before = if announcement.is_started { &[][..] } else { &late };
            let rest = lines.get(at + 1..).unwrap_or_default().iter().copied();
            let rest: Vec<&str> = before.iter().map(String::as_str).chain(rest).collect();
            *output = CommandOutput::from_text(&rest.join("\n"));
        }
        announcement.is_started.then_some(late)
    }
}

/// Returns the final state of a line without control sequences.
fn final_line(line: &str) -> String {
    let mut shown = String::new();
    let mut replace = false;
    for piece in sanitize::split_segments(line) {
        match piece {
            TextSegment::Text(text) => {
                if std::mem::take(&mut replace) {
                    shown.clear();
                }
                shown.push_str(text);
            }
            TextSegment::Hidden(char) => shown.push_str(&sanitize::code_point(char)),
            TextSegment::Control('\t') => shown.push(' '),
            TextSegment::Control('\r') => replace = true,
            TextSegment::Control(_) | TextSegment::Sequence(_) => {}
        }
    }
    shown.trim_end().to_owned()
}

impl Transcript {
    /// Announces a command that starts.
    pub fn announce_running(&mut self, id: &ItemId, title: &str) {
        if self.options.screen_reader {
            self.announcer.runs(id, &sanitize::one_row(title));
        }
    }

    /// Returns the lines of running commands to announce, each once.
    pub fn take_announcements(&mut self, theme: &Theme) -> Vec<Line> {
        let news = std::mem::take(&mut self.announcer.pending_lines);
        news.into_iter().map(|(_, line)| Line::styled(line, theme.secondary)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce_pieces(pieces: &[&str], whole: &str) -> (Vec<String>, String) {
        let (mut heard, id) = (CommandAnnouncer::default(), ItemId::from("a"));
        pieces.iter().for_each(|piece| heard.handle_output(&id, piece));
        let news = std::mem::take(&mut heard.pending_lines);
        let mut output = CommandOutput::from_text(whole);
        heard.handle_end(&id, &mut output);
        (news.into_iter().map(|(_, line)| line).collect(), output.text().to_owned())
    }

    #[test]
    fn complete_lines_are_emitted_once() {
        let (news, rest) = announce_pieces(
            &["on", "e\r\n\x1b[32mtw", "o\x1b[m\n10%\r90%\r\nthr"],
            "one\ntwo\n90%\nthree",
        );
        assert_eq!(news, ["one", "two", "90%"]);
        assert_eq!(rest, "three");
        let (news, rest) = announce_pieces(&["half"], "half");
        assert_eq!((news.len(), rest.as_str()), (0, "half"));
    }

    #[test]
    fn pending_lines_are_emitted_at_the_end() {
        let (mut heard, ids) = (CommandAnnouncer::default(), ["a", "b"].map(ItemId::from));
        heard.handle_output(&ids[0], "one\n");
        heard.pending_lines.clear();
        heard.handle_output(&ids[0], "two\nthr");
        heard.handle_output(&ids[1], "another\n");
        let mut output = CommandOutput::from_text("one\ntwo\nthree");
        assert_eq!(heard.handle_end(&ids[0], &mut output), None);
        assert_eq!(output.text(), "two\nthree");
        assert_eq!(heard.pending_lines, [(ids[1].clone(), "another".to_owned())]);
    }

    #[test]
    fn lines_of_a_short_command_follow_its_start() {
        let (mut heard, id) = (CommandAnnouncer::default(), ItemId::from("a"));
        heard.runs(&id, "ls");
        heard.runs(&id, "ls");
        heard.handle_output(&id, "one\ntw");
        let mut output = CommandOutput::from_text("one\ntwo");
        let late = heard.handle_end(&id, &mut output);
        assert_eq!(late.as_deref(), Some(&["Running: ls".to_owned(), "one".to_owned()][..]));
        assert_eq!((output.text(), heard.pending_lines.len()), ("two", 0));
    }

    #[test]
    fn output_flood_is_limited_and_its_rest_shown_at_the_end() {
        let all: String = (0..500).map(|number| format!("line {number}\n")).collect();
        let (news, rest) = announce_pieces(&[&all], &all);
        assert_eq!(news.len(), MAX_COUNT + 1);
        assert!(rest.starts_with("line 100\n") && rest.ends_with("line 499\n"), "{rest}");
    }
}
