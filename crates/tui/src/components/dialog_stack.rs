//! The dialogs: the one over the composer, the approval requests, and the requests of MCP servers.

mod incoming;

use std::collections::VecDeque;

use parallax_protocol::event::ApprovalRequest;
use parallax_protocol::ids::ApprovalId;
use parallax_screen::Key;

pub(crate) use super::overlay::{DialogPurpose, Overlay, OverlayBody};
pub(crate) use incoming::DialogContext;

use super::server_requests::{ServerAnswer, ServerRequest, ServerRequests};
use crate::dialog::{
    DialogKey, DialogView, FieldDialog, ListDialog, QuestionAnswer, QuestionDialog,
};
use crate::theme::Theme;
use incoming::AutoOpenedDialogs;

/// The open dialogs. One takes keys at a time: the overlay, or else the first approval request.
#[derive(Default)]
pub(crate) struct DialogStack {
    overlay: Option<Overlay>,
    approvals: VecDeque<QuestionDialog>,
    /// The approval request with a lasting answer that the engine has not closed yet. The answer
    /// may also allow the next requests, so they are not shown until then.
    held_by: Option<ApprovalId>,
    servers: ServerRequests,
    incoming: AutoOpenedDialogs,
    /// Whether `y` was pressed in an approval dialog.
    pressed_yes: bool,
}

impl DialogStack {
    /// Opens an overlay in place of the one that is open.
    pub(crate) fn open(&mut self, overlay: Overlay) {
        self.incoming.record_opened(self.incoming.by_key);
        self.overlay = Some(overlay);
    }

    /// Opens an overlay that no key requested.
    pub(crate) fn open_automatically(&mut self, overlay: Overlay) {
        self.incoming.record_opened(false);
        self.overlay = Some(overlay);
    }

    /// Closes the overlay.
    pub(crate) fn close(&mut self) {
        self.overlay = None;
    }

    /// Removes and returns the overlay.
    pub(crate) fn take(&mut self) -> Option<Overlay> {
        self.overlay.take()
    }

    /// Whether an overlay is open.
    pub(crate) fn is_open(&self) -> bool {
        self.overlay.is_some()
    }

    /// Whether the overlay covers the window, so that the conversation is in view again when it is
    /// closed.
    pub(crate) fn covers(&self) -> bool {
        self.purpose().is_some_and(DialogPurpose::is_browsable)
    }

    /// Whether an overlay or an approval request is open.
    pub(crate) fn has_open_dialog(&self) -> bool {
        self.is_open() || self.has_approvals()
    }

    /// Returns what the overlay is for.
    pub(crate) fn purpose(&self) -> Option<&DialogPurpose> {
        self.overlay.as_ref().map(|overlay| &overlay.purpose)
    }

    /// Returns the overlay.
    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    /// Returns the overlay, to change it.
    pub(crate) fn overlay_mut(&mut self) -> Option<&mut Overlay> {
        self.overlay.as_mut()
    }

    /// Returns the list of the overlay, if it has one for this purpose.
    pub(crate) fn list_for(&mut self, purpose: &DialogPurpose) -> Option<&mut ListDialog> {
        let overlay = self.overlay.as_mut().filter(|overlay| overlay.purpose == *purpose)?;
        overlay.list_mut()
    }

    /// Returns the list of the overlay.
    pub(crate) fn list_mut(&mut self) -> Option<&mut ListDialog> {
        self.overlay.as_mut().and_then(Overlay::list_mut)
    }

    /// Returns the field of the overlay.
    pub(crate) fn field_mut(&mut self) -> Option<&mut FieldDialog> {
        match &mut self.overlay.as_mut()?.body {
            OverlayBody::Field(field) => Some(field),
            _ => None,
        }
    }

    /// Adds an approval request, possibly while the user is typing.
    pub(crate) fn push_approval(&mut self, approval: QuestionDialog, context: &DialogContext) {
        self.note_request(context);
        self.approvals.push_back(approval);
    }

    /// Whether an approval request is open.
    pub(crate) fn has_approvals(&self) -> bool {
        !self.approvals.is_empty()
    }

    /// Returns the approval request that is shown first.
    pub(crate) fn approval(&self) -> Option<&QuestionDialog> {
        self.approvals.front().filter(|_| self.held_by.is_none())
    }

    fn approval_mut(&mut self) -> Option<&mut QuestionDialog> {
        self.approvals.front_mut().filter(|_| self.held_by.is_none())
    }

    /// Returns the approval request with this id.
    pub(crate) fn approval_of(&mut self, ask: &ApprovalId) -> Option<&mut QuestionDialog> {
        self.approvals.iter_mut().find(|approval| approval.request.id == *ask)
    }

    /// Takes the first approval request away.
    pub(crate) fn take_approval(&mut self) -> Option<Box<ApprovalRequest>> {
        self.approvals.pop_front().map(|approval| approval.request)
    }

    /// Shows the next approval request only when the engine has closed this one.
    pub(crate) fn hold_until_closed(&mut self, ask: ApprovalId) {
        self.held_by = Some(ask);
    }

    /// Removes an approval request that is answered or was withdrawn.
    pub(crate) fn remove_approval(&mut self, ask: &ApprovalId) {
        if self.held_by.as_ref() == Some(ask) {
            self.held_by = None;
        }
        self.approvals.retain(|approval| approval.request.id != *ask);
    }

