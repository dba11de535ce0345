//! The Linux implementation: code that runs in the supervisor, its child, and the session
//! namespaces.

mod broker_guard;
mod bubblewrap;
mod bubblewrap_job;
pub(crate) mod bubblewrap_process;
mod child;
mod child_wait;
mod command_group;
mod devices;
mod exit_status;
mod failure;
mod filtered;
pub(crate) mod host_environment;
mod identity;
pub(crate) mod kernel;
mod layout;
mod listening;
mod mounts;
mod network_broker;
mod overmount_monitor;
mod overmounts;
mod privileges;
pub(crate) mod probe;
mod process_freezer;
mod process_reaper;
mod rules;
pub(crate) mod session_namespaces;
mod supervisor;
mod syscalls;
mod writer_search;

pub(crate) use supervisor::supervise;
