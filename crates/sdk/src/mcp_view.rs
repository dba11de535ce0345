//! The MCP servers of an open session as a face shows and steers them.

use std::sync::Arc;

use parallax_config::mcp::{EnablementFiles, McpSource, same_name};
use parallax_mcp::{Servers, SignIn, Status, sign_in};
use parallax_protocol::BoxFuture;
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

pub use parallax_exec::program::open_address;
pub use parallax_mcp::{Answer, Asker, Question, WantedSignIn};

use crate::launch::{Launch, failure};
use crate::open::OpenSession;

/// The servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct McpView {
    servers: Servers,
    launch: Launch,
}

/// How a server stands, in three words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpState {
    /// Its tools can be called.
    Ready,
    /// It is on its way.
    Starting,
    /// It should be there and is not.
    Down,
    /// It may not run.
    Off,
}

/// Something that a server offers.
#[derive(Debug, Clone, PartialEq)]
pub struct McpItem {
    /// Its name or address.
    pub name: String,
    /// What it is.
    pub description: String,
    /// JSON Schema of its arguments; null where there is none.
    pub schema: Value,
}

/// A server as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct McpRow {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: McpState,
    /// The same in words.
    pub status: &'static str,
    /// The extension that brings it.
    pub extension: Option<String>,
    /// What it is for.
    pub description: String,
    /// `stdio`, `http` or `sse`.
    pub kind: &'static str,
    /// Its command line or address.
    pub target: String,
    /// Its own name and version.
    pub implementation: String,
    /// What went wrong last.
    pub error: Option<String>,
    /// How long its start took, in milliseconds.
    pub handshake: Option<u128>,
    /// The last line that it wrote on standard error.
    pub last_words: String,
    /// What people should know of it.
    pub notes: Vec<String>,
    /// What it offers.
    pub tools: Vec<McpItem>,
    /// Texts of it that are commands here.
    pub prompts: Vec<McpItem>,
    /// What can be named with `@server:uri`.
    pub resources: Vec<McpItem>,
}

impl OpenSession {
    /// The MCP servers for a face, when there are any.
    pub fn mcp_view(&self) -> Option<McpView> {
        let servers = self.mcp()?.clone();
        Some(McpView { servers, launch: self.launch.clone() })
    }
}

impl Launch {
    /// The same launch, with somebody whom MCP servers can ask.
    #[must_use]
    pub fn asked_by(mut self, asker: Arc<dyn Asker>) -> Self {
        self.asker = Some(asker);
        self
    }
}

impl McpView {
    /// All servers, and what they offer.
    pub fn rows(&self) -> Vec<McpRow> {
        self.servers.status().into_iter().map(row).collect()
    }

    /// Servers that were never seen and are still starting: a request now goes
    /// without their tools.
    pub fn starting(&self) -> Vec<String> {
        self.servers.starting()
    }

    /// Resources of all servers: `server:uri`, and what each is.
    pub fn resources(&self) -> Vec<(String, String)> {
        self.servers.resources()
    }

    /// Servers that want a sign-in, each once: whoever asks tells the person.
    pub fn sign_ins(&self) -> Vec<WantedSignIn> {
        self.servers.sign_ins()
    }

    /// Ends all connections and opens them again. Blocking; on a blocking thread
    /// of a runtime.
    ///
    /// # Errors
    /// Outside of a runtime.
    pub fn reload(&self) -> Result<(), Failure> {
        block(self.servers.reload())
    }

    /// Switches a server: for the session, or also for later ones. Blocking; on
    /// a blocking thread of a runtime.
    ///
    /// # Errors
    /// There is none of that name, it must stay out, or the file cannot be
    /// written.
    pub fn switch(&self, name: &str, on: bool, session: bool) -> Result<String, Failure> {
        let name = self.name_of(name)?;
        if !session {
            EnablementFiles::of(&self.launch.config.homes)
                .set(&name, on)
                .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        }
        let switched = block(self.servers.switch(&name, on))?;
        switched.map_err(|why| refused(format!("the MCP server `{name}`: {why}")))?;
        Ok(name)
    }

