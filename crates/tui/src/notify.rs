//! Notifications for a user who is not looking at the terminal.

use parallax_screen::NotificationSequence;
use parallax_sdk::settings::NotificationMethod;

/// Returns the notification method for a setting; automatic without one.
pub(crate) fn method(set: Option<NotificationMethod>) -> NotificationSequence {
    match set {
        None | Some(NotificationMethod::Auto) => NotificationSequence::Auto,
        Some(NotificationMethod::Osc9) => NotificationSequence::Osc9,
        Some(NotificationMethod::Osc777) => NotificationSequence::Osc777,
        Some(NotificationMethod::Bell) => NotificationSequence::Bell,
    }
}
