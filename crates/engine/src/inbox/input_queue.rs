//! Prompts and steering messages that wait.

use std::collections::VecDeque;

use parallax_protocol::ids::SteerId;
use parallax_protocol::op::{Prompt, SteeringMessage, TurnOverrides};
use parallax_protocol::store::HookContinuation;

/// What a turn starts with.
pub(crate) enum TurnInput {
    /// A prompt.
    Prompt(Prompt),
    /// Text of hooks that continues the running turn.
    Continuation(HookContinuation),
    /// An interrupted turn: calls without a result are lost.
    Continue,
    /// A restored checkpoint: calls without a result are run.
    Rerun,
}

impl TurnInput {
    /// Returns the text for the model.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Prompt(prompt) => &prompt.text,
            Self::Continuation(continuation) => &continuation.text,
            Self::Continue | Self::Rerun => "",
        }
    }

    /// Takes the overrides of a prompt.
    pub(crate) fn take_overrides(&mut self) -> Option<TurnOverrides> {
        match self {
            Self::Prompt(prompt) => prompt.overrides.take().map(|overrides| *overrides),
            Self::Continuation(_) | Self::Continue | Self::Rerun => None,
        }
    }

    /// Returns the text that the user typed.
    pub(crate) fn display_text(&self) -> &str {
        match self {
            Self::Prompt(Prompt { typed_command: Some(typed), .. }) => typed,
            _ => self.text(),
        }
    }
}

/// An input that waits for its turn.
pub(crate) struct QueuedInput {
    pub(crate) input: TurnInput,
    /// Whether it was interrupted before it started.
    pub(crate) interrupted: bool,
    /// The id of the steering message that it was, if any.
    pub(crate) steer: Option<SteerId>,
}

impl QueuedInput {
    pub(crate) fn new(input: TurnInput) -> Self {
        Self { input, interrupted: false, steer: None }
    }

    pub(crate) fn steer_input(SteeringMessage { id, prompt }: SteeringMessage) -> Self {
        Self { steer: Some(id), ..Self::new(TurnInput::Prompt(prompt)) }
    }
}

/// Inputs of later turns, and steering messages for the running one.
#[derive(Default)]
pub(super) struct InputQueue {
    inputs: VecDeque<QueuedInput>,
    steering: Vec<SteeringMessage>,
}

impl InputQueue {
    /// Adds an input.
    pub(super) fn push(&mut self, input: QueuedInput) {
        self.inputs.push_back(input);
    }

    /// Adds an input before the others.
    pub(super) fn push_front(&mut self, input: QueuedInput) {
        self.inputs.push_front(input);
    }

    /// Takes the next input.
    pub(super) fn next(&mut self) -> Option<QueuedInput> {
        self.inputs.pop_front()
    }

    /// Interrupts the inputs before they start.
    pub(super) fn interrupt(&mut self) {
        self.inputs.iter_mut().for_each(|queued| queued.interrupted = true);
    }

    /// Removes everything. Returns the steering messages, which must not start another turn.
    pub(super) fn clear(&mut self) -> Vec<SteeringMessage> {
        self.inputs.clear();
        self.take_steering()
    }

    /// Adds a steering message, or replaces a queued one with the same id. Without a running turn
    /// it becomes a prompt.
    pub(super) fn queue_steering_message(&mut self, steer: SteeringMessage, is_turn_running: bool) {
        if let Some(waiting) = self.steering.iter_mut().find(|waiting| waiting.id == steer.id) {
            waiting.prompt = steer.prompt;
            return;
        }
        let named = |queued: &&mut QueuedInput| queued.steer.as_ref() == Some(&steer.id);
        if let Some(queued) = self.inputs.iter_mut().find(named) {
            queued.input = TurnInput::Prompt(steer.prompt);
        } else if is_turn_running {
            self.steering.push(steer);
        } else {
            self.inputs.push_back(QueuedInput::steer_input(steer));
        }
    }

    /// Removes a steering message, wherever it waits. Returns its text.
    pub(super) fn withdraw(&mut self, id: &SteerId) -> Option<String> {
        if let Some(index) = self.steering.iter().position(|steer| steer.id == *id) {
            return Some(self.steering.remove(index).prompt.text);
        }
        let index = self.inputs.iter().position(|queued| queued.steer.as_ref() == Some(id))?;
        self.inputs.remove(index).map(|queued| queued.input.text().to_owned())
    }

    pub(super) fn has_steering(&self) -> bool {
        !self.steering.is_empty()
    }

    /// Takes the steering messages.
    pub(super) fn take_steering(&mut self) -> Vec<SteeringMessage> {
        std::mem::take(&mut self.steering)
    }

    /// Turns steering messages that came too late into prompts. They come before the prompts of later
    /// turns, because they were meant for the turn before those.
    pub(super) fn queue_steers(&mut self, late: Vec<SteeringMessage>) {
        for steer in late.into_iter().rev() {
            self.inputs.push_front(QueuedInput::steer_input(steer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steer(id: &str, text: &str) -> SteeringMessage {
        let prompt = Prompt { text: text.to_owned(), ..Prompt::default() };
        SteeringMessage { id: SteerId::new(id), prompt }
    }

    #[test]
    fn steering_message_waits_for_the_turn_or_becomes_a_prompt() {
        let mut queue = InputQueue::default();
        queue.queue_steering_message(steer("a", "one"), true);
        queue.queue_steering_message(steer("b", "two"), false);
        assert!(queue.has_steering());
        let next = queue.next().expect("a prompt");
        assert_eq!((next.input.text(), next.steer), ("two", Some(SteerId::new("b"))));
        assert!(queue.next().is_none());
    }

    #[test]
    fn steering_message_with_a_known_id_replaces_the_queued_one() {
        let mut queue = InputQueue::default();
        queue.queue_steering_message(steer("a", "one"), true);
        queue.queue_steering_message(steer("a", "two"), true);
        queue.queue_steering_message(steer("b", "three"), false);
        queue.queue_steering_message(steer("b", "four"), true);
        assert_eq!(
            queue.take_steering().iter().map(|it| &it.prompt.text).collect::<Vec<_>>(),
            ["two"]
        );
        assert_eq!(queue.withdraw(&SteerId::new("b")).as_deref(), Some("four"));
        assert_eq!(queue.withdraw(&SteerId::new("b")), None);
    }
}
