//! Reads one MCP server from its JSON object.

use std::path::PathBuf;
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::code_text::{check_command, check_name, code_text};
use serde_json::Value;

use super::confinement::{SandboxGrants, sandbox};
use super::credentials::{self, AuthProvider, OAuthSettings, is_local_url};
use super::endpoint::{Endpoint, McpSource};
use super::values::{flag, number, pairs, strings, text};

/// The source name of servers that the client driving the session passes in.
pub const EMBEDDER: &str = "editor";

/// Request timeout of a server that does not set `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(600_000);

/// Variables that make a program load or run other code. A project or an extension may not set them
/// for a server.
const REFUSED: &[&str] = &[
    "NODE_OPTIONS",
    "NODE_CLI_FLAGS",
    "_FORCE_NODE_OPTIONS",
    "NODE_PATH",
    "ELECTRON_RUN_AS_NODE",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "RUBYLIB",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_PROFILE",
    "LD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "DOTNET_STARTUP_HOOKS",
];
const REFUSED_PREFIXES: [&str; 2] = ["DYLD_", "CORECLR_"];

/// Whether a variable makes a program load or run other code.
pub fn is_rejected_variable(name: &str) -> bool {
    let name = name.to_uppercase();
    REFUSED.contains(&name.as_str())
        || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Why a server does not start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartBlock {
    /// It may start.
    #[default]
    Open,
    /// Not in `mcp.allowed`, or in `mcp.excluded`.
    Blocked,
    /// Disabled by the user.
    Disabled,
    /// The working directory is not trusted.
    Untrusted,
}

/// A configured MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The name.
    pub name: String,
    /// How to reach it.
    pub endpoint: Endpoint,
    /// How long a request may take without progress.
    pub timeout: Duration,
    /// Whether `timeout` was set.
    pub timeout_set: bool,
    /// Whether its tools run without approval. Applies only in a trusted folder.
    pub trust: bool,
    /// Whether it runs in the command sandbox, if its entry says so; see [`Self::is_confined`].
    pub sandbox: Option<bool>,
    /// What it may do in the sandbox beyond what commands may do.
    pub grants: SandboxGrants,
    /// The description, written by the user.
    pub description: Option<String>,
    /// The only tools to use.
    pub include: Option<Vec<String>>,
    /// Tools that are never used, even if `include` lists them.
    pub exclude: Vec<String>,
    /// OAuth settings.
    pub oauth: OAuthSettings,
    /// Where its credentials come from.
    pub provider: AuthProvider,
    /// Where it is configured.
    pub source: McpSource,
    /// Whether it may start.
    pub start_block: StartBlock,
    /// Warnings for the user about this server, one sentence each.
    pub notes: Vec<String>,
}

/// A server whose configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{name}` cannot be used: {reason}")]
pub struct ServerError {
    /// The server.
    pub name: String,
    /// What is wrong and how to fix it.
    pub reason: String,
}

