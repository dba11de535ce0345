//! How a server is reached, and where it is configured.

use std::path::{Path, PathBuf};

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that communicates over stdin and stdout.
    Stdio {
        /// The program.
        command: String,
        /// The arguments.
        args: Vec<String>,
        /// Variables in addition to those that child processes inherit.
        env: Vec<(String, String)>,
        /// The working directory; defaults to the session's working directory.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// Headers sent with each request.
        headers: Vec<(String, String)>,
    },
    /// HTTP with server-sent events, the older transport.
    Sse {
        /// The URL of the event stream.
        url: String,
        /// Headers sent with each request.
        headers: Vec<(String, String)>,
    },
    /// Streamable HTTP, with a fallback to SSE if the server rejects it.
    HttpThenSse {
        /// The URL.
        url: String,
        /// Headers sent with each request.
        headers: Vec<(String, String)>,
    },
}

impl Endpoint {
    /// Returns the transport shown in lists: `stdio`, `http`, or `sse`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } | Self::HttpThenSse { .. } => "http",
            Self::Sse { .. } => "sse",
        }
    }

    /// Returns the command line or the URL without possible secrets.
    pub fn target(&self) -> String {
        match self {
            Self::Stdio { command, args, .. } => {
                let mut text = command.clone();
                for argument in args {
                    text.push(' ');
                    text.push_str(argument);
                }
                text
            }
            Self::Http { url, .. } | Self::Sse { url, .. } | Self::HttpThenSse { url, .. } => {
                url.clone()
            }
        }
    }

    /// Returns the URL; `None` for a program.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Stdio { .. } => None,
            Self::Http { url, .. } | Self::Sse { url, .. } | Self::HttpThenSse { url, .. } => {
                Some(url)
            }
        }
    }
}

impl Endpoint {
    /// Returns the names of the variables of a program, or of the headers of a URL. Their values may
    /// be secrets.
    pub fn names(&self) -> Vec<&str> {
        let (Self::Stdio { env: pairs, .. }
        | Self::Http { headers: pairs, .. }
        | Self::Sse { headers: pairs, .. }
        | Self::HttpThenSse { headers: pairs, .. }) = self;
        pairs.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the directory in which a program starts, if it is set.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Stdio { cwd, .. } => cwd.as_deref(),
            Self::Http { .. } | Self::Sse { .. } | Self::HttpThenSse { .. } => None,
        }
    }
}

/// Prints names only, because values of variables and headers may be secrets.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names();
        f.debug_struct("Endpoint")
            .field("kind", &self.kind())
            .field("target", &self.target())
            .field("names", &names)
            .finish()
    }
}

/// Where a server is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpSource {
    /// `mcp-config.json` in `~/.parallax`.
    ConfigFile,
    /// An extension, by name.
    Extension(String),
    /// The system settings.
    System,
    /// The user settings.
    User,
    /// The project settings.
    Workspace,
    /// The setting `mcp.serverCommand`.
    ServerCommand,
}

impl McpSource {
    /// Whether it was configured by someone other than the user or the administrator.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Extension(_) | Self::Workspace)
    }
}
