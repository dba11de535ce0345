//! Reads what a server offers, and reads it again after change notifications.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, ServerPeerInfo,
};
use rmcp::{Peer, RoleClient};
use serde_json::Value;

use crate::bounds::{self, LimitedTools};
use crate::call::{RequestOptions, request};
use crate::catalog::{Catalog, PromptEntry, ResourceEntry, ToolEntry};
use crate::error::McpError;
use crate::messages::UNREADABLE_ENTRY;
use crate::names::display_name;
use crate::pages;
use crate::server::Server;

/// Timeout of one page of a list.
const LISTING: Duration = Duration::from_secs(30);
/// How long change notifications are collected before the lists are read.
const GATHER: Duration = Duration::from_millis(300);
/// How long to wait before the second attempt if the lists have not changed yet.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum number of unreadable tools that are named in a message.
const MAX_NAMED: usize = 10;

/// Returns the name of an unreadable entry, if known.
fn name_of(entry: &Value) -> Option<String> {
    let name = entry.get(UNREADABLE_ENTRY).or_else(|| entry.get("name"))?.as_str()?;
    (!name.is_empty()).then(|| display_name(name))
}

/// Returns a message about the tools that could not be read.
fn unreadable_tools_message(broken: &[Option<String>]) -> Option<String> {
    let named: Vec<String> = broken.iter().flatten().map(|name| format!("`{name}`")).collect();
    let named = match named.get(..MAX_NAMED) {
        None => named.join(", "),
        Some(first) => format!("{}, …", first.join(", ")),
    };
    let named = if named.is_empty() { named } else { format!(" ({named})") };
    let count = broken.len();
    (count > 0).then(|| format!("{count} of its tools are invalid and were omitted{named}"))
}

impl Server {
    /// Reads all lists. Lists that the server does not support are empty.
    pub(crate) async fn list(
        &self,
        peer: &Peer<RoleClient>,
    ) -> Result<(Catalog, Vec<String>), McpError> {
        let info = peer.peer_info();
        let has = |pick: fn(&ServerPeerInfo) -> bool| info.as_deref().is_some_and(pick);
        let prompts = has(|info| info.capabilities.prompts.is_some());
        let resources = has(|info| info.capabilities.resources.is_some());
        let page = |cursor| PaginatedRequestParams::default().with_cursor(cursor);
        let tools = self
            .pages(peer, "tools", true, |cursor| ListToolsRequest::with_param(page(cursor)).into());
        let prompts = self.pages(peer, "prompts", prompts, |cursor| {
            ListPromptsRequest::with_param(page(cursor)).into()
        });
        let templates = self.pages(peer, "resourceTemplates", resources, |cursor| {
            ListResourceTemplatesRequest::with_param(page(cursor)).into()
        });
        let resources = self.pages(peer, "resources", resources, |cursor| {
            ListResourcesRequest::with_param(page(cursor)).into()
        });
        let (tools, prompts, resources, templates) =
            tokio::join!(tools, prompts, resources, templates);
        let (mut notes, mut cuts) = (Vec::new(), Vec::new());
        let mut read = |what: &str, list: Result<pages::PagedList, McpError>| match list {
            Ok(pages) => {
                cuts.extend(pages.stop_reason.map(|reason| {
                    let count = pages.entries.len();
                    format!("its list of {what} was truncated: {reason}; {count} of them are used")
                }));
                pages.entries
            }
            Err(error) => {
                cuts.push(format!("failed to read its list of {what}: {error}"));
                Vec::new()
            }
        };
        if let Err(error @ (McpError::Lost | McpError::Timeout { .. } | McpError::SignIn { .. })) =
            &tools
        {
            return Err(error.clone());
        }
        let listed = match tools {
            // A server that only has prompts or resources need not support tools.
            Err(McpError::Server { code: -32601, .. }) => Vec::new(),
            other => read("tools", other),
        };
        let (mut tools, mut broken) = (Vec::with_capacity(listed.len()), Vec::new());
        let (mut places, mut repeated) = (HashMap::new(), Vec::new());
        for entry in &listed {
            match ToolEntry::read(entry) {
                Some(tool) => match places.get(&tool.name).and_then(|it| tools.get_mut(*it)) {
                    Some(earlier) => {
                        repeated.push(format!("`{}`", display_name(&tool.name)));
                        *earlier = tool;
                    }
                    None => {
                        places.insert(tool.name.clone(), tools.len());
                        tools.push(tool);
                    }
                },
                None => broken.push(name_of(entry)),
            }
        }
        let LimitedTools { tools, omission_notice, notes: bounded } = bounds::bound(tools);
        let prompts = read("prompts", prompts);
        let resources = read("resources", resources);
        let templates = read("templates", templates);
        cuts.extend(omission_notice);
        cuts.extend(unreadable_tools_message(&broken));
        let catalog = Catalog {
            prompts: prompts.iter().filter_map(PromptEntry::read).collect(),
            resources: resources.iter().filter_map(ResourceEntry::read).collect(),
            templates: templates.iter().filter_map(ResourceEntry::read).collect(),
            instructions: info.as_deref().and_then(|info| info.instructions.clone()),
            implementation: info
                .as_deref()
                .and_then(|info| info.server_info.as_ref())
                .map(|it| format!("{} {}", it.name, it.version)),
            tools,
            omission_notice: (!cuts.is_empty()).then(|| cuts.join("; ")),
        };
        notes.extend(bounded);
        if !repeated.is_empty() {
            let names = repeated.join(", ");
            notes.push(format!(
                "it lists these tools more than once, and the last one is used: \
                {names}"
            ));
        }
        Ok((catalog, notes))
    }

    async fn pages(
        &self,
        peer: &Peer<RoleClient>,
        key: &str,
        is_requested: bool,
        build: impl Fn(Option<String>) -> ClientRequest,
    ) -> Result<pages::PagedList, McpError> {
        if !is_requested {
            return Ok(pages::PagedList::default());
        }
        let limit = self.config.timeout.min(LISTING);
        pages::read(key, |cursor| {
            request(
                peer,
                build(cursor),
                RequestOptions::with_timeout(limit),
                &self.inbound.listeners,
            )
        })
        .await
    }

    /// Reads the lists again after the server reported a change.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        tokio::time::sleep(GATHER).await;
        for wait in [Some(RETRY_DELAY), None] {
            let Some(peer) = self.open_link() else { return };
            match self.list(&peer).await {
                Ok((catalog, notes)) => {
                    let changed = self.update_catalog(catalog);
                    self.set_notes(notes);
                    if changed {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "failed to refresh the tools, prompts, and resources of an MCP server")
                }
            }
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return,
            }
        }
    }
}