    /// Signs in to a server with the browser, then connects. `show` is given the
    /// address. Blocking; on a blocking thread of a runtime.
    ///
    /// # Errors
    /// There is none of that name, or the sign-in failed.
    pub fn sign_in(
        &self,
        name: &str,
        show: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<String, Failure> {
        let name = self.name_of(name)?;
        let told = |why: String| refused(format!("the MCP server `{name}`: {why}"));
        let found = self.launch.mcp_servers();
        let server = found.servers.into_iter().find(|server| server.name == name);
        let server = server.ok_or_else(|| told("its settings are gone".to_owned()))?;
        let (files, port) = (self.launch.token_files(), self.launch.oauth_port());
        let face = Browser { show: Arc::new(show), opens: !self.launch.without_browser() };
        let http = self.launch.client_options();
        block(async {
            sign_in(&server, &files, port, &http, &face).await?;
            self.servers.reconnect(&name).await
        })?
        .map_err(told)?;
        Ok(name)
    }

    /// Servers that want a sign-in, for a command that names none.
    pub fn unsigned(&self) -> Vec<String> {
        let status = self.servers.status().into_iter();
        status
            .filter(|server| server.status == Status::NeedsSignIn)
            .map(|server| server.config.name)
            .collect()
    }

    fn name_of(&self, name: &str) -> Result<String, Failure> {
        let names: Vec<String> =
            self.servers.status().into_iter().map(|server| server.config.name).collect();
        names
            .iter()
            .find(|known| *known == name)
            .or_else(|| names.iter().find(|known| same_name(name, known)))
            .cloned()
            .ok_or_else(|| refused(format!("there is no MCP server `{name}`")))
    }

    /// Waits until a server offers something else; `None` when the session is
    /// over. Keeps nothing of the session alive.
    pub fn news(&self) -> McpNews {
        McpNews { news: self.servers.news() }
    }
}

/// What servers offer and want now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOffer {
    /// Resources of all servers: `server:uri`, and what each is.
    pub resources: Vec<(String, String)>,
    /// Servers that want a sign-in, of which the person was not told yet.
    pub sign_ins: Vec<WantedSignIn>,
}

/// News of what servers offer.
pub struct McpNews {
    news: parallax_mcp::News,
}

impl McpNews {
    /// What they offer, when something is another than before; `None` when the
    /// servers are gone.
    pub async fn next(&mut self) -> Option<McpOffer> {
        let servers = self.news.next().await?;
        Some(McpOffer { resources: servers.resources(), sign_ins: servers.sign_ins() })
    }
}

fn row(status: parallax_mcp::ServerStatus) -> McpRow {
    let item =
        |name: String, description: String, schema: Value| McpItem { name, description, schema };
    let catalog = status.catalog;
    McpRow {
        state: match status.status {
            Status::Cached | Status::Connected => McpState::Ready,
            Status::Connecting => McpState::Starting,
            Status::Disconnected | Status::NeedsSignIn => McpState::Down,
            Status::Disabled | Status::Blocked | Status::Untrusted => McpState::Off,
        },
        status: status.status.as_str(),
        extension: match &status.config.source {
            McpSource::Extension(name) => Some(name.clone()),
            _ => None,
        },
        description: status.config.description.clone().unwrap_or_default(),
        kind: status.config.endpoint.kind(),
        target: status.config.endpoint.target(),
        implementation: status.implementation.unwrap_or_default(),
        error: status.error,
        handshake: status.handshake.map(|time| time.as_millis()),
        last_words: status.tail.lines().next_back().unwrap_or_default().to_owned(),
        notes: status.notes,
        name: status.config.name,
        tools: catalog
            .tools
            .into_iter()
            .map(|tool| item(tool.name, tool.description, tool.schema))
            .collect(),
        prompts: catalog
            .prompts
            .into_iter()
            .map(|prompt| item(prompt.command(), prompt.description, Value::Null))
            .collect(),
        resources: catalog
            .resources
            .into_iter()
            .map(|it| item(it.uri, it.description.unwrap_or(it.name), Value::Null))
            .collect(),
    }
}

/// Shows the address to the person, and to their browser.
struct Browser {
    show: Arc<dyn Fn(&str) + Send + Sync>,
    opens: bool,
}

impl SignIn for Browser {
    fn show(&self, address: &str) {
        (self.show)(address);
        if self.opens {
            parallax_exec::program::open_address(address);
        }
    }

    fn pasted(&self) -> BoxFuture<'static, Option<String>> {
        Box::pin(std::future::pending())
    }
}

/// Waits on a thread that may.
fn block<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|error| failure(FailureKind::Internal, error.to_string()))?;
    Ok(runtime.block_on(work))
}

fn refused(message: String) -> Failure {
    failure(FailureKind::Input, message)
}
