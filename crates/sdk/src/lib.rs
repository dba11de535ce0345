//! The builder that wires model, tools, policy and store to the engine, and the
//! handle of a running session. The one crate that a program of another face
//! needs.
//!
//! [`Launch::prepare`] reads settings and decides on trust; [`Launch::open`]
//! gives an [`OpenSession`]: orders in, events out.

pub mod at_paths;
pub mod demo;
mod expand;
mod history;
mod launch;
mod memory;
mod model;
mod open;
mod program_sandbox;
mod rule_files;
mod rules;
mod sandbox;
mod system;
mod toolbox;
pub mod undo;
mod versions;

pub use expand::Expander;
pub use launch::{Answers, Launch, LaunchOptions, Recording, SessionChoice};
pub use open::OpenSession;
pub use parallax_config::OutputFormat;
pub use parallax_engine::EventReader;
pub use parallax_exec::program_sandbox::ProgramSandbox;
use parallax_protocol::op::Op;
pub use parallax_store::{Origin, SessionEntry};
pub use program_sandbox::Enclosure;

/// Sends orders to the session. Bounded: a face that floods waits.
pub type OpSender = tokio::sync::mpsc::Sender<Op>;
