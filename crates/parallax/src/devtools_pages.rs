//! DevTools of the sessions of this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use parallax_protocol::ids::SessionId;
use parallax_protocol::{BoxFuture, CancellationToken};
use parallax_sdk::SessionConfig;
use parallax_serve::DevToolsLinks;
use parallax_tui::devtools::{DevToolsLink, DevToolsPages};

use crate::devtools_command::{bind, random_token};
use crate::devtools_source::JournalLocation;

/// The running servers by session. They end with it.
#[derive(Default)]
pub(crate) struct DevToolsServers {
    running: Mutex<BTreeMap<String, DevToolsLinks>>,
    stop: CancellationToken,
}

impl Drop for DevToolsServers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl DevToolsServers {
    async fn links(
        &self,
        launch: SessionConfig,
        session: &SessionId,
    ) -> Result<DevToolsLinks, String> {
        let running = || self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(links) = running().get(session.as_str()).cloned() {
            return Ok(links);
        }
        let session_view = JournalLocation::Running(launch.directory().to_owned(), session.clone());
        let server = bind(0, launch, session_view).await?;
        let links = server.links();
        running().insert(session.as_str().to_owned(), links.clone());
        let stop = self.stop.clone();
        tokio::spawn(async move { server.run(stop.cancelled_owned()).await });
        Ok(links)
    }
}

impl DevToolsPages for DevToolsServers {
    fn link(
        &self,
        launch: SessionConfig,
        session: SessionId,
        opens_browser: bool,
    ) -> BoxFuture<'_, Result<DevToolsLink, String>> {
        Box::pin(async move {
            let links = self.links(launch, &session).await?;
            let address = links.add(&random_token()?);
            let is_opened = opens_browser && has_display();
            if is_opened {
                parallax_exec::program::open_address(&address);
            }
            Ok(DevToolsLink { address, is_opened })
        })
    }
}

/// Whether there is a display on which a browser can open.
fn has_display() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}
