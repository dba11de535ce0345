//! The first argument with which the program starts itself again.

pub(crate) const SUPERVISOR: &str = "__sandbox";
pub(crate) const INSIDE: &str = "__sandbox-inside";
pub(crate) const SESSION_NAMESPACES: &str = "__sandbox-namespaces";
pub(crate) const PROBE: &str = "__sandbox-probe";
