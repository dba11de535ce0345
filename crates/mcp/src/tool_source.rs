//! The servers of a session as a source of tools.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use parallax_protocol::BoxFuture;
use parallax_protocol::tool::{Tool, ToolSource};

use crate::instructions;
use crate::names::full_name;
use crate::resource_tools::{ListResources, ReadResource};
use crate::search_tool::SearchTools;
use crate::server::Server;
use crate::servers::{ServerTools, Servers};
use crate::tool::McpTool;

/// How long a call of an unknown tool waits for its server.
const UNKNOWN_TOOL_TIMEOUT: Duration = Duration::from_secs(60);

impl Servers {
    /// Returns the declared tools: those of the servers, and those about all servers.
    fn declared_tools(&self) -> Vec<Arc<dyn Tool>> {
        let version = self.version();
        let mut known = self.inner.declared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, declared)) if *of == version => declared.clone(),
            _ => {
                let declared = self.declare_all();
                *known = Some((version, declared.clone()));
                declared
            }
        }
    }

    fn declare_all(&self) -> Vec<Arc<dyn Tool>> {
        let ServerTools { declared: tools, deferred_tools, too_many, resources } =
            self.current_tools();
        let mut declared: Vec<Arc<dyn Tool>> = Vec::new();
        if too_many {
            declared.push(Arc::new(SearchTools::new(
                self.clone(),
                &self.deferred_servers(&deferred_tools),
            )));
        }
        declared.extend(tools.into_iter().map(|tool| tool as Arc<dyn Tool>));
        if resources {
            declared.push(Arc::new(ListResources::new(self.clone())));
            declared.push(Arc::new(ReadResource::new(self.clone())));
        }
        declared
    }

    /// Returns, for each server with undeclared tools, the number of its tools and its description.
    fn deferred_servers(&self, deferred: &[Arc<McpTool>]) -> Vec<(String, usize, String)> {
        let of = |server: &Arc<Server>| {
            let name = server.config.name.clone();
            // Includes tools that were found, so that the text does not change with each search.
            let catalog = server.catalog();
            let count =
                catalog.tools.iter().filter(|it| server.config.includes_tool(&it.name)).count();
            let about = server.config.description.clone().unwrap_or_default();
            let has_some = deferred.iter().any(|tool| tool.server() == name);
            has_some.then_some((name, count, about))
        };
        self.open().filter_map(of).collect()
    }
}

impl ToolSource for Servers {
    fn version(&self) -> u64 {
        self.inner.shared_servers.version.load(Ordering::Acquire)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.declared_tools()
    }

    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        self.current_tools().deferred_tools.into_iter().map(|tool| tool as Arc<dyn Tool>).collect()
    }

    fn take_warning(&self) -> Option<String> {
        // Without a wait for servers, one may just be starting.
        let late = !self.inner.first_wait.is_zero();
        let mut reported = self.lock_reported();
        let mut words = Vec::new();
        for server in &self.inner.servers {
            let name = &server.config.name;
            if let Some(reason) = server.problem(late).filter(|_| !reported.contains(name)) {
                reported.insert(name.clone());
                words.push(format!("`{name}`: {reason}"));
            }
            if let Some(note) = server.stderr_tail.skipped_note()
                && server.is_open()
                && reported.insert(format!("{name}\nskipped lines"))
            {
                words.push(format!("`{name}`: {note}"));
            }
        }
        (!words.is_empty()).then(|| {
            format!(
                "MCP servers with problems:\n  {}\n(`/mcp` and `parallax mcp list` show their state)",
                words.join("\n  ")
            )
        })
    }

    fn wait_until_ready(&self) -> BoxFuture<'static, ()> {
        let servers = self.clone();
        let limit = self.inner.first_wait;
        Box::pin(async move {
            if !limit.is_zero() {
                drop(tokio::time::timeout(limit, servers.wait_until_all_known()).await);
                // Calls do not wait for these servers again, not even in later sessions.
                servers.open().for_each(|server| server.stop_waiting());
            }
        })
    }

    fn context(&self) -> Option<String> {
        let block = |server: &Arc<Server>| {
            instructions::block(&server.config.name, server.catalog().instructions.as_deref()?)
        };
        let blocks: Vec<String> = self.open().filter_map(block).collect();
        (!blocks.is_empty()).then(|| blocks.join("\n\n"))
    }

    fn wait_for_tool(&self, name: &str) -> BoxFuture<'static, ()> {
        // The model may know the name from an earlier session or a rule.
        if Servers::deferred(self).iter().any(|tool| tool.spec().name == name) {
            self.declare(vec![name.to_owned()]);
            return Box::pin(std::future::ready(()));
        }
        let mine: Vec<Arc<Server>> = self
            .open()
            .filter(|server| name.starts_with(&full_name(&server.config.name, "")))
            .cloned()
            .collect();
        Box::pin(async move {
            let lookups = mine.iter().map(|server| async move { server.link().await.is_ok() });
            let lookups = futures_util::future::join_all(lookups);
            drop(tokio::time::timeout(UNKNOWN_TOOL_TIMEOUT, lookups).await);
        })
    }
}
