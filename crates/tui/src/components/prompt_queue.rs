//! Prompts on their way to the model: entered before the session is open, queued for the end of the
//! turn, steering the running turn, and the prompt of the turn itself.

use parallax_protocol::ids::SteerId;
use parallax_screen::Line;

use crate::layout::truncate_text;
use crate::theme::Theme;

/// Maximum number of queued messages shown; the rest is counted.
const MAX_SHOWN: usize = 3;

/// A steering message for the running turn that has not been delivered yet.
#[derive(Debug, Clone)]
struct Steering {
    id: SteerId,
    text: String,
}

/// A message that left the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemovedPrompt {
    pub(crate) text: String,
    /// The steering message to withdraw, because it was being sent already.
    pub(crate) steer_id: Option<SteerId>,
}

/// A message that waits, as listed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PendingPrompt<'a> {
    /// Identifies the message in the list.
    pub(crate) id: String,
    pub(crate) text: &'a str,
    /// When it is delivered.
    pub(crate) delivery: &'static str,
}

/// How a turn ended, for its prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnOutcome {
    pub(crate) is_cancelled: bool,
    /// Whether the prompt was removed from the history.
    pub(crate) was_removed: bool,
    /// Whether the prompt does not fit into the context window.
    pub(crate) too_long: bool,
}

/// Prompts that wait, and the prompt of the running turn.
#[derive(Debug, Default)]
pub(crate) struct PromptQueue {
    /// Prompts queued until the turn ends.
    queued: Vec<String>,
    steering: Vec<Steering>,
    steer_count: u64,
    /// Prompts entered before the session was open.
    queued_before_open: Vec<String>,
    /// The prompt of the running turn as typed.
    turn_prompt: String,
    /// The same prompt until the engine has reported it as an item: hooks may run first.
    beginning: Option<String>,
    /// Whether the user stopped the running turn.
    stopped: bool,
}

impl PromptQueue {
    /// Keeps a prompt until the session is open.
    pub(crate) fn enqueue(&mut self, text: String) {
        self.queued_before_open.push(text);
    }

