//! The components of the interface. Each owns its state: it takes events, and returns rows and what
//! its owner must do. None of them depends on the application.

pub(crate) mod background_tasks;
pub(crate) mod clock;
pub(crate) mod command_catalog;
pub(crate) mod consent_queue;
pub(crate) mod context_view;
pub(crate) mod current_session;
pub(crate) mod custom_status_line;
pub(crate) mod dialog_stack;
pub(crate) mod editor_link;
pub(crate) mod hints;
pub(crate) mod overlay;
pub(crate) mod prompt_queue;
pub(crate) mod rewind_view;
pub(crate) mod screen_reader;
pub(crate) mod sent_prompts;
mod server_form;
pub(crate) mod server_requests;
pub(crate) mod session_browser;
pub(crate) mod settings_view;
pub(crate) mod shell_view;
pub(crate) mod todo_tray;
pub(crate) mod transcript_pane;
pub(crate) mod turn_view;
pub(crate) mod user_extensions;
pub(crate) mod window;
