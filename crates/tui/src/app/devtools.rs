//! DevTools of the session: `/devtools`, and the key of the log twice.

use super::App;
use crate::devtools::DevToolsLink;
use crate::effect::Effect;

/// Milliseconds between two presses that count as one gesture.
const TWICE_MS: u64 = 400;

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
        let now = self.now_ms();
        self.debug.toggle();
        let is_second =
            self.log_key_ms.take().is_some_and(|before| now.saturating_sub(before) <= TWICE_MS);
        if is_second {
            self.effect(Effect::OpenDevTools { browser: true });
        } else {
            self.log_key_ms = Some(now);
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
