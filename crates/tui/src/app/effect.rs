//! Effects: operations that the app requests and the front end carries out, because the app has no
//! terminal, session, or tasks.

use std::path::PathBuf;

use parallax_protocol::CancellationToken;
use parallax_protocol::ids::{ApprovalId, SteerId};
use parallax_protocol::op::Op;
use parallax_screen::GraphicsCapabilities;
use parallax_sdk::LaunchOptions;
use parallax_sdk::credential::KeyKind;
use parallax_sdk::ide::ClosedDiff;
use parallax_sdk::trust::TrustAnswer;
use parallax_sessions::SessionChoice;
use tokio::sync::mpsc;

use crate::app::App;

/// Blocking work that runs on its own thread; the app continues with the result.
pub(crate) type Job = Box<dyn FnOnce() -> JobContinuation + Send>;
/// Continuation that updates the app with the result of a job.
pub(crate) type JobContinuation = Box<dyn FnOnce(&mut App) + Send>;
/// Continuation that gets text edited in an external program, or an error.
pub(crate) type TextContinuation = Box<dyn FnOnce(&mut App, Result<String, String>) + Send>;
/// Continuation that gets the text from the connected editor.
pub(crate) type EditorTextContinuation = Box<dyn FnOnce(&mut App, ClosedDiff) + Send>;
/// Continuation that gets the drawing capabilities for images.
pub(crate) type DrawingContinuation =
    Box<dyn FnOnce(&mut App, Option<GraphicsCapabilities>) + Send>;

/// An operation requested by the app.
pub(crate) enum Effect {
    /// Send an operation to the engine.
    Send(Op),
    /// Inform observers of the session that this slash command runs.
    RecordCommand(String),
    /// Send a prompt with `@path` references expanded. `steer` is the id of a steering message for
    /// the running turn; `ask` is whether files outside the workspace require approval.
    Prompt { text: String, steer: Option<SteerId>, ask: bool },
    /// Allow reading these paths for the rest of the session.
    AllowReading(Vec<PathBuf>),
    /// Run the shell commands of a custom command and send the result.
    Expand(Box<parallax_commands::PreparedCommand>, CancellationToken),
    /// Query the open session; the query must return at once.
    RunWithSession(Box<dyn FnOnce(&parallax_sdk::OpenSession) -> JobContinuation + Send>),
    /// Send a slash command that shows something to the session of another process.
    AskOtherProcess(String),
    /// Query the drawing capabilities of the screen for images.
    AskPictures(DrawingContinuation),
    /// Run blocking work.
    Run(Job),
    /// Run blocking work that reports progress.
    ReportProgress(Box<dyn FnOnce(ResultSender) + Send>),
    /// Answer the trust dialog and continue the startup.
    Trust(TrustAnswer),
    /// Close the open session, if any, and open another.
    Open(SessionChoice),
    /// Change the launch options and open a session.
    Reopen(Box<dyn FnOnce(&mut LaunchOptions) + Send>, SessionChoice),
    /// Verify an API key, save it if it is valid, and continue.
    CheckKey(KeyKind, parallax_protocol::secret::Secret),
    /// Cancel the check of a key, which is then not saved.
    CancelKeyCheck,
    /// Verify and store the API key of a provider.
    AddProviderKey(String, parallax_protocol::secret::Secret),
    /// Connect to the editor, or disconnect.
    ConnectEditor(bool),
    /// Open a diff in the connected editor.
    OpenDiff { ask: ApprovalId, path: PathBuf, text: String },
    /// Close a diff in the connected editor if it is open.
    CloseDiff(ApprovalId),
    /// Close a diff and continue with the editor's text.
    TakeDiff(ApprovalId, EditorTextContinuation),
    /// Open DevTools for the session; `browser`: in a browser, if there is one.
    OpenDevTools { browser: bool },
    /// Open text in the user's editor, in a file with this name.
    Edit { text: String, name: String, then: TextContinuation },
    /// Copy text to the clipboard.
    Copy(String),
    /// Copy text to the clipboard with OSC 52, because no program took it.
    CopyByTerminal(String),
    /// Insert the image in the clipboard into the composer, or else its text.
    PasteClipboard,
    /// Request the clipboard text from the terminal (OSC 52); it arrives as input.
    AskClipboard,
    /// Set the window title.
    Title(String),
    /// Show or hide the terminal's progress indicator.
    Progress(bool),
    /// Notify a user who is not looking at the terminal.
    Notify { title: String, text: String },
    /// Suspend the process (job control).
    Suspend,
    /// Resume after a suspension.
    Resume,
    /// Redraw everything.
    Redraw,
    /// Enable or disable mouse capture.
    Mouse(bool),
    /// Quit; `delete` also deletes the session.
    Quit { delete: bool },
}

/// Delivers results of threads to the app.
#[derive(Clone)]
pub(crate) struct ResultSender(pub(crate) mpsc::Sender<JobContinuation>);

impl ResultSender {
    /// Sends `then`, waiting while the channel is full. Does nothing if the front end is gone.
    pub(crate) fn send(&self, then: JobContinuation) {
        let _ = self.0.blocking_send(then);
    }

    /// Sends `then` without waiting. Drops it if the channel is full.
    pub(crate) fn send_soon(&self, then: JobContinuation) {
        let _ = self.0.try_send(then);
    }
}
