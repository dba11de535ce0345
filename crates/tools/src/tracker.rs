//! A task tracker for work too large for a todo list: tasks with parents and dependencies, stored
//! in files of the session.

mod store;
mod tools;
mod tree;

pub use store::Tracker;
pub use tools::tracker_tools;
