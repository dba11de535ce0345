//! Outgoing HTTP: the only HTTP client of the program, and the check that keeps fetches away from
//! private addresses.
//!
//! Every client comes from [`client`] or [`guarded_client`], so TLS, proxies, roots, and redirects
//! are configured in one place. This crate is independent of any service: keys, retries, and
//! formats belong to its callers.

pub mod address;
mod client;
mod client_options;
mod event_parser;
mod failure;
mod guard;
mod proxy;
mod rs256;

pub use client::{HttpError, client, error_chain, extra_roots_from_env, unusable_roots};
pub use client_options::{ClientOptions, Redirects};
pub use event_parser::{EventParser, EventTooLarge, ServerEvent};
pub use failure::{Failure, FailureKind};
pub use guard::{GuardedClient, blocked_address_error, guarded_client, is_private_host};
pub use proxy::{invalid_proxies, proxy_of};
pub use reqwest;
pub use rs256::sign_rs256;
pub use url;
