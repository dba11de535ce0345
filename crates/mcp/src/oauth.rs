//! Sign-in to servers: stored tokens, their renewal, and the browser flow.

mod bearer;
mod callback;
mod challenge;
mod exchange;
mod flow;
mod store;

pub(crate) use bearer::{BearerTokens, manager, stored_manager};
pub use flow::{SignInUi, sign_in};
pub(crate) use store::BoxedResult;
pub use store::TokenFiles;
