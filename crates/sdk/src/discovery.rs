//! Tools that come to a session from outside: those that a command of the
//! user's tells of, and those of MCP servers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_engine::EventHub;
use parallax_exec::Processes;
use parallax_mcp::Servers;
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{Tool, ToolSource};
use parallax_protocol::{BoxFuture, CancellationToken};
use parallax_tools::ShellOptions;
use parallax_tools::discovered::Discovery;
use tokio::sync::watch;

use crate::launch::Launch;
use crate::versions::Versions;

/// How long the first request waits for a discovery that runs.
const WAIT: Duration = Duration::from_secs(10);
/// After what time people are told that it is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

impl Launch {
    /// Starts the discovery of tools, where the settings name a command. Must
    /// run on a runtime.
    pub(crate) fn discover(
        &self,
        shell: ShellOptions,
        processes: Processes,
        versions: Option<Arc<Versions>>,
        hub: EventHub,
    ) -> Option<Arc<Discovered>> {
        let settings = &self.config.settings;
        let words = |key: &str| -> Result<Vec<String>, String> {
            let line = settings.text(key).ok_or_else(|| format!("`{key}` is missing"))?;
            match shell_words::split(&line) {
                Ok(words) if words.is_empty() => Err(format!("`{key}`: the command is empty")),
                words => words.map_err(|why| format!("`{key}`: {why}")),
            }
        };
        settings.text("tools.discoveryCommand")?;
        let both = words("tools.discoveryCommand")
            .and_then(|discover| Ok((discover, words("tools.callCommand")?)));
        let (discover, call) = match both {
            Ok(both) => both,
            Err(why) => {
                tell(&hub, why);
                return None;
            }
        };
        let discovery = Arc::new(Discovery {
            discover,
            call,
            directory: self.config.cwd.clone(),
            shell,
            processes,
            strict: settings.flag("tools.strictDiscoveredTools"),
        });
        let (done, is_done) = watch::channel(false);
        let cancel = CancellationToken::new();
        let discovered = Arc::new(Discovered {
            found: Mutex::default(),
            is_done,
            cancel: cancel.clone(),
            hub: hub.clone(),
        });
        // Weak: it ends with the session.
        let (told, mode) = (Arc::downgrade(&discovered), self.mode);
        tokio::spawn(async move {
            // Confined as a command, it may change no protected file either.
            let versions = versions.filter(|_| mode != ApprovalMode::Yolo);
            let watch = match versions {
                Some(versions) => {
                    tokio::task::spawn_blocking(move || versions.watch()).await.ok().flatten()
                }
                None => None,
            };
            let found = discovery.tools(mode, &cancel).await;
            if let Some(watch) = watch {
                let command = discovery.discover.join(" ");
                let ending = tokio::task::spawn_blocking(move || watch.end(&command));
                if let Some(note) = ending.await.ok().and_then(|done| done.note()) {
                    tell(&hub, format!("`tools.discoveryCommand`: {note}"));
                }
            }
            match (found, told.upgrade()) {
                (Ok(found), Some(discovered)) => {
                    *discovered.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
                }
                (Err(why), Some(_)) => tell(&hub, why),
                (_, None) => {}
            }
            // Nobody listens any more when the session is over.
            let _ = done.send(true);
        });
        Some(discovered)
    }
}

/// Tells people what went wrong.
fn tell(hub: &EventHub, text: String) {
    let done = ItemDone::Notice { level: Level::Warning, text };
    hub.send(EventBody::ItemDone { item: "notice-discovery".into(), done });
}

/// Tools that a command tells of.
pub(crate) struct Discovered {
    found: Mutex<Vec<Arc<dyn Tool>>>,
    is_done: watch::Receiver<bool>,
    /// Ends a discovery that still runs.
    cancel: CancellationToken,
    /// Where people hear of it.
    hub: EventHub,
}

impl Discovered {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn settled(&self) -> BoxFuture<'static, ()> {
        let (mut is_done, hub) = (self.is_done.clone(), self.hub.clone());
        Box::pin(async move {
            let mut is_over = async |time| {
                tokio::time::timeout(time, is_done.wait_for(|done| *done)).await.is_ok()
            };
            if is_over(PATIENCE).await {
                return;
            }
            let most = WAIT.as_secs();
            tell(
                &hub,
                format!(
                    "`tools.discoveryCommand` still runs: the first request waits for it, {most} seconds at most"
                ),
            );
            if !is_over(WAIT - PATIENCE).await {
                tell(
                    &hub,
                    format!(
                        "`tools.discoveryCommand` has not ended after {most} seconds: the request goes \
                     without its tools; those that come later are declared then"
                    ),
                );
            }
        })
    }
}

impl Drop for Discovered {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Both kinds as one source: discovered tools before those of servers.
pub(crate) struct MoreTools {
    pub(crate) discovered: Option<Arc<Discovered>>,
    pub(crate) servers: Option<Servers>,
}

impl MoreTools {
    /// The source, when there is anything in it.
    pub(crate) fn source(self) -> Option<Arc<dyn ToolSource>> {
        let empty = self.discovered.is_none() && self.servers.is_none();
        (!empty).then(|| Arc::new(self) as Arc<dyn ToolSource>)
    }
}

impl ToolSource for MoreTools {
    fn version(&self) -> u64 {
        let done = self.discovered.as_ref().is_some_and(|found| *found.is_done.borrow());
        let servers = self.servers.as_ref().map_or(0, ToolSource::version);
        servers.wrapping_mul(2).wrapping_add(u64::from(done))
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.discovered.as_ref().map(|found| found.tools()).unwrap_or_default();
        tools.extend(self.servers.iter().flat_map(ToolSource::tools));
        tools
    }

    fn settled(&self) -> BoxFuture<'static, ()> {
        let discovered = self.discovered.as_ref().map(|found| found.settled());
        let servers = self.servers.as_ref().map(ToolSource::settled);
        Box::pin(async move {
            for settled in discovered.into_iter().chain(servers) {
                settled.await;
            }
        })
    }

    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        self.servers.as_ref().map(ToolSource::deferred).unwrap_or_default()
    }

    fn trouble(&self) -> Option<String> {
        self.servers.as_ref().and_then(ToolSource::trouble)
    }

    fn context(&self) -> Option<String> {
        self.servers.as_ref().and_then(ToolSource::context)
    }

    fn look_for(&self, name: &str) -> BoxFuture<'static, ()> {
        let discovered = self.discovered.as_ref().map(|found| found.settled());
        let servers = self.servers.as_ref().map(|servers| servers.look_for(name));
        Box::pin(async move {
            for looking in discovered.into_iter().chain(servers) {
                looking.await;
            }
        })
    }
}
