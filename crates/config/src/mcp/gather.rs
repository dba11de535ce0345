//! Collects all MCP servers of a run from every place where one can be configured.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::expand::Expander;
use crate::jsonc;
use crate::layers::Layer;
use crate::load::Config;
use crate::mcp_server::{
    EnablementFiles, ExtensionServers, McpServer, McpSource, ServerError, StartBlock,
    expand_servers, is_same_name, legacy_name, merged_with_extension, server_of_command,
};
use crate::secret_references::register_servers;

/// Server selection from the command line and the session.
#[derive(Debug, Clone, Default)]
pub struct McpChoice {
    /// `--allowed-mcp-server-names`: replaces `mcp.allowed` and disables `mcp.excluded`.
    pub allowed: Vec<String>,
    /// Servers disabled for this session.
    pub disabled: Vec<String>,
}

/// The MCP servers of a run.
#[derive(Debug, Clone, Default)]
pub struct McpServers {
    /// The valid servers, including those that may not start, in the order in which they are
    /// configured, lowest source first.
    pub servers: Vec<McpServer>,
    /// The servers with an invalid configuration.
    pub errors: Vec<ServerError>,
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
}

impl McpServers {
    /// Returns the servers that may start.
    pub fn open(&self) -> impl Iterator<Item = &McpServer> {
        self.servers.iter().filter(|server| server.start_block == StartBlock::Open)
    }
}

impl Config {
    /// Returns all MCP servers and whether each may start.
    pub fn mcp_servers(&self, extensions: &[ExtensionServers], choice: &McpChoice) -> McpServers {
        let mut found = McpServers::default();
        let mut sources = Sources::default();
        let file = self.dirs.parallax.join("mcp-config.json");
        for (name, value) in from_file(&file, &self.environment, &mut found.warnings) {
            sources.add_server(name, value, McpSource::ConfigFile);
        }
        for extension in extensions {
            for (name, value) in &extension.servers {
                let source = McpSource::Extension(extension.extension.clone());
                sources.add_extension_server(name, value, source, &mut found.warnings);
            }
        }
        if let Some(command) = self.settings.text("mcp.serverCommand") {
            match server_of_command(&command) {
                Some(server) => {
                    sources.add_server("mcp".to_owned(), server, McpSource::ServerCommand)
                }
                None => found.warnings.push(
                    "the setting `mcp.serverCommand` is not a command line: check its quotes"
                        .to_owned(),
                ),
            }
        }
        let settings = self.settings.get("mcpServers").and_then(Value::as_object);
        for (name, value) in settings.into_iter().flatten() {
            sources.add_server(name.clone(), value.clone(), self.source_of(name));
        }
        for (name, value, source) in sources.list {
            match McpServer::read(&name, &value, source) {
                Ok(server) => found.servers.push(server),
                Err(error) => found.errors.push(error),
            }
        }
        self.block_servers(&mut found, choice);
        found
    }

    fn source_of(&self, name: &str) -> McpSource {
        let origin = self.settings.origins(&format!("mcpServers.{name}")).last();
        match origin.map(|origin| origin.layer) {
            Some(Layer::User | Layer::UserGemini) => McpSource::User,
            Some(Layer::System | Layer::SystemDefaults) => McpSource::System,
            // An unknown layer is treated like the project's.
            Some(Layer::Workspace | Layer::WorkspaceGemini) | None => McpSource::Workspace,
        }
    }

