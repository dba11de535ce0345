//! Confines commands with the Linux kernel, without other programs if possible: the binary starts
//! itself again as a supervisor, which builds the confinement in a single-threaded process and runs
//! the command in it.
//!
//! Not included: deciding what a command may do (the caller writes the [`Plan`]), pipes, terminals,
//! and time limits (also the caller), and undoing what a command was allowed to write.

mod entry_point;
mod error;
#[cfg(target_os = "linux")]
mod inside;
mod launcher;
mod plan;
mod probe;
mod replaced;
mod roles;
mod standard_output;
mod supervisor_error;
mod support;

#[cfg(not(target_os = "linux"))]
pub use entry_point::SessionNamespaces;
pub use entry_point::main;
pub use error::{PlanError, StartError};
#[cfg(target_os = "linux")]
pub use inside::session_namespaces::SessionNamespaces;
pub use launcher::{Launcher, reexec};
pub use plan::{Access, Network, PlaceholderFile, Plan, Tier};
pub use replaced::{ReplacedFiles, take_replaced};
pub use standard_output::stdout_was_closed;
pub use supervisor_error::{REFUSED, SupervisorError};
pub use support::{MechanismSupport, Support};

/// Keeps open files that this process inherited away from the programs that it starts. Does nothing
/// where the kernel cannot do this at once.
pub fn close_inherited_on_exec() {
    #[cfg(target_os = "linux")]
    let _ = inside::kernel::close_on_exec_from(3);
}

/// The name of the process that runs the network broker of a command. It may live slightly longer
/// than the supervisor, and as long as any process that the command left behind.
pub const KEEPER: &str = "parallax-broker";
