//! Additional tools of a session: from the user's discovery command and from MCP servers.

mod discovery_cache;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use discovery_cache::DiscoveryCache;
use futures_util::future::join_all;
use parallax_agents::SessionSkills;
use parallax_checkpoints::CheckpointManager;
use parallax_engine::EventBus;
use parallax_exec::Processes;
use parallax_mcp::Servers;
use parallax_protocol::code_text::{check_command, code_text};
use parallax_protocol::event::{EventBody, ItemDone, Level};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{Tool, ToolSource};
use parallax_protocol::{BoxFuture, CancellationToken};
use parallax_tools::ShellOptions;
use parallax_tools::discovered::{Discovery, PREFIX};
use tokio::sync::watch;

use crate::session_config::SessionConfig;

/// How long the first request waits for a discovery command without cached results. Typical scripts
/// finish within this time, and their results are cached.
const WAIT: Duration = Duration::from_secs(2);
/// Run time after which a running discovery is reported at the end of a turn.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a call of an unknown tool waits for the discovery.
const UNKNOWN_TOOL_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the discovery of tools if the settings configure a command. Must be called on a
/// runtime.
pub(crate) fn discover(
    launch: &SessionConfig,
    shell: ShellOptions,
    processes: Processes,
    checkpoint_manager: Option<Arc<CheckpointManager>>,
    hub: EventBus,
) -> Option<Arc<DiscoveredTools>> {
    let settings = &launch.config.settings;
    let words = |key: &str| -> Result<Vec<String>, String> {
        let line = settings.text(key).ok_or_else(|| format!("`{key}` is missing"))?;
        check_command(&line)
            .map_err(|reason| format!("`{key}`: `{}` {reason}", code_text(&line)))?;
        match shell_words::split(&line) {
            Ok(words) if words.is_empty() => Err(format!("`{key}`: the command is empty")),
            words => words.map_err(|reason| format!("`{key}`: {reason}")),
        }
    };
    settings.text("tools.discoveryCommand")?;
    let both = words("tools.discoveryCommand")
        .and_then(|discover| Ok((discover, words("tools.callCommand")?)));
    let (discover, call) = match both {
        Ok(both) => both,
        Err(reason) => {
            warn(&hub, reason);
            return None;
        }
    };
    let discovery = Arc::new(Discovery {
        discover,
        call,
        directory: launch.config.cwd.clone(),
        shell,
        processes,
        strict: settings.flag("tools.strictDiscoveredTools"),
    });
    let cache = DiscoveryCache::new(&launch.config.dirs.parallax, &discovery);
    // The cached results of the last run apply until the command finishes.
    let cached = cache.read().unwrap_or_default();
    let known = discovery.tools(&cached).ok();
    let is_known = known.is_some();
    let (state, changes) = watch::channel(DiscoveryState {
        tools: known.unwrap_or_default(),
        version: 0,
        is_done: false,
    });
    let cancel = CancellationToken::new();
    let discovered = Arc::new(DiscoveredTools {
        state: changes,
        is_known,
        started: Instant::now(),
        was_reported: AtomicBool::new(false),
        cancel: cancel.clone(),
        bus: hub.clone(),
    });
    // Ends with the session.
    let mode = launch.mode;
    tokio::spawn(async move {
        // The command runs in the sandbox like any command, so it may not change protected
        // files either.
        let checkpoint_manager = checkpoint_manager.filter(|_| mode != ApprovalMode::Yolo);
        let watch = match checkpoint_manager {
            Some(checkpoint_manager) => {
                tokio::task::spawn_blocking(move || checkpoint_manager.watch()).await.ok().flatten()
            }
            None => None,
        };
        let found = discovery.ask(mode, &cancel).await;
        if let Some(watch) = watch {
            let command = discovery.discover.join(" ");
            let end_task = tokio::task::spawn_blocking(move || watch.end(&command));
            if let Some(note) = end_task.await.ok().and_then(|done| done.note()) {
                warn(&hub, format!("`tools.discoveryCommand`: {note}"));
            }
        }
        if cancel.is_cancelled() {
            return;
        }
        let changed = match found {
            Ok(found) => {
                let is_same = is_known && found == cached;
                let tools = discovery.tools(&found).map_err(|reason| warn(&hub, reason)).ok();
                // Write unchanged results too, to refresh the cache's age.
                let save_task = tokio::task::spawn_blocking(move || cache.write(&found));
                drop(save_task.await);
                tools.filter(|_| !is_same)
            }
            Err(reason) => {
                warn(&hub, reason);
                None
            }
        };
        state.send_modify(|state| {
            state.is_done = true;
            if let Some(tools) = changed {
                state.tools = tools;
                state.version += 1;
            }
        });
    });
    Some(discovered)
}

