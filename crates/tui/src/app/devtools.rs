//! DevTools of the session: `/devtools`, and the key of the log twice.

use super::App;
use crate::devtools::DevToolsLink;
use crate::effect::Effect;

impl App {
    /// `/devtools`.
    pub(super) fn devtools(&mut self, arguments: &str) {
        match arguments {
            "" => self.effect(Effect::OpenDevTools { browser: true }),
            "--no-open" => self.effect(Effect::OpenDevTools { browser: false }),
            other => self.error(format!(
                "Unknown argument of `/devtools`: `{other}`. Use `/devtools` or `/devtools --no-open`."
            )),
        }
    }

    /// Shows or hides the log; pressed twice, it opens DevTools instead.
    pub(super) fn log_key(&mut self) {
        if self.debug.press(self.clock.now_ms()) {
            self.effect(Effect::OpenDevTools { browser: true });
        }
    }

    /// The page runs, or why it does not.
    pub(crate) fn devtools_started(&mut self, link: Result<DevToolsLink, String>) {
        match link {
            Ok(DevToolsLink { address, is_opened: true }) => {
                self.info(format!(
                    "DevTools opens in the browser: {address} (the link works once)"
                ));
            }
            Ok(DevToolsLink { address, is_opened: false }) => {
                self.info(format!("DevTools: {address} (the link works once)"));
            }
            Err(message) => self.error(format!("Failed to start DevTools: {message}")),
        }
    }
}
