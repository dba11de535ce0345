//! Handles engine events.

use parallax_protocol::event::{
    ApprovalRequest, CallPhase, CompactionCause, EndReason, Event, EventBody, FailureKind,
    ItemDone, ItemStart, Level, SteeringOutcome, TurnEnded,
};
use parallax_protocol::op::Op;
use parallax_protocol::routing::RouteSource;
use parallax_protocol::tool::{Display, ToolKind};

use super::App;
use crate::app::commands::context;
use crate::app::commands::editor;
use crate::app::commands::lists;
use crate::app::commands::mcp;
use crate::app::commands::rewind;
use crate::app::commands::skills_and_hooks;
use crate::app::effect::Effect;
use crate::components::dialog_stack::DialogPurpose;
use crate::components::prompt_queue::TurnOutcome;
use crate::dialog::QuestionDialog;
use crate::layout::truncate_text;
use crate::sanitize;
use crate::status_line::Quota;
use crate::transcript::LocalItem;

/// Width of the prompt in columns in the notification that it is done.
const PROMPT_COLUMNS: usize = 48;

impl App {
    /// Handles an event: updates the transcript and the rest of the state.
    pub(crate) fn handle_event(&mut self, event: &Event) {
        self.tick();
        let is_prompt =
            matches!(&event.body, EventBody::ItemStarted { start: ItemStart::User { .. }, .. });
        if !is_prompt && is_turn_work(&event.body) {
            self.announce_work();
        }
        if !self.sent_prompts.is_echoed(&event.body) {
            self.transcript.apply(event);
        }
        if is_prompt {
            self.announce_work();
        }
        self.session.count(event);
        self.debug.apply(event);
        self.note_prompt_shown(&event.body);
        self.turn.handle_event(&event.body, self.clock.now_ms());
        match &event.body {
            EventBody::SessionReady(ready) => {
                self.session.ready(ready.session.as_str());
                self.session.id().clone_into(&mut self.status_data.session);
                self.status_data.model.clone_from(&ready.model);
                if !is_routed(&ready.model) {
                    self.status_data.routed_model = None;
                }
                self.status_data.mode = ready.mode;
                if let Some(companion) = self.editor.companion().cloned() {
                    editor::apply_editor_trust(self, &companion);
                }
                for text in self.prompt_queue.take_early_prompts() {
                    self.queue_effect(Effect::Prompt { text, steer: None, ask: true });
                }
            }
            EventBody::TurnStarted { prompt } => {
                self.prompt_queue.turn_started(prompt);
                self.begin();
                // No prompt follows when an interrupted turn is continued.
                if prompt.is_empty() {
                    self.announce_work();
                }
                skills_and_hooks::refresh_completions(self);
                if self.session.stats().turns.len() == 1 {
                    mcp::report_starting_servers(self);
                }
            }
            EventBody::ItemStarted { start: ItemStart::User { text }, .. } => {
                self.session.set_has_prompt(true);
                if let Some(names) = self.sent_prompts.take_read(text) {
                    self.transcript.push(LocalItem::Read(names));
                }
            }
            EventBody::ItemStarted { item, start: ItemStart::Shell(shell) } => {
                self.shell.begin(item, &shell.command, self.clock.now_ms());
                self.transcript.announce_running(item, &shell.command);
            }
            EventBody::ItemDelta { item, .. } => {
                self.shell.record_output(item, self.clock.now_ms());
                self.turn.set_thought(self.transcript.thought_subject());
            }
            EventBody::ItemDone { item, done } => self.item_done(item, done),
            EventBody::CallState(state) => {
                let runs = state.phase == CallPhase::Executing;
                if runs && state.kind == Some(ToolKind::Execute) {
                    let title = state.title.as_deref().unwrap_or_default();
                    self.shell.begin(&state.item, title, self.clock.now_ms());
                    self.transcript.announce_running(&state.item, title);
                }
                // Set the size as early as possible, so that the command starts with it.
                if state.phase == CallPhase::Validating && state.kind == Some(ToolKind::Execute) {
                    self.resize_shell(&state.item);
                }
            }
            EventBody::ItemScreen { item, screen } => {
                let asks = screen.cursor.is_some_and(|(_, column)| column > 0);
                let now = self.clock.now_ms();
                self.shell.record_screen(item, screen.application_cursor, asks, now);
            }
            EventBody::ApprovalRequested(ask) => {
                if editor::is_accepted(self, ask) {
                    return;
                }
                self.clear_pending_presses();
                self.push_approval(ask.clone());
            }
            EventBody::ApprovalClosed { ask, .. } => {
                self.clear_pending_presses();
                self.dialogs.remove_approval(ask);
                editor::close(self, ask);
                self.set_waiting(self.dialogs.has_approvals());
            }
            EventBody::ModelCall(call) => {
                if call.error.is_none() {
                    self.status_data.quota = None;
                }
                self.update_counts();
            }
            EventBody::Sources(sources) if self.settings.citations => {
                self.transcript.push(LocalItem::Sources(sources.clone()));
            }
            EventBody::Compaction(compaction)
                if matches!(compaction.cause, CompactionCause::Manual) =>
            {
                // The dialog hides the notice.
                let is_open = matches!(self.dialogs.purpose(), Some(DialogPurpose::Context));
                if let Some(reason) = compaction.remark.as_ref().filter(|_| is_open) {
                    self.toast(reason.clone());
                }
                self.handle_compaction();
            }
            EventBody::ContextUsed(used) => self.status_data.context = (used.tokens, used.window),
            EventBody::ContextBreakdown(picture) => context::show(self, picture),
            EventBody::Retry(retry) if retry.status == Some(429) => {
                let (attempt, max_attempts) = (retry.attempt + 1, retry.max_attempts);
                self.status_data.quota = Some(Quota::Slow { attempt, max_attempts });
            }
            EventBody::SteerEnded(ended) => {
                self.prompt_queue.steer_ended(&ended.id);
                if ended.outcome == SteeringOutcome::NotFound {
                    self.toast("too late: the model already has this message");
                }
            }
            EventBody::Rewound(rewound) => self.handle_rewind(rewound),
            EventBody::Prompts { prompts } => rewind::show(self, prompts),
            EventBody::Background { processes } => {
                lists::background_changed(self, processes);
            }
            EventBody::Routed(route) => {
                let chosen = route.source != RouteSource::Override;
                self.status_data.routed_model = chosen.then(|| route.model.clone());
            }
            EventBody::StateChanged { model, mode } => {
                if self.status_data.model != *model {
                    self.status_data.routed_model = None;
                }
                self.status_data.model.clone_from(model);
                self.status_data.mode = *mode;
            }
            EventBody::TurnEnded(ended) => self.end(ended),
            _ => {}
        }
        self.update_title();
        if !matches!(event.body, EventBody::ItemDelta { .. }) {
            self.refresh_status_line();
        }
    }

