//! Confinement of a command by the Linux kernel, without any other program:
//! the binary starts itself again as a supervisor, which builds the
//! confinement in a process of one thread and runs the command in it.
//!
//! Not responsible for what a command may do (the caller writes the [`Plan`]),
//! for pipes, terminals and time limits (those are the caller's), nor for
//! undoing what a command was allowed to write.

mod error;
#[cfg(target_os = "linux")]
mod inside;
mod launch;
mod plan;
mod replaced;
mod standard_output;
mod support;

pub use error::{PlanError, StartError};
#[cfg(target_os = "linux")]
pub use inside::session_namespaces::Cell;
#[cfg(not(target_os = "linux"))]
pub use launch::Cell;
pub use launch::{Launcher, REFUSED, Refusal, main, reexec};
pub use plan::{Access, Network, Plan, StandIn, Tier};
pub use replaced::take_replaced;
pub use standard_output::stdout_was_closed;
pub use support::{Finding, Support};

/// The name of a process that keeps a command's gate. It may stay a little longer
/// than the supervisor, and as long as anything that the command left behind.
pub const KEEPER: &str = "parallax-gate";
