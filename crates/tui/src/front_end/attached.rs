//! Shows a session that runs in another process.

use parallax_protocol::event::Level;
use parallax_protocol::session_view::SessionView;
use parallax_sdk::EventReader;

use super::session::{Session, SessionProcess};
use super::{ExitReason, TerminalFrontEnd};
use crate::app::commands::completions;
use crate::app::effect::ResultSender;
use crate::app::opened_session::OpenedSession;
use crate::attached::AttachedUpdate;
use crate::layout::plain_rows;

impl TerminalFrontEnd {
    /// Handles a report of the attached session; `None` after the last one.
    pub(super) fn handle_update(&mut self, update: Option<AttachedUpdate>) {
        match update {
            Some(AttachedUpdate::State(view, events)) => self.show_attached(&view, events),
            Some(AttachedUpdate::Output(text)) => {
                // It may contain text from MCP servers and the project.
                let text = crate::sanitize::lines(text.trim_end());
                self.app.show_wrapped_rows(plain_rows(&text));
            }
            Some(AttachedUpdate::Notice(Level::Error, text)) => self.app.error(text),
            Some(AttachedUpdate::Notice(Level::Warning, text)) => self.app.warn(text),
            Some(AttachedUpdate::Notice(Level::Info, text)) => self.app.info(text),
            Some(AttachedUpdate::Ended(how)) => {
                // The last events come before the end.
                self.drain_events();
                self.session_end = Some(how);
                self.exit_reason = Some(ExitReason::Quit);
            }
            None => {
                self.attached = None;
                self.exit_reason.get_or_insert(ExitReason::Quit);
            }
        }
        self.needs_draw = true;
    }

    /// Draws the conversation so far; the events of the running turn follow.
    fn show_attached(&mut self, view: &SessionView, events: EventReader) {
        let Some((attached, launch)) = self.attached.as_ref().zip(self.app.launch.as_ref()) else {
            return;
        };
        let running = launch.running_session(&attached.id, view);
        let files = launch.running_session_files(&attached.id);
        let opened = OpenedSession::attached(attached.id.as_str(), view.scripted, running);
        let session = Session::attached(events, attached.ops.clone(), attached.commands.clone());
        if self.session.replace(session).is_some() {
            self.app.clear_session();
            self.app.session.forget();
            self.app.info("This view fell behind and was redrawn:");
        }
        self.app.handle_opened_session(opened);
        self.app.status_data.trusted = view.is_trusted;
        // Without the directory, only the completion of names is missing.
        if let Ok(files) = files {
            completions::find_files(&mut self.app, files, &[], ResultSender(self.jobs.clone()));
        }
        if view.is_truncated {
            self.app.info("The beginning of the running turn is too long to be shown here.");
        }
        self.app.set_turn_age(view.turn_ms.unwrap_or_default());
        // Show the conversation at once.
        self.last_frame = None;
    }

    /// Sends a slash command to the session of another process, which answers with its output.
    pub(super) fn ask_other_process(&mut self, command: String) {
        let sent = match self.session.as_ref().map(|session| &session.process) {
            Some(SessionProcess::Other(commands)) => commands.try_send(command).is_ok(),
            _ => false,
        };
        if !sent {
            self.app.toast("the session did not accept the command");
        }
    }
}
