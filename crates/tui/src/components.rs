//! The components of the interface. Each owns its state: events go in; what its owner must do, and
//! rows, come out. None of them knows the application.

pub(crate) mod clock;
pub(crate) mod dialog_stack;
pub(crate) mod hints;
pub(crate) mod prompt_queue;
mod server_form;
pub(crate) mod server_requests;
pub(crate) mod shell_view;
pub(crate) mod todo_tray;