    /// Removes all approval requests.
    pub(crate) fn clear_approvals(&mut self) {
        self.approvals.clear();
        self.held_by = None;
    }

    /// Passes a key to the first approval request.
    pub(crate) fn approval_key(&mut self, key: DialogKey, raw: Key) -> Option<QuestionAnswer> {
        self.approval_mut().map(|approval| approval.key(key, raw))
    }

    /// Whether letters are typed as text into the first approval request.
    pub(crate) fn is_typing_into_approval(&self) -> bool {
        self.approval().is_some_and(QuestionDialog::is_typing)
    }

    /// Pastes text into the first approval request. Returns whether it takes text now.
    pub(crate) fn paste_into_approval(&mut self, text: &str) -> bool {
        match self.approval_mut().filter(|approval| approval.is_typing()) {
            Some(approval) => {
                approval.paste(text);
                true
            }
            None => false,
        }
    }

    /// Whether `y` is a choice of the open approval dialog.
    pub(crate) fn has_yes_choice(&self) -> bool {
        self.overlay.is_none() && self.approval().is_some_and(QuestionDialog::has_allow_once)
    }

    /// Whether `y` was pressed just before.
    pub(crate) fn take_pressed_yes(&mut self) -> bool {
        std::mem::take(&mut self.pressed_yes)
    }

    /// Moves the cursor of the approval dialog to the yes choice, if it has one.
    pub(crate) fn select_yes(&mut self) -> bool {
        let stands = self.approval_mut().is_some_and(QuestionDialog::select_yes);
        self.pressed_yes |= stands;
        stands
    }

    /// Adds a request of an MCP server. It waits until no other dialog is open and the user is not
    /// typing.
    pub(crate) fn push_server_request(
        &mut self,
        request: ServerRequest,
        context: &DialogContext,
        theme: &Theme,
    ) -> bool {
        self.note_request(context);
        self.servers.push(request);
        self.next_server_request(context.now_ms, theme)
    }

    /// Opens the first waiting request from a server if no other dialog is open. Returns whether it
    /// did.
    pub(crate) fn next_server_request(&mut self, now_ms: u64, theme: &Theme) -> bool {
        if self.overlay.is_some() || self.is_writing(now_ms) {
            return false;
        }
        let Some(overlay) = self.servers.first_dialog(theme) else { return false };
        self.open_automatically(overlay);
        true
    }

    /// Removes requests from servers whose calls have ended. Returns whether the open one was among
    /// them.
    pub(crate) fn remove_ended_server_requests(&mut self) -> bool {
        let is_shown = matches!(
            self.purpose(),
            Some(DialogPurpose::ServerQuestion | DialogPurpose::ServerField)
        );
        let is_closed = self.servers.remove_ended() && is_shown;
        if is_closed {
            self.overlay = None;
        }
        is_closed
    }

    /// Answers the open request from a server, or a field of it.
    pub(crate) fn answer_server(&mut self, answer: ServerAnswer<'_>, theme: &Theme) -> ServerStep {
        if !matches!(answer, ServerAnswer::Field(_)) {
            self.overlay = None;
        }
        match self.servers.answer(answer, theme) {
            Ok(Some(overlay)) => ServerStep::Show(overlay),
            Ok(None) => {
                self.overlay = None;
                ServerStep::Next
            }
            Err(reason) => ServerStep::Invalid(reason),
        }
    }

    /// Returns the rows of the dialog that takes keys.
    pub(crate) fn view(
        &self,
        width: usize,
        height: usize,
        theme: &Theme,
        now_ms: u64,
    ) -> Option<DialogView> {
        match &self.overlay {
            Some(overlay) => Some(overlay.view(width, height, theme)),
            None => self.approval_view(width, height, theme, now_ms),
        }
    }

    /// Returns the rows of the dialog that takes keys for a screen reader.
    pub(crate) fn screen_reader_view(
        &self,
        width: usize,
        height: usize,
        theme: &Theme,
        now_ms: u64,
    ) -> Option<DialogView> {
        match &self.overlay {
            Some(overlay) => Some(overlay.screen_reader_view(width, height, theme)),
            None => self.approval_view(width, height, theme, now_ms),
        }
    }

    /// Returns the approval request that takes keys and its page.
    pub(crate) fn question_id(&self) -> Option<QuestionId> {
        let approval = self.approval().filter(|_| self.overlay.is_none())?;
        Some(QuestionId { request: approval.request.id.clone(), page: approval.page() })
    }

    fn approval_view(
        &self,
        width: usize,
        height: usize,
        theme: &Theme,
        now_ms: u64,
    ) -> Option<DialogView> {
        let waiting = self.approvals.len();
        let approval = self.approval().filter(|_| !self.is_writing(now_ms))?;
        Some(approval.view(width, height, waiting, theme))
    }
}

/// Identifies a question to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionId {
    pub(crate) request: ApprovalId,
    /// The page, if the request has several.
    pub(crate) page: usize,
}

/// What follows an answer to a request from a server.
pub(crate) enum ServerStep {
    /// Show the next field.
    Show(Overlay),
    /// The request is answered; another may follow.
    Next,
    /// The value is invalid, and why.
    Invalid(String),
}