    /// Notes that the prompt of the turn has reached the transcript.
    fn note_prompt_shown(&mut self, body: &EventBody) {
        let has_output = match body {
            EventBody::ItemStarted { start, .. } => !matches!(start, ItemStart::Shell(_)),
            EventBody::CallState(_) | EventBody::ModelCall(_) => true,
            _ => false,
        };
        if has_output {
            self.prompt_queue.prompt_shown();
        }
    }

    fn begin(&mut self) {
        self.turn.begin(self.session.stats().totals.cost.usd, self.clock.now_ms());
        self.pane.scroll_to_bottom();
        // Load the highlighter while waiting for the first tokens.
        crate::highlight::load();
        if self.settings.model_in_chat {
            let model = self.status_data.model.clone();
            self.transcript.push(LocalItem::ModelChanged { model });
        }
        self.queue_effect(Effect::Progress(true));
        self.notified_state();
    }

    fn item_done(&mut self, item: &parallax_protocol::ids::ItemId, done: &ItemDone) {
        self.shell.item_done(item);
        if let ItemDone::Tool(tool) = done {
            if let Some(Display::Todos { todos }) = &tool.display {
                self.todos.update(todos);
            }
            self.update_counts();
        }
    }

    /// Returns the title of notifications: the product and the project, because several sessions
    /// may run.
    pub(super) fn notifier(&self) -> String {
        match self.status_data.workspace.as_str() {
            "" => "Parallax".to_owned(),
            workspace => format!("Parallax ({})", sanitize::one_row(workspace)),
        }
    }

    /// Announces a turn that began to a screen reader, once and after its prompt.
    fn announce_work(&mut self) {
        if self.turn.take_turn_started() && self.settings.screen_reader {
            self.transcript.push(LocalItem::Announcement("Working (esc to stop).".to_owned()));
        }
    }

    /// Adds a row with the duration and cost of the turn.
    fn mark_end(&mut self, ended: &TurnEnded) {
        let is_low = self.window.rows() < crate::tokens::LOW;
        let cost = self.session.stats().totals.cost.usd;
        let details = self.turn.end(ended.duration_ms, cost, ended.is_removed);
        if self.settings.screen_reader {
            let mut text = match ended.reason {
                EndReason::Done => "Done.",
                EndReason::Cancelled => "Cancelled.",
                EndReason::Failed(_) => "Failed.",
                _ => "Stopped.",
            }
            .to_owned();
            text.extend(details.map(|details| format!(" ({})", details.join(", "))));
            self.transcript.push(LocalItem::Announcement(text));
            return;
        }
        let Some(mut details) = details.filter(|_| !is_low) else { return };
        details.push(jiff::Zoned::now().strftime("%H:%M").to_string());
        self.transcript.push(LocalItem::TurnEnd(details.join(crate::tokens::SEPARATOR)));
    }

