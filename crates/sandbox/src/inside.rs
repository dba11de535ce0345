//! The Linux implementation: code that runs in the supervisor, its child, and the cell.

pub(crate) mod bubblewrap;
mod child;
mod cover_keeper;
mod devices;
mod exit_status;
mod failure;
mod filtered;
pub(crate) mod host_environment;
mod identity;
mod kernel;
mod layout;
mod listening;
mod network_broker;
mod overmounts;
mod privileges;
pub(crate) mod probe;
mod process_reaper;
mod rules;
pub(crate) mod session_namespaces;
mod supervisor;
mod syscalls;

pub(crate) use supervisor::supervise;
