//! What the app wants done and cannot do itself: it holds no terminal, no
//! session and no task. The face carries these out.

use std::path::PathBuf;

use parallax_protocol::CancellationToken;
use parallax_protocol::ids::{AskId, SteerId};
use parallax_protocol::op::Op;
use parallax_screen::Drawing;
use parallax_sdk::credential::KeyKind;
use parallax_sdk::trust::TrustAnswer;
use parallax_sdk::{LaunchOptions, SessionChoice};

use crate::app::App;
use crate::face::Deliver;

/// Blocking work: runs on its own thread, then the app continues with the result.
pub(crate) type Job = Box<dyn FnOnce() -> Then + Send>;
/// What is done with the app when a job is through.
pub(crate) type Then = Box<dyn FnOnce(&mut App) + Send>;
/// What is done with the app and a text that came from outside (an editor).
pub(crate) type WithText = Box<dyn FnOnce(&mut App, Result<String, String>) + Send>;
/// What is done with the app and the text that the connected editor has.
pub(crate) type WithEditorText = Box<dyn FnOnce(&mut App, Option<String>) + Send>;
/// What is done with the app and with what pictures are drawn with.
pub(crate) type WithDrawing = Box<dyn FnOnce(&mut App, Option<Drawing>) + Send>;

/// What the app wants done.
pub(crate) enum Effect {
    /// Hand an order to the engine.
    Send(Op),
    /// Send a prompt with its `@path` expanded; `steer`: into the running turn, under this
    /// id; `ask`: whether files outside require approval.
    Prompt { text: String, steer: Option<SteerId>, ask: bool },
    /// Let these be read for the rest of the session.
    AllowReading(Vec<PathBuf>),
    /// Run the commands of a custom command, and send the result.
    Expand(Box<parallax_sdk::custom_commands::Prepared>, CancellationToken),
    /// Ask the open session something that it knows at once.
    AskSession(Box<dyn FnOnce(&parallax_sdk::OpenSession) -> Then + Send>),
    /// Ask the terminal's screen what it draws pictures with.
    AskPictures(WithDrawing),
    /// Do blocking work.
    Run(Job),
    /// Do blocking work that has something to tell while it goes on.
    Tell(Box<dyn FnOnce(Deliver) + Send>),
    /// Answer the trust question and continue the startup.
    Trust(TrustAnswer),
    /// Close the session if one is open, and open another.
    Open(SessionChoice),
    /// Change what later sessions begin with, then open one.
    Reopen(Box<dyn FnOnce(&mut LaunchOptions) + Send>, SessionChoice),
    /// Ask the service about a key, keep it if it is good, and go on.
    CheckKey(KeyKind, parallax_protocol::secret::Secret),
    /// Checks and stores the key of a provider.
    AddProviderKey(String, parallax_protocol::secret::Secret),
    /// Connect to the editor, or end the connection.
    ConnectEditor(bool),
    /// Show a change to a file in the connected editor.
    OpenDiff { ask: AskId, path: PathBuf, text: String },
    /// Close a change that the connected editor shows, if it does.
    CloseDiff(AskId),
    /// The same; continue with the text that the editor has.
    TakeDiff(AskId, WithEditorText),
    /// Open a text in the user's editor, in a file of this name.
    Edit { text: String, name: String, then: WithText },
    /// Into the clipboard.
    Copy(String),
    /// Into the clipboard, by the terminal (OSC 52): no program took it.
    CopyByTerminal(String),
    /// A picture of the clipboard into the composer, or else its text.
    PasteClipboard,
    /// The clipboard's text from the terminal (OSC 52); it comes as input.
    AskClipboard,
    /// The window's title.
    Title(String),
    /// Progress in the window's frame: working, or not.
    Progress(bool),
    /// Notify a user who is not looking at the terminal.
    Notify(String),
    /// Stop as a job of the shell.
    Suspend,
    /// Go on after the shell stopped us.
    Resume,
    /// Redraw everything.
    Redraw,
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Leave. `delete`: and forget the session.
    Quit { delete: bool },
}
