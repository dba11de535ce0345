//! Opens a session again under the same id, so that it uses changed files and settings.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::op::Op;
use parallax_protocol::typed_input::CurrentMode;
use parallax_sdk::SessionConfig;
use parallax_sessions::SessionChoice;
use serde_json::json;

use super::{CLOSE_TIMEOUT, EditorSession, internal_failure};
use crate::options::SessionChoices;
use crate::updates::chunk;

/// What the user learns when the session is reopened.
pub(super) struct ReopenNotice {
    pub(super) text: String,
    /// A command line whose output follows the text.
    pub(super) then: Option<&'static str>,
}

impl EditorSession {
    /// Closes the session and opens it again, with its mode, its model, and its clients. If that
    /// fails, it is opened with the previous configuration. Returns `None` if that also fails; its
    /// clients have to load it then.
    pub(super) async fn reopen(mut self, reopening: ReopenNotice) -> Option<Self> {
        let launch = match self.reload_config().await {
            Ok(launch) => launch,
            Err(failure) => {
                self.reject_prompt(failure).await;
                return Some(self);
            }
        };
        self.sign_ins.abort_all();
        let running = self.running.take();
        let is_stored = self.open.is_resumable();
        let previous = self.open.launch().clone().with_session(self.reopen_choice());
        let mut text = reopening.text;
        let lock = self.open.begin_lock_handover();
        // For example, that background commands were stopped.
        for report in self.open.close_with_limit(tokio::time::sleep(CLOSE_TIMEOUT)).await {
            text = format!("{report}\n\n{text}");
        }
        let opened = tokio::task::spawn_blocking(move || {
            launch.open().map(|opened| (opened, None)).or_else(|failure| {
                // Its directories or credentials may work only as they were.
                previous.open().map(|opened| (opened, Some(failure.clone()))).map_err(|_| failure)
            })
        });
        let opened = opened.await.unwrap_or_else(|error| Err(internal_failure(&error)));
        drop(lock);
        let failed = match opened {
            Ok(((open, events), failed)) => {
                (self.open, self.events) = (open, events);
                failed
            }
            Err(failure) => {
                let text = format!(
                    "the session could not be reopened, so it is closed; load it to continue: {}",
                    failure.message
                );
                if let Some(running) = running {
                    let error = Failure::new(failure.kind, text).into();
                    running.respond(&self.clients, &self.id, Err(error)).await;
                }
                return None;
            }
        };
        self.running = running;
        if let Some(failure) = failed {
            text.push_str(&format!(
                "The session could not be opened with the changed configuration, so it continues \
                 with the previous one: {}",
                failure.message
            ));
            self.mode = CurrentMode::new(self.open.mode);
            self.updates.mode = self.open.mode;
            self.updates.model.clone_from(&self.open.model);
        }
        self.choices = SessionChoices::new(self.open.launch());
        if !is_stored {
            // The journal of a session without a prompt does not contain the level.
            if let Some(level) = self.thinking_level.clone() {
                self.send(Op::SetThinkingLevel(Some(level))).await;
            }
        }
        (self.is_unsaved, self.was_stored) = (false, is_stored);
        if let Some(line) = reopening.then {
            let host = self.host.clone();
            let output = host.slash(&self.open, &mut self.events, line).await;
            text.push_str(&output.ok().flatten().unwrap_or_default());
        }
        let text = chunk("agent_message_chunk", &text);
        self.clients.update(&self.id, text).await;
        self.announce_options().await;
        self.answer(Ok(json!("end_turn"))).await;
        self.next_prompt().await;
        Some(self)
    }

    /// Whether the journal has what happened. On a full disk, a session continues without it.
    fn is_saved(&self) -> bool {
        !self.is_unsaved && (!self.was_stored || self.open.is_resumable())
    }

    /// Returns the choice that opens this session again.
    fn reopen_choice(&self) -> SessionChoice {
        match self.open.is_resumable() {
            true => SessionChoice::Resume(self.id.clone()),
            false => SessionChoice::WithId(self.id.clone()),
        }
    }

    /// Reads the settings again. The session stays as it is.
    async fn reload_config(&self) -> Result<SessionConfig, Failure> {
        if !self.is_saved() {
            let text = "The session is not saved completely, so it cannot be reopened without \
                losing turns. Check the disk; your changes apply to the next session.";
            return Err(Failure::new(FailureKind::Input, text.to_owned()));
        }
        let launch = self.open.launch().clone();
        let mut options = launch.options().clone();
        options.session = self.reopen_choice();
        let directories = options.include_directories.iter().chain([&options.directory]);
        if let Some(missing) = directories.into_iter().find(|directory| !directory.is_dir()) {
            let text = format!(
                "The directory `{}` no longer exists, so the session cannot be opened \
                 again. It continues as it was; your changes apply to the next session.",
                missing.display()
            );
            return Err(Failure::new(FailureKind::Input, text));
        }
        // What the user chose stays.
        options.session_rules = self.open.session_rules();
        if self.mode.get() != self.open.mode {
            options.approval_mode = Some(self.mode.get());
        }
        if self.updates.model != self.open.model {
            options.model = Some(self.updates.model.clone());
        }
        let prepared = tokio::task::spawn_blocking(move || launch.prepare_again(options)).await;
        prepared.unwrap_or_else(|error| Err(internal_failure(&error)))
    }
}