    fn block_servers(&self, found: &mut McpServers, choice: &McpChoice) {
        let by_flag = !choice.allowed.is_empty();
        let allowed = match by_flag {
            true => Some(choice.allowed.clone()),
            false => self.settings.get("mcp.allowed").map(|_| self.settings.list("mcp.allowed")),
        };
        let excluded = if by_flag { Vec::new() } else { self.settings.list("mcp.excluded") };
        let enablement = EnablementFiles::for_user(&self.dirs).read(&mut found.warnings);
        let names =
            |list: &[String], name: &str| list.iter().any(|entry| is_same_name(entry, name));
        for server in &mut found.servers {
            let name = server.name.as_str();
            let blocked = allowed.as_ref().is_some_and(|allowed| !names(allowed, name))
                || names(&excluded, name);
            server.start_block = if blocked {
                StartBlock::Blocked
            } else if names(&choice.disabled, name) || enablement.is_disabled(name) {
                StartBlock::Disabled
            } else if !self.trust.trusted {
                StartBlock::Untrusted
            } else {
                StartBlock::Open
            };
            server.trust &= self.trust.trusted;
        }
        for entry in allowed.iter().flatten().chain(&excluded).chain(&choice.disabled) {
            let Some(plain) = legacy_name(entry) else { continue };
            if found.servers.iter().any(|server| is_same_name(entry, &server.name)) {
                found.warnings.push(format!(
                    "`{entry}` is a deprecated form of an MCP server name: use `{plain}`"
                ));
            }
        }
        for entry in allowed.iter().flatten() {
            if by_flag && !found.servers.iter().any(|server| is_same_name(entry, &server.name)) {
                found.warnings.push(format!("unknown MCP server `{entry}`"));
            }
        }
    }
}

/// Servers by name, in the order in which they were added.
#[derive(Default)]
struct Sources {
    list: Vec<(String, Value, McpSource)>,
}

impl Sources {
    /// Adds a server. A later one replaces an earlier one of the same name, except that the user's
    /// settings are merged with an extension's server.
    fn add_server(&mut self, name: String, value: Value, source: McpSource) {
        match self.list.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, known, of)) => {
                *known = match of {
                    McpSource::Extension(_) => merged_with_extension(known, &value),
                    _ => value,
                };
                *of = source;
            }
            None => self.list.push((name, value, source)),
        }
    }

    fn add_extension_server(
        &mut self,
        name: &str,
        value: &Value,
        source: McpSource,
        warnings: &mut Vec<String>,
    ) {
        let known = self.list.iter().find(|(known, ..)| known == name);
        if let Some((_, _, McpSource::Extension(first))) = known {
            warnings.push(format!(
                "the MCP server `{name}` is defined by the extension `{first}` and by another \
                 extension, which is ignored"
            ));
            return;
        }
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            // Fields that an extension cannot set for itself.
            fields.shift_remove("trust");
            match fields.get("sandbox") {
                Some(own) if *own == json!(false) || *own == "false" => {
                    fields.shift_remove("sandbox");
                }
                // The user may change the rest of the server, so the extension's grants must not
                // apply.
                Some(Value::Object(_)) => drop(fields.insert("sandbox".to_owned(), json!(true))),
                _ => {}
            }
            // Nor may it impersonate a service account with the user's credentials.
            if fields.get("authProviderType").and_then(Value::as_str)
                == Some("service_account_impersonation")
            {
                fields.shift_remove("authProviderType");
                warnings.push(format!(
                    "the MCP server `{name}` of an extension cannot impersonate a service account; \
                     user settings can allow it"
                ));
            }
        }
        self.add_server(name.to_owned(), value, source);
    }
}

fn from_file(path: &Path, environment: &Environment, warnings: &mut Vec<String>) -> Object {
    let read = match jsonc::read_object(path) {
        Ok(read) => read,
        Err(error) => {
            warnings.push(format!("{error}; its MCP servers are ignored"));
            return Object::new();
        }
    };
    let Some(mut servers) = read.and_then(|mut file| file.shift_remove("mcpServers")) else {
        return Object::new();
    };
    register_servers(&servers, environment.secrets());
    expand_servers(&mut servers, &mut Expander::new(environment));
    match servers {
        Value::Object(servers) => servers,
        _ => {
            warnings.push(format!("`mcpServers` in `{}` must be an object", path.display()));
            Object::new()
        }
    }
}