impl McpServer {
    /// Reads the object of a server.
    ///
    /// # Errors
    /// Returns an error if the value is not an object or does not say how to reach the server.
    pub fn read(name: &str, value: &Value, source: McpSource) -> Result<Self, ServerError> {
        let failed =
            |reason: &str| ServerError { name: name.to_owned(), reason: reason.to_owned() };
        if name.trim().is_empty() {
            return Err(failed("its name is empty"));
        }
        check_name(name).map_err(|reason| failed(&format!("its name {reason}")))?;
        let fields = value.as_object().ok_or_else(|| failed("it must be an object"))?;
        let mut notes = Vec::new();
        let endpoint = endpoint(fields, &source, &mut notes).map_err(|reason| failed(&reason))?;
        let milliseconds = match fields.get("timeout") {
            None | Some(Value::Null) => None,
            Some(set) => Some(
                number(set)
                    .filter(|set| *set > 0)
                    .ok_or_else(|| failed("`timeout` must be a number of milliseconds"))?,
            ),
        };
        let (sandbox, grants) =
            sandbox(fields, &source, &mut notes).map_err(|reason| failed(&reason))?;
        let oauth = credentials::oauth(fields);
        let provider = credentials::provider(fields, &endpoint, &oauth, &source)
            .map_err(|reason| failed(&reason))?;
        if oauth.token_param_name.is_some() && !matches!(endpoint, Endpoint::Sse { .. }) {
            notes.push(
                "`oauth.tokenParamName` has no effect: it applies only to servers of `type` `sse`; \
                 other servers get tokens in a header"
                    .to_owned(),
            );
        }
        Ok(Self {
            name: name.to_owned(),
            endpoint,
            timeout: milliseconds.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
            timeout_set: milliseconds.is_some(),
            trust: flag(fields, "trust"),
            sandbox,
            grants,
            description: text(fields, "description"),
            include: fields.get("includeTools").filter(|it| it.is_array()).map(strings),
            exclude: fields.get("excludeTools").map(strings).unwrap_or_default(),
            oauth,
            provider,
            source,
            start_block: StartBlock::Open,
            notes,
        })
    }

    /// Whether it runs in the command sandbox; `default` is the setting `mcp.sandbox`. A project or
    /// an extension cannot disable the sandbox.
    pub fn is_confined(&self, default: bool) -> bool {
        let is_sandboxed =
            self.sandbox.filter(|is_sandboxed| *is_sandboxed || !self.source.is_foreign());
        matches!(self.endpoint, Endpoint::Stdio { .. }) && is_sandboxed.unwrap_or(default)
    }

    /// Whether it lives only as long as the client that drives the session. Its port and token
    /// change with every run, so its capabilities are not cached.
    pub fn is_for_this_run(&self) -> bool {
        let McpSource::Extension(source) = &self.source else { return false };
        let url = self.endpoint.url().and_then(|url| url::Url::parse(url).ok());
        source == EMBEDDER && url.is_some_and(|url| is_local_url(&url))
    }

    /// Whether to use the tool with this name (the server's own name for it).
    pub fn includes_tool(&self, tool: &str) -> bool {
        if self.exclude.iter().any(|entry| entry == tool) {
            return false;
        }
        self.include.as_ref().is_none_or(|include| {
            include.iter().any(|entry| {
                entry == tool || entry.strip_prefix(tool).is_some_and(|rest| rest.starts_with('('))
            })
        })
    }
}

fn endpoint(
    fields: &Object,
    source: &McpSource,
    notes: &mut Vec<String>,
) -> Result<Endpoint, String> {
    let headers = || pairs(fields.get("headers"), "headers");
    if let Some(url) = text(fields, "httpUrl") {
        return Ok(Endpoint::Http { url: checked(url)?, headers: headers()? });
    }
    if let Some(url) = text(fields, "url") {
        let (url, headers) = (checked(url)?, headers()?);
        return match text(fields, "type").as_deref() {
            Some("http" | "streamable-http" | "streamableHttp") => {
                Ok(Endpoint::Http { url, headers })
            }
            Some("sse") => Ok(Endpoint::Sse { url, headers }),
            None => Ok(Endpoint::HttpThenSse { url, headers }),
            Some(other) => Err(format!("`type` must be `http` or `sse`, not `{other}`")),
        };
    }
    let Some(command) = text(fields, "command") else {
        return Err("`command`, `url`, or `httpUrl` is required".to_owned());
    };
    let args = match fields.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(list @ Value::Array(_)) => strings(list),
        Some(_) => return Err("`args` must be a list of strings".to_owned()),
    };
    for word in std::iter::once(&command).chain(&args) {
        check_command(word)
            .map_err(|reason| format!("its command `{}` {reason}", code_text(word)))?;
    }
    let mut env = pairs(fields.get("env"), "env")?;
    env.retain(|(name, _)| {
        if !is_rejected_variable(name) {
            return true;
        }
        notes.push(match source.is_foreign() {
            true => format!(
                "the variable `{name}` is not passed to it, because it can change what a program \
                 runs; to pass it, define the server in your user settings"
            ),
            false => {
                format!("it receives the variable `{name}`, which can change what a program runs")
            }
        });
        !source.is_foreign()
    });
    Ok(Endpoint::Stdio { command, args, env, cwd: text(fields, "cwd").map(PathBuf::from) })
}

