//! A tracker of tasks for work that is larger than a list: tasks with parents
//! and dependencies, kept in files of the session.

mod store;
mod tools;
mod tree;

pub use store::Tracker;
pub use tools::tracker_tools;
