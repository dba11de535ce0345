//! The tools `list_mcp_resources` and `read_mcp_resource`.

use std::fmt::Write as _;

use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use crate::resources::{ResourceError, read};
use crate::servers::Servers;
use parallax_protocol::untrusted::wrap;

/// Maximum entries of a list.
const MAX_COUNT: usize = 1_000;

pub(crate) struct ListResources {
    spec: ToolSpec,
    servers: Servers,
}

pub(crate) struct ReadResource {
    spec: ToolSpec,
    servers: Servers,
}

impl ListResources {
    pub(crate) fn new(servers: Servers) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "serverName": {"type": "string", "description": "Only the resources of this MCP server."}
            }
        });
        let spec = spec(
            "list_mcp_resources",
            "ListMcpResources",
            "Lists the resources that the MCP servers offer.",
            parameters,
        );
        Self { spec, servers }
    }
}

impl ReadResource {
    pub(crate) fn new(servers: Servers) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "uri": {"type": "string", "description": "The URI of the resource, or \
                    `server:uri`."}
            },
            "required": ["uri"]
        });
        let spec = spec(
            "read_mcp_resource",
            "ReadMcpResource",
            "Reads a resource of an MCP server.",
            parameters,
        );
        Self { spec, servers }
    }
}

fn spec(name: &str, display_name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        display_name: display_name.to_owned(),
        description: description.to_owned(),
        parameters,
        kind: ToolKind::Search,
        concurrency: Concurrency::Shared,
        aliases: Vec::new(),
    }
}

impl Tool for ListResources {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let server = match args.get("serverName") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(_) => return Err(invalid_params("`serverName` must be a string")),
        };
        let servers = self.servers.clone();
        Ok(Box::new(List { servers, server, effects: Effects::default() }))
    }
}

impl Tool for ReadResource {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let uri = args.get("uri").and_then(Value::as_str).filter(|uri| !uri.trim().is_empty());
        let uri = uri.ok_or_else(|| invalid_params("`uri` must be a string"))?.trim().to_owned();
        let servers = self.servers.clone();
        Ok(Box::new(ReadCall { servers, uri, effects: Effects::default() }))
    }
}

fn invalid_params(message: &str) -> ToolError {
    ToolError::new(ToolErrorKind::InvalidToolParams, message)
}

struct List {
    servers: Servers,
    server: Option<String>,
    effects: Effects,
}

impl Invocation for List {
    fn title(&self) -> String {
        match &self.server {
            Some(server) => format!("resources of {server}"),
            None => "resources of all MCP servers".to_owned(),
        }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let mut lines = String::new();
            let mut count = 0;
            let is_selected =
                |name: &str| self.server.as_deref().is_none_or(|is_selected| is_selected == name);
            for server in self.servers.open().filter(|server| is_selected(&server.config.name)) {
                let catalog = server.catalog();
                for entry in catalog.resources.iter().chain(&catalog.templates) {
                    count += 1;
                    if count <= MAX_COUNT {
                        let _ = write!(
                            lines,
                            "\n- {}:{} | {}",
                            server.config.name, entry.uri, entry.name
                        );
                        if let Some(description) = &entry.description {
                            let _ = write!(lines, " | {}", description.replace('\n', " "));
                        }
                    }
                }
            }
            if count == 0 {
                return ToolResult::text("No MCP resources found.");
            }
            if count > MAX_COUNT {
                let _ = write!(lines, "\n- … {} more", count - MAX_COUNT);
            }
            // Names and descriptions come from the servers.
            let text = format!("Available MCP Resources:{lines}");
            ToolResult::text(wrap(&text)).with_display(Display::text(format!("{count} resources")))
        })
    }
}

struct ReadCall {
    servers: Servers,
    uri: String,
    effects: Effects,
}

impl Invocation for ReadCall {
    fn title(&self) -> String {
        self.uri.clone()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let found = match self.servers.owner(&self.uri) {
                None => Err(ResourceError::Unknown),
                Some((server, uri)) => {
                    let read_result = read(&server, uri, run.cancel.clone()).await;
                    read_result.map_err(|error| ResourceError::Failed(server.failure(&error)))
                }
            };
            match found {
                Ok(text) => ToolResult::text(wrap(&text)).with_display(Display::text(text)),
                Err(ResourceError::Unknown) => ToolResult::failure(ToolError::new(
                    ToolErrorKind::McpResourceNotFound,
                    format!(
                        "Unknown MCP resource `{}`; `list_mcp_resources` lists the resources",
                        self.uri
                    ),
                )),
                Err(ResourceError::Failed(reason)) => ToolResult::failure(ToolError::new(
                    ToolErrorKind::McpToolError,
                    format!("Failed to read `{}`. {reason}", self.uri),
                )),
            }
        })
    }
}
