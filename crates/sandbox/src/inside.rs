//! The Linux side: what runs in the supervisor, its child and the cell.

pub(crate) mod bubblewrap;
pub(crate) mod cell;
mod child;
mod cover_keeper;
mod covers;
mod devices;
mod ended;
mod failure;
mod filtered;
mod gate;
mod identity;
mod keeper;
mod kernel;
mod layout;
mod listening;
mod privileges;
pub(crate) mod probe;
mod rules;
mod supervisor;
pub(crate) mod surroundings;
mod syscalls;

pub(crate) use supervisor::supervise;
