//! Slash commands and the flows that they start: each is a function on the application, and shows
//! its result when the work is done.

pub(crate) mod agents;
pub(crate) mod attached;
pub(crate) mod budget;
pub(crate) mod choices;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod custom_commands;
pub(crate) mod devtools;
pub(crate) mod editor;
pub(crate) mod explain_model;
pub(crate) mod extensions;
pub(crate) mod info;
pub(crate) mod lists;
pub(crate) mod mcp;
pub(crate) mod outside_files;
pub(crate) mod plan;
pub(crate) mod rewind;
pub(crate) mod saved_chats;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod skills_and_hooks;
pub(crate) mod startup_questions;
pub(crate) mod status_line_items;
pub(crate) mod welcome;
