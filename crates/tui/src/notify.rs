//! Notifications for a user who is not looking at the terminal.

use parallax_screen::Notify;
use parallax_sdk::settings::NotificationMethod;

/// Returns the notification method for a setting; automatic without one.
pub(crate) fn method(set: Option<NotificationMethod>) -> Notify {
    match set {
        None | Some(NotificationMethod::Auto) => Notify::Auto,
        Some(NotificationMethod::Osc9) => Notify::Osc9,
        Some(NotificationMethod::Osc777) => Notify::Osc777,
        Some(NotificationMethod::Bell) => Notify::Bell,
    }
}