    /// Takes the prompts that waited for the session.
    pub(crate) fn take_early_prompts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.queued_before_open)
    }

    /// Queues a prompt for the end of the turn.
    pub(crate) fn push(&mut self, text: String) {
        self.queued.push(text);
    }

    /// Records a steering message. Returns its id.
    pub(crate) fn steer(&mut self, text: String) -> SteerId {
        self.steer_count += 1;
        let id = SteerId::new(format!("steer-{}", self.steer_count));
        self.steering.push(Steering { id: id.clone(), text });
        id
    }

    /// Forgets a steering message that was delivered or returned to the composer.
    pub(crate) fn steer_ended(&mut self, id: &SteerId) {
        self.steering.retain(|one| one.id != *id);
    }

    /// Records the start of a turn with this prompt.
    pub(crate) fn turn_started(&mut self, prompt: &str) {
        prompt.clone_into(&mut self.turn_prompt);
        self.beginning = Some(prompt.to_owned()).filter(|prompt| !prompt.is_empty());
        self.stopped = false;
    }

    /// Records that the prompt of the turn has reached the transcript.
    pub(crate) fn prompt_shown(&mut self) {
        self.beginning = None;
    }

    /// Records whether the user stopped the running turn.
    pub(crate) fn note_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
    }

    /// Handles the end of the turn. Returns the prompts without an answer, which go back to the
    /// composer: the one of the turn, and with a cancelled turn those that waited for it.
    pub(crate) fn turn_ended(&mut self, end: TurnOutcome) -> Vec<String> {
        let mut back = Vec::new();
        let unheard = self.beginning.take();
        if let Some(prompt) = unheard.filter(|_| end.is_cancelled) {
            // Hooks were still running, so the prompt is not in the history.
            back.push(prompt);
        } else if end.was_removed && (self.stopped || end.too_long) {
            back.push(std::mem::take(&mut self.turn_prompt));
        }
        if end.is_cancelled {
            back.extend(self.steering.drain(..).map(|one| one.text));
            back.append(&mut self.queued);
        }
        back
    }

    /// Moves undelivered steering messages back to the head of the queue. Returns those to
    /// withdraw.
    pub(crate) fn requeue_steering(&mut self) -> Vec<SteerId> {
        let steering = std::mem::take(&mut self.steering).into_iter().rev();
        steering
            .map(|one| {
                self.queued.insert(0, one.text);
                one.id
            })
            .collect()
    }

    /// Takes all queued prompts as one.
    pub(crate) fn take_queued(&mut self) -> Option<String> {
        let queued = std::mem::take(&mut self.queued);
        (!queued.is_empty()).then(|| queued.join("\n\n"))
    }

    /// Takes the newest message.
    pub(crate) fn pop(&mut self) -> Option<RemovedPrompt> {
        if let Some(text) = self.queued.pop() {
            return Some(RemovedPrompt { text, steer_id: None });
        }
        let one = self.steering.pop()?;
        Some(RemovedPrompt { text: one.text, steer_id: Some(one.id) })
    }

    /// Returns the number of messages that wait for the turn or its end.
    pub(crate) fn len(&self) -> usize {
        self.queued.len() + self.steering.len()
    }

    /// Returns the messages that wait for the turn or its end.
    pub(crate) fn waiting_messages(&self) -> Vec<PendingPrompt<'_>> {
        let steering = self.steering.iter().enumerate().map(|(index, one)| PendingPrompt {
            id: format!("s{index}"),
            text: &one.text,
            delivery: "for this turn",
        });
        let queued = self.queued.iter().enumerate().map(|(index, text)| PendingPrompt {
            id: format!("q{index}"),
            text,
            delivery: "after this turn",
        });
        steering.chain(queued).collect()
    }

    /// Removes a message of the list.
    pub(crate) fn remove(&mut self, id: &str) -> Option<RemovedPrompt> {
        let (kind, at) = id.split_at_checked(1)?;
        let at: usize = at.parse().ok()?;
        match kind {
            "q" if at < self.queued.len() => {
                Some(RemovedPrompt { text: self.queued.remove(at), steer_id: None })
            }
            "q" => None,
            _ if at < self.steering.len() => {
                let one = self.steering.remove(at);
                Some(RemovedPrompt { text: one.text, steer_id: Some(one.id) })
            }
            _ => None,
        }
    }

    /// Moves a queued message up or down. Returns its new id, if it moved.
    ///
    /// # Errors
    /// Returns the reason why the message cannot move.
    pub(crate) fn move_message(
        &mut self,
        id: &str,
        up: bool,
    ) -> Result<Option<String>, &'static str> {
        let at: Option<usize> = id.strip_prefix('q').and_then(|at| at.parse().ok());
        let at = at.ok_or("messages for this turn cannot be moved; they are already being sent")?;
        let to = if up { at.checked_sub(1) } else { Some(at + 1) };
        let Some(to) = to.filter(|to| *to < self.queued.len() && at < self.queued.len()) else {
            return Ok(None);
        };
        self.queued.swap(at, to);
        Ok(Some(format!("q{to}")))
    }

    /// Forgets the messages of the previous session.
    pub(crate) fn clear(&mut self) {
        self.queued.clear();
        self.steering.clear();
    }

    /// Returns the prompts that were not sent, oldest first.
    pub(crate) fn unsent_prompts(&self) -> impl Iterator<Item = &str> {
        let texts = self.beginning.iter().chain(&self.queued_before_open);
        let texts = texts.chain(self.steering.iter().map(|one| &one.text));
        texts.chain(&self.queued).map(String::as_str)
    }

    /// Returns the pending messages with what they wait for, and whether they can be edited.
    fn pending_messages(&self) -> [(&'static str, bool, Vec<&String>); 4] {
        [
            ("Sent", false, self.beginning.iter().collect()),
            ("Sent when the session is open", false, self.queued_before_open.iter().collect()),
            ("Steering this turn", true, self.steering.iter().map(|one| &one.text).collect()),
            ("After this turn", true, self.queued.iter().collect()),
        ]
    }

    /// Returns the rows of pending messages.
    pub(crate) fn rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let mut rows = Vec::new();
        for (title, is_editable, texts) in self.pending_messages() {
            if texts.is_empty() {
                continue;
            }
            let key = if is_editable { " (↑ to edit)" } else { "" };
            rows.push(Line::styled(
                truncate_text(&format!("{title}{key}:"), width),
                theme.secondary,
            ));
            for text in texts.iter().take(MAX_SHOWN) {
                let row = format!("  › {}", first_line(text));
                rows.push(Line::styled(truncate_text(&row, width), theme.user));
            }
            if texts.len() > MAX_SHOWN {
                let more = format!("  (+{} more)", texts.len() - MAX_SHOWN);
                rows.push(Line::styled(more, theme.secondary));
            }
        }
        rows
    }

    /// Returns the messages that wait during a turn in words, for a screen reader.
    pub(crate) fn screen_reader_lines(&self) -> Vec<String> {
        let waiting =
            self.pending_messages().into_iter().filter(|(_, is_editable, _)| *is_editable);
        let output = |title: &str, text: &str| format!("{title}: {}", first_line(text));
        waiting
            .flat_map(|(title, _, texts)| texts.into_iter().map(move |text| output(title, text)))
            .collect()
    }
}

