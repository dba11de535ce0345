//! Inspection of sessions while they run: the tap that passes on what their journals leave out, and
//! the page that shows both.
//!
//! Not in this crate: the journals (`store`), pages of exported sessions (`sessions`), and the
//! server of the page (`serve`).

mod page;
mod session_tap;

pub use page::{InlineElement, PAGE, SCRIPT, STYLE, document, json_for_script};
pub use session_tap::{
    Observers, RunningSession, SessionTap, TapConnection, TapError, TapSocket, running_sessions,
};