/// Sends a warning to the user.
fn warn(bus: &EventBus, text: String) {
    let done = ItemDone::notice(Level::Warning, text);
    bus.send(EventBody::ItemDone { item: "notice-discovery".into(), done });
}

/// Tools from the discovery command.
pub(crate) struct DiscoveredTools {
    state: watch::Receiver<DiscoveryState>,
    /// Whether cached tools from an earlier session are declared.
    is_known: bool,
    started: Instant,
    /// Whether the user was told that the command is still running.
    was_reported: AtomicBool,
    /// Cancels a running discovery.
    cancel: CancellationToken,
    /// Receives notices for the user.
    bus: EventBus,
}

struct DiscoveryState {
    tools: Vec<Arc<dyn Tool>>,
    /// Incremented when the tools change.
    version: u64,
    /// Whether the command has ended.
    is_done: bool,
}

impl DiscoveredTools {
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.state.borrow().tools.clone()
    }

    fn wait_until_ready(self: &Arc<Self>) -> BoxFuture<'static, ()> {
        let this = Arc::clone(self);
        Box::pin(async move {
            if this.is_known
                || this.wait_at_most(WAIT).await
                || this.was_reported.swap(true, Relaxed)
            {
                return;
            }
            warn(
                &this.bus,
                format!(
                    "`tools.discoveryCommand` is still running after {} ms: the request is sent \
                     without its tools, which are declared later",
                    WAIT.as_millis()
                ),
            );
        })
    }

    async fn wait_at_most(&self, time: Duration) -> bool {
        let mut state = self.state.clone();
        tokio::time::timeout(time, state.wait_for(|state| state.is_done)).await.is_ok()
    }

    /// Returns a warning once if the discovery takes too long.
    fn take_warning(&self) -> Option<String> {
        let hangs = !self.state.borrow().is_done && self.started.elapsed() > TIMEOUT;
        (hangs && !self.was_reported.swap(true, Relaxed)).then(|| {
            "`tools.discoveryCommand` is still running: the tools of an earlier session are used".into()
        })
    }
}

impl Drop for DiscoveredTools {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Combines the skill tool, discovered tools, and tools of MCP servers into one source.
pub(crate) struct CombinedToolSource {
    pub(crate) skills: Arc<SessionSkills>,
    pub(crate) discovered: Option<Arc<DiscoveredTools>>,
    pub(crate) servers: Option<Servers>,
}

impl ToolSource for CombinedToolSource {
    fn version(&self) -> u64 {
        let discovered = self.discovered.as_ref().map_or(0, |it| it.state.borrow().version);
        let servers = self.servers.as_ref().map_or(0, ToolSource::version);
        // No version decreases, so the sum changes with every change.
        servers.wrapping_add(discovered).wrapping_add(self.skills.version())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = self.skills.tool().into_iter().collect();
        tools.extend(self.discovered.iter().flat_map(|found| found.tools()));
        tools.extend(self.servers.iter().flat_map(ToolSource::tools));
        tools
    }

    fn refresh(&self) -> Vec<(Level, String)> {
        self.skills.refresh()
    }

    fn wait_until_ready(&self) -> BoxFuture<'static, ()> {
        let discovered = self.discovered.as_ref().map(|found| found.wait_until_ready());
        let servers = self.servers.as_ref().map(ToolSource::wait_until_ready);
        Box::pin(async move {
            drop(join_all(discovered.into_iter().chain(servers)).await);
        })
    }

    fn deferred(&self) -> Vec<Arc<dyn Tool>> {
        self.servers.as_ref().map(ToolSource::deferred).unwrap_or_default()
    }

    fn take_warning(&self) -> Option<String> {
        let discovered = self.discovered.as_ref().and_then(|found| found.take_warning());
        let servers = self.servers.as_ref().and_then(ToolSource::take_warning);
        discovered.into_iter().chain(servers).reduce(|all, one| format!("{all}\n{one}"))
    }

    fn context(&self) -> Option<String> {
        self.servers.as_ref().and_then(ToolSource::context)
    }

    fn wait_for_tool(&self, name: &str) -> BoxFuture<'static, ()> {
        let servers = self.servers.as_ref().map(|servers| servers.wait_for_tool(name));
        let discovered = self.discovered.clone().filter(|_| name.starts_with(PREFIX));
        Box::pin(async move {
            if let Some(discovered) = discovered {
                discovered.wait_at_most(UNKNOWN_TOOL_TIMEOUT).await;
            }
            if let Some(discovery) = servers {
                discovery.await;
            }
        })
    }
}