fn checked(url: String) -> Result<String, String> {
    check_name(&url).map_err(|reason| format!("its URL `{}` {reason}", code_text(&url)))?;
    let lower = url.to_ascii_lowercase();
    match lower.starts_with("http://") || lower.starts_with("https://") {
        true => Ok(url),
        false => Err(format!("`{url}` is not an http or https URL")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<McpServer, ServerError> {
        McpServer::read("s", &value, McpSource::User)
    }

    #[test]
    fn server_transport_is_derived_from_its_keys() {
        for (value, kind) in [
            (json!({"command": "c", "args": ["a", 1]}), "stdio"),
            (json!({"url": "https://x.example/"}), "http"),
            (json!({"url": "https://x.example/", "type": "sse"}), "sse"),
            (json!({"url": "http://x.example/", "type": "http"}), "http"),
            (
                json!({"httpUrl": "http://x.example/", "url": "http://y.example/", "type": "sse"}),
                "http",
            ),
        ] {
            assert_eq!(read(value).expect("a server").endpoint.kind(), kind);
        }
        for value in [
            json!({}),
            json!(1),
            json!({"url": "ftp://x.example"}),
            json!({"url": "https://x.example", "type": "tcp"}),
            json!({"command": "c", "env": ["A"]}),
            json!({"command": "c", "env": {"A=B": "x"}}),
            json!({"command": "c", "timeout": -1}),
        ] {
            assert!(read(value.clone()).is_err(), "{value}");
        }
    }

    #[test]
    fn dangerous_variables_are_accepted_only_from_the_user() {
        let value = json!({"command": "c", "env": {"NODE_OPTIONS": "--require=x", "A": "b", "Dyld_X": "1"}});
        let names = |source: McpSource| {
            let server = McpServer::read("s", &value, source).expect("a server");
            let Endpoint::Stdio { env, .. } = server.endpoint else { unreachable!() };
            (env.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), server.notes.len())
        };
        assert_eq!(names(McpSource::Workspace), (vec!["A".to_owned()], 2));
        let all = ["NODE_OPTIONS", "A", "Dyld_X"].map(str::to_owned).to_vec();
        assert_eq!(names(McpSource::User), (all, 2));
    }

    #[test]
    fn only_local_embedder_addresses_belong_to_this_run() {
        let is_of_this_run = |source: &str, value: Value| {
            let source = McpSource::Extension(source.to_owned());
            McpServer::read("s", &value, source).expect("a server").is_for_this_run()
        };
        let local = json!({"url": "http://127.0.0.1:4000/mcp"});
        assert!(is_of_this_run(EMBEDDER, local.clone()));
        assert!(!is_of_this_run("other", local));
        assert!(!is_of_this_run(EMBEDDER, json!({"url": "https://mcp.example/"})));
        assert!(!is_of_this_run(EMBEDDER, json!({"command": "c"})));
    }

    #[test]
    fn tools_are_included_and_excluded_by_their_exact_names() {
        let server =
            read(json!({"command": "c", "includeTools": ["a", "b(x)"], "excludeTools": ["c"]}));
        let server = server.expect("a server");
        for (tool, counts) in [("a", true), ("b", true), ("c", false), ("d", false), ("", false)] {
            assert_eq!(server.includes_tool(tool), counts, "{tool}");
        }
        let server = read(json!({"command": "c", "includeTools": ["c"], "excludeTools": ["c"]}));
        assert!(!server.expect("a server").includes_tool("c"));
    }
}
