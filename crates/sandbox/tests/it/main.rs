//! Tests of the sandbox with the real kernel: as the current user, once more as an ordinary user if
//! that is root, and once more where namespaces are forbidden. Tests of unsupported features are
//! skipped with a message.

#![expect(clippy::disallowed_methods, reason = "the tests start the processes that they are about")]
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

mod command_group;
mod files;
mod neighbors;
mod network;
mod network_broker;
mod overmounts;
mod processes;
mod reruns;
mod set_id;
mod test_project;
mod tiers;
