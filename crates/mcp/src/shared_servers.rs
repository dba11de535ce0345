//! The state that all servers of a session share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::connect::ServerEnvironment;
use crate::sampling::Sampling;
use crate::schema::SchemaFormat;
use crate::tool_pinning::ToolPins;
use crate::user_requests::UserRequestHandler;

/// The state that all servers share.
pub(crate) struct SharedServers {
    pub(crate) environment: ServerEnvironment,
    pub(crate) cache: Cache,
    pub(crate) pins: ToolPins,
    pub(crate) roots: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    pub(crate) prompter: Option<Arc<dyn UserRequestHandler>>,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) schemas: SchemaFormat,
    pub(crate) longest_text: usize,
    pub(crate) version: AtomicU64,
    pub(crate) change_sender: watch::Sender<()>,
    /// The running cache writes.
    pub(crate) cache_writes: TaskTracker,
}

impl SharedServers {
    /// Caches what a server offers, or why it failed, on a blocking thread.
    pub(crate) fn cache_catalog(self: &Arc<Self>, key: &str, known: Result<Arc<Catalog>, String>) {
        let (shared, key) = (Arc::clone(self), key.to_owned());
        self.cache_writes.spawn_blocking(move || {
            shared.cache.save(&key, known.as_deref().map_err(String::as_str));
        });
    }

    /// Announces that new information is available.
    pub(crate) fn notify_changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.change_sender.send_replace(());
    }
}
