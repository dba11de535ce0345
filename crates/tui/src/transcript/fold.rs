//! Builds items from events.

use std::sync::Arc;

use parallax_protocol::event::{Event, EventBody, ItemDone, ItemStart, Level};
use parallax_protocol::ids::ItemId;
use parallax_protocol::shell::Screen;

use super::answer::Answer;
use super::image::TranscriptImage;
use super::item::{Item, LocalItem, ShellItem};
use super::output::CommandOutput;
use super::tool::{CallBody, Tool};
use super::{Transcript, descriptions};

/// The beginning of the kind of notices about hooks that continue the agent.
const CONTINUED_BY_HOOK: &str = "AfterAgent ";

impl Transcript {
    /// Applies an engine event.
    pub fn apply(&mut self, event: &Event) {
        match &event.body {
            EventBody::ItemStarted { item, start } => self.start(item, start),
            EventBody::ItemDelta { item, text } => self.apply_delta(item, text),
            EventBody::ItemDone { item, done } => self.done(item, done),
            EventBody::ApprovalRequested(ask) => {
                if let Some(at) = self.calls.get(&ask.call).copied() {
                    self.pending_approvals.insert(ask.id.clone(), at);
                    if let Some(Item::Tool(tool)) = self.items.get_mut(at) {
                        tool.ask(ask);
                    }
                }
            }
            EventBody::ApprovalClosed { ask, outcome } => {
                if let Some(Item::Tool(tool)) =
                    self.pending_approvals.remove(ask).and_then(|at| self.items.get_mut(at))
                {
                    tool.record_response(*outcome);
                }
            }
            EventBody::CallState(state) => {
                if let Some(Item::Tool(tool)) =
                    self.open.get(&state.item).and_then(|at| self.items.get_mut(*at))
                {
                    tool.update_phase(state);
                }
            }
            EventBody::ItemScreen { item, screen } => self.replace_output(item, screen),
            EventBody::ItemAdvanced { item, advance } => {
                if let Some(at) = self.open.get(item).copied() {
                    self.row_cache.remove(at);
                    if let Some(Item::Tool(tool)) = self.items.get_mut(at) {
                        tool.advance(advance);
                    }
                }
            }
            EventBody::Agent { item, progress } => {
                if let Some(at) = self.open.get(item).copied() {
                    self.row_cache.remove(at);
                    if let Some(Item::Tool(tool)) = self.items.get_mut(at) {
                        tool.update_agent(progress);
                    }
                }
            }
            EventBody::Retry(retry) => {
                if self.options.full_errors {
                    self.items
                        .push(Item::notice(Level::Warning, descriptions::describe_retry(retry)));
                }
                self.retry = Some(descriptions::RetryWait::new(retry.clone()));
            }
            EventBody::Compaction(compaction) => {
                self.items.push(descriptions::describe_compaction(compaction));
            }
            EventBody::Undone(undone) => {
                let (level, text) = descriptions::describe_undo(undone);
                self.items.push(Item::notice(level, text));
            }
            EventBody::NotContinued => {
                let text = "Nothing to continue: the last turn was not interrupted";
                self.items.push(Item::notice(Level::Warning, text));
            }
            EventBody::TurnEnded(end) => {
                (self.in_turn, self.is_continued_by_hook) = (false, false);
                self.close_open();
                if let Some((level, text)) = descriptions::describe_turn_end(&end.reason) {
                    self.items.push(Item::notice(level, text));
                }
            }
            EventBody::ModelCall(call) if call.error.is_none() => self.retry = None,
            EventBody::TurnStarted { .. } => (self.retry, self.in_turn) = (None, true),
            EventBody::Rewound(rewound) => {
                let (level, text) = descriptions::describe_rewind(rewound);
                self.items.push(Item::notice(level, text));
            }
            EventBody::Restored(undone) => {
                let (level, text) = descriptions::describe_restore(undone);
                self.items.push(Item::notice(level, text));
            }
            EventBody::Image(image) => {
                self.items.push(Item::Picture(Box::new(TranscriptImage::new(image.clone()))));
            }
            // These are shown elsewhere on the screen or arrive as separate items.
            EventBody::SessionReady(_)
            | EventBody::ModelCall(_)
            | EventBody::ContextUsed(_)
            | EventBody::Sources(_)
            | EventBody::ContextBreakdown(_)
            | EventBody::SteerEnded(_)
            | EventBody::Prompts { .. }
            | EventBody::Routed(_)
            | EventBody::FellBack(_)
            | EventBody::Background { .. }
            | EventBody::HooksRun { .. }
            | EventBody::Aside { .. }
            | EventBody::StateChanged { .. } => {}
        }
    }

