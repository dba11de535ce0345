//! DevTools of the session: `/devtools`, and the key of the log twice.

use crate::app::App;
use crate::app::effect::Effect;
use crate::devtools::DevToolsLink;

/// `/devtools`.
pub(crate) fn run(app: &mut App, arguments: &str) {
    match arguments {
        "" => app.queue_effect(Effect::OpenDevTools { browser: true }),
        "--no-open" => app.queue_effect(Effect::OpenDevTools { browser: false }),
        other => app.error(format!(
            "Unknown argument of `/devtools`: `{other}`. Use `/devtools` or `/devtools --no-open`."
        )),
    }
}

/// Shows or hides the log; pressed twice, it opens DevTools instead.
pub(crate) fn log_key(app: &mut App) {
    if app.debug.press(app.clock.now_ms()) {
        app.queue_effect(Effect::OpenDevTools { browser: true });
    }
}

/// Handles the start of the page, or the reason why it does not run.
pub(crate) fn handle_start(app: &mut App, link: Result<DevToolsLink, String>) {
    match link {
        Ok(DevToolsLink { address, is_opened: true }) => {
            app.info(format!("DevTools opens in the browser: {address} (the link works once)"));
        }
        Ok(DevToolsLink { address, is_opened: false }) => {
            app.info(format!("DevTools: {address} (the link works once)"));
        }
        Err(message) => app.error(format!("Failed to start DevTools: {message}")),
    }
}
