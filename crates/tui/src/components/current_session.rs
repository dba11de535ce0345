//! The session that is open: its id, whether it accepts operations, and its statistics.

use parallax_protocol::event::Event;
use parallax_sessions::session_stats::SessionStats;

/// The open session, and what is still needed from the previous one.
#[derive(Debug, Default)]
pub(crate) struct CurrentSession {
    /// The id as reported by the engine.
    id: String,
    /// The previous session, if it contained any messages.
    before: Option<String>,
    /// Whether a session is open and accepts operations.
    is_ready: bool,
    /// Whether the session being opened is the one that is already shown.
    is_same_session: bool,
    /// Why no session can be opened, if no API key is configured.
    keyless_reason: Option<String>,
    /// The prompt that is sent once a session can be opened. It stays in the composer until then.
    waiting_prompt: Option<String>,
    /// Whether there is a prompt to rewind to.
    is_prompted: bool,
    /// The prompts typed in this session, so that they can be deleted on exit.
    typed_prompts: Vec<String>,
    /// Whether YOLO mode was explained in this session.
    is_yolo_explained: bool,
    /// Whether the user knows that the answers are scripted.
    is_script_reported: bool,
    /// Whether the session runs in another process.
    is_attached: bool,
    /// The last summary shown of the sign-in method and the context files.
    summary: String,
    stats: SessionStats,
}

impl CurrentSession {
    /// Returns the id, or an empty text before the first session.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Takes over a session that was opened. The statistics of another one start with `counted`.
    pub(crate) fn adopt_session(&mut self, id: &str, counted: impl FnOnce() -> SessionStats) {
        if self.id == id {
            return;
        }
        if self.has_turns() {
            self.before = Some(std::mem::take(&mut self.id));
        }
        self.stats = counted();
        self.is_yolo_explained = false;
        id.clone_into(&mut self.id);
    }

    /// Records that the session runs in another process.
    pub(crate) fn set_attached(&mut self) {
        self.is_attached = true;
    }

    /// Whether the session runs in another process.
    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Forgets the session, which is shown again.
    pub(crate) fn forget(&mut self) {
        self.id.clear();
        self.stats = SessionStats::default();
        self.is_same_session = false;
    }

    /// Records that the session accepts operations.
    pub(crate) fn ready(&mut self, id: &str) {
        self.is_ready = true;
        id.clone_into(&mut self.id);
    }

    /// Whether YOLO mode must be explained now: once per session.
    pub(crate) fn explains_yolo(&mut self) -> bool {
        !std::mem::replace(&mut self.is_yolo_explained, true)
    }

    /// Whether to report now that the answers are scripted: once per program run.
    pub(crate) fn reports_script(&mut self) -> bool {
        !std::mem::replace(&mut self.is_script_reported, true)
    }

    /// Records that no session accepts operations.
    pub(crate) fn mark_not_ready(&mut self) {
        self.is_ready = false;
    }

    /// Whether a session is open and accepts operations.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Forgets what belongs to the session that ends.
    pub(crate) fn close(&mut self) {
        self.typed_prompts.clear();
        self.is_ready = false;
    }

    /// Records whether the session being opened is the one that is already shown.
    pub(crate) fn set_shown(&mut self, is_shown: bool) {
        self.is_same_session = is_shown;
    }

    /// Whether the session being opened is the one that is already shown.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_same_session
    }

    /// Records why no session can be opened if no API key is configured.
    pub(crate) fn set_keyless(&mut self, reason: Option<&str>) {
        self.keyless_reason = reason.map(str::to_owned);
    }

    /// Returns why no session can be opened if no API key is configured.
    pub(crate) fn keyless_reason(&self) -> Option<&str> {
        self.keyless_reason.as_deref()
    }

    /// Sets the prompt that is sent once a session can be opened; `None` if none is.
    pub(crate) fn set_waiting_prompt(&mut self, prompt: Option<String>) {
        self.waiting_prompt = prompt;
    }

    /// Takes the prompt that waited for a session.
    pub(crate) fn take_waiting_prompt(&mut self) -> Option<String> {
        self.waiting_prompt.take()
    }

    /// Whether no session can be opened because no API key is configured.
    pub(crate) fn is_keyless(&self) -> bool {
        self.keyless_reason.is_some()
    }

    /// Records whether there is a prompt to rewind to.
    pub(crate) fn set_has_prompt(&mut self, is_prompted: bool) {
        self.is_prompted = is_prompted;
    }

    /// Whether there is a prompt to rewind to.
    pub(crate) fn has_prompt(&self) -> bool {
        self.is_prompted
    }

    /// Records a typed prompt.
    pub(crate) fn record_typed(&mut self, text: &str) {
        self.typed_prompts.push(text.to_owned());
    }

    /// Returns the prompts typed in this session.
    pub(crate) fn typed_prompts(&self) -> &[String] {
        &self.typed_prompts
    }

    /// Takes a summary to show. Returns whether it differs from the last one.
    pub(crate) fn is_new_summary(&mut self, text: &str) -> bool {
        let is_new = self.summary != text;
        text.clone_into(&mut self.summary);
        is_new
    }

    /// Counts an event.
    pub(crate) fn count(&mut self, event: &Event) {
        self.stats.count_event(event);
    }

    /// Returns the statistics.
    pub(crate) fn stats(&self) -> &SessionStats {
        &self.stats
    }

    /// Whether the statistics contain a turn.
    pub(crate) fn has_turns(&self) -> bool {
        !self.stats.turns.is_empty()
    }

    /// Returns the session to resume after the program has ended. After `/clear`, the newest may
    /// contain no prompt; a fork contains those of the original.
    pub(crate) fn to_resume(&self) -> Option<&String> {
        match self.has_turns() || self.is_prompted {
            true => Some(&self.id),
            false => self.before.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_without_prompts_does_not_hide_the_one_before() {
        let mut session = CurrentSession::default();
        session.adopt_session("first", SessionStats::default);
        assert_eq!(session.to_resume(), None);
        session.set_has_prompt(true);
        assert_eq!(session.to_resume().map(String::as_str), Some("first"));
        session.adopt_session("second", SessionStats::default);
        session.set_has_prompt(false);
        assert_eq!((session.id(), session.to_resume()), ("second", None));
    }

    #[test]
    fn same_summary_is_shown_once() {
        let mut session = CurrentSession::default();
        assert!(session.is_new_summary("a") && !session.is_new_summary("a"));
        assert!(session.is_new_summary("b"));
    }
}
