//! The model catalog: names, aliases, limits, prices, routes, and fallback chains, for every
//! provider. It sends no requests and contains no wire format.
//!
//! [`ModelTable`] is the built-in table extended by `modelConfigs` from the settings.

mod catalog;
mod discovered;
mod fallback_chains;
mod families;
mod listed_models;
mod model_capabilities;
mod prices;
mod provider_models;
mod providers;
mod quirks;
mod routes;
mod settings;
mod table;
mod utility_requests;

pub use discovered::{DiscoveredModel, DiscoveredModels, ReadDiscovered};
pub use families::{Family, Thinking};
pub use model_capabilities::{ModelCapabilities, ThinkingControl, supports_minimal};
pub use providers::{
    Provider, ProviderError, ProviderModel, Providers, WireKind, hosted_providers,
};
pub use quirks::{MaxTokensField, Quirks, ReasoningField};
pub use settings::{ModelConfigError, merge};
pub use table::{ModelChoice, ModelTable, add_sampling};
pub use utility_requests::is_utility;
