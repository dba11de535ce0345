//! Test support: a scripted model server that validates requests, a server with prepared responses,
//! temporary home directories, fake keychains, scenarios, a terminal emulator, a gallery of scenes in
//! it, and measurements of child processes.
//!
//! Nothing here ships; other crates use it as a dev-dependency.

pub mod canned;
pub mod check;
#[cfg(unix)]
pub mod companion;
#[cfg(unix)]
pub mod gallery;
mod home;
mod http;
#[cfg(unix)]
pub mod keychain;
#[cfg(unix)]
pub mod measure;
pub mod otlp;
#[cfg(unix)]
pub mod pty;
#[cfg(unix)]
mod recorded;
pub mod scenario;
pub mod script;
pub mod server;
mod wire;

pub use home::{API_KEY, TestHome};
pub use recorded::RecordedRequest;
pub use script::{Method, Script, ScriptError};
pub use server::{ModelServer, Options};
pub use wire::WireFormat;
