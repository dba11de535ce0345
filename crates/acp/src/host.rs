//! What the embedding program provides.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::editor_files::SessionEditor;
use parallax_protocol::event::Failure;
use parallax_protocol::op::Op;
use parallax_protocol::typed_input::ExpandInput;
use parallax_protocol::{BoxFuture, CancellationToken, Object};
use parallax_sdk::mcp_view::UserRequestHandler;
use parallax_sdk::{EventReader, OpenSession, SessionConfig};
use parallax_sessions::SessionChoice;

use crate::authentication::Authentication;

/// A request to open a session.
pub struct OpenRequest {
    /// Absolute path of the working directory.
    pub directory: PathBuf,
    /// Additional workspace directories.
    pub additional: Vec<PathBuf>,
    /// Which session to open.
    pub session: SessionChoice,
    /// MCP servers of the client, as entries of the setting `mcpServers`.
    pub mcp_servers: Object,
    /// Whether the client can show the model's questions to its user.
    pub can_ask_user: bool,
    /// The client's files.
    pub editor: SessionEditor,
    /// Asks the client's user on behalf of MCP servers.
    pub prompter: Option<Arc<dyn UserRequestHandler>>,
    /// How the client authenticated.
    pub authentication: Authentication,
}

impl OpenRequest {
    /// Returns a request that only reads the settings of a directory.
    pub(crate) fn for_settings(directory: PathBuf, authentication: Authentication) -> Self {
        Self {
            directory,
            additional: Vec::new(),
            session: SessionChoice::New,
            mcp_servers: Object::new(),
            can_ask_user: false,
            editor: SessionEditor::default(),
            prompter: None,
            authentication,
        }
    }
}

/// The reply of a slash command; `None` if the text is a prompt.
pub type SlashReply<'a> = BoxFuture<'a, Result<Option<String>, Failure>>;

/// The result of a command that changes what sessions use.
pub enum CommandReply {
    /// Text for the user.
    Text(String),
    /// The session has to be reopened to use the changes. The output of the command line
    /// `then`, if any, follows the text.
    Reopen {
        /// Text for the user.
        text: String,
        /// A command line.
        then: Option<&'static str>,
    },
    /// An operation that runs a turn or ends with [`EventBody::Restored`].
    ///
    /// [`EventBody::Restored`]: parallax_protocol::event::EventBody::Restored
    Turn(Op),
}

/// A command that changes what sessions use. It blocks. The first parameter asks the user to agree
/// to the shown text, and returns whether they do; the second is cancelled when the command has to
/// end.
pub type ManagementCommand = Box<
    dyn FnOnce(&mut dyn FnMut(&str) -> bool, CancellationToken) -> Result<CommandReply, Failure>
        + Send,
>;

/// What the embedding program provides.
pub trait Host: Send + Sync + 'static {
    /// Returns the version of the program.
    fn version(&self) -> &str;

    /// Reads the settings for a session. Blocking.
    ///
    /// # Errors
    /// Returns an error if settings are invalid.
    fn prepare(&self, request: OpenRequest) -> Result<SessionConfig, Failure>;

    /// Returns a function that converts typed text to a prompt: it reads referenced files and
    /// expands custom commands.
    fn expand(&self, session: &OpenSession) -> ExpandInput;

    /// Runs a built-in slash command.
    fn slash<'a>(
        &'a self,
        session: &'a OpenSession,
        events: &'a mut EventReader,
        text: &'a str,
    ) -> SlashReply<'a>;

    /// Returns the command of a line if it changes what sessions use: their context files,
    /// extensions, servers, or history.
    fn management(&self, session: &OpenSession, text: &str) -> Option<ManagementCommand>;

    /// Returns the names of the providers that need a key, besides the Gemini API. Blocking.
    fn providers(&self) -> Vec<String>;

    /// Returns the built-in slash commands: names, descriptions, and argument hints.
    fn commands(&self) -> Vec<(&'static str, &'static str, &'static str)>;
}