    fn end(&mut self, ended: &TurnEnded) {
        self.mark_end(ended);
        self.clear_pending_presses();
        self.dialogs.clear_approvals();
        editor::close_all(self);
        self.queue_effect(Effect::Progress(false));
        self.queue_effect(Effect::Run(self.read_branch()));
        // Without an answer (stopped by the user, or too long for the model), the prompt returns to
        // the composer.
        let too_long = matches!(
            &ended.reason,
            EndReason::Failed(failure) if failure.kind == FailureKind::Overflow
        );
        self.status_data.quota = match &ended.reason {
            EndReason::Failed(failure) if failure.kind == FailureKind::Quota => Some(Quota::Spent),
            _ if matches!(self.status_data.quota, Some(Quota::Slow { .. })) => {
                Some(Quota::RateLimited)
            }
            _ => self.status_data.quota,
        };
        self.todos.turn_ended(matches!(ended.reason, EndReason::Done));
        let is_cancelled = matches!(ended.reason, EndReason::Cancelled);
        let end = TurnOutcome { is_cancelled, was_removed: ended.is_removed, too_long };
        let back = self.prompt_queue.turn_ended(end);
        self.return_prompts(&back);
        if !is_cancelled {
            let prompt =
                self.session.typed_prompts().last().map(|prompt| sanitize::one_row(prompt));
            let prompt =
                prompt.map(|prompt| format!(": {}", truncate_text(&prompt, PROMPT_COLUMNS)));
            self.notify(&format!("Done{}", prompt.unwrap_or_default()));
            // A compaction that waited for this turn comes first.
            if !self.turn.is_compacting() {
                self.send_queued();
            }
        }
        if self.turn.is_compacting() {
            self.show_compaction();
        }
    }

    /// Puts prompts without an answer back into the composer, in order.
    fn return_prompts(&mut self, texts: &[String]) {
        if !texts.is_empty() {
            self.composer.insert_before(&texts.join("\n\n"));
        }
    }

    /// Compacts the history now, or after the running turn.
    pub(super) fn compact(&mut self, focus: Option<String>) {
        if !self.session.is_ready() {
            return self.report_not_ready();
        }
        match self.is_busy() {
            true => self.toast("the history will be compacted after this turn"),
            false => self.show_compaction(),
        }
        self.turn.request_compaction();
        self.queue_effect(Effect::Send(Op::Compact { focus }));
    }

    /// Shows the compaction as work: Escape cancels it and prompts wait for it.
    fn show_compaction(&mut self) {
        self.turn.begin_compaction(self.clock.now_ms());
        self.queue_effect(Effect::Progress(true));
        self.update_title();
    }

    /// Handles the end of a compaction, successful or not, and sends the queued prompts.
    fn handle_compaction(&mut self) {
        if !self.turn.end_compaction() {
            return;
        }
        self.queue_effect(Effect::Progress(false));
        self.send_queued();
    }

    fn send_queued(&mut self) {
        if let Some(text) = self.prompt_queue.take_queued() {
            self.submit(text);
        }
    }

    /// Shows an error that did not come from the engine.
    pub(crate) fn show_error(&mut self, message: &str) {
        self.notice(Level::Error, message.to_owned());
    }

    fn notified_state(&mut self) {
        self.hints.disarm();
        self.clear_pending_presses();
    }

    /// Opens an approval request.
    pub(crate) fn push_approval(&mut self, request: Box<ApprovalRequest>) {
        // Like the request, the notification hides nothing of what it is about.
        let title = sanitize::one_row_of_lines(&request.title).into_owned();
        let in_editor = editor::open(self, &request);
        let mut question = QuestionDialog::new(request);
        question.plain = self.settings.screen_reader;
        question.in_editor = in_editor;
        let around = self.dialog_context();
        self.dialogs.push_approval(question, &around);
        self.set_waiting(true);
        self.notify(&format!("Waiting for approval: {title}"));
    }
}

/// Whether the event is a part of the work on a prompt.
fn is_turn_work(event: &EventBody) -> bool {
    matches!(
        event,
        EventBody::ItemStarted { .. }
            | EventBody::HooksRun { .. }
            | EventBody::CallState(_)
            | EventBody::ModelCall(_)
            | EventBody::Retry(_)
    )
}

/// Whether this model setting routes each prompt to a model.
fn is_routed(model: &str) -> bool {
    model == "auto" || model.starts_with("auto-")
}