    fn start(&mut self, id: &ItemId, start: &ItemStart) {
        self.retry = None;
        let item = match start {
            // The notice about the hook shows the text.
            ItemStart::User { .. } if std::mem::take(&mut self.is_continued_by_hook) => return,
            ItemStart::User { text } => {
                let typed_text = self.take_typed(text);
                self.items.push(Item::User { text: text.as_str().into(), typed_text });
                return;
            }
            ItemStart::Text => Item::Answer(Box::new(Answer::new())),
            ItemStart::Thought => Item::Thought { text: String::new(), open: true },
            ItemStart::Tool(start) => {
                self.calls.insert(start.call.clone(), self.items.len());
                Item::Tool(Box::new(Tool::start(start)))
            }
            ItemStart::Shell(start) => {
                Item::from(LocalItem::ShellRunning { command: start.command.clone() })
            }
        };
        if !matches!(item, Item::Thought { .. }) {
            self.subject = None;
        }
        self.open.insert(id.clone(), self.items.len());
        self.items.push(item);
    }

    fn apply_delta(&mut self, id: &ItemId, more: &str) {
        self.retry = None;
        let Some(at) = self.open.get(id).copied() else { return };
        self.row_cache.remove(at);
        if self.options.screen_reader
            && matches!(self.items.get(at), Some(Item::Tool(_) | Item::Shell(_)))
        {
            self.announcer.handle_output(id, more);
        }
        match self.items.get_mut(at) {
            Some(Item::Answer(answer)) => answer.push(more),
            Some(Item::Tool(tool)) => tool.output(more),
            Some(Item::Shell(shell)) => shell.output.push(more),
            Some(Item::Thought { text, .. }) => {
                text.push_str(more);
                self.subject =
                    Some(descriptions::latest_subject(text)).filter(|subject| !subject.is_empty());
            }
            _ => {}
        }
    }

    /// Replaces the output of a command with the contents of its terminal.
    fn replace_output(&mut self, id: &ItemId, screen: &Screen) {
        let Some(at) = self.open.get(id).copied() else { return };
        self.row_cache.remove(at);
        if self.options.screen_reader && screen.full_screen {
            self.announcer.stop_announcing(id);
        }
        match self.items.get_mut(at) {
            Some(Item::Tool(tool)) => tool.screen(screen),
            Some(Item::Shell(shell)) => shell.output = CommandOutput::from_screen(screen),
            _ => {}
        }
    }

    fn done(&mut self, id: &ItemId, done: &ItemDone) {
        if let ItemDone::Notice { level, text, kind } = done {
            let kind = kind.as_deref().unwrap_or_default();
            self.is_continued_by_hook |= kind.starts_with(CONTINUED_BY_HOOK);
            self.items.push(match kind.starts_with(CONTINUED_BY_HOOK) {
                true => Item::from(LocalItem::Continued(text.clone())),
                false => Item::notice(*level, text.as_str()),
            });
            return;
        }
        // An item without a start event is complete in itself.
        let at = self.open.remove(id);
        if let Some(at) = at {
            self.row_cache.remove(at);
        }
        let known = at.and_then(|at| self.items.get_mut(at));
        match (done, known) {
            (ItemDone::Text { text, is_dropped }, Some(Item::Answer(answer))) => {
                answer.end(Arc::clone(text), *is_dropped);
            }
            (ItemDone::Text { text, is_dropped: false }, None) => {
                self.items.push(Item::Answer(Box::new(Answer::complete(Arc::clone(text)))));
            }
            (ItemDone::Thought { text: whole }, Some(Item::Thought { text, open })) => {
                (*text, *open) = (whole.clone(), false);
                self.subject =
                    Some(descriptions::latest_subject(whole)).filter(|subject| !subject.is_empty());
            }
            (ItemDone::Thought { text }, None) => {
                self.items.push(Item::Thought { text: text.clone(), open: false });
            }
            (ItemDone::Tool(done), Some(Item::Tool(tool))) => {
                self.calls.remove(&done.call);
                tool.end(done);
                if let Some(done) = tool.finished_mut() {
                    done.unannounced_lines = match &mut done.body {
                        CallBody::Output(output) => self.announcer.handle_end(id, output),
                        _ => self.announcer.handle_end(id, &mut CommandOutput::default()),
                    };
                }
            }
            (ItemDone::Shell(done), Some(Item::Shell(shell))) => {
                shell.end(done);
                shell.unannounced_lines = self.announcer.handle_end(id, &mut shell.output);
            }
            (ItemDone::Shell(done), None) => {
                let mut item = ShellItem::running(&done.command);
                item.end(done);
                self.items.push(Item::Shell(Box::new(item)));
            }
            (ItemDone::Tool(done), None) => {
                self.items.push(Item::Tool(Box::new(Tool::finished(done))));
            }
            _ => {}
        }
    }

    /// Closes all items of an ended turn, even those whose end was not reported.
    pub(super) fn close_open(&mut self) {
        (self.retry, self.subject) = (None, None);
        // Shell commands of the user run independently of turns.
        let (stays, ends): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, at)| matches!(self.items.get(*at), Some(Item::Shell(_))));
        self.open = stays.into_iter().collect();
        for (_, at) in ends {
            self.row_cache.remove(at);
            match self.items.get_mut(at) {
                Some(Item::Answer(answer)) => {
                    let text = Arc::new(answer.text().to_owned());
                    answer.end(text, false);
                }
                Some(Item::Thought { open, .. }) => *open = false,
                Some(Item::Tool(tool)) => tool.abandon(),
                _ => {}
            }
        }
        self.calls.clear();
        self.pending_approvals.clear();
    }
}