/// Returns the first line of a message, with an ellipsis if there are more.
fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().replace('\t', " ");
    if lines.next().is_some() { format!("{first} …") } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_messages_end_with_an_ellipsis() {
        let queue = queue(&["one\ntwo", "a message that is too long for the window"]);
        let rows = queue.rows(20, &Theme::default());
        let rows: Vec<String> = rows.iter().map(Line::text).collect();
        assert_eq!(rows, ["After this turn (↑ …", "  › one …", "  › a message that …"]);
        assert_eq!(queue.screen_reader_lines()[0], "After this turn: one …");
    }

    fn queue(texts: &[&str]) -> PromptQueue {
        let mut queue = PromptQueue::default();
        texts.iter().for_each(|text| queue.push((*text).to_owned()));
        queue
    }

    #[test]
    fn cancelled_turn_returns_its_prompts_in_order() {
        let mut queue = queue(&["later"]);
        queue.turn_started("first");
        queue.steer("now".to_owned());
        let end = TurnOutcome { is_cancelled: true, was_removed: false, too_long: false };
        assert_eq!(queue.turn_ended(end), ["first", "now", "later"]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn finished_turn_returns_only_a_removed_prompt() {
        let mut queue = queue(&["later"]);
        queue.turn_started("first");
        queue.prompt_shown();
        let end = TurnOutcome { is_cancelled: false, was_removed: true, too_long: true };
        assert_eq!(queue.turn_ended(end), ["first"]);
        assert_eq!(queue.take_queued().as_deref(), Some("later"));
        assert_eq!(queue.take_queued(), None);
    }

    #[test]
    fn messages_are_moved_and_removed_by_their_ids() {
        let mut queue = queue(&["a", "b"]);
        let steer = queue.steer("s".to_owned());
        assert_eq!(queue.move_message("q0", false), Ok(Some("q1".to_owned())));
        assert_eq!(queue.move_message("q1", false), Ok(None));
        assert_eq!(queue.move_message("q9", true), Ok(None));
        assert!(queue.move_message("s0", true).is_err());
        assert_eq!(queue.remove("q7"), None);
        let removed = queue.remove("s0");
        assert_eq!(removed, Some(RemovedPrompt { text: "s".to_owned(), steer_id: Some(steer) }));
        let ids: Vec<String> = queue.waiting_messages().into_iter().map(|it| it.id).collect();
        assert_eq!(ids, ["q0", "q1"]);
        assert_eq!(queue.pop().map(|it| it.text).as_deref(), Some("a"));
    }

    #[test]
    fn interrupt_puts_steering_before_the_queue() {
        let mut queue = queue(&["later"]);
        let (first, second) = (queue.steer("1".to_owned()), queue.steer("2".to_owned()));
        assert_eq!(queue.requeue_steering(), [second, first]);
        assert_eq!(queue.take_queued().as_deref(), Some("1\n\n2\n\nlater"));
    }
}
