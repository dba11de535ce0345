//! Development only: a scripted model server that checks what it is asked, a server with
//! prepared answers, a temporary home, stores of secrets, scenario folders, a terminal, and a stopwatch for children.
//!
//! Nothing here ships; crates use it as a dev-dependency.

pub mod canned;
pub mod check;
#[cfg(unix)]
pub mod companion;
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
pub mod scenario;
pub mod script;
pub mod server;
mod wire;

pub use home::{API_KEY, TestHome};
pub use script::{Method, Script, ScriptError};
pub use server::{ModelServer, Options, Recorded};
pub use wire::WireFormat;
