//! Everything a user writes: environment and `.env`, homes, trust, settings in
//! their layers, memory files.
//!
//! Not here: what may happen (`policy`), writing state such as sessions and
//! trust (`store`), command-line arguments (the binary), the folder tree
//! (`files`).

mod dotenv;
mod environment;
mod error;
mod expand;
mod homes;
mod jsonc;
mod keys;
mod layers;
mod load;
mod memory;
mod merge;
mod migrate;
mod read;
mod session_context;
mod settings;
mod trust;

pub use environment::Environment;
pub use error::ConfigError;
pub use homes::Homes;
pub use keys::{KEYS, Key, Kind};
pub use layers::{Layer, Origin};
pub use load::{Config, LoadOptions, load};
pub use memory::{ImportFormat, Memory, MemoryFile, MemoryOptions, load_memory};
pub use session_context::{SessionContext, session_context};
pub use settings::{EnvironmentRedaction, OutputFormat, SessionRetention, Settings, Shell};
pub use trust::{Trust, TrustReason};
